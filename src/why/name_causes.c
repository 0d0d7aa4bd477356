/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causes that are in the names of weights and in what they are in: prefixes of wrappers, weights
 * that are an entry of a larger dict, a module that was saved whole.
 *
 * Only the dict with the most tensors is checked, as that is what people load. Wrappers are taken
 * off in the order in which the first key has them; the others are taken off behind these.
 */
#include "why/why.h"

#include "model/module_wrappers.h"
#include "model/state_dict.h"

#include <inttypes.h>
#include <string.h>

struct wrapper_counts {
	uint64_t keys, start[CKPT_MODULE_WRAPPERS], inside[CKPT_MODULE_WRAPPERS];
};

/* Counts the wrappers in front of a key, one in another, and those deeper inside. */
static void count_key(struct wrapper_counts *c, const char *key, size_t len)
{
	size_t at = 0;
	bool more = true;

	while (more) {
		more = false;
		for (int i = 0; i < CKPT_MODULE_WRAPPERS; i++) {
			size_t n = strlen(ckpt_module_wrappers[i].prefix);

			if (len - at >= n && !memcmp(key + at, ckpt_module_wrappers[i].prefix, n)) {
				c->start[i]++;
				at += n;
				more = true;
			}
		}
	}
	for (int i = 0; i < CKPT_MODULE_WRAPPERS; i++) {
		const char *hit = memmem(key + at, len - at, ckpt_module_wrappers[i].prefix,
					 strlen(ckpt_module_wrappers[i].prefix));

		c->inside[i] += hit && hit > key + at && hit[-1] == '.' && i > 0;
	}
	c->keys++;
}

static void count_wrappers(const struct ckpt_why *w, const struct ckpt_why_dict *dict,
			   struct wrapper_counts *c)
{
	for (uint32_t i = 0; i + 1 < dict->pairs->count; i += 2) {
		const struct ckpt_value *k = ckpt_model_now(w->facts.model, dict->pairs->items[i]);

		if (k->kind == CKPT_STR || k->kind == CKPT_PY2_STR)
			count_key(c, k->u.bytes.ptr, (size_t)k->u.bytes.len);
	}
}

/* The wrappers in front of the first key, from the outermost. */
static void list_front_wrappers(const struct ckpt_why *w, const struct ckpt_why_dict *dict,
				struct ckpt_why_steps *steps)
{
	const struct ckpt_value *k = ckpt_model_now(w->facts.model, dict->pairs->items[0]);
	bool more = k->kind == CKPT_STR || k->kind == CKPT_PY2_STR;
	const char *at = more ? k->u.bytes.ptr : NULL, *end = more ? at + k->u.bytes.len : NULL;

	while (more && steps->strip_count < CKPT_WHY_MOST_STEPS) {
		more = false;
		for (int i = 0; i < CKPT_MODULE_WRAPPERS && !more; i++) {
			size_t n = strlen(ckpt_module_wrappers[i].prefix);

			more = (size_t)(end - at) >= n &&
			       !memcmp(at, ckpt_module_wrappers[i].prefix, n);
			if (more) {
				at += n;
				steps->strip[steps->strip_count++] = ckpt_module_wrappers[i].prefix;
			}
		}
	}
}

bool ckpt_why_check_wrapped(struct ckpt_why *w, const struct ckpt_match *match)
{
	const struct ckpt_why_dict *dict = ckpt_why_largest(w);
	struct ckpt_why_steps steps = { 0 };
	struct wrapper_counts c = { 0 };
	const char *who = NULL, *prefix = NULL;
	uint64_t count = 0;

	(void)match;
	if (!dict)
		return false;
	count_wrappers(w, dict, &c);
	list_front_wrappers(w, dict, &steps);
	for (int i = 0; i < CKPT_MODULE_WRAPPERS; i++) {
		bool front = c.start[i] > 0;
		bool known = false;

		if (!front && !c.inside[i])
			continue;
		if (!who) {
			who = ckpt_module_wrappers[i].who;
			prefix = ckpt_module_wrappers[i].prefix;
			count = front ? c.start[i] : c.inside[i];
		}
		for (uint32_t k = 0; k < steps.strip_count; k++)
			known |= steps.strip[k] == ckpt_module_wrappers[i].prefix;
		if (c.inside[i] && !known && steps.inside_count < CKPT_WHY_MOST_STEPS)
			steps.inside[steps.inside_count++] = ckpt_module_wrappers[i].prefix;
		else if (!known && front && steps.strip_count < CKPT_WHY_MOST_STEPS)
			steps.strip[steps.strip_count++] = ckpt_module_wrappers[i].prefix;
	}
	if (!who)
		return false;
	if (ckpt_why_begin(
		    w, "prefix", match ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_POSSIBLE,
		    "'%s' is in the names of the weights: the model was saved from inside of %s, and a "
		    "plain model has no such names (Missing key(s), Unexpected key(s))",
		    prefix, who)) {
		ckpt_why_fact(w, "'%s' on %" PRIu64 " of %" PRIu64 " keys%s%s%s", prefix, count,
			      c.keys, *dict->name ? " of '" : "",
			      *dict->name ? ckpt_why_show(w, dict->name) : "",
			      *dict->name ? "'" : "");
		ckpt_why_steps_command(w, &steps);
		ckpt_why_end(w);
	}
	return true;
}

bool ckpt_why_check_nested(struct ckpt_why *w, const struct ckpt_match *match)
{
	const struct ckpt_why_dict *dict = ckpt_why_largest(w);

	if (!dict || !*dict->name || !w->facts.root_is_mapping || !ckpt_why_has_plain_name(dict))
		return false;
	if (ckpt_why_begin(
		    w, "nested", match ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_POSSIBLE,
		    "the weights are under '%s', beside other things: load_state_dict() of the whole file "
		    "finds none of its names",
		    ckpt_why_show(w, dict->name))) {
		struct ckpt_why_steps steps = { .extract = dict->name };

		ckpt_why_fact(w, "'%s' holds %u tensors; the file is a %s",
			      ckpt_why_show(w, dict->name), dict->tensors, w->facts.root_type);
		ckpt_why_python(w, "model.load_state_dict(%s)", ckpt_why_load_dict(w, dict));
		ckpt_why_steps_command(w, &steps);
		ckpt_why_end(w);
	}
	return true;
}

bool ckpt_why_check_module(struct ckpt_why *w, const struct ckpt_match *match)
{
	const struct ckpt_facts *f = &w->facts;

	if (!f->module)
		return false;
	if (ckpt_why_begin(
		    w, "whole_module", match ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_POSSIBLE,
		    "the model was saved whole (torch.save(model)): it loads only where its classes are as "
		    "they were then, and with weights_only=False")) {
		const char *at =
			*f->module ? ckpt_why_print(w, "--at %s ", ckpt_why_quote(w, f->module))
				   : "";

		ckpt_why_fact(w, "%s is a %s",
			      *f->module ? ckpt_why_show(w, f->module) : "the root",
			      f->module_class);
		ckpt_why_command(w, "ckpt convert --state-dict %s%s %s", at, ckpt_why_in(w),
				 ckpt_why_out(w));
		ckpt_why_words(
			w,
			"then make the model in your code, and load_state_dict() what was written");
		ckpt_why_end(w);
	}
	return true;
}
