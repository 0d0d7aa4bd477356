/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of one file, slowed down to SLOW_RATE bytes a second for all processes together that have this library in LD_PRELOAD:
 * a source on a network that they share. SLOW_FILE is the file, SLOW_STATE a file of eight bytes that they have in common.
 * What is mapped is not slowed down.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t *next_free; /* nanoseconds of the monotonic clock; NULL: nothing is slow */
static struct stat slow;
static double rate;

__attribute__((constructor)) static void begin(void)
{
	const char *file = getenv("SLOW_FILE"), *state = getenv("SLOW_STATE"), *text = getenv("SLOW_RATE");
	int fd = state ? open(state, O_RDWR | O_CLOEXEC) : -1;
	void *map = fd < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	rate = text ? strtod(text, NULL) : 0;
	if (map != MAP_FAILED && rate > 0 && file && stat(file, &slow) == 0)
		next_free = map;
}

static ssize_t pay(int fd, ssize_t len)
{
	struct timespec now, until;
	uint64_t t, before, end;
	struct stat st;

	if (!next_free || len <= 0 || fstat(fd, &st) < 0 || st.st_ino != slow.st_ino || st.st_dev != slow.st_dev)
		return len;
	clock_gettime(CLOCK_MONOTONIC, &now);
	t = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	before = atomic_load(next_free);
	do
		end = (before > t ? before : t) + (uint64_t)((double)len / rate * 1e9);
	while (!atomic_compare_exchange_weak(next_free, &before, end));
	until = (struct timespec){ .tv_sec = (time_t)(end / 1000000000), .tv_nsec = (long)(end % 1000000000) };
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	return len;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t read(int fd, void *to, size_t len)
{
	return pay(fd, REAL(read)(fd, to, len));
}

ssize_t readv(int fd, const struct iovec *to, int count)
{
	return pay(fd, REAL(readv)(fd, to, count));
}

ssize_t pread(int fd, void *to, size_t len, off_t off)
{
	return pay(fd, REAL(pread)(fd, to, len, off));
}

ssize_t pread64(int fd, void *to, size_t len, off64_t off)
{
	return pay(fd, REAL(pread64)(fd, to, len, off));
}

ssize_t preadv(int fd, const struct iovec *to, int count, off_t off)
{
	return pay(fd, REAL(preadv)(fd, to, count, off));
}

ssize_t preadv64(int fd, const struct iovec *to, int count, off64_t off)
{
	return pay(fd, REAL(preadv64)(fd, to, count, off));
}
