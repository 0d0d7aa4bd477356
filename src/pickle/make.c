/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The opcodes that push a new value.
 *
 * What must stay true: what later code relies on is checked here. The arguments of every call are
 * a tuple, no number or string is called, and names of globals hold neither NUL nor newline. What
 * has no identity in a pickle (None, booleans, numbers, the empty tuple) has id 0. Memory stays
 * small: small integers, globals and the calls of empty OrderedDict()s are one object each.
 */
#include "pickle/make.h"

#include "pickle/fold.h"
#include "pickle/literal.h"

#include <string.h>

static int push_new(struct ckpt_machine *m, const struct ckpt_value *v)
{
	return v ? ckpt_machine_push(m, v) : ckpt_machine_nomem(m);
}

int ckpt_make_int(struct ckpt_machine *m, int64_t integer)
{
	struct ckpt_value *v;

	if (integer >= 0 && integer < CKPT_MACHINE_SMALL_INTS && m->small_ints[integer])
		return ckpt_machine_push(m, m->small_ints[integer]);
	v = ckpt_machine_new(m, CKPT_INT);
	if (!v)
		return ckpt_machine_nomem(m);
	v->id = 0; /* numbers have no identity in a pickle */
	v->u.integer = integer;
	if (integer >= 0 && integer < CKPT_MACHINE_SMALL_INTS)
		m->small_ints[integer] = v;
	return ckpt_machine_push(m, v);
}

int ckpt_make_bytes(struct ckpt_machine *m, uint8_t kind)
{
	struct ckpt_value *v = ckpt_machine_new(m, kind);

	if (v) {
		v->u.bytes.ptr = m->op.bytes;
		v->u.bytes.len = m->op.len;
	}
	return push_new(m, v);
}

int ckpt_make_literal(struct ckpt_machine *m)
{
	struct ckpt_value *v = ckpt_machine_new(m, CKPT_NONE);
	const char *text = m->op.bytes;
	uint64_t len = m->op.len;
	int rc;

	if (!v)
		return ckpt_machine_nomem(m);
	switch (m->op.code) {
	case CKPT_OP_INT: rc = ckpt_literal_int(m->arena, text, len, false, v, m->err); break;
	case CKPT_OP_LONG: rc = ckpt_literal_int(m->arena, text, len, true, v, m->err); break;
	case CKPT_OP_FLOAT: rc = ckpt_literal_float(text, len, v, m->err); break;
	case CKPT_OP_STRING: rc = ckpt_literal_py2_str(m->arena, text, len, v, m->err); break;
	case CKPT_OP_UNICODE: rc = ckpt_literal_unicode(m->arena, text, len, v, m->err); break;
	default: rc = ckpt_literal_long(m->arena, (const uint8_t *)text, len, v, m->err); break;
	}
	if (v->kind <= CKPT_FLOAT)
		v->id = 0;
	return rc < 0 ? rc : ckpt_machine_push(m, v);
}

int ckpt_make_float(struct ckpt_machine *m)
{
	struct ckpt_value *v = ckpt_machine_new(m, CKPT_FLOAT);

	if (v) {
		v->id = 0;
		v->u.real = m->op.real;
	}
	return push_new(m, v);
}

int ckpt_make_seq(struct ckpt_machine *m, uint8_t kind, const struct ckpt_value *const *items,
		  uint32_t count)
{
	struct ckpt_value *v;

	if (kind == CKPT_TUPLE && !count)
		return ckpt_machine_push(m, &ckpt_value_empty_tuple);
	v = ckpt_machine_new(m, kind);
	if (!v || !ckpt_seq_add_many(m->arena, &v->u.seq, items, count))
		return ckpt_machine_nomem(m);
	return ckpt_machine_push(m, v);
}

int ckpt_make_tuple(struct ckpt_machine *m, uint32_t count)
{
	int rc = ckpt_machine_need(m, count);

	if (rc < 0)
		return rc;
	m->depth -= count;
	return ckpt_make_seq(m, CKPT_TUPLE, m->stack + m->depth, count);
}

int ckpt_make_marked(struct ckpt_machine *m, uint8_t kind)
{
	const struct ckpt_value **items = NULL;
	uint32_t count = 0;
	int rc = ckpt_machine_pop_to_mark(m, &items, &count);

	if (rc < 0)
		return rc;
	if (kind == CKPT_DICT && count % 2)
		return ckpt_fail(m->err, CKPT_E_FORMAT, "DICT has a key without a value");
	return ckpt_make_seq(m, kind, items, count);
}

/* No name has them, and a line feed would end the name early where it is written as a line. */
static bool has_bad_byte(const char *text, uint64_t len)
{
	return memchr(text, '\0', len) || memchr(text, '\n', len);
}

static int find_global(struct ckpt_machine *m, const char *module, uint64_t module_len,
		       const char *name, uint64_t name_len, const struct ckpt_value **out)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(m->arena);
	struct ckpt_global *g;
	struct ckpt_value *v;
	uint64_t *slot;
	bool there;
	char *key;

	if (has_bad_byte(module, module_len) || has_bad_byte(name, name_len) ||
	    module_len + name_len > UINT16_MAX)
		return ckpt_fail(m->err, CKPT_E_FORMAT, "%s has a name that no class can have",
				 ckpt_machine_op_name(m));
	key = ckpt_arena_alloc(m->arena, module_len + name_len + 2);
	if (!key)
		return ckpt_machine_nomem(m);
	memcpy(key, module, module_len);
	key[module_len] = '\0';
	memcpy(key + module_len + 1, name, name_len);
	key[module_len + 1 + name_len] = '\0';
	slot = ckpt_strmap_insert(&m->globals, key, module_len + name_len + 1, 0, &there);
	if (!slot)
		return ckpt_fail_nomem(m->err);
	if (there) {
		ckpt_arena_release(m->arena, mark);
		*out = (const struct ckpt_value *)(uintptr_t)*slot;
		return 0;
	}
	v = ckpt_machine_new(m, CKPT_GLOBAL);
	g = ckpt_arena_alloc(m->arena, sizeof(*g));
	if (!v || !g)
		return ckpt_machine_nomem(m);
	*g = (struct ckpt_global){ key, key + module_len + 1, (uint32_t)module_len,
				   (uint32_t)name_len };
	v->u.global = g;
	*slot = (uint64_t)(uintptr_t)v;
	*out = v;
	return 0;
}

int ckpt_make_global(struct ckpt_machine *m)
{
	const struct ckpt_value *v = NULL;
	int rc = find_global(m, m->op.bytes, m->op.len, m->op.second, m->op.second_len, &v);

	return rc < 0 ? rc : ckpt_machine_push(m, v);
}

int ckpt_make_stack_global(struct ckpt_machine *m)
{
	const struct ckpt_value *module, *name, *v = NULL;
	int rc = ckpt_machine_need(m, 2);

	if (rc < 0)
		return rc;
	module = m->stack[m->depth - 2];
	name = m->stack[m->depth - 1];
	if (module->kind != CKPT_STR || name->kind != CKPT_STR)
		return ckpt_fail(m->err, CKPT_E_FORMAT,
				 "STACK_GLOBAL needs 2 strings, found %s and %s",
				 ckpt_value_kind_name(module), ckpt_value_kind_name(name));
	rc = find_global(m, module->u.bytes.ptr, module->u.bytes.len, name->u.bytes.ptr,
			 name->u.bytes.len, &v);
	if (rc < 0)
		return rc;
	m->depth -= 2;
	return ckpt_machine_push(m, v);
}

/*
 * Python 2 writes OrderedDict([[key, value], ...]), Python 3 makes an empty one and sets its items:
 * both become the latter. What is no list of pairs stays an argument. Memory is taken before the
 * list is looked at, and kept: the budget then limits how often a list can be shared.
 */
static bool fill_from_pairs(struct ckpt_machine *m, struct ckpt_call *call)
{
	const struct ckpt_seq *args = &call->args->u.seq, *list;
	struct ckpt_seq pairs = { 0 };

	if (args->count != 1 || args->items[0]->kind != CKPT_LIST)
		return true;
	list = &args->items[0]->u.seq;
	if (list->count > UINT32_MAX / 2)
		return true;
	pairs.cap = 2 * list->count;
	pairs.items = ckpt_arena_alloc(m->arena, pairs.cap * sizeof(*pairs.items));
	if (!pairs.items)
		return false;
	for (uint32_t i = 0; i < list->count; i++) {
		const struct ckpt_value *pair = list->items[i];

		if ((pair->kind != CKPT_LIST && pair->kind != CKPT_TUPLE) || pair->u.seq.count != 2)
			return true;
		pairs.items[pairs.count++] = pair->u.seq.items[0];
		pairs.items[pairs.count++] = pair->u.seq.items[1];
	}
	call->args = &ckpt_value_empty_tuple;
	call->pairs = pairs;
	return true;
}

/* Bytes, which protocol 2 writes as a call: what comes out of that is not called. */
static bool is_bytes(const struct ckpt_value *v)
{
	return v->kind == CKPT_CALL && (ckpt_value_is_call_of(v, "_codecs", "encode") ||
					ckpt_value_is_call_of(v, "__builtin__", "bytes") ||
					ckpt_value_is_call_of(v, "builtins", "bytes"));
}

static int push_call(struct ckpt_machine *m, uint8_t kind, const struct ckpt_value *func,
		     const struct ckpt_value *args, const struct ckpt_value *kwargs)
{
	bool ordered = kind == CKPT_CALL_REDUCE &&
		       ckpt_value_is_global(func, "collections", "OrderedDict");
	bool empty = ordered && args == &ckpt_value_empty_tuple;
	struct ckpt_value *v = ckpt_machine_new(m, CKPT_CALL);
	struct ckpt_call *call;
	int rc = ckpt_machine_unfold(m, func);

	if (rc < 0)
		return rc;
	if (v && empty && m->empty_ordered) {
		v->u.call = m->empty_ordered;
		return ckpt_machine_push(m, v);
	}
	call = ckpt_arena_calloc(m->arena, 1, sizeof(*call));
	if (!v || !call)
		return ckpt_machine_nomem(m);
	if (empty)
		m->empty_ordered = call;
	call->kind = kind;
	call->func = func;
	call->args = args;
	call->kwargs = kwargs;
	v->u.call = call;
	if ((func->kind != CKPT_GLOBAL && func->kind != CKPT_CALL && func->kind != CKPT_PERSID &&
	     func->kind != CKPT_EXT) ||
	    is_bytes(func))
		return ckpt_fail(m->err, CKPT_E_FORMAT, "%s needs a class or a function, found %s",
				 ckpt_machine_op_name(m), ckpt_value_kind_name(func));
	if (args->kind != CKPT_TUPLE)
		return ckpt_fail(m->err, CKPT_E_FORMAT, "%s needs a tuple of arguments, found %s",
				 ckpt_machine_op_name(m), ckpt_value_kind_name(args));
	if (args->u.seq.count) {
		const struct ckpt_value *last = args->u.seq.items[args->u.seq.count - 1];

		call->early = last->kind == CKPT_DICT && !last->u.seq.count;
	}
	if (ordered && !fill_from_pairs(m, call))
		return ckpt_machine_nomem(m);
	return ckpt_machine_push(m, v);
}

int ckpt_make_call(struct ckpt_machine *m, uint8_t kind, size_t operands)
{
	const struct ckpt_value **at;
	int rc = ckpt_machine_need(m, operands);

	if (rc < 0)
		return rc;
	m->depth -= operands;
	at = m->stack + m->depth;
	return push_call(m, kind, at[0], at[1], operands == 3 ? at[2] : NULL);
}

int ckpt_make_instance(struct ckpt_machine *m)
{
	const struct ckpt_value **items = NULL, *func = NULL, *args;
	struct ckpt_value *tuple;
	uint32_t count = 0;
	int rc = ckpt_machine_pop_to_mark(m, &items, &count);

	if (rc == 0 && m->op.code == CKPT_OP_INST)
		rc = find_global(m, m->op.bytes, m->op.len, m->op.second, m->op.second_len, &func);
	if (rc < 0)
		return rc;
	if (!func) {
		if (!count)
			return ckpt_fail(m->err, CKPT_E_FORMAT, "OBJ needs a class, found none");
		func = *items++;
		count--;
	}
	args = &ckpt_value_empty_tuple;
	if (count) {
		tuple = ckpt_machine_new(m, CKPT_TUPLE);
		if (!tuple || !ckpt_seq_add_many(m->arena, &tuple->u.seq, items, count))
			return ckpt_machine_nomem(m);
		args = tuple;
	}
	return push_call(m, count ? CKPT_CALL_REDUCE : CKPT_CALL_NEWOBJ, func, args, NULL);
}

int ckpt_make_persid(struct ckpt_machine *m)
{
	const struct ckpt_value *pid, *known = NULL;
	struct ckpt_value *v, *text;
	int rc = 0;

	if (m->op.code == CKPT_OP_PERSID) {
		text = ckpt_machine_new(m, CKPT_STR);
		if (!text)
			return ckpt_machine_nomem(m);
		text->u.bytes.ptr = m->op.bytes;
		text->u.bytes.len = m->op.len;
		pid = text;
	} else {
		rc = ckpt_machine_need(m, 1);
		if (rc < 0)
			return rc;
		pid = m->stack[--m->depth];
	}
	if (m->persistent)
		rc = m->persistent->load(m->persistent->ctx, pid, &known, m->err);
	if (rc < 0 || known)
		return rc < 0 ? rc : ckpt_machine_push(m, known);
	v = ckpt_machine_new(m, CKPT_PERSID);
	if (!v || !ckpt_seq_add(m->arena, &m->doc->persids, v))
		return ckpt_machine_nomem(m);
	v->u.persid.pid = pid;
	return ckpt_machine_push(m, v);
}

int ckpt_make_ext(struct ckpt_machine *m)
{
	struct ckpt_value *v = ckpt_machine_new(m, CKPT_EXT);

	if (v)
		v->u.integer = (int64_t)m->op.number;
	return push_new(m, v);
}
