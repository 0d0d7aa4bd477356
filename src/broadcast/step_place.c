/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step in which each rank looks at its destination: is a copy there already, is there room, and
 * what has to be made first?
 *
 * What must stay true: every rank takes part in each vote, also one that writes nothing or has
 * failed. The source itself is never the destination, by whatever name. Folders that were made here
 * are removed again if the broadcast fails, by all ranks at once.
 */
#include "broadcast/steps.h"

#include "base/paths.h"
#include "broadcast/destination.h"
#include "broadcast/parents.h"
#include "broadcast/disk_space.h"
#include "broadcast/votes.h"

#include <libgen.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const unsigned NO_FILES = CKPT_BROADCAST_NO_TARGET | CKPT_BROADCAST_TO_GPU;

static int fail_own_source(struct ckpt_session *s, const char *path)
{
	return ckpt_error_at(&s->err,
			     ckpt_fail(&s->err, CKPT_E_OUTPUT,
				       "is the source itself, wanted another destination"),
			     path, NULL, CKPT_NO_OFFSET);
}

/* The devices of other hosts have other numbers; there a file with the times of the source, to the nanosecond, is the source. */
static bool is_source(const struct ckpt_session *s, const struct ckpt_manifest_file *f, const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0 || st.st_ino != f->ino)
		return false;
	if (s->world.rank == 0)
		return st.st_dev == f->dev;
	return (uint64_t)st.st_size == f->size && st.st_mtim.tv_sec == f->mtime_sec && (uint32_t)st.st_mtim.tv_nsec == f->mtime_nsec &&
	       st.st_ctim.tv_sec == f->ctime_sec && (uint32_t)st.st_ctim.tv_nsec == f->ctime_nsec;
}

/* Is the destination the directory that is broadcast, or in it? It need not be there yet. */
static bool is_in_source(const struct ckpt_session *s)
{
	char *path = strdup(s->path);
	bool is_in =
		path && (ckpt_is_below(path, s->sources[0]) ||
			 (access(path, F_OK) < 0 && ckpt_is_below(dirname(path), s->sources[0])));

	free(path);
	return is_in;
}

static int refuse_own_source(struct ckpt_session *s)
{
	bool is_folder = s->manifest.count > 1;
	int rc = 0;

	if (s->manifest.is_directory)
		return s->world.rank == 0 && is_in_source(s) ? fail_own_source(s, s->path) : 0;
	for (uint32_t i = 0; rc == 0 && i < s->manifest.count; i++) {
		const struct ckpt_manifest_file *f = &s->manifest.files[i];
		char *path;

		if (asprintf(&path, "%s%s%s", s->path, is_folder && s->path[strlen(s->path) - 1] != '/' ? "/" : "", is_folder ? f->path : "") < 0)
			return ckpt_fail_nomem(&s->err);
		if (is_source(s, f, path))
			rc = fail_own_source(s, path);
		free(path);
	}
	return rc;
}

/* If there are several files, the destination itself is a folder. */
static int make_parents(struct ckpt_session *s)
{
	const char *slash = strrchr(s->path, '/');

	if (!s->manifest.is_directory && s->manifest.count > 1)
		s->folder = strdup(s->path);
	else if (slash && slash > s->path)
		s->folder = strndup(s->path, (size_t)(slash - s->path));
	else
		return 0;
	return s->folder ? ckpt_parents_make(s->folder, &s->made, &s->err)
			 : ckpt_fail_nomem(&s->err);
}

static int open_landing(struct ckpt_session *s)
{
	unsigned flags = (s->o.flags & CKPT_BROADCAST_NEW ? 0u : CKPT_LANDING_REPLACE) |
			 (s->o.flags & CKPT_BROADCAST_NO_SYNC ? CKPT_LANDING_NO_SYNC : 0u);
	int rc = refuse_own_source(s);

	if (rc == 0 && s->o.flags & CKPT_BROADCAST_MKDIR)
		rc = make_parents(s);
	if (rc == 0)
		rc = ckpt_landing_open(&s->manifest, s->path, flags, &s->landing, &s->err);
	if (rc == CKPT_E_IO && s->err.sys_errno == ENOENT && !(s->o.flags & CKPT_BROADCAST_MKDIR))
		ckpt_error_append(&s->err, "; --mkdir makes missing folders");
	return rc;
}

/* Room for all bytes on this rank's GPU. */
static int open_gpu(struct ckpt_session *s)
{
	uint32_t count = s->manifest.count, ordinal = 0;
	const char **paths = calloc(count + (size_t)1, sizeof(*paths));
	uint64_t *sizes = calloc(count + (size_t)1, sizeof(*sizes));
	int rc = paths && sizes ? ckpt_session_gpu(s, &ordinal) : ckpt_fail_nomem(&s->err);

	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		paths[i] = s->manifest.files[i].path;
		sizes[i] = s->manifest.files[i].size;
	}
	if (rc == 0)
		rc = ckpt_gpu_copy_new(ordinal, paths, sizes, count, s->manifest.is_directory,
				       &s->gpu, &s->err);
	free(paths);
	free(sizes);
	return rc;
}

/*
 * Where a folder is on some nodes and not on others, the copy would have another path there: what starts afterwards has one
 * path for all.
 */
static int check_folders(struct ckpt_session *s, bool found_folder)
{
	bool has_path = s->path != NULL;
	uint64_t some[2] = { has_path && found_folder, has_path && !found_folder };
	int rc = ckpt_agree_most(&s->agreement, some, 2, &s->err);

	if (rc < 0 || !some[0] || !some[1] || !found_folder)
		return rc;
	return ckpt_error_at(&s->err,
			     ckpt_fail(&s->err, CKPT_E_OUTPUT,
				       "is where the copy would go on this node, as the destination is a folder here, and not on other nodes: "
				       "with '/' behind it the copy goes into the folder on all"),
			     s->path, NULL, CKPT_NO_OFFSET);
}

int ckpt_step_place(struct ckpt_session *s)
{
	bool found_folder = false, reuses = !(s->o.flags & (CKPT_BROADCAST_NEW | CKPT_BROADCAST_REPLACE)), has = false;
	int rc = 0, room, differs;

	if (s->o.flags & CKPT_BROADCAST_TO_GPU) {
		rc = open_gpu(s);
		return ckpt_session_agree(s, rc,
					  rc == CKPT_E_UNSUPPORTED ? CKPT_BROADCAST_NO_TRANSPORT
								   : CKPT_BROADCAST_DESTINATION);
	}
	if (ckpt_session_writes(s))
		rc = ckpt_destination(s->wish, &s->world, s->sources[0], s->source_count, &s->path,
				      &found_folder, &s->err);
	differs = s->o.flags & NO_FILES ? 0 : check_folders(s, found_folder);
	rc = rc < 0 ? rc : differs;
	if (rc == 0 && s->path && reuses)
		has = ckpt_staged_is_same(&s->manifest, s->path,
					  s->o.has_expected ? &s->o.expected_crc32 : NULL);
	has = has && ckpt_staged_tighten(&s->manifest, s->path);
	if (has)
		ckpt_staged_touch(&s->manifest, s->path);
	if (rc == 0 && s->path && !has)
		ckpt_landing_remove_left_over(&s->manifest, s->path);
	room = s->agreement.broken ? 0
				   : ckpt_disk_space_check(&s->agreement, &s->manifest, rc == 0 && !has ? s->path : NULL,
				     ckpt_destination_is_per_rank(s->wish), s->o.depth * s->o.chunk,
				     rc == 0 ? &s->err : NULL);
	rc = rc == 0 ? room : rc;
	if (rc == 0 && s->path && !has)
		rc = open_landing(s);
	if (ckpt_session_agree_listing(s, rc, CKPT_BROADCAST_DESTINATION) ||
	    ckpt_session_check_left(s))
		return s->code;
	rc = 0;
	if (!(s->o.flags & NO_FILES))
		rc = ckpt_agree_all(&s->agreement, has || !ckpt_session_writes(s) || s->dropped,
				    &s->reused, &s->err);
	return rc < 0 ? ckpt_session_agree(s, rc, CKPT_BROADCAST_LOST) : 0;
}

/*
 * Twice, since several ranks of a node may have made folders inside each other's: the outer ones
 * are empty only after all ranks have removed theirs.
 */
void ckpt_step_remove_folders(struct ckpt_session *s)
{
	bool all;

	if (!(s->o.flags & CKPT_BROADCAST_MKDIR) || s->agreement.broken)
		return;
	ckpt_landing_discard(s->landing);
	s->landing = NULL;
	for (unsigned i = 0; i < 2; i++) {
		if (s->made)
			ckpt_parents_remove(s->folder, s->made);
		ckpt_agree_all(&s->agreement, true, &all, NULL);
	}
}
