/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_PATTERNS_H
#define CKPT_MODEL_PATTERNS_H

#include "base/error.h"

#include <ckpt/text.h>

/* Several patterns, and which of them ever matched. Texts are borrowed. */
struct ckpt_patterns {
	const char *const *texts;
	size_t count;
	struct ckpt_pattern **compiled;
	bool *matched;
};

/* To be cleared in any case. */
int ckpt_patterns_init(struct ckpt_patterns *patterns, const char *const *texts, size_t count,
		       struct ckpt_error *err);
void ckpt_patterns_clear(struct ckpt_patterns *patterns);

/* 1: NAME matches one of them, 0: none, <0: as ckpt_pattern_matches(). */
int ckpt_patterns_match(struct ckpt_patterns *patterns, const char *name, struct ckpt_error *err);

/* The first that never matched, or NULL. */
const char *ckpt_patterns_unmatched(const struct ckpt_patterns *patterns);

#endif
