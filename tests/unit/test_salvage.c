/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/pieces.h"
#include "tensor/fill.h"
#include "zipfmt/rebuild.h"
#include "zipfmt/salvage.h"

#include <stdlib.h>
#include <string.h>

static struct ckpt_source *source_of(const void *bytes, size_t len)
{
	struct ckpt_source *source;

	assert_int_equal(ckpt_source_from_memory(bytes, len, &source, NULL), 0);
	return source;
}

/* ---- pieces ---- */

static void any_stretch_of_the_whole_can_be_read(void **state)
{
	static const char whole[] = "cdeMEM\0\0\0\0\0ab", base_bytes[] = "abcdef";
	struct ckpt_source *base = source_of(base_bytes, 6), *source;
	struct ckpt_pieces *p = ckpt_pieces_new(base);
	char found[16];

	(void)state;
	ckpt_pieces_add_extent(p, 2, 3);
	ckpt_pieces_add_memory(p, "MEM", 3);
	ckpt_pieces_add_zeros(p, 5);
	ckpt_pieces_add_zeros(p, 0);
	ckpt_pieces_add_extent(p, 0, 2);
	assert_int_equal(ckpt_pieces_finish(p, &source, NULL), 0);
	assert_int_equal(ckpt_source_size(source), 13);
	for (size_t begin = 0; begin <= 13; begin++)
		for (size_t len = 0; begin + len <= 13; len++) {
			memset(found, '?', sizeof(found));
			assert_int_equal(ckpt_source_read(source, begin, found, len, NULL), 0);
			assert_memory_equal(found, whole + begin, len);
			assert_int_equal(found[len], '?');
		}
	assert_int_equal(ckpt_source_read(source, 12, found, 2, NULL), CKPT_E_FORMAT);
	ckpt_source_unref(source);
	ckpt_source_unref(base);
}

static void a_whole_may_be_larger_than_memory_but_not_than_any_file(void **state)
{
	struct ckpt_source *base = source_of("x", 1), *source;
	struct ckpt_pieces *p = ckpt_pieces_new(base);
	char last;

	(void)state;
	ckpt_pieces_add_zeros(p, INT64_MAX - 1);
	ckpt_pieces_add_extent(p, 0, 1);
	assert_int_equal(ckpt_pieces_finish(p, &source, NULL), 0);
	assert_int_equal(ckpt_source_read(source, INT64_MAX - 1, &last, 1, NULL), 0);
	assert_int_equal(last, 'x');
	ckpt_source_unref(source);
	p = ckpt_pieces_new(base);
	ckpt_pieces_add_zeros(p, INT64_MAX);
	ckpt_pieces_add_zeros(p, UINT64_MAX);
	assert_int_equal(ckpt_pieces_finish(p, &source, NULL), CKPT_E_LIMIT);
	assert_null(source);
	ckpt_source_unref(base);
}

static void no_memory_is_said_at_the_end(void **state)
{
	struct ckpt_source *source;

	(void)state;
	ckpt_pieces_add_zeros(NULL, 1);
	ckpt_pieces_add_memory(NULL, "x", 1);
	assert_int_equal(ckpt_pieces_finish(NULL, &source, NULL), CKPT_E_NOMEM);
}

/* ---- bytes of one number ---- */

static void a_filling_is_read_and_sought(void **state)
{
	struct ckpt_fill fill;
	struct ckpt_recipe recipe;
	struct ckpt_stream *stream;
	uint8_t bytes[40];

	(void)state;
	assert_true(ckpt_fill_nan(CKPT_DTYPE_COMPLEX64, false, 40, &fill));
	recipe = ckpt_fill_recipe(&fill);
	assert_int_equal(recipe.len, 40);
	assert_int_equal(recipe.open(&recipe, &stream, NULL), 0);
	assert_int_equal(stream->read(stream, bytes, 24, NULL), 0);
	assert_int_equal(stream->read(stream, bytes + 24, 16, NULL), 0);
	for (size_t i = 0; i < 40; i += 4)
		assert_memory_equal(bytes + i, "\0\0\xC0\x7F", 4);
	assert_int_equal(stream->seek(stream, 8, NULL), 0);
	assert_int_equal(stream->read(stream, bytes, 8, NULL), 0);
	assert_memory_equal(bytes, "\0\0\xC0\x7F\0\0\xC0\x7F", 8);
	stream->close(stream);
}

static void nan_is_turned_around_for_big_endian_files(void **state)
{
	struct ckpt_fill fill;

	(void)state;
	assert_true(ckpt_fill_nan(CKPT_DTYPE_COMPLEX128, true, 16, &fill));
	assert_int_equal(fill.size, 16);
	assert_memory_equal(fill.number, "\x7F\xF8\0\0\0\0\0\0\x7F\xF8\0\0\0\0\0\0", 16);
	assert_true(ckpt_fill_nan(CKPT_DTYPE_BFLOAT16, true, 2, &fill));
	assert_memory_equal(fill.number, "\x7F\xC0", 2);
}

static void integers_are_never_nan(void **state)
{
	struct ckpt_fill fill;

	(void)state;
	for (int dtype = 0; dtype < CKPT_DTYPE_COUNT; dtype++) {
		bool nan = ckpt_fill_nan((enum ckpt_dtype)dtype, false, 32, &fill);

		assert_true(nan || (fill.size == 1 && fill.number[0] == 0));
		assert_int_equal(ckpt_dtype_size((enum ckpt_dtype)dtype) % fill.size, 0);
	}
	assert_false(ckpt_fill_nan(CKPT_DTYPE_INT64, false, 8, &fill));
	assert_false(ckpt_fill_nan(CKPT_DTYPE_QINT8, false, 8, &fill));
	assert_false(ckpt_fill_nan(CKPT_DTYPE_FLOAT4_E2M1FN_X2, false, 8, &fill));
}

/* ---- parts of archives ---- */

static void an_archive_of_parts_is_one(void **state)
{
	static const char base_bytes[] = "....hello....";
	const struct ckpt_zip_rebuilt records[] = {
		{ .name = "a", .off = 4, .csize = 5, .usize = 5, .crc32 = 0x3610A686 },
		{ .name = "b",
		  .from = CKPT_ZIP_FROM_MEMORY,
		  .memory = "xyz",
		  .csize = 3,
		  .usize = 3 },
		{ .name = "c", .from = CKPT_ZIP_ZEROS, .csize = 100, .usize = 100 },
		{ .name = "d", .from = CKPT_ZIP_ZEROS },
	};
	static const uint64_t sizes[] = { 5, 3, 100, 0 };
	struct ckpt_source *base = source_of(base_bytes, 13), *source;
	struct ckpt_zip *zip;
	uint8_t *bytes;

	(void)state;
	assert_int_equal(ckpt_zip_rebuild(base, "dir", records, 4, &source, NULL), 0);
	assert_int_equal(ckpt_zip_open(source, &zip, NULL), 0);
	assert_int_equal(zip->count, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(zip->entries[i].usize, sizes[i]);
	assert_int_equal(ckpt_zip_locate_all(zip, NULL), 0);
	assert_int_equal(ckpt_zip_read(zip, ckpt_zip_find(zip, "dir/a", 5), 9, &bytes, NULL), 0);
	assert_memory_equal(bytes, "hello", 5); /* and its checksum is right */
	free(bytes);
	assert_int_equal(ckpt_zip_read(zip, ckpt_zip_find(zip, "dir/b", 5), 9, &bytes, NULL), 0);
	assert_memory_equal(bytes, "xyz", 3);
	free(bytes);
	ckpt_zip_close(zip);
	ckpt_source_unref(source);
	ckpt_source_unref(base);
}

static enum ckpt_zip_found descriptor_in(const char *bytes, size_t len, uint64_t csize, bool big,
					 struct ckpt_zip_descriptor *d)
{
	struct ckpt_source *source = source_of(bytes, len);
	enum ckpt_zip_found found = ckpt_zip_read_descriptor(source, 2, csize, big, d);

	ckpt_source_unref(source);
	return found;
}

static void a_descriptor_is_there_wrong_blank_or_cut(void **state)
{
	static const char small[] = "..abcPK\7\10\1\2\3\4\3\0\0\0\3\0\0\0........";
	static const char large[] = "..abcPK\7\10\1\2\3\4\3\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0";
	struct ckpt_zip_descriptor d = { 0 };
	char zeros[40] = "..abc";

	(void)state;
	assert_int_equal(descriptor_in(small, 29, 3, false, &d), CKPT_ZIP_THERE);
	assert_int_equal(d.len, 16);
	assert_int_equal(d.crc32, 0x04030201);
	assert_int_equal(descriptor_in(large, 29, 3, false, &d), CKPT_ZIP_THERE);
	assert_int_equal(d.len, 24);
	assert_int_equal(d.usize, 3);
	assert_int_equal(descriptor_in(small, 29, 2, false, &d), CKPT_ZIP_WRONG);
	assert_int_equal(descriptor_in(zeros, 40, 3, false, &d), CKPT_ZIP_BLANK);
	assert_int_equal(descriptor_in(small, 20, 3, false, &d), CKPT_ZIP_CUT_OFF);
	assert_int_equal(d.crc32, 0x04030201);
	assert_int_equal(d.len, 15);
	assert_int_equal(descriptor_in(small, 12, 3, false, &d), CKPT_ZIP_CUT_OFF);
	assert_int_equal(d.len, 0); /* its checksum is not all there */
	assert_int_equal(descriptor_in(small, 4, 3, false, &d), CKPT_ZIP_CUT_OFF);
	assert_int_equal(descriptor_in(small, 29, UINT64_MAX - 1, false, &d), CKPT_ZIP_CUT_OFF);
}

static int stop_at(void *ctx, uint32_t mark, uint64_t at)
{
	uint64_t *seen = ctx;

	if (mark)
		seen[1] += at, seen[0]++;
	return mark == CKPT_ZIP_MARK_END;
}

static void marks_are_found_across_windows(void **state)
{
	size_t size = (3 << 20) + 100, border = (1 << 20) - 3;
	uint8_t *bytes = calloc(size, 1);
	struct ckpt_source *source = source_of(bytes, size);
	uint64_t seen[2] = { 0 }, at, sum = 0, count = 0;

	(void)state;
	for (size_t place = border - 8; place < border + 8; place += 4, count++) {
		memcpy(bytes + place, "PK\3\4", 4);
		sum += place;
	}
	memcpy(bytes + size - 4, "PK\5\6", 4);
	assert_int_equal(ckpt_zip_scan(source, 5, stop_at, seen, &at), 1);
	assert_int_equal(at, size - 4);
	assert_int_equal(seen[0], count + 1);
	assert_int_equal(seen[1], sum + size - 4);
	bytes[size - 1] = 0;
	assert_int_equal(ckpt_zip_scan(source, 5, stop_at, seen, &at), 0);
	ckpt_source_unref(source);
	free(bytes);
}

UNIT_SUITE(test_salvage)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_stretch_of_the_whole_can_be_read),
		cmocka_unit_test(a_whole_may_be_larger_than_memory_but_not_than_any_file),
		cmocka_unit_test(no_memory_is_said_at_the_end),
		cmocka_unit_test(a_filling_is_read_and_sought),
		cmocka_unit_test(nan_is_turned_around_for_big_endian_files),
		cmocka_unit_test(integers_are_never_nan),
		cmocka_unit_test(an_archive_of_parts_is_one),
		cmocka_unit_test(a_descriptor_is_there_wrong_blank_or_cut),
		cmocka_unit_test(marks_are_found_across_windows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
