/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "tensor/negate.h"

#include <complex.h>
#include <string.h>

static struct ckpt_error err;

enum { COUNT_OF_NUMBERS = 1001 };

/* What NEGATE makes of LEN bytes, read in pieces of PIECE bytes. */
static uint8_t *negated(const struct ckpt_negate *how, const void *bytes, size_t len, size_t piece)
{
	struct ckpt_negate negate = *how;
	struct ckpt_recipe recipe;
	struct ckpt_stream *stream;
	uint8_t *out = malloc(len + 1);

	assert_non_null(out);
	negate.map.inner =
		(struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY, .memory = bytes, .len = len };
	recipe = ckpt_map_recipe(&negate.map);
	assert_int_equal(recipe.len, len);
	assert_int_equal(ckpt_recipe_stream(&recipe, &stream, &err), 0);
	for (size_t pos = 0; pos < len; pos += piece)
		assert_int_equal(stream->read(stream, out + pos,
					      piece < len - pos ? piece : len - pos, &err),
				 0);
	stream->close(stream);
	return out;
}

static struct ckpt_negate negate_of(enum ckpt_dtype dtype, bool is_neg, bool is_conj)
{
	static const struct ckpt_recipe nothing;

	return ckpt_negate_of(&nothing, dtype, is_neg, is_conj);
}

static void check(struct ckpt_negate negate, const void *in, const void *want, size_t len)
{
	static const size_t pieces[] = { 8, 64, 4096, 1 << 20 };

	for (size_t i = 0; i < COUNT(pieces); i++) {
		uint8_t *found = negated(&negate, in, len, pieces[i]);

		assert_memory_equal(found, want, len);
		free(found);
	}
}

static void numbers_get_the_other_sign(void **state)
{
	static double in[COUNT_OF_NUMBERS], want[COUNT_OF_NUMBERS];
	static float in4[COUNT_OF_NUMBERS], want4[COUNT_OF_NUMBERS];

	(void)state;
	for (int i = 0; i < COUNT_OF_NUMBERS; i++) {
		in[i] = (i % 3 - 1) * 1.25 * i;
		want[i] = -in[i]; /* of zeros, too */
		in4[i] = (float)in[i];
		want4[i] = -in4[i];
	}
	check(negate_of(CKPT_DTYPE_FLOAT64, true, false), in, want, sizeof(in));
	check(negate_of(CKPT_DTYPE_FLOAT32, true, false), in4, want4, sizeof(in4));
}

static void halves_get_the_other_sign(void **state)
{
	(void)state;
	check(negate_of(CKPT_DTYPE_FLOAT16, true, false), "\x00\x3c\x00\xbc\x01\x00",
	      "\x00\xbc\x00\x3c\x01\x80", 6);
	check(negate_of(CKPT_DTYPE_FLOAT8_E5M2, true, false), "\x38\xb8\x01", "\xb8\x38\x81", 3);
}

static void integers_become_their_two_s_complement(void **state)
{
	static const int32_t in[] = { 0, 1, -1, 256, INT32_MAX, INT32_MIN }, want[] = { 0, -1, 1, -256, -INT32_MAX, INT32_MIN };
	static const int64_t in8[] = { 1LL << 32, -5 }, want8[] = { -(1LL << 32), 5 };

	(void)state;
	check(negate_of(CKPT_DTYPE_INT32, true, false), in, want, sizeof(in));
	check(negate_of(CKPT_DTYPE_UINT32, true, false), in, want, sizeof(in));
	check(negate_of(CKPT_DTYPE_INT64, true, false), in8, want8, sizeof(in8));
	check(negate_of(CKPT_DTYPE_INT16, true, false), "\x01\x00\x00\x80", "\xff\xff\x00\x80", 4);
	check(negate_of(CKPT_DTYPE_UINT8, true, false), "\x00\x01\x80\xff", "\x00\xff\x80\x01", 4);
	check(negate_of(CKPT_DTYPE_INT8, false, false), "\x01", "\x01", 1);
}

static void of_a_conjugate_the_imaginary_parts_change(void **state)
{
	static float complex in[COUNT_OF_NUMBERS], want[COUNT_OF_NUMBERS];
	static double complex in8[COUNT_OF_NUMBERS], want8[COUNT_OF_NUMBERS];

	(void)state;
	for (int i = 0; i < COUNT_OF_NUMBERS; i++) {
		in8[i] = i + (500 - i) * 0.5 * I;
		want8[i] = conj(in8[i]);
		in[i] = (float complex)in8[i];
		want[i] = conjf(in[i]);
	}
	check(negate_of(CKPT_DTYPE_COMPLEX64, false, true), in, want, sizeof(in));
	check(negate_of(CKPT_DTYPE_COMPLEX128, false, true), in8, want8, sizeof(in8));
	for (int i = 0; i < COUNT_OF_NUMBERS; i++)
		want[i] = -conjf(in[i]);
	check(negate_of(CKPT_DTYPE_COMPLEX64, true, true), in, want, sizeof(in));
}

static void without_either_nothing_changes(void **state)
{
	(void)state;
	check(negate_of(CKPT_DTYPE_FLOAT32, false, false), "abcdefgh", "abcdefgh", 8);
	check(negate_of(CKPT_DTYPE_FLOAT32, true, false), "", "", 0);
}

static void an_error_of_the_bytes_below_is_passed_on(void **state)
{
	struct ckpt_negate negate = negate_of(CKPT_DTYPE_FLOAT32, true, false);
	struct ckpt_recipe recipe;
	struct ckpt_source *src;
	struct ckpt_stream *stream;
	uint8_t bytes[8];

	(void)state;
	assert_int_equal(ckpt_source_from_memory("abcd", 4, &src, &err), 0);
	negate.map.inner = (struct ckpt_recipe){ .kind = CKPT_RECIPE_EXTENT, .src = src, .len = 8 };
	recipe = ckpt_map_recipe(&negate.map);
	assert_int_equal(ckpt_recipe_stream(&recipe, &stream, &err), 0);
	assert_int_equal(stream->read(stream, bytes, 8, &err), CKPT_E_FORMAT);
	stream->close(stream);
	ckpt_source_unref(src);
}

UNIT_SUITE(test_negate)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_get_the_other_sign),
		cmocka_unit_test(halves_get_the_other_sign),
		cmocka_unit_test(integers_become_their_two_s_complement),
		cmocka_unit_test(of_a_conjugate_the_imaginary_parts_change),
		cmocka_unit_test(without_either_nothing_changes),
		cmocka_unit_test(an_error_of_the_bytes_below_is_passed_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
