/* SPDX-License-Identifier: Apache-2.0 */
#include "model/resaver.h"

#include "model/state_dict.h"

#include <string.h>

const struct ckpt_value *ckpt_resave_now(const struct ckpt_saver *s, const struct ckpt_value *v)
{
	return ckpt_model_now(s->model, v);
}

const struct ckpt_value *ckpt_resave_arg(const struct ckpt_saver *s, const struct ckpt_value *call,
					 uint32_t i)
{
	const struct ckpt_value *args = ckpt_resave_now(s, call->u.call->args);

	return i < args->u.seq.count ? ckpt_resave_now(s, args->u.seq.items[i]) : NULL;
}

struct ckpt_value *ckpt_resave_make(struct ckpt_saver *s, uint8_t kind)
{
	struct ckpt_value *v = ckpt_arena_calloc(s->scratch, 1, sizeof(*v));

	if (v) {
		v->kind = kind;
		v->flags = CKPT_VALUE_FINAL;
	}
	return v;
}

const struct ckpt_value *ckpt_resave_seq(struct ckpt_saver *s, uint8_t kind,
					 const struct ckpt_value *const *items, uint32_t count)
{
	struct ckpt_value *v;

	if (!count && kind == CKPT_TUPLE)
		return &ckpt_value_empty_tuple;
	for (uint32_t i = 0; i < count; i++)
		if (!items[i])
			return NULL;
	v = ckpt_resave_make(s, kind);
	return v && ckpt_seq_add_many(s->scratch, &v->u.seq, items, count) ? v : NULL;
}

/* A call like LIKE (same object, same items and state) with other arguments. */
const struct ckpt_value *ckpt_resave_call(struct ckpt_saver *s, const struct ckpt_value *like,
					  const struct ckpt_value *func,
					  const struct ckpt_value *args)
{
	struct ckpt_value *v = ckpt_resave_make(s, CKPT_CALL);
	struct ckpt_call *call = ckpt_arena_calloc(s->scratch, 1, sizeof(*call));

	if (!v || !call || !args)
		return NULL;
	if (like) {
		*call = *like->u.call;
		v->id = like->id;
		v->pos = like->pos;
	}
	call->func = func;
	call->args = args;
	v->u.call = call;
	return v;
}

struct ckpt_value *ckpt_resave_global(struct ckpt_saver *s, const char *module, const char *name,
				      const char *tail)
{
	struct ckpt_value *v = ckpt_resave_make(s, CKPT_GLOBAL);
	struct ckpt_global *g = ckpt_arena_calloc(s->scratch, 1, sizeof(*g));
	size_t len = strlen(name), tail_len = strlen(tail);
	char *text = ckpt_arena_alloc(s->scratch, len + tail_len + 2);

	if (!v || !g || !text)
		return NULL;
	memcpy(text, name, len);
	if (tail_len)
		text[len++] = '.';
	memcpy(text + len, tail, tail_len + 1);
	*g = (struct ckpt_global){ module, text, (uint32_t)strlen(module),
				   (uint32_t)(len + tail_len) };
	v->u.global = g;
	return v;
}

static const struct ckpt_value *interned(struct ckpt_saver *s, const struct ckpt_value *key)
{
	struct ckpt_value *v;

	if (key->kind != CKPT_STR)
		return key;
	v = ckpt_resave_make(s, CKPT_STR);
	if (v) {
		v->flags |= CKPT_VALUE_INTERNED;
		v->u.bytes = key->u.bytes;
	}
	return v;
}

/* A dict whose keys are names that the program has interned. */
const struct ckpt_value *ckpt_resave_attribute_dict(struct ckpt_saver *s,
						    const struct ckpt_value *dict)
{
	struct ckpt_value *v = ckpt_resave_make(s, CKPT_DICT);
	uint32_t count = dict->u.seq.count;

	if (!v || !ckpt_seq_add_many(s->scratch, &v->u.seq, dict->u.seq.items, count))
		return NULL;
	for (uint32_t i = 0; i < count; i += 2) {
		v->u.seq.items[i] = interned(s, ckpt_resave_now(s, dict->u.seq.items[i]));
		if (!v->u.seq.items[i])
			return NULL;
	}
	return v;
}

static bool has_key(const struct ckpt_saver *s, const struct ckpt_value *dict, const char *key)
{
	return ckpt_attribute_find(s->model, dict, key) != NULL;
}

/* Modules and optimizers take their state with a dict update, which keeps the keys as they are. */
static bool keeps_key_objects(const struct ckpt_saver *s, const struct ckpt_value *state)
{
	return (has_key(s, state, "_parameters") && has_key(s, state, "_modules")) ||
	       (has_key(s, state, "param_groups") && has_key(s, state, "defaults"));
}

/* What Python's object state looks like after a load: names of attributes are interned. */
const struct ckpt_value *ckpt_resave_attributes(struct ckpt_saver *s,
						const struct ckpt_value *state)
{
	const struct ckpt_value *items[2];

	if (state->kind == CKPT_DICT)
		return keeps_key_objects(s, state) ? state : ckpt_resave_attribute_dict(s, state);
	if (state->kind != CKPT_TUPLE || state->u.seq.count != 2)
		return state;
	for (int half = 0; half < 2; half++) {
		items[half] = ckpt_resave_now(s, state->u.seq.items[half]);
		if (items[half]->kind != CKPT_DICT && (half == 1 || items[half]->kind != CKPT_NONE))
			return state;
	}
	for (int half = 0; half < 2; half++)
		if (items[half]->kind == CKPT_DICT)
			items[half] = ckpt_resave_attribute_dict(s, items[half]);
	return ckpt_resave_seq(s, CKPT_TUPLE, items, 2);
}

/* Classes whose instances spell their attributes out for every save. */
static bool makes_keys_anew(const struct ckpt_value *cls)
{
	return cls->kind == CKPT_GLOBAL &&
	       !strcmp(cls->u.global->module, "torch.distributed.tensor.placement_types");
}

const struct ckpt_value *ckpt_resave_with_attributes(struct ckpt_saver *s,
						     const struct ckpt_value *v)
{
	const struct ckpt_value *state = v->u.call->state ? ckpt_resave_now(s, v->u.call->state)
							  : NULL,
				*made;
	struct ckpt_value *copy;

	if (!state || v->u.call->setter || makes_keys_anew(ckpt_resave_now(s, v->u.call->func)))
		return v;
	made = ckpt_resave_attributes(s, state);
	if (!made || made == state)
		return made ? v : NULL;
	copy = (struct ckpt_value *)ckpt_resave_call(s, v, v->u.call->func, v->u.call->args);
	if (copy)
		copy->u.call->state = made;
	return copy;
}
