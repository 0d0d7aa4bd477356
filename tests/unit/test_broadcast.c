/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "broadcast/session.h"
#include "sim_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Whole broadcasts between threads: what arrives, and what is left behind if something fails anywhere. */

static void every_rank_gets_the_file(void **state)
{
	static const size_t sizes[] = { 0, 1, 4096, CHUNK - 1, CHUNK, CHUNK + 1, SIZE };
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };

	(void)state;
	for (uint32_t n = 1; n <= 5; n++)
		for (size_t i = 0; i < COUNT(sizes); i++) {
			struct sim sim;

			unit_write_file(source, data, sizes[i]);
			sim_init(&sim, n);
			sim.slow = i % 2;
			o.readers = (uint32_t)i % 3 + 1;
			o.depth = (uint32_t)i % 4 + 1;
			broadcast(&sim, sources, 1, &o);
			check_codes(&sim, 0);
			assert_in_range(sim.carried, sizes[i], sizes[i] + 200); /* with the manifest; the last chunk is not filled up */
			for (uint32_t r = 0; r < n; r++) {
				check_file(r, sizes[i]);
				assert_true(ranks[r].report.has_crc);
				assert_int_equal(ranks[r].report.crc32,
						 crc32(0, data, (uInt)sizes[i]));
				assert_false(ranks[r].report.reused);
			}
			sim_clear(&sim);
			remove_outputs(n);
		}
}

/* ---- what is there already ---- */

static void broadcast_again(uint32_t size, bool reused)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	struct sim sim;

	sim_init(&sim, size);
	broadcast(&sim, sources, 1, &o);
	check_codes(&sim, 0);
	for (uint32_t r = 0; r < size; r++) {
		check_file(r, SIZE);
		assert_int_equal(ranks[r].report.reused, reused);
	}
	sim_clear(&sim);
}

static void what_is_there_is_not_read_again(void **state)
{
	char *path = path_for(1);
	struct timespec times[2] = { { 1, 0 }, { 1, 0 } };

	(void)state;
	broadcast_again(3, false);
	reads = 0;
	ckpt_io_set_hook(count_reads, NULL);
	broadcast_again(3, true);
	ckpt_io_set_hook(NULL, NULL);
	assert_true(reads <= 3); /* the notes */
	assert_int_equal(unlink(path), 0);
	broadcast_again(3, false); /* one node has lost it */
	broadcast_again(3, true);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	broadcast_again(3, false); /* ... or somebody touched it */
	assert_int_equal(utimensat(AT_FDCWD, source, times, 0), 0);
	broadcast_again(3, false); /* the source is another */
	broadcast_again(3, true);
	remove_outputs(3);
	free(path);
}

/* ---- failures ---- */

/* Whatever call fails on whichever rank: all say the same, and nothing has a name. */
static void a_rank_that_fails_fails_all(void **state)
{
	static const struct {
		enum ckpt_io_op op;
		int errno_value, code;
	} cases[] = {
		{ CKPT_IO_READ, EIO, CKPT_BROADCAST_SOURCE },
		{ CKPT_IO_WRITE, ENOSPC, CKPT_BROADCAST_DESTINATION },
		{ CKPT_IO_TRUNCATE, ENOSPC, CKPT_BROADCAST_DESTINATION },
		{ CKPT_IO_SYNC, EIO, CKPT_BROADCAST_DESTINATION },
	};
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };

	(void)state;
	o.flags = 0;
	for (size_t c = 0; c < COUNT(cases); c++)
		for (unsigned at = 1;; at++) {
			struct fault fault = { cases[c].op, cases[c].errno_value, at, 0 };
			struct sim sim;

			sim_init(&sim, 3);
			ckpt_io_set_hook(inject, &fault);
			broadcast(&sim, sources, 1, &o);
			ckpt_io_set_hook(NULL, NULL);
			sim_clear(&sim);
			if (fault.seen < at) {
				check_codes(&sim, 0);
				assert_true(at > 3 || cases[c].op == CKPT_IO_TRUNCATE);
				remove_outputs(3);
				break;
			}
			/* the note beside it is written behind the name */
			if (exists(0) && exists(1) && exists(2)) {
				remove_outputs(3);
				continue;
			}
			check_codes(&sim, cases[c].code);
			remove_outputs(0);
			for (uint32_t r = 0; r < 3; r++)
				assert_int_equal(ranks[r].report.failed_rank,
						 ranks[0].report.failed_rank);
		}
}

/* A wrong byte in each call of rank VICTIM in turn: how many were found to be damage? */
static unsigned count_found(uint32_t victim)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	unsigned found = 0;

	for (unsigned at = 1; at < 40; at++) {
		struct sim sim;

		sim_init(&sim, 3);
		sim.victim = victim;
		sim.flips_at = at;
		broadcast(&sim, sources, 1, &o);
		sim_clear(&sim);
		if (ranks[0].report.code == CKPT_BROADCAST_DAMAGED) {
			check_codes(&sim, CKPT_BROADCAST_DAMAGED);
			assert_int_equal(ranks[0].report.failed_rank, victim);
			remove_outputs(0);
			found++;
		} else if (ranks[0].report.code == 0) { /* nothing was carried by that call */
			for (uint32_t r = 0; r < 3; r++)
				check_file(r, SIZE);
			remove_outputs(3);
		} else { /* the list of files, or what was said */
			remove_outputs(0);
		}
	}
	return found;
}

static void a_wrong_byte_is_found(void **state)
{
	(void)state;
	assert_int_equal(count_found(0), 6); /* one for each chunk */
	assert_int_equal(count_found(1), 7); /* ... and the checksum that they are held against */
	assert_int_equal(count_found(2), 7);
}

/* It dies at its first call, its second ...: the others end, name it, and none has half a file. */
static void check_every_death(unsigned flags)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };

	o.timeout_s = 0.3;
	o.flags |= flags;
	for (unsigned at = 1;; at++) {
		struct sim sim;
		bool over = true;

		sim_init(&sim, 3);
		sim.victim = at % 3;
		sim.dies_at = at;
		broadcast(&sim, sources, 1, &o);
		sim_clear(&sim);
		for (uint32_t r = 0; r < 3; r++) {
			over &= ranks[r].report.code == 0;
			if (exists(r))
				check_file(r, SIZE);
		}
		if (over) {
			assert_true(at > 15);
			remove_outputs(3);
			return;
		}
		for (uint32_t r = 0; r < 3; r++) {
			char want[60];

			assert_int_equal(ranks[r].report.code, CKPT_BROADCAST_LOST);
			snprintf(want, sizeof(want), "; no answer from rank %u (sim)", sim.victim);
			assert_true(r == sim.victim || strstr(unit_text(&ranks[r].err), want));
		}
		remove_outputs(3);
	}
}

static void a_rank_that_dies_is_noticed(void **state)
{
	(void)state;
	check_every_death(0);
	check_every_death(CKPT_BROADCAST_ALL_OR_NONE);
	check_every_death(CKPT_BROADCAST_KEEP_GOING);
}

static void say_who_is_silent(struct ckpt_rendezvous *r, char *text, size_t size)
{
	(void)r;
	snprintf(text, size, "rank 2 (nodeC, pid 812) was last heard of 71 s ago");
}

static void close_rendezvous(struct ckpt_rendezvous *r)
{
	r->ops = NULL;
}

/* Where the ranks met in a folder, that says who is not heard of any more. */
static void who_is_silent_is_told(void **state)
{
	static const struct ckpt_rendezvous_ops ops = {
		.name = "test", .silent = say_who_is_silent, .close = close_rendezvous
	};
	struct ckpt_rendezvous rendezvous = { .ops = &ops };
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	struct sim sim;

	(void)state;
	o.timeout_s = 0.3;
	sim_init(&sim, 3);
	sim.victim = 2;
	sim.dies_at = 8;
	met_in = &rendezvous;
	broadcast(&sim, sources, 1, &o);
	met_in = NULL;
	sim_clear(&sim);
	check_codes(&sim, CKPT_BROADCAST_LOST);
	assert_non_null(
		strstr(unit_text(&ranks[0].err), "; rank 2 (nodeC, pid 812) was last heard of 71 s"));
	assert_null(strstr(unit_text(&ranks[1].err), "nodeC"));
	assert_null(rendezvous.ops); /* it was closed */
	remove_outputs(0);
}

static uint32_t next_random(uint32_t *random, uint32_t below)
{
	*random = *random * 1664525 + 1013904223;
	return (*random >> 8) % below;
}

/* One broadcast in which a call fails, a byte is flipped or a rank dies, or nothing happens, at random. */
static void broadcast_at_random(uint32_t *random, unsigned *whole)
{
	static const enum ckpt_io_op ops[] = { CKPT_IO_READ,  CKPT_IO_WRITE, CKPT_IO_TRUNCATE,
					       CKPT_IO_SYNC,  CKPT_IO_LINK,  CKPT_IO_RENAME,
					       CKPT_IO_THREAD };
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	size_t size = next_random(random, SIZE);
	struct fault fault = { ops[next_random(random, COUNT(ops))], EIO, 0, 0 };
	struct sim sim;
	bool fine = true;

	unit_write_file(source, data, size);
	sim_init(&sim, next_random(random, 4) + 1);
	sim.victim = next_random(random, sim.size);
	sim.slow = next_random(random, 2);
	o.timeout_s = 0.15;
	o.readers = next_random(random, sim.size) + 1;
	o.depth = next_random(random, 4) + 1;
	switch (next_random(random, 4)) {
	case 0: o.flags = 0; break;
	case 1: o.flags = CKPT_BROADCAST_REREAD; break;
	}
	switch (next_random(random, 4)) {
	case 0: o.flags |= CKPT_BROADCAST_KEEP_GOING; break;
	case 1: o.flags |= CKPT_BROADCAST_ALL_OR_NONE; break;
	}
	switch (next_random(random, 4)) {
	case 0: fault.at = next_random(random, 25) + 1; break;
	case 1: sim.dies_at = next_random(random, 30) + 1; break;
	case 2: sim.flips_at = next_random(random, 30) + 1; break;
	}
	ckpt_io_set_hook(inject, &fault);
	broadcast(&sim, sources, 1, &o);
	ckpt_io_set_hook(NULL, NULL);
	for (uint32_t r = 0; r < sim.size; r++) {
		fine &= ranks[r].report.code == 0;
		if (exists(r)) {
			check_file(r, size);
			++*whole;
		}
	}
	for (uint32_t r = 0; fine && r < sim.size; r++)
		assert_true(exists(r));
	remove_outputs(sim.size);
	sim_clear(&sim);
}

static void no_part_of_a_file_is_ever_left(void **state)
{
	unsigned rounds = unit_rounds(60, 1000), whole = 0;
	uint32_t random = 1;

	(void)state;
	for (unsigned i = 0; i < rounds; i++)
		broadcast_at_random(&random, &whole);
	print_message("%u broadcasts, %u files\n", rounds, whole);
}

/* Bytes that a network could carry meanwhile: docs/broadcast.md. */
static double time_of(double total, double n, double chunk)
{
	return total + (n > 2 ? n - 2 : 0) * chunk + total / chunk * 25000;
}

static void chunks_fit_the_source_and_the_ranks(void **state)
{
	static const uint32_t counts[] = { 1, 2, 3, 8, 64, 1024, UINT32_MAX };

	(void)state;
	for (size_t i = 0; i < COUNT(counts); i++)
		for (unsigned shift = 0; shift < 64; shift++) {
			uint64_t total = (uint64_t)1 << shift, chunk = ckpt_session_best_chunk(total, counts[i]);
			double best = time_of((double)total, counts[i], 1 << 20);

			for (uint64_t c = 64 << 10; c < 1 << 20; c *= 2)
				best = time_of((double)total, counts[i], (double)c) < best ? time_of((double)total, counts[i], (double)c) : best;
			assert_true(chunk >= 64 << 10 && chunk <= 1 << 20 && chunk % 4096 == 0);
			assert_true(counts[i] <= 2 || time_of((double)total, counts[i], (double)chunk) <= 1.1 * best);
		}
	assert_int_equal(ckpt_session_best_chunk(UINT64_MAX, 8), 1 << 20);
	assert_int_equal(ckpt_session_best_chunk((uint64_t)8 << 20, 2), 1 << 20);
	assert_int_equal(ckpt_session_best_chunk((uint64_t)8 << 20, 1024), 64 << 10);
	assert_int_equal(ckpt_session_best_chunk((uint64_t)140 << 30, 64), 1 << 20);
}

#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, sim_setup, sim_teardown)

UNIT_SUITE(test_broadcast)
{
	const struct CMUnitTest tests[] = {
		WITH_FILE(every_rank_gets_the_file),
		WITH_FILE(what_is_there_is_not_read_again),
		WITH_FILE(a_rank_that_fails_fails_all),
		WITH_FILE(a_wrong_byte_is_found),
		WITH_FILE(a_rank_that_dies_is_noticed),
		WITH_FILE(who_is_silent_is_told),
		WITH_FILE(no_part_of_a_file_is_ever_left),
		cmocka_unit_test(chunks_fit_the_source_and_the_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
