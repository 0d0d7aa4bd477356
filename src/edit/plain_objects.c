/* SPDX-License-Identifier: Apache-2.0 */
#include "edit/plain.h"
#include "model/plain_values.h"

#include <string.h>

/* Objects that are no more than what they hold: attributes, entries. */

static bool add_attributes(struct ckpt_model *to, struct ckpt_value *dict,
			   const struct ckpt_value *state)
{
	return state->kind != CKPT_DICT ||
	       ckpt_seq_add_many(to->arena, &dict->u.seq, state->u.seq.items, state->u.seq.count);
}

/*
 * An instance of a class without arguments, whose state is a dict, or a dict (or None) and slots.
 */
const struct ckpt_value *ckpt_plain_from_object(struct ckpt_model *to, const struct ckpt_value *v)
{
	const struct ckpt_call *call = v->u.call;
	const struct ckpt_value *state = call->state ? ckpt_model_now(to, call->state) : NULL;
	struct ckpt_value *dict;

	if (call->setter || call->items.count || call->pairs.count ||
	    ckpt_plain_arg_count(to, v) != 0)
		return NULL;
	if (!state && call->kind == CKPT_CALL_REDUCE &&
	    !ckpt_value_is_call_of(v, "types", "SimpleNamespace"))
		return NULL; /* a function without arguments gives anything */
	if (call->kind == CKPT_CALL_REDUCE && !ckpt_value_is_call_of(v, "types", "SimpleNamespace"))
		return NULL;
	dict = ckpt_model_new_value(to, CKPT_DICT);
	if (!dict || !state)
		return dict;
	if (state->kind == CKPT_DICT)
		return add_attributes(to, dict, state) ? dict : NULL;
	if (state->kind != CKPT_TUPLE || state->u.seq.count != 2)
		return NULL;
	for (int half = 0; half < 2; half++)
		if (!add_attributes(to, dict, ckpt_model_now(to, state->u.seq.items[half])))
			return NULL;
	return dict;
}

/* The attribute NAME of an object with a dict as state. */
static const struct ckpt_value *attribute(struct ckpt_model *to, const struct ckpt_value *v,
					  const char *name)
{
	const struct ckpt_value *state = v->kind == CKPT_CALL && v->u.call->state
						 ? ckpt_model_now(to, v->u.call->state)
						 : NULL;

	for (uint32_t i = 0; state && state->kind == CKPT_DICT && i < state->u.seq.count; i += 2)
		if (ckpt_value_is_str(ckpt_model_now(to, state->u.seq.items[i]), name))
			return ckpt_model_now(to, state->u.seq.items[i + 1]);
	return NULL;
}

/* omegaconf: containers keep what they hold in _content, leaves in _val. */
const struct ckpt_value *ckpt_plain_from_omegaconf(struct ckpt_model *to,
						   const struct ckpt_value *v)
{
	const struct ckpt_value *func = v->u.call->func, *content;

	if (func->kind != CKPT_GLOBAL || strncmp(func->u.global->module, "omegaconf.", 10))
		return NULL;
	content = attribute(to, v, "_content");
	if (content && content->kind == CKPT_LIST && !strcmp(func->u.global->name, "TupleConfig"))
		return ckpt_plain_seq(to, CKPT_TUPLE, content->u.seq.items, content->u.seq.count);
	return content ? content : attribute(to, v, "_val");
}

/* A dict or list out of what was filled like one. */
const struct ckpt_value *ckpt_plain_from_filled(struct ckpt_model *to, const struct ckpt_value *v)
{
	const struct ckpt_call *call = v->u.call;
	struct ckpt_value *made;

	if (ckpt_value_is_call_of(v, "collections", "defaultdict")) {
		made = ckpt_model_new_value(to, CKPT_DICT);
		return made && ckpt_seq_add_many(to->arena, &made->u.seq, call->pairs.items,
						 call->pairs.count)
			       ? made
			       : NULL;
	}
	if (ckpt_value_is_call_of(v, "collections", "deque")) {
		made = ckpt_model_new_value(to, CKPT_LIST);
		return made && ckpt_seq_add_many(to->arena, &made->u.seq, call->items.items,
						 call->items.count)
			       ? made
			       : NULL;
	}
	if (ckpt_value_is_call_of(v, "builtins", "frozenset") ||
	    ckpt_value_is_call_of(v, "__builtin__", "frozenset")) {
		const struct ckpt_value *items = ckpt_plain_arg(to, v, 0);

		return items ? ckpt_plain_call(to, "builtins", "set", &items, 1) : NULL;
	}
	return NULL;
}
