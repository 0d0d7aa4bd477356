/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_KINDS_H
#define CKPT_DIFF_KINDS_H

#include "model/model.h"

/* What a value is in Python, whether the protocol has an opcode for it or writes a call. */

/*
 * Does V hold nothing that has a name? True for sets, whose items have no order, and for values
 * that old protocols write as a call.
 */
bool ckpt_is_one_value(const struct ckpt_model *model, const struct ckpt_value *v);

enum { CKPT_OF_NUMPY = 0x80 }; /* beside enum ckpt_value_kind: an array or a scalar */

uint8_t ckpt_value_kind_of(const struct ckpt_model *model, const struct ckpt_value *v);

/* The items of a set that is made of a list; NULL: V is none. */
const struct ckpt_seq *ckpt_set_of_call(const struct ckpt_model *model, const struct ckpt_value *v);

#endif
