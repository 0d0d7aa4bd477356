/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "broadcast/broadcast.h"
#include "gpu_doubles.h"
#include "sim_transport.h"

#include <ckpt/ckpt.h>

#include <libdeflate.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * What a broadcast leaves on GPUs. The ranks are threads, and the driver is the double of tests/doubles, whose GPU is
 * memory of the host: that the right bytes go to the right addresses is tested, not that a GPU takes them.
 */

enum { RANKS = 3, CHUNK = 1 << 20, SIZE = 3 * CHUNK + 4321, NUMEL = 50000 };

static char *folder, *source;
static uint8_t *data;
static struct rank {
	pthread_t thread;
	struct ckpt_session session;
	struct ckpt_transport *transport;
	struct ckpt_broadcast_report report;
	struct ckpt_error err;
	int rc;
} ranks[RANKS];

static void fill(uint8_t *to, size_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		to[i] = (uint8_t)((i + seed) * 2654435761u >> 24);
}

static int setup(void **state)
{
	(void)state;
	doubles_use("fake_cuda.so", NULL);
	folder = unit_folder_new();
	source = unit_path(folder, "model.pt");
	data = malloc(SIZE);
	fill(data, SIZE, 0);
	unit_write_file(source, data, SIZE);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++)
		ckpt_gpu_release(ranks[i].report.gpu);
	memset(ranks, 0, sizeof(ranks));
	unsetenv("FAKE_CUDA_FAIL");
	free(data);
	free(source);
	unit_folder_remove(folder);
	return 0;
}

static void *run_rank(void *arg)
{
	struct rank *r = arg;

	r->rc = ckpt_broadcast_over(&r->session, r->transport, &r->report, &r->err);
	return NULL;
}

static void start(struct sim *sim, uint32_t i, const char *const *sources, size_t count,
		  unsigned flags)
{
	struct ckpt_broadcast_options o = CKPT_BROADCAST_OPTIONS_INIT;
	struct rank *r = &ranks[i];

	o.chunk = CHUNK;
	o.timeout_s = 20;
	o.threads = 2;
	o.gpu = 0;
	o.flags = CKPT_BROADCAST_TO_GPU | flags;
	r->report = (struct ckpt_broadcast_report)CKPT_BROADCAST_REPORT_INIT;
	assert_int_equal(ckpt_session_init(&r->session, sources, count, NULL, &o), 0);
	r->session.world = (struct ckpt_world){ .rank = i, .size = sim->size, .launcher = "sim" };
	r->transport = sim_open(sim, i);
	assert_int_equal(pthread_create(&r->thread, NULL, run_rank, r), 0);
}

static void broadcast(const char *const *sources, size_t count, unsigned flags)
{
	struct sim sim;

	sim_init(&sim, RANKS);
	for (uint32_t i = 0; i < RANKS; i++)
		start(&sim, i, sources, count, flags);
	for (uint32_t i = 0; i < RANKS; i++)
		pthread_join(ranks[i].thread, NULL);
	sim_clear(&sim);
}

static void assert_file(const struct ckpt_gpu_copy *gpu, uint32_t i, const char *path,
			const void *bytes, size_t len)
{
	struct ckpt_gpu_file file = CKPT_GPU_FILE_INIT;
	struct ckpt_error err;
	uint8_t *found = malloc(len + 1);

	assert_int_equal(ckpt_gpu_file_get(gpu, i, &file), 0);
	assert_string_equal(file.path, path);
	assert_int_equal(file.nbytes, len);
	assert_int_equal(file.address % 256, 0);
	assert_int_equal(ckpt_gpu_read(gpu, file.address, found, len, &err), 0);
	assert_memory_equal(found, bytes, len);
	free(found);
}

static void every_rank_has_the_bytes(void **state)
{
	const char *const sources[] = { source };

	(void)state;
	for (unsigned verify = 0; verify < 2; verify++) {
		broadcast(sources, 1, verify ? 0 : CKPT_BROADCAST_NO_VERIFY);
		for (uint32_t i = 0; i < RANKS; i++) {
			assert_int_equal(ranks[i].rc, 0);
			assert_non_null(ranks[i].report.gpu);
			assert_int_equal(ckpt_gpu_file_count(ranks[i].report.gpu), 1);
			assert_file(ranks[i].report.gpu, 0, "model.pt", data, SIZE);
			ckpt_gpu_release(ranks[i].report.gpu);
			ranks[i].report.gpu = NULL;
		}
		assert_int_equal(unit_folder_count(folder), 1); /* no file was written */
	}
}

static void several_files_lie_one_behind_the_other(void **state)
{
	char *second = unit_path(folder, "second"), *empty = unit_path(folder, "empty");
	const char *const sources[] = { source, empty, second };

	(void)state;
	unit_write_file(second, "abc", 3);
	unit_write_file(empty, "", 0);
	broadcast(sources, 3, 0);
	for (uint32_t i = 0; i < RANKS; i++) {
		assert_int_equal(ranks[i].rc, 0);
		assert_int_equal(ckpt_gpu_file_count(ranks[i].report.gpu), 3);
		assert_file(ranks[i].report.gpu, 0, "model.pt", data, SIZE);
		assert_file(ranks[i].report.gpu, 1, "empty", "", 0);
		assert_file(ranks[i].report.gpu, 2, "second", "abc", 3);
	}
	free(second);
	free(empty);
}

static void what_is_not_of_the_copy_is_refused(void **state)
{
	const char *const sources[] = { source };
	struct ckpt_gpu_file file = CKPT_GPU_FILE_INIT;
	const struct ckpt_gpu_copy *gpu;
	struct ckpt_model *model;
	struct ckpt_error err;
	uint8_t byte;

	(void)state;
	broadcast(sources, 1, 0);
	gpu = ranks[0].report.gpu;
	assert_int_equal(ckpt_gpu_file_get(gpu, 1, &file), CKPT_E_ARG);
	assert_int_equal(ckpt_gpu_file_get(gpu, 0, &file), 0);
	assert_int_equal(ckpt_gpu_read(gpu, file.address - 1, &byte, 1, &err), CKPT_E_ARG);
	assert_int_equal(ckpt_gpu_read(gpu, file.address, &byte, SIZE + 256, &err), CKPT_E_ARG);
	assert_int_equal(ckpt_gpu_read(gpu, UINT64_MAX, &byte, 1, &err), CKPT_E_ARG);
	assert_int_equal(ckpt_gpu_open(gpu, 1, &model, &err), CKPT_E_ARG);
	assert_int_equal(ckpt_gpu_open(gpu, 0, &model, &err), CKPT_E_UNSUPPORTED);
	assert_string_equal(err.path, "model.pt");
}

/* ---- checkpoints ---- */

static uint8_t *storages[2]; /* float32 each */

/* A file with tensors "a" and "b" of NUMEL numbers each. */
static void write_checkpoint(const char *byteorder)
{
	struct ckpt_buf pickle = { 0 }, file;
	struct unit_record records[5];

	ckpt_buf_printf(&pickle, "%c%c}(", 0x80, 2);
	for (unsigned i = 0; i < 2; i++) {
		unit_put_str(&pickle, i ? "b" : "a");
		unit_put_tensor(&pickle, i ? "1" : "0", NUMEL);
		storages[i] = malloc(NUMEL * sizeof(float));
		fill(storages[i], NUMEL * sizeof(float), 7 + i);
	}
	ckpt_buf_printf(&pickle, "u.");
	records[0] = (struct unit_record){ "data.pkl", pickle.data, pickle.len };
	records[1] = (struct unit_record){ "byteorder", byteorder, strlen(byteorder) };
	records[4] = (struct unit_record){ "version", "3\n", 2 };
	for (unsigned i = 0; i < 2; i++)
		records[2 + i] = (struct unit_record){ i ? "data/1" : "data/0", storages[i],
						       NUMEL * sizeof(float) };
	file = unit_zip("archive", records, COUNT(records));
	unit_write_file(source, file.data, file.len);
	ckpt_buf_clear(&file);
	ckpt_buf_clear(&pickle);
}

static void free_storages(void)
{
	free(storages[0]);
	free(storages[1]);
}

static void tensors_are_where_the_table_says(void **state)
{
	const char *const sources[] = { source };

	(void)state;
	write_checkpoint("little");
	broadcast(sources, 1, 0);
	unlink(source); /* nothing is read from disk any more */
	for (uint32_t i = 0; i < RANKS; i++) {
		const struct ckpt_gpu_copy *gpu = ranks[i].report.gpu;
		struct ckpt_model *model;
		struct ckpt_error err;

		assert_int_equal(ckpt_gpu_open(gpu, 0, &model, &err), 0);
		assert_int_equal(ckpt_tensor_count(model), 2);
		for (unsigned k = 0; k < 2; k++) {
			struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;
			uint8_t found[NUMEL * sizeof(float)];
			uint64_t address;

			assert_int_equal(ckpt_tensor_get(model, k, &t), 0);
			assert_string_equal(t.name, k ? "b" : "a");
			assert_string_equal(t.dtype, "float32");
			assert_int_equal(t.ndim, 1);
			assert_int_equal(t.shape[0], NUMEL);
			assert_int_equal(t.stride[0], 1);
			assert_int_equal(ckpt_gpu_tensor_address(gpu, model, k, &address, &err), 0);
			assert_int_equal(address % 64, 0);
			assert_int_equal(ckpt_gpu_read(gpu, address, found, sizeof(found), &err),
					 0);
			assert_memory_equal(found, storages[k], sizeof(found));
		}
		ckpt_close(model);
	}
	free_storages();
}

static void tensors_that_are_not_there_as_they_are_have_no_address(void **state)
{
	const char *const sources[] = { source };
	struct ckpt_model *model, *other;
	struct ckpt_error err;
	uint64_t address;

	(void)state;
	write_checkpoint("big");
	broadcast(sources, 1, 0);
	assert_int_equal(ckpt_gpu_open(ranks[0].report.gpu, 0, &model, &err), 0);
	assert_int_equal(ckpt_gpu_tensor_address(ranks[0].report.gpu, model, 0, &address, &err),
			 CKPT_E_UNSUPPORTED);
	assert_non_null(strstr(unit_text(&err), "the file is big-endian"));
	assert_int_equal(ckpt_gpu_tensor_address(ranks[0].report.gpu, model, 2, &address, &err),
			 CKPT_E_ARG);
	assert_int_equal(ckpt_open(source, &other, &err), 0);
	assert_int_equal(ckpt_gpu_tensor_address(ranks[0].report.gpu, other, 0, &address, &err),
			 CKPT_E_ARG);
	ckpt_close(other);
	ckpt_close(model);
	free_storages();
}

static void a_directory_has_its_files_but_no_table(void **state)
{
	char *directory = unit_path(folder, "step9"), *file = unit_path(directory, "__0_0.distcp");
	char *index;
	const char *const sources[] = { directory };
	struct ckpt_model *model;
	struct ckpt_error err;

	(void)state;
	mkdir(directory, 0777);
	index = unit_path(directory, ".metadata");
	unit_write_file(file, data, SIZE);
	unit_write_file(index, "index", 5);
	broadcast(sources, 1, 0);
	assert_int_equal(ranks[1].rc, 0);
	assert_int_equal(ckpt_gpu_file_count(ranks[1].report.gpu), 2);
	assert_file(ranks[1].report.gpu, 0, "__0_0.distcp", data, SIZE);
	assert_file(ranks[1].report.gpu, 1, ".metadata", "index", 5); /* the last */
	assert_int_equal(ckpt_gpu_open(ranks[1].report.gpu, 0, &model, &err), CKPT_E_UNSUPPORTED);
	free(index);
	free(file);
	free(directory);
}

/* ---- what fails ---- */

static void a_missing_gpu_is_told_by_all(void **state)
{
	const char *const sources[] = { source };

	(void)state;
	setenv("CKPT_CUDA_LIB", "/nowhere/libcuda.so.1", 1);
	broadcast(sources, 1, 0);
	for (uint32_t i = 0; i < RANKS; i++) {
		assert_true(ranks[i].rc < 0);
		assert_int_equal(ranks[i].report.code, CKPT_BROADCAST_NO_TRANSPORT);
		assert_null(ranks[i].report.gpu);
	}
}

/* Every call of the driver in turn, on whichever rank it comes to; some that release may fail unheard. */
static void a_call_that_fails_is_an_error_of_all_ranks(void **state)
{
	const char *const sources[] = { source };
	unsigned failed = 0, calls = UINT32_MAX;

	(void)state;
	for (unsigned at = 1; at <= calls; at += unit_rounds(3, 1)) {
		unsigned before = doubles_cuda_calls();
		char text[40];

		snprintf(text, sizeof(text), "*:2:%u", at);
		setenv("FAKE_CUDA_FAIL", text, 1);
		broadcast(sources, 1, 0);
		calls = doubles_cuda_calls() - before;
		failed += ranks[0].rc < 0;
		for (uint32_t i = 0; i < RANKS; i++) {
			assert_int_equal(ranks[i].rc < 0, ranks[0].rc < 0);
			assert_int_equal(ranks[i].report.code, ranks[0].report.code);
			assert_int_equal(ranks[i].report.gpu == NULL, ranks[0].rc < 0);
			ckpt_gpu_release(ranks[i].report.gpu);
			ranks[i].report.gpu = NULL;
		}
		assert_int_equal(doubles_cuda_live(), 0);
	}
	assert_true(failed > unit_rounds(1, 10) * RANKS);
}

/* A process alone, by its own GPU. */
static int broadcast_alone(unsigned flags, uint32_t chunk)
{
	const char *const sources[] = { source };
	struct ckpt_broadcast_options o = CKPT_BROADCAST_OPTIONS_INIT;
	struct rank *r = &ranks[0];

	o.chunk = chunk;
	o.threads = 3;
	o.gpu = 0;
	o.launcher = "none";
	o.flags = CKPT_BROADCAST_TO_GPU | flags;
	r->report = (struct ckpt_broadcast_report)CKPT_BROADCAST_REPORT_INIT;
	r->err = (struct ckpt_error)CKPT_ERROR_INIT;
	return ckpt_broadcast(sources, 1, NULL, &o, &r->report, &r->err);
}

static void a_process_alone_has_the_bytes(void **state)
{
	struct rank *r = &ranks[0];

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(broadcast_alone(i % 2 ? CKPT_BROADCAST_NO_VERIFY : 0, i / 2 * CHUNK / 2), 0);
		assert_string_equal(r->report.transport, "self");
		assert_int_equal(r->report.has_crc, i % 2 == 0);
		if (r->report.has_crc)
			assert_int_equal(r->report.crc32, libdeflate_crc32(0, data, SIZE));
		assert_file(r->report.gpu, 0, "model.pt", data, SIZE);
		ckpt_gpu_release(r->report.gpu);
		r->report.gpu = NULL;
		assert_int_equal(doubles_cuda_live(), 0);
	}
}

/* Every call of the driver in turn; where memory cannot be locked, the driver gives its own. */
static void a_call_that_fails_alone_is_an_error(void **state)
{
	unsigned failed = 0, calls = 1;
	struct rank *r = &ranks[0];

	(void)state;
	for (unsigned at = 1; calls >= at || at < 10; at += unit_rounds(3, 1)) {
		unsigned before = doubles_cuda_calls();
		char text[40];
		int rc;

		snprintf(text, sizeof(text), "*:2:%u", at);
		setenv("FAKE_CUDA_FAIL", text, 1);
		rc = broadcast_alone(0, CHUNK);
		unsetenv("FAKE_CUDA_FAIL");
		calls = doubles_cuda_calls() - before;
		failed += rc < 0;
		assert_int_equal(r->report.gpu == NULL, rc < 0);
		if (rc < 0)
			assert_int_equal(rc, CKPT_E_GPU);
		else
			assert_file(r->report.gpu, 0, "model.pt", data, SIZE);
		ckpt_gpu_release(r->report.gpu);
		r->report.gpu = NULL;
		assert_int_equal(doubles_cuda_live(), 0);
	}
	assert_true(failed > unit_rounds(10, 30));
	setenv("FAKE_CUDA_FAIL", "cuMemHostRegister_v2:801", 1);
	assert_int_equal(broadcast_alone(0, CHUNK), 0);
	assert_file(r->report.gpu, 0, "model.pt", data, SIZE);
}

UNIT_SUITE(test_gpu_copy)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		IN_FOLDER(a_missing_gpu_is_told_by_all), /* first: the double stays loaded */
		IN_FOLDER(every_rank_has_the_bytes),
		IN_FOLDER(several_files_lie_one_behind_the_other),
		IN_FOLDER(what_is_not_of_the_copy_is_refused),
		IN_FOLDER(tensors_are_where_the_table_says),
		IN_FOLDER(tensors_that_are_not_there_as_they_are_have_no_address),
		IN_FOLDER(a_directory_has_its_files_but_no_table),
		IN_FOLDER(a_call_that_fails_is_an_error_of_all_ranks),
		IN_FOLDER(a_process_alone_has_the_bytes),
		IN_FOLDER(a_call_that_fails_alone_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
