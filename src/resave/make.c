/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making values for the answers of resave, and attributes of objects as they are after a load:
 * Python interns the names of attributes (load_build() in Modules/_pickle.c), and
 * so they are one object with each other but not with equal texts elsewhere.
 *
 * All values are made in `scratch`, are final (no replacement applies to them any more) and have
 * id 0 unless the caller gives them one. A copy of a call keeps id and place of the original: it
 * is still that object.
 */
#include "resave/resaver.h"

#include "model/state_dict.h"

#include <stdlib.h>
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

static const struct ckpt_value *make_interned(struct ckpt_saver *s, const struct ckpt_value *key)
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
		v->u.seq.items[i] = make_interned(s, ckpt_resave_now(s, dict->u.seq.items[i]));
		if (!v->u.seq.items[i])
			return NULL;
	}
	return v;
}

static bool has_key(const struct ckpt_saver *s, const struct ckpt_value *dict, const char *key)
{
	return ckpt_attribute_find(s->model, dict, key) != NULL;
}

/* Modules take their state with a dict update, which keeps the keys as they are. */
static bool keeps_key_objects(const struct ckpt_saver *s, const struct ckpt_value *state)
{
	return has_key(s, state, "_parameters") && has_key(s, state, "_modules");
}

/* What __getstate__() of torch.optim.Optimizer returns. */
static bool is_optimizer_state(const struct ckpt_saver *s, const struct ckpt_value *state)
{
	return state->u.seq.count == 6 && has_key(s, state, "defaults") &&
	       has_key(s, state, "state") && has_key(s, state, "param_groups");
}

/*
 * __setstate__() of an optimizer, since torch 1.13: self.defaults.setdefault('differentiable',
 * False)
 */
static const struct ckpt_value *with_differentiable(struct ckpt_saver *s,
						    const struct ckpt_value *defaults)
{
	struct ckpt_value *copy, *key;
	const struct ckpt_value *items[2] = { NULL, &ckpt_value_false };

	if (defaults->kind != CKPT_DICT || has_key(s, defaults, "differentiable"))
		return defaults;
	copy = ckpt_resave_make(s, CKPT_DICT);
	key = ckpt_resave_make(s, CKPT_STR);
	if (!copy || !key)
		return NULL;
	key->flags |= CKPT_VALUE_INTERNED;
	key->u.bytes.ptr = "differentiable";
	key->u.bytes.len = strlen(key->u.bytes.ptr);
	items[0] = key;
	copy->id = defaults->id;
	return ckpt_seq_add_many(s->scratch, &copy->u.seq, defaults->u.seq.items,
				 defaults->u.seq.count) &&
			       ckpt_seq_add_many(s->scratch, &copy->u.seq, items, 2)
		       ? copy
		       : NULL;
}

static const struct ckpt_value *make_optimizer_state(struct ckpt_saver *s,
						     const struct ckpt_value *state)
{
	const struct ckpt_value *made = ckpt_resave_attribute_dict(s, state);

	for (uint32_t i = 0; made && s->o->differentiable && i < made->u.seq.count; i += 2)
		if (ckpt_value_is_str(made->u.seq.items[i], "defaults")) {
			made->u.seq.items[i + 1] =
				with_differentiable(s,
						    ckpt_resave_now(s, made->u.seq.items[i + 1]));
			if (!made->u.seq.items[i + 1])
				return NULL;
		}
	return made;
}

/* What Python's object state looks like after a load: names of attributes are interned. */
const struct ckpt_value *ckpt_resave_attributes(struct ckpt_saver *s,
						const struct ckpt_value *state)
{
	const struct ckpt_value *items[2];

	if (state->kind == CKPT_DICT && is_optimizer_state(s, state))
		return make_optimizer_state(s, state);
	if (state->kind == CKPT_DICT)
		return keeps_key_objects(s, state) ? state : ckpt_resave_attribute_dict(s, state);
	if (state->kind != CKPT_TUPLE || state->u.seq.count != 2)
		return state;
	for (int half = 0; half < 2; half++) {
		items[half] = ckpt_resave_now(s, state->u.seq.items[half]);
		if (items[half]->kind != CKPT_DICT && (half == 1 || items[half]->kind != CKPT_NONE))
			return state;
	}
	for (int half = 0; half < 2; half++) {
		const struct ckpt_value *made = items[half]->kind == CKPT_DICT
							? ckpt_resave_attribute_dict(s, items[half])
							: items[half];

		/*
		 * where it is a class's own state after all, and not slots, others may hold the
		 * dict
		 */
		if (made && made != items[half])
			((struct ckpt_value *)made)->id = items[half]->id;
		items[half] = made;
	}
	return ckpt_resave_seq(s, CKPT_TUPLE, items, 2);
}

const struct ckpt_value *ckpt_resave_tensor_attributes(struct ckpt_saver *s,
						       const struct ckpt_value *v,
						       const struct ckpt_value *state)
{
	const struct ckpt_value *made = ckpt_resave_attributes(s, state);

	if (!made || made == state || made->kind != CKPT_DICT || !v->id ||
	    v->id >= s->model->next_id)
		return made;
	if (!s->state_ids)
		s->state_ids = calloc(s->model->next_id, sizeof(*s->state_ids));
	if (!s->state_ids)
		return NULL;
	if (!s->state_ids[v->id])
		s->state_ids[v->id] = s->next_id++;
	((struct ckpt_value *)made)->id = s->state_ids[v->id]; /* attribute_dict() has made it */
	return made;
}

/* Classes whose instances spell their attributes out for every save. */
static bool makes_keys_anew(const struct ckpt_value *cls)
{
	return cls->kind == CKPT_GLOBAL &&
	       !strcmp(cls->u.global->module, "torch.distributed.tensor.placement_types");
}

/* The names of the attributes of module V are what its class and those before it make of them. */
static const struct ckpt_value *make_module_state(struct ckpt_saver *s, const struct ckpt_value *v,
						  const struct ckpt_value *state)
{
	struct ckpt_value *made = ckpt_resave_make(s, CKPT_DICT);

	if (!s->module_keys)
		s->module_keys = ckpt_module_keys_new(s->model, s->out->arena);
	if (!s->module_keys || !made ||
	    !ckpt_seq_add_many(s->scratch, &made->u.seq, state->u.seq.items, state->u.seq.count))
		return NULL;
	for (uint32_t i = 0; i < made->u.seq.count; i += 2)
		made->u.seq.items[i] = ckpt_module_key(s->module_keys, v, i / 2,
						       ckpt_resave_now(s, made->u.seq.items[i]));
	return made;
}

const struct ckpt_value *ckpt_resave_with_attributes(struct ckpt_saver *s,
						     const struct ckpt_value *v)
{
	const struct ckpt_value *state = v->u.call->state ? ckpt_resave_now(s, v->u.call->state)
							  : NULL,
				*made;
	struct ckpt_value *copy;

	if (!state || makes_keys_anew(ckpt_resave_now(s, v->u.call->func)))
		return v;
	if (s->o->prepared_keys && state->kind == CKPT_DICT && keeps_key_objects(s, state))
		made = make_module_state(s, v, state);
	else
		made = ckpt_resave_attributes(s, state);
	if (!made || made == state)
		return made ? v : NULL;
	copy = (struct ckpt_value *)ckpt_resave_call(s, v, v->u.call->func, v->u.call->args);
	if (copy)
		copy->u.call->state = made;
	return copy;
}
