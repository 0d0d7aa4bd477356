/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causes that are in the names of weights and in what they are in: prefixes of wrappers, weights
 * that are an entry of a larger dict, a module that was saved whole.
 *
 * Only the dict with the most tensors is checked, as that is what people load.
 *
 * What must stay true: a cause has one command, and a plain model takes what it writes. Edits that
 * need each other are one command, never two of which each leaves half.
 */
#include "why/why.h"

#include "model/module_wrappers.h"
#include "model/state_dict.h"

#include <ckpt/edit.h>

#include <inttypes.h>
#include <string.h>

/* What the names of one dict begin with and have inside. */
struct name_counts {
	uint64_t keys, with[CKPT_MODULE_WRAPPERS];
	unsigned front, inside; /* sets of wrappers */
	bool again, own;	/* as in struct ckpt_wrapper_marks */
	uint64_t in_model;	/* begin with "model.", behind wrappers */
	const char *first;	/* what the first name begins with there, with its dot; NULL */
	size_t first_len;
	uint64_t with_first;
};

static void count_name(struct name_counts *c, const char *name, size_t len)
{
	struct ckpt_wrapper_marks marks;
	const char *dot;
	size_t rest;

	ckpt_wrapper_marks_of(name, len, &marks);
	for (int i = 0; i < CKPT_MODULE_WRAPPERS; i++)
		c->with[i] += (marks.front | marks.inside) >> i & 1;
	c->front |= marks.front;
	c->inside |= marks.inside;
	c->again |= marks.again;
	c->own |= marks.own;
	name += marks.front_len;
	rest = len - marks.front_len;
	c->in_model += rest >= 6 && !memcmp(name, "model.", 6);
	dot = memchr(name, '.', rest);
	if (!c->keys++ && dot && dot > name) {
		c->first = name;
		c->first_len = (size_t)(dot - name) + 1;
	}
	c->with_first += c->first && rest >= c->first_len && !memcmp(name, c->first, c->first_len);
}

static void count_names(const struct ckpt_why *w, const struct ckpt_why_dict *dict,
			struct name_counts *c)
{
	*c = (struct name_counts){ 0 };
	for (uint32_t i = 0; i + 1 < dict->pairs->count; i += 2) {
		const struct ckpt_value *k = ckpt_model_now(w->facts.model, dict->pairs->items[i]);

		if (k->kind == CKPT_STR || k->kind == CKPT_PY2_STR)
			count_name(c, k->u.bytes.ptr, (size_t)k->u.bytes.len);
	}
}

/* ---- the edits ---- */

/* All wrappers go, but a "module." that stands alone inside of a name stays. */
static void strip_by_renaming(struct ckpt_why *w, const struct name_counts *c,
			      struct ckpt_why_steps *steps)
{
	const char *any = "", *others = "";

	for (int i = 0; i < CKPT_MODULE_WRAPPERS; i++) {
		const char *prefix = ckpt_module_wrappers[i].prefix;
		int len = (int)strlen(prefix) - 1;

		if (!((c->front | c->inside) & 1U << i))
			continue;
		any = ckpt_why_print(w, "%s%s%.*s", any, *any ? "|" : "", len, prefix);
		if (strcmp(prefix, "module.") != 0)
			others = ckpt_why_print(w, "%s%s%.*s", others, *others ? "|" : "", len,
						prefix);
	}
	if (c->front)
		steps->rename[steps->rename_count++] = ckpt_why_print(w, "s/^((%s)\\.)+//", any);
	if (c->inside)
		steps->rename[steps->rename_count++] =
			ckpt_why_print(w, "s/\\.(module\\.)*(%s)\\.((%s)\\.)*/./g", others, any);
}

/* One edit where one does it: what is left of the wrappers would keep the model from loading. */
static void strip_wrappers(struct ckpt_why *w, const struct name_counts *c,
			   struct ckpt_why_steps *steps)
{
	unsigned all = c->front | c->inside;
	bool one = !(all & (all - 1));
	const char *prefix = NULL;

	if (!all)
		return;
	for (int i = 0; i < CKPT_MODULE_WRAPPERS && !prefix; i++)
		if (all & 1U << i)
			prefix = ckpt_module_wrappers[i].prefix;
	if (one && !c->inside && !c->again)
		steps->strip[steps->strip_count++] = prefix;
	else if (one && strcmp(prefix, "module.") != 0 && !steps->extract)
		steps->inside[steps->inside_count++] = prefix;
	else if (!c->own)
		steps->wrappers = prefix;
	else
		strip_by_renaming(w, c, steps);
}

/*
 * The attribute that holds the model, with which names of a file of Lightning begin, behind those of
 * wrappers; NULL: it is no such file, or no attribute is sure to be the model.
 */
static const char *attribute_of(struct ckpt_why *w, const struct ckpt_why_dict *dict,
				const struct name_counts *c)
{
	const struct ckpt_model *model = w->facts.model;
	bool lightning = ckpt_mapping_find(model, ckpt_model_now(model, model->root),
					   "pytorch-lightning_version") != NULL;

	if (strcmp(dict->name, "state_dict") != 0 || !c->keys)
		return NULL;
	if (c->in_model == c->keys || (lightning && c->in_model))
		return "model.";
	if (lightning && c->with_first == c->keys)
		return ckpt_why_print(w, "%.*s", (int)c->first_len, c->first);
	return NULL;
}

/* The edits after which a plain model takes what was in DICT. Returns the attribute, or NULL. */
static const char *make_steps(struct ckpt_why *w, const struct ckpt_why_dict *dict,
			      const struct name_counts *c, bool nested,
			      struct ckpt_why_steps *steps)
{
	const char *attribute = nested ? attribute_of(w, dict, c) : NULL;

	*steps = (struct ckpt_why_steps){ .extract = nested ? dict->name : NULL };
	strip_wrappers(w, c, steps);
	if (!attribute || steps->rename_count)
		return NULL; /* names that an expression changes come last */
	if (c->in_model && c->in_model < c->keys && !strcmp(attribute, "model.")) {
		steps->keep = "model.*";
		if (steps->strip_count) /* it has to go before the pattern */
			steps->wrappers = steps->strip[0];
		steps->strip_count = 0;
	}
	steps->strip[steps->strip_count++] = attribute;
	return attribute;
}

/*
 * Would two names become one? Then the command would fail, and *TEXT says which. This makes the
 * edits, which read no bytes of tensors.
 */
static bool would_clash(struct ckpt_why *w, const struct ckpt_why_steps *steps, const char **text)
{
	struct ckpt_key_options anywhere = CKPT_KEY_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *made[3] = { NULL };
	const struct ckpt_model *model = w->facts.model;
	int rc = 0;

	anywhere.flags = CKPT_KEY_ANYWHERE;
	if (steps->extract)
		rc = ckpt_extract(model, steps->extract, &made[0], NULL, &err);
	model = made[0] ? made[0] : model;
	if (rc == 0 && steps->wrappers)
		rc = ckpt_strip_wrappers(model, NULL, &made[1], NULL, &err);
	else if (rc == 0 && steps->inside_count)
		rc = ckpt_strip_prefix(model, steps->inside[0], &anywhere, &made[1], NULL, &err);
	else if (rc == 0 && steps->strip_count && !steps->keep)
		rc = ckpt_strip_prefix(model, steps->strip[0], NULL, &made[1], NULL, &err);
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		ckpt_close(made[i]);
	if (rc == CKPT_E_NOMEM)
		w->failed = rc;
	if (rc != CKPT_E_CLASH)
		return false;
	*text = ckpt_why_print(w, "%s", err.text);
	return true;
}

static void advise_steps(struct ckpt_why *w, const struct ckpt_why_steps *steps)
{
	const char *text;

	if (would_clash(w, steps, &text))
		ckpt_why_words(
			w,
			"no edit makes the names plain: %s; 'ckpt select --drop NAME' leaves one "
			"of them out first",
			text);
	else
		ckpt_why_steps_command(w, steps);
}

/* ---- the causes ---- */

static bool is_nested(const struct ckpt_why *w, const struct ckpt_why_dict *dict)
{
	return *dict->name && w->facts.root_is_mapping && ckpt_why_has_plain_name(dict);
}

static void add_nested_facts(struct ckpt_why *w, const struct ckpt_why_dict *dict,
			     const struct name_counts *c, const char *attribute)
{
	const char *name = ckpt_why_show(w, dict->name);

	ckpt_why_fact(w, "'%s' holds %u tensors; the file is a %s", name, dict->tensors,
		      w->facts.root_type);
	if (attribute)
		ckpt_why_fact(
			w,
			"'%s' in front of %" PRIu64 " of %" PRIu64
			" keys of '%s': the attribute of a LightningModule that holds the model",
			ckpt_why_show(w, attribute),
			strcmp(attribute, "model.") ? c->with_first : c->in_model, c->keys, name);
}

bool ckpt_why_check_wrapped(struct ckpt_why *w, const struct ckpt_match *match)
{
	const struct ckpt_why_dict *dict = ckpt_why_largest(w);
	struct ckpt_why_steps steps;
	struct name_counts c;
	const char *attribute;
	unsigned all;
	bool nested;
	int first = 0;

	if (!dict || ckpt_why_is_zero_part(w))
		return false;
	count_names(w, dict, &c);
	all = c.front | c.inside;
	if (!all)
		return false;
	while (!(all & 1U << first))
		first++;
	nested =
		is_nested(w, dict) && !w->facts.folder; /* DCP loads entries by their whole names */
	if (!ckpt_why_begin(
		    w, "prefix", match ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_POSSIBLE,
		    "'%s' is in the names of the weights: the model was saved from inside of %s, and a "
		    "plain model has no such names (Missing key(s), Unexpected key(s))",
		    ckpt_module_wrappers[first].prefix, ckpt_module_wrappers[first].who))
		return true;
	attribute = make_steps(w, dict, &c, nested, &steps);
	for (int i = 0; i < CKPT_MODULE_WRAPPERS; i++)
		if (c.with[i])
			ckpt_why_fact(w, "'%s' on %" PRIu64 " of %" PRIu64 " keys%s%s%s",
				      ckpt_module_wrappers[i].prefix, c.with[i], c.keys,
				      *dict->name ? " of '" : "",
				      *dict->name ? ckpt_why_show(w, dict->name) : "",
				      *dict->name ? "'" : "");
	if (nested)
		add_nested_facts(w, dict, &c, attribute);
	advise_steps(w, &steps);
	if (nested)
		ckpt_why_words(w,
			       "without --extract it stays a file of the trainer, of which "
			       "load_state_dict() takes [%s]",
			       ckpt_why_python_text(w, dict->name));
	ckpt_why_end(w);
	return true;
}

bool ckpt_why_check_nested(struct ckpt_why *w, const struct ckpt_match *match)
{
	const struct ckpt_why_dict *dict = ckpt_why_largest(w);
	struct ckpt_why_steps steps;
	struct name_counts c;
	const char *attribute;

	if (!dict || !is_nested(w, dict) || ckpt_why_is_zero_part(w))
		return false;
	count_names(w, dict, &c);
	if (!match && !w->facts.folder && (c.front | c.inside))
		return true; /* reported with the wrappers, in one command */
	if (!ckpt_why_begin(
		    w, "nested", match ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_POSSIBLE,
		    "the weights are under '%s', beside other things: load_state_dict() of the whole file "
		    "finds none of its names",
		    ckpt_why_show(w, dict->name)))
		return true;
	attribute = make_steps(w, dict, &c, true, &steps);
	add_nested_facts(w, dict, &c, attribute);
	if (w->facts.folder) /* one file, which torch.load takes */
		ckpt_why_one_file(w);
	else if (!attribute && !(c.front | c.inside))
		ckpt_why_python_load(w, "model.load_state_dict(%s)", ckpt_why_load_dict(w, dict));
	advise_steps(w, &steps);
	if (attribute)
		ckpt_why_words(w, "the LightningModule itself takes the file as it is: "
				  "load_from_checkpoint()");
	ckpt_why_end(w);
	return true;
}

/*
 * Words in the names of adapters: those of PEFT and diffusers (lora_A), of Kohya's and of older
 * diffusers (lora_down, lora.down).
 */
bool ckpt_why_is_adapter_name(const char *name, size_t len)
{
	static const char *const words[] = { ".lora_A.", ".lora_B.", ".lora_embedding_A", ".lora_embedding_B",
					     ".lora_down.", ".lora_up.", ".lora.down.", ".lora.up.", ".lora_magnitude_vector" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (memmem(name, len, words[i], strlen(words[i])))
			return true;
	return false;
}

bool ckpt_why_is_adapter(struct ckpt_why *w, uint64_t *of_adapter, uint64_t *keys)
{
	const struct ckpt_why_dict *dict = ckpt_why_largest(w);

	*keys = *of_adapter = 0;
	for (uint32_t i = 0; dict && i + 1 < dict->pairs->count; i += 2) {
		const struct ckpt_value *k = ckpt_model_now(w->facts.model, dict->pairs->items[i]);

		if (k->kind != CKPT_STR && k->kind != CKPT_PY2_STR)
			continue;
		++*keys;
		*of_adapter += ckpt_why_is_adapter_name(k->u.bytes.ptr, (size_t)k->u.bytes.len);
	}
	return *of_adapter && *of_adapter >= *keys - *of_adapter;
}

bool ckpt_why_check_adapter(struct ckpt_why *w, const struct ckpt_match *match)
{
	uint64_t keys, of_adapter;

	if (!ckpt_why_is_adapter(w, &of_adapter, &keys) && !(match && !w->facts.model))
		return false;
	if (!ckpt_why_begin(w, "adapter",
			    !match	     ? CKPT_CAUSE_POSSIBLE
			    : w->facts.model ? CKPT_CAUSE_CERTAIN
					     : CKPT_CAUSE_LIKELY,
			    "these are the weights of an adapter (LoRA), which is added to a model: the model itself has no such "
			    "names, and is in another file"))
		return true;
	if (keys)
		ckpt_why_fact(w, "%" PRIu64 " of %" PRIu64 " keys have the names of an adapter", of_adapter, keys);
	ckpt_why_words(w, "in Python, PEFT adds it to its base: PeftModel.from_pretrained(base, 'DIR').merge_and_unload(); "
			  "diffusers: load_lora_weights()");
	ckpt_why_end(w);
	return true;
}

bool ckpt_why_find_plain(struct ckpt_why *w, struct ckpt_plain_model *plain)
{
	const struct ckpt_why_dict *dict = ckpt_why_largest(w);
	struct ckpt_why_steps steps;
	struct name_counts c;
	const char *attribute, *text;
	bool nested = dict && is_nested(w, dict);

	if (!dict || (*dict->name && !nested))
		return false;
	count_names(w, dict, &c);
	attribute = make_steps(w, dict, &c, nested, &steps);
	if (would_clash(w, &steps, &text))
		return false;
	plain->name = ckpt_why_show(w, dict->name);
	plain->attribute = attribute ? ckpt_why_show(w, attribute) : NULL;
	plain->options = ckpt_why_steps_options(w, &steps);
	plain->options += *plain->options == ' ';
	plain->nested = nested;
	plain->wrapped = (c.front | c.inside) != 0;
	plain->all_wrappers = steps.wrappers != NULL;
	return w->failed == 0;
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
