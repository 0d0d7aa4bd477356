/* SPDX-License-Identifier: Apache-2.0 */
#include "pickle/compose.h"

#include <string.h>

struct ckpt_value *ckpt_compose(const struct ckpt_composer *c, uint8_t kind)
{
	struct ckpt_value *v = ckpt_arena_calloc(c->arena, 1, sizeof(*v));

	if (v) {
		v->kind = kind;
		v->id = (*c->next_id)++;
		v->pos = CKPT_NO_OFFSET;
	}
	return v;
}

const struct ckpt_value *ckpt_compose_str(const struct ckpt_composer *c, const char *text,
					  size_t len)
{
	struct ckpt_value *v = ckpt_compose(c, CKPT_STR);

	if (!v)
		return NULL;
	v->u.bytes.ptr = ckpt_arena_copy(c->arena, text, len);
	v->u.bytes.len = len;
	return v->u.bytes.ptr ? v : NULL;
}

const struct ckpt_value *ckpt_compose_int(const struct ckpt_composer *c, int64_t integer)
{
	struct ckpt_value *v = ckpt_compose(c, CKPT_INT);

	if (v)
		v->u.integer = integer;
	return v;
}

const struct ckpt_value *ckpt_compose_tuple(const struct ckpt_composer *c,
					    const struct ckpt_value *const *items, uint32_t count)
{
	struct ckpt_value *v = ckpt_compose(c, CKPT_TUPLE);

	for (uint32_t i = 0; i < count; i++)
		if (!items[i])
			return NULL;
	return v && ckpt_seq_add_many(c->arena, &v->u.seq, items, count) ? v : NULL;
}

const struct ckpt_value *ckpt_compose_global(const struct ckpt_composer *c, const char *module,
					     const char *name)
{
	struct ckpt_value *v = ckpt_compose(c, CKPT_GLOBAL);
	struct ckpt_global *g = ckpt_arena_calloc(c->arena, 1, sizeof(*g));

	if (!v || !g)
		return NULL;
	*g = (struct ckpt_global){ module, name, (uint32_t)strlen(module), (uint32_t)strlen(name) };
	v->u.global = g;
	return v;
}

struct ckpt_value *ckpt_compose_call(const struct ckpt_composer *c, const struct ckpt_value *func,
				     const struct ckpt_value *args)
{
	struct ckpt_value *v = ckpt_compose(c, CKPT_CALL);

	if (!v || !func || !args)
		return NULL;
	v->u.call = ckpt_arena_calloc(c->arena, 1, sizeof(*v->u.call));
	if (!v->u.call)
		return NULL;
	v->u.call->func = func;
	v->u.call->args = args;
	v->u.call->kind = CKPT_CALL_REDUCE;
	return v;
}
