/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sized.h"
#include "base/text.h"
#include "model/find.h"
#include "model/module.h"
#include "model/numpy_value.h"

#include <ckpt/model.h>

#include <stdlib.h>
#include <string.h>

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
	uint64_t numel = 1;

	if (t->kind == CKPT_KIND_UNINITIALIZED)
		return 0;
	for (uint32_t i = 0; i < t->ndim; i++)
		if (!t->shape[i])
			return 0;
	for (uint32_t i = 0; i < t->ndim; i++)
		if (__builtin_mul_overflow(numel, t->shape[i], &numel))
			return UINT64_MAX;
	return numel;
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

int ckpt_tensor_get(const struct ckpt_model *model, uint64_t i, struct ckpt_tensor_info *out)
{
	struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;
	const struct ckpt_tensor *t;

	if (!ckpt_model_has_tensors(model) || i >= model->tensor_count ||
	    ckpt_sized_check(out, sizeof(info), NULL) < 0)
		return CKPT_E_ARG;
	t = &model->tensors[i];
	info.name = t->name;
	info.dtype = ckpt_dtype_name(t->dtype);
	info.itemsize = ckpt_dtype_size(t->dtype);
	info.ndim = t->ndim;
	info.shape = t->shape;
	info.stride = t->stride;
	info.offset = t->offset;
	info.numel = numel_of(t);
	info.nbytes = nbytes_of(model, t, info.numel);
	info.storage = t->storage;
	info.storage_nbytes = t->storage >= 0 ? model->storages[t->storage].nbytes : 0;
	info.device = t->device ? t->device : "";
	info.layout = layout_of(t);
	info.class_name = t->class_name;
	info.flags = (t->requires_grad ? CKPT_TENSOR_REQUIRES_GRAD : 0u) |
		     (t->is_parameter ? CKPT_TENSOR_PARAMETER : 0u) |
		     (t->is_conj ? CKPT_TENSOR_CONJ : 0u) | (t->is_neg ? CKPT_TENSOR_NEG : 0u);
	ckpt_sized_give(out, &info);
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
	const struct ckpt_model *model;
	int (*visit)(void *ctx, const struct ckpt_item *item);
	void *ctx;
	struct ckpt_buf text, type;
};

static void put_type(struct item_visitor *iv, const struct ckpt_value *v)
{
	const struct ckpt_value *func =
		v->kind == CKPT_CALL ? ckpt_model_now(iv->model, v->u.call->func) : NULL;
	char shown[160];

	iv->type.len = 0;
	if (func && func->kind == CKPT_GLOBAL)
		ckpt_buf_printf(&iv->type, "%s",
				ckpt_escape(shown, sizeof(shown), func->u.global->name,
					    func->u.global->name_len));
	else
		ckpt_buf_printf(&iv->type, "%s", ckpt_value_kind_name(v));
}

static enum ckpt_item_kind kind_of(const struct ckpt_model *model, const struct ckpt_value *v)
{
	if (ckpt_value_is_tensor(model, v))
		return CKPT_ITEM_TENSOR;
	return v->kind == CKPT_CALL || (v->kind >= CKPT_TUPLE && v->kind <= CKPT_DICT)
		       ? CKPT_ITEM_CONTAINER
		       : CKPT_ITEM_VALUE;
}

static uint64_t count_of(const struct ckpt_value *v)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);

	if (pairs)
		return pairs->count / 2;
	if (v->kind == CKPT_CALL)
		return v->u.call->items.count;
	return v->kind >= CKPT_TUPLE && v->kind <= CKPT_FROZENSET ? v->u.seq.count : 0;
}

static bool is_mapping(const struct ckpt_model *model, const struct ckpt_value *v)
{
	return ckpt_value_pairs(v) && !ckpt_value_is_tensor(model, v);
}

/* An array or a scalar of numpy is one value, whatever its pickle calls to make it. */
static bool describe_numpy(struct item_visitor *iv, const struct ckpt_value *v)
{
	struct ckpt_numpy n;

	if (!ckpt_numpy_parse(iv->model, v, &n))
		return false;
	iv->type.len = 0;
	ckpt_buf_printf(&iv->type, n.is_scalar ? "numpy.%s" : "%s", ckpt_numpy_type(&n));
	ckpt_numpy_text(iv->model, &n, &iv->text);
	return true;
}

/* What V is; the texts live in IV. */
static int describe(struct item_visitor *iv, const struct ckpt_value *v, struct ckpt_item *item,
		    struct ckpt_error *err)
{
	bool is_numpy;

	put_type(iv, v);
	iv->text.len = 0;
	is_numpy = describe_numpy(iv, v);
	if (!is_numpy)
		ckpt_value_repr(v, &iv->text);
	ckpt_buf_add_u8(&iv->text, '\0');
	if (iv->text.bad || iv->type.bad)
		return ckpt_fail_nomem(err);
	item->kind = is_numpy ? CKPT_ITEM_VALUE : kind_of(iv->model, v);
	item->type = (const char *)iv->type.data;
	item->text = (const char *)iv->text.data;
	item->count = count_of(v);
	item->mapping = is_mapping(iv->model, v);
	item->module = ckpt_module_mapping(iv->model, v, "_modules") ||
		       ckpt_is_script_object(iv->model, v);
	return 0;
}

static int visit_item(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct item_visitor *iv = ctx;
	struct ckpt_item item = { .size = sizeof(item),
				  .name = step->name,
				  .depth = (uint32_t)step->depth,
				  .seen = step->seen };

	if (describe(iv, step->value, &item, err) < 0)
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
	struct item_visitor iv = { .model = model, .visit = visit, .ctx = ctx };
	int rc = ckpt_model_walk(model, visit_item, &iv, err);

	ckpt_buf_clear(&iv.text);
	ckpt_buf_clear(&iv.type);
	return rc;
}

int ckpt_find(const struct ckpt_model *model, const char *name,
	      int (*visit)(void *ctx, const struct ckpt_item *item), void *ctx,
	      struct ckpt_error *err)
{
	struct item_visitor iv = { .model = model };
	struct ckpt_item item = { .size = sizeof(item), .name = name };
	const struct ckpt_value *found;
	int rc = ckpt_model_find(model, name, &found, err);

	if (rc == 0)
		rc = describe(&iv, found, &item, err);
	if (rc == 0)
		rc = visit(ctx, &item);
	ckpt_buf_clear(&iv.text);
	ckpt_buf_clear(&iv.type);
	return rc < 0 ? rc : 0;
}
