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
#include "tensor/cast_tally.h"
#include "tensor/float8.h"

#include <assert.h>
#include <float.h>
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

/* ---- what is lost ---- */

enum { INFINITE = 0x7F800000 };

/*
 * What a target cannot hold, and what a source can: magnitudes as the bits of a float32. A number
 * that is half way between the largest and what would come next goes up, but in float8_e4m3fn;
 * half of the smallest goes to 0. tests/unit/test_cast.c tries the numbers beside each limit.
 */
static const struct range {
	struct ckpt_cast_limits limits;
	uint32_t least, most; /* but for 0; infinity is one of them */
} ranges[CKPT_DTYPE_COUNT] = {
	[CKPT_DTYPE_FLOAT64] = { { UINT32_MAX, 0, 0 }, 0, INFINITE },
	[CKPT_DTYPE_FLOAT32] = { { INFINITE, INFINITE, 0 }, 1, INFINITE },
	[CKPT_DTYPE_FLOAT16] = { { 0x477FF000, INFINITE, 0x33000000 }, 0x33800000, INFINITE },
	[CKPT_DTYPE_BFLOAT16] = { { 0x7F7F8000, INFINITE, 0x8000 }, 0x10000, INFINITE },
	[CKPT_DTYPE_FLOAT8_E5M2] = { { 0x47700000, INFINITE, 0x37000000 }, 0x37800000, INFINITE },
	[CKPT_DTYPE_FLOAT8_E4M3FN] = { { 0x43E80001, INFINITE + 1, 0x3A800000 },
				       0x3B000000,
				       0x43E00000 },
	[CKPT_DTYPE_FLOAT8_E5M2FNUZ] = { { 0x47700000, INFINITE + 1, 0x36800000 },
					 0x37000000,
					 0x47600000 },
	[CKPT_DTYPE_FLOAT8_E4M3FNUZ] = { { 0x43780000, INFINITE + 1, 0x3A000000 },
					 0x3A800000,
					 0x43700000 },
	[CKPT_DTYPE_FLOAT8_E8M0FNU] = { { 0x7F400000, INFINITE + 1, 0 }, 0x400000, 0x7F000000 },
};

bool ckpt_cast_can_lose(enum ckpt_dtype from, enum ckpt_dtype to)
{
	const struct ckpt_cast_limits *limits = &ranges[to].limits;
	uint32_t most = ranges[from].most, least = ranges[from].least;

	if (is_integer(to))
		return to != CKPT_DTYPE_BOOL;
	if (to == CKPT_DTYPE_FLOAT64 || from == to)
		return false;
	if (from == CKPT_DTYPE_FLOAT64)
		return true;
	if (most == INFINITE && limits->top == INFINITE) /* which stays; what is the next? */
		most = from == CKPT_DTYPE_FLOAT32    ? 0x7F7FFFFF
		       : from == CKPT_DTYPE_BFLOAT16 ? 0x7F7F0000
		       : from == CKPT_DTYPE_FLOAT16  ? 0x477FE000
						     : 0x47600000;
	return most >= limits->over || least <= limits->under;
}

/* Half way between the float32 with BITS and the one before. */
static double half_before(uint32_t bits)
{
	uint32_t before = bits - 1;
	float low, high;

	memcpy(&low, &before, sizeof(low));
	if (bits == INFINITE)
		return (double)low + 0x1p103;
	memcpy(&high, &bits, sizeof(high));
	return ((double)low + (double)high) / 2;
}

/* float64 goes by way of float32, to the nearest; a tie to the one with even bits. */
static struct ckpt_cast_wide_limits wide_limits(enum ckpt_dtype to)
{
	const struct ckpt_cast_limits *limits = &ranges[to].limits;
	struct ckpt_cast_wide_limits wide = {
		.over = half_before(limits->over),
		.most = limits->top > INFINITE ? (double)INFINITY : DBL_MAX,
		.under = half_before(limits->under + 1),
	};

	if (limits->over & 1)
		wide.over = nextafter(wide.over, (double)INFINITY);
	if (limits->under & 1)
		wide.under = nextafter(wide.under, 0);
	if (to == CKPT_DTYPE_FLOAT8_E8M0FNU) /* which has no 0 */
		wide.under = 0;
	return wide;
}

static bool fits_integer(enum ckpt_dtype to, double v)
{
	switch (to) {
	case CKPT_DTYPE_INT64: return v >= -0x1p63 && v < 0x1p63;
	case CKPT_DTYPE_INT32: return v > -0x1p31 - 1 && v < 0x1p31;
	case CKPT_DTYPE_INT16: return v > -0x1p15 - 1 && v < 0x1p15;
	case CKPT_DTYPE_INT8: return v > -0x1p7 - 1 && v < 0x1p7;
	case CKPT_DTYPE_UINT8: return v > -1 && v < 0x1p8;
	default: return true;
	}
}

/* Item I is the first that is lost in some way, of those that are counted together. */
static void note_first(struct ckpt_cast_count *lost, bool over, bool under, uint64_t i)
{
	if (over && lost->first_overflow == UINT64_MAX)
		lost->first_overflow = i;
	if (under && lost->first_underflow == UINT64_MAX)
		lost->first_underflow = i;
}

/* IN: float64 or float32, whichever WIDE says. */
static void count_some(const struct ckpt_cast_kernels *k, enum ckpt_dtype to, bool wide,
		       const uint8_t *in, size_t count, uint64_t *over, uint64_t *under)
{
	struct ckpt_cast_wide_limits limits;

	*over = *under = 0;
	if (!wide) {
		k->count_lost((const uint32_t *)in, count, &ranges[to].limits, over, under);
		return;
	}
	limits = wide_limits(to);
	k->count_wide((const double *)in, count, &limits, over, under);
}

static void count_floats(const struct ckpt_cast_kernels *k, enum ckpt_dtype to, bool wide,
			 const uint8_t *in, size_t count, uint64_t at, struct ckpt_cast_count *lost)
{
	uint64_t over, under;
	bool find;

	count_some(k, to, wide, in, count, &over, &under);
	lost->overflowed += over;
	lost->underflowed += under;
	find = (over && lost->first_overflow == UINT64_MAX) ||
	       (under && lost->first_underflow == UINT64_MAX);
	for (size_t i = 0; find && i < count; i++) {
		count_some(&ckpt_cast_plain, to, wide, in + i * (wide ? 8 : 4), 1, &over, &under);
		note_first(lost, over, under, at + i);
	}
}

static void count_integers(enum ckpt_dtype to, const double *in, size_t count, uint64_t at,
			   struct ckpt_cast_count *lost)
{
	for (size_t i = 0; i < count; i++) {
		bool over = !fits_integer(to, in[i]);

		lost->overflowed += over;
		note_first(lost, over, false, at + i);
	}
}

/* ---- all of it ---- */

static void cast_block(const struct ckpt_cast_kernels *k, enum ckpt_dtype from, enum ckpt_dtype to,
		       const uint8_t *in, uint8_t *out, size_t count, uint64_t at,
		       struct ckpt_cast_count *lost)
{
	bool loops = from == CKPT_DTYPE_FLOAT32 || from == CKPT_DTYPE_FLOAT64;
	double doubles[BLOCK];
	uint32_t bits[BLOCK];

	if (to == CKPT_DTYPE_FLOAT64 || is_integer(to)) {
		to_doubles(k, from, in, doubles, count);
		if (lost)
			count_integers(to, doubles, count, at, lost);
		from_doubles(to, doubles, out, count);
		return;
	}
	to_float32(k, from, in, bits, count);
	if (lost && from == CKPT_DTYPE_FLOAT64)
		count_floats(k, to, true, in, count, at, lost);
	else if (lost)
		count_floats(k, to, false, (const uint8_t *)bits, count, at, lost);
	from_float32(k, to, bits, out, count, loops ? NAN_OF_LOOPS : NAN_USUAL);
}

static void cast_items(const struct ckpt_cast_kernels *k, enum ckpt_dtype from, enum ckpt_dtype to,
		       const uint8_t *in, uint8_t *out, size_t count, struct ckpt_cast_count *lost)
{
	bool direct = from == CKPT_DTYPE_FLOAT32 && to == CKPT_DTYPE_BFLOAT16;
	uint32_t from_size = ckpt_dtype_size(from), to_size = ckpt_dtype_size(to);

	assert(ckpt_cast_known(from, to));
	if (lost && !ckpt_cast_can_lose(from, to))
		lost = NULL;
	for (size_t i = 0; i < count; i += BLOCK) {
		size_t n = count - i < BLOCK ? count - i : BLOCK;
		const uint8_t *numbers = in + i * from_size;

		if (!direct) {
			cast_block(k, from, to, numbers, out + i * to_size, n, i, lost);
			continue;
		}
		if (lost)
			count_floats(k, to, false, numbers, n, i, lost);
		k->float32_to_bfloat16((const uint32_t *)numbers, (uint16_t *)(out + i * to_size),
				       n, NAN_OF_LOOPS);
	}
}

void ckpt_cast_items(enum ckpt_dtype from, enum ckpt_dtype to, const void *in, void *out,
		     size_t count)
{
	cast_items(ckpt_cast_best(), from, to, in, out, count, NULL);
}

void ckpt_cast_items_plain(enum ckpt_dtype from, enum ckpt_dtype to, const void *in, void *out,
			   size_t count)
{
	cast_items(&ckpt_cast_plain, from, to, in, out, count, NULL);
}

void ckpt_cast_items_counting(enum ckpt_dtype from, enum ckpt_dtype to, const void *in, void *out,
			      size_t count, struct ckpt_cast_count *lost)
{
	cast_items(ckpt_cast_best(), from, to, in, out, count, lost);
}

void ckpt_cast_items_counting_plain(enum ckpt_dtype from, enum ckpt_dtype to, const void *in,
				    void *out, size_t count, struct ckpt_cast_count *lost)
{
	cast_items(&ckpt_cast_plain, from, to, in, out, count, lost);
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

static int cast_piece(const struct ckpt_map *map, const void *kept, uint64_t pos,
		      const void *in, size_t len, void *out, struct ckpt_error *err)
{
	const struct ckpt_cast *cast = (const struct ckpt_cast *)map;

	(void)kept;
	(void)err;
	if (cast->tally)
		ckpt_cast_tally_items(cast->tally, cast, pos / map->from, in, out, len / map->from);
	else
		ckpt_cast_items(cast->from, cast->to, in, out, len / map->from);
	return 0;
}

struct ckpt_cast ckpt_cast_of(const struct ckpt_recipe *inner, enum ckpt_dtype from,
			      enum ckpt_dtype to)
{
	return (struct ckpt_cast){
		{ *inner, ckpt_dtype_size(from), ckpt_dtype_size(to), cast_piece, NULL, NULL }, from, to,
		NULL
	};
}
