/* SPDX-License-Identifier: Apache-2.0 */
#include "why/rules.h"

#include "base/grow.h"
#include "why/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Two lists of names that should be one. A rule is what a pair of names differs in: with the components that both end in, and then
 * those that both begin with, left aside, A stands where B should be. The rule that is right for the lists is the one that turns
 * most names of one into names of the other; what it leaves is looked at again.
 */
enum {
	MOST_ASKED = 48, /* names that are compared with all others */
	MOST_OTHERS = 4000,
	MOST_RULES = 2000,
	MOST_TRIED = 24,
	MOST_ROUNDS = 4,
};

struct book {
	struct ckpt_why *w;
	const struct ckpt_names *want, *keep;
	const char **have; /* malloc: as the rules so far have made them */
	uint32_t have_count;
	char *right;		 /* malloc: by the number of such a name, it is one of WANT */
	struct ckpt_strmap made; /* these */
	struct ckpt_rule *rules; /* malloc */
	uint32_t count, cap;
	struct ckpt_strmap by_text;
};

static bool vote(struct book *b, const struct ckpt_difference *d)
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

static bool collect(struct book *b)
{
	uint32_t asked = 0;

	for (uint32_t i = 0; i < b->want->count && asked < MOST_ASKED; i++) {
		const char *name = b->want->items[i];

		if (strlen(name) > CKPT_RULE_MOST_NAME ||
		    ckpt_strmap_find(&b->made, name, strlen(name)))
			continue;
		asked++;
		for (uint32_t k = 0; k < b->have_count && k < MOST_OTHERS; k++) {
			struct ckpt_difference d;

			if (b->right[k] || strlen(b->have[k]) > CKPT_RULE_MOST_NAME)
				continue;
			if (ckpt_rule_between(b->have[k], name, &d) && !vote(b, &d))
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

/* Does the rule make one of WANT, that is not there yet, of name K? Its number, or -1. */
static int64_t makes(const struct book *b, const struct ckpt_rule *r, uint32_t k)
{
	char name[2 * CKPT_RULE_MOST_NAME];
	const uint64_t *number;

	if (b->right[k] || !ckpt_rule_apply(r, b->have[k], name) ||
	    ckpt_strmap_find(&b->made, name, strlen(name)))
		return -1;
	number = ckpt_strmap_find(&b->want->by_name, name, strlen(name));
	return number ? (int64_t)*number : -1;
}

/* How many names a rule makes, and how far from their places in the lists: both are in the order of a model. */
struct score {
	uint32_t hits;
	uint64_t away, length;
};

static struct score score_of(const struct book *b, const struct ckpt_rule *r)
{
	struct score s = { .length = strlen(r->from) + strlen(r->to) };

	for (uint32_t k = 0; k < b->have_count; k++) {
		int64_t number = makes(b, r, k);

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

/* Does it change a name that is right? With a wrapper in front none is, if the message does not say it. */
static bool spoils(const struct book *b, const struct ckpt_rule *r)
{
	char name[2 * CKPT_RULE_MOST_NAME];

	if (r->place == CKPT_PLACE_START && ckpt_rule_strips_wrapper(r))
		return false;

	for (uint32_t i = 0; i < b->keep->count; i++)
		if (ckpt_rule_apply(r, b->keep->items[i], name))
			return true;
	for (uint32_t k = 0; k < b->have_count; k++)
		if (b->right[k] && ckpt_rule_apply(r, b->have[k], name))
			return true;
	return false;
}

/* The rule that makes most names of WANT; false: none makes any. *GUESSED: the names alone do not tell it from another. */
static bool best_rule(struct book *b, struct ckpt_rule *best, bool *guessed)
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

		if (!score.hits || spoils(b, r))
			continue;
		*guessed = same || (*guessed && score.hits <= most.hits);
		if (!is_better(&score, &most))
			continue;
		most = score;
		*best = *r;
	}
	return most.hits > 0;
}

/* Do what the edit will do. */
static bool perform(struct book *b, const struct ckpt_rule *r)
{
	char name[2 * CKPT_RULE_MOST_NAME];
	bool there;

	for (uint32_t k = 0; k < b->have_count; k++) {
		uint64_t *number;

		if (!ckpt_rule_apply(r, b->have[k], name))
			continue;
		b->have[k] = ckpt_why_print(b->w, "%s", name);
		number = ckpt_strmap_find(&b->want->by_name, name, strlen(name));
		if (!number)
			continue;
		b->right[k] = 1;
		if (!ckpt_strmap_insert(&b->made, b->want->items[*number], strlen(name), 0, &there))
			return false;
	}
	return b->w->failed == 0;
}

/* ---- a prefix for some of the names ---- */

/* It has to be said for which: for those that begin with COMPONENT. */
static bool add_for(struct book *b, struct ckpt_why_steps *s, const struct ckpt_rule *r,
		    const char *name)
{
	size_t n = strcspn(name, ".");
	struct ckpt_rule one = { .place = CKPT_PLACE_START };

	if (!name[n] || s->rename_count == CKPT_WHY_MOST_STEPS)
		return false;
	one.from = ckpt_why_print(b->w, "%.*s", (int)n, name);
	one.to = ckpt_why_print(b->w, "%s.%s", r->to, one.from);
	if (spoils(b, &one))
		return false;
	ckpt_rule_add_rename(b->w, s, &one);
	return perform(b, &one);
}

static bool find_addition(struct book *b, struct ckpt_why_steps *steps)
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
	for (uint32_t k = 0; best && k < b->have_count; k++)
		if (makes(b, best, k) >= 0)
			any |= add_for(b, steps, best, b->have[k]);
	return any;
}

/* ---- all of it ---- */

static bool one_round(struct book *b, struct ckpt_why_steps *steps, bool *more)
{
	struct ckpt_rule rule;
	bool guessed;

	b->count = 0;
	ckpt_strmap_clear(&b->by_text);
	*more = false;
	if (!collect(b))
		return false;
	if (steps->rename_count == CKPT_WHY_MOST_STEPS)
		return true;
	if (!best_rule(b, &rule, &guessed)) {
		*more = find_addition(b, steps);
		return b->w->failed == 0;
	}
	ckpt_rule_add_step(b->w, steps, &rule);
	steps->guessed |= guessed;
	*more = !steps->add; /* it is for all names */
	return perform(b, &rule);
}

bool ckpt_rules_find(struct ckpt_why *w, const struct ckpt_names *want,
		     const struct ckpt_names *have, const struct ckpt_names *keep,
		     struct ckpt_why_steps *steps, uint32_t *hits)
{
	struct book b = { .w = w, .want = want, .keep = keep, .have_count = have->count };
	bool more = true, ok;

	b.right = calloc(have->count + 1, 1);
	b.have = calloc(have->count + 1, sizeof(*b.have));
	ok = b.right && b.have;
	for (uint32_t k = 0; ok && k < have->count; k++)
		b.have[k] = have->items[k];
	for (int round = 0; ok && more && round < MOST_ROUNDS && b.made.count < want->count;
	     round++)
		ok = one_round(&b, steps, &more);
	*hits = (uint32_t)b.made.count;
	ckpt_strmap_clear(&b.made);
	ckpt_strmap_clear(&b.by_text);
	free(b.rules);
	free(b.right);
	free(b.have);
	return ok;
}
