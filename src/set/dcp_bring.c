/* SPDX-License-Identifier: Apache-2.0 */
#include "set/dcp_bring.h"

#include "base/text.h"
#include "plan/mover.h"
#include "set/dcp_save.h"
#include "set/listing.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
	const struct ckpt_dcp_bringer *s = ctx;

	(void)total;
	if (s->o->progress)
		s->o->progress(s->o->progress_ctx, s->done + done, s->total);
}

static int join(const struct ckpt_dcp_bringer *s, const char *folder, const char *name, char **out)
{
	if (asprintf(out, "%s/%s", folder, name) < 0) {
		*out = NULL;
		return ckpt_fail_nomem(s->err);
	}
	return 0;
}

static unsigned sink_flags(const struct ckpt_dcp_bringer *s)
{
	return s->o->flags & CKPT_SAVE_NO_SYNC ? CKPT_SINK_NO_SYNC : 0u;
}

/* ---- data files ---- */

/* The folders in front of a name such as "sub/x/__0_0.distcp". */
static int make_folders(struct ckpt_dcp_bringer *s, char *path)
{
	for (char *slash = strchr(path + strlen(s->to) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		int rc;

		*slash = '\0';
		rc = mkdir(path, 0777) < 0 && errno != EEXIST
			     ? ckpt_fail_errno(s->err, "cannot create a folder for it")
			     : 0;
		*slash = '/';
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int copy_bytes(struct ckpt_dcp_bringer *s, const struct ckpt_source *source,
		      struct ckpt_sink *sink)
{
	struct ckpt_recipe all = { .kind = CKPT_RECIPE_EXTENT,
				   .src = source,
				   .len = ckpt_source_size(source) };
	struct ckpt_mover_options options = { .progress = show_progress,
					      .ctx = s,
					      .cancel = s->o->cancel };
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

static int copy_file(struct ckpt_dcp_bringer *s, const char *from, const char *to)
{
	struct ckpt_source *source;
	struct ckpt_sink *sink;
	uint64_t size;
	int rc = ckpt_source_open(from, &source, s->err);

	if (rc < 0)
		return rc;
	size = ckpt_source_size(source);
	rc = ckpt_sink_open(to, size, 0, sink_flags(s), ckpt_source_mode(source), &sink, s->err);
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

int ckpt_dcp_bring(struct ckpt_dcp_bringer *s, const char *name)
{
	char *from = NULL, *to = NULL;
	int rc = join(s, s->from, name, &from);

	if (rc == 0)
		rc = join(s, s->to, name, &to);
	if (rc == 0)
		rc = make_folders(s, to);
	if (rc == 0 && s->o->flags & CKPT_SAVE_HARD_LINK)
		rc = link(from, to) < 0
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

/* What lies beside belongs to the checkpoint (meta.pt, common.pt), but not what an edit makes untrue. */
static bool stays_behind(const struct ckpt_dcp_bringer *s, const struct ckpt_listed *file)
{
	static const char *const patterns[] = { ".metadata",	".metadata.tmp",
						"__*.metadata", "__*.metadata.tmp",
						"*.distcp",	"integrity.json" };

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		if (!fnmatch(patterns[i], file->name, 0))
			return true;
	return file->is_folder || ckpt_strmap_find(s->data_files, file->name, strlen(file->name));
}

bool ckpt_dcp_is_brought(const void *bringer, const char *path, const char *name)
{
	const struct ckpt_dcp_bringer *s = bringer;
	struct stat st;
	char *from;
	bool there;

	if (ckpt_dcp_is_own(NULL, path, name) ||
	    ckpt_strmap_find(s->data_files, name, strlen(name)))
		return true;
	if (strchr(name, '/') || join(s, s->from, name, &from) < 0)
		return false;
	there = stat(from, &st) == 0 && S_ISREG(st.st_mode);
	free(from);
	return there;
}

int ckpt_dcp_bring_others(struct ckpt_dcp_bringer *s)
{
	struct ckpt_listing listing;
	int rc = ckpt_listing_read(s->from, &listing, s->err);

	for (size_t i = 0; rc == 0 && i < listing.count; i++)
		if (!stays_behind(s, &listing.items[i]))
			rc = ckpt_dcp_bring(s, listing.items[i].name);
	ckpt_listing_clear(&listing);
	return rc;
}
