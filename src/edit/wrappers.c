/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strip-wrappers: strips from names what wrappers put into them, and counts what is there.
 *
 * In `_metadata`, a wrapper and the module in it get one name (joins_modules in edit/keys.h).
 */
#include "base/sized.h"
#include "edit/keys.h"
#include "model/module.h"
#include "model/module_wrappers.h"
#include "model/state_dict.h"

static int strip_key(void *ctx, const char *key, size_t len, struct ckpt_buf *out,
		     struct ckpt_error *err)
{
	(void)ctx;
	(void)err;
	return ckpt_wrappers_strip(key, len, false, out);
}

static int strip_module_name(void *ctx, const char *key, size_t len, struct ckpt_buf *out,
			     struct ckpt_error *err)
{
	(void)ctx;
	(void)err;
	return ckpt_wrappers_strip(key, len, true, out);
}

int ckpt_strip_wrappers(const struct ckpt_model *model, const struct ckpt_key_options *options,
			struct ckpt_model **out, struct ckpt_edit_report *report,
			struct ckpt_error *err)
{
	const struct ckpt_key_edit edit = { .rename = strip_key,
					    .rename_module = strip_module_name,
					    .joins_modules = true };
	int rc = ckpt_model_whole(&model, err);

	*out = NULL;
	return rc < 0 ? rc : ckpt_model_edit_keys(model, &edit, options, out, report, err);
}

/* ---- counting ---- */

struct counter {
	const struct ckpt_model *model;
	struct ckpt_key_choice choice;
	struct ckpt_state_dict_finder finder;
	struct ckpt_wrapper_count counts[CKPT_MODULE_WRAPPERS];
	uint64_t keys;
};

static void count_keys(struct counter *c, const struct ckpt_seq *pairs)
{
	unsigned any = 0;

	for (uint32_t i = 0; i < pairs->count; i += 2) {
		const struct ckpt_value *key = ckpt_model_now(c->model, pairs->items[i]);
		struct ckpt_wrapper_marks marks;

		if (!ckpt_value_is_text(key))
			continue;
		ckpt_wrapper_marks_of(key->u.bytes.ptr, key->u.bytes.len, &marks);
		any |= marks.front | marks.inside;
		for (int k = 0; k < CKPT_MODULE_WRAPPERS; k++)
			if (k == marks.first)
				c->counts[k].first++;
			else
				c->counts[k].inside += (marks.front | marks.inside) >> k & 1;
	}
	if (any)
		c->keys += pairs->count / 2;
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct counter *c = ctx;
	const struct ckpt_seq *pairs = ckpt_value_pairs(step->value);
	int chosen;

	if (!c->choice.o.at_count && (ckpt_is_module(c->model, step->value) || ckpt_is_extra_state(step->name, step->name_len)))
		return CKPT_WALK_SKIP;
	if (!pairs || step->seen)
		return ckpt_value_is_tensor_object(c->model, step->value) ? CKPT_WALK_SKIP
									  : CKPT_WALK_ENTER;
	chosen = ckpt_key_choice_has(&c->choice, step, err);
	if (chosen > 0 && ckpt_is_state_dict(&c->finder, step->value))
		count_keys(c, pairs);
	return chosen < 0 ? chosen : CKPT_WALK_ENTER;
}

int ckpt_count_wrappers(const struct ckpt_model *model, const struct ckpt_key_options *options,
			int (*found)(void *ctx, const struct ckpt_wrapper_count *count), void *ctx,
			struct ckpt_error *err)
{
	struct counter c = { 0 };
	int rc = ckpt_model_whole(&model, err);

	c.model = model;
	if (rc == 0)
		rc = ckpt_key_choice_init(&c.choice, options, err);
	if (rc == 0)
		rc = ckpt_state_dict_finder_init(&c.finder, model, err);
	if (rc == 0)
		rc = ckpt_model_walk(model, visit_value, &c, err);
	if (rc == 0)
		rc = ckpt_key_choice_check(&c.choice, err);
	ckpt_state_dict_finder_clear(&c.finder);
	ckpt_key_choice_clear(&c.choice);
	for (int i = 0; rc >= 0 && i < CKPT_MODULE_WRAPPERS; i++) {
		struct ckpt_wrapper_count *one = &c.counts[i];

		if (!one->first && !one->inside)
			continue;
		one->size = sizeof(*one);
		one->prefix = ckpt_module_wrappers[i].prefix;
		one->wrapper = ckpt_module_wrappers[i].who;
		one->keys = c.keys;
		rc = found(ctx, one);
	}
	return rc < 0 ? rc : 0;
}
