/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An existing file that is changed in place: written to, cut, given holes.
 *
 * What must stay true: it is the very file that was read, nobody else patches it meanwhile (flock), and
 * a file with several names, or behind a link, is touched only where the caller allows it. Nothing is
 * undone here: who writes chooses an order in which every moment is a whole file.
 */
#include "io/patch.h"

#include "io/fault.h"
#include "io/users.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HOLE_UNIT = 4096 };

struct ckpt_patch {
	int fd;
	const char *path; /* the source's */
};

static int at_path(struct ckpt_error *err, int rc, const char *path)
{
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

static int check_names(const char *path, int fd, unsigned flags, struct ckpt_error *err)
{
	struct stat link, st;

	if (flags & CKPT_PATCH_ANY_NAMES)
		return 0;
	if (lstat(path, &link) < 0 || fstat(fd, &st) < 0)
		return ckpt_fail_errno(err, "cannot look at the file");
	if (S_ISLNK(link.st_mode))
		return ckpt_fail(err, CKPT_E_OUTPUT,
				 "is a symbolic link: what it points to would be changed");
	if (st.st_nlink > 1)
		return ckpt_fail(err, CKPT_E_OUTPUT,
				 "has %lu names (hard links): all of them would be changed",
				 (unsigned long)st.st_nlink);
	return 0;
}

static int check_same(int fd, const struct ckpt_source *source, struct ckpt_error *err)
{
	struct stat st;
	dev_t dev;
	ino_t ino;

	if (fstat(fd, &st) < 0)
		return ckpt_fail_errno(err, "cannot look at the file");
	if (!ckpt_source_identity(source, &dev, &ino) || st.st_dev != dev || st.st_ino != ino)
		return ckpt_fail(err, CKPT_E_CHANGED,
				 "was replaced by another file while it was being read");
	return ckpt_source_check_unchanged(source, err);
}

int ckpt_patch_open(const char *path, const struct ckpt_source *source, unsigned flags,
		    struct ckpt_patch **out, struct ckpt_error *err)
{
	struct ckpt_patch *patch = calloc(1, sizeof(*patch));
	int rc = 0;

	*out = NULL;
	if (!patch)
		return ckpt_fail_nomem(err);
	patch->path = ckpt_source_path(source);
	patch->fd = open(path, O_RDWR | O_CLOEXEC);
	if (patch->fd < 0)
		rc = ckpt_fail_errno(err, "cannot open it for writing");
	else if (flock(patch->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		rc = ckpt_fail(err, CKPT_E_CHANGED, "somebody else is editing it right now");
	if (rc == 0)
		rc = check_same(patch->fd, source, err);
	if (rc == 0)
		rc = check_names(path, patch->fd, flags, err);
	if (rc < 0) {
		ckpt_patch_close(patch);
		return at_path(err, rc, path);
	}
	*out = patch;
	return 0;
}

int ckpt_patch_check(const struct ckpt_patch *patch, const char *path, struct ckpt_error *err)
{
	struct stat held, named;

	if (fstat(patch->fd, &held) == 0 && stat(path, &named) == 0 &&
	    held.st_dev == named.st_dev && held.st_ino == named.st_ino)
		return 0;
	return at_path(err,
		       ckpt_fail(err, CKPT_E_CHANGED,
				 "another file was put in its place meanwhile, which stays"),
		       path);
}

int ckpt_patch_check_one_name(const struct ckpt_patch *patch, const char *why, struct ckpt_error *err)
{
	struct stat st;

	if (fstat(patch->fd, &st) < 0 || st.st_nlink < 2)
		return 0;
	return at_path(err,
		       ckpt_fail(err, CKPT_E_OUTPUT, "has %lu names (hard links), and has to be written anew as %s: the others would keep the old file",
				 (unsigned long)st.st_nlink, why),
		       patch->path);
}

int ckpt_patch_write(struct ckpt_patch *patch, uint64_t off, const void *bytes, size_t len,
		     struct ckpt_error *err)
{
	const uint8_t *p = bytes;

	while (len) {
		ssize_t n = ckpt_io_pwrite(patch->fd, p, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = EIO; /* no call says why */
		if (n <= 0)
			return at_path(err, ckpt_fail_errno(err, "cannot write"), patch->path);
		p += n;
		off += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

int ckpt_patch_truncate(struct ckpt_patch *patch, uint64_t size, struct ckpt_error *err)
{
	if (ckpt_io_truncate(patch->fd, (off_t)size) < 0)
		return at_path(err, ckpt_fail_errno(err, "cannot cut the file"), patch->path);
	return 0;
}

/* A hole behind the end changes nothing. */
bool ckpt_patch_can_punch(struct ckpt_patch *patch)
{
	struct stat st;

	return fstat(patch->fd, &st) == 0 && ckpt_io_punch(patch->fd, (st.st_size / HOLE_UNIT + 1) * HOLE_UNIT, HOLE_UNIT) == 0;
}

int ckpt_patch_punch(struct ckpt_patch *patch, uint64_t off, uint64_t len, struct ckpt_error *err)
{
	uint64_t start = (off + HOLE_UNIT - 1) / HOLE_UNIT * HOLE_UNIT, end = (off + len) / HOLE_UNIT * HOLE_UNIT;

	if (start < end && ckpt_io_punch(patch->fd, (off_t)start, (off_t)(end - start)) < 0)
		return at_path(err, ckpt_fail_errno(err, "cannot give blocks back"), patch->path);
	return 0;
}

uint64_t ckpt_patch_nbytes_on_disk(const struct ckpt_patch *patch)
{
	struct stat st;

	return fstat(patch->fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

int ckpt_patch_check_unused(const struct ckpt_patch *patch, struct ckpt_error *err)
{
	int pid = ckpt_find_user(patch->fd);

	return pid ? at_path(err, ckpt_fail(err, CKPT_E_OUTPUT, "process %d has it open: bytes that it may have mapped would become zeros", pid), patch->path) : 0;
}

int ckpt_patch_sync(struct ckpt_patch *patch, struct ckpt_error *err)
{
	if (ckpt_io_sync(patch->fd) < 0)
		return at_path(err, ckpt_fail_errno(err, "cannot sync"), patch->path);
	return 0;
}

void ckpt_patch_close(struct ckpt_patch *patch)
{
	if (!patch)
		return;
	if (patch->fd >= 0)
		close(patch->fd);
	free(patch);
}
