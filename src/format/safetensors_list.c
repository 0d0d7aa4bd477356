/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the entries of a state dict that a safetensors file can hold, and says of the others why
 * not. What must stay true: an entry is either in the list or reported (CKPT_SAVE_DROP_OTHERS
 * decides whether that is an error), so that nothing is lost silently; a name in the list is
 * UTF-8 without a NUL, once, and not "__metadata__".
 */
#include "format/safetensors_write.h"

#include "base/buf.h"
#include "base/grow.h"
#include "base/text.h"
#include "model/describe.h"
#include "model/path.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lister {
	const struct ckpt_model *model;
	const struct ckpt_save_options *o;
	struct ckpt_safetensors_list *list;
	struct ckpt_strmap names;
	struct ckpt_describer describer;
	struct ckpt_buf key;
	char first[160], first_why[160]; /* the first entry that cannot be written */
};

/* ---- what cannot be written ---- */

static void refuse(struct lister *l, const char *why)
{
	const char *key = (const char *)l->key.data;
	char shown[160];

	ckpt_escape(shown, sizeof(shown), key, l->key.len);
	if (!l->list->others++) {
		snprintf(l->first, sizeof(l->first), "%s", shown);
		snprintf(l->first_why, sizeof(l->first_why), "%s", why);
	}
	if (l->o->unfit)
		l->o->unfit(l->o->unfit_ctx, shown, why);
}

static int refuse_value(struct lister *l, const struct ckpt_value *v, struct ckpt_error *err)
{
	struct ckpt_item item = { .size = sizeof(item) };
	char why[160];
	int rc;

	if (v->kind == CKPT_PERSID && v->flags & CKPT_VALUE_MISSING) {
		snprintf(why, sizeof(why), "could not be read");
	} else {
		rc = ckpt_describe(&l->describer, v, &item, err);
		if (rc < 0)
			return rc;
		snprintf(why, sizeof(why), "is not a tensor but %s %.100s",
			 strchr("aeiouAEIOU", item.type[0]) ? "an" : "a", item.type);
	}
	refuse(l, why);
	return 0;
}

/* Why the format cannot hold T; NULL: it can. */
static const char *why_not(const struct ckpt_tensor *t, enum ckpt_safetensors_dtype dtype,
			   char why[160])
{
	switch (t->kind) {
	case CKPT_KIND_STRIDED:
	case CKPT_KIND_NUMPY: break;
	case CKPT_KIND_QUANTIZED: return "is a quantized tensor";
	case CKPT_KIND_META: return "is on the meta device: it has no values";
	case CKPT_KIND_UNINITIALIZED: return "is uninitialized: it has no shape and no values";
	case CKPT_KIND_SPARSE:
	case CKPT_KIND_NESTED: snprintf(why, 160, "is a %.80s tensor", t->layout); return why;
	case CKPT_KIND_WRAPPER:
		snprintf(why, 160, "is a tensor of class %.80s, which is more than its items",
			 t->class_name ? t->class_name : "of its own");
		return why;
	}
	if (dtype == CKPT_SAFETENSORS_DTYPE_UNKNOWN) {
		snprintf(why, 160, "is %s, which the format does not have",
			 ckpt_dtype_name(t->dtype));
		return why;
	}
	if (dtype == CKPT_SAFETENSORS_F4 && !t->ndim)
		return "is one pair of numbers, which the format counts one by one";
	return NULL;
}

/* ---- tensors ---- */

static int count_bytes(const struct ckpt_tensor *t, uint64_t *nbytes, struct ckpt_error *err)
{
	bool over = false, empty = false;

	*nbytes = ckpt_dtype_size(t->dtype);
	for (uint32_t i = 0; i < t->ndim; i++) {
		over |= __builtin_mul_overflow(*nbytes, t->shape[i], nbytes);
		empty |= !t->shape[i];
	}
	if (over && !empty)
		return ckpt_fail(err, CKPT_E_LIMIT, "has more bytes than any file holds");
	if (over) /* readers multiply from the first size to the last, zeros or not */
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"is empty, and of a shape that the format's readers cannot multiply");
	return 0;
}

static int add_tensor(struct lister *l, const struct ckpt_value *v, const struct ckpt_tensor *t,
		      enum ckpt_safetensors_dtype dtype, struct ckpt_error *err)
{
	struct ckpt_safetensors_list *list = l->list;
	void *grown = ckpt_grow(list->items, list->count, &list->cap, sizeof(*list->items));
	struct ckpt_safetensors_item *item;
	bool there = false;
	int rc;

	if (!grown)
		return ckpt_fail_nomem(err);
	list->items = grown;
	item = &list->items[list->count];
	*item = (struct ckpt_safetensors_item){
		.name = ckpt_arena_copy(list->arena, l->key.data, l->key.len),
		.name_len = (uint32_t)l->key.len,
		.order = list->count,
		.dtype = dtype,
		.value = v,
		.t = *t,
	};
	if (!item->name)
		return ckpt_arena_fail(list->arena, err);
	rc = count_bytes(t, &item->nbytes, err);
	if (rc == 0 &&
	    !ckpt_strmap_insert(&l->names, item->name, item->name_len, list->count, &there))
		rc = ckpt_fail_nomem(err);
	if (rc == 0 && there)
		rc = ckpt_fail(err, CKPT_E_FORMAT, "is there twice");
	list->count += rc == 0;
	return rc;
}

static int list_value(struct lister *l, const struct ckpt_value *v, struct ckpt_error *err)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(l->list->arena);
	enum ckpt_safetensors_dtype dtype;
	struct ckpt_tensor t;
	char text[160];
	const char *why;
	int rc = ckpt_tensor_parse(l->model, v, l->list->arena, &t, err);

	if (rc <= 0)
		return rc < 0 ? rc : refuse_value(l, v, err);
	dtype = ckpt_safetensors_dtype_of(t.dtype);
	why = why_not(&t, dtype, text);
	if (!why)
		return add_tensor(l, v, &t, dtype, err);
	refuse(l, why);
	ckpt_arena_release(l->list->arena, mark);
	return 0;
}

static int list_entry(struct lister *l, const struct ckpt_value *key, const struct ckpt_value *v,
		      struct ckpt_error *err)
{
	bool is_text = key->kind == CKPT_STR || key->kind == CKPT_PY2_STR;
	char why[100], shown[160];
	int rc;

	l->key.len = 0;
	ckpt_path_add_key(&l->key, key);
	if (l->key.bad)
		return ckpt_fail_nomem(err);
	if (!is_text) {
		snprintf(why, sizeof(why), "has a key that is not a str but %s",
			 ckpt_value_kind_name(key));
		refuse(l, why);
		return 0;
	}
	if (memchr(key->u.bytes.ptr, 0, key->u.bytes.len)) { /* the key's text shows it otherwise */
		refuse(l, "has a zero byte in its name");
		return 0;
	}
	if (!ckpt_utf8_ok((const char *)l->key.data, l->key.len)) {
		refuse(l, "has a name that is not UTF-8");
		return 0;
	}
	if (l->key.len == 12 && !memcmp(l->key.data, "__metadata__", 12)) {
		refuse(l, "has the name that the format keeps for its metadata");
		return 0;
	}
	rc = list_value(l, v, err);
	if (rc == 0)
		return 0;
	ckpt_escape(shown, sizeof(shown), (const char *)l->key.data, l->key.len);
	return ckpt_error_prefix(err, rc, "'%s' ", shown);
}

/* ---- the whole ---- */

static int list_root(struct lister *l, struct ckpt_error *err)
{
	const struct ckpt_value *root = ckpt_model_now(l->model, l->model->root);
	const struct ckpt_seq *pairs = ckpt_value_pairs(root);
	struct ckpt_item item = { .size = sizeof(item) };
	int rc = 0;

	if (ckpt_value_is_tensor(l->model, root))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "is one tensor without a name, safetensors holds named ones");
	if (!pairs) {
		rc = ckpt_describe(&l->describer, root, &item, err);
		return rc < 0 ? rc
			      : ckpt_fail(err, CKPT_E_UNSUPPORTED,
					  "is %s %.100s, safetensors holds a dict of tensors",
					  strchr("aeiouAEIOU", item.type[0]) ? "an" : "a",
					  item.type);
	}
	for (uint32_t i = 0; rc == 0 && i + 1 < pairs->count; i += 2)
		rc = list_entry(l, ckpt_model_now(l->model, pairs->items[i]),
				ckpt_model_now(l->model, pairs->items[i + 1]), err);
	return rc;
}

/* Entries that cannot be written are an error, unless they are to be dropped. */
static int check_others(const struct lister *l, struct ckpt_error *err)
{
	uint64_t more = l->list->others - 1;
	char and_more[60] = "";

	if (!l->list->others || l->o->flags & CKPT_SAVE_DROP_OTHERS)
		return 0;
	if (more)
		snprintf(and_more, sizeof(and_more), ", and %" PRIu64 " more cannot be written",
			 more);
	return ckpt_fail(err, CKPT_E_UNSUPPORTED, "'%s' %s%s", l->first, l->first_why, and_more);
}

int ckpt_safetensors_list_make(const struct ckpt_model *model,
			       const struct ckpt_save_options *options,
			       struct ckpt_safetensors_list *out, struct ckpt_error *err)
{
	struct lister l = {
		.model = model, .o = options, .list = out, .describer = { .model = model }
	};
	int rc;

	*out = (struct ckpt_safetensors_list){ .arena = ckpt_arena_new(UINT64_MAX >> 1) };
	rc = out->arena ? list_root(&l, err) : ckpt_fail_nomem(err);
	if (rc == 0)
		rc = check_others(&l, err);
	if (rc == 0)
		rc = ckpt_safetensors_list_share(model, options->shared, out, err);
	ckpt_describer_clear(&l.describer);
	ckpt_strmap_clear(&l.names);
	ckpt_buf_clear(&l.key);
	return rc;
}

void ckpt_safetensors_list_clear(struct ckpt_safetensors_list *list)
{
	ckpt_arena_free(list->arena);
	free(list->items);
	*list = (struct ckpt_safetensors_list){ 0 };
}
