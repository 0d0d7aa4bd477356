/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of files that rank 0 makes from the disk and sends to the others, and places in the
 * stream that their bytes form.
 *
 * What must stay true: a list that comes from another rank is checked like a file of unknown
 * origin: no path may lead out of the destination, and no sum may overflow. The files of a
 * directory are sorted with its index last, so whoever sees the index sees the rest.
 */
#include "broadcast/manifest.h"

#include "base/grow.h"
#include "base/reader.h"
#include "base/text.h"
#include "io/source.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* CKM4: all that follows ends with the CRC-32 of what is before that */
enum { MAGIC = 0x344d4b43, MOST_FILES = 10000000, MOST_PATH = 4096, MOST_DEPTH = 64 };

void ckpt_manifest_clear(struct ckpt_manifest *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		free(m->files[i].path);
	free(m->files);
	*m = (struct ckpt_manifest){ 0 };
}

static int add_file(struct ckpt_manifest *m, const char *path, struct ckpt_manifest_file **out,
		    struct ckpt_error *err)
{
	struct ckpt_manifest_file *files;

	if (m->count == MOST_FILES)
		return ckpt_fail(err, CKPT_E_LIMIT, "more than %d files", MOST_FILES);
	files = ckpt_grow(m->files, m->count, &m->cap, sizeof(*files));
	if (!files)
		return ckpt_fail_nomem(err);
	m->files = files;
	*out = &files[m->count];
	**out = (struct ckpt_manifest_file){ .path = strdup(path) };
	if (!(*out)->path)
		return ckpt_fail_nomem(err);
	m->count++;
	return 0;
}

/* ---- from the disk ---- */

static int add_source(struct ckpt_manifest *m, const char *path, const char *name,
		      const struct stat *st, struct ckpt_error *err)
{
	struct ckpt_manifest_file *f = NULL;
	int rc;

	if (!S_ISREG(st->st_mode))
		return ckpt_error_at(err,
				     ckpt_fail(err, CKPT_E_UNSUPPORTED,
					       "is neither a file nor a directory of files"),
				     path, NULL, CKPT_NO_OFFSET);
	rc = add_file(m, name, &f, err);
	if (rc < 0)
		return rc;
	f->size = (uint64_t)st->st_size;
	f->mode = ckpt_mode_for_new(st);
	f->dev = st->st_dev;
	f->ino = st->st_ino;
	f->mtime_sec = st->st_mtim.tv_sec;
	f->mtime_nsec = (uint32_t)st->st_mtim.tv_nsec;
	f->ctime_sec = st->st_ctim.tv_sec;
	f->ctime_nsec = (uint32_t)st->st_ctim.tv_nsec;
	return 0;
}

/* nftw() hands its visitor no pointer of the caller's. */
static _Thread_local struct walk {
	struct ckpt_manifest *m;
	struct ckpt_error *err;
	size_t root_len;
	/* by depth: the bits of a mode that all folders from the root to there leave */
	unsigned enter[MOST_DEPTH];
	int rc;
} walk;

/*
 * Links to files are followed: what they lead to is what a reader of the directory would read. Those to folders are not: they may
 * lead to what is here already, or anywhere.
 */
static int add_visited(const char *path, const struct stat *st, int type, struct FTW *place)
{
	const char *name = path + walk.root_len + strspn(path + walk.root_len, "/");
	struct stat target;

	if (place->level >= MOST_DEPTH) {
		walk.rc = ckpt_error_at(walk.err,
					ckpt_fail(walk.err, CKPT_E_LIMIT,
						  "folders are nested deeper than %d", MOST_DEPTH),
					path, NULL, CKPT_NO_OFFSET);
		return walk.rc;
	}
	if (type == FTW_D) {
		unsigned mode = 0700 | (ckpt_mode_for_new(st) & 0111) * 7;

		walk.enter[place->level] =
			place->level ? walk.enter[place->level - 1] & mode : mode;
		return 0;
	}
	if (type == FTW_SL && stat(path, &target) < 0) {
		walk.rc = ckpt_error_at(walk.err, ckpt_fail_errno(walk.err, "is a link, and what it leads to cannot be looked at"), path, NULL,
					CKPT_NO_OFFSET);
		return walk.rc;
	}
	if (type == FTW_SL) {
		if (S_ISDIR(target.st_mode)) {
			if (!walk.m->left_out_count++)
				ckpt_escape(walk.m->left_out, sizeof(walk.m->left_out), name, strlen(name));
			return 0;
		}
		type = FTW_F;
		st = &target;
	}
	if (type == FTW_F) {
		walk.rc = add_source(walk.m, path, name, st, walk.err);
		if (walk.rc == 0)
			walk.m->files[walk.m->count - 1].mode &= walk.enter[place->level - 1];
	} else
		walk.rc = ckpt_error_at(walk.err,
					ckpt_fail(walk.err, CKPT_E_IO, "cannot look at the file"),
					path, NULL, CKPT_NO_OFFSET);
	return walk.rc;
}

static bool is_index(const struct ckpt_manifest_file *f)
{
	const char *slash = strrchr(f->path, '/'), *name = slash ? slash + 1 : f->path;
	size_t len = strlen(name);

	return !strcmp(name, ".metadata") || (len > 11 && !strcmp(name + len - 11, ".index.json"));
}

static int compare_paths_index_last(const void *a, const void *b)
{
	const struct ckpt_manifest_file *x = a, *y = b;

	if (is_index(x) != is_index(y))
		return is_index(x) - is_index(y);
	return strcmp(x->path, y->path);
}

static int add_directory(struct ckpt_manifest *m, const char *path, const struct stat *st,
			 struct ckpt_error *err)
{
	size_t len = strlen(path);
	struct stat self;
	char *root;

	while (len > 1 && path[len - 1] == '/') /* nftw() would drop it, too */
		len--;
	if (asprintf(&root, "%.*s/.", (int)len, path) < 0)
		return ckpt_fail_nomem(err);
	root[len] = '\0';
	if (lstat(root, &self) == 0 && S_ISLNK(self.st_mode)) { /* nftw() would look at the link itself */
		root[len] = '/';
		len += 2;
	}
	walk = (struct walk){ .m = m, .err = err, .root_len = len };
	m->is_directory = true;
	m->directory_mode = ckpt_mode_for_new(st);
	if (nftw(root, add_visited, MOST_DEPTH, FTW_PHYS) < 0 && walk.rc == 0)
		walk.rc = ckpt_error_at(err, ckpt_fail_errno(err, "cannot read the directory"),
					path, NULL, CKPT_NO_OFFSET);
	free(root);
	return walk.rc;
}

static int fail_absent(const char *path, struct ckpt_error *err)
{
	int rc;

	if (errno == ENOENT && strstr(path, "::"))
		rc = ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"is not a file: a file inside an archive cannot be broadcast on its own");
	else
		rc = ckpt_fail_errno(err, "cannot open");
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

static int add_argument(struct ckpt_manifest *m, const char *path, size_t count,
			struct ckpt_error *err)
{
	const char *slash = strrchr(path, '/');
	struct stat st;

	if (stat(path, &st) < 0)
		return fail_absent(path, err);
	if (!S_ISDIR(st.st_mode))
		return add_source(m, path, slash ? slash + 1 : path, &st, err);
	if (count == 1)
		return add_directory(m, path, &st, err);
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_ARG,
				       "is a directory, which has to be the only source"),
			     path, NULL, CKPT_NO_OFFSET);
}

static int set_starts(struct ckpt_manifest *m, struct ckpt_error *err)
{
	m->total = 0;
	for (uint32_t i = 0; i < m->count; i++) {
		m->files[i].start = m->total;
		if (__builtin_add_overflow(m->total, m->files[i].size, &m->total) ||
		    m->total > INT64_MAX)
			return ckpt_fail(err, CKPT_E_LIMIT, "the files are too large together");
	}
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* No two files may have one name, or the later one would take the place of the other. */
static int check_names(const struct ckpt_manifest *m, int status, struct ckpt_error *err)
{
	const char **names = malloc(m->count * sizeof(*names));
	char shown[120];
	int rc = 0;

	if (!names)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < m->count; i++)
		names[i] = m->files[i].path;
	qsort(names, m->count, sizeof(*names), compare_names);
	for (uint32_t i = 1; rc == 0 && i < m->count; i++)
		if (!strcmp(names[i - 1], names[i]))
			rc = ckpt_fail(err, status, "two sources have the name '%s'",
				       ckpt_escape(shown, sizeof(shown), names[i],
						   strlen(names[i])));
	free(names);
	return rc;
}

int ckpt_manifest_make(const char *const *sources, size_t count, struct ckpt_manifest *out,
		       struct ckpt_error *err)
{
	int rc = 0;

	*out = (struct ckpt_manifest){ 0 };
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = add_argument(out, sources[i], count, err);
	if (rc == 0 && !out->count)
		rc = ckpt_error_at(err, ckpt_fail(err, CKPT_E_UNSUPPORTED, "has no files in it"),
				   sources[0], NULL, CKPT_NO_OFFSET);
	if (rc == 0 && out->is_directory)
		qsort(out->files, out->count, sizeof(*out->files), compare_paths_index_last);
	if (rc == 0)
		rc = check_names(out, CKPT_E_ARG, err);
	if (rc == 0)
		rc = set_starts(out, err);
	if (rc < 0)
		ckpt_manifest_clear(out);
	return rc;
}

/*
 * Who writes to a file can put its mtime back, and tools that copy do; its ctime nobody sets. It is another one
 * also after a change of the mode or of a name, which cannot be told from that.
 */
int ckpt_manifest_check_unchanged(const struct ckpt_manifest_file *f, const char *path, struct ckpt_error *err)
{
	const char *what = "was changed during the broadcast";
	struct stat st;

	if (stat(path, &st) == 0 && (uint64_t)st.st_size == f->size && st.st_ino == f->ino &&
	    st.st_mtim.tv_sec == f->mtime_sec && (uint32_t)st.st_mtim.tv_nsec == f->mtime_nsec) {
		if (st.st_ctim.tv_sec == f->ctime_sec && (uint32_t)st.st_ctim.tv_nsec == f->ctime_nsec)
			return 0;
		what = "was changed during the broadcast: its mtime is the same, its ctime is not, so it was written to "
		       "and the mtime put back, or its mode, owner or a name changed";
	}
	return ckpt_error_at(err, ckpt_fail(err, CKPT_E_CHANGED, "%s", what), path, NULL, CKPT_NO_OFFSET);
}

/* ---- as bytes ---- */

int ckpt_manifest_write(const struct ckpt_manifest *m, struct ckpt_buf *out, struct ckpt_error *err)
{
	ckpt_buf_add_u32(out, MAGIC);
	ckpt_buf_add_u32(out, m->count);
	ckpt_buf_add_u8(out, m->is_directory);
	ckpt_buf_add_u32(out, m->directory_mode);
	for (uint32_t i = 0; i < m->count; i++) {
		const struct ckpt_manifest_file *f = &m->files[i];

		ckpt_buf_add_u64(out, f->size);
		ckpt_buf_add_u32(out, f->mode);
		ckpt_buf_add_u64(out, f->dev);
		ckpt_buf_add_u64(out, f->ino);
		ckpt_buf_add_u64(out, (uint64_t)f->mtime_sec);
		ckpt_buf_add_u32(out, f->mtime_nsec);
		ckpt_buf_add_u64(out, (uint64_t)f->ctime_sec);
		ckpt_buf_add_u32(out, f->ctime_nsec);
		ckpt_buf_add_u32(out, (uint32_t)strlen(f->path));
		ckpt_buf_add(out, f->path, strlen(f->path));
	}
	if (!out->bad)
		ckpt_buf_add_u32(out, libdeflate_crc32(0, out->data, out->len));
	return out->bad ? ckpt_fail_nomem(err) : 0;
}

/* Relative, and nowhere upwards. */
static bool stays_inside(const char *path)
{
	if (!*path || *path == '/')
		return false;
	for (const char *part = path; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (!*part || *part == '/' || !strcmp(part, ".") || !strncmp(part, "./", 2) ||
		    !strcmp(part, "..") || !strncmp(part, "../", 3))
			return false;
	}
	return true;
}

static int read_file(struct ckpt_reader *r, struct ckpt_manifest *m, struct ckpt_error *err)
{
	struct ckpt_manifest_file f = { 0 }, *added = NULL;
	char path[MOST_PATH + 1];
	const uint8_t *bytes;
	uint32_t len;
	int rc;

	f.size = ckpt_read_u64(r);
	f.mode = ckpt_read_u32(r) & 0777;
	f.dev = ckpt_read_u64(r);
	f.ino = ckpt_read_u64(r);
	f.mtime_sec = (int64_t)ckpt_read_u64(r);
	f.mtime_nsec = ckpt_read_u32(r);
	f.ctime_sec = (int64_t)ckpt_read_u64(r);
	f.ctime_nsec = ckpt_read_u32(r);
	len = ckpt_read_u32(r);
	bytes = len <= MOST_PATH ? ckpt_read_bytes(r, len) : NULL;
	if (!bytes)
		return ckpt_fail(err, CKPT_E_FORMAT, "the list of files is cut short");
	memcpy(path, bytes, len);
	path[len] = '\0';
	if (strlen(path) != len || !stays_inside(path))
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "the list of files leads out of the destination");
	rc = add_file(m, path, &added, err);
	if (rc == 0) {
		f.path = added->path;
		*added = f;
	}
	return rc;
}

int ckpt_manifest_read(const uint8_t *bytes, size_t len, struct ckpt_manifest *out,
		       struct ckpt_error *err)
{
	size_t body = len < 4 ? 0 : len - 4;
	struct ckpt_reader r = { .data = bytes, .len = body }, end = { .data = bytes, .len = len, .pos = body };
	uint32_t magic = ckpt_read_u32(&r), count = ckpt_read_u32(&r);
	int rc = 0;

	*out = (struct ckpt_manifest){ .is_directory = ckpt_read_u8(&r) };
	out->directory_mode = ckpt_read_u32(&r) & 0777;
	if (r.bad || magic != MAGIC || !count)
		rc = ckpt_fail(err, CKPT_E_FORMAT,
			       "rank 0 sent no list of files: another version?");
	else if (ckpt_read_u32(&end) != libdeflate_crc32(0, bytes, body))
		rc = ckpt_fail(err, CKPT_E_DAMAGED,
			       "the list of files that rank 0 sent does not have its checksum: it was changed on the way");
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		rc = read_file(&r, out, err);
	if (rc == 0)
		rc = check_names(out, CKPT_E_FORMAT, err);
	if (rc == 0)
		rc = set_starts(out, err);
	if (rc < 0)
		ckpt_manifest_clear(out);
	return rc;
}

/* ---- places ---- */

struct ckpt_manifest_piece ckpt_manifest_piece_at(const struct ckpt_manifest *m, uint64_t pos,
						  uint64_t end)
{
	uint32_t low = 0, high = m->count - 1; /* the last file that starts at or before POS */
	const struct ckpt_manifest_file *f;
	uint64_t left;

	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;

		if (m->files[middle].start <= pos)
			low = middle;
		else
			high = middle - 1;
	}
	f = &m->files[low];
	left = f->start + f->size - pos;
	return (struct ckpt_manifest_piece){ low, pos - f->start,
					     left < end - pos ? left : end - pos };
}
