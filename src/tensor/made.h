/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_MADE_H
#define CKPT_TENSOR_MADE_H

#include "tensor/recipe.h"

#include <stddef.h>

/*
 * LEN bytes that are made band by band, in any order and by many threads at once, from bytes that
 * lie elsewhere in another order: a band is what has to be read together for that. The first member
 * of what knows how.
 */
struct ckpt_made {
	uint64_t len;
	size_t band;  /* bytes of each band but the last, which may be shorter */
	size_t piece; /* a part of BAND without a rest: as much is made at once */

	/*
	 * Make the piece at POS, a multiple of PIECE: LEN bytes. KEPT: what BEGIN gave; TAKEN: what
	 * TAKE did.
	 */
	int (*make)(const struct ckpt_made *made, const void *kept, void *taken, uint64_t pos,
		    size_t len, void *out, struct ckpt_error *err);

	/*
	 * Read what the pieces of the band at POS are made of, LEN bytes of them; DROP releases it.
	 * One thread makes all pieces of a band. NULL, both: MAKE needs nothing.
	 */
	int (*take)(const struct ckpt_made *made, const void *kept, uint64_t pos, size_t len,
		    void **taken, struct ckpt_error *err);
	void (*drop)(const struct ckpt_made *made, void *taken);

	/*
	 * What TAKE and MAKE need: each reading gets it once, and END releases it. NULL, both:
	 * nothing.
	 */
	int (*begin)(const struct ckpt_made *made, void **kept, struct ckpt_error *err);
	void (*end)(const struct ckpt_made *made, void *kept);
};

/* Borrows MADE, which has to live as long as the recipe. INNER is NULL; see there. */
struct ckpt_recipe ckpt_made_recipe(const struct ckpt_made *made);

/* For the kind CKPT_RECIPE_MADE. */
const struct ckpt_made *ckpt_recipe_made(const struct ckpt_recipe *recipe);

/* How many bytes the band, or the piece, at POS has. */
size_t ckpt_made_band_len(const struct ckpt_made *made, uint64_t pos);
size_t ckpt_made_piece_len(const struct ckpt_made *made, uint64_t pos);

/* *TAKEN is NULL if MAKE needs nothing, or on failure. */
int ckpt_made_take(const struct ckpt_made *made, const void *kept, uint64_t pos, void **taken,
		   struct ckpt_error *err);
void ckpt_made_drop(const struct ckpt_made *made, void *taken);

/* *KEPT is NULL if MAKE needs nothing, or on failure. */
int ckpt_made_begin(const struct ckpt_made *made, void **kept, struct ckpt_error *err);
void ckpt_made_end(const struct ckpt_made *made, void *kept);

#endif
