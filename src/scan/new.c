/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What __new__() of a class that is in no row could make of its arguments: a class of the file, if it is a metaclass, a tensor of
 * memory that nobody has set, or a program of its keywords.
 */
#include "base/ascii.h"
#include "scan/walk.h"

#include <string.h>

/* A dict of data with names that are not Python's own: a class with these attributes would do nothing. */
static bool is_record(struct ckpt_scan_walk *w, const struct ckpt_seq *pairs)
{
	if (pairs->count && !ckpt_scan_may_look(w, pairs->count))
		return false;
	for (uint32_t i = 0; i + 1 < pairs->count; i += 2)
		if (!ckpt_value_is_text(pairs->items[i]) || (pairs->items[i]->u.bytes.len > 1 && !memcmp(pairs->items[i]->u.bytes.ptr, "__", 2)) ||
		    !(pairs->items[i + 1]->kind < CKPT_GLOBAL || ckpt_scan_type(w, pairs->items[i + 1]) & (CKPT_TYPE_TENSOR | CKPT_TYPE_DTYPE | CKPT_TYPE_SIZE)))
			return false;
	return true;
}

/* Could a class be made of the dict V that does something? */
static bool could_be_methods(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	const struct ckpt_global *g = v->kind == CKPT_CALL ? ckpt_scan_callee(w, v->u.call->func) : NULL;
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);

	if (v->kind == CKPT_DICT || ckpt_scan_type(w, v) == CKPT_TYPE_FILLED)
		return !pairs || !is_record(w, pairs);
	return g && (ckpt_scan_rule(g->module, g->name)->then == CKPT_THEN_PAIRS || ckpt_scan_type(w, v) & (CKPT_TYPE_HIDDEN | CKPT_TYPE_UNKNOWN));
}

/* A tuple in which there may be nothing but classes: also one out of a call, or of a class that derives from tuple. */
static bool could_be_bases(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	if (v->kind != CKPT_TUPLE)
		return v->kind == CKPT_CALL && ckpt_scan_type(w, v) & (CKPT_TYPE_SIZE | CKPT_TYPE_HIDDEN | CKPT_TYPE_OBJECT | CKPT_TYPE_UNKNOWN);
	if (v->u.seq.count && !ckpt_scan_may_look(w, v->u.seq.count))
		return true;
	for (uint32_t i = 0; i < v->u.seq.count; i++)
		if (v->u.seq.items[i]->kind < CKPT_GLOBAL)
			return false;
	return true;
}

/* A text, literal or by str(). */
static bool is_name(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	return ckpt_value_is_text(v) || (v->kind == CKPT_CALL && !(ckpt_scan_type(w, v) & (CKPT_TYPE_OBJECT | CKPT_TYPE_TENSOR | CKPT_TYPE_DRESSED | CKPT_TYPE_NUMPY_ARRAY | CKPT_TYPE_SIZE | CKPT_TYPE_FILLED)));
}

bool ckpt_scan_makes_class(struct ckpt_scan_checked_call *c)
{
	const struct ckpt_seq *seqs[] = { c->args->kind == CKPT_TUPLE ? &c->args->u.seq : NULL, c->kwargs && c->kwargs->kind == CKPT_DICT ? &c->kwargs->u.seq : NULL };
	bool has_name = false, has_object = false, has_bases = false, has_methods = false;

	for (size_t k = 0; k < 2; k++)
		for (uint32_t i = (uint32_t)k; seqs[k] && i < seqs[k]->count; i += 1 + (uint32_t)k) { /* of keywords the values */
			const struct ckpt_value *v = seqs[k]->items[i];

			has_name |= is_name(c->w, v);
			has_object |= v->kind == CKPT_CALL && ckpt_scan_type(c->w, v) & CKPT_TYPE_OBJECT;
			has_bases |= could_be_bases(c->w, v);
			has_methods |= could_be_methods(c->w, v);
		}
	return has_methods && (has_name || (has_object && has_bases));
}

bool ckpt_scan_is_keyword(const struct ckpt_value *name)
{
	const char *text = name->u.bytes.ptr;

	if (!ckpt_scan_is_text(name) || !name->u.bytes.len || ckpt_is_digit((unsigned char)*text))
		return false;
	if (name->u.bytes.len > 1 && !memcmp(text, "__", 2)) /* "__dict__" */
		return false;
	for (uint64_t i = 0; i < name->u.bytes.len; i++)
		if (text[i] != '_' && !ckpt_is_alnum((unsigned char)text[i]))
			return false;
	return true;
}

bool ckpt_scan_may_be_sizes(struct ckpt_scan_checked_call *c)
{
	const struct ckpt_seq *args = &c->args->u.seq;
	bool are = c->args->kind == CKPT_TUPLE && args->count;

	if (c->kwargs && (c->kwargs->kind != CKPT_DICT || c->kwargs->u.seq.count))
		return true;
	for (uint32_t i = 0; are && i < args->count; i++)
		are = args->items[i]->kind == CKPT_INT || args->items[i]->kind == CKPT_BOOL || args->items[i]->kind == CKPT_BIGINT || (args->count == 1 && ckpt_value_is_call_of(args->items[i], "torch", "Size"));
	return are;
}
