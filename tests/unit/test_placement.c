/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "set/placement.h"

#include <stdio.h>
#include <string.h>

/* The rows that a rank has of N, cut once or more: "0:3 6:9". */
static const char *rows(uint64_t n, const struct ckpt_placement *placements, const uint64_t *counts,
			const uint64_t *at, uint32_t dims, char out[200])
{
	struct ckpt_mesh_extent e;
	size_t len = 0;

	ckpt_extents_init(&e, &n, 1);
	for (uint32_t i = 0; i < dims; i++)
		assert_int_equal(ckpt_extents_place(&e, 1, &placements[i], counts[i], at[i], NULL),
				 0);
	out[0] = '\0';
	for (uint32_t i = 0; i < e.count; i++)
		len += (size_t)snprintf(out + len, 200 - len, "%s%u:%u", i ? " " : "",
					(unsigned)e.start[i], (unsigned)(e.start[i] + e.len[i]));
	return out;
}

/* As torch 2.14 cuts them: n, ranks, and what each has. */
static void rows_are_cut_as_torch_chunk_does(void **state)
{
	static const struct {
		uint64_t n, count;
		const char *rows[9];
	} cases[] = {
		{ 10, 4, { "0:3", "3:6", "6:9", "9:10" } },
		{ 5, 4, { "0:2", "2:4", "4:5", "" } },
		{ 4, 8, { "0:1", "1:2", "2:3", "3:4", "", "", "", "" } },
		{ 9, 8, { "0:2", "2:4", "4:6", "6:8", "8:9", "", "", "" } },
		{ 7, 3, { "0:3", "3:6", "6:7" } },
		{ 7, 1, { "0:7" } },
		{ 0, 2, { "", "" } },
	};
	const struct ckpt_placement shard = { .split = 1 };
	char out[200];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		for (uint64_t at = 0; at < cases[i].count; at++)
			assert_string_equal(rows(cases[i].n, &shard, &cases[i].count, &at, 1, out),
					    cases[i].n || at ? cases[i].rows[at] : "");
}

static void the_second_cut_is_of_what_the_first_left(void **state)
{
	static const struct {
		struct ckpt_placement placements[2];
		uint64_t n, counts[2], at[2];
		const char *rows;
	} cases[] = {
		{ { { .split = 1 }, { .split = 1 } }, 10, { 2, 4 }, { 0, 2 }, "4:5" },
		{ { { .split = 1 }, { .split = 1 } }, 10, { 2, 4 }, { 0, 3 }, "" },
		{ { { .split = 1 }, { .split = 1 } }, 10, { 2, 4 }, { 1, 0 }, "5:7" },
		{ { { .replicated = true }, { .split = 1 } }, 10, { 2, 2 }, { 1, 1 }, "5:10" },
		{ { { .split = 2 }, { .split = 1 } }, 8, { 2, 2 }, { 0, 0 }, "0:2" },
		{ { { .split = 2 }, { .split = 1 } }, 8, { 2, 2 }, { 0, 1 }, "4:6" },
		{ { { .split = 2 }, { .split = 1 } }, 8, { 2, 2 }, { 1, 0 }, "2:4" },
		{ { { .split = 2 }, { .split = 1 } }, 8, { 2, 2 }, { 1, 1 }, "6:8" },
		{ { { .split = 2 }, { .replicated = true } }, 8, { 2, 2 }, { 1, 1 }, "2:4 6:8" },
	};
	char out[200];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_string_equal(rows(cases[i].n, cases[i].placements, cases[i].counts,
					 cases[i].at, 2, out),
				    cases[i].rows);
}

static void what_cannot_be_is_refused(void **state)
{
	const struct ckpt_placement third = { .dim = 2, .split = 1 },
				    fine = { .split = 100 };
	uint64_t shape[2] = { 1000, 1000 };
	struct ckpt_mesh_extent e[2];

	(void)state;
	ckpt_extents_init(e, shape, 2);
	assert_int_equal(ckpt_extents_place(e, 2, &third, 2, 0, NULL), CKPT_E_FORMAT);
	assert_int_equal(ckpt_extents_place(e, 2, &fine, 2, 0, NULL), CKPT_E_UNSUPPORTED);
}

UNIT_SUITE(test_placement)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_cut_as_torch_chunk_does),
		cmocka_unit_test(the_second_cut_is_of_what_the_first_left),
		cmocka_unit_test(what_cannot_be_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
