/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strip-prefix and add-prefix: the functions that make new keys, for keys.c, and counting keys
 * with a prefix.
 *
 * The prefix ends with a dot inside of this file, whatever the caller gave. `_metadata` names
 * modules, without that dot and with '' for the root, so each edit has a second function for it:
 * the two must agree on what a name becomes.
 */
#include "base/sized.h"
#include "edit/keys.h"
#include "model/module.h"
#include "model/state_dict.h"
#include "model/walk.h"

#include <stdlib.h>
#include <string.h>

struct prefix {
	char *text; /* ends with a dot */
	size_t len;
	bool anywhere;
};

static int make_prefix(const char *text, const struct ckpt_key_options *options, struct prefix *out,
		       struct ckpt_error *err)
{
	struct ckpt_key_options o = CKPT_KEY_OPTIONS_INIT;
	size_t len = strlen(text);
	int rc = ckpt_key_options_take(&o, options, err);

	if (rc < 0)
		return rc;
	if (!len || !strcmp(text, "."))
		return ckpt_fail(err, CKPT_E_ARG, "the prefix is empty");
	*out = (struct prefix){ .text = malloc(len + 2), .len = len };
	if (!out->text)
		return ckpt_fail_nomem(err);
	memcpy(out->text, text, len + 1);
	if (text[len - 1] != '.')
		memcpy(out->text + out->len++, ".", 2);
	out->anywhere = (o.flags & CKPT_KEY_ANYWHERE) != 0;
	return 0;
}

static int strip_key(void *ctx, const char *key, size_t len, struct ckpt_buf *out,
		     struct ckpt_error *err)
{
	const struct prefix *p = ctx;
	size_t i = 0;
	bool changed = false;

	(void)err;
	if (len >= p->len && !memcmp(key, p->text, p->len)) {
		i = p->len;
		changed = true;
	}
	while (i < len) {
		if (p->anywhere && (i == 0 || key[i - 1] == '.') && len - i >= p->len &&
		    !memcmp(key + i, p->text, p->len)) {
			i += p->len;
			changed = true;
			continue;
		}
		ckpt_buf_add_u8(out, (uint8_t)key[i++]);
	}
	return changed;
}

/* In `_metadata`, "module" itself becomes ''; '' stays. */
static int strip_module_name(void *ctx, const char *key, size_t len, struct ckpt_buf *out,
			     struct ckpt_error *err)
{
	const struct prefix *p = ctx;
	size_t before = out->len;
	int rc;

	if (len == p->len - 1 && !memcmp(key, p->text, len))
		return 1;
	rc = strip_key(ctx, key, len, out, err);
	if (p->anywhere && out->len - before >= p->len - 1) { /* "net.module" ends in the prefix */
		size_t left = out->len - before - (p->len - 1);
		const char *end = (const char *)out->data + before + left;

		if ((!left || end[-1] == '.') && !memcmp(end, p->text, p->len - 1)) {
			out->len = before + (left ? left - 1 : 0);
			rc = 1;
		}
	}
	return rc;
}

static int add_key(void *ctx, const char *key, size_t len, struct ckpt_buf *out,
		   struct ckpt_error *err)
{
	const struct prefix *p = ctx;

	(void)err;
	ckpt_buf_add(out, p->text, p->len);
	ckpt_buf_add(out, key, len);
	return 1;
}

/* The root of the old module is named by the prefix without its dot. */
static int add_module_name(void *ctx, const char *key, size_t len, struct ckpt_buf *out,
			   struct ckpt_error *err)
{
	const struct prefix *p = ctx;

	if (len)
		return add_key(ctx, key, len, out, err);
	ckpt_buf_add(out, p->text, p->len - 1);
	return 1;
}

int ckpt_strip_prefix(const struct ckpt_model *model, const char *prefix,
		      const struct ckpt_key_options *options, struct ckpt_model **out,
		      struct ckpt_edit_report *report, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct prefix p = { 0 };
	struct ckpt_key_edit edit = { .rename = strip_key,
				      .rename_module = strip_module_name,
				      .ctx = &p };

	if (rc == 0)
		rc = make_prefix(prefix, options, &p, err);
	*out = NULL;
	edit.joins_modules = p.anywhere;
	if (rc == 0)
		rc = ckpt_model_edit_keys(model, &edit, options, out, report, err);
	free(p.text);
	return rc;
}

int ckpt_add_prefix(const struct ckpt_model *model, const char *prefix,
		    const struct ckpt_key_options *options, struct ckpt_model **out,
		    struct ckpt_edit_report *report, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct ckpt_edit_report local = CKPT_EDIT_REPORT_INIT;
	struct prefix p = { 0 };
	struct ckpt_key_edit edit = {
		.rename = add_key, .rename_module = add_module_name, .only_modules = true, .ctx = &p
	};

	if (rc == 0)
		rc = make_prefix(prefix, options, &p, err);
	*out = NULL;
	edit.new_roots = p.text;
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(local), err);
	if (rc == 0)
		rc = ckpt_model_edit_keys(model, &edit, options, out, &local, err);
	free(p.text);
	if (rc == 0)
		ckpt_sized_give(report, &local, sizeof(local));
	if (rc == 0 && !local.renamed) {
		ckpt_close(*out);
		*out = NULL;
		rc = ckpt_fail(err, CKPT_E_NOTFOUND, "no state dict of a module was found");
	}
	return rc;
}

enum { MOST_COUNTED = 64 };

struct prefix_counter {
	const struct ckpt_model *model;
	struct ckpt_state_dict_finder finder;
	struct prefix prefixes[MOST_COUNTED];
	struct ckpt_prefix_count counts[MOST_COUNTED];
	size_t count;
};

static void count_keys(struct prefix_counter *c, const struct ckpt_seq *pairs)
{
	uint64_t with[MOST_COUNTED] = { 0 };

	for (uint32_t i = 0; i < pairs->count; i += 2) {
		const struct ckpt_value *key = ckpt_model_now(c->model, pairs->items[i]);

		for (size_t k = 0; k < c->count && ckpt_value_is_text(key); k++)
			with[k] += key->u.bytes.len >= c->prefixes[k].len &&
				   !memcmp(key->u.bytes.ptr, c->prefixes[k].text, c->prefixes[k].len);
	}
	for (size_t k = 0; k < c->count; k++) {
		if (!with[k])
			continue;
		c->counts[k].with_prefix += with[k];
		c->counts[k].keys += pairs->count / 2;
	}
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct prefix_counter *c = ctx;
	const struct ckpt_seq *pairs = ckpt_value_pairs(step->value);

	(void)err;
	if (ckpt_value_is_tensor_object(c->model, step->value) ||
	    ckpt_is_module(c->model, step->value) || ckpt_is_extra_state(step->name, step->name_len))
		return CKPT_WALK_SKIP;
	if (pairs && !step->seen && ckpt_is_state_dict(&c->finder, step->value))
		count_keys(c, pairs);
	return CKPT_WALK_ENTER;
}

int ckpt_count_prefixes(const struct ckpt_model *model, const char *const *prefixes, size_t count,
			struct ckpt_prefix_count *out, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct prefix_counter c = { .model = model };
	size_t size = 0;

	if (rc == 0 && count > MOST_COUNTED)
		rc = ckpt_fail(err, CKPT_E_ARG, "%zu prefixes, wanted up to %d", count, (int)MOST_COUNTED);
	if (rc == 0)
		rc = ckpt_sized_check(out, sizeof(c.counts[0]), err);
	for (; rc == 0 && c.count < count; c.count++) {
		c.counts[c.count] = (struct ckpt_prefix_count)CKPT_PREFIX_COUNT_INIT;
		rc = make_prefix(prefixes[c.count], NULL, &c.prefixes[c.count], err);
	}
	if (rc == 0)
		rc = ckpt_state_dict_finder_init(&c.finder, model, err);
	if (rc == 0)
		rc = ckpt_model_walk(model, visit_value, &c, err);
	ckpt_state_dict_finder_clear(&c.finder);
	if (out)
		memcpy(&size, out, sizeof(size));
	for (size_t i = 0; i < c.count; i++) {
		struct ckpt_prefix_count *to = out ? (void *)((char *)out + i * size) : NULL;

		free(c.prefixes[i].text);
		if (rc == 0 && to)
			memcpy(to, &size, sizeof(size));
		if (rc == 0)
			ckpt_sized_give(to, &c.counts[i], sizeof(c.counts[i]));
	}
	return rc;
}

int ckpt_count_prefix(const struct ckpt_model *model, const char *prefix,
		      struct ckpt_prefix_count *out, struct ckpt_error *err)
{
	return ckpt_count_prefixes(model, &prefix, 1, out, err);
}
