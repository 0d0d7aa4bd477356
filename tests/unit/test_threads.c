/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"

#include <ckpt/ckpt.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How many threads a call starts, for every call that says so in its options. */

enum { LARGE = 12 << 20 };

static char *folder, *in, *out, *many;
static struct ckpt_model *model;
static struct ckpt_error err;

/* A tensor of 12 MiB, and a folder with several files to scan. */
static int setup(void **state)
{
	struct ckpt_buf pickle = { 0 }, file;
	uint8_t *large = calloc(1, LARGE);
	struct unit_record records[3];

	(void)state;
	folder = unit_folder_new();
	in = unit_path(folder, "in.pt");
	out = unit_path(folder, "out");
	many = unit_path(folder, ".");
	ckpt_buf_add(&pickle, "\x80\x02}", 3);
	unit_put_str(&pickle, "w");
	ckpt_buf_printf(&pickle, "ctorch._utils\n_rebuild_tensor_v2\n((");
	unit_put_str(&pickle, "storage");
	ckpt_buf_printf(&pickle, "ctorch\nFloatStorage\n");
	unit_put_str(&pickle, "0");
	unit_put_str(&pickle, "cpu");
	ckpt_buf_add_u8(&pickle, 'J');
	ckpt_buf_add_u32(&pickle, LARGE / 4);
	ckpt_buf_printf(&pickle, "tQK%cJ", 0);
	ckpt_buf_add_u32(&pickle, LARGE / 4);
	ckpt_buf_printf(&pickle, "\x85K\x01\x85\x89" "ccollections\nOrderedDict\n)RtRs.");
	records[0] = (struct unit_record){ "data.pkl", pickle.data, pickle.len };
	records[1] = (struct unit_record){ "data/0", large, LARGE };
	records[2] = (struct unit_record){ "version", "3\n", 2 };
	file = unit_zip("archive", records, 3);
	unit_write_file(in, file.data, file.len);
	for (int i = 0; i < 20; i++) {
		char name[16], *path;

		snprintf(name, sizeof(name), "%d.pkl", i);
		path = unit_path(folder, name);
		unit_write_file(path, pickle.data, pickle.len);
		free(path);
	}
	ckpt_buf_clear(&file);
	ckpt_buf_clear(&pickle);
	free(large);
	return ckpt_open(in, &model, &err);
}

static int teardown(void **state)
{
	(void)state;
	ckpt_close(model);
	free(in);
	free(out);
	free(many);
	unit_folder_remove(folder);
	return 0;
}

static int save(uint32_t threads)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_model *cast;
	int rc;

	options.threads = threads;
	options.flags = CKPT_SAVE_NO_SYNC | CKPT_SAVE_REPLACE;
	rc = ckpt_cast(model, "float16", NULL, &cast, NULL, &err); /* which goes through memory */
	if (rc < 0)
		return rc;
	rc = ckpt_save(cast, out, &options, NULL, &err);
	ckpt_close(cast);
	return rc;
}

static int verify(uint32_t threads)
{
	struct ckpt_verify_options options = CKPT_VERIFY_OPTIONS_INIT;
	struct ckpt_verify_report report = CKPT_VERIFY_REPORT_INIT;

	options.threads = threads;
	options.flags = CKPT_VERIFY_FINITE;
	return ckpt_verify(in, &options, NULL, NULL, &report, &err);
}

static int repair(uint32_t threads)
{
	struct ckpt_repair_options options = CKPT_REPAIR_OPTIONS_INIT;
	struct ckpt_model *repaired;
	int rc;

	options.threads = threads;
	rc = ckpt_repair_open(in, &options, NULL, NULL, &repaired, NULL, &err);
	if (rc == 0)
		ckpt_close(repaired);
	return rc;
}

static int diff(uint32_t threads)
{
	struct ckpt_diff_options options = CKPT_DIFF_OPTIONS_INIT;
	struct ckpt_model *other;
	int rc = ckpt_open(in, &other, &err);

	options.threads = threads;
	if (rc < 0)
		return rc;
	rc = ckpt_diff(model, other, &options, NULL, NULL, NULL, &err);
	ckpt_close(other);
	return rc;
}

static int stats(uint32_t threads)
{
	struct ckpt_stat_options options = CKPT_STAT_OPTIONS_INIT;
	struct ckpt_stat *found;
	int rc;

	options.threads = threads;
	rc = ckpt_stat_new(model, &options, &found, &err);
	if (rc == 0)
		ckpt_stat_free(found);
	return rc;
}

static int scan(uint32_t threads)
{
	struct ckpt_scan_options options = CKPT_SCAN_OPTIONS_INIT;

	options.threads = threads;
	return ckpt_scan(many, &options, NULL, NULL, NULL, &err);
}

static int why(uint32_t threads)
{
	struct ckpt_why_options options = CKPT_WHY_OPTIONS_INIT;

	options.threads = threads;
	return ckpt_why(in, &options, NULL, NULL, NULL, &err);
}

static const struct {
	const char *name;
	int (*run)(uint32_t threads);
	bool by_chance; /* it has no use for many here */
} calls[] = {
	{ "save", save, false }, { "verify", verify, false }, { "repair", repair, true },
	{ "diff", diff, false }, { "stat", stats, false },    { "scan", scan, false },
	{ "why", why, true },
};

static int count_threads(void *ctx, enum ckpt_io_op op)
{
	*(atomic_uint *)ctx += op == CKPT_IO_THREAD;
	return 0;
}

static unsigned started_by(size_t call, uint32_t threads)
{
	atomic_uint started = 0;
	int rc;

	ckpt_io_set_hook(count_threads, &started);
	rc = calls[call].run(threads);
	ckpt_io_set_hook(NULL, NULL);
	if (rc < 0)
		fail_msg("%s: %s", calls[call].name, unit_message(&err));
	return started;
}

static void calls_start_as_many_threads_as_are_allowed(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(calls); i++) {
		unsigned alone = started_by(i, 1), seven = started_by(i, 7);

		if (alone || (!calls[i].by_chance && (seven < 6 || seven > 7)))
			fail_msg("%s: %u of none, %u of six", calls[i].name, alone, seven);
	}
}

UNIT_SUITE(test_threads)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_start_as_many_threads_as_are_allowed),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
