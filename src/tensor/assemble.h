/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_ASSEMBLE_H
#define CKPT_TENSOR_ASSEMBLE_H

#include "base/arena.h"
#include "tensor/recipe.h"

enum { CKPT_ASSEMBLE_MOST_DIMS = 64 };

/* One rectangular block of a tensor, and where its items are. Lengths and strides in items. */
struct ckpt_tensor_block {
	const uint64_t *offset, *shape; /* in the whole tensor; NDIM numbers each */
	const uint64_t *stride;		/* in BYTES */
	uint64_t first;			/* item of BYTES that the block begins with */
	struct ckpt_recipe bytes;	/* every item of the block lies inside */
};

/*
 * The items of a box of a tensor in C order, put together from the blocks that cover it: what lies
 * in one piece is taken as it is (with its checksum, if it is all of a block), what follows one
 * behind the other is joined, and everything else is put in place row by row, some rows at a time.
 *
 * OFFSET, SHAPE: the box, NDIM numbers each. Blocks must not overlap. What the recipe needs is kept
 * in ARENA. Returns 0; CKPT_E_FORMAT if the blocks leave a hole in the box; CKPT_E_UNSUPPORTED for
 * a part of a block whose bytes cannot be read at any place (compressed); CKPT_E_NOMEM.
 */
int ckpt_assemble(const struct ckpt_tensor_block *blocks, size_t count, uint32_t ndim,
		  const uint64_t *offset, const uint64_t *shape, uint32_t itemsize,
		  struct ckpt_arena *arena, struct ckpt_recipe *out, struct ckpt_error *err);

#endif
