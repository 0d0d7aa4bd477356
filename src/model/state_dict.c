/* SPDX-License-Identifier: Apache-2.0 */
#include "model/state_dict.h"

#include <stdlib.h>
#include <string.h>

int ckpt_state_dict_finder_init(struct ckpt_state_dict_finder *finder,
				const struct ckpt_model *model, struct ckpt_error *err)
{
	finder->model = model;
	finder->answers = calloc(model->next_id, 1);
	return finder->answers ? 0 : ckpt_fail_nomem(err);
}

void ckpt_state_dict_finder_clear(struct ckpt_state_dict_finder *finder)
{
	free(finder->answers);
	*finder = (struct ckpt_state_dict_finder){ 0 };
}

bool ckpt_holds_tensors(struct ckpt_state_dict_finder *finder, const struct ckpt_value *v)
{
	const struct ckpt_model *model = finder->model;
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);
	bool found = false;

	if (!pairs || !v->id)
		return false;
	if (finder->answers[v->id])
		return finder->answers[v->id] == 2;
	for (uint32_t i = 1; !found && i < pairs->count; i += 2)
		found = ckpt_value_is_tensor_object(model, ckpt_model_now(model, pairs->items[i]));
	finder->answers[v->id] = found ? 2 : 1;
	return found;
}

bool ckpt_is_state_dict(struct ckpt_state_dict_finder *finder, const struct ckpt_value *v)
{
	const struct ckpt_model *model = finder->model;
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);

	for (uint32_t i = 0; pairs && i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *key = ckpt_model_now(model, pairs->items[i]);
		const struct ckpt_value *value = ckpt_model_now(model, pairs->items[i + 1]);

		if (ckpt_value_is_text(key) && (ckpt_value_is_tensor_object(model, value) ||
						ckpt_holds_tensors(finder, value)))
			return true;
	}
	return false;
}

bool ckpt_is_module_state_dict(const struct ckpt_model *model, const struct ckpt_value *v)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);

	if (!pairs || !pairs->count)
		return false;
	if (ckpt_state_dict_metadata(model, v))
		return true;
	for (uint32_t i = 0; i + 1 < pairs->count; i += 2)
		if (!ckpt_value_is_text(ckpt_model_now(model, pairs->items[i])) ||
		    !ckpt_value_is_tensor_object(model, ckpt_model_now(model, pairs->items[i + 1])))
			return false;
	return true;
}

static const struct ckpt_value *find_key(const struct ckpt_model *model,
					 const struct ckpt_seq *pairs, uint32_t end,
					 const char *key)
{
	for (uint32_t i = 0; i + 1 < end; i += 2)
		if (ckpt_value_is_str(ckpt_model_now(model, pairs->items[i]), key))
			return ckpt_model_now(model, pairs->items[i + 1]);
	return NULL;
}

const struct ckpt_value *ckpt_mapping_find(const struct ckpt_model *model,
					   const struct ckpt_value *v, const char *key)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);

	return pairs ? find_key(model, pairs, pairs->count, key) : NULL;
}

const struct ckpt_value *ckpt_attribute_find(const struct ckpt_model *model,
					     const struct ckpt_value *dict, const char *name)
{
	const struct ckpt_seq *pairs = &dict->u.seq;

	if (dict->kind != CKPT_DICT)
		return NULL;
	return find_key(model, pairs,
			pairs->count < 2 * CKPT_MOST_ATTRIBUTES ? pairs->count
								: 2 * CKPT_MOST_ATTRIBUTES,
			name);
}

const struct ckpt_value *ckpt_state_find(const struct ckpt_model *model,
					 const struct ckpt_value *state, const char *name)
{
	const struct ckpt_value *found = NULL;

	if (state->kind != CKPT_TUPLE)
		return ckpt_attribute_find(model, state, name);
	for (uint32_t half = 0; !found && half < 2 && half < state->u.seq.count; half++)
		found = ckpt_attribute_find(model, ckpt_model_now(model, state->u.seq.items[half]),
					    name);
	return found;
}

const struct ckpt_value *ckpt_state_dict_metadata(const struct ckpt_model *model,
						  const struct ckpt_value *v)
{
	const struct ckpt_value *metadata;

	if (v->kind != CKPT_CALL || !v->u.call->state)
		return NULL;
	metadata = ckpt_attribute_find(model, ckpt_model_now(model, v->u.call->state), "_metadata");
	return metadata && ckpt_value_pairs(metadata) ? metadata : NULL;
}

bool ckpt_is_extra_state(const char *name, size_t len)
{
	static const char key[] = "_extra_state";
	size_t key_len = sizeof(key) - 1;

	return len >= key_len && !memcmp(name + len - key_len, key, key_len) && (len == key_len || name[len - key_len - 1] == '.');
}

bool ckpt_is_optimizer(const struct ckpt_model *model, const struct ckpt_value *v)
{
	const struct ckpt_value *groups = ckpt_mapping_find(model, v, "param_groups");

	return groups && (groups->kind == CKPT_LIST || groups->kind == CKPT_TUPLE);
}
