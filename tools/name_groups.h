/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_NAME_GROUPS_H
#define CKPT_TOOLS_NAME_GROUPS_H

#include <ckpt/ckpt.h>

/* Tensors whose names begin with the same parts: see ckpt_name_front(). */
struct name_group {
	const char *name; /* of its first tensor, which begins with the group's */
	size_t len;
	uint64_t first; /* row */
	/* what has several names is in a group once, and in every group that it has a name in */
	uint64_t tensors, elements, nbytes;
};

struct name_groups {
	struct name_group *groups; /* malloc, in the order of their first tensors */
	size_t count;
	uint64_t elements, nbytes; /* of all, each tensor once */
};

/*
 * ROWS: COUNT numbers of tensors; NULL: 0, 1, 2 ... False: no memory. The names are the model's.
 */
bool name_groups_make(const struct ckpt_model *model, const struct ckpt_parts *parts,
		      const uint64_t *rows, size_t count, uint64_t depth, struct name_groups *out);
void name_groups_clear(struct name_groups *groups);

#endif
