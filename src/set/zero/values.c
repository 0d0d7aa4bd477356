/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a DeepSpeed file: opening it, and taking lists, numbers, shapes and plain tensors out
 * of its values, each with a message that names the field.
 *
 * `left` limits how many items may be read of a file: its lists can be shared, and a small file
 * must not mean very many. Every function that goes over a list takes it from here
 * (ckpt_zero_list(), ckpt_zero_mapping()), which pay for it.
 */
#include "set/zero/read.h"

#include "base/paths.h"
#include "base/text.h"
#include "model/state_dict.h"
#include "set/joined.h"
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 160, LEAST_ITEMS = 1024 };

/* ---- files ---- */

static int open_path(const char *path, struct ckpt_zero_file *file, struct ckpt_error *err)
{
	int rc = ckpt_source_open(path, &file->source, err);

	if (rc == 0)
		rc = ckpt_format_open(file->source, &file->model, err);
	if (rc < 0)
		return rc;
	file->nbytes = ckpt_source_size(file->source);
	file->pickle_nbytes = file->model->doc->pickle_len;
	if (file->model->doc->big_endian)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "is big-endian; 'ckpt convert' of this file turns it around");
	if (!ckpt_value_pairs(ckpt_model_now(file->model, file->model->root)))
		return ckpt_fail(err, CKPT_E_FORMAT, "holds no dict, as files of DeepSpeed do");
	return 0;
}

int ckpt_zero_open_file(struct ckpt_zero_reader *r, uint32_t i, const char *name)
{
	struct ckpt_zero_file *file = &r->zero->files[i];
	char *path;
	int rc;

	file->name = name;
	if (ckpt_path_join(r->zero->names.folder, name, &path, r->err) < 0)
		return CKPT_E_NOMEM;
	rc = ckpt_error_at(r->err, open_path(path, file, r->err), path, NULL, CKPT_NO_OFFSET);
	free(path);
	if (rc == 0)
		ckpt_zero_select_file(r, i);
	return rc;
}

void ckpt_zero_select_file(struct ckpt_zero_reader *r, uint32_t i)
{
	r->model = r->zero->files[i].model;
	r->left = LEAST_ITEMS + r->zero->files[i].pickle_nbytes;
}

void ckpt_zero_release_file(struct ckpt_zero_reader *r, uint32_t i)
{
	struct ckpt_zero_file *file = &r->zero->files[i];

	if (file->is_needed)
		return;
	ckpt_close(file->model);
	file->model = NULL;
}

/* ---- values ---- */

static int fail_kind(struct ckpt_zero_reader *r, const char *what, const char *wanted,
		     const struct ckpt_value *found)
{
	return ckpt_fail(r->err, CKPT_E_FORMAT, "'%s' is %s, wanted %s", what,
			 found ? ckpt_value_kind_name(found) : "not there", wanted);
}

const struct ckpt_value *ckpt_zero_field(const struct ckpt_zero_reader *r,
					 const struct ckpt_value *mapping, const char *key)
{
	const struct ckpt_value *v = ckpt_mapping_find(r->model, mapping, key);

	return v && v->kind != CKPT_NONE ? v : NULL;
}

static int count_items(struct ckpt_zero_reader *r, const char *what, const struct ckpt_seq *seq)
{
	if (seq->count > r->left)
		return ckpt_fail(r->err, CKPT_E_LIMIT,
				 "'%s' lists more than a file of this size can name", what);
	r->left -= seq->count;
	return 0;
}

int ckpt_zero_list(struct ckpt_zero_reader *r, const struct ckpt_value *v, const char *what,
		   const struct ckpt_seq **out)
{
	if (!v || (v->kind != CKPT_LIST && v->kind != CKPT_TUPLE))
		return fail_kind(r, what, "a list", v);
	*out = &v->u.seq;
	return count_items(r, what, *out);
}

int ckpt_zero_mapping(struct ckpt_zero_reader *r, const struct ckpt_value *v, const char *what,
		      const struct ckpt_seq **out)
{
	*out = v ? ckpt_value_pairs(v) : NULL;
	return *out ? count_items(r, what, *out) : fail_kind(r, what, "a dict", v);
}

int ckpt_zero_number(struct ckpt_zero_reader *r, const struct ckpt_value *v, const char *what,
		     uint64_t *out)
{
	if (!v || v->kind != CKPT_INT)
		return fail_kind(r, what, "a number", v);
	if (v->u.integer < 0)
		return ckpt_fail(r->err, CKPT_E_FORMAT, "'%s' is %" PRId64 ", wanted 0 or more",
				 what, v->u.integer);
	*out = (uint64_t)v->u.integer;
	return 0;
}

int ckpt_zero_shape(struct ckpt_zero_reader *r, const struct ckpt_value *v,
		    struct ckpt_zero_cut *out)
{
	const struct ckpt_seq *seq = NULL;
	uint64_t *dims;
	int rc = ckpt_zero_list(r, ckpt_value_unwrap_size(r->model, v), "shape", &seq);

	if (rc < 0)
		return rc;
	if (seq->count > CKPT_MOST_DIMS)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "its shape has %" PRIu32 " dimensions, torch has at most %d",
				 seq->count, CKPT_MOST_DIMS);
	dims = ckpt_arena_calloc(r->zero->arena, seq->count + (uint64_t)1, sizeof(*dims));
	if (!dims)
		return ckpt_arena_fail(r->zero->arena, r->err);
	for (uint32_t i = 0; rc == 0 && i < seq->count; i++)
		rc = ckpt_zero_number(r, ckpt_model_now(r->model, seq->items[i]), "shape",
				      &dims[i]);
	if (rc == 0)
		rc = ckpt_shape_check(dims, seq->count, sizeof(double), r->err);
	out->numel = rc == 0;
	for (uint32_t i = 0; rc == 0 && i < seq->count; i++)
		out->numel *= dims[i];
	out->shape = dims;
	out->ndim = seq->count;
	return rc;
}

/* ---- tensors ---- */

int ckpt_zero_tensor(struct ckpt_zero_reader *r, const struct ckpt_value *v,
		     struct ckpt_tensor *out, struct ckpt_recipe *bytes)
{
	int rc = ckpt_joined_local(r->model, v, r->zero->arena, out, bytes, r->err);

	if (rc == CKPT_E_UNSUPPORTED)
		return ckpt_fail(r->err, rc, "is %s, wanted a plain tensor",
				 v && !ckpt_value_is_tensor(r->model, v)
					 ? ckpt_value_kind_name(v)
					 : "a tensor of another kind");
	if (rc == 0 && bytes->kind != CKPT_RECIPE_EXTENT && bytes->kind != CKPT_RECIPE_MEMORY)
		for (uint32_t i = 0; i < r->zero->file_count; i++)
			r->zero->files[i].is_needed |= r->zero->files[i].model == r->model;
	return rc;
}

int ckpt_zero_add_flat(struct ckpt_zero_reader *r, const struct ckpt_value *v,
		       struct ckpt_zero_stream *stream)
{
	struct ckpt_tensor flat;
	struct ckpt_recipe bytes;
	int rc = ckpt_zero_tensor(r, v, &flat, &bytes);

	if (rc < 0)
		return rc;
	if (flat.ndim != 1 || (flat.shape[0] > 1 && flat.stride[0] != 1))
		return ckpt_fail(r->err, CKPT_E_UNSUPPORTED,
				 "is a tensor of %" PRIu32 " dimensions%s, wanted a flat vector",
				 flat.ndim, flat.ndim == 1 ? " with gaps" : "");
	return ckpt_zero_stream_add(stream, &flat, &bytes, r->err);
}

int ckpt_zero_fail_named(struct ckpt_zero_reader *r, int rc, const char *what, const char *name,
			 size_t len)
{
	char shown[SHOWN];

	return rc == 0 ? 0
		       : ckpt_error_prefix(r->err, rc, "%s '%s': ", what,
					   ckpt_escape(shown, sizeof(shown), name, len));
}
