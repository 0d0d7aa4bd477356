/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantized tensors: integers, and how they stand for numbers. Source: torch/_utils.py,
 * _rebuild_qtensor(); aten/src/ATen/native/quantized/AffineQuantizerBase.cpp, dequantize_val().
 *
 * The numbers must be torch's to the last bit, so each rounding to float is where torch has it.
 * Types with several integers to a byte (quint4x2, quint2x4) are unpacked whole into memory,
 * since a view may begin inside a byte; all others stay in their file until they are read.
 */
#include "array/array.h"

#include <math.h>
#include <string.h>

static enum ckpt_dtype integers_of(enum ckpt_dtype dtype)
{
	switch (dtype) {
	case CKPT_DTYPE_QINT8: return CKPT_DTYPE_INT8;
	case CKPT_DTYPE_QINT32: return CKPT_DTYPE_INT32;
	case CKPT_DTYPE_QUINT8:
	case CKPT_DTYPE_QUINT4X2:
	case CKPT_DTYPE_QUINT2X4: return CKPT_DTYPE_UINT8;
	default: return CKPT_DTYPE_UNKNOWN;
	}
}

/* ---- numbers of it ---- */

static double integer_at(enum ckpt_dtype from, const uint8_t *in)
{
	int32_t wide;

	switch (from) {
	case CKPT_DTYPE_INT8: return (int8_t)*in;
	case CKPT_DTYPE_UINT8: return *in;
	default: memcpy(&wide, in, sizeof(wide)); return wide;
	}
}

/*
 * Every step is rounded as torch rounds it: the scale of a whole tensor is a float32, that of a
 * channel a double; with zero points that are floats themselves all numbers are. So since torch
 * 1.13 at the latest; 1.7 took a double for a tensor, too. Of a tensor of qint32 the difference wraps, as int32 does.
 */
static float dequantize(const struct ckpt_dequantize *d, double integer, uint64_t channel)
{
	double scale = d->scales[channel], zero_point = d->zero_points[channel];

	if (d->float_zero_points)
		return ((float)integer - (float)zero_point) * (float)scale;
	if (d->per_channel)
		return (float)((double)((float)integer - (float)zero_point) * scale);
	integer -= zero_point;
	if (d->from == CKPT_DTYPE_INT32 && fabs(integer) < 0x1p62)
		integer = (int32_t)(uint32_t)(int64_t)integer;
	return (float)integer * (float)scale;
}

static int dequantize_items(const struct ckpt_map *map, const void *kept, uint64_t pos,
			    const void *in, size_t len, void *out, struct ckpt_error *err)
{
	const struct ckpt_dequantize *d = (const struct ckpt_dequantize *)map;
	const uint8_t *p = in;
	uint64_t item = pos / map->from;

	(void)kept;
	(void)err;
	for (size_t i = 0; i < len / map->from; i++, item++) {
		float v = dequantize(d, integer_at(d->from, p + i * map->from),
				     item / d->inner % d->channels);

		memcpy((uint8_t *)out + i * sizeof(v), &v, sizeof(v));
	}
	return 0;
}

/* ---- several numbers to a byte ---- */

/*
 * Element I is in the lower bits of its byte if it comes first. Source: c10/util/quint4x2.h, seen
 * in results.
 */
static int unpack_items(struct ckpt_array *a, uint32_t packed, struct ckpt_error *err)
{
	const struct ckpt_storage *s = &a->model->storages[a->t.storage];
	uint8_t *bytes = ckpt_arena_alloc(a->arena, s->nbytes + 1),
		*wide = bytes ? ckpt_arena_alloc(a->arena, s->nbytes * packed + 1) : NULL;
	uint32_t bits = 8 / packed;
	struct ckpt_recipe all;
	struct ckpt_stream *stream;
	int rc;

	if (!wide)
		return ckpt_arena_fail(a->arena, err);
	rc = ckpt_model_storage_bytes(a->model, s, &all, err);
	if (rc == 0 && all.len < s->nbytes)
		rc = ckpt_fail(err, CKPT_E_FORMAT, "has a storage that is too short");
	if (rc == 0)
		rc = ckpt_recipe_stream(&all, &stream, err);
	if (rc < 0)
		return rc;
	rc = s->nbytes ? stream->read(stream, bytes, s->nbytes, err) : 0;
	stream->close(stream);
	for (uint64_t i = 0; i < s->nbytes * packed; i++)
		wide[i] = (uint8_t)(bytes[i / packed] >> bits * (i % packed) & ((1u << bits) - 1));
	a->items = (struct ckpt_items){
		.bytes = { .kind = CKPT_RECIPE_MEMORY, .memory = wide, .len = s->nbytes * packed },
		.itemsize = 1,
		.ndim = a->t.ndim,
		.offset = a->t.offset,
		.shape = a->t.shape,
		.stride = a->t.stride
	};
	return rc < 0 ? rc : ckpt_items_check(&a->items, err);
}

/* torch gives the bytes of such a tensor in one row. */
static int set_packed_items(struct ckpt_array *a, uint32_t packed, struct ckpt_error *err)
{
	uint64_t *dims = ckpt_arena_calloc(a->arena, 2, sizeof(*dims)), numel = ckpt_array_numel(a);

	if (!dims)
		return ckpt_arena_fail(a->arena, err);
	dims[0] = numel / packed + (numel % packed != 0);
	dims[1] = 1;
	a->t.ndim = 1;
	a->t.shape = dims;
	a->t.stride = dims + 1;
	a->t.offset /= packed;
	return ckpt_array_set_items(a, &a->t, err);
}

/* ---- the quantizer ---- */

static int read_doubles(const struct ckpt_array *a, const char *part, double *out, uint64_t count,
			struct ckpt_error *err)
{
	struct ckpt_array *inner;
	int rc = ckpt_array_part(a, part, &inner, err);

	if (rc < 0)
		return rc;
	rc = ckpt_array_doubles(inner, out, count, err);
	ckpt_array_close(inner);
	return rc;
}

static bool read_number(const struct ckpt_value *v, double *out)
{
	if (v->kind != CKPT_INT && v->kind != CKPT_FLOAT)
		return false;
	*out = v->kind == CKPT_INT ? (double)v->u.integer : v->u.real;
	return true;
}

/* ('per_tensor_affine', scale, zero point) */
static int read_per_tensor(struct ckpt_array *a, const struct ckpt_value *const *items,
			   double *numbers, struct ckpt_error *err)
{
	const struct ckpt_value *zero = ckpt_model_now(a->model, items[2]);

	if (!read_number(ckpt_model_now(a->model, items[1]), &numbers[0]) || zero->kind != CKPT_INT)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "has a quantizer without scale and zero point");
	numbers[1] = (double)zero->u.integer;
	a->scale = numbers[0];
	a->zero_point = zero->u.integer;
	return 0;
}

/* (qscheme, scales, zero points, axis) */
static int read_per_channel(struct ckpt_array *a, const struct ckpt_value *const *items,
			    struct ckpt_dequantize *d, double *numbers, struct ckpt_error *err)
{
	const struct ckpt_value *axis = ckpt_model_now(a->model, items[3]);
	struct ckpt_array *zeros;
	int rc;

	a->axis = (uint32_t)axis->u.integer;
	d->per_channel = true;
	a->parts[a->part_count++] =
		(struct ckpt_array_part_value){ "scales", ckpt_model_now(a->model, items[1]) };
	a->parts[a->part_count++] =
		(struct ckpt_array_part_value){ "zero_points", ckpt_model_now(a->model, items[2]) };
	rc = ckpt_array_part(a, "zero_points", &zeros, err);
	if (rc < 0)
		return rc;
	d->float_zero_points = zeros->t.dtype == CKPT_DTYPE_FLOAT32;
	ckpt_array_close(zeros);
	rc = read_doubles(a, "scales", numbers, d->channels, err);
	return rc < 0 ? rc
		      : read_doubles(a, "zero_points", numbers + d->channels, d->channels, err);
}

/* torch's dequantize() refuses zero points that the integers cannot have (checkZeroPoint() in AffineQuantizerBase.cpp). */
static int check_zero_points(const struct ckpt_dequantize *d, struct ckpt_error *err)
{
	double least = d->from == CKPT_DTYPE_INT8 ? INT8_MIN : d->from == CKPT_DTYPE_UINT8 ? 0 : INT32_MIN,
	       most = d->from == CKPT_DTYPE_INT8 ? INT8_MAX : d->from == CKPT_DTYPE_UINT8 ? UINT8_MAX : INT32_MAX;

	for (uint64_t i = 0; !d->float_zero_points && i < d->channels; i++)
		if (!(d->zero_points[i] >= least && d->zero_points[i] <= most))
			return ckpt_fail(err, CKPT_E_FORMAT, "has the zero point %.0f, and its integers are from %.0f to %.0f",
					 d->zero_points[i], least, most);
	return 0;
}

static int fill_quantizer(struct ckpt_array *a, const struct ckpt_value *params,
			  struct ckpt_dequantize *d, struct ckpt_error *err)
{
	const struct ckpt_value *const *items = params->u.seq.items, *scheme, *axis;
	double *numbers;
	bool tensor;
	int rc;

	if (params->kind != CKPT_TUPLE || params->u.seq.count < 3)
		return ckpt_fail(err, CKPT_E_FORMAT, "has no quantizer");
	scheme = ckpt_model_now(a->model, items[0]);
	tensor = ckpt_value_is_global(scheme, "torch", "per_tensor_affine");
	axis = params->u.seq.count > 3 ? ckpt_model_now(a->model, items[3]) : NULL;
	if (!tensor &&
	    (scheme->kind != CKPT_GLOBAL ||
	     strncmp(scheme->u.global->name, "per_channel", 11) != 0 || !axis ||
	     axis->kind != CKPT_INT || axis->u.integer < 0 || axis->u.integer >= a->t.ndim))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "has a quantizer of another kind");
	a->qscheme = scheme->u.global->name;
	d->channels = tensor ? 1 : a->t.shape[axis->u.integer];
	d->inner = 1;
	for (uint32_t i = tensor ? a->t.ndim : (uint32_t)axis->u.integer + 1; i < a->t.ndim; i++)
		d->inner *= a->t.shape[i];
	numbers =
		ckpt_arena_calloc(a->arena,
				  d->channels > UINT32_MAX ? UINT64_MAX / 16 : 2 * d->channels + 1,
				  sizeof(*numbers));
	if (!numbers)
		return ckpt_arena_fail(a->arena, err);
	d->scales = numbers;
	d->zero_points = numbers + d->channels;
	rc = tensor ? read_per_tensor(a, items, numbers, err)
		    : read_per_channel(a, items, d, numbers, err);
	return rc < 0 ? rc : check_zero_points(d, err);
}

int ckpt_array_quantized(struct ckpt_array *a, const struct ckpt_seq *args, bool raw,
			 struct ckpt_error *err)
{
	enum ckpt_dtype from = integers_of(a->t.dtype);
	uint32_t packed = ckpt_dtype_packed(a->t.dtype);
	struct ckpt_dequantize d = { .map = { .to = sizeof(float), .apply = dequantize_items },
				     .from = from };
	int rc;

	if (from == CKPT_DTYPE_UNKNOWN)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "is quantized, and of dtype %s",
				 ckpt_dtype_name(a->t.dtype));
	if (!args || args->count < 5)
		return ckpt_fail(err, CKPT_E_FORMAT, "has no quantizer");
	if (raw) {
		a->t.kind = CKPT_KIND_STRIDED;
		a->dtype = ckpt_dtype_name(from);
		rc = packed > 1 ? set_packed_items(a, packed, err)
				: ckpt_array_set_items(a, &a->t, err);
		ckpt_array_choose_dtype(a, from);
		return rc;
	}
	a->parts[a->part_count++] = (struct ckpt_array_part_value){ "int_repr", a->t.value };
	rc = packed > 1 && ckpt_array_numel(a) ? unpack_items(a, packed, err)
					       : ckpt_array_set_items(a, &a->t, err);
	if (rc == 0)
		rc = fill_quantizer(a, ckpt_model_now(a->model, args->items[4]), &d, err);
	d.map.from = a->items.itemsize;
	if (!d.channels || !d.inner)
		d.channels = d.inner = 1; /* there are no items, either */
	if (rc == 0)
		ckpt_array_add_step(a)->dequantize = d;
	a->reads = CKPT_DTYPE_FLOAT32;
	return rc;
}

int ckpt_array_slice_channels(struct ckpt_array *a, uint64_t first, int64_t step, uint64_t count,
			      uint64_t inner, struct ckpt_error *err)
{
	struct ckpt_dequantize *d = &a->steps[a->step_count - 1].dequantize; /* the last of them */
	double *numbers = ckpt_arena_calloc(a->arena, 2 * count + 1, sizeof(*numbers));

	if (!numbers)
		return ckpt_arena_fail(a->arena, err);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t from = first + i * (uint64_t)step;

		numbers[i] = d->scales[from];
		numbers[count + i] = d->zero_points[from];
	}
	d->channels = count;
	d->inner = inner;
	d->scales = numbers;
	d->zero_points = numbers + count;
	return 0;
}
