/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "model/plain.h"
#include "model/plain_values.h"

#include <string.h>

/* Objects that are no more than what they hold: attributes, entries, the tensors of a module. */

static bool add_attributes(struct ckpt_model *to, struct ckpt_value *dict,
			   const struct ckpt_value *state)
{
	return state->kind != CKPT_DICT ||
	       ckpt_seq_add_many(to->arena, &dict->u.seq, state->u.seq.items, state->u.seq.count);
}

/* An instance of a class without arguments, whose state is a dict, or a dict (or None) and slots. */
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

/* ---- modules ---- */

bool ckpt_plain_is_module(struct ckpt_model *to, const struct ckpt_value *v)
{
	return v->kind == CKPT_CALL && attribute(to, v, "_parameters") &&
	       attribute(to, v, "_modules") && attribute(to, v, "_buffers");
}

/* A set is a SET, or at protocol 2 a call with a list. */
static bool set_has(struct ckpt_model *to, const struct ckpt_value *set,
		    const struct ckpt_value *name)
{
	const struct ckpt_value *items = set;

	if (set && set->kind == CKPT_CALL)
		items = ckpt_plain_arg(to, set, 0);
	if (!items || items->kind < CKPT_TUPLE || items->kind > CKPT_FROZENSET)
		return false;
	for (uint32_t i = 0; i < items->u.seq.count; i++) {
		const struct ckpt_value *item = ckpt_model_now(to, items->u.seq.items[i]);

		if (item->kind == CKPT_STR && item->u.bytes.len == name->u.bytes.len &&
		    !memcmp(item->u.bytes.ptr, name->u.bytes.ptr, item->u.bytes.len))
			return true;
	}
	return false;
}

enum { MOST_MODULES = 64 };

struct module_level {
	const struct ckpt_seq *children; /* _modules */
	uint32_t next;
	size_t prefix_len;
	const struct ckpt_value *module;
};

static bool add_named(struct ckpt_model *to, struct ckpt_seq *pairs, struct ckpt_buf *prefix,
		      const struct ckpt_value *key, const struct ckpt_value *value)
{
	size_t len = prefix->len;
	const struct ckpt_value *name;

	ckpt_buf_add(prefix, key->u.bytes.ptr, key->u.bytes.len);
	name = prefix->bad ? NULL : ckpt_model_new_str(to, (const char *)prefix->data, prefix->len);
	prefix->len = len;
	return name && ckpt_seq_add(to->arena, pairs, name) &&
	       ckpt_seq_add(to->arena, pairs, value);
}

/* Parameters without the Parameter around them, as state_dict() gives them; None is left out. */
static bool add_entries(struct ckpt_model *to, struct ckpt_seq *pairs, struct ckpt_buf *prefix,
			const struct ckpt_value *module, const char *which)
{
	const struct ckpt_value *dict = attribute(to, module, which),
				*unsaved = attribute(to, module, "_non_persistent_buffers_set");
	const struct ckpt_seq *entries = dict ? ckpt_value_pairs(dict) : NULL;

	for (uint32_t i = 0; entries && i < entries->count; i += 2) {
		const struct ckpt_value *key = ckpt_model_now(to, entries->items[i]),
					*value = ckpt_model_now(to, entries->items[i + 1]), *inner;

		if (key->kind != CKPT_STR || value->kind == CKPT_NONE ||
		    (!strcmp(which, "_buffers") && set_has(to, unsaved, key)))
			continue;
		inner = ckpt_value_is_call_of(value, "torch._utils", "_rebuild_parameter") ||
					ckpt_value_is_call_of(value, "torch._utils",
							      "_rebuild_parameter_with_state")
				? ckpt_plain_arg(to, value, 0)
				: value;
		if (!add_named(to, pairs, prefix, key, inner ? inner : value))
			return false;
	}
	return true;
}

/* The state dict of MODULE and of all below it; NULL if they are nested too deep, or no memory. */
const struct ckpt_value *ckpt_plain_from_module(struct ckpt_model *to,
						const struct ckpt_value *module)
{
	struct ckpt_value *od = ckpt_plain_call(to, "collections", "OrderedDict", NULL, 0);
	struct module_level levels[MOST_MODULES];
	struct ckpt_buf prefix = { 0 };
	uint32_t depth = 0, visited = 0;
	bool fine = od != NULL;

	levels[0] = (struct module_level){ .module = module };
	while (fine) {
		struct module_level *top = &levels[depth];
		const struct ckpt_value *key, *child;

		if (!top->children) {
			top->children = ckpt_value_pairs(attribute(to, top->module, "_modules"));
			top->prefix_len = prefix.len;
			fine = ++visited < 1000000 && top->children &&
			       add_entries(to, &od->u.call->pairs, &prefix, top->module,
					   "_parameters") &&
			       add_entries(to, &od->u.call->pairs, &prefix, top->module,
					   "_buffers");
			continue;
		}
		prefix.len = top->prefix_len;
		if (top->next >= top->children->count) {
			if (!depth--)
				break;
			continue;
		}
		key = ckpt_model_now(to, top->children->items[top->next]);
		child = ckpt_model_now(to, top->children->items[top->next + 1]);
		top->next += 2;
		if (key->kind != CKPT_STR || !ckpt_plain_is_module(to, child))
			continue;
		fine = ++depth < MOST_MODULES;
		ckpt_buf_add(&prefix, key->u.bytes.ptr, key->u.bytes.len);
		ckpt_buf_add_u8(&prefix, '.');
		if (fine)
			levels[depth] = (struct module_level){ .module = child };
	}
	fine &= !prefix.bad;
	ckpt_buf_clear(&prefix);
	return fine ? od : NULL;
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
