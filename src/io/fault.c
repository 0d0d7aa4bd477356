/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that touch files, each behind the hook of tests, and told to their log.
 *
 * What must stay true: nothing else in the library makes these calls, else no test can make them fail.
 */
#include "io/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STACK = 1 << 20 }; /* GPU libraries run on it, too */

static ckpt_io_hook *the_hook;
static void *the_ctx;
static ckpt_io_log *the_log;
static void *log_ctx;

void ckpt_io_set_hook(ckpt_io_hook *hook, void *ctx)
{
	the_hook = hook;
	the_ctx = ctx;
}

void ckpt_io_set_log(ckpt_io_log *log, void *ctx)
{
	the_log = log;
	log_ctx = ctx;
}

static void log_call(enum ckpt_io_op op, off_t off, const void *bytes, ssize_t len)
{
	if (the_log && len >= 0)
		the_log(log_ctx, op, (uint64_t)off, bytes, (size_t)len);
}

bool ckpt_io_fails(enum ckpt_io_op op)
{
	int code = the_hook ? the_hook(the_ctx, op) : 0;

	if (code)
		errno = code;
	return code != 0;
}

ssize_t ckpt_io_pread(int fd, void *buf, size_t len, off_t off)
{
	return ckpt_io_fails(CKPT_IO_READ) ? -1 : pread(fd, buf, len, off);
}

ssize_t ckpt_io_pwrite(int fd, const void *buf, size_t len, off_t off)
{
	ssize_t n = ckpt_io_fails(CKPT_IO_WRITE) ? -1 : pwrite(fd, buf, len, off);

	log_call(CKPT_IO_WRITE, off, buf, n);
	return n;
}

int ckpt_io_write_mapped(int fd, uint8_t *map, const void *bytes, size_t len, off_t off)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), first = (size_t)off / page * page;
	int rc = ckpt_io_fails(CKPT_IO_WRITE) ? -1 : fallocate(fd, FALLOC_FL_KEEP_SIZE, off, (off_t)len);

	if (rc < 0)
		return rc;
	memcpy(map + off, bytes, len);
	madvise(map + first, (size_t)off + len - first, MADV_DONTNEED);
	log_call(CKPT_IO_WRITE, off, bytes, (ssize_t)len);
	return 0;
}

ssize_t ckpt_io_copy_range(int in, off_t in_off, int out, off_t out_off, size_t len)
{
	return ckpt_io_fails(CKPT_IO_COPY) ? -1 : copy_file_range(in, &in_off, out, &out_off, len, 0);
}

int ckpt_io_clone(int in, int out)
{
	return ckpt_io_fails(CKPT_IO_CLONE) ? -1 : ioctl(out, FICLONE, in);
}

int ckpt_io_truncate(int fd, off_t size)
{
	int rc = ckpt_io_fails(CKPT_IO_TRUNCATE) ? -1 : ftruncate(fd, size);

	log_call(CKPT_IO_TRUNCATE, size, NULL, rc);
	return rc;
}

int ckpt_io_punch(int fd, off_t off, off_t len)
{
	int rc = ckpt_io_fails(CKPT_IO_PUNCH) ? -1 : fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, len);

	log_call(CKPT_IO_PUNCH, off, NULL, rc == 0 ? (ssize_t)len : -1);
	return rc;
}

int ckpt_io_reserve(int fd, off_t off, off_t len)
{
	return ckpt_io_fails(CKPT_IO_RESERVE) ? -1 : fallocate(fd, FALLOC_FL_KEEP_SIZE, off, len);
}

int ckpt_io_sync(int fd)
{
	int rc = ckpt_io_fails(CKPT_IO_SYNC) ? -1 : fsync(fd);

	log_call(CKPT_IO_SYNC, 0, NULL, rc);
	return rc;
}

int ckpt_io_sync_dir(int fd)
{
	return ckpt_io_fails(CKPT_IO_SYNC_DIR) ? -1 : fsync(fd);
}

int ckpt_io_linkat(int old_dir, const char *old_path, int new_dir, const char *new_path, int flags)
{
	return ckpt_io_fails(CKPT_IO_LINK) ? -1 : linkat(old_dir, old_path, new_dir, new_path, flags);
}

int ckpt_io_rename(const char *from, const char *to, bool replace)
{
	int rc;

	if (ckpt_io_fails(CKPT_IO_RENAME))
		return -1;
	if (replace)
		return rename(from, to);
	rc = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
	if (rc < 0 && (errno == EINVAL || errno == ENOSYS)) {
		/* file systems without the flag: link() never replaces a file either */
		rc = link(from, to);
		if (rc == 0)
			unlink(from);
	}
	return rc;
}

int ckpt_io_exchange(const char *a, const char *b)
{
	return ckpt_io_fails(CKPT_IO_RENAME) ? -1
					  : renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

int ckpt_io_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int code = ckpt_io_fails(CKPT_IO_THREAD) ? errno : pthread_attr_init(&attr);

	if (code)
		return code;
	pthread_attr_setstacksize(&attr, STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return code;
}
