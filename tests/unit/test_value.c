/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "pickle/value.h"

#include <string.h>

static void kinds_are_called_as_python_calls_them(void **state)
{
	static const struct {
		uint8_t kind;
		const char *name;
	} table[] = { { CKPT_NONE, "None" }, { CKPT_BOOL, "bool" }, { CKPT_INT, "int" }, { CKPT_BIGINT, "int" },
		      { CKPT_FLOAT, "float" }, { CKPT_STR, "str" }, { CKPT_PY2_STR, "str" },
		      { CKPT_BYTES, "bytes" }, { CKPT_BYTEARRAY, "bytearray" }, { CKPT_TUPLE, "tuple" },
		      { CKPT_LIST, "list" }, { CKPT_SET, "set" }, { CKPT_FROZENSET, "frozenset" },
		      { CKPT_DICT, "dict" } };

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++)
		assert_string_equal(ckpt_value_kind_name(&(struct ckpt_value){ .kind = table[i].kind }),
				    table[i].name);
}

static void strings_of_both_pythons_compare_by_their_bytes(void **state)
{
	struct ckpt_value v = { .kind = CKPT_STR, .u.bytes = { "module", 6 } };

	(void)state;
	assert_true(ckpt_value_is_str(&v, "module"));
	assert_false(ckpt_value_is_str(&v, "modul"));
	assert_false(ckpt_value_is_str(&v, "module."));
	v.kind = CKPT_PY2_STR;
	assert_true(ckpt_value_is_str(&v, "module"));
	v.kind = CKPT_BYTES;
	assert_false(ckpt_value_is_str(&v, "module"));
	assert_false(ckpt_value_is_str(NULL, ""));
}

static void globals_and_calls_are_told_by_module_and_name(void **state)
{
	struct ckpt_global g = { "collections", "OrderedDict", 11, 11 };
	struct ckpt_value global = { .kind = CKPT_GLOBAL, .u.global = &g };
	struct ckpt_call call = { .func = &global, .args = &ckpt_value_empty_tuple };
	struct ckpt_value object = { .kind = CKPT_CALL, .u.call = &call };

	(void)state;
	assert_true(ckpt_value_is_global(&global, "collections", "OrderedDict"));
	assert_false(ckpt_value_is_global(&global, "collections", "Ordered"));
	assert_false(ckpt_value_is_global(&global, "other", "OrderedDict"));
	assert_false(ckpt_value_is_global(&object, "collections", "OrderedDict"));
	assert_false(ckpt_value_is_global(NULL, "a", "b"));
	assert_true(ckpt_value_is_call_of(&object, "collections", "OrderedDict"));
	assert_false(ckpt_value_is_call_of(&global, "collections", "OrderedDict"));
	assert_false(ckpt_value_is_call_of(NULL, "a", "b"));
}

static void mappings_show_their_pairs(void **state)
{
	struct ckpt_global ordered = { "collections", "OrderedDict", 11, 11 }, other = { "m", "C", 1, 1 };
	struct ckpt_value func = { .kind = CKPT_GLOBAL, .u.global = &ordered };
	struct ckpt_call call = { .func = &func, .args = &ckpt_value_empty_tuple };
	struct ckpt_value object = { .kind = CKPT_CALL, .u.call = &call };
	const struct ckpt_value *pair[] = { &ckpt_value_none, &ckpt_value_true };
	struct ckpt_value dict = { .kind = CKPT_DICT }, list = { .kind = CKPT_LIST };

	(void)state;
	assert_ptr_equal(ckpt_value_pairs(&dict), &dict.u.seq);
	assert_ptr_equal(ckpt_value_pairs(&object), &call.pairs); /* an empty OrderedDict is one */
	func.u.global = &other;
	assert_null(ckpt_value_pairs(&object));
	call.pairs = (struct ckpt_seq){ pair, 2, 2 };
	assert_ptr_equal(ckpt_value_pairs(&object), &call.pairs);
	assert_null(ckpt_value_pairs(&list));
	assert_null(ckpt_value_pairs(&ckpt_value_none));
}

static void a_sequence_grows_and_keeps_its_items(void **state)
{
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	const struct ckpt_value *many[500];
	struct ckpt_seq seq = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(many); i++)
		many[i] = i % 2 ? &ckpt_value_true : &ckpt_value_false;
	assert_true(ckpt_seq_add_many(arena, &seq, many, 0));
	assert_true(ckpt_seq_add(arena, &seq, &ckpt_value_none));
	assert_true(ckpt_seq_add_many(arena, &seq, many, 500));
	assert_true(ckpt_seq_add(arena, &seq, &ckpt_value_none));
	assert_int_equal(seq.count, 502);
	assert_ptr_equal(seq.items[0], &ckpt_value_none);
	assert_ptr_equal(seq.items[500], &ckpt_value_true);
	assert_ptr_equal(seq.items[501], &ckpt_value_none);
	ckpt_arena_free(arena);
}

static void a_sequence_does_not_pass_the_budget_or_its_counter(void **state)
{
	struct ckpt_arena *arena = ckpt_arena_new(64);
	struct ckpt_seq seq = { 0 };
	unsigned added = 0;

	(void)state;
	while (ckpt_seq_add(arena, &seq, &ckpt_value_none))
		added++;
	assert_int_equal(seq.count, added);
	assert_in_range(added, 1, 8);
	seq.count = UINT32_MAX;
	assert_false(ckpt_seq_add(arena, &seq, &ckpt_value_none));
	ckpt_arena_free(arena);
}

UNIT_SUITE(test_value)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds_are_called_as_python_calls_them),
		cmocka_unit_test(strings_of_both_pythons_compare_by_their_bytes),
		cmocka_unit_test(globals_and_calls_are_told_by_module_and_name),
		cmocka_unit_test(mappings_show_their_pairs),
		cmocka_unit_test(a_sequence_grows_and_keeps_its_items),
		cmocka_unit_test(a_sequence_does_not_pass_the_budget_or_its_counter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
