/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_TC_SHARDING_H
#define CKPT_SET_TC_SHARDING_H

#include "set/joined.h"
#include "set/placement.h"

/*
 * The sharding metadata of one tensor, for a group of ranks: DTensorShardingMetadata or
 * default_tensor_v1 of torch_checkpointing.
 */

struct ckpt_tc_rank_place {
	uint32_t rank, place;
};

/* The ranks of a mesh, sorted, with their places in it. */
struct ckpt_tc_mesh {
	const struct ckpt_tc_rank_place *ranks;
	uint32_t count;
};

/* What was read of meshes: tensors share them. */
struct ckpt_tc_shardings {
	struct ckpt_arena *arena;
	uint32_t world_size;
	struct ckpt_strmap meshes; /* the value with the ranks, to a struct ckpt_tc_mesh */
};

void ckpt_tc_shardings_clear(struct ckpt_tc_shardings *shardings);

struct ckpt_tc_sharding {
	const uint64_t *shape; /* of the whole */
	uint32_t ndim;
	const struct ckpt_value *dtype; /* a str: "torch.float32" */
	/* a DTensor: */
	const struct ckpt_tc_mesh *mesh; /* NULL: boxes */
	uint32_t mesh_ndim;
	uint64_t mesh_shape[CKPT_MESH_MOST_DIMS];
	struct ckpt_placement placements[CKPT_MESH_MOST_DIMS];
	bool replicated; /* every rank has all of it */
	/* boxes: lists of lists of numbers */
	const struct ckpt_value *global_offsets, *local_offsets, *local_sizes;
};

/*
 * Read {"type": ..., "data": ...}. CKPT_E_UNSUPPORTED: another type of metadata, or of placement.
 */
int ckpt_tc_sharding_read(struct ckpt_tc_shardings *shardings, const struct ckpt_value *packed,
			  struct ckpt_tc_sharding *out, struct ckpt_error *err);

/* Add the part of a rank, which has LOCAL of it. */
int ckpt_tc_sharding_add_part(const struct ckpt_tc_sharding *sharding, uint32_t rank, uint32_t file,
			      const struct ckpt_tensor *local, const struct ckpt_recipe *bytes,
			      struct ckpt_joined *joined, struct ckpt_error *err);

#endif
