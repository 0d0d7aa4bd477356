/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"

#include <ckpt/ckpt.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is saved with a checkpoint has its names with it, or not at all, whichever system call fails. */

static char *base, *in, *out;
static struct ckpt_model *model;
static struct ckpt_error err;

static const struct ckpt_side_file files[] = { { "config.json", "new", 3, 0644, 0 }, { "tokenizer.json", "tok", 3, 0600, 0 }, { "empty", "", 0, 0644, 0 } };

static int setup(void **state)
{
	char *fixture = unit_fixture("ddp/ddp_model.pt"), *folder;
	struct ckpt_buf bytes = unit_read_file(fixture);

	(void)state;
	base = unit_folder_new();
	folder = unit_path(base, "in");
	in = unit_path(base, "in/model.pt");
	out = unit_path(base, "out");
	assert_int_equal(mkdir(folder, 0755), 0);
	unit_write_file(in, bytes.data, bytes.len);
	assert_int_equal(ckpt_open(in, &model, &err), 0);
	ckpt_buf_clear(&bytes);
	free(fixture);
	free(folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ckpt_io_set_hook(NULL, NULL);
	ckpt_close(model);
	unit_folder_remove(base);
	free(in);
	free(out);
	return 0;
}

static bool holds(const char *name, const char *content)
{
	char *path = unit_path(out, name);
	bool same = unit_exists(path);

	if (same) {
		struct ckpt_buf found = unit_read_file(path);

		same = found.len == strlen(content) && (!found.len || !memcmp(found.data, content, found.len));
		ckpt_buf_clear(&found);
	}
	free(path);
	return same;
}

static void put(const char *name, const char *content)
{
	char *path = unit_path(out, name);

	unit_write_file(path, content, strlen(content));
	free(path);
}

static void remove_out(void)
{
	char *line;

	assert_true(asprintf(&line, "rm -rf '%s'", out) > 0);
	assert_int_equal(system(line), 0);
	free(line);
}

/* What there is before the save, and what the save makes of it. */
enum start { NEW_FOLDER, EMPTY_FOLDER, OLD_FOLDER, BESIDE_NEW, BESIDE_OLD, NEW_SET, OLD_SET, STARTS };

static bool is_old(enum start start)
{
	return start == OLD_FOLDER || start == BESIDE_OLD || start == OLD_SET;
}

static const char *weights_of(enum start start)
{
	return start == NEW_SET || start == OLD_SET ? "pytorch_model.bin" : "model.pt";
}

static void make_start(enum start start)
{
	remove_out();
	if (start == NEW_FOLDER || start == NEW_SET)
		return;
	assert_int_equal(mkdir(out, 0755), 0);
	if (!is_old(start))
		return;
	put(weights_of(start), "old weights");
	put("config.json", "old");
	put("empty", "was not");
	if (start != OLD_SET)
		put("notes", "mine");
}

static int save(enum start start, unsigned flags)
{
	struct ckpt_save_options o = CKPT_SAVE_OPTIONS_INIT;
	char *path = start == BESIDE_NEW || start == BESIDE_OLD ? unit_path(out, "model.pt") : strdup(out);
	int rc;

	o.flags = flags | (is_old(start) ? CKPT_SAVE_REPLACE : 0);
	o.files = files;
	o.file_count = 3;
	if (start == NEW_SET || start == OLD_SET)
		o.shard_size = 1 << 30;
	else if (start < BESIDE_NEW)
		o.flags |= CKPT_SAVE_IN_FOLDER;
	rc = ckpt_save(model, path, &o, NULL, &err);
	free(path);
	return rc;
}

static void assert_before(enum start start)
{
	assert_int_equal(unit_folder_count(base), start == NEW_FOLDER || start == NEW_SET ? 1 : 2);
	if (start == NEW_FOLDER || start == NEW_SET)
		return;
	assert_int_equal(unit_folder_count(out), !is_old(start) ? 0 : start == OLD_SET ? 3 : 4);
	if (is_old(start))
		assert_true(holds(weights_of(start), "old weights") && holds("config.json", "old") && holds("empty", "was not"));
}

static void assert_after(enum start start)
{
	char *path = unit_path(out, weights_of(start));
	struct ckpt_model *made;

	assert_int_equal(unit_folder_count(base), 2);
	assert_true(holds("config.json", "new") && holds("tokenizer.json", "tok") && holds("empty", ""));
	assert_int_equal(ckpt_open(path, &made, &err), 0);
	ckpt_close(made);
	assert_int_equal(unit_folder_count(out), 4 + (is_old(start) && start != OLD_SET));
	free(path);
}

static void all_of_it_is_written(void **state)
{
	(void)state;
	for (enum start start = 0; start < STARTS; start++) {
		make_start(start);
		assert_int_equal(save(start, CKPT_SAVE_DRY_RUN), 0);
		assert_before(start);
		assert_int_equal(save(start, 0), 0);
		assert_after(start);
	}
}

struct fault {
	enum ckpt_io_op op;
	int code;
	unsigned at;
	_Atomic unsigned seen; /* from several threads */
};

static int inject(void *ctx, enum ckpt_io_op op)
{
	struct fault *f = ctx;

	return op == f->op && ++f->seen == f->at ? f->code : 0;
}

/* A sync of a folder fails when all has its names; a link that fails may have another way. */
static void whichever_call_fails_it_is_all_or_nothing(void **state)
{
	static const enum ckpt_io_op ops[] = { CKPT_IO_READ, CKPT_IO_WRITE, CKPT_IO_COPY, CKPT_IO_TRUNCATE, CKPT_IO_SYNC, CKPT_IO_LINK, CKPT_IO_RENAME, CKPT_IO_SYNC_DIR };
	unsigned failures = 0;

	(void)state;
	for (enum start start = 0; start < STARTS; start++)
		for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
			for (unsigned at = 1;; at++) {
				struct fault fault = { .op = ops[i], .code = at % 2 ? EIO : ENOSPC, .at = at };
				int rc;

				make_start(start);
				ckpt_io_set_hook(inject, &fault);
				rc = save(start, 0);
				ckpt_io_set_hook(NULL, NULL);
				if (rc == 0 || (ops[i] == CKPT_IO_SYNC_DIR && holds("config.json", "new")))
					assert_after(start);
				else
					assert_before(start);
				failures += rc < 0;
				if (fault.seen < at)
					break;
			}
	assert_in_range(failures, 100, 1000);
}

static int put_in_the_way(void *ctx, enum ckpt_io_op op)
{
	(void)ctx;
	if (op == CKPT_IO_SYNC && !holds("tokenizer.json", "theirs"))
		put("tokenizer.json", "theirs");
	return 0;
}

static void what_appears_meanwhile_is_not_replaced(void **state)
{
	(void)state;
	make_start(EMPTY_FOLDER);
	ckpt_io_set_hook(put_in_the_way, NULL);
	assert_int_equal(save(EMPTY_FOLDER, 0), CKPT_E_EXISTS);
	ckpt_io_set_hook(NULL, NULL);
	assert_string_equal(strrchr(err.path, '/'), "/tokenizer.json");
	assert_int_equal(unit_folder_count(out), 1);
	assert_true(holds("tokenizer.json", "theirs"));
}

static int count_naming(void *ctx, enum ckpt_naming what)
{
	int *calls = ctx;

	calls[what == CKPT_NAMING_ENDED]++;
	return calls[2];
}

/* Also where there are other files: begun once, ended once, and what it refuses has no output. */
static void the_caller_hears_of_the_naming(void **state)
{
	(void)state;
	for (enum start start = 0; start < STARTS; start++)
		for (int refuse = 0; refuse < 2; refuse++) {
			struct ckpt_save_options o = CKPT_SAVE_OPTIONS_INIT;
			int calls[3] = { 0, 0, refuse };

			make_start(start);
			if (start == BESIDE_NEW || start == BESIDE_OLD)
				continue; /* as in a folder that is there */
			o.flags = (is_old(start) ? CKPT_SAVE_REPLACE : 0u) |
				  (start < BESIDE_NEW ? CKPT_SAVE_IN_FOLDER : 0u);
			o.shard_size = start >= NEW_SET ? 1 << 30 : 0;
			o.files = files;
			o.file_count = 3;
			o.naming = count_naming;
			o.naming_ctx = calls;
			assert_int_equal(ckpt_save(model, out, &o, NULL, &err), refuse ? CKPT_E_CANCELLED : 0);
			assert_int_equal(calls[0], 1);
			assert_int_equal(calls[1], !refuse);
			if (refuse)
				assert_before(start);
			else
				assert_after(start);
		}
}

static void names_and_places_that_cannot_be_are_refused(void **state)
{
	static const struct ckpt_side_file bad[] = {
		{ "", "", 0, 0644, 0 },	    { ".", "", 0, 0644, 0 },  { "..", "", 0, 0644, 0 },	    { "a/b", "", 0, 0644, 0 },
		{ NULL, "", 0, 0644, 0 },   { "a", "", 0, 01644, 0 }, { "a", "", 0, 0644, 1 },	    { "model.pt", "", 0, 0644, 0 },
	};
	static const struct ckpt_side_file twice[] = { { "a", "", 0, 0644, 0 }, { "a", "", 0, 0644, 0 } };
	struct ckpt_save_options o = CKPT_SAVE_OPTIONS_INIT;
	char *beside = unit_path(base, "in/other.pt"), *folder = unit_path(base, "in"), *new = unit_path(base, "new");

	(void)state;
	make_start(EMPTY_FOLDER);
	o.flags = CKPT_SAVE_IN_FOLDER;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		o.files = &bad[i];
		o.file_count = 1;
		assert_int_equal(ckpt_save(model, out, &o, NULL, &err), CKPT_E_ARG);
		assert_int_equal(ckpt_save(model, new, &o, NULL, &err), CKPT_E_ARG);
		assert_false(unit_exists(new));
	}
	free(new);
	o.files = twice;
	o.file_count = 2;
	assert_int_equal(ckpt_save(model, out, &o, NULL, &err), CKPT_E_ARG);
	o.files = files;
	o.format = "dcp";
	o.flags = 0;
	assert_int_equal(ckpt_save(model, out, &o, NULL, &err), CKPT_E_ARG);
	o.format = NULL;
	o.flags = CKPT_SAVE_REPLACE;
	assert_int_equal(ckpt_save(model, beside, &o, NULL, &err), CKPT_E_OUTPUT);
	assert_string_equal(unit_text(&err), "is in the folder of the input, whose other files would be replaced");
	o.flags |= CKPT_SAVE_TO_FD;
	assert_int_equal(ckpt_save(model, "fd", &o, NULL, &err), CKPT_E_ARG);
	assert_int_equal(unit_folder_count(out), 0);
	assert_int_equal(unit_folder_count(folder), 1);
	free(beside);
	free(folder);
}

UNIT_SUITE(test_side_files)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_of_it_is_written, setup, teardown),
		cmocka_unit_test_setup_teardown(whichever_call_fails_it_is_all_or_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(what_appears_meanwhile_is_not_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(the_caller_hears_of_the_naming, setup, teardown),
		cmocka_unit_test_setup_teardown(names_and_places_that_cannot_be_are_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
