/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "broadcast/steps.h"
#include "sim_ranks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

/* What may fail in a broadcast, one by one: what is said, by all, and what is left. */

/* ---- the source ---- */

static void check_all_say(const struct sim *sim, int code, const char *text)
{
	check_codes(sim, code);
	for (uint32_t r = 0; r < sim->size; r++)
		assert_non_null(strstr(unit_text(&ranks[r].err), text));
	remove_outputs(0);
}

static void a_source_that_is_not_there_is_told_by_rank_0(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	char *missing = unit_path(folder, "missing.pt");
	const char *const sources[] = { missing };
	struct sim sim;

	(void)state;
	sim_init(&sim, 3);
	broadcast(&sim, sources, 1, &o);
	check_all_say(&sim, CKPT_BROADCAST_SOURCE, "missing.pt: cannot open: No such file");
	assert_int_equal(ranks[2].report.failed_rank, 0);
	sim_clear(&sim);
	free(missing);
}

/* Something else happens to the source when it is read, or written, the AT-th time. */
struct change {
	enum ckpt_io_op op;
	unsigned at;
	atomic_uint seen;
	void (*happen)(void);
};

static int change(void *ctx, enum ckpt_io_op op)
{
	struct change *c = ctx;

	if (op == c->op && ++c->seen == c->at)
		c->happen();
	return 0;
}

static void cut(void)
{
	assert_int_equal(truncate(source, SIZE / 2), 0);
}

static void touch(void)
{
	const struct timespec times[2] = { { 1, 0 }, { 1, 0 } };

	assert_int_equal(utimensat(AT_FDCWD, source, times, 0), 0);
}

static void replace(void)
{
	char *other = unit_path(folder, "other");

	unit_write_file(other, data, SIZE);
	assert_int_equal(rename(other, source), 0);
	free(other);
}

/* As rsync --inplace does, and cp --preserve. Clocks of files may be slow. */
static void write_and_put_mtime_back(void)
{
	int fd = open(source, O_WRONLY | O_CLOEXEC);
	struct stat before, now;

	assert_int_equal(fstat(fd, &before), 0);
	do {
		const struct timespec times[2] = { before.st_atim, before.st_mtim };

		assert_int_equal(pwrite(fd, "other", 5, 0), 5);
		assert_int_equal(futimens(fd, times), 0);
		assert_int_equal(fstat(fd, &now), 0);
	} while (now.st_ctim.tv_sec == before.st_ctim.tv_sec && now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
	close(fd);
}

static void a_source_that_changes_is_noticed(void **state)
{
	static void (*const changes[])(void) = { cut, touch, replace, write_and_put_mtime_back };
	static const struct {
		enum ckpt_io_op op;
		unsigned at;
	} times[] = { { CKPT_IO_READ, 1 },
		      { CKPT_IO_READ, 4 },
		      { CKPT_IO_WRITE, 1 },
		      { CKPT_IO_SYNC, 1 },
		      { CKPT_IO_SYNC, 3 } };
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };

	(void)state;
	o.flags = 0;
	for (unsigned i = 0; i < COUNT(changes) * COUNT(times); i++) {
		struct change c = { times[i / COUNT(changes)].op, times[i / COUNT(changes)].at, 0,
				    changes[i % COUNT(changes)] };
		struct sim sim;

		unit_write_file(source, data, SIZE);
		sim_init(&sim, 3);
		o.readers = i / COUNT(changes) % 2 + 1;
		ckpt_io_set_hook(change, &c);
		broadcast(&sim, sources, 1, &o);
		ckpt_io_set_hook(NULL, NULL);
		check_all_say(&sim, CKPT_BROADCAST_SOURCE, "model.pt: ");
		sim_clear(&sim);
	}
}

/* ---- the destination ---- */

static void a_folder_that_is_missing_is_told_by_all(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	struct sim sim;

	(void)state;
	free(wish);
	wish = unit_path(folder, "none/out-%r.pt");
	sim_init(&sim, 3);
	broadcast(&sim, sources, 1, &o);
	for (uint32_t r = 0; r < 3; r++) {
		char want[40];

		snprintf(want, sizeof(want), "rank %u (", r);
		assert_true(strstr(unit_text(&ranks[1].err), want) ||
			    (r && strstr(unit_text(&ranks[1].err), " more"))); /* as many as fit */
	}
	check_all_say(&sim, CKPT_BROADCAST_DESTINATION, "/none': No such file or directory");
	sim_clear(&sim);
}

static void a_file_that_is_there_is_replaced_or_kept(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	char *path = path_for(1);
	struct sim sim;

	(void)state;
	unit_write_file(path, "old", 3);
	sim_init(&sim, 3);
	o.flags |= CKPT_BROADCAST_NEW;
	broadcast(&sim, sources, 1, &o);
	sim_clear(&sim);
	check_codes(&sim, CKPT_BROADCAST_DESTINATION);
	assert_int_equal(ranks[0].report.failed_rank, 1);
	assert_int_equal(unit_folder_count(folder), 2);
	o.flags &= ~(unsigned)CKPT_BROADCAST_NEW;
	sim_init(&sim, 3);
	broadcast(&sim, sources, 1, &o);
	sim_clear(&sim);
	check_codes(&sim, 0);
	check_file(1, SIZE);
	remove_outputs(3);
	free(path);
}

/* Of three files and three notes one cannot be named: a file's fails all, but the others' are whole and stay. */
static void who_cannot_name_its_file_is_named(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	unsigned failed = 0;

	(void)state;
	for (unsigned at = 1; at <= 6; at++) {
		struct fault fault = { CKPT_IO_LINK, EIO, at, 0 };
		struct sim sim;
		bool fine;

		sim_init(&sim, 3);
		ckpt_io_set_hook(inject, &fault);
		broadcast(&sim, sources, 1, &o);
		ckpt_io_set_hook(NULL, NULL);
		sim_clear(&sim);
		fine = ranks[0].report.code == 0;
		check_codes(&sim, fine ? 0 : CKPT_BROADCAST_DESTINATION);
		failed += !fine;
		for (uint32_t r = 0; r < 3; r++) {
			assert_int_equal(exists(r), fine || r != ranks[0].report.failed_rank);
			if (exists(r))
				check_file(r, SIZE);
		}
		remove_outputs(3);
	}
	assert_in_range(failed, 1, 5); /* the first is of a file, the last of a note */
}

/* A rank that cannot write is told of at the next vote, not when all has been carried. */
static void a_failure_on_the_way_stops_at_the_next_vote(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	uint64_t usual = ckpt_step_vote_every;
	struct fault fault = { CKPT_IO_WRITE, ENOSPC, 1, 0 };
	struct sim sim;

	(void)state;
	o.chunk = 4096;
	ckpt_step_vote_every = 16 * 4096;
	sim_init(&sim, 3);
	ckpt_io_set_hook(inject, &fault);
	broadcast(&sim, sources, 1, &o);
	ckpt_io_set_hook(NULL, NULL);
	ckpt_step_vote_every = usual;
	check_codes(&sim, CKPT_BROADCAST_DESTINATION);
	assert_in_range(sim.carried, 1, SIZE / 4);
	remove_outputs(0);
	sim_clear(&sim);
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
		const char *text = unit_text(&ranks[r].err);
		char want[40];

		snprintf(want, sizeof(want), "wanted %08lx", crc32(0, data, SIZE));
		assert_non_null(strstr(text, "the disk gives back other bytes than were written"));
		assert_non_null(strstr(text, want));
		assert_non_null(strstr(text, "/out-"));
	}
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
		const char *text = unit_text(&ranks[r].err), *first = strstr(text, "rank 0 (");

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
	int cancel = SIGTERM;

	(void)state;
	o.cancel = &cancel;
	for (uint32_t n = 1; n <= 3; n++) {
		struct sim sim;

		sim_init(&sim, n);
		broadcast(&sim, sources, 1, &o);
		check_codes(&sim, 128 + SIGTERM);
		for (uint32_t r = 0; r < n; r++)
			assert_non_null(
				strstr(unit_text(&ranks[r].err), "interrupted, nothing was written"));
		remove_outputs(0);
		sim_clear(&sim);
	}
}

/* In the middle of writing, by a signal to one of them. */
static volatile int signalled;

static void raise_flag(void)
{
	__atomic_store_n(&signalled, SIGINT, __ATOMIC_SEQ_CST); /* other ranks are threads, which look at it */
}

static void a_signal_at_any_time_stops_all_or_none(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests(), other = o;
	const char *const sources[] = { source };

	(void)state;
	o.flags = other.flags = 0;
	o.cancel = &signalled;
	for (unsigned at = 1; at <= 40; at++) {
		struct change c = { at % 2 ? CKPT_IO_WRITE : CKPT_IO_SYNC, at / 2 + 1, 0,
				    raise_flag };
		struct sim sim;

		signalled = 0;
		sim_init(&sim, 3);
		ckpt_io_set_hook(change, &c);
		for (uint32_t r = 0; r < 3; r++)
			start_rank(&sim, r, sources, 1, r == at % 3 ? &o : &other);
		join_ranks(&sim);
		ckpt_io_set_hook(NULL, NULL);
		sim_clear(&sim);
		if (ranks[0].report.code) {
			check_codes(&sim, 128 + SIGINT);
			assert_int_equal(ranks[0].report.failed_rank, at % 3);
			remove_outputs(0);
		} else {
			check_codes(&sim, 0);
			assert_true(at > 5); /* it has come to the names, or is over */
			remove_outputs(3);
		}
	}
}

/* It does not answer for longer than the others have patience, and then it does. */
static void a_rank_that_hangs_is_given_up(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };

	(void)state;
	o.timeout_s = 0.15;
	for (unsigned at = 1; at <= 20; at += unit_rounds(2, 1)) {
		struct sim sim;
		unsigned named = 0;

		sim_init(&sim, 3);
		sim.victim = at % 3;
		sim.hangs_at = at;
		sim.hangs_ms = 400;
		broadcast(&sim, sources, 1, &o);
		sim_clear(&sim);
		for (uint32_t r = 0; r < 3; r++) {
			if (r != sim.victim)
				assert_int_equal(ranks[r].report.code, CKPT_BROADCAST_LOST);
			if (exists(r)) {
				check_file(r, SIZE);
				named++;
			}
		}
		assert_true(named == 0 || at > 15);
		remove_outputs(3);
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
		o.chunk = CHUNK << i;
		start_rank(&sim, i, sources, 1, &o);
	}
	join_ranks(&sim);
	check_codes(&sim, CKPT_BROADCAST_SETUP);
	remove_outputs(0);
	sim_clear(&sim);
}

#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, sim_setup, sim_teardown)

UNIT_SUITE(test_broadcast_failures)
{
	const struct CMUnitTest tests[] = {
		WITH_FILE(a_source_that_is_not_there_is_told_by_rank_0),
		WITH_FILE(a_source_that_changes_is_noticed),
		WITH_FILE(a_folder_that_is_missing_is_told_by_all),
		WITH_FILE(a_file_that_is_there_is_replaced_or_kept),
		WITH_FILE(a_failure_on_the_way_stops_at_the_next_vote),
		WITH_FILE(who_cannot_name_its_file_is_named),
		WITH_FILE(what_the_disk_gives_back_is_looked_at),
		WITH_FILE(too_little_room_is_found_before_a_byte_moves),
		WITH_FILE(one_that_is_interrupted_stops_all),
		WITH_FILE(a_signal_at_any_time_stops_all_or_none),
		WITH_FILE(a_rank_that_hangs_is_given_up),
		WITH_FILE(different_wishes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
