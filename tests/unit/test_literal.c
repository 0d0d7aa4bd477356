/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "pickle/literal.h"

#include <math.h>
#include <string.h>

static struct ckpt_arena *arena;
static struct ckpt_error err;

static int setup(void **state)
{
	(void)state;
	arena = ckpt_arena_new(16 << 20);
	return arena ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	ckpt_arena_free(arena);
	return 0;
}

static void assert_bytes(const struct ckpt_value *v, uint8_t kind, const char *bytes, size_t len)
{
	assert_int_equal(v->kind, kind);
	assert_int_equal(v->u.bytes.len, len);
	assert_memory_equal(v->u.bytes.ptr, bytes, len);
}

static void small_integers_are_read_in_decimal(void **state)
{
	static const struct {
		const char *text;
		int64_t v;
	} table[] = { { "0", 0 }, { "-0", 0 }, { "+5", 5 }, { "007", 7 }, { "-1", -1 },
		      { "9223372036854775807", INT64_MAX }, { "-9223372036854775808", INT64_MIN },
		      { "128", 128 }, { "-128", -128 }, { "-129", -129 }, { "255", 255 } };
	struct ckpt_value v = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		assert_int_equal(ckpt_literal_int(arena, table[i].text, strlen(table[i].text), false, &v, &err), 0);
		assert_int_equal(v.kind, CKPT_INT);
		assert_int_equal(v.u.integer, table[i].v);
	}
}

static void large_integers_become_the_shortest_twos_complement(void **state)
{
	static const struct {
		const char *text, *bytes;
		size_t len;
	} table[] = {
		{ "9223372036854775808", "\0\0\0\0\0\0\0\x80\0", 9 },
		{ "-9223372036854775809", "\xff\xff\xff\xff\xff\xff\xff\x7f\xff", 9 },
		{ "18446744073709551616", "\0\0\0\0\0\0\0\0\x01", 9 },
		{ "1000000000000000000000000000000", "\0\0\0\x40\xea\xed\x74\x46\xd0\x9c\x2c\x9f\x0c", 13 },
		{ "-1000000000000000000000000000000", "\0\0\0\xc0\x15\x12\x8b\xb9\x2f\x63\xd3\x60\xf3", 13 },
	};
	struct ckpt_value v = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		assert_int_equal(ckpt_literal_int(arena, table[i].text, strlen(table[i].text), true, &v, &err), 0);
		assert_bytes(&v, CKPT_BIGINT, table[i].bytes, table[i].len);
	}
}

static void only_the_long_form_may_end_in_l(void **state)
{
	struct ckpt_value v = { 0 };

	(void)state;
	assert_int_equal(ckpt_literal_int(arena, "5L", 2, true, &v, &err), 0);
	assert_int_equal(v.u.integer, 5);
	assert_int_equal(ckpt_literal_int(arena, "5", 1, true, &v, &err), 0);
	assert_int_equal(ckpt_literal_int(arena, "5L", 2, false, &v, &err), CKPT_E_FORMAT);
	assert_string_equal(unit_message(&err), "'5L' is not an integer");
}

static void two_digits_are_a_boolean_in_the_short_form_only(void **state)
{
	struct ckpt_value v = { 0 };

	(void)state;
	ckpt_literal_int(arena, "01", 2, false, &v, &err);
	assert_int_equal(v.kind, CKPT_BOOL);
	assert_int_equal(v.u.integer, 1);
	ckpt_literal_int(arena, "00", 2, false, &v, &err);
	assert_int_equal(v.kind, CKPT_BOOL);
	assert_int_equal(v.u.integer, 0);
	ckpt_literal_int(arena, "01", 2, true, &v, &err);
	assert_int_equal(v.kind, CKPT_INT);
}

static void what_is_no_integer_is_refused(void **state)
{
	static const char *const texts[] = { "", "-", "+", "L", "-L", "1 ", " 1", "1.0", "0x10", "--1", "1_0" };
	struct ckpt_value v = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++)
		assert_int_equal(ckpt_literal_int(arena, texts[i], strlen(texts[i]), true, &v, &err),
				 CKPT_E_FORMAT);
}

static void the_number_of_digits_is_limited_as_in_cpython(void **state)
{
	struct ckpt_value v = { 0 };
	char digits[4302];

	(void)state;
	memset(digits, '9', sizeof(digits));
	assert_int_equal(ckpt_literal_int(arena, digits, 4300, true, &v, &err), 0);
	assert_int_equal(v.u.bytes.len, 1786); /* (10**4300 - 1).bit_length() // 8 + 1 */
	assert_int_equal(ckpt_literal_int(arena, digits, 4301, true, &v, &err), CKPT_E_FORMAT);
	digits[0] = '-';
	assert_int_equal(ckpt_literal_int(arena, digits, 4301, true, &v, &err), 0);
}

static void bytes_that_only_repeat_the_sign_are_dropped(void **state)
{
	struct ckpt_value v = { 0 };

	(void)state;
	ckpt_literal_long(arena, (const uint8_t *)"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 10, &v, &err);
	assert_int_equal(v.kind, CKPT_INT);
	assert_int_equal(v.u.integer, -1);
	ckpt_literal_long(arena, (const uint8_t *)"\x05\0\0\0\0\0\0\0\0\0\0\0", 12, &v, &err);
	assert_int_equal(v.u.integer, 5);
	ckpt_literal_long(arena, (const uint8_t *)"\0\0\0\0\0\0\0\x80\0\0", 10, &v, &err);
	assert_bytes(&v, CKPT_BIGINT, "\0\0\0\0\0\0\0\x80\0", 9);
	ckpt_literal_long(arena, NULL, 0, &v, &err);
	assert_int_equal(v.u.integer, 0);
}

static void floats_are_read_as_python_writes_them(void **state)
{
	struct ckpt_value v = { 0 };

	(void)state;
	assert_int_equal(ckpt_literal_float("0.1", 3, &v, &err), 0);
	assert_true(v.u.real == 0.1);
	assert_int_equal(ckpt_literal_float("-1.5e-07", 8, &v, &err), 0);
	assert_true(v.u.real == -1.5e-07);
	assert_int_equal(ckpt_literal_float("inf", 3, &v, &err), 0);
	assert_true(isinf(v.u.real));
	assert_int_equal(ckpt_literal_float("nan", 3, &v, &err), 0);
	assert_true(isnan(v.u.real));
}

static void what_is_no_float_is_refused(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} table[] = { { "", 0 }, { "x", 1 }, { "1,5", 3 }, { "1.5x", 4 }, { "1\0x", 3 } };
	struct ckpt_value v = { 0 };
	char text[100];

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++)
		assert_int_equal(ckpt_literal_float(table[i].text, table[i].len, &v, &err), CKPT_E_FORMAT);
	memset(text, '1', sizeof(text));
	assert_int_equal(ckpt_literal_float(text, sizeof(text), &v, &err), CKPT_E_FORMAT);
}

static void python_2_strings_have_their_escapes_undone(void **state)
{
	static const struct {
		const char *text, *bytes;
		size_t len;
	} table[] = {
		{ "''", "", 0 },
		{ "'abc'", "abc", 3 },
		{ "\"it's\"", "it's", 4 },
		{ "'\\\\ \\' \\\" \\n \\t \\r \\a \\b \\f \\v'", "\\ ' \" \n \t \r \a \b \f \v", 19 },
		{ "'\\x00\\xff'", "\0\xff", 2 },
		{ "'\\0\\101\\1234'", "\0AS4", 4 },
		{ "'\\q'", "\\q", 2 },
		{ "'\\xg'", "\\xg", 3 },
		{ "'\\'", "\\", 1 },
	};
	struct ckpt_value v = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		assert_int_equal(ckpt_literal_py2_str(arena, table[i].text, strlen(table[i].text), &v, &err), 0);
		assert_bytes(&v, CKPT_PY2_STR, table[i].bytes, table[i].len);
	}
}

static void strings_without_their_quotes_are_refused(void **state)
{
	static const char *const texts[] = { "", "'", "a", "'a", "a'", "'a\"" };
	struct ckpt_value v = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++)
		assert_int_equal(ckpt_literal_py2_str(arena, texts[i], strlen(texts[i]), &v, &err),
				 CKPT_E_FORMAT);
}

/* As bytes.decode('raw-unicode-escape') has it. */
static void unicode_lines_are_decoded(void **state)
{
	static const struct {
		const char *text, *utf8;
	} table[] = {
		{ "", "" },
		{ "abc", "abc" },
		{ "\\u00e9", "\xc3\xa9" },
		{ "\\u6f22", "\xe6\xbc\xa2" },
		{ "\\U0001f600x", "\xf0\x9f\x98\x80x" },
		{ "\\ud800", "\xed\xa0\x80" },
		{ "\xe9", "\xc3\xa9" },
		{ "\\n", "\\n" },
		{ "\\u005cn", "\\n" },
		{ "a\\", "a\\" },
	};
	struct ckpt_value v = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		assert_int_equal(ckpt_literal_unicode(arena, table[i].text, strlen(table[i].text), &v, &err), 0);
		assert_bytes(&v, CKPT_STR, table[i].utf8, strlen(table[i].utf8));
	}
}

static void a_doubled_backslash_starts_no_unicode_escape(void **state)
{
	struct ckpt_value v = { 0 };

	(void)state;
	assert_int_equal(ckpt_literal_unicode(arena, "\\\\u0041", 7, &v, &err), 0);
	assert_bytes(&v, CKPT_STR, "\\\\u0041", 7);
}

static void broken_unicode_escapes_are_refused(void **state)
{
	static const char *const texts[] = { "\\u", "\\u12", "\\u12g4", "\\U0001f60", "\\U00110000" };
	struct ckpt_value v = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++)
		assert_int_equal(ckpt_literal_unicode(arena, texts[i], strlen(texts[i]), &v, &err),
				 CKPT_E_FORMAT);
}

UNIT_SUITE(test_literal)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_integers_are_read_in_decimal),
		cmocka_unit_test(large_integers_become_the_shortest_twos_complement),
		cmocka_unit_test(only_the_long_form_may_end_in_l),
		cmocka_unit_test(two_digits_are_a_boolean_in_the_short_form_only),
		cmocka_unit_test(what_is_no_integer_is_refused),
		cmocka_unit_test(the_number_of_digits_is_limited_as_in_cpython),
		cmocka_unit_test(bytes_that_only_repeat_the_sign_are_dropped),
		cmocka_unit_test(floats_are_read_as_python_writes_them),
		cmocka_unit_test(what_is_no_float_is_refused),
		cmocka_unit_test(python_2_strings_have_their_escapes_undone),
		cmocka_unit_test(strings_without_their_quotes_are_refused),
		cmocka_unit_test(unicode_lines_are_decoded),
		cmocka_unit_test(a_doubled_backslash_starts_no_unicode_escape),
		cmocka_unit_test(broken_unicode_escapes_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
