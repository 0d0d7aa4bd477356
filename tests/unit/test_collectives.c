/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "../doubles/fake_cuda.h"
#include "gpu_doubles.h"

#include <ckpt/ckpt.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Broadcasts over functions of the calling program: here its ranks are threads that meet at a barrier. */

enum { RANKS = 3, SIZE = 3000000 };

/* A broadcast on the GPU, which is done when its turn in the stream has come. */
struct gpu_op {
	uint8_t *bytes;
	bool there;
};

struct team {
	pthread_barrier_t barrier;
	struct gpu_op ops[64]; /* by number of the call; the double's lock is theirs */
	void *from;
	uint64_t greatest[8];
	pthread_mutex_t lock;
};

struct rank {
	pthread_t thread;
	struct team *team;
	uint32_t number;
	unsigned calls, fails_at;
	struct ckpt_broadcast_options options;
	struct ckpt_collectives collectives;
	struct ckpt_broadcast_report report;
	struct ckpt_error err;
	int rc;
};

static char *folder, *source, *wish;
static uint8_t *data;
static struct rank ranks[RANKS];

static int setup(void **state)
{
	(void)state;
	folder = unit_folder_new();
	source = unit_path(folder, "model.pt");
	wish = unit_path(folder, "out-%r.pt");
	data = malloc(SIZE);
	for (uint32_t i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 24);
	unit_write_file(source, data, SIZE);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(data);
	free(wish);
	free(source);
	unit_folder_remove(folder);
	return 0;
}

/* ---- what a program would give ---- */

static int bring(void *ctx, void *buffer, size_t nbytes, uint32_t root, void *stream)
{
	struct rank *r = ctx;
	bool fails = ++r->calls == r->fails_at;

	assert_null(stream);
	if (r->number == root)
		r->team->from = buffer;
	pthread_barrier_wait(&r->team->barrier);
	if (r->number != root)
		memcpy(buffer, r->team->from, nbytes);
	pthread_barrier_wait(&r->team->barrier);
	return fails ? 5 : 0;
}

struct turn {
	struct gpu_op *op;
	uint8_t *memory;
	size_t nbytes;
	bool is_root;
};

/* With the double's lock, when all before it in the stream is done. */
static bool take_turn(void *arg)
{
	struct turn *t = arg;

	if (t->is_root) {
		t->op->bytes = malloc(t->nbytes);
		memcpy(t->op->bytes, t->memory, t->nbytes);
		t->op->there = true;
	} else if (t->op->there) {
		memcpy(t->memory, t->op->bytes, t->nbytes);
	}
	return t->op->there;
}

static int bring_on_gpu(void *ctx, void *buffer, size_t nbytes, uint32_t root, void *stream)
{
	struct rank *r = ctx;
	struct turn *turn = malloc(sizeof(*turn));
	fake_cuda_memory_of *memory_of;
	fake_cuda_poll_into *poll_in;

	*(void **)&memory_of = doubles_function("CKPT_CUDA_LIB", "fake_cuda_memory");
	*(void **)&poll_in = doubles_function("CKPT_CUDA_LIB", "fake_cuda_poll_in");
	assert_true(r->calls < COUNT(r->team->ops));
	*turn = (struct turn){ &r->team->ops[r->calls++],
			       memory_of((unsigned long long)(uintptr_t)buffer, nbytes), nbytes,
			       r->number == root };
	assert_non_null(turn->memory);
	poll_in(stream, take_turn, turn, turn->memory, nbytes, !turn->is_root);
	return 0;
}

static int greatest(void *ctx, uint64_t *numbers, size_t count)
{
	struct rank *r = ctx;

	assert_true(count <= COUNT(r->team->greatest));
	pthread_mutex_lock(&r->team->lock);
	for (size_t i = 0; i < count; i++)
		if (numbers[i] > r->team->greatest[i])
			r->team->greatest[i] = numbers[i];
	pthread_mutex_unlock(&r->team->lock);
	pthread_barrier_wait(&r->team->barrier);
	memcpy(numbers, r->team->greatest, count * sizeof(*numbers));
	pthread_barrier_wait(&r->team->barrier);
	pthread_mutex_lock(&r->team->lock);
	memset(r->team->greatest, 0, sizeof(r->team->greatest));
	pthread_mutex_unlock(&r->team->lock);
	pthread_barrier_wait(&r->team->barrier);
	return 0;
}

/* ---- ranks ---- */

static void *run_rank(void *arg)
{
	struct rank *r = arg;
	const char *const sources[] = { source };

	r->rc = ckpt_broadcast(sources, 1, wish, &r->options, &r->report, &r->err);
	return NULL;
}

static void start(struct rank *r, struct team *team, uint32_t number, bool on_gpu, unsigned flags)
{
	r->team = team;
	r->number = number;
	r->collectives = (struct ckpt_collectives){ .size = sizeof(r->collectives),
						    .rank = number,
						    .world_size = RANKS,
						    .broadcast = on_gpu ? bring_on_gpu : bring,
						    .on_gpu = on_gpu,
						    .allreduce_max = greatest,
						    .ctx = r };
	r->options = (struct ckpt_broadcast_options)CKPT_BROADCAST_OPTIONS_INIT;
	r->options.local_rank = number;
	r->options.chunk = 1 << 20;
	r->options.gpu = 0;
	r->options.flags = CKPT_BROADCAST_NO_SYNC | flags;
	r->options.collectives = &r->collectives;
	r->report = (struct ckpt_broadcast_report)CKPT_BROADCAST_REPORT_INIT;
	assert_int_equal(pthread_create(&r->thread, NULL, run_rank, r), 0);
}

static void broadcast(bool on_gpu, unsigned flags)
{
	struct team team = { .lock = PTHREAD_MUTEX_INITIALIZER };

	pthread_barrier_init(&team.barrier, NULL, RANKS);
	for (uint32_t i = 0; i < RANKS; i++)
		start(&ranks[i], &team, i, on_gpu, flags);
	for (uint32_t i = 0; i < RANKS; i++)
		pthread_join(ranks[i].thread, NULL);
	pthread_barrier_destroy(&team.barrier);
	for (unsigned i = 0; i < COUNT(team.ops); i++)
		free(team.ops[i].bytes);
}

static void assert_files(const char *transport)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		char name[16], *path;
		struct ckpt_buf found;

		assert_int_equal(ranks[i].rc, 0);
		assert_string_equal(ranks[i].report.transport, transport);
		assert_int_equal(ranks[i].report.rank, i);
		assert_int_equal(ranks[i].report.world_size, RANKS);
		snprintf(name, sizeof(name), "out-%u.pt", i);
		path = unit_path(folder, name);
		found = unit_read_file(path);
		assert_int_equal(found.len, SIZE);
		assert_memory_equal(found.data, data, SIZE);
		ckpt_buf_clear(&found);
		free(path);
	}
}

static void every_rank_gets_the_file(void **state)
{
	(void)state;
	memset(ranks, 0, sizeof(ranks));
	broadcast(false, 0);
	assert_files("user");
}

static void from_gpu_to_gpu_into_files(void **state)
{
	(void)state;
	memset(ranks, 0, sizeof(ranks));
	doubles_use("fake_cuda.so", NULL);
	broadcast(true, 0);
	assert_files("user");
	assert_int_equal(doubles_cuda_live(), 0);
}

static void from_gpu_to_gpu_and_there_they_stay(void **state)
{
	(void)state;
	doubles_use("fake_cuda.so", NULL);
	for (unsigned verify = 0; verify < 2; verify++) {
		memset(ranks, 0, sizeof(ranks));
		broadcast(true, CKPT_BROADCAST_TO_GPU | (verify ? 0 : CKPT_BROADCAST_NO_VERIFY));
		for (uint32_t i = 0; i < RANKS; i++) {
			struct ckpt_gpu_file file = CKPT_GPU_FILE_INIT;
			uint8_t *found = malloc(SIZE);

			assert_int_equal(ranks[i].rc, 0);
			ckpt_gpu_file_get(ranks[i].report.gpu, 0, &file);
			assert_int_equal(ckpt_gpu_read(ranks[i].report.gpu, file.address, found,
						       SIZE, &ranks[i].err),
					 0);
			assert_memory_equal(found, data, SIZE);
			free(found);
			ckpt_gpu_release(ranks[i].report.gpu);
		}
		assert_int_equal(doubles_cuda_live(), 0);
	}
}

/* Nothing but an id that somebody else has made. */
static void with_an_id_ranks_meet_in_nccl(void **state)
{
	char id[3 + 2 * 128 + 1] = "id:";

	(void)state;
	doubles_use("fake_cuda.so", "stub_nccl.so");
	for (int i = 0; i < 128; i++)
		snprintf(id + 3 + (size_t)i * 2, 3, "%02x", i == 127 ? 1 : 7 + i);
	memset(ranks, 0, sizeof(ranks));
	for (uint32_t i = 0; i < RANKS; i++) {
		ranks[i].options = (struct ckpt_broadcast_options)CKPT_BROADCAST_OPTIONS_INIT;
		ranks[i].options.rank = i;
		ranks[i].options.world_size = RANKS;
		ranks[i].options.local_rank = i;
		ranks[i].options.chunk = 1 << 20;
		ranks[i].options.gpu = i; /* NCCL takes no GPU twice */
		ranks[i].options.flags = CKPT_BROADCAST_NO_SYNC;
		ranks[i].options.rendezvous = id;
		ranks[i].report = (struct ckpt_broadcast_report)CKPT_BROADCAST_REPORT_INIT;
		assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
	}
	for (uint32_t i = 0; i < RANKS; i++)
		pthread_join(ranks[i].thread, NULL);
	assert_files("nccl");
	assert_int_equal(doubles_cuda_live(), 0);
	assert_int_equal(doubles_nccl_live(), 0);
}

static void a_call_that_fails_everywhere_leaves_nothing(void **state)
{
	(void)state;
	memset(ranks, 0, sizeof(ranks));
	for (uint32_t i = 0; i < RANKS; i++)
		ranks[i].fails_at = 4;
	broadcast(false, 0);
	for (uint32_t i = 0; i < RANKS; i++) {
		assert_int_equal(ranks[i].rc, CKPT_E_PEER);
		assert_int_equal(ranks[i].report.code, CKPT_BROADCAST_LOST);
		assert_non_null(
			strstr(unit_text(&ranks[i].err), "the program's own broadcast returned 5"));
	}
	assert_int_equal(unit_folder_count(folder), 1);
}

static void what_is_missing_is_said(void **state)
{
	struct ckpt_broadcast_report report = CKPT_BROADCAST_REPORT_INIT;
	struct ckpt_broadcast_options o = CKPT_BROADCAST_OPTIONS_INIT;
	struct ckpt_collectives c = { .size = sizeof(c), .world_size = 2, .broadcast = bring };
	struct ckpt_error err = CKPT_ERROR_INIT;
	const char *const sources[] = { source };

	(void)state;
	o.collectives = &c;
	assert_int_equal(ckpt_broadcast(sources, 1, wish, &o, &report, &err), CKPT_E_ARG);
	assert_non_null(strstr(unit_text(&err), "wanted both functions"));
	c.allreduce_max = greatest;
	c.rank = 2;
	assert_int_equal(ckpt_broadcast(sources, 1, wish, &o, &report, &err), CKPT_E_ARG);
	assert_int_equal(report.code, CKPT_BROADCAST_SETUP);
	c.size = 3;
	assert_int_equal(ckpt_broadcast(sources, 1, wish, &o, &report, &err), CKPT_E_ARG);
}

UNIT_SUITE(test_collectives)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_rank_gets_the_file, setup, teardown),
		cmocka_unit_test_setup_teardown(from_gpu_to_gpu_into_files, setup, teardown),
		cmocka_unit_test_setup_teardown(from_gpu_to_gpu_and_there_they_stay, setup,
						teardown),
		cmocka_unit_test_setup_teardown(with_an_id_ranks_meet_in_nccl, setup, teardown),
		cmocka_unit_test_setup_teardown(a_call_that_fails_everywhere_leaves_nothing, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_is_missing_is_said, setup, teardown),
	};

	setenv("FAKE_CUDA_GPUS", "8", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
