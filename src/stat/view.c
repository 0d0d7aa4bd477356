/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts stored bytes to numbers, some thousand at a time, and tallies them or counts them in
 * bins.
 *
 * Every kind of dtype has its way (enum ckpt_stat_kind): 8-bit dtypes are counted by code, halves
 * are widened to float32, integers stay integers. Bins follow numpy.histogram() to the last number:
 * compare with it before changing count_in_bin(). A piece has at most CKPT_TALLY_MOST items, which
 * the buffers on the stack rely on.
 */
#include "stat/view.h"

#include "tensor/cast_kernels.h"

#include <math.h>
#include <string.h>

struct piece {
	const struct ckpt_stat_view *view;
	uint8_t buffers[2][16 * CKPT_TALLY_MOST];
	const uint8_t *values; /* of view->dtype */
	uint64_t first;
	size_t count;
};

/* ---- dtypes ---- */

enum ckpt_stat_kind ckpt_stat_kind_of(enum ckpt_dtype dtype)
{
	switch (dtype) {
	case CKPT_DTYPE_FLOAT32: return CKPT_STAT_FLOAT32;
	case CKPT_DTYPE_FLOAT16:
	case CKPT_DTYPE_BFLOAT16: return CKPT_STAT_HALF;
	case CKPT_DTYPE_FLOAT64: return CKPT_STAT_FLOAT64;
	case CKPT_DTYPE_COMPLEX32:
	case CKPT_DTYPE_BCOMPLEX32:
	case CKPT_DTYPE_COMPLEX64:
	case CKPT_DTYPE_COMPLEX128: return CKPT_STAT_COMPLEX;
	default: return ckpt_dtype_size(dtype) == 1 ? CKPT_STAT_CODES : CKPT_STAT_INTEGER;
	}
}

bool ckpt_stat_is_integer(enum ckpt_dtype dtype)
{
	enum ckpt_stat_kind kind = ckpt_stat_kind_of(dtype);

	return kind == CKPT_STAT_INTEGER ||
	       (kind == CKPT_STAT_CODES && !ckpt_dtype_is_floating(dtype));
}

void ckpt_stat_codes(enum ckpt_dtype dtype, double *codes)
{
	for (int i = 0; i < 256; i++) {
		uint8_t code = (uint8_t)i;

		if (ckpt_dtype_is_floating(dtype))
			ckpt_cast_items(dtype, CKPT_DTYPE_FLOAT64, &code, &codes[i], 1);
		else if (dtype == CKPT_DTYPE_BOOL)
			codes[i] = code != 0;
		else
			codes[i] = dtype == CKPT_DTYPE_INT8 ? (double)(int8_t)code : (double)code;
	}
}

/* ---- numbers ---- */

#define WIDEN(type) \
	do { \
		for (size_t i = 0; i < count; i++) { \
			type v; \
\
			memcpy(&v, in + i * sizeof(v), sizeof(v)); \
			out[i] = v; \
		} \
	} while (0)

/* 64-bit unsigned integers less 2^63. */
static void to_integers(enum ckpt_dtype dtype, const uint8_t *in, size_t count, int64_t *out)
{
	switch (dtype) {
	case CKPT_DTYPE_INT16: WIDEN(int16_t); break;
	case CKPT_DTYPE_INT32: WIDEN(int32_t); break;
	case CKPT_DTYPE_UINT16:
	case CKPT_DTYPE_BITS16: WIDEN(uint16_t); break;
	case CKPT_DTYPE_UINT32: WIDEN(uint32_t); break;
	default: memcpy(out, in, count * sizeof(*out));
	}
	for (size_t i = 0; dtype == CKPT_DTYPE_UINT64 && i < count; i++)
		out[i] = (int64_t)((uint64_t)out[i] ^ (uint64_t)1 << 63);
}

static enum ckpt_dtype part_dtype(enum ckpt_dtype dtype)
{
	switch (dtype) {
	case CKPT_DTYPE_COMPLEX32: return CKPT_DTYPE_FLOAT16;
	case CKPT_DTYPE_BCOMPLEX32: return CKPT_DTYPE_BFLOAT16;
	case CKPT_DTYPE_COMPLEX64: return CKPT_DTYPE_FLOAT32;
	default: return CKPT_DTYPE_FLOAT64;
	}
}

/* Infinite if a part is, whatever the other; else NaN if a part is. */
static void magnitudes(enum ckpt_dtype dtype, const uint8_t *in, size_t count, double *out)
{
	double parts[512];
	size_t most = sizeof(parts) / sizeof(parts[0]) / 2;
	uint32_t size = ckpt_dtype_size(dtype);

	for (size_t done = 0; done < count; done += most) {
		size_t n = count - done < most ? count - done : most;

		ckpt_cast_items(part_dtype(dtype), CKPT_DTYPE_FLOAT64, in + done * size, parts,
				2 * n);
		for (size_t i = 0; i < n; i++)
			out[done + i] = hypot(parts[2 * i], parts[2 * i + 1]);
	}
}

static void to_doubles(const struct ckpt_stat_view *view, const uint8_t *in, size_t count,
		       double *out)
{
	int64_t integers[CKPT_TALLY_MOST];

	switch (ckpt_stat_kind_of(view->dtype)) {
	case CKPT_STAT_COMPLEX: magnitudes(view->dtype, in, count, out); return;
	case CKPT_STAT_CODES:
		for (size_t i = 0; i < count; i++)
			out[i] = view->codes[in[i]];
		return;
	case CKPT_STAT_INTEGER: break;
	default: ckpt_cast_items(view->dtype, CKPT_DTYPE_FLOAT64, in, out, count); return;
	}
	to_integers(view->dtype, in, count, integers);
	for (size_t i = 0; i < count; i++)
		out[i] = view->dtype == CKPT_DTYPE_UINT64
				 ? (double)((uint64_t)integers[i] ^ (uint64_t)1 << 63)
				 : (double)integers[i];
}

/* ---- pieces ---- */

static void convert_piece(struct piece *p, const uint8_t *bytes)
{
	const struct ckpt_stat_view *view = p->view;
	struct ckpt_array_buffers buffers = { p->buffers[0], p->buffers[1] };

	p->values = bytes;
	if (!view->steps)
		return;
	memcpy(buffers.in, bytes, p->count * view->itemsize);
	ckpt_array_do_steps(view->steps, &buffers, p->first, p->count);
	p->values = buffers.in;
}

static uint64_t index_of(const struct ckpt_stat_view *view, uint64_t item)
{
	uint64_t index = view->ndim ? 0 : item;

	for (uint32_t i = 0; i < view->ndim; i++) {
		index += item / view->step[i] * view->to[i];
		item %= view->step[i];
	}
	return index;
}

static void find_first(const struct piece *p, struct ckpt_tally *t)
{
	double values[CKPT_TALLY_MOST];

	if (!p->view->ndim && t->first_not_finite < p->first)
		return;
	to_doubles(p->view, p->values, p->count, values);
	for (size_t i = 0; i < p->count; i++) {
		uint64_t index;

		if (isfinite(values[i]))
			continue;
		index = index_of(p->view, p->first + i);
		if (index < t->first_not_finite)
			t->first_not_finite = index;
	}
}

/* Directly, not by way of float64 like a cast between any two types. */
static void widen_half(enum ckpt_dtype dtype, const uint8_t *in, float *out, size_t count)
{
	const struct ckpt_cast_kernels *k = ckpt_cast_best();

	if (dtype == CKPT_DTYPE_FLOAT16)
		k->float16_to_float32((const uint16_t *)in, (uint32_t *)out, count);
	else
		k->bfloat16_to_float32((const uint16_t *)in, (uint32_t *)out, count);
}

static void tally_piece(const struct piece *p, struct ckpt_tally *t)
{
	enum ckpt_dtype dtype = p->view->dtype;
	union {
		float narrow[CKPT_TALLY_MOST];
		double wide[CKPT_TALLY_MOST];
		int64_t integers[CKPT_TALLY_MOST];
	} numbers;

	switch (ckpt_stat_kind_of(dtype)) {
	case CKPT_STAT_FLOAT32: ckpt_tally_float32(t, (const float *)p->values, p->count); break;
	case CKPT_STAT_HALF:
		widen_half(dtype, p->values, numbers.narrow, p->count);
		ckpt_tally_float32(t, numbers.narrow, p->count);
		break;
	case CKPT_STAT_INTEGER:
		to_integers(dtype, p->values, p->count, numbers.integers);
		ckpt_tally_integers(t, numbers.integers, p->count, dtype == CKPT_DTYPE_UINT64);
		break;
	case CKPT_STAT_FLOAT64: ckpt_tally_float64(t, (const double *)p->values, p->count); break;
	default:
		to_doubles(p->view, p->values, p->count, numbers.wide);
		ckpt_tally_float64(t, numbers.wide, p->count);
	}
}

/* ---- 8-bit dtypes ---- */

static void tally_codes(const struct ckpt_stat_view *view, const uint8_t *codes, size_t count,
			struct ckpt_tally *t)
{
	/* four tables, as increments of one counter would wait for each other */
	uint32_t counts[4][256] = { { 0 } };
	size_t i = 0;

	for (; i + 4 <= count; i += 4)
		for (int k = 0; k < 4; k++)
			counts[k][codes[i + k]]++;
	for (; i < count; i++)
		counts[0][codes[i]]++;
	for (int code = 0; code < 256; code++)
		ckpt_tally_same(t, view->codes[code],
				(uint64_t)counts[0][code] + counts[1][code] + counts[2][code] +
					counts[3][code]);
}

/* ---- blocks ---- */

static size_t piece_size(size_t left)
{
	return left < CKPT_TALLY_MOST ? left : CKPT_TALLY_MOST;
}

struct ckpt_tally ckpt_stat_tally(const struct ckpt_stat_view *view, uint64_t first,
				  const uint8_t *bytes, size_t count)
{
	struct ckpt_tally all = ckpt_tally_none();
	bool codes = ckpt_stat_kind_of(view->dtype) == CKPT_STAT_CODES && !view->steps;
	struct piece p;

	p.view = view;
	if (codes)
		tally_codes(view, bytes, count, &all);
	if (codes && !(all.nans + all.infinities))
		return all;
	for (size_t done = 0; done < count; done += p.count) {
		uint64_t bad = all.nans + all.infinities;

		p.first = first + done;
		p.count = piece_size(count - done);
		convert_piece(&p, bytes + done * view->itemsize);
		if (!codes)
			tally_piece(&p, &all);
		if (codes || all.nans + all.infinities > bad)
			find_first(&p, &all);
	}
	return all;
}

/* ---- bins ---- */

void ckpt_stat_doubles(const struct ckpt_stat_view *view, uint64_t first, const uint8_t *bytes,
		       size_t count, double *out)
{
	struct piece p;

	p.view = view;
	p.first = first;
	p.count = count;
	convert_piece(&p, bytes);
	to_doubles(view, p.values, count, out);
}

/* As numpy does: from a quotient, which may be off by one and is corrected by the edges. */
static void count_in_bin(const struct ckpt_stat_bins *b, double v)
{
	double step = (b->high - b->low) / b->count, at;
	uint32_t i;

	if (!(v >= b->low && v <= b->high))
		return;
	at = (v / 2 - b->low / 2) / (b->high / 2 - b->low / 2) * b->count;
	i = at < b->count ? (uint32_t)at : b->count - 1;
	if (isfinite(step) && i > 0 && v < i * step + b->low)
		i--;
	else if (isfinite(step) && i + 1 < b->count && v >= (i + 1) * step + b->low)
		i++;
	b->counts[i]++;
}

void ckpt_stat_fill_bins(const struct ckpt_stat_view *view, uint64_t first, const uint8_t *bytes,
			 size_t count, const struct ckpt_stat_bins *bins)
{
	double values[CKPT_TALLY_MOST];
	size_t n;

	for (size_t done = 0; done < count; done += n) {
		n = piece_size(count - done);
		ckpt_stat_doubles(view, first + done, bytes + done * view->itemsize, n, values);
		for (size_t i = 0; i < n; i++)
			count_in_bin(bins, values[i]);
	}
}
