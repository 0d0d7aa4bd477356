/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "tensor/cast.h"
#include "tensor/cast_kernels.h"

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

UNIT_SUITE(test_cast)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(simd_and_plain_c_are_the_same),
		cmocka_unit_test(simd_and_plain_c_are_the_same_at_every_edge),
		cmocka_unit_test(float16_is_the_nearest),
		cmocka_unit_test(integers_are_cut_off),
		cmocka_unit_test(a_recipe_gives_the_same_in_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
