/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_NUMPY_MEMBERS_H
#define CKPT_NUMPY_MEMBERS_H

#include "format/format.h"
#include "numpy/npy.h"

/*
 * What files of numpy can hold of a checkpoint: its tensors, and arrays and scalars of numpy, in
 * the order of the file. A tensor that has several names is written under each.
 */
struct ckpt_numpy_member {
	const char *name; /* as `ckpt ls` prints it; "arr_0" if the checkpoint is a single array */
	const struct ckpt_value *value;
	uint64_t size; /* of a .npy file of it */
};

struct ckpt_numpy_members {
	const struct ckpt_model *model;
	struct ckpt_arena *arena;
	struct ckpt_numpy_member *items;
	uint32_t count, cap;
	uint64_t others; /* values that such files cannot hold */
	struct ckpt_strmap by_name;
};

/*
 * List them. CHECK_NAME says whether a name can be written (0, or CKPT_E_UNSUPPORTED). What cannot
 * be written is reported to OPTIONS->unfit, and is an error without CKPT_SAVE_DROP_OTHERS.
 * CKPT_E_CLASH: two have one name. To be cleared in any case.
 */
int ckpt_numpy_members_list(const struct ckpt_model *model, const struct ckpt_save_options *options,
			    int (*check_name)(const char *name, struct ckpt_error *err),
			    struct ckpt_numpy_members *out, struct ckpt_error *err);
void ckpt_numpy_members_clear(struct ckpt_numpy_members *members);

/* The bytes of M; both are to be closed in any case. */
int ckpt_numpy_member_open(const struct ckpt_numpy_members *members,
			   const struct ckpt_numpy_member *m, struct ckpt_array **array,
			   struct ckpt_npy *npy, struct ckpt_error *err);

#endif
