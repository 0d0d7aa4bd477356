/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "pickle/decode.h"
#include "pickle/dis.h"

#include <math.h>
#include <string.h>

static const uint64_t BUDGET = 64 << 20;

/* ---- what is wrong, and where ---- */

static const struct {
	const char *hex, *message;
} bad[] = {
	/* the end */
	{ "", "+0x0: the pickle ends before STOP" },
	{ "80 02", "+0x2: the pickle ends before STOP" },
	{ "4e", "+0x1: the pickle ends before STOP" },
	{ "80", "+0x0: the operand of PROTO reaches past the end of the pickle" },
	{ "4e 80 02 4a 01 02 03", "+0x3: the operand of BININT reaches past the end of the pickle" },
	{ "4b", "+0x0: the operand of BININT1 reaches past the end of the pickle" },
	{ "4d 01", "+0x0: the operand of BININT2 reaches past the end of the pickle" },
	{ "47 00 00 00 00 00 00 00", "+0x0: the operand of BINFLOAT reaches past the end of the pickle" },
	{ "95 00 00 00 00 00 00 00", "+0x0: the operand of FRAME reaches past the end of the pickle" },
	{ "80 04 95 ff ff ff ff ff ff ff ff 4e 2e", "+0x2: a frame of 18446744073709551615 bytes reaches past the end of the pickle" },
	{ "80 04 95 03 00 00 00 00 00 00 00 4e 2e", "+0x2: a frame of 3 bytes reaches past the end of the pickle" },
	{ "49 31", "+0x0: the operand of INT reaches past the end of the pickle" },
	{ "63 61 0a", "+0x0: the operand of GLOBAL reaches past the end of the pickle" },
	{ "63 61 0a 62", "+0x0: the operand of GLOBAL reaches past the end of the pickle" },
	{ "58 02 00 00 00 61", "+0x0: the operand of BINUNICODE reaches past the end of the pickle" },
	{ "8c 02 61", "+0x0: the operand of SHORT_BINUNICODE reaches past the end of the pickle" },
	{ "42 ff ff ff ff 61", "+0x0: the operand of BINBYTES reaches past the end of the pickle" },
	{ "43 02 61", "+0x0: the operand of SHORT_BINBYTES reaches past the end of the pickle" },
	{ "8a 02 61", "+0x0: the operand of LONG1 reaches past the end of the pickle" },
	{ "55 02 61", "+0x0: the operand of SHORT_BINSTRING reaches past the end of the pickle" },
	/* lengths that lie */
	{ "8d ff ff ff ff ff ff ff ff 61", "+0x0: the operand of BINUNICODE8 reaches past the end of the pickle" },
	{ "8e ff ff ff ff ff ff ff 7f 61", "+0x0: the operand of BINBYTES8 reaches past the end of the pickle" },
	{ "96 00 00 00 00 01 00 00 00 61", "+0x0: the operand of BYTEARRAY8 reaches past the end of the pickle" },
	{ "54 ff ff ff ff 61", "+0x0: the operand of BINSTRING reaches past the end of the pickle" },
	{ "54 00 00 00 80 61", "+0x0: the operand of BINSTRING reaches past the end of the pickle" },
	{ "8b ff ff ff ff 61", "+0x0: the operand of LONG4 reaches past the end of the pickle" },
	/* opcodes */
	{ "ff", "+0x0: unknown opcode 0xff" },
	{ "80 02 4e 00 2e", "+0x3: unknown opcode 0x00" },
	{ "80 06 4e 2e", "+0x0: pickle protocol 6, wanted 0 to 5" },
	{ "80 ff 4e 2e", "+0x0: pickle protocol 255, wanted 0 to 5" },
	{ "97 2e", "+0x0: NEXT_BUFFER wants a buffer from outside of the pickle" },
	{ "4e 98 2e", "+0x1: READONLY_BUFFER wants a buffer from outside of the pickle" },
	/* the stack */
	{ "2e", "+0x0: STOP needs 1 value, the stack has 0" },
	{ "28 2e", "+0x1: STOP needs 1 value, the stack has 0" },
	{ "30", "+0x0: POP needs 1 value, the stack has 0" },
	{ "32", "+0x0: DUP needs 1 value, the stack has 0" },
	{ "51", "+0x0: BINPERSID needs 1 value, the stack has 0" },
	{ "85", "+0x0: TUPLE1 needs 1 value, the stack has 0" },
	{ "4e 86", "+0x1: TUPLE2 needs 2 values, the stack has 1" },
	{ "4e 4e 87", "+0x2: TUPLE3 needs 3 values, the stack has 2" },
	{ "4e 28 85", "+0x2: TUPLE1 needs 1 value, the stack has 0" }, /* what lies below a mark is not its own */
	{ "5d 28 61", "+0x2: APPEND needs 2 values, the stack has 0" },
	{ "5d 61", "+0x1: APPEND needs 2 values, the stack has 1" },
	{ "7d 4e 73", "+0x2: SETITEM needs 3 values, the stack has 2" },
	{ "80 04 93 2e", "+0x2: STACK_GLOBAL needs 2 values, the stack has 0" },
	{ "4e 52", "+0x1: REDUCE needs 2 values, the stack has 1" },
	{ "4e 81", "+0x1: NEWOBJ needs 2 values, the stack has 1" },
	{ "4e 4e 92", "+0x2: NEWOBJ_EX needs 3 values, the stack has 2" },
	{ "4e 62", "+0x1: BUILD needs 2 values, the stack has 1" },
	/* marks */
	{ "4e 74", "+0x1: TUPLE needs a MARK, there is none" },
	{ "6c", "+0x0: LIST needs a MARK, there is none" },
	{ "64", "+0x0: DICT needs a MARK, there is none" },
	{ "5d 65", "+0x1: APPENDS needs a MARK, there is none" },
	{ "7d 75", "+0x1: SETITEMS needs a MARK, there is none" },
	{ "8f 90", "+0x1: ADDITEMS needs a MARK, there is none" },
	{ "91", "+0x0: FROZENSET needs a MARK, there is none" },
	{ "31", "+0x0: POP_MARK needs a MARK, there is none" },
	{ "6f", "+0x0: OBJ needs a MARK, there is none" },
	{ "69 61 0a 62 0a", "+0x0: INST needs a MARK, there is none" },
	{ "28 6f", "+0x1: OBJ needs a class, found none" },
	{ "28 4e 65", "+0x2: APPENDS needs 1 value, the stack has 0" },
	{ "28 30 74", "+0x2: TUPLE needs a MARK, there is none" },
	/* kinds */
	{ "28 4e 64", "+0x2: DICT has a key without a value" },
	{ "7d 28 4e 75", "+0x3: SETITEMS has a key without a value" },
	{ "4e 4e 61", "+0x2: APPEND cannot add to a value of kind None" },
	{ "5d 28 4e 90", "+0x3: ADDITEMS cannot add to a value of kind list" },
	{ "29 28 4e 65", "+0x3: APPENDS cannot add to a value of kind tuple" },
	{ "4e 4e 4e 73", "+0x3: SETITEM cannot add to a value of kind None" },
	{ "5d 28 4e 4e 75", "+0x4: SETITEMS cannot add to a value of kind list" },
	{ "4b 01 4b 02 93 2e", "+0x4: STACK_GLOBAL needs 2 strings, found int and int" },
	{ "8c 01 61 4e 93 2e", "+0x4: STACK_GLOBAL needs 2 strings, found str and None" },
	{ "63 61 0a 62 0a 5d 52", "+0x6: REDUCE needs a tuple of arguments, found list" },
	{ "63 61 0a 62 0a 4e 81", "+0x6: NEWOBJ needs a tuple of arguments, found None" },
	{ "4e 4e 62", "+0x2: BUILD needs an object, found None" },
	{ "63 61 0a 00 0a 2e", "+0x0: GLOBAL has a name that no class can have" },
	/* the memo */
	{ "68 05 2e", "+0x0: BINGET of memo entry 5, which is not set" },
	{ "6a ff ff ff ff 2e", "+0x0: LONG_BINGET of memo entry 4294967295, which is not set" },
	{ "67 37 0a 2e", "+0x0: GET of memo entry 7, which is not set" },
	{ "4e 71 00 68 01 2e", "+0x3: BINGET of memo entry 1, which is not set" },
	{ "71 00", "+0x0: BINPUT needs 1 value, the stack has 0" },
	{ "4e 28 71 00", "+0x2: BINPUT needs 1 value, the stack has 0" },
	{ "94", "+0x0: MEMOIZE needs 1 value, the stack has 0" },
	{ "72 00 00 00 00", "+0x0: LONG_BINPUT needs 1 value, the stack has 0" },
	{ "4e 70 0a", "+0x1: PUT needs a memo index" },
	{ "4e 70 2d 31 0a", "+0x1: PUT needs a memo index" },
	{ "67 78 0a", "+0x0: GET needs a memo index" },
	{ "67 31 31 31 31 31 31 31 31 31 31 31 0a", "+0x0: GET needs a memo index" },
	/* text */
	{ "49 78 0a", "+0x0: 'x' is not an integer" },
	{ "49 0a", "+0x0: '' is not an integer" },
	{ "4e 4c 31 2e 35 4c 0a", "+0x1: '1.5L' is not an integer" },
	{ "46 78 0a", "+0x0: 'x' is not a number" },
	{ "53 78 0a", "+0x0: 'x' is not a quoted string" },
	{ "53 27 78 0a", "+0x0: ''x' is not a quoted string" },
	{ "56 5c 75 78 0a", "+0x0: '\\\\ux' is not a unicode string" },
	{ "49 1b 5b 0a", "+0x0: '\\x1b[' is not an integer" },
};

static void decode_names_the_place_of_every_error(void **state)
{
	unsigned failed = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct ckpt_buf in = unit_bytes(bad[i].hex);
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_pickle pickle;
		int rc = ckpt_pickle_decode(in.data, in.len, BUDGET, &pickle, &err);

		if (rc != CKPT_E_FORMAT || strcmp(unit_message(&err), bad[i].message)) {
			print_error("%s: '%s', wanted '%s'\n", bad[i].hex, rc ? unit_message(&err) : "",
				    bad[i].message);
			failed++;
		}
		if (rc == 0)
			ckpt_pickle_clear(&pickle);
		ckpt_buf_clear(&in);
	}
	assert_int_equal(failed, 0);
}

/* ---- what comes out ---- */

struct decoded {
	struct ckpt_buf bytes;
	struct ckpt_pickle pickle;
	const struct ckpt_value *root;
};

static struct decoded decode(const char *hex)
{
	struct decoded d = { .bytes = unit_bytes(hex) };
	struct ckpt_error err = CKPT_ERROR_INIT;

	if (ckpt_pickle_decode(d.bytes.data, d.bytes.len, BUDGET, &d.pickle, &err) < 0)
		fail_msg("%s: %s", hex, unit_message(&err));
	d.root = d.pickle.root;
	return d;
}

static void clear(struct decoded *d)
{
	ckpt_pickle_clear(&d->pickle);
	ckpt_buf_clear(&d->bytes);
}

static void every_form_of_a_number_is_read(void **state)
{
	static const struct {
		const char *hex;
		uint8_t kind;
		int64_t integer;
	} table[] = {
		{ "4b ff 2e", CKPT_INT, 255 },
		{ "4d ff ff 2e", CKPT_INT, 65535 },
		{ "4a ff ff ff ff 2e", CKPT_INT, -1 },
		{ "4a 00 00 00 80 2e", CKPT_INT, INT32_MIN },
		{ "49 31 32 0a 2e", CKPT_INT, 12 },
		{ "49 2d 31 32 0a 2e", CKPT_INT, -12 },
		{ "49 30 30 0a 2e", CKPT_BOOL, 0 },
		{ "49 30 31 0a 2e", CKPT_BOOL, 1 },
		{ "49 30 0a 2e", CKPT_INT, 0 },
		{ "4c 35 4c 0a 2e", CKPT_INT, 5 },
		{ "4c 30 31 4c 0a 2e", CKPT_INT, 1 },
		{ "8a 00 2e", CKPT_INT, 0 },
		{ "8a 01 ff 2e", CKPT_INT, -1 },
		{ "8a 02 ff 00 2e", CKPT_INT, 255 },
		{ "8a 08 00 00 00 00 00 00 00 80 2e", CKPT_INT, INT64_MIN },
		{ "8b 02 00 00 00 00 01 2e", CKPT_INT, 256 },
		{ "88 2e", CKPT_BOOL, 1 },
		{ "89 2e", CKPT_BOOL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct decoded d = decode(table[i].hex);

		assert_int_equal(d.root->kind, table[i].kind);
		assert_int_equal(d.root->u.integer, table[i].integer);
		clear(&d);
	}
}

static void every_form_of_a_float_is_read(void **state)
{
	struct decoded d = decode("47 3f f8 00 00 00 00 00 00 2e");

	(void)state;
	assert_int_equal(d.root->kind, CKPT_FLOAT);
	assert_true(d.root->u.real == 1.5);
	clear(&d);
	d = decode("46 2d 31 65 33 0a 2e");
	assert_true(d.root->u.real == -1000.0);
	clear(&d);
	d = decode("46 6e 61 6e 0a 2e");
	assert_true(isnan(d.root->u.real));
	clear(&d);
}

static void every_form_of_text_and_bytes_is_read(void **state)
{
	static const struct {
		const char *hex;
		uint8_t kind;
		const char *text;
		size_t len;
	} table[] = {
		{ "58 01 00 00 00 61 2e", CKPT_STR, "a", 1 },
		{ "8c 00 2e", CKPT_STR, "", 0 },
		{ "8d 02 00 00 00 00 00 00 00 61 62 2e", CKPT_STR, "ab", 2 },
		{ "56 61 5c 75 30 30 65 39 0a 2e", CKPT_STR, "a\xc3\xa9", 3 },
		{ "56 e9 0a 2e", CKPT_STR, "\xc3\xa9", 2 },
		{ "53 27 61 5c 6e 27 0a 2e", CKPT_PY2_STR, "a\n", 2 },
		{ "53 22 61 22 0a 2e", CKPT_PY2_STR, "a", 1 },
		{ "54 01 00 00 00 ff 2e", CKPT_PY2_STR, "\xff", 1 },
		{ "55 01 61 2e", CKPT_PY2_STR, "a", 1 },
		{ "42 01 00 00 00 00 2e", CKPT_BYTES, "\0", 1 },
		{ "43 02 61 ff 2e", CKPT_BYTES, "a\xff", 2 },
		{ "8e 01 00 00 00 00 00 00 00 61 2e", CKPT_BYTES, "a", 1 },
		{ "96 01 00 00 00 00 00 00 00 61 2e", CKPT_BYTEARRAY, "a", 1 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct decoded d = decode(table[i].hex);

		assert_int_equal(d.root->kind, table[i].kind);
		assert_int_equal(d.root->u.bytes.len, table[i].len);
		assert_memory_equal(d.root->u.bytes.ptr, table[i].text, table[i].len);
		clear(&d);
	}
}

static void every_way_to_make_a_container_is_understood(void **state)
{
	static const struct {
		const char *hex;
		uint8_t kind;
		uint32_t count;
	} table[] = {
		{ "5d 2e", CKPT_LIST, 0 },
		{ "28 4e 4e 6c 2e", CKPT_LIST, 2 },
		{ "5d 4e 61 2e", CKPT_LIST, 1 },
		{ "5d 28 4e 4e 4e 65 2e", CKPT_LIST, 3 },
		{ "5d 28 65 2e", CKPT_LIST, 0 },
		{ "29 2e", CKPT_TUPLE, 0 },
		{ "28 74 2e", CKPT_TUPLE, 0 },
		{ "28 4e 4e 4e 4e 74 2e", CKPT_TUPLE, 4 },
		{ "4e 85 2e", CKPT_TUPLE, 1 },
		{ "4e 4e 86 2e", CKPT_TUPLE, 2 },
		{ "4e 4e 4e 87 2e", CKPT_TUPLE, 3 },
		{ "7d 2e", CKPT_DICT, 0 },
		{ "28 4e 4e 64 2e", CKPT_DICT, 2 },
		{ "7d 4e 4e 73 2e", CKPT_DICT, 2 },
		{ "7d 28 4e 4e 4e 4e 75 2e", CKPT_DICT, 4 },
		{ "8f 2e", CKPT_SET, 0 },
		{ "8f 28 4b 01 4b 02 90 2e", CKPT_SET, 2 },
		{ "28 4b 01 91 2e", CKPT_FROZENSET, 1 },
		{ "28 28 74 28 74 74 2e", CKPT_TUPLE, 2 }, /* marks nest */
		{ "5d 4e 32 30 61 2e", CKPT_LIST, 1 },      /* DUP, POP */
		{ "5d 28 4e 4e 31 2e", CKPT_LIST, 0 },      /* POP_MARK */
		{ "5d 28 30 2e", CKPT_LIST, 0 },            /* POP takes a mark that is on top */
		{ "28 5d 2e", CKPT_LIST, 0 },               /* a mark left behind */
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		struct decoded d = decode(table[i].hex);

		assert_int_equal(d.root->kind, table[i].kind);
		assert_int_equal(d.root->u.seq.count, table[i].count);
		clear(&d);
	}
}

static void calls_become_data(void **state)
{
	/* posix.system('id') */
	struct decoded d = decode("63 70 6f 73 69 78 0a 73 79 73 74 65 6d 0a 58 02 00 00 00 69 64 85 52 2e");

	(void)state;
	assert_int_equal(d.root->kind, CKPT_CALL);
	assert_int_equal(d.root->u.call->kind, CKPT_CALL_REDUCE);
	assert_true(ckpt_value_is_global(d.root->u.call->func, "posix", "system"));
	assert_int_equal(d.root->u.call->args->u.seq.count, 1);
	assert_true(ckpt_value_is_call_of(d.root, "posix", "system"));
	clear(&d);
	d = decode("63 61 0a 62 0a 29 81 2e");
	assert_int_equal(d.root->u.call->kind, CKPT_CALL_NEWOBJ);
	clear(&d);
	d = decode("63 61 0a 62 0a 29 7d 92 2e");
	assert_int_equal(d.root->u.call->kind, CKPT_CALL_NEWOBJ_EX);
	assert_int_equal(d.root->u.call->kwargs->kind, CKPT_DICT);
	clear(&d);
	d = decode("28 4e 69 61 0a 62 0a 2e"); /* INST */
	assert_true(ckpt_value_is_call_of(d.root, "a", "b"));
	assert_int_equal(d.root->u.call->args->u.seq.count, 1);
	clear(&d);
	d = decode("28 63 61 0a 62 0a 4e 6f 2e"); /* OBJ */
	assert_true(ckpt_value_is_call_of(d.root, "a", "b"));
	assert_int_equal(d.root->u.call->args->u.seq.count, 1);
	clear(&d);
}

static void items_pairs_and_state_of_a_call_are_kept(void **state)
{
	struct decoded d = decode("63 61 0a 62 0a 29 52 4e 61 28 4e 4e 65 4b 01 4e 73 28 4b 02 4e 75"
				  "7d 62 2e");

	(void)state;
	assert_int_equal(d.root->u.call->items.count, 3);
	assert_int_equal(d.root->u.call->pairs.count, 4);
	assert_int_equal(d.root->u.call->state->kind, CKPT_DICT);
	clear(&d);
}

static void an_ordered_dict_of_python_2_has_pairs(void **state)
{
	/* collections.OrderedDict, then ([pair, ...],) */
#define ORDERED "63 63 6f 6c 6c 65 63 74 69 6f 6e 73 0a 4f 72 64 65 72 65 64 44 69 63 74 0a "
	struct decoded d;

	(void)state;
	d = decode(ORDERED "5d 5d 4b 01 61 4b 02 61 61 4b 03 4b 04 86 61 85 52 2e");
	assert_int_equal(d.root->kind, CKPT_CALL);
	assert_int_equal(d.root->u.call->args->u.seq.count, 0);
	assert_int_equal(d.root->u.call->pairs.count, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(d.root->u.call->pairs.items[i]->u.integer, i + 1);
	clear(&d);
	d = decode(ORDERED "5d 5d 4b 01 61 61 85 52 2e"); /* no pair */
	assert_int_equal(d.root->u.call->args->u.seq.count, 1);
	assert_int_equal(d.root->u.call->pairs.count, 0);
	clear(&d);
#undef ORDERED
}

static void persistent_ids_and_extensions_are_kept(void **state)
{
	struct decoded d = decode("58 01 00 00 00 61 51 2e");

	(void)state;
	assert_int_equal(d.root->kind, CKPT_PERSID);
	assert_true(ckpt_value_is_str(d.root->u.persid.pid, "a"));
	clear(&d);
	d = decode("50 61 62 0a 2e");
	assert_int_equal(d.root->kind, CKPT_PERSID);
	assert_true(ckpt_value_is_str(d.root->u.persid.pid, "ab"));
	clear(&d);
	d = decode("82 f0 2e");
	assert_int_equal(d.root->kind, CKPT_EXT);
	assert_int_equal(d.root->u.integer, 240);
	clear(&d);
	d = decode("83 f0 01 2e");
	assert_int_equal(d.root->u.integer, 0x1F0);
	clear(&d);
	d = decode("84 01 00 00 00 2e");
	assert_int_equal(d.root->u.integer, 1);
	clear(&d);
}

static void both_spellings_of_a_global_are_one_object(void **state)
{
	/* (GLOBAL 'a b', STACK_GLOBAL a b) */
	struct decoded d = decode("63 61 0a 62 0a 8c 01 61 8c 01 62 93 86 2e");

	(void)state;
	assert_ptr_equal(d.root->u.seq.items[0], d.root->u.seq.items[1]);
	assert_string_equal(d.root->u.seq.items[0]->u.global->module, "a");
	clear(&d);
}

/* A list of two; the first and the second are the same object. */
static void assert_same(const char *hex)
{
	struct decoded d = decode(hex);

	assert_int_equal(d.root->u.seq.count, 2);
	assert_ptr_equal(d.root->u.seq.items[0], d.root->u.seq.items[1]);
	clear(&d);
}

static void the_memo_gives_the_same_object_back(void **state)
{
	(void)state;
	assert_same("5d 71 05 68 05 86 2e");
	assert_same("5d 72 00 01 00 00 6a 00 01 00 00 86 2e");
	assert_same("5d 70 33 0a 67 33 0a 86 2e");
	assert_same("5d 94 68 00 86 2e");
	assert_same("5d 72 ff ff ff ff 6a ff ff ff ff 86 2e");        /* no array of that size */
	assert_same("4e 71 00 30 5d 71 00 68 00 86 2e");              /* an entry that is set anew */
	assert_same("4e 71 05 30 5d 94 68 01 86 2e");                 /* MEMOIZE counts entries */
	assert_same("5d 32 86 2e");
}

static void a_memo_index_beyond_the_length_of_the_pickle_is_found_again(void **state)
{
	(void)state;
	/* entry 0 first, so that there is an array; then entry 50 in a pickle of 14 bytes */
	assert_same("4e 71 00 30 5d 71 32 68 32 86 2e");
	assert_same("4e 71 00 30 5d 72 3f 00 00 00 6a 3f 00 00 00 86 2e");
}

static void a_container_may_hold_itself(void **state)
{
	struct decoded d = decode("5d 71 00 68 00 61 2e");

	(void)state;
	assert_ptr_equal(d.root->u.seq.items[0], d.root);
	clear(&d);
	d = decode("7d 71 00 4b 01 68 00 73 2e");
	assert_ptr_equal(d.root->u.seq.items[1], d.root);
	clear(&d);
}

static void numbers_have_no_identity_and_objects_have_one(void **state)
{
	struct decoded d = decode("28 4b 01 4a 00 00 01 00 47 00 00 00 00 00 00 00 00 88 4e 5d 29 58 00 00 00 00"
				  "74 2e");
	const struct ckpt_value *const *items = d.root->u.seq.items;

	(void)state;
	for (int i = 0; i < 5; i++)
		assert_int_equal(items[i]->id, 0);
	assert_int_not_equal(items[5]->id, 0);
	assert_int_equal(items[6]->id, 0); /* the empty tuple */
	assert_int_not_equal(items[7]->id, 0);
	assert_true(items[7]->id < d.pickle.next_id);
	clear(&d);
}

static void protocol_length_and_place_are_noted(void **state)
{
	struct decoded d = decode("80 04 95 05 00 00 00 00 00 00 00 5d 4b 01 61 2e aa bb cc");

	(void)state;
	assert_int_equal(d.pickle.protocol, 4);
	assert_int_equal(d.pickle.nbytes, 16); /* what follows STOP is not looked at */
	assert_int_equal(d.root->pos, 11);
	clear(&d);
}

static void frames_that_lie_about_their_length_do_no_harm(void **state)
{
	struct decoded d = decode("80 04 95 00 00 00 00 00 00 00 00 4e 2e");

	(void)state;
	assert_int_equal(d.root->kind, CKPT_NONE);
	assert_false(d.pickle.frames_wrong);
	clear(&d);
	d = decode("80 04 95 02 00 00 00 00 00 00 00 4a 01 00 00 00 2e"); /* ends in a BININT */
	assert_true(d.pickle.frames_wrong);
	clear(&d);
}

static void memory_is_limited(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_pickle pickle;
	size_t len = 100000;
	uint8_t *bytes = malloc(len);

	(void)state;
	memset(bytes, ']', len);
	bytes[len - 1] = '.';
	assert_int_equal(ckpt_pickle_decode(bytes, len, 1 << 20, &pickle, &err), CKPT_E_LIMIT);
	assert_string_equal(strchr(unit_message(&err), ' '),
			    " needs more than 1 MiB of memory, which is the limit");
	assert_int_equal(ckpt_pickle_decode(bytes, len, 64 << 20, &pickle, &err), 0);
	ckpt_pickle_clear(&pickle);
	free(bytes);
}

static void a_pickle_cut_anywhere_fails(void **state)
{
	struct ckpt_buf in = unit_bytes("80 02 7d 71 00 58 01 00 00 00 61 71 01 28 4b 01 4d 00 01 4a 00 00 01 00 47"
					"00 00 00 00 00 00 00 00 74 71 02 73 63 61 0a 62 0a 29 52 86 2e");

	(void)state;
	for (size_t len = 0; len < in.len; len++) {
		uint8_t *part = malloc(len + 1); /* the sanitizer watches its end */
		struct ckpt_pickle pickle;

		memcpy(part, in.data, len);
		part = realloc(part, len ? len : 1);
		assert_int_equal(ckpt_pickle_decode(part, len, BUDGET, &pickle, NULL), CKPT_E_FORMAT);
		free(part);
	}
	ckpt_buf_clear(&in);
}

/* ---- disassembly ---- */

static int collect(void *ctx, const char *line)
{
	ckpt_buf_printf(ctx, "%s\n", line);
	return 0;
}

static int stop_at_once(void *ctx, const char *line)
{
	(void)ctx;
	(void)line;
	return CKPT_E_CANCELLED;
}

static void a_pickle_is_disassembled_with_offsets(void **state)
{
	struct ckpt_buf in = unit_bytes("80 02 63 61 0a 62 0a 58 03 00 00 00 78 0a 79 4a fe ff ff ff 47 3f f8 00 00 00"
					"00 00 00 8a 02 01 02 72 00 01 00 00 49 35 0a 2e");
	struct ckpt_buf out = { 0 };

	(void)state;
	assert_int_equal(ckpt_pickle_disassemble(in.data, in.len, collect, &out, NULL), 0);
	ckpt_buf_add_u8(&out, 0);
	assert_string_equal((char *)out.data, "       0: PROTO 2\n"
					      "       2: GLOBAL 'a b'\n"
					      "       7: BINUNICODE 'x\\ny'\n"
					      "      15: BININT -2\n"
					      "      20: BINFLOAT 1.5\n"
					      "      29: LONG1 0x0201\n"
					      "      33: LONG_BINPUT 256\n"
					      "      38: INT '5'\n"
					      "      41: STOP\n");
	ckpt_buf_clear(&out);
	assert_int_equal(ckpt_pickle_disassemble(in.data, in.len, stop_at_once, NULL, NULL),
			 CKPT_E_CANCELLED);
	ckpt_buf_clear(&in);
}

static void a_damaged_pickle_is_shown_up_to_the_damage(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_buf out = { 0 };

	(void)state;
	assert_int_equal(ckpt_pickle_disassemble("\x80\x02N\xff", 4, collect, &out, &err), CKPT_E_FORMAT);
	assert_string_equal(unit_message(&err), "+0x3: unknown opcode 0xff");
	ckpt_buf_add_u8(&out, 0);
	assert_string_equal((char *)out.data, "       0: PROTO 2\n       2: NONE\n");
	ckpt_buf_clear(&out);
}

static void long_operands_are_cut(void **state)
{
	struct ckpt_buf in = { 0 }, out = { 0 };

	(void)state;
	for (uint8_t op = 0x8B; op; op = op == 0x8B ? 'X' : 0) {
		ckpt_buf_add_u8(&in, op);
		ckpt_buf_add_u32(&in, 5000);
		ckpt_buf_add_fill(&in, 0xEE, 5000);
	}
	ckpt_buf_printf(&in, "c");
	ckpt_buf_add_fill(&in, 'm', 5000);
	ckpt_buf_printf(&in, "\n");
	ckpt_buf_add_fill(&in, 'n', 5000);
	ckpt_buf_printf(&in, "\n.");
	assert_int_equal(ckpt_pickle_disassemble(in.data, in.len, collect, &out, NULL), 0);
	assert_true(out.len < 5000);
	ckpt_buf_clear(&in);
	ckpt_buf_clear(&out);
}

/* torch makes one for each tensor, and the decoder one call for all of them: what is put into one is in no other. */
static void empty_ordered_dicts_stay_apart(void **state)
{
	static const char program[] = "\x80\x02("
				      "ccollections\nOrderedDict\nq\x00)R" /* nothing is done to it */
				      "h\x00)RK\x01K\x02s"
				      "h\x00)R}b"
				      "h\x00)RK\x03" "a"
				      "h\x00)R"
				      "h\x00)R(K\x01K\x02u"
				      "t.";
	static const struct {
		uint32_t pairs, items;
		bool state;
	} wanted[] = { { 0, 0, false }, { 2, 0, false }, { 0, 0, true }, { 0, 1, false }, { 0, 0, false }, { 2, 0, false } };
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_pickle pickle;

	(void)state;
	assert_int_equal(ckpt_pickle_decode(program, sizeof(program) - 1, 1 << 20, &pickle, &err), 0);
	assert_int_equal(pickle.root->u.seq.count, 6);
	for (uint32_t i = 0; i < 6; i++) {
		const struct ckpt_value *v = pickle.root->u.seq.items[i];

		assert_int_equal(v->kind, CKPT_CALL);
		assert_int_equal(v->u.call->pairs.count, wanted[i].pairs);
		assert_int_equal(v->u.call->items.count, wanted[i].items);
		assert_int_equal(v->u.call->state != NULL, wanted[i].state);
	}
	ckpt_pickle_clear(&pickle);
}

UNIT_SUITE(test_decode)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_ordered_dicts_stay_apart),
		cmocka_unit_test(decode_names_the_place_of_every_error),
		cmocka_unit_test(every_form_of_a_number_is_read),
		cmocka_unit_test(every_form_of_a_float_is_read),
		cmocka_unit_test(every_form_of_text_and_bytes_is_read),
		cmocka_unit_test(every_way_to_make_a_container_is_understood),
		cmocka_unit_test(calls_become_data),
		cmocka_unit_test(items_pairs_and_state_of_a_call_are_kept),
		cmocka_unit_test(an_ordered_dict_of_python_2_has_pairs),
		cmocka_unit_test(persistent_ids_and_extensions_are_kept),
		cmocka_unit_test(both_spellings_of_a_global_are_one_object),
		cmocka_unit_test(the_memo_gives_the_same_object_back),
		cmocka_unit_test(a_memo_index_beyond_the_length_of_the_pickle_is_found_again),
		cmocka_unit_test(a_container_may_hold_itself),
		cmocka_unit_test(numbers_have_no_identity_and_objects_have_one),
		cmocka_unit_test(protocol_length_and_place_are_noted),
		cmocka_unit_test(frames_that_lie_about_their_length_do_no_harm),
		cmocka_unit_test(memory_is_limited),
		cmocka_unit_test(a_pickle_cut_anywhere_fails),
		cmocka_unit_test(a_pickle_is_disassembled_with_offsets),
		cmocka_unit_test(a_damaged_pickle_is_shown_up_to_the_damage),
		cmocka_unit_test(long_operands_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
