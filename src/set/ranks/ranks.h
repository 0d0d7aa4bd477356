/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_RANKS_RANKS_H
#define CKPT_SET_RANKS_RANKS_H

#include "model/model.h"
#include "set/listing.h"

/*
 * Files that every rank saved for itself with torch.save, with DTensors or ShardedTensors in them:
 * model_world_size_8_rank_0.pt (verl, SkyRL), pytorch_model_fsdp_0_rank0.bin (Accelerate).
 */

/*
 * Is there such a set in the directory? STEM: the name up to the rank's number, of the set to be
 * taken.
 */
bool ckpt_ranks_find(const struct ckpt_listing *listing, char *stem, size_t size);

/*
 * The set as one checkpoint: tensors that are spread over the ranks are put together, all others
 * are taken from rank 0, to whose copy those of the other ranks must be equal in shape and dtype.
 */
int ckpt_ranks_open(const char *path, const struct ckpt_listing *listing, const char *stem,
		    struct ckpt_model **out, struct ckpt_error *err);

#endif
