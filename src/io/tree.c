/* SPDX-License-Identifier: Apache-2.0 */
#include "io/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_DEPTH = 200, ENTRIES = 2048 };

struct tree {
	ckpt_tree_visit *visit;
	void *ctx;
	struct ckpt_error *err;
	unsigned depth;
	size_t len; /* of PATH */
	char path[PATH_MAX];
};

static int walk_folder(struct tree *t, int folder, uint64_t *children);

static int walk_subfolder(struct tree *t, int folder, const char *name, uint64_t *children)
{
	int fd, rc;

	if (t->depth == MOST_DEPTH)
		return ckpt_fail(t->err, CKPT_E_LIMIT, "folders are nested deeper than %d",
				 MOST_DEPTH);
	fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return ckpt_fail_errno(t->err, "cannot open the folder '%.200s'", t->path);
	t->depth++;
	rc = walk_folder(t, fd, children);
	t->depth--;
	close(fd);
	return rc;
}

static int walk_entry(struct tree *t, int folder, const char *name)
{
	struct ckpt_tree_entry entry = { .folder = folder, .name = name, .path = t->path };
	size_t before = t->len, len = strlen(name);
	int rc = 0;

	if (before + len + 2 > sizeof(t->path))
		return ckpt_fail(t->err, CKPT_E_LIMIT, "a path in the folder is too long");
	if (before)
		t->path[t->len++] = '/';
	memcpy(t->path + t->len, name, len + 1);
	t->len += len;
	if (fstatat(folder, name, &entry.st, AT_SYMLINK_NOFOLLOW) < 0)
		rc = errno == ENOENT ? 0 : ckpt_fail_errno(t->err, "cannot look at '%.200s'", t->path);
	else if (S_ISDIR(entry.st.st_mode))
		rc = walk_subfolder(t, folder, name, &entry.children);
	if (rc == 0 && entry.st.st_mode)
		rc = t->visit(t->ctx, &entry);
	t->len = before;
	t->path[before] = '\0';
	return rc;
}

/* As the kernel gives it: <dirent.h> would allocate memory. */
struct raw_entry {
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

static int walk_folder(struct tree *t, int folder, uint64_t *children)
{
	char buf[ENTRIES] __attribute__((aligned(8)));
	long n;
	int rc = 0;

	*children = 0;
	while (rc == 0 && (n = syscall(SYS_getdents64, folder, buf, sizeof(buf))) != 0) {
		if (n < 0)
			return ckpt_fail_errno(t->err, "cannot read the folder '%.200s'", t->path);
		for (long at = 0; rc == 0 && at < n;) {
			const struct raw_entry *e = (const void *)(buf + at);

			at += e->len;
			if (!strcmp(e->name, ".") || !strcmp(e->name, ".."))
				continue;
			++*children;
			rc = walk_entry(t, folder, e->name);
		}
	}
	return rc;
}

int ckpt_tree_walk(const char *path, ckpt_tree_visit *visit, void *ctx, struct ckpt_error *err)
{
	struct tree t = { .visit = visit, .ctx = ctx, .err = err };
	uint64_t children;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

	if (fd < 0)
		return ckpt_fail_errno(err, "cannot open the folder");
	rc = walk_folder(&t, fd, &children);
	close(fd);
	return rc;
}

struct removal {
	uint64_t removed;
	int error;
};

static int remove_entry(void *ctx, const struct ckpt_tree_entry *entry)
{
	struct removal *r = ctx;

	if (unlinkat(entry->folder, entry->name, S_ISDIR(entry->st.st_mode) ? AT_REMOVEDIR : 0) == 0)
		r->removed++;
	else
		r->error = errno;
	return 0;
}

/* Some file systems skip entries while others are removed: repeat it as long as that helps. */
int ckpt_tree_remove(const char *path)
{
	struct removal r;
	int rc;

	do {
		r = (struct removal){ 0 };
		rc = ckpt_tree_walk(path, remove_entry, &r, NULL);
		if (rmdir(path) == 0)
			return 0;
	} while (rc == 0 && r.removed);
	if (r.error)
		errno = r.error;
	return -1;
}
