/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Python makes a text of without being asked: where nobody catches an exception, it shows the
 * arguments, the notes, and all exceptions of a group. What is there twice it shows twice, so that
 * thirty lists, each with the one in front of it twice, are a text without end.
 *
 * What must stay true: all exceptions of a pickle together unfold to little more than its bytes. They
 * are counted behind the last opcode, when nothing is put into them any more.
 */
#include "scan/walk.h"

#include "base/grow.h"
#include "base/text.h"

#include <string.h>

enum { MOST_DEPTH = 64, TIMES = 4, BASE = 1 << 20 };

bool ckpt_scan_is_exception(const struct ckpt_scan_rule *rule)
{
	return rule->kind == CKPT_SCAN_DATA && !strcmp(rule->module, "builtins") &&
	       (!*rule->name || ckpt_ends_with(rule->name, "Error") || rule->call == CKPT_CALL_GROUP);
}

/* Numbers of a tensor that has more of them than its storage has bytes: strides of zero repeat them. */
static uint64_t repeated_numbers(const struct ckpt_call *call)
{
	const struct ckpt_scan_rule *rule = ckpt_scan_rule_of(call->func);
	const struct ckpt_seq *args = &call->args->u.seq;
	const struct ckpt_value *sizes;
	struct ckpt_scan_storage storage;
	uint64_t count = 1;

	if (!rule || (rule->call != CKPT_CALL_TENSOR && rule->call != CKPT_CALL_TENSOR_OF_DTYPE) || call->args->kind != CKPT_TUPLE || args->count < 4)
		return 0;
	sizes = args->items[2];
	if (sizes->kind == CKPT_CALL && sizes->u.call->args->kind == CKPT_TUPLE && sizes->u.call->args->u.seq.count) /* torch.Size */
		sizes = sizes->u.call->args->u.seq.items[0];
	for (uint32_t i = 0; (sizes->kind == CKPT_TUPLE || sizes->kind == CKPT_LIST) && i < sizes->u.seq.count; i++)
		if (sizes->u.seq.items[i]->kind != CKPT_INT || __builtin_mul_overflow(count, sizes->u.seq.items[i]->u.integer, &count))
			return UINT32_MAX;
	if (ckpt_scan_read_storage(args->items[0], &storage) && count <= storage.nbytes)
		return 0;
	return count < UINT32_MAX ? count : UINT32_MAX;
}

/* What is being gone through, from the exception down. */
struct way {
	struct ckpt_scan_walk *w;
	const struct ckpt_value *above[MOST_DEPTH];
};

static bool can_be_shown(struct way *way, const struct ckpt_value *v, unsigned depth);

static bool can_all_be_shown(struct way *way, const struct ckpt_seq *seq, unsigned depth)
{
	for (uint32_t i = 0; i < seq->count; i++)
		if (!can_be_shown(way, seq->items[i], depth + 1))
			return false;
	return true;
}

static bool can_be_shown(struct way *way, const struct ckpt_value *v, unsigned depth)
{
	struct ckpt_scan_walk *w = way->w;
	uint64_t most = BASE + TIMES * (uint64_t)w->in->len;
	const struct ckpt_call *call;

	w->shown++;
	if (v->kind == CKPT_STR || v->kind == CKPT_PY2_STR || v->kind == CKPT_BYTES || v->kind == CKPT_BYTEARRAY || v->kind == CKPT_BIGINT)
		w->shown += v->u.bytes.len;
	if (w->shown > most)
		return false;
	if (v->kind != CKPT_CALL && (v->kind < CKPT_TUPLE || v->kind > CKPT_DICT))
		return true;
	for (unsigned i = 0; i < depth && i < MOST_DEPTH; i++)
		if (way->above[i] == v)
			return true; /* "[...]" */
	if (depth >= MOST_DEPTH)
		return false;
	way->above[depth] = v;
	if (v->kind != CKPT_CALL)
		return can_all_be_shown(way, &v->u.seq, depth);
	call = v->u.call;
	w->shown += repeated_numbers(call);
	return can_be_shown(way, call->args, depth + 1) && can_all_be_shown(way, &call->items, depth) && can_all_be_shown(way, &call->pairs, depth) &&
	       (!call->state || can_be_shown(way, call->state, depth + 1));
}

void ckpt_scan_will_be_shown(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	const struct ckpt_value **grown = ckpt_grow(w->texts, w->text_count, &w->text_cap, sizeof(*grown));

	w->s->no_memory |= !grown;
	if (!grown)
		return;
	w->texts = grown;
	w->texts[w->text_count++] = v;
}

void ckpt_scan_check_shown(struct ckpt_scan_walk *w)
{
	struct way way = { .w = w };

	for (uint32_t i = 0; i < w->text_count; i++)
		if (!can_be_shown(&way, w->texts[i], 0)) {
			ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "amount", w->in->base, "exceptions of which Python makes a text far longer than the file, where nobody catches them");
			return;
		}
}

/* One of the table, or what a class makes of which nobody knows. */
static bool may_be_exception(const struct ckpt_value *v)
{
	const struct ckpt_scan_rule *rule = v->kind == CKPT_CALL ? ckpt_scan_rule_of(v->u.call->func) : NULL;

	return rule && (rule->kind != CKPT_SCAN_DATA || ckpt_scan_is_exception(rule));
}

bool ckpt_scan_are_in_one_group(struct ckpt_scan_walk *w, const struct ckpt_value *exceptions)
{
	if (!ckpt_scan_may_look(w, exceptions->u.seq.count))
		return false;
	for (uint32_t i = 0; i < exceptions->u.seq.count; i++) {
		const struct ckpt_value *v = exceptions->u.seq.items[i];

		if (v->flags & CKPT_SCAN_USED || !may_be_exception(v))
			return false;
		ckpt_scan_mark(v, CKPT_SCAN_USED);
	}
	return true;
}
