/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much calls make. A pickle may give the same list of 100 KB to ten thousand calls, each of
 * which copies it; a tensor of one number may be said to have 2**40 of them, which is nothing until
 * somebody makes another of it. What was written by anybody is given to one call, or a few.
 */
#include "base/ascii.h"
#include "base/text.h"
#include "scan/walk.h"

#include <inttypes.h>
#include <string.h>

enum {
	HEAVY_BASE = 32 << 20,
	HEAVY_TIMES = 40,
	COPIES_BASE = 1 << 20,
	MADE_BASE = 1 << 24,
	TIMES = 2,
	MOST_DEPTH = 4,
	MOST_DIGITS = 4300 /* sys.int_info.default_max_str_digits */
};

static const struct ckpt_value *item(const struct ckpt_value *v, uint32_t i)
{
	return (v->kind == CKPT_TUPLE || v->kind == CKPT_LIST) && i < v->u.seq.count ? v->u.seq.items[i] : &ckpt_value_none;
}

/* Items or bytes that a copy of V has. A storage, or a tensor, is shared by what is made of it. */
static uint64_t size_of(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	if (v->kind == CKPT_CALL && ckpt_scan_type(w, v) & (CKPT_TYPE_STORAGE | CKPT_TYPE_TENSOR | CKPT_TYPE_DRESSED))
		return 0;
	/* bytes that a call makes of text */
	for (unsigned depth = 0; v->kind == CKPT_CALL; depth++) {
		if (depth == MOST_DEPTH)
			return UINT32_MAX;
		v = item(v->u.call->args, 0);
	}
	switch ((enum ckpt_value_kind)v->kind) {
	case CKPT_TUPLE:
	case CKPT_LIST:
	case CKPT_SET:
	case CKPT_FROZENSET:
	case CKPT_DICT: return v->u.seq.count;
	case CKPT_BIGINT:
	case CKPT_STR:
	case CKPT_PY2_STR:
	case CKPT_BYTES:
	case CKPT_BYTEARRAY: return v->u.bytes.len;
	default: return 0;
	}
}

void ckpt_scan_copied(struct ckpt_scan_walk *w, const struct ckpt_value *values)
{
	bool before = w->copied > COPIES_BASE + TIMES * w->in->len;

	if (values->kind == CKPT_TUPLE)
		for (uint32_t i = 0; i < values->u.seq.count; i++)
			w->copied += size_of(w, values->u.seq.items[i]);
	else
		w->copied += size_of(w, values);
	if (!before && w->copied > COPIES_BASE + TIMES * w->in->len)
		ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "amount", ckpt_scan_at(w),
			       "the same values are given to call after call: the copies are more than twice what the pickle has");
}

/* ---- objects that are large by themselves ---- */

/*
 * A call of the memo takes four bytes of a pickle, and makes a tensor of 600 bytes or a generator of
 * 2,700. A row of the table says how many, the most that torch 1.7, 1.13, 2.6 and 2.14 took on 64-bit
 * machines, beside what the calls that made its arguments have been counted for. On top of that are
 * sizes that have no room in a tensor, gradients, and a dict of attributes. What torch writes has 31
 * bytes for a tensor of 660 at least, and 43 for a Parameter, which is two of them: in protocol 4,
 * without names, and all of one storage.
 */
enum {
	MOST_SIZES = 64,
	SIZES_WITHIN = 5,
	SIZES_COST = 96,
	SIZE_COST = 16,
	ATTRIBUTES_COST = 320,
	ATTRIBUTE_COST = 56,
	FEW_PARTS = 8,
	SET_COST = 232, /* with its place in a list; opcodes of other containers make less than 90 bytes each */
	HASHED_ITEM_COST = 160, /* of an OrderedDict of few */
	STORAGE_COST = 320
};
static const uint64_t MOST_BYTES = UINT64_C(1) << 60;

/* Of a tensor, as far as it takes memory. */
struct extent {
	uint32_t sizes;
	bool has_gradient;
};

static struct extent extent_of_call(const struct ckpt_scan_rule *rule,
				    const struct ckpt_value *args, const struct ckpt_value *state,
				    unsigned depth);

/* How many sizes V is; -1: it is no shape. */
static int64_t count_sizes(const struct ckpt_value *v)
{
	if (ckpt_value_is_call_of(v, "torch", "Size"))
		v = item(v->u.call->args, 0);
	if ((v->kind != CKPT_TUPLE && v->kind != CKPT_LIST) ||
	    (v->u.seq.count && v->u.seq.items[0]->kind != CKPT_INT))
		return -1;
	return v->u.seq.count;
}

/* V is an argument: a tensor, or an array that becomes one. */
static struct extent extent_of(const struct ckpt_value *v, unsigned depth)
{
	const struct ckpt_scan_rule *rule =
		v->kind == CKPT_CALL ? ckpt_scan_rule_of(v->u.call->func) : NULL;

	if (!rule || rule->kind != CKPT_SCAN_DATA)
		return (struct extent){ 0 };
	return extent_of_call(rule, v->u.call->args, v->u.call->state, depth + 1);
}

/* The parts of a sparse or nested tensor are made of storages: they are gone through to no depth. */
static bool have_gradient(const struct ckpt_value *parts)
{
	for (uint32_t i = 0; i < FEW_PARTS; i++)
		if (extent_of(item(parts, i), MOST_DEPTH - 1).has_gradient)
			return true;
	return false;
}

/* STATE: what was set on it later, or NULL. */
static struct extent extent_of_call(const struct ckpt_scan_rule *rule,
				    const struct ckpt_value *args, const struct ckpt_value *state,
				    unsigned depth)
{
	const struct ckpt_value *parts = state && rule->then != CKPT_THEN_ATTRIBUTES ? state : args;
	/* a Parameter has a gradient if it is not told otherwise */
	struct extent all = { 0, !strcmp(rule->name, "Parameter") &&
					 item(args, 1) == &ckpt_value_none };
	const struct ckpt_scan_rule *inner;
	int64_t sizes = -1;

	if (depth > MOST_DEPTH)
		return (struct extent){ MOST_SIZES, true };
	if (rule->call == CKPT_CALL_FROM_TYPE) {
		inner = ckpt_scan_rule_of(item(args, 0));
		return inner ? extent_of_call(inner, item(args, 2), NULL, depth + 1)
			     : (struct extent){ MOST_SIZES, true };
	}
	for (uint32_t i = 0; i < FEW_PARTS; i++) {
		const struct ckpt_value *part = item(parts, i);

		all.has_gradient |= part->kind == CKPT_BOOL && part->u.integer;
		if (sizes < 0)
			sizes = count_sizes(part);
	}
	if (rule->call == CKPT_CALL_OF_PLACES) {
		parts = item(args, 1)->kind == CKPT_TUPLE ? item(args, 1) : args;
		all.has_gradient |= have_gradient(parts);
		for (uint32_t i = 0; sizes < 0 && i < FEW_PARTS; i++)
			sizes = count_sizes(item(parts, i));
	}
	all.sizes = sizes < 0 ? extent_of(item(parts, 0), depth).sizes : (uint32_t)sizes;
	return all;
}

/* A dict, or a tuple of dicts. */
static uint64_t cost_of_attributes(const struct ckpt_value *state)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(state);
	uint64_t count = pairs ? pairs->count / 2 : 0;

	for (uint32_t i = 0; state->kind == CKPT_TUPLE && i < FEW_PARTS; i++) {
		pairs = ckpt_value_pairs(item(state, i));
		count += pairs ? pairs->count / 2 : 0;
	}
	return count ? ATTRIBUTES_COST + ATTRIBUTE_COST * count : 0;
}

static uint64_t cost_of_sizes(uint32_t sizes)
{
	return sizes > SIZES_WITHIN ? SIZES_COST + SIZE_COST * (uint64_t)sizes : 0;
}

static void add_cost(struct ckpt_scan_walk *w, const char *name, uint64_t cost)
{
	uint64_t most = HEAVY_BASE + HEAVY_TIMES * w->s->file.bytes;

	if (w->s->heavy <= most && (w->s->heavy += cost) > most)
		ckpt_scan_find(
			w->s, CKPT_SCAN_UNREADABLE, "amount", ckpt_scan_at(w),
			"makes so many objects of %s that they take more than %d times the size of the file, and 32 MiB",
			name, HEAVY_TIMES);
}

static const char *name_of(const struct ckpt_scan_rule *rule)
{
	return *rule->name ? rule->name : "tensor classes";
}

void ckpt_scan_storage_named(struct ckpt_scan_walk *w, uint64_t nbytes)
{
	add_cost(w, "storages without numbers", STORAGE_COST + (nbytes < MOST_BYTES ? nbytes : MOST_BYTES));
}

/* A container that a call copies into one of hashed items, which take more room than those of a list: the first copy is in the file. */
static void weigh_copy(struct ckpt_scan_walk *w, const struct ckpt_scan_rule *rule, const struct ckpt_value *args)
{
	static const char *const hashed[] = { "set", "frozenset", "dict", "OrderedDict", "defaultdict", "Counter", NULL };

	if (!ckpt_is_one_of(rule->name, hashed))
		return;
	for (uint32_t i = 0; i < FEW_PARTS; i++) {
		const struct ckpt_value *v = item(args, i);

		if (v->kind < CKPT_TUPLE || v->kind > CKPT_DICT || !size_of(w, v)) /* the empty tuple is a singleton */
			continue;
		if (v->flags & CKPT_SCAN_COPIED)
			add_cost(w, rule->name, SET_COST + HASHED_ITEM_COST * size_of(w, v) / (v->kind == CKPT_DICT ? 2 : 1));
		ckpt_scan_mark(v, CKPT_SCAN_COPIED);
	}
}

void ckpt_scan_weighed(struct ckpt_scan_walk *w, const struct ckpt_scan_rule *rule,
		       const struct ckpt_value *args)
{
	struct extent extent;
	uint64_t cost = rule->cost;

	weigh_copy(w, rule, args);
	if (!cost)
		return;
	extent = extent_of_call(rule, args, NULL, 0);
	cost += cost_of_sizes(extent.sizes) + (extent.has_gradient ? rule->gradient : 0);
	if (rule->call == CKPT_CALL_FROM_TYPE || rule->call == CKPT_CALL_WITH_STATE)
		cost += cost_of_attributes(item(args, 3));
	add_cost(w, name_of(rule), cost);
}

void ckpt_scan_state_weighed(struct ckpt_scan_walk *w, const struct ckpt_scan_rule *rule,
			     const struct ckpt_value *state)
{
	if (!rule->cost)
		return;
	add_cost(w, name_of(rule),
		 rule->then == CKPT_THEN_TENSOR
			 ? cost_of_sizes(extent_of_call(rule, &ckpt_value_none, state, 0).sizes)
			 : cost_of_attributes(state));
}

/* ---- tensors that are made of others ---- */

/* Of a shape. */
static uint64_t product(const struct ckpt_value *sizes)
{
	uint64_t all = 1;

	if (sizes->kind == CKPT_CALL) /* torch.Size */
		sizes = item(sizes->u.call->args, 0);
	for (uint32_t i = 0; item(sizes, i)->kind == CKPT_INT; i++)
		if (__builtin_mul_overflow(all, (uint64_t)item(sizes, i)->u.integer, &all))
			return UINT64_MAX / 2;
	return all;
}

/* Numbers of a tensor, or bytes of an array; of the parts of a tuple all together. */
static uint64_t content_of(struct ckpt_scan_walk *w, const struct ckpt_value *v, unsigned depth)
{
	uint64_t type = ckpt_scan_type(w, v), all = 0;

	if (depth > MOST_DEPTH)
		return UINT64_MAX / 2;
	if (v->kind == CKPT_TUPLE) {
		for (uint32_t i = 0; i < v->u.seq.count && all < UINT64_MAX / 4; i++)
			all += content_of(w, v->u.seq.items[i], depth + 1);
		return all;
	}
	if (v->kind != CKPT_CALL)
		return size_of(w, v);
	if (type == CKPT_TYPE_NUMPY_ARRAY)
		return v->u.call->state ? size_of(w, item(v->u.call->state, 4)) : size_of(w, item(v->u.call->args, 0));
	if (type != CKPT_TYPE_TENSOR)
		return 0;
	if (v->u.call->state) /* of a Variable: (tensor, ...) */
		return item(v->u.call->state, 2)->kind == CKPT_CALL || item(v->u.call->state, 2)->kind == CKPT_TUPLE
			       ? product(item(v->u.call->state, 2))
			       : content_of(w, item(v->u.call->state, 0), depth + 1);
	if (ckpt_scan_type(w, item(v->u.call->args, 0)) == CKPT_TYPE_STORAGE)
		return product(item(v->u.call->args, 2));
	return content_of(w, item(v->u.call->args, 0), depth + 1) + content_of(w, item(v->u.call->args, 1), depth + 1);
}

void ckpt_scan_made(struct ckpt_scan_walk *w, uint8_t call, const struct ckpt_value *args)
{
	uint64_t most = MADE_BASE + TIMES * w->s->file.bytes, all = call == CKPT_CALL_TENSOR_WHOLE ? product(item(args, 2)) : content_of(w, args, 0);

	if (w->s->made <= most && __builtin_add_overflow(w->s->made, all, &w->s->made))
		w->s->made = UINT64_MAX;
	if (w->s->made > most)
		ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "amount", ckpt_scan_at(w),
			       "makes tensors of others again: they would have more than twice the numbers that the file has bytes");
}

/* ---- what an opcode takes ---- */

enum { ITEM = 16, SHORT = 64, LOOKED_TIMES = 64 };
static const uint64_t LOOKED_BASE = 1 << 29;

static uint64_t text_weight(uint64_t len)
{
	return len > SHORT ? len : 0;
}

/* What it costs to go through V, as far as calls, keys and states are looked into; when that is MOST, no more is counted. */
static uint64_t weight_of(const struct ckpt_value *v, unsigned depth, uint64_t most)
{
	const struct ckpt_value *parts[4] = { 0 };
	uint64_t all = ITEM;

	if (!v || depth > MOST_DEPTH)
		return 0;
	switch ((enum ckpt_value_kind)v->kind) {
	case CKPT_BIGINT:
	case CKPT_STR:
	case CKPT_PY2_STR:
	case CKPT_BYTES:
	case CKPT_BYTEARRAY: return text_weight(v->u.bytes.len);
	case CKPT_GLOBAL: return text_weight((uint64_t)v->u.global->module_len + v->u.global->name_len);
	case CKPT_TUPLE:
	case CKPT_LIST:
	case CKPT_SET:
	case CKPT_FROZENSET:
	case CKPT_DICT:
		all += (uint64_t)ITEM * v->u.seq.count;
		for (uint32_t i = 0; i < v->u.seq.count && all < most; i++)
			all += weight_of(v->u.seq.items[i], depth + 1, most - all);
		return all;
	case CKPT_CALL:
		parts[0] = v->u.call->func;
		parts[1] = v->u.call->args;
		parts[2] = v->u.call->kwargs;
		parts[3] = v->u.call->state;
		break;
	case CKPT_PERSID: parts[0] = v->flags & CKPT_VALUE_MISSING ? NULL : v->u.persid.pid; break;
	default: return 0;
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && all < most; i++)
		all += weight_of(parts[i], depth + 1, most - all);
	return all;
}

bool ckpt_scan_takes_too_much(struct ckpt_scan_walk *w)
{
	uint64_t most = LOOKED_BASE + LOOKED_TIMES * (uint64_t)w->in->len;
	size_t floor = ckpt_machine_floor(&w->m), from = floor, step = 1;

	switch ((enum ckpt_opcode)w->m.op.code) {
	case CKPT_OP_BINPERSID:
	case CKPT_OP_BUILD: from = w->m.depth - 1; break;
	case CKPT_OP_REDUCE:
	case CKPT_OP_NEWOBJ:
	case CKPT_OP_STACK_GLOBAL: from = w->m.depth - 2; break;
	case CKPT_OP_NEWOBJ_EX: from = w->m.depth - 3; break;
	case CKPT_OP_SETITEM:
		from = w->m.depth - 2;
		step = 2;
		break;
	case CKPT_OP_DICT:
	case CKPT_OP_SETITEMS: step = 2; break;
	case CKPT_OP_INST:
	case CKPT_OP_OBJ:
	case CKPT_OP_ADDITEMS:
	case CKPT_OP_FROZENSET: break;
	default: return false;
	}
	if (from > w->m.depth || from < floor) /* there is less on the stack */
		return false;
	for (; from < w->m.depth && w->s->looked_at <= most; from += step)
		w->s->looked_at += weight_of(w->m.stack[from], 0, most - w->s->looked_at + 1);
	return w->s->looked_at > most;
}

static size_t count_digits(const uint8_t *at, const uint8_t *end)
{
	size_t digits = 0;

	while (at < end && (*at == ' ' || (*at >= '\t' && *at <= '\r')))
		at++;
	at += at < end && (*at == '-' || *at == '+');
	for (; at < end && (*at == '_' || ckpt_is_digit(*at)); at++)
		digits += *at != '_';
	return digits;
}

void ckpt_scan_check_cost(struct ckpt_scan_walk *w)
{
	const uint8_t *at = w->in->bytes + w->m.op.pos, *end = w->in->bytes + w->in->len;
	uint64_t size = 0;

	if (at >= end)
		return;
	if (*at == CKPT_OP_EMPTY_SET || *at == CKPT_OP_FROZENSET)
		add_cost(w, "set", SET_COST);
	if ((*at == CKPT_OP_INT || *at == CKPT_OP_LONG) && count_digits(at + 1, end) > MOST_DIGITS)
		ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "amount", ckpt_scan_at(w),
			       "a number in text of more than %d digits, which Python refuses, or takes long for", MOST_DIGITS);
	if (*at != CKPT_OP_BYTEARRAY8 || end - at < 9)
		return;
	for (int i = 8; i > 0; i--)
		size = size << 8 | at[i];
	if (size > w->in->len)
		ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "amount", ckpt_scan_at(w),
			       "a bytearray of %" PRIu64 " bytes, for which Python makes room before it reads it", size);
}
