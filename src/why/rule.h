/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_WHY_RULE_H
#define CKPT_WHY_RULE_H

#include "why/why.h"

/* A rule: what one list of names has where another list has something else. */

enum { CKPT_RULE_MOST_NAME = 512 }; /* bytes; longer names are left out */

enum ckpt_place { CKPT_PLACE_START, CKPT_PLACE_INSIDE, CKPT_PLACE_END, CKPT_PLACE_WHOLE };

struct ckpt_rule {
	enum ckpt_place place;
	const char *from, *to; /* components joined by dots; one of them may be "" */
	uint32_t votes;
};

struct ckpt_name_difference {
	enum ckpt_place place;
	char from[CKPT_RULE_MOST_NAME + 1], to[CKPT_RULE_MOST_NAME + 1];
};

/* What has to change in HAVE to make it WANT. False: they have nothing in common. */
bool ckpt_rule_between(const char *have, const char *want, struct ckpt_name_difference *d);

/* Write to OUT what NAME becomes. False: the rule does not apply to it. */
bool ckpt_rule_apply(const struct ckpt_rule *r, const char *name,
		     char out[2 * CKPT_RULE_MOST_NAME]);

/* Does it remove what a wrapper puts into names? */
bool ckpt_rule_strips_wrapper(const struct ckpt_rule *r);

/* Append the edit that does what the rule does; the second always as an expression for `rename`. */
void ckpt_rule_add_step(struct ckpt_why *w, struct ckpt_why_steps *steps,
			const struct ckpt_rule *r);
void ckpt_rule_add_rename(struct ckpt_why *w, struct ckpt_why_steps *steps,
			  const struct ckpt_rule *r);

#endif
