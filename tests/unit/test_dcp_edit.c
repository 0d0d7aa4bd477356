/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"

#include <ckpt/ckpt.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Edits of directories whose data files have other names than torch gives them, and of what lies beside. */

static char *base, *in, *out;
static struct ckpt_error err;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place)
{
	(void)st;
	(void)type;
	(void)place;
	return remove(path);
}

static void remove_tree(const char *path)
{
	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Save the checkpoint PICKLE as a directory of two data files. */
static void make_input(const struct ckpt_buf *pickle, unsigned storages)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_buf file = unit_torch_file(pickle, storages);
	struct ckpt_model *model;

	assert_int_equal(ckpt_open_memory(file.data, file.len, &model, &err), 0);
	options.format = "dcp";
	options.ranks = 2;
	options.least_shard = 1 << 20; /* a whole tensor for each */
	assert_int_equal(ckpt_save(model, in, &options, NULL, &err), 0);
	ckpt_close(model);
	ckpt_buf_clear(&file);
}

static int setup(void **state)
{
	static const char *const keys[] = { "a", "b" };
	struct ckpt_buf pickle = { 0 };

	(void)state;
	base = unit_folder_new();
	in = unit_path(base, "in");
	out = unit_path(base, "out");
	unit_put_state_dict(&pickle, keys, 2);
	make_input(&pickle, 2);
	ckpt_buf_clear(&pickle);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	remove_tree(base);
	free(base);
	free(in);
	free(out);
	return 0;
}

/* Give the data file NAME the name TO, of the same length, in the index too. */
static void rename_data(const char *name, const char *to)
{
	char *index = unit_path(in, ".metadata"), *from_path = unit_path(in, name),
	     *to_path = unit_path(in, to);
	struct ckpt_buf bytes = unit_read_file(index);
	size_t len = strlen(name);
	unsigned found = 0;

	assert_int_equal(len, strlen(to));
	for (size_t i = 0; i + len <= bytes.len; i++)
		if (!memcmp(bytes.data + i, name, len)) {
			memcpy(bytes.data + i, to, len);
			found++;
		}
	assert_true(found > 0);
	unit_write_file(index, bytes.data, bytes.len);
	assert_int_equal(rename(from_path, to_path), 0);
	ckpt_buf_clear(&bytes);
	free(index);
	free(from_path);
	free(to_path);
}

static int add_prefix(unsigned flags)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_model *model, *edited;
	int rc;

	options.flags = flags;
	if (ckpt_open(in, &model, &err) < 0)
		fail_msg("%s", unit_message(&err));
	assert_int_equal(ckpt_add_prefix(model, "x.", NULL, &edited, NULL, &err), 0);
	ckpt_close(model);
	rc = ckpt_save(edited, out, &options, NULL, &err);
	ckpt_close(edited);
	return rc;
}

static bool in_out(const char *name)
{
	char *path = unit_path(out, name);
	bool there = unit_exists(path);

	free(path);
	return there;
}

/* OUT can be merged, and holds "x.a" and "x.b". */
static void assert_edited(void)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	char *merged = unit_path(base, "merged.pt");
	struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;
	struct ckpt_model *model;

	if (ckpt_open(out, &model, &err) < 0)
		fail_msg("%s", unit_message(&err));
	assert_int_equal(ckpt_tensor_count(model), 2);
	assert_int_equal(ckpt_tensor_get(model, 0, &info), 0);
	assert_string_equal(info.name, "x.a");
	assert_int_equal(ckpt_tensor_get(model, 1, &info), 0);
	assert_string_equal(info.name, "x.b");
	options.format = "torch";
	if (ckpt_save(model, merged, &options, NULL, &err) < 0)
		fail_msg("%s", unit_message(&err));
	ckpt_close(model);
	unlink(merged);
	free(merged);
	remove_tree(out);
}

static void edit_twice(void)
{
	for (int linked = 0; linked < 2; linked++) {
		if (add_prefix(linked ? CKPT_SAVE_HARD_LINK : 0) < 0)
			fail_msg("%s", unit_message(&err));
		assert_edited();
	}
}

static void data_files_may_have_any_name(void **state)
{
	(void)state;
	edit_twice();
	rename_data("__1_0.distcp", "other.distcp");
	edit_twice();
	rename_data("__0_0.distcp", "weights_.bin");
	edit_twice();
}

static void data_files_may_lie_in_folders(void **state)
{
	char *folder = unit_path(in, "sub");

	(void)state;
	assert_int_equal(mkdir(folder, 0777), 0);
	free(folder);
	rename_data("__0_0.distcp", "sub/0.distcp");
	rename_data("__1_0.distcp", "sub/1.distcp");
	edit_twice();
}

static void what_lies_beside_comes_along_but_for_traces_of_other_saves(void **state)
{
	static const struct {
		const char *name;
		bool comes;
	} table[] = { { "meta.pt", true },	 { "common.pt", true },
		      { "README", true },	 { "integrity.json", false },
		      { "__7_0.distcp", false }, { ".metadata.tmp", false } };

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		char *path = unit_path(in, table[i].name);

		unit_write_file(path, "beside", 6);
		free(path);
	}
	assert_int_equal(add_prefix(0), 0);
	for (size_t i = 0; i < COUNT(table); i++)
		if (in_out(table[i].name) != table[i].comes)
			fail_msg("%s", table[i].name);
	assert_edited();
}

/* The name of a data file is a string of the index: it may hold anything but a NUL. */
static void names_of_files_are_escaped_in_every_message(void **state)
{
	char *path = unit_path(in, "__0\x1b[1mistcp");

	(void)state;
	rename_data("__0_0.distcp", "__0\x1b[1mistcp");
	unlink(path);
	free(path);
	for (int linked = 0; linked < 2; linked++) {
		assert_int_equal(add_prefix(linked ? CKPT_SAVE_HARD_LINK : 0), CKPT_E_IO);
		for (const char *p = unit_message(&err); *p; p++)
			if (*p < 0x20 || *p == 0x7F)
				fail_msg("byte %d of the message is not escaped", *p);
		assert_int_equal(unit_folder_count(base), 1);
	}
}

/* ---- in place ---- */

struct fault {
	enum ckpt_io_op op;
	unsigned at;
	_Atomic unsigned seen;
};

static int inject(void *ctx, enum ckpt_io_op op)
{
	struct fault *f = ctx;

	return op == f->op && ++f->seen == f->at ? EIO : 0;
}

/* Give the tensors inside of values another device, which means to write those values anew. */
static int remap_in_place(void)
{
	static const struct ckpt_device_map map = { "cpu", "cuda:0" };
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_model *model, *edited = NULL;
	int rc = ckpt_open(in, &model, &err);

	if (rc < 0)
		return rc;
	rc = ckpt_remap(model, &map, 1, NULL, &edited, NULL, &err);
	ckpt_close(model);
	if (rc == 0)
		rc = ckpt_save_in_place(edited, &options, NULL, &err);
	ckpt_close(edited);
	return rc;
}

/* A tensor, and a value with a tensor in it. */
static void make_input_with_value(void)
{
	struct ckpt_buf pickle = { 0 };

	remove_tree(in);
	ckpt_buf_printf(&pickle, "}(");
	unit_put_str(&pickle, "a");
	unit_put_tensor(&pickle, "0", 1);
	unit_put_str(&pickle, "v");
	unit_put_tensor(&pickle, "1", 1);
	ckpt_buf_printf(&pickle, "\x85u");
	make_input(&pickle, 2);
	ckpt_buf_clear(&pickle);
}

static void an_edit_in_place_that_fails_leaves_the_directory_as_it_was(void **state)
{
	static const enum ckpt_io_op ops[] = { CKPT_IO_WRITE, CKPT_IO_TRUNCATE, CKPT_IO_SYNC,
					       CKPT_IO_LINK, CKPT_IO_RENAME };
	char *index = unit_path(in, ".metadata");
	struct ckpt_buf before;
	unsigned count, failed = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(ops); i++) {
		make_input_with_value();
		before = unit_read_file(index);
		count = unit_folder_count(in);
		for (unsigned at = 1;; at++) {
			struct fault fault = { .op = ops[i], .at = at };
			struct ckpt_buf after;
			int rc;

			ckpt_io_set_hook(inject, &fault);
			rc = remap_in_place();
			ckpt_io_set_hook(NULL, NULL);
			if (fault.seen < at) {
				assert_int_equal(rc, 0);
				break;
			}
			failed++;
			assert_int_equal(rc, CKPT_E_IO);
			after = unit_read_file(index);
			assert_int_equal(after.len, before.len);
			assert_memory_equal(after.data, before.data, before.len);
			ckpt_buf_clear(&after);
			if (unit_folder_count(in) != count)
				fail_msg("call %u of %d failed: a file is left behind", at, ops[i]);
		}
		ckpt_buf_clear(&before);
	}
	assert_true(failed > 5);
	free(index);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

UNIT_SUITE(test_dcp_edit)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(data_files_may_have_any_name),
		IN_FOLDER(data_files_may_lie_in_folders),
		IN_FOLDER(what_lies_beside_comes_along_but_for_traces_of_other_saves),
		IN_FOLDER(names_of_files_are_escaped_in_every_message),
		IN_FOLDER(an_edit_in_place_that_fails_leaves_the_directory_as_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
