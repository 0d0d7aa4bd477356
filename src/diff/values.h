/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_VALUES_H
#define CKPT_DIFF_VALUES_H

#include "diff/pair.h"

/* Values that hold nothing. */
int ckpt_compare_values(const struct ckpt_comparison *c, struct ckpt_pair *pair,
			struct ckpt_error *err);

/* np.ndarray, np.matrix ... */
bool ckpt_same_class_of_numpy(const struct ckpt_comparison *c, const struct ckpt_value *a,
			      const struct ckpt_value *b);

/* What programs set on two tensors. */
int ckpt_compare_attributes(const struct ckpt_comparison *c, struct ckpt_pair *pair,
			    struct ckpt_error *err);

/* The names of two types of container: may one stand for the other? */
int ckpt_compare_containers(const struct ckpt_comparison *c, struct ckpt_pair *pair,
			    struct ckpt_error *err);

#endif
