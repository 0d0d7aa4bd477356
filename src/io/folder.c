/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder is made under a hidden name beside its final one (TEMP), and renamed when it is
 * complete. If one of the final name exists, the two exchange their names (RENAME_EXCHANGE), and
 * the old one is removed.
 *
 * What must stay true:
 *  - A folder is replaced only if ckpt_folder_own knows everything in it. That is checked before
 *    the work, before the exchange, and once more after it, as somebody may put a file there
 *    meanwhile; then the names are exchanged back. Nothing that is not ours is ever removed.
 *  - On commit all files are on the disk, then all folders in TEMP, then TEMP, before the
 *    rename; the parent folder after it.
 *  - MADE says that TEMP is ours to remove. It is cleared where TEMP no longer names the new
 *    folder or the checked old one.
 */
#include "io/folder.h"

#include "base/c_locale.h"
#include "base/paths.h"
#include "base/text.h"
#include "io/fault.h"
#include "io/naming.h"
#include "io/space.h"
#include "io/temp.h"
#include "io/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* OF_OTHERS: so often others may rename what has the final name while it is looked at. */
enum { MOST_UNSYNCED = 16, OF_OTHERS = 1000 };

struct ckpt_folder {
	char *path, *parent, *temp; /* owned; PARENT: the folder that PATH is in */
	struct ckpt_folder_own own;
	const struct ckpt_save_options *save; /* which may end it; NULL: none */
	unsigned flags;
	mode_t mode;
	bool made; /* TEMP exists, and is to be removed at the end */
	int owner; /* the locked file in it that says so to others, or -1 */
	struct ckpt_sink *unsynced[MOST_UNSYNCED]; /* a ring: NEXT is the oldest */
	unsigned next;
	pthread_mutex_t lock; /* for UNSYNCED and NEXT */
};

static char *without_end_slashes(const char *path)
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		len--;
	return strndup(path, len);
}

/* A killed run left it behind. */
static bool is_leftover(const char *name)
{
	return ckpt_glob_matches(CKPT_TEMP_PATTERN, name, 0);
}

/* The first entry by name that no output of this kind has. */
struct foreign {
	const struct ckpt_folder_own *own;
	const char *folder;
	char name[PATH_MAX]; /* "": none */
};

static int find_foreign(void *ctx, const struct ckpt_tree_entry *e)
{
	struct foreign *f = ctx;
	bool is_own;

	if (S_ISDIR(e->st.st_mode))
		is_own = e->children || f->own->is_own(f->own->ctx, f->folder, e->path);
	else
		is_own = (S_ISREG(e->st.st_mode) || S_ISLNK(e->st.st_mode)) &&
			 (is_leftover(e->name) || f->own->is_own(f->own->ctx, f->folder, e->path));
	if (!is_own && (!f->name[0] || strcmp(e->path, f->name) < 0))
		strcpy(f->name, e->path);
	return 0;
}

/* PATH: an existing folder, without slashes at its end. */
static int check_own(const struct ckpt_folder_own *own, const char *path, struct ckpt_error *err)
{
	struct foreign f = { .own = own, .folder = path };
	char shown[sizeof(err->text) / 2];
	int rc = ckpt_tree_walk(path, find_foreign, &f, err);

	if (rc < 0 || !f.name[0])
		return rc;
	return ckpt_fail(err, CKPT_E_OUTPUT,
			 "the output is a folder with '%s' in it, and one is replaced only if it holds "
			 "such a set and nothing else",
			 ckpt_escape(shown, sizeof(shown), f.name, strlen(f.name)));
}

/* After attempts of which the last was good. */
static void forget_failures(int rc, struct ckpt_error *err)
{
	if (rc == 0 && err)
		*err = (struct ckpt_error)CKPT_ERROR_INIT;
}

static bool is_still(const char *path, const struct stat *before)
{
	struct stat st;

	return lstat(path, &st) == 0 && st.st_dev == before->st_dev && st.st_ino == before->st_ino;
}

/* *ST: what has the final name; st_mode 0: nothing. */
static int check_target_once(const char *path, const char *parent, const struct ckpt_folder_own *own,
			     unsigned flags, struct stat *st, struct ckpt_error *err)
{
	*st = (struct stat){ 0 };
	if (!*path)
		return ckpt_fail(err, CKPT_E_OUTPUT, "the output has no name");
	if (lstat(path, st) < 0) {
		if (errno != ENOENT)
			return ckpt_fail_errno(err, "cannot look at the output");
		if (access(parent, W_OK | X_OK) < 0)
			return ckpt_fail_errno(err, "cannot create a folder in '%s'", parent);
		return 0;
	}
	if (!S_ISDIR(st->st_mode))
		return ckpt_fail(
			err, CKPT_E_OUTPUT,
			"the output exists and is no folder, wanted the name of a new one");
	if (!(flags & CKPT_FOLDER_REPLACE))
		return ckpt_fail(err, CKPT_E_EXISTS, "the output exists already");
	if (!own || !own->is_own)
		return ckpt_fail(
			err, CKPT_E_OUTPUT,
			"the output is a folder already, which may have other files in it: name "
			"a new one");
	return check_own(own, path, err);
}

/*
 * An error holds only for what still has the final name. Another broadcast or an eviction gives that to another folder, or
 * takes it away, between the lines above.
 */
static int check_target(const char *path, const char *parent, const struct ckpt_folder_own *own,
			unsigned flags, struct ckpt_error *err)
{
	struct stat st;
	int rc = 0;

	for (int i = 0; i < OF_OTHERS; i++) {
		rc = check_target_once(path, parent, own, flags, &st, err);
		if (rc == 0 || !st.st_mode || is_still(path, &st))
			break;
	}
	forget_failures(rc, err);
	return rc;
}

int ckpt_folder_check(const char *path, const struct ckpt_folder_own *own, unsigned flags,
		      struct ckpt_error *err)
{
	char *target = without_end_slashes(path),
	     *parent = target ? ckpt_path_parent(target) : NULL;
	int rc = parent ? check_target(target, parent, own, flags, err) : ckpt_fail_nomem(err);

	free(target);
	free(parent);
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

/* -1 with EEXIST: somebody removes it. Where there are no locks it has no mark. */
static int mark_own(struct ckpt_folder *f)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", f->temp, CKPT_TEMP_OWNER) >= (int)sizeof(path))
		return 0;
	f->owner = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	if (f->owner < 0 ? errno != ENOENT : ckpt_temp_lock(f->owner) == 0)
		return 0;
	if (f->owner >= 0)
		close(f->owner);
	f->owner = -1;
	f->made = false;
	errno = EEXIST;
	return -1;
}

/* It is to get its name, without the mark. */
static void unmark_own(struct ckpt_folder *f)
{
	char path[PATH_MAX];

	if (f->owner < 0)
		return;
	snprintf(path, sizeof(path), "%s/%s", f->temp, CKPT_TEMP_OWNER);
	unlink(path);
	close(f->owner);
	f->owner = -1;
}

/* Its owner can write to it until commit, whatever its mode is then. */
static int make_temp(struct ckpt_folder *f, struct ckpt_error *err)
{
	for (int i = 0; i < CKPT_TEMP_TRIES; i++) {
		f->temp = ckpt_temp_name(f->parent, f->path);
		if (!f->temp)
			return ckpt_fail_nomem(err);
		f->made = mkdir(f->temp, f->mode | S_IRWXU) == 0;
		if (f->made && mark_own(f) == 0)
			return 0;
		free(f->temp);
		f->temp = NULL;
		if (errno != EEXIST)
			break;
	}
	return ckpt_fail_errno(err, "cannot create a folder in '%s'", f->parent);
}

static int prepare_temp(struct ckpt_folder *f, uint64_t need, struct ckpt_error *err)
{
	struct statvfs fs;
	struct stat old;
	int rc = 0;

	if (statvfs(f->parent, &fs) == 0)
		rc = ckpt_space_check(&fs, need, f->parent, err);
	if (rc == 0)
		rc = make_temp(f, err);
	if (rc == 0 && lstat(f->path, &old) == 0 && chmod(f->temp, (old.st_mode & 0777) | S_IRWXU) < 0)
		rc = ckpt_fail_errno(err, "cannot set the mode of the new folder");
	return rc;
}

/* The final permissions: those of the old folder or of TEMP, within those that were asked for. */
static int set_mode(const struct ckpt_folder *f, struct ckpt_error *err)
{
	struct stat st;
	mode_t wanted;

	if (lstat(f->path, &st) == 0)
		wanted = st.st_mode & f->mode;
	else if (lstat(f->temp, &st) == 0)
		wanted = st.st_mode & f->mode;
	else
		return ckpt_fail_errno(err, "cannot look at the new folder");
	return chmod(f->temp, wanted) == 0
		       ? 0
		       : ckpt_fail_errno(err, "cannot set the mode of the new folder");
}

int ckpt_folder_open(const char *path, const struct ckpt_folder_own *own, uint64_t need,
		     unsigned flags, unsigned mode, struct ckpt_folder **out,
		     struct ckpt_error *err)
{
	struct ckpt_folder *f = calloc(1, sizeof(*f));
	int rc;

	*out = NULL;
	if (!f)
		return ckpt_fail_nomem(err);
	pthread_mutex_init(&f->lock, NULL);
	f->flags = flags;
	f->owner = -1;
	f->mode = mode & 0777;
	if (own)
		f->own = *own;
	f->path = without_end_slashes(path);
	f->parent = f->path ? ckpt_path_parent(f->path) : NULL;
	rc = f->parent ? check_target(f->path, f->parent, own, flags, err) : ckpt_fail_nomem(err);
	if (rc == 0)
		rc = prepare_temp(f, need, err);
	if (rc < 0)
		ckpt_folder_discard(f);
	else
		*out = f;
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

const char *ckpt_folder_path(const struct ckpt_folder *f)
{
	return f->path;
}

const char *ckpt_folder_temp_path(const struct ckpt_folder *f)
{
	return f->temp;
}

/* Sync the oldest file, and put FRESH in its place, which may be NULL. */
static int sync_oldest(struct ckpt_folder *f, struct ckpt_sink *fresh, struct ckpt_error *err)
{
	struct ckpt_sink *oldest;
	int rc;

	pthread_mutex_lock(&f->lock);
	oldest = f->unsynced[f->next];
	f->unsynced[f->next] = fresh;
	f->next = (f->next + 1) % MOST_UNSYNCED;
	pthread_mutex_unlock(&f->lock);
	rc = oldest ? ckpt_sink_sync(oldest, err) : 0;
	ckpt_sink_discard(oldest);
	return rc;
}

int ckpt_folder_end_file(struct ckpt_folder *f, struct ckpt_sink *sink, int rc,
			 struct ckpt_error *err)
{
	if (rc == 0 && !f) {
		rc = ckpt_sink_sync(sink, err);
		if (rc == 0)
			return ckpt_sink_commit(sink, err);
	}
	if (rc == 0)
		rc = ckpt_sink_name(sink, err);
	if (rc < 0 || f->flags & CKPT_FOLDER_NO_SYNC) {
		ckpt_sink_discard(sink);
		return rc;
	}
	ckpt_sink_start_sync(sink);
	return sync_oldest(f, sink, err);
}

static int open_folder(const char *path, int *out, struct ckpt_error *err)
{
	*out = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *out < 0 ? ckpt_fail_errno(err, "cannot open '%s' to sync it", path) : 0;
}

/* FD: that of PATH, which is closed. */
static int sync_opened(const char *path, int fd, struct ckpt_error *err)
{
	int rc = 0;

	if (ckpt_io_sync_dir(fd) < 0 && errno != EINVAL)
		rc = ckpt_fail_errno(err, "the folder '%s' cannot be synced", path);
	close(fd);
	return rc;
}

static int sync_folder(const char *path, struct ckpt_error *err)
{
	int fd, rc = open_folder(path, &fd, err);

	return rc < 0 ? rc : sync_opened(path, fd, err);
}

static int sync_entry(void *ctx, const struct ckpt_tree_entry *e)
{
	struct ckpt_error *err = ctx;
	int fd, rc = 0;

	if (!S_ISDIR(e->st.st_mode))
		return 0;
	fd = openat(e->folder, e->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return ckpt_fail_errno(err, "cannot open '%.200s' to sync it", e->path);
	if (ckpt_io_sync_dir(fd) < 0 && errno != EINVAL)
		rc = ckpt_fail_errno(err, "the folder '%.200s' cannot be synced", e->path);
	close(fd);
	return rc;
}

/* PATH and all folders below it. */
static int sync_folders(const char *path, struct ckpt_error *err)
{
	int rc = ckpt_tree_walk(path, sync_entry, err, err);

	return rc < 0 ? rc : sync_folder(path, err);
}

int ckpt_folder_sync(struct ckpt_folder *f, struct ckpt_error *err)
{
	int rc = 0;

	if (f->flags & CKPT_FOLDER_NO_SYNC)
		return 0;
	for (unsigned i = 0; rc == 0 && i < MOST_UNSYNCED; i++)
		rc = sync_oldest(f, NULL, err);
	return rc < 0 ? rc : sync_folders(f->temp, err);
}

/*
 * After the exchange the old folder has the temporary name, and is removed as such. If something
 * came into it meanwhile, it is exchanged back, or, where that fails, left alone under that
 * name.
 */
static int replace_old_folder(struct ckpt_folder *f, bool *is_gone, struct ckpt_error *err)
{
	int rc = check_target(f->path, f->parent, &f->own, f->flags, err);

	if (rc < 0)
		return rc;
	if (ckpt_io_exchange(f->temp, f->path) < 0) {
		*is_gone = errno == ENOENT;
		return ckpt_fail_errno(err, "cannot exchange the old folder for the new");
	}
	rc = check_own(&f->own, f->temp, err);
	if (rc < 0 && ckpt_io_exchange(f->temp, f->path) < 0) {
		f->made = false;
		return ckpt_fail(err, CKPT_E_OUTPUT,
				 "is written, but something came into the old folder meanwhile, "
				 "which is now '%s'",
				 f->temp);
	}
	return rc;
}

/* *IS_OTHER: the final name was taken or given away between two system calls, and nothing is done. */
static int give_name_once(struct ckpt_folder *f, bool *is_other, struct ckpt_error *err)
{
	struct stat st;

	*is_other = false;
	if (lstat(f->path, &st) == 0)
		return replace_old_folder(f, is_other, err);
	if (ckpt_io_rename(f->temp, f->path, false) < 0) {
		*is_other = errno == EEXIST && f->flags & CKPT_FOLDER_REPLACE;
		return errno == EEXIST
			       ? ckpt_fail(err, CKPT_E_EXISTS, "the output exists already")
			       : ckpt_fail_errno(err, "cannot rename the output to its final name");
	}
	f->made = false;
	return 0;
}

static int give_name(struct ckpt_folder *f, struct ckpt_error *err)
{
	bool is_other = true;
	int rc = 0;

	for (int i = 0; is_other && i < OF_OTHERS; i++)
		rc = give_name_once(f, &is_other, err);
	forget_failures(rc, err);
	return rc;
}

void ckpt_folder_set_save(struct ckpt_folder *f, const struct ckpt_save_options *o)
{
	f->save = o;
}

int ckpt_folder_commit(struct ckpt_folder *f, struct ckpt_error *err)
{
	int rc, parent = -1;

	unmark_own(f);
	rc = ckpt_folder_sync(f, err);
	if (rc == 0 && !(f->flags & CKPT_FOLDER_NO_SYNC)) /* before it has its name: there may be no descriptor left for it */
		rc = open_folder(f->parent, &parent, err);
	if (rc == 0)
		rc = set_mode(f, err);
	if (rc == 0)
		rc = ckpt_naming_begin(f->save, err);
	if (rc == 0) {
		rc = give_name(f, err);
		ckpt_naming_end(f->save);
	}
	if (rc == 0 && parent >= 0)
		rc = sync_opened(f->parent, parent, err);
	else if (parent >= 0)
		close(parent);
	rc = ckpt_error_at(err, rc, f->path, NULL, CKPT_NO_OFFSET);
	ckpt_folder_discard(f);
	return rc;
}

void ckpt_folder_discard(struct ckpt_folder *f)
{
	if (!f)
		return;
	for (unsigned i = 0; i < MOST_UNSYNCED; i++)
		ckpt_sink_discard(f->unsynced[i]);
	pthread_mutex_destroy(&f->lock);
	if (f->made && ckpt_tree_remove(f->temp) < 0 && f->owner >= 0) {
		close(f->owner); /* there may be no other descriptor to list it with */
		f->owner = -1;
		ckpt_tree_remove(f->temp);
	}
	if (f->owner >= 0)
		close(f->owner);
	free(f->path);
	free(f->parent);
	free(f->temp);
	free(f);
}
