/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "numpy/names.h"

#include <string.h>

/* How arrays are called in files of numpy. */

static struct ckpt_error err;

static void what_a_file_name_cannot_have_is_escaped(void **state)
{
	static const struct {
		const char *name, *file;
	} cases[] = {
		{ "model.fc.weight", "model.fc.weight.npy" },
		{ "a/b", "a%2Fb.npy" },
		{ "50%", "50%25.npy" },
		{ "a%2Fb", "a%252Fb.npy" },
		{ "", ".npy" },
		{ ".", "%2E.npy" },
		{ "..", "%2E..npy" },
		{ "-rf", "%2Drf.npy" },
		{ "a-b.c", "a-b.c.npy" },
		{ "\t\x7f", "%09%7F.npy" },
		{ "\xc3\xa9", "\xc3\xa9.npy" },
		{ "\xed\xa0\x80x", "%ED%A0%80x.npy" },
		{ "\xc3", "%C3.npy" },
	};
	char file[CKPT_NPY_MOST_FILE_NAME + 1];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(ckpt_npy_file_name(cases[i].name, file, &err), 0);
		assert_string_equal(file, cases[i].file);
	}
}

static void a_file_name_has_255_bytes_at_most(void **state)
{
	char name[300], file[CKPT_NPY_MOST_FILE_NAME + 1];

	(void)state;
	memset(name, 'n', sizeof(name));
	name[251] = name[299] = '\0';
	assert_int_equal(ckpt_npy_file_name(name, file, &err), 0);
	assert_int_equal(strlen(file), 255);
	name[0] = '/';
	assert_int_equal(ckpt_npy_file_name(name, file, &err), CKPT_E_UNSUPPORTED);
	name[249] = '\0';
	assert_int_equal(ckpt_npy_file_name(name, file, &err), 0);
	assert_int_equal(strlen(file), 255);
	name[249] = name[251] = 'n';
	assert_int_equal(ckpt_npy_file_name(name, file, &err), CKPT_E_UNSUPPORTED);
}

static void paths_that_lead_out_are_no_names_of_members(void **state)
{
	static const char *const good[] = { "a",     "a/b", "..",   "a/..",  "...",
					    "a../b", "./a", "a//b", "..a/b", "\xc3\xa9" };
	static const char *const bad[] = { "/a",    "../a",    "a/../b", "a/../../b", "\\a",
					   "..\\a", "a\\../b", "/",	 "\xff",      "a\xc3" };

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++)
		assert_int_equal(ckpt_npz_check_name(good[i], &err), 0);
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_int_equal(ckpt_npz_check_name(bad[i], &err), CKPT_E_UNSUPPORTED);
}

UNIT_SUITE(test_numpy_names)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_file_name_cannot_have_is_escaped),
		cmocka_unit_test(a_file_name_has_255_bytes_at_most),
		cmocka_unit_test(paths_that_lead_out_are_no_names_of_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
