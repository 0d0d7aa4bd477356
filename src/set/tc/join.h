/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_TC_JOIN_H
#define CKPT_SET_TC_JOIN_H

#include "set/mesh.h"
#include "set/tc/sharding.h"
#include "set/tc/tc.h"

/* Inside of ckpt_tc_join(): one tensor after the other (tensor.c). */

enum { CKPT_TC_SHOWN = 200 };

struct ckpt_tc_joiner {
	struct ckpt_tc *tc;
	struct ckpt_tc_tree *tree;
	const uint32_t *roots;
	struct ckpt_tc_shardings shardings; /* what the metadata say of meshes, and: */
	struct ckpt_meshes meshes;	/* what DTensors say themselves */
	uint32_t *group; /* malloc: by rank, that of the tensor at hand plus 1; 0: in none */
	uint64_t left;	 /* groups and boxes that may be read: tensors can share their lists */
	struct ckpt_strmap ties; /* what a tensor was joined of, to its storage */
	struct ckpt_buf key, name;
	struct ckpt_error *err;
};

/* "model.layers.0.weight", escaped. */
const char *ckpt_tc_name(struct ckpt_tc_joiner *j, const struct ckpt_tc_node *n,
			 char shown[CKPT_TC_SHOWN]);

/* Put the name in front of what was said. FILE: whose part of it is wrong, or CKPT_TC_NONE. */
int ckpt_tc_fail_node(struct ckpt_tc_joiner *j, const struct ckpt_tc_node *n, uint32_t file,
		      int rc);

/*
 * Of a rank that should have a part and does not: "'model_2.pt' is missing, which has rank 2's
 * part".
 */
void ckpt_tc_describe_absent(const struct ckpt_tc_index *index, uint32_t item, uint32_t rank,
			     char *text, size_t size);

/* The list of ranks in a group; NULL: there is none. */
const struct ckpt_value *ckpt_tc_ranks(const struct ckpt_value *group);

/* A tensor of which a place in the metadata tells who has what. */
int ckpt_tc_join_described(struct ckpt_tc_joiner *j, const struct ckpt_tc_node *n);

/* Another: as the lowest rank has it, but DTensors say themselves who has what. */
int ckpt_tc_join_undescribed(struct ckpt_tc_joiner *j, const struct ckpt_tc_node *n);

#endif
