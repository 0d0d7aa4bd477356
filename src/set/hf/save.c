/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a model as a shard set: safetensors files or pickles of at most a given size, dealt out
 * as the hub library does it (pack.c), and an index if there is more than one.
 *
 * Everything is done twice, first without writing: what cannot be written is found before there
 * is a byte of it, and the sizes are known for progress and free space. The folder gets its name
 * at the very end. Shards are always in canonical form, whatever the input was.
 */
#include "set/hf/out.h"

#include "base/paths.h"
#include "base/text.h"
#include "format/torch_zip.h"
#include "model/casts.h"
#include "set/hf/hf.h"
#include "set/hf/name.h"
#include "set/out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hf_saver {
	struct ckpt_hf_out out;
	struct ckpt_save_options o;
	struct ckpt_folder *folder;
	uint64_t done, total; /* bytes of finished files, and of all */
	struct ckpt_error *err;
};

/* ---- what is replaced ---- */

/* Would a set of this name have a file NAME? */
static bool is_of_set(const struct ckpt_hf_out *out, const char *name)
{
	size_t stem = strlen(out->stem);
	struct ckpt_hf_name parts;

	if (!strcmp(name, out->index_name))
		return true;
	if (strncmp(name, out->stem, stem) != 0)
		return false;
	if (!strcmp(name + stem, out->rest))
		return true;
	return ckpt_hf_name_parse(name, &parts) && parts.stem_len == stem &&
	       !strcmp(parts.rest, out->rest);
}

/* Of the set that is written, or of an older one that it takes the place of. */
static bool is_own(const void *ctx, const char *path, const char *name)
{
	const struct ckpt_hf_out *out = ctx;

	(void)path;
	for (size_t i = 0; i < out->o->file_count; i++)
		if (!strcmp(name, out->o->files[i].name))
			return true;
	return is_of_set(out, name);
}

/* *NBYTES: of all of them. */
static int check_side_files(const struct hf_saver *s, uint64_t *nbytes)
{
	const struct ckpt_save_options *o = s->out.o;

	*nbytes = 0;
	for (size_t i = 0; i < o->file_count; i++)
		*nbytes += o->files[i].len; /* what is in memory */

	for (size_t i = 0; i < o->file_count; i++)
		if (is_of_set(&s->out, o->files[i].name))
			return ckpt_fail(s->err, CKPT_E_ARG, "'%.200s' is to be written twice", o->files[i].name);
	return 0;
}

/* ---- one file ---- */

static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
	const struct hf_saver *s = ctx;

	(void)total;
	s->out.o->progress(s->out.o->progress_ctx, s->done + done, s->total);
}

static int write_tensors(struct hf_saver *s, uint32_t shard, const char *path,
			 const struct ckpt_save_options *o, struct ckpt_save_report *report)
{
	const struct ckpt_hf_packing *p = &s->out.packing;
	uint64_t start = p->starts[shard], count = p->starts[shard + 1] - start;
	struct ckpt_safetensors_item **items = malloc((count + 1) * sizeof(*items));
	struct ckpt_safetensors_out out = { .model = s->out.model,
					    .items = items,
					    .count = (uint32_t)count };
	struct ckpt_safetensors_pair *own;
	int rc = 0;

	if (!items)
		return ckpt_fail_nomem(s->err);
	for (uint64_t i = 0; i < count; i++)
		items[i] = s->out.tensors[p->order[start + i]].item;
	/* of one file alone there is no index, which could name what shares its bytes */
	rc = ckpt_safetensors_metadata(s->out.model, &s->out.list, p->shard_count > 1, &own, &out.metadata_count,
				       &out.has_metadata, s->err);
	out.metadata = own;
	if (rc == 0)
		rc = ckpt_safetensors_write(&out, path, o, report, s->err);
	free(items);
	return rc;
}

/* The tensors of a shard, in a dict of their own. */
static int make_part(struct hf_saver *s, uint32_t shard, struct ckpt_model **out)
{
	const struct ckpt_hf_packing *p = &s->out.packing;
	struct ckpt_value *root;
	int rc = ckpt_model_derive(s->out.model, out, s->err);

	if (rc < 0)
		return rc;
	root = ckpt_model_new_value(*out, CKPT_DICT);
	for (uint64_t i = p->starts[shard]; root && i < p->starts[shard + 1]; i++) {
		const struct ckpt_hf_tensor *t = &s->out.tensors[p->order[i]];
		const struct ckpt_value *pair[2] = { t->key, t->value };

		if (!ckpt_seq_add_many((*out)->arena, &root->u.seq, pair, 2))
			root = NULL;
	}
	(*out)->root = root;
	if (root)
		return 0;
	ckpt_close(*out);
	return ckpt_arena_fail(s->out.model->arena, s->err);
}

static int write_pickle(struct hf_saver *s, uint32_t shard, const char *path,
			const struct ckpt_save_options *o, struct ckpt_save_report *report)
{
	struct ckpt_model *part;
	int rc = make_part(s, shard, &part);

	if (rc < 0)
		return rc;
	rc = ckpt_torch_zip_save(part, path, o, report, s->err);
	ckpt_close(part);
	return rc;
}

static int write_shard(struct hf_saver *s, uint32_t shard, bool dry, uint64_t *nbytes)
{
	struct ckpt_save_report report = CKPT_SAVE_REPORT_INIT;
	struct ckpt_save_options o = *s->out.o;
	char *name = ckpt_hf_out_name(&s->out, shard), *path = NULL;
	int rc = name ? ckpt_path_join(ckpt_folder_temp_path(s->folder), name, &path, s->err)
		      : ckpt_fail_nomem(s->err);

	o.flags = (o.flags & CKPT_SAVE_NO_SYNC) | CKPT_SAVE_CANONICAL |
		  (dry ? CKPT_SAVE_DRY_RUN : 0u);
	o.reflink = CKPT_REFLINK_NEVER;
	o.unfit = NULL; /* it was said of all at once */
	o.progress = o.progress ? show_progress : NULL;
	o.progress_ctx = s;
	o.naming = NULL; /* of the directory alone */
	o.files = NULL;
	o.file_count = 0;
	if (rc == 0)
		rc = s->out.safetensors ? write_tensors(s, shard, path, &o, &report)
					: write_pickle(s, shard, path, &o, &report);
	*nbytes = report.nbytes;
	free(name);
	free(path);
	return rc;
}

/* ---- all of them ---- */

static int write_shards(struct hf_saver *s, bool dry)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < s->out.packing.shard_count; i++) {
		uint64_t nbytes;

		rc = write_shard(s, i, dry, &nbytes);
		if (dry)
			s->total += nbytes;
		else
			s->done += nbytes;
	}
	return rc;
}

static int write_index(struct hf_saver *s, bool dry)
{
	unsigned flags = ckpt_set_sink_flags(s->out.o->flags);
	struct ckpt_buf text = { 0 };
	char *path = NULL;
	int rc = 0;

	if (s->out.packing.shard_count > 1)
		rc = ckpt_hf_out_index(&s->out, &text, s->err);
	if (rc == 0)
		rc = ckpt_path_join(ckpt_folder_temp_path(s->folder), s->out.index_name, &path,
				    s->err);
	if (rc == 0 && dry)
		s->total += text.len;
	else if (rc == 0 && text.len)
		rc = ckpt_set_write_file(s->folder, path, &text, flags,
					 ckpt_model_mode(s->out.model), s->err);
	if (rc == 0 && !dry && s->out.o->progress)
		show_progress(s, text.len, 0);
	free(path);
	ckpt_buf_clear(&text);
	return rc;
}

/* Once without writing: what cannot be written is found before there is a byte of it. */
static int write_all(struct hf_saver *s)
{
	int rc = write_shards(s, true);

	if (rc == 0)
		rc = write_index(s, true);
	if (rc < 0 || s->out.o->flags & CKPT_SAVE_DRY_RUN)
		return rc;
	rc = write_shards(s, false);
	if (rc == 0)
		rc = write_index(s, false);
	if (rc == 0)
		rc = ckpt_set_write_side_files(s->folder, s->out.o, ckpt_model_mode(s->out.model), s->err);
	return rc == 0 ? ckpt_model_check_saved(s->out.model, s->out.o->flags, s->err) : rc;
}

/* ---- choices ---- */

static int choose_kind(struct hf_saver *s)
{
	const struct ckpt_model *model = s->out.model;
	const char *format = s->out.o->format;

	if (format && strcmp(format, "safetensors") && strcmp(format, "torch"))
		return ckpt_fail(
			s->err, CKPT_E_ARG,
			"format '%.40s': a set of shards is one of 'safetensors' or 'torch'",
			format);
	if (model->doc->format == &ckpt_format_hf) /* all files of a set are of one kind */
		model = ckpt_hf_of(model)->shards[0];
	s->out.safetensors = format ? !strcmp(format, "safetensors")
				    : model->doc->format == &ckpt_format_safetensors;
	return 0;
}

static int plan(struct hf_saver *s)
{
	const struct ckpt_model *model = s->out.model;
	uint64_t limit = s->out.o->shard_size;
	int rc = ckpt_hf_out_list(&s->out, s->err);

	if (!limit && model->doc->format == &ckpt_format_hf)
		limit = ckpt_hf_out_limit(model);
	if (rc == 0)
		rc = ckpt_hf_pack(s->out.items, s->out.count, limit ? limit : UINT64_MAX,
				  &s->out.packing, s->err);
	return ckpt_error_at(s->err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}

static int save_set(struct hf_saver *s, const char *path)
{
	const struct ckpt_save_options *o = s->out.o;
	const struct ckpt_folder_own own = { is_own, &s->out };
	unsigned flags = ckpt_set_folder_flags(o);
	int rc = ckpt_set_check_not_input(s->out.model, path, s->err);
	uint64_t beside;

	if (rc == 0)
		rc = check_side_files(s, &beside);
	if (rc == 0)
		rc = ckpt_folder_check(path, &own, flags, s->err);
	if (rc == 0)
		rc = plan(s);
	if (rc == 0)
		rc = ckpt_folder_open(path, &own, s->out.packing.nbytes + beside, flags,
				      ckpt_model_folder_mode(s->out.model), &s->folder, s->err);
	if (rc == 0)
		rc = write_all(s);
	if (rc == 0 && !(o->flags & CKPT_SAVE_DRY_RUN)) {
		ckpt_folder_set_save(s->folder, o);
		rc = ckpt_folder_commit(s->folder, s->err);
		s->folder = NULL;
	}
	return rc;
}

int ckpt_hf_save(const struct ckpt_model *model, const char *path,
		 const struct ckpt_save_options *options, struct ckpt_save_report *report,
		 struct ckpt_error *err)
{
	struct hf_saver s = { .out = { .model = model, .o = &s.o }, .o = *options, .err = err };
	int rc = choose_kind(&s);

	/* what shared its bytes goes on to */
	if (s.o.shared == CKPT_SHARED_DEFAULT && model->doc->format == &ckpt_format_hf &&
	    ckpt_hf_of(model)->index.alias_count)
		s.o.shared = CKPT_SHARED_ALIAS;
	if (rc == 0) {
		ckpt_hf_out_choose_names(&s.out);
		rc = save_set(&s, path);
	}
	report->nbytes = report->written = s.total;
	report->others = s.out.others;
	report->cloned = s.out.list.cloned;
	report->aliased = s.out.list.aliased;
	report->shards = s.out.packing.shard_count;
	ckpt_folder_discard(s.folder);
	ckpt_hf_out_clear(&s.out);
	return ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}
