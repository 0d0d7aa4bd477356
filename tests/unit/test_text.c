/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *text;
	size_t len;
	const char *shown;
} escapes[] = {
	{ "plain text", 10, "plain text" },
	{ "", 0, "" },
	{ "a\nb\tc\rd", 7, "a\\nb\\tc\\rd" },
	{ "back\\slash", 10, "back\\\\slash" },
	{ "\x1b[31mred", 8, "\\x1b[31mred" },
	{ "nul\0in", 6, "nul\\x00in" },
	{ "del\x7f", 4, "del\\x7f" },
	{ "quote'\"", 7, "quote'\"" },
	{ "\xc3\xa9", 2, "\xc3\xa9" },
	{ "\xe6\xbc\xa2", 3, "\xe6\xbc\xa2" },
	{ "\xf0\x9f\x98\x80", 4, "\xf0\x9f\x98\x80" },
	/* what is no UTF-8, byte by byte */
	{ "\xff", 1, "\\xff" },
	{ "\xc3", 1, "\\xc3" },
	{ "\xc3(", 2, "\\xc3(" },
	{ "\xe6\xbc", 2, "\\xe6\\xbc" },
	{ "\xc0\xaf", 2, "\\xc0\\xaf" },
	{ "\xe0\x80\xaf", 3, "\\xe0\\x80\\xaf" },
	{ "\xf0\x80\x80\xaf", 4, "\\xf0\\x80\\x80\\xaf" },
	{ "\xf4\x90\x80\x80", 4, "\\xf4\\x90\\x80\\x80" },
	{ "\xed\xa0\x80", 3, "\\xed\\xa0\\x80" },
	/* controls above ASCII, and what turns or hides text */
	{ "\xc2\x85", 2, "\\xc2\\x85" },
	{ "\xc2\x9b" "31m", 5, "\\xc2\\x9b31m" },
	{ "\xc2\xa0", 2, "\xc2\xa0" },
	{ "a\xe2\x80\xae" "b", 5, "a\\xe2\\x80\\xaeb" },
	{ "\xe2\x80\x8b", 3, "\\xe2\\x80\\x8b" },
	{ "\xef\xbb\xbf", 3, "\\xef\\xbb\\xbf" },
	{ "\xe2\x81\xa6", 3, "\\xe2\\x81\\xa6" },
	{ "\xd8\x9c", 2, "\\xd8\\x9c" },
};

static void text_from_a_file_is_printed_on_one_safe_line(void **state)
{
	char buf[100];

	(void)state;
	for (size_t i = 0; i < COUNT(escapes); i++)
		assert_string_equal(ckpt_escape(buf, sizeof(buf), escapes[i].text, escapes[i].len),
				    escapes[i].shown);
}

static void what_does_not_fit_ends_in_dots(void **state)
{
	char buf[16];

	(void)state;
	assert_string_equal(ckpt_escape(buf, 11, "0123456789", 10), "0123456789");
	assert_string_equal(ckpt_escape(buf, 10, "0123456789", 10), "012345...");
	assert_string_equal(ckpt_escape(buf, 8, "abc\n\n\n\n", 7), "abc...");
	/* no half of a character */
	assert_string_equal(ckpt_escape(buf, 8, "abc\xc3\xa9\xc3\xa9\xc3\xa9", 9), "abc...");
}

static void a_small_buffer_never_overflows(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(escapes); i++)
		for (size_t size = 0; size < 40; size++) {
			char *buf = malloc(size ? size : 1); /* the sanitizer watches its end */

			assert_ptr_equal(ckpt_escape(buf, size, escapes[i].text, escapes[i].len), buf);
			if (size)
				assert_true(strlen(buf) < size);
			free(buf);
		}
}

static void utf8_is_judged_strictly(void **state)
{
	(void)state;
	assert_true(ckpt_utf8_ok("", 0));
	assert_true(ckpt_utf8_ok("a\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80", 10));
	assert_false(ckpt_utf8_ok("a\xc3", 2));
	assert_false(ckpt_utf8_ok("\xed\xb0\x80", 3));
	assert_false(ckpt_utf8_ok("\xf5\x80\x80\x80", 4));
	assert_int_equal(ckpt_utf8_len("", 0), 0);
	assert_int_equal(ckpt_utf8_len("\0", 1), 1);
	assert_int_equal(ckpt_utf8_len("\xf4\x8f\xbf\xbf", 4), 4);
	assert_int_equal(ckpt_utf8_len("\xf4\x8f\xbf\xbf", 3), 0);
}

static void code_points_become_utf8(void **state)
{
	static const struct {
		uint32_t cp;
		const char *utf8;
	} cases[] = {
		{ 0x7F, "\x7f" },	   { 0x80, "\xc2\x80" },
		{ 0x7FF, "\xdf\xbf" },	   { 0x800, "\xe0\xa0\x80" },
		{ 0xD800, "\xed\xa0\x80" }, { 0x10000, "\xf0\x90\x80\x80" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char out[4];

		assert_int_equal(ckpt_utf8_put(cases[i].cp, out), strlen(cases[i].utf8));
		assert_memory_equal(out, cases[i].utf8, strlen(cases[i].utf8));
	}
}

static void names_have_first_parts(void **state)
{
	static const struct {
		const char *name;
		uint64_t parts;
		const char *front;
	} cases[] = {
		{ "a.bc.d", 0, "" },	   { "a.bc.d", 1, "a" },
		{ "a.bc.d", 2, "a.bc" },   { "a.bc.d", 3, "a.bc.d" },
		{ "a.bc.d", 4, "a.bc.d" }, { "a.bc.d", UINT64_MAX - 1, "a.bc.d" },
		{ "weight", 1, "weight" }, { "", 2, "" },
		{ "a..b", 2, "a." },	   { ".a", 1, "" },
		{ "a.", 1, "a" },	   { "a.", 2, "a." },
		{ "a.bc.d", CKPT_DEPTH_MODULE, "a.bc" },
		{ "a.bc", CKPT_DEPTH_MODULE, "a" },
		{ "a", CKPT_DEPTH_MODULE, "a" },
		{ "", CKPT_DEPTH_MODULE, "" },
		{ ".a", CKPT_DEPTH_MODULE, "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(ckpt_name_front(cases[i].name, cases[i].parts),
				 strlen(cases[i].front));
}

static void halves_of_pairs_are_bytes_in_names_of_files(void **state)
{
	static const struct {
		const char *text, *name;
	} rows[] = { { "", "" },
		     { "a/b", "a/b" },
		     { "a\xED\xB2\x80.b", "a\x80.b" },
		     { "\xED\xB2\xBF\xED\xB3\x80\xED\xB3\xBF", "\xBF\xC0\xFF" },
		     { "\xED\xB1\x80", "\xED\xB1\x80" }, /* one that Python cannot open */
		     { "\xED\xB4\x80", "\xED\xB4\x80" },
		     { "\xED\xB2", "\xED\xB2" },
		     { "\xC3\xA9\xE2\x82\xAC", "\xC3\xA9\xE2\x82\xAC" } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[32];

		snprintf(text, sizeof(text), "%s", rows[i].text);
		ckpt_text_to_file_name(text);
		assert_string_equal(text, rows[i].name);
	}
}

UNIT_SUITE(test_text)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(halves_of_pairs_are_bytes_in_names_of_files),
		cmocka_unit_test(text_from_a_file_is_printed_on_one_safe_line),
		cmocka_unit_test(what_does_not_fit_ends_in_dots),
		cmocka_unit_test(a_small_buffer_never_overflows),
		cmocka_unit_test(utf8_is_judged_strictly),
		cmocka_unit_test(code_points_become_utf8),
		cmocka_unit_test(names_have_first_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
