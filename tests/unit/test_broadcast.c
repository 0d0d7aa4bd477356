/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "broadcast/session.h"
#include "io/fault.h"
#include "sim_transport.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

/* Whole broadcasts between threads: what arrives, and what is left behind if something fails anywhere. */

enum { CHUNK = 1 << 20, SIZE = 5 * CHUNK + 12345 };

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
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ckpt_io_set_hook(NULL, NULL);
	free(data);
	free(wish);
	free(source);
	unit_folder_remove(folder);
	return 0;
}

struct rank {
	pthread_t thread;
	struct ckpt_session session;
	struct ckpt_transport *transport;
	struct ckpt_broadcast_report report;
	struct ckpt_error err;
	int rc;
};

static void *run_rank(void *arg)
{
	struct rank *r = arg;

	r->rc = ckpt_broadcast_over(&r->session, r->transport, &r->report, &r->err);
	return NULL;
}

static struct rank ranks[SIM_MOST_RANKS];

/* One broadcast of SOURCES in all ranks of SIM. */
static void broadcast(struct sim *sim, const char *const *sources, size_t count,
		      const struct ckpt_broadcast_options *options)
{
	for (uint32_t i = 0; i < sim->size; i++) {
		struct rank *r = &ranks[i];

		memset(r, 0, sizeof(*r));
		r->report = (struct ckpt_broadcast_report)CKPT_BROADCAST_REPORT_INIT;
		assert_int_equal(ckpt_session_init(&r->session, sources, count, wish, options), 0);
		r->session.world =
			(struct ckpt_world){ .rank = i, .size = sim->size, .launcher = "sim" };
		if (r->session.o.readers > sim->size)
			r->session.o.readers = sim->size;
		r->transport = sim_open(sim, i);
		assert_int_equal(pthread_create(&r->thread, NULL, run_rank, r), 0);
	}
	for (uint32_t i = 0; i < sim->size; i++)
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

static char *path_for(uint32_t rank)
{
	char name[40];

	snprintf(name, sizeof(name), "out-%u.pt", rank);
	return unit_path(folder, name);
}

static bool exists(uint32_t rank)
{
	char *path = path_for(rank);
	bool there = access(path, F_OK) == 0;

	free(path);
	return there;
}

static void check_file(uint32_t rank, size_t size)
{
	char *path = path_for(rank);
	struct ckpt_buf found = unit_read_file(path);

	assert_int_equal(found.len, size);
	assert_memory_equal(found.data, data, size);
	ckpt_buf_clear(&found);
	free(path);
}

static unsigned count_names(void)
{
	DIR *dir = opendir(folder);
	unsigned count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

static void remove_outputs(uint32_t size)
{
	for (uint32_t i = 0; i < size; i++) {
		char *path = path_for(i), name[60], *note;

		snprintf(name, sizeof(name), ".out-%u.pt.ckpt-staged", i);
		note = unit_path(folder, name);
		unlink(path);
		unlink(note);
		free(path);
		free(note);
	}
	assert_int_equal(count_names(), 1); /* the source: nothing else was left */
}

static void check_codes(const struct sim *sim, int code)
{
	for (uint32_t i = 0; i < sim->size; i++) {
		if (ranks[i].report.code != code)
			print_message("rank %u: %s\n", i, ranks[i].err.text);
		assert_int_equal(ranks[i].report.code, code);
		assert_int_equal(ranks[i].rc == 0, code == 0);
	}
}

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

static atomic_uint reads;

static int count_reads(void *ctx, enum ckpt_io_op op)
{
	(void)ctx;
	reads += op == CKPT_IO_READ;
	return 0;
}

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

struct fault {
	enum ckpt_io_op op;
	int code;
	unsigned at;
	atomic_uint seen;
};

static int inject(void *ctx, enum ckpt_io_op op)
{
	struct fault *f = ctx;

	return op == f->op && ++f->seen == f->at ? f->code : 0;
}

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

/* A disk that keeps other bytes than were written to it: the first file that is synced has them. */
static int spoil(void *ctx, enum ckpt_io_op op)
{
	DIR *dir = op == CKPT_IO_SYNC && atomic_exchange((atomic_bool *)ctx, false)
			   ? opendir("/proc/self/fd")
			   : NULL;
	bool spoiled = false;

	for (struct dirent *e; dir && !spoiled && (e = readdir(dir));) {
		char link[300], path[400] = "";
		int fd;

		snprintf(link, sizeof(link), "/proc/self/fd/%s", e->d_name);
		if (readlink(link, path, sizeof(path) - 1) < 0 || !strstr(path, folder) ||
		    !strstr(path, "deleted"))
			continue;
		fd = open(link, O_RDWR);
		spoiled = fd >= 0 && pwrite(fd, data, 3, SIZE / 2) == 3;
		close(fd);
	}
	if (dir)
		closedir(dir);
	return 0;
}

static void what_the_disk_gives_back_is_looked_at(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };

	(void)state;
	for (unsigned reread = 0; reread < 2; reread++) {
		atomic_bool spoils = true;
		struct sim sim;

		o.flags = reread ? CKPT_BROADCAST_REREAD : 0;
		sim_init(&sim, 3);
		ckpt_io_set_hook(spoil, &spoils);
		broadcast(&sim, sources, 1, &o);
		ckpt_io_set_hook(NULL, NULL);
		sim_clear(&sim);
		check_codes(&sim, reread ? CKPT_BROADCAST_DAMAGED : 0);
		remove_outputs(reread ? 0 : 3);
	}
	for (uint32_t r = 0; r < 3; r++) {
		const char *text = ranks[r].err.text;
		char want[40];

		snprintf(want, sizeof(want), "wanted %08lx", crc32(0, data, SIZE));
		assert_non_null(strstr(text, "the disk gives back other bytes than were written"));
		assert_non_null(strstr(text, want));
		assert_non_null(strstr(text, "/out-"));
	}
}

/* It dies at its first call, its second ...: the others end, and none has half a file. */
static void a_rank_that_dies_is_noticed(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };

	(void)state;
	o.timeout_s = 0.3;
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
		for (uint32_t r = 0; r < 3; r++)
			assert_int_equal(ranks[r].report.code, CKPT_BROADCAST_LOST);
		remove_outputs(3);
	}
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

/* CKPT_ROUNDS: how often. */
static void no_part_of_a_file_is_ever_left(void **state)
{
	const char *given = getenv("CKPT_ROUNDS");
	unsigned rounds = given ? (unsigned)atoi(given) : 150, whole = 0;
	uint32_t random = 1;

	(void)state;
	for (unsigned i = 0; i < rounds; i++)
		broadcast_at_random(&random, &whole);
	print_message("%u broadcasts, %u files\n", rounds, whole);
}

/* Nothing is moved, and all who have too little are named. */
static void check_no_room(uint64_t size, const char *want)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	struct sim sim;

	assert_int_equal(truncate(source, (off_t)size), 0);
	sim_init(&sim, 12);
	reads = 0;
	ckpt_io_set_hook(count_reads, NULL);
	broadcast(&sim, sources, 1, &o);
	ckpt_io_set_hook(NULL, NULL);
	check_codes(&sim, CKPT_BROADCAST_DESTINATION);
	assert_int_equal(reads, 0);
	for (uint32_t r = 0; r < sim.size; r++) {
		const char *text = ranks[r].err.text, *first = strstr(text, "rank 0 (");

		assert_non_null(first);
		assert_non_null(strstr(text, "; rank 1 ("));
		assert_non_null(strstr(text, "; and "));
		assert_non_null(strstr(text, want));
		assert_non_null(strstr(text, " are free in '"));
	}
	remove_outputs(0);
	sim_clear(&sim);
}

static void too_little_room_is_found_before_a_byte_moves(void **state)
{
	struct statvfs fs;
	uint64_t free_bytes;

	(void)state;
	assert_int_equal(statvfs(folder, &fs), 0);
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	check_no_room(free_bytes * 2, ": needs ");
	check_no_room(free_bytes / 2, " and with the other ranks of this node ");
}

static void one_that_is_interrupted_stops_all(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	atomic_int cancel = SIGTERM;

	(void)state;
	o.cancel = &cancel;
	for (uint32_t n = 1; n <= 3; n++) {
		struct sim sim;

		sim_init(&sim, n);
		broadcast(&sim, sources, 1, &o);
		check_codes(&sim, 128 + SIGTERM);
		for (uint32_t r = 0; r < n; r++)
			assert_non_null(
				strstr(ranks[r].err.text, "interrupted, nothing was written"));
		remove_outputs(0);
		sim_clear(&sim);
	}
}

static void different_wishes_are_refused(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	struct sim sim;

	(void)state;
	sim_init(&sim, 2);
	for (uint32_t i = 0; i < 2; i++) {
		struct rank *r = &ranks[i];

		memset(r, 0, sizeof(*r));
		r->report = (struct ckpt_broadcast_report)CKPT_BROADCAST_REPORT_INIT;
		o.chunk = CHUNK << i;
		assert_int_equal(ckpt_session_init(&r->session, sources, 1, wish, &o), 0);
		r->session.world = (struct ckpt_world){ .rank = i, .size = 2, .launcher = "sim" };
		r->transport = sim_open(&sim, i);
		assert_int_equal(pthread_create(&r->thread, NULL, run_rank, r), 0);
	}
	for (uint32_t i = 0; i < 2; i++)
		pthread_join(ranks[i].thread, NULL);
	check_codes(&sim, CKPT_BROADCAST_SETUP);
	remove_outputs(0);
	sim_clear(&sim);
}

#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FILE(every_rank_gets_the_file),
		WITH_FILE(what_is_there_is_not_read_again),
		WITH_FILE(a_rank_that_fails_fails_all),
		WITH_FILE(a_wrong_byte_is_found),
		WITH_FILE(what_the_disk_gives_back_is_looked_at),
		WITH_FILE(a_rank_that_dies_is_noticed),
		WITH_FILE(no_part_of_a_file_is_ever_left),
		WITH_FILE(too_little_room_is_found_before_a_byte_moves),
		WITH_FILE(one_that_is_interrupted_stops_all),
		WITH_FILE(different_wishes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
