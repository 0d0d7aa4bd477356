/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torchao's metadata in a safetensors file: {"X.weight": "{"_type": "Float8Tensor", "_tensor_data_names": ["qdata", "scale"] ...}"} for the
 * tensors "X._weight_qdata" and "X._weight_scale", {"Y": "{"_type": "Tensor"}"} for a plain one, and "tensor_names", a list of
 * these keys. Source: torchao/prototype/safetensors, flatten_tensor_state_dict(). Where an edit gave the tensors other names, the
 * keys follow; of tensors that are left out the keys are left out.
 *
 * What must stay true: metadata without "tensor_names", and pairs that are none of these, stay byte for byte.
 */
#include "format/safetensors_write.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/strmap.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

struct classes {
	const struct ckpt_model *model;
	struct ckpt_safetensors_list *list;
	struct ckpt_strmap items;		     /* number by name */
	struct ckpt_strmap were;		     /* id of the value by name in the input */
	const struct ckpt_safetensors_item **became; /* by id of the value */
	bool *is_old;				     /* by id of the value: the input had it */
	struct ckpt_strmap keys;		     /* by key as it was: address of the new one */
};

static bool is_names(const struct ckpt_safetensors_pair *pair)
{
	return pair->key_len == 12 && !memcmp(pair->key, "tensor_names", 12);
}

bool ckpt_safetensors_is_class(const char *key, size_t key_len, const char *value, size_t len)
{
	return (key_len == 12 && !memcmp(key, "tensor_names", 12)) ||
	       (len && value[0] == '{' && memmem(value, len, "\"_type\"", 7));
}

/* A value keeps its id, whatever an edit calls it. */
static int fill_maps(struct classes *c, struct ckpt_error *err)
{
	const struct ckpt_model *first = c->model;
	const struct ckpt_seq *pairs;
	bool fine = true, there;

	while (first->base)
		first = first->base;
	pairs = ckpt_value_pairs(first->root);
	c->became = calloc(c->model->next_id + (size_t)1, sizeof(*c->became));
	c->is_old = calloc(c->model->next_id + (size_t)1, sizeof(*c->is_old));
	if (!c->became || !c->is_old)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; fine && pairs && i + 1 < pairs->count; i += 2)
		if (ckpt_value_is_text(pairs->items[i]) && pairs->items[i + 1]->id < c->model->next_id) {
			c->is_old[pairs->items[i + 1]->id] = true;
			fine = ckpt_strmap_insert(&c->were, pairs->items[i]->u.bytes.ptr,
						  pairs->items[i]->u.bytes.len,
						  pairs->items[i + 1]->id, &there);
		}
	for (uint32_t i = 0; fine && i < c->list->count; i++) {
		const struct ckpt_safetensors_item *item = &c->list->items[i];

		fine = ckpt_strmap_insert(&c->items, item->name, item->name_len, i, &there);
		if (item->value->id && item->value->id < c->model->next_id)
			c->became[item->value->id] = item;
	}
	return fine ? 0 : ckpt_fail_nomem(err);
}

/* What the tensor is called that was NAME; NULL: it was left out. Another one of the input may have its name now. */
static const struct ckpt_safetensors_item *find_item(const struct classes *c, const char *name,
						     size_t len)
{
	const uint64_t *was = ckpt_strmap_find(&c->were, name, len), *is = ckpt_strmap_find(&c->items, name, len);
	const struct ckpt_safetensors_item *item = is ? &c->list->items[*is] : NULL;

	if (was && c->became[*was])
		return c->became[*was];
	return was && item && item->value->id < c->model->next_id && c->is_old[item->value->id] ? NULL : item;
}

/* *KEY: "X.weight" for the tensors that PARTS names behind "X._weight_"; empty: they were left out. */
static int new_key(const struct classes *c, const struct ckpt_safetensors_pair *pair,
		   const json_t *parts, struct ckpt_buf *key, struct ckpt_error *err)
{
	const char *dot = memrchr(pair->key, '.', pair->key_len), *module = NULL;
	const char *own = dot ? dot + 1 : pair->key;
	size_t front = dot ? (size_t)(dot + 1 - pair->key) : 0, own_len = pair->key_len - front,
	       module_len = 0, i, missing = 0;
	const json_t *part;
	bool fits = true;
	char shown[160];

	json_array_foreach((json_t *)parts, i, part)
	{
		const char *name = json_string_value(part);
		struct ckpt_buf old = { 0 };
		const struct ckpt_safetensors_item *item;
		size_t tail;

		ckpt_buf_add(&old, pair->key, front);
		ckpt_buf_add_u8(&old, '_');
		ckpt_buf_add(&old, own, own_len);
		ckpt_buf_add_u8(&old, '_');
		ckpt_buf_add(&old, name ? name : "", name ? strlen(name) : 0);
		if (old.bad) {
			ckpt_buf_clear(&old);
			return ckpt_fail_nomem(err);
		}
		item = find_item(c, (const char *)old.data, old.len);
		tail = old.len - front;
		missing += !item;
		if (item && (item->name_len < tail ||
			     memcmp(item->name + item->name_len - tail, old.data + front, tail) != 0 ||
			     (item->name_len > tail && item->name[item->name_len - tail - 1] != '.') ||
			     (module && (module_len != item->name_len - tail ||
					 memcmp(module, item->name, module_len) != 0))))
			fits = false;
		if (item && item->name_len >= tail) {
			module = item->name;
			module_len = item->name_len - tail;
		}
		ckpt_buf_clear(&old);
	}
	if (!fits)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "the parts of '%s', a tensor of torchao, have names that do not belong together",
				 ckpt_escape(shown, sizeof(shown), pair->key, pair->key_len));
	if (!module || missing)
		return 0;
	ckpt_buf_add(key, module, module_len);
	ckpt_buf_add(key, own, own_len);
	return key->bad ? ckpt_fail_nomem(err) : 0;
}

/* *KEEP false: the tensor was left out. */
static int rename_pair(struct classes *c, struct ckpt_safetensors_pair *pair, bool *keep,
		       struct ckpt_error *err)
{
	json_error_t why;
	json_t *says = ckpt_safetensors_is_class(pair->key, pair->key_len, pair->value, pair->value_len)
			       ? ckpt_json_load(pair->value, pair->value_len, 0, &why)
			       : NULL;
	const char *type = json_string_value(json_object_get(says, "_type")), *kept;
	const struct ckpt_safetensors_item *item;
	struct ckpt_buf key = { 0 };
	bool there;
	int rc = 0;

	*keep = true;
	if (!type) {
		json_decref(says);
		return 0;
	}
	if (!strcmp(type, "Tensor")) {
		item = find_item(c, pair->key, pair->key_len);
		if (item)
			ckpt_buf_add(&key, item->name, item->name_len);
	} else {
		rc = new_key(c, pair, json_object_get(says, "_tensor_data_names"), &key, err);
	}
	json_decref(says);
	*keep = key.len;
	if (rc == 0 && key.len) {
		kept = ckpt_arena_copy(c->list->arena, (const char *)key.data, key.len);
		if (!kept || key.bad ||
		    !ckpt_strmap_insert(&c->keys, pair->key, pair->key_len, (uintptr_t)kept, &there))
			rc = ckpt_fail_nomem(err);
		pair->key = kept;
		pair->key_len = (uint32_t)key.len;
	}
	ckpt_buf_clear(&key);
	return rc;
}

/* The list of names, with those that the keys have now. It stays as it is if they do. */
static int rename_list(struct classes *c, struct ckpt_safetensors_pair *pair,
		       struct ckpt_error *err)
{
	json_error_t why;
	json_t *was = ckpt_json_load(pair->value, pair->value_len, 0, &why), *now = json_array(), *one;
	char *text = NULL;
	size_t i;

	json_array_foreach(was, i, one)
	{
		const char *name = json_string_value(one);
		const uint64_t *at = name ? ckpt_strmap_find(&c->keys, name, strlen(name)) : NULL;

		if (at)
			json_array_append_new(now, json_string((const char *)(uintptr_t)*at));
	}
	if (json_is_array(was) && !json_equal(was, now)) {
		text = ckpt_json_dump(now, JSON_ENSURE_ASCII);
		pair->value = text ? ckpt_arena_copy(c->list->arena, text, strlen(text)) : NULL;
		pair->value_len = text ? (uint32_t)strlen(text) : 0;
	}
	free(text);
	json_decref(was);
	json_decref(now);
	return pair->value ? 0 : ckpt_fail_nomem(err);
}

int ckpt_safetensors_rename_classes(const struct ckpt_model *model, struct ckpt_safetensors_list *list,
				    struct ckpt_safetensors_pair *pairs, uint32_t *count,
				    struct ckpt_error *err)
{
	struct classes c = { .model = model, .list = list };
	uint32_t names = 0, kept = 0;
	int rc;

	while (names < *count && !is_names(&pairs[names]))
		names++;
	if (names == *count)
		return 0;
	rc = fill_maps(&c, err);
	for (uint32_t i = 0; rc == 0 && i < *count; i++) {
		bool keep = true;

		if (i != names)
			rc = rename_pair(&c, &pairs[i], &keep, err);
		if (keep)
			pairs[kept++] = pairs[i];
	}
	if (rc == 0)
		*count = kept;
	for (uint32_t i = 0; rc == 0 && i < *count; i++)
		if (is_names(&pairs[i]))
			rc = rename_list(&c, &pairs[i], err);
	ckpt_strmap_clear(&c.items);
	ckpt_strmap_clear(&c.were);
	ckpt_strmap_clear(&c.keys);
	free(c.became);
	free(c.is_old);
	return rc;
}
