/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the calls that rebuild tensors mean: `table` has torch._utils and friends, with the
 * argument lists of torch 0.2 to 2.14, seen in files. A new kind of tensor is a row of it and a
 * function.
 *
 * The functions get as many arguments as `least_args` says and check the kind of each. A strided
 * tensor is accepted only if its last byte lies inside its storage (check_extent()): everything
 * that reads relies on it. Tensors inside tensors are limited in depth, across all functions, by
 * `nesting`. `least_args` and the names in `table` are also what makes a value a tensor for the
 * walk, so both must agree with what torch can load.
 */
#include "model/model.h"

#include "base/text.h"
#include "model/old_tensor.h"
#include "model/state_dict.h"
#include "pickle/fold.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_NESTING = 16, NOT_A_TENSOR = 1 };

struct parser {
	const struct ckpt_model *model;
	struct ckpt_arena *arena;
	struct ckpt_error *err;
	unsigned nesting;
};

typedef int parse_args(struct parser *p, const struct ckpt_seq *args, struct ckpt_tensor *t);

static int parse_value(struct parser *p, const struct ckpt_value *v, struct ckpt_tensor *t);
static int parse_call(struct parser *p, const struct ckpt_value *func,
		      const struct ckpt_value *args, struct ckpt_tensor *t);

static const struct ckpt_value *arg(const struct parser *p, const struct ckpt_seq *args, uint32_t i)
{
	return ckpt_model_now(p->model, args->items[i]);
}

static int fail_kind(struct parser *p, const char *what, const struct ckpt_value *found)
{
	return ckpt_fail(p->err, CKPT_E_FORMAT, "wanted %s, found %s", what,
			 ckpt_value_kind_name(found));
}

const struct ckpt_value *ckpt_value_unwrap_size(const struct ckpt_model *model,
						const struct ckpt_value *v)
{
	const struct ckpt_value *args;

	if (!ckpt_value_is_call_of(v, "torch", "Size"))
		return v;
	args = ckpt_model_now(model, v->u.call->args);
	return args->kind == CKPT_TUPLE && args->u.seq.count == 1
		       ? ckpt_model_now(model, args->u.seq.items[0])
		       : v;
}

static int parse_dims(struct parser *p, const struct ckpt_value *v, const char *what,
		      const uint64_t **out, uint32_t *count)
{
	uint64_t *dims;

	v = ckpt_value_unwrap_size(p->model, v);
	if (v->kind != CKPT_TUPLE && v->kind != CKPT_LIST)
		return fail_kind(p, what, v);
	if (v->u.seq.count > CKPT_MOST_DIMS)
		return ckpt_fail(p->err, CKPT_E_FORMAT,
				 "%s has %" PRIu32 " dimensions, torch has at most %d", what,
				 v->u.seq.count, CKPT_MOST_DIMS);
	dims = ckpt_arena_alloc(p->arena, v->u.seq.count * sizeof(*dims));
	if (!dims)
		return ckpt_arena_fail(p->arena, p->err);
	for (uint32_t i = 0; i < v->u.seq.count; i++) {
		const struct ckpt_value *item = arg(p, &v->u.seq, i);

		if (item->kind != CKPT_INT || item->u.integer < 0)
			return fail_kind(p, what, item);
		dims[i] = (uint64_t)item->u.integer;
	}
	*out = dims;
	*count = v->u.seq.count;
	return 0;
}

static int parse_dtype(struct parser *p, const struct ckpt_value *v, enum ckpt_dtype *out)
{
	if (v->kind != CKPT_GLOBAL)
		return fail_kind(p, "a dtype", v);
	*out = ckpt_dtype_find(v->u.global->name);
	if (*out == CKPT_DTYPE_UNKNOWN)
		return ckpt_fail(p->err, CKPT_E_UNSUPPORTED, "dtype '%.60s' is not known",
				 v->u.global->name);
	return 0;
}

/* The last byte that the tensor touches must lie inside its storage. */
static int check_extent(struct parser *p, const struct ckpt_tensor *t)
{
	const struct ckpt_storage *s = &p->model->storages[t->storage];
	uint64_t last = t->offset, reach, end;
	bool empty = false, over = false;

	for (uint32_t i = 0; i < t->ndim; i++) {
		empty |= t->shape[i] == 0;
		over |= t->shape[i] &&
			__builtin_mul_overflow(t->shape[i] - 1, t->stride[i], &reach);
		if (t->shape[i] && !over)
			over |= __builtin_add_overflow(last, reach, &last);
	}
	if (empty)
		return 0;
	/* packed types count several elements to a byte of storage */
	if (!over && ckpt_dtype_packed(t->dtype) > 1)
		last /= ckpt_dtype_packed(t->dtype);
	over |= __builtin_add_overflow(last, 1, &end);
	over |= __builtin_mul_overflow(end, (uint64_t)ckpt_dtype_size(t->dtype), &end);
	if (over || end > s->nbytes)
		return ckpt_fail(p->err, CKPT_E_FORMAT,
				 "reaches %s%" PRIu64 " bytes into its storage '%s' of %" PRIu64
				 " bytes",
				 over ? "more than " : "", over ? UINT64_MAX : end, s->key,
				 s->nbytes);
	return 0;
}

/* Two tuples of the same length, from the argument with number FIRST on. */
static int parse_size_and_stride(struct parser *p, const struct ckpt_seq *args, uint32_t first,
				 struct ckpt_tensor *t)
{
	uint32_t count;
	int rc = parse_dims(p, arg(p, args, first), "a size", &t->shape, &t->ndim);

	if (rc == 0)
		rc = parse_dims(p, arg(p, args, first + 1), "a stride", &t->stride, &count);
	if (rc == 0 && count != t->ndim)
		rc = ckpt_fail(p->err, CKPT_E_FORMAT,
			       "size has %" PRIu32 " dimensions, stride %" PRIu32, t->ndim, count);
	return rc;
}

static int parse_strided(struct parser *p, const struct ckpt_seq *args, struct ckpt_tensor *t)
{
	const struct ckpt_value *storage = arg(p, args, 0), *offset = arg(p, args, 1);
	int rc;

	if (storage->kind != CKPT_PERSID)
		return fail_kind(p, "a storage", storage);
	t->storage = ckpt_storage_of(storage);
	if (t->storage < 0)
		return fail_kind(p, "a storage", storage);
	if (offset->kind != CKPT_INT || offset->u.integer < 0)
		return fail_kind(p, "an offset", offset);
	t->offset = (uint64_t)offset->u.integer;
	rc = parse_size_and_stride(p, args, 2, t);
	if (rc < 0)
		return rc;
	if (t->dtype == CKPT_DTYPE_UNKNOWN || p->model->storages[t->storage].retyped)
		t->dtype = ckpt_storage_dtype(p->model, t->storage, storage);
	t->device = p->model->storages[t->storage].location;
	return check_extent(p, t);
}

static bool is_true(const struct ckpt_value *v)
{
	return v->kind == CKPT_BOOL && v->u.integer;
}

static bool is_word(const struct ckpt_value *v, const char *word)
{
	return ckpt_value_is_str(v, word) ||
	       (v->kind == CKPT_BYTES && v->u.bytes.len == strlen(word) && !memcmp(v->u.bytes.ptr, word, v->u.bytes.len));
}

/*
 * {'conj': True, 'neg': True}, or less. torch looks for the keys only, text or bytes: what is there is set, False as True.
 * Source: setTensorMetadata() in torch/csrc/jit/serialization/pickler.h of torch 2.6 and 2.14, and these tried.
 */
static int parse_bits(struct parser *p, const struct ckpt_value *metadata, struct ckpt_tensor *t)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(metadata);

	if (pairs && pairs->count > 2 * CKPT_MOST_ATTRIBUTES)
		return ckpt_fail(p->err, CKPT_E_LIMIT,
				 "metadata of a tensor with %" PRIu32 " entries, the limit is %d",
				 pairs->count / 2, CKPT_MOST_ATTRIBUTES);
	for (uint32_t i = 0; pairs && i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *key = arg(p, pairs, i);

		if (key->kind != CKPT_STR && key->kind != CKPT_PY2_STR && key->kind != CKPT_BYTES)
			return fail_kind(p, "a text", key);
		t->is_conj |= is_word(key, "conj");
		t->is_neg |= is_word(key, "neg");
	}
	return 0;
}

static int parse_v2(struct parser *p, const struct ckpt_seq *args, struct ckpt_tensor *t)
{
	int rc = args->count > 6 ? parse_bits(p, arg(p, args, 6), t) : 0;

	if (args->count > 4)
		t->requires_grad = is_true(arg(p, args, 4));
	return rc < 0 ? rc : parse_strided(p, args, t);
}

static int parse_v3(struct parser *p, const struct ckpt_seq *args, struct ckpt_tensor *t)
{
	int rc = parse_dtype(p, arg(p, args, 6), &t->dtype);

	t->requires_grad = is_true(arg(p, args, 4));
	if (rc == 0 && args->count > 7)
		rc = parse_bits(p, arg(p, args, 7), t);
	return rc < 0 ? rc : parse_strided(p, args, t);
}

/* Tensors that others need, of places or scales: torch makes the storage larger of one that reaches out of it. */
static int check_parts(struct parser *p, const struct ckpt_seq *parts, uint32_t first, uint32_t end)
{
	int rc = 0;

	for (uint32_t i = first; rc >= 0 && i < end && i < parts->count; i++) {
		struct ckpt_tensor part = { .dtype = CKPT_DTYPE_UNKNOWN, .storage = -1 };

		rc = parse_value(p, parts->items[i], &part);
	}
	return rc < 0 ? rc : 0;
}

static int parse_quantized(struct parser *p, const struct ckpt_seq *args, struct ckpt_tensor *t)
{
	const struct ckpt_value *quantizer = arg(p, args, 4); /* (scheme, scales, zero points[, axis]) */
	int rc = parse_strided(p, args, t);

	t->kind = CKPT_KIND_QUANTIZED;
	t->requires_grad = is_true(arg(p, args, 5));
	if (rc == 0 && quantizer->kind == CKPT_TUPLE)
		rc = check_parts(p, &quantizer->u.seq, 1, 3);
	return rc;
}

/* A Parameter and the like: a tensor inside, plus a mark. */
static int parse_inner(struct parser *p, const struct ckpt_value *v, struct ckpt_tensor *t)
{
	int rc = parse_value(p, v, t);

	return rc == 0 ? fail_kind(p, "a tensor", v) : rc < 0 ? rc : 0;
}

static int parse_parameter(struct parser *p, const struct ckpt_seq *args, struct ckpt_tensor *t)
{
	int rc = parse_inner(p, arg(p, args, 0), t);

	t->is_parameter = true;
	t->class_name = "Parameter";
	t->requires_grad = is_true(arg(p, args, 1));
	t->attributes = args->count > 3 ? arg(p, args, 3) : NULL;
	return rc;
}

static int parse_sparse(struct parser *p, const struct ckpt_seq *args, struct ckpt_tensor *t)
{
	const struct ckpt_value *layout = arg(p, args, 0), *data = arg(p, args, 1), *values;
	struct ckpt_tensor inner;
	bool coo;
	int rc;

	if (layout->kind == CKPT_CALL && layout->u.call->args->kind == CKPT_TUPLE &&
	    layout->u.call->args->u.seq.count == 1)
		layout = arg(p, &layout->u.call->args->u.seq, 0);
	if (layout->kind != CKPT_STR || layout->u.bytes.len < 7)
		return fail_kind(p, "a layout", layout);
	t->layout = ckpt_arena_copy(p->arena, layout->u.bytes.ptr + 6, layout->u.bytes.len - 6);
	if (!t->layout)
		return ckpt_arena_fail(p->arena, p->err);
	coo = !strcmp(t->layout, "sparse_coo");
	if (data->kind != CKPT_TUPLE || data->u.seq.count < (coo ? 3 : 4))
		return fail_kind(p, "indices, values and a size", data);
	values = arg(p, &data->u.seq, coo ? 1 : 2);
	inner = (struct ckpt_tensor){ .dtype = CKPT_DTYPE_UNKNOWN, .storage = -1 };
	rc = parse_inner(p, values, &inner);
	if (rc == 0)
		rc = check_parts(p, &data->u.seq, 0, coo ? 1 : 2);
	t->kind = CKPT_KIND_SPARSE;
	t->dtype = inner.dtype;
	t->device = inner.device;
	t->local = values;
	if (rc == 0)
		rc = parse_dims(p, arg(p, &data->u.seq, coo ? 2 : 3), "a size", &t->shape,
				&t->ndim);
	return rc;
}

static int parse_nested(struct parser *p, const struct ckpt_seq *args, struct ckpt_tensor *t)
{
	struct ckpt_tensor buffer = { .dtype = CKPT_DTYPE_UNKNOWN, .storage = -1 };
	int rc = parse_inner(p, arg(p, args, 0), &buffer);

	if (rc == 0)
		rc = check_parts(p, args, 1, 4);
	*t = buffer;
	t->kind = CKPT_KIND_NESTED;
	t->layout = "nested";
	return rc;
}

static int parse_meta(struct parser *p, const struct ckpt_seq *args, struct ckpt_tensor *t)
{
	int rc = parse_dtype(p, arg(p, args, 0), &t->dtype);

	t->kind = CKPT_KIND_META;
	t->device = "meta";
	t->requires_grad = is_true(arg(p, args, 3));
	if (rc == 0)
		rc = parse_size_and_stride(p, args, 1, t);
	return rc;
}

static int copy_text(struct parser *p, const struct ckpt_value *v, const char **out)
{
	if (!ckpt_value_is_text(v))
		return fail_kind(p, "the text of a device", v);
	*out = ckpt_arena_copy(p->arena, v->u.bytes.ptr, v->u.bytes.len);
	return *out ? 0 : ckpt_arena_fail(p->arena, p->err);
}

/* torch.device('cuda', 1) -> "cuda:1" */
static int parse_device(struct parser *p, const struct ckpt_value *v, const char **out)
{
	const struct ckpt_seq *args;
	const struct ckpt_value *type;
	char shown[80], text[112];

	if (ckpt_value_is_text(v))
		return copy_text(p, v, out);
	if (!ckpt_value_is_call_of(v, "torch", "device"))
		return fail_kind(p, "a device", v);
	args = &v->u.call->args->u.seq;
	type = args->count ? arg(p, args, 0) : v;
	if (type->kind != CKPT_STR)
		return fail_kind(p, "a device", type);
	ckpt_escape(shown, sizeof(shown), type->u.bytes.ptr, type->u.bytes.len);
	if (args->count > 1 && arg(p, args, 1)->kind == CKPT_INT)
		snprintf(text, sizeof(text), "%s:%" PRId64, shown, arg(p, args, 1)->u.integer);
	else
		snprintf(text, sizeof(text), "%s", shown);
	*out = ckpt_arena_copy(p->arena, text, strlen(text));
	return *out ? 0 : ckpt_arena_fail(p->arena, p->err);
}

static int parse_from_numpy(struct parser *p, const struct ckpt_seq *args, struct ckpt_tensor *t)
{
	const struct ckpt_value *array = arg(p, args, 0), *state;
	int rc = parse_dtype(p, arg(p, args, 1), &t->dtype);

	t->kind = CKPT_KIND_NUMPY;
	t->requires_grad = is_true(arg(p, args, 3));
	if (rc == 0)
		rc = parse_device(p, arg(p, args, 2), &t->device);
	if (rc < 0)
		return rc;
	state = array->kind == CKPT_CALL ? array->u.call->state : NULL;
	if (!state || state->kind != CKPT_TUPLE || state->u.seq.count < 2)
		return fail_kind(p, "a numpy array", array);
	return parse_dims(p, arg(p, &state->u.seq, 1), "a shape", &t->shape, &t->ndim);
}

static int parse_from_cpu(struct parser *p, const struct ckpt_seq *args, struct ckpt_tensor *t)
{
	int rc = parse_inner(p, arg(p, args, 0), t);

	if (rc == 0)
		rc = parse_dtype(p, arg(p, args, 1), &t->dtype);
	if (rc == 0)
		rc = parse_device(p, arg(p, args, 2), &t->device);
	t->requires_grad = is_true(arg(p, args, 3));
	return rc;
}

static int parse_wrapper(struct parser *p, const struct ckpt_seq *args, struct ckpt_tensor *t)
{
	int rc = parse_dtype(p, arg(p, args, 1), &t->dtype);

	t->kind = CKPT_KIND_WRAPPER;
	if (rc == 0)
		rc = parse_size_and_stride(p, args, 2, t);
	if (rc == 0)
		rc = parse_device(p, arg(p, args, 6), &t->device);
	t->requires_grad = is_true(arg(p, args, 7));
	return rc;
}

static int parse_from_type(struct parser *p, const struct ckpt_seq *args, struct ckpt_tensor *t)
{
	const struct ckpt_value *cls = arg(p, args, 1);
	int rc = parse_call(p, arg(p, args, 0), arg(p, args, 2), t);

	if (rc <= 0)
		return rc < 0 ? rc : NOT_A_TENSOR;
	if (cls->kind == CKPT_GLOBAL && !ckpt_value_is_global(cls, "torch", "Tensor"))
		t->class_name = cls->u.global->name;
	t->attributes = arg(p, args, 3);
	if (t->kind == CKPT_KIND_WRAPPER)
		t->local = ckpt_state_find(p->model, arg(p, args, 3), "_local_tensor");
	return 0;
}

static int parse_uninitialized_buffer(struct parser *p, const struct ckpt_seq *args,
				      struct ckpt_tensor *t)
{
	t->kind = CKPT_KIND_UNINITIALIZED;
	t->class_name = "UninitializedBuffer";
	t->dtype = CKPT_DTYPE_FLOAT32;
	t->device = "cpu";
	t->requires_grad = args->count && is_true(arg(p, args, 0));
	return 0;
}

static int parse_uninitialized_parameter(struct parser *p, const struct ckpt_seq *args,
					 struct ckpt_tensor *t)
{
	int rc = parse_uninitialized_buffer(p, args, t);

	t->class_name = "UninitializedParameter";
	t->is_parameter = true;
	return rc;
}

static const struct {
	const char *module, *name;
	uint32_t least_args;
	parse_args *parse;
} table[] = {
	{ "torch._utils", "_rebuild_tensor_v2", 4, parse_v2 },
	{ "torch._utils", "_rebuild_tensor_v3", 7, parse_v3 },
	{ "torch._utils", "_rebuild_tensor", 4, parse_v2 },
	{ "torch._utils", "_rebuild_parameter", 3, parse_parameter },
	{ "torch._utils", "_rebuild_parameter_with_state", 4, parse_parameter },
	{ "torch._utils", "_rebuild_qtensor", 7, parse_quantized },
	{ "torch._utils", "_rebuild_sparse_tensor", 2, parse_sparse },
	{ "torch._utils", "_rebuild_sparse_csr_tensor", 2, parse_sparse },
	{ "torch._utils", "_rebuild_nested_tensor", 4, parse_nested },
	{ "torch._utils", "_rebuild_meta_tensor_no_storage", 4, parse_meta },
	{ "torch._utils", "_rebuild_device_tensor_from_numpy", 4, parse_from_numpy },
	{ "torch._utils", "_rebuild_xla_tensor", 4, parse_from_numpy },
	{ "torch._utils", "_rebuild_mlc_tensor", 4, parse_from_numpy },
	{ "torch._utils", "_rebuild_device_tensor_from_cpu_tensor", 4, parse_from_cpu },
	{ "torch._utils", "_rebuild_wrapper_subclass", 8, parse_wrapper },
	{ "torch._tensor", "_rebuild_from_type_v2", 4, parse_from_type },
	{ "torch._tensor", "_rebuild_from_type", 4, parse_from_type },
	{ "torch.tensor", "_rebuild_from_type", 4, parse_from_type },
	{ "torch.nn.parameter", "UninitializedParameter", 0, parse_uninitialized_parameter },
	{ "torch.nn.parameter", "UninitializedBuffer", 0, parse_uninitialized_buffer },
};

static int parse_call(struct parser *p, const struct ckpt_value *func,
		      const struct ckpt_value *args, struct ckpt_tensor *t)
{
	int rc;

	if (func->kind != CKPT_GLOBAL || args->kind != CKPT_TUPLE)
		return 0;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (!ckpt_value_is_global(func, table[i].module, table[i].name))
			continue;
		if (args->u.seq.count < table[i].least_args)
			return ckpt_fail(p->err, CKPT_E_FORMAT,
					 "%s needs %" PRIu32 " arguments, found %" PRIu32,
					 table[i].name, table[i].least_args, args->u.seq.count);
		if (++p->nesting > MOST_NESTING)
			return ckpt_fail(p->err, CKPT_E_LIMIT,
					 "tensors inside tensors, more than %d deep", MOST_NESTING);
		rc = table[i].parse(p, &args->u.seq, t);
		return rc < 0 ? rc : rc != NOT_A_TENSOR;
	}
	return 0;
}

static int parse_old(struct parser *p, const struct ckpt_old_tensor *old, struct ckpt_tensor *t)
{
	int rc;

	if (old->kind == CKPT_OLD_TENSOR) {
		rc = parse_strided(p, &old->data->u.seq, t);
		return rc < 0 ? rc : 1;
	}
	if (++p->nesting > MOST_NESTING)
		return ckpt_fail(p->err, CKPT_E_LIMIT, "tensors inside tensors, more than %d deep",
				 MOST_NESTING);
	rc = parse_inner(p, old->data, t);
	t->requires_grad = is_true(old->requires_grad);
	t->is_parameter = old->kind == CKPT_OLD_PARAMETER;
	t->class_name = t->is_parameter ? "Parameter" : "Variable";
	return rc < 0 ? rc : 1;
}

static int copy_dims(struct parser *p, const uint32_t *dims, uint32_t count, const uint64_t **out)
{
	/* most strides of one dimension, and there may be very many */
	static const uint64_t one[] = { 1 };
	uint64_t *copy;

	*out = one;
	if (count == 1 && dims[0] == 1)
		return 0;
	copy = ckpt_arena_alloc(p->arena, count * sizeof(*copy));
	if (!copy)
		return ckpt_arena_fail(p->arena, p->err);
	for (uint32_t i = 0; i < count; i++)
		copy[i] = dims[i];
	*out = copy;
	return 0;
}

/* parse_v2() of what a FOLDED stands for. */
static int parse_folded(struct parser *p, const struct ckpt_value *v, struct ckpt_tensor *t)
{
	const struct ckpt_value *unfolded;
	struct ckpt_fold f;
	int rc;

	t->storage = ckpt_storage_of(v);
	/* rare */
	if (t->dtype != CKPT_DTYPE_UNKNOWN || t->storage < 0 ||
	    !p->model->storages[t->storage].nbytes) {
		unfolded = ckpt_unfold(v, p->arena);
		t->storage = -1;
		return unfolded ? parse_value(p, unfolded, t) : ckpt_arena_fail(p->arena, p->err);
	}
	ckpt_fold_read(v, &f);
	t->requires_grad = f.requires_grad;
	t->offset = f.offset;
	t->ndim = f.ndim;
	t->dtype = p->model->storages[t->storage].dtype;
	t->device = p->model->storages[t->storage].location;
	rc = copy_dims(p, f.size, f.ndim, &t->shape);
	if (rc == 0)
		rc = copy_dims(p, f.stride, f.ndim, &t->stride);
	if (rc == 0)
		rc = check_extent(p, t);
	return rc < 0 ? rc : 1;
}

static int parse_value(struct parser *p, const struct ckpt_value *v, struct ckpt_tensor *t)
{
	struct ckpt_old_tensor old;

	if (v->kind == CKPT_FOLDED)
		return parse_folded(p, v, t);
	if (v->kind != CKPT_CALL)
		return 0;
	if (ckpt_old_tensor_is(p->model, v, &old))
		return parse_old(p, &old, t);
	if (v->u.call->kind != CKPT_CALL_REDUCE)
		return 0;
	return parse_call(p, ckpt_model_now(p->model, v->u.call->func),
			  ckpt_model_now(p->model, v->u.call->args), t);
}

int ckpt_tensor_parse(const struct ckpt_model *model, const struct ckpt_value *v,
		      struct ckpt_arena *arena, struct ckpt_tensor *out, struct ckpt_error *err)
{
	struct parser p = { model, arena, err, 0 };
	int rc;

	*out = (struct ckpt_tensor){ .dtype = CKPT_DTYPE_UNKNOWN, .storage = -1, .value = v };
	rc = parse_value(&p, v, out);
	if (rc > 0 && v->kind == CKPT_CALL && v->u.call->state && !out->attributes)
		out->attributes = ckpt_model_now(model, v->u.call->state);
	return ckpt_error_at(err, rc, NULL, NULL, v->pos);
}

static bool is_rebuilder(const struct ckpt_value *func)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (ckpt_value_is_global(func, table[i].module, table[i].name))
			return true;
	return false;
}

bool ckpt_value_is_tensor(const struct ckpt_model *model, const struct ckpt_value *v)
{
	const struct ckpt_value *func, *args;
	struct ckpt_old_tensor old;

	if (v->kind == CKPT_FOLDED)
		return true;
	if (v->kind != CKPT_CALL)
		return false;
	if (ckpt_old_tensor_is(model, v, &old))
		return true;
	if (v->u.call->kind != CKPT_CALL_REDUCE)
		return false;
	func = ckpt_model_now(model, v->u.call->func);
	if (!is_rebuilder(func))
		return false;
	if (strncmp(func->u.global->name, "_rebuild_from_type", 18))
		return true;
	args = ckpt_model_now(
		model, v->u.call->args); /* a subclass may rebuild itself in a way of its own */
	return args->kind == CKPT_TUPLE && args->u.seq.count > 0 &&
	       is_rebuilder(ckpt_model_now(model, args->u.seq.items[0]));
}

bool ckpt_value_is_tensor_object(const struct ckpt_model *model, const struct ckpt_value *v)
{
	const struct ckpt_value *func;

	if (ckpt_value_is_tensor(model, v))
		return true;
	if (v->kind != CKPT_CALL || v->u.call->kind != CKPT_CALL_REDUCE)
		return false;
	func = ckpt_model_now(model, v->u.call->func);
	return is_rebuilder(func) && !strncmp(func->u.global->name, "_rebuild_from_type", 18);
}
