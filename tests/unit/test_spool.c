/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"
#include "io/spool.h"

#include <ckpt/ckpt.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Pipes: what comes out of one becomes a file, and a file goes into one, in order. */

enum { LARGE = 3 << 20 };

static uint8_t bytes[LARGE];
static struct ckpt_error err;
static char *folder;

static int setup(void **state)
{
	(void)state;
	for (size_t i = 0; i < LARGE; i++)
		bytes[i] = (uint8_t)(i * 31 + (i >> 12));
	signal(SIGPIPE, SIG_IGN);
	folder = unit_folder_new();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ckpt_io_set_hook(NULL, NULL);
	assert_int_equal(unit_folder_count(folder), 0); /* nothing of it has a name */
	unit_folder_remove(folder);
	return 0;
}

/* Writes LEN bytes to FD in small pieces, and ends. */
struct writer {
	int fd;
	size_t len;
};

static void *write_all(void *arg)
{
	const struct writer *w = arg;

	for (size_t off = 0; off < w->len;) {
		size_t n = w->len - off < 7777 ? w->len - off : 7777;
		ssize_t got = write(w->fd, bytes + off, n);

		if (got <= 0)
			break;
		off += (size_t)got;
	}
	close(w->fd);
	return NULL;
}

static int spool_of(size_t len, uint64_t limit, int flags, int *file)
{
	int ends[2], rc;
	pthread_t thread;
	struct writer w = { .len = len };

	assert_int_equal(pipe(ends), 0);
	assert_true(fcntl(ends[0], F_SETFL, flags) == 0);
	w.fd = ends[1];
	assert_int_equal(pthread_create(&thread, NULL, write_all, &w), 0);
	rc = ckpt_spool(ends[0], folder, limit, file, &err);
	close(ends[0]);
	pthread_join(thread, NULL);
	return rc;
}

static void a_pipe_becomes_a_file_of_the_same_bytes(void **state)
{
	static const size_t sizes[] = { 0, 1, 65536, 262144, 262145, LARGE };
	static uint8_t found[LARGE];
	struct stat st;
	int file;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(spool_of(sizes[i], sizes[i], i % 2 ? O_NONBLOCK : 0, &file), 0);
		assert_int_equal(fstat(file, &st), 0);
		assert_int_equal(st.st_size, sizes[i]);
		assert_int_equal(st.st_nlink, 0);
		assert_int_equal(st.st_mode & 0777, 0666);
		assert_int_equal(pread(file, found, LARGE, 0), sizes[i]);
		assert_memory_equal(found, bytes, sizes[i]);
		close(file);
	}
}

static void a_pipe_with_more_than_the_limit_is_refused(void **state)
{
	char want[300];
	int file;

	(void)state;
	assert_int_equal(spool_of(LARGE, LARGE - 1, 0, &file), CKPT_E_LIMIT);
	assert_int_equal(file, -1);
	snprintf(want, sizeof(want),
		 "has more than 3145727 bytes, the limit of what is kept in '%s'", folder);
	assert_string_equal(unit_text(&err), want);
	err = (struct ckpt_error)CKPT_ERROR_INIT;
	assert_int_equal(spool_of(1, 0, 0, &file), CKPT_E_LIMIT);
	err = (struct ckpt_error)CKPT_ERROR_INIT;
}

static int fail_write(void *ctx, enum ckpt_io_op op)
{
	int *left = ctx;

	return op == CKPT_IO_WRITE && (*left)-- == 0 ? ENOSPC : 0;
}

static void a_full_disk_and_a_missing_folder_are_said(void **state)
{
	int file, left = 2;

	(void)state;
	ckpt_io_set_hook(fail_write, &left);
	assert_int_equal(spool_of(LARGE, LARGE, 0, &file), CKPT_E_IO);
	ckpt_io_set_hook(NULL, NULL);
	assert_int_equal(file, -1);
	assert_int_equal(err.sys_errno, ENOSPC);
	err = (struct ckpt_error)CKPT_ERROR_INIT;
	assert_int_equal(ckpt_spool(0, "/none", 1, &file, &err), CKPT_E_IO);
	assert_string_equal(unit_text(&err),
			    "cannot create a temporary file in '/none': No such file or directory");
	err = (struct ckpt_error)CKPT_ERROR_INIT;
	assert_int_equal(ckpt_spool(1000, folder, 1, &file, &err), CKPT_E_IO);
	assert_string_equal(unit_text(&err), "cannot be read: Bad file descriptor");
	err = (struct ckpt_error)CKPT_ERROR_INIT;
}

/* Reads FD to its end and compares. */
static void *read_all(void *arg)
{
	int fd = *(int *)arg;
	uint8_t got[5000];
	uint64_t off = 0;

	for (ssize_t n; (n = read(fd, got, sizeof(got))) > 0; off += (uint64_t)n)
		if (off + (uint64_t)n > LARGE || memcmp(got, bytes + off, (size_t)n) != 0)
			return (void *)1;
	return off == LARGE ? NULL : (void *)2;
}

static int source(void)
{
	int fd = ckpt_spool_create(folder, &err);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, LARGE, 0), LARGE);
	return fd;
}

static void a_file_goes_in_order_into_pipes_and_sockets(void **state)
{
	int file = source();

	(void)state;
	for (int i = 0; i < 4; i++) {
		int ends[2];
		pthread_t thread;
		void *wrong;

		assert_int_equal(i < 2 ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		if (i % 2)
			assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
		assert_int_equal(pthread_create(&thread, NULL, read_all, &ends[0]), 0);
		assert_int_equal(ckpt_spool_send(file, LARGE, ends[1], NULL, &err), 0);
		assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, i % 2 ? O_NONBLOCK : 0);
		close(ends[1]);
		pthread_join(thread, &wrong);
		assert_null(wrong);
		close(ends[0]);
	}
	close(file);
}

static void a_reader_that_goes_away_is_an_error(void **state)
{
	int file = source(), ends[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(i ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		close(ends[0]);
		assert_int_equal(ckpt_spool_send(file, LARGE, ends[1], NULL, &err), CKPT_E_IO);
		assert_string_equal(unit_text(&err), "cannot write: Broken pipe");
		err = (struct ckpt_error)CKPT_ERROR_INIT;
		close(ends[1]);
	}
	close(file);
}

static void *set_flag(void *arg)
{
	usleep(50000);
	*(volatile int *)arg = 1;
	return NULL;
}

static void a_reader_that_stands_still_can_be_left(void **state)
{
	int file = source(), ends[2];
	volatile int cancel = 0;
	pthread_t thread;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pthread_create(&thread, NULL, set_flag, (void *)&cancel), 0);
	assert_int_equal(ckpt_spool_send(file, LARGE, ends[1], &cancel, &err), CKPT_E_CANCELLED);
	err = (struct ckpt_error)CKPT_ERROR_INIT;
	pthread_join(thread, NULL);
	close(ends[0]);
	close(ends[1]);
	close(file);
}

static int fail_read(void *ctx, enum ckpt_io_op op)
{
	(void)ctx;
	return op == CKPT_IO_READ ? EIO : 0;
}

static void a_file_that_cannot_be_read_back_is_an_error(void **state)
{
	int file = source(), ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	ckpt_io_set_hook(fail_read, NULL);
	assert_int_equal(ckpt_spool_send(file, LARGE, ends[1], NULL, &err), CKPT_E_IO);
	ckpt_io_set_hook(NULL, NULL);
	assert_int_equal(err.sys_errno, EIO);
	err = (struct ckpt_error)CKPT_ERROR_INIT;
	close(ends[0]);
	close(ends[1]);
	close(file);
}

/* ---- ckpt_save() ---- */

static const struct {
	const char *format;
	uint32_t ranks;
	uint64_t shard_size;
	int want;
} saves[] = {
	{ NULL, 0, 0, 0 },
	{ "torch", 0, 0, 0 },
	{ "torch-legacy", 0, 0, 0 },
	{ "safetensors", 0, 0, 0 },
	{ "npz", 0, 0, 0 },
	{ "npy", 0, 0, CKPT_E_OUTPUT },
	{ "dcp", 2, 0, CKPT_E_OUTPUT },
	{ "safetensors", 2, 0, CKPT_E_OUTPUT },
	{ "safetensors", 0, 1000, CKPT_E_OUTPUT },
};

/* {"w": a float} */
static struct ckpt_model *small_model(const char *path)
{
	struct ckpt_buf pickle = { 0 }, whole = { 0 }, file;
	struct unit_record records[3];
	struct ckpt_model *model;

	ckpt_buf_printf(&pickle, "}");
	unit_put_str(&pickle, "w");
	unit_put_tensor(&pickle, "0", 1);
	ckpt_buf_printf(&pickle, "s.");
	ckpt_buf_add(&whole, "\x80\x02", 2);
	ckpt_buf_add(&whole, pickle.data, pickle.len);
	records[0] = (struct unit_record){ "data.pkl", whole.data, whole.len };
	records[1] = (struct unit_record){ "data/0", "\0\0\x80?", 4 };
	records[2] = (struct unit_record){ "version", "3\n", 2 };
	file = unit_zip("archive", records, 3);
	unit_write_file(path, file.data, file.len);
	ckpt_buf_clear(&file);
	ckpt_buf_clear(&whole);
	ckpt_buf_clear(&pickle);
	assert_int_equal(ckpt_open(path, &model, &err), 0);
	return model;
}

static void a_save_to_a_descriptor_is_all_bytes_or_none(void **state)
{
	char *in = unit_path(folder, "in.pt"), *out = unit_path(folder, "archive.out");
	struct ckpt_model *model = small_model(in);

	(void)state;
	for (size_t i = 0; i < sizeof(saves) / sizeof(saves[0]); i++) {
		struct ckpt_save_options o = CKPT_SAVE_OPTIONS_INIT;
		int ends[2];
		struct ckpt_buf want;
		static uint8_t got[65536];

		o.format = saves[i].format;
		o.ranks = saves[i].ranks;
		o.shard_size = saves[i].shard_size;
		o.flags = CKPT_SAVE_CANONICAL | CKPT_SAVE_REPLACE;
		if (!saves[i].want)
			assert_int_equal(ckpt_save(model, out, &o, NULL, &err), 0);
		assert_int_equal(pipe(ends), 0);
		o.flags = CKPT_SAVE_CANONICAL | CKPT_SAVE_TO_FD;
		o.out_fd = ends[1];
		o.spool_folder = folder;
		assert_int_equal(ckpt_save(model, "a pipe", &o, NULL, &err), saves[i].want);
		if (saves[i].want)
			assert_string_equal(unit_text(&err),
					    "a directory of files cannot go to a pipe");
		err = (struct ckpt_error)CKPT_ERROR_INIT;
		close(ends[1]);
		if (!saves[i].want) {
			want = unit_read_file(out);
			assert_int_equal(read(ends[0], got, sizeof(got)), want.len);
			assert_memory_equal(got, want.data, want.len);
			ckpt_buf_clear(&want);
		}
		assert_int_equal(read(ends[0], got, 1), 0);
		close(ends[0]);
	}
	ckpt_close(model);
	unlink(in);
	unlink(out);
	free(in);
	free(out);
}

static void a_descriptor_that_is_the_input_or_not_to_be_written_is_refused(void **state)
{
	char *in = unit_path(folder, "in.pt");
	struct ckpt_model *model = small_model(in);
	struct ckpt_save_options o = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_buf was = unit_read_file(in), is;

	(void)state;
	o.flags = CKPT_SAVE_TO_FD;
	o.spool_folder = folder;
	o.out_fd = open(in, O_WRONLY | O_APPEND);
	assert_int_equal(ckpt_save(model, "it", &o, NULL, &err), CKPT_E_OUTPUT);
	assert_string_equal(unit_text(&err), "the output is the input itself");
	err = (struct ckpt_error)CKPT_ERROR_INIT;
	close(o.out_fd);
	o.out_fd = open("/dev/null", O_RDONLY);
	assert_int_equal(ckpt_save(model, "it", &o, NULL, &err), CKPT_E_IO);
	err = (struct ckpt_error)CKPT_ERROR_INIT;
	close(o.out_fd);
	o.out_fd = 1000;
	assert_int_equal(ckpt_save(model, "it", &o, NULL, &err), CKPT_E_IO);
	assert_string_equal(unit_text(&err), "cannot be written to: Bad file descriptor");
	err = (struct ckpt_error)CKPT_ERROR_INIT;
	o.flags |= CKPT_SAVE_DRY_RUN;
	o.out_fd = open("/dev/null", O_WRONLY);
	assert_int_equal(ckpt_save(model, "it", &o, NULL, &err), 0);
	close(o.out_fd);
	is = unit_read_file(in);
	assert_int_equal(is.len, was.len);
	ckpt_buf_clear(&is);
	ckpt_buf_clear(&was);
	ckpt_close(model);
	unlink(in);
	free(in);
}

#define WITH_FOLDER(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

UNIT_SUITE(test_spool)
{
	const struct CMUnitTest tests[] = {
		WITH_FOLDER(a_pipe_becomes_a_file_of_the_same_bytes),
		WITH_FOLDER(a_pipe_with_more_than_the_limit_is_refused),
		WITH_FOLDER(a_full_disk_and_a_missing_folder_are_said),
		WITH_FOLDER(a_file_goes_in_order_into_pipes_and_sockets),
		WITH_FOLDER(a_reader_that_goes_away_is_an_error),
		WITH_FOLDER(a_reader_that_stands_still_can_be_left),
		WITH_FOLDER(a_file_that_cannot_be_read_back_is_an_error),
		WITH_FOLDER(a_save_to_a_descriptor_is_all_bytes_or_none),
		WITH_FOLDER(a_descriptor_that_is_the_input_or_not_to_be_written_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
