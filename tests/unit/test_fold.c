/* SPDX-License-Identifier: Apache-2.0 */
/* A FOLDED tensor stands for what the decoder makes otherwise: both ways are held against each other, over changed pickles too. */
#include "unit.h"

#include "pickle/decode.h"
#include "pickle/encode.h"
#include "pickle/fold.h"

#include <string.h>

static const uint64_t BUDGET = 64 << 20;

/* ---- pickles as torch writes them ---- */

static void put_text(struct ckpt_buf *out, const char *text, unsigned *memo)
{
	ckpt_buf_add_u8(out, CKPT_OP_BINUNICODE);
	ckpt_buf_add_u32(out, (uint32_t)strlen(text));
	ckpt_buf_add(out, text, strlen(text));
	ckpt_buf_add_u8(out, CKPT_OP_BINPUT);
	ckpt_buf_add_u8(out, (uint8_t)(*memo)++);
}

static void put_op(struct ckpt_buf *out, enum ckpt_opcode op, unsigned argument)
{
	ckpt_buf_add_u8(out, op);
	ckpt_buf_add_u8(out, (uint8_t)argument);
}

static void put_global(struct ckpt_buf *out, const char *lines, unsigned *memo)
{
	ckpt_buf_add(out, lines, strlen(lines));
	put_op(out, CKPT_OP_BINPUT, (*memo)++);
}

/* Where the memo has what the first tensor brought. */
enum { MEMO_FUNC = 2, MEMO_WORD = 3, MEMO_CLASS = 4, MEMO_DEVICE = 6, MEMO_HOOKS = 8 };

static void put_dims(struct ckpt_buf *out, unsigned ndim, unsigned first, unsigned *memo)
{
	static const uint8_t closing[] = { CKPT_OP_EMPTY_TUPLE, CKPT_OP_TUPLE1, CKPT_OP_TUPLE2, CKPT_OP_TUPLE3 };

	if (ndim > 3)
		ckpt_buf_add_u8(out, CKPT_OP_MARK);
	for (unsigned i = 0; i < ndim; i++)
		put_op(out, CKPT_OP_BININT1, first);
	ckpt_buf_add_u8(out, ndim > 3 ? CKPT_OP_TUPLE : closing[ndim]);
	if (ndim)
		put_op(out, CKPT_OP_BINPUT, (*memo)++);
}

static void put_tensor(struct ckpt_buf *out, const char *key, const char *device, unsigned numel, unsigned ndim, unsigned *memo)
{
	bool first = *memo == MEMO_FUNC;

	if (first)
		put_global(out, "ctorch._utils\n_rebuild_tensor_v2\n", memo);
	else
		put_op(out, CKPT_OP_BINGET, MEMO_FUNC);
	ckpt_buf_add_u8(out, CKPT_OP_MARK);
	ckpt_buf_add_u8(out, CKPT_OP_MARK);
	if (first) {
		put_text(out, "storage", memo);
		put_global(out, "ctorch\nFloatStorage\n", memo);
	} else {
		put_op(out, CKPT_OP_BINGET, MEMO_WORD);
		put_op(out, CKPT_OP_BINGET, MEMO_CLASS);
	}
	put_text(out, key, memo);
	if (first || device)
		put_text(out, device ? device : "cpu", memo);
	else
		put_op(out, CKPT_OP_BINGET, MEMO_DEVICE);
	put_op(out, CKPT_OP_BININT1, numel);
	ckpt_buf_add_u8(out, CKPT_OP_TUPLE);
	put_op(out, CKPT_OP_BINPUT, (*memo)++);
	ckpt_buf_add_u8(out, CKPT_OP_BINPERSID);
	put_op(out, CKPT_OP_BININT1, 0);
	put_dims(out, ndim, 1, memo);
	put_dims(out, ndim, 2, memo);
	ckpt_buf_add_u8(out, numel % 2 ? CKPT_OP_NEWFALSE : CKPT_OP_NEWTRUE);
	if (first)
		put_global(out, "ccollections\nOrderedDict\n", memo);
	else
		put_op(out, CKPT_OP_BINGET, MEMO_HOOKS);
	ckpt_buf_add_u8(out, CKPT_OP_EMPTY_TUPLE);
	ckpt_buf_add_u8(out, CKPT_OP_REDUCE);
	put_op(out, CKPT_OP_BINPUT, (*memo)++);
	ckpt_buf_add_u8(out, CKPT_OP_TUPLE);
	put_op(out, CKPT_OP_BINPUT, (*memo)++);
	ckpt_buf_add_u8(out, CKPT_OP_REDUCE);
	put_op(out, CKPT_OP_BINPUT, (*memo)++);
}

/* {'a': tensor, 'b': tensor ...}, with TAIL between the items and their SETITEMS: *LAST is the index of the last tensor. */
static struct ckpt_buf dict_of_tensors(unsigned count, const char *device, const char *tail, size_t tail_len, unsigned *last)
{
	struct ckpt_buf out = { 0 };
	unsigned memo = 0;
	char name[] = "n0", key[] = "k0"; /* there is but one object of each single letter */

	put_op(&out, CKPT_OP_PROTO, 2);
	ckpt_buf_add_u8(&out, CKPT_OP_EMPTY_DICT);
	put_op(&out, CKPT_OP_BINPUT, memo++);
	ckpt_buf_add_u8(&out, CKPT_OP_MARK);
	for (unsigned i = 0; i < count; i++) {
		name[1] = key[1] = (char)('0' + i);
		put_text(&out, name, &memo);
		put_tensor(&out, key, i ? device : NULL, i + 1, i, &memo);
	}
	*last = memo - 1;
	ckpt_buf_add(&out, tail, tail_len);
	ckpt_buf_add_u8(&out, CKPT_OP_SETITEMS);
	ckpt_buf_add_u8(&out, CKPT_OP_STOP);
	assert_false(out.bad);
	return out;
}

/* ---- both ways ---- */

static const struct ckpt_value *unfolded(void *ctx, const struct ckpt_value *v, struct ckpt_arena *scratch, struct ckpt_error *err)
{
	(void)ctx;
	(void)err;
	return v->kind == CKPT_FOLDED ? ckpt_unfold(v, scratch) : v;
}

/* What is written of it again; 0, or the status of whoever refused. */
static int written(const struct ckpt_pickle *pickle, struct ckpt_buf *out, struct ckpt_error *err)
{
	struct ckpt_pickle_options options = { .protocol = 2, .resolve = unfolded, .most_bytes = 1 << 20 };

	return ckpt_pickle_encode(pickle->root, &options, out, err);
}

static unsigned count_folded(const struct ckpt_pickle *pickle)
{
	unsigned count = 0;

	for (uint32_t i = 0; i < pickle->persids.count; i++)
		count += pickle->persids.items[i]->kind == CKPT_FOLDED;
	return count;
}

static void expect_same_ids(const struct ckpt_pickle *a, const struct ckpt_pickle *b)
{
	struct ckpt_arena *arena = ckpt_arena_new(BUDGET);

	assert_int_equal(a->persids.count, b->persids.count);
	for (uint32_t i = 0; i < a->persids.count; i++) {
		const struct ckpt_value *x = a->persids.items[i], *y = b->persids.items[i];

		if (y->kind == CKPT_FOLDED)
			y = ckpt_unfold(y, arena)->u.call->args->u.seq.items[0];
		assert_int_equal(x->kind, CKPT_PERSID);
		assert_int_equal(y->kind, CKPT_PERSID);
		assert_int_equal(x->pos, y->pos);
		assert_int_equal(x->u.persid.pid->pos, y->u.persid.pid->pos);
	}
	ckpt_arena_free(arena);
}

/* How many tensors were folded, if the bytes were a pickle. */
static unsigned expect_same(const void *bytes, size_t len)
{
	struct ckpt_error one = CKPT_ERROR_INIT, other = CKPT_ERROR_INIT;
	struct ckpt_pickle whole, folded;
	int rc = ckpt_pickle_decode(bytes, len, BUDGET, &whole, &one);
	struct ckpt_buf a = { 0 }, b = { 0 };
	unsigned count;

	assert_int_equal(ckpt_pickle_decode_folded(1, bytes, len, BUDGET, &folded, &other), rc);
	assert_string_equal(one.text, other.text);
	assert_int_equal(one.offset, other.offset);
	if (rc < 0)
		return 0;
	assert_int_equal(whole.nbytes, folded.nbytes);
	expect_same_ids(&whole, &folded);
	assert_int_equal(written(&whole, &a, &one), written(&folded, &b, &other));
	assert_string_equal(one.text, other.text);
	assert_int_equal(a.len, b.len);
	if (a.len)
		assert_memory_equal(a.data, b.data, a.len);
	count = count_folded(&folded);
	ckpt_buf_clear(&a);
	ckpt_buf_clear(&b);
	ckpt_pickle_clear(&whole);
	ckpt_pickle_clear(&folded);
	return count;
}

/* ---- the tests ---- */

static void tensors_of_torch_are_folded_and_written_again_as_they_were(void **state)
{
	static const char *const devices[] = { NULL, "cuda:0" };

	(void)state;
	for (size_t d = 0; d < COUNT(devices); d++) {
		unsigned last;
		struct ckpt_buf bytes = dict_of_tensors(6, devices[d], NULL, 0, &last);
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_buf again = { 0 };
		struct ckpt_pickle folded;

		assert_int_equal(expect_same(bytes.data, bytes.len), 5); /* all but the one that has the names */
		assert_int_equal(ckpt_pickle_decode_folded(1, bytes.data, bytes.len, BUDGET, &folded, &err), 0);
		assert_true(folded.has_folded);
		assert_int_equal(written(&folded, &again, &err), 0);
		assert_int_equal(again.len, bytes.len);
		assert_memory_equal(again.data, bytes.data, bytes.len);
		ckpt_buf_clear(&again);
		ckpt_pickle_clear(&folded);
		ckpt_buf_clear(&bytes);
	}
}

/* Wherever a byte is another, or the rest is missing, both ways see the same: also where the memo gives away a part, or something is done to the tensor. */
static void a_changed_pickle_is_the_same_both_ways(void **state)
{
	unsigned last, folded = 0;
	struct ckpt_buf bytes = dict_of_tensors(3, NULL, NULL, 0, &last);
	unsigned step = unit_rounds(7, 1);

	(void)state;
	for (size_t i = 0; i <= bytes.len; i++)
		expect_same(bytes.data, i);
	for (size_t i = 0; i < bytes.len; i++) {
		uint8_t was = bytes.data[i];

		for (unsigned value = i % step; value < 256; value += step) {
			bytes.data[i] = (uint8_t)value;
			folded += expect_same(bytes.data, bytes.len) > 0;
		}
		bytes.data[i] = was;
	}
	assert_true(folded > 1000 / step);
	ckpt_buf_clear(&bytes);
}

static void what_is_done_to_a_folded_tensor_unfolds_it(void **state)
{
	static const struct {
		const char *tail;
		size_t len;
		int least; /* of three that are folded, these stay so */
	} cases[] = {
		{ "X\1\0\0\0xh\0", 8, 2 },		  /* the dict itself */
		{ "}X\1\0\0\0xK\1sb", 11, 1 },		  /* BUILD of the last one */
		{ "K\1a", 3, 1 },			  /* APPEND */
		{ "K\1K\2s", 5, 1 },			  /* SETITEM */
		{ "(K\1K\2u", 6, 1 },			  /* SETITEMS */
		{ ")R", 2, 1 },				  /* it is called */
		{ "02X\1\0\0\0xK\1", 10, 2 },		  /* POP, and the text twice */
		{ "0N", 2, 2 },				  /* another in its place */
		{ "(K\1e", 4, 1 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		unsigned last;
		struct ckpt_buf bytes = dict_of_tensors(3, NULL, cases[i].tail, cases[i].len, &last);

		expect_same(bytes.data, bytes.len);
		ckpt_buf_clear(&bytes);
	}
	for (unsigned index = 0; index < 40; index++) { /* every part, by the memo */
		char tail[] = { 'X', 1, 0, 0, 0, 'x', 'h', (char)index };
		unsigned last;
		struct ckpt_buf bytes = dict_of_tensors(4, NULL, tail, sizeof(tail), &last);

		expect_same(bytes.data, bytes.len);
		if (index == last)
			assert_int_equal(expect_same(bytes.data, bytes.len), 3); /* the tensor is no part of itself */
		if (index == last - 1)
			assert_int_equal(expect_same(bytes.data, bytes.len), 2);
		ckpt_buf_clear(&bytes);
	}
}

UNIT_SUITE(test_fold)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tensors_of_torch_are_folded_and_written_again_as_they_were),
		cmocka_unit_test(a_changed_pickle_is_the_same_both_ways),
		cmocka_unit_test(what_is_done_to_a_folded_tensor_unfolds_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
