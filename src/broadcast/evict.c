/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes copies that were staged: ckpt_evict_staged(). All folders are looked at first; then the copies go, oldest first, and
 * each is looked at once more before it goes.
 *
 * What must stay true:
 *  - Only names that a note lists are unlinked, and only files that are what the note says. Every name is opened from the
 *    descriptor of its folder, without following links: somebody else may write to the folder meanwhile.
 *  - A note counts only for what belongs to its own owner. In /dev/shm anybody may write one for anybody's file.
 *  - A file or directory gets a temporary name before it is removed, and is removed only if that name leads to what was looked
 *    at: a broadcast may have put a new one there.
 */
#include "broadcast/staged_note.h"

#include "base/c_locale.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/grow.h"
#include "base/sized.h"
#include "io/temp.h"
#include "io/tree.h"
#include "io/users.h"

#include <ckpt/broadcast.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static const char END[] = ".ckpt-staged", IN_FOLDER[] = ".ckpt-staged", OF_SET[] = ".ckpt-staged-files";

struct copy {
	size_t folder; /* its number */
	char *name;    /* owned: in the folder, of a file or directory; "": several files, which go by their note */
	char *note;    /* owned: in the folder, or of a directory in that */
	bool is_directory;
	uint64_t nbytes;
	struct timespec used;
};

struct eviction {
	struct ckpt_evict_options o;
	struct ckpt_evict_report report;
	const char *const *folders;
	int *fds;	      /* owned: of FOLDERS */
	uint64_t *simulated;  /* owned: by folder, what a dry run has freed */
	size_t count;
	struct copy *copies; /* owned */
	uint32_t copy_count, cap;
	size_t folder; /* that is being looked at */
	struct timespec now;
	struct ckpt_error *err;
};

/* A copy that is open: what its note says, checked. */
struct view {
	int base; /* the folder that the names of the note are in */
	int note;
	struct stat note_st;
	struct ckpt_staged_files files;
	const char *alone; /* the name of the only file; NULL: the note has the names */
};

static void close_view(struct view *v)
{
	ckpt_staged_files_clear(&v->files);
	if (v->note >= 0)
		close(v->note);
	if (v->base >= 0)
		close(v->base);
}

static const char *name_in(const struct view *v, size_t file)
{
	return v->alone ? v->alone : v->files.files[file].name;
}

/*
 * The folder of NAME below BASE, and in *LEAF what it is called there. -1 with errno: there is none, one of them is a link, or
 * the name leads elsewhere.
 */
static int open_parent(int base, const char *name, const char **leaf)
{
	int folder = fcntl(base, F_DUPFD_CLOEXEC, 0);

	for (*leaf = name; folder >= 0; ) {
		size_t len = strcspn(*leaf, "/");
		char part[256];
		int next;

		if (!len || len >= sizeof(part) || (len <= 2 && !strncmp(*leaf, "..", len))) {
			close(folder);
			errno = EINVAL;
			return -1;
		}
		if (!(*leaf)[len])
			break;
		memcpy(part, *leaf, len);
		part[len] = '\0';
		next = openat(folder, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(folder);
		folder = next;
		*leaf += len + 1;
	}
	return folder;
}

static bool is_newer(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

/* Is it what FILE says, and of the note's owner? */
static bool is_as_noted(const struct stat *st, const struct ckpt_staged_file *file, const struct stat *note)
{
	return S_ISREG(st->st_mode) && (uint64_t)st->st_size == file->size && st->st_ino == file->ino &&
	       st->st_mtim.tv_sec == file->mtime_sec && (uint64_t)st->st_mtim.tv_nsec == file->mtime_nsec &&
	       st->st_uid == note->st_uid;
}

static int count_entry(void *ctx, const struct ckpt_tree_entry *entry)
{
	if (!S_ISDIR(entry->st.st_mode) || !entry->children)
		++*(uint64_t *)ctx;
	return 0;
}

/* Has the directory nothing but the files of the note, and the note? */
static bool has_no_more(const struct view *v)
{
	uint64_t entries = 0;
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", v->base);
	return ckpt_tree_walk(path, count_entry, &entries, NULL) == 0 && entries == v->files.count + 1;
}

/*
 * 1: the copy is what its note says, and C has what it takes and when it was used. 0: it is not; V is closed. -1: no memory.
 * Of more than one path to a file each counts: what is removed is freed with the last.
 */
static int open_view(const struct eviction *e, struct copy *c, struct view *v)
{
	int folder = e->fds[c->folder], rc = 0;

	*v = (struct view){ .base = -1, .note = -1, .alone = !c->is_directory && *c->name ? c->name : NULL };
	v->base = c->is_directory ? openat(folder, c->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) :
				    fcntl(folder, F_DUPFD_CLOEXEC, 0);
	v->note = v->base < 0 ? -1 : openat(v->base, c->note, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (v->note >= 0 && fstat(v->note, &v->note_st) == 0 && S_ISREG(v->note_st.st_mode) &&
	    (v->note_st.st_uid == geteuid() || geteuid() == 0))
		rc = ckpt_staged_files_read(v->note, (uint64_t)v->note_st.st_size, &v->files);
	if (rc > 0 && v->alone && v->files.count != 1)
		rc = 0;
	c->nbytes = 0;
	c->used = v->note_st.st_mtim;
	for (size_t i = 0; rc > 0 && i < v->files.count; i++) {
		const char *leaf;
		struct stat st;
		int parent = open_parent(v->base, name_in(v, i), &leaf);

		if (parent < 0 || fstatat(parent, leaf, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !is_as_noted(&st, &v->files.files[i], &v->note_st))
			rc = 0;
		if (parent >= 0)
			close(parent);
		if (!rc)
			break;
		if (__builtin_add_overflow(c->nbytes, (uint64_t)st.st_blocks * 512, &c->nbytes))
			c->nbytes = UINT64_MAX;
		c->used = is_newer(st.st_mtim, c->used) ? st.st_mtim : c->used;
		c->used = is_newer(st.st_atim, c->used) ? st.st_atim : c->used;
	}
	if (rc > 0 && c->is_directory) {
		struct stat st;

		if (fstat(v->base, &st) < 0 || st.st_uid != v->note_st.st_uid || !has_no_more(v))
			rc = 0;
	}
	if (rc <= 0)
		close_view(v);
	return rc;
}

/* ---- what is said ---- */

static void tell(struct eviction *e, size_t folder, const char *name, struct ckpt_evicted said)
{
	char path[8192];
	size_t len = strlen(e->folders[folder]);
	bool slash = len && e->folders[folder][len - 1] != '/';

	switch (said.what) {
	case CKPT_EVICT_REMOVED: e->report.copies++; break;
	case CKPT_EVICT_LEFT_OVER: e->report.left_overs++; break;
	case CKPT_EVICT_IN_USE: e->report.in_use++; break;
	case CKPT_EVICT_CHANGED: e->report.changed++; break;
	case CKPT_EVICT_FAILED: e->report.failed++; break;
	}
	if ((said.what == CKPT_EVICT_REMOVED || said.what == CKPT_EVICT_LEFT_OVER) &&
	    __builtin_add_overflow(e->report.nbytes, said.nbytes, &e->report.nbytes))
		e->report.nbytes = UINT64_MAX;
	said.size = sizeof(said);
	said.path = path;
	snprintf(path, sizeof(path), "%s%s%s", e->folders[folder], *name && slash ? "/" : "", name);
	if (e->o.each)
		e->o.each(e->o.ctx, &said);
}

static void tell_copy(struct eviction *e, const struct copy *c, enum ckpt_evict_what what, int process)
{
	int error = what == CKPT_EVICT_FAILED ? errno : 0;

	tell(e, c->folder, *c->name ? c->name : c->note, (struct ckpt_evicted){ .nbytes = what == CKPT_EVICT_CHANGED ? 0 : c->nbytes,
			.used_sec = what == CKPT_EVICT_CHANGED ? 0 : c->used.tv_sec, .what = what, .process = process, .error = error });
}

/* ---- what there is ---- */

/* NAME, of a file, from its note's; false: it is no note. */
static bool name_of_note(const char *note, char *out, size_t size)
{
	size_t len = strlen(note), end = sizeof(END) - 1;

	if (*note != '.' || len < end + 2 || len - end >= size || strcmp(note + len - end, END) != 0)
		return false;
	memcpy(out, note + 1, len - end - 1);
	out[len - end - 1] = '\0';
	return true;
}

static int add_copy(struct eviction *e, const char *name, const char *note, bool is_directory)
{
	struct copy *c;
	struct view v;
	int rc;

	c = ckpt_grow(e->copies, e->copy_count, &e->cap, sizeof(*c));
	if (!c)
		return ckpt_fail_nomem(e->err);
	e->copies = c;
	c += e->copy_count;
	*c = (struct copy){ .folder = e->folder, .name = strdup(name), .note = strdup(note), .is_directory = is_directory };
	rc = c->name && c->note ? open_view(e, c, &v) : -1;
	if (rc > 0) {
		close_view(&v);
		e->copy_count++;
		return 0;
	}
	if (rc == 0)
		tell_copy(e, c, CKPT_EVICT_CHANGED, 0);
	free(c->name);
	free(c->note);
	return rc < 0 ? ckpt_fail_nomem(e->err) : 0;
}

/* An entry of the folder FD: a note, or a directory with one in it? */
static int look_at_entry(struct eviction *e, int fd, const char *name)
{
	char of[256], inner[300];
	struct stat st;

	if (!strcmp(name, OF_SET))
		return add_copy(e, "", name, false);
	if (name_of_note(name, of, sizeof(of)))
		return fstatat(fd, of, &st, AT_SYMLINK_NOFOLLOW) == 0 ? add_copy(e, of, name, false) : 0;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
	    ckpt_glob_matches(CKPT_TEMP_PATTERN, name, 0))
		return 0;
	snprintf(inner, sizeof(inner), "%s/%s", name, IN_FOLDER);
	return fstatat(fd, inner, &st, AT_SYMLINK_NOFOLLOW) == 0 ? add_copy(e, name, IN_FOLDER, true) : 0;
}

/* A dry run has not freed them. */
static void simulate(struct eviction *e, size_t folder, uint64_t nbytes)
{
	if (e->o.flags & CKPT_EVICT_DRY_RUN && __builtin_add_overflow(e->simulated[folder], nbytes, &e->simulated[folder]))
		e->simulated[folder] = UINT64_MAX;
}

static void tell_left_over(void *ctx, const char *name, uint64_t nbytes)
{
	struct eviction *e = ctx;

	tell(e, e->folder, name, (struct ckpt_evicted){ .nbytes = nbytes, .what = CKPT_EVICT_LEFT_OVER });
	simulate(e, e->folder, nbytes);
}

static int look_at_folder(struct eviction *e, size_t number, struct ckpt_error *err)
{
	const char *path = e->folders[number];
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
	const struct dirent *entry;
	DIR *dir;

	e->fds[number] = fd;
	e->folder = number;
	if (fd < 0)
		return ckpt_error_at(err, ckpt_fail_errno(err, "cannot open the folder"), path, NULL, CKPT_NO_OFFSET);
	ckpt_temp_each_left_over(path, e->o.flags & CKPT_EVICT_DRY_RUN, tell_left_over, e);
	dir = opendir(path);
	if (!dir)
		return ckpt_error_at(err, ckpt_fail_errno(err, "cannot read the folder"), path, NULL, CKPT_NO_OFFSET);
	while (rc == 0 && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			rc = look_at_entry(e, fd, entry->d_name);
	closedir(dir);
	return rc;
}

/* One that cannot be read does not keep the others from being looked at. */
static int look_at_folders(struct eviction *e)
{
	struct ckpt_error unused = CKPT_ERROR_INIT;
	int unread = 0;

	for (size_t i = 0; i < e->count; i++) {
		int rc = look_at_folder(e, i, unread ? &unused : e->err);

		if (rc == CKPT_E_IO)
			unread = rc;
		else if (rc < 0)
			return rc;
	}
	return unread;
}

/* ---- removing ---- */

/* Somebody who has one of the files open or mapped; 0: nobody is seen. */
static int find_user(const struct view *v)
{
	int process = 0;

	for (size_t i = 0; !process && i < v->files.count; i++) {
		const char *leaf;
		int parent = open_parent(v->base, name_in(v, i), &leaf), fd;

		fd = parent < 0 ? -1 : openat(parent, leaf, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0) {
			process = ckpt_find_user(fd);
			close(fd);
		}
		if (parent >= 0)
			close(parent);
	}
	return process;
}

/*
 * Give NAME in FOLDER a temporary name, if it is the file or directory with the number INO. NULL with errno: it is another one
 * now, which keeps its name, or it cannot be renamed. To be freed.
 */
static char *move_away(int folder, const char *name, ino_t ino)
{
	char *temp = NULL;
	struct stat st;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return NULL;
	if (st.st_ino != ino) {
		errno = ESTALE;
		return NULL;
	}
	temp = ckpt_temp_name(".", name);
	if (temp && renameat2(folder, name, folder, temp, RENAME_NOREPLACE) < 0 &&
	    (errno != EINVAL || renameat(folder, name, folder, temp) < 0)) {
		int failure = errno;

		free(temp);
		errno = failure;
		return NULL;
	}
	if (!temp || (fstatat(folder, temp, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == ino))
		return temp;
	if (renameat2(folder, temp, folder, name, RENAME_NOREPLACE) < 0 && errno == EINVAL)
		renameat(folder, temp, folder, name);
	free(temp);
	errno = ESTALE; /* not before free() */
	return NULL;
}

static int remove_file(int base, const char *name, const struct ckpt_staged_file *file)
{
	const char *leaf;
	int parent = open_parent(base, name, &leaf), rc;
	char *temp = parent < 0 ? NULL : move_away(parent, leaf, (ino_t)file->ino);

	int failure;

	rc = temp ? unlinkat(parent, temp, 0) : -1;
	failure = errno;
	free(temp);
	if (parent >= 0)
		close(parent);
	errno = failure;
	return rc;
}

/* The folders around NAME that are empty now. */
static void remove_parents(int base, const char *name)
{
	char *path = strdup(name), *slash;

	while (path && (slash = strrchr(path, '/'))) {
		const char *leaf;
		int parent, rc;

		*slash = '\0';
		parent = open_parent(base, path, &leaf);
		rc = parent < 0 ? -1 : unlinkat(parent, leaf, AT_REMOVEDIR);
		if (parent >= 0)
			close(parent);
		if (rc < 0)
			break;
	}
	free(path);
}

/* -1 with the errno of the last that stays. */
static int remove_files(const struct view *v)
{
	int failure = 0;

	for (size_t i = 0; i < v->files.count; i++) {
		if (remove_file(v->base, name_in(v, i), &v->files.files[i]) < 0)
			failure = errno;
		else
			remove_parents(v->base, name_in(v, i));
	}
	errno = failure;
	return failure ? -1 : 0;
}

/* The note that was read, not one that a broadcast has written meanwhile. */
static int remove_note(const struct view *v, const char *name)
{
	struct stat st;

	if (fstatat(v->base, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_ino != v->note_st.st_ino)
		return 0;
	return unlinkat(v->base, name, 0);
}

/* From its new name on it is nobody's copy; should this process be killed, its mark says whose it was. */
static int remove_directory(int folder, const struct copy *c, const struct view *v)
{
	struct stat st;
	char *temp;
	int owner, rc, failure = EBUSY;

	if (fstat(v->base, &st) < 0 || faccessat(v->base, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return -1;
	temp = move_away(folder, c->name, st.st_ino);
	if (!temp)
		return -1;
	/* locked before it has the name, or a broadcast that looks for what is left over could take it */
	owner = openat(v->base, CKPT_TEMP_OWNER ".new", O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	if (owner >= 0) {
		ckpt_temp_lock(owner);
		renameat(v->base, CKPT_TEMP_OWNER ".new", v->base, CKPT_TEMP_OWNER);
	}
	rc = remove_files(v);
	if (rc == 0)
		remove_note(v, c->note);
	if (owner >= 0) {
		unlinkat(v->base, CKPT_TEMP_OWNER, 0);
		close(owner);
	}
	if (rc < 0)
		failure = errno;
	rc = unlinkat(folder, temp, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -1; /* not if anything in it stays */
	free(temp);
	errno = failure; /* for -1: a part of it stays, under that name */
	return rc;
}

static int remove_copy(const struct eviction *e, const struct copy *c, const struct view *v)
{
	if (c->is_directory)
		return remove_directory(e->fds[c->folder], c, v);
	return remove_files(v) < 0 ? -1 : remove_note(v, c->note);
}

static bool is_old_enough(const struct eviction *e, const struct copy *c)
{
	double age = (double)(e->now.tv_sec - c->used.tv_sec) + (double)(e->now.tv_nsec - c->used.tv_nsec) / 1e9;

	return e->o.older_than_s <= 0 || age >= e->o.older_than_s;
}

/* Is so much free on the file system of that folder as there is to be? */
static bool is_enough_free(const struct eviction *e, size_t folder)
{
	struct statvfs fs;
	struct stat here, there;
	uint64_t free_bytes;

	if (!e->o.keep_free || fstatvfs(e->fds[folder], &fs) < 0 || fstat(e->fds[folder], &here) < 0)
		return false;
	if (__builtin_mul_overflow((uint64_t)fs.f_bavail, (uint64_t)fs.f_frsize, &free_bytes))
		return true;
	for (size_t i = 0; i < e->count; i++)
		if (e->fds[i] >= 0 && fstat(e->fds[i], &there) == 0 && there.st_dev == here.st_dev &&
		    __builtin_add_overflow(free_bytes, e->simulated[i], &free_bytes))
			return true;
	return free_bytes >= e->o.keep_free;
}

static int evict_copy(struct eviction *e, struct copy *c)
{
	struct timespec used = c->used;
	struct view v;
	int rc, process;

	rc = open_view(e, c, &v);
	if (rc < 0)
		return ckpt_fail_nomem(e->err);
	if (rc == 0) {
		tell_copy(e, c, CKPT_EVICT_CHANGED, 0);
		return 0;
	}
	process = find_user(&v);
	if (process || is_newer(c->used, used) || (flock(v.note, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)) {
		tell_copy(e, c, CKPT_EVICT_IN_USE, process);
	} else if (e->o.flags & CKPT_EVICT_DRY_RUN) {
		simulate(e, c->folder, c->nbytes);
		tell_copy(e, c, CKPT_EVICT_REMOVED, 0);
	} else if (remove_copy(e, c, &v) == 0) {
		tell_copy(e, c, CKPT_EVICT_REMOVED, 0);
	} else { /* a broadcast has replaced it meanwhile, or is about to */
		tell_copy(e, c, errno == ESTALE || errno == ENOENT ? CKPT_EVICT_IN_USE : CKPT_EVICT_FAILED, 0);
	}
	close_view(&v);
	return 0;
}

static int by_use(const void *a, const void *b)
{
	const struct copy *x = a, *y = b;

	return is_newer(x->used, y->used) - is_newer(y->used, x->used);
}

static int evict_all(struct eviction *e)
{
	int unread = look_at_folders(e), rc = unread == CKPT_E_IO ? 0 : unread;

	if (rc == 0 && e->copy_count)
		qsort(e->copies, e->copy_count, sizeof(*e->copies), by_use);
	for (size_t i = 0; rc == 0 && i < e->copy_count; i++) {
		struct copy *c = &e->copies[i];

		if (ckpt_cancelled(e->o.cancel))
			return ckpt_fail(e->err, CKPT_E_CANCELLED, "interrupted");
		if (is_old_enough(e, c) && !is_enough_free(e, c->folder))
			rc = evict_copy(e, c);
	}
	return rc < 0 ? rc : unread;
}

int ckpt_evict_staged(const char *const *folders, size_t count, const struct ckpt_evict_options *options,
		      struct ckpt_evict_report *report, struct ckpt_error *err)
{
	struct eviction e = { .o = CKPT_EVICT_OPTIONS_INIT, .report = CKPT_EVICT_REPORT_INIT, .folders = folders,
			      .count = count, .err = err };
	int rc = ckpt_sized_take(&e.o, sizeof(e.o), options, err);

	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(*report), err);
	if (rc == 0)
		rc = ckpt_flags_check(e.o.flags, CKPT_EVICT_DRY_RUN, err);
	if (rc == 0)
		rc = ckpt_unused_check(&e.o.reserved, sizeof(e.o.reserved), err);
	if (rc == 0 && access("/proc/self/fd", X_OK) < 0)
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED, "there is no /proc here, which says what is open");
	if (rc < 0)
		return rc;
	clock_gettime(CLOCK_REALTIME, &e.now);
	e.fds = calloc(count + 1, sizeof(*e.fds));
	e.simulated = calloc(count + 1, sizeof(*e.simulated));
	for (size_t i = 0; e.fds && i < count; i++)
		e.fds[i] = -1;
	rc = e.fds && e.simulated ? evict_all(&e) : ckpt_fail_nomem(err);
	for (size_t i = 0; e.fds && i < count; i++)
		if (e.fds[i] >= 0)
			close(e.fds[i]);
	for (size_t i = 0; i < e.copy_count; i++) {
		free(e.copies[i].name);
		free(e.copies[i].note);
	}
	free(e.copies);
	free(e.fds);
	free(e.simulated);
	ckpt_sized_give(report, &e.report, sizeof(e.report));
	return rc;
}
