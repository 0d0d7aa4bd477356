/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/reader.h"

#include <string.h>

static void numbers_are_little_endian(void **state)
{
	static const uint8_t want[] = { 0x01, 0x02, 0x01, 0x04, 0x03, 0x02, 0x01,
					0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01 };
	struct ckpt_buf buf = { 0 };

	(void)state;
	ckpt_buf_add_u8(&buf, 0x01);
	ckpt_buf_add_u16(&buf, 0x0102);
	ckpt_buf_add_u32(&buf, 0x01020304);
	ckpt_buf_add_u64(&buf, 0x0102030405060708);
	assert_int_equal(buf.len, sizeof(want));
	assert_memory_equal(buf.data, want, sizeof(want));
	ckpt_buf_clear(&buf);
}

static void bytes_stay_what_they_are_while_the_buffer_grows(void **state)
{
	struct ckpt_buf buf = { 0 };

	(void)state;
	for (uint32_t i = 0; i < 100000; i++)
		ckpt_buf_add_u32(&buf, i);
	assert_false(buf.bad);
	assert_int_equal(buf.len, 400000);
	for (uint32_t i = 0; i < 100000; i++) {
		uint32_t v;

		memcpy(&v, buf.data + 4 * i, 4);
		assert_int_equal(v, i);
	}
	ckpt_buf_clear(&buf);
	assert_int_equal(buf.len, 0);
	assert_null(buf.data);
}

static void text_is_added_without_its_nul(void **state)
{
	struct ckpt_buf buf = { 0 };

	(void)state;
	ckpt_buf_printf(&buf, "%s-%d", "abc", 5);
	ckpt_buf_printf(&buf, "%s", "");
	ckpt_buf_add_fill(&buf, 'Z', 3);
	ckpt_buf_add_fill(&buf, 'Z', 0);
	ckpt_buf_add(&buf, NULL, 0);
	assert_int_equal(buf.len, 8);
	assert_memory_equal(buf.data, "abc-5ZZZ", 8);
	ckpt_buf_clear(&buf);
}

static void long_text_is_added_whole(void **state)
{
	struct ckpt_buf buf = { 0 };
	char text[5000];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	ckpt_buf_printf(&buf, "%s", text);
	assert_int_equal(buf.len, sizeof(text) - 1);
	ckpt_buf_clear(&buf);
}

static void after_a_failed_allocation_nothing_is_added(void **state)
{
	struct ckpt_buf buf = { 0 };

	(void)state;
	ckpt_buf_add(&buf, "abc", 3);
	assert_null(ckpt_buf_grow(&buf, SIZE_MAX));
	assert_true(buf.bad);
	ckpt_buf_add(&buf, "def", 3);
	ckpt_buf_add_u64(&buf, 1);
	ckpt_buf_printf(&buf, "%d", 1);
	assert_int_equal(buf.len, 3);
	ckpt_buf_clear(&buf);
}

static void a_reader_gives_numbers_in_turn(void **state)
{
	static const uint8_t bytes[] = { 1, 2, 1, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1, 0xFF };
	struct ckpt_reader r = { bytes, sizeof(bytes), 0, false };

	(void)state;
	assert_int_equal(ckpt_read_u8(&r), 1);
	assert_int_equal(ckpt_read_u16(&r), 0x0102);
	assert_int_equal(ckpt_read_u32(&r), 0x01020304);
	assert_int_equal(ckpt_read_u64(&r), 0x0102030405060708);
	assert_ptr_equal(ckpt_read_bytes(&r, 1), bytes + 15);
	assert_non_null(ckpt_read_bytes(&r, 0));
	assert_false(r.bad);
}

static void a_reader_sticks_after_the_first_short_read(void **state)
{
	static const uint8_t bytes[] = { 1, 2, 3 };
	struct ckpt_reader r = { bytes, sizeof(bytes), 0, false };

	(void)state;
	assert_int_equal(ckpt_read_u32(&r), 0);
	assert_true(r.bad);
	assert_int_equal(ckpt_read_u8(&r), 0); /* although there would be one */
	assert_null(ckpt_read_bytes(&r, 0));
	r = (struct ckpt_reader){ bytes, sizeof(bytes), 1, false };
	assert_null(ckpt_read_bytes(&r, SIZE_MAX));
	assert_true(r.bad);
	r = (struct ckpt_reader){ NULL, 0, 0, false };
	assert_int_equal(ckpt_read_u8(&r), 0);
	assert_true(r.bad);
}

UNIT_SUITE(test_buf)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_little_endian),
		cmocka_unit_test(bytes_stay_what_they_are_while_the_buffer_grows),
		cmocka_unit_test(text_is_added_without_its_nul),
		cmocka_unit_test(long_text_is_added_whole),
		cmocka_unit_test(after_a_failed_allocation_nothing_is_added),
		cmocka_unit_test(a_reader_gives_numbers_in_turn),
		cmocka_unit_test(a_reader_sticks_after_the_first_short_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
