/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_WHY_RULES_H
#define CKPT_WHY_RULES_H

#include "base/strmap.h"
#include "why/why.h"

/* A list of names, each once, that finds the number of a name. Texts are borrowed. */
struct ckpt_names {
	const char **items; /* malloc */
	uint32_t count, cap;
	struct ckpt_strmap by_name;
};

/* Add a name if it is not there yet. False: no memory. */
bool ckpt_names_add(struct ckpt_names *names, const char *name);
bool ckpt_names_have(const struct ckpt_names *names, const char *name);
void ckpt_names_clear(struct ckpt_names *names);

/* "'a', 'b', 'c' and 7 more", escaped. */
const char *ckpt_names_show(struct ckpt_why *w, const struct ckpt_names *names);

/*
 * Find the edits that make names of WANT of names of HAVE: prefixes off or on, wrappers out of the
 * middle, components replaced. KEEP: names that are right as they are. *HITS: how many names of
 * WANT the edits make; 0 if none were found that leave KEEP alone. LEFT gets those of HAVE that
 * become none of WANT; it may be NULL, and is to be cleared. False: no memory.
 */
bool ckpt_rules_find(struct ckpt_why *w, const struct ckpt_names *want,
		     const struct ckpt_names *have, const struct ckpt_names *keep,
		     struct ckpt_why_steps *steps, uint32_t *hits, struct ckpt_names *left);

#endif
