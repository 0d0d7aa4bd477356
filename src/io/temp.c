/* SPDX-License-Identifier: Apache-2.0 */
#include "io/temp.h"

#include "io/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The process id would not do: in a container it is the same at each start. */
char *ckpt_temp_name(const char *dir, const char *path)
{
	static _Atomic uint32_t counter;
	const char *slash = strrchr(path, '/');
	struct timespec now = { 0 };
	uint32_t random;
	char *name;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
		clock_gettime(CLOCK_REALTIME, &now);
		random = (uint32_t)now.tv_nsec ^ (uint32_t)getpid() << 8;
	}
	if (asprintf(&name, "%s/.%.200s.%08" PRIx32 ".ckpt-tmp", dir, slash ? slash + 1 : path,
		     random + counter++) < 0)
		return NULL;
	return name;
}

int ckpt_temp_lock(int fd)
{
	struct stat st;

	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -1 : 0;
	return fstat(fd, &st) == 0 && st.st_nlink == 0 ? -1 : 0;
}

/* ".NAME.01234567.ckpt-tmp", where NAME is that of PATH; NULL: any. */
static bool is_temp_of(const char *name, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL, *end = strstr(name, ".ckpt-tmp");
	char front[256];
	int len;

	if (!path) /* two dots around NAME, and eight digits behind it */
		return *name == '.' && end && end - name > 10 && end[-9] == '.' && !end[9] && strspn(end - 8, "0123456789abcdef") == 8;
	len = snprintf(front, sizeof(front), ".%.200s.", slash ? slash + 1 : path);
	return len > 0 && !strncmp(name, front, (size_t)len) && strspn(name + len, "0123456789abcdef") == 8 &&
	       !strcmp(name + len + 8, ".ckpt-tmp");
}

/*
 * Lock what OWNER, below DIR, is: then its writer has ended. -1: it lives, or that cannot be told, or it is not
 * this user's; with ENOENT, it is not there. Who closes the result lets go of it.
 */
static int lock_left_over(int dir, const char *owner)
{
	int fd = openat(dir, owner, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st, now;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	    fstatat(dir, owner, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_ino == st.st_ino && now.st_dev == st.st_dev)
		return fd;
	close(fd);
	errno = EBUSY;
	return -1;
}

struct left_over {
	const char *path; /* of what they are; NULL: of anything */
	bool stays;	  /* it is only looked for */
	ckpt_temp_found *found;
	void *ctx;
};

static int add_blocks(void *ctx, const struct ckpt_tree_entry *entry)
{
	*(uint64_t *)ctx += (uint64_t)entry->st.st_blocks * 512;
	return 0;
}

static bool is_empty(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool empty = d != NULL;

	if (!d && fd >= 0)
		close(fd);
	while (empty && (entry = readdir(d)))
		empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
	if (d)
		closedir(d);
	return empty;
}

static void remove_if_left_over(int dir, const char *folder, const char *name, const struct left_over *l)
{
	char owner[NAME_MAX + sizeof(CKPT_TEMP_OWNER) + 2], path[PATH_MAX];
	uint64_t nbytes;
	struct stat st;
	int fd;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid != geteuid())
		return;
	nbytes = (uint64_t)st.st_blocks * 512;
	snprintf(owner, sizeof(owner), "%s%s", name, S_ISDIR(st.st_mode) ? "/" CKPT_TEMP_OWNER : "");
	fd = lock_left_over(dir, owner);
	if (fd < 0) {
		/* its writer ended before there was a mark, or makes it now, and then makes another folder */
		if (errno == ENOENT && S_ISDIR(st.st_mode) &&
		    (l->stays ? is_empty(dir, name) : unlinkat(dir, name, AT_REMOVEDIR) == 0) && l->found)
			l->found(l->ctx, name, nbytes);
		return;
	}
	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path)) {
		close(fd);
		return;
	}
	if (S_ISDIR(st.st_mode) && l->found)
		ckpt_tree_walk(path, add_blocks, &nbytes, NULL);
	if (l->stays || (S_ISDIR(st.st_mode) ? ckpt_tree_remove(path) : unlinkat(dir, name, 0)) == 0) {
		if (l->found)
			l->found(l->ctx, name, nbytes);
	}
	close(fd);
}

static void each_left_over(const char *dir, const struct left_over *l)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (is_temp_of(entry->d_name, l->path))
			remove_if_left_over(dirfd(d), dir, entry->d_name, l);
	if (d)
		closedir(d);
}

void ckpt_temp_remove_left_over(const char *dir, const char *path)
{
	each_left_over(dir, &(struct left_over){ .path = path });
}

void ckpt_temp_each_left_over(const char *dir, bool stays, ckpt_temp_found *found, void *ctx)
{
	each_left_over(dir, &(struct left_over){ .stays = stays, .found = found, .ctx = ctx });
}
