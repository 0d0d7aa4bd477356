/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "pickle/decode.h"
#include "pickle/encode.h"
#include "pickle/op.h"
#include "pickle_cases.h"

#include <libdeflate.h>
#include <stdio.h>
#include <string.h>

static const uint64_t BUDGET = 256 << 20;

/* ---- against the table ---- */

static void encode(const struct ckpt_value *root, unsigned protocol, struct ckpt_buf *out)
{
	struct ckpt_pickle_options options = { .protocol = (uint8_t)protocol };
	struct ckpt_error err = CKPT_ERROR_INIT;

	assert_int_equal(ckpt_pickle_encode(root, &options, out, &err), 0);
	assert_false(out->bad);
}

static bool comes_out(const char *in_hex, unsigned protocol, const char *out_hex)
{
	struct ckpt_buf in = unit_bytes(in_hex), want = unit_bytes(out_hex), out = { 0 };
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_pickle pickle;
	bool same;

	if (ckpt_pickle_decode(in.data, in.len, BUDGET, &pickle, &err) < 0) {
		print_error("%s\n", unit_message(&err));
		same = false;
	} else {
		encode(pickle.root, protocol, &out);
		same = out.len == want.len && !memcmp(out.data, want.data, want.len);
		ckpt_pickle_clear(&pickle);
	}
	ckpt_buf_clear(&in);
	ckpt_buf_clear(&want);
	ckpt_buf_clear(&out);
	return same;
}

static void what_was_decoded_is_written_as_cpython_wrote_it(void **state)
{
	unsigned failed = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		if (cases[i].protocol && !comes_out(cases[i].hex, cases[i].protocol, cases[i].hex)) {
			print_error("%s, protocol %u\n", cases[i].name, cases[i].protocol);
			failed++;
		}
	assert_int_equal(failed, 0);
}

static void at_protocol_2_it_is_what_cpython_writes_at_protocol_2(void **state)
{
	unsigned failed = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		if (cases[i].at_2 >= 0 && !comes_out(cases[i].hex, 2, cases[cases[i].at_2].hex)) {
			print_error("%s, protocol %u to 2\n", cases[i].name, cases[i].protocol);
			failed++;
		}
	assert_int_equal(failed, 0);
}

static void every_opcode_of_cpython_is_known_by_its_name(void **state)
{
	unsigned known = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(opcode_names); i++) {
		assert_non_null(ckpt_opcode_table[opcode_names[i].byte].name);
		assert_string_equal(ckpt_opcode_table[opcode_names[i].byte].name, opcode_names[i].name);
	}
	for (unsigned i = 0; i < 256; i++)
		known += ckpt_opcode_table[i].name != NULL;
	assert_int_equal(known, COUNT(opcode_names));
}

/* ---- graphs made here ---- */

struct graph {
	struct ckpt_arena *arena;
	uint32_t next_id;
};

static struct ckpt_value *make(struct graph *g, uint8_t kind)
{
	struct ckpt_value *v = ckpt_arena_calloc(g->arena, 1, sizeof(*v));

	assert_non_null(v);
	v->kind = kind;
	v->id = kind <= CKPT_FLOAT ? 0 : g->next_id++;
	return v;
}

static struct ckpt_value *make_int(struct graph *g, int64_t integer)
{
	struct ckpt_value *v = make(g, CKPT_INT);

	v->u.integer = integer;
	return v;
}

static struct ckpt_value *make_text(struct graph *g, uint8_t kind, const char *text, size_t len)
{
	struct ckpt_value *v = make(g, kind);

	v->u.bytes.ptr = ckpt_arena_copy(g->arena, text, len);
	v->u.bytes.len = len;
	return v;
}

static struct ckpt_value *make_str(struct graph *g, const char *text)
{
	return make_text(g, CKPT_STR, text, strlen(text));
}

static struct ckpt_value *make_global(struct graph *g, const char *module, const char *name)
{
	struct ckpt_value *v = make(g, CKPT_GLOBAL);
	struct ckpt_global *global = ckpt_arena_alloc(g->arena, sizeof(*global));

	*global = (struct ckpt_global){ module, name, (uint32_t)strlen(module), (uint32_t)strlen(name) };
	v->u.global = global;
	return v;
}

static struct ckpt_value *make_call(struct graph *g, const char *module, const char *name)
{
	struct ckpt_value *v = make(g, CKPT_CALL);

	v->u.call = ckpt_arena_calloc(g->arena, 1, sizeof(*v->u.call));
	v->u.call->func = make_global(g, module, name);
	v->u.call->args = &ckpt_value_empty_tuple;
	return v;
}

static void add(struct graph *g, struct ckpt_seq *seq, const struct ckpt_value *v)
{
	assert_true(ckpt_seq_add(g->arena, seq, v));
}

static struct ckpt_value *make_numbers(struct graph *g, uint8_t kind, unsigned count)
{
	struct ckpt_value *v = make(g, kind);

	for (unsigned i = 0; i < count; i++) {
		if (kind == CKPT_DICT)
			add(g, &v->u.seq, make_int(g, i));
		add(g, &v->u.seq, make_int(g, i));
	}
	return v;
}

static struct ckpt_value *make_strings(struct graph *g, unsigned count, unsigned times)
{
	struct ckpt_value *v = make(g, CKPT_LIST);
	char text[32];

	for (unsigned i = 0; i < count * times; i++) {
		snprintf(text, sizeof(text), "string %u", i % count);
		/* the second time they are equal, not the same: Python made them anew */
		add(g, &v->u.seq, make_str(g, text));
	}
	return v;
}

static struct ckpt_value *make_long(struct graph *g, uint8_t kind, unsigned count)
{
	struct ckpt_value *v = make(g, CKPT_LIST), *part;
	char *text = malloc(count);

	assert_non_null(text);
	for (int i = 0; i < 5; i++) {
		memset(text, i == 1 ? 'x' : 'y', count);
		part = i % 2 ? make_text(g, kind, text, count) : make_int(g, i / 2);
		add(g, &v->u.seq, part);
	}
	free(text);
	return v;
}

static struct ckpt_value *make_big(struct graph *g, enum big_kind kind, unsigned count)
{
	struct ckpt_value *v, *numbers;

	switch (kind) {
	case LIST: return make_numbers(g, CKPT_LIST, count);
	case DICT: return make_numbers(g, CKPT_DICT, count);
	case SET: return make_numbers(g, CKPT_SET, count);
	case FROZENSET: return make_numbers(g, CKPT_FROZENSET, count);
	case TUPLE: return count ? make_numbers(g, CKPT_TUPLE, count)
				 : (struct ckpt_value *)&ckpt_value_empty_tuple;
	case ORDERED_DICT:
		v = make_call(g, "collections", "OrderedDict");
		numbers = make_numbers(g, CKPT_DICT, count);
		v->u.call->pairs = numbers->u.seq;
		return v;
	case DEQUE:
		v = make_call(g, "collections", "deque");
		numbers = make_numbers(g, CKPT_LIST, count);
		v->u.call->items = numbers->u.seq;
		return v;
	case STRINGS: return make_strings(g, count, 1);
	case TWICE:
		v = make_strings(g, count, 1); /* there the same objects come twice */
		assert_true(ckpt_seq_add_many(g->arena, &v->u.seq, v->u.seq.items, count));
		return v;
	case LONG_STRINGS: return make_long(g, CKPT_STR, count);
	case LONG_BYTES: return make_long(g, CKPT_BYTES, count);
	}
	return NULL;
}

static void long_containers_are_written_as_cpython_writes_them(void **state)
{
	unsigned failed = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(big_cases); i++) {
		struct graph g = { ckpt_arena_new(BUDGET), 1 };
		struct ckpt_buf out = { 0 };
		uint32_t crc;

		encode(make_big(&g, big_cases[i].kind, big_cases[i].count), big_cases[i].protocol, &out);
		crc = libdeflate_crc32(0, out.data, out.len);
		if (out.len != big_cases[i].len || crc != big_cases[i].crc32) {
			print_error("kind %d, %u items, protocol %u: %zu bytes, wanted %u\n",
				    big_cases[i].kind, big_cases[i].count, big_cases[i].protocol, out.len,
				    big_cases[i].len);
			failed++;
		}
		ckpt_buf_clear(&out);
		ckpt_arena_free(g.arena);
	}
	assert_int_equal(failed, 0);
}

/* What ROOT is at PROTOCOL has to be HEX. */
static void assert_pickle(const struct ckpt_value *root, unsigned protocol, const char *hex)
{
	struct ckpt_buf want = unit_bytes(hex), out = { 0 };

	encode(root, protocol, &out);
	assert_int_equal(out.len, want.len);
	assert_memory_equal(out.data, want.data, want.len);
	ckpt_buf_clear(&want);
	ckpt_buf_clear(&out);
}

static void short_strings_are_one_object_and_others_are_not(void **state)
{
	struct graph g = { ckpt_arena_new(BUDGET), 1 };
	struct ckpt_value *list = make(&g, CKPT_LIST);

	(void)state;
	add(&g, &list->u.seq, make_str(&g, "a"));
	add(&g, &list->u.seq, make_str(&g, "a"));
	add(&g, &list->u.seq, make_str(&g, "\xc3\xa9"));
	add(&g, &list->u.seq, make_str(&g, "\xc3\xa9"));
	add(&g, &list->u.seq, make_str(&g, ""));
	add(&g, &list->u.seq, make_str(&g, ""));
	add(&g, &list->u.seq, make_str(&g, "ab"));
	add(&g, &list->u.seq, make_str(&g, "ab"));
	add(&g, &list->u.seq, make_str(&g, "\xc4\x80"));
	add(&g, &list->u.seq, make_str(&g, "\xc4\x80"));
	assert_pickle(list, 2,
		      "80 02 5d 71 00 28 58 01 00 00 00 61 71 01 68 01 58 02 00 00 00 c3 a9 71 02 68 02"
		      "58 00 00 00 00 71 03 68 03 58 02 00 00 00 61 62 71 04 58 02 00 00 00 61 62 71 05"
		      "58 02 00 00 00 c4 80 71 06 58 02 00 00 00 c4 80 71 07 65 2e");
	ckpt_arena_free(g.arena);
}

static void the_flags_of_a_string_say_what_it_is_the_same_as(void **state)
{
	struct graph g = { ckpt_arena_new(BUDGET), 1 };
	struct ckpt_value *list = make(&g, CKPT_LIST), *v;

	(void)state;
	for (int i = 0; i < 2; i++) { /* made by a conversion: never shared, however short */
		v = make_str(&g, "0");
		v->flags |= CKPT_VALUE_DISTINCT;
		add(&g, &list->u.seq, v);
	}
	for (int i = 0; i < 2; i++) { /* interned: one object, but not the one from the file */
		v = make_str(&g, "cpu");
		v->flags |= CKPT_VALUE_INTERNED;
		add(&g, &list->u.seq, v);
	}
	add(&g, &list->u.seq, make_str(&g, "cpu"));
	assert_pickle(list, 2,
		      "80 02 5d 71 00 28 58 01 00 00 00 30 71 01 58 01 00 00 00 30 71 02"
		      "58 03 00 00 00 63 70 75 71 03 68 03 58 03 00 00 00 63 70 75 71 04 65 2e");
	ckpt_arena_free(g.arena);
}

static void a_storage_is_never_in_the_memo(void **state)
{
	struct graph g = { ckpt_arena_new(BUDGET), 1 };
	struct ckpt_value *list = make(&g, CKPT_LIST), *storage = make(&g, CKPT_PERSID);

	(void)state;
	storage->u.persid.pid = make_str(&g, "id");
	add(&g, &list->u.seq, storage);
	add(&g, &list->u.seq, storage);
	assert_pickle(list, 2, "80 02 5d 71 00 28 58 02 00 00 00 69 64 71 01 51 68 01 51 65 2e");
	ckpt_arena_free(g.arena);
}

static const struct ckpt_value *answer(void *ctx, const struct ckpt_value *v,
				       struct ckpt_arena *scratch, struct ckpt_error *err)
{
	struct ckpt_value *other;

	(void)ctx;
	if (v->kind == CKPT_NONE) {
		ckpt_fail(err, CKPT_E_FORMAT, "no answer");
		return NULL;
	}
	if (v->kind != CKPT_INT)
		return v;
	other = ckpt_arena_calloc(scratch, 1, sizeof(*other));
	*other = (struct ckpt_value){ .kind = CKPT_INT, .u.integer = v->u.integer + 1 };
	return other;
}

static void the_resolver_says_what_is_written(void **state)
{
	struct ckpt_pickle_options options = { .protocol = 2, .resolve = answer };
	struct graph g = { ckpt_arena_new(BUDGET), 1 };
	struct ckpt_value *tuple = make(&g, CKPT_TUPLE), *final = make_int(&g, 1);
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_buf out = { 0 };

	(void)state;
	final->flags = CKPT_VALUE_FINAL;
	add(&g, &tuple->u.seq, make_int(&g, 1));
	add(&g, &tuple->u.seq, final);
	assert_int_equal(ckpt_pickle_encode(tuple, &options, &out, &err), 0);
	assert_int_equal(out.len, 10);
	assert_memory_equal(out.data, "\x80\x02K\x02K\x01\x86q\x00.", 10);
	add(&g, &tuple->u.seq, &ckpt_value_none);
	out.len = 0;
	assert_int_equal(ckpt_pickle_encode(tuple, &options, &out, &err), CKPT_E_FORMAT);
	assert_string_equal(unit_message(&err), "no answer");
	out.len = 0;
	assert_int_equal(ckpt_pickle_encode(tuple, &options, &out, NULL), CKPT_E_FORMAT);
	ckpt_buf_clear(&out);
	ckpt_arena_free(g.arena);
}

/* The other pickler of CPython: python_batches. Bytes checked with pickle._dumps(list(range(N)), 2). */
static void the_python_picklers_batches_can_be_written_and_are_recognised(void **state)
{
	static const struct {
		uint8_t kind;
		unsigned count, len;
		uint32_t crc32;
	} table[] = {
#include "python_batches.h"
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct ckpt_pickle_options options = { .protocol = 2, .python_batches = true };
		struct graph g = { ckpt_arena_new(BUDGET), 1 };
		struct ckpt_buf out = { 0 }, again = { 0 };
		struct ckpt_pickle pickle;

		ckpt_pickle_encode(make_numbers(&g, table[i].kind, table[i].count), &options, &out, NULL);
		assert_int_equal(out.len, table[i].len);
		assert_int_equal(libdeflate_crc32(0, out.data, out.len), table[i].crc32);
		assert_int_equal(ckpt_pickle_decode(out.data, out.len, BUDGET, &pickle, NULL), 0);
		options.python_batches = pickle.python_batches;
		ckpt_pickle_encode(pickle.root, &options, &again, NULL);
		assert_int_equal(again.len, out.len);
		assert_memory_equal(again.data, out.data, out.len);
		ckpt_pickle_clear(&pickle);
		ckpt_buf_clear(&out);
		ckpt_buf_clear(&again);
		ckpt_arena_free(g.arena);
	}
}

static void what_a_protocol_cannot_say_is_refused(void **state)
{
	struct ckpt_pickle_options options = { .protocol = 2 };
	struct graph g = { ckpt_arena_new(BUDGET), 1 };
	struct ckpt_value *call = make_call(&g, "m", "C"), *ext = make(&g, CKPT_EXT);
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_buf out = { 0 };

	(void)state;
	call->u.call->kind = CKPT_CALL_NEWOBJ_EX;
	call->u.call->kwargs = make(&g, CKPT_DICT);
	assert_int_equal(ckpt_pickle_encode(call, &options, &out, &err), CKPT_E_UNSUPPORTED);
	assert_string_equal(unit_message(&err), "an object made with keyword arguments needs protocol 4");
	ext->u.integer = 240;
	options.protocol = 1;
	assert_int_equal(ckpt_pickle_encode(ext, &options, &out, &err), CKPT_E_UNSUPPORTED);
	assert_string_equal(unit_message(&err), "copyreg extension code 240 needs protocol 2");
	ckpt_buf_clear(&out);
	ckpt_arena_free(g.arena);
}

static void no_name_of_a_class_becomes_opcodes(void **state)
{
	static const char *const names[][2] = { { "m\ncos", "C" }, { "m", "C\ncos\nsystem" }, { "\n", "a.b.c" }, { "m", "C\n.D" } };

	(void)state;
	for (size_t i = 0; i < COUNT(names); i++)
		for (uint8_t protocol = 1; protocol <= 5; protocol++) {
			struct ckpt_pickle_options options = { .protocol = protocol };
			struct graph g = { ckpt_arena_new(BUDGET), 1 };
			struct ckpt_error err = CKPT_ERROR_INIT;
			struct ckpt_buf out = { 0 };

			assert_int_equal(ckpt_pickle_encode(make_call(&g, names[i][0], names[i][1]), &options, &out, &err),
					 CKPT_E_UNSUPPORTED);
			assert_string_equal(unit_message(&err), "a class or function has a line feed in its name");
			ckpt_buf_clear(&out);
			ckpt_arena_free(g.arena);
		}
}

static void nesting_has_a_limit_and_no_recursion(void **state)
{
	struct ckpt_pickle_options options = { .protocol = 2 };
	struct graph g = { ckpt_arena_new(BUDGET), 1 };
	struct ckpt_value *top = make(&g, CKPT_LIST);
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_buf out = { 0 };
	unsigned depth = 1;

	(void)state;
	for (; depth < 99999; depth++) {
		struct ckpt_value *outer = make(&g, CKPT_LIST);

		add(&g, &outer->u.seq, top);
		top = outer;
	}
	assert_int_equal(ckpt_pickle_encode(top, &options, &out, &err), 0);
	for (; depth < 100002; depth++) {
		struct ckpt_value *outer = make(&g, CKPT_LIST);

		add(&g, &outer->u.seq, top);
		top = outer;
	}
	assert_int_equal(ckpt_pickle_encode(top, &options, &out, &err), CKPT_E_LIMIT);
	assert_string_equal(unit_message(&err), "values are nested deeper than 100000 levels");
	ckpt_buf_clear(&out);
	ckpt_arena_free(g.arena);
}

UNIT_SUITE(test_encode)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_decoded_is_written_as_cpython_wrote_it),
		cmocka_unit_test(at_protocol_2_it_is_what_cpython_writes_at_protocol_2),
		cmocka_unit_test(every_opcode_of_cpython_is_known_by_its_name),
		cmocka_unit_test(long_containers_are_written_as_cpython_writes_them),
		cmocka_unit_test(short_strings_are_one_object_and_others_are_not),
		cmocka_unit_test(the_flags_of_a_string_say_what_it_is_the_same_as),
		cmocka_unit_test(a_storage_is_never_in_the_memo),
		cmocka_unit_test(the_resolver_says_what_is_written),
		cmocka_unit_test(the_python_picklers_batches_can_be_written_and_are_recognised),
		cmocka_unit_test(what_a_protocol_cannot_say_is_refused),
		cmocka_unit_test(no_name_of_a_class_becomes_opcodes),
		cmocka_unit_test(nesting_has_a_limit_and_no_recursion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
