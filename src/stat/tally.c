/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts numbers, and computes their sums and squared distances from the mean so that little is
 * lost.
 *
 * Each piece of a few thousand numbers is summed up, and then gone through again for the distances
 * from its own mean; pieces are merged as Chan, Golub and LeVeque do it (1983). Sums are pairs of
 * doubles, so that numbers that cancel each other leave the true rest, and the distance of close
 * means is right.
 *
 * What must stay true: every step is done in the same order on every machine, and no product is
 * fused with a sum unless fma() says so (the library is built with -ffp-contract=off), so that
 * figures are the same to the bit. Numbers that are not finite are counted and never summed up.
 */
#include "stat/tally.h"

#include "stat/kernels.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct ckpt_tally ckpt_tally_none(void)
{
	return (struct ckpt_tally){ .min = (double)INFINITY,
				    .max = -(double)INFINITY,
				    .least = INT64_MAX,
				    .greatest = INT64_MIN,
				    .first_not_finite = UINT64_MAX };
}

/* ---- pairs of doubles ---- */

static struct ckpt_double_pair add_pairs(struct ckpt_double_pair a, struct ckpt_double_pair b)
{
	double sum = a.hi + b.hi, part = sum - a.hi;
	double lost = (a.hi - (sum - part)) + (b.hi - part) + (a.lo + b.lo), hi = sum + lost;

	return (struct ckpt_double_pair){ hi, isfinite(hi) ? lost - (hi - sum) : 0 };
}

static struct ckpt_double_pair multiply_pair(struct ckpt_double_pair a, double b)
{
	double hi = a.hi * b, lost = fma(a.hi, b, -hi) + a.lo * b;

	return add_pairs((struct ckpt_double_pair){ hi, 0 },
			 (struct ckpt_double_pair){ isfinite(hi) ? lost : 0, 0 });
}

static struct ckpt_double_pair divide_pair(struct ckpt_double_pair a, double b)
{
	double hi = a.hi / b, rest = fma(-hi, b, a.hi) + a.lo;

	return (struct ckpt_double_pair){ hi, isfinite(hi) ? rest / b : 0 };
}

/* A - B, which may nearly cancel each other. */
static double subtract_pairs(struct ckpt_double_pair a, struct ckpt_double_pair b)
{
	return (a.hi - b.hi) + (a.lo - b.lo);
}

/* SQUARES are of distances from MEAN, which is rounded: corrects them by what the sum says. */
static void set_squares(struct ckpt_tally *t, double squares, double mean)
{
	double count = (double)t->finite;
	double off =
		subtract_pairs(t->sum, multiply_pair((struct ckpt_double_pair){ mean, 0 }, count));

	squares -= off * (off / count);
	t->squares = squares < 0 ? 0 : squares; /* NaN stays: beyond the range of a double */
}

/* ---- merging ---- */

static uint64_t add_counts(uint64_t a, uint64_t b)
{
	return __builtin_add_overflow(a, b, &a) ? UINT64_MAX : a;
}

static void merge_moments(struct ckpt_tally *t, const struct ckpt_tally *o)
{
	double a = (double)t->finite, b = (double)o->finite;
	double apart = subtract_pairs(divide_pair(t->sum, a), divide_pair(o->sum, b));

	t->squares += o->squares + apart * apart * (a * (b / (a + b)));
	t->sum = add_pairs(t->sum, o->sum);
}

void ckpt_tally_merge(struct ckpt_tally *t, const struct ckpt_tally *o)
{
	if (!t->finite) {
		t->squares = o->squares;
		t->sum = o->sum;
	} else if (o->finite) {
		merge_moments(t, o);
	}
	t->finite = add_counts(t->finite, o->finite);
	t->nans = add_counts(t->nans, o->nans);
	t->infinities = add_counts(t->infinities, o->infinities);
	t->zeros = add_counts(t->zeros, o->zeros);
	t->min = o->min < t->min ? o->min : t->min;
	t->max = o->max > t->max ? o->max : t->max;
	t->least = o->least < t->least ? o->least : t->least;
	t->greatest = o->greatest > t->greatest ? o->greatest : t->greatest;
	if (o->first_not_finite < t->first_not_finite)
		t->first_not_finite = o->first_not_finite;
}

static uint64_t multiply_count(uint64_t count, uint64_t times)
{
	return __builtin_mul_overflow(count, times, &count) ? UINT64_MAX : count;
}

void ckpt_tally_repeat(struct ckpt_tally *t, uint64_t times)
{
	t->finite = multiply_count(t->finite, times);
	t->nans = multiply_count(t->nans, times);
	t->infinities = multiply_count(t->infinities, times);
	t->zeros = multiply_count(t->zeros, times);
	t->sum = multiply_pair(t->sum, (double)times);
	t->squares *= (double)times;
}

/* ---- floats ---- */

static bool all_finite(const double *in, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		double v;

		memcpy(&v, in + i, sizeof(v));
		if (!isfinite(v))
			return false;
	}
	return true;
}

/* False: some are not finite, and nothing was added. */
static bool add_finite(const struct ckpt_stat_kernels *k, struct ckpt_tally *t, const double *in,
		       size_t count)
{
	struct ckpt_tally one = ckpt_tally_none();
	double lanes[CKPT_STAT_LANES] = { 0 }, squares = 0, mean;
	struct ckpt_stat_sums64 s = { 0 };

	for (int i = 0; i < CKPT_STAT_LANES64; i++) {
		s.min[i] = one.min;
		s.max[i] = one.max;
	}
	k->sums64(in, count, &s);
	for (int i = 0; i < CKPT_STAT_LANES64; i++) {
		double rest = isfinite(s.rest[i]) ? s.rest[i] : 0;

		one.sum = add_pairs(one.sum, (struct ckpt_double_pair){ s.sum[i], 0 });
		one.sum = add_pairs(one.sum, (struct ckpt_double_pair){ rest, 0 });
		one.min = s.min[i] < one.min ? s.min[i] : one.min;
		one.max = s.max[i] > one.max ? s.max[i] : one.max;
	}
	if (!isfinite(one.sum.hi) && !all_finite(in, count))
		return false;
	one.finite = count;
	one.zeros = s.zeros;
	mean = one.sum.hi / (double)count;
	k->squares64(in, count, mean, lanes);
	for (int i = 0; i < CKPT_STAT_LANES; i++)
		squares += lanes[i];
	set_squares(&one, squares, mean);
	ckpt_tally_merge(t, &one);
	return true;
}

static void add_float64(const struct ckpt_stat_kernels *k, struct ckpt_tally *t, const double *in,
			size_t count)
{
	double kept[CKPT_TALLY_MOST];
	size_t n = 0;

	assert(count <= CKPT_TALLY_MOST);
	if (!count || add_finite(k, t, in, count))
		return;
	for (size_t i = 0; i < count; i++) {
		double v;

		memcpy(&v, in + i, sizeof(v));
		kept[n] = v;
		n += isfinite(v) != 0;
		t->nans += isnan(v) != 0;
		t->infinities += isinf(v) != 0;
	}
	if (n)
		add_finite(k, t, kept, n);
}

static void widen(const float *in, size_t count, double *out)
{
	for (size_t i = 0; i < count; i++) {
		float v;

		memcpy(&v, in + i, sizeof(v));
		out[i] = (double)v;
	}
}

static void add_float32(const struct ckpt_stat_kernels *k, struct ckpt_tally *t, const float *in,
			size_t count)
{
	struct ckpt_tally one = ckpt_tally_none();
	double lanes[CKPT_STAT_LANES] = { 0 }, squares = 0, mean, all = 0;
	struct ckpt_stat_sums32 s = { 0 };

	assert(count <= CKPT_TALLY_MOST);
	if (!count)
		return;
	for (int i = 0; i < CKPT_STAT_LANES; i++) {
		s.min[i] = INFINITY;
		s.max[i] = -INFINITY;
	}
	k->sums32(in, count, &s);
	for (int i = 0; i < CKPT_STAT_LANES; i++)
		all += s.sum[i];
	if (!isfinite(all)) { /* some are not finite: floats so few have no sum beyond a double */
		double wide[CKPT_TALLY_MOST];

		widen(in, count, wide);
		add_float64(k, t, wide, count);
		return;
	}
	for (int i = 0; i < CKPT_STAT_LANES; i++) {
		one.sum = add_pairs(one.sum, (struct ckpt_double_pair){ s.sum[i], 0 });
		one.min = (double)s.min[i] < one.min ? (double)s.min[i] : one.min;
		one.max = (double)s.max[i] > one.max ? (double)s.max[i] : one.max;
	}
	one.finite = count;
	one.zeros = s.zeros;
	mean = one.sum.hi / (double)count;
	k->squares32(in, count, mean, lanes);
	for (int i = 0; i < CKPT_STAT_LANES; i++)
		squares += lanes[i];
	set_squares(&one, squares, mean);
	ckpt_tally_merge(t, &one);
}

void ckpt_tally_float32(struct ckpt_tally *t, const float *in, size_t count)
{
	add_float32(ckpt_stat_best(), t, in, count);
}

void ckpt_tally_float64(struct ckpt_tally *t, const double *in, size_t count)
{
	add_float64(ckpt_stat_best(), t, in, count);
}

void ckpt_tally_float32_plain(struct ckpt_tally *t, const float *in, size_t count)
{
	add_float32(&ckpt_stat_plain, t, in, count);
}

void ckpt_tally_float64_plain(struct ckpt_tally *t, const double *in, size_t count)
{
	add_float64(&ckpt_stat_plain, t, in, count);
}

/* ---- integers ---- */

static struct ckpt_double_pair pair_of(__int128 v)
{
	double hi = (double)v;

	return (struct ckpt_double_pair){ hi, (double)(v - (__int128)hi) };
}

/* Squares of distances from PIVOT. FAR: they may be beyond an int64. */
static double squares_of(const int64_t *in, size_t count, int64_t pivot, bool wide_range)
{
	double squares = 0;

	for (size_t i = 0; i < count && !wide_range; i++) {
		double d = (double)(in[i] - pivot);

		squares += d * d;
	}
	for (size_t i = 0; i < count && wide_range; i++) {
		double d = (double)((__int128)in[i] - pivot);

		squares += d * d;
	}
	return squares;
}

void ckpt_tally_integers(struct ckpt_tally *t, const int64_t *in, size_t count, bool is_unsigned)
{
	const __int128 more = is_unsigned ? (__int128)1 << 63 : 0;
	const int64_t zero = is_unsigned ? INT64_MIN : 0;
	struct ckpt_tally one = ckpt_tally_none();
	__int128 sum = 0;
	int64_t pivot, reach;
	double off;
	bool wide_range;

	assert(count <= CKPT_TALLY_MOST);
	if (!count)
		return;
	for (size_t i = 0; i < count; i++) {
		sum += in[i];
		one.zeros += in[i] == zero;
		one.least = in[i] < one.least ? in[i] : one.least;
		one.greatest = in[i] > one.greatest ? in[i] : one.greatest;
	}
	wide_range = __builtin_sub_overflow(one.greatest, one.least, &reach);
	pivot = (int64_t)(sum / (__int128)count);
	off = (double)(sum - (__int128)pivot * (__int128)count);
	one.finite = count;
	one.squares = squares_of(in, count, pivot, wide_range) - off * (off / (double)count);
	one.squares = one.squares < 0 ? 0 : one.squares;
	one.sum = pair_of(sum + more * (__int128)count);
	one.min = (double)(one.least + more);
	one.max = (double)(one.greatest + more);
	ckpt_tally_merge(t, &one);
}

/* ---- one number ---- */

void ckpt_tally_same(struct ckpt_tally *t, double v, uint64_t count)
{
	struct ckpt_tally one = ckpt_tally_none();

	if (!count)
		return;
	if (isnan(v)) {
		one.nans = count;
	} else if (isinf(v)) {
		one.infinities = count;
	} else {
		one.finite = count;
		one.zeros = v == 0 ? count : 0;
		one.min = one.max = v;
		one.sum = multiply_pair((struct ckpt_double_pair){ v, 0 }, (double)count);
	}
	ckpt_tally_merge(t, &one);
}

/* ---- results ---- */

double ckpt_tally_mean(const struct ckpt_tally *t)
{
	struct ckpt_double_pair mean;

	if (!t->finite)
		return (double)NAN;
	if (t->min == t->max)
		return t->min;
	mean = divide_pair(t->sum, (double)t->finite);
	return mean.hi + mean.lo;
}

double ckpt_tally_std(const struct ckpt_tally *t)
{
	if (!t->finite)
		return (double)NAN;
	/* integers beyond 2^53 may differ where doubles do not */
	if (t->min == t->max && (t->least >= t->greatest))
		return 0;
	if (!isfinite(t->squares)) /* beyond the range of a double */
		return (double)INFINITY;
	return sqrt(t->squares / (double)t->finite);
}

/* Of squares that are all added, so nothing cancels: those around the mean, and the mean's. */
double ckpt_tally_norm(const struct ckpt_tally *t)
{
	double mean = ckpt_tally_mean(t), squares;

	if (!t->finite)
		return (double)NAN;
	if (t->min == t->max && t->least >= t->greatest)
		return fabs(t->min) * sqrt((double)t->finite);
	squares = t->squares + mean * mean * (double)t->finite;
	return isfinite(squares) ? sqrt(squares) : (double)INFINITY;
}
