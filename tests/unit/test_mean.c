/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"
#include "plan/copy_blocks.h"
#include "plan/mover.h"
#include "tensor/cast.h"
#include "tensor/mean.h"

#include <libdeflate.h>
#include <math.h>
#include <string.h>

/* What numpy makes of the same files is compared in tests/tasks/average.py. */

static struct ckpt_error err;

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}

static double widened(enum ckpt_dtype dtype, uint32_t code)
{
	double v;

	ckpt_cast_to_doubles(dtype, &code, &v, 1);
	return v;
}

static uint32_t rounded(enum ckpt_dtype dtype, double v)
{
	uint32_t code = 0;

	ckpt_cast_from_doubles(dtype, &v, &code, 1);
	return code;
}

/* By way of float32, what lies next to the middle would become the middle first. */
static void doubles_are_rounded_once(void **state)
{
	static const struct {
		enum ckpt_dtype dtype;
		uint32_t largest; /* code */
	} types[] = {
		{ CKPT_DTYPE_FLOAT16, 0x7BFF },	      { CKPT_DTYPE_BFLOAT16, 0x7F7F },
		{ CKPT_DTYPE_FLOAT8_E5M2, 0x7B },     { CKPT_DTYPE_FLOAT8_E4M3FN, 0x7E },
		{ CKPT_DTYPE_FLOAT8_E5M2FNUZ, 0x7F }, { CKPT_DTYPE_FLOAT8_E4M3FNUZ, 0x7F },
	};

	(void)state;
	for (size_t t = 0; t < COUNT(types); t++)
		for (uint32_t code = 0; code < types[t].largest; code++) {
			enum ckpt_dtype dtype = types[t].dtype;
			double low = widened(dtype, code), high = widened(dtype, code + 1),
			       middle = (low + high) / 2;

			assert_int_equal(rounded(dtype, low), code);
			assert_int_equal(rounded(dtype, middle), code + (code & 1));
			assert_int_equal(rounded(dtype, nextafter(middle, low)), code);
			assert_int_equal(rounded(dtype, nextafter(middle, high)), code + 1);
		}
	assert_int_equal(rounded(CKPT_DTYPE_FLOAT16, 1e300), 0x7C00);
	assert_int_equal(rounded(CKPT_DTYPE_FLOAT16, -1e-300), 0x8000);
	assert_int_equal(rounded(CKPT_DTYPE_BFLOAT16, 3.4e38), 0x7F80);
	assert_int_equal(rounded(CKPT_DTYPE_BFLOAT16, -INFINITY), 0xFF80);
	assert_int_equal(rounded(CKPT_DTYPE_BFLOAT16, (double)NAN), 0x7FC0);
	assert_int_equal(rounded(CKPT_DTYPE_FLOAT8_E4M3FN, 1e300), 0x7E);
	assert_int_equal(rounded(CKPT_DTYPE_FLOAT8_E8M0FNU, 1.5), 0x80);
	assert_int_equal(rounded(CKPT_DTYPE_FLOAT8_E8M0FNU, nextafter(1.5, 1)), 0x7F);
}

static void the_order_is_that_of_the_recipes_and_nan_is_one(void **state)
{
	static const double numbers[4][3] = {
		{ 1e16, INFINITY, -0.0 }, { 1, -INFINITY, -0.0 }, { -1e16, 1, -0.0 }, { 3, 1, -0.0 }
	};
	const double weights[] = { 1, 1, 1, 1 };
	struct ckpt_recipe inner[4];
	struct ckpt_mean mean = { inner, 4, CKPT_DTYPE_FLOAT64, weights, 1, 4, false };
	struct ckpt_recipe recipe;
	struct ckpt_stream *stream;
	double found[3];
	uint64_t bits;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		inner[i] = (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY,
						 .memory = numbers[i],
						 .len = sizeof(found) };
	recipe = ckpt_mean_recipe(&mean);
	assert_int_equal(ckpt_recipe_stream(&recipe, &stream, &err), 0);
	assert_int_equal(stream->read(stream, found, sizeof(found), &err), 0);
	assert_true(found[0] == 0.75); /* 1e16 + 1 is 1e16 */
	memcpy(&bits, &found[1], sizeof(bits));
	assert_true(bits == 0x7FF8000000000000);
	assert_true(found[2] == 0 && signbit(found[2]));
	assert_int_equal(stream->seek(stream, 16, &err), 0);
	assert_int_equal(stream->read(stream, found, 8, &err), 0);
	assert_true(signbit(found[0]));
	mean.from_zero = true;
	assert_int_equal(stream->seek(stream, 16, &err), 0);
	assert_int_equal(stream->read(stream, found, 8, &err), 0);
	assert_true(found[0] == 0 && !signbit(found[0]));
	stream->close(stream);
}

enum { MANY = 4099 }; /* not a multiple of any vector */

/* Bits at random; and numbers next to where the narrow types are rounded, of all kinds. */
static void simd_and_plain_c_are_the_same(void **state)
{
	static const enum ckpt_dtype types[] = { CKPT_DTYPE_FLOAT64, CKPT_DTYPE_FLOAT32,
						 CKPT_DTYPE_FLOAT16, CKPT_DTYPE_BFLOAT16,
						 CKPT_DTYPE_FLOAT8_E4M3FN };
	static const double weights[][3] = {
		{ 1, 1, 1 }, { 1, 2, 1 }, { 1, 1e-7, -0.3 }, { 1, 1e-17, 1e-17 }
	};
	static uint64_t in[3][MANY], out[2][MANY];
	static double sums[2][MANY];

	(void)state;
	for (unsigned round = 0; round < unit_rounds(20, 400); round++)
		for (size_t t = 0; t < COUNT(types); t++) {
			struct ckpt_mean mean = { NULL,
						  3,
						  types[t],
						  weights[round % 4],
						  round % 3 ? 1 : 0.9,
						  round % 5 ? 3 : 1,
						  round % 2 };

			for (size_t k = 0; k < MANY; k++)
				for (size_t i = 0; i < 3; i++)
					in[i][k] =
						next_random() &
						(round % 3 == 2 ? 0xFFFF3FFF3FFF3FFF : UINT64_MAX);
			memset(out, 0xA5, sizeof(out));
			for (size_t i = 0; i < 3; i++) {
				ckpt_mean_add(&mean, i, in[i], MANY, sums[0]);
				ckpt_mean_add_plain(&mean, i, in[i], MANY, sums[1]);
			}
			ckpt_mean_finish(&mean, sums[0], MANY, out[0]);
			ckpt_mean_finish_plain(&mean, sums[1], MANY, out[1]);
			assert_memory_equal(out[0], out[1], sizeof(out[0]));
		}
}

/* Doubles beside the middle of two neighbors, which come as one float64 that is divided by 1. */
static void simd_rounds_once_as_well(void **state)
{
	static const enum ckpt_dtype types[] = { CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT16,
						 CKPT_DTYPE_BFLOAT16 };
	static double sums[2][8 * 0x7F80];
	static uint32_t out[2][8 * 0x7F80];
	const double weight = 1;

	(void)state;
	for (size_t t = 0; t < COUNT(types); t++) {
		struct ckpt_mean mean = { NULL, 1, types[t], &weight, 1, 1, true };
		size_t count = 0;

		for (uint32_t code = 0; code < 0x7F80; code++) {
			uint32_t wide = code << 16 | 0x8000;
			double low = types[t] == CKPT_DTYPE_FLOAT32 ? widened(types[t], wide)
								    : widened(types[t], code),
			       high = types[t] == CKPT_DTYPE_FLOAT32 ? widened(types[t], wide + 1)
								     : widened(types[t], code + 1),
			       middle = (low + high) / 2;

			sums[0][count++] = low;
			sums[0][count++] = -middle;
			sums[0][count++] = nextafter(middle, low);
			sums[0][count++] = nextafter(middle, high);
			sums[0][count++] = -nextafter(middle, low);
			sums[0][count++] = -nextafter(middle, high);
			sums[0][count++] = high * 1e30;
			sums[0][count++] = low * 1e-30;
		}
		memcpy(sums[1], sums[0], sizeof(sums[0]));
		ckpt_mean_finish(&mean, sums[0], count, out[0]);
		ckpt_mean_finish_plain(&mean, sums[1], count, out[1]);
		assert_memory_equal(out[0], out[1], count * ckpt_dtype_size(types[t]));
	}
}

/* ---- the mover ---- */

enum { FILES = 3, NUMBERS = 700001 };

static char *folder, *out;
static struct ckpt_source *sources[FILES];
static float *data[FILES];

static int setup(void **state)
{
	(void)state;
	folder = unit_folder_new();
	out = unit_path(folder, "out");
	for (int i = 0; i < FILES; i++) {
		char name[2] = { (char)('a' + i), 0 }, *path = unit_path(folder, name);

		data[i] = malloc(NUMBERS * sizeof(float));
		for (size_t k = 0; k < NUMBERS; k++)
			data[i][k] = (float)(int32_t)next_random() / 1000003;
		unit_write_file(path, data[i], NUMBERS * sizeof(float));
		assert_int_equal(ckpt_source_open(path, &sources[i], &err), 0);
		free(path);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < FILES; i++) {
		ckpt_source_unref(sources[i]);
		free(data[i]);
	}
	free(out);
	unit_folder_remove(folder);
	return 0;
}

/* The first COUNT numbers of all files, RANDOM or as streams. */
static void set_inner(struct ckpt_recipe *inner, size_t count, bool random)
{
	for (int i = 0; i < FILES; i++)
		inner[i] =
			random ? (struct ckpt_recipe){ .kind = CKPT_RECIPE_EXTENT,
						       .src = sources[i],
						       .len = count * sizeof(float),
						       .has_crc = true,
						       .crc32 = libdeflate_crc32(
							       0, data[i], count * sizeof(float)) }
			       : (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY,
						       .memory = data[i],
						       .len = count * sizeof(float) };
}

static int copy_mean(const struct ckpt_mean *mean, uint32_t threads, struct ckpt_moved *moved)
{
	struct ckpt_mover_options options = { .threads = threads };
	struct ckpt_recipe recipe = ckpt_mean_recipe(mean);
	struct ckpt_mover *mover;
	struct ckpt_sink *sink;
	int rc;

	assert_int_equal(ckpt_sink_open(out, 0, 0, CKPT_SINK_REPLACE, 0666, &sink, &err), 0);
	assert_int_equal(ckpt_mover_open(sink, &options, &mover, &err), 0);
	rc = ckpt_mover_copy(mover, &recipe, moved, &err);
	if (rc == 0)
		rc = ckpt_mover_finish(mover, &err);
	ckpt_mover_close(mover);
	if (rc == 0)
		assert_int_equal(ckpt_sink_commit(sink, &err), 0);
	else
		ckpt_sink_discard(sink);
	return rc;
}

static void means_of_any_length_are_the_same_with_any_number_of_threads(void **state)
{
	static const size_t counts[] = { 0, 1, 1000, 1 << 18, (1 << 18) + 1, NUMBERS };
	const double weights[] = { 1, 2, 0.5 };
	struct ckpt_recipe inner[FILES];
	struct ckpt_mean mean = { inner, FILES, CKPT_DTYPE_FLOAT32, weights, 1, 3.5, true };

	(void)state;
	for (size_t c = 0; c < COUNT(counts); c++)
		for (uint32_t threads = 1; threads <= 4; threads += 3)
			for (int random = 0; random < 2; random++) {
				struct ckpt_moved moved = { .want_crc = true, .want_head = true };
				struct ckpt_buf found;

				set_inner(inner, counts[c], random);
				assert_int_equal(copy_mean(&mean, threads, &moved), 0);
				found = unit_read_file(out);
				assert_int_equal(found.len, counts[c] * sizeof(float));
				assert_int_equal(moved.crc32,
						 libdeflate_crc32(0, found.data, found.len));
				assert_int_equal(moved.has_head, counts[c] >= 2);
				for (size_t k = 0; k < counts[c]; k++) {
					double sum = (double)data[0][k];
					float want, is;

					sum = sum + 2 * (double)data[1][k];
					sum = sum + 0.5 * (double)data[2][k];
					want = (float)(sum / 3.5);
					memcpy(&is, found.data + k * sizeof(is), sizeof(is));
					assert_true(want == is);
				}
				ckpt_buf_clear(&found);
			}
}

/* More than a worker has memory for: 65 of them go front to back. */
static void means_of_many_are_the_same_as_those_of_few(void **state)
{
	static const size_t counts[] = { 5, 64, 65 };

	(void)state;
	for (size_t c = 0; c < COUNT(counts); c++) {
		struct ckpt_recipe inner[65];
		double weights[65];
		struct ckpt_mean mean = {
			inner, counts[c], CKPT_DTYPE_FLOAT32, weights, 1, 3, true
		};
		struct ckpt_moved moved = { .want_crc = true };
		struct ckpt_buf found;

		for (size_t i = 0; i < counts[c]; i++)
			weights[i] = i < FILES ? 1 : 0;
		set_inner(inner, NUMBERS, true);
		for (size_t i = FILES; i < counts[c]; i++)
			inner[i] = inner[i % FILES];
		assert_int_equal(copy_mean(&mean, 0, &moved), 0);
		found = unit_read_file(out);
		assert_int_equal(moved.crc32, libdeflate_crc32(0, found.data, found.len));
		for (size_t k = 0; k < NUMBERS; k++) {
			float want = (float)((((double)data[0][k] + data[1][k]) + data[2][k]) / 3),
			      is;

			memcpy(&is, found.data + k * sizeof(is), sizeof(is));
			assert_true(want == is);
		}
		ckpt_buf_clear(&found);
	}
}

static void damage_in_any_of_them_is_found(void **state)
{
	static const size_t counts[] = { 1000, NUMBERS };
	const double weights[] = { 1, 1, 1 };
	struct ckpt_recipe inner[FILES];
	struct ckpt_mean mean = { inner, FILES, CKPT_DTYPE_FLOAT32, weights, 1, 3, true };

	(void)state;
	for (size_t c = 0; c < COUNT(counts); c++)
		for (int i = 0; i < FILES; i++) {
			struct ckpt_moved moved = { .want_crc = true };

			set_inner(inner, counts[c], true);
			inner[i].crc32 ^= 1;
			assert_int_equal(copy_mean(&mean, 0, &moved), CKPT_E_DAMAGED);
			assert_string_equal(err.path, ckpt_source_path(sources[i]));
		}
}

static void bytes_behind_the_last_number_are_those_of_the_last(void **state)
{
	const double weights[] = { 1, 1 };
	const uint8_t a[] = { 0, 0, 0, 0, 1, 2 }, b[] = { 0, 0, 0, 0, 3, 4 };
	struct ckpt_recipe inner[] = { { .kind = CKPT_RECIPE_MEMORY, .memory = a, .len = 6 },
				       { .kind = CKPT_RECIPE_MEMORY, .memory = b, .len = 6 } };
	struct ckpt_mean mean = { inner, 2, CKPT_DTYPE_FLOAT32, weights, 1, 2, true };
	struct ckpt_moved moved = { 0 };
	struct ckpt_buf found;

	(void)state;
	assert_int_equal(copy_mean(&mean, 0, &moved), 0);
	found = unit_read_file(out);
	assert_int_equal(found.len, 6);
	assert_memory_equal(found.data, b, 6);
	ckpt_buf_clear(&found);
}

UNIT_SUITE(test_mean)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(doubles_are_rounded_once),
		cmocka_unit_test(simd_and_plain_c_are_the_same),
		cmocka_unit_test(simd_rounds_once_as_well),
		cmocka_unit_test(the_order_is_that_of_the_recipes_and_nan_is_one),
		cmocka_unit_test_setup_teardown(
			means_of_any_length_are_the_same_with_any_number_of_threads, setup,
			teardown),
		cmocka_unit_test_setup_teardown(means_of_many_are_the_same_as_those_of_few, setup,
						teardown),
		cmocka_unit_test_setup_teardown(damage_in_any_of_them_is_found, setup, teardown),
		cmocka_unit_test_setup_teardown(bytes_behind_the_last_number_are_those_of_the_last,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
