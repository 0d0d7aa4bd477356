/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"
#include "io/source.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char *folder, *path;
static struct ckpt_error err;

static int setup(void **state)
{
	(void)state;
	folder = unit_folder_new();
	path = unit_path(folder, "in");
	unit_write_file(path, "0123456789", 10);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ckpt_io_set_hook(NULL, NULL);
	free(path);
	unit_folder_remove(folder);
	return 0;
}

static void assert_reads(const struct ckpt_source *src, uint64_t off, const char *want)
{
	char buf[32];

	assert_int_equal(ckpt_source_read(src, off, buf, strlen(want), &err), 0);
	assert_memory_equal(buf, want, strlen(want));
}

static void a_file_is_read_at_any_offset(void **state)
{
	struct ckpt_source *src;

	(void)state;
	assert_int_equal(ckpt_source_open(path, &src, &err), 0);
	assert_int_equal(ckpt_source_size(src), 10);
	assert_string_equal(ckpt_source_path(src), path);
	assert_reads(src, 0, "0123456789");
	assert_reads(src, 9, "9");
	assert_reads(src, 10, "");
	ckpt_source_unref(src);
}

static void a_slice_of_a_slice_counts_from_its_own_start(void **state)
{
	struct ckpt_source *src, *slice, *inner;
	uint64_t off;

	(void)state;
	ckpt_source_open(path, &src, NULL);
	assert_int_equal(ckpt_source_slice(src, 2, 6, &slice, NULL), 0);
	assert_int_equal(ckpt_source_slice(slice, 1, 3, &inner, NULL), 0);
	ckpt_source_unref(src); /* the slices hold it */
	ckpt_source_unref(slice);
	assert_reads(inner, 0, "345");
	assert_true(ckpt_source_fd(inner, &off) >= 0);
	assert_int_equal(off, 3);
	assert_string_equal(ckpt_source_path(inner), path);
	assert_int_equal(ckpt_source_slice(inner, 1, 3, &slice, &err), CKPT_E_FORMAT);
	assert_string_equal(unit_message(&err), "slice of 3 bytes at 1 is outside 3 bytes");
	assert_int_equal(ckpt_source_slice(inner, UINT64_MAX, 2, &slice, NULL), CKPT_E_FORMAT);
	assert_int_equal(ckpt_source_slice(inner, 2, UINT64_MAX, &slice, NULL), CKPT_E_FORMAT);
	ckpt_source_unref(inner);
	ckpt_source_unref(NULL);
}

static void what_lies_outside_is_not_read(void **state)
{
	struct ckpt_source *src;
	char buf[16];

	(void)state;
	ckpt_source_from_memory("abc", 3, &src, NULL);
	assert_int_equal(ckpt_source_read(src, 2, buf, 2, &err), CKPT_E_FORMAT);
	assert_string_equal(unit_message(&err), "wanted 2 bytes at 2, the file has 3");
	assert_int_equal(ckpt_source_read(src, 4, buf, 0, NULL), CKPT_E_FORMAT);
	assert_int_equal(ckpt_source_read(src, UINT64_MAX, buf, 2, NULL), CKPT_E_FORMAT);
	assert_int_equal(ckpt_source_read(src, 1, buf, SIZE_MAX, NULL), CKPT_E_FORMAT);
	assert_null(ckpt_source_path(src));
	assert_int_equal(ckpt_source_check_unchanged(src, NULL), 0);
	ckpt_source_unref(src);
}

static void what_is_no_file_is_refused(void **state)
{
	struct ckpt_source *src;
	char *none = unit_path(folder, "none"), *fifo = unit_path(folder, "fifo");

	(void)state;
	assert_int_equal(ckpt_source_open(none, &src, &err), CKPT_E_IO);
	assert_int_equal(err.sys_errno, ENOENT);
	assert_string_equal(err.path, none);
	assert_string_equal(unit_text(&err), "cannot open: No such file or directory");
	assert_int_equal(ckpt_source_open(folder, &src, &err), CKPT_E_UNSUPPORTED);
	assert_string_equal(unit_text(&err), "is a directory, wanted a file");
	assert_int_equal(mkfifo(fifo, 0666), 0);
	assert_int_equal(ckpt_source_open(fifo, &src, &err), CKPT_E_UNSUPPORTED); /* and does not wait */
	assert_string_equal(unit_text(&err), "is not a regular file");
	assert_null(src);
	free(none);
	free(fifo);
}

static void a_file_that_changes_is_noticed(void **state)
{
	struct ckpt_source *src;
	struct stat st;
	char buf[10];

	(void)state;
	for (int i = 0; i < 2; i++) { /* the seconds, and the part of a second alone */
		struct timespec times[2];

		ckpt_source_open(path, &src, NULL);
		assert_int_equal(ckpt_source_check_unchanged(src, &err), 0);
		assert_int_equal(stat(path, &st), 0);
		times[0] = times[1] = st.st_mtim;
		if (i == 0)
			times[1].tv_sec -= 10;
		else
			times[1].tv_nsec = (times[1].tv_nsec + 4000000) % 1000000000;
		assert_int_equal(utimensat(0, path, times, 0), 0);
		assert_int_equal(ckpt_source_check_unchanged(src, &err), CKPT_E_CHANGED);
		assert_string_equal(unit_message(&err), "was changed while it was being read");
		ckpt_source_unref(src);
	}
	ckpt_source_open(path, &src, NULL);
	assert_int_equal(truncate(path, 5), 0);
	assert_int_equal(ckpt_source_read(src, 0, buf, 10, &err), CKPT_E_CHANGED);
	assert_string_equal(unit_message(&err), "the file became shorter while it was being read");
	ckpt_source_unref(src);
}

static void two_names_of_a_file_have_one_identity(void **state)
{
	char *other = unit_path(folder, "other");
	struct ckpt_source *a, *b;
	dev_t dev[2];
	ino_t ino[2];

	(void)state;
	assert_int_equal(link(path, other), 0);
	ckpt_source_open(path, &a, NULL);
	ckpt_source_open(other, &b, NULL);
	assert_true(ckpt_source_identity(a, &dev[0], &ino[0]));
	assert_true(ckpt_source_identity(b, &dev[1], &ino[1]));
	assert_true(dev[0] == dev[1] && ino[0] == ino[1]);
	ckpt_source_unref(a);
	ckpt_source_unref(b);
	free(other);
}

static int interrupted_twice(void *ctx, enum ckpt_io_op op)
{
	int *left = ctx;

	return op == CKPT_IO_READ && (*left)-- > 0 ? EINTR : 0;
}

static int broken_disk(void *ctx, enum ckpt_io_op op)
{
	(void)ctx;
	return op == CKPT_IO_READ ? EIO : 0;
}

static void interrupted_reads_go_on_and_broken_ones_are_reported(void **state)
{
	struct ckpt_source *src;
	int left = 2;
	char buf[4];

	(void)state;
	ckpt_source_open(path, &src, NULL);
	ckpt_io_set_hook(interrupted_twice, &left);
	assert_reads(src, 0, "0123");
	ckpt_io_set_hook(broken_disk, NULL);
	assert_int_equal(ckpt_source_read(src, 0, buf, 4, &err), CKPT_E_IO);
	assert_string_equal(unit_message(&err), "cannot read: Input/output error");
	ckpt_source_unref(src);
}

static void a_window_gives_what_the_source_has(void **state)
{
	struct ckpt_source *src;
	struct ckpt_window w;
	const uint8_t *bytes;

	(void)state;
	ckpt_source_open(path, &src, NULL);
	assert_int_equal(ckpt_window_init(&w, src, 4, NULL), 0);
	for (size_t len = 0; len <= 4; len++)
		for (uint64_t off = 0; off + len <= 10; off++) {
			assert_int_equal(ckpt_window_read(&w, off, len, &bytes, &err), 0);
			assert_memory_equal(bytes, &"0123456789"[off], len);
			assert_int_equal(ckpt_window_read(&w, 10 - off - len, len, &bytes, &err), 0);
			assert_memory_equal(bytes, &"0123456789"[10 - off - len], len);
		}
	assert_int_equal(ckpt_window_read(&w, 8, 3, &bytes, &err), CKPT_E_FORMAT);
	assert_int_equal(ckpt_window_read(&w, UINT64_MAX, 3, &bytes, &err), CKPT_E_FORMAT);
	assert_int_equal(ckpt_window_read(&w, 3, 3, &bytes, &err), 0); /* and works again */
	assert_memory_equal(bytes, "345", 3);
	ckpt_window_clear(&w);
	ckpt_source_unref(src);
}

/* ---- slices that keep their edges ---- */

static void every_stretch_of_a_slice_with_edges_is_what_it_is_in_the_file(void **state)
{
	static const char bytes[] = "0123456789";
	struct ckpt_source *src, *slice, *inner;

	(void)state;
	assert_int_equal(ckpt_source_open(path, &src, &err), 0);
	for (size_t edge = 0; edge <= 11; edge++)
		for (size_t len = 0; len <= 10; len++) {
			assert_int_equal(ckpt_source_slice_edges(src, 10 - len, len, edge, &slice,
								 &err),
					 0);
			assert_int_equal(ckpt_source_slice(slice, len / 3, len - len / 3, &inner,
							   &err),
					 0);
			for (size_t off = 0; off <= len; off++)
				for (size_t n = 0; n <= len - off; n++) {
					char found[10];

					assert_int_equal(ckpt_source_read(slice, off, found, n,
									  &err),
							 0);
					assert_memory_equal(found, bytes + 10 - len + off, n);
					if (off < len / 3)
						continue;
					assert_int_equal(ckpt_source_read(inner, off - len / 3,
									  found, n, &err),
							 0);
					assert_memory_equal(found, bytes + 10 - len + off, n);
				}
			ckpt_source_unref(inner);
			ckpt_source_unref(slice);
		}
	ckpt_source_unref(src);
}

static int fail_reads(void *ctx, enum ckpt_io_op op)
{
	return op == CKPT_IO_READ && ++*(unsigned *)ctx == 2 ? EIO : 0;
}

static void edges_that_cannot_be_read_are_an_error(void **state)
{
	struct ckpt_source *src, *slice;
	unsigned seen = 0;

	(void)state;
	assert_int_equal(ckpt_source_open(path, &src, &err), 0);
	assert_int_equal(ckpt_source_slice_edges(src, 5, 6, 2, &slice, &err), CKPT_E_FORMAT);
	assert_null(slice);
	ckpt_io_set_hook(fail_reads, &seen);
	assert_int_equal(ckpt_source_slice_edges(src, 0, 10, 2, &slice, &err), CKPT_E_IO);
	assert_null(slice);
	ckpt_source_unref(src);
}

#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static int count_reads(void *ctx, enum ckpt_io_op op)
{
	*(int *)ctx += op == CKPT_IO_READ;
	return 0;
}

static void the_edges_of_a_slice_are_read_once(void **state)
{
	struct ckpt_source *src, *slice;
	int reads = 0;

	(void)state;
	assert_int_equal(ckpt_source_open(path, &src, NULL), 0);
	ckpt_io_set_hook(count_reads, &reads);
	assert_int_equal(ckpt_source_slice_edges(src, 1, 8, 2, &slice, NULL), 0);
	assert_int_equal(reads, 2);
	assert_reads(slice, 0, "12");
	assert_reads(slice, 6, "78");
	assert_int_equal(reads, 2);
	assert_reads(slice, 1, "23"); /* the first two bytes are not enough */
	assert_reads(slice, 5, "67");
	assert_reads(slice, 0, "12345678");
	assert_int_equal(reads, 5);
	ckpt_source_unref(slice);
	reads = 0;
	assert_int_equal(ckpt_source_slice_edges(src, 1, 8, 4, &slice, NULL), 0);
	assert_reads(slice, 0, "12345678");
	assert_int_equal(reads, 1);
	ckpt_source_unref(slice);
	assert_int_equal(ckpt_source_slice_edges(src, 9, 8, 4, &slice, NULL), CKPT_E_FORMAT);
	assert_null(slice);
	ckpt_source_unref(src);
}

UNIT_SUITE(test_source)
{
	const struct CMUnitTest tests[] = {
		WITH_FILE(a_file_is_read_at_any_offset),
		WITH_FILE(a_slice_of_a_slice_counts_from_its_own_start),
		WITH_FILE(the_edges_of_a_slice_are_read_once),
		WITH_FILE(what_lies_outside_is_not_read),
		WITH_FILE(what_is_no_file_is_refused),
		WITH_FILE(a_file_that_changes_is_noticed),
		WITH_FILE(two_names_of_a_file_have_one_identity),
		WITH_FILE(interrupted_reads_go_on_and_broken_ones_are_reported),
		WITH_FILE(a_window_gives_what_the_source_has),
		WITH_FILE(every_stretch_of_a_slice_with_edges_is_what_it_is_in_the_file),
		WITH_FILE(edges_that_cannot_be_read_are_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
