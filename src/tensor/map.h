/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_MAP_H
#define CKPT_TENSOR_MAP_H

#include "tensor/recipe.h"

/*
 * The bytes of INNER, changed number by number: any stretch of them can be made from the same
 * stretch of INNER and what BEGIN got. The first member of what knows how: ckpt_cast,
 * ckpt_byteswap, ckpt_negate.
 *
 * If INNER has a checksum it is compared at the end: bytes that are about to be changed would
 * otherwise get a new one that says nothing of the damage.
 */
struct ckpt_map {
	struct ckpt_recipe inner;
	uint32_t from, to; /* FROM bytes of INNER become TO bytes, at most CKPT_MAP_MOST_TO */

	/*
	 * LEN bytes from POS of INNER on, both multiples of FROM but for the last. OUT does not
	 * overlap IN. By many threads at once. KEPT: what BEGIN gave.
	 */
	int (*apply)(const struct ckpt_map *map, const void *kept, uint64_t pos, const void *in,
		     size_t len, void *out, struct ckpt_error *err);

	/*
	 * What APPLY needs beside the bytes of INNER: each reading of the map gets it once, and END
	 * releases it. NULL, both: nothing.
	 */
	int (*begin)(const struct ckpt_map *map, void **kept, struct ckpt_error *err);
	void (*end)(const struct ckpt_map *map, void *kept);
};

enum { CKPT_MAP_MOST_TO = 128 };

/* Borrows MAP, which has to live as long as the recipe, with all that it is the first member of. */
struct ckpt_recipe ckpt_map_recipe(const struct ckpt_map *map);

/* *KEPT is NULL if the map needs nothing, or on failure. */
int ckpt_map_begin(const struct ckpt_map *map, void **kept, struct ckpt_error *err);
void ckpt_map_end(const struct ckpt_map *map, void *kept);

/* For the kind CKPT_RECIPE_MAP. */
const struct ckpt_map *ckpt_recipe_map(const struct ckpt_recipe *recipe);

#endif
