/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "tensor/byteswap.h"
#include "tensor/cast.h"

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

UNIT_SUITE(test_map)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_turned_around_and_a_remainder_is_not),
		cmocka_unit_test(damage_is_found_at_the_end),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
