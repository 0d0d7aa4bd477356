/* SPDX-License-Identifier: Apache-2.0 */
#include "pickle/decode.h"

#include "base/strmap.h"
#include "base/text.h"
#include "pickle/literal.h"
#include "pickle/op.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 1000, SMALL_INTS = 256 };

struct decoder {
	struct ckpt_reader r;
	struct ckpt_op op;
	struct ckpt_pickle *doc;
	struct ckpt_arena *arena;
	struct ckpt_error *err;

	const struct ckpt_value **stack;
	size_t depth, stack_cap;
	size_t *marks;
	size_t mark_count, mark_cap;

	const struct ckpt_value **memo; /* by index, as long as indices are dense */
	size_t memo_cap, memo_count;
	struct ckpt_strmap sparse_memo; /* the others, by the bytes of the index */
	struct ckpt_strmap globals;	/* "module\nname" to the one node of each */
	const struct ckpt_value *small_ints[SMALL_INTS];
	bool done;
};

static int out_of_memory(struct decoder *d)
{
	return ckpt_arena_fail(d->arena, d->err);
}

static const char *op_name(const struct decoder *d)
{
	return ckpt_opcode_table[d->op.code].name;
}

/* The stack above the last mark; what lies below belongs to somebody else. */
static size_t floor_of(const struct decoder *d)
{
	return d->mark_count ? d->marks[d->mark_count - 1] : 0;
}

static int need(struct decoder *d, size_t count)
{
	size_t have = d->depth - floor_of(d);

	if (have >= count)
		return 0;
	return ckpt_fail(d->err, CKPT_E_FORMAT, "%s needs %zu value%s, the stack has %zu",
			 op_name(d), count, count == 1 ? "" : "s", have);
}

static int push(struct decoder *d, const struct ckpt_value *v)
{
	if (d->depth == d->stack_cap) {
		size_t cap = d->stack_cap ? d->stack_cap * 2 : 64;
		void *grown = realloc(d->stack, cap * sizeof(*d->stack));

		if (!grown)
			return ckpt_fail_nomem(d->err);
		d->stack = grown;
		d->stack_cap = cap;
	}
	d->stack[d->depth++] = v;
	return 0;
}

static int push_mark(struct decoder *d)
{
	if (d->mark_count == d->mark_cap) {
		size_t cap = d->mark_cap ? d->mark_cap * 2 : 64;
		void *grown = realloc(d->marks, cap * sizeof(*d->marks));

		if (!grown)
			return ckpt_fail_nomem(d->err);
		d->marks = grown;
		d->mark_cap = cap;
	}
	d->marks[d->mark_count++] = d->depth;
	return 0;
}

/* Take everything above the last mark off the stack: ITEMS stay readable until the next push. */
static int pop_to_mark(struct decoder *d, const struct ckpt_value ***items, uint32_t *count)
{
	size_t n;

	*items = NULL;
	*count = 0;
	if (!d->mark_count)
		return ckpt_fail(d->err, CKPT_E_FORMAT, "%s needs a MARK, there is none",
				 op_name(d));
	n = d->depth - floor_of(d);
	if (n > UINT32_MAX)
		return ckpt_fail(d->err, CKPT_E_LIMIT, "more than 4294967295 values above a MARK");
	d->depth = d->marks[--d->mark_count];
	*items = n ? d->stack + d->depth : NULL;
	*count = (uint32_t)n;
	return 0;
}

static struct ckpt_value *new_value(struct decoder *d, uint8_t kind)
{
	struct ckpt_value *v = ckpt_arena_calloc(d->arena, 1, sizeof(*v));

	if (v) {
		v->kind = kind;
		v->pos = d->op.pos;
		v->id = d->doc->next_id++;
	}
	return v;
}

static int push_new(struct decoder *d, const struct ckpt_value *v)
{
	return v ? push(d, v) : out_of_memory(d);
}

static int push_int(struct decoder *d, int64_t integer)
{
	struct ckpt_value *v;

	if (integer >= 0 && integer < SMALL_INTS && d->small_ints[integer])
		return push(d, d->small_ints[integer]);
	v = new_value(d, CKPT_INT);
	if (!v)
		return out_of_memory(d);
	v->id = 0; /* numbers have no identity in a pickle */
	v->u.integer = integer;
	if (integer >= 0 && integer < SMALL_INTS)
		d->small_ints[integer] = v;
	return push(d, v);
}

static int push_bytes(struct decoder *d, uint8_t kind)
{
	struct ckpt_value *v = new_value(d, kind);

	if (v) {
		v->u.bytes.ptr = d->op.bytes;
		v->u.bytes.len = d->op.len;
	}
	return push_new(d, v);
}

static int push_literal(struct decoder *d)
{
	struct ckpt_value *v = new_value(d, CKPT_NONE);
	const char *text = d->op.bytes;
	uint64_t len = d->op.len;
	int rc;

	if (!v)
		return out_of_memory(d);
	switch (d->op.code) {
	case CKPT_OP_INT: rc = ckpt_literal_int(d->arena, text, len, false, v, d->err); break;
	case CKPT_OP_LONG: rc = ckpt_literal_int(d->arena, text, len, true, v, d->err); break;
	case CKPT_OP_FLOAT: rc = ckpt_literal_float(text, len, v, d->err); break;
	case CKPT_OP_STRING: rc = ckpt_literal_py2_str(d->arena, text, len, v, d->err); break;
	case CKPT_OP_UNICODE: rc = ckpt_literal_unicode(d->arena, text, len, v, d->err); break;
	default: rc = ckpt_literal_long(d->arena, (const uint8_t *)text, len, v, d->err); break;
	}
	if (v->kind <= CKPT_FLOAT)
		v->id = 0;
	return rc < 0 ? rc : push(d, v);
}

static int push_float(struct decoder *d)
{
	struct ckpt_value *v = new_value(d, CKPT_FLOAT);

	if (v) {
		v->id = 0;
		v->u.real = d->op.real;
	}
	return push_new(d, v);
}

/* A tuple, list, set or dict of COUNT values that were just taken off the stack. */
static int push_seq(struct decoder *d, uint8_t kind, const struct ckpt_value *const *items,
		    uint32_t count)
{
	struct ckpt_value *v;

	if (kind == CKPT_TUPLE && !count)
		return push(d, &ckpt_value_empty_tuple);
	v = new_value(d, kind);
	if (!v || !ckpt_seq_add_many(d->arena, &v->u.seq, items, count))
		return out_of_memory(d);
	return push(d, v);
}

static int push_tuple_n(struct decoder *d, uint32_t count)
{
	int rc = need(d, count);

	if (rc < 0)
		return rc;
	d->depth -= count;
	return push_seq(d, CKPT_TUPLE, d->stack + d->depth, count);
}

static int push_marked(struct decoder *d, uint8_t kind)
{
	const struct ckpt_value **items = NULL;
	uint32_t count = 0;
	int rc = pop_to_mark(d, &items, &count);

	if (rc < 0)
		return rc;
	if (kind == CKPT_DICT && count % 2)
		return ckpt_fail(d->err, CKPT_E_FORMAT, "DICT has a key without a value");
	return push_seq(d, kind, items, count);
}

/* No name has them, and a line feed would end the name early where it is written as a line. */
static bool has_bad_byte(const char *text, uint64_t len)
{
	return memchr(text, '\0', len) || memchr(text, '\n', len);
}

static int find_global(struct decoder *d, const char *module, uint64_t module_len, const char *name,
		       uint64_t name_len, const struct ckpt_value **out)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(d->arena);
	struct ckpt_global *g;
	struct ckpt_value *v;
	uint64_t *slot;
	bool there;
	char *key;

	if (has_bad_byte(module, module_len) || has_bad_byte(name, name_len) ||
	    module_len + name_len > UINT16_MAX)
		return ckpt_fail(d->err, CKPT_E_FORMAT, "%s has a name that no class can have",
				 op_name(d));
	key = ckpt_arena_alloc(d->arena, module_len + name_len + 2);
	if (!key)
		return out_of_memory(d);
	memcpy(key, module, module_len);
	key[module_len] = '\0';
	memcpy(key + module_len + 1, name, name_len);
	key[module_len + 1 + name_len] = '\0';
	slot = ckpt_strmap_insert(&d->globals, key, module_len + name_len + 1, 0, &there);
	if (!slot)
		return ckpt_fail_nomem(d->err);
	if (there) {
		ckpt_arena_release(d->arena, mark);
		*out = (const struct ckpt_value *)(uintptr_t)*slot;
		return 0;
	}
	v = new_value(d, CKPT_GLOBAL);
	g = ckpt_arena_alloc(d->arena, sizeof(*g));
	if (!v || !g)
		return out_of_memory(d);
	*g = (struct ckpt_global){ key, key + module_len + 1, (uint32_t)module_len,
				   (uint32_t)name_len };
	v->u.global = g;
	*slot = (uint64_t)(uintptr_t)v;
	*out = v;
	return 0;
}

static int push_global(struct decoder *d)
{
	const struct ckpt_value *v = NULL;
	int rc = find_global(d, d->op.bytes, d->op.len, d->op.second, d->op.second_len, &v);

	return rc < 0 ? rc : push(d, v);
}

static int push_stack_global(struct decoder *d)
{
	const struct ckpt_value *module, *name, *v = NULL;
	int rc = need(d, 2);

	if (rc < 0)
		return rc;
	module = d->stack[d->depth - 2];
	name = d->stack[d->depth - 1];
	if (module->kind != CKPT_STR || name->kind != CKPT_STR)
		return ckpt_fail(d->err, CKPT_E_FORMAT,
				 "STACK_GLOBAL needs 2 strings, found %s and %s",
				 ckpt_value_kind_name(module), ckpt_value_kind_name(name));
	rc = find_global(d, module->u.bytes.ptr, module->u.bytes.len, name->u.bytes.ptr,
			 name->u.bytes.len, &v);
	if (rc < 0)
		return rc;
	d->depth -= 2;
	return push(d, v);
}

static int push_call(struct decoder *d, uint8_t kind, const struct ckpt_value *func,
		     const struct ckpt_value *args, const struct ckpt_value *kwargs)
{
	struct ckpt_value *v = new_value(d, CKPT_CALL);
	struct ckpt_call *call = ckpt_arena_calloc(d->arena, 1, sizeof(*call));

	if (!v || !call)
		return out_of_memory(d);
	call->kind = kind;
	call->func = func;
	call->args = args;
	call->kwargs = kwargs;
	v->u.call = call;
	if (args->kind != CKPT_TUPLE)
		return ckpt_fail(d->err, CKPT_E_FORMAT, "%s needs a tuple of arguments, found %s",
				 op_name(d), ckpt_value_kind_name(args));
	return push(d, v);
}

static int reduce(struct decoder *d, uint8_t kind, size_t operands)
{
	const struct ckpt_value **at;
	int rc = need(d, operands);

	if (rc < 0)
		return rc;
	d->depth -= operands;
	at = d->stack + d->depth;
	return push_call(d, kind, at[0], at[1], operands == 3 ? at[2] : NULL);
}

/* INST and OBJ: instances of Python 2's old-style classes. */
static int push_instance(struct decoder *d)
{
	const struct ckpt_value **items = NULL, *func = NULL, *args;
	struct ckpt_value *tuple;
	uint32_t count = 0;
	int rc = pop_to_mark(d, &items, &count);

	if (rc == 0 && d->op.code == CKPT_OP_INST)
		rc = find_global(d, d->op.bytes, d->op.len, d->op.second, d->op.second_len, &func);
	if (rc < 0)
		return rc;
	if (!func) {
		if (!count)
			return ckpt_fail(d->err, CKPT_E_FORMAT, "OBJ needs a class, found none");
		func = *items++;
		count--;
	}
	args = &ckpt_value_empty_tuple;
	if (count) {
		tuple = new_value(d, CKPT_TUPLE);
		if (!tuple || !ckpt_seq_add_many(d->arena, &tuple->u.seq, items, count))
			return out_of_memory(d);
		args = tuple;
	}
	return push_call(d, count ? CKPT_CALL_REDUCE : CKPT_CALL_NEWOBJ, func, args, NULL);
}

static int push_persid(struct decoder *d)
{
	struct ckpt_value *v, *text;
	const struct ckpt_value *pid;
	int rc;

	if (d->op.code == CKPT_OP_PERSID) {
		text = new_value(d, CKPT_STR);
		if (!text)
			return out_of_memory(d);
		text->u.bytes.ptr = d->op.bytes;
		text->u.bytes.len = d->op.len;
		pid = text;
	} else {
		rc = need(d, 1);
		if (rc < 0)
			return rc;
		pid = d->stack[--d->depth];
	}
	v = new_value(d, CKPT_PERSID);
	if (!v || !ckpt_seq_add(d->arena, &d->doc->persids, v))
		return out_of_memory(d);
	v->u.persid.pid = pid;
	return push(d, v);
}

/* What items and pairs are added to, on top of the stack after they are popped. */
static int target(struct decoder *d, struct ckpt_value **out)
{
	int rc = need(d, 1);

	*out = NULL;
	if (rc == 0) /* the decoder made every value and may still change it */
		*out = (struct ckpt_value *)d->stack[d->depth - 1];
	return rc;
}

static int wrong_target(struct decoder *d, const struct ckpt_value *v)
{
	return ckpt_fail(d->err, CKPT_E_FORMAT, "%s cannot add to a value of kind %s", op_name(d),
			 ckpt_value_kind_name(v));
}

/* Which of CPython's two picklers wrote this shows in the last batch of a long container. */
static void note_batch(struct decoder *d, const struct ckpt_value *v, uint32_t before,
		       uint32_t added)
{
	bool single = d->op.code == CKPT_OP_APPEND || d->op.code == CKPT_OP_SETITEM;
	uint32_t full = v->kind == CKPT_DICT ? 2 * BATCH : BATCH;

	if (v->kind != CKPT_DICT && v->kind != CKPT_LIST)
		return;
	if (single && before >= full && before % full == 0)
		d->doc->python_batches = true;
	else if (v->kind == CKPT_DICT && added == full && d->r.pos < d->r.len &&
		 d->r.data[d->r.pos] != CKPT_OP_MARK)
		d->doc->python_batches = true;
}

static int append(struct decoder *d, const struct ckpt_value *const *items, uint32_t count)
{
	struct ckpt_value *v = NULL;
	struct ckpt_seq *seq;
	uint32_t before;
	int rc = target(d, &v);

	if (rc < 0)
		return rc;
	if (v->kind == CKPT_CALL && d->op.code != CKPT_OP_ADDITEMS)
		seq = &v->u.call->items;
	else if (v->kind == (d->op.code == CKPT_OP_ADDITEMS ? CKPT_SET : CKPT_LIST))
		seq = &v->u.seq;
	else
		return wrong_target(d, v);
	before = seq->count;
	if (!ckpt_seq_add_many(d->arena, seq, items, count))
		return out_of_memory(d);
	note_batch(d, v, before, count);
	return 0;
}

static int set_items(struct decoder *d, const struct ckpt_value *const *items, uint32_t count)
{
	struct ckpt_value *v = NULL;
	struct ckpt_seq *seq;
	uint32_t before;
	int rc = target(d, &v);

	if (rc < 0)
		return rc;
	if (count % 2)
		return ckpt_fail(d->err, CKPT_E_FORMAT, "SETITEMS has a key without a value");
	if (v->kind != CKPT_CALL && v->kind != CKPT_DICT)
		return wrong_target(d, v);
	seq = v->kind == CKPT_CALL ? &v->u.call->pairs : &v->u.seq;
	before = seq->count;
	if (!ckpt_seq_add_many(d->arena, seq, items, count))
		return out_of_memory(d);
	note_batch(d, v, before, count);
	return 0;
}

/* APPEND and SETITEM take their operands from the stack, the plural forms down to a mark. */
static int add_single(struct decoder *d, size_t operands)
{
	const struct ckpt_value *items[2];
	int rc = need(d, operands + 1);

	if (rc < 0)
		return rc;
	d->depth -= operands;
	memcpy(items, d->stack + d->depth, operands * sizeof(*items));
	return operands == 1 ? append(d, items, 1) : set_items(d, items, 2);
}

static int add_marked(struct decoder *d)
{
	const struct ckpt_value **items = NULL;
	uint32_t count = 0;
	int rc = pop_to_mark(d, &items, &count);

	if (rc < 0)
		return rc;
	return d->op.code == CKPT_OP_SETITEMS ? set_items(d, items, count)
					      : append(d, items, count);
}

static int build(struct decoder *d)
{
	const struct ckpt_value *state;
	struct ckpt_value *v = NULL;
	int rc = need(d, 2);

	if (rc < 0)
		return rc;
	state = d->stack[--d->depth];
	rc = target(d, &v);
	if (rc < 0)
		return rc;
	if (v->kind != CKPT_CALL)
		return ckpt_fail(d->err, CKPT_E_FORMAT, "BUILD needs an object, found %s",
				 ckpt_value_kind_name(v));
	if (v->u.call->state)
		return ckpt_fail(d->err, CKPT_E_FORMAT,
				 "BUILD of an object that has its state already");
	v->u.call->state = state;
	return 0;
}

static int line_index(struct decoder *d, uint64_t *out)
{
	uint64_t v = 0;

	if (!d->op.len || d->op.len > 10)
		return ckpt_fail(d->err, CKPT_E_FORMAT, "%s needs a memo index", op_name(d));
	for (uint64_t i = 0; i < d->op.len; i++) {
		if (d->op.bytes[i] < '0' || d->op.bytes[i] > '9')
			return ckpt_fail(d->err, CKPT_E_FORMAT, "%s needs a memo index",
					 op_name(d));
		v = v * 10 + (uint64_t)(d->op.bytes[i] - '0');
	}
	*out = v;
	return 0;
}

static int sparse_put(struct decoder *d, uint64_t index, const struct ckpt_value *v)
{
	char *key = ckpt_arena_copy(d->arena, &index, sizeof(index));
	uint64_t *slot;
	bool there;

	if (!key)
		return out_of_memory(d);
	slot = ckpt_strmap_insert(&d->sparse_memo, key, sizeof(index), 0, &there);
	if (!slot)
		return ckpt_fail_nomem(d->err);
	*slot = (uint64_t)(uintptr_t)v;
	d->memo_count += !there;
	return 0;
}

static int memo_put(struct decoder *d, uint64_t index)
{
	int rc = need(d, 1);

	if (rc < 0)
		return rc;
	if (index > d->r.len) /* cannot be dense: a PUT takes at least a byte */
		return sparse_put(d, index, d->stack[d->depth - 1]);
	if (index >= d->memo_cap) {
		size_t cap = d->memo_cap ? d->memo_cap : 64;
		void *grown;

		while (cap <= index)
			cap *= 2;
		grown = realloc(d->memo, cap * sizeof(*d->memo));
		if (!grown)
			return ckpt_fail_nomem(d->err);
		d->memo = grown;
		memset(d->memo + d->memo_cap, 0, (cap - d->memo_cap) * sizeof(*d->memo));
		d->memo_cap = cap;
	}
	d->memo_count += !d->memo[index];
	d->memo[index] = d->stack[d->depth - 1];
	return 0;
}

static int memo_get(struct decoder *d, uint64_t index)
{
	const struct ckpt_value *v = NULL;

	if (index <= d->r.len) {
		v = index < d->memo_cap ? d->memo[index] : NULL;
	} else {
		uint64_t *slot =
			ckpt_strmap_find(&d->sparse_memo, (const char *)&index, sizeof(index));

		if (slot)
			v = (const struct ckpt_value *)(uintptr_t)*slot;
	}
	if (!v)
		return ckpt_fail(d->err, CKPT_E_FORMAT,
				 "%s of memo entry %" PRIu64 ", which is not set", op_name(d),
				 index);
	return push(d, v);
}

static int memo_line(struct decoder *d)
{
	uint64_t index = 0;
	int rc = line_index(d, &index);

	if (rc < 0)
		return rc;
	return d->op.code == CKPT_OP_PUT ? memo_put(d, index) : memo_get(d, index);
}

/*
 * A state setter: setter(object, state) is called and its result dropped, which leaves the object
 * on the stack. It belongs to the object as BUILD does.
 */
static void note_setter(struct decoder *d)
{
	const struct ckpt_value *dropped = d->stack[d->depth - 1], *args;
	struct ckpt_value *object;

	if (dropped->kind != CKPT_CALL || d->depth - floor_of(d) < 2)
		return;
	object = (struct ckpt_value *)d->stack[d->depth - 2];
	args = dropped->u.call->args;
	if (dropped->u.call->kind != CKPT_CALL_REDUCE || dropped->u.call->items.count ||
	    dropped->u.call->pairs.count || dropped->u.call->state)
		return;
	if (object->kind != CKPT_CALL || object->u.call->state || args->u.seq.count != 2 ||
	    args->u.seq.items[0] != object || dropped == object)
		return;
	object->u.call->setter = dropped->u.call->func;
	object->u.call->state = args->u.seq.items[1];
}

static int pop(struct decoder *d)
{
	if (d->mark_count && floor_of(d) == d->depth) {
		d->mark_count--; /* Python's POP takes a mark, too, if it is on top */
		return 0;
	}
	if (need(d, 1) < 0)
		return CKPT_E_FORMAT;
	note_setter(d);
	d->depth--;
	return 0;
}

static int pop_mark(struct decoder *d)
{
	const struct ckpt_value **items = NULL;
	uint32_t count = 0;

	return pop_to_mark(d, &items, &count);
}

static int dup(struct decoder *d)
{
	int rc = need(d, 1);

	return rc < 0 ? rc : push(d, d->stack[d->depth - 1]);
}

static int stop(struct decoder *d)
{
	int rc = need(d, 1);

	if (rc < 0)
		return rc;
	d->doc->root = d->stack[d->depth - 1];
	d->done = true;
	return 0;
}

static int push_ext(struct decoder *d)
{
	struct ckpt_value *v = new_value(d, CKPT_EXT);

	if (v)
		v->u.integer = (int64_t)d->op.number;
	return push_new(d, v);
}

static int proto(struct decoder *d)
{
	if (d->op.number > 5)
		return ckpt_fail(d->err, CKPT_E_FORMAT,
				 "pickle protocol %" PRIu64 ", wanted 0 to 5", d->op.number);
	if (d->op.number > d->doc->protocol)
		d->doc->protocol = (uint8_t)d->op.number;
	return 0;
}

static int step(struct decoder *d)
{
	const struct ckpt_op *op = &d->op;

	switch ((enum ckpt_opcode)op->code) {
	case CKPT_OP_PROTO: return proto(d);
	case CKPT_OP_FRAME: return 0; /* only tells where to buffer */
	case CKPT_OP_STOP: return stop(d);
	case CKPT_OP_MARK: return push_mark(d);
	case CKPT_OP_POP: return pop(d);
	case CKPT_OP_POP_MARK: return pop_mark(d);
	case CKPT_OP_DUP: return dup(d);
	case CKPT_OP_NONE: return push(d, &ckpt_value_none);
	case CKPT_OP_NEWTRUE: return push(d, &ckpt_value_true);
	case CKPT_OP_NEWFALSE: return push(d, &ckpt_value_false);
	case CKPT_OP_BININT:
	case CKPT_OP_BININT1:
	case CKPT_OP_BININT2: return push_int(d, (int64_t)op->number);
	case CKPT_OP_BINFLOAT: return push_float(d);
	case CKPT_OP_INT:
	case CKPT_OP_LONG:
	case CKPT_OP_LONG1:
	case CKPT_OP_LONG4:
	case CKPT_OP_FLOAT:
	case CKPT_OP_STRING:
	case CKPT_OP_UNICODE: return push_literal(d);
	case CKPT_OP_BINSTRING:
	case CKPT_OP_SHORT_BINSTRING: return push_bytes(d, CKPT_PY2_STR);
	case CKPT_OP_BINUNICODE:
	case CKPT_OP_SHORT_BINUNICODE:
	case CKPT_OP_BINUNICODE8: return push_bytes(d, CKPT_STR);
	case CKPT_OP_BINBYTES:
	case CKPT_OP_SHORT_BINBYTES:
	case CKPT_OP_BINBYTES8: return push_bytes(d, CKPT_BYTES);
	case CKPT_OP_BYTEARRAY8: return push_bytes(d, CKPT_BYTEARRAY);
	case CKPT_OP_EMPTY_LIST: return push_seq(d, CKPT_LIST, NULL, 0);
	case CKPT_OP_EMPTY_TUPLE: return push_seq(d, CKPT_TUPLE, NULL, 0);
	case CKPT_OP_EMPTY_DICT: return push_seq(d, CKPT_DICT, NULL, 0);
	case CKPT_OP_EMPTY_SET: return push_seq(d, CKPT_SET, NULL, 0);
	case CKPT_OP_LIST: return push_marked(d, CKPT_LIST);
	case CKPT_OP_TUPLE: return push_marked(d, CKPT_TUPLE);
	case CKPT_OP_DICT: return push_marked(d, CKPT_DICT);
	case CKPT_OP_FROZENSET: return push_marked(d, CKPT_FROZENSET);
	case CKPT_OP_TUPLE1: return push_tuple_n(d, 1);
	case CKPT_OP_TUPLE2: return push_tuple_n(d, 2);
	case CKPT_OP_TUPLE3: return push_tuple_n(d, 3);
	case CKPT_OP_APPEND: return add_single(d, 1);
	case CKPT_OP_SETITEM: return add_single(d, 2);
	case CKPT_OP_APPENDS:
	case CKPT_OP_ADDITEMS:
	case CKPT_OP_SETITEMS: return add_marked(d);
	case CKPT_OP_GLOBAL: return push_global(d);
	case CKPT_OP_STACK_GLOBAL: return push_stack_global(d);
	case CKPT_OP_REDUCE: return reduce(d, CKPT_CALL_REDUCE, 2);
	case CKPT_OP_NEWOBJ: return reduce(d, CKPT_CALL_NEWOBJ, 2);
	case CKPT_OP_NEWOBJ_EX: return reduce(d, CKPT_CALL_NEWOBJ_EX, 3);
	case CKPT_OP_INST:
	case CKPT_OP_OBJ: return push_instance(d);
	case CKPT_OP_BUILD: return build(d);
	case CKPT_OP_PERSID:
	case CKPT_OP_BINPERSID: return push_persid(d);
	case CKPT_OP_EXT1:
	case CKPT_OP_EXT2:
	case CKPT_OP_EXT4: return push_ext(d);
	case CKPT_OP_PUT:
	case CKPT_OP_GET: return memo_line(d);
	case CKPT_OP_BINPUT:
	case CKPT_OP_LONG_BINPUT: return memo_put(d, op->number);
	case CKPT_OP_MEMOIZE: return memo_put(d, d->memo_count);
	case CKPT_OP_BINGET:
	case CKPT_OP_LONG_BINGET: return memo_get(d, op->number);
	case CKPT_OP_NEXT_BUFFER:
	case CKPT_OP_READONLY_BUFFER: break;
	}
	return ckpt_fail(d->err, CKPT_E_FORMAT, "%s wants a buffer from outside of the pickle",
			 op_name(d));
}

static int run(struct decoder *d)
{
	while (!d->done) {
		int rc = ckpt_op_read(&d->r, &d->op, d->err);

		if (rc == 0)
			rc = step(d);
		if (rc < 0)
			return ckpt_error_at(d->err, rc, NULL, NULL, d->op.pos);
	}
	d->doc->nbytes = d->r.pos;
	return 0;
}

static void clear(struct decoder *d)
{
	free(d->stack);
	free(d->marks);
	free(d->memo);
	ckpt_strmap_clear(&d->sparse_memo);
	ckpt_strmap_clear(&d->globals);
}

int ckpt_pickle_decode(const void *bytes, size_t len, uint64_t budget, struct ckpt_pickle *out,
		       struct ckpt_error *err)
{
	struct decoder d = { .r = { bytes, len, 0, false }, .doc = out, .err = err };
	int rc;

	*out = (struct ckpt_pickle){ .next_id = 1 };
	if (len > UINT32_MAX - 16) /* an id per byte at most */
		return ckpt_fail(err, CKPT_E_LIMIT, "the pickle has %zu bytes, the limit is 4 GiB",
				 len);
	out->arena = d.arena = ckpt_arena_new(budget);
	if (!d.arena)
		return ckpt_fail_nomem(err);
	rc = run(&d);
	clear(&d);
	if (rc < 0)
		ckpt_pickle_clear(out);
	return rc;
}

void ckpt_pickle_clear(struct ckpt_pickle *pickle)
{
	ckpt_arena_free(pickle->arena);
	*pickle = (struct ckpt_pickle){ 0 };
}
