/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_REPR_H
#define CKPT_MODEL_REPR_H

#include "base/buf.h"
#include "pickle/value.h"

/*
 * A value as Python's repr() would show it: numbers and texts in full up to 200 bytes, other things
 * shortly. Unsafe characters are escaped.
 */
void ckpt_value_repr(const struct ckpt_value *v, struct ckpt_buf *out);

#endif
