/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/strmap.h"

#include <stdio.h>
#include <string.h>

static void nothing_is_found_in_an_empty_map(void **state)
{
	struct ckpt_strmap map = { 0 };

	(void)state;
	assert_null(ckpt_strmap_find(&map, "a", 1));
	ckpt_strmap_clear(&map);
}

static void every_key_is_found_again_and_no_other(void **state)
{
	enum { MANY = 20000 };
	struct ckpt_strmap map = { 0 };
	char (*keys)[16] = calloc(MANY, sizeof(*keys));
	bool there;

	(void)state;
	assert_non_null(keys);
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(keys[i], sizeof(keys[i]), "layer.%u", i);
		assert_non_null(ckpt_strmap_insert(&map, keys[i], strlen(keys[i]), i, &there));
		assert_false(there);
	}
	assert_int_equal(map.count, MANY);
	for (unsigned i = 0; i < MANY; i++) {
		uint64_t *v = ckpt_strmap_find(&map, keys[i], strlen(keys[i]));

		assert_non_null(v);
		assert_int_equal(*v, i);
	}
	assert_null(ckpt_strmap_find(&map, "layer.20000", 11));
	assert_null(ckpt_strmap_find(&map, "layer.", 6));
	ckpt_strmap_clear(&map);
	free(keys);
}

static void keys_are_bytes_and_may_hold_anything(void **state)
{
	static const struct {
		const char *key;
		size_t len;
	} keys[] = { { "", 0 }, { "\0", 1 }, { "\0\0", 2 }, { "a", 1 }, { "a\0", 2 }, { "a\0b", 3 },
		     { "a\0c", 3 }, { "12345678", 8 }, { "123456789", 9 }, { "12345678\0", 9 },
		     { "\xff\xfe", 2 } };
	struct ckpt_strmap map = { 0 };
	bool there;

	(void)state;
	for (uint64_t i = 0; i < COUNT(keys); i++) {
		ckpt_strmap_insert(&map, keys[i].key, keys[i].len, i, &there);
		assert_false(there);
	}
	for (uint64_t i = 0; i < COUNT(keys); i++)
		assert_int_equal(*ckpt_strmap_find(&map, keys[i].key, keys[i].len), i);
	ckpt_strmap_clear(&map);
}

static void a_second_insertion_gives_the_first_value(void **state)
{
	struct ckpt_strmap map = { 0 };
	bool there;
	uint64_t *v;

	(void)state;
	ckpt_strmap_insert(&map, "key", 3, 7, &there);
	v = ckpt_strmap_insert(&map, "key", 3, 8, &there);
	assert_true(there);
	assert_int_equal(*v, 7);
	assert_int_equal(map.count, 1);
	*v = 9;
	assert_int_equal(*ckpt_strmap_find(&map, "key", 3), 9);
	ckpt_strmap_clear(&map);
}

static void a_map_built_at_once_is_that_of_single_keys(void **state)
{
	enum { MANY = 20000 };
	static char keys[MANY][16];

	(void)state;
	for (unsigned count = 0; count <= MANY; count = count < 100 ? count + 1 : count * 10) {
		struct ckpt_strmap_entry *entries = calloc(count + 1u, sizeof(*entries));
		struct ckpt_strmap map;
		size_t again;
		bool there;

		assert_non_null(entries);
		for (unsigned i = 0; i < count; i++) {
			snprintf(keys[i], sizeof(keys[i]), "layer.%u", i);
			entries[i] = (struct ckpt_strmap_entry){
				.key = keys[i], .len = (uint32_t)strlen(keys[i]), .value = i
			};
		}
		assert_true(ckpt_strmap_build(&map, entries, count, &again));
		assert_int_equal(again, count);
		assert_int_equal(map.count, count);
		for (unsigned i = 0; i < count; i++)
			assert_int_equal(*ckpt_strmap_find(&map, keys[i], strlen(keys[i])), i);
		assert_null(ckpt_strmap_find(&map, "layer.", 6));
		assert_non_null(ckpt_strmap_insert(&map, "more", 4, 7, &there));
		assert_false(there);
		assert_int_equal(*ckpt_strmap_find(&map, "more", 4), 7);
		ckpt_strmap_clear(&map);
	}
}

static void a_map_built_at_once_ends_before_a_key_that_was_there(void **state)
{
	static const char *const keys[] = { "a", "b", "c", "b", "a" };
	struct ckpt_strmap_entry *entries = calloc(5, sizeof(*entries));
	struct ckpt_strmap map;
	size_t again;

	(void)state;
	assert_non_null(entries);
	for (unsigned i = 0; i < 5; i++)
		entries[i] = (struct ckpt_strmap_entry){ .key = keys[i], .len = 1, .value = i };
	assert_true(ckpt_strmap_build(&map, entries, 5, &again));
	assert_int_equal(again, 3);
	assert_int_equal(map.count, 3);
	assert_int_equal(*ckpt_strmap_find(&map, "b", 1), 1);
	ckpt_strmap_clear(&map);
}

UNIT_SUITE(test_strmap)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_found_in_an_empty_map),
		cmocka_unit_test(every_key_is_found_again_and_no_other),
		cmocka_unit_test(keys_are_bytes_and_may_hold_anything),
		cmocka_unit_test(a_second_insertion_gives_the_first_value),
		cmocka_unit_test(a_map_built_at_once_is_that_of_single_keys),
		cmocka_unit_test(a_map_built_at_once_ends_before_a_key_that_was_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
