/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "format/profile.h"

static void a_version_finds_its_generation(void **state)
{
	static const struct {
		const char *version, *since;
	} table[] = { { "1.6", "1.6" }, { "1.7.1", "1.6" }, { "1.8", "1.6" }, { "1.9", "1.9" },
		      { "1.12.1", "1.9" }, { "1.13", "1.13" }, { "2.0", "1.13" }, { "2.1", "2.1" },
		      { "2.6.0", "2.1" }, { "2.7", "2.7" }, { "2.14", "2.7" }, { "2.10", "2.7" } };

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		assert_non_null(ckpt_profile_find(table[i].version));
		assert_string_equal(ckpt_profile_find(table[i].version)->since, table[i].since);
	}
}

static void versions_without_a_zip_form_are_not_found(void **state)
{
	static const char *const versions[] = { "1.5", "0.4", "3.0", "", "2", "2.", "x.y", "1.x", "same",
						"-1.6", "2.6rc1" };

	(void)state;
	for (size_t i = 0; i < COUNT(versions); i++)
		assert_null(ckpt_profile_find(versions[i]));
}

/* Name of the file -> name of the archive; NULL: refused. */
static void torch_names_the_archive_after_the_file(void **state)
{
	static const struct {
		const char *path, *name;
	} table[] = {
		{ "dir.x/y.pt", "y" },	   { "a.b.c.pt", "a.b.c" },	  { "noext", "noext" },
		{ "sp ace.pt", "sp ace" }, { ".pt.", ".pt" },		  { "tr.ailing.", "tr.ailing" },
		{ "back\\slash.pt", "slash" }, { ".hidden", NULL },	  { "dir/", NULL },
		{ "/abs/model.pth.tar", "model.pth" }, { "a/b\\c/d.pt", "d" }, { "a/b\\c.d.pt", "c.d" },
	};
	const struct ckpt_profile *profile = ckpt_profile_find("2.14");
	struct ckpt_error err = CKPT_ERROR_INIT;
	char name[100];

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		int rc = ckpt_profile_archive_name(profile, table[i].path, name, sizeof(name), &err);

		if (table[i].name) {
			assert_int_equal(rc, 0);
			assert_string_equal(name, table[i].name);
		} else {
			assert_int_equal(rc, CKPT_E_OUTPUT);
		}
	}
	ckpt_profile_archive_name(profile, "x/.hidden", name, sizeof(name), &err);
	assert_string_equal(unit_message(&err),
			    "torch names the archive after the file, and 'x/.hidden' leaves no name");
}

static void older_generations_always_say_archive(void **state)
{
	char name[100];

	(void)state;
	assert_int_equal(ckpt_profile_archive_name(ckpt_profile_find("1.7"), "m.pt", name, 100, NULL), 0);
	assert_string_equal(name, "archive");
	assert_int_equal(ckpt_profile_archive_name(ckpt_profile_find("1.12"), ".pt", name, 100, NULL), 0);
	assert_string_equal(name, "archive");
}

static void a_path_that_is_not_ascii_names_the_archive_in_old_torch_only(void **state)
{
	char name[100];

	(void)state;
	ckpt_profile_archive_name(ckpt_profile_find("1.13"), "d/mod\xc3\xa9le.pt", name, 100, NULL);
	assert_string_equal(name, "mod\xc3\xa9le");
	ckpt_profile_archive_name(ckpt_profile_find("2.6"), "d/mod\xc3\xa9le.pt", name, 100, NULL);
	assert_string_equal(name, "archive");
	ckpt_profile_archive_name(ckpt_profile_find("2.14"), "d\xc3\xa9/model.pt", name, 100, NULL);
	assert_string_equal(name, "archive");
}

static void a_name_that_does_not_fit_is_refused(void **state)
{
	char name[8];

	(void)state;
	assert_int_equal(ckpt_profile_archive_name(ckpt_profile_find("2.6"), "1234567.pt", name, 8, NULL), 0);
	assert_int_equal(ckpt_profile_archive_name(ckpt_profile_find("2.6"), "12345678.pt", name, 8, NULL),
			 CKPT_E_OUTPUT);
}

static void the_records_tell_the_generation(void **state)
{
	(void)state;
	assert_string_equal(ckpt_profile_detect(true, true, true, true, true)->since, "2.7");
	assert_string_equal(ckpt_profile_detect(false, true, true, false, true)->since, "2.1");
	assert_string_equal(ckpt_profile_detect(false, false, true, true, true)->since, "2.1");
	assert_string_equal(ckpt_profile_detect(false, false, false, false, true)->since, "1.13");
	assert_string_equal(ckpt_profile_detect(false, false, false, true, true)->since, "1.9");
	assert_string_equal(ckpt_profile_detect(false, false, false, true, false)->since, "1.6");
}

UNIT_SUITE(test_profile)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_version_finds_its_generation),
		cmocka_unit_test(versions_without_a_zip_form_are_not_found),
		cmocka_unit_test(torch_names_the_archive_after_the_file),
		cmocka_unit_test(older_generations_always_say_archive),
		cmocka_unit_test(a_path_that_is_not_ascii_names_the_archive_in_old_torch_only),
		cmocka_unit_test(a_name_that_does_not_fit_is_refused),
		cmocka_unit_test(the_records_tell_the_generation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
