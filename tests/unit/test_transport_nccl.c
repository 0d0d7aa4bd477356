/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "broadcast/broadcast.h"
#include "broadcast/ring.h"
#include "broadcast/transport_nccl.h"
#include "gpu/bounded.h"
#include "gpu_doubles.h"
#include "job/board.h"

#include <ckpt/gpu.h>

#include <inttypes.h>
#include <libdeflate.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The transport over doubles of CUDA and NCCL: the order of what it puts into streams, and what becomes of errors. */

enum { CHUNK = 1 << 20, SIZE = 5 * CHUNK + 12345, SMALL = CHUNK + 1, MOST_RANKS = 4 };

static char *folder, *source, *wish;
static uint8_t *data;

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
	ckpt_ring_gpu_sums_from = 0;
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

static uint64_t in_seconds(double seconds)
{
	return ckpt_now_nsec() + (uint64_t)(seconds * 1e9);
}

/* ---- broadcasts between threads ---- */

struct rank {
	pthread_t thread;
	uint32_t rank, size;
	struct ckpt_nccl_id id;
	const struct ckpt_broadcast_options *options;
	const struct ckpt_gpu_peers *peers;
	double open_s;
	struct ckpt_broadcast_report report;
	struct ckpt_error err;
	int rc;
	bool is_open;
};

static int open_rank(struct rank *r, struct ckpt_cuda **cuda, struct ckpt_transport **transport)
{
	int rc = ckpt_cuda_open(r->rank, cuda, &r->err);

	if (rc == 0 && r->size == 1)
		rc = ckpt_nccl_make_id(&r->id, &r->err);
	if (rc == 0)
		rc = ckpt_transport_open_nccl(*cuda, &r->id, r->rank, r->size,
					      in_seconds(r->open_s), r->peers, transport, &r->err);
	r->is_open = rc == 0;
	return rc;
}

/* Of a source of MANY files, file I is so many bytes from that place of DATA on; MANY is 0: all of them in one. */
enum { MOST_FILES = 60 };
static size_t many;

static size_t size_of(size_t i)
{
	return many ? i * 30011 % 90000 : SIZE;
}

static void check_gpu(struct ckpt_gpu_copy *copy)
{
	struct ckpt_gpu_file file = CKPT_GPU_FILE_INIT;
	uint8_t *back = malloc(SIZE);

	for (size_t i = 0; i < (many ? many : 1); i++) {
		assert_int_equal(ckpt_gpu_file_get(copy, (uint32_t)i, &file), 0);
		assert_int_equal(file.nbytes, size_of(i));
		assert_int_equal(ckpt_gpu_read(copy, file.address, back, size_of(i), NULL), 0);
		assert_memory_equal(back, data + i, size_of(i));
	}
	ckpt_gpu_release(copy);
	free(back);
}

/* What to carry: SOURCE, or the many. Returns how many; the caller frees what is in OUT. */
static size_t list_sources(char *out[MOST_FILES])
{
	char name[40];

	if (!many)
		out[0] = strdup(source);
	for (size_t i = 0; i < many; i++) {
		snprintf(name, sizeof(name), "many/%03zu", i);
		out[i] = unit_path(folder, name);
	}
	return many ? many : 1;
}

static void *run_rank(void *arg)
{
	struct rank *r = arg;
	char *sources[MOST_FILES];
	size_t count = list_sources(sources);
	struct ckpt_transport *transport;
	struct ckpt_session session;
	struct ckpt_cuda *cuda = NULL;
	int slack = prctl(PR_GET_TIMERSLACK);

	r->report = (struct ckpt_broadcast_report)CKPT_BROADCAST_REPORT_INIT;
	r->rc = open_rank(r, &cuda, &transport);
	if (r->rc == 0) {
		assert_int_equal(ckpt_session_init(&session, (const char *const *)sources, count, wish, r->options), 0);
		session.world = (struct ckpt_world){
			.rank = r->rank, .size = r->size, .local_rank = r->rank, .launcher = "test"
		};
		if (session.o.readers > r->size)
			session.o.readers = r->size;
		r->rc = ckpt_broadcast_over(&session, transport, &r->report, &r->err);
	}
	assert_int_equal(prctl(PR_GET_TIMERSLACK), slack); /* the thread is the program's */
	if (r->report.gpu)
		check_gpu(r->report.gpu);
	ckpt_cuda_close(cuda);
	for (size_t i = 0; i < count; i++)
		free(sources[i]);
	return NULL;
}

static struct rank ranks[MOST_RANKS];

static void broadcast(uint32_t size, const struct ckpt_broadcast_options *options, double open_s)
{
	struct ckpt_nccl_id id = { { 0 } };

	if (size > 1)
		assert_int_equal(ckpt_nccl_make_id(&id, NULL), 0);
	for (uint32_t i = 0; i < size; i++) {
		ranks[i] = (struct rank){
			.rank = i, .size = size, .id = id, .options = options, .open_s = open_s
		};
		assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
	}
	for (uint32_t i = 0; i < size; i++)
		pthread_join(ranks[i].thread, NULL);
}

static struct ckpt_broadcast_options options_for_tests(void)
{
	struct ckpt_broadcast_options o = CKPT_BROADCAST_OPTIONS_INIT;

	o.chunk = CHUNK;
	o.timeout_s = 20;
	o.threads = 2;
	o.flags = CKPT_BROADCAST_NO_SYNC;
	return o;
}

/* The file of RANK has the bytes, or is not there; it is removed. */
static bool take_file(uint32_t rank, size_t size)
{
	char name[40], *path, *note;
	bool there;

	snprintf(name, sizeof(name), "out-%u.pt", rank);
	path = unit_path(folder, name);
	snprintf(name, sizeof(name), ".out-%u.pt.ckpt-staged", rank);
	note = unit_path(folder, name);
	there = unit_exists(path);
	if (there) {
		struct ckpt_buf found = unit_read_file(path);

		assert_int_equal(found.len, size);
		assert_memory_equal(found.data, data, size);
		ckpt_buf_clear(&found);
	}
	unlink(path);
	unlink(note);
	free(path);
	free(note);
	return there;
}

static void check_nothing_is_left(void)
{
	assert_int_equal(unit_folder_count(folder), 1); /* the source */
	assert_int_equal(doubles_cuda_live(), 0);
	assert_int_equal(doubles_nccl_live(), 0);
}

static void check_all_have_it(uint32_t count, size_t size)
{
	for (uint32_t i = 0; i < count; i++) {
		if (ranks[i].rc < 0)
			print_message("rank %u: %s\n", i, unit_text(&ranks[i].err));
		assert_int_equal(ranks[i].rc, 0);
		assert_string_equal(ranks[i].report.transport, "nccl");
		assert_true(take_file(i, size));
	}
	check_nothing_is_left();
}

static void every_rank_gets_the_file(void **state)
{
	static const size_t sizes[] = { 0, 1, CHUNK - 1, CHUNK + 1, SIZE, SIZE };
	struct ckpt_broadcast_options o = options_for_tests();

	(void)state;
	for (uint32_t n = 1; n <= MOST_RANKS; n++)
		for (uint32_t i = 0; i < COUNT(sizes); i++) {
			unit_write_file(source, data, sizes[i]);
			o.readers = i % 3 + 1;
			o.depth = i % 4 + 1;
			broadcast(n, &o, 20);
			check_all_have_it(n, sizes[i]);
		}
}

static void bytes_may_go_nowhere(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();

	(void)state;
	o.flags |= CKPT_BROADCAST_NO_TARGET;
	for (uint32_t n = 1; n <= 2; n++) {
		broadcast(n, &o, 20);
		for (uint32_t i = 0; i < n; i++) {
			assert_int_equal(ranks[i].rc, 0);
			assert_false(take_file(i, SIZE));
		}
		check_nothing_is_left();
	}
}

static void bytes_may_stay_on_the_gpu(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();

	(void)state;
	for (uint32_t n = 1; n <= 3; n++)
		for (unsigned i = 0; i < 6; i++) {
			o.flags = CKPT_BROADCAST_TO_GPU | (i % 2 ? CKPT_BROADCAST_NO_VERIFY : 0u);
			o.readers = i % 3 + 1;
			broadcast(n, &o, 20);
			for (uint32_t r = 0; r < n; r++) {
				assert_int_equal(ranks[r].rc, 0);
				assert_non_null(ranks[r].report.gpu);
				assert_int_equal(ranks[r].report.has_crc, i % 2 == 0);
				if (i % 2 == 0)
					assert_int_equal(ranks[r].report.crc32, libdeflate_crc32(0, data, SIZE));
			}
			check_nothing_is_left();
		}
}

/* Where the driver does not load the kernel the host sums what comes back. */
static void a_gpu_that_makes_no_sums_carries_all_the_same(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();

	(void)state;
	o.flags = CKPT_BROADCAST_TO_GPU;
	setenv("FAKE_CUDA_FAIL", "cuModuleLoadData:218", 1);
	broadcast(2, &o, 20);
	unsetenv("FAKE_CUDA_FAIL");
	for (uint32_t r = 0; r < 2; r++) {
		assert_int_equal(ranks[r].rc, 0);
		assert_int_equal(ranks[r].report.crc32, libdeflate_crc32(0, data, SIZE));
	}
	check_nothing_is_left();
}

/* Chunks of many pieces are summed by the host, those of few by the GPU. */
static void many_small_files_stay_on_the_gpu(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	char *paths[MOST_FILES], *below = unit_path(folder, "many");

	(void)state;
	assert_int_equal(mkdir(below, 0777), 0);
	many = MOST_FILES;
	list_sources(paths);
	for (size_t i = 0; i < many; i++) {
		unit_write_file(paths[i], data + i, size_of(i));
		free(paths[i]);
	}
	o.flags = CKPT_BROADCAST_TO_GPU;
	for (unsigned i = 0; i < 8; i++) {
		o.chunk = 1u << (16 + i % 5);
		o.readers = i % 2 + 1;
		broadcast(2, &o, 20);
		for (uint32_t r = 0; r < 2; r++) {
			if (ranks[r].rc < 0)
				print_message("rank %u: %s\n", r, unit_text(&ranks[r].err));
			assert_int_equal(ranks[r].rc, 0);
			assert_non_null(ranks[r].report.gpu);
		}
		assert_int_equal(doubles_cuda_live(), 0);
	}
	many = 0;
	free(below);
}

/* ---- the transport alone ---- */

struct pair {
	struct ckpt_cuda *cuda;
	struct ckpt_transport *transport;
	struct ckpt_nccl_id id;
	uint32_t rank;
	void *buffers[3];
	ckpt_cuda_address gpu; /* SIZE bytes, of the test */
};

static void open_pair(struct pair *p)
{
	assert_int_equal(ckpt_cuda_open(p->rank, &p->cuda, NULL), 0);
	assert_int_equal(ckpt_transport_open_nccl(p->cuda, &p->id, p->rank, 2, in_seconds(20), NULL,
						  &p->transport, NULL),
			 0);
	for (unsigned i = 0; i < COUNT(p->buffers); i++)
		assert_int_equal(p->transport->ops->alloc(p->transport, CHUNK, &p->buffers[i],
							  NULL),
				 0);
	assert_int_equal(ckpt_cuda_alloc(p->cuda, SIZE, &p->gpu, NULL), 0);
}

static void close_pair(struct pair *p)
{
	for (unsigned i = 0; i < COUNT(p->buffers); i++)
		p->transport->ops->release(p->transport, p->buffers[i]);
	p->transport->ops->close(p->transport);
	ckpt_cuda_free(p->cuda, p->gpu);
	ckpt_cuda_close(p->cuda);
}

/* Each chunk goes to the GPU's memory in two stretches; rank 1 does not look at every second one. */
static void begin_chunk(struct pair *p, unsigned chunk)
{
	size_t start = (size_t)chunk * CHUNK, len = SIZE - start < CHUNK ? SIZE - start : CHUNK;
	struct ckpt_transport_copy copies[] = {
		{ 0, p->gpu + start, len / 3 }, { len / 3, p->gpu + start + len / 3, len - len / 3 }
	};
	struct ckpt_transport_chunk c = { p->buffers[chunk % 3],    len, 0, copies, 2,
					  p->rank == 1 && chunk % 2, false };

	if (p->rank == 0)
		memcpy(c.buffer, data + start, len);
	else
		memset(c.buffer, 0x11, len);
	assert_int_equal(p->transport->ops->begin(p->transport, &c, chunk % 3, NULL), 0);
	memset(copies, 0xff, sizeof(copies)); /* they may go */
}

static void end_chunk(struct pair *p, unsigned chunk)
{
	size_t start = (size_t)chunk * CHUNK, len = SIZE - start < CHUNK ? SIZE - start : CHUNK;
	int done;

	while ((done = p->transport->ops->test(p->transport, chunk % 3, NULL)) == 0)
		usleep(10);
	assert_int_equal(done, 1);
	if (p->rank == 0 || chunk % 2 == 0)
		assert_memory_equal(p->buffers[chunk % 3], data + start, len);
}

static void *carry_to_the_gpu(void *arg)
{
	struct pair *p = arg;
	uint8_t *back = malloc(SIZE);
	uint64_t numbers[150];

	open_pair(p);
	for (unsigned k = 0; k < SIZE / CHUNK + 1; k++) {
		if (k >= 3)
			end_chunk(p, k - 3);
		begin_chunk(p, k);
	}
	for (unsigned k = SIZE / CHUNK - 2; k < SIZE / CHUNK + 1; k++)
		end_chunk(p, k);
	assert_int_equal(ckpt_cuda_download(p->cuda, back, p->gpu, SIZE, NULL), 0);
	assert_memory_equal(back, data, SIZE);
	for (unsigned i = 0; i < COUNT(numbers); i++)
		numbers[i] = (i % 2 == p->rank) * (UINT64_MAX - i);
	for (unsigned k = 0; k < 3; k++) /* a vote comes behind what was begun before it */
		begin_chunk(p, k);
	assert_int_equal(p->transport->ops->vote(p->transport, numbers, COUNT(numbers),
						 in_seconds(20), NULL),
			 0);
	for (unsigned k = 0; k < 3; k++)
		end_chunk(p, k);
	for (unsigned i = 0; i < COUNT(numbers); i++)
		assert_int_equal(numbers[i], UINT64_MAX - i);
	close_pair(p);
	free(back);
	return NULL;
}

static void chunks_go_where_they_are_wanted_on_the_gpu(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		struct pair pairs[2] = { { .rank = 0 }, { .rank = 1 } };
		pthread_t other;

		assert_int_equal(ckpt_nccl_make_id(&pairs[0].id, NULL), 0);
		pairs[1].id = pairs[0].id;
		pthread_create(&other, NULL, carry_to_the_gpu, &pairs[1]);
		carry_to_the_gpu(&pairs[0]);
		pthread_join(other, NULL);
		check_nothing_is_left();
	}
}

/* ---- failures ---- */

/*
 * One rank, in which VARIABLE makes the NTH call fail with CODE: an error is told, of what could not be set up or was lost
 * and not of files or bytes; nothing is left.
 */
static bool fail_at(const char *variable, unsigned code, unsigned nth)
{
	struct ckpt_broadcast_options o = options_for_tests();
	char spec[60];

	snprintf(spec, sizeof(spec), "*:%u:%u", code, nth);
	setenv(variable, spec, 1);
	o.timeout_s = 1;
	broadcast(1, &o, 1);
	unsetenv(variable);
	if (ranks[0].rc < 0 && !strstr(unit_text(&ranks[0].err), "CUDA_ERROR") &&
	    !strstr(unit_text(&ranks[0].err), "(NCCL 2.28.9 at "))
		fail_msg("%s", unit_text(&ranks[0].err));
	if (ranks[0].rc < 0 && ranks[0].is_open && ranks[0].report.code != CKPT_BROADCAST_SETUP &&
	    ranks[0].report.code != CKPT_BROADCAST_LOST)
		fail_msg("status %d: %s", ranks[0].report.code, unit_text(&ranks[0].err));
	/* where the last vote fails a whole file is there */
	assert_true(take_file(0, SMALL) || ranks[0].rc < 0);
	check_nothing_is_left();
	return ranks[0].rc < 0;
}

static void every_call_of_the_driver_may_fail(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	unsigned before = doubles_cuda_calls(), calls, failed = 0;

	(void)state;
	unit_write_file(source, data, SMALL);
	broadcast(1, &o, 20);
	check_all_have_it(1, SMALL);
	calls = doubles_cuda_calls() - before;
	for (unsigned nth = 1; nth < calls; nth += nth < 300 ? unit_rounds(2, 1) : 37)
		failed += fail_at("FAKE_CUDA_FAIL", 719, nth);
	assert_true(failed > unit_rounds(25, 50));
	print_message("%u of %u calls\n", failed, calls);
}

static void every_call_of_nccl_may_fail(void **state)
{
	static const unsigned codes[] = { 1, 2, 3, 5, 6 };
	struct ckpt_broadcast_options o = options_for_tests();
	unsigned before = doubles_nccl_calls(), calls, failed = 0;

	(void)state;
	unit_write_file(source, data, SMALL);
	broadcast(1, &o, 20);
	check_all_have_it(1, SMALL);
	calls = doubles_nccl_calls() - before;
	for (unsigned nth = 1; nth <= calls; nth++)
		failed += fail_at("STUB_NCCL_FAIL", codes[nth % COUNT(codes)], nth);
	assert_true(failed > 20);
	print_message("%u of %u calls\n", failed, calls);
}

/* One of three ranks fails: the others end, each within the time that they have patience. */
static void a_rank_that_fails_fails_all(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	char spec[60];

	(void)state;
	o.timeout_s = 0.4;
	for (unsigned nth = 1; nth <= 40; nth += unit_rounds(6, 3)) {
		unsigned lost = 0;

		snprintf(spec, sizeof(spec), "ncclBroadcast:6:%u", nth);
		setenv("STUB_NCCL_FAIL", spec, 1);
		broadcast(3, &o, 20);
		unsetenv("STUB_NCCL_FAIL");
		for (uint32_t i = 0; i < 3; i++) {
			lost += ranks[i].report.code == CKPT_BROADCAST_LOST;
			assert_int_equal(take_file(i, SIZE), ranks[i].rc == 0);
		}
		assert_true(lost == 0 || lost == 3);
		check_nothing_is_left();
	}
}

/* What hangs ends when patience does. */
static void check_that_ends(const char *variable, const char *call, unsigned nth, bool is_open,
			    int status)
{
	struct ckpt_broadcast_options o = options_for_tests();
	uint64_t start = ckpt_now_nsec();
	char spec[60];

	snprintf(spec, sizeof(spec), "%s:1:%u", call, nth);
	setenv(variable, spec, 1);
	o.timeout_s = 0.3;
	broadcast(1, &o, 0.3);
	unsetenv(variable);
	assert_int_equal(ranks[0].is_open, is_open);
	assert_int_equal(ranks[0].rc, status);
	assert_true(ckpt_now_nsec() - start < 5000000000u);
	assert_int_equal(take_file(0, SIZE), status == 0);
	check_nothing_is_left();
}

static void what_hangs_ends_with_patience(void **state)
{
	(void)state;
	check_that_ends("STUB_NCCL_HANG", "ncclCommInitRankConfig", 1, false, CKPT_E_PEER);
	assert_non_null(strstr(unit_text(&ranks[0].err), "NCCL did not find all 1 ranks in time"));
	for (unsigned nth = 1; nth <= unit_rounds(2, 4); nth++) {
		check_that_ends("STUB_NCCL_HANG", "ncclAllReduce", nth, true, CKPT_E_PEER);
		check_that_ends("STUB_NCCL_STALL", "ncclAllReduce", nth, true, CKPT_E_PEER);
		check_that_ends("STUB_NCCL_HANG", "ncclBroadcast", nth, true, CKPT_E_PEER);
		check_that_ends("STUB_NCCL_STALL", "ncclBroadcast", nth, true, CKPT_E_PEER);
	}
}

/* A communicator that does not end with the others is aborted, after a while. */
static bool finalize_hangs(void)
{
	struct ckpt_broadcast_options o = options_for_tests();

	setenv("STUB_NCCL_HANG", "ncclCommFinalize:1", 1);
	broadcast(1, &o, 20);
	return ranks[0].rc == 0 && doubles_cuda_live() == 0 && doubles_nccl_live() == 0;
}

/* How long what is late takes, in ms. */
#ifdef __SANITIZE_THREAD__
enum { LATE_MS = 5000 };
#define LATE "5000"
#else
enum { LATE_MS = 1000 };
#define LATE "1000"
#endif

/* All that a rank had is released by the thread that NCCL or the driver let go at last. */
static bool is_all_released(void)
{
	for (unsigned i = 0; i < 3 * LATE_MS / 10 && ckpt_gpu_count_abandoned(); i++)
		usleep(10000);
	return doubles_cuda_live() == 0 && doubles_nccl_live() == 0;
}

/* Long before what is late has ended. */
static bool ends_soon(int status, double open_s)
{
	struct ckpt_broadcast_options o = options_for_tests();
	uint64_t start = ckpt_now_nsec();

	ckpt_gpu_grace_nsec = LATE_MS * UINT64_C(200000);
	o.timeout_s = LATE_MS * 0.2e-3;
	broadcast(1, &o, open_s);
	return ranks[0].rc == status && ckpt_now_nsec() - start < LATE_MS * UINT64_C(800000) &&
	       ckpt_gpu_hanging_calls() == 1;
}

static bool abort_is_late_after_opening(void)
{
	setenv("STUB_NCCL_LATE", "ncclCommAbort:" LATE ":1", 1);
	setenv("STUB_NCCL_HANG", "ncclCommInitRankConfig:1", 1);
	return ends_soon(CKPT_E_PEER, 0.1) && is_all_released() && !ckpt_gpu_hanging_calls();
}

static bool abort_is_late_after_success(void)
{
	setenv("STUB_NCCL_LATE", "ncclCommAbort:" LATE ":1", 1);
	setenv("STUB_NCCL_HANG", "ncclCommFinalize:1", 1);
	return ends_soon(0, 20) && is_all_released();
}

static bool abort_is_late_after_a_vote(void)
{
	setenv("STUB_NCCL_LATE", "ncclCommAbort:" LATE ":1", 1);
	setenv("STUB_NCCL_STALL", "ncclAllReduce:1:2", 1);
	return ends_soon(CKPT_E_PEER, 20) && is_all_released();
}

static bool driver_is_late(void)
{
	setenv("FAKE_CUDA_LATE", "cuMemFree_v2:" LATE ":1", 1);
	return ends_soon(0, 20) && is_all_released();
}

/* A kernel of another library in the same process, whose peers are gone: what frees our memory waits for it. */
static bool others_hang(void)
{
	static atomic_bool is_over;
	unsigned before;

	doubles_occupy_gpu(&is_over);
	before = doubles_cuda_live();
	if (!ends_soon(0, 20))
		return false;
	is_over = true;
	for (unsigned i = 0; i < 300 && ckpt_gpu_count_abandoned(); i++)
		usleep(10000);
	return doubles_cuda_live() == before;
}

/* In a program that goes on living, nothing of what they still use is freed. */
static void aborts_that_come_back_late_find_everything(void **state)
{
	(void)state;
	assert_true(doubles_in_child(abort_is_late_after_opening));
	assert_true(doubles_in_child(abort_is_late_after_success));
	assert_true(take_file(0, SIZE));
	assert_true(doubles_in_child(abort_is_late_after_a_vote));
	assert_true(doubles_in_child(driver_is_late));
	assert_true(take_file(0, SIZE));
	assert_true(doubles_in_child(others_hang));
	assert_true(take_file(0, SIZE));
}

/* NCCL that does not come back from aborting keeps its memory: nothing waits for it. */
static bool abort_hangs(void)
{
	struct ckpt_broadcast_options o = options_for_tests();

	setenv("STUB_NCCL_HANG", "ncclCommAbort:1", 1);
	setenv("STUB_NCCL_STALL", "ncclBroadcast:1:3", 1);
	o.timeout_s = 0.3;
	broadcast(1, &o, 20);
	return ranks[0].report.code == CKPT_BROADCAST_LOST && doubles_cuda_live() > 20 &&
	       doubles_nccl_live() == 1;
}

static void ends_that_hang_are_left(void **state)
{
	(void)state;
	assert_int_equal(ckpt_gpu_grace_nsec, 10000000000u);
	ckpt_gpu_grace_nsec = 1000000000;
	assert_true(doubles_in_child(finalize_hangs));
	assert_true(take_file(0, SIZE));
	assert_true(doubles_in_child(abort_hangs));
	ckpt_gpu_grace_nsec = 10000000000u;
}

/* NCCL's threads need the processor: at most one look at the GPU in 30 us, however long a chunk takes. */
static void who_waits_for_a_gpu_does_not_spin(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	unsigned before = doubles_cuda_calls();

	(void)state;
	setenv("STUB_NCCL_STALL", "ncclBroadcast:1:4", 1);
	o.timeout_s = 0.1;
	broadcast(1, &o, 20);
	unsetenv("STUB_NCCL_STALL");
	assert_int_equal(ranks[0].report.code, CKPT_BROADCAST_LOST);
	assert_non_null(strstr(unit_text(&ranks[0].err), "no bytes came"));
	print_message("%u calls\n", doubles_cuda_calls() - before);
	assert_true(doubles_cuda_calls() - before < 10000);
	check_nothing_is_left();
}

/* Two ranks of a node: one gives up, the other hears why, long before its own patience is over. */
static void a_rank_that_gives_up_says_so_first(void **state)
{
	struct ckpt_board *boards[2];
	uint64_t start = ckpt_now_nsec();
	char text[256];
	uint32_t rank = 9;

	(void)state;
	for (uint32_t i = 0; i < 2; i++)
		boards[i] = ckpt_board_open(folder, strlen(folder), i, 3);
	assert_non_null(boards[0]);
	assert_non_null(boards[1]);
	assert_false(ckpt_board_find(boards[0], &rank, text, sizeof(text)));
	ckpt_board_announce(boards[1], "no bytes came");
	ckpt_board_announce(boards[1], "CUDA_ERROR_ILLEGAL_ADDRESS");
	assert_false(ckpt_board_find(boards[1], &rank, text, sizeof(text)));
	assert_true(ckpt_board_find(boards[0], &rank, text, sizeof(text)));
	assert_int_equal(rank, 1);
	assert_string_equal(text, "no bytes came");
	ckpt_board_wait(boards[1], 100000000); /* rank 0 is there, and rank 2 never came */
	assert_true(ckpt_now_nsec() - start >= 100000000);
	ckpt_board_announce(boards[0], "rank 1 gave up");
	ckpt_board_wait(boards[1], 60000000000u);
	assert_true(ckpt_now_nsec() - start < 30000000000u);
	ckpt_board_remove_file(boards[0]);
	ckpt_board_close(boards[0]);
	ckpt_board_close(boards[1]);
	ckpt_board_close(NULL);
}

static int is_told(void *ctx, struct ckpt_error *error)
{
	return *(volatile bool *)ctx ? ckpt_fail(error, CKPT_E_PEER, "rank 7 on this node gave up")
				     : 0;
}

/* Wherever it waits: for NCCL to open, in a vote, for a chunk. */
static void who_waits_hears_of_it(void **state)
{
	static const char *const hang[] = { "ncclCommInitRankConfig:1:1", "", "" };
	bool told = true;
	const struct ckpt_gpu_peers peers = { is_told, NULL, &told };
	uint64_t start = ckpt_now_nsec();

	(void)state;
	for (unsigned i = 0; i < COUNT(hang); i++) {
		struct ckpt_transport *t = NULL;
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_cuda *cuda;
		struct ckpt_nccl_id id;
		uint64_t number = 1;
		void *buffer;
		int rc;

		assert_int_equal(ckpt_cuda_open(0, &cuda, NULL), 0);
		assert_int_equal(ckpt_nccl_make_id(&id, NULL), 0);
		told = i == 0;
		setenv("STUB_NCCL_HANG", hang[i], 1);
		rc = ckpt_transport_open_nccl(cuda, &id, 0, 1, in_seconds(60), &peers, &t, &err);
		unsetenv("STUB_NCCL_HANG");
		told = true;
		if (i > 0) {
			struct ckpt_transport_chunk chunk = { .nbytes = 4096,
							      .not_in_buffer = true };

			assert_int_equal(rc, 0);
			assert_int_equal(t->ops->alloc(t, 4096, &buffer, NULL), 0);
			chunk.buffer = buffer;
			setenv("STUB_NCCL_STALL",
			       i == 1 ? "ncclAllReduce:1:1" : "ncclBroadcast:1:1", 1);
			rc = i == 1 ? t->ops->vote(t, &number, 1, in_seconds(60), &err)
				    : t->ops->begin(t, &chunk, 0, &err);
			while (i == 2 && rc == 0)
				rc = t->ops->test(t, 0, &err);
			unsetenv("STUB_NCCL_STALL");
			t->ops->abort(t);
			t->ops->close(t);
		}
		assert_int_equal(rc, CKPT_E_PEER);
		assert_string_equal(unit_text(&err), "rank 7 on this node gave up");
		ckpt_cuda_close(cuda);
	}
	assert_true(ckpt_now_nsec() - start < 30000000000u);
	check_nothing_is_left();
}

#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

UNIT_SUITE(test_transport_nccl)
{
	const struct CMUnitTest tests[] = {
		WITH_FILE(ends_that_hang_are_left),
		WITH_FILE(aborts_that_come_back_late_find_everything),
		WITH_FILE(every_rank_gets_the_file),
		WITH_FILE(bytes_may_go_nowhere),
		WITH_FILE(bytes_may_stay_on_the_gpu),
		WITH_FILE(a_gpu_that_makes_no_sums_carries_all_the_same),
		WITH_FILE(many_small_files_stay_on_the_gpu),
		WITH_FILE(chunks_go_where_they_are_wanted_on_the_gpu),
		WITH_FILE(every_call_of_the_driver_may_fail),
		WITH_FILE(every_call_of_nccl_may_fail),
		WITH_FILE(a_rank_that_fails_fails_all),
		WITH_FILE(what_hangs_ends_with_patience),
		WITH_FILE(who_waits_for_a_gpu_does_not_spin),
		WITH_FILE(a_rank_that_gives_up_says_so_first),
		WITH_FILE(who_waits_hears_of_it),
	};

	setenv("FAKE_CUDA_STRICT", "1", 1);
	setenv("FAKE_CUDA_GPUS", "4", 1);
	doubles_use("fake_cuda.so", "stub_nccl.so");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
