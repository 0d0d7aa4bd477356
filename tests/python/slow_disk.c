/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD: system calls on files below $SLOW_DISK do not return before they are let go, as on a
 * disk that is busy, and no signal ends them. A call is held for at most MOST_SECONDS.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_SECONDS = 5 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char held_name[32]; /* "": none */
static unsigned met;

/* Hold calls of NAME from now on, and let all others go. */
void slow_disk_hold(const char *name)
{
	pthread_mutex_lock(&lock);
	snprintf(held_name, sizeof(held_name), "%s", name);
	met = 0;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* How many calls have been held since. */
unsigned slow_disk_met(void)
{
	unsigned count;

	pthread_mutex_lock(&lock);
	count = met;
	pthread_mutex_unlock(&lock);
	return count;
}

static int is_below(const char *path)
{
	const char *folder = getenv("SLOW_DISK");

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

static void hold(const char *name, int fd, const char *path)
{
	int before = errno;
	struct timespec end;

	pthread_mutex_lock(&lock);
	if (!strcmp(held_name, name) && (path ? is_below(path) : is_file_below(fd))) {
		met++;
		clock_gettime(CLOCK_REALTIME, &end);
		end.tv_sec += MOST_SECONDS;
		while (!strcmp(held_name, name) && pthread_cond_timedwait(&changed, &lock, &end) == 0)
			;
	}
	pthread_mutex_unlock(&lock);
	errno = before;
}

#define CALL(type, name, parameters, arguments, fd, path) \
	type name parameters \
	{ \
		static type(*real) parameters; \
\
		if (!real) \
			*(void **)&real = dlsym(RTLD_NEXT, #name); \
		hold(#name, fd, path); \
		return real arguments; \
	}

CALL(ssize_t, pwrite64, (int fd, const void *buf, size_t len, off64_t off), (fd, buf, len, off), fd, NULL)
CALL(ssize_t, pread64, (int fd, void *buf, size_t len, off64_t off), (fd, buf, len, off), fd, NULL)
CALL(ssize_t, copy_file_range,
     (int in, off64_t *in_off, int out, off64_t *out_off, size_t len, unsigned flags),
     (in, in_off, out, out_off, len, flags), out, NULL)
CALL(int, fsync, (int fd), (fd), fd, NULL)
CALL(int, sync_file_range, (int fd, off64_t off, off64_t len, unsigned flags), (fd, off, len, flags), fd, NULL)
CALL(int, ftruncate64, (int fd, off64_t len), (fd, len), fd, NULL)
CALL(int, close, (int fd), (fd), fd, NULL)
CALL(int, unlinkat, (int fd, const char *name, int flags), (fd, name, flags), fd, NULL)
CALL(int, unlink, (const char *path), (path), -1, path)
