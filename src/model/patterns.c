/* SPDX-License-Identifier: Apache-2.0 */
#include "model/patterns.h"

#include <stdlib.h>

int ckpt_patterns_init(struct ckpt_patterns *p, const char *const *texts, size_t count,
		       struct ckpt_error *err)
{
	int rc = 0;

	*p = (struct ckpt_patterns){ .texts = texts, .count = count };
	p->compiled = calloc(count + 1, sizeof(*p->compiled));
	p->matched = calloc(count + 1, sizeof(*p->matched));
	if (!p->compiled || !p->matched)
		return ckpt_fail_nomem(err);
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = ckpt_pattern_new(texts[i], &p->compiled[i], err);
	return rc;
}

void ckpt_patterns_clear(struct ckpt_patterns *p)
{
	for (size_t i = 0; p->compiled && i < p->count; i++)
		ckpt_pattern_free(p->compiled[i]);
	free(p->compiled);
	free(p->matched);
	*p = (struct ckpt_patterns){ 0 };
}

int ckpt_patterns_match(struct ckpt_patterns *p, const char *name, struct ckpt_error *err)
{
	int any = 0;

	for (size_t i = 0; i < p->count; i++) {
		int rc = ckpt_pattern_matches(p->compiled[i], name, err);

		if (rc < 0)
			return rc;
		p->matched[i] |= rc > 0;
		any |= rc;
	}
	return any;
}

const char *ckpt_patterns_unmatched(const struct ckpt_patterns *p)
{
	for (size_t i = 0; i < p->count; i++)
		if (!p->matched[i])
			return p->texts[i];
	return NULL;
}
