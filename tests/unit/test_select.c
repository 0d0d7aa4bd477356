/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "stat/select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What numpy says of the same numbers is compared in tests/interop/stat.py. Here the judge sorts all of them. */

enum { MOST = 300000, PIECE = 4096, QUANTILES = 9 };

static const double at[QUANTILES] = { 0.5, 0, 1, 0.01, 0.99, 0.123, 0.5, 1e-9, 0.999999 };

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}

static double next_real(void)
{
	return (double)(int64_t)next_random() * 0x1p-63;
}

/* ---- kinds of numbers ---- */

static double narrow(void)
{
	return 1 + next_real() * 1e-12;
}

static double wide(void)
{
	return ldexp(next_real(), (int)(next_random() % 2000) - 1000);
}

static double any_bits(void)
{
	uint64_t bits = next_random();
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static double mostly_zero(void)
{
	return next_random() % 4 ? (next_random() % 2 ? 0.0 : -0.0) : next_real();
}

static double few(void)
{
	return (double)(int64_t)(next_random() % 7) - 3;
}

static double float32(void)
{
	return (double)(float)next_real();
}

static double extreme(void)
{
	return next_random() % 2 ? 0x1.fffffffffffffp1023 : -0x1.fffffffffffffp1023;
}

static double denormal(void)
{
	return next_real() * 0x1p-1060;
}

static double same(void)
{
	return -0.1;
}

static double (*const kinds[])(void) = { next_real, narrow,  wide,    any_bits, mostly_zero,
					 few,	    float32, extreme, denormal, same };

/* ---- the judge ---- */

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Sorts IN, which stand for TIMES numbers each. */
static double judge(const double *in, uint64_t count, uint64_t times, double q)
{
	double place = q * (double)(count * times - 1), low = floor(place);
	uint64_t rank = (uint64_t)low, next = rank + 1 < count * times ? rank + 1 : rank;
	double a = in[rank / times], b = in[next / times], t = place - low, apart = b - a;

	if (!isfinite(apart))
		return a * (1 - t) + b * t;
	return t >= 0.5 ? b - apart * (1 - t) : a + apart * t;
}

/* ---- selecting ---- */

static void show(struct ckpt_select *s, const double *in, size_t count, uint64_t times)
{
	uint64_t keys[PIECE];

	for (size_t done = 0; done < count; done += PIECE) {
		size_t n = count - done < PIECE ? count - done : PIECE;

		n = ckpt_select_keys(s, in + done, n, keys);
		ckpt_select_add(s, keys, n, times);
	}
}

/* Returns how many rounds it took. */
static int check(const double *in, size_t count, uint64_t times)
{
	static double sorted[MOST];
	double out[QUANTILES];
	struct ckpt_select s;
	size_t finite = 0;
	int rounds = 1, rc;

	for (size_t i = 0; i < count; i++)
		if (isfinite(in[i]))
			sorted[finite++] = in[i] + 0.0;
	if (!finite)
		return 0;
	qsort(sorted, finite, sizeof(*sorted), by_value);
	assert_int_equal(ckpt_select_init(&s, at, QUANTILES, finite * times, NULL), 0);
	for (; show(&s, in, count, times), (rc = ckpt_select_next(&s, NULL)) > 0; rounds++)
		;
	assert_int_equal(rc, 0);
	ckpt_select_quantiles(&s, out);
	ckpt_select_clear(&s);
	for (int i = 0; i < QUANTILES; i++) {
		double wanted = judge(sorted, finite, times, at[i]);

		assert_memory_equal(&out[i], &wanted, sizeof(wanted));
	}
	return rounds;
}

static double numbers[MOST];

static void quantiles_are_those_of_the_sorted_numbers(void **state)
{
	static const size_t counts[] = { 1, 2, 3, 100, 65535, 65536, 65537, MOST };

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
			for (size_t i = 0; i < counts[c]; i++)
				numbers[i] = kinds[k]();
			assert_in_range(check(numbers, counts[c], 1), counts[c] > 1, 5);
		}
}

static void few_numbers_take_one_round(void **state)
{
	(void)state;
	for (size_t i = 0; i < 65536; i++)
		numbers[i] = next_real();
	assert_int_equal(check(numbers, 65536, 1), 1);
}

static void a_number_may_stand_for_many(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		for (size_t i = 0; i < 20000; i++)
			numbers[i] = kinds[k]();
		check(numbers, 20000, 3);
		check(numbers, 20000, 7);
		check(numbers, 20000, (uint64_t)1 << 30);
		check(numbers, 1, (uint64_t)1 << 52);
	}
}

/* A file may be written to while it is read; that is found out elsewhere. */
static void numbers_that_change_between_rounds_do_no_harm(void **state)
{
	(void)state;
	for (int repeat = 0; repeat < 60; repeat++) {
		size_t count = 60000 + next_random() % 20000;
		struct ckpt_select s;
		double out[QUANTILES];

		assert_int_equal(ckpt_select_init(&s, at, QUANTILES, count, NULL), 0);
		do {
			size_t now = next_random() % 3 ? next_random() % MOST : 0;

			for (size_t i = 0; i < now; i++)
				numbers[i] = kinds[(unsigned)repeat % 10]();
			show(&s, numbers, now, next_random() % 5 ? 1 : UINT64_MAX / 2);
		} while (ckpt_select_next(&s, NULL) > 0);
		ckpt_select_quantiles(&s, out);
		ckpt_select_clear(&s);
	}
}

static void memory_is_bounded(void **state)
{
	(void)state;
	assert_true(ckpt_select_memory(CKPT_SELECT_MOST_QUANTILES, UINT64_MAX) < 3 << 20);
	assert_true(ckpt_select_memory(3, UINT64_MAX) < 3 << 19);
	assert_true(ckpt_select_memory(3, 10) < 8192);
}

UNIT_SUITE(test_select)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_are_those_of_the_sorted_numbers),
		cmocka_unit_test(few_numbers_take_one_round),
		cmocka_unit_test(a_number_may_stand_for_many),
		cmocka_unit_test(numbers_that_change_between_rounds_do_no_harm),
		cmocka_unit_test(memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
