/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "tensor/cast.h"
#include "tensor/cast_kernels.h"
#include "tensor/cast_tally.h"

#include <math.h>
#include <string.h>

/* What real torch makes of every number is compared in tests/interop/cast.py. */

static uint32_t random_state = 1;

static uint32_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	return random_state ^= random_state << 5;
}

enum { MANY = 4099 }; /* not a multiple of any vector */

static void simd_and_plain_c_are_the_same(void **state)
{
	static const enum ckpt_dtype types[] = {
		CKPT_DTYPE_FLOAT64,	    CKPT_DTYPE_FLOAT32,		CKPT_DTYPE_FLOAT16,
		CKPT_DTYPE_BFLOAT16,	    CKPT_DTYPE_FLOAT8_E5M2,	CKPT_DTYPE_FLOAT8_E4M3FN,
		CKPT_DTYPE_FLOAT8_E5M2FNUZ, CKPT_DTYPE_FLOAT8_E4M3FNUZ, CKPT_DTYPE_FLOAT8_E8M0FNU,
	};
	static uint32_t in[2 * MANY];
	static uint64_t best[MANY + 1], plain[MANY + 1];

	(void)state;
	for (size_t i = 0; i < COUNT(in); i++)
		in[i] = next_random();
	for (size_t f = 0; f < COUNT(types); f++) {
		for (size_t t = 0; t < COUNT(types); t++) {
			memset(best, 0xA5, sizeof(best));
			memset(plain, 0xA5, sizeof(plain));
			ckpt_cast_items(types[f], types[t], in, best, MANY);
			ckpt_cast_items_plain(types[f], types[t], in, plain, MANY);
			assert_memory_equal(best, plain, sizeof(best));
		}
	}
}

/* All 2**32 would take minutes: every exponent with mantissas around each place of rounding. */
static void simd_and_plain_c_are_the_same_at_every_edge(void **state)
{
	static const uint32_t near[] = { 0,	 1,	 0xFFF,	 0x1000, 0x1001, 0x1FFF,
					 0x2000, 0x7FFF, 0x8000, 0x8001, 0xFFFF };
	const struct ckpt_cast_kernels *k = ckpt_cast_best();
	static uint32_t in[65536], wide[65536], wide_plain[65536];
	static uint16_t out[65536], out_plain[65536];

	(void)state;
	for (size_t n = 0; n < COUNT(near); n++) {
		for (uint32_t i = 0; i < COUNT(in); i++)
			in[i] = i << 16 | near[n];
		k->float32_to_float16(in, out, COUNT(in));
		ckpt_cast_plain.float32_to_float16(in, out_plain, COUNT(in));
		assert_memory_equal(out, out_plain, sizeof(out));
		k->float32_to_bfloat16(in, out, COUNT(in), 0x7FC0);
		ckpt_cast_plain.float32_to_bfloat16(in, out_plain, COUNT(in), 0x7FC0);
		assert_memory_equal(out, out_plain, sizeof(out));
	}
	for (uint32_t i = 0; i < COUNT(out); i++)
		out[i] = (uint16_t)i;
	k->float16_to_float32(out, wide, COUNT(out));
	ckpt_cast_plain.float16_to_float32(out, wide_plain, COUNT(out));
	assert_memory_equal(wide, wide_plain, sizeof(wide));
	k->bfloat16_to_float32(out, wide, COUNT(out));
	ckpt_cast_plain.bfloat16_to_float32(out, wide_plain, COUNT(out));
	assert_memory_equal(wide, wide_plain, sizeof(wide));
}

/* Plain C against arithmetic: the nearest of all numbers that the type has. */
static void float16_is_the_nearest(void **state)
{
	static const double limit = 65520;

	(void)state;
	for (uint32_t i = 0; i < 200000; i++) {
		uint32_t bits = next_random(), back_bits, best_bits;
		uint16_t half, other;
		float v, back, best;

		memcpy(&v, &bits, 4);
		if (isnan(v) || fabs((double)v) >= limit)
			continue;
		ckpt_cast_plain.float32_to_float16(&bits, &half, 1);
		ckpt_cast_plain.float16_to_float32(&half, &back_bits, 1);
		memcpy(&back, &back_bits, 4);
		for (int step = -1; step <= 1; step += 2) {
			other = (uint16_t)(half + step);
			if ((other ^ half) & 0x8000 || (other & 0x7C00) == 0x7C00)
				continue;
			ckpt_cast_plain.float16_to_float32(&other, &best_bits, 1);
			memcpy(&best, &best_bits, 4);
			assert_true(fabs((double)v - (double)back) <=
				    fabs((double)v - (double)best));
		}
	}
}

static void integers_are_cut_off(void **state)
{
	static const float in[] = { 0.9f, -0.9f, 1.5f, -1.5f, 100.99f, -100.99f };
	static const int64_t wanted[] = { 0, 0, 1, -1, 100, -100 };
	int64_t wide[COUNT(in)];
	int8_t narrow[COUNT(in)];
	bool flags[COUNT(in)];

	(void)state;
	ckpt_cast_items(CKPT_DTYPE_FLOAT32, CKPT_DTYPE_INT64, in, wide, COUNT(in));
	ckpt_cast_items(CKPT_DTYPE_FLOAT32, CKPT_DTYPE_INT8, in, narrow, COUNT(in));
	ckpt_cast_items(CKPT_DTYPE_FLOAT32, CKPT_DTYPE_BOOL, in, flags, COUNT(in));
	for (size_t i = 0; i < COUNT(in); i++) {
		assert_int_equal(wide[i], wanted[i]);
		assert_int_equal(narrow[i], wanted[i]);
		assert_true(flags[i]);
	}
}

static void a_recipe_gives_the_same_in_pieces(void **state)
{
	enum { ITEMS = 100003 };
	static float in[ITEMS];
	static uint16_t whole[ITEMS], pieces[ITEMS + 8];
	struct ckpt_recipe inner = { .kind = CKPT_RECIPE_MEMORY, .memory = in, .len = sizeof(in) };
	struct ckpt_cast cast = ckpt_cast_of(&inner, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_BFLOAT16);
	struct ckpt_recipe recipe = ckpt_map_recipe(&cast.map);
	struct ckpt_stream *stream;

	(void)state;
	for (size_t i = 0; i < ITEMS; i++)
		in[i] = (float)i / 7;
	ckpt_cast_items(CKPT_DTYPE_FLOAT32, CKPT_DTYPE_BFLOAT16, in, whole, ITEMS);
	assert_int_equal(recipe.len, sizeof(whole));
	assert_int_equal(ckpt_recipe_stream(&recipe, &stream, NULL), 0);
	for (size_t at = 0, n; at < recipe.len; at += n) {
		n = recipe.len - at < 65544 ? recipe.len - at : 65544;
		assert_int_equal(stream->read(stream, (uint8_t *)pieces + at, n, NULL), 0);
	}
	stream->close(stream);
	assert_memory_equal(whole, pieces, sizeof(whole));
}

/* ---- what is lost ---- */

static const enum ckpt_dtype floating[] = {
	CKPT_DTYPE_FLOAT64,	    CKPT_DTYPE_FLOAT32,		CKPT_DTYPE_FLOAT16,
	CKPT_DTYPE_BFLOAT16,	    CKPT_DTYPE_FLOAT8_E5M2,	CKPT_DTYPE_FLOAT8_E4M3FN,
	CKPT_DTYPE_FLOAT8_E5M2FNUZ, CKPT_DTYPE_FLOAT8_E4M3FNUZ, CKPT_DTYPE_FLOAT8_E8M0FNU,
};

static bool has_infinity(enum ckpt_dtype dtype)
{
	switch (dtype) {
	case CKPT_DTYPE_FLOAT8_E4M3FN:
	case CKPT_DTYPE_FLOAT8_E5M2FNUZ:
	case CKPT_DTYPE_FLOAT8_E4M3FNUZ:
	case CKPT_DTYPE_FLOAT8_E8M0FNU: return false;
	default: return true;
	}
}

/* From the numbers before and after a cast alone. */
static bool is_overflow(enum ckpt_dtype to, double before, double after)
{
	if (isnan(before) || (isinf(before) && has_infinity(to)))
		return false;
	if (to == CKPT_DTYPE_FLOAT8_E4M3FN) /* half way between 448 and what would be next */
		return fabs((double)(float)before) > 464;
	return !isfinite(after);
}

static struct ckpt_cast_count count_by_value(enum ckpt_dtype from, enum ckpt_dtype to,
					     const void *in, size_t count)
{
	struct ckpt_cast_count c = CKPT_CAST_COUNT_INIT;
	static double before[MANY], after[MANY];
	static uint64_t out[MANY];

	ckpt_cast_items(from, to, in, out, count);
	ckpt_cast_items(from, CKPT_DTYPE_FLOAT64, in, before, count);
	ckpt_cast_items(to, CKPT_DTYPE_FLOAT64, out, after, count);
	for (size_t i = 0; i < count; i++) {
		if (is_overflow(to, before[i], after[i])) {
			c.first_overflow = c.overflowed++ ? c.first_overflow : i;
		} else if (before[i] != 0 && after[i] == 0) {
			c.first_underflow = c.underflowed++ ? c.first_underflow : i;
		}
	}
	return c;
}

static void check_counts(const void *in, size_t count)
{
	static uint64_t want[MANY + 1], out[MANY + 1];

	for (size_t f = 0; f < COUNT(floating); f++)
		for (size_t t = 0; t < COUNT(floating); t++) {
			enum ckpt_dtype from = floating[f], to = floating[t];
			size_t n = count * 4 / ckpt_dtype_size(from) < MANY
					   ? count * 4 / ckpt_dtype_size(from)
					   : MANY;
			struct ckpt_cast_count expected = count_by_value(from, to, in, n),
					       best = CKPT_CAST_COUNT_INIT,
					       plain = CKPT_CAST_COUNT_INIT;

			ckpt_cast_items(from, to, in, want, n);
			ckpt_cast_items_counting(from, to, in, out, n, &best);
			assert_memory_equal(out, want, n * ckpt_dtype_size(to));
			ckpt_cast_items_counting_plain(from, to, in, out, n, &plain);
			assert_memory_equal(&best, &expected, sizeof(best));
			assert_memory_equal(&plain, &expected, sizeof(plain));
			if (!ckpt_cast_can_lose(from, to))
				assert_int_equal(best.overflowed + best.underflowed, 0);
		}
}

static void numbers_that_are_lost_are_counted(void **state)
{
	static uint32_t in[2 * MANY];

	(void)state;
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < COUNT(in); i++)
			in[i] = next_random();
		check_counts(in, COUNT(in));
	}
}

/* Every exponent, and beside each place of rounding: all limits are among these. */
static void limits_of_what_is_lost_are_exact(void **state)
{
	static const uint32_t near[] = { 0,	   1,	     0x7FFF,   0x8000,	 0x8001,
					 0xFFFF,   0x200000, 0x3FFFFF, 0x400000, 0x400001,
					 0x5FFFFF, 0x600000, 0x680000, 0x680001, 0x67FFFF,
					 0x700000, 0x6FFFFF, 0x77FFFF, 0x780000, 0x7FEFFF,
					 0x7FF000, 0x7FF001, 0x7FFFFF, 0x7F8000, 0x7F7FFF };
	static uint32_t in[512];
	static double wide[3 * COUNT(in)];

	(void)state;
	for (size_t n = 0; n < COUNT(near); n++) {
		for (uint32_t i = 0; i < COUNT(in); i++) {
			uint32_t next;
			float low, high;

			in[i] = i << 23 | near[n];
			next = in[i] + 1;
			memcpy(&low, &in[i], sizeof(low));
			memcpy(&high, &next, sizeof(high));
			/* where float64 is rounded to float32 first */
			wide[3 * i] = ((double)low + (double)high) / 2;
			wide[3 * i + 1] = nextafter(wide[3 * i], 0);
			wide[3 * i + 2] = nextafter(wide[3 * i], (double)INFINITY);
		}
		check_counts(in, COUNT(in));
		check_counts(wide, 2 * COUNT(wide));
	}
}

/* float64 goes by way of float32, which may lose it before the target does. */
static void numbers_of_float64_are_lost_too(void **state)
{
	static const double in[] = { 0,	    -0.,   1,	   65519.99, 65520, -1e39,   INFINITY, NAN,
				     1e-50, -1e-8, 2.9e-8, 3.1e-8,   1e308, 0x1p-25, 0x1p-24 };

	(void)state;
	for (size_t t = 1; t < COUNT(floating); t++) {
		struct ckpt_cast_count expected = count_by_value(CKPT_DTYPE_FLOAT64, floating[t],
								 in, COUNT(in)),
				       c = CKPT_CAST_COUNT_INIT;
		uint64_t out[COUNT(in)];

		ckpt_cast_items_counting(CKPT_DTYPE_FLOAT64, floating[t], in, out, COUNT(in), &c);
		assert_memory_equal(&c, &expected, sizeof(c));
	}
}

static void integers_that_do_not_fit_are_counted(void **state)
{
	static const float in[] = { 127.9f, -128.9f, 0.5f, 128, -129, 300, NAN, INFINITY, 1e19f };
	struct ckpt_cast_count c = CKPT_CAST_COUNT_INIT;
	uint64_t out[COUNT(in)];

	(void)state;
	ckpt_cast_items_counting(CKPT_DTYPE_FLOAT32, CKPT_DTYPE_INT8, in, out, COUNT(in), &c);
	assert_int_equal(c.overflowed, 6);
	assert_int_equal(c.first_overflow, 3);
	assert_int_equal(c.underflowed, 0); /* a fraction that is cut off was asked for */
	c = (struct ckpt_cast_count)CKPT_CAST_COUNT_INIT;
	ckpt_cast_items_counting(CKPT_DTYPE_FLOAT32, CKPT_DTYPE_INT64, in, out, COUNT(in), &c);
	assert_int_equal(c.overflowed, 3);
	assert_int_equal(c.first_overflow, 6);
	c = (struct ckpt_cast_count)CKPT_CAST_COUNT_INIT;
	ckpt_cast_items_counting(CKPT_DTYPE_FLOAT32, CKPT_DTYPE_BOOL, in, out, COUNT(in), &c);
	assert_int_equal(c.overflowed, 0);
}

static void numbers_that_are_cast_twice_count_once(void **state)
{
	enum { ITEMS = 1000 };
	static float in[ITEMS];
	static uint16_t out[ITEMS], want[ITEMS];
	static const struct ckpt_recipe none = { 0 };
	struct ckpt_cast cast = ckpt_cast_of(&none, CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT16);

	(void)state;
	for (size_t i = 0; i < ITEMS; i++)
		in[i] = i % 10 == 7 ? -1e6f : i % 10 == 9 ? 1e-20f : 1;
	ckpt_cast_items(CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT16, in, want, ITEMS);
	for (int round = 0; round < 100; round++) {
		struct ckpt_cast_tally tally;

		ckpt_cast_tally_init(&tally);
		for (int i = 0; i < 400; i++) {
			size_t at = next_random() % ITEMS, n = next_random() % 40;

			n = n < ITEMS - at ? n : ITEMS - at;
			memset(out + at, 0, n * 2);
			ckpt_cast_tally_items(&tally, &cast, at, in + at, out + at, n);
			assert_memory_equal(out + at, want + at, n * 2);
		}
		ckpt_cast_tally_items(&tally, &cast, 0, in, out, ITEMS);
		assert_memory_equal(out, want, sizeof(out));
		assert_int_equal(tally.count.overflowed, ITEMS / 10);
		assert_int_equal(tally.count.underflowed, ITEMS / 10);
		assert_int_equal(tally.count.first_overflow, 7);
		assert_int_equal(tally.count.first_underflow, 9);
		assert_true(tally.overflow == -1e6 && tally.underflow == (double)1e-20f);
		assert_int_equal(tally.span_count, 1);
		assert_int_equal(tally.counted[0].to, ITEMS);
		ckpt_cast_tally_clear(&tally);
	}
}

UNIT_SUITE(test_cast)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(simd_and_plain_c_are_the_same),
		cmocka_unit_test(simd_and_plain_c_are_the_same_at_every_edge),
		cmocka_unit_test(float16_is_the_nearest),
		cmocka_unit_test(integers_are_cut_off),
		cmocka_unit_test(a_recipe_gives_the_same_in_pieces),
		cmocka_unit_test(numbers_that_are_lost_are_counted),
		cmocka_unit_test(limits_of_what_is_lost_are_exact),
		cmocka_unit_test(numbers_of_float64_are_lost_too),
		cmocka_unit_test(integers_that_do_not_fit_are_counted),
		cmocka_unit_test(numbers_that_are_cast_twice_count_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
