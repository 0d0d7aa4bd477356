/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of mobile models, TensorMetadata of the schema: what a call that rebuilds a tensor
 * says, and the parameters of quantized ones. Source: parseTensor() in
 * torch/csrc/jit/mobile/flatbuffer_loader.cpp.
 *
 * What must stay true: the result is the call that torch.save would write for the tensor, so
 * that all that reads rebuilt tensors works here; a scale or zero point is no quantized tensor
 * itself, or this would recurse as deep as a file likes.
 */
#include "format/torch_mobile.h"

#include <stdio.h>
#include <string.h>

enum {
	TENSOR_STORAGE,
	TENSOR_DTYPE,
	TENSOR_OFFSET,
	TENSOR_SIZES,
	TENSOR_STRIDES,
	TENSOR_REQUIRES_GRAD,
	TENSOR_QUANTIZED
};
enum {
	QUANTIZED_SCHEME,
	QUANTIZED_SCALE,
	QUANTIZED_ZERO_POINT,
	QUANTIZED_SCALES,
	QUANTIZED_ZEROS,
	QUANTIZED_AXIS
};
/* By number of c10::ScalarType, c10/core/ScalarType.h. */
static const enum ckpt_dtype dtypes[] = {
	CKPT_DTYPE_UINT8,	    CKPT_DTYPE_INT8,
	CKPT_DTYPE_INT16,	    CKPT_DTYPE_INT32,
	CKPT_DTYPE_INT64,	    CKPT_DTYPE_FLOAT16,
	CKPT_DTYPE_FLOAT32,	    CKPT_DTYPE_FLOAT64,
	CKPT_DTYPE_COMPLEX32,	    CKPT_DTYPE_COMPLEX64,
	CKPT_DTYPE_COMPLEX128,	    CKPT_DTYPE_BOOL,
	CKPT_DTYPE_QINT8,	    CKPT_DTYPE_QUINT8,
	CKPT_DTYPE_QINT32,	    CKPT_DTYPE_BFLOAT16,
	CKPT_DTYPE_QUINT4X2,	    CKPT_DTYPE_QUINT2X4,
	CKPT_DTYPE_BITS1X8,	    CKPT_DTYPE_BITS2X4,
	CKPT_DTYPE_BITS4X2,	    CKPT_DTYPE_BITS8,
	CKPT_DTYPE_BITS16,	    CKPT_DTYPE_FLOAT8_E5M2,
	CKPT_DTYPE_FLOAT8_E4M3FN,   CKPT_DTYPE_FLOAT8_E5M2FNUZ,
	CKPT_DTYPE_FLOAT8_E4M3FNUZ, CKPT_DTYPE_UINT16,
	CKPT_DTYPE_UINT32,	    CKPT_DTYPE_UINT64,
};

/* ---- of all values ---- */

const struct ckpt_value *ckpt_mobile_fail(struct ckpt_mobile_reader *r, int status, uint64_t at,
					  const char *what)
{
	ckpt_flatbuffer_fail(r->fb, status, at, what);
	return NULL;
}

const struct ckpt_value *ckpt_mobile_made(struct ckpt_mobile_reader *r, const struct ckpt_value *v)
{
	if (!v && r->fb->rc == 0)
		r->fb->rc = ckpt_arena_fail(r->maker->arena, r->fb->err);
	return r->fb->rc < 0 ? NULL : v;
}

const struct ckpt_value *ckpt_mobile_float(struct ckpt_mobile_reader *r, uint64_t bits)
{
	struct ckpt_value *v = ckpt_maker_node(r->maker, CKPT_FLOAT);

	if (v)
		memcpy(&v->u.real, &bits, sizeof(bits));
	return ckpt_mobile_made(r, v);
}

/* ---- tensors ---- */

static int read_dims(struct ckpt_mobile_reader *r, const struct ckpt_flatbuffer_table *t,
		     unsigned field, uint64_t dims[CKPT_MOST_DIMS], uint32_t *ndim)
{
	struct ckpt_flatbuffer_vector v = ckpt_flatbuffer_vector(r->fb, t, field, 4);

	if (v.count > CKPT_MOST_DIMS)
		ckpt_mobile_fail(r, CKPT_E_FORMAT, t->at, "a tensor of more than 64 dimensions");
	for (uint32_t i = 0; r->fb->rc == 0 && i < v.count; i++) {
		dims[i] = ckpt_flatbuffer_number(r->fb, v.at + 4 * (uint64_t)i, 4);
		if (dims[i] > INT32_MAX)
			ckpt_mobile_fail(r, CKPT_E_FORMAT, t->at,
					 "a size or stride that is negative");
	}
	*ndim = v.count;
	return r->fb->rc;
}

static const struct ckpt_value *find_storage(struct ckpt_mobile_reader *r, uint64_t number,
					     enum ckpt_dtype dtype, uint64_t at)
{
	const struct ckpt_mobile *mobile = r->doc->container;
	struct ckpt_mobile_storage *s;
	char key[16];

	if (number >= mobile->storage_count)
		return ckpt_mobile_fail(r, CKPT_E_FORMAT, at,
					"a tensor whose storage is not in the file");
	s = &r->storages[number];
	if (s->value && s->dtype != dtype)
		return ckpt_mobile_fail(r, CKPT_E_UNSUPPORTED, at,
					"two tensors of different dtypes over one storage");
	if (!s->value) {
		snprintf(key, sizeof(key), "%u", (unsigned)number);
		s->dtype = dtype;
		s->value =
			ckpt_maker_storage(r->maker, dtype, key, NULL,
					   mobile->storages[number].len / ckpt_dtype_size(dtype));
	}
	return ckpt_mobile_made(r, s->value);
}

/* (per_tensor_affine, scale, zero_point), or (per_channel_affine, scales, zero_points, axis) */
static const struct ckpt_value *read_quantizer(struct ckpt_mobile_reader *r,
					       const struct ckpt_flatbuffer_table *q)
{
	struct ckpt_flatbuffer_table scales = ckpt_flatbuffer_table(r->fb, q, QUANTIZED_SCALES),
				     zeros = ckpt_flatbuffer_table(r->fb, q, QUANTIZED_ZEROS);
	uint64_t zero = ckpt_flatbuffer_scalar(r->fb, q, QUANTIZED_ZERO_POINT, 4, 0);
	const struct ckpt_value *items[4] = { NULL };
	bool channels = scales.at;

	items[0] = ckpt_maker_global(r->maker, "torch",
				     channels ? "per_channel_affine" : "per_tensor_affine");
	if (!channels) {
		items[1] = ckpt_mobile_float(r, ckpt_flatbuffer_scalar(r->fb, q, QUANTIZED_SCALE, 8,
								       0));
		items[2] = ckpt_maker_int(r->maker, (uint64_t)(int64_t)(int32_t)zero);
		return ckpt_mobile_made(r, ckpt_maker_tuple(r->maker, items, 3));
	}
	/* these are plain tensors: quantized ones would be read recursively */
	if (ckpt_flatbuffer_table(r->fb, &scales, TENSOR_QUANTIZED).at ||
	    ckpt_flatbuffer_table(r->fb, &zeros, TENSOR_QUANTIZED).at || !zeros.at)
		return ckpt_mobile_fail(r, CKPT_E_FORMAT, q->at,
					"scales and zero points that are not plain tensors");
	items[1] = ckpt_mobile_read_tensor(r, &scales);
	items[2] = r->fb->rc < 0 ? NULL : ckpt_mobile_read_tensor(r, &zeros);
	items[3] = ckpt_maker_int(r->maker, ckpt_flatbuffer_scalar(r->fb, q, QUANTIZED_AXIS, 4, 0));
	return ckpt_mobile_made(r, ckpt_maker_tuple(r->maker, items, 4));
}

/*
 * _rebuild_qtensor(storage, offset, size, stride, quantizer, requires_grad, hooks) of what was
 * made for a plain tensor
 */
static const struct ckpt_value *make_quantized(struct ckpt_mobile_reader *r,
					       const struct ckpt_value *plain,
					       const struct ckpt_flatbuffer_table *q)
{
	const struct ckpt_seq *args = &plain->u.call->args->u.seq;
	const struct ckpt_value *items[7] = { args->items[0], args->items[1],	    args->items[2],
					      args->items[3], read_quantizer(r, q), args->items[4],
					      args->items[5] };

	return ckpt_mobile_made(r, ckpt_maker_call(r->maker,
						   ckpt_maker_global(r->maker, "torch._utils",
								     "_rebuild_qtensor"),
						   ckpt_maker_tuple(r->maker, items, 7)));
}

const struct ckpt_value *ckpt_mobile_read_tensor(struct ckpt_mobile_reader *r,
						 const struct ckpt_flatbuffer_table *t)
{
	struct ckpt_flatbuffer_table q = ckpt_flatbuffer_table(r->fb, t, TENSOR_QUANTIZED);
	uint64_t shape[CKPT_MOST_DIMS], stride[CKPT_MOST_DIMS],
		dtype = ckpt_flatbuffer_scalar(r->fb, t, TENSOR_DTYPE, 1, 0),
		storage = ckpt_flatbuffer_scalar(r->fb, t, TENSOR_STORAGE, 4, 0);
	struct ckpt_maker_view view = { .shape = shape, .stride = stride };
	const struct ckpt_value *v;
	uint32_t strides;

	view.offset = ckpt_flatbuffer_scalar(r->fb, t, TENSOR_OFFSET, 4, 0);
	view.requires_grad = ckpt_flatbuffer_scalar(r->fb, t, TENSOR_REQUIRES_GRAD, 1, 0);
	if (read_dims(r, t, TENSOR_SIZES, shape, &view.ndim) < 0 ||
	    read_dims(r, t, TENSOR_STRIDES, stride, &strides) < 0)
		return NULL;
	if (strides != view.ndim || view.offset > INT32_MAX)
		return ckpt_mobile_fail(r, CKPT_E_FORMAT, t->at,
					"sizes, strides and offset of a tensor do not fit");
	if (dtype >= sizeof(dtypes) / sizeof(dtypes[0]))
		return ckpt_mobile_fail(r, CKPT_E_UNSUPPORTED, t->at,
					"a tensor whose dtype has no known number");
	view.dtype = dtypes[dtype];
	v = find_storage(r, storage, view.dtype, t->at);
	v = v ? ckpt_mobile_made(r, ckpt_maker_tensor(r->maker, v, &view)) : NULL;
	return v && q.at ? make_quantized(r, v, &q) : v;
}
