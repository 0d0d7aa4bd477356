/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"

#include <ckpt/ckpt.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A directory whose name leads to another one while it is opened: the model is of one of them, or there is none. */

enum { TENSORS = 6, NUMBERS = 64 };

static char *folder, *cur, *temp, *out;
static struct ckpt_error err;

static int setup(void **state)
{
	(void)state;
	folder = unit_folder_new();
	cur = unit_path(folder, "cur");
	temp = unit_path(folder, "temp");
	out = unit_path(folder, "out");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ckpt_io_set_hook(NULL, NULL);
	free(cur);
	free(temp);
	free(out);
	unit_folder_remove(folder);
	return 0;
}

/* The directory NAME, of tensors all of whose bytes are BYTE. */
static void write_set(const char *name, const char *format, uint8_t byte)
{
	struct ckpt_save_options o = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_tensor_view view = CKPT_TENSOR_VIEW_INIT;
	static const uint64_t shape[1] = { NUMBERS };
	uint8_t bytes[4 * NUMBERS];
	char *path = unit_path(folder, name);
	struct ckpt_builder *b;
	struct ckpt_node *root;
	struct ckpt_model *model;

	memset(bytes, byte, sizeof(bytes));
	assert_int_equal(ckpt_builder_new(&b, &err), 0);
	root = ckpt_build_dict(b);
	view.shape = shape;
	view.ndim = 1;
	for (int i = 0; i < TENSORS; i++) {
		char key[8];
		int len = snprintf(key, sizeof(key), "w%d", i);

		assert_true(ckpt_build_put(b, root, ckpt_build_str(b, key, (size_t)len),
					   ckpt_build_tensor(b, ckpt_build_storage(b, "int32", "cpu", bytes, sizeof(bytes)), &view)));
	}
	assert_int_equal(ckpt_builder_finish(b, root, &model, &err), 0);
	o.format = format;
	o.flags = CKPT_SAVE_NO_SYNC;
	if (strcmp(format, "dcp") != 0)
		o.shard_size = 4 * NUMBERS;
	else
		o.ranks = 4;
	assert_int_equal(ckpt_save(model, path, &o, NULL, &err), 0);
	ckpt_close(model);
	free(path);
}

static void lead_to(const char *name)
{
	unlink(temp);
	assert_int_equal(symlink(name, temp), 0);
	assert_int_equal(rename(temp, cur), 0);
}

static int flip(void *ctx, enum ckpt_io_op op)
{
	unsigned *left = ctx;

	if (op == CKPT_IO_READ && (*left)-- == 1)
		lead_to("two");
	return 0;
}

/* How many bytes of MODEL are BYTE in a row of numbers. */
static unsigned count_tensors(const struct ckpt_buf *file, uint8_t byte)
{
	uint8_t bytes[4 * NUMBERS];
	unsigned count = 0;

	memset(bytes, byte, sizeof(bytes));
	for (size_t at = 0; at + sizeof(bytes) <= file->len; at++)
		if (!memcmp(file->data + at, bytes, sizeof(bytes))) {
			count++;
			at += sizeof(bytes) - 1;
		}
	return count;
}

static void check_format(const char *format)
{
	struct ckpt_save_options o = CKPT_SAVE_OPTIONS_INIT;
	unsigned at, left, refused = 0, whole = 0;

	o.format = "torch";
	o.flags = CKPT_SAVE_NO_SYNC;
	write_set("one", format, 0x11);
	write_set("two", format, 0x22);
	for (at = 1;; at++) {
		struct ckpt_model *model;
		int rc;

		left = at;
		lead_to("one");
		ckpt_io_set_hook(flip, &left);
		rc = ckpt_open(cur, &model, &err);
		if (rc == 0)
			rc = ckpt_save(model, out, &o, NULL, &err);
		ckpt_io_set_hook(NULL, NULL);
		if (rc < 0) {
			assert_int_equal(rc, CKPT_E_CHANGED);
			refused++;
		} else {
			struct ckpt_buf file = unit_read_file(out);
			unsigned ones = count_tensors(&file, 0x11), twos = count_tensors(&file, 0x22);

			assert_int_equal(ones + twos, TENSORS);
			assert_true(!ones || !twos);
			whole++;
			ckpt_buf_clear(&file);
			unlink(out);
		}
		ckpt_close(model);
		if (left && left <= at) /* there were not so many reads */
			break;
	}
	assert_true(refused && whole);
}

static void a_set_of_shards_is_of_one_directory(void **state)
{
	(void)state;
	check_format("safetensors");
}

static void a_dcp_directory_is_one(void **state)
{
	(void)state;
	check_format("dcp");
}

UNIT_SUITE(test_replaced_folder)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_set_of_shards_is_of_one_directory, setup, teardown),
		cmocka_unit_test_setup_teardown(a_dcp_directory_is_one, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
