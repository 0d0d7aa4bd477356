/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "broadcast/piece_reader.h"
#include "io/direct.h"
#include "io/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Files read past the page cache, where the file system of the tests can. */

enum { SIZE = 3 * 1048576 + 1234, PAGE = 4096, ROOM = (SIZE / PAGE + 3) * PAGE };

static char *folder, *path;
static uint8_t *data;

static int setup(void **state)
{
	(void)state;
	folder = unit_folder_new();
	path = unit_path(folder, "file");
	data = malloc(SIZE);
	for (uint32_t i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 23);
	unit_write_file(path, data, SIZE);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(data);
	free(path);
	unit_folder_remove(folder);
	return 0;
}

static struct ckpt_source *opened(int *fd)
{
	struct ckpt_source *src;

	assert_int_equal(ckpt_source_open(path, &src, NULL), 0);
	*fd = ckpt_direct_open(src);
	if (*fd < 0) {
		ckpt_source_unref(src);
		skip();
	}
	return src;
}

static unsigned seed = 1;

static uint32_t below(uint32_t n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 8) % n;
}

static void any_part_is_the_same_as_read_as_usual(void **state)
{
	uint8_t *buf = aligned_alloc(PAGE, ROOM);
	int fd;
	struct ckpt_source *src = opened(&fd);

	(void)state;
	for (int i = 0; i < 400; i++) {
		uint32_t off = below(3) ? below(SIZE) : below(SIZE / PAGE) * PAGE, len = below(SIZE - off + 1);
		uint8_t *to = buf + (below(3) ? off % PAGE : below(PAGE)); /* where the disk can write, or cannot */

		if (below(4) == 0)
			len = SIZE - off;
		memset(buf, 0xEE, ROOM);
		assert_int_equal(ckpt_direct_read(src, fd, off, to, len, NULL), 0);
		assert_memory_equal(to, data + off, len);
		for (int k = 0; k < 64; k++) { /* nothing behind it, nor in front */
			assert_int_equal(to[len + (uint32_t)k], 0xEE);
			assert_true(to - 1 - k < buf || to[-1 - k] == 0xEE);
		}
	}
	assert_int_equal(ckpt_direct_read(src, fd, SIZE - 10, buf, 20, NULL), CKPT_E_FORMAT);
	assert_int_equal(ckpt_direct_read(src, fd, 0, buf, SIZE + PAGE, NULL), CKPT_E_FORMAT);
	close(fd);
	ckpt_source_unref(src);
	free(buf);
}

static unsigned calls, failing;

static int fail_some(void *ctx, enum ckpt_io_op op)
{
	(void)ctx;
	return op == CKPT_IO_READ && calls++ == failing ? EINVAL : 0;
}

/* Whatever the file system refuses of direct reads is read as usual; a disk that fails is an error. */
static void what_cannot_be_read_so_is_read_as_usual(void **state)
{
	uint8_t *buf = aligned_alloc(PAGE, ROOM);
	struct ckpt_error err = CKPT_ERROR_INIT;
	int fd;
	struct ckpt_source *src = opened(&fd);

	(void)state;
	for (failing = 0; failing < 2; failing++) {
		memset(buf, 0xEE, SIZE);
		calls = 0;
		ckpt_io_set_hook(fail_some, NULL);
		assert_int_equal(ckpt_direct_read(src, fd, 0, buf, SIZE, &err), failing ? CKPT_E_IO : 0);
		ckpt_io_set_hook(NULL, NULL);
		if (!failing)
			assert_memory_equal(buf, data, SIZE);
	}
	close(fd);
	ckpt_source_unref(src);
	free(buf);
}

static void nothing_comes_into_the_cache(void **state)
{
	uint8_t *buf = aligned_alloc(PAGE, ROOM);
	int fd;
	struct ckpt_source *src = opened(&fd);

	(void)state;
	assert_true(ckpt_direct_is_cached(src, 0, SIZE));
	assert_true(ckpt_direct_is_cached(src, 0, 0));
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (ckpt_direct_is_cached(src, 0, SIZE)) { /* a file system in memory, or a cache that others keep */
		close(fd);
		ckpt_source_unref(src);
		free(buf);
		skip();
	}
	assert_int_equal(ckpt_direct_read(src, fd, 0, buf, SIZE / PAGE * PAGE, NULL), 0);
	assert_memory_equal(buf, data, SIZE / PAGE * PAGE);
	assert_false(ckpt_direct_is_cached(src, 0, SIZE));
	assert_int_equal(ckpt_source_read(src, SIZE / 2, buf, SIZE / 2, NULL), 0);
	assert_true(ckpt_direct_is_cached(src, SIZE / 2, SIZE / 2 - 1));
	assert_true(ckpt_direct_is_cached(src, SIZE / 2 + 77, 1));
	close(fd);
	ckpt_source_unref(src);
	free(buf);
}

/* A reader of pieces fills the cache if it is not to go past it, and else leaves it as it was. */
static void pieces_are_read_as_they_are_told(void **state)
{
	static const struct {
		enum ckpt_direct direct;
		bool was_cached, is_cached;
	} rows[] = { { CKPT_DIRECT_NEVER, false, true },  { CKPT_DIRECT_ALWAYS, false, false }, { CKPT_DIRECT_AUTO, false, false },
		     { CKPT_DIRECT_NEVER, true, true }, { CKPT_DIRECT_AUTO, true, true } };
	const struct ckpt_manifest_piece piece = { .len = SIZE / PAGE * PAGE };
	const char *paths[] = { path };
	uint8_t *buf = aligned_alloc(PAGE, ROOM);
	struct ckpt_manifest m = { 0 };
	int fd;
	struct ckpt_source *src = opened(&fd);
	bool can = true;

	(void)state;
	assert_int_equal(ckpt_manifest_make(paths, 1, &m, NULL), 0);
	fsync(fd);
	for (size_t i = 0; can && i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ckpt_piece_reader *reader;

		if (rows[i].was_cached)
			assert_int_equal(ckpt_source_read(src, 0, buf, SIZE, NULL), 0);
		else
			posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		can = ckpt_direct_is_cached(src, 0, SIZE) == rows[i].was_cached;
		memset(buf, 0xEE, SIZE);
		assert_int_equal(ckpt_piece_reader_new(&m, paths, 0, rows[i].direct, &reader, NULL), 0);
		assert_int_equal(ckpt_piece_reader_read(reader, &piece, buf, NULL, NULL), 0);
		ckpt_piece_reader_free(reader);
		assert_memory_equal(buf, data, piece.len);
		assert_true(!can || ckpt_direct_is_cached(src, 0, SIZE) == rows[i].is_cached);
	}
	ckpt_manifest_clear(&m);
	close(fd);
	ckpt_source_unref(src);
	free(buf);
	if (!can) /* a file system in memory, or a cache that others keep */
		skip();
}

static void what_is_no_file_has_no_such_descriptor(void **state)
{
	struct ckpt_source *src;

	(void)state;
	assert_int_equal(ckpt_source_from_memory("abc", 3, &src, NULL), 0);
	assert_int_equal(ckpt_direct_open(src), -1);
	ckpt_source_unref(src);
}

UNIT_SUITE(test_direct)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_part_is_the_same_as_read_as_usual),
		cmocka_unit_test(what_cannot_be_read_so_is_read_as_usual),
		cmocka_unit_test(nothing_comes_into_the_cache),
		cmocka_unit_test(pieces_are_read_as_they_are_told),
		cmocka_unit_test(what_is_no_file_has_no_such_descriptor),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
