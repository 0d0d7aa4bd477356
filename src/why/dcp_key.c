/* SPDX-License-Identifier: Apache-2.0 */
#include "why/rules.h"

#include <string.h>

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

/* KEY without component NUMBER, which goes to *TAKEN; NULL: it has no such component. */
static const char *without_component(struct ckpt_why *w, const char *key, int number,
				     const char **taken)
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

/* Is NAME the KEY and one component more, at *AT, of *LEN bytes with its dot? */
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
static const char *find_longer_by_one(struct ckpt_why *w, const struct ckpt_names *names,
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

static bool report_extra_component(struct ckpt_why *w, const char *key, const char *name,
				   const char *more, bool front)
{
	if (ckpt_why_begin(
		    w, "prefix", CKPT_CAUSE_CERTAIN,
		    "the names in the directory have '%s', which those that are asked for have not: it was "
		    "saved %s",
		    ckpt_why_show(w, more), ckpt_why_prefix(w, more, true))) {
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

static bool report_wanted_prefix(struct ckpt_why *w, const char *key, const char *name,
				 const char *taken)
{
	if (ckpt_why_begin(
		    w, "prefix_wanted", CKPT_CAUSE_CERTAIN,
		    "the names that are asked for have '%s', and those in the directory have not: what loads "
		    "it is %s",
		    ckpt_why_show(w, taken), ckpt_why_prefix(w, taken, false))) {
		ckpt_why_fact(w, "there is '%s', asked for is '%s'", ckpt_why_show(w, name),
			      ckpt_why_show(w, key));
		ckpt_why_command(w, "ckpt add-prefix %s %s %s", ckpt_why_quote(w, taken),
				 ckpt_why_in(w), ckpt_why_out(w));
		ckpt_why_end(w);
	}
	return true;
}

bool ckpt_why_explain_dcp_key(struct ckpt_why *w, const struct ckpt_match *match)
{
	struct ckpt_names names = { 0 };
	const char *key = match->part[0], *name, *part = NULL;
	bool reported = false, front = false;

	if (!w->facts.model || !add_tensor_names(w, &names)) {
		ckpt_names_clear(&names);
		return false;
	}
	for (int i = 0; !reported; i++) {
		name = without_component(w, key, i, &part);
		if (!name)
			break;
		reported =
			ckpt_names_have(&names, name) && report_wanted_prefix(w, key, name, part);
	}
	name = reported ? NULL : find_longer_by_one(w, &names, key, &part, &front);
	if (name)
		reported = report_extra_component(w, key, name, part, front);
	if (!reported &&
	    ckpt_why_begin(w, "missing_keys", CKPT_CAUSE_CERTAIN,
			   "'%s' is asked for, and the checkpoint has nothing of that name",
			   ckpt_why_show(w, key))) {
		ckpt_why_fact(w, "it has %u tensors: %s", names.count, ckpt_names_show(w, &names));
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
