/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that this rank writes. A single file is a sink, which has no name yet; a directory is
 * written under a hidden name, and its files are opened when their first bytes come and closed
 * behind their last.
 *
 * What must stay true: nothing gets its final name before ckpt_landing_commit(), when all ranks
 * have everything. The sinks belong to LOCK, since several threads write; every byte is written
 * once, because LEFT counts bytes and not which ones.
 */
#include "broadcast/landing.h"

#include "base/paths.h"
#include "broadcast/destination.h"
#include "io/folder.h"
#include "io/sink.h"
#include "io/temp.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ckpt_landing {
	const struct ckpt_manifest *m;
	char *path; /* owned */
	unsigned flags;
	struct ckpt_folder_own own;
	struct ckpt_folder
		*folder; /* of a directory; NULL: the files stand in PATH, or one is PATH */
	struct ckpt_sink **sinks; /* by file; NULL: not begun, or complete */
	uint64_t *left;		  /* by file: bytes to come */
	pthread_mutex_t lock;	  /* for SINKS and LEFT */
};

static unsigned sink_flags(const struct ckpt_landing *l)
{
	return (l->flags & CKPT_LANDING_REPLACE && !l->folder ? CKPT_SINK_REPLACE : 0u) |
	       (l->flags & CKPT_LANDING_NO_SYNC ? CKPT_SINK_NO_SYNC : 0u);
}

/* In the folder BASE, or BASE itself. Caller frees; NULL: no memory. */
static char *path_below(const struct ckpt_landing *l, const char *base, uint32_t file)
{
	char *path;

	if (!l->folder && l->m->count == 1)
		return strdup(l->path);
	if (asprintf(&path, "%s/%s", base, l->m->files[file].path) < 0)
		return NULL;
	return path;
}

/* The same: where it is written. */
static char *path_of(const struct ckpt_landing *l, uint32_t file)
{
	return path_below(l, l->folder ? ckpt_folder_temp_path(l->folder) : l->path, file);
}

/*
 * What a folder that is made with MODE may be used by, less what the umask takes away, which only a
 * folder shows.
 */
static int add_mode(char *path, mode_t old, mode_t mode)
{
	char *probe;
	struct stat st;
	int rc;

	if (asprintf(&probe, "%s.ckpt-mode", path) < 0)
		return -1;
	rc = mkdir(probe, mode) == 0 && stat(probe, &st) == 0
		     ? chmod(path, old | (st.st_mode & 0777))
		     : -1;
	rmdir(probe);
	free(probe);
	return rc;
}

/* For who may read the file, whose mode says already who may enter the folders around it. */
static int make_folder(char *path, mode_t file_mode)
{
	mode_t mode = 0700 | (file_mode & 0444) | (file_mode & 0444) >> 2;
	struct stat st;

	if (mkdir(path, mode) == 0)
		return 0;
	if (errno != EEXIST || stat(path, &st) < 0)
		return -1;
	return mode & ~st.st_mode & 0777 ? add_mode(path, st.st_mode & 0777, mode) : 0;
}

/* The folders around a file of a directory, below the one that is being made. */
static int make_folders(const struct ckpt_landing *l, char *path, unsigned mode,
			struct ckpt_error *err)
{
	char *slash = path + strlen(ckpt_folder_temp_path(l->folder));
	int rc = 0;

	while (rc == 0 && (slash = strchr(slash + 1, '/'))) {
		*slash = '\0';
		if (make_folder(path, mode) < 0)
			rc = ckpt_error_at(err, ckpt_fail_errno(err, "cannot create the folder"),
					   path, NULL, CKPT_NO_OFFSET);
		*slash = '/';
	}
	return rc;
}

/* To be called with the lock, or before there are threads. */
static int open_file(struct ckpt_landing *l, uint32_t file, struct ckpt_error *err)
{
	char *path = path_of(l, file);
	uint64_t size = l->m->files[file].size;
	int rc = path ? 0 : ckpt_fail_nomem(err);

	if (rc == 0 && l->folder)
		rc = make_folders(l, path, l->m->files[file].mode, err);
	if (rc == 0)
		rc = ckpt_sink_open(path, size, l->folder ? 0 : size, sink_flags(l) | CKPT_SINK_THREADS,
				    l->m->files[file].mode, &l->sinks[file], err);
	free(path);
	return rc;
}

static int open_empty_files(struct ckpt_landing *l, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < l->m->count; i++) {
		if (l->folder && l->m->files[i].size)
			continue;
		rc = open_file(l, i, err);
		if (rc == 0 && l->folder) {
			struct ckpt_sink *sink = l->sinks[i];

			l->sinks[i] = NULL;
			rc = ckpt_folder_end_file(l->folder, sink, 0, err);
		}
	}
	return rc;
}

static int open_all(struct ckpt_landing *l, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < l->m->count; i++)
		l->left[i] = l->m->files[i].size;
	if (l->m->is_directory)
		rc = ckpt_folder_open(l->path, &l->own, l->m->total,
				      (l->flags & CKPT_LANDING_REPLACE ? CKPT_FOLDER_REPLACE : 0u) |
					      (l->flags & CKPT_LANDING_NO_SYNC ? CKPT_FOLDER_NO_SYNC
									       : 0u),
				      l->m->directory_mode, &l->folder, err);
	return rc < 0 ? rc : open_empty_files(l, err);
}

void ckpt_landing_remove_left_over(const struct ckpt_manifest *m, const char *path)
{
	bool is_one = m->is_directory || m->count == 1;
	char *around = is_one ? ckpt_path_parent(path) : strdup(path);

	for (uint32_t i = 0; around && i < (is_one ? 1 : m->count); i++)
		ckpt_temp_remove_left_over(around, is_one ? path : m->files[i].path);
	free(around);
}

int ckpt_landing_open(const struct ckpt_manifest *m, const char *path, unsigned flags,
		      struct ckpt_landing **out, struct ckpt_error *err)
{
	struct ckpt_landing *l = calloc(1, sizeof(*l));
	int rc;

	*out = NULL;
	if (!l)
		return ckpt_fail_nomem(err);
	pthread_mutex_init(&l->lock, NULL);
	l->m = m;
	l->flags = flags;
	l->own = (struct ckpt_folder_own){ ckpt_staged_is_own, m };
	l->path = strdup(path);
	l->sinks = calloc(m->count, sizeof(struct ckpt_sink *));
	l->left = calloc(m->count, sizeof(*l->left));
	rc = l->path && l->sinks && l->left ? open_all(l, err) : ckpt_fail_nomem(err);
	if (rc < 0)
		ckpt_landing_discard(l);
	else
		*out = l;
	return rc;
}

static int find_sink(struct ckpt_landing *l, uint32_t file, struct ckpt_sink **out,
		     struct ckpt_error *err)
{
	int rc = 0;

	pthread_mutex_lock(&l->lock);
	if (!l->sinks[file])
		rc = open_file(l, file, err);
	*out = l->sinks[file];
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* Was that the last of a directory's file? It is let go of then: there may be many. */
static struct ckpt_sink *take_if_complete(struct ckpt_landing *l, uint32_t file, size_t len)
{
	struct ckpt_sink *sink = NULL;

	pthread_mutex_lock(&l->lock);
	l->left[file] -= len;
	if (!l->left[file] && l->folder) {
		sink = l->sinks[file];
		l->sinks[file] = NULL;
	}
	pthread_mutex_unlock(&l->lock);
	return sink;
}

int ckpt_landing_write(struct ckpt_landing *l, uint32_t file, uint64_t off, const void *bytes,
		       size_t len, struct ckpt_error *err)
{
	struct ckpt_sink *sink;
	int rc = find_sink(l, file, &sink, err);

	if (rc == 0)
		rc = ckpt_sink_write(sink, off, bytes, len, err);
	if (rc < 0)
		return rc;
	sink = take_if_complete(l, file, len);
	return sink ? ckpt_folder_end_file(l->folder, sink, 0, err) : 0;
}

int ckpt_landing_finish(struct ckpt_landing *l, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < l->m->count; i++)
		if (l->sinks[i])
			rc = ckpt_sink_sync(l->sinks[i], err);
	return rc == 0 && l->folder ? ckpt_folder_sync(l->folder, err) : rc;
}

int ckpt_landing_name_error(const struct ckpt_landing *l, uint32_t file, int rc,
			    struct ckpt_error *err)
{
	char *path = path_below(l, l->path, file);

	rc = ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
	free(path);
	return rc;
}

int ckpt_landing_reopen(struct ckpt_landing *l, uint32_t file, int *fd, struct ckpt_error *err)
{
	char *path = NULL;

	if (l->sinks[file]) { /* it has no name */
		*fd = fcntl(ckpt_sink_fd(l->sinks[file]), F_DUPFD_CLOEXEC, 0);
	} else {
		path = path_of(l, file);
		*fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		free(path);
	}
	return *fd < 0 ? ckpt_fail_errno(err, "cannot read what was written") : 0;
}

int ckpt_landing_identity(const struct ckpt_landing *l, uint32_t file, struct stat *out,
			  struct ckpt_error *err)
{
	int rc = l->folder ? stat(ckpt_folder_temp_path(l->folder), out)
			   : fstat(ckpt_sink_fd(l->sinks[file]), out);

	return rc < 0 ? ckpt_fail_errno(err, "cannot look at what was written") : 0;
}

int ckpt_landing_commit(struct ckpt_landing *l, const uint32_t *crcs, struct ckpt_error *err)
{
	int rc = 0;

	if (l->folder) {
		rc = ckpt_staged_note(l->m, ckpt_folder_temp_path(l->folder), crcs, err);
		if (rc == 0) {
			struct ckpt_folder *folder = l->folder;

			l->folder = NULL;
			rc = ckpt_folder_commit(folder, err);
		}
	}
	for (uint32_t i = 0; rc == 0 && i < l->m->count; i++)
		if (l->sinks[i]) {
			struct ckpt_sink *sink = l->sinks[i];

			l->sinks[i] = NULL;
			rc = ckpt_sink_commit(sink, err);
		}
	ckpt_landing_discard(l);
	return rc;
}

void ckpt_landing_discard(struct ckpt_landing *l)
{
	if (!l)
		return;
	for (uint32_t i = 0; l->sinks && i < l->m->count; i++)
		ckpt_sink_discard(l->sinks[i]);
	ckpt_folder_discard(l->folder);
	pthread_mutex_destroy(&l->lock);
	free(l->sinks);
	free(l->left);
	free(l->path);
	free(l);
}
