/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"

#include <ckpt/ckpt.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Whether torch reads what a crash leaves is shown in tests/crash. */

static char *folder, *path;
static struct ckpt_buf old;
static struct ckpt_save_report report;
static struct ckpt_error err;

static int setup(void **state)
{
	char *fixture = unit_fixture("ddp/ddp_trainer.pt");

	(void)state;
	folder = unit_folder_new();
	path = unit_path(folder, "trainer.pt");
	old = unit_read_file(fixture);
	unit_write_file(path, old.data, old.len);
	free(fixture);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ckpt_io_set_hook(NULL, NULL);
	unit_folder_remove(folder);
	free(path);
	ckpt_buf_clear(&old);
	return 0;
}

static int strip(const char *where, unsigned flags)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_model *model = NULL, *plain = NULL;
	int rc;

	err = (struct ckpt_error)CKPT_ERROR_INIT;
	report = (struct ckpt_save_report)CKPT_SAVE_REPORT_INIT;
	options.flags = flags;
	rc = ckpt_open(where, &model, &err);
	if (rc == 0)
		rc = ckpt_strip_prefix(model, "module.", NULL, &plain, NULL, &err);
	if (rc == 0)
		rc = ckpt_save_in_place(plain, &options, &report, &err);
	ckpt_close(plain);
	ckpt_close(model);
	return rc;
}

static bool is_as_before(void)
{
	struct ckpt_buf now = unit_read_file(path);
	bool same = now.len == old.len && !memcmp(now.data, old.data, now.len);

	ckpt_buf_clear(&now);
	return same;
}

/* How many of the 14 keys have the prefix; -1: it cannot be opened. */
static int prefixed(void)
{
	struct ckpt_prefix_count count = CKPT_PREFIX_COUNT_INIT;
	struct ckpt_model *model;
	int rc = ckpt_open(path, &model, NULL);

	if (rc == 0)
		rc = ckpt_count_prefix(model, "module.", &count, NULL);
	ckpt_close(model);
	return rc < 0 ? -1 : (int)count.with_prefix;
}

static void nothing_of_the_old_names_is_left(void **state)
{
	struct ckpt_buf now;

	(void)state;
	assert_int_equal(strip(path, 0), 0);
	assert_null(report.rewritten);
	assert_int_equal(report.nbytes, old.len + report.written);
	assert_int_equal(prefixed(), 0);
	now = unit_read_file(path);
	assert_int_equal(now.len, report.nbytes);
	assert_null(memmem(now.data, now.len, "module.", 7));
	assert_memory_equal(now.data, "PK\3\4", 4); /* torch looks here */
	assert_non_null(memmem(now.data, 200, "/dead.pkl", 9));
	ckpt_buf_clear(&now);
}

static int calls_left;
static unsigned calls_seen;

static int fail_one(void *ctx, enum ckpt_io_op op)
{
	(void)ctx;
	if (op != CKPT_IO_WRITE && op != CKPT_IO_SYNC)
		return 0;
	calls_seen++;
	return calls_left-- == 0 ? EIO : 0;
}

static void whichever_call_fails_it_is_the_old_or_the_new_one(void **state)
{
	int failures = 0, as_before = 0;

	(void)state;
	for (int n = 0;; n++) {
		int rc;

		unit_write_file(path, old.data, old.len);
		calls_left = n;
		ckpt_io_set_hook(fail_one, NULL);
		rc = strip(path, 0);
		ckpt_io_set_hook(NULL, NULL);
		if (rc == 0)
			break;
		failures++;
		assert_int_equal(rc, CKPT_E_IO);
		assert_true(prefixed() == 14 || prefixed() == 0);
		as_before += is_as_before();
		assert_true(is_as_before() == (n <= 5)); /* call 5 syncs the switch */
		if (n > 5)
			assert_non_null(strstr(unit_text(&err), "the edit is done"));
	}
	assert_true(failures > 8);
	assert_true(as_before >= 4);
}

static void again_and_again(void **state)
{
	struct ckpt_model *model, *edited;

	(void)state;
	for (int i = 0; i < 6; i++) {
		assert_int_equal(ckpt_open(path, &model, NULL), 0);
		assert_int_equal((i % 2 ? ckpt_add_prefix : ckpt_strip_prefix)(
					 model, "module.", NULL, &edited, NULL, NULL),
				 0);
		assert_int_equal(ckpt_save_in_place(edited, NULL, NULL, NULL), 0);
		ckpt_close(edited);
		ckpt_close(model);
		assert_int_equal(prefixed(), i % 2 ? 14 : 0);
	}
}

static void a_dry_run_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(strip(path, CKPT_SAVE_DRY_RUN), 0);
	assert_true(report.written > 98);
	assert_true(is_as_before());
}

static void links_are_refused_unless_meant(void **state)
{
	char *other = unit_path(folder, "link.pt");

	(void)state;
	assert_int_equal(symlink("trainer.pt", other), 0);
	assert_int_equal(strip(other, 0), CKPT_E_OUTPUT);
	assert_true(is_as_before());
	unlink(other);
	assert_int_equal(link(path, other), 0);
	assert_int_equal(strip(path, 0), CKPT_E_OUTPUT);
	assert_true(is_as_before());
	assert_int_equal(strip(other, CKPT_SAVE_REPLACE), 0);
	assert_int_equal(prefixed(), 0);
	free(other);
}

static void one_at_a_time(void **state)
{
	int fd = open(path, O_RDWR);

	(void)state;
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(strip(path, 0), CKPT_E_CHANGED);
	close(fd);
	assert_int_equal(strip(path, 0), 0);
}

static void what_does_not_end_like_torch_is_written_anew(void **state)
{
	(void)state;
	ckpt_buf_add_u8(&old, 0);
	unit_write_file(path, old.data, old.len);
	assert_int_equal(strip(path, 0), 0);
	assert_string_equal(report.rewritten, "it does not end as torch ends its files");
	assert_int_equal(prefixed(), 0);
	assert_int_equal(unit_folder_count(folder), 1);
}

static void a_raised_flag_cancels(void **state)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_model *model, *plain;
	int flag = 1;

	(void)state;
	options.cancel = &flag;
	assert_int_equal(ckpt_open(path, &model, NULL), 0);
	assert_int_equal(ckpt_strip_prefix(model, "module.", NULL, &plain, NULL, NULL), 0);
	assert_int_equal(ckpt_save_in_place(plain, &options, NULL, &err), CKPT_E_CANCELLED);
	ckpt_close(plain);
	ckpt_close(model);
	assert_true(is_as_before());
}

static int put_another_there(void *ctx, enum ckpt_io_op op)
{
	static bool done;

	(void)ctx;
	if (op == CKPT_IO_SYNC && !done) {
		char *other = unit_path(folder, "other.pt");

		done = true;
		unit_write_file(other, "new", 3);
		rename(other, path);
		free(other);
	}
	return 0;
}

static void what_was_saved_there_meanwhile_stays(void **state)
{
	struct ckpt_model *model, *cast;
	struct ckpt_buf now;

	(void)state;
	assert_int_equal(ckpt_open(path, &model, NULL), 0);
	assert_int_equal(ckpt_cast(model, "bfloat16", NULL, &cast, NULL, NULL), 0);
	ckpt_io_set_hook(put_another_there, NULL);
	assert_int_equal(ckpt_save_in_place(cast, NULL, NULL, &err), CKPT_E_CHANGED);
	ckpt_io_set_hook(NULL, NULL);
	ckpt_close(cast);
	ckpt_close(model);
	now = unit_read_file(path);
	assert_int_equal(now.len, 3);
	ckpt_buf_clear(&now);
}

static void memory_has_no_file(void **state)
{
	struct ckpt_model *model;

	(void)state;
	assert_int_equal(ckpt_open_memory(old.data, old.len, &model, NULL), 0);
	assert_int_equal(ckpt_save_in_place(model, NULL, NULL, &err), CKPT_E_ARG);
	ckpt_close(model);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

UNIT_SUITE(test_in_place)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_of_the_old_names_is_left),
		TEST(whichever_call_fails_it_is_the_old_or_the_new_one),
		TEST(again_and_again),
		TEST(a_dry_run_changes_nothing),
		TEST(links_are_refused_unless_meant),
		TEST(one_at_a_time),
		TEST(what_does_not_end_like_torch_is_written_anew),
		TEST(a_raised_flag_cancels),
		TEST(what_was_saved_there_meanwhile_stays),
		TEST(memory_has_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
