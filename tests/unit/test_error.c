/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <string.h>

static void a_message_has_file_record_offset_and_text(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	(void)state;
	assert_int_equal(ckpt_fail(&err, CKPT_E_FORMAT, "needs %d strings", 2), CKPT_E_FORMAT);
	assert_string_equal(unit_message(&err), "needs 2 strings");
	ckpt_error_at(&err, CKPT_E_FORMAT, NULL, NULL, 0x1a3);
	assert_string_equal(unit_message(&err), "+0x1a3: needs 2 strings");
	ckpt_error_at(&err, CKPT_E_FORMAT, NULL, "archive/data.pkl", CKPT_NO_OFFSET);
	assert_string_equal(unit_message(&err), "archive/data.pkl+0x1a3: needs 2 strings");
	ckpt_error_at(&err, CKPT_E_FORMAT, "model.pt", NULL, CKPT_NO_OFFSET);
	assert_string_equal(unit_message(&err), "model.pt: archive/data.pkl+0x1a3: needs 2 strings");
}

static void what_a_deeper_level_said_is_not_overwritten(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	(void)state;
	ckpt_fail(&err, CKPT_E_FORMAT, "broken");
	ckpt_error_at(&err, CKPT_E_FORMAT, "inner", "record", 0);
	ckpt_error_at(&err, CKPT_E_FORMAT, "outer", "other", 7);
	assert_string_equal(unit_message(&err), "inner: record+0x0: broken");
}

static void success_adds_no_place(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	(void)state;
	assert_int_equal(ckpt_error_at(&err, 0, "path", "record", 1), 0);
	assert_string_equal(unit_message(&err), "");
}

static void a_failed_system_call_says_why(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	(void)state;
	errno = ENOSPC;
	assert_int_equal(ckpt_fail_errno(&err, "cannot write"), CKPT_E_IO);
	assert_int_equal(err.sys_errno, ENOSPC);
	assert_string_equal(unit_message(&err), "cannot write: No space left on device");
}

static void nobody_has_to_listen(void **state)
{
	(void)state;
	assert_int_equal(ckpt_fail(NULL, CKPT_E_ARG, "x"), CKPT_E_ARG);
	assert_int_equal(ckpt_fail_errno(NULL, "x"), CKPT_E_IO);
	assert_int_equal(ckpt_fail_nomem(NULL), CKPT_E_NOMEM);
	assert_int_equal(ckpt_error_at(NULL, CKPT_E_IO, "x", "y", 1), CKPT_E_IO);
}

static void long_text_is_cut_not_overrun(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	char text[2000], small[20];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	ckpt_fail(&err, CKPT_E_FORMAT, "%s", text);
	ckpt_error_at(&err, CKPT_E_FORMAT, text, text, UINT64_MAX - 1);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_int_equal(strlen(err.path), sizeof(err.path) - 1);
	assert_int_equal(strlen(err.record), sizeof(err.record) - 1);
	assert_int_equal(strlen(ckpt_error_format(&err, small, sizeof(small))), sizeof(small) - 1);
}

static void a_new_failure_starts_anew(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	(void)state;
	ckpt_fail(&err, CKPT_E_FORMAT, "first");
	ckpt_error_at(&err, CKPT_E_FORMAT, "path", "record", 1);
	ckpt_fail(&err, CKPT_E_ARG, "second");
	assert_string_equal(unit_message(&err), "second");
	assert_int_equal(err.status, CKPT_E_ARG);
}

UNIT_SUITE(test_error)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_has_file_record_offset_and_text),
		cmocka_unit_test(what_a_deeper_level_said_is_not_overwritten),
		cmocka_unit_test(success_adds_no_place),
		cmocka_unit_test(a_failed_system_call_says_why),
		cmocka_unit_test(nobody_has_to_listen),
		cmocka_unit_test(long_text_is_cut_not_overrun),
		cmocka_unit_test(a_new_failure_starts_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
