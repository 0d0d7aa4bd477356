/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Casts by way of float32 or, where float64 or integers take part, of double. Source of the
 * rounding: Tensor.to() of torch 2.14 on x86, which tests/interop/cast.py compares for all values
 * of the narrow types.
 *
 * What must stay true: between float32 and narrower types, numbers move as bits, so that no
 * signaling NaN becomes quiet on the way. Every set of kernels gives the same bits as the plain
 * one. Blocks are cast on the stack, so memory does not grow with the tensor.
 */
#include "tensor/cast.h"

#include "tensor/cast_kernels.h"
#include "tensor/float8.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { BLOCK = 1024 }; /* numbers that are cast at a time where there is a step between */

/* Torch's loops for float32 and float64 make this of every NaN, its other ways the usual one. */
enum { NAN_OF_LOOPS = 0xFFFF, NAN_USUAL = 0x7FC0 };

bool ckpt_dtype_is_floating(enum ckpt_dtype dtype)
{
	switch (dtype) {
	case CKPT_DTYPE_FLOAT64:
	case CKPT_DTYPE_FLOAT32:
	case CKPT_DTYPE_FLOAT16:
	case CKPT_DTYPE_BFLOAT16:
	case CKPT_DTYPE_FLOAT8_E5M2:
	case CKPT_DTYPE_FLOAT8_E4M3FN:
	case CKPT_DTYPE_FLOAT8_E5M2FNUZ:
	case CKPT_DTYPE_FLOAT8_E4M3FNUZ:
	case CKPT_DTYPE_FLOAT8_E8M0FNU: return true;
	default: return false;
	}
}

static bool is_integer(enum ckpt_dtype dtype)
{
	switch (dtype) {
	case CKPT_DTYPE_INT64:
	case CKPT_DTYPE_INT32:
	case CKPT_DTYPE_INT16:
	case CKPT_DTYPE_INT8:
	case CKPT_DTYPE_UINT8:
	case CKPT_DTYPE_BOOL: return true;
	default: return false;
	}
}

bool ckpt_cast_known(enum ckpt_dtype from, enum ckpt_dtype to)
{
	return ckpt_dtype_is_floating(from) && (ckpt_dtype_is_floating(to) || is_integer(to));
}

/* ---- any floating type to and from float32 ---- */

static void from_float64(const uint8_t *in, uint32_t *out, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		double wide;
		float narrow;

		memcpy(&wide, in + i * sizeof(wide), sizeof(wide));
		narrow = (float)wide;
		memcpy(out + i, &narrow, sizeof(narrow));
	}
}

static void to_float32(const struct ckpt_cast_kernels *k, enum ckpt_dtype from, const uint8_t *in,
		       uint32_t *out, size_t count)
{
	switch (from) {
	case CKPT_DTYPE_FLOAT64: from_float64(in, out, count); break;
	case CKPT_DTYPE_FLOAT32: memcpy(out, in, count * 4); break;
	case CKPT_DTYPE_FLOAT16: k->float16_to_float32((const uint16_t *)in, out, count); break;
	case CKPT_DTYPE_BFLOAT16: k->bfloat16_to_float32((const uint16_t *)in, out, count); break;
	default:
		for (size_t i = 0; i < count; i++)
			out[i] = ckpt_float8_widen(from, in[i]);
	}
}

static void from_float32(const struct ckpt_cast_kernels *k, enum ckpt_dtype to, const uint32_t *in,
			 uint8_t *out, size_t count, uint16_t nan_bits)
{
	switch (to) {
	case CKPT_DTYPE_FLOAT32: memcpy(out, in, count * 4); break;
	case CKPT_DTYPE_FLOAT16: k->float32_to_float16(in, (uint16_t *)out, count); break;
	case CKPT_DTYPE_BFLOAT16:
		k->float32_to_bfloat16(in, (uint16_t *)out, count, nan_bits);
		break;
	default:
		for (size_t i = 0; i < count; i++)
			out[i] = ckpt_float8_narrow(to, in[i]);
	}
}

/* ---- float64 and integers, by way of double ---- */

static void to_doubles(const struct ckpt_cast_kernels *k, enum ckpt_dtype from, const uint8_t *in,
		       double *out, size_t count)
{
	uint32_t bits[BLOCK];

	if (from == CKPT_DTYPE_FLOAT64) {
		memcpy(out, in, count * 8);
		return;
	}
	to_float32(k, from, in, bits, count);
	for (size_t i = 0; i < count; i++) {
		float narrow;

		memcpy(&narrow, bits + i, sizeof(narrow));
		out[i] = (double)narrow;
	}
}

/*
 * What the processor's own conversion gives: the least integer for what does not fit, and for NaN.
 */
static int64_t truncate(double v, double limit, int64_t least)
{
	return v > -limit - 1 && v < limit ? (int64_t)v : least;
}

static void store_integer(enum ckpt_dtype to, double v, uint8_t *out)
{
	int64_t wide = truncate(v, 0x1p63, INT64_MIN);
	int32_t middle = (int32_t)truncate(v, 0x1p31, INT32_MIN);

	switch (to) {
	case CKPT_DTYPE_INT64: memcpy(out, &wide, 8); break;
	case CKPT_DTYPE_INT32: memcpy(out, &middle, 4); break;
	case CKPT_DTYPE_INT16: memcpy(out, &(int16_t){ (int16_t)middle }, 2); break;
	case CKPT_DTYPE_BOOL: *out = v != 0; break;
	default: *out = (uint8_t)wide;
	}
}

static void from_doubles(enum ckpt_dtype to, const double *in, uint8_t *out, size_t count)
{
	uint32_t size = ckpt_dtype_size(to);

	if (to == CKPT_DTYPE_FLOAT64) {
		memcpy(out, in, count * 8);
		return;
	}
	for (size_t i = 0; i < count; i++)
		store_integer(to, in[i], out + i * size);
}

/* ---- all of it ---- */

static void cast_block(const struct ckpt_cast_kernels *k, enum ckpt_dtype from, enum ckpt_dtype to,
		       const uint8_t *in, uint8_t *out, size_t count)
{
	bool loops = from == CKPT_DTYPE_FLOAT32 || from == CKPT_DTYPE_FLOAT64;
	double doubles[BLOCK];
	uint32_t bits[BLOCK];

	if (to == CKPT_DTYPE_FLOAT64 || is_integer(to)) {
		to_doubles(k, from, in, doubles, count);
		from_doubles(to, doubles, out, count);
		return;
	}
	to_float32(k, from, in, bits, count);
	from_float32(k, to, bits, out, count, loops ? NAN_OF_LOOPS : NAN_USUAL);
}

static void cast_items(const struct ckpt_cast_kernels *k, enum ckpt_dtype from, enum ckpt_dtype to,
		       const uint8_t *in, uint8_t *out, size_t count)
{
	uint32_t from_size = ckpt_dtype_size(from), to_size = ckpt_dtype_size(to);

	assert(ckpt_cast_known(from, to));
	if (from == CKPT_DTYPE_FLOAT32 && to == CKPT_DTYPE_BFLOAT16) {
		k->float32_to_bfloat16((const uint32_t *)in, (uint16_t *)out, count, NAN_OF_LOOPS);
		return;
	}
	for (size_t i = 0; i < count; i += BLOCK)
		cast_block(k, from, to, in + i * from_size, out + i * to_size,
			   count - i < BLOCK ? count - i : BLOCK);
}

void ckpt_cast_items(enum ckpt_dtype from, enum ckpt_dtype to, const void *in, void *out,
		     size_t count)
{
	cast_items(ckpt_cast_best(), from, to, in, out, count);
}

void ckpt_cast_items_plain(enum ckpt_dtype from, enum ckpt_dtype to, const void *in, void *out,
			   size_t count)
{
	cast_items(&ckpt_cast_plain, from, to, in, out, count);
}

/* ---- doubles, rounded once ---- */

void ckpt_cast_to_doubles(enum ckpt_dtype from, const void *in, double *out, size_t count)
{
	const struct ckpt_cast_kernels *k = ckpt_cast_best();
	uint32_t size = ckpt_dtype_size(from);

	for (size_t i = 0; i < count; i += BLOCK)
		to_doubles(k, from, (const uint8_t *)in + i * size, out + i,
			   count - i < BLOCK ? count - i : BLOCK);
}

/*
 * The float32 beside V whose last bit is set, where V is none itself ("round to odd"). It has more
 * than two bits more than any narrower type, so what is rounded from it is what would be rounded
 * from V.
 */
static uint32_t round_to_odd(double v)
{
	float narrow = (float)v;
	double back = (double)narrow;
	uint32_t bits;

	memcpy(&bits, &narrow, sizeof(bits));
	bits -= fabs(back) > fabs(v); /* toward zero: from infinity to the largest number */
	return bits | (back != v);    /* NaN stays one */
}

void ckpt_cast_from_doubles(enum ckpt_dtype to, const double *in, void *out, size_t count)
{
	const struct ckpt_cast_kernels *k = ckpt_cast_best();
	uint32_t size = ckpt_dtype_size(to), bits[BLOCK];
	uint8_t *bytes = out;

	if (to == CKPT_DTYPE_FLOAT64) {
		memcpy(out, in, count * sizeof(*in));
		return;
	}
	for (size_t i = 0; i < count && to == CKPT_DTYPE_FLOAT32; i++) {
		float narrow = (float)in[i];

		memcpy(bytes + i * sizeof(narrow), &narrow, sizeof(narrow));
	}
	for (size_t i = 0; i < count && to != CKPT_DTYPE_FLOAT32; i += BLOCK) {
		size_t n = count - i < BLOCK ? count - i : BLOCK;

		for (size_t j = 0; j < n; j++)
			bits[j] = round_to_odd(in[i + j]);
		from_float32(k, to, bits, bytes + i * size, n, NAN_USUAL);
	}
}

/* ---- as a recipe ---- */

static void cast_piece(const struct ckpt_map *map, uint64_t pos, const void *in, size_t len, void *out)
{
	const struct ckpt_cast *cast = (const struct ckpt_cast *)map;

	(void)pos;
	ckpt_cast_items(cast->from, cast->to, in, out, len / map->from);
}

struct ckpt_cast ckpt_cast_of(const struct ckpt_recipe *inner, enum ckpt_dtype from,
			      enum ckpt_dtype to)
{
	return (struct ckpt_cast){ { *inner, ckpt_dtype_size(from), ckpt_dtype_size(to), cast_piece },
				   from,
				   to };
}
