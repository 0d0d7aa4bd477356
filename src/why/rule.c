/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rule: how a name of one list differs from a name of another, what other names become by it,
 * and the option of `ckpt edit` or `ckpt rename` that does the same.
 *
 * ckpt_rule_apply() must do what the command does that ckpt_rule_add_step() prints, or rules.c
 * counts names that the command does not make. Names of more than CKPT_RULE_MOST_NAME bytes have no
 * rule.
 */
#include "why/rule.h"

#include "base/ascii.h"

#include <stdio.h>
#include <string.h>

bool ckpt_rule_apply(const struct ckpt_rule *r, const char *name, char out[2 * CKPT_RULE_MOST_NAME])
{
	size_t len = strlen(name), n = strlen(r->from), at = 0;
	const char *hit, *dot;

	if (len > CKPT_RULE_MOST_NAME)
		return false;
	switch (r->place) {
	case CKPT_PLACE_START:
		if (n && (len <= n || memcmp(name, r->from, n) || name[n] != '.'))
			return false;
		at = n ? n + 1 : 0;
		snprintf(out, 2 * CKPT_RULE_MOST_NAME, "%s%s%s", r->to, *r->to ? "." : "",
			 name + at);
		return true;
	case CKPT_PLACE_END:
		if (len <= n + 1 || memcmp(name + len - n, r->from, n) || name[len - n - 1] != '.')
			return false;
		snprintf(out, 2 * CKPT_RULE_MOST_NAME, "%.*s%s%s", (int)(len - n - 1), name,
			 *r->to ? "." : "", r->to);
		return true;
	case CKPT_PLACE_INSIDE:
		for (dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
			hit = dot + 1;
			if (strncmp(hit, r->from, n) || hit[n] != '.')
				continue;
			snprintf(out, 2 * CKPT_RULE_MOST_NAME, "%.*s.%s%s%s", (int)(dot - name),
				 name, r->to, *r->to ? "." : "", hit + n + 1);
			return true;
		}
		return false;
	case CKPT_PLACE_WHOLE:
		if (strcmp(name, r->from))
			return false;
		snprintf(out, 2 * CKPT_RULE_MOST_NAME, "%s", r->to);
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

static void copy_between_dots(char out[CKPT_RULE_MOST_NAME + 1], const char *from, size_t len)
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

bool ckpt_rule_between(const char *have, const char *want, struct ckpt_name_difference *d)
{
	size_t lh = strlen(have), lw = strlen(want);
	size_t end = common_end(have, lh, want, lw);
	size_t start = common_start(have, lh - end, want, lw - end);

	if (end == lh || end == lw) /* one is the other with something in front */
		start = 0;
	if (!end && !start)
		return false;
	/* something new in the middle: include the component before it */
	if (start && start + end >= lh)
		start = component_before(have, start);
	copy_between_dots(d->from, have + start, lh - end - start);
	copy_between_dots(d->to, want + start, lw - end - start);
	d->place = !start && end   ? CKPT_PLACE_START
		   : !end && start ? CKPT_PLACE_END
		   : !end	   ? CKPT_PLACE_WHOLE
				   : CKPT_PLACE_INSIDE;
	return strcmp(d->from, d->to) != 0 && (d->from[0] || d->place == CKPT_PLACE_START);
}

bool ckpt_rule_strips_wrapper(const struct ckpt_rule *r)
{
	char prefix[CKPT_RULE_MOST_NAME + 2];

	snprintf(prefix, sizeof(prefix), "%s.", r->from);
	return !*r->to && ckpt_why_wrapper(prefix) != NULL;
}

/* ---- from rules to commands ---- */

/* TEXT as a regular expression: a backslash before punctuation never hurts. */
static const char *escape_pattern(struct ckpt_why *w, const char *text)
{
	char out[2 * CKPT_RULE_MOST_NAME + 1];
	size_t n = 0;

	for (; *text && n + 2 < sizeof(out); text++) {
		if (ckpt_is_punct((unsigned char)*text) && *text != '_')
			out[n++] = '\\';
		out[n++] = *text;
	}
	out[n] = '\0';
	return ckpt_why_print(w, "%s", out);
}

/* TEXT as a replacement: only the backslash and the slash mean something. */
static const char *escape_replacement(struct ckpt_why *w, const char *text)
{
	char out[2 * CKPT_RULE_MOST_NAME + 1];
	size_t n = 0;

	for (; *text && n + 2 < sizeof(out); text++) {
		if (*text == '\\' || *text == '/')
			out[n++] = '\\';
		out[n++] = *text;
	}
	out[n] = '\0';
	return ckpt_why_print(w, "%s", out);
}

void ckpt_rule_add_rename(struct ckpt_why *w, struct ckpt_why_steps *s, const struct ckpt_rule *r)
{
	const char *from = escape_pattern(w, r->from), *to = escape_replacement(w, r->to);
	const char *dot = *r->to ? "." : "", *text = "";

	switch (r->place) {
	case CKPT_PLACE_START: text = ckpt_why_print(w, "s/^%s\\./%s%s/", from, to, dot); break;
	case CKPT_PLACE_INSIDE: text = ckpt_why_print(w, "s/\\.%s\\./.%s%s/", from, to, dot); break;
	case CKPT_PLACE_END: text = ckpt_why_print(w, "s/\\.%s$/%s%s/", from, dot, to); break;
	case CKPT_PLACE_WHOLE: text = ckpt_why_print(w, "s/^%s$/%s/", from, to); break;
	}
	s->rename[s->rename_count++] = text;
}

/*
 * A command runs all edits of one kind together, in a fixed order of kinds. An edit that comes too
 * late for its kind becomes an expression.
 */
void ckpt_rule_add_step(struct ckpt_why *w, struct ckpt_why_steps *s, const struct ckpt_rule *r)
{
	bool strips = !s->inside_count && !s->add && !s->rename_count &&
		      s->strip_count < CKPT_WHY_MOST_STEPS;
	bool insides = !s->add && !s->rename_count && s->inside_count < CKPT_WHY_MOST_STEPS;

	if (r->place == CKPT_PLACE_START && !*r->to && strips)
		s->strip[s->strip_count++] = ckpt_why_print(w, "%s.", r->from);
	else if (r->place == CKPT_PLACE_START && !*r->from)
		s->add = ckpt_why_print(w, "%s.", r->to);
	else if (r->place == CKPT_PLACE_INSIDE && ckpt_rule_strips_wrapper(r) && insides)
		s->inside[s->inside_count++] = ckpt_why_print(w, "%s.", r->from);
	else
		ckpt_rule_add_rename(w, s, r);
}
