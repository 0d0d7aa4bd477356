/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains "Missing key(s)" and "Unexpected key(s)": reads both lists from the message, and finds
 * edits that make one of the other (rules.c), another dict of the file that has the missing keys,
 * or what else the lists mean.
 *
 * Lists may be incomplete, as people paste a part of a message. So a key of the file that the
 * message does not list counts as right only if nothing was cut out of the message (add_others()).
 * Explanations are tried from the most particular to the most general; the first that applies is
 * the only one.
 */
#include "why/rules.h"

#include <stdlib.h>
#include <string.h>

/* ---- the names in a message ---- */

/*
 * Reads names in quotes with commas between them, as torch ("a", "b".) and Python's repr()
 * (['a', 'b']) print them. A quote ends a name only if what follows can follow a name, as names may
 * have quotes in them. Returns where reading ended.
 */
static const char *read_names(struct ckpt_why *w, const char *at, struct ckpt_names *names)
{
	while (w->failed == 0) {
		const char *from, *end;
		char quote;

		at += strspn(at, " \t\r\n[{(");
		quote = *at;
		if (quote != '"' && quote != '\'')
			break;
		from = at + 1;
		for (end = strchr(from, quote); end && !strchr(",.]}) \n", end[1]);)
			end = strchr(end + 1, quote);
		if (!end)
			break;
		if (!ckpt_names_add(names, ckpt_why_print(w, "%.*s", (int)(end - from), from)))
			w->failed = CKPT_E_NOMEM;
		at = end + 1;
		at += strspn(at, " \t\r\n");
		if (*at != ',')
			break;
		at++;
	}
	return at;
}

static const struct {
	const char *text; /* in front of the names */
	bool missing;
} headings[] = {
	{ "Missing key(s) in state_dict:", true },
	{ "Unexpected key(s) in state_dict:", false },
	{ "missing_keys=", true },
	{ "unexpected_keys=", false },
	{ "missing keys in source state_dict:", true },
	{ "unexpected key in source state_dict:", false },
	{ "and are newly initialized:", true },
	{ "weights were not initialized from checkpoint:", true }, /* vLLM */
	{ "were not used when initializing ", false },
};

struct lists {
	struct ckpt_names missing, unexpected;
};

static void read_lists(struct ckpt_why *w, struct lists *l)
{
	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++) {
		const char *at = w->error;

		while (w->failed == 0 && (at = strstr(at, headings[i].text))) {
			at += strlen(headings[i].text);
			if (!strncmp(headings[i].text, "were not used", 13))
				at += strcspn(at, ":\n") + 1; /* the name of the class */
			if (at > w->error + w->error_len)
				break;
			at = read_names(w, at, headings[i].missing ? &l->missing : &l->unexpected);
		}
	}
}

/* ---- the names in the file ---- */

static bool add_keys(struct ckpt_why *w, const struct ckpt_why_dict *dict, struct ckpt_names *out)
{
	for (uint32_t i = 0; i + 1 < dict->pairs->count; i += 2) {
		const struct ckpt_value *k = ckpt_model_now(w->facts.model, dict->pairs->items[i]);

		if (k->kind != CKPT_STR && k->kind != CKPT_PY2_STR)
			continue;
		if (!ckpt_names_add(out,
				    ckpt_why_print(w, "%.*s", (int)k->u.bytes.len, k->u.bytes.ptr)))
			return false;
	}
	return w->failed == 0;
}

/* Keys that the message does not mention: the model has them under these names. */
static bool add_others(struct ckpt_why *w, const struct ckpt_why_dict *dict,
		       const struct ckpt_names *unexpected, struct ckpt_names *out)
{
	struct ckpt_names all = { 0 };
	bool cut = strstr(w->error, "...") != NULL; /* not all were pasted */
	bool ok = cut || !dict || add_keys(w, dict, &all);

	for (uint32_t i = 0; ok && i < all.count; i++)
		if (!ckpt_names_have(unexpected, all.items[i]))
			ok = ckpt_names_add(out, all.items[i]);
	ckpt_names_clear(&all);
	return ok;
}

/*
 * Options --drop for the keys UNEXPECTED of DICT that mean them and nothing else; NULL: there are
 * too many. UNDER: where the keys are, "" for the root.
 */
static const char *drop_options(struct ckpt_why *w, const struct ckpt_why_dict *dict,
				const struct ckpt_names *unexpected, const char *under)
{
	enum { MOST_DROPS = 8 };
	struct ckpt_names keep = { 0 }, done = { 0 };
	const char *line = "";
	uint32_t count = 0;
	bool ok = add_others(w, dict, unexpected, &keep);

	for (uint32_t i = 0; ok && i < unexpected->count; i++) {
		const char *key = unexpected->items[i];
		size_t n = strcspn(key, ".");
		bool alone = !key[n];

		for (uint32_t k = 0; k < keep.count; k++)
			alone |= !strncmp(keep.items[k], key, n) &&
				 (keep.items[k][n] == '.' || !keep.items[k][n]);
		key = alone ? key : ckpt_why_print(w, "%.*s", (int)n, key);
		if (ckpt_names_have(&done, key))
			continue;
		ok = ckpt_names_add(&done, key) && ++count <= MOST_DROPS;
		line = ckpt_why_print(w, "%s --drop %s", line,
				      ckpt_why_quote(w,
						     *under ? ckpt_why_print(w, "%s.%s", under, key)
							    : key));
	}
	ckpt_names_clear(&keep);
	ckpt_names_clear(&done);
	return ok && count ? line : NULL;
}

/* ---- edits as a cause ---- */

static bool begin_nested(struct ckpt_why *w, const char *name, enum ckpt_certainty certainty)
{
	return ckpt_why_begin(
		w, "nested", certainty,
		"the weights are under '%s' in the file, and the whole file, or another part of "
		"it, was given to load_state_dict()",
		ckpt_why_show(w, name));
}

/* Do names change? */
static bool rename_keys(const struct ckpt_why_steps *s)
{
	return s->wrappers || s->strip_count || s->inside_count || s->add || s->rename_count;
}

static bool begin_steps(struct ckpt_why *w, const struct ckpt_why_steps *s,
			enum ckpt_certainty certainty)
{
	const char *taken = s->wrappers	      ? s->wrappers
			    : s->strip_count  ? s->strip[0]
			    : s->inside_count ? s->inside[0]
					      : NULL;

	if (taken)
		return ckpt_why_begin(
			w, "prefix", certainty,
			"the names in the file have '%s', which the model's have not: it was saved %s",
			ckpt_why_show(w, taken), ckpt_why_prefix(w, taken, true));
	if (s->add)
		return ckpt_why_begin(
			w, "prefix_wanted", certainty,
			"the model's names begin with '%s', and those in the file do not: the "
			"model is %s",
			ckpt_why_show(w, s->add), ckpt_why_prefix(w, s->add, false));
	return ckpt_why_begin(
		w, "renamed", certainty,
		"the same weights have other names in the model than in the file: its code was "
		"changed since, or is another implementation");
}

static void advise_rest(struct ckpt_why *w, const struct lists *l, uint32_t hits)
{
	if (hits < l->missing.count)
		ckpt_why_words(
			w,
			"%u of the missing keys stay missing then: strict=False passes over them",
			l->missing.count - hits);
}

static bool report_steps(struct ckpt_why *w, const struct lists *l,
			 const struct ckpt_why_dict *dict, const struct ckpt_why_steps *steps,
			 uint32_t hits)
{
	const char *under = "";

	if (!begin_steps(w, steps, dict ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY))
		return true;
	if (dict && *dict->name)
		under = ckpt_why_print(w, " under '%s'", ckpt_why_show(w, dict->name));
	ckpt_why_fact(w, "%s has%s %s", dict ? "the file" : "the message: the checkpoint", under,
		      ckpt_names_show(w, &l->unexpected));
	ckpt_why_fact(w, "the model wants %s", ckpt_names_show(w, &l->missing));
	ckpt_why_steps_command(w, steps);
	advise_rest(w, l, hits);
	ckpt_why_end(w);
	return true;
}

/*
 * What is LEFT has no name in the model, which would not take it: it goes first, unless the message
 * may not be whole, or the model lacks something else.
 */
static void drop_left(struct ckpt_why *w, const struct ckpt_why_dict *dict,
		      const struct ckpt_names *left, struct ckpt_why_steps *steps)
{
	if (left->count && dict && dict->name[0] != '[' && !strstr(w->error, "..."))
		steps->drop = drop_options(w, dict, left, steps->extract ? "" : dict->name);
}

/* ---- explanations ---- */

/* A rename for each single name, of which nothing but the order says that it is the other: no mend. */
static bool is_mere_guess(const struct ckpt_why_steps *steps, uint32_t hits)
{
	for (uint32_t i = 0; i < steps->rename_count; i++)
		if (strncmp(steps->rename[i], "s/^", 3) != 0)
			return false;
	return steps->guessed && steps->rename_count > 1 && hits <= steps->rename_count;
}

/* The edits that make the unexpected keys the missing ones. */
static bool explain_by_renaming(struct ckpt_why *w, const struct lists *l,
				const struct ckpt_why_dict *dict)
{
	struct ckpt_why_steps steps = { 0 };
	struct ckpt_names keep = { 0 }, left = { 0 };
	uint32_t hits = 0, less;
	bool ok = add_others(w, dict, &l->unexpected, &keep) &&
		  ckpt_rules_find(w, &l->missing, &l->unexpected, &keep, &steps, &hits, &left);

	if (ok && hits == l->missing.count)
		drop_left(w, dict, &left, &steps);
	ckpt_names_clear(&left);
	ckpt_names_clear(&keep);
	if (!ok) {
		w->failed = w->failed ? w->failed : CKPT_E_NOMEM;
		return false;
	}
	less = l->missing.count < l->unexpected.count ? l->missing.count : l->unexpected.count;
	if (is_mere_guess(&steps, hits))
		return false;
	return hits && 2 * hits >= less && rename_keys(&steps) &&
	       report_steps(w, l, dict, &steps, hits);
}

/* The missing keys are in another dict of the file, perhaps with a prefix. */
static bool explain_by_other_dict(struct ckpt_why *w, const struct lists *l,
				  const struct ckpt_why_dict *given)
{
	size_t most;
	const struct ckpt_why_dict *dict =
		ckpt_why_dict_with(w, l->missing.items, l->missing.count, &most);
	struct ckpt_names keys = { 0 }, none = { 0 }, left = { 0 };
	struct ckpt_why_steps steps = { 0 };
	uint32_t hits = 0;
	bool ok;

	if (!dict)
		dict = ckpt_why_largest(w);
	ok = dict && add_keys(w, dict, &keys) &&
	     ckpt_rules_find(w, &l->missing, &keys, &none, &steps, &hits, &left);
	if (ok && dict && *dict->name) {
		steps.extract = dict->name;
		if (hits == l->missing.count)
			drop_left(w, dict, &left, &steps);
	}
	ckpt_names_clear(&keys);
	ckpt_names_clear(&left);
	if (!ok || !dict || dict == given || !*dict->name || 2 * hits < l->missing.count)
		return false;
	if (!begin_nested(w, dict->name, CKPT_CAUSE_CERTAIN))
		return true;
	ckpt_why_fact(w, "'%s' holds %u tensors, among them what is missing",
		      ckpt_why_show(w, dict->name), dict->tensors);
	if (!rename_keys(&steps) && !steps.drop)
		ckpt_why_python_load(w, "model.load_state_dict(%s)", ckpt_why_load_dict(w, dict));
	ckpt_why_steps_command(w, &steps);
	advise_rest(w, l, hits);
	ckpt_why_end(w);
	return true;
}

static bool report_missing(struct ckpt_why *w, const struct lists *l,
			   const struct ckpt_why_dict *dict)
{
	bool bare = true;

	for (uint32_t i = 0; i < l->missing.count; i++)
		bare &= strstr(l->missing.items[i], "num_batches_tracked") != NULL;
	if (!ckpt_why_begin(
		    w, "missing_keys", w->facts.model ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
		    bare ? "the file lacks only counters of batch norm, which torch has since 0.4.1 and "
			   "which change no result: the names' versions (_metadata) were lost"
			 : "the model has weights that the file has not, under any name: it was saved from "
			   "a smaller or older model, or only a part of it was saved"))
		return true;
	ckpt_why_fact(w, "missing: %s", ckpt_names_show(w, &l->missing));
	ckpt_why_python_load(w, "model.load_state_dict(%s, strict=False)", ckpt_why_load_dict(w, dict));
	if (!bare)
		ckpt_why_words(
			w,
			"what is missing keeps the values that the model was made with: train it, or "
			"take another checkpoint");
	ckpt_why_end(w);
	return true;
}

static bool report_unexpected(struct ckpt_why *w, const struct lists *l,
			      const struct ckpt_why_dict *dict)
{
	const char *line;

	if (!ckpt_why_begin(
		    w, "unexpected_keys", dict ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
		    "the file has entries that the model has not, and all that the model wants is there: "
		    "it was saved from a larger model, or by another version of the library"))
		return true;
	ckpt_why_fact(w, "too many: %s", ckpt_names_show(w, &l->unexpected));
	ckpt_why_python_load(w, "model.load_state_dict(%s, strict=False)", ckpt_why_load_dict(w, dict));
	line = dict && dict->name[0] != '[' ? drop_options(w, dict, &l->unexpected, dict->name)
					    : NULL;
	if (line)
		ckpt_why_command(w, "ckpt select%s %s %s", line, ckpt_why_in(w), ckpt_why_out(w));
	ckpt_why_end(w);
	return true;
}

static bool report_other_model(struct ckpt_why *w, const struct lists *l, bool in_file)
{
	if (!ckpt_why_begin(
		    w, "other_model", in_file ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
		    "the names in the file and those of the model have no rule that makes one of the "
		    "other: it is another model, or another version of its code"))
		return true;
	ckpt_why_fact(w, "the file has %s", ckpt_names_show(w, &l->unexpected));
	ckpt_why_fact(w, "the model wants %s", ckpt_names_show(w, &l->missing));
	if (w->facts.path)
		ckpt_why_words(w, "'ckpt ls %s' lists the names in the file", ckpt_why_in(w));
	ckpt_why_words(
		w,
		"make the model with the configuration that it was saved with, or rename by hand: "
		"'ckpt rename -e s/OLD/NEW/ IN OUT'");
	ckpt_why_end(w);
	return true;
}

/* An optimizer's state dict was given to a module. */
static bool report_optimizer(struct ckpt_why *w, const struct lists *l)
{
	if (!ckpt_names_have(&l->unexpected, "param_groups") ||
	    !ckpt_names_have(&l->unexpected, "state"))
		return false;
	if (ckpt_why_begin(w, "optimizer_given",
			   w->facts.optimizer ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
			   "what was given to the model is an optimizer's state, not weights")) {
		if (w->facts.optimizer)
			ckpt_why_fact(
				w,
				*w->facts.optimizer
					? "'%s' in the file is one%s"
					: "%sthe whole file is one: the weights are elsewhere%s",
				w->facts.optimizer, "");
		ckpt_why_words(w, "take the model's file, or its entry of this file");
		ckpt_why_end(w);
	}
	return true;
}

/* Are most of them names of an adapter? */
static bool are_of_adapter(const struct ckpt_names *names)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < names->count; i++)
		count += ckpt_why_is_adapter_name(names->items[i], strlen(names->items[i]));
	return count && count >= names->count - count;
}

bool ckpt_why_adapter_given(struct ckpt_why *w)
{
	struct lists l = { 0 };
	uint64_t of_adapter = 0, keys = 0;
	bool given;

	read_lists(w, &l);
	given = w->facts.model ? ckpt_why_is_adapter(w, &of_adapter, &keys) : are_of_adapter(&l.unexpected);
	given = given && !are_of_adapter(&l.missing);
	ckpt_names_clear(&l.missing);
	ckpt_names_clear(&l.unexpected);
	return given;
}

/*
 * Are the keys of one side alone mostly parts of quantized weights? Then no edit of names brings them
 * together. If both sides have some, a prefix may.
 */
static const struct ckpt_names *find_quantized_side(const struct lists *l)
{
	const struct ckpt_names *sides[] = { &l->missing, &l->unexpected };
	uint32_t counts[2] = { 0 };

	for (int s = 0; s < 2; s++)
		for (uint32_t i = 0; i < sides[s]->count; i++)
			counts[s] += ckpt_why_is_quant_part(sides[s]->items[i]);
	for (int s = 0; s < 2; s++)
		if (counts[s] && !counts[!s] && counts[s] >= sides[s]->count - counts[s])
			return sides[s];
	return NULL;
}

static bool explain_by_quantization(struct ckpt_why *w, const struct lists *l)
{
	const struct ckpt_names *side = find_quantized_side(l);

	return side && ckpt_why_explain_quant_names(w, side->items, side->count);
}

bool ckpt_why_explain_keys(struct ckpt_why *w, const struct ckpt_match *match)
{
	struct lists l = { 0 };
	const struct ckpt_why_dict *dict;
	size_t hits;
	bool reported = false;

	if (ckpt_why_adapter_given(w)) /* no edit of names makes a model of it */
		return ckpt_why_check_adapter(w, match);
	if (ckpt_why_is_zero_part(w)) /* nor gives them the numbers that they lack */
		return ckpt_why_check_zero_part(w, match);
	read_lists(w, &l);
	dict = ckpt_why_dict_with(w, l.unexpected.items, l.unexpected.count, &hits);
	reported = explain_by_quantization(w, &l);
	if (!reported && l.missing.count && l.unexpected.count)
		reported = explain_by_renaming(w, &l, dict);
	if (!reported && l.missing.count)
		reported = explain_by_other_dict(w, &l, dict);
	if (!reported)
		reported = report_optimizer(w, &l);
	if (!reported && l.missing.count && l.unexpected.count)
		reported = report_other_model(w, &l, dict != NULL);
	if (!reported && l.missing.count)
		reported = report_missing(w, &l, ckpt_why_largest(w));
	if (!reported && l.unexpected.count)
		reported = report_unexpected(w, &l, dict);
	ckpt_names_clear(&l.missing);
	ckpt_names_clear(&l.unexpected);
	return reported;
}
