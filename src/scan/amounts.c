/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much calls make. A pickle may give the same list of 100 KB to ten thousand calls, each of
 * which copies it; a tensor of one number may be said to have 2**40 of them, which is nothing until
 * somebody makes another of it. What was written by anybody is given to one call, or a few.
 */
#include "base/ascii.h"
#include "scan/walk.h"

#include <inttypes.h>
#include <string.h>

enum { HEAVY_BASE = 32 << 20, HEAVY_TIMES = 8, COPIES_BASE = 1 << 20, MADE_BASE = 1 << 24, TIMES = 2, MOST_DEPTH = 4, MOST_DIGITS = 4300 /* sys.int_info.default_max_str_digits */ };

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

/*
 * Objects that take far more memory than a pickle needs to make one: bytes of each, by CPython 3.14 and
 * torch 2.14. Thousands of them are ordinary.
 */
void ckpt_scan_weighed(struct ckpt_scan_walk *w, const struct ckpt_scan_rule *rule)
{
	static const struct {
		const char *name;
		uint32_t bytes;
	} heavy[] = { { "Generator", 2640 }, { "deque", 640 }, { "Parameter", 520 }, { "Tensor", 520 } };
	uint64_t most = HEAVY_BASE + HEAVY_TIMES * w->s->file.bytes;

	for (size_t i = 0; i < sizeof(heavy) / sizeof(heavy[0]); i++)
		if (!strcmp(rule->name, heavy[i].name) && w->s->heavy <= most && (w->s->heavy += heavy[i].bytes) > most)
			ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "amount", ckpt_scan_at(w),
				       "makes so many objects of %s that they take more than %d times the size of the file, and 32 MiB", rule->name, HEAVY_TIMES);
}

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
