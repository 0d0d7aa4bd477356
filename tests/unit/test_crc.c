/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "../doubles/crc_on_host.h"
#include "gpu/crc.h"
#include "gpu_doubles.h"

#include <libdeflate.h>
#include <stdio.h>
#include <string.h>

/*
 * The kernel as C, with the constants made in another way than gpu/crc.c does, and the calls of gpu/crc.h over the double
 * of the driver. That a GPU runs what clang made of the kernel is left to gpu/crc_on_gpu.c.
 */

enum { SIZE = 1 << 18, MOST_BLOCKS = 9, SLOTS = 8 };

static uint8_t *bytes;
static uint32_t seed = 1;

static uint32_t random_below(uint32_t end)
{
	seed = seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)seed * end >> 32);
}

static uint32_t any_length(void)
{
	return random_below(random_below(2) ? 100 : random_below(2) ? 10000 : SIZE - 100);
}

static int make_bytes(void **state)
{
	(void)state;
	bytes = aligned_alloc(64, SIZE);
	for (uint32_t i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)random_below(256);
	doubles_use("fake_cuda.so", NULL);
	return 0;
}

static int free_bytes(void **state)
{
	(void)state;
	free(bytes);
	return 0;
}

/* ---- the kernel ---- */

/* The sum without zlib's ones, going on from SUM. */
static uint32_t add_bytes(uint32_t sum, const void *more, size_t nbytes)
{
	return ~libdeflate_crc32(~sum, more, nbytes);
}

/* As the head of the kernel says what they are: sums of a 1 with zeros behind it. */
static uint32_t *make_constants(uint32_t threads)
{
	uint32_t *out = calloc(CRC_PRODUCTS + threads * (size_t)CRC_WORDS, sizeof(*out));
	uint8_t *zeros = calloc(threads, CRC_VECTOR);
	static const uint8_t one[] = { 0, 0, 0, 0x80 };

	for (uint32_t i = 0; i < CRC_PRODUCTS; i++)
		out[i] = add_bytes(i % 16 << i / 16 * 4, zeros, threads * (size_t)CRC_VECTOR);
	for (uint32_t i = 0; i < threads * CRC_WORDS; i++)
		out[CRC_PRODUCTS + i] = add_bytes(add_bytes(0, one, 4), zeros,
						  (threads * (size_t)CRC_WORDS - 1 - i) * 4);
	free(zeros);
	return out;
}

static void check_kernel(uint32_t blocks, uint32_t threads, const uint32_t *constants,
			 const uint8_t *from, uint64_t nbytes)
{
	uint32_t partials[MOST_BLOCKS], found = 0, wanted = add_bytes(0, from, nbytes);
	const struct crc_launch l = { blocks, threads, from, nbytes, constants, partials };

	crc_run_on_host(&l);
	for (uint32_t i = 0; i < blocks; i++)
		found ^= partials[i];
	wanted = add_bytes(wanted, (const uint8_t[CRC_VECTOR]){ 0 },
			   -((uintptr_t)from + nbytes) % CRC_VECTOR);
	if (found != wanted)
		print_error("%u blocks of %u threads, %u bytes from %u on\n", blocks, threads,
			    (unsigned)nbytes, (unsigned)(from - bytes));
	assert_int_equal(found, wanted);
}

static void the_kernel_adds_up_any_memory_with_any_grid(void **state)
{
	(void)state;
	for (unsigned round = 0; round < unit_rounds(20, 200); round++) {
		uint32_t blocks = 1 + random_below(MOST_BLOCKS);
		uint32_t threads = random_below(2) ? 256 : 1 + random_below(CRC_MOST_THREADS);
		uint32_t *constants = make_constants(blocks * threads);

		for (unsigned i = 0; i < 20; i++)
			check_kernel(blocks, threads, constants, bytes + random_below(100),
				     any_length());
		free(constants);
	}
}

/* Both ends at every place within a vector of 16 bytes, with no, some and many whole vectors between them. */
static void the_kernel_adds_up_what_is_cut_anywhere(void **state)
{
	static const uint32_t vectors[] = { 0, 1, 2, 3, 4, 5, 7, 8, 9, 23, 24, 25, 48, 49 };
	uint32_t *constants = make_constants(6);

	(void)state;
	for (unsigned i = 0; i < COUNT(vectors); i++)
		for (uint32_t first = 0; first < 17; first++)
			for (uint32_t more = 0; more < 17; more++)
				check_kernel(2, 3, constants, bytes + first,
					     vectors[i] * 16 + more);
	free(constants);
}

/* A sanitizer looks at what is read. */
static void the_kernel_reads_nothing_beside_the_memory(void **state)
{
	uint32_t *constants = make_constants(6);

	(void)state;
	for (uint32_t first = 0; first < 16; first++)
		for (uint32_t nbytes = 0; nbytes < 200; nbytes++) {
			uint8_t *memory = malloc(first + nbytes + 1);

			memcpy(memory + first, bytes, nbytes);
			memory = realloc(memory, first + nbytes ? first + nbytes : 1);
			check_kernel(2, 3, constants, memory + first, nbytes);
			free(memory);
		}
	free(constants);
}

/* ---- the calls ---- */

struct gpu {
	struct ckpt_cuda *cuda;
	ckpt_cuda_address memory;
	ckpt_cuda_stream streams[2];
	ckpt_cuda_event done;
};

static void open_gpu(struct gpu *g)
{
	assert_int_equal(ckpt_cuda_open(0, &g->cuda, NULL), 0);
	assert_int_equal(ckpt_cuda_alloc(g->cuda, SIZE, &g->memory, NULL), 0);
	assert_int_equal(ckpt_cuda_upload(g->cuda, g->memory, bytes, SIZE, NULL), 0);
	for (unsigned i = 0; i < COUNT(g->streams); i++)
		assert_int_equal(ckpt_cuda_stream_new(g->cuda, &g->streams[i], NULL), 0);
	assert_int_equal(ckpt_cuda_event_new(g->cuda, &g->done, NULL), 0);
}

static void close_gpu(struct gpu *g)
{
	ckpt_cuda_event_free(g->cuda, g->done);
	for (unsigned i = 0; i < COUNT(g->streams); i++)
		ckpt_cuda_stream_free(g->cuda, g->streams[i]);
	ckpt_cuda_free(g->cuda, g->memory);
	ckpt_cuda_close(g->cuda);
	assert_int_equal(doubles_cuda_live(), 0);
}

static void wait_for(struct gpu *g, ckpt_cuda_stream stream)
{
	int rc;

	assert_int_equal(ckpt_cuda_event_record(g->cuda, g->done, stream, NULL), 0);
	do
		rc = ckpt_cuda_event_done(g->cuda, g->done, NULL);
	while (rc == 0);
	assert_int_equal(rc, 1);
}

static void all_slots_have_their_sums(void **state)
{
	struct ckpt_cuda_crc *crc;
	struct gpu g;

	(void)state;
	open_gpu(&g);
	assert_int_equal(ckpt_cuda_crc_new(g.cuda, 3, SLOTS, &crc, NULL), 0);
	for (unsigned round = 0; round < unit_rounds(20, 200); round++) {
		uint32_t off[SLOTS], nbytes[SLOTS];

		for (uint32_t i = 0; i < SLOTS; i++) {
			off[i] = random_below(100);
			nbytes[i] = any_length();
			assert_int_equal(ckpt_cuda_crc_in(crc, g.streams[i % 2], g.memory + off[i],
							  nbytes[i], i, NULL),
					 0);
		}
		wait_for(&g, g.streams[0]);
		wait_for(&g, g.streams[1]);
		for (uint32_t i = 0; i < SLOTS; i++)
			assert_int_equal(ckpt_cuda_crc_get(crc, i),
					 libdeflate_crc32(0, bytes + off[i], nbytes[i]));
	}
	ckpt_cuda_crc_free(crc);
	close_gpu(&g);
}

/* In the order of the stream: the bytes are those that came before, not those after. */
static void the_sum_is_of_what_is_there_when_its_turn_comes(void **state)
{
	uint8_t *first = calloc(1, 5000), *second = calloc(1, 5000);
	struct ckpt_cuda_crc *crc;
	struct gpu g;

	(void)state;
	memset(first, 1, 5000);
	open_gpu(&g);
	assert_int_equal(ckpt_cuda_crc_new(g.cuda, CKPT_CUDA_CRC_BLOCKS, 2, &crc, NULL), 0);
	for (unsigned i = 0; i < 20; i++) {
		ckpt_cuda_stream s = g.streams[0];

		assert_int_equal(ckpt_cuda_upload_in(g.cuda, s, g.memory, first, 5000, NULL), 0);
		assert_int_equal(ckpt_cuda_crc_in(crc, s, g.memory, 5000, 0, NULL), 0);
		assert_int_equal(ckpt_cuda_upload_in(g.cuda, s, g.memory, second, 5000, NULL), 0);
		assert_int_equal(ckpt_cuda_crc_in(crc, s, g.memory, 5000, 1, NULL), 0);
		wait_for(&g, s);
		assert_int_equal(ckpt_cuda_crc_get(crc, 0), libdeflate_crc32(0, first, 5000));
		assert_int_equal(ckpt_cuda_crc_get(crc, 1), libdeflate_crc32(0, second, 5000));
	}
	ckpt_cuda_crc_free(crc);
	close_gpu(&g);
	free(first);
	free(second);
}

static void memory_that_is_not_there_is_refused(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_cuda_crc *crc;
	struct gpu g;

	(void)state;
	open_gpu(&g);
	assert_int_equal(ckpt_cuda_crc_new(g.cuda, 1, 1, &crc, NULL), 0);
	assert_int_equal(ckpt_cuda_crc_in(crc, g.streams[0], g.memory + 1, SIZE, 0, &err),
			 CKPT_E_GPU);
	assert_non_null(strstr(unit_text(&err), "cuLaunchKernel on GPU 0: "));
	ckpt_cuda_crc_free(crc);
	close_gpu(&g);
}

static void check_new(struct gpu *g, int status, const char *text)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_cuda_crc *crc;

	assert_int_equal(ckpt_cuda_crc_new(g->cuda, 2, 1, &crc, &err), status);
	assert_null(crc);
	if (!strstr(unit_text(&err), text))
		print_error("%s\n", unit_text(&err));
	assert_non_null(strstr(unit_text(&err), text));
	unsetenv("FAKE_CUDA_FAIL");
	unsetenv("FAKE_CUDA_MISCOUNT");
}

static void a_kernel_that_is_not_loaded_leaves_the_gpu_of_use(void **state)
{
	static const char load[] = "the driver does not load the kernel for checksums: ";
	struct gpu g;

	(void)state;
	open_gpu(&g);
	setenv("FAKE_CUDA_FAIL", "cuModuleLoadData:222", 1);
	check_new(&g, CKPT_E_UNSUPPORTED, load);
	setenv("FAKE_CUDA_FAIL", "cuModuleLoadData:222", 1);
	check_new(&g, CKPT_E_UNSUPPORTED, "cuModuleLoadData: error 222");
	setenv("FAKE_CUDA_FAIL", "cuModuleGetFunction:500", 1);
	check_new(&g, CKPT_E_UNSUPPORTED, "cuModuleGetFunction: error 500");
	setenv("FAKE_CUDA_FAIL", "cuLaunchKernel:209", 1); /* what was put off until then */
	check_new(&g, CKPT_E_UNSUPPORTED, "cuLaunchKernel: error 209");
	setenv("FAKE_CUDA_MISCOUNT", "1", 1);
	check_new(&g, CKPT_E_UNSUPPORTED, "the GPU computes a wrong checksum: ");
	setenv("FAKE_CUDA_FAIL", "cuMemAlloc_v2:2", 1);
	check_new(&g, CKPT_E_GPU, "cuMemAlloc_v2 on GPU 0: CUDA_ERROR_OUT_OF_MEMORY");
	close_gpu(&g);
}

/* Every call fails once: an error is told, and nothing is left. */
static void every_call_may_fail(void **state)
{
	unsigned failed = 0, before, calls = 0;
	struct ckpt_cuda *cuda;

	(void)state;
	assert_int_equal(ckpt_cuda_open(0, &cuda, NULL), 0);
	for (unsigned nth = 1; nth <= calls || nth < 20; nth++) {
		unsigned live = doubles_cuda_live();
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_cuda_crc *crc;
		char spec[40];

		snprintf(spec, sizeof(spec), "*:719:%u", nth);
		setenv("FAKE_CUDA_FAIL", spec, 1);
		before = doubles_cuda_calls();
		if (ckpt_cuda_crc_new(cuda, 1, 1, &crc, &err) < 0) {
			assert_non_null(strstr(unit_text(&err), "CUDA_ERROR_LAUNCH_FAILED"));
			failed++;
		}
		ckpt_cuda_crc_free(crc);
		calls = doubles_cuda_calls() - before;
		assert_int_equal(doubles_cuda_live(), live);
	}
	unsetenv("FAKE_CUDA_FAIL");
	assert_true(failed > 8);
	ckpt_cuda_close(cuda);
	assert_int_equal(doubles_cuda_live(), 0);
}

UNIT_SUITE(test_crc)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_adds_up_any_memory_with_any_grid),
		cmocka_unit_test(the_kernel_adds_up_what_is_cut_anywhere),
		cmocka_unit_test(the_kernel_reads_nothing_beside_the_memory),
		cmocka_unit_test(all_slots_have_their_sums),
		cmocka_unit_test(the_sum_is_of_what_is_there_when_its_turn_comes),
		cmocka_unit_test(memory_that_is_not_there_is_refused),
		cmocka_unit_test(a_kernel_that_is_not_loaded_leaves_the_gpu_of_use),
		cmocka_unit_test(every_call_may_fail),
	};

	return cmocka_run_group_tests(tests, make_bytes, free_bytes);
}
