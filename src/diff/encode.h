/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_ENCODE_H
#define CKPT_DIFF_ENCODE_H

#include "diff/pair.h"

/*
 * Are two values equal, with all that is in them? 1: yes; 0: no; CKPT_E_LIMIT: that is not known,
 * and ERR says why.
 */
int ckpt_compare_encoded(const struct ckpt_comparison *c, const struct ckpt_value *a,
			 const struct ckpt_value *b, struct ckpt_error *err);

/*
 * Keys that no name can hold in full: tuples, objects, very long texts. Has V any? Are those of A
 * and B equal, with their values if they are in another order? Returns what ckpt_compare_encoded()
 * does.
 */
bool ckpt_has_other_keys(const struct ckpt_model *model, const struct ckpt_value *v);
int ckpt_compare_other_keys(const struct ckpt_comparison *c, const struct ckpt_value *a,
			    const struct ckpt_value *b, struct ckpt_error *err);

/* What programs set on T; NULL: nothing. */
const struct ckpt_value *ckpt_tensor_attributes(const struct ckpt_model *model,
						const struct ckpt_tensor *t);

#endif
