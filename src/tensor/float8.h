/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_FLOAT8_H
#define CKPT_TENSOR_FLOAT8_H

#include "tensor/dtype.h"

/* The bits of a float32 to and from one of the float8 types; see cast.h for the rounding. */
uint8_t ckpt_float8_narrow(enum ckpt_dtype to, uint32_t bits);
uint32_t ckpt_float8_widen(enum ckpt_dtype from, uint8_t code);

#endif
