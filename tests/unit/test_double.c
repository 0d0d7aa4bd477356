/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/double.h"

#include <ckpt/ckpt.h>

#include <locale.h>
#include <math.h>
#include <string.h>

/* Numbers as text; once more in another locale, see tests/locale/run.py. */

static void numbers_are_written_with_a_dot(void **state)
{
	char text[40];

	(void)state;
	ckpt_double_format(text, sizeof(text), 17, 1.5);
	assert_string_equal(text, "1.5");
	ckpt_double_format(text, sizeof(text), 3, 1e-30);
	assert_string_equal(text, "1e-30");
	ckpt_double_format(text, 3, 6, 1234.5);
	assert_string_equal(text, "12");
}

static void numbers_are_read_with_a_dot(void **state)
{
	char *end;

	(void)state;
	assert_true(ckpt_double_parse("2.25x", &end) == 2.25);
	assert_string_equal(end, "x");
	assert_true(ckpt_double_parse("1,5", &end) == 1);
	assert_string_equal(end, ",5");
	assert_true(isinf(ckpt_double_parse("-inf", NULL)));
}

static void the_locale_of_the_program_stays(void **state)
{
	locale_t mine = uselocale((locale_t)0);

	(void)state;
	ckpt_double_parse("1.5", NULL);
	assert_ptr_equal(uselocale((locale_t)0), mine);
}

struct texts {
	char all[200];
};

static int take(void *ctx, const struct ckpt_item *item)
{
	struct texts *t = ctx;

	if (item->text)
		strncat(strncat(t->all, item->text, 60), " ", 2);
	return 1;
}

/* Protocol 0 has floats as text, protocol 2 as bits. */
static void floats_of_a_file_are_shown_with_a_dot(void **state)
{
	static const char text[] = "}(X\x01\0\0\0"
				   "aF1.5\nX\x01\0\0\0"
				   "bF-2.25e-05\nu";
	struct ckpt_buf pickle = { 0 }, file;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct texts t = { "" };
	struct ckpt_model *model;

	(void)state;
	ckpt_buf_add(&pickle, text, sizeof(text) - 1);
	file = unit_torch_file(&pickle, 0);
	assert_int_equal(ckpt_open_memory(file.data, file.len, &model, &err), 0);
	assert_int_equal(ckpt_walk(model, take, &t, &err), 0);
	ckpt_close(model);
	ckpt_buf_clear(&file);
	ckpt_buf_clear(&pickle);
	assert_non_null(strstr(t.all, "1.5 "));
	assert_non_null(strstr(t.all, "-2.25e-05 "));
}

UNIT_SUITE(test_double)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_written_with_a_dot),
		cmocka_unit_test(numbers_are_read_with_a_dot),
		cmocka_unit_test(the_locale_of_the_program_stays),
		cmocka_unit_test(floats_of_a_file_are_shown_with_a_dot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
