/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The note that a broadcast leaves beside what it wrote, by which a later one knows the copy as
 * its own. Its lines have size, inode, mtime and ctime of each source, and inode and mtime of the copy: who wrote to a
 * source can have put its mtime back, but not its ctime.
 *
 * What must stay true: only what the note proves may be replaced or removed. A file that somebody
 * has changed since (another size, inode or mtime) is not ours any more; when in doubt the answer
 * is no.
 */
#include "broadcast/destination.h"
#include "broadcast/staged_note.h"
#include "io/sink.h"
#include "io/source.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of a directory the note lies in it, of a file beside it. Caller frees. */
static char *note_path(const struct ckpt_manifest *m, const char *path)
{
	const char *slash = strrchr(path, '/');
	char *note;
	int n;

	if (m->is_directory)
		n = asprintf(&note, "%s/.ckpt-staged", path);
	else if (m->count > 1)
		n = asprintf(&note, "%s/.ckpt-staged-files", path);
	else
		n = asprintf(&note, "%.*s.%s.ckpt-staged", slash ? (int)(slash - path + 1) : 0,
			     path, slash ? slash + 1 : path);
	return n < 0 ? NULL : note;
}

static bool is_in_manifest(const struct ckpt_manifest *m, const char *name)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (!strcmp(m->files[i].path, name))
			return true;
	return false;
}

/* Is the file still what was written? It would be deleted, not replaced. */
static bool is_as_written(const struct ckpt_staged_file *f, const char *path)
{
	struct stat st;
	char *file;
	int rc;

	if (asprintf(&file, "%s/%s", path, f->name) < 0)
		return false;
	rc = lstat(file, &st);
	free(file);
	return rc == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == f->size && st.st_ino == f->ino &&
	       st.st_mtim.tv_sec == f->mtime_sec && (uint64_t)st.st_mtim.tv_nsec == f->mtime_nsec;
}

static bool is_listed_in_note(const char *note, const char *path, const char *name)
{
	int fd = open(note, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct ckpt_staged_files files = { 0 };
	struct stat st;
	bool found = false;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ckpt_staged_files_read(fd, (uint64_t)st.st_size, &files) > 0)
		for (uint32_t i = 0; i < files.count && !found; i++)
			found = !strcmp(files.files[i].name, name) && is_as_written(&files.files[i], path);
	ckpt_staged_files_clear(&files);
	if (fd >= 0)
		close(fd);
	return found;
}

bool ckpt_staged_is_own(const void *manifest, const char *path, const char *name)
{
	const struct ckpt_manifest *m = manifest;
	char *note = note_path(m, path);
	bool own = note && access(note, F_OK) == 0 &&
		   (!strcmp(note + strlen(path) + 1, name) || is_in_manifest(m, name) ||
		    is_listed_in_note(note, path, name));

	free(note);
	return own;
}

/*
 * One line for each file: whose copy it is, and what the copy looks like. False: something is not
 * there.
 */
static bool describe_copies(const struct ckpt_manifest *m, const char *path, struct ckpt_buf *out)
{
	bool alone = !m->is_directory && m->count == 1;

	ckpt_buf_printf(out, CKPT_STAGED_FIRST_LINE);
	for (uint32_t i = 0; i < m->count; i++) {
		const struct ckpt_manifest_file *f = &m->files[i];
		struct stat st;
		char *file;
		int rc;

		if (asprintf(&file, "%s%s%s", path, alone ? "" : "/", alone ? "" : f->path) < 0)
			return false;
		rc = stat(file, &st);
		free(file);
		if (rc < 0 || (uint64_t)st.st_size != f->size)
			return false;
		ckpt_buf_printf(out,
				"%" PRIu64 " %" PRIu64 " %" PRIi64 ".%09" PRIu32 " %" PRIi64 ".%09" PRIu32
				" -> %" PRIu64 " %" PRIi64 ".%09ld ",
				f->size, f->ino, f->mtime_sec, f->mtime_nsec, f->ctime_sec, f->ctime_nsec,
				(uint64_t)st.st_ino, (int64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
		ckpt_staged_name_add(out, f->path);
		ckpt_buf_add_u8(out, '\n');
	}
	return !out->bad;
}

/* Does the file NOTE begin with WANT? */
static bool begins_with(const char *note, const struct ckpt_buf *want)
{
	struct ckpt_source *src;
	uint8_t *bytes = malloc(want->len + 1);
	bool same = false;

	if (bytes && ckpt_source_open(note, &src, NULL) == 0) {
		same = ckpt_source_size(src) >= want->len &&
		       ckpt_source_read(src, 0, bytes, want->len, NULL) == 0 &&
		       !memcmp(bytes, want->data, want->len);
		ckpt_source_unref(src);
	}
	free(bytes);
	return same;
}

static void add_crc(struct ckpt_buf *text, uint32_t crc)
{
	ckpt_buf_printf(text, "crc32 %08" PRIx32 "\n", crc);
}

bool ckpt_staged_is_same(const struct ckpt_manifest *m, const char *path, const uint32_t *crc)
{
	struct ckpt_buf want = { 0 };
	char *note = note_path(m, path);
	bool same = note && describe_copies(m, path, &want);

	if (crc)
		add_crc(&want, *crc);
	same = same && !want.bad && begins_with(note, &want);
	ckpt_buf_clear(&want);
	free(note);
	return same;
}

int ckpt_staged_note(const struct ckpt_manifest *m, const char *path, const uint32_t *crcs,
		     struct ckpt_error *err)
{
	struct ckpt_sink *sink;
	struct ckpt_buf text = { 0 };
	char *note = note_path(m, path);
	int rc = note && describe_copies(m, path, &text) ? 0 : CKPT_E_IO;
	unsigned mode = 0666;

	for (uint32_t i = 0; i < m->count; i++)
		mode &= m->files[i].mode;
	for (uint32_t i = 0; crcs && i < m->count; i++)
		add_crc(&text, crcs[i]);
	if (rc < 0 || text.bad)
		rc = ckpt_fail(err, CKPT_E_IO, "what was written is not there any more");
	if (rc == 0)
		rc = ckpt_sink_open(note, 0, 0, CKPT_SINK_REPLACE | CKPT_SINK_NO_SYNC, mode, &sink,
				    err);
	if (rc == 0) {
		rc = ckpt_sink_write(sink, 0, text.data, text.len, err);
		if (rc == 0)
			rc = ckpt_sink_commit(sink, err);
		else
			ckpt_sink_discard(sink);
	}
	ckpt_buf_clear(&text);
	free(note);
	return rc;
}

static bool tighten(const char *path, mode_t most)
{
	struct stat st;

	return stat(path, &st) == 0 && (!(st.st_mode & 0777 & ~most) || chmod(path, st.st_mode & (most | 07000)) == 0);
}

bool ckpt_staged_tighten(const struct ckpt_manifest *m, const char *path)
{
	bool alone = !m->is_directory && m->count == 1, done = !m->is_directory || tighten(path, m->directory_mode | 0700);

	for (uint32_t i = 0; done && i < m->count; i++) {
		char *file;

		if (asprintf(&file, "%s%s%s", path, alone ? "" : "/", alone ? "" : m->files[i].path) < 0)
			return false;
		done = tighten(file, m->files[i].mode);
		free(file);
	}
	return done;
}

void ckpt_staged_touch(const struct ckpt_manifest *m, const char *path)
{
	char *note = note_path(m, path);

	if (note)
		utimensat(AT_FDCWD, note, NULL, AT_SYMLINK_NOFOLLOW);
	free(note);
}

void ckpt_staged_forget(const struct ckpt_manifest *m, const char *path)
{
	char *note = m->is_directory ? NULL : note_path(m, path); /* a directory takes it along */

	if (note)
		unlink(note);
	free(note);
}
