/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "tensor/byteswap.h"
#include "tensor/cast.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static struct ckpt_error err;
enum { SIZE = 300008 };

static uint8_t data[SIZE];

static int setup(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 24);
	return 0;
}

static struct ckpt_recipe memory(size_t len)
{
	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY, .memory = data, .len = len };
}

/* All of MAP in pieces of PIECE bytes; the first error. */
static int read_all(const struct ckpt_map *map, size_t piece, uint8_t *out)
{
	struct ckpt_recipe recipe = ckpt_map_recipe(map);
	struct ckpt_stream *stream;
	int rc = 0;

	assert_false(recipe.has_crc); /* they are other bytes */
	assert_int_equal(ckpt_recipe_stream(&recipe, &stream, &err), 0);
	for (size_t pos = 0; rc == 0 && pos < recipe.len; pos += piece)
		rc = stream->read(stream, out + pos,
				  piece < recipe.len - pos ? piece : recipe.len - pos, &err);
	stream->close(stream);
	return rc;
}

static const size_t pieces[] = { 8, 80, 65536, 65544, 1 << 20 };

static void numbers_are_turned_around_and_a_remainder_is_not(void **state)
{
	static uint8_t out[SIZE], want[SIZE];

	(void)state;
	for (uint32_t width = 1; width <= 8; width *= 2)
		for (size_t rest = 0; rest < width; rest++)
			for (size_t i = 0; i < COUNT(pieces); i++) {
				size_t len = SIZE - 8 + rest;
				struct ckpt_recipe inner = memory(len);
				struct ckpt_byteswap swap = ckpt_byteswap_of(&inner, width);

				for (size_t at = 0; at < len; at++)
					want[at] = at / width * width + width <= len
							   ? data[at / width * width + width - 1 -
								  at % width]
							   : data[at];
				assert_int_equal(ckpt_map_recipe(&swap.map).len, len);
				assert_int_equal(read_all(&swap.map, pieces[i], out), 0);
				assert_memory_equal(out, want, len);
			}
}

static void damage_is_found_at_the_end(void **state)
{
	static uint8_t out[2 * SIZE];
	static const enum ckpt_dtype targets[] = { CKPT_DTYPE_BFLOAT16, CKPT_DTYPE_FLOAT32,
						   CKPT_DTYPE_FLOAT64 };

	(void)state;
	for (size_t t = 0; t < COUNT(targets); t++)
		for (size_t i = 0; i < COUNT(pieces); i++) {
			struct ckpt_recipe inner = memory(SIZE);
			struct ckpt_cast cast;

			inner.has_crc = true;
			inner.crc32 = (uint32_t)crc32(0, data, SIZE);
			cast = ckpt_cast_of(&inner, CKPT_DTYPE_FLOAT32, targets[t]);
			assert_int_equal(read_all(&cast.map, pieces[i], out), 0);
			cast.map.inner.crc32 ^= 1;
			assert_int_equal(read_all(&cast.map, pieces[i], out), CKPT_E_DAMAGED);
			assert_non_null(strstr(unit_text(&err), "is damaged"));
		}
}

/* Each byte becomes WIDTH: itself plus what is kept, and their places. */
struct widened {
	struct ckpt_map map;
	int fails_at; /* the byte that cannot be made; -1: none */
	bool cannot_begin;
	int readings; /* that have begun and not ended */
};

static int begin_widened(const struct ckpt_map *map, void **kept, struct ckpt_error *error)
{
	struct widened *w = (struct widened *)map;
	uint8_t *more;

	if (w->cannot_begin)
		return ckpt_fail(error, CKPT_E_IO, "nothing is kept");
	more = malloc(1);
	*more = 7;
	*kept = more;
	w->readings++;
	return 0;
}

static void end_widened(const struct ckpt_map *map, void *kept)
{
	free(kept);
	((struct widened *)map)->readings--;
}

static int widen(const struct ckpt_map *map, const void *kept, uint64_t pos, const void *in,
		 size_t len, void *out, struct ckpt_error *error)
{
	const struct widened *w = (const struct widened *)map;
	const uint8_t *from = in, *more = kept;
	uint8_t *to = out;

	for (size_t i = 0; i < len; i++) {
		if (w->fails_at >= 0 && pos + i == (uint64_t)w->fails_at)
			return ckpt_fail(error, CKPT_E_IO, "byte %d is not made", w->fails_at);
		for (uint32_t k = 0; k < map->to; k++)
			*to++ = (uint8_t)(from[i] + *more + k);
	}
	return 0;
}

static struct widened widened(size_t len, uint32_t to)
{
	return (struct widened){ .map = { .inner = memory(len),
					  .from = 1,
					  .to = to,
					  .apply = widen,
					  .begin = begin_widened,
					  .end = end_widened },
				 .fails_at = -1 };
}

/* Readers of views, and parts of tensors, begin and end in the middle of what an item becomes. */
static void any_stretch_can_be_read(void **state)
{
	static const uint32_t widths[] = { 1, 3, 4, 32, CKPT_MAP_MOST_TO };
	static uint8_t out[4096];
	uint32_t seed = 1;

	(void)state;
	for (size_t t = 0; t < COUNT(widths); t++) {
		struct widened w = widened(70000, widths[t]);
		struct ckpt_recipe recipe = ckpt_map_recipe(&w.map);
		struct ckpt_stream *stream;
		uint64_t pos = 0;

		assert_int_equal(recipe.len, 70000 * widths[t]);
		assert_int_equal(ckpt_recipe_stream(&recipe, &stream, &err), 0);
		assert_int_equal(w.readings, 0); /* nothing is read yet */
		for (int i = 0; i < 3000; i++) {
			size_t len = (seed = seed * 1664525 + 1013904223) >> 20;

			if (i % 3 == 0 || pos + len > recipe.len) {
				pos = (uint64_t)(seed >> 3) * 7919 % (recipe.len - len);
				assert_int_equal(stream->seek(stream, pos, &err), 0);
			}
			assert_int_equal(stream->read(stream, out, len, &err), 0);
			for (size_t k = 0; k < len; k++, pos++)
				assert_int_equal(out[k], (uint8_t)(data[pos / widths[t]] + 7 +
								   pos % widths[t]));
		}
		assert_int_equal(w.readings, 1);
		stream->close(stream);
		assert_int_equal(w.readings, 0);
	}
}

static void a_map_that_fails_is_told(void **state)
{
	static uint8_t out[4 * SIZE];
	struct widened w = widened(SIZE, 4);

	(void)state;
	w.fails_at = 70001;
	assert_int_equal(read_all(&w.map, 65536, out), CKPT_E_IO);
	assert_string_equal(unit_text(&err), "byte 70001 is not made");
	assert_int_equal(w.readings, 0);
	w.cannot_begin = true;
	assert_int_equal(read_all(&w.map, 65536, out), CKPT_E_IO);
	assert_string_equal(unit_text(&err), "nothing is kept");
	assert_int_equal(w.readings, 0);
}

UNIT_SUITE(test_map)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_turned_around_and_a_remainder_is_not),
		cmocka_unit_test(damage_is_found_at_the_end),
		cmocka_unit_test(any_stretch_can_be_read),
		cmocka_unit_test(a_map_that_fails_is_told),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
