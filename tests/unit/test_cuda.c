/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "../doubles/fake_cuda.h"
#include "gpu/cuda_driver.h"
#include "gpu_doubles.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 100000 };

static char host[65];

/* Opening GPU ORDINAL fails, and says TEXT, in which %s is the host. */
static void check_open_fails(uint32_t ordinal, int status, const char *text)
{
	char wanted[600];
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_cuda *cuda;

	snprintf(wanted, sizeof(wanted), text, host);
	assert_int_equal(ckpt_cuda_open(ordinal, &cuda, &err), status);
	assert_null(cuda);
	assert_string_equal(unit_text(&err), wanted);
}

/* The first that tests ask for: a driver that works is kept for good. */
static void a_machine_without_a_driver_says_so(void **state)
{
	struct ckpt_cuda_facts facts;
	void *real = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	(void)state;
	if (real)
		skip();
	check_open_fails(0, CKPT_E_UNSUPPORTED,
			 "no NVIDIA driver on %s (libcuda.so.1 not found): run on a GPU node, or "
			 "use --transport tcp or mpi, which need no GPU");
	ckpt_cuda_find_facts(&facts);
	assert_false(facts.has_driver);
	assert_int_equal(facts.gpu_count, 0);
	assert_non_null(strstr(facts.text, "no NVIDIA driver on "));
}

static void a_library_that_is_not_there_is_named(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_cuda *cuda;

	(void)state;
	setenv("CKPT_CUDA_LIB", "/nowhere/libcuda.so.1", 1);
	assert_int_equal(ckpt_cuda_open(0, &cuda, &err), CKPT_E_UNSUPPORTED);
	assert_non_null(strstr(unit_text(&err), "cannot load the library that CKPT_CUDA_LIB names: "));
	assert_non_null(strstr(unit_text(&err), "/nowhere/libcuda.so.1"));
	unsetenv("CKPT_CUDA_LIB");
}

static bool keeps_the_environment(void)
{
	struct ckpt_cuda *cuda;

	doubles_use("fake_cuda.so", NULL);
	unsetenv("CUDA_MODULE_LOADING");
	return ckpt_cuda_open(0, &cuda, NULL) == 0 && !getenv("CUDA_MODULE_LOADING");
}

static void the_environment_is_left_alone(void **state)
{
	(void)state;
	assert_true(doubles_in_child(keeps_the_environment));
}

static void the_stub_of_the_toolkit_is_named(void **state)
{
	static const char *const places[] = { "/usr/local/cuda/lib64/stubs/libcuda.so",
					      "/usr/local/cuda/lib/stubs/libcuda.so", NULL };
	const char *stub = toolkit_file(places);
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_cuda_facts facts;
	struct ckpt_cuda *cuda;

	(void)state;
	if (!stub)
		skip();
	setenv("CKPT_CUDA_LIB", stub, 1);
	assert_int_equal(ckpt_cuda_open(0, &cuda, &err), CKPT_E_UNSUPPORTED);
	assert_non_null(strstr(unit_text(&err), "found the CUDA toolkit's stub library at "));
	assert_non_null(strstr(unit_text(&err), stub));
	ckpt_cuda_find_facts(&facts);
	assert_false(facts.has_driver);
	unsetenv("CKPT_CUDA_LIB");
}

static void a_driver_without_a_gpu_says_so(void **state)
{
	struct ckpt_cuda_facts facts;

	(void)state;
	doubles_use("fake_cuda.so", NULL);
	setenv("FAKE_CUDA_GPUS", "0", 1);
	check_open_fails(0, CKPT_E_UNSUPPORTED,
			 "the NVIDIA driver of %s (for CUDA 12.4) finds no GPU");
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	check_open_fails(0, CKPT_E_UNSUPPORTED,
			 "the NVIDIA driver of %s (for CUDA 12.4) finds no GPU: "
			 "CUDA_VISIBLE_DEVICES is ''");
	unsetenv("CUDA_VISIBLE_DEVICES");
	ckpt_cuda_find_facts(&facts);
	assert_true(facts.has_driver);
	assert_int_equal(facts.driver_version, 12040);
	unsetenv("FAKE_CUDA_GPUS");
}

static void a_driver_that_does_not_start_says_why(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_cuda *cuda;

	(void)state;
	setenv("FAKE_CUDA_FAIL", "cuInit:803", 1);
	assert_int_equal(ckpt_cuda_open(0, &cuda, &err), CKPT_E_UNSUPPORTED);
	assert_non_null(
		strstr(unit_text(&err), "does not start: error 803, which the driver does not name"));
	assert_non_null(strstr(unit_text(&err), getenv("CKPT_CUDA_LIB")));
	unsetenv("FAKE_CUDA_FAIL");
}

static void a_gpu_that_is_not_there_is_counted(void **state)
{
	(void)state;
	setenv("FAKE_CUDA_GPUS", "2", 1);
	check_open_fails(2, CKPT_E_UNSUPPORTED,
			 "there is no GPU 2 on %s: the driver counts 2, from 0");
	unsetenv("FAKE_CUDA_GPUS");
}

static void what_there_is_is_told(void **state)
{
	struct ckpt_cuda_facts facts;

	(void)state;
	ckpt_cuda_find_facts(&facts);
	assert_true(facts.has_driver);
	assert_int_equal(facts.gpu_count, 1);
	assert_string_equal(facts.text, "driver for CUDA 12.4, 1 GPU");
}

/* ---- with a GPU ---- */

static uint8_t *make_bytes(unsigned start)
{
	uint8_t *bytes = malloc(SIZE);

	assert_non_null(bytes);
	for (unsigned i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(start + i * 2654435761u / 65536);
	return bytes;
}

static struct ckpt_cuda *open_gpu(void)
{
	struct ckpt_cuda *cuda;

	assert_int_equal(ckpt_cuda_open(0, &cuda, NULL), 0);
	return cuda;
}

/* Any thread may copy. */
static void *copy_there_and_back(void *arg)
{
	struct ckpt_cuda *cuda = arg;
	uint8_t *bytes = make_bytes((unsigned)(uintptr_t)pthread_self()), *back = malloc(SIZE);
	ckpt_cuda_address address;

	assert_int_equal(ckpt_cuda_alloc(cuda, SIZE, &address, NULL), 0);
	for (unsigned i = 0; i < 20; i++) {
		memset(back, 0, SIZE);
		assert_int_equal(ckpt_cuda_upload(cuda, address, bytes, SIZE, NULL), 0);
		assert_int_equal(ckpt_cuda_download(cuda, back, address, SIZE, NULL), 0);
		assert_memory_equal(back, bytes, SIZE);
	}
	ckpt_cuda_free(cuda, address);
	free(bytes);
	free(back);
	return NULL;
}

static void threads_copy_there_and_back(void **state)
{
	struct ckpt_cuda *cuda = open_gpu();
	pthread_t threads[3];

	(void)state;
	for (unsigned i = 0; i < COUNT(threads); i++)
		pthread_create(&threads[i], NULL, copy_there_and_back, cuda);
	for (unsigned i = 0; i < COUNT(threads); i++)
		pthread_join(threads[i], NULL);
	ckpt_cuda_close(cuda);
	assert_int_equal(doubles_cuda_live(), 0);
}

/* Two streams, one of which waits for the other. Returns the first error. */
static int copy_in_streams(struct ckpt_cuda *cuda, const uint8_t *bytes, uint8_t *back,
			   struct ckpt_error *err)
{
	ckpt_cuda_stream in = NULL, out = NULL;
	ckpt_cuda_event came = NULL, done = NULL;
	ckpt_cuda_address a = 0, b = 0;
	struct ckpt_cuda_host page_locked = { NULL, false };
	int rc = ckpt_cuda_alloc(cuda, SIZE, &a, err);

	rc = rc < 0 ? rc : ckpt_cuda_alloc(cuda, SIZE, &b, err);
	rc = rc < 0 ? rc : ckpt_cuda_alloc_host(cuda, SIZE, &page_locked, err);
	rc = rc < 0 ? rc : ckpt_cuda_stream_new(cuda, &in, err);
	rc = rc < 0 ? rc : ckpt_cuda_stream_new(cuda, &out, err);
	rc = rc < 0 ? rc : ckpt_cuda_event_new(cuda, &came, err);
	rc = rc < 0 ? rc : ckpt_cuda_event_new(cuda, &done, err);
	rc = rc < 0 ? rc : ckpt_cuda_upload_in(cuda, in, a, bytes, SIZE, err);
	rc = rc < 0 ? rc : ckpt_cuda_copy_in(cuda, in, b, a, SIZE, err);
	rc = rc < 0 ? rc : ckpt_cuda_event_record(cuda, came, in, err);
	rc = rc < 0 ? rc : ckpt_cuda_stream_wait(cuda, out, came, err);
	rc = rc < 0 ? rc : ckpt_cuda_download_in(cuda, out, page_locked.memory, b, SIZE, err);
	rc = rc < 0 ? rc : ckpt_cuda_event_record(cuda, done, out, err);
	while (rc == 0)
		rc = ckpt_cuda_event_done(cuda, done, err);
	if (rc == 1)
		memcpy(back, page_locked.memory, SIZE);
	ckpt_cuda_event_free(cuda, came);
	ckpt_cuda_event_free(cuda, done);
	ckpt_cuda_stream_free(cuda, in);
	ckpt_cuda_stream_free(cuda, out);
	ckpt_cuda_free_host(cuda, page_locked);
	ckpt_cuda_free(cuda, a);
	ckpt_cuda_free(cuda, b);
	return rc;
}

static void streams_wait_for_each_other(void **state)
{
	uint8_t *bytes = make_bytes(3), *back = malloc(SIZE);
	struct ckpt_cuda *cuda = open_gpu();

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		memset(back, 0, SIZE);
		assert_int_equal(copy_in_streams(cuda, bytes, back, NULL), 1);
		assert_memory_equal(back, bytes, SIZE);
	}
	ckpt_cuda_close(cuda);
	assert_int_equal(doubles_cuda_live(), 0);
	free(bytes);
	free(back);
}

/* The context of the thread that calls is what it was. */
static void the_context_of_the_caller_stays(void **state)
{
	const struct ckpt_cuda_driver *driver;
	struct CUctx_st *other, *popped;
	struct ckpt_cuda *cuda;
	ckpt_cuda_address address;
	int version;

	(void)state;
	setenv("FAKE_CUDA_GPUS", "2", 1);
	cuda = open_gpu();
	assert_int_equal(ckpt_cuda_driver_get(&driver, &version, NULL), 0);
	assert_int_equal(driver->cuDevicePrimaryCtxRetain(&other, 1), 0);
	assert_int_equal(driver->cuCtxPushCurrent_v2(other), 0);
	assert_int_equal(ckpt_cuda_alloc(cuda, 10, &address, NULL), 0);
	ckpt_cuda_free(cuda, address);
	assert_int_equal(driver->cuCtxPopCurrent_v2(&popped), 0);
	assert_ptr_equal(popped, other);
	assert_int_equal(driver->cuDevicePrimaryCtxRelease_v2(1), 0);
	ckpt_cuda_close(cuda);
	unsetenv("FAKE_CUDA_GPUS");
}

static void what_the_driver_refuses_is_told(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_cuda *cuda = open_gpu();
	ckpt_cuda_address address;

	(void)state;
	setenv("FAKE_CUDA_FAIL", "cuMemAlloc_v2:2:1", 1);
	assert_int_equal(ckpt_cuda_alloc(cuda, 10, &address, &err), CKPT_E_GPU);
	assert_string_equal(unit_text(&err),
			    "cuMemAlloc_v2 on GPU 0: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
	assert_int_equal(address, 0);
	setenv("FAKE_CUDA_FAIL", "cuCtxPushCurrent_v2:719:1", 1);
	assert_int_equal(ckpt_cuda_alloc(cuda, 10, &address, &err), CKPT_E_GPU);
	assert_non_null(strstr(unit_text(&err), "cuCtxPushCurrent on GPU 0: CUDA_ERROR_LAUNCH_FAILED"));
	unsetenv("FAKE_CUDA_FAIL");
	ckpt_cuda_close(cuda);
}

/* An event that the driver cannot answer for is an error at once, and not one that is still to come. */
static void an_event_that_fails_is_told(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_cuda *cuda = open_gpu();
	ckpt_cuda_stream stream;
	ckpt_cuda_event event;

	(void)state;
	assert_int_equal(ckpt_cuda_stream_new(cuda, &stream, &err), 0);
	assert_int_equal(ckpt_cuda_event_new(cuda, &event, &err), 0);
	assert_int_equal(ckpt_cuda_event_record(cuda, event, stream, &err), 0);
	setenv("FAKE_CUDA_FAIL", "cuEventQuery:719:1", 1);
	assert_int_equal(ckpt_cuda_event_done(cuda, event, &err), CKPT_E_GPU);
	assert_non_null(strstr(unit_text(&err), "cuEventQuery on GPU 0: CUDA_ERROR_LAUNCH_FAILED"));
	unsetenv("FAKE_CUDA_FAIL");
	ckpt_cuda_event_free(cuda, event);
	ckpt_cuda_stream_free(cuda, stream);
	ckpt_cuda_close(cuda);
}

/* Every call fails once: an error is told, and nothing is left. */
static void every_call_may_fail(void **state)
{
	uint8_t *bytes = make_bytes(5), *back = malloc(SIZE);
	unsigned before, calls, failed = 0;
	struct ckpt_cuda *cuda;

	(void)state;
	before = doubles_cuda_calls();
	cuda = open_gpu();
	assert_int_equal(copy_in_streams(cuda, bytes, back, NULL), 1);
	ckpt_cuda_close(cuda);
	calls = doubles_cuda_calls() - before;
	for (unsigned nth = 1; nth <= calls; nth++) {
		struct ckpt_error err = CKPT_ERROR_INIT;
		char spec[40];
		int rc;

		snprintf(spec, sizeof(spec), "*:719:%u", nth);
		setenv("FAKE_CUDA_FAIL", spec, 1);
		rc = ckpt_cuda_open(0, &cuda, &err);
		if (rc == 0)
			rc = copy_in_streams(cuda, bytes, back, &err);
		ckpt_cuda_close(cuda);
		assert_int_equal(doubles_cuda_live(), 0);
		if (rc >= 0)
			continue;
		assert_int_equal(rc, CKPT_E_GPU);
		assert_non_null(strstr(unit_text(&err), "CUDA_ERROR_LAUNCH_FAILED"));
		failed++;
	}
	assert_true(failed > 15);
	unsetenv("FAKE_CUDA_FAIL");
	free(bytes);
	free(back);
}

UNIT_SUITE(test_cuda)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_machine_without_a_driver_says_so),
		cmocka_unit_test(a_library_that_is_not_there_is_named),
		cmocka_unit_test(the_environment_is_left_alone),
		cmocka_unit_test(the_stub_of_the_toolkit_is_named),
		cmocka_unit_test(a_driver_without_a_gpu_says_so),
		cmocka_unit_test(a_driver_that_does_not_start_says_why),
		cmocka_unit_test(a_gpu_that_is_not_there_is_counted),
		cmocka_unit_test(what_there_is_is_told),
		cmocka_unit_test(threads_copy_there_and_back),
		cmocka_unit_test(streams_wait_for_each_other),
		cmocka_unit_test(the_context_of_the_caller_stays),
		cmocka_unit_test(what_the_driver_refuses_is_told),
		cmocka_unit_test(an_event_that_fails_is_told),
		cmocka_unit_test(every_call_may_fail),
	};

	setenv("FAKE_CUDA_STRICT", "1", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	gethostname(host, sizeof(host) - 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
