/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the values of a tensor, of one of numpy's arrays, or of a bare storage: the public
 * functions of <ckpt/read.h> but those that read. fill.c finds out where the items are and which
 * steps make values of them; read.c reads.
 *
 * An array holds a reference to its model and owns an arena. Everything in it points into one of
 * the two, so nothing here is freed on its own, and the model may be closed before the array. A
 * part (the indices of a sparse tensor, say) is an array of its own: it outlives the one it was
 * asked of.
 */
#include "array/array.h"

#include "base/flags.h"
#include "base/sized.h"
#include "base/text.h"
#include "model/find.h"
#include "tensor/shape.h"

#include <ckpt/node.h>

#include <stdlib.h>
#include <string.h>

/* All that is in it is in proportion to the pickle, or to a storage whose numbers are packed. */
static const uint64_t arena_budget = (uint64_t)1 << 34;

int ckpt_array_new(const struct ckpt_model *model, const char *name, unsigned flags,
		   struct ckpt_array **out, struct ckpt_error *err)
{
	struct ckpt_array *a = calloc(1, sizeof(*a));

	*out = a;
	if (!a)
		return ckpt_fail_nomem(err);
	a->model = (struct ckpt_model *)model; /* only its count of references changes */
	a->model->refs++;
	a->flags = flags;
	a->arena = ckpt_arena_new(arena_budget);
	a->name = a->arena ? ckpt_arena_copy(a->arena, name, strlen(name)) : NULL;
	if (a->name)
		return 0;
	ckpt_array_close(a);
	*out = NULL;
	return ckpt_fail_nomem(err);
}

void ckpt_array_close(struct ckpt_array *a)
{
	if (!a)
		return;
	ckpt_arena_free(a->arena);
	ckpt_close(a->model);
	free(a);
}

/* ---- the public functions ---- */

int ckpt_array_fail_named(const struct ckpt_model *model, const char *name, int rc,
			  struct ckpt_error *err)
{
	char shown[160];

	if (!err || err->named || rc == CKPT_E_NOMEM || !*name)
		return rc;
	ckpt_error_prefix(err, rc, "'%s' ", ckpt_escape(shown, sizeof(shown), name, strlen(name)));
	err->named = true;
	return ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}

int ckpt_array_open_value(const struct ckpt_model *model, const struct ckpt_value *v,
			  const char *name, unsigned flags, struct ckpt_array **out,
			  struct ckpt_error *err)
{
	int rc = ckpt_array_new(model, name, flags, out, err);

	if (rc == 0)
		rc = ckpt_array_fill(*out, v, err);
	if (rc == 0)
		return 0;
	ckpt_array_close(*out);
	*out = NULL;
	return ckpt_array_fail_named(model, name, rc, err);
}

int ckpt_array_of_storage(const struct ckpt_model *model, int64_t storage, const char *name,
			  struct ckpt_array **out, struct ckpt_error *err)
{
	const struct ckpt_storage *s = &model->storages[storage];
	int rc = ckpt_array_new(model, name, 0, out, err);
	uint64_t *dims;

	if (rc < 0)
		return rc;
	dims = ckpt_arena_calloc((*out)->arena, 2, sizeof(*dims));
	if (dims) {
		dims[0] = s->numel;
		dims[1] = 1;
		(*out)->kind = "storage";
		(*out)->dtype = ckpt_dtype_name(s->dtype);
		(*out)->t = (struct ckpt_tensor){ .kind = CKPT_KIND_STRIDED,
						  .dtype = s->dtype,
						  .ndim = 1,
						  .shape = dims,
						  .stride = dims + 1,
						  .storage = storage,
						  .device = s->location };
		rc = ckpt_array_set_items(*out, &(*out)->t, err);
		ckpt_array_choose_dtype(*out, s->dtype);
	} else {
		rc = ckpt_arena_fail((*out)->arena, err);
	}
	if (rc == 0)
		return 0;
	ckpt_array_close(*out);
	*out = NULL;
	return ckpt_array_fail_named(model, name, rc, err);
}

int ckpt_node_array(const struct ckpt_model *model, const struct ckpt_node *node, const char *name,
		    unsigned flags, struct ckpt_array **out, struct ckpt_error *err)
{
	int rc = ckpt_flags_check(flags, CKPT_ARRAY_FOR_NUMPY, err);

	*out = NULL;
	if (rc == 0)
		rc = ckpt_model_whole(&model, err);
	return rc < 0 ? rc
		      : ckpt_array_open_value(model, (const struct ckpt_value *)node, name, flags,
					      out, err);
}

int ckpt_array_find(const struct ckpt_model *model, const char *name, unsigned flags,
		    struct ckpt_array **out, struct ckpt_error *err)
{
	int rc = ckpt_flags_check(flags, CKPT_ARRAY_FOR_NUMPY, err);
	const struct ckpt_value *v;

	if (rc == 0)
		rc = ckpt_model_whole(&model, err);
	if (rc == 0)
		rc = ckpt_model_find(model, name, &v, err);
	*out = NULL;
	if (rc == 0)
		return ckpt_array_open_value(model, v, name, flags, out, err);
	return ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}

int ckpt_array_open(const struct ckpt_model *model, uint64_t i, unsigned flags,
		    struct ckpt_array **out, struct ckpt_error *err)
{
	int rc = ckpt_flags_check(flags, CKPT_ARRAY_FOR_NUMPY, err);

	if (rc == 0)
		rc = ckpt_model_whole(&model, err);
	*out = NULL;
	if (rc < 0)
		return rc;
	rc = ckpt_list_tensors(model, err);
	if (rc < 0)
		return rc;
	if (i >= ckpt_tensor_count(model))
		return ckpt_fail(err, CKPT_E_ARG, "there is no such tensor");
	return ckpt_array_open_value(model, model->tensors[i].value, model->tensors[i].name, flags,
				     out, err);
}

/* A list of numbers stands where older torch had no tensor. */
static int fill_list(const struct ckpt_array *a, const struct ckpt_value *v,
		     struct ckpt_array *part, struct ckpt_error *err)
{
	uint64_t *dims = ckpt_arena_calloc(part->arena, 2, sizeof(*dims));
	double *numbers = ckpt_arena_calloc(part->arena, v->u.seq.count + 1u, sizeof(*numbers));

	if (!dims || !numbers)
		return ckpt_arena_fail(part->arena, err);
	for (uint32_t i = 0; i < v->u.seq.count; i++) {
		const struct ckpt_value *item = ckpt_model_now(a->model, v->u.seq.items[i]);

		if (item->kind != CKPT_INT && item->kind != CKPT_FLOAT)
			return ckpt_fail(err, CKPT_E_FORMAT, "is a list of more than numbers");
		numbers[i] = item->kind == CKPT_INT ? (double)item->u.integer : item->u.real;
	}
	dims[0] = v->u.seq.count;
	dims[1] = 1;
	part->kind = "tensor";
	part->dtype = "float64";
	part->t = (struct ckpt_tensor){ .kind = CKPT_KIND_STRIDED,
					.dtype = CKPT_DTYPE_FLOAT64,
					.ndim = 1,
					.shape = dims,
					.storage = -1,
					.device = "cpu" };
	part->items = (struct ckpt_items){ .bytes = { .kind = CKPT_RECIPE_MEMORY,
						      .memory = numbers,
						      .len = dims[0] * sizeof(*numbers) },
					   .itemsize = 8,
					   .ndim = 1,
					   .shape = dims,
					   .stride = dims + 1 };
	ckpt_array_choose_dtype(part, CKPT_DTYPE_FLOAT64);
	return ckpt_items_check(&part->items, err);
}

static int fill_part(const struct ckpt_array *a, const struct ckpt_array_part_value *which,
		     struct ckpt_array *part, struct ckpt_error *err)
{
	int rc;

	if (!strcmp(which->name, "int_repr")) {
		part->kind = "tensor";
		rc = ckpt_tensor_parse(a->model, which->value, part->arena, &part->t, err);
		if (rc < 0)
			return rc;
		return ckpt_array_quantized(part, ckpt_tensor_args(a->model, which->value), true,
					    err);
	}
	if (which->value->kind == CKPT_LIST || which->value->kind == CKPT_TUPLE)
		return fill_list(a, which->value, part, err);
	rc = ckpt_array_fill(part, which->value, err);
	if (rc == 0 && part->t.kind != CKPT_KIND_STRIDED)
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED, "is no plain tensor");
	return rc;
}

int ckpt_array_part(const struct ckpt_array *a, const char *name, struct ckpt_array **out,
		    struct ckpt_error *err)
{
	struct ckpt_array *part;
	char shown[80];
	int rc;

	*out = NULL;
	for (uint32_t i = 0; i < a->part_count; i++) {
		if (strcmp(a->parts[i].name, name) != 0)
			continue;
		rc = ckpt_array_new(a->model, a->name, a->flags, &part, err);
		if (rc < 0)
			return rc;
		rc = fill_part(a, &a->parts[i], part, err);
		if (rc == 0) {
			*out = part;
			return 0;
		}
		ckpt_array_close(part);
		ckpt_error_prefix(err, rc, "'%s' ", a->parts[i].name);
		return ckpt_array_fail_named(a->model, a->name, rc, err);
	}
	return ckpt_fail(err, CKPT_E_NOTFOUND, "it has no part '%s'",
			 ckpt_escape(shown, sizeof(shown), name, strlen(name)));
}

static const char *layout_of(const struct ckpt_array *a)
{
	switch (a->t.kind) {
	case CKPT_KIND_QUANTIZED: return "quantized";
	case CKPT_KIND_SPARSE:
	case CKPT_KIND_NESTED: return a->t.layout;
	case CKPT_KIND_META: return "meta";
	case CKPT_KIND_UNINITIALIZED: return "uninitialized";
	default: return "strided";
	}
}

uint64_t ckpt_array_numel(const struct ckpt_array *a)
{
	return ckpt_shape_numel(a->t.shape, a->t.ndim);
}

int ckpt_array_get(const struct ckpt_array *a, struct ckpt_array_info *out)
{
	struct ckpt_array_info info = CKPT_ARRAY_INFO_INIT;

	if (ckpt_sized_check(out, sizeof(info), NULL) < 0)
		return CKPT_E_ARG;
	info.kind = a->kind;
	info.dtype = a->dtype;
	info.reads = ckpt_dtype_name(a->reads);
	info.layout = layout_of(a);
	info.device = a->t.device ? a->t.device : "";
	info.class_name = a->t.class_name;
	info.wrapped = a->wrapped;
	info.itemsize = ckpt_dtype_size(a->reads);
	info.ndim = a->t.ndim;
	info.shape = a->t.shape;
	info.numel = a->t.kind == CKPT_KIND_UNINITIALIZED ? 0 : ckpt_array_numel(a);
	if (__builtin_mul_overflow(info.numel, (uint64_t)info.itemsize, &info.nbytes))
		info.nbytes = UINT64_MAX;
	info.readable = !a->why_not;
	for (uint32_t i = 0; i < a->part_count; i++)
		info.parts[i] = a->parts[i].name;
	info.qscheme = a->qscheme;
	info.scale = a->scale;
	info.zero_point = a->zero_point;
	info.axis = a->axis;
	ckpt_sized_give(out, &info, sizeof(info));
	return 0;
}
