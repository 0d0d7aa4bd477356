/* SPDX-License-Identifier: Apache-2.0 */
#include "edit/entries.h"

#include <ckpt/model.h>

static struct ckpt_value *copy_container(struct ckpt_model *m, const struct ckpt_value *v)
{
	struct ckpt_value *copy = ckpt_arena_alloc(m->arena, sizeof(*copy));
	struct ckpt_call *call;

	if (!copy)
		return NULL;
	*copy = *v;
	if (v->kind == CKPT_CALL) {
		call = ckpt_arena_alloc(m->arena, sizeof(*call));
		if (!call)
			return NULL;
		*call = *v->u.call;
		copy->u.call = call;
	}
	return copy;
}

/* Those that entries of V are: of a mapping, or of a list or what was filled like one. */
static struct ckpt_seq *entries_of(const struct ckpt_value *v)
{
	struct ckpt_seq *pairs = (struct ckpt_seq *)ckpt_value_pairs(v);

	if (pairs)
		return pairs;
	return v->kind == CKPT_CALL ? &v->u.call->items : (struct ckpt_seq *)&v->u.seq;
}

int ckpt_fewer_entries_begin(struct ckpt_model *m, const struct ckpt_value *container,
			     struct ckpt_fewer_entries *out, struct ckpt_error *err)
{
	out->copy = copy_container(m, container);
	if (!out->copy)
		return ckpt_arena_fail(m->arena, err);
	out->width = ckpt_value_pairs(container) ? 2 : 1;
	out->were = entries_of(container);
	out->entries = entries_of(out->copy);
	*out->entries = (struct ckpt_seq){ 0 };
	return 0;
}

int ckpt_fewer_entries_keep(struct ckpt_model *m, struct ckpt_fewer_entries *fewer, uint32_t index,
			    struct ckpt_error *err)
{
	if (ckpt_seq_add_many(m->arena, fewer->entries, fewer->were->items + index, fewer->width))
		return 0;
	return ckpt_arena_fail(m->arena, err);
}

uint64_t ckpt_tensors_dropped(const struct ckpt_model *before, const struct ckpt_model *after)
{
	uint64_t was = ckpt_tensor_count(before), is = ckpt_tensor_count(after);

	return was > is ? was - is : 0;
}
