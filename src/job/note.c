/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files with a header and a checksum, written under a hidden name and renamed. The format:
 * magic 8, version 4, rank 4, size 4, pid 4, nonce 8, host 64, boot id 40, number of the space of
 * pids 8, start of the process 8, length 4, bytes, CRC-32 of all before 4; little-endian, as ranks may run on different machines.
 *
 * What must stay true: a reader takes only files of the wanted user, opens no link and no device,
 * and never trusts a length that the file does not have. A file that disappears while it is read
 * is none (NONE), not an error: other nodes remove theirs at any time.
 */
#include "job/note.h"

#include "base/buf.h"
#include "base/reader.h"
#include "io/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = "ckptnote";

enum { VERSION = 2, AROUND = 160 };

/* FOLDER/NAME, or FOLDER/.NAME for a file that is being written. */
static int path_of(char *out, size_t size, const char *folder, const char *dot, const char *name)
{
	int n = snprintf(out, size, "%s/%s%s", folder, dot, name);

	if (n > 0 && (size_t)n < size)
		return 0;
	errno = ENAMETOOLONG;
	return -1;
}

static void encode_note(const struct ckpt_note *n, struct ckpt_buf *out)
{
	ckpt_buf_add(out, magic, sizeof(magic));
	ckpt_buf_add_u32(out, VERSION);
	ckpt_buf_add_u32(out, n->rank);
	ckpt_buf_add_u32(out, n->size);
	ckpt_buf_add_u32(out, n->pid);
	ckpt_buf_add_u64(out, n->nonce);
	ckpt_buf_add(out, n->host, sizeof(n->host));
	ckpt_buf_add(out, n->process.machine, sizeof(n->process.machine));
	ckpt_buf_add_u64(out, n->process.pid_space);
	ckpt_buf_add_u64(out, n->process.started);
	ckpt_buf_add_u32(out, (uint32_t)n->len);
	ckpt_buf_add(out, n->bytes, n->len);
	ckpt_buf_add_u32(out, libdeflate_crc32(0, out->data, out->len));
}

static int write_all(int fd, const struct ckpt_buf *b)
{
	for (size_t done = 0; done < b->len;) {
		ssize_t n = ckpt_io_pwrite(fd, b->data + done, b->len - done, (off_t)done);

		if (n < 0 && errno != EINTR)
			return -1;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int write_file(const char *path, const struct ckpt_buf *b)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc;

	if (fd < 0)
		return -1;
	rc = write_all(fd, b);
	if (rc < 0) {
		int saved = errno;

		close(fd);
		errno = saved;
		return rc;
	}
	return close(fd); /* NFS writes now */
}

int ckpt_note_write(const char *folder, const char *name, const struct ckpt_note *note,
		    struct ckpt_error *err)
{
	char path[PATH_MAX] = "", temporary[PATH_MAX] = "";
	struct ckpt_buf b = { 0 };
	int rc = path_of(path, sizeof(path), folder, "", name);

	encode_note(note, &b);
	if (b.bad) {
		ckpt_buf_clear(&b);
		return ckpt_fail_nomem(err);
	}
	if (rc == 0)
		rc = path_of(temporary, sizeof(temporary), folder, ".", name);
	if (rc == 0)
		rc = write_file(temporary, &b);
	if (rc == 0)
		rc = ckpt_io_rename(temporary, path, true);
	ckpt_buf_clear(&b);
	if (rc == 0)
		return 0;
	rc = ckpt_error_at(err, ckpt_fail_errno(err, "cannot write"), path, NULL, CKPT_NO_OFFSET);
	unlink(temporary);
	return rc;
}

static int decode_note(const uint8_t *bytes, size_t len, struct ckpt_note *out,
		       struct ckpt_error *err)
{
	struct ckpt_reader r = { bytes, len, 0, false };
	const uint8_t *p = ckpt_read_bytes(&r, sizeof(magic));
	uint32_t version = ckpt_read_u32(&r);

	*out = (struct ckpt_note){ .rank = ckpt_read_u32(&r) };
	out->size = ckpt_read_u32(&r);
	out->pid = ckpt_read_u32(&r);
	out->nonce = ckpt_read_u64(&r);
	memcpy(out->host, ckpt_read_bytes(&r, sizeof(out->host)), sizeof(out->host) - 1);
	memcpy(out->process.machine, ckpt_read_bytes(&r, sizeof(out->process.machine)),
	       sizeof(out->process.machine) - 1);
	out->process.pid_space = ckpt_read_u64(&r);
	out->process.started = ckpt_read_u64(&r);
	out->process.pid = out->pid;
	out->len = ckpt_read_u32(&r);
	if (memcmp(p, magic, sizeof(magic)) || version != VERSION || out->len != len - AROUND)
		return CKPT_NOTE_DAMAGED;
	p = ckpt_read_bytes(&r, out->len);
	if (libdeflate_crc32(0, bytes, len - 4) != ckpt_read_u32(&r))
		return CKPT_NOTE_DAMAGED;
	out->bytes = malloc(out->len + 1);
	if (!out->bytes)
		return ckpt_fail_nomem(err);
	memcpy(out->bytes, p, out->len);
	return CKPT_NOTE_WHOLE;
}

/* -1 with errno, or how much there was. */
static ssize_t read_all(int fd, uint8_t *out, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = ckpt_io_pread(fd, out + done, len - done, (off_t)done);

		if (n == 0)
			break;
		if (n < 0 && errno != EINTR)
			return -1;
		done += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)done;
}

/*
 * Opening asks the server: what is cached of a file on NFS may be a minute old. -1 if there is none
 * of UID.
 */
static int open_note(const char *folder, const char *name, uid_t uid, struct stat *st)
{
	char path[PATH_MAX];
	int fd;

	if (path_of(path, sizeof(path), folder, "", name) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode) && st->st_uid == uid)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

int ckpt_note_read(const char *folder, const char *name, uid_t uid, struct ckpt_note *out,
		   struct ckpt_error *err)
{
	struct stat st;
	int fd = open_note(folder, name, uid, &st), rc = CKPT_NOTE_DAMAGED;
	uint8_t *bytes = NULL;
	ssize_t n = 0;

	*out = (struct ckpt_note){ 0 };
	if (fd < 0)
		return CKPT_NOTE_NONE;
	if (st.st_size >= AROUND && st.st_size <= CKPT_MOST_NOTE) {
		bytes = malloc((size_t)st.st_size);
		n = bytes ? read_all(fd, bytes, (size_t)st.st_size) : 0;
		if (!bytes)
			rc = ckpt_fail_nomem(err);
		else if (n < 0 && errno == ESTALE) /* removed on another node */
			rc = CKPT_NOTE_NONE;
		else if (n < 0)
			rc = ckpt_error_at(err, ckpt_fail_errno(err, "cannot read '%s'", name),
					   folder, NULL, CKPT_NO_OFFSET);
		else if (n == st.st_size)
			rc = decode_note(bytes, (size_t)n, out, err);
	}
	free(bytes);
	close(fd);
	return rc;
}

void ckpt_note_clear(struct ckpt_note *note)
{
	free(note->bytes);
	note->bytes = NULL;
}

int64_t ckpt_note_mtime(const char *folder, const char *name, uid_t uid)
{
	struct stat st;
	int fd = open_note(folder, name, uid, &st);

	if (fd < 0)
		return -1;
	close(fd);
	return (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

void ckpt_note_touch(const char *folder, const char *name)
{
	char path[PATH_MAX];

	if (path_of(path, sizeof(path), folder, "", name) == 0)
		utimensat(AT_FDCWD, path, NULL, 0);
}
