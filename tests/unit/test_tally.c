/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "stat/kernels.h"
#include "stat/tally.h"

#include <math.h>
#include <string.h>

/* What numpy says of the same numbers is compared in tests/interop/stat.py. Here the judge is a plain loop over long doubles. */

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}

/* Between -1 and 1. */
static double next_real(void)
{
	return (double)(int64_t)next_random() * 0x1p-63;
}

struct truth {
	uint64_t finite, nans, infinities, zeros;
	long double mean, std, norm;
	double min, max;
};

static struct truth truth_of(const double *v, size_t count)
{
	struct truth t = { .min = (double)INFINITY, .max = -(double)INFINITY };
	long double sum = 0, squares = 0, off = 0, norm2 = 0;

	for (size_t i = 0; i < count; i++) {
		t.nans += isnan(v[i]) != 0;
		t.infinities += isinf(v[i]) != 0;
		if (!isfinite(v[i]))
			continue;
		t.finite++;
		t.zeros += v[i] == 0;
		t.min = v[i] < t.min ? v[i] : t.min;
		t.max = v[i] > t.max ? v[i] : t.max;
		sum += (long double)v[i];
		norm2 += (long double)v[i] * (long double)v[i];
	}
	t.norm = sqrtl(norm2);
	if (!t.finite)
		return t;
	t.mean = sum / (long double)t.finite;
	for (size_t i = 0; i < count; i++) {
		long double d = isfinite(v[i]) ? (long double)v[i] - t.mean : 0;

		off += d;
		squares += d * d;
	}
	t.std = sqrtl((squares - off * off / (long double)t.finite) / (long double)t.finite);
	return t;
}

static bool near(double found, long double wanted, double scale)
{
	return fabsl((long double)found - wanted) <=
	       1e-14L * fabsl(wanted) + 1e-18L * (long double)scale;
}

static void check(const struct ckpt_tally *t, const double *v, size_t count)
{
	struct truth wanted = truth_of(v, count);
	double scale = wanted.finite ? fabs(wanted.min) + fabs(wanted.max) : 0;

	assert_int_equal(t->finite, wanted.finite);
	assert_int_equal(t->nans, wanted.nans);
	assert_int_equal(t->infinities, wanted.infinities);
	assert_int_equal(t->zeros, wanted.zeros);
	if (!wanted.finite) {
		assert_true(isnan(ckpt_tally_mean(t)) && isnan(ckpt_tally_std(t)) &&
			    isnan(ckpt_tally_norm(t)));
		return;
	}
	assert_true(t->min == wanted.min && t->max == wanted.max);
	assert_true(near(ckpt_tally_mean(t), wanted.mean, scale));
	assert_true(near(ckpt_tally_std(t), wanted.std, scale));
	assert_true(near(ckpt_tally_norm(t), wanted.norm, scale));
}

/* ---- numbers of many kinds ---- */

static double any_float64(void)
{
	uint64_t bits = next_random();
	double v;

	memcpy(&v, &bits, sizeof(v));
	return isfinite(v) && fabs(v) > 1e100 ? v * 0x1p-700 : v;
}

static float any_float32(void)
{
	uint32_t bits = (uint32_t)next_random();
	float v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static double number_of(unsigned kind)
{
	static const double odd[] = {
		0, -0.0, 0x1p-149, -0x1p-149, 0x1p-126, 1, -1, 0x1.fffffep127
	};

	switch (kind) {
	case 0: return next_real();
	case 1: return 1e6 + 0.5 * next_real();
	case 2: return -3; /* always the same */
	case 3: return odd[next_random() % COUNT(odd)];
	case 4: return next_random() % 9 ? next_real() : (double)NAN;
	case 5:
		return next_random() % 9 ? next_real()
					 : (next_random() & 1 ? 1 : -1) * (double)INFINITY;
	case 6: return (double)NAN;
	case 7: return next_real() * ldexp(1, (int)(next_random() % 60) - 30);
	default: return any_float64();
	}
}

enum { KINDS = 9, MOST = CKPT_TALLY_MOST };

static const size_t lengths[] = { 0,  1,  2,  7,   8,	9,   15,       16,	  17,
				  31, 32, 33, 100, 255, 256, MOST - 1, MOST - 15, MOST };

static bool same_tally(const struct ckpt_tally *a, const struct ckpt_tally *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static void float64_is_what_a_loop_counts(void **state)
{
	static double v[MOST];

	(void)state;
	for (unsigned kind = 0; kind < KINDS; kind++)
		for (size_t n = 0; n < COUNT(lengths); n++) {
			struct ckpt_tally best = ckpt_tally_none(), plain = best;

			for (size_t i = 0; i < lengths[n]; i++)
				v[i] = number_of(kind);
			ckpt_tally_float64(&best, v, lengths[n]);
			ckpt_tally_float64_plain(&plain, v, lengths[n]);
			assert_true(same_tally(&best, &plain));
			check(&best, v, lengths[n]);
		}
}

static void float32_is_what_a_loop_counts(void **state)
{
	static float v[MOST];
	static double wide[MOST];

	(void)state;
	for (unsigned kind = 0; kind < KINDS; kind++)
		for (size_t n = 0; n < COUNT(lengths); n++) {
			struct ckpt_tally best = ckpt_tally_none(), plain = best;

			for (size_t i = 0; i < lengths[n]; i++) {
				v[i] = kind == KINDS - 1 ? any_float32() : (float)number_of(kind);
				wide[i] = (double)v[i];
			}
			ckpt_tally_float32(&best, v, lengths[n]);
			ckpt_tally_float32_plain(&plain, v, lengths[n]);
			assert_true(same_tally(&best, &plain));
			check(&best, wide, lengths[n]);
		}
}

static void numbers_need_no_alignment(void **state)
{
	static uint8_t bytes[8 * 100 + 8];
	static double v[100];
	struct ckpt_tally aligned = ckpt_tally_none(), other = aligned, narrow = aligned;

	(void)state;
	for (size_t i = 0; i < COUNT(v); i++)
		v[i] = next_real();
	memcpy(bytes + 1, v, sizeof(v));
	ckpt_tally_float64(&aligned, v, COUNT(v));
	ckpt_tally_float64(&other, (const double *)(const void *)(bytes + 1), COUNT(v));
	assert_true(same_tally(&aligned, &other));
	memset(bytes, 0, sizeof(bytes));
	ckpt_tally_float32(&narrow, (const float *)(const void *)(bytes + 3), 100);
	assert_int_equal(narrow.zeros, 100);
}

/* ---- together ---- */

static void pieces_give_the_whole(void **state)
{
	enum { ALL = 40000 };
	static double v[ALL];

	(void)state;
	for (unsigned kind = 0; kind < KINDS; kind++) {
		struct ckpt_tally all = ckpt_tally_none();

		for (size_t i = 0; i < ALL; i++)
			v[i] = number_of(kind);
		for (size_t i = 0, n; i < ALL; i += n) {
			struct ckpt_tally one = ckpt_tally_none();

			n = next_random() % MOST;
			n = n > ALL - i ? ALL - i : n;
			ckpt_tally_float64(&one, v + i, n);
			ckpt_tally_merge(&all, &one);
		}
		check(&all, v, ALL);
	}
}

static void what_cancels_leaves_the_true_rest(void **state)
{
	static double v[2001];
	struct ckpt_tally t = ckpt_tally_none();

	(void)state;
	for (size_t i = 0; i < 1000; i++) {
		v[i] = next_real() * 1e6;
		v[i + 1000] = -v[i];
	}
	v[2000] = 1e-9;
	for (size_t i = 0; i < COUNT(v); i += 667)
		ckpt_tally_float64(&t, v + i, 667);
	assert_true(fabs(ckpt_tally_mean(&t) * 2001 - 1e-9) < 1e-18);
}

static void what_is_close_together_far_from_zero_has_its_deviation(void **state)
{
	static double v[2 * MOST];
	struct ckpt_tally t = ckpt_tally_none();

	(void)state;
	for (size_t i = 0; i < COUNT(v); i++)
		v[i] = 0x1p40 + (i & 1 ? 0x1p-12 : -0x1p-12);
	ckpt_tally_float64(&t, v, MOST);
	ckpt_tally_float64(&t, v + MOST, MOST);
	assert_true(ckpt_tally_mean(&t) == 0x1p40);
	assert_true(ckpt_tally_std(&t) == 0x1p-12);
}

/* 2^30 and the next double: nothing between them can be said to be the mean. */
static void the_mean_may_lie_between_two_doubles(void **state)
{
	static double v[3 * 1000];
	struct ckpt_tally t = ckpt_tally_none();

	(void)state;
	for (size_t i = 0; i < COUNT(v); i++)
		v[i] = 0x1p30 + (i % 3 ? 0 : 0x1p-22);
	ckpt_tally_float64(&t, v, COUNT(v));
	assert_true(fabs(ckpt_tally_std(&t) / (0x1p-22 * sqrt(2.0 / 9)) - 1) < 1e-14);
}

static void repeated_values_count_as_often(void **state)
{
	static double v[300], many[900];
	struct ckpt_tally t = ckpt_tally_none();

	(void)state;
	for (size_t i = 0; i < COUNT(v); i++)
		v[i] = many[3 * i] = many[3 * i + 1] = many[3 * i + 2] = number_of(4);
	ckpt_tally_float64(&t, v, COUNT(v));
	ckpt_tally_repeat(&t, 3);
	check(&t, many, COUNT(many));
	ckpt_tally_repeat(&t, UINT64_MAX / 2);
	assert_int_equal(t.finite, UINT64_MAX);
}

static void one_number_many_times(void **state)
{
	static const double numbers[] = { 0.1, 0, -7, 1e300, (double)NAN, -(double)INFINITY };
	static double all[600];
	struct ckpt_tally t = ckpt_tally_none();

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		size_t k = i < 3 ? i : i + 1;

		for (size_t n = 0; n < 100; n++)
			all[100 * i + n] = numbers[k];
		ckpt_tally_same(&t, numbers[k], 100);
	}
	ckpt_tally_same(&t, 5, 0);
	check(&t, all, 500);
}

/* ---- integers ---- */

static void check_integers(const int64_t *v, size_t count, bool is_unsigned)
{
	struct ckpt_tally t = ckpt_tally_none();
	long double mean = 0, squares = 0, off = 0;
	int64_t least = INT64_MAX, greatest = INT64_MIN;
	uint64_t zeros = 0;
	double scale;

	ckpt_tally_integers(&t, v, count, is_unsigned);
	for (size_t i = 0; i < count; i++) {
		mean += (long double)v[i] / (long double)count;
		least = v[i] < least ? v[i] : least;
		greatest = v[i] > greatest ? v[i] : greatest;
		zeros += is_unsigned ? v[i] == INT64_MIN : v[i] == 0;
	}
	for (size_t i = 0; i < count; i++) {
		long double d = (long double)v[i] - mean;

		off += d;
		squares += d * d;
	}
	assert_int_equal(t.finite, count);
	assert_int_equal(t.zeros, zeros);
	assert_true(t.least == least && t.greatest == greatest);
	scale = fabs(t.min) + fabs(t.max) + 0x1p63;
	assert_true(near(ckpt_tally_mean(&t), mean + (is_unsigned ? 0x1p63L : 0), scale));
	squares -= off * off / (long double)count;
	assert_true(near(ckpt_tally_std(&t), sqrtl(squares / (long double)count), scale * 1e-3));
}

static void integers_are_what_a_loop_counts(void **state)
{
	static int64_t v[MOST];

	(void)state;
	for (unsigned kind = 0; kind < 8; kind++) {
		size_t count = kind & 4 ? MOST : 1 + next_random() % 100;

		for (size_t i = 0; i < count; i++)
			v[i] = kind & 1 ? (int64_t)next_random()
					: INT64_MIN + (int64_t)(next_random() % 3);
		check_integers(v, count, kind & 2);
	}
	v[0] = INT64_MIN;
	v[1] = INT64_MAX;
	check_integers(v, 2, true);
	for (size_t i = 0; i < MOST; i++)
		v[i] = 1700000000000000000 + (int64_t)(i & 1);
	{
		struct ckpt_tally t = ckpt_tally_none();

		ckpt_tally_integers(&t, v, MOST, false);
		assert_true(ckpt_tally_std(&t) == 0.5);
	}
}

/* A product that is fused with a sum is not rounded, and the last digits depend on the processor. */
static void squares_are_rounded_before_they_are_added(void **state)
{
	const struct ckpt_stat_kernels *sets[] = { &ckpt_stat_plain, ckpt_stat_best() };
	float narrow[MOST];
	double v[MOST];

	(void)state;
	for (size_t i = 0; i < MOST; i++) {
		v[i] = next_real();
		narrow[i] = (float)v[i];
	}
	for (size_t k = 0; k < sizeof(sets) / sizeof(sets[0]); k++) {
		double lanes64[CKPT_STAT_LANES] = { 0 }, lanes32[CKPT_STAT_LANES] = { 0 };
		volatile double wanted64[CKPT_STAT_LANES] = { 0 },
				wanted32[CKPT_STAT_LANES] = { 0 };

		sets[k]->squares64(v, MOST, 0.1, lanes64);
		sets[k]->squares32(narrow, MOST, 0.1, lanes32);
		for (size_t i = 0; i < MOST; i++) {
			double d64 = v[i] - 0.1, d32 = (double)narrow[i] - 0.1;
			volatile double square64 = d64 * d64, square32 = d32 * d32;

			wanted64[i % CKPT_STAT_LANES] += square64;
			wanted32[i % CKPT_STAT_LANES] += square32;
		}
		for (int i = 0; i < CKPT_STAT_LANES; i++) {
			assert_true(lanes64[i] == wanted64[i]);
			assert_true(lanes32[i] == wanted32[i]);
		}
	}
}

UNIT_SUITE(test_tally)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(float64_is_what_a_loop_counts),
		cmocka_unit_test(float32_is_what_a_loop_counts),
		cmocka_unit_test(numbers_need_no_alignment),
		cmocka_unit_test(pieces_give_the_whole),
		cmocka_unit_test(what_cancels_leaves_the_true_rest),
		cmocka_unit_test(what_is_close_together_far_from_zero_has_its_deviation),
		cmocka_unit_test(the_mean_may_lie_between_two_doubles),
		cmocka_unit_test(repeated_values_count_as_often),
		cmocka_unit_test(one_number_many_times),
		cmocka_unit_test(integers_are_what_a_loop_counts),
		cmocka_unit_test(squares_are_rounded_before_they_are_added),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
