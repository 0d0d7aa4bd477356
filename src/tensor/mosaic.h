/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_MOSAIC_H
#define CKPT_TENSOR_MOSAIC_H

#include "tensor/assemble.h"

/* One tile: a box of the whole, and where its items are. */
struct ckpt_mosaic_tile {
	uint64_t offset[CKPT_ASSEMBLE_MOST_DIMS], shape[CKPT_ASSEMBLE_MOST_DIMS];
	uint64_t stride[CKPT_ASSEMBLE_MOST_DIMS]; /* in BYTES, in items */
	uint64_t first;				  /* item of BYTES that the tile begins with */
	uint64_t start;				  /* item of the whole that it begins at */
	struct ckpt_recipe bytes;		  /* random */
};

/* A tensor in C order of tiles that cover it without overlap. */
struct ckpt_mosaic {
	uint32_t itemsize, ndim; /* ndim: 1 or more */
	uint64_t shape[CKPT_ASSEMBLE_MOST_DIMS];
	const struct ckpt_mosaic_tile *tiles;
	size_t tile_count;
};

/* Borrows MOSAIC, which has to live as long as the recipe. */
struct ckpt_recipe ckpt_mosaic_recipe(const struct ckpt_mosaic *mosaic);

#endif
