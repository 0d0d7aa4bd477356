/* SPDX-License-Identifier: Apache-2.0 */
#include "why/rules.h"

#include "base/grow.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Two lists of names that should be one. A rule is what a pair of names differs in: with the components that both end in, and then
 * those that both begin with, left aside, A stands where B should be. The rule that is right for the lists is the one that turns
 * most names of one into names of the other; what it leaves is looked at again.
 */
enum {
	MOST_NAME = 512, /* bytes; longer names are left out */
	MOST_ASKED = 48, /* names that are compared with all others */
	MOST_OTHERS = 4000,
	MOST_RULES = 2000,
	MOST_TRIED = 24,
	MOST_ROUNDS = 4,
};

enum place { AT_START, INSIDE, AT_END, WHOLE };

struct rule {
	enum place place;
	const char *from, *to; /* components joined by dots; one of them may be "" */
	uint32_t votes;
};

/* ---- names ---- */

bool ckpt_names_add(struct ckpt_names *names, const char *name)
{
	bool there;
	void *grown = ckpt_grow(names->items, names->count, &names->cap, sizeof(*names->items));

	if (!grown)
		return false;
	names->items = grown;
	if (!ckpt_strmap_insert(&names->by_name, name, strlen(name), names->count, &there))
		return false;
	if (!there)
		names->items[names->count++] = name;
	return true;
}

bool ckpt_names_have(const struct ckpt_names *names, const char *name)
{
	return ckpt_strmap_find(&names->by_name, name, strlen(name)) != NULL;
}

void ckpt_names_clear(struct ckpt_names *names)
{
	free(names->items);
	ckpt_strmap_clear(&names->by_name);
	*names = (struct ckpt_names){ 0 };
}

/* ---- rules ---- */

static bool is_wrapper(const char *component)
{
	static const char *const known[] = { "module", "_orig_mod", "_fsdp_wrapped_module",
					     "_checkpoint_wrapped_module", "_forward_module" };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(component, known[i]))
			return true;
	return false;
}

/* What NAME becomes. False: the rule says nothing of it. */
static bool apply(const struct rule *r, const char *name, char out[2 * MOST_NAME])
{
	size_t len = strlen(name), n = strlen(r->from), at = 0;
	const char *hit, *dot;

	if (len > MOST_NAME)
		return false;
	switch (r->place) {
	case AT_START:
		if (n && (len <= n || memcmp(name, r->from, n) || name[n] != '.'))
			return false;
		at = n ? n + 1 : 0;
		snprintf(out, 2 * MOST_NAME, "%s%s%s", r->to, *r->to ? "." : "", name + at);
		return true;
	case AT_END:
		if (len <= n + 1 || memcmp(name + len - n, r->from, n) || name[len - n - 1] != '.')
			return false;
		snprintf(out, 2 * MOST_NAME, "%.*s%s%s", (int)(len - n - 1), name,
			 *r->to ? "." : "", r->to);
		return true;
	case INSIDE:
		for (dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
			hit = dot + 1;
			if (strncmp(hit, r->from, n) || hit[n] != '.')
				continue;
			snprintf(out, 2 * MOST_NAME, "%.*s.%s%s%s", (int)(dot - name), name, r->to,
				 *r->to ? "." : "", hit + n + 1);
			return true;
		}
		return false;
	case WHOLE:
		if (strcmp(name, r->from))
			return false;
		snprintf(out, 2 * MOST_NAME, "%s", r->to);
		return true;
	}
	return false;
}

/* Where the last common components begin in A; those of B are as long. */
static size_t common_end(const char *a, size_t la, const char *b, size_t lb)
{
	size_t n = 0, dots = 0;

	while (n < la && n < lb && a[la - 1 - n] == b[lb - 1 - n]) {
		n++;
		if (a[la - n] == '.')
			dots = n; /* a whole component, with the dot before it */
	}
	/* one of them ends here: a component, too, if the other goes on with a dot */
	if (n == la && n < lb && b[lb - 1 - n] == '.')
		return n;
	if (n == lb && n < la && a[la - 1 - n] == '.')
		return n;
	return dots;
}

static size_t common_start(const char *a, size_t la, const char *b, size_t lb)
{
	size_t n = 0, dots = 0;

	while (n < la && n < lb && a[n] == b[n]) {
		n++;
		if (a[n - 1] == '.')
			dots = n;
	}
	/* one of them ends here: a component, too, if the other goes on with a dot */
	if (n && ((n == la && n < lb && b[n] == '.') || (n == lb && n < la && a[n] == '.')))
		return n;
	return dots;
}

/* Where the component before AT begins. */
static size_t component_before(const char *name, size_t at)
{
	at--;
	while (at && name[at - 1] != '.')
		at--;
	return at;
}

static void cut(char out[MOST_NAME + 1], const char *from, size_t len)
{
	if (len && from[0] == '.') {
		from++;
		len--;
	}
	if (len && from[len - 1] == '.')
		len--;
	memcpy(out, from, len);
	out[len] = '\0';
}

struct difference {
	enum place place;
	char from[MOST_NAME + 1], to[MOST_NAME + 1];
};

/* What makes HAVE to WANT. False: they have nothing in common. */
static bool find_difference(const char *have, const char *want, struct difference *d)
{
	size_t lh = strlen(have), lw = strlen(want);
	size_t end = common_end(have, lh, want, lw);
	size_t start = common_start(have, lh - end, want, lw - end);

	if (end == lh || end == lw) /* one is the other with something in front */
		start = 0;
	if (!end && !start)
		return false;
	/* something new in the middle: say it with what stands before it */
	if (start && start + end >= lh)
		start = component_before(have, start);
	cut(d->from, have + start, lh - end - start);
	cut(d->to, want + start, lw - end - start);
	d->place = !start && end ? AT_START : !end && start ? AT_END : !end ? WHOLE : INSIDE;
	return strcmp(d->from, d->to) != 0 && (d->from[0] || d->place == AT_START);
}

struct book {
	struct ckpt_why *w;
	const struct ckpt_names *want, *keep;
	const char **have; /* malloc: as the rules so far have made them */
	uint32_t have_count;
	char *right;		 /* malloc: by the number of such a name, it is one of WANT */
	struct ckpt_strmap made; /* these */
	struct rule *rules;	 /* malloc */
	uint32_t count, cap;
	struct ckpt_strmap by_text;
};

static bool vote(struct book *b, const struct difference *d)
{
	char text[2 * MOST_NAME + 16];
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
	b->rules[b->count++] = (struct rule){ d->place, ckpt_why_print(b->w, "%s", d->from),
					      ckpt_why_print(b->w, "%s", d->to), 1 };
	return true;
}

static bool collect(struct book *b)
{
	uint32_t asked = 0;

	for (uint32_t i = 0; i < b->want->count && asked < MOST_ASKED; i++) {
		const char *name = b->want->items[i];

		if (strlen(name) > MOST_NAME || ckpt_strmap_find(&b->made, name, strlen(name)))
			continue;
		asked++;
		for (uint32_t k = 0; k < b->have_count && k < MOST_OTHERS; k++) {
			struct difference d;

			if (b->right[k] || strlen(b->have[k]) > MOST_NAME)
				continue;
			if (find_difference(b->have[k], name, &d) && !vote(b, &d))
				return false;
		}
	}
	return b->w->failed == 0;
}

static int by_votes(const void *a, const void *b)
{
	const struct rule *x = a, *y = b;

	return (x->votes < y->votes) - (x->votes > y->votes);
}

/* Does the rule make one of WANT, that is not there yet, of name K? */
static bool makes(const struct book *b, const struct rule *r, uint32_t k)
{
	char name[2 * MOST_NAME];

	return !b->right[k] && apply(r, b->have[k], name) && ckpt_names_have(b->want, name) &&
	       !ckpt_strmap_find(&b->made, name, strlen(name));
}

static uint32_t hits_of(const struct book *b, const struct rule *r)
{
	uint32_t hits = 0;

	for (uint32_t k = 0; k < b->have_count; k++)
		hits += makes(b, r, k);
	return hits;
}

/* Does it change a name that is right? With a wrapper in front none is, if the message does not say it. */
static bool spoils(const struct book *b, const struct rule *r)
{
	char name[2 * MOST_NAME];

	if (r->place == AT_START && !*r->to && is_wrapper(r->from))
		return false;

	for (uint32_t i = 0; i < b->keep->count; i++)
		if (apply(r, b->keep->items[i], name))
			return true;
	for (uint32_t k = 0; k < b->have_count; k++)
		if (b->right[k] && apply(r, b->have[k], name))
			return true;
	return false;
}

static size_t length_of(const struct rule *r)
{
	return strlen(r->from) + strlen(r->to);
}

/* The rule that makes most names of WANT, of several the shortest; false: none makes any. */
static bool best_rule(struct book *b, struct rule *best)
{
	uint32_t most = 0;

	qsort(b->rules, b->count, sizeof(*b->rules), by_votes);
	for (uint32_t i = 0; i < b->count && i < MOST_TRIED; i++) {
		uint32_t hits = hits_of(b, &b->rules[i]);

		if (!hits || hits < most ||
		    (hits == most && length_of(&b->rules[i]) >= length_of(best)) ||
		    spoils(b, &b->rules[i]))
			continue;
		most = hits;
		*best = b->rules[i];
	}
	return most > 0;
}

/* Do what the edit will do. */
static bool perform(struct book *b, const struct rule *r)
{
	char name[2 * MOST_NAME];
	bool there;

	for (uint32_t k = 0; k < b->have_count; k++) {
		uint64_t *number;

		if (!apply(r, b->have[k], name))
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

/* ---- from rules to commands ---- */

/* TEXT as a regular expression, or as a replacement: both take a backslash before what is not a letter. */
static const char *literal(struct ckpt_why *w, const char *text)
{
	char out[2 * MOST_NAME + 1];
	size_t n = 0;

	for (; *text && n + 2 < sizeof(out); text++) {
		if (ispunct((unsigned char)*text) && *text != '_')
			out[n++] = '\\';
		out[n++] = *text;
	}
	out[n] = '\0';
	return ckpt_why_print(w, "%s", out);
}

/* A replacement: only the backslash and the slash mean something. */
static const char *replacement(struct ckpt_why *w, const char *text)
{
	char out[2 * MOST_NAME + 1];
	size_t n = 0;

	for (; *text && n + 2 < sizeof(out); text++) {
		if (*text == '\\' || *text == '/')
			out[n++] = '\\';
		out[n++] = *text;
	}
	out[n] = '\0';
	return ckpt_why_print(w, "%s", out);
}

static void add_rename(struct ckpt_why *w, struct ckpt_why_steps *s, const struct rule *r)
{
	const char *from = literal(w, r->from), *to = replacement(w, r->to);
	const char *dot = *r->to ? "." : "", *text = "";

	switch (r->place) {
	case AT_START: text = ckpt_why_print(w, "s/^%s\\./%s%s/", from, to, dot); break;
	case INSIDE: text = ckpt_why_print(w, "s/\\.%s\\./.%s%s/", from, to, dot); break;
	case AT_END: text = ckpt_why_print(w, "s/\\.%s$/%s%s/", from, dot, to); break;
	case WHOLE: text = ckpt_why_print(w, "s/^%s$/%s/", from, to); break;
	}
	s->rename[s->rename_count++] = text;
}

/* Edits of one kind stand together in a command: one that comes too late for its kind is said as an expression. */
static void add_step(struct ckpt_why *w, struct ckpt_why_steps *s, const struct rule *r)
{
	bool strips = !s->inside_count && !s->add && !s->rename_count &&
		      s->strip_count < CKPT_WHY_MOST_STEPS;
	bool insides = !s->add && !s->rename_count && s->inside_count < CKPT_WHY_MOST_STEPS;

	if (r->place == AT_START && !*r->to && strips)
		s->strip[s->strip_count++] = ckpt_why_print(w, "%s.", r->from);
	else if (r->place == AT_START && !*r->from)
		s->add = ckpt_why_print(w, "%s.", r->to);
	else if (r->place == INSIDE && !*r->to && is_wrapper(r->from) && insides)
		s->inside[s->inside_count++] = ckpt_why_print(w, "%s.", r->from);
	else
		add_rename(w, s, r);
}

/* ---- a prefix for some of the names ---- */

/* It has to be said for which: for those that begin with COMPONENT. */
static bool add_for(struct book *b, struct ckpt_why_steps *s, const struct rule *r,
		    const char *name)
{
	size_t n = strcspn(name, ".");
	struct rule one = { .place = AT_START };

	if (!name[n] || s->rename_count == CKPT_WHY_MOST_STEPS)
		return false;
	one.from = ckpt_why_print(b->w, "%.*s", (int)n, name);
	one.to = ckpt_why_print(b->w, "%s.%s", r->to, one.from);
	if (spoils(b, &one))
		return false;
	add_rename(b->w, s, &one);
	return perform(b, &one);
}

static bool find_addition(struct book *b, struct ckpt_why_steps *steps)
{
	const struct rule *best = NULL;
	uint32_t most = 0;
	bool any = false;

	for (uint32_t i = 0; i < b->count && i < MOST_TRIED; i++) {
		bool adds = b->rules[i].place == AT_START && !*b->rules[i].from;
		uint32_t hits = adds ? hits_of(b, &b->rules[i]) : 0;

		if (hits <= most)
			continue;
		most = hits;
		best = &b->rules[i];
	}
	for (uint32_t k = 0; best && k < b->have_count; k++)
		if (makes(b, best, k))
			any |= add_for(b, steps, best, b->have[k]);
	return any;
}

/* ---- all of it ---- */

static bool one_round(struct book *b, struct ckpt_why_steps *steps, bool *more)
{
	struct rule rule;

	b->count = 0;
	ckpt_strmap_clear(&b->by_text);
	*more = false;
	if (!collect(b))
		return false;
	if (steps->rename_count == CKPT_WHY_MOST_STEPS)
		return true;
	if (!best_rule(b, &rule)) {
		*more = find_addition(b, steps);
		return b->w->failed == 0;
	}
	add_step(b->w, steps, &rule);
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
