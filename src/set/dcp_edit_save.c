/* SPDX-License-Identifier: Apache-2.0 */
#include "set/dcp_edit.h"
#include "set/listing.h"

#include "io/sink.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct saver {
	struct ckpt_dcp_edit edit;
	struct ckpt_dcp *dcp;
	const struct ckpt_save_options *o;
	const char *to; /* the folder to write into */
	char new_file[40];
	uint64_t done, total, written;
	bool reflinked;
	struct ckpt_error *err;
};

static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
	const struct saver *s = ctx;

	(void)total;
	if (s->o->progress)
		s->o->progress(s->o->progress_ctx, s->done + done, s->total);
}

static int join(struct saver *s, const char *folder, const char *name, char **out)
{
	if (asprintf(out, "%s/%s", folder, name) < 0) {
		*out = NULL;
		return ckpt_fail_nomem(s->err);
	}
	return 0;
}

static unsigned sink_flags(const struct saver *s)
{
	return s->o->flags & CKPT_SAVE_NO_SYNC ? CKPT_SINK_NO_SYNC : 0u;
}

/* ---- data files ---- */

/* The folders in front of a name such as "sub/x/__0_0.distcp". */
static int make_folders(struct saver *s, char *path)
{
	for (char *slash = strchr(path + strlen(s->to) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		int rc;

		*slash = '\0';
		rc = mkdir(path, 0777) < 0 && errno != EEXIST
			     ? ckpt_fail_errno(s->err, "cannot create the folder '%s'", path)
			     : 0;
		*slash = '/';
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int copy_bytes(struct saver *s, const struct ckpt_source *source, struct ckpt_sink *sink)
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

static int copy_file(struct saver *s, const char *from, const char *to)
{
	struct ckpt_source *source;
	struct ckpt_sink *sink;
	uint64_t size;
	int rc = ckpt_source_open(from, &source, s->err);

	if (rc < 0)
		return rc;
	size = ckpt_source_size(source);
	rc = ckpt_sink_open(to, size, 0, sink_flags(s), &sink, s->err);
	if (rc < 0) {
		ckpt_source_unref(source);
		return rc;
	}
	rc = copy_bytes(s, source, sink);
	if (rc == 0)
		rc = ckpt_source_check_unchanged(source, s->err);
	if (rc == 0)
		rc = ckpt_sink_sync(sink, s->err);
	if (rc == 0)
		rc = ckpt_sink_commit(sink, s->err);
	else
		ckpt_sink_discard(sink);
	ckpt_source_unref(source);
	s->done += size;
	s->written += size;
	return rc;
}

static int bring(struct saver *s, const char *name)
{
	char *from = NULL, *to = NULL;
	int rc = join(s, s->dcp->path, name, &from);

	if (rc == 0)
		rc = join(s, s->to, name, &to);
	if (rc == 0)
		rc = make_folders(s, to);
	if (rc == 0 && s->o->flags & CKPT_SAVE_HARD_LINK)
		rc = link(from, to) < 0
			     ? ckpt_fail_errno(s->err, "cannot make a hard link of '%s'", from)
			     : 0;
	else if (rc == 0)
		rc = copy_file(s, from, to);
	free(from);
	free(to);
	return rc;
}

/* The data files that the entries which are left need. */
static int note_files(struct saver *s, uint8_t **out)
{
	const struct ckpt_dcp_index *x = &s->dcp->index;
	uint8_t *used = calloc(x->file_count + (size_t)1, 1);

	*out = used;
	if (!used)
		return ckpt_fail_nomem(s->err);
	for (uint32_t i = 0; i < s->edit.out.entry_count; i++) {
		const struct ckpt_dcp_entry *e = &x->entries[s->edit.from[i]];

		for (uint64_t k = 0; !s->edit.rewrite[i] && k < e->chunk_count; k++)
			if (x->chunks[e->first_chunk + k].file != CKPT_DCP_NO_FILE)
				used[x->chunks[e->first_chunk + k].file] = 1;
	}
	return 0;
}

static int bring_data_files(struct saver *s)
{
	uint8_t *used;
	int rc = note_files(s, &used);

	for (uint32_t i = 0; rc == 0 && i < s->dcp->index.file_count; i++)
		if (used[i])
			rc = bring(s, s->dcp->files[i].name);
	free(used);
	return rc;
}

/* What lies beside belongs to the checkpoint (meta.pt, common.pt), but not what an edit makes untrue. */
static bool stays_behind(const struct ckpt_listed *file)
{
	static const char *const patterns[] = { ".metadata",	".metadata.tmp",
						"__*.metadata", "__*.metadata.tmp",
						"*.distcp",	"integrity.json" };

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		if (!fnmatch(patterns[i], file->name, 0))
			return true;
	return file->is_folder;
}

static int bring_others(struct saver *s)
{
	struct ckpt_listing listing;
	int rc = ckpt_listing_read(s->dcp->path, &listing, s->err);

	for (size_t i = 0; rc == 0 && i < listing.count; i++)
		if (!stays_behind(&listing.items[i]))
			rc = bring(s, listing.items[i].name);
	ckpt_listing_clear(&listing);
	return rc;
}

/* ---- what is new ---- */

static int write_values(struct saver *s)
{
	struct ckpt_mover_options options = { .cancel = s->o->cancel };
	struct ckpt_mover *mover = NULL;
	struct ckpt_sink *sink = NULL;
	uint64_t size = 0;
	char *path;
	int rc = join(s, s->to, s->new_file, &path);

	if (rc == 0)
		rc = ckpt_sink_open(path, 0, 0, sink_flags(s), &sink, s->err);
	if (rc == 0)
		rc = ckpt_mover_open(sink, &options, &mover, s->err);
	if (rc == 0)
		rc = ckpt_dcp_edit_write_values(&s->edit, mover, &size, s->err);
	if (rc == 0)
		rc = ckpt_mover_flush(mover, s->err);
	if (rc == 0)
		rc = ckpt_sink_sync(sink, s->err);
	ckpt_mover_close(mover);
	if (rc == 0)
		rc = ckpt_sink_commit(sink, s->err);
	else
		ckpt_sink_discard(sink);
	s->written += size;
	free(path);
	return rc;
}

static int write_index(struct saver *s, unsigned flags)
{
	struct ckpt_buf index = { 0 };
	char *path = NULL;
	int rc = ckpt_dcp_edit_index(&s->edit, s->new_file, &index, s->err);

	if (rc == 0)
		rc = join(s, s->to, ".metadata", &path);
	if (rc == 0)
		rc = ckpt_dcp_write_file(path, &index, flags, s->err);
	s->written += index.len;
	free(path);
	ckpt_buf_clear(&index);
	return rc;
}

/* A name that no file of the directory has. */
static int name_new_file(struct saver *s)
{
	struct ckpt_listing listing;
	int rc = ckpt_listing_read(s->dcp->path, &listing, s->err);

	for (unsigned n = 0; rc == 0; n++) {
		snprintf(s->new_file, sizeof(s->new_file), "__ckpt_%u.distcp", n);
		if (!ckpt_listing_find(&listing, s->new_file) &&
		    !ckpt_strmap_find(&s->dcp->index.file_by_name, s->new_file,
				      strlen(s->new_file)))
			break;
	}
	ckpt_listing_clear(&listing);
	return rc;
}

/* ---- the whole ---- */

static int plan(struct saver *s, const struct ckpt_model *model)
{
	int rc = ckpt_dcp_edit_plan(model, &s->edit, s->err);

	if (rc == 0 && !s->edit.new_data)
		rc = name_new_file(s);
	ckpt_document_disk_bytes(model->doc, &s->total);
	return rc;
}

static int write_all(struct saver *s)
{
	int rc = bring_data_files(s);

	if (rc == 0)
		rc = bring_others(s);
	if (rc == 0 && s->edit.rewrite_count)
		rc = write_values(s);
	return rc == 0 ? write_index(s, sink_flags(s)) : rc;
}

static int save_folder(struct saver *s, const char *path)
{
	struct ckpt_folder *folder;
	/* how much room it takes shows when blocks are shared, or not */
	int rc = ckpt_folder_open(path, CKPT_DCP_MARK, 0, ckpt_dcp_folder_flags(s->o), &folder,
				  s->err);

	if (rc < 0)
		return rc;
	s->to = ckpt_folder_temp_path(folder);
	rc = write_all(s);
	if (rc == 0)
		rc = ckpt_document_check_unchanged(s->edit.model->doc, s->err);
	rc = ckpt_error_at(s->err, rc, s->dcp->path, NULL, CKPT_NO_OFFSET);
	if (rc == 0)
		return ckpt_folder_commit(folder, s->err);
	ckpt_folder_discard(folder);
	return rc;
}

/* Tensors changed: as many new data files as there were. */
static int save_anew(const struct ckpt_model *model, const char *path,
		     const struct ckpt_save_options *options, struct ckpt_save_report *report,
		     struct ckpt_error *err)
{
	struct ckpt_save_options o = *options;

	o.ranks = ckpt_dcp_of(model)->index.file_count;
	return ckpt_dcp_save_split(model, path, &o, report, err);
}

int ckpt_dcp_save_edited(const struct ckpt_model *model, const char *path,
			 const struct ckpt_save_options *options, struct ckpt_save_report *report,
			 struct ckpt_error *err)
{
	struct saver s = { .dcp = ckpt_dcp_of(model), .o = options, .err = err };
	bool anew = false;
	int rc = ckpt_dcp_check_target(model, path, options, err);

	if (rc < 0)
		return rc;
	rc = plan(&s, model);
	rc = ckpt_error_at(err, rc, s.dcp->path, NULL, CKPT_NO_OFFSET);
	anew = s.edit.new_data;
	if (rc == 0 && !anew && !(options->flags & CKPT_SAVE_DRY_RUN))
		rc = save_folder(&s, path);
	report->nbytes = options->flags & CKPT_SAVE_DRY_RUN ? s.total : s.written;
	report->written = s.written;
	report->reflinked = s.reflinked;
	ckpt_dcp_edit_clear(&s.edit);
	return rc == 0 && anew ? save_anew(model, path, options, report, err) : rc;
}

static int replace_index(struct saver *s)
{
	int rc = s->edit.rewrite_count ? write_values(s) : 0;

	if (rc == 0)
		rc = ckpt_document_check_unchanged(s->edit.model->doc, s->err);
	return rc == 0 ? write_index(s, CKPT_SINK_REPLACE) : rc;
}

int ckpt_dcp_save_in_place(const struct ckpt_model *model, const struct ckpt_save_options *options,
			   struct ckpt_save_report *report, struct ckpt_error *err)
{
	struct saver s = { .dcp = ckpt_dcp_of(model), .o = options, .err = err };
	int rc;

	s.to = s.dcp->path;
	rc = plan(&s, model);
	if (rc == 0 && s.edit.new_data)
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED,
			       "tensors would change, which means new data files: name an output");
	if (rc == 0 && !(options->flags & CKPT_SAVE_DRY_RUN))
		rc = replace_index(&s);
	report->nbytes = s.total;
	report->written = s.written;
	ckpt_dcp_edit_clear(&s.edit);
	return ckpt_error_at(err, rc, s.dcp->path, NULL, CKPT_NO_OFFSET);
}
