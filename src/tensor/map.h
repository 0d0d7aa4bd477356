/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_MAP_H
#define CKPT_TENSOR_MAP_H

#include "tensor/recipe.h"

/*
 * The bytes of INNER, changed number by number: any stretch of them can be made from the same
 * stretch of INNER alone. The first member of what knows how: ckpt_cast, ckpt_byteswap,
 * ckpt_negate.
 *
 * If INNER has a checksum it is compared at the end: bytes that are about to be changed would
 * otherwise get a new one that says nothing of the damage.
 */
struct ckpt_map {
	struct ckpt_recipe inner;
	uint32_t from, to; /* FROM bytes of INNER become TO bytes */

	/*
	 * LEN bytes from POS of INNER on, a multiple of 8 bytes and of FROM both but for the last.
	 * OUT does not overlap IN.
	 */
	void (*apply)(const struct ckpt_map *map, uint64_t pos, const void *in, size_t len,
		      void *out);
};

/* Borrows MAP, which has to live as long as the recipe, with all that it is the first member of. */
struct ckpt_recipe ckpt_map_recipe(const struct ckpt_map *map);

/* For the kind CKPT_RECIPE_MAP. */
const struct ckpt_map *ckpt_recipe_map(const struct ckpt_recipe *recipe);

#endif
