/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_MADE_H
#define CKPT_TENSOR_MADE_H

#include "tensor/recipe.h"

#include <stddef.h>

/*
 * LEN bytes that are made band by band, in any order and by many threads at once, from bytes that lie
 * elsewhere in another order. The first member of what knows how.
 */
struct ckpt_made {
	uint64_t len;
	size_t band; /* bytes of each band but the last, which may be shorter */

	/* Make the band at POS, a multiple of BAND: LEN bytes. KEPT: what BEGIN gave. */
	int (*make)(const struct ckpt_made *made, const void *kept, uint64_t pos, size_t len,
		    void *out, struct ckpt_error *err);

	/* What MAKE needs: each reading gets it once, and END releases it. NULL, both: nothing. */
	int (*begin)(const struct ckpt_made *made, void **kept, struct ckpt_error *err);
	void (*end)(const struct ckpt_made *made, void *kept);
};

/* Borrows MADE, which has to live as long as the recipe. INNER is NULL; see there. */
struct ckpt_recipe ckpt_made_recipe(const struct ckpt_made *made);

/* For the kind CKPT_RECIPE_MADE. */
const struct ckpt_made *ckpt_recipe_made(const struct ckpt_recipe *recipe);

/* *KEPT is NULL if MAKE needs nothing, or on failure. */
int ckpt_made_begin(const struct ckpt_made *made, void **kept, struct ckpt_error *err);
void ckpt_made_end(const struct ckpt_made *made, void *kept);

#endif
