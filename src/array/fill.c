/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the values of a tensor or of a numpy array are: where the stored items lie (`items`) and
 * the steps that turn them into values (`steps`).
 *
 * The order of the steps is fixed: byte order first, then negation or conjugation, then the cast
 * to what the caller reads. Each step's output is the next one's input, and ckpt_array_recipe()
 * chains them in the same order. At most CKPT_ARRAY_MOST_STEPS of them come together: count again
 * before you add a kind. What cannot be read has the reason in `why_not` and is no error here,
 * since its shape and dtype can still be shown.
 */
#include "array/array.h"
#include "base/text.h"
#include "tensor/shape.h"

#include <string.h>

enum { MOST_WRAPPERS = 8 };

/* ---- what is done to the items ---- */

union ckpt_array_step *ckpt_array_add_step(struct ckpt_array *a)
{
	return &a->steps[a->step_count++];
}

static void add_cast(struct ckpt_array *a, enum ckpt_dtype from, enum ckpt_dtype to)
{
	static const struct ckpt_recipe none;

	ckpt_array_add_step(a)->cast = ckpt_cast_of(&none, from, to);
}

/* What numpy has instead; the dtype itself where numpy has it. */
static enum ckpt_dtype for_numpy(enum ckpt_dtype dtype)
{
	switch (dtype) {
	case CKPT_DTYPE_COMPLEX32:
	case CKPT_DTYPE_BCOMPLEX32: return CKPT_DTYPE_COMPLEX64;
	case CKPT_DTYPE_FLOAT4_E2M1FN_X2:
	case CKPT_DTYPE_BITS8:
	case CKPT_DTYPE_BITS1X8:
	case CKPT_DTYPE_BITS2X4:
	case CKPT_DTYPE_BITS4X2: return CKPT_DTYPE_UINT8;
	case CKPT_DTYPE_BITS16: return CKPT_DTYPE_UINT16;
	case CKPT_DTYPE_FLOAT64:
	case CKPT_DTYPE_FLOAT16: return dtype;
	default: return ckpt_dtype_is_floating(dtype) ? CKPT_DTYPE_FLOAT32 : dtype;
	}
}

void ckpt_array_choose_dtype(struct ckpt_array *a, enum ckpt_dtype dtype)
{
	a->reads = a->flags & CKPT_ARRAY_FOR_NUMPY ? for_numpy(dtype) : dtype;
	if (a->reads == dtype)
		return;
	if (a->reads == CKPT_DTYPE_COMPLEX64)
		add_cast(a,
			 dtype == CKPT_DTYPE_COMPLEX32 ? CKPT_DTYPE_FLOAT16 : CKPT_DTYPE_BFLOAT16,
			 CKPT_DTYPE_FLOAT32);
	else if (a->reads == CKPT_DTYPE_FLOAT32)
		add_cast(a, dtype, CKPT_DTYPE_FLOAT32);
}

/* ---- strided tensors ---- */

/*
 * Numbers are turned around by the dtype of the tensor. torch takes that of the storage, which is
 * wrong for those that have no storage class of their own (uint16, complex32 ...).
 */
static int add_swap(struct ckpt_array *a, const struct ckpt_storage *s, enum ckpt_dtype dtype,
		    struct ckpt_error *err)
{
	uint32_t width = ckpt_byteswap_width(dtype);

	if (!a->model->doc->big_endian || width == 1)
		return 0;
	if (s->made && s->retyped)
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"a big-endian file of another dtype than its storages; 'ckpt convert' turns it "
			"around");
	ckpt_array_add_step(a)->swap = ckpt_byteswap_of(&(struct ckpt_recipe){ 0 }, width);
	return 0;
}

int ckpt_array_set_items(struct ckpt_array *a, const struct ckpt_tensor *t, struct ckpt_error *err)
{
	const struct ckpt_storage *s;
	int rc;

	a->items = (struct ckpt_items){ .bytes = { .kind = CKPT_RECIPE_MEMORY, .memory = "" },
					.itemsize = ckpt_dtype_size(t->dtype),
					.ndim = t->ndim,
					.offset = t->offset,
					.shape = t->shape,
					.stride = t->stride };
	if (ckpt_shape_is_empty(t->shape, t->ndim))
		return 0; /* its record may be missing */
	if (t->storage < 0 || !t->stride)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "has no storage");
	s = &a->model->storages[t->storage];
	rc = ckpt_model_storage_bytes(a->model, s, &a->items.bytes, err);
	if (rc == 0)
		rc = ckpt_items_check(&a->items, err);
	return rc < 0 ? rc : add_swap(a, s, t->dtype, err);
}

static int fill_strided(struct ckpt_array *a, struct ckpt_error *err)
{
	const struct ckpt_tensor *t = &a->t;
	int rc = ckpt_array_set_items(a, t, err);

	if (rc < 0)
		return rc;
	if (t->is_neg || t->is_conj)
		ckpt_array_add_step(a)->negate =
			ckpt_negate_of(&(struct ckpt_recipe){ 0 }, t->dtype, t->is_neg, t->is_conj);
	ckpt_array_choose_dtype(a, t->dtype);
	return 0;
}

/* ---- numpy ---- */

/* Strides of numbers that lie as the pickle has them. */
static const uint64_t *numpy_strides(struct ckpt_array *a, const struct ckpt_numpy *n)
{
	uint64_t *stride = ckpt_arena_calloc(a->arena, CKPT_MOST_DIMS, sizeof(*stride));

	if (stride)
		ckpt_numpy_strides(n, stride);
	return stride;
}

static int set_numpy_items(struct ckpt_array *a, const struct ckpt_numpy *n, struct ckpt_error *err)
{
	uint64_t *shape = ckpt_arena_calloc(a->arena, n->ndim + 1u, sizeof(*shape));
	const uint64_t *stride = numpy_strides(a, n);
	uint32_t size = ckpt_dtype_size(n->dtype);
	const uint8_t *bytes;

	if (!shape || !stride)
		return ckpt_arena_fail(a->arena, err);
	if (!ckpt_numpy_bytes(a->model, n, a->arena, &bytes))
		return ckpt_fail(
			err, CKPT_E_FORMAT,
			"is an array of numpy whose data are not as long as its shape says");
	memcpy(shape, n->shape, n->ndim * sizeof(*shape));
	a->items = (struct ckpt_items){
		.bytes = { .kind = CKPT_RECIPE_MEMORY, .memory = bytes, .len = n->numel * size },
		.itemsize = size,
		.ndim = n->ndim,
		.shape = shape,
		.stride = stride
	};
	if (n->big_endian && size > 1)
		ckpt_array_add_step(a)->swap =
			ckpt_byteswap_of(&(struct ckpt_recipe){ 0 }, ckpt_byteswap_width(n->dtype));
	return ckpt_items_check(&a->items, err);
}

static int fill_numpy(struct ckpt_array *a, const struct ckpt_numpy *n, struct ckpt_error *err)
{
	char shown[40];
	int rc;

	if (n->dtype == CKPT_DTYPE_UNKNOWN)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "holds no numbers: its dtype in numpy is '%s'",
				 ckpt_escape(shown, sizeof(shown), n->code, n->code_len));
	rc = set_numpy_items(a, n, err);
	if (rc < 0)
		return rc;
	a->kind = n->is_scalar ? "scalar" : "ndarray";
	a->t = (struct ckpt_tensor){ .kind = CKPT_KIND_STRIDED,
				     .dtype = n->dtype,
				     .ndim = n->ndim,
				     .shape = a->items.shape,
				     .storage = -1,
				     .device = "" };
	ckpt_array_choose_dtype(a, n->dtype);
	return 0;
}

/*
 * A tensor of a device that torch cannot read from: its numbers are an array inside of the pickle.
 */
static int fill_from_numpy(struct ckpt_array *a, const struct ckpt_seq *args,
			   struct ckpt_error *err)
{
	enum ckpt_dtype dtype = a->t.dtype;
	struct ckpt_numpy n;
	int rc;

	if (!args || !ckpt_numpy_parse(a->model, ckpt_model_now(a->model, args->items[0]), &n) ||
	    n.dtype == CKPT_DTYPE_UNKNOWN)
		return ckpt_fail(err, CKPT_E_FORMAT, "has no array of numpy with its numbers");
	if (n.dtype != dtype && !ckpt_cast_known(n.dtype, dtype))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "is %s made of %s",
				 ckpt_dtype_name(dtype), ckpt_dtype_name(n.dtype));
	rc = set_numpy_items(a, &n, err);
	if (rc == 0 && n.dtype != dtype)
		add_cast(a, n.dtype, dtype);
	if (rc == 0)
		ckpt_array_choose_dtype(a, dtype);
	a->t.ndim = a->items.ndim;
	a->t.shape = a->items.shape;
	return rc;
}

/* ---- tensors of several others ---- */

/* The tensor that (func, args) makes, out of what is laid around it. */
const struct ckpt_seq *ckpt_tensor_args(const struct ckpt_model *model, const struct ckpt_value *v)
{
	for (int depth = 0; depth < 2 * MOST_WRAPPERS; depth++) {
		const struct ckpt_value *func, *args;
		uint32_t inner = 0;

		if (v->kind != CKPT_CALL)
			return NULL;
		func = ckpt_model_now(model, v->u.call->func);
		args = ckpt_model_now(model, v->u.call->args);
		while (func->kind == CKPT_GLOBAL && args->kind == CKPT_TUPLE &&
		       !strncmp(func->u.global->name, "_rebuild_from_type", 18) &&
		       args->u.seq.count > 2 && inner++ < MOST_WRAPPERS) {
			func = ckpt_model_now(model, args->u.seq.items[0]);
			args = ckpt_model_now(model, args->u.seq.items[2]);
		}
		if (func->kind != CKPT_GLOBAL || args->kind != CKPT_TUPLE || !args->u.seq.count)
			return NULL;
		if (strncmp(func->u.global->name, "_rebuild_parameter", 18) != 0 &&
		    strcmp(func->u.global->name, "_rebuild_device_tensor_from_cpu_tensor") != 0)
			return &args->u.seq;
		v = ckpt_model_now(model, args->u.seq.items[0]);
	}
	return NULL;
}

static void add_part(struct ckpt_array *a, const char *name, const struct ckpt_value *v)
{
	a->parts[a->part_count++] =
		(struct ckpt_array_part_value){ name, ckpt_model_now(a->model, v) };
}

static int fill_sparse(struct ckpt_array *a, const struct ckpt_seq *args, struct ckpt_error *err)
{
	const struct ckpt_value *data =
		args && args->count > 1 ? ckpt_model_now(a->model, args->items[1]) : NULL;
	bool columns = !strcmp(a->t.layout, "sparse_csc") || !strcmp(a->t.layout, "sparse_bsc");
	const struct ckpt_value *const *items;
	bool coo = !strcmp(a->t.layout, "sparse_coo");

	if (!data || data->kind != CKPT_TUPLE || data->u.seq.count < (coo ? 3 : 4))
		return ckpt_fail(err, CKPT_E_FORMAT, "has no indices and values");
	items = data->u.seq.items;
	ckpt_array_choose_dtype(a, a->t.dtype);
	a->step_count = 0; /* its values do that */
	if (coo) {
		add_part(a, "indices", items[0]);
		add_part(a, "values", items[1]);
		return 0;
	}
	add_part(a, columns ? "ccol_indices" : "crow_indices", items[0]);
	add_part(a, columns ? "row_indices" : "col_indices", items[1]);
	add_part(a, "values", items[2]);
	return 0;
}

static int fill_nested(struct ckpt_array *a, const struct ckpt_seq *args, struct ckpt_error *err)
{
	static const char *const names[] = { "buffer", "sizes", "strides", "offsets" };

	if (!args || args->count < 4)
		return ckpt_fail(err, CKPT_E_FORMAT, "has no buffer, sizes, strides and offsets");
	for (int i = 0; i < 4; i++)
		add_part(a, names[i], args->items[i]);
	a->why_not = "is nested: the tensors in it have shapes of their own";
	ckpt_array_choose_dtype(a, a->t.dtype);
	return 0;
}

static int fill_tensor(struct ckpt_array *a, const struct ckpt_value *v, struct ckpt_error *err)
{
	const struct ckpt_seq *args = ckpt_tensor_args(a->model, v);

	a->reads = a->t.dtype;
	switch (a->t.kind) {
	case CKPT_KIND_STRIDED: return fill_strided(a, err);
	case CKPT_KIND_QUANTIZED: return ckpt_array_quantized(a, args, false, err);
	case CKPT_KIND_SPARSE: return fill_sparse(a, args, err);
	case CKPT_KIND_NESTED: return fill_nested(a, args, err);
	case CKPT_KIND_NUMPY: return fill_from_numpy(a, args, err);
	case CKPT_KIND_META:
		a->why_not = "is on the meta device: it has a shape, and no values";
		return 0;
	case CKPT_KIND_UNINITIALIZED:
		a->why_not = "is uninitialized: it has no shape and no values";
		return 0;
	case CKPT_KIND_WRAPPER: break;
	}
	return ckpt_fail(err, CKPT_E_UNSUPPORTED, "wraps no tensor that is known");
}

int ckpt_array_fill(struct ckpt_array *a, const struct ckpt_value *v, struct ckpt_error *err)
{
	struct ckpt_numpy n;
	int rc;

	if (ckpt_numpy_parse(a->model, v, &n)) {
		rc = fill_numpy(a, &n, err);
		a->dtype = ckpt_dtype_name(n.dtype);
		return rc;
	}
	for (int depth = 0; depth < MOST_WRAPPERS; depth++) {
		rc = ckpt_tensor_parse(a->model, v, a->arena, &a->t, err);
		if (rc == 0)
			return ckpt_fail(err, CKPT_E_ARG, "is no tensor and no array, but %s",
					 ckpt_value_kind_name(v));
		if (rc < 0)
			return rc;
		if (a->t.kind != CKPT_KIND_WRAPPER || !a->t.local)
			break;
		a->wrapped = a->t.class_name ? a->t.class_name : "wrapper";
		v = ckpt_model_now(a->model, a->t.local);
	}
	a->kind = "tensor";
	a->dtype = ckpt_dtype_name(a->t.dtype);
	return fill_tensor(a, v, err);
}
