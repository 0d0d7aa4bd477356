/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public questions about tensors and storages, and the public walk: <ckpt/model.h> over the
 * model. It fills in what callers see and decides nothing.
 *
 * Each `info` and `item` begins with the caller's size (base/sized.h): a new member goes to the
 * end of its struct. Texts point into the model, or into buffers that last until the next call of
 * the visitor.
 */
#include "base/sized.h"
#include "model/describe.h"
#include "model/find.h"
#include "tensor/byteswap.h"
#include "tensor/shape.h"

#include <ckpt/model.h>

#include <stdlib.h>
#include <string.h>

int ckpt_list_tensors(const struct ckpt_model *model, struct ckpt_error *err)
{
	return ckpt_model_has_tensors(model) ? 0 : ckpt_fail_nomem(err);
}

uint64_t ckpt_tensor_count(const struct ckpt_model *model)
{
	return ckpt_model_has_tensors(model) ? model->tensor_count : 0;
}

static const char *layout_of(const struct ckpt_tensor *t)
{
	switch (t->kind) {
	case CKPT_KIND_STRIDED: return "strided";
	case CKPT_KIND_QUANTIZED: return "quantized";
	case CKPT_KIND_SPARSE:
	case CKPT_KIND_NESTED: return t->layout;
	case CKPT_KIND_META: return "meta";
	case CKPT_KIND_NUMPY: return "numpy";
	case CKPT_KIND_WRAPPER: return "wrapper";
	case CKPT_KIND_UNINITIALIZED: return "uninitialized";
	}
	return "";
}

static uint64_t numel_of(const struct ckpt_tensor *t)
{
	return t->kind == CKPT_KIND_UNINITIALIZED ? 0 : ckpt_shape_numel(t->shape, t->ndim);
}

static uint64_t nbytes_of_items(const struct ckpt_tensor *t, uint64_t numel)
{
	uint32_t packed = ckpt_dtype_packed(t->dtype);
	uint64_t nbytes;

	if (__builtin_mul_overflow(numel, (uint64_t)ckpt_dtype_size(t->dtype), &nbytes))
		return UINT64_MAX;
	return nbytes / packed + (nbytes % packed != 0);
}

static uint64_t nbytes_of(const struct ckpt_model *model, const struct ckpt_tensor *t,
			  uint64_t numel)
{
	struct ckpt_tensor inner;
	struct ckpt_arena *scratch;
	uint64_t nbytes = 0;

	if (t->kind == CKPT_KIND_META || t->kind == CKPT_KIND_UNINITIALIZED)
		return 0;
	if (t->local) { /* what is stored of a sparse or distributed tensor */
		scratch = ckpt_arena_new(1 << 20);
		if (scratch && ckpt_tensor_parse(model, t->local, scratch, &inner, NULL) > 0)
			nbytes = nbytes_of_items(&inner, numel_of(&inner));
		ckpt_arena_free(scratch);
		return nbytes;
	}
	return nbytes_of_items(t, numel);
}

static bool is_turned_alone(const struct ckpt_model *model, const struct ckpt_tensor *t)
{
	const struct ckpt_storage *s = t->storage >= 0 ? &model->storages[t->storage] : NULL;

	return model->doc->big_endian && s && !s->made && t->kind == CKPT_KIND_STRIDED &&
	       ckpt_byteswap_width(t->dtype) != ckpt_byteswap_width(s->dtype);
}

void ckpt_tensor_describe(const struct ckpt_model *model, const struct ckpt_tensor *t,
			  struct ckpt_tensor_info *out)
{
	*out = (struct ckpt_tensor_info)CKPT_TENSOR_INFO_INIT;
	out->name = t->name;
	out->dtype = ckpt_dtype_name(t->dtype);
	out->itemsize = ckpt_dtype_size(t->dtype);
	out->ndim = t->ndim;
	out->shape = t->shape;
	out->stride = t->stride;
	out->offset = t->offset;
	out->numel = numel_of(t);
	out->nbytes = nbytes_of(model, t, out->numel);
	out->storage = t->storage;
	out->storage_nbytes = t->storage >= 0 ? model->storages[t->storage].nbytes : 0;
	out->device = t->device ? t->device : "";
	out->layout = layout_of(t);
	out->class_name = t->class_name;
	out->flags = (t->requires_grad ? CKPT_TENSOR_REQUIRES_GRAD : 0u) |
		     (t->is_parameter ? CKPT_TENSOR_PARAMETER : 0u) |
		     (t->is_conj ? CKPT_TENSOR_CONJ : 0u) | (t->is_neg ? CKPT_TENSOR_NEG : 0u) |
		     (is_turned_alone(model, t) ? CKPT_TENSOR_TURNED_ALONE : 0u);
}

int ckpt_tensor_get(const struct ckpt_model *model, uint64_t i, struct ckpt_tensor_info *out)
{
	struct ckpt_tensor_info info;

	if (!ckpt_model_has_tensors(model) || i >= model->tensor_count ||
	    ckpt_sized_check(out, sizeof(info), NULL) < 0)
		return CKPT_E_ARG;
	ckpt_tensor_describe(model, &model->tensors[i], &info);
	ckpt_sized_give(out, &info, sizeof(info));
	return 0;
}

uint64_t ckpt_storage_count(const struct ckpt_model *model)
{
	return model->storage_count;
}

uint64_t ckpt_storage_bytes(const struct ckpt_model *model)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < model->storage_count; i++)
		if (__builtin_add_overflow(total, model->storages[i].nbytes, &total))
			return UINT64_MAX;
	return total;
}

/* ---- walking ---- */

struct item_visitor {
	int (*visit)(void *ctx, const struct ckpt_item *item);
	void *ctx;
	struct ckpt_describer describer;
};

static int visit_item(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct item_visitor *iv = ctx;
	struct ckpt_item item = { .size = sizeof(item),
				  .name = step->name,
				  .depth = (uint32_t)step->depth,
				  .seen = step->seen };

	if (ckpt_describe(&iv->describer, step->value, &item, err) < 0)
		return CKPT_E_NOMEM;
	if (item.kind == CKPT_ITEM_TENSOR ||
	    (item.kind == CKPT_ITEM_VALUE && step->value->kind == CKPT_CALL)) {
		int rc = iv->visit(iv->ctx, &item);

		return rc < 0 ? rc : CKPT_WALK_SKIP;
	}
	return iv->visit(iv->ctx, &item);
}

int ckpt_walk(const struct ckpt_model *model, int (*visit)(void *ctx, const struct ckpt_item *item),
	      void *ctx, struct ckpt_error *err)
{
	struct item_visitor iv = { .visit = visit, .ctx = ctx, .describer = { .model = model } };
	int rc = ckpt_model_walk(model, visit_item, &iv, err);

	ckpt_describer_clear(&iv.describer);
	return rc;
}

int ckpt_find(const struct ckpt_model *model, const char *name,
	      int (*visit)(void *ctx, const struct ckpt_item *item), void *ctx,
	      struct ckpt_error *err)
{
	struct ckpt_describer describer = { .model = model };
	struct ckpt_item item = { .size = sizeof(item), .name = name };
	const struct ckpt_value *found;
	int rc = ckpt_model_find(model, name, &found, err);

	if (rc == 0)
		rc = ckpt_describe(&describer, found, &item, err);
	if (rc == 0)
		rc = visit(ctx, &item);
	ckpt_describer_clear(&describer);
	return rc < 0 ? rc : 0;
}
