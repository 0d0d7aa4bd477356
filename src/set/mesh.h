/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_MESH_H
#define CKPT_SET_MESH_H

#include "base/strmap.h"
#include "model/model.h"
#include "set/placement.h"

/*
 * Where the local part of a DTensor lies in the whole: from its DTensorSpec, which names the mesh
 * of ranks and one placement per dimension of the mesh. Source: torch/distributed/tensor/, files
 * written by 2.6 and 2.14.
 */

/* What was read of meshes while a checkpoint is opened: tensors share them. */
struct ckpt_meshes {
	struct ckpt_arena *arena; /* owned */
	struct ckpt_strmap read;  /* the value of a mesh and a rank, to the rank's place in it */
	uint64_t left;		  /* steps that may be taken: meshes can share their lists */
};

/* NBYTES: how long the pickles are that name the meshes. To be cleared also on failure. */
int ckpt_meshes_init(struct ckpt_meshes *meshes, uint64_t nbytes, struct ckpt_error *err);
void ckpt_meshes_clear(struct ckpt_meshes *meshes);

/*
 * The extents of RANK, NDIM of them, for a tensor of SHAPE. *HAS: is the rank part of the mesh.
 * Returns 0; CKPT_E_UNSUPPORTED (partial sums, more dimensions than above); CKPT_E_FORMAT;
 * CKPT_E_LIMIT: too many steps for files of this size; CKPT_E_NOMEM.
 */
int ckpt_mesh_extents(struct ckpt_meshes *meshes, const struct ckpt_model *model,
		      const struct ckpt_value *spec, uint64_t rank, const uint64_t *shape,
		      uint32_t ndim, struct ckpt_mesh_extent *out, bool *has,
		      struct ckpt_error *err);

#endif
