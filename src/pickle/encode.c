/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a pickle: save() of CPython's pickler in C (Modules/_pickle.c) as a walk with a
 * stack of its own, since a file controls the depth. A frame is one value that is being written;
 * PHASE and I say what of it comes next. emit.c writes the opcodes, older.c says what a value
 * looks like in an older protocol.
 *
 * What must stay true: save() may move the frames, so a step does not use its frame after calling
 * it. A frame releases the scratch memory that was taken since it was pushed: the order is that of
 * the stack. The identity of a value is that of SELF, which the form of an older protocol does not
 * change.
 */
#include "pickle/encode.h"

#include "base/grow.h"
#include "pickle/emit.h"
#include "pickle/older.h"
#include "pickle/owners.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 1000, MOST_DEPTH = 100000 };

static const uint64_t SCRATCH_BUDGET = (uint64_t)1 << 40;

/* One value being written: what comes next is in PHASE and I. */
struct frame {
	const struct ckpt_value *v;
	const struct ckpt_value *self; /* whose identity it has: V in the newest protocol */
	uint8_t phase;
	bool single, resolved;
	uint32_t i, batch_end, batch_size;
	struct ckpt_arena_mark mark;
};

struct encoder {
	const struct ckpt_pickle_options *o;
	struct ckpt_error *err;
	struct ckpt_emitter m;
	struct ckpt_arena
		*scratch; /* owned: values made while writing, given back with their frame */
	struct frame *frames;
	uint32_t depth, cap;
};

/* ---- the walk ---- */

static struct frame *push_frame(struct encoder *e, const struct ckpt_value *v,
				const struct ckpt_value *self, bool resolved,
				struct ckpt_arena_mark mark)
{
	struct frame *f;

	if (e->depth == MOST_DEPTH) {
		ckpt_fail(e->err, CKPT_E_LIMIT, "values are nested deeper than %d levels",
			  MOST_DEPTH);
		return NULL;
	}
	f = ckpt_grow(e->frames, e->depth, &e->cap, sizeof(*f));
	if (!f) {
		ckpt_fail_nomem(e->err);
		return NULL;
	}
	e->frames = f;
	f = &e->frames[e->depth++];
	*f = (struct frame){ .v = v, .self = self, .resolved = resolved, .mark = mark };
	return f;
}

static void pop_frame(struct encoder *e)
{
	struct frame *f = &e->frames[--e->depth];

	if (f->resolved)
		ckpt_arena_release(e->scratch, f->mark);
}

static int save(struct encoder *e, const struct ckpt_value *original);

/*
 * GLOBAL has its names as lines: what is behind a line feed in one would be read as opcodes. No class has such a
 * name, so that no protocol gets it, and nothing else writes names of classes.
 */
static int check_names(const struct encoder *e, const struct ckpt_global *g)
{
	if (memchr(g->module, '\n', g->module_len) || memchr(g->name, '\n', g->name_len))
		return ckpt_fail(e->err, CKPT_E_UNSUPPORTED, "a class or function has a line feed in its name");
	return 0;
}

/* A bare GLOBAL, then one getattr for every further part of the name. */
static int save_nested_global(struct encoder *e, const struct ckpt_value *v)
{
	const struct ckpt_global *g = v->u.global;
	struct ckpt_value part = { .kind = CKPT_STR };
	const char *dot = strchr(g->name, '.'), *next;
	int rc = 0;

	for (next = dot; rc >= 0 && next; next = strchr(next + 1, '.'))
		rc = save(e, ckpt_value_builtin("getattr", e->o->protocol, e->scratch));
	ckpt_emit_op(&e->m, CKPT_OP_GLOBAL);
	ckpt_emit(&e->m, g->module, g->module_len);
	ckpt_emit(&e->m, "\n", 1);
	ckpt_emit(&e->m, g->name, (size_t)(dot - g->name));
	ckpt_emit(&e->m, "\n", 1);
	for (; rc >= 0 && dot; dot = next) {
		next = strchr(dot + 1, '.');
		part.u.bytes.ptr = dot + 1;
		part.u.bytes.len = next ? (size_t)(next - dot - 1) : strlen(dot + 1);
		rc = save(e, &part);
		ckpt_emit_op(&e->m, CKPT_OP_TUPLE2);
		ckpt_emit_op(&e->m, CKPT_OP_REDUCE);
	}
	return rc < 0 ? rc : ckpt_emit_memoize(&e->m, v);
}

static int save_global(struct encoder *e, const struct ckpt_value *v)
{
	const struct ckpt_global *g = v->u.global;
	char owner = ckpt_owner_of_module(g, e->o->python311, e->o->python313_nested);
	int rc = check_names(e, g);

	if (rc < 0)
		return rc;
	if (e->o->protocol < 4 && strchr(g->name, '.'))
		return save_nested_global(e, v);
	if (e->o->protocol < 4) {
		ckpt_emit_op(&e->m, CKPT_OP_GLOBAL);
		ckpt_emit(&e->m, g->module, g->module_len);
		ckpt_emit(&e->m, "\n", 1);
		ckpt_emit(&e->m, g->name, g->name_len);
		ckpt_emit(&e->m, "\n", 1);
		return ckpt_emit_memoize(&e->m, v);
	}
	if (e->o->heap_generator && ckpt_value_is_global(v, "torch._C", "Generator"))
		owner = 0;
	rc = ckpt_emit_name(&e->m, owner, g->module, g->module_len);
	if (rc >= 0)
		rc = ckpt_emit_name(&e->m, ckpt_is_named_by_c(g) ? 0 : 's', g->name, g->name_len);
	if (rc < 0)
		return rc;
	ckpt_emit_op(&e->m, CKPT_OP_STACK_GLOBAL);
	return ckpt_emit_memoize(&e->m, v);
}

static int save_py2_str(struct encoder *e, const struct ckpt_value *v)
{
	if (v->u.bytes.len < 256)
		ckpt_emit_payload(&e->m, CKPT_OP_SHORT_BINSTRING, 1, v->u.bytes.ptr,
				  v->u.bytes.len);
	else if (v->u.bytes.len <= INT32_MAX)
		ckpt_emit_payload(&e->m, CKPT_OP_BINSTRING, 4, v->u.bytes.ptr, v->u.bytes.len);
	else
		return ckpt_fail(e->err, CKPT_E_UNSUPPORTED, "a Python 2 str of 2 GiB or more");
	return ckpt_emit_memoize(&e->m, v);
}

/* A class by its number in copyreg's registry, which the loader must have. Never in the memo. */
static int save_extension(struct encoder *e, const struct ckpt_value *v)
{
	uint32_t code = (uint32_t)v->u.integer;

	if (e->o->protocol < 2)
		return ckpt_fail(e->err, CKPT_E_UNSUPPORTED,
				 "copyreg extension code %" PRId64 " needs protocol 2",
				 v->u.integer);
	if (code <= UINT8_MAX)
		ckpt_emit_op_le(&e->m, CKPT_OP_EXT1, code, 1);
	else if (code <= UINT16_MAX)
		ckpt_emit_op_le(&e->m, CKPT_OP_EXT2, code, 2);
	else
		ckpt_emit_op_le(&e->m, CKPT_OP_EXT4, code, 4);
	return 0;
}

/* Values without children. Returns 1 if V has some and a frame is needed. */
static int save_atom(struct encoder *e, const struct ckpt_value *v)
{
	int rc = 0;

	switch ((enum ckpt_value_kind)v->kind) {
	case CKPT_NONE: ckpt_emit_op(&e->m, CKPT_OP_NONE); return 0;
	case CKPT_BOOL: ckpt_emit_bool(&e->m, v->u.integer); return 0;
	case CKPT_INT: return ckpt_emit_int(&e->m, v->u.integer);
	case CKPT_BIGINT:
		return ckpt_emit_long(&e->m, (const uint8_t *)v->u.bytes.ptr, v->u.bytes.len);
	case CKPT_FLOAT: ckpt_emit_float(&e->m, v->u.real); return 0;
	case CKPT_STR:
		rc = ckpt_emit_str(&e->m, v->u.bytes.ptr, v->u.bytes.len);
		return rc < 0 ? rc : ckpt_emit_memoize(&e->m, v);
	case CKPT_PY2_STR: return save_py2_str(e, v);
	case CKPT_BYTES:
		ckpt_emit_bytes(&e->m, v->u.bytes.ptr, v->u.bytes.len);
		return ckpt_emit_memoize(&e->m, v);
	case CKPT_BYTEARRAY:
		ckpt_emit_payload(&e->m, CKPT_OP_BYTEARRAY8, 8, v->u.bytes.ptr, v->u.bytes.len);
		return ckpt_emit_memoize(&e->m, v);
	case CKPT_GLOBAL: return save_global(e, v);
	case CKPT_TUPLE:
		if (v->u.seq.count)
			return 1;
		if (e->o->protocol >= 1)
			ckpt_emit_op(&e->m, CKPT_OP_EMPTY_TUPLE);
		return 0;
	case CKPT_EXT: return save_extension(e, v);
	case CKPT_FOLDED:
		return ckpt_fail(e->err, CKPT_E_UNSUPPORTED, "a folded tensor reached the pickler");
	case CKPT_LIST:
	case CKPT_SET:
	case CKPT_FROZENSET:
	case CKPT_DICT:
	case CKPT_CALL:
	case CKPT_PERSID: return 1;
	}
	return 0;
}

static const struct ckpt_value *resolve(struct encoder *e, const struct ckpt_value *v)
{
	if (e->o->resolve && !(v->flags & CKPT_VALUE_FINAL)) {
		v = e->o->resolve(e->o->ctx, v, e->scratch, e->err);
		if (!v)
			return NULL;
	}
	return v;
}

/* Write V, or open a frame for it. */
static int save(struct encoder *e, const struct ckpt_value *original)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(e->scratch);
	const struct ckpt_value *v, *shown;
	int rc;

	if (e->o->most_bytes && e->m.out->len > e->o->most_bytes)
		return ckpt_fail(e->err, CKPT_E_LIMIT,
				 "the pickle would grow to more than %" PRIu64
				 " MiB, which is the limit",
				 e->o->most_bytes >> 20);
	if (original->id && original->id < e->m.memo_cap && e->m.memo[original->id] &&
	    original->kind != CKPT_PERSID) { /* written before */
		ckpt_emit_boundary(&e->m);
		ckpt_emit_get(&e->m, e->m.memo[original->id] - 1);
		return 0;
	}
	v = resolve(e, original);
	if (!v)
		return e->err && e->err->status ? e->err->status : CKPT_E_NOMEM;
	ckpt_emit_boundary(&e->m);
	/* a storage is a persistent id before it is anything else, and never in the memo */
	rc = v->kind == CKPT_PERSID ? 0 : ckpt_emit_get_if_memoized(&e->m, v);
	if (rc == 0) {
		shown = ckpt_value_for_protocol(v, e->o->protocol, e->o->python313_nested,
						e->scratch);
		if (!shown)
			return ckpt_fail_nomem(e->err);
		rc = shown->kind == CKPT_PERSID ? 1 : save_atom(e, shown);
		if (rc == 1)
			return push_frame(e, shown, v, shown != original, mark)
				       ? 0
				       : (e->err ? e->err->status : CKPT_E_NOMEM);
	}
	if (v != original)
		ckpt_arena_release(e->scratch, mark);
	return rc < 0 ? rc : 0;
}

/* ---- frames, one function per kind: 1 = call again after the child, 0 = done ---- */

static int end_tuple(struct encoder *e, const struct ckpt_value *v)
{
	static const uint8_t closing[] = { 0, CKPT_OP_TUPLE1, CKPT_OP_TUPLE2, CKPT_OP_TUPLE3 };
	uint32_t count = v->u.seq.count;
	bool marked = count > 3 || e->o->protocol < 2, failed;
	uint32_t *slot = ckpt_emit_slot(&e->m, v, &failed);

	if (failed)
		return ckpt_fail_nomem(e->err);
	if (slot && *slot) { /* it contains itself, and a child has written it already */
		if (marked)
			ckpt_emit_op(&e->m, CKPT_OP_POP_MARK);
		for (uint32_t i = 0; !marked && i < count; i++)
			ckpt_emit_op(&e->m, CKPT_OP_POP);
		ckpt_emit_get(&e->m, *slot - 1);
		return 0;
	}
	ckpt_emit_op(&e->m, marked ? CKPT_OP_TUPLE : closing[count]);
	return ckpt_emit_memoize(&e->m, v);
}

static int step_tuple(struct encoder *e, struct frame *f)
{
	const struct ckpt_value *v = f->v;
	int rc;

	if (f->i == 0 && (v->u.seq.count > 3 || e->o->protocol < 2))
		ckpt_emit_op(&e->m, CKPT_OP_MARK);
	if (f->i < v->u.seq.count) {
		rc = save(e, v->u.seq.items[f->i++]); /* F may be stale from here on */
		return rc < 0 ? rc : 1;
	}
	return end_tuple(e, v);
}

/* What a batch is written with. */
struct batch_style {
	enum ckpt_opcode one, many;
	uint32_t width;	     /* values per item */
	bool lone_is_marked; /* a last batch of one gets MARK, unless it is the only one */
	bool always_marked;
	bool empty_after_full; /* a full batch is followed by another, be it empty */
};

/* Items in batches of 1000. Returns 1 after a child, 0 when all are written. */
static int step_batches(struct encoder *e, struct frame *f, const struct ckpt_seq *seq,
			const struct batch_style *style)
{
	uint32_t full = BATCH * style->width;
	bool again;

	for (;;) {
		if (f->i < f->batch_end) {
			int rc = save(e, seq->items[f->i++]);

			return rc < 0 ? rc : 1;
		}
		again = f->i < seq->count;
		if (f->batch_size) {
			ckpt_emit_op(&e->m, f->single ? style->one : style->many);
			again |= style->empty_after_full && f->batch_size == full;
		}
		if (!again)
			return 0;
		f->batch_size = seq->count - f->i < full ? seq->count - f->i : full;
		f->single = f->batch_size == style->width && !style->always_marked &&
			    (seq->count == style->width || !style->lone_is_marked);
		f->batch_end = f->i + f->batch_size;
		if (!f->single)
			ckpt_emit_op(&e->m, CKPT_OP_MARK);
		if (!f->batch_size) {
			ckpt_emit_op(&e->m, style->many);
			return 0;
		}
	}
}

static const struct batch_style *list_style(const struct encoder *e, bool of_object)
{
	static const struct batch_style exact = { CKPT_OP_APPEND, CKPT_OP_APPENDS, 1,
						  true,		  false,	   false };
	static const struct batch_style plain = { CKPT_OP_APPEND, CKPT_OP_APPENDS, 1,
						  false,	  false,	   false };

	return of_object || e->o->python_batches ? &plain : &exact;
}

static const struct batch_style *dict_style(const struct encoder *e, bool of_object)
{
	static const struct batch_style exact = {
		CKPT_OP_SETITEM, CKPT_OP_SETITEMS, 2, true, false, true
	};
	static const struct batch_style plain = {
		CKPT_OP_SETITEM, CKPT_OP_SETITEMS, 2, false, false, false
	};

	return of_object || e->o->python_batches ? &plain : &exact;
}

static int step_container(struct encoder *e, struct frame *f, enum ckpt_opcode empty,
			  const struct batch_style *style)
{
	int rc;

	if (f->phase == 0) {
		f->phase = 1;
		ckpt_emit_op(&e->m, empty);
		rc = ckpt_emit_memoize(&e->m, f->v);
		if (rc < 0)
			return rc;
	}
	return step_batches(e, f, &f->v->u.seq, style);
}

static int step_set(struct encoder *e, struct frame *f)
{
	static const struct batch_style style = {
		CKPT_OP_ADDITEMS, CKPT_OP_ADDITEMS, 1, true, true, true
	};

	return step_container(e, f, CKPT_OP_EMPTY_SET, &style);
}

static int step_frozenset(struct encoder *e, struct frame *f)
{
	const struct ckpt_value *v = f->v;
	uint32_t *slot;
	bool failed;
	int rc;

	if (f->i == 0)
		ckpt_emit_op(&e->m, CKPT_OP_MARK);
	if (f->i < v->u.seq.count) {
		rc = save(e, v->u.seq.items[f->i++]);
		return rc < 0 ? rc : 1;
	}
	slot = ckpt_emit_slot(&e->m, v, &failed);
	if (failed)
		return ckpt_fail_nomem(e->err);
	if (slot && *slot) { /* it contains itself, and a child has written it already */
		ckpt_emit_op(&e->m, CKPT_OP_POP_MARK);
		ckpt_emit_get(&e->m, *slot - 1);
		return 0;
	}
	ckpt_emit_op(&e->m, CKPT_OP_FROZENSET);
	return ckpt_emit_memoize(&e->m, v);
}

static int step_persid(struct encoder *e, struct frame *f)
{
	if (f->phase == 0) {
		int rc;

		if (f->v->u.persid.pid->kind == CKPT_STR && e->o->protocol == 0)
			return ckpt_fail(e->err, CKPT_E_UNSUPPORTED,
					 "protocol 0 cannot be written");
		f->phase = 1;
		rc = save(e, f->v->u.persid.pid);
		return rc < 0 ? rc : 1;
	}
	ckpt_emit_op(&e->m, CKPT_OP_BINPERSID);
	return 0;
}

enum call_phase {
	CALL_FUNC,
	CALL_ARGS,
	CALL_KWARGS,
	CALL_MADE,
	CALL_ITEMS,
	CALL_PAIRS,
	CALL_SETTER,
	CALL_STATE,
	CALL_DONE,
};

/*
 * 1: continue with its contents. 0: it was written before, inside its own class or arguments, and
 * CPython's pickler in C writes no more of it.
 */
static int write_call_opcode(struct encoder *e, const struct frame *f)
{
	static const uint8_t ops[] = { CKPT_OP_REDUCE, CKPT_OP_NEWOBJ, CKPT_OP_NEWOBJ_EX };
	const struct ckpt_call *call = f->v->u.call;
	bool failed;
	uint32_t *slot = ckpt_emit_slot(&e->m, f->self, &failed);
	int rc;

	if (failed)
		return ckpt_fail_nomem(e->err);
	ckpt_emit_op(&e->m, ops[f->v->u.call->kind]);
	/* its class or arguments contain it; the pickler in Python writes the rest twice */
	if (slot && *slot) {
		if (e->o->python_batches &&
		    (call->items.count || call->pairs.count || call->setter ||
		     (call->state && (call->state->kind != CKPT_DICT ||
				      call->state->u.seq.count > CKPT_MOST_REPEATED_STATE))))
			return ckpt_fail(
				e->err, CKPT_E_UNSUPPORTED,
				"an object with contents of its own is part of what it is made "
				"from");
		ckpt_emit_op(&e->m, CKPT_OP_POP);
		ckpt_emit_get(&e->m, *slot - 1);
		return e->o->python_batches;
	}
	rc = ckpt_emit_memoize(&e->m, f->self);
	return rc < 0 ? rc : 1;
}

static int save_phase(struct encoder *e, const struct ckpt_value *v)
{
	int rc = save(e, v);

	return rc < 0 ? rc : 1;
}

/* Nearly every object makes its tuple of arguments anew, so the memo does not know it. */
static int save_args(struct encoder *e, const struct ckpt_call *call)
{
	const struct ckpt_value *args = call->args;
	struct ckpt_value *copy;

	if (!args->id || args->kind != CKPT_TUPLE || call->keeps_args)
		return save_phase(e, args);
	copy = ckpt_arena_alloc(e->scratch, sizeof(*copy));
	if (!copy)
		return ckpt_fail_nomem(e->err);
	*copy = *resolve(e, args);
	copy->id = 0;
	copy->flags |= CKPT_VALUE_FINAL;
	return save_phase(e, copy);
}

static int step_call(struct encoder *e, struct frame *f)
{
	const struct ckpt_value *v = f->v;
	const struct ckpt_call *call = v->u.call;
	int rc;

	switch ((enum call_phase)f->phase++) {
	case CALL_FUNC: return save_phase(e, call->func);
	case CALL_ARGS: return save_args(e, call);
	case CALL_KWARGS:
		if (!call->kwargs)
			return 1;
		if (e->o->protocol < 4)
			return ckpt_fail(e->err, CKPT_E_UNSUPPORTED,
					 "an object made with keyword arguments needs protocol 4");
		return save_phase(e, call->kwargs);
	case CALL_MADE: return write_call_opcode(e, f);
	case CALL_ITEMS:
		f->phase = CALL_ITEMS;
		rc = step_batches(e, f, &call->items, list_style(e, true));
		if (rc != 0)
			return rc;
		f->phase = CALL_PAIRS;
		f->i = f->batch_end = f->batch_size = 0;
		return 1;
	case CALL_PAIRS:
		f->phase = CALL_PAIRS;
		rc = step_batches(e, f, &call->pairs, dict_style(e, true));
		if (rc != 0)
			return rc;
		f->phase = CALL_SETTER;
		return 1;
	case CALL_SETTER:
		if (!call->setter)
			return 1;
		rc = save(e, call->setter);
		return rc < 0 ? rc : 1;
	case CALL_STATE:
		if (!call->state)
			return 0;
		if (call->setter) {
			rc = ckpt_emit_get_if_memoized(&e->m, f->self);
			if (rc < 0)
				return rc;
		}
		return save_phase(e, call->state);
	case CALL_DONE:
		if (call->setter) {
			ckpt_emit_op(&e->m, CKPT_OP_TUPLE2);
			ckpt_emit_op(&e->m, CKPT_OP_REDUCE);
			ckpt_emit_op(&e->m, CKPT_OP_POP);
		} else {
			ckpt_emit_op(&e->m, CKPT_OP_BUILD);
		}
		return 0;
	}
	return 0;
}

static int step_frame(struct encoder *e)
{
	struct frame *f = &e->frames[e->depth - 1];

	switch ((enum ckpt_value_kind)f->v->kind) {
	case CKPT_TUPLE: return step_tuple(e, f);
	case CKPT_LIST: return step_container(e, f, CKPT_OP_EMPTY_LIST, list_style(e, false));
	case CKPT_DICT: return step_container(e, f, CKPT_OP_EMPTY_DICT, dict_style(e, false));
	case CKPT_SET: return step_set(e, f);
	case CKPT_FROZENSET: return step_frozenset(e, f);
	case CKPT_PERSID: return step_persid(e, f);
	default: return step_call(e, f);
	}
}

static int encode_graph(struct encoder *e, const struct ckpt_value *root)
{
	int rc = save(e, root);

	while (rc >= 0 && e->depth) {
		rc = step_frame(e);
		if (rc == 0)
			pop_frame(e);
	}
	return rc < 0 ? rc : 0;
}

static void clear(struct encoder *e)
{
	free(e->frames);
	ckpt_emitter_clear(&e->m);
	ckpt_arena_free(e->scratch);
}

int ckpt_pickle_encode(const struct ckpt_value *root, const struct ckpt_pickle_options *options,
		       struct ckpt_buf *out, struct ckpt_error *err)
{
	struct ckpt_error local = CKPT_ERROR_INIT; /* the resolver's verdict must not get lost */
	struct encoder e = { .o = options };
	int rc;

	assert(options->protocol >= 1 && options->protocol <= 5);
	e.err = err ? err : &local;
	rc = ckpt_emitter_init(&e.m, options->protocol, out, e.err);
	e.m.interned_letters_apart = options->python311;
	e.scratch = ckpt_arena_new(SCRATCH_BUDGET);
	if (rc == 0 && !e.scratch)
		rc = ckpt_fail_nomem(e.err);
	if (rc == 0) {
		if (options->protocol >= 2)
			ckpt_emit_op_le(&e.m, CKPT_OP_PROTO, options->protocol, 1);
		e.m.framing = options->protocol >= 4;
		rc = encode_graph(&e, root);
		ckpt_emit_op(&e.m, CKPT_OP_STOP);
		ckpt_emit_close_frame(&e.m);
	}
	clear(&e);
	if (rc == 0 && out->bad)
		rc = CKPT_E_NOMEM;
	return rc == CKPT_E_NOMEM ? ckpt_fail_nomem(err) : rc;
}
