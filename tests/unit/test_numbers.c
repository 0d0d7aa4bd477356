/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/numbers.h"
#include "diff/sums.h"
#include "diff/widen.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 5000 };

static struct ckpt_numbers measure(enum ckpt_dtype a_dtype, enum ckpt_dtype b_dtype, const void *a,
				   const void *b, size_t count)
{
	struct ckpt_measure m;
	struct ckpt_numbers n;

	assert_true(ckpt_measure_init(&m, a_dtype, b_dtype, 0, 0));
	ckpt_measure_items(&m, a, b, count, &n);
	return n;
}

static double noise(void)
{
	return (double)rand() / RAND_MAX - 0.5;
}

static void sums_are_those_of_long_doubles(void **state)
{
	static float a[MANY], b[MANY];
	long double diff2 = 0, a2 = 0, b2 = 0, ab = 0;
	double max_abs = 0;
	uint64_t differing = 0;
	struct ckpt_numbers n;

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		a[i] = (float)noise();
		b[i] = i % 3 ? a[i] : a[i] + (float)noise() / 64;
		diff2 += (long double)(a[i] - (double)b[i]) * (a[i] - (double)b[i]);
		a2 += (long double)a[i] * a[i];
		b2 += (long double)b[i] * b[i];
		ab += (long double)a[i] * b[i];
		differing += a[i] != b[i];
		max_abs = fmax(max_abs, fabs(a[i] - (double)b[i]));
	}
	n = measure(CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32, a, b, MANY);
	assert_int_equal(n.count, MANY);
	assert_int_equal(n.finite, MANY);
	assert_int_equal(n.differing, differing);
	assert_int_equal(n.outside, differing);
	assert_true(n.max_abs == max_abs);
	assert_true(fabs((double)(n.diff2 - diff2)) <= 1e-13 * (double)diff2);
	assert_true(fabs((double)(n.a2 - a2)) <= 1e-13 * (double)a2);
	assert_true(fabs((double)(n.b2 - b2)) <= 1e-13 * (double)b2);
	assert_true(fabs((double)(n.ab - ab)) <= 1e-13 * (double)a2);
}

/* Every count, so that every tail is met; and what is best on this processor does the same as what all have. */
static void all_kernels_give_the_same_to_the_bit(void **state)
{
	const struct ckpt_sum_kernels *best = ckpt_sums_best(), *plain = ckpt_sums_plain();
	static double a[64] __attribute__((aligned(64))), b[64] __attribute__((aligned(64)));
	static uint32_t bits[2][64];

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct ckpt_sums x = { 0 }, y = { 0 };
		size_t count = 8 * (size_t)(1 + round % 8);
		uint64_t other_x = 0, other_y = 0;

		for (size_t i = 0; i < 64; i++) {
			a[i] = noise();
			b[i] = i % 5 ? a[i] + noise() / 100 : a[i];
			bits[0][i] = (uint32_t)rand() ^ (uint32_t)rand() << 16;
			bits[1][i] = i % 3 ? (uint32_t)rand() << 1 : bits[0][i];
		}
		best->pairs(a, b, count, 1e-3, 1e-2, &x);
		plain->pairs(a, b, count, 1e-3, 1e-2, &y);
		assert_memory_equal(&x, &y, sizeof(x));
		best->squares(a, count, x.a2);
		plain->squares(a, count, y.a2);
		assert_memory_equal(&x, &y, sizeof(x));
		assert_true(best->finite(a, count) && plain->finite(a, count));
		assert_true(best->steps32(bits[0], bits[1], count, &other_x) ==
			    plain->steps32(bits[0], bits[1], count, &other_y));
		assert_int_equal(other_x, other_y);
		a[count - 1 - (size_t)round % count] = round % 2 ? NAN : -INFINITY;
		assert_false(best->finite(a, count) || plain->finite(a, count));
	}
}

static void steps_are_those_of_nextafter(void **state)
{
	static const float from[] = {
		0, -0.0f, 1, -1, 0x1p-149f, 0x1p-126f, 3.5f, 0x1.fffffep127f
	};

	(void)state;
	for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
		float a = from[i], b = a;

		for (uint64_t steps = 1; steps < 40; steps++) {
			b = nextafterf(b, -INFINITY);
			assert_int_equal(
				measure(CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT32, &a, &b, 1).max_ulp,
				steps);
		}
	}
}

static void zeros_are_equal_in_other_bits(void **state)
{
	double a[3] = { 0, 1, NAN }, b[3] = { -0.0, 1, NAN };
	struct ckpt_numbers n;

	(void)state;
	n = measure(CKPT_DTYPE_FLOAT64, CKPT_DTYPE_FLOAT64, a, b, 3);
	assert_int_equal(n.differing, 0);
	assert_int_equal(n.other_bits, 1);
	assert_int_equal(n.nan_both, 1);
	assert_int_equal(n.finite, 2);
	assert_int_equal(n.max_ulp, 0);
}

/* 2**62 and 2**62 + 1 are one number as float64. */
static void long_integers_are_not_rounded_first(void **state)
{
	int64_t a[2] = { (int64_t)1 << 62, INT64_MIN },
		b[2] = { ((int64_t)1 << 62) + 1, INT64_MAX };
	uint64_t c[2] = { (uint64_t)1 << 62, UINT64_MAX };
	double d[2] = { 0x1p62, -0x1p63 };
	int64_t below[1] = { -((1LL << 53) + 1) }, above[1] = { (1LL << 54) + 2 };
	/* 80 bits round to just between two doubles what lies below that */
	int64_t odd[1] = { (1LL << 53) + 3 };
	double small[1] = { 0x1p-30 }, large[1] = { 0x1p70 };
	struct ckpt_numbers n;

	(void)state;
	n = measure(CKPT_DTYPE_INT64, CKPT_DTYPE_INT64, below, above, 1);
	assert_true(n.max_abs == 0x1.8p54 + 4);
	n = measure(CKPT_DTYPE_INT64, CKPT_DTYPE_FLOAT64, odd, small, 1);
	assert_true(n.max_abs == 0x1p53 + 2);
	n = measure(CKPT_DTYPE_FLOAT64, CKPT_DTYPE_UINT64, large, odd, 1);
	assert_true(n.max_abs == 0x1p70 - 0x1p53);
	n = measure(CKPT_DTYPE_INT64, CKPT_DTYPE_INT64, a, b, 2);
	assert_int_equal(n.differing, 2);
	assert_true(n.max_abs == 0x1p64);
	assert_false(measure(CKPT_DTYPE_INT64, CKPT_DTYPE_INT64, a, b, 1).max_abs != 1);
	assert_int_equal(measure(CKPT_DTYPE_INT64, CKPT_DTYPE_UINT64, a, c, 1).differing, 0);
	assert_true(measure(CKPT_DTYPE_INT64, CKPT_DTYPE_UINT64, a, c, 2).max_abs > 0x1p64);
	assert_int_equal(measure(CKPT_DTYPE_INT64, CKPT_DTYPE_FLOAT64, a, d, 2).differing, 0);
	assert_int_equal(measure(CKPT_DTYPE_INT64, CKPT_DTYPE_FLOAT64, b, d, 1).differing, 1);
}

static void what_has_no_numbers_is_compared_by_bits_of_one_dtype(void **state)
{
	uint8_t a[4] = { 1, 2, 3, 4 }, b[4] = { 1, 2, 5, 6 };
	struct ckpt_measure m;

	(void)state;
	assert_int_equal(measure(CKPT_DTYPE_BITS8, CKPT_DTYPE_BITS8, a, b, 4).differing, 2);
	assert_false(ckpt_measure_init(&m, CKPT_DTYPE_BITS8, CKPT_DTYPE_UINT8, 0, 0));
	assert_false(ckpt_measure_init(&m, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT4_E2M1FN_X2, 0, 0));
}

/* Blocks, put together, are the whole. */
/* A product that is fused with a sum is not rounded, and the last digits depend on the processor. */
static void products_are_rounded_before_they_are_added(void **state)
{
	enum { COUNT = 1000 };
	volatile double a2[CKPT_LANES] = { 0 }, ab[CKPT_LANES] = { 0 };
	double all_a2 = 0, all_ab = 0;
	int64_t a[COUNT], b[COUNT];
	struct ckpt_numbers n;

	(void)state;
	for (size_t i = 0; i < COUNT; i++) {
		volatile double square, product;

		a[i] = (int64_t)(noise() * 0x1p60);
		b[i] = (int64_t)(noise() * 0x1p60);
		square = (double)a[i] * (double)a[i];
		product = (double)a[i] * (double)b[i];
		a2[i % CKPT_LANES] += square;
		ab[i % CKPT_LANES] += product;
	}
	for (int i = 0; i < CKPT_LANES; i++) {
		all_a2 += a2[i];
		all_ab += ab[i];
	}
	n = measure(CKPT_DTYPE_INT64, CKPT_DTYPE_INT64, a, b, COUNT);
	assert_true(n.a2 == all_a2);
	assert_true(n.ab == all_ab);
}

static void parts_add_up(void **state)
{
	static double a[MANY], b[MANY];
	struct ckpt_numbers whole, sum = { 0 }, part;

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		a[i] = i % 100 == 7 ? NAN : noise();
		b[i] = i % 50 == 7 ? NAN : i % 100 == 9 ? INFINITY : a[i] + (i % 2 ? 0 : noise());
	}
	whole = measure(CKPT_DTYPE_FLOAT64, CKPT_DTYPE_FLOAT64, a, b, MANY);
	for (size_t i = 0; i < MANY; i += 1024) {
		part = measure(CKPT_DTYPE_FLOAT64, CKPT_DTYPE_FLOAT64, a + i, b + i,
			       MANY - i < 1024 ? MANY - i : 1024);
		ckpt_numbers_add(&sum, &part, 3);
	}
	assert_int_equal(sum.count, 3 * whole.count);
	assert_int_equal(sum.differing, 3 * whole.differing);
	assert_int_equal(sum.nan_appeared, 3 * whole.nan_appeared);
	assert_int_equal(whole.nan_appeared, 50);
	assert_int_equal(whole.nan_both, 50);
	assert_int_equal(whole.inf_appeared, 50);
	assert_int_equal(sum.finite, 3 * whole.finite);
	assert_true(sum.max_abs == whole.max_abs && isinf(sum.max_abs));
	assert_true(sum.max_ulp == whole.max_ulp);
	assert_true(fabs(sum.diff2 - 3 * whole.diff2) <= 1e-12 * sum.diff2);
}

UNIT_SUITE(test_numbers)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_are_those_of_long_doubles),
		cmocka_unit_test(all_kernels_give_the_same_to_the_bit),
		cmocka_unit_test(steps_are_those_of_nextafter),
		cmocka_unit_test(zeros_are_equal_in_other_bits),
		cmocka_unit_test(long_integers_are_not_rounded_first),
		cmocka_unit_test(what_has_no_numbers_is_compared_by_bits_of_one_dtype),
		cmocka_unit_test(products_are_rounded_before_they_are_added),
		cmocka_unit_test(parts_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
