/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays and scalars as numpy pickles them: recognizing them, their bytes, and a line of text for
 * each. numpy 2 moved its inner modules, and protocol 5 has a call of its own for arrays. Source:
 * numpy/_core/src/multiarray, __reduce__() of ndarray, generic and dtype.
 *
 * `dtype` is UNKNOWN for what torch has no dtype for (texts, dates, records); such an array is
 * still recognized, but has no bytes to read. Shape and data come from the file:
 * ckpt_numpy_bytes() returns data only if they are exactly as long as the shape says.
 */
#include "model/numpy_value.h"

#include "base/text.h"
#include "model/plain_values.h"
#include "model/repr.h"
#include "tensor/byteswap.h"
#include "tensor/cast.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * Arrays and scalars as numpy pickles them: __reduce__() of ndarray, generic and dtype in
 * numpy/_core/src/multiarray. numpy 2 moved its inner modules, and protocol 5 has a way of its own
 * for arrays.
 */
static const struct {
	const char *code;
	enum ckpt_dtype dtype;
} codes[] = {
	{ "f8", CKPT_DTYPE_FLOAT64 },	{ "f4", CKPT_DTYPE_FLOAT32 },
	{ "f2", CKPT_DTYPE_FLOAT16 },	{ "i8", CKPT_DTYPE_INT64 },
	{ "i4", CKPT_DTYPE_INT32 },	{ "i2", CKPT_DTYPE_INT16 },
	{ "i1", CKPT_DTYPE_INT8 },	{ "u1", CKPT_DTYPE_UINT8 },
	{ "u2", CKPT_DTYPE_UINT16 },	{ "u4", CKPT_DTYPE_UINT32 },
	{ "u8", CKPT_DTYPE_UINT64 },	{ "b1", CKPT_DTYPE_BOOL },
	{ "c8", CKPT_DTYPE_COMPLEX64 }, { "c16", CKPT_DTYPE_COMPLEX128 },
};

/* numpy.dtype('f8', False, True) with the state (3, '<', ...) */
static bool parse_dtype(const struct ckpt_model *model, const struct ckpt_value *v,
			struct ckpt_numpy *out)
{
	const struct ckpt_value *code, *state, *copy;

	if (!ckpt_value_is_call_of(v, "numpy", "dtype"))
		return false;
	code = ckpt_plain_arg(model, v, 0);
	if (!code || !ckpt_value_is_text(code))
		return false;
	out->code = code->u.bytes.ptr;
	out->code_len = code->u.bytes.len;
	out->dtype = CKPT_DTYPE_UNKNOWN;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (out->code_len == strlen(codes[i].code) &&
		    !memcmp(out->code, codes[i].code, out->code_len))
			out->dtype = codes[i].dtype;
	state = v->u.call->state ? ckpt_model_now(model, v->u.call->state) : NULL;
	if (state && state->kind == CKPT_TUPLE && state->u.seq.count > 1)
		out->big_endian =
			ckpt_value_is_str(ckpt_model_now(model, state->u.seq.items[1]), ">");
	/* numpy sets no state on a dtype that is no copy of the one that everybody has */
	copy = ckpt_plain_arg(model, v, 2);
	return !out->big_endian || (copy && (copy->kind == CKPT_BOOL || copy->kind == CKPT_INT) && copy->u.integer);
}

static bool parse_shape(const struct ckpt_model *model, const struct ckpt_value *dims,
			struct ckpt_numpy *out)
{
	if (!dims || dims->kind != CKPT_TUPLE || dims->u.seq.count > CKPT_MOST_DIMS)
		return false;
	out->ndim = dims->u.seq.count;
	out->numel = 1;
	for (uint32_t i = 0; i < out->ndim; i++) {
		const struct ckpt_value *dim = ckpt_model_now(model, dims->u.seq.items[i]);

		if (dim->kind != CKPT_INT || dim->u.integer < 0)
			return false;
		out->shape[i] = (uint64_t)dim->u.integer;
		if (__builtin_mul_overflow(out->numel, out->shape[i], &out->numel))
			return false;
	}
	return true;
}

static void set_order(struct ckpt_numpy *out, bool fortran)
{
	for (uint32_t i = 0; i < out->ndim; i++)
		out->axes[i] = (uint8_t)(fortran ? out->ndim - 1 - i : i);
}

/* ORDER: of each dimension, which of those that are in the pickle it is. numpy writes no negative ones. */
static bool parse_axes(const struct ckpt_model *model, const struct ckpt_value *order, struct ckpt_numpy *out)
{
	uint64_t shape[CKPT_MOST_DIMS];
	bool seen[CKPT_MOST_DIMS] = { false };

	if (!order || order->kind != CKPT_TUPLE || order->u.seq.count != out->ndim)
		return false;
	memcpy(shape, out->shape, sizeof(shape));
	for (uint32_t i = 0; i < out->ndim; i++) {
		const struct ckpt_value *axis = ckpt_model_now(model, order->u.seq.items[i]);

		if (axis->kind != CKPT_INT || axis->u.integer < 0 || axis->u.integer >= out->ndim || seen[axis->u.integer])
			return false;
		seen[axis->u.integer] = true;
		out->shape[i] = shape[axis->u.integer];
		out->axes[axis->u.integer] = (uint8_t)i;
	}
	return true;
}

/* _reconstruct(ndarray, (0,), b'b') with the state (1, shape, dtype, is Fortran's, bytes) */
static bool parse_array(const struct ckpt_model *model, const struct ckpt_value *v,
			struct ckpt_numpy *out)
{
	const struct ckpt_value *state = v->u.call->state ? ckpt_model_now(model, v->u.call->state)
							  : NULL,
				*cls = ckpt_plain_arg(model, v, 0), *part[5];

	if (!state || state->kind != CKPT_TUPLE || state->u.seq.count != 5)
		return false;
	for (int i = 0; i < 5; i++)
		part[i] = ckpt_model_now(model, state->u.seq.items[i]);
	out->data = part[4];
	out->is_subclass = !cls || cls->kind != CKPT_GLOBAL || strcmp(cls->u.global->module, "numpy") != 0 ||
			   strcmp(cls->u.global->name, "ndarray") != 0;
	if (!parse_shape(model, part[1], out) || !parse_dtype(model, part[2], out))
		return false;
	set_order(out, part[3]->kind == CKPT_BOOL && part[3]->u.integer);
	return true;
}

/* _frombuffer(bytes, dtype, shape, order) of protocol 5, and of numpy 2.4 (bytes, dtype, shape as it lies, 'K', order of the axes) */
static bool parse_buffer(const struct ckpt_model *model, const struct ckpt_value *v,
			 struct ckpt_numpy *out)
{
	uint32_t count = ckpt_plain_arg_count(model, v);
	const struct ckpt_value *order = count == 4 || count == 5 ? ckpt_plain_arg(model, v, 3) : NULL;

	if (!order || !parse_shape(model, ckpt_plain_arg(model, v, 2), out) ||
	    !parse_dtype(model, ckpt_plain_arg(model, v, 1), out))
		return false;
	out->data = ckpt_plain_arg(model, v, 0);
	if (count == 5)
		return ckpt_value_is_str(order, "K") && parse_axes(model, ckpt_plain_arg(model, v, 4), out);
	set_order(out, ckpt_value_is_str(order, "F"));
	return true;
}

static bool parse_scalar(const struct ckpt_model *model, const struct ckpt_value *v,
			 struct ckpt_numpy *out)
{
	const struct ckpt_value *dtype = ckpt_plain_arg(model, v, 0);

	out->is_scalar = true;
	out->numel = 1;
	out->data = ckpt_plain_arg(model, v, 1);
	return dtype && out->data && parse_dtype(model, dtype, out);
}

static bool is_numpy_function(const struct ckpt_value *v, const char *module, const char *name)
{
	char old[60], fresh[60];

	snprintf(old, sizeof(old), "numpy.core.%s", module);
	snprintf(fresh, sizeof(fresh), "numpy._core.%s", module);
	return ckpt_value_is_call_of(v, old, name) || ckpt_value_is_call_of(v, fresh, name);
}

int ckpt_numpy_parse(const struct ckpt_model *model, const struct ckpt_value *v,
		     struct ckpt_numpy *out)
{
	if (v->kind != CKPT_CALL || v->u.call->func->kind != CKPT_GLOBAL ||
	    strncmp(v->u.call->func->u.global->module, "numpy.", 6) != 0)
		return 0;
	*out = (struct ckpt_numpy){ .dtype = CKPT_DTYPE_UNKNOWN };
	if (is_numpy_function(v, "multiarray", "scalar"))
		return parse_scalar(model, v, out);
	if (is_numpy_function(v, "multiarray", "_reconstruct"))
		return parse_array(model, v, out);
	return is_numpy_function(v, "numeric", "_frombuffer") && parse_buffer(model, v, out);
}

void ckpt_numpy_strides(const struct ckpt_numpy *n, uint64_t stride[CKPT_MOST_DIMS])
{
	uint64_t step = 1;

	for (uint32_t i = n->ndim; i-- > 0;) {
		uint64_t size = n->shape[n->axes[i]];

		stride[n->axes[i]] = step;
		step *= size ? size : 1;
	}
}

/* Protocol 5 writes what may be written to as a bytearray. */
static bool data_bytes(const struct ckpt_model *model, const struct ckpt_numpy *n,
		       struct ckpt_arena *arena, const uint8_t **out, uint64_t *len)
{
	if (n->data->kind != CKPT_BYTEARRAY)
		return ckpt_plain_bytes_in(model, n->data, arena, out, len);
	*out = (const uint8_t *)n->data->u.bytes.ptr;
	*len = n->data->u.bytes.len;
	return true;
}

bool ckpt_numpy_bytes(const struct ckpt_model *model, const struct ckpt_numpy *n,
		      struct ckpt_arena *arena, const uint8_t **out)
{
	uint64_t len, wanted;

	if (n->dtype == CKPT_DTYPE_UNKNOWN ||
	    __builtin_mul_overflow(n->numel, (uint64_t)ckpt_dtype_size(n->dtype), &wanted) ||
	    !data_bytes(model, n, arena, out, &len))
		return false;
	return len == wanted;
}

/* ---- text ---- */

const char *ckpt_numpy_type(const struct ckpt_numpy *n)
{
	static const struct {
		char letter;
		const char *type;
	} others[] = {
		{ 'U', "str_" }, { 'S', "bytes_" },	 { 'M', "datetime64" },
		{ 'V', "void" }, { 'm', "timedelta64" }, { 'O', "object_" },
	};

	if (!n->is_scalar)
		return "ndarray";
	if (n->dtype != CKPT_DTYPE_UNKNOWN)
		return ckpt_dtype_name(n->dtype);
	for (size_t i = 0; n->code_len && i < sizeof(others) / sizeof(others[0]); i++)
		if (n->code[0] == others[i].letter)
			return others[i].type;
	return "generic";
}

static void put_real(enum ckpt_dtype dtype, const uint8_t *bytes, struct ckpt_buf *out)
{
	struct ckpt_value v = { .kind = CKPT_FLOAT };

	ckpt_cast_items(dtype, CKPT_DTYPE_FLOAT64, bytes, &v.u.real, 1);
	ckpt_value_repr(&v, out);
}

/* One number, little-endian. */
static void put_number(enum ckpt_dtype dtype, const uint8_t *bytes, struct ckpt_buf *out)
{
	uint32_t size = ckpt_dtype_size(dtype);
	uint64_t wide = 0;

	if (ckpt_dtype_is_floating(dtype)) {
		put_real(dtype, bytes, out);
		return;
	}
	if (dtype == CKPT_DTYPE_COMPLEX64 || dtype == CKPT_DTYPE_COMPLEX128) {
		enum ckpt_dtype half = size == 8 ? CKPT_DTYPE_FLOAT32 : CKPT_DTYPE_FLOAT64;

		ckpt_buf_printf(out, "complex(");
		put_real(half, bytes, out);
		ckpt_buf_printf(out, ", ");
		put_real(half, bytes + size / 2, out);
		ckpt_buf_add_u8(out, ')');
		return;
	}
	memcpy(&wide, bytes, size);
	switch (dtype) {
	case CKPT_DTYPE_BOOL: ckpt_buf_printf(out, wide ? "True" : "False"); break;
	case CKPT_DTYPE_INT8: ckpt_buf_printf(out, "%d", (int8_t)wide); break;
	case CKPT_DTYPE_INT16: ckpt_buf_printf(out, "%d", (int16_t)wide); break;
	case CKPT_DTYPE_INT32: ckpt_buf_printf(out, "%d", (int32_t)wide); break;
	case CKPT_DTYPE_INT64: ckpt_buf_printf(out, "%" PRId64, (int64_t)wide); break;
	default: ckpt_buf_printf(out, "%" PRIu64, wide);
	}
}

bool ckpt_numpy_scalar(const struct ckpt_model *model, const struct ckpt_numpy *n, uint8_t *out)
{
	uint32_t width = n->dtype == CKPT_DTYPE_UNKNOWN ? 0 : ckpt_byteswap_width(n->dtype),
		 size = width ? ckpt_dtype_size(n->dtype) : 0;
	struct ckpt_arena *scratch = ckpt_arena_new(4096);
	const uint8_t *bytes;
	bool is_there = size && scratch && ckpt_numpy_bytes(model, n, scratch, &bytes);

	for (uint32_t i = 0; is_there && i < size; i++)
		out[i] = bytes[n->big_endian ? i - i % width + width - 1 - i % width : i];
	ckpt_arena_free(scratch);
	return is_there;
}

static void put_scalar(const struct ckpt_model *model, const struct ckpt_numpy *n,
		       struct ckpt_buf *out)
{
	uint8_t little[16];

	ckpt_buf_printf(out, "numpy.%s", ckpt_numpy_type(n));
	if (ckpt_numpy_scalar(model, n, little)) {
		ckpt_buf_add_u8(out, ' ');
		put_number(n->dtype, little, out);
	}
}

void ckpt_numpy_text(const struct ckpt_model *model, const struct ckpt_numpy *n,
		     struct ckpt_buf *out)
{
	char shown[40];

	if (n->is_scalar) {
		put_scalar(model, n, out);
		return;
	}
	if (n->dtype == CKPT_DTYPE_UNKNOWN)
		ckpt_buf_printf(out, "ndarray %s [",
				ckpt_escape(shown, sizeof(shown), n->code, n->code_len));
	else
		ckpt_buf_printf(out, "ndarray %s [", ckpt_dtype_name(n->dtype));
	for (uint32_t i = 0; i < n->ndim; i++)
		ckpt_buf_printf(out, "%s%" PRIu64, i ? ", " : "", n->shape[i]);
	ckpt_buf_add_u8(out, ']');
}
