/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop over the opcodes, and those that change a value, move the stack or use the memo; make.c
 * has those that make a value. What CPython's unpickler (load_* in Modules/_pickle.c) would call
 * becomes a node that says so. Relies on op.c, which checks that every operand lies inside the
 * pickle.
 *
 * What must stay true: nothing is imported or called. The work of an opcode is bounded by its
 * bytes and by the values it takes off the stack, so that the run time is linear. A value may be
 * FOLDED until ckpt_machine_unfold() has seen it: an opcode that looks into a value, or changes
 * one, calls that first.
 */
#include "pickle/decode.h"

#include "pickle/fold.h"
#include "pickle/make.h"

#include <inttypes.h>
#include <string.h>

enum { BATCH = 1000 };

/* What items and pairs are added to, on top of the stack after they are popped. */
static int find_addition_target(struct ckpt_machine *m, struct ckpt_value **out)
{
	int rc = ckpt_machine_need(m, 1);

	*out = NULL;
	if (rc == 0)
		rc = ckpt_machine_unfold(m, m->stack[m->depth - 1]);
	if (rc == 0) /* the decoder made every value and may still change it */
		*out = (struct ckpt_value *)m->stack[m->depth - 1];
	return rc;
}

static int wrong_target(struct ckpt_machine *m, const struct ckpt_value *v)
{
	return ckpt_fail(m->err, CKPT_E_FORMAT, "%s cannot add to a value of kind %s",
			 ckpt_machine_op_name(m), ckpt_value_kind_name(v));
}

/* Which of CPython's two picklers wrote this shows in the last batch of a long container. */
static void detect_python_batches(struct ckpt_machine *m, const struct ckpt_value *v,
				  uint32_t before, uint32_t added)
{
	bool single = m->op.code == CKPT_OP_APPEND || m->op.code == CKPT_OP_SETITEM;
	uint32_t full = v->kind == CKPT_DICT ? 2 * BATCH : BATCH;

	if (v->kind != CKPT_DICT && v->kind != CKPT_LIST)
		return;
	if (single && before >= full && before % full == 0)
		m->doc->python_batches = true;
	else if (v->kind == CKPT_DICT && added == full && m->r.pos < m->r.len &&
		 m->r.data[m->r.pos] != CKPT_OP_MARK)
		m->doc->python_batches = true;
}

static int append(struct ckpt_machine *m, const struct ckpt_value *const *items, uint32_t count)
{
	struct ckpt_value *v = NULL;
	struct ckpt_call *call;
	struct ckpt_seq *seq;
	uint32_t before;
	int rc = find_addition_target(m, &v);

	if (rc < 0)
		return rc;
	if (v->kind == CKPT_CALL && m->op.code != CKPT_OP_ADDITEMS) {
		call = ckpt_machine_own_call(m, v);
		if (!call)
			return ckpt_machine_nomem(m);
		seq = &call->items;
	} else if (v->kind == (m->op.code == CKPT_OP_ADDITEMS ? CKPT_SET : CKPT_LIST)) {
		seq = &v->u.seq;
	} else {
		return wrong_target(m, v);
	}
	before = seq->count;
	if (!ckpt_seq_add_many(m->arena, seq, items, count))
		return ckpt_machine_nomem(m);
	detect_python_batches(m, v, before, count);
	return 0;
}

static int set_items(struct ckpt_machine *m, const struct ckpt_value *const *items, uint32_t count)
{
	struct ckpt_value *v = NULL;
	struct ckpt_call *call = NULL;
	struct ckpt_seq *seq;
	uint32_t before;
	int rc = find_addition_target(m, &v);

	if (rc < 0)
		return rc;
	if (count % 2)
		return ckpt_fail(m->err, CKPT_E_FORMAT, "SETITEMS has a key without a value");
	if (v->kind != CKPT_CALL && v->kind != CKPT_DICT)
		return wrong_target(m, v);
	if (v->kind == CKPT_CALL) {
		call = ckpt_machine_own_call(m, v);
		if (!call)
			return ckpt_machine_nomem(m);
	}
	seq = call ? &call->pairs : &v->u.seq;
	before = seq->count;
	if (!ckpt_seq_add_many(m->arena, seq, items, count))
		return ckpt_machine_nomem(m);
	detect_python_batches(m, v, before, count);
	return 0;
}

/* APPEND and SETITEM take their operands from the stack, the plural forms down to a mark. */
static int add_single(struct ckpt_machine *m, size_t operands)
{
	const struct ckpt_value *items[2];
	int rc = ckpt_machine_need(m, operands + 1);

	if (rc < 0)
		return rc;
	m->depth -= operands;
	memcpy(items, m->stack + m->depth, operands * sizeof(*items));
	return operands == 1 ? append(m, items, 1) : set_items(m, items, 2);
}

static int add_marked(struct ckpt_machine *m)
{
	const struct ckpt_value **items = NULL;
	uint32_t count = 0;
	int rc = ckpt_machine_pop_to_mark(m, &items, &count);

	if (rc < 0)
		return rc;
	return m->op.code == CKPT_OP_SETITEMS ? set_items(m, items, count)
					      : append(m, items, count);
}

/*
 * An object that is part of what it is made from gets its state twice from CPython's pickler: the
 * same attributes under the same names.
 */
static bool is_same_state(const struct ckpt_value *a, const struct ckpt_value *b)
{
	if (a->kind != CKPT_DICT || b->kind != CKPT_DICT || a->u.seq.count != b->u.seq.count ||
	    a->u.seq.count > CKPT_MOST_REPEATED_STATE)
		return false;
	for (uint32_t i = 0; i < a->u.seq.count; i += 2) {
		const struct ckpt_value *x = a->u.seq.items[i], *y = b->u.seq.items[i];

		if (x->kind != CKPT_STR || y->kind != CKPT_STR ||
		    x->u.bytes.len != y->u.bytes.len ||
		    memcmp(x->u.bytes.ptr, y->u.bytes.ptr, x->u.bytes.len))
			return false;
	}
	return true;
}

static int build(struct ckpt_machine *m)
{
	const struct ckpt_value *state;
	struct ckpt_call *call;
	struct ckpt_value *v = NULL;
	int rc = ckpt_machine_need(m, 2);

	if (rc < 0)
		return rc;
	state = m->stack[--m->depth];
	rc = find_addition_target(m, &v);
	if (rc < 0)
		return rc;
	if (v->kind != CKPT_CALL)
		return ckpt_fail(m->err, CKPT_E_FORMAT, "BUILD needs an object, found %s",
				 ckpt_value_kind_name(v));
	if (v->u.call->state && !is_same_state(v->u.call->state, state))
		return ckpt_fail(m->err, CKPT_E_FORMAT,
				 "BUILD of an object that has its state already");
	call = ckpt_machine_own_call(m, v);
	if (!call)
		return ckpt_machine_nomem(m);
	call->state = state;
	return 0;
}

static int line_index(struct ckpt_machine *m, uint64_t *out)
{
	uint64_t v = 0;

	if (!m->op.len || m->op.len > 10)
		return ckpt_fail(m->err, CKPT_E_FORMAT, "%s needs a memo index",
				 ckpt_machine_op_name(m));
	for (uint64_t i = 0; i < m->op.len; i++) {
		if (m->op.bytes[i] < '0' || m->op.bytes[i] > '9')
			return ckpt_fail(m->err, CKPT_E_FORMAT, "%s needs a memo index",
					 ckpt_machine_op_name(m));
		v = v * 10 + (uint64_t)(m->op.bytes[i] - '0');
	}
	*out = v;
	return 0;
}

static int memo_line(struct ckpt_machine *m)
{
	uint64_t index = 0;
	int rc = line_index(m, &index);

	if (rc < 0)
		return rc;
	return m->op.code == CKPT_OP_PUT ? ckpt_machine_memo_put(m, index)
					 : ckpt_machine_memo_get(m, index);
}

/*
 * A state setter: setter(object, state) is called and its result dropped, which leaves the object
 * on the stack. It belongs to the object as BUILD does.
 */
static int record_state_setter(struct ckpt_machine *m)
{
	const struct ckpt_value *dropped = m->stack[m->depth - 1], *args;
	struct ckpt_value *object;
	struct ckpt_call *call;
	int rc;

	if (dropped->kind != CKPT_CALL || m->depth - ckpt_machine_floor(m) < 2)
		return 0;
	object = (struct ckpt_value *)m->stack[m->depth - 2];
	rc = ckpt_machine_unfold(m, object);
	if (rc < 0)
		return rc;
	args = dropped->u.call->args;
	if (dropped->u.call->kind != CKPT_CALL_REDUCE || dropped->u.call->items.count ||
	    dropped->u.call->pairs.count || dropped->u.call->state)
		return 0;
	if (object->kind != CKPT_CALL || object->u.call->state || args->u.seq.count != 2 ||
	    args->u.seq.items[0] != object || dropped == object)
		return 0;
	call = ckpt_machine_own_call(m, object);
	if (!call)
		return ckpt_machine_nomem(m);
	call->setter = dropped->u.call->func;
	call->state = args->u.seq.items[1];
	return 0;
}

static int pop(struct ckpt_machine *m)
{
	int rc;

	if (m->mark_count && ckpt_machine_floor(m) == m->depth) {
		m->mark_count--; /* Python's POP takes a mark, too, if it is on top */
		return 0;
	}
	if (ckpt_machine_need(m, 1) < 0)
		return CKPT_E_FORMAT;
	rc = record_state_setter(m);
	m->depth--;
	return rc;
}

static int pop_mark(struct ckpt_machine *m)
{
	const struct ckpt_value **items = NULL;
	uint32_t count = 0;

	return ckpt_machine_pop_to_mark(m, &items, &count);
}

static int dup(struct ckpt_machine *m)
{
	int rc = ckpt_machine_need(m, 1);
	const struct ckpt_value *v;

	if (rc < 0)
		return rc;
	v = m->stack[m->depth - 1];
	if (v->id) /* it is the decoder's own */
		((struct ckpt_value *)v)->flags |= CKPT_VALUE_SHARED;
	return ckpt_machine_push(m, v);
}

static int stop(struct ckpt_machine *m)
{
	int rc = ckpt_machine_need(m, 1);

	if (rc < 0)
		return rc;
	m->doc->root = m->stack[m->depth - 1];
	m->done = true;
	return 0;
}

static int proto(struct ckpt_machine *m)
{
	if (m->op.number > 5)
		return ckpt_fail(m->err, CKPT_E_FORMAT,
				 "pickle protocol %" PRIu64 ", wanted 0 to 5", m->op.number);
	if (m->op.number > m->doc->protocol)
		m->doc->protocol = (uint8_t)m->op.number;
	return 0;
}

/* Only a hint for buffers, but CPython refuses a pickle with fewer bytes than a frame announces. */
static int frame(struct ckpt_machine *m)
{
	if (m->op.number > m->r.len - m->r.pos)
		return ckpt_error_because(m->err,
					  ckpt_fail(m->err, CKPT_E_FORMAT,
						    "a frame of %" PRIu64
						    " bytes reaches past the end of the pickle",
						    m->op.number),
					  CKPT_REASON_TRUNCATED);
	m->frame_end = m->r.pos + (size_t)m->op.number;
	return 0;
}

int ckpt_machine_step(struct ckpt_machine *m)
{
	const struct ckpt_op *op = &m->op;

	switch ((enum ckpt_opcode)op->code) {
	case CKPT_OP_PROTO: return proto(m);
	case CKPT_OP_FRAME: return frame(m);
	case CKPT_OP_STOP: return stop(m);
	case CKPT_OP_MARK: return ckpt_machine_push_mark(m);
	case CKPT_OP_POP: return pop(m);
	case CKPT_OP_POP_MARK: return pop_mark(m);
	case CKPT_OP_DUP: return dup(m);
	case CKPT_OP_NONE: return ckpt_machine_push(m, &ckpt_value_none);
	case CKPT_OP_NEWTRUE: return ckpt_machine_push(m, &ckpt_value_true);
	case CKPT_OP_NEWFALSE: return ckpt_machine_push(m, &ckpt_value_false);
	case CKPT_OP_BININT:
	case CKPT_OP_BININT1:
	case CKPT_OP_BININT2: return ckpt_make_int(m, (int64_t)op->number);
	case CKPT_OP_BINFLOAT: return ckpt_make_float(m);
	case CKPT_OP_INT:
	case CKPT_OP_LONG:
	case CKPT_OP_LONG1:
	case CKPT_OP_LONG4:
	case CKPT_OP_FLOAT:
	case CKPT_OP_STRING:
	case CKPT_OP_UNICODE: return ckpt_make_literal(m);
	case CKPT_OP_BINSTRING:
	case CKPT_OP_SHORT_BINSTRING: return ckpt_make_bytes(m, CKPT_PY2_STR);
	case CKPT_OP_BINUNICODE:
	case CKPT_OP_SHORT_BINUNICODE:
	case CKPT_OP_BINUNICODE8: return ckpt_make_bytes(m, CKPT_STR);
	case CKPT_OP_BINBYTES:
	case CKPT_OP_SHORT_BINBYTES:
	case CKPT_OP_BINBYTES8: return ckpt_make_bytes(m, CKPT_BYTES);
	case CKPT_OP_BYTEARRAY8: return ckpt_make_bytes(m, CKPT_BYTEARRAY);
	case CKPT_OP_EMPTY_LIST: return ckpt_make_seq(m, CKPT_LIST, NULL, 0);
	case CKPT_OP_EMPTY_TUPLE: return ckpt_make_seq(m, CKPT_TUPLE, NULL, 0);
	case CKPT_OP_EMPTY_DICT: return ckpt_make_seq(m, CKPT_DICT, NULL, 0);
	case CKPT_OP_EMPTY_SET: return ckpt_make_seq(m, CKPT_SET, NULL, 0);
	case CKPT_OP_LIST: return ckpt_make_marked(m, CKPT_LIST);
	case CKPT_OP_TUPLE: return ckpt_make_marked(m, CKPT_TUPLE);
	case CKPT_OP_DICT: return ckpt_make_marked(m, CKPT_DICT);
	case CKPT_OP_FROZENSET: return ckpt_make_marked(m, CKPT_FROZENSET);
	case CKPT_OP_TUPLE1: return ckpt_make_tuple(m, 1);
	case CKPT_OP_TUPLE2: return ckpt_make_tuple(m, 2);
	case CKPT_OP_TUPLE3: return ckpt_make_tuple(m, 3);
	case CKPT_OP_APPEND: return add_single(m, 1);
	case CKPT_OP_SETITEM: return add_single(m, 2);
	case CKPT_OP_APPENDS:
	case CKPT_OP_ADDITEMS:
	case CKPT_OP_SETITEMS: return add_marked(m);
	case CKPT_OP_GLOBAL: return ckpt_make_global(m);
	case CKPT_OP_STACK_GLOBAL: return ckpt_make_stack_global(m);
	case CKPT_OP_REDUCE: return ckpt_make_call(m, CKPT_CALL_REDUCE, 2);
	case CKPT_OP_NEWOBJ: return ckpt_make_call(m, CKPT_CALL_NEWOBJ, 2);
	case CKPT_OP_NEWOBJ_EX: return ckpt_make_call(m, CKPT_CALL_NEWOBJ_EX, 3);
	case CKPT_OP_INST:
	case CKPT_OP_OBJ: return ckpt_make_instance(m);
	case CKPT_OP_BUILD: return build(m);
	case CKPT_OP_PERSID:
	case CKPT_OP_BINPERSID: return ckpt_make_persid(m);
	case CKPT_OP_EXT1:
	case CKPT_OP_EXT2:
	case CKPT_OP_EXT4: return ckpt_make_ext(m);
	case CKPT_OP_PUT:
	case CKPT_OP_GET: return memo_line(m);
	case CKPT_OP_BINPUT:
	case CKPT_OP_LONG_BINPUT: return ckpt_machine_memo_put(m, op->number);
	case CKPT_OP_MEMOIZE: return ckpt_machine_memo_put(m, m->memo_count);
	case CKPT_OP_BINGET:
	case CKPT_OP_LONG_BINGET: return ckpt_machine_memo_get(m, op->number);
	case CKPT_OP_NEXT_BUFFER:
	case CKPT_OP_READONLY_BUFFER: break;
	}
	return ckpt_fail(m->err, CKPT_E_FORMAT, "%s wants a buffer from outside of the pickle",
			 ckpt_machine_op_name(m));
}

static int decode_opcodes(struct ckpt_machine *m)
{
	while (!m->done) {
		uint8_t code = m->folds && m->r.pos < m->r.len ? m->r.data[m->r.pos] : 0;
		int rc = code == CKPT_OP_BINGET || code == CKPT_OP_LONG_BINGET ? ckpt_fold_next(m)
									       : 0;

		if (rc > 0)
			continue;
		if (rc == 0)
			rc = ckpt_op_read(&m->r, &m->op, m->err);
		if (rc == 0)
			rc = ckpt_machine_step(m);
		if (rc < 0)
			return ckpt_error_at(m->err, rc, NULL, NULL, m->op.pos);
		m->doc->frames_wrong |= m->op.pos < m->frame_end && m->r.pos > m->frame_end;
	}
	m->doc->nbytes = m->r.pos;
	return 0;
}

int ckpt_pickle_decode(const void *bytes, size_t len, uint64_t budget, struct ckpt_pickle *out,
		       struct ckpt_error *err)
{
	return ckpt_pickle_decode_from(1, bytes, len, budget, out, err);
}

int ckpt_pickle_decode_from(uint32_t first_id, const void *bytes, size_t len, uint64_t budget,
			    struct ckpt_pickle *out, struct ckpt_error *err)
{
	return ckpt_pickle_decode_with(NULL, first_id, bytes, len, budget, out, err);
}

static int decode(struct ckpt_machine *m, uint32_t first_id, uint64_t budget)
{
	struct ckpt_pickle *out = m->doc;
	int rc;

	*out = (struct ckpt_pickle){ .next_id = first_id };
	if (m->r.len > UINT32_MAX - 16 - first_id) /* an id per byte at most */
		return ckpt_fail(m->err, CKPT_E_LIMIT,
				 "the pickle has %zu bytes, the limit is 4 GiB", m->r.len);
	out->arena = m->arena = ckpt_arena_new(budget);
	if (!m->arena)
		return ckpt_fail_nomem(m->err);
	rc = decode_opcodes(m);
	ckpt_machine_clear(m);
	if (rc < 0)
		ckpt_pickle_clear(out);
	return rc;
}

int ckpt_pickle_decode_with(const struct ckpt_persistent_load *persistent, uint32_t first_id,
			    const void *bytes, size_t len, uint64_t budget, struct ckpt_pickle *out,
			    struct ckpt_error *err)
{
	struct ckpt_machine m = {
		.r = { bytes, len, 0, false }, .doc = out, .persistent = persistent, .err = err
	};

	return decode(&m, first_id, budget);
}

int ckpt_pickle_decode_folded(uint32_t first_id, const void *bytes, size_t len, uint64_t budget,
			      struct ckpt_pickle *out, struct ckpt_error *err)
{
	struct ckpt_machine m = {
		.r = { bytes, len, 0, false }, .doc = out, .folds = true, .err = err
	};

	return decode(&m, first_id, budget);
}

void ckpt_pickle_clear(struct ckpt_pickle *pickle)
{
	ckpt_arena_free(pickle->arena);
	*pickle = (struct ckpt_pickle){ 0 };
}
