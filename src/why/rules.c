/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the edits that make the names of one list the names of another. A rule is what two names
 * differ in: without the components that both end in, and then those that both begin with, A stands
 * where B should be. The right rule is the one that makes most names of the wanted list; it is
 * applied, and what it leaves goes through the next round.
 *
 * What must stay true: a rule that changes a name that is right already is never taken
 * (breaks_a_right_name()), and the names that are compared, rules and rounds are bounded, as the
 * lists come from a message and from a file.
 */
#include "why/rules.h"

#include "base/grow.h"
#include "model/module_wrappers.h"
#include "why/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST_ASKED = 48, /* names that are compared with all others */
	MOST_OTHERS = 4000,
	MOST_RULES = 2000,
	MOST_TRIED = 24,
	MOST_ROUNDS = 4,
};

struct search {
	struct ckpt_why *w;
	const struct ckpt_names *want, *keep;
	const char **names; /* malloc: as the rules so far make them */
	uint32_t name_count;
	char *is_right;		 /* malloc: is names[i] one of WANT? */
	struct ckpt_strmap made; /* names of WANT that are made */
	struct ckpt_rule *rules; /* malloc */
	uint32_t count, cap;
	struct ckpt_strmap by_text;
};

static bool count_rule(struct search *b, const struct ckpt_name_difference *d)
{
	char text[2 * CKPT_RULE_MOST_NAME + 16];
	size_t len = (size_t)snprintf(text, sizeof(text), "%d %s %s", d->place, d->from, d->to);
	uint64_t *slot = ckpt_strmap_find(&b->by_text, text, len);
	const char *key;
	bool there;
	void *grown;

	if (slot) {
		b->rules[*slot].votes++;
		return true;
	}
	if (b->count >= MOST_RULES)
		return true;
	grown = ckpt_grow(b->rules, b->count, &b->cap, sizeof(*b->rules));
	if (!grown)
		return false;
	b->rules = grown;
	key = ckpt_why_print(b->w, "%s", text);
	if (b->w->failed < 0 || !ckpt_strmap_insert(&b->by_text, key, len, b->count, &there))
		return false;
	b->rules[b->count++] = (struct ckpt_rule){ d->place, ckpt_why_print(b->w, "%s", d->from),
						   ckpt_why_print(b->w, "%s", d->to), 1 };
	return true;
}

static bool collect_rules(struct search *b)
{
	uint32_t asked = 0;

	for (uint32_t i = 0; i < b->want->count && asked < MOST_ASKED; i++) {
		const char *name = b->want->items[i];

		if (strlen(name) > CKPT_RULE_MOST_NAME ||
		    ckpt_strmap_find(&b->made, name, strlen(name)))
			continue;
		asked++;
		for (uint32_t k = 0; k < b->name_count && k < MOST_OTHERS; k++) {
			struct ckpt_name_difference d;

			if (b->is_right[k] || strlen(b->names[k]) > CKPT_RULE_MOST_NAME)
				continue;
			if (ckpt_rule_between(b->names[k], name, &d) && !count_rule(b, &d))
				return false;
		}
	}
	return b->w->failed == 0;
}

static int by_votes(const void *a, const void *b)
{
	const struct ckpt_rule *x = a, *y = b;

	return (x->votes < y->votes) - (x->votes > y->votes);
}

/* The number of the name of WANT that the rule makes of name K; -1: none, or it is made already. */
static int64_t find_made_name(const struct search *b, const struct ckpt_rule *r, uint32_t k)
{
	char name[2 * CKPT_RULE_MOST_NAME];
	const uint64_t *number;

	if (b->is_right[k] || !ckpt_rule_apply(r, b->names[k], name) ||
	    ckpt_strmap_find(&b->made, name, strlen(name)))
		return -1;
	number = ckpt_strmap_find(&b->want->by_name, name, strlen(name));
	return number ? (int64_t)*number : -1;
}

/*
 * How many names a rule makes, and how far from their places: both lists are in the order of a
 * model.
 */
struct score {
	uint32_t hits;
	uint64_t away, length;
};

static struct score score_of(const struct search *b, const struct ckpt_rule *r)
{
	struct score s = { .length = strlen(r->from) + strlen(r->to) };

	for (uint32_t k = 0; k < b->name_count; k++) {
		int64_t number = find_made_name(b, r, k);

		if (number < 0)
			continue;
		s.hits++;
		s.away += (uint64_t)(number > k ? number - k : k - number);
	}
	return s;
}

static bool is_better(const struct score *a, const struct score *b)
{
	if (a->hits != b->hits)
		return a->hits > b->hits;
	if (a->away != b->away)
		return a->away < b->away;
	return a->length < b->length;
}

/*
 * Does the rule change a name that is right? A prefix of a wrapper may always go: no name of a
 * plain model has one.
 */
static bool breaks_a_right_name(const struct search *b, const struct ckpt_rule *r)
{
	char name[2 * CKPT_RULE_MOST_NAME];

	if (r->place == CKPT_PLACE_START && ckpt_rule_strips_wrapper(r))
		return false;
	for (uint32_t i = 0; i < b->keep->count; i++)
		if (ckpt_rule_apply(r, b->keep->items[i], name))
			return true;
	for (uint32_t k = 0; k < b->name_count; k++)
		if (b->is_right[k] && ckpt_rule_apply(r, b->names[k], name))
			return true;
	return false;
}

/*
 * The rule that makes most names of WANT; false: none makes any. *GUESSED: another rule is as good,
 * judged by names alone.
 */
static bool best_rule(struct search *b, struct ckpt_rule *best, bool *guessed)
{
	struct score most = { 0 };

	*guessed = false;
	if (b->count) /* there may be no array to sort */
		qsort(b->rules, b->count, sizeof(*b->rules), by_votes);
	for (uint32_t i = 0; i < b->count && i < MOST_TRIED; i++) {
		const struct ckpt_rule *r = &b->rules[i];
		struct score score = score_of(b, r);
		bool same = most.hits && score.hits == most.hits && r->place == best->place &&
			    !strcmp(r->from, best->from);

		if (!score.hits || breaks_a_right_name(b, r))
			continue;
		*guessed = same || (*guessed && score.hits <= most.hits);
		if (!is_better(&score, &most))
			continue;
		most = score;
		*best = *r;
	}
	return most.hits > 0;
}

/* Is name K one of WANT? False: no memory. */
static bool mark_if_right(struct search *b, uint32_t k)
{
	const char *name = b->names[k];
	const uint64_t *number = ckpt_strmap_find(&b->want->by_name, name, strlen(name));
	bool there;

	if (!number)
		return true;
	b->is_right[k] = 1;
	return ckpt_strmap_insert(&b->made, b->want->items[*number], strlen(name), 0, &there) !=
	       NULL;
}

/* Does to the names what the edit will do to the keys. */
static bool apply_rule(struct search *b, const struct ckpt_rule *r)
{
	char name[2 * CKPT_RULE_MOST_NAME];

	for (uint32_t k = 0; k < b->name_count; k++) {
		if (!ckpt_rule_apply(r, b->names[k], name))
			continue;
		b->names[k] = ckpt_why_print(b->w, "%s", name);
		if (!mark_if_right(b, k))
			return false;
	}
	return b->w->failed == 0;
}

/* ---- a prefix for some of the names ---- */

/*
 * Adds the prefix to names that begin with the first component of NAME, in a `rename` that says so.
 */
static bool add_prefix_for(struct search *b, struct ckpt_why_steps *s, const struct ckpt_rule *r,
			   const char *name)
{
	size_t n = strcspn(name, ".");
	struct ckpt_rule one = { .place = CKPT_PLACE_START };

	if (!name[n] || s->rename_count == CKPT_WHY_MOST_STEPS)
		return false;
	one.from = ckpt_why_print(b->w, "%.*s", (int)n, name);
	one.to = ckpt_why_print(b->w, "%s.%s", r->to, one.from);
	if (breaks_a_right_name(b, &one))
		return false;
	ckpt_rule_add_rename(b->w, s, &one);
	return apply_rule(b, &one);
}

static bool add_prefixes(struct search *b, struct ckpt_why_steps *steps)
{
	const struct ckpt_rule *best = NULL;
	uint32_t most = 0;
	bool any = false;

	for (uint32_t i = 0; i < b->count && i < MOST_TRIED; i++) {
		bool adds = b->rules[i].place == CKPT_PLACE_START && !*b->rules[i].from;
		uint32_t hits = adds ? score_of(b, &b->rules[i]).hits : 0;

		if (hits <= most)
			continue;
		most = hits;
		best = &b->rules[i];
	}
	for (uint32_t k = 0; best && k < b->name_count; k++)
		if (find_made_name(b, best, k) >= 0)
			any |= add_prefix_for(b, steps, best, b->names[k]);
	return any;
}

/* ---- wrappers ---- */

/* Do wrappers stand in the names in more than one way, which one prefix would not take off? */
static const char *mixed_wrapper(const struct search *b)
{
	unsigned front = 0, inside = 0, all;
	bool again = false;
	int first = 0;

	for (uint32_t k = 0; k < b->name_count; k++) {
		struct ckpt_wrapper_marks marks;

		ckpt_wrapper_marks_of(b->names[k], strlen(b->names[k]), &marks);
		front |= marks.front;
		inside |= marks.inside;
		again |= marks.again;
	}
	all = front | inside;
	if (!again && !(all & (all - 1)) && !(front && inside))
		return NULL;
	while (!(all & 1U << first))
		first++;
	return ckpt_module_wrappers[first].prefix;
}

/* NAME without wrappers; NULL: it has none, or memory is out. */
static const char *without_wrappers(struct ckpt_why *w, const char *name)
{
	struct ckpt_buf buf = { 0 };
	const char *plain = NULL;

	if (ckpt_wrappers_strip(name, strlen(name), false, &buf) && !buf.bad)
		plain = ckpt_why_print(w, "%.*s", (int)buf.len, (const char *)buf.data);
	if (buf.bad)
		w->failed = CKPT_E_NOMEM;
	ckpt_buf_clear(&buf);
	return plain;
}

static bool have_wrappers(struct ckpt_why *w, const struct ckpt_names *names)
{
	for (uint32_t i = 0; i < names->count && w->failed == 0; i++)
		if (without_wrappers(w, names->items[i]))
			return true;
	return false;
}

/*
 * Where wrappers are mixed, all of them go first, in one edit: taken off one by one, some would be
 * left. Not if the model itself has such a name.
 */
static bool strip_wrappers(struct search *b, struct ckpt_why_steps *steps)
{
	const char *first = mixed_wrapper(b);

	if (!first || have_wrappers(b->w, b->want) || have_wrappers(b->w, b->keep))
		return b->w->failed == 0;
	steps->wrappers = first;
	for (uint32_t k = 0; k < b->name_count && b->w->failed == 0; k++) {
		const char *plain = without_wrappers(b->w, b->names[k]);

		if (!plain)
			continue;
		b->names[k] = plain;
		if (!mark_if_right(b, k))
			return false;
	}
	return b->w->failed == 0;
}

/* ---- all of it ---- */

static bool one_round(struct search *b, struct ckpt_why_steps *steps, bool *more)
{
	struct ckpt_rule rule;
	bool guessed;

	b->count = 0;
	ckpt_strmap_clear(&b->by_text);
	*more = false;
	if (!collect_rules(b))
		return false;
	if (steps->rename_count == CKPT_WHY_MOST_STEPS)
		return true;
	if (!best_rule(b, &rule, &guessed)) {
		*more = add_prefixes(b, steps);
		return b->w->failed == 0;
	}
	ckpt_rule_add_step(b->w, steps, &rule);
	steps->guessed |= guessed;
	*more = !steps->add; /* it is for all names */
	return apply_rule(b, &rule);
}

/*
 * torch does not miss the counter of a batch norm in a state dict without versions (_metadata), but
 * takes it.
 */
static bool is_wanted_counter(const struct search *b, const char *name)
{
	static const char counter[] = "num_batches_tracked", mean[] = "running_mean";
	size_t len = strlen(name), n = sizeof(counter) - 1;
	const char *sibling;

	if (len < n || strcmp(name + len - n, counter) != 0)
		return false;
	sibling = ckpt_why_print(b->w, "%.*s%s", (int)(len - n), name, mean);
	return ckpt_names_have(b->want, sibling);
}

bool ckpt_rules_find(struct ckpt_why *w, const struct ckpt_names *want,
		     const struct ckpt_names *have, const struct ckpt_names *keep,
		     struct ckpt_why_steps *steps, uint32_t *hits, struct ckpt_names *left)
{
	struct search b = { .w = w, .want = want, .keep = keep, .name_count = have->count };
	bool more = true, ok;

	b.is_right = calloc(have->count + 1, 1);
	b.names = calloc(have->count + 1, sizeof(*b.names));
	ok = b.is_right && b.names;
	for (uint32_t k = 0; ok && k < have->count; k++)
		b.names[k] = have->items[k];
	for (uint32_t k = 0; ok && k < have->count; k++)
		ok = mark_if_right(&b, k);
	if (ok && b.made.count < want->count)
		ok = strip_wrappers(&b, steps);
	for (int round = 0; ok && more && round < MOST_ROUNDS && b.made.count < want->count;
	     round++)
		ok = one_round(&b, steps, &more);
	*hits = (uint32_t)b.made.count;
	for (uint32_t k = 0; ok && left && k < have->count; k++)
		ok = b.is_right[k] || is_wanted_counter(&b, b.names[k]) ||
		     ckpt_names_add(left, have->items[k]);
	ckpt_strmap_clear(&b.made);
	ckpt_strmap_clear(&b.by_text);
	free(b.rules);
	free(b.is_right);
	free(b.names);
	return ok;
}
