/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes items of new DCP data files: a tensor's part, or another value, each as a small
 * torch.save archive that begins at a multiple of the alignment.
 *
 * With no mover nothing is written and only `off` moves on: a dry run and a real one must come to
 * the same offsets, which the index then has. An item is that of torch 2.6, whatever wrote the
 * input.
 */
#include "set/dcp/item_writer.h"

#include "format/torch_archive.h"
#include "resave/resave.h"
#include "set/cut.h"
#include "set/dcp/dcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_ROOM = 6 }; /* "data/" and a NUL */

bool ckpt_dcp_tensor_entry(const struct ckpt_model *model, const struct ckpt_tensor *t,
			   uint32_t *entry)
{
	const struct ckpt_storage *s = &model->storages[t->storage];
	const struct ckpt_dcp_place *place = s->record;
	const struct ckpt_dcp_entry *e;
	uint64_t step = 1;

	if (model->doc->format != &ckpt_format_dcp || s->made || !place || place->record)
		return false;
	*entry = place->entry;
	e = &ckpt_dcp_of(model)->index.entries[place->entry];
	if (t->offset || t->ndim != e->ndim || t->dtype != e->dtype)
		return false;
	for (uint32_t i = t->ndim; i-- > 0;) {
		if (t->shape[i] != e->shape[i] || (t->shape[i] > 1 && t->stride[i] != step))
			return false;
		step *= t->shape[i];
	}
	return !t->is_neg && !t->is_conj;
}

int ckpt_dcp_box(const struct ckpt_model *model, const struct ckpt_tensor *t,
		 const uint64_t *offset, const uint64_t *shape, struct ckpt_recipe *out,
		 struct ckpt_error *err)
{
	uint32_t entry;

	if (!ckpt_dcp_tensor_entry(model, t, &entry))
		return 1;
	return ckpt_dcp_box_bytes(ckpt_dcp_of(model), entry, offset, shape, out, err);
}

/* ---- items ---- */

static int put_padding(struct ckpt_dcp_item_writer *w, struct ckpt_error *err)
{
	static const uint8_t zeros[4096];
	uint64_t rest = w->off % w->alignment, len = rest ? w->alignment - rest : 0;

	w->off += len;
	return w->mover ? ckpt_mover_put(w->mover, zeros, (size_t)len, err) : 0;
}

/* Add the last records, lay the archive out, write it. */
static int finish_item(struct ckpt_dcp_item_writer *w, struct ckpt_torch_archive *a,
		       struct ckpt_dcp_out_chunk *chunk, struct ckpt_error *err)
{
	int rc = ckpt_torch_archive_add_text(a, "version", "3\n", err);

	if (rc == 0)
		rc = ckpt_torch_archive_add_id(a, err);
	if (rc == 0)
		rc = ckpt_zip_layout_compute(&a->layout, err);
	if (rc == 0)
		rc = put_padding(w, err);
	if (rc == 0 && w->mover)
		rc = ckpt_torch_archive_move(a, w->mover, err);
	chunk->off = w->off;
	chunk->len = a->layout.file_size;
	w->off += a->layout.file_size;
	return rc;
}

static void begin_archive(struct ckpt_torch_archive *a)
{
	ckpt_torch_archive_init(a);
	a->layout.archive_name = "archive";
	a->layout.alignment = CKPT_ZIP_ALIGNMENT;
	a->crc = true;
}

int ckpt_dcp_write_tensor(struct ckpt_dcp_item_writer *w, const struct ckpt_tensor *t,
			  struct ckpt_dcp_out_chunk *chunk, struct ckpt_error *err)
{
	struct ckpt_arena *arena = ckpt_arena_new(UINT64_MAX >> 1);
	struct ckpt_torch_archive a;
	struct ckpt_buf pickle = { 0 };
	struct ckpt_recipe bytes;
	int rc;

	if (!arena)
		return ckpt_fail_nomem(err);
	begin_archive(&a);
	ckpt_dcp_emit_tensor(t->dtype, chunk->shape, t->ndim, &pickle);
	rc = pickle.bad
		     ? ckpt_fail_nomem(err)
		     : ckpt_torch_archive_add_memory(&a, "data.pkl", pickle.data, pickle.len, err);
	if (rc == 0)
		rc = ckpt_torch_archive_add_text(&a, "byteorder", "little", err);
	if (rc == 0)
		rc = ckpt_cut_box(w->model, t, chunk->offset, chunk->shape, arena, &bytes, err);
	if (rc == 0)
		rc = ckpt_torch_archive_add(&a, "data/0", &bytes,
					    bytes.has_crc ? &bytes.crc32 : NULL, err);
	if (rc == 0)
		rc = finish_item(w, &a, chunk, err);
	ckpt_torch_archive_clear(&a);
	ckpt_buf_clear(&pickle);
	ckpt_arena_free(arena);
	return rc;
}

static int add_storage(const struct ckpt_model *model, const struct ckpt_resaved *resaved,
		       uint32_t i, struct ckpt_torch_archive *a, struct ckpt_error *err)
{
	const struct ckpt_storage *s = &model->storages[resaved->order[i]];
	size_t len = strlen(resaved->keys[i]) + KEY_ROOM;
	char *name = ckpt_arena_alloc(resaved->arena, len);
	struct ckpt_recipe bytes;
	int rc;

	if (!name)
		return ckpt_fail_nomem(err);
	snprintf(name, len, "data/%s", resaved->keys[i]);
	rc = ckpt_model_storage_bytes(model, s, &bytes, err);
	return rc < 0 ? rc
		      : ckpt_torch_archive_add(a, name, &bytes,
					       bytes.has_crc ? &bytes.crc32 : NULL, err);
}

int ckpt_dcp_write_value(struct ckpt_dcp_item_writer *w, const struct ckpt_value *value,
			 struct ckpt_dcp_out_chunk *chunk, struct ckpt_error *err)
{
	const struct ckpt_profile *profile = ckpt_profile_find("2.6");
	struct ckpt_resave_options options = { .protocol = 2,
					       .is_coalesced = profile->is_coalesced,
					       .empty_apart = profile->empty_apart,
					       .differentiable = profile->differentiable,
					       .python313 = profile->python313,
					       .python2_names =
						       w->model->doc->pickle.protocol > 2 };
	struct ckpt_model view = *w->model; /* its root is all that differs, and nothing keeps it */
	struct ckpt_resaved resaved;
	struct ckpt_torch_archive a;
	int rc;

	view.root = value;
	rc = ckpt_model_resave(&view, &options, &resaved, err);
	if (rc < 0)
		return rc;
	begin_archive(&a);
	rc = ckpt_torch_archive_add_memory(&a, "data.pkl", resaved.pickle.data, resaved.pickle.len,
					   err);
	if (rc == 0)
		rc = ckpt_torch_archive_add_text(&a, "byteorder", "little", err);
	for (uint32_t i = 0; rc == 0 && i < resaved.count; i++)
		rc = add_storage(w->model, &resaved, i, &a, err);
	if (rc == 0)
		rc = finish_item(w, &a, chunk, err);
	ckpt_torch_archive_clear(&a);
	ckpt_resaved_clear(&resaved);
	return rc;
}
