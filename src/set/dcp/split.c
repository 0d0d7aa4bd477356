/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a new DCP directory for a number of ranks: a dimension of every tensor is cut as
 * torch.chunk() does it, and rank r's part goes to __r_0.distcp, so that r ranks with such shards
 * open only their own file. Small tensors and scalars go as they are to the rank that has least so
 * far (set/cut.c); other values stand in the first file.
 *
 * Entries with the very same tensor share its chunks (`alias_of`). Chunks are numbered entry by
 * entry; `order` and `starts` list them file by file. The index is written after all data files,
 * since only writing an item says where it is and how long: a dry run does the same without a file.
 */
#include "set/dcp/save.h"

#include "base/paths.h"
#include "base/text.h"
#include "model/casts.h"
#include "set/cut.h"
#include "set/dcp/copy_files.h"
#include "set/dcp/item_writer.h"
#include "set/out.h"
#include "tensor/shape.h"
#include "zipfmt/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 120 };
static const uint64_t ITEM_ROOM = 2048; /* what an item takes beside its data, about */

struct dcp_splitter {
	const struct ckpt_model *model;
	const struct ckpt_save_options *o;
	struct ckpt_dcp_out out;
	struct ckpt_cutter cutter;
	struct ckpt_strmap ties;
	uint64_t *order, *starts; /* chunks by file, and where each file's begin */
	uint32_t *owners;	  /* entry of each chunk */
	struct ckpt_folder *folder;
	struct ckpt_dcp_copier others; /* FROM NULL: the model is no directory */
	struct ckpt_checks *checks;
	uint64_t done; /* bytes of finished files */
	unsigned mode; /* of the files */
	struct ckpt_error *err;
};

/* ---- where everything goes ---- */

static int add_part(struct dcp_splitter *s, const struct ckpt_cut *cut, uint32_t i)
{
	uint32_t ndim = cut->tensor->ndim;
	uint64_t *offset = ckpt_arena_calloc(s->out.arena, ndim + (uint64_t)1, sizeof(*offset));
	uint64_t *shape = ckpt_arena_calloc(s->out.arena, ndim + (uint64_t)1, sizeof(*shape));
	struct ckpt_dcp_out_chunk chunk = { .offset = offset,
					    .shape = shape,
					    .file = cut->first_rank + i };

	if (!offset || !shape)
		return ckpt_arena_fail(s->out.arena, s->err);
	ckpt_cut_part(cut, i, offset, shape);
	return ckpt_dcp_out_add_chunk(&s->out, &chunk, s->err);
}

/* The first entry with this very tensor, or UINT32_MAX: this is the first. */
static int find_tie(struct dcp_splitter *s, uint32_t entry, uint32_t *out)
{
	const struct ckpt_tensor *t = &s->out.entries[entry].tensor;
	size_t dims = t->ndim * sizeof(uint64_t), len = 4 * sizeof(uint64_t) + 2 * dims;
	uint8_t *key = ckpt_arena_alloc(s->out.arena, len);
	uint64_t head[4] = { (uint64_t)t->storage, t->offset,
			     ((uint64_t)t->dtype << 2) | ((uint64_t)t->is_neg << 1) | t->is_conj,
			     t->ndim };
	uint64_t *slot;
	bool there;

	*out = UINT32_MAX;
	if (!key)
		return ckpt_arena_fail(s->out.arena, s->err);
	memcpy(key, head, sizeof(head));
	if (dims) {
		memcpy(key + sizeof(head), t->shape, dims);
		memcpy(key + sizeof(head) + dims, t->stride, dims);
	}
	slot = ckpt_strmap_insert(&s->ties, (char *)key, len, entry, &there);
	if (!slot)
		return ckpt_fail_nomem(s->err);
	if (there)
		*out = (uint32_t)*slot;
	return 0;
}

static int place_tensor(struct dcp_splitter *s, uint32_t entry)
{
	struct ckpt_dcp_out_entry *e = &s->out.entries[entry];
	const struct ckpt_tensor *t = &e->tensor;
	struct ckpt_cut cut;
	bool empty = ckpt_shape_is_empty(t->shape, t->ndim);
	int rc = 0;

	if (ckpt_dtype_packed(t->dtype) > 1 || t->storage < 0)
		return ckpt_fail(s->err, CKPT_E_UNSUPPORTED, "'%.*s' cannot be cut into shards",
				 (int)(e->fqn_len < SHOWN ? e->fqn_len : SHOWN), e->fqn);
	e->first_chunk = s->out.chunk_count;
	if (!empty)
		rc = find_tie(s, entry, &e->alias_of);
	if (rc < 0 || empty || e->alias_of != UINT32_MAX)
		return rc;
	cut = ckpt_cutter_cut(&s->cutter, t);
	for (uint32_t i = 0; rc == 0 && i < cut.count; i++)
		rc = add_part(s, &cut, i);
	e->chunk_count = s->out.chunk_count - e->first_chunk;
	return rc;
}

static int place_value(struct dcp_splitter *s, uint32_t entry)
{
	struct ckpt_dcp_out_chunk chunk = { .file = 0 };

	s->out.entries[entry].first_chunk = s->out.chunk_count;
	s->out.entries[entry].chunk_count = 1;
	return ckpt_dcp_out_add_chunk(&s->out, &chunk, s->err);
}

static int place_all(struct dcp_splitter *s)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < s->out.entry_count; i++)
		rc = s->out.entries[i].is_tensor ? place_tensor(s, i) : place_value(s, i);
	return rc;
}

/* The chunks of each file: values that are no tensors first, as torch writes them. */
static int sort_by_file(struct dcp_splitter *s)
{
	uint32_t files = s->out.file_count;
	uint64_t count = s->out.chunk_count;

	s->order = malloc((count + 1) * sizeof(*s->order));
	s->owners = malloc((count + 1) * sizeof(*s->owners));
	s->starts = calloc(files + (size_t)2, sizeof(*s->starts));
	if (!s->order || !s->owners || !s->starts)
		return ckpt_fail_nomem(s->err);
	for (uint32_t n = 0; n < s->out.entry_count; n++)
		for (uint64_t i = 0; i < s->out.entries[n].chunk_count; i++)
			s->owners[s->out.entries[n].first_chunk + i] = n;
	for (uint64_t i = 0; i < count; i++)
		s->starts[s->out.chunks[i].file + 2]++;
	for (uint32_t f = 2; f < files + 2; f++)
		s->starts[f] += s->starts[f - 1];
	for (int tensors = 0; tensors < 2; tensors++)
		for (uint64_t i = 0; i < count; i++)
			if (s->out.entries[s->owners[i]].is_tensor == (tensors == 1))
				s->order[s->starts[s->out.chunks[i].file + 1]++] = i;
	return 0;
}

static int name_files(struct dcp_splitter *s)
{
	uint32_t ranks = s->cutter.ranks;

	s->out.files = ckpt_arena_calloc(s->out.arena, ranks, sizeof(char *));
	if (!s->out.files)
		return ckpt_arena_fail(s->out.arena, s->err);
	for (uint32_t i = 0; i < ranks; i++) {
		char name[32];
		int len = snprintf(name, sizeof(name), "__%" PRIu32 "_0.distcp", i);

		s->out.files[i] = ckpt_arena_copy(s->out.arena, name, (uint64_t)len);
		if (!s->out.files[i])
			return ckpt_arena_fail(s->out.arena, s->err);
	}
	s->out.file_count = ranks;
	return 0;
}

/* ---- writing ---- */

static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
	const struct dcp_splitter *s = ctx;

	(void)total;
	done += s->done; /* with the heads of items, which the total of the values does not have */
	if (done > s->cutter.total)
		done = s->cutter.total;
	if (s->o->progress)
		s->o->progress(s->o->progress_ctx, done, s->cutter.total);
}

static int write_item(struct dcp_splitter *s, struct ckpt_dcp_item_writer *w, uint64_t chunk)
{
	const struct ckpt_dcp_out_entry *e = &s->out.entries[s->owners[chunk]];
	char shown[SHOWN];
	int rc;

	if (e->is_tensor)
		rc = ckpt_dcp_write_tensor(w, &e->tensor, &s->out.chunks[chunk], s->err);
	else
		rc = ckpt_dcp_write_value(w, e->value, &s->out.chunks[chunk], s->err);
	if (rc == 0 || !s->err || s->err->path[0])
		return rc;
	return ckpt_error_prefix(s->err, rc,
				 "'%s': ", ckpt_escape(shown, sizeof(shown), e->fqn, e->fqn_len));
}

static int write_items(struct dcp_splitter *s, uint32_t file, struct ckpt_mover *mover,
		       uint64_t *size)
{
	struct ckpt_dcp_item_writer w = { s->model, mover,
					  s->o->alignment ? s->o->alignment : CKPT_ZIP_ALIGNMENT,
					  0 };
	uint64_t end = s->starts[file + 1];
	int rc = 0;

	for (uint64_t i = file ? s->starts[file] : 0; rc == 0 && i < end; i++)
		rc = write_item(s, &w, s->order[i]);
	if (rc == 0 && mover)
		rc = ckpt_mover_flush(mover, s->err);
	*size = w.off;
	return rc;
}

static int write_data_file(struct dcp_splitter *s, uint32_t file, uint64_t *size)
{
	struct ckpt_mover_options options = { .progress = show_progress,
					      .ctx = s,
					      .cancel = s->o->cancel,
					      .threads = s->o->threads,
					      .checks = s->checks };
	struct ckpt_mover *mover = NULL;
	struct ckpt_sink *sink = NULL;
	char *path;
	int rc =
		ckpt_path_join(ckpt_folder_temp_path(s->folder), s->out.files[file], &path, s->err);

	if (rc == 0)
		rc = ckpt_sink_open(path, 0, 0, ckpt_set_sink_flags(s->o->flags), s->mode, &sink,
				    s->err);
	if (rc == 0)
		rc = ckpt_mover_open(sink, &options, &mover, s->err);
	if (rc == 0)
		rc = write_items(s, file, mover, size);
	ckpt_mover_close(mover);
	rc = ckpt_folder_end_file(s->folder, sink, rc, s->err);
	free(path);
	return rc;
}

static int write_files(struct dcp_splitter *s, uint64_t *total)
{
	int rc = ckpt_checks_new(&s->checks, s->err);

	for (uint32_t i = 0; rc == 0 && i < s->out.file_count; i++) {
		uint64_t size;

		rc = s->folder ? write_data_file(s, i, &size) : write_items(s, i, NULL, &size);
		*total += size;
		s->done += size;
	}
	return rc < 0 ? rc : ckpt_checks_finish(s->checks, s->o->cancel, s->o->threads, s->err);
}

static int write_index(struct dcp_splitter *s, uint64_t *total)
{
	struct ckpt_buf index = { 0 };
	char *path = NULL;
	int rc = ckpt_dcp_emit_index(&s->out, &index, s->err);

	*total += index.len;
	if (rc == 0 && s->folder)
		rc = ckpt_path_join(ckpt_folder_temp_path(s->folder), ".metadata", &path, s->err);
	if (rc == 0 && s->folder)
		rc = ckpt_set_write_file(s->folder, path, &index, ckpt_set_sink_flags(s->o->flags),
					 s->mode, s->err);
	free(path);
	ckpt_buf_clear(&index);
	return rc;
}

/* A directory that is cut anew keeps what lies in it beside its shards. */
static int write_others(struct dcp_splitter *s, uint64_t *total)
{
	int rc;

	if (!s->others.from)
		return 0;
	s->others.dry = !s->folder;
	if (s->folder) {
		s->others.folder = s->folder;
		s->others.to = ckpt_folder_temp_path(s->folder);
	}
	s->others.done = s->others.total = s->done;
	rc = ckpt_dcp_copy_others(&s->others);
	*total += s->others.written;
	return rc;
}

static int plan(struct dcp_splitter *s)
{
	int rc = ckpt_dcp_flatten_model(s->model, &s->out, s->err);

	if (rc == 0)
		rc = ckpt_cutter_init(&s->cutter, s->o, s->err);
	if (rc == 0)
		rc = name_files(s);
	if (rc == 0)
		rc = place_all(s);
	return rc == 0 ? sort_by_file(s) : rc;
}

static void clear_splitter(struct dcp_splitter *s)
{
	ckpt_folder_discard(s->folder);
	ckpt_checks_free(s->checks);
	ckpt_dcp_out_clear(&s->out);
	ckpt_strmap_clear(&s->ties);
	ckpt_cutter_clear(&s->cutter);
	free(s->order);
	free(s->owners);
	free(s->starts);
}

int ckpt_dcp_save_split(const struct ckpt_model *model, const char *path,
			const struct ckpt_save_options *options, struct ckpt_save_report *report,
			struct ckpt_error *err)
{
	struct dcp_splitter s = { .model = model,
				  .o = options,
				  .mode = ckpt_model_mode(model),
				  .err = err,
				  .others = { .to = path, .o = options, .err = err } };
	const struct ckpt_dcp *dcp =
		model->doc->format == &ckpt_format_dcp ? ckpt_dcp_of(model) : NULL;
	const struct ckpt_folder_own own = { dcp ? ckpt_dcp_is_copied : ckpt_dcp_is_own,
					     &s.others };
	unsigned flags = ckpt_set_folder_flags(options);
	uint64_t total = 0;
	int rc;

	if (dcp) {
		s.others.from = dcp->path;
		s.others.data_files = &dcp->index.file_by_name;
	}
	rc = ckpt_dcp_check_target(model, path, &own, options, err);
	if (rc == 0)
		rc = ckpt_set_check_source(model, err);
	if (rc == 0)
		rc = plan(&s);
	rc = ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
	if (rc == 0 && !(options->flags & CKPT_SAVE_DRY_RUN))
		rc = ckpt_folder_open(path, &own,
				      s.cutter.total + ITEM_ROOM * s.out.chunk_count, flags,
				      ckpt_model_folder_mode(model), &s.folder, err);
	if (rc == 0)
		rc = write_files(&s, &total);
	if (rc == 0)
		rc = write_others(&s, &total);
	if (rc == 0)
		rc = write_index(&s, &total);
	if (rc == 0)
		rc = ckpt_model_check_saved(model, options->flags, err);
	rc = ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
	if (rc == 0 && s.folder) {
		ckpt_folder_set_save(s.folder, options);
		rc = ckpt_folder_commit(s.folder, err);
		s.folder = NULL;
	}
	report->nbytes = report->written = total;
	clear_splitter(&s);
	return rc;
}
