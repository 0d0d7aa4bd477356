/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves an edited DCP directory: into a new folder, with the data files that its entries still
 * need, or in place, where only the index and a file of new values are written.
 *
 * The index is written last in both cases, since it is what makes the rest count: in place it is
 * replaced in one step, and before that the directory is as it was, but for one data file that no
 * index names. If that step fails, the new file is removed again, unless the new index is already
 * there. Values in it are written before the input is looked at for changes.
 *
 * A dry run goes the same way, and only counts: `b.dry`.
 */
#include "base/paths.h"
#include "set/dcp/copy_files.h"
#include "set/dcp/edit.h"
#include "set/listing.h"
#include "set/out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dcp_saver {
	struct ckpt_dcp_edit edit;
	struct ckpt_dcp *dcp;
	struct ckpt_dcp_copier b;
	char new_file[40];
};

/* The data files that the entries which are left need. */
static int find_needed_files(struct dcp_saver *s, uint8_t **out)
{
	const struct ckpt_dcp_index *x = &s->dcp->index;
	uint8_t *used = calloc(x->file_count + (size_t)1, 1);

	*out = used;
	if (!used)
		return ckpt_fail_nomem(s->b.err);
	for (uint32_t i = 0; i < s->edit.out.entry_count; i++) {
		const struct ckpt_dcp_entry *e;

		if (s->edit.rewrite[i])
			continue;
		e = &x->entries[s->edit.from[i]];
		for (uint64_t k = 0; k < e->chunk_count; k++)
			if (x->chunks[e->first_chunk + k].file != CKPT_DCP_NO_FILE)
				used[x->chunks[e->first_chunk + k].file] = 1;
	}
	return 0;
}

static int copy_data_files(struct dcp_saver *s)
{
	uint8_t *used;
	int rc = find_needed_files(s, &used);

	for (uint32_t i = 0; rc == 0 && i < s->dcp->index.file_count; i++)
		if (used[i])
			rc = ckpt_dcp_copy_data_file(&s->b, s->dcp->files[i].name);
	free(used);
	return rc;
}

/* ---- what is new ---- */

static int write_values(struct dcp_saver *s)
{
	struct ckpt_mover_options options = { .cancel = s->b.o->cancel,
					      .threads = s->b.o->threads };
	struct ckpt_mover *mover = NULL;
	struct ckpt_sink *sink = NULL;
	uint64_t size = 0;
	char *path;
	int rc;

	if (s->b.dry) {
		rc = ckpt_dcp_edit_write_values(&s->edit, NULL, &size, s->b.err);
		s->b.written += size;
		return rc;
	}
	rc = ckpt_path_join(s->b.to, s->new_file, &path, s->b.err);
	if (rc == 0)
		rc = ckpt_sink_open(path, 0, 0, ckpt_set_sink_flags(s->b.o->flags),
				    ckpt_model_mode(s->edit.model), &sink, s->b.err);
	if (rc == 0)
		rc = ckpt_mover_open(sink, &options, &mover, s->b.err);
	if (rc == 0)
		rc = ckpt_dcp_edit_write_values(&s->edit, mover, &size, s->b.err);
	if (rc == 0)
		rc = ckpt_mover_finish(mover, s->b.err);
	ckpt_mover_close(mover);
	rc = ckpt_folder_end_file(s->b.folder, sink, rc, s->b.err);
	s->b.written += size;
	free(path);
	return rc;
}

static int write_index(struct dcp_saver *s, unsigned flags)
{
	struct ckpt_buf index = { 0 };
	char *path = NULL;
	int rc = ckpt_dcp_edit_index(&s->edit, s->new_file, &index, s->b.err);

	if (rc == 0)
		rc = ckpt_path_join(s->b.to, ".metadata", &path, s->b.err);
	if (rc == 0 && !s->b.dry)
		rc = ckpt_set_write_file(s->b.folder, path, &index, flags,
					 ckpt_source_mode(s->edit.model->doc->source), s->b.err);
	s->b.written += index.len;
	free(path);
	ckpt_buf_clear(&index);
	return rc;
}

/* A name that no file of the directory has. */
static int name_new_file(struct dcp_saver *s)
{
	struct ckpt_listing listing;
	int rc = ckpt_listing_read(s->dcp->path, &listing, s->b.err);

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

static int plan(struct dcp_saver *s, const struct ckpt_model *model)
{
	int rc = ckpt_dcp_edit_plan(model, &s->edit, s->b.err);

	if (rc == 0 && !s->edit.new_data)
		rc = name_new_file(s);
	ckpt_model_disk_bytes(model, &s->b.total);
	return rc;
}

static int write_all(struct dcp_saver *s)
{
	int rc = copy_data_files(s);

	if (rc == 0)
		rc = ckpt_dcp_copy_others(&s->b);
	if (rc == 0 && s->edit.rewrite_count)
		rc = write_values(s);
	return rc == 0 ? write_index(s, ckpt_set_sink_flags(s->b.o->flags)) : rc;
}

static int save_folder(struct dcp_saver *s, const char *path)
{
	const struct ckpt_folder_own own = { ckpt_dcp_is_copied, &s->b };
	struct ckpt_folder *folder;
	/* how much room it takes shows when blocks are shared, or not */
	int rc = ckpt_folder_open(path, &own, 0, ckpt_set_folder_flags(s->b.o),
				  ckpt_model_folder_mode(s->edit.model), &folder, s->b.err);

	if (rc < 0)
		return rc;
	s->b.folder = folder;
	s->b.to = ckpt_folder_temp_path(folder);
	rc = write_all(s);
	if (rc == 0)
		rc = ckpt_model_check_unchanged(s->edit.model, s->b.err);
	rc = ckpt_error_at(s->b.err, rc, s->dcp->path, NULL, CKPT_NO_OFFSET);
	if (rc == 0) {
		ckpt_folder_set_save(folder, s->b.o);
		return ckpt_folder_commit(folder, s->b.err);
	}
	ckpt_folder_discard(folder);
	return rc;
}

/* Tensors changed: as many new data files as there were. */
static int split_anew(const struct ckpt_model *model, const char *path,
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
	struct dcp_saver s = { .dcp = ckpt_dcp_of(model), .b = { .o = options, .err = err } };
	const struct ckpt_folder_own own = { ckpt_dcp_is_copied, &s.b };
	bool anew = false;
	int rc;

	s.b.from = s.dcp->path;
	s.b.data_files = &s.dcp->index.file_by_name;
	rc = ckpt_dcp_check_target(model, path, &own, options, err);
	if (rc < 0)
		return rc;
	rc = plan(&s, model);
	rc = ckpt_error_at(err, rc, s.dcp->path, NULL, CKPT_NO_OFFSET);
	anew = s.edit.new_data;
	s.b.dry = options->flags & CKPT_SAVE_DRY_RUN;
	s.b.to = path;
	if (rc == 0 && !anew && s.b.dry)
		rc = ckpt_error_at(err, write_all(&s), s.dcp->path, NULL, CKPT_NO_OFFSET);
	else if (rc == 0 && !anew)
		rc = save_folder(&s, path);
	report->nbytes = report->written = s.b.written;
	report->reflinked = s.b.reflinked;
	ckpt_dcp_edit_clear(&s.edit);
	return rc == 0 && anew ? split_anew(model, path, options, report, err) : rc;
}

/* Does the directory still have the index that was opened? */
static bool has_old_index(struct dcp_saver *s)
{
	struct ckpt_source *now;
	dev_t old_dev, dev;
	ino_t old_ino, ino;
	char *path;
	bool same = false;

	if (ckpt_path_join(s->b.to, ".metadata", &path, NULL) < 0)
		return false;
	if (ckpt_source_open(path, &now, NULL) == 0) {
		same = ckpt_source_identity(s->edit.model->doc->source, &old_dev, &old_ino) &&
		       ckpt_source_identity(now, &dev, &ino) && dev == old_dev && ino == old_ino;
		ckpt_source_unref(now);
	}
	free(path);
	return same;
}

/* The new values are of no use without the new index. */
static void drop_values(struct dcp_saver *s)
{
	struct ckpt_error kept;
	char *path;

	if (s->b.err)
		kept = *s->b.err;
	if (has_old_index(s) && ckpt_path_join(s->b.to, s->new_file, &path, s->b.err) == 0) {
		unlink(path);
		free(path);
	}
	if (s->b.err)
		*s->b.err = kept;
}

static int replace_index(struct dcp_saver *s)
{
	int rc = s->edit.rewrite_count ? write_values(s) : 0;

	if (rc == 0)
		rc = ckpt_model_check_unchanged(s->edit.model, s->b.err);
	if (rc == 0)
		rc = write_index(s, CKPT_SINK_REPLACE);
	if (rc < 0 && s->edit.rewrite_count && !s->b.dry)
		drop_values(s);
	return rc;
}

int ckpt_dcp_save_in_place(const struct ckpt_model *model, const struct ckpt_save_options *options,
			   struct ckpt_save_report *report, struct ckpt_error *err)
{
	struct dcp_saver s = { .dcp = ckpt_dcp_of(model), .b = { .o = options, .err = err } };

	int rc;

	s.b.to = s.dcp->path;
	rc = ckpt_dcp_check_no_link(s.dcp->path, options->flags, err);
	if (rc == 0)
		rc = plan(&s, model);
	if (rc == 0 && s.edit.new_data)
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED,
			       "tensors would change, which means new data files: name an output");
	s.b.dry = options->flags & CKPT_SAVE_DRY_RUN;
	if (rc == 0)
		rc = replace_index(&s);
	report->nbytes = s.b.total;
	report->written = s.b.written;
	ckpt_dcp_edit_clear(&s.edit);
	return ckpt_error_at(err, rc, s.dcp->path, NULL, CKPT_NO_OFFSET);
}
