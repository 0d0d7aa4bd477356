/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/arena.h"

#include <string.h>

static void memory_is_aligned_and_does_not_overlap(void **state)
{
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	uint8_t *blocks[100];

	(void)state;
	for (unsigned i = 0; i < COUNT(blocks); i++) {
		blocks[i] = ckpt_arena_alloc(arena, i);
		assert_int_equal((uintptr_t)blocks[i] % 8, 0);
		memset(blocks[i], (int)i, i);
	}
	for (unsigned i = 0; i < COUNT(blocks); i++)
		for (unsigned k = 0; k < i; k++)
			assert_int_equal(blocks[i][k], i);
	ckpt_arena_free(arena);
}

static void a_block_larger_than_any_chunk_is_served(void **state)
{
	struct ckpt_arena *arena = ckpt_arena_new(64 << 20);
	uint8_t *small = ckpt_arena_alloc(arena, 8), *large = ckpt_arena_alloc(arena, 10 << 20);

	(void)state;
	assert_non_null(small);
	assert_non_null(large);
	memset(large, 1, 10 << 20);
	assert_int_equal(ckpt_arena_used(arena), 8 + (10 << 20));
	ckpt_arena_free(arena);
}

static void the_budget_is_never_passed(void **state)
{
	struct ckpt_arena *arena = ckpt_arena_new(3 << 20);
	struct ckpt_error err = CKPT_ERROR_INIT;

	(void)state;
	assert_non_null(ckpt_arena_alloc(arena, 2 << 20));
	assert_null(ckpt_arena_alloc(arena, (1 << 20) + 1));
	assert_int_equal(ckpt_arena_fail(arena, &err), CKPT_E_LIMIT);
	assert_string_equal(unit_message(&err), "needs more than 3 MiB of memory, which is the limit");
	assert_non_null(ckpt_arena_alloc(arena, 1 << 20));
	assert_null(ckpt_arena_alloc(arena, 1));
	assert_int_equal(ckpt_arena_used(arena), 3 << 20);
	ckpt_arena_free(arena);
}

static void sizes_that_overflow_are_over_the_budget(void **state)
{
	struct ckpt_arena *arena = ckpt_arena_new(UINT64_MAX);
	struct ckpt_arena *small = ckpt_arena_new(1 << 20);

	(void)state;
	assert_null(ckpt_arena_alloc(small, UINT64_MAX));
	assert_null(ckpt_arena_alloc(small, UINT64_MAX - 3));
	assert_null(ckpt_arena_calloc(small, UINT64_MAX / 2, 3));
	assert_null(ckpt_arena_calloc(small, (uint64_t)1 << 32, (uint64_t)1 << 32));
	assert_null(ckpt_arena_copy(small, "", UINT64_MAX));
	assert_int_equal(ckpt_arena_used(small), 0);
	ckpt_arena_free(small);
	ckpt_arena_free(arena);
}

static void calloc_clears_memory_that_was_used_before(void **state)
{
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_arena_mark mark;
	uint8_t *p;

	(void)state;
	ckpt_arena_alloc(arena, 8);
	mark = ckpt_arena_mark(arena);
	memset(ckpt_arena_alloc(arena, 64), 0xAA, 64);
	ckpt_arena_release(arena, mark);
	p = ckpt_arena_calloc(arena, 8, 8);
	for (int i = 0; i < 64; i++)
		assert_int_equal(p[i], 0);
	ckpt_arena_free(arena);
}

static void a_copy_has_a_nul_behind_it(void **state)
{
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	const char *copy;

	(void)state;
	memset(ckpt_arena_alloc(arena, 8), 0xFF, 8);
	copy = ckpt_arena_copy(arena, "abcdefghij", 7);
	assert_string_equal(copy, "abcdefg");
	assert_string_equal(ckpt_arena_copy(arena, NULL, 0), "");
	ckpt_arena_free(arena);
}

static void a_mark_gives_back_what_came_after_it(void **state)
{
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_arena_mark empty = ckpt_arena_mark(arena), outer, inner;
	char *kept;

	(void)state;
	kept = ckpt_arena_copy(arena, "kept", 4);
	outer = ckpt_arena_mark(arena);
	for (int i = 0; i < 100; i++)
		ckpt_arena_alloc(arena, 1000);
	inner = ckpt_arena_mark(arena);
	ckpt_arena_alloc(arena, 100000);
	ckpt_arena_release(arena, inner);
	assert_int_equal(ckpt_arena_used(arena), 8 + 100 * 1000);
	ckpt_arena_release(arena, outer);
	assert_int_equal(ckpt_arena_used(arena), 8);
	assert_string_equal(kept, "kept");
	/* what was given back is there again */
	assert_non_null(ckpt_arena_alloc(arena, (1 << 20) - 8));
	ckpt_arena_release(arena, empty);
	assert_int_equal(ckpt_arena_used(arena), 0);
	assert_non_null(ckpt_arena_alloc(arena, 1 << 20));
	ckpt_arena_free(arena);
}

static void freeing_nothing_is_allowed(void **state)
{
	(void)state;
	ckpt_arena_free(NULL);
}

UNIT_SUITE(test_arena)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_aligned_and_does_not_overlap),
		cmocka_unit_test(a_block_larger_than_any_chunk_is_served),
		cmocka_unit_test(the_budget_is_never_passed),
		cmocka_unit_test(sizes_that_overflow_are_over_the_budget),
		cmocka_unit_test(calloc_clears_memory_that_was_used_before),
		cmocka_unit_test(a_copy_has_a_nul_behind_it),
		cmocka_unit_test(a_mark_gives_back_what_came_after_it),
		cmocka_unit_test(freeing_nothing_is_allowed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
