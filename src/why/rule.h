/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_WHY_RULE_H
#define CKPT_WHY_RULE_H

#include "why/why.h"

/* What one list of names has in the place of what another has. */

enum { CKPT_RULE_MOST_NAME = 512 }; /* bytes; longer names are left out */

enum ckpt_place { CKPT_PLACE_START, CKPT_PLACE_INSIDE, CKPT_PLACE_END, CKPT_PLACE_WHOLE };

struct ckpt_rule {
	enum ckpt_place place;
	const char *from, *to; /* components joined by dots; one of them may be "" */
	uint32_t votes;
};

struct ckpt_difference {
	enum ckpt_place place;
	char from[CKPT_RULE_MOST_NAME + 1], to[CKPT_RULE_MOST_NAME + 1];
};

/* What makes HAVE to WANT. False: they have nothing in common. */
bool ckpt_rule_between(const char *have, const char *want, struct ckpt_difference *d);

/* What NAME becomes. False: the rule says nothing of it. */
bool ckpt_rule_apply(const struct ckpt_rule *r, const char *name,
		     char out[2 * CKPT_RULE_MOST_NAME]);

/* Does it take off what a wrapper puts into names? */
bool ckpt_rule_strips_wrapper(const struct ckpt_rule *r);

/* The edit that does it, behind those that are there; an expression, in the second case. */
void ckpt_rule_add_step(struct ckpt_why *w, struct ckpt_why_steps *steps,
			const struct ckpt_rule *r);
void ckpt_rule_add_rename(struct ckpt_why *w, struct ckpt_why_steps *steps,
			  const struct ckpt_rule *r);

#endif
