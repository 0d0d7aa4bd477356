/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"
#include "io/readahead.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* The bytes of an extent are those of the file, whichever thread reads them. */

enum { SIZE = 5 << 20, BLOCK = 512 << 10 };

static char *folder, *path;
static struct ckpt_error err;
static uint8_t *data;
static struct ckpt_source *src;
static struct ckpt_readahead *ahead;

static int setup(void **state)
{
	(void)state;
	folder = unit_folder_new();
	path = unit_path(folder, "in");
	data = malloc(SIZE);
	for (uint32_t i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 24);
	unit_write_file(path, data, SIZE);
	return ckpt_source_open(path, &src, &err) || ckpt_readahead_new(&ahead, &err);
}

static int teardown(void **state)
{
	(void)state;
	ckpt_io_set_hook(NULL, NULL);
	ckpt_readahead_free(ahead);
	ckpt_source_unref(src);
	free(data);
	free(path);
	unit_folder_remove(folder);
	return 0;
}

/* Takes up to MAX bytes of the extent, compares them, says how many. */
static uint64_t take(uint64_t off, uint64_t max)
{
	uint64_t done = 0;

	while (done < max) {
		const uint8_t *bytes;
		size_t len;

		assert_int_equal(ckpt_readahead_next(ahead, &bytes, &len, &err), 0);
		if (len == 0)
			break;
		assert_memory_equal(bytes, data + off + done, len);
		done += len;
	}
	return done;
}

static void check_extents(void)
{
	static const uint64_t sizes[] = { 0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK,
					  2 * BLOCK + 1, 4 * BLOCK, SIZE - 100 };

	for (size_t round = 0; round < 3; round++)
		for (size_t i = 0; i < COUNT(sizes); i++) {
			uint64_t off = 7 * i;

			ckpt_readahead_begin(ahead, src, off, sizes[i]);
			assert_int_equal(take(off, SIZE), sizes[i]);
			assert_int_equal(take(off, SIZE), 0);
		}
}

static void every_byte_arrives_in_order(void **state)
{
	(void)state;
	check_extents();
}

static void an_extent_may_be_left_for_another(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 300; i++) {
		ckpt_readahead_begin(ahead, src, i, SIZE - i);
		take(i, i % 5 * BLOCK);
		ckpt_readahead_begin(ahead, src, 3 * i, i % 2 ? 100 : 3 * BLOCK);
		take(3 * i, i % 3 * BLOCK);
	}
	check_extents();
}

struct fault {
	enum ckpt_io_op op;
	int code;
	unsigned at;
	atomic_uint seen;
};

static int inject(void *ctx, enum ckpt_io_op op)
{
	struct fault *f = ctx;

	return op == f->op && ++f->seen == f->at ? f->code : 0;
}

static void without_a_thread_the_caller_reads(void **state)
{
	struct fault fault = { .op = CKPT_IO_THREAD, .code = EAGAIN, .at = 1 };

	(void)state;
	ckpt_io_set_hook(inject, &fault);
	check_extents();
	assert_int_equal(fault.seen, 1); /* not tried again */
}

static void a_failed_read_is_told_once_all_before_it_is_taken(void **state)
{
	static const uint64_t sizes[] = { BLOCK + 5, 9 * BLOCK };
	const uint8_t *bytes;
	size_t len;

	(void)state;
	for (size_t i = 0; i < COUNT(sizes); i++)
		for (unsigned at = 1; at <= (sizes[i] + BLOCK - 1) / BLOCK; at++) {
			struct fault fault = { .op = CKPT_IO_READ, .code = EIO, .at = at };

			ckpt_io_set_hook(inject, &fault);
			ckpt_readahead_begin(ahead, src, 0, sizes[i]);
			assert_int_equal(take(0, (at - 1) * (uint64_t)BLOCK), (at - 1) * (uint64_t)BLOCK);
			memset(&err, 0, sizeof(err));
			assert_true(ckpt_readahead_next(ahead, &bytes, &len, &err) < 0);
			assert_int_equal(err.sys_errno, EIO);
			ckpt_readahead_begin(ahead, src, 0, SIZE);
			assert_int_equal(take(0, SIZE), SIZE);
			ckpt_io_set_hook(NULL, NULL);
		}
}

static void an_extent_outside_of_the_source_is_an_error(void **state)
{
	const uint8_t *bytes;
	size_t len;

	(void)state;
	ckpt_readahead_begin(ahead, src, SIZE - 4 * BLOCK, 4 * BLOCK + 1);
	assert_int_equal(take(SIZE - 4 * BLOCK, 4 * BLOCK), 4 * BLOCK);
	assert_int_equal(ckpt_readahead_next(ahead, &bytes, &len, &err), CKPT_E_FORMAT);
	ckpt_readahead_begin(ahead, src, SIZE, 1);
	assert_int_equal(ckpt_readahead_next(ahead, &bytes, &len, NULL), CKPT_E_FORMAT);
}

#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FILE(every_byte_arrives_in_order),
		WITH_FILE(an_extent_may_be_left_for_another),
		WITH_FILE(without_a_thread_the_caller_reads),
		WITH_FILE(a_failed_read_is_told_once_all_before_it_is_taken),
		WITH_FILE(an_extent_outside_of_the_source_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
