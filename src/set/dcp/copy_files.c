/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the files of one DCP directory into another: clones, hard-links or copies data files
 * under the names that the index gives them, and carries along what else lies there.
 *
 * Names of data files come from the index, which was checked to stay inside (fields.c); the
 * folders they need are made with the modes of those in the input. What an edit makes untrue
 * (indexes, data files that the index does not name, integrity.json) stays behind: stays_behind()
 * must know every such name. Links to files become files, so that the result does not depend on
 * the input.
 */
#include "set/dcp/copy_files.h"

#include "base/c_locale.h"
#include "base/paths.h"
#include "base/text.h"
#include "io/tree.h"
#include "plan/mover.h"
#include "set/dcp/save.h"
#include "set/out.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
	const struct ckpt_dcp_copier *s = ctx;

	(void)total;
	done += s->done;
	if (s->o->progress)
		s->o->progress(s->o->progress_ctx, done < s->total ? done : s->total, s->total);
}

/* ---- data files ---- */

/*
 * The folders in front of NAME, such as "sub/x/" of "sub/x/__0_0.distcp", with the modes of those
 * in the input.
 */
static int make_folders(struct ckpt_dcp_copier *s, char *from, char *to)
{
	size_t at_from = strlen(s->from), at_to = strlen(s->to);
	char *slash;

	while ((slash = strchr(to + at_to + 1, '/'))) {
		size_t step = (size_t)(slash - (to + at_to));
		struct stat st;
		int rc = 0;

		*slash = from[at_from + step] = '\0';
		if (mkdir(to, stat(from, &st) == 0 ? ckpt_mode_for_new(&st) | S_IRWXU : S_IRWXU) <
			    0 &&
		    errno != EEXIST)
			rc = ckpt_fail_errno(s->err, "cannot create a folder for it");
		*slash = from[at_from + step] = '/';
		if (rc < 0)
			return rc;
		at_from += step;
		at_to += step;
	}
	return 0;
}

static int copy_bytes(struct ckpt_dcp_copier *s, const struct ckpt_source *source,
		      struct ckpt_sink *sink)
{
	struct ckpt_recipe all = { .kind = CKPT_RECIPE_EXTENT,
				   .src = source,
				   .len = ckpt_source_size(source) };
	struct ckpt_mover_options options = { .progress = show_progress,
					      .ctx = s,
					      .cancel = s->o->cancel,
					      .threads = s->o->threads };
	struct ckpt_moved moved = { 0 };
	struct ckpt_mover *mover;
	bool cloned = false;
	int rc;

	rc = ckpt_sink_clone(sink, source, &cloned, s->err);
	s->reflinked |= cloned;
	if (rc < 0 || cloned)
		return rc;
	if (s->o->reflink == CKPT_REFLINK_ALWAYS)
		return ckpt_fail(s->err, CKPT_E_UNSUPPORTED,
				 "the file system cannot let files share their blocks");
	rc = ckpt_mover_open(sink, &options, &mover, s->err);
	if (rc < 0)
		return rc;
	if (all.len)
		rc = ckpt_mover_copy(mover, &all, &moved, s->err);
	if (rc == 0)
		rc = ckpt_mover_flush(mover, s->err);
	ckpt_mover_close(mover);
	return rc;
}

static int copy_file(struct ckpt_dcp_copier *s, const char *from, const char *to)
{
	struct ckpt_source *source;
	struct ckpt_sink *sink;
	uint64_t size;
	int rc = ckpt_source_open(from, &source, s->err);

	if (rc < 0)
		return rc;
	size = ckpt_source_size(source);
	if (s->dry) {
		s->written += size;
		ckpt_source_unref(source);
		return 0;
	}
	rc = ckpt_sink_open(to, size, 0, ckpt_set_sink_flags(s->o->flags), ckpt_source_mode(source),
			    &sink, s->err);
	if (rc < 0) {
		ckpt_source_unref(source);
		return rc;
	}
	rc = copy_bytes(s, source, sink);
	if (rc == 0)
		rc = ckpt_source_check_unchanged(source, s->err);
	rc = ckpt_folder_end_file(s->folder, sink, rc, s->err);
	ckpt_source_unref(source);
	s->done += size;
	s->written += size;
	return rc;
}

/* The names of data files come from the index. */
static void escape_path(struct ckpt_error *err)
{
	char shown[sizeof(err->path)];

	if (err)
		memcpy(err->path, ckpt_escape(shown, sizeof(shown), err->path, strlen(err->path)),
		       sizeof(shown));
}

int ckpt_dcp_copy_data_file(struct ckpt_dcp_copier *s, const char *name)
{
	char *from = NULL, *to = NULL;
	int rc = ckpt_path_join(s->from, name, &from, s->err);

	if (rc == 0)
		rc = ckpt_path_join(s->to, name, &to, s->err);
	if (rc == 0 && !s->dry)
		rc = make_folders(s, from, to);
	if (rc == 0 && s->o->flags & CKPT_SAVE_HARD_LINK)
		rc = !s->dry && linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) < 0
			     ? ckpt_error_at(s->err, ckpt_fail_errno(s->err, "cannot be linked to"),
					     from, NULL, CKPT_NO_OFFSET)
			     : 0;
	else if (rc == 0)
		rc = copy_file(s, from, to);
	free(from);
	free(to);
	if (rc < 0)
		escape_path(s->err);
	return rc;
}

/* ---- all else ---- */

/* What an edit makes untrue, and what it writes itself. NAME: from the input on. */
static bool is_left_out(const struct ckpt_dcp_copier *s, const char *name)
{
	static const char *const patterns[] = { ".metadata",	".metadata.tmp",
						"__*.metadata", "__*.metadata.tmp",
						"*.distcp",	"integrity.json" };

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		if (ckpt_glob_matches(patterns[i], name, FNM_PATHNAME))
			return true;
	return ckpt_strmap_find(s->data_files, name, strlen(name));
}

bool ckpt_dcp_is_copied(const void *copier, const char *path, const char *name)
{
	const struct ckpt_dcp_copier *s = copier;
	struct stat st;
	char *from;
	bool there;

	if (ckpt_dcp_is_own(NULL, path, name) ||
	    ckpt_strmap_find(s->data_files, name, strlen(name)))
		return true;
	if (ckpt_path_join(s->from, name, &from, NULL) < 0)
		return false;
	there = lstat(from, &st) == 0;
	free(from);
	return there;
}

/* A link to a folder, or to nothing, stays one. */
static int copy_link(struct ckpt_dcp_copier *s, const struct ckpt_tree_entry *entry, char *from,
		     char *to)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(entry->folder, entry->name, target, sizeof(target) - 1);
	int rc = make_folders(s, from, to);

	if (rc < 0)
		return rc;
	if (len >= 0) {
		target[len] = '\0';
		if (symlink(target, to) == 0)
			return 0;
	}
	return ckpt_error_at(s->err, ckpt_fail_errno(s->err, "cannot copy the link"), from, NULL,
			     CKPT_NO_OFFSET);
}

/* Is it what is being made, or gives way to that? An output may lie in the input. */
static bool is_output(const struct ckpt_dcp_copier *s, const char *name)
{
	char *path;
	bool is;

	if (!s->output_inside || ckpt_path_join(s->from, name, &path, NULL) < 0)
		return false;
	is = ckpt_is_below(path, s->to) || (s->folder && ckpt_is_below(path, ckpt_folder_path(s->folder)));
	free(path);
	return is;
}

static int copy_other(void *ctx, const struct ckpt_tree_entry *entry)
{
	struct ckpt_dcp_copier *s = ctx;
	bool is_folder = S_ISDIR(entry->st.st_mode), is_link = S_ISLNK(entry->st.st_mode);
	struct stat st = entry->st;
	char *from, *to = NULL;
	int rc;

	if (is_link && (fstatat(entry->folder, entry->name, &st, 0) < 0 || S_ISDIR(st.st_mode)))
		st = entry->st;
	if (is_folder ? entry->children != 0 : is_left_out(s, entry->path))
		return 0; /* what is in a folder makes it */
	if (is_output(s, entry->path))
		return 0;
	if (S_ISREG(st.st_mode))
		return ckpt_dcp_copy_data_file(s, entry->path);
	if (s->dry && (is_folder || is_link))
		return 0;
	/* the slash at its end makes a folder without files, too */
	if (asprintf(&from, "%s/%s%s", s->from, entry->path, is_folder ? "/" : "") < 0)
		return ckpt_fail_nomem(s->err);
	if (asprintf(&to, "%s/%s%s", s->to, entry->path, is_folder ? "/" : "") < 0) {
		free(from);
		return ckpt_fail_nomem(s->err);
	}
	if (is_folder)
		rc = make_folders(s, from, to);
	else if (is_link)
		rc = copy_link(s, entry, from, to);
	else
		rc = ckpt_error_at(
			s->err,
			ckpt_fail(s->err, CKPT_E_UNSUPPORTED,
				  "lies beside the shards, and is neither a file nor a folder"),
			from, NULL, CKPT_NO_OFFSET);
	free(from);
	free(to);
	return rc;
}

int ckpt_dcp_copy_others(struct ckpt_dcp_copier *s)
{
	s->output_inside = ckpt_is_below(s->to, s->from);
	return ckpt_tree_walk(s->from, copy_other, s, s->err);
}
