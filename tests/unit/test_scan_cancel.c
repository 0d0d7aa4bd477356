/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"

#include <ckpt/ckpt.h>

#include <string.h>

/* A scan that is ended at any of its reads has no verdict: what it did not see may be anything. */

static char *folder, *path;
static volatile int cancel;
static unsigned ends_at, reads, verdicts;

static int setup(void **state)
{
	(void)state;
	folder = unit_folder_new();
	path = unit_path(folder, "file.pt");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unit_folder_remove(folder);
	free(path);
	return 0;
}

static int end_at_read(void *ctx, enum ckpt_io_op op)
{
	(void)ctx;
	if (op == CKPT_IO_READ && ++reads == ends_at)
		cancel = 1;
	return 0;
}

static int count_verdict(void *ctx, const struct ckpt_scan_file *file)
{
	(void)ctx;
	(void)file;
	verdicts++;
	return 0;
}

/* 0, or what the scan says that is ended at read AT. */
static int scan(unsigned at)
{
	struct ckpt_scan_options options = CKPT_SCAN_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	options.cancel = &cancel;
	options.threads = 1;
	cancel = 0;
	reads = verdicts = 0;
	ends_at = at;
	ckpt_io_set_hook(end_at_read, NULL);
	rc = ckpt_scan(path, &options, count_verdict, NULL, NULL, &err);
	ckpt_io_set_hook(NULL, NULL);
	return rc;
}

static void assert_no_verdict_whenever_it_ends(void)
{
	unsigned all;

	assert_int_equal(scan(0), 0);
	assert_int_equal(verdicts, 1);
	all = reads;
	assert_true(all > 1);
	for (unsigned at = 1; at <= all; at++) {
		assert_int_equal(scan(at), CKPT_E_CANCELLED);
		assert_int_equal(verdicts, 0);
	}
}

static void zeros_behind_a_stream(void **state)
{
	static const char stream[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e\x80\x02\x4d\xe9\x03\x2e"
				     "\x80\x02}q\x00.\x80\x02}q\x00.\x80\x02]q\x00.";
	uint8_t *bytes = calloc(1, 300000);

	(void)state;
	memcpy(bytes, stream, sizeof(stream) - 1);
	unit_write_file(path, bytes, 300000);
	free(bytes);
	assert_no_verdict_whenever_it_ends();
}

/* Texts of numpy are looked at in pieces. */
static void texts_of_an_array(void **state)
{
	struct ckpt_buf file = { 0 };
	char header[119];

	(void)state;
	memset(header, ' ', sizeof(header));
	memcpy(header, "{'descr': '<U4', 'fortran_order': False, 'shape': (5000,), }", 60);
	header[117] = '\n';
	ckpt_buf_add(&file, "\x93NUMPY\x01\x00\x76\x00", 10);
	ckpt_buf_add(&file, header, 118);
	for (unsigned i = 0; i < 5000 * 4; i++)
		ckpt_buf_add(&file, "a\0\0", 4);
	free(path);
	path = unit_path(folder, "file.npy");
	unit_write_file(path, file.data, file.len);
	ckpt_buf_clear(&file);
	assert_no_verdict_whenever_it_ends();
}

UNIT_SUITE(test_scan_cancel)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(zeros_behind_a_stream, setup, teardown),
		cmocka_unit_test_setup_teardown(texts_of_an_array, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
