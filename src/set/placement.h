/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_PLACEMENT_H
#define CKPT_SET_PLACEMENT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Which part of a tensor a rank has: what DTensor's placements mean, one per dimension of a mesh of
 * ranks. Source: torch/distributed/tensor/placement_types.py, of 2.6 and 2.14.
 */

enum {
	CKPT_MESH_MOST_DIMS = 8,
	CKPT_MESH_MOST_SEGMENTS = 64,
	CKPT_MESH_MOST_RANKS = 1 << 20,
};

/* Along one dimension of the tensor: the stretches that a rank has, one behind the other. */
struct ckpt_mesh_extent {
	uint64_t start[CKPT_MESH_MOST_SEGMENTS], len[CKPT_MESH_MOST_SEGMENTS];
	uint32_t count;
};

/* Shard(DIM), or _StridedShard(DIM, split_factor=SPLIT). */
struct ckpt_placement {
	bool replicated; /* the others mean nothing then */
	uint64_t dim, split;
};

/* How many items they are. */
uint64_t ckpt_extent_len(const struct ckpt_mesh_extent *extent);

/* All of a tensor of SHAPE. */
void ckpt_extents_init(struct ckpt_mesh_extent *extents, const uint64_t *shape, uint32_t ndim);

/*
 * What is left of it for number AT of the COUNT ranks along one dimension of the mesh; dimensions
 * of the mesh are to be given from left to right. COUNT and SPLIT: 1 to CKPT_MESH_MOST_RANKS.
 * Returns 0; CKPT_E_FORMAT for a dimension that the tensor does not have; CKPT_E_UNSUPPORTED for
 * too many stretches.
 */
int ckpt_extents_place(struct ckpt_mesh_extent *extents, uint32_t ndim,
		       const struct ckpt_placement *placement, uint64_t count, uint64_t at,
		       struct ckpt_error *err);

#endif
