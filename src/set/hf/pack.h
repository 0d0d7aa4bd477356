/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_HF_PACK_H
#define CKPT_SET_HF_PACK_H

#include "base/error.h"

#include <stdint.h>

/*
 * Which tensors go to which file of a shard set, as the hub library deals them out. Source:
 * split_state_dict_into_shards_factory() in huggingface_hub/serialization/_base.py, of 0.34 and
 * 2.4.
 */

struct ckpt_hf_item {
	uint64_t nbytes; /* of its storage, all of it */
	/* number of the first item that is in this storage: its own, unless they share one */
	uint32_t first;
};

struct ckpt_hf_packing {
	uint32_t *order;  /* malloc: numbers of items, shard by shard */
	uint64_t *starts; /* malloc: by shard, where it begins in ORDER; one more for the end */
	uint32_t shard_count;
	uint64_t nbytes; /* of all storages, each counted once */
};

/*
 * Items are taken in their order; one that would bring a shard beyond LIMIT bytes begins the next,
 * one that is larger than that gets a shard of its own, in front of the one that is being filled,
 * and what shares a storage comes behind the others of the shard with the first of it. Returns 0,
 * CKPT_E_NOMEM, CKPT_E_LIMIT; there is something to clear then, too.
 */
int ckpt_hf_pack(const struct ckpt_hf_item *items, uint32_t count, uint64_t limit,
		 struct ckpt_hf_packing *out, struct ckpt_error *err);
void ckpt_hf_packing_clear(struct ckpt_hf_packing *packing);

#endif
