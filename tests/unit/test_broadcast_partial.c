/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "sim_ranks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Broadcasts in which some ranks may go without, in which none may, and folders that are made for them. */

static void run_with(unsigned flags, struct fault *fault)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	struct sim sim;

	o.flags = flags;
	o.readers = 3; /* no rank has looked at everything when it read it */
	sim_init(&sim, 3);
	ckpt_io_set_hook(fault ? inject : NULL, fault);
	broadcast(&sim, sources, 1, &o);
	ckpt_io_set_hook(NULL, NULL);
	sim_clear(&sim);
	for (uint32_t r = 1; r < 3; r++)
		assert_int_equal(ranks[r].report.code, ranks[0].report.code);
}

/* All say the same of the one that has failed; the others have all of it. */
static void check_one_without(void)
{
	uint32_t failed = ranks[0].report.failed_rank;
	char want[40];

	snprintf(want, sizeof(want), "rank %u (", failed);
	for (uint32_t r = 0; r < 3; r++) {
		assert_int_equal(ranks[r].report.code, CKPT_BROADCAST_PARTIAL);
		assert_int_equal(ranks[r].report.failed_rank, failed);
		assert_true(ranks[r].rc < 0);
		assert_non_null(strstr(unit_text(&ranks[r].err), want));
		assert_int_equal(exists(r), r != failed);
		assert_int_equal(ranks[r].report.path[0] != 0, r != failed);
		if (exists(r))
			check_file(r, SIZE);
	}
}

static void the_others_get_theirs(void **state)
{
	static const struct {
		enum ckpt_io_op op;
		int errno_value;
		unsigned most;
	} cases[] = {
		{ CKPT_IO_WRITE, ENOSPC, 18 },
		{ CKPT_IO_TRUNCATE, ENOSPC, 3 },
		{ CKPT_IO_SYNC, EIO, 3 },
		{ CKPT_IO_LINK, EIO, 1 },
	};

	(void)state;
	for (size_t c = 0; c < COUNT(cases); c++)
		for (unsigned at = 1; at <= cases[c].most; at++) {
			struct fault fault = { cases[c].op, cases[c].errno_value, at, 0 };

			run_with(CKPT_BROADCAST_KEEP_GOING, &fault);
			check_one_without();
			remove_outputs(3);
		}
}

static int fail_always(void *ctx, enum ckpt_io_op op)
{
	(void)ctx;
	return op == CKPT_IO_WRITE ? ENOSPC : 0;
}

static void somebody_has_to_get_it(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	struct sim sim;

	(void)state;
	o.flags |= CKPT_BROADCAST_KEEP_GOING;
	sim_init(&sim, 3);
	ckpt_io_set_hook(fail_always, NULL);
	broadcast(&sim, sources, 1, &o);
	ckpt_io_set_hook(NULL, NULL);
	check_codes(&sim, CKPT_BROADCAST_DESTINATION);
	assert_non_null(strstr(unit_text(&ranks[1].err), "rank 0 ("));
	assert_non_null(strstr(unit_text(&ranks[1].err), "; rank 2 ("));
	remove_outputs(0);
	sim_clear(&sim);
	sim_init(&sim, 3);
	free(wish);
	wish = unit_path(folder, "none/%r.pt");
	broadcast(&sim, sources, 1, &o);
	check_codes(&sim, CKPT_BROADCAST_DESTINATION);
	remove_outputs(0);
	sim_clear(&sim);
}

/* Damage on the way is nobody's destination: it may be anywhere. */
static void damage_on_the_way_fails_all(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	unsigned found = 0;

	(void)state;
	o.flags |= CKPT_BROADCAST_KEEP_GOING;
	for (unsigned at = 1; at < 30; at++) {
		struct sim sim;

		sim_init(&sim, 3);
		sim.victim = 1;
		sim.flips_at = at;
		broadcast(&sim, sources, 1, &o);
		sim_clear(&sim);
		found += ranks[0].report.code == CKPT_BROADCAST_DAMAGED;
		remove_outputs(ranks[0].report.code ? 0 : 3);
	}
	assert_int_equal(found, 7);
}

/* ---- all or none ---- */

static void names_are_taken_back(void **state)
{
	unsigned failed = 0;

	(void)state;
	for (unsigned at = 1; at <= 6; at++) {
		struct fault fault = { CKPT_IO_LINK, EIO, at, 0 };

		run_with(CKPT_BROADCAST_ALL_OR_NONE, &fault);
		if (ranks[0].report.code) {
			assert_int_equal(ranks[0].report.code, CKPT_BROADCAST_DESTINATION);
			assert_non_null(strstr(unit_text(&ranks[1].err), "cannot name the output"));
			failed++;
		}
		remove_outputs(ranks[0].report.code ? 0 : 3);
	}
	assert_in_range(failed, 1, 5);
}

static int fail_second_rename(void *ctx, enum ckpt_io_op op)
{
	return op == CKPT_IO_RENAME && ++*(atomic_uint *)ctx == 2 ? EIO : 0;
}

/* Rank 0 has it already and is left alone; of the others' older files one is replaced, and gone. */
static void what_was_there_is_not_taken(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	const char *const sources[] = { source };
	char *paths[2] = { path_for(1), path_for(2) };
	atomic_uint renames = 0;
	struct sim sim;

	(void)state;
	sim_init(&sim, 3);
	broadcast(&sim, sources, 1, &o);
	for (unsigned i = 0; i < 2; i++)
		unit_write_file(paths[i], "old", 3);
	o.flags |= CKPT_BROADCAST_ALL_OR_NONE;
	sim_clear(&sim);
	sim_init(&sim, 3);
	ckpt_io_set_hook(fail_second_rename, &renames);
	broadcast(&sim, sources, 1, &o);
	ckpt_io_set_hook(NULL, NULL);
	check_codes(&sim, CKPT_BROADCAST_DESTINATION);
	check_file(0, SIZE);
	assert_int_equal(exists(1) + exists(2), 1);
	for (unsigned i = 0; i < 2; i++)
		if (exists(i + 1)) {
			struct ckpt_buf found = unit_read_file(paths[i]);

			assert_int_equal(i + 1, ranks[0].report.failed_rank);
			assert_int_equal(found.len, 3);
			ckpt_buf_clear(&found);
		}
	remove_outputs(3);
	sim_clear(&sim);
	free(paths[0]);
	free(paths[1]);
}

/* Of three folders and three notes in them one is not renamed. */
static void a_directory_is_taken_back_as_a_whole(void **state)
{
	struct ckpt_broadcast_options o = options_for_tests();
	char *tree = unit_path(folder, "tree"), *file = unit_path(tree, "a");
	const char *const sources[] = { tree };
	unsigned failed = 0;

	(void)state;
	o.flags |= CKPT_BROADCAST_ALL_OR_NONE | CKPT_BROADCAST_REPLACE;
	assert_int_equal(mkdir(tree, 0700), 0);
	unit_write_file(file, data, 1000);
	for (unsigned at = 1; at <= 6; at++) {
		struct fault fault = { CKPT_IO_RENAME, EIO, at, 0 };
		struct sim sim;

		sim_init(&sim, 3);
		ckpt_io_set_hook(inject, &fault);
		broadcast(&sim, sources, 1, &o);
		ckpt_io_set_hook(NULL, NULL);
		if (ranks[0].report.code)
			check_codes(&sim, CKPT_BROADCAST_DESTINATION);
		failed += ranks[0].report.code != 0;
		sim_clear(&sim);
		for (uint32_t r = 0; r < 3; r++) {
			char *path = path_for(r);

			if (!ranks[0].report.code)
				unit_folder_remove(path);
			else
				free(path);
		}
		assert_int_equal(unit_folder_count(folder), 2);
	}
	assert_in_range(failed, 1, 5);
	free(file);
	free(tree);
}

/* ---- folders ---- */

static void folders_are_made_and_go_again(void **state)
{
	char *made = unit_path(folder, "a"), *file = unit_path(folder, "a/b/2/c/model.pt");
	struct fault fault = { CKPT_IO_SYNC, EIO, 2, 0 };

	(void)state;
	free(wish);
	wish = unit_path(folder, "a/b/%r/c/");
	run_with(0, NULL);
	assert_int_equal(ranks[0].report.code, CKPT_BROADCAST_DESTINATION);
	run_with(CKPT_BROADCAST_MKDIR, &fault);
	assert_int_equal(ranks[0].report.code, CKPT_BROADCAST_DESTINATION);
	remove_outputs(0);
	run_with(CKPT_BROADCAST_MKDIR, NULL);
	assert_int_equal(ranks[0].report.code, 0);
	assert_true(unit_exists(made));
	assert_true(unit_exists(file));
	free(made);
	free(file);
}

#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, sim_setup, sim_teardown)

UNIT_SUITE(test_broadcast_partial)
{
	const struct CMUnitTest tests[] = {
		WITH_FILE(the_others_get_theirs),
		WITH_FILE(somebody_has_to_get_it),
		WITH_FILE(damage_on_the_way_fails_all),
		WITH_FILE(names_are_taken_back),
		WITH_FILE(what_was_there_is_not_taken),
		WITH_FILE(a_directory_is_taken_back_as_a_whole),
		WITH_FILE(folders_are_made_and_go_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
