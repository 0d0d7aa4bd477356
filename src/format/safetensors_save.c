/* SPDX-License-Identifier: Apache-2.0 */
/* Saves a checkpoint as one safetensors file: the list of its tensors and the metadata. */
#include "format/safetensors_write.h"

#include "base/grow.h"
#include "base/json.h"
#include "base/strmap.h"
#include "base/text.h"
#include "format/output.h"

#include <stdlib.h>
#include <string.h>

/* ---- metadata ---- */

static bool has_key(const struct ckpt_safetensors_pair *pairs, uint32_t count, const char *key,
		    uint32_t len)
{
	for (uint32_t i = 0; i < count; i++)
		if (pairs[i].key_len == len && !memcmp(pairs[i].key, key, len))
			return true;
	return false;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_stale(const struct ckpt_model *model, const char *key)
{
	return model->stale_metadata_count &&
	       bsearch(&key, model->stale_metadata, model->stale_metadata_count, sizeof(key), by_text);
}

/*
 * Those of the input that say which tensor another name means are told anew: an edit may have
 * renamed both.
 */
static int keep_pairs(const struct ckpt_model *model, const struct ckpt_safetensors *st, struct ckpt_safetensors_pair *out,
		      uint32_t *count, struct ckpt_error *err)
{
	const struct ckpt_safetensors_header *h = &st->header;
	struct ckpt_strmap names = { 0 };
	bool fine = true, there;

	for (uint32_t i = 0; fine && st->alias_count && i < h->count; i++)
		fine = ckpt_strmap_insert(&names, h->tensors[i].name, h->tensors[i].name_len, i,
					  &there);
	for (uint32_t i = 0; fine && i < h->metadata_count; i++)
		if ((!st->alias_count || ckpt_safetensors_alias(&h->metadata[i], &names) < 0) && !is_stale(model, h->metadata[i].key))
			out[(*count)++] = h->metadata[i];
	ckpt_strmap_clear(&names);
	return fine ? 0 : ckpt_fail_nomem(err);
}

int ckpt_safetensors_fail_taken(const struct ckpt_safetensors_item *item, struct ckpt_error *err)
{
	char shown[160];

	return ckpt_fail(
		err, CKPT_E_UNSUPPORTED,
		"'%s' shares its bytes, and the metadata have something else under its name",
		ckpt_escape(shown, sizeof(shown), item->name, item->name_len));
}

static int add_aliases(const struct ckpt_safetensors_list *list, struct ckpt_safetensors_pair *out,
		       uint32_t *count, struct ckpt_error *err)
{
	uint32_t others = *count;

	for (uint32_t i = 0; list->aliased && i < list->count; i++) {
		const struct ckpt_safetensors_item *item = &list->items[i], *same = item->same;

		if (!same)
			continue;
		if (has_key(out, others, item->name, item->name_len) ||
		    !strcmp(item->name, "format"))
			return ckpt_safetensors_fail_taken(item, err);
		out[(*count)++] = (struct ckpt_safetensors_pair){ item->name, same->name,
								  item->name_len, same->name_len };
	}
	return 0;
}

struct set_pairs {
	const struct ckpt_model *model;
	struct ckpt_arena *arena;
	struct ckpt_safetensors_pair *pairs; /* malloc */
	uint32_t count, cap;
};

/* What a file of a set says, all say: it belongs to the whole. */
static int keep_set_pair(void *ctx, const char *key, size_t key_len, const char *value, size_t value_len)
{
	struct set_pairs *s = ctx;
	struct ckpt_safetensors_pair *grown;

	if (is_stale(s->model, key))
		return 0;
	grown = ckpt_grow(s->pairs, s->count, &s->cap, sizeof(*grown));
	if (!grown)
		return CKPT_E_NOMEM;
	s->pairs = grown;
	s->pairs[s->count++] = (struct ckpt_safetensors_pair){ key, value, (uint32_t)key_len, (uint32_t)value_len };
	return 0;
}

/* PAIR gets the names of the list VALUE, too, if both are lists. */
static int join_names(struct set_pairs *s, struct ckpt_safetensors_pair *pair, const char *value, size_t len)
{
	json_t *all = ckpt_json_load(pair->value, pair->value_len, 0, NULL), *more = ckpt_json_load(value, len, 0, NULL), *one;
	size_t i, had = json_array_size(all);
	struct ckpt_strmap names = { 0 };
	bool fine = true, there = false;
	char *text = NULL;

	json_array_foreach(all, i, one)
		fine = fine && (!json_is_string(one) || ckpt_strmap_insert(&names, json_string_value(one), json_string_length(one), i, &there));
	json_array_foreach(more, i, one)
	{
		there = true;
		fine = fine && (!json_is_string(one) || ckpt_strmap_insert(&names, json_string_value(one), json_string_length(one), i, &there));
		if (fine && json_is_array(all) && !there)
			fine = json_array_append(all, one) == 0;
	}
	if (fine && json_array_size(all) > had) {
		text = ckpt_json_dump(all, JSON_ENSURE_ASCII);
		pair->value = text ? ckpt_arena_copy(s->arena, text, strlen(text)) : NULL;
		pair->value_len = text ? (uint32_t)strlen(text) : 0;
		fine = pair->value;
	}
	free(text);
	ckpt_strmap_clear(&names);
	json_decref(all);
	json_decref(more);
	return fine ? 0 : CKPT_E_NOMEM;
}

/* What torchao says of the tensors of a file, that file alone says; the list of names is one of all files then. */
static int keep_class_pair(void *ctx, const char *key, size_t key_len, const char *value, size_t value_len)
{
	struct set_pairs *s = ctx;

	if (!ckpt_safetensors_is_class(key, key_len, value, value_len))
		return 0;
	for (uint32_t i = 0; i < s->count; i++)
		if (s->pairs[i].key_len == key_len && !memcmp(s->pairs[i].key, key, key_len))
			return key_len == 12 && !memcmp(key, "tensor_names", 12) ? join_names(s, &s->pairs[i], value, value_len) : 0;
	return keep_set_pair(ctx, key, key_len, value, value_len);
}

int ckpt_safetensors_metadata(const struct ckpt_model *model, struct ckpt_safetensors_list *list, bool in_set,
			      struct ckpt_safetensors_pair **out, uint32_t *count,
			      bool *has_metadata, struct ckpt_error *err)
{
	const struct ckpt_safetensors *st = ckpt_safetensors_of(model);
	const struct ckpt_format *format = model->doc->format;
	struct set_pairs set = { .model = model, .arena = list->arena };
	uint64_t most;
	int rc = 0;

	*count = 0;
	if (!st && format->common_metadata && format->common_metadata(model, keep_set_pair, &set) < 0)
		rc = ckpt_fail_nomem(err);
	if (rc == 0 && !st && format->parts_metadata &&
	    format->parts_metadata(model, keep_class_pair, &set) < 0)
		rc = ckpt_fail_nomem(err);
	most = list->aliased + (st ? st->header.metadata_count : set.count + (uint64_t)1);
	*out = ckpt_arena_calloc(list->arena, most + 1, sizeof(**out));
	if (rc == 0 && !*out)
		rc = ckpt_arena_fail(list->arena, err);
	if (rc == 0 && st) {
		rc = keep_pairs(model, st, *out, count, err);
	} else if (rc == 0) {
		if (!has_key(set.pairs, set.count, "format", 6))
			(*out)[(*count)++] = (struct ckpt_safetensors_pair){ "format", "pt", 6, 2 };
		for (uint32_t i = 0; i < set.count; i++)
			(*out)[(*count)++] = set.pairs[i];
	}
	free(set.pairs);
	if (rc == 0)
		rc = ckpt_safetensors_rename_classes(model, list, *out, count, err);
	if (rc == 0 && in_set && !has_key(*out, *count, "format", 6))
		(*out)[(*count)++] = (struct ckpt_safetensors_pair){ "format", "pt", 6, 2 };
	if (rc == 0 && !in_set)
		rc = add_aliases(list, *out, count, err);
	*has_metadata = *count || (st && st->header.has_metadata);
	return rc;
}

/* ---- the file ---- */

static int write_list(const struct ckpt_model *model, struct ckpt_safetensors_list *list,
		      const char *path, const struct ckpt_patch *replaced,
		      const struct ckpt_save_options *options, struct ckpt_save_report *report,
		      struct ckpt_error *err)
{
	struct ckpt_safetensors_item **items = calloc(list->count + (size_t)1, sizeof(*items));
	struct ckpt_safetensors_out out = { .model = model, .items = items, .replaced = replaced };
	struct ckpt_safetensors_pair *metadata;
	int rc;

	if (!items)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < list->count; i++)
		if (!list->items[i].same)
			items[out.count++] = &list->items[i];
	rc = ckpt_safetensors_metadata(model, list, false, &metadata, &out.metadata_count, &out.has_metadata, err);
	out.metadata = metadata;
	if (rc == 0)
		rc = ckpt_safetensors_write(&out, path, options, report, err);
	free(items);
	return rc;
}

static int save(const struct ckpt_model *model, const char *path, const struct ckpt_patch *replaced,
		const struct ckpt_save_options *options, struct ckpt_save_report *report,
		struct ckpt_error *err)
{
	struct ckpt_safetensors_list list;
	int rc = ckpt_safetensors_list_make(model, options, &list, err);

	if (rc == 0)
		rc = write_list(model, &list, path, replaced, options, report, err);
	report->others = list.others;
	report->cloned = list.cloned;
	report->aliased = list.aliased;
	ckpt_safetensors_list_clear(&list);
	return ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
}

int ckpt_safetensors_save(const struct ckpt_model *model, const char *path,
			  const struct ckpt_save_options *options, struct ckpt_save_report *report,
			  struct ckpt_error *err)
{
	return save(model, path, NULL, options, report, err);
}

/* Data follow the header without a gap: the file is written anew. */
int ckpt_safetensors_save_in_place(const struct ckpt_model *model,
				   const struct ckpt_save_options *options,
				   struct ckpt_save_report *report, struct ckpt_error *err)
{
	return ckpt_output_write_anew(model, save, "a safetensors file has no room for a change",
				      options, report, err);
}
