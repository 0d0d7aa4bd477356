/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD: one thing goes wrong in this process, the $CKPT_FAULT_AT-th time (1) that it could. $CKPT_FAULT says what:
 *
 *   link        a file below $CKPT_FAULT_PATH cannot be given a name
 *   spoil       a file below it gets another byte than is written to it
 *   flip        another byte comes out of a socket than went in, of 4096 or more at a time
 *   hang-read, hang-write, hang-sync
 *               the call on a file below it does not come back, nor does any later one, as of a disk that is gone
 *   slow-write  a write to a file below it takes $CKPT_FAULT_AT milliseconds
 *   ucx-abort   UCX ends the process, as where an assertion of it fails
 */
#undef _FILE_OFFSET_BITS
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LEAST_FLIPPED = 4096 };

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static _Atomic long count;

static int is_wanted(const char *what)
{
	const char *fault = getenv("CKPT_FAULT");

	return fault && !strcmp(fault, what);
}

/* 0: not yet, 1: now, 2: it was before */
static int happens(void)
{
	const char *text = getenv("CKPT_FAULT_AT");
	long at = text ? atol(text) : 1, now = ++count;

	return now < at ? 0 : now == at ? 1 : 2;
}

static int is_below(const char *path)
{
	const char *folder = getenv("CKPT_FAULT_PATH");

	return folder && !strncmp(path, folder, strlen(folder));
}

static int is_file_below(int fd)
{
	char self[64], path[PATH_MAX];
	ssize_t len;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	len = readlink(self, path, sizeof(path) - 1);
	if (len < 0)
		return 0;
	path[len] = 0;
	return is_below(path);
}

static void hang(const char *what, int fd)
{
	if (is_wanted(what) && is_file_below(fd) && happens())
		for (;;)
			nanosleep(&(struct timespec){ 3600, 0 }, NULL);
}

int linkat(int old_dir, const char *old_path, int new_dir, const char *new_path, int flags)
{
	if (is_wanted("link") && is_below(new_path) && happens() == 1) {
		errno = EIO;
		return -1;
	}
	return REAL(linkat)(old_dir, old_path, new_dir, new_path, flags);
}

ssize_t recv(int fd, void *to, size_t len, int flags)
{
	ssize_t n = REAL(recv)(fd, to, len, flags);

	if (n >= LEAST_FLIPPED && is_wanted("flip") && happens() == 1)
		((unsigned char *)to)[n / 4 * 3] ^= 1;
	return n;
}

/* The changed byte is written after the others. */
static void spoil(int fd, const void *from, ssize_t n, off64_t off)
{
	unsigned char other;

	if (n <= 0 || !is_wanted("spoil") || !is_file_below(fd) || happens() != 1)
		return;
	other = *(const unsigned char *)from ^ 1;
	if (REAL(pwrite64)(fd, &other, 1, off) != 1)
		abort();
}

/* ckpt-ucx.so is loaded later, and where its libraries are seen by itself alone. */
unsigned ucp_worker_progress(void *worker)
{
	static unsigned (*real)(void *);

	if (!real)
		real = (unsigned (*)(void *))dlsym(dlopen("libucp.so.0", RTLD_NOLOAD | RTLD_LAZY), "ucp_worker_progress");
	if (is_wanted("ucx-abort") && happens() == 1)
		abort();
	return real(worker);
}

/* A disk that needs CKPT_FAULT_AT milliseconds for each write. */
static void dawdle(int fd)
{
	const char *text = getenv("CKPT_FAULT_AT");

	if (is_wanted("slow-write") && is_file_below(fd))
		nanosleep(&(struct timespec){ 0, (text ? atol(text) : 1) * 1000000 }, NULL);
}

ssize_t pwrite64(int fd, const void *from, size_t len, off64_t off)
{
	ssize_t n;

	hang("hang-write", fd);
	dawdle(fd);
	n = REAL(pwrite64)(fd, from, len, off);
	spoil(fd, from, n, off);
	return n;
}

ssize_t pwrite(int fd, const void *from, size_t len, off_t off)
{
	return pwrite64(fd, from, len, off);
}

ssize_t pread64(int fd, void *to, size_t len, off64_t off)
{
	hang("hang-read", fd);
	return REAL(pread64)(fd, to, len, off);
}

ssize_t pread(int fd, void *to, size_t len, off_t off)
{
	return pread64(fd, to, len, off);
}

int fsync(int fd)
{
	hang("hang-sync", fd);
	return REAL(fsync)(fd);
}

int fdatasync(int fd)
{
	hang("hang-sync", fd);
	return REAL(fdatasync)(fd);
}
