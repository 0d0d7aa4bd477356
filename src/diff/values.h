/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_VALUES_H
#define CKPT_DIFF_VALUES_H

#include "diff/pair.h"

/* Compare values that hold no entries. */
int ckpt_compare_values(const struct ckpt_comparison *c, struct ckpt_pair *pair,
			struct ckpt_error *err);

/* Are they of one class: np.ndarray, np.matrix ...? */
bool ckpt_same_class_of_numpy(const struct ckpt_comparison *c, const struct ckpt_value *a,
			      const struct ckpt_value *b);

/* Compare what programs set on two tensors. */
int ckpt_compare_attributes(const struct ckpt_comparison *c, struct ckpt_pair *pair,
			    struct ckpt_error *err);

/* Compare types of containers, whose contents are entries of their own, and keys without names. */
int ckpt_compare_containers(const struct ckpt_comparison *c, struct ckpt_pair *pair,
			    struct ckpt_error *err);

#endif
