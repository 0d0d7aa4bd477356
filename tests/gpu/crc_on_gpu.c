/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only a machine with a GPU shows of gpu/crc.h: that the kernel is loaded, that its sums are those of libdeflate
 * for memory of any length and place, and how fast it is. Without a driver: exit 77. It takes some seconds.
 *
 *     crc_on_gpu [GPU]
 *     compute-sanitizer --tool racecheck crc_on_gpu GPU short    or memcheck: a few sums only
 */
#include "gpu/crc.h"

#include <ckpt/error.h>

#include <inttypes.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

enum { SLOTS = 64, STREAMS = 3 };

static const uint32_t grids[] = { 16, 32, 64, 132 };

static struct ckpt_cuda *cuda;
static ckpt_cuda_stream streams[STREAMS];
static ckpt_cuda_event event;
static uint8_t *bytes; /* GIB of them, and the same on the GPU */
static ckpt_cuda_address memory;
static uint64_t state = 88172645463325252;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(int rc, const struct ckpt_error *err)
{
	char text[512];

	if (rc >= 0)
		return;
	ckpt_error_text(err, text, sizeof(text));
	printf("FAILED: %s\n", text);
	exit(1);
}

static void wait_for(ckpt_cuda_stream stream)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	must(ckpt_cuda_event_record(cuda, event, stream, &err), &err);
	do {
		rc = ckpt_cuda_event_done(cuda, event, &err);
		must(rc, &err);
	} while (rc == 0);
}

static struct ckpt_cuda_crc *crc_new(uint32_t blocks)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_cuda_crc *crc;

	must(ckpt_cuda_crc_new(cuda, blocks, SLOTS, &crc, &err), &err);
	return crc;
}

static void crc_in(struct ckpt_cuda_crc *crc, ckpt_cuda_stream stream, uint64_t off, uint64_t nbytes,
		   uint32_t slot)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	must(ckpt_cuda_crc_in(crc, stream, memory + off, nbytes, slot, &err), &err);
}

static void check(uint32_t found, uint32_t wanted, uint64_t off, uint64_t nbytes, uint32_t blocks)
{
	if (found == wanted)
		return;
	printf("FAILED: %" PRIu64 " bytes from %" PRIu64 " on, %u blocks: %08" PRIx32 ", wanted %08" PRIx32 "\n",
	       nbytes, off, blocks, found, wanted);
	exit(1);
}

static void set_up(uint32_t gpu)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_cuda_identity id;
	char text[512];
	double start;

	if (ckpt_cuda_open(gpu, &cuda, &err) < 0) {
		ckpt_error_text(&err, text, sizeof(text));
		printf("skipped: %s\n", text);
		exit(77);
	}
	ckpt_cuda_identify(cuda, &id);
	printf("%s at %s, driver for CUDA %d\n", id.uuid, id.bus, ckpt_cuda_driver_version(cuda));
	for (int i = 0; i < STREAMS; i++)
		must(ckpt_cuda_stream_new(cuda, &streams[i], &err), &err);
	must(ckpt_cuda_event_new(cuda, &event, &err), &err);
	must(ckpt_cuda_alloc(cuda, GIB, &memory, &err), &err);
	bytes = malloc(GIB);
	if (!bytes)
		exit(1);
	for (uint64_t i = 0; i < GIB / 8; i++)
		((uint64_t *)bytes)[i] = next_random();
	must(ckpt_cuda_upload(cuda, memory, bytes, GIB, &err), &err);
	for (int i = 0; i < 2; i++) {
		start = now();
		ckpt_cuda_crc_free(crc_new(CKPT_CUDA_CRC_BLOCKS));
		printf("made ready and freed %s: %.1f ms\n", i ? "again" : "for the first time",
		       (now() - start) * 1e3);
	}
}

/* ---- is it right? ---- */

static uint64_t any_length(void)
{
	switch (next_random() % 4) {
	case 0: return next_random() % 70;
	case 1: return next_random() % 20000;
	case 2: return next_random() % MIB;
	default: return next_random() % (16 * MIB);
	}
}

/* All slots are in flight, in several streams. */
static void check_random(struct ckpt_cuda_crc *crc, uint32_t blocks)
{
	uint64_t off[SLOTS], nbytes[SLOTS];

	for (uint32_t i = 0; i < SLOTS; i++) {
		nbytes[i] = any_length();
		off[i] = next_random() % (32 * MIB);
		crc_in(crc, streams[i % STREAMS], off[i], nbytes[i], i);
	}
	for (int i = 0; i < STREAMS; i++)
		wait_for(streams[i]);
	for (uint32_t i = 0; i < SLOTS; i++)
		check(ckpt_cuda_crc_get(crc, i), libdeflate_crc32(0, bytes + off[i], nbytes[i]), off[i],
		      nbytes[i], blocks);
}

/* Every length and place around a vector of 16 bytes, and around rows of vectors. */
static void check_edges(struct ckpt_cuda_crc *crc, uint32_t blocks)
{
	uint64_t row = (uint64_t)blocks * 256 * 16;
	const uint64_t around[] = { 0, 16, row, 4 * row, 8 * row };

	for (int k = 0; k < 5; k++)
		for (uint64_t off = 0; off < 17; off++) {
			for (uint32_t i = 0; i < 34; i++)
				crc_in(crc, streams[0], off, around[k] + i, i);
			wait_for(streams[0]);
			for (uint32_t i = 0; i < 34; i++)
				check(ckpt_cuda_crc_get(crc, i),
				      libdeflate_crc32(0, bytes + off, around[k] + i), off,
				      around[k] + i, blocks);
		}
}

static void check_all(void)
{
	static const uint32_t blocks[] = { 1, 7, 16, 32, 64, 132, 1024 };
	double start = now();

	for (unsigned i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		struct ckpt_cuda_crc *crc = crc_new(blocks[i]);

		for (int k = 0; k < 6; k++)
			check_random(crc, blocks[i]);
		if (blocks[i] <= 64)
			check_edges(crc, blocks[i]);
		ckpt_cuda_crc_free(crc);
	}
	printf("lengths and places at random and around edges: right, %.1f s\n", now() - start);
}

static void check_some(void)
{
	struct ckpt_cuda_crc *crc = crc_new(7);

	check_random(crc, 7);
	ckpt_cuda_crc_free(crc);
	printf("some lengths and places: right\n");
}

/* Over 4 GiB, the same GIB several times. */
static void check_long(void)
{
	enum { TIMES = 5 };
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_cuda_crc *crc = crc_new(CKPT_CUDA_CRC_BLOCKS);
	ckpt_cuda_address all;
	uint32_t wanted = 0;

	if (ckpt_cuda_alloc(cuda, TIMES * GIB, &all, &err) < 0) {
		printf("over 4 GiB: skipped, the GPU has no room for them\n");
		ckpt_cuda_crc_free(crc);
		return;
	}
	for (int i = 0; i < TIMES; i++) {
		uint64_t first = i == 0 ? 5 : 0, end = i == TIMES - 1 ? GIB - 3 : GIB;

		must(ckpt_cuda_copy_in(cuda, streams[0], all + (uint64_t)i * GIB, memory, GIB, &err), &err);
		wanted = libdeflate_crc32(wanted, bytes + first, end - first);
	}
	must(ckpt_cuda_crc_in(crc, streams[0], all + 5, TIMES * GIB - 8, 0, &err), &err);
	wait_for(streams[0]);
	check(ckpt_cuda_crc_get(crc, 0), wanted, 5, TIMES * GIB - 8, CKPT_CUDA_CRC_BLOCKS);
	printf("%d GiB at once: right\n", TIMES);
	ckpt_cuda_free(cuda, all);
	ckpt_cuda_crc_free(crc);
}

/* ---- how fast? ---- */

/* So many launches one behind the other, over all of the memory, as often as it takes; bytes per second. */
static double measure(struct ckpt_cuda_crc *crc, uint64_t nbytes)
{
	unsigned count = (unsigned)(4 * GIB / nbytes);
	double best = 0;

	for (int round = 0; round < 3; round++) {
		double start = now(), speed;

		for (unsigned i = 0; i < count; i++)
			crc_in(crc, streams[0], i * nbytes % GIB, nbytes, i % SLOTS);
		wait_for(streams[0]);
		speed = (double)(count * nbytes) / (now() - start);
		best = speed > best ? speed : best;
	}
	check(ckpt_cuda_crc_get(crc, (count - 1) % SLOTS),
	      libdeflate_crc32(0, bytes + (count - 1) * nbytes % GIB, nbytes), (count - 1) * nbytes % GIB,
	      nbytes, 0);
	return best;
}

/* One launch and its result: the least of many. */
static double measure_one(struct ckpt_cuda_crc *crc, uint64_t nbytes)
{
	double least = 1;

	for (unsigned i = 0; i < 60; i++) {
		double start = now(), took;

		crc_in(crc, streams[0], i * nbytes % GIB, nbytes, 0);
		wait_for(streams[0]);
		took = now() - start;
		least = took < least ? took : least;
	}
	return least;
}

static void measure_all(void)
{
	static const uint64_t sizes[] = { 4 * MIB, 8 * MIB, 16 * MIB, 64 * MIB, GIB };
	double start;

	printf("\nGB/s of launches one behind the other, the best of 3 times 4 GiB; one launch of 4 MiB, waited for\n"
	       "blocks    4 MiB    8 MiB   16 MiB   64 MiB    1 GiB   one, us\n");
	for (unsigned i = 0; i < sizeof(grids) / sizeof(grids[0]); i++) {
		struct ckpt_cuda_crc *crc = crc_new(grids[i]);

		printf("%6u", grids[i]);
		for (unsigned k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
			printf(" %8.1f", measure(crc, sizes[k]) / 1e9);
		printf(" %9.1f\n", measure_one(crc, 4 * MIB) * 1e6);
		ckpt_cuda_crc_free(crc);
	}
	start = now();
	libdeflate_crc32(0, bytes, GIB);
	printf("libdeflate on one processor of the host: %.1f\n", (double)GIB / (now() - start) / 1e9);
}

/* Chunks go to the GPU, and behind each, in another stream, comes its sum if there is a CRC. */
static double measure_uploads(struct ckpt_cuda_crc *crc, const uint8_t *from, uint64_t nbytes)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	unsigned count = (unsigned)(4 * GIB / nbytes);
	ckpt_cuda_event arrived[SLOTS];
	double start;

	for (int i = 0; i < SLOTS; i++)
		must(ckpt_cuda_event_new(cuda, &arrived[i], &err), &err);
	start = now();
	for (unsigned i = 0; i < count; i++) {
		must(ckpt_cuda_upload_in(cuda, streams[0], memory + i * nbytes % GIB, from, nbytes, &err), &err);
		if (!crc)
			continue;
		must(ckpt_cuda_event_record(cuda, arrived[i % SLOTS], streams[0], &err), &err);
		must(ckpt_cuda_stream_wait(cuda, streams[1], arrived[i % SLOTS], &err), &err);
		crc_in(crc, streams[1], i * nbytes % GIB, nbytes, i % SLOTS);
	}
	wait_for(streams[0]);
	wait_for(streams[1]);
	start = now() - start;
	for (int i = 0; i < SLOTS; i++)
		ckpt_cuda_event_free(cuda, arrived[i]);
	if (crc)
		check(ckpt_cuda_crc_get(crc, 0), libdeflate_crc32(0, from, nbytes), 0, nbytes, 0);
	return (double)(count * nbytes) / start;
}

static void measure_beside_uploads(void)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_cuda_host host;
	void *from;

	must(ckpt_cuda_alloc_host(cuda, 16 * MIB, &host, &err), &err);
	from = host.memory;
	for (uint64_t i = 0; i < 2 * MIB; i++)
		((uint64_t *)from)[i] = next_random();
	printf("\nGB/s of 4 GiB from page-locked memory to the GPU, alone and with the sum of each chunk\n"
	       "chunk    alone");
	for (unsigned i = 0; i < sizeof(grids) / sizeof(grids[0]); i++)
		printf("  %3u blocks", grids[i]);
	for (uint64_t mib = 4; mib <= 16; mib *= 2) {
		printf("\n%2" PRIu64 " MiB %8.1f", mib, measure_uploads(NULL, from, mib * MIB) / 1e9);
		for (unsigned i = 0; i < sizeof(grids) / sizeof(grids[0]); i++) {
			struct ckpt_cuda_crc *crc = crc_new(grids[i]);

			printf("  %10.1f", measure_uploads(crc, from, mib * MIB) / 1e9);
			ckpt_cuda_crc_free(crc);
		}
	}
	putchar('\n');
	ckpt_cuda_free_host(cuda, host);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	set_up(argc > 1 ? (uint32_t)atoi(argv[1]) : 0);
	if (argc > 2) {
		check_some();
	} else {
		check_all();
		check_long();
		measure_all();
		measure_beside_uploads();
	}
	ckpt_cuda_free(cuda, memory);
	ckpt_cuda_event_free(cuda, event);
	for (int i = 0; i < STREAMS; i++)
		ckpt_cuda_stream_free(cuda, streams[i]);
	ckpt_cuda_close(cuda);
	free(bytes);
	return 0;
}
