/* SPDX-License-Identifier: Apache-2.0 */
#include "why/rules.h"

#include <stdlib.h>
#include <string.h>

/* ---- the names in a message ---- */

/*
 * Names in quotes with commas between them, as torch ("a", "b".) and Python's repr() (['a', 'b']) print them. A quote ends a name
 * if what follows can only follow a name.
 */
static const char *take_names(struct ckpt_why *w, const char *at, struct ckpt_names *names)
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
	const char *before; /* the names */
	bool missing;
} announcements[] = {
	{ "Missing key(s) in state_dict:", true },
	{ "Unexpected key(s) in state_dict:", false },
	{ "missing_keys=", true },
	{ "unexpected_keys=", false },
	{ "missing keys in source state_dict:", true },
	{ "unexpected key in source state_dict:", false },
	{ "and are newly initialized:", true },
	{ "were not used when initializing ", false },
};

struct lists {
	struct ckpt_names missing, unexpected;
};

static void read_lists(struct ckpt_why *w, struct lists *l)
{
	for (size_t i = 0; i < sizeof(announcements) / sizeof(announcements[0]); i++) {
		const char *at = w->error;

		while (w->failed == 0 && (at = strstr(at, announcements[i].before))) {
			at += strlen(announcements[i].before);
			if (!strncmp(announcements[i].before, "were not used", 13))
				at += strcspn(at, ":\n") + 1; /* the name of the class */
			if (at > w->error + w->error_len)
				break;
			at = take_names(w, at,
					announcements[i].missing ? &l->missing : &l->unexpected);
		}
	}
}

static void clear_lists(struct lists *l)
{
	ckpt_names_clear(&l->missing);
	ckpt_names_clear(&l->unexpected);
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

/* ---- telling ---- */

static const char *some(struct ckpt_why *w, const struct ckpt_names *names)
{
	const char *text = "";

	for (uint32_t i = 0; i < names->count && i < 3; i++)
		text = ckpt_why_print(w, "%s%s'%s'", text, i ? ", " : "",
				      ckpt_why_show(w, names->items[i]));
	return names->count > 3 ? ckpt_why_print(w, "%s and %u more", text, names->count - 3)
				: text;
}

static const char *where(struct ckpt_why *w, const struct ckpt_why_dict *dict)
{
	return *dict->name ? ckpt_why_print(w, " under '%s'", ckpt_why_show(w, dict->name)) : "";
}

static const char *loaded(struct ckpt_why *w, const struct ckpt_why_dict *dict)
{
	if (!dict || !*dict->name || dict->name[0] == '[' || strchr(dict->name, '.'))
		return ckpt_why_load(w, "");
	return ckpt_why_print(w, "%s[%s]", ckpt_why_load(w, ""),
			      ckpt_why_python_text(w, dict->name));
}

static const char *why_prefix(const char *prefix, bool strip)
{
	static const struct {
		const char *prefix, *saved, *wanted;
	} known[] = {
		{ "module.", "saved from inside of DistributedDataParallel or DataParallel",
		  "wrapped into DistributedDataParallel or DataParallel" },
		{ "_orig_mod.", "saved after torch.compile", "compiled by torch.compile" },
		{ "_forward_module.", "saved from inside of a wrapper of Lightning",
		  "wrapped by Lightning" },
		{ "_fsdp_wrapped_module.", "saved from inside of FSDP", "wrapped into FSDP" },
		{ "_checkpoint_wrapped_module.", "saved with activation checkpointing",
		  "wrapped for activation checkpointing" },
		{ "model.",
		  "saved as a part of another module, as LightningModules have it in 'model'",
		  "a part of another module, as LightningModules have it in 'model'" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(prefix, known[i].prefix))
			return strip ? known[i].saved : known[i].wanted;
	return strip ? "saved as a part of another module" : "a part of another module";
}

static bool begin_steps(struct ckpt_why *w, const struct ckpt_why_steps *s,
			enum ckpt_certainty certainty)
{
	const char *taken = s->strip_count ? s->strip[0] : s->inside_count ? s->inside[0] : NULL;

	if (taken)
		return ckpt_why_begin(
			w, "prefix", certainty,
			"the names in the file have '%s', which the model's have not: it was %s",
			ckpt_why_show(w, taken), why_prefix(taken, true));
	if (s->add)
		return ckpt_why_begin(
			w, "prefix_wanted", certainty,
			"the model's names begin with '%s', and those in the file do not: the "
			"model is %s",
			ckpt_why_show(w, s->add), why_prefix(s->add, false));
	if (s->rename_count)
		return ckpt_why_begin(
			w, "renamed", certainty,
			"the same weights have other names in the model than in the file: its code "
			"was changed since, or is another implementation");
	return ckpt_why_begin(
		w, "nested", certainty,
		"the weights are under '%s' in the file, and the whole file, or another part of "
		"it, was given to load_state_dict()",
		ckpt_why_show(w, s->extract));
}

static void tell_rest(struct ckpt_why *w, const struct lists *l, uint32_t hits)
{
	if (hits < l->missing.count)
		ckpt_why_words(
			w,
			"%u of the missing keys stay missing then: strict=False passes over them",
			l->missing.count - hits);
}

static bool tell_steps(struct ckpt_why *w, const struct lists *l, const struct ckpt_why_dict *dict,
		       const struct ckpt_why_steps *steps, uint32_t hits)
{
	bool nested = steps->extract && !steps->strip_count && !steps->inside_count &&
		      !steps->add && !steps->rename_count;

	if (!begin_steps(w, steps, dict ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY))
		return true;
	ckpt_why_fact(w, "%s has%s %s", dict ? "the file" : "the message: the checkpoint",
		      dict ? where(w, dict) : "", some(w, &l->unexpected));
	ckpt_why_fact(w, "the model wants %s", some(w, &l->missing));
	if (nested)
		ckpt_why_python(w, "model.load_state_dict(%s)", loaded(w, dict));
	ckpt_why_steps_command(w, steps);
	tell_rest(w, l, hits);
	ckpt_why_end(w);
	return true;
}

/* ---- what it can be ---- */

/* The edits that make the unexpected keys the missing ones. */
static bool find_renaming(struct ckpt_why *w, const struct lists *l,
			  const struct ckpt_why_dict *dict)
{
	struct ckpt_why_steps steps = { 0 };
	struct ckpt_names keep = { 0 };
	uint32_t hits = 0, less;
	bool ok = add_others(w, dict, &l->unexpected, &keep) &&
		  ckpt_rules_find(w, &l->missing, &l->unexpected, &keep, &steps, &hits);

	ckpt_names_clear(&keep);
	if (!ok) {
		w->failed = w->failed ? w->failed : CKPT_E_NOMEM;
		return false;
	}
	less = l->missing.count < l->unexpected.count ? l->missing.count : l->unexpected.count;
	return hits && 2 * hits >= less && tell_steps(w, l, dict, &steps, hits);
}

/* The missing keys are in another dict of the file, perhaps with a prefix. */
static bool find_elsewhere(struct ckpt_why *w, const struct lists *l,
			   const struct ckpt_why_dict *given)
{
	size_t most;
	const struct ckpt_why_dict *dict =
		ckpt_why_dict_with(w, l->missing.items, l->missing.count, &most);
	struct ckpt_names keys = { 0 }, none = { 0 };
	struct ckpt_why_steps steps = { 0 };
	uint32_t hits = (uint32_t)most;
	bool ok = true;

	if (!dict) {
		dict = ckpt_why_largest(w);
		ok = dict && add_keys(w, dict, &keys) &&
		     ckpt_rules_find(w, &l->missing, &keys, &none, &steps, &hits);
	}
	ckpt_names_clear(&keys);
	if (!ok || !dict || dict == given || !*dict->name || 2 * hits < l->missing.count)
		return false;
	steps.extract = dict->name;
	if (!ckpt_why_begin(
		    w, "nested", CKPT_CAUSE_CERTAIN,
		    "the weights are under '%s' in the file, and the whole file, or another part of it, "
		    "was given to load_state_dict()",
		    ckpt_why_show(w, dict->name)))
		return true;
	ckpt_why_fact(w, "'%s' holds %u tensors, among them what is missing",
		      ckpt_why_show(w, dict->name), dict->tensors);
	if (!steps.strip_count && !steps.inside_count && !steps.add && !steps.rename_count)
		ckpt_why_python(w, "model.load_state_dict(%s)", loaded(w, dict));
	ckpt_why_steps_command(w, &steps);
	tell_rest(w, l, hits);
	ckpt_why_end(w);
	return true;
}

static bool tell_missing(struct ckpt_why *w, const struct lists *l,
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
	ckpt_why_fact(w, "missing: %s", some(w, &l->missing));
	ckpt_why_python(w, "model.load_state_dict(%s, strict=False)", loaded(w, dict));
	if (!bare)
		ckpt_why_words(
			w,
			"what is missing keeps the values that the model was made with: train it, or "
			"take another checkpoint");
	ckpt_why_end(w);
	return true;
}

/* Patterns for --drop that mean the unexpected keys and nothing else. */
static const char *drops(struct ckpt_why *w, const struct lists *l,
			 const struct ckpt_why_dict *dict)
{
	enum { MOST_DROPS = 8 };
	struct ckpt_names keep = { 0 }, done = { 0 };
	const char *line = "";
	uint32_t count = 0;
	bool ok = add_others(w, dict, &l->unexpected, &keep);

	for (uint32_t i = 0; ok && i < l->unexpected.count; i++) {
		const char *key = l->unexpected.items[i];
		size_t n = strcspn(key, ".");
		bool alone = !key[n];

		for (uint32_t k = 0; k < keep.count; k++)
			alone |= !strncmp(keep.items[k], key, n) &&
				 (keep.items[k][n] == '.' || !keep.items[k][n]);
		key = alone ? key : ckpt_why_print(w, "%.*s", (int)n, key);
		if (ckpt_names_have(&done, key))
			continue;
		ok = ckpt_names_add(&done, key) && ++count <= MOST_DROPS;
		line = ckpt_why_print(
			w, "%s --drop %s", line,
			ckpt_why_quote(w, *dict->name ? ckpt_why_print(w, "%s.%s", dict->name, key)
						      : key));
	}
	ckpt_names_clear(&keep);
	ckpt_names_clear(&done);
	return ok && count ? line : NULL;
}

static bool tell_unexpected(struct ckpt_why *w, const struct lists *l,
			    const struct ckpt_why_dict *dict)
{
	const char *line;

	if (!ckpt_why_begin(
		    w, "unexpected_keys", dict ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
		    "the file has entries that the model has not, and all that the model wants is there: "
		    "it was saved from a larger model, or by another version of the library"))
		return true;
	ckpt_why_fact(w, "too many: %s", some(w, &l->unexpected));
	ckpt_why_python(w, "model.load_state_dict(%s, strict=False)", loaded(w, dict));
	line = dict && dict->name[0] != '[' ? drops(w, l, dict) : NULL;
	if (line)
		ckpt_why_command(w, "ckpt select%s %s %s", line, ckpt_why_in(w), ckpt_why_out(w));
	ckpt_why_end(w);
	return true;
}

static bool tell_other_model(struct ckpt_why *w, const struct lists *l, bool in_file)
{
	if (!ckpt_why_begin(
		    w, "other_model", in_file ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
		    "the names in the file and those of the model have no rule that makes one of the "
		    "other: it is another model, or another version of its code"))
		return true;
	ckpt_why_fact(w, "the file has %s", some(w, &l->unexpected));
	ckpt_why_fact(w, "the model wants %s", some(w, &l->missing));
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
static bool tell_optimizer(struct ckpt_why *w, const struct lists *l)
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

bool ckpt_said_keys(struct ckpt_why *w, const struct ckpt_said *said)
{
	struct lists l = { 0 };
	const struct ckpt_why_dict *dict;
	size_t hits;
	bool told = false;

	(void)said;
	read_lists(w, &l);
	dict = ckpt_why_dict_with(w, l.unexpected.items, l.unexpected.count, &hits);
	if (l.missing.count && l.unexpected.count)
		told = find_renaming(w, &l, dict);
	if (!told && l.missing.count)
		told = find_elsewhere(w, &l, dict);
	if (!told)
		told = tell_optimizer(w, &l);
	if (!told && l.missing.count && l.unexpected.count)
		told = tell_other_model(w, &l, dict != NULL);
	if (!told && l.missing.count)
		told = tell_missing(w, &l, ckpt_why_largest(w));
	if (!told && l.unexpected.count)
		told = tell_unexpected(w, &l, dict);
	clear_lists(&l);
	return told;
}

/* ---- DCP: the first key that is missing, by its whole path ---- */

static bool add_tensor_names(struct ckpt_why *w, struct ckpt_names *out)
{
	uint64_t count = ckpt_tensor_count(w->facts.model);

	for (uint64_t i = 0; i < count; i++) {
		struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;

		if (ckpt_tensor_get(w->facts.model, i, &info) == 0 &&
		    !ckpt_names_add(out, info.name))
			return false;
	}
	return true;
}

/* KEY without component NUMBER; NULL: it has none. */
static const char *without(struct ckpt_why *w, const char *key, int number, const char **taken)
{
	const char *at = key;
	size_t n;

	while (number-- && (at = strchr(at, '.')))
		at++;
	if (!at)
		return NULL;
	n = strcspn(at, ".");
	if (!at[n])
		return NULL; /* the last one is what it is about */
	*taken = ckpt_why_print(w, "%.*s.", (int)n, at);
	return ckpt_why_print(w, "%.*s%s", (int)(at - key), key, at + n + 1);
}

/* Is NAME the KEY with one component more? *AT: where that begins; it is *LEN long with its dot. */
static bool is_longer_by_one(const char *name, const char *key, size_t *at, size_t *len)
{
	size_t ln = strlen(name), lk = strlen(key);

	if (ln <= lk)
		return false;
	for (*at = 0, *len = ln - lk; *at + *len < ln; *at += strcspn(name + *at, ".") + 1)
		if (strcspn(name + *at, ".") == *len - 1 && !memcmp(name, key, *at) &&
		    !memcmp(name + *at + *len, key + *at, lk - *at))
			return true;
	return false;
}

/* A name in the file that is KEY with one component more. */
static const char *with_one_more(struct ckpt_why *w, const struct ckpt_names *names,
				 const char *key, const char **more, bool *front)
{
	size_t at, len;

	for (uint32_t i = 0; i < names->count; i++) {
		if (!is_longer_by_one(names->items[i], key, &at, &len))
			continue;
		*more = ckpt_why_print(w, "%.*s", (int)len, names->items[i] + at);
		*front = !at;
		return names->items[i];
	}
	return NULL;
}

static bool tell_dcp_more(struct ckpt_why *w, const char *key, const char *name, const char *more,
			  bool front)
{
	if (ckpt_why_begin(
		    w, "prefix", CKPT_CAUSE_CERTAIN,
		    "the names in the directory have '%s', which those that are asked for have not: it was "
		    "%s",
		    ckpt_why_show(w, more), why_prefix(more, true))) {
		ckpt_why_fact(w, "there is '%s', asked for is '%s'", ckpt_why_show(w, name),
			      ckpt_why_show(w, key));
		if (front)
			ckpt_why_command(w, "ckpt extract %s %s %s",
					 ckpt_why_quote(w, ckpt_why_print(w, "%.*s",
									  (int)strlen(more) - 1,
									  more)),
					 ckpt_why_in(w), ckpt_why_out(w));
		else
			ckpt_why_command(w, "ckpt strip-prefix --anywhere %s %s %s",
					 ckpt_why_quote(w, more), ckpt_why_in(w), ckpt_why_out(w));
		ckpt_why_end(w);
	}
	return true;
}

static bool tell_dcp_less(struct ckpt_why *w, const char *key, const char *name, const char *taken)
{
	if (ckpt_why_begin(
		    w, "prefix_wanted", CKPT_CAUSE_CERTAIN,
		    "the names that are asked for have '%s', and those in the directory have not: what loads "
		    "it is %s",
		    ckpt_why_show(w, taken), why_prefix(taken, false))) {
		ckpt_why_fact(w, "there is '%s', asked for is '%s'", ckpt_why_show(w, name),
			      ckpt_why_show(w, key));
		ckpt_why_command(w, "ckpt add-prefix %s %s %s", ckpt_why_quote(w, taken),
				 ckpt_why_in(w), ckpt_why_out(w));
		ckpt_why_end(w);
	}
	return true;
}

bool ckpt_said_dcp_key(struct ckpt_why *w, const struct ckpt_said *said)
{
	struct ckpt_names names = { 0 };
	const char *key = said->part[0], *name, *part = NULL;
	bool told = false, front = false;

	if (!w->facts.model || !add_tensor_names(w, &names)) {
		ckpt_names_clear(&names);
		return false;
	}
	for (int i = 0; !told; i++) {
		name = without(w, key, i, &part);
		if (!name)
			break;
		told = ckpt_names_have(&names, name) && tell_dcp_less(w, key, name, part);
	}
	name = told ? NULL : with_one_more(w, &names, key, &part, &front);
	if (name)
		told = tell_dcp_more(w, key, name, part, front);
	if (!told &&
	    ckpt_why_begin(w, "missing_keys", CKPT_CAUSE_CERTAIN,
			   "'%s' is asked for, and the checkpoint has nothing of that name",
			   ckpt_why_show(w, key))) {
		ckpt_why_fact(w, "it has %u tensors: %s", names.count, some(w, &names));
		ckpt_why_words(w, "'ckpt ls %s' lists its names", ckpt_why_in(w));
		ckpt_why_words(
			w,
			"from torch 2.3 on, DefaultLoadPlanner(allow_partial_load=True) passes over what "
			"is missing");
		ckpt_why_end(w);
	}
	ckpt_names_clear(&names);
	return true;
}
