/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_WIDEN_H
#define CKPT_DIFF_WIDEN_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>

enum ckpt_number_kind {
	CKPT_NUMBER_NONE,    /* bits, which nobody counts with */
	CKPT_NUMBER_FLOAT,   /* and integers that a float64 holds */
	CKPT_NUMBER_INTEGER, /* of 64 bits */
};

/* The dtype of the real numbers that a number of DTYPE is made of, *PARTS of them. */
enum ckpt_dtype ckpt_real_dtype(enum ckpt_dtype dtype, uint32_t *parts);

enum ckpt_number_kind ckpt_number_kind(enum ckpt_dtype real);

/* COUNT real numbers that a float64 holds. */
void ckpt_widen(enum ckpt_dtype real, const void *in, double *out, size_t count);

/* COUNT integers of any width: their magnitudes, and which are negative. */
void ckpt_widen_integers(enum ckpt_dtype real, const void *in, uint64_t *magnitudes, bool *negative,
			 size_t count);

/* How the bits of a floating dtype are read. */
struct ckpt_float_form {
	uint64_t sign;	  /* the bit, or 0 */
	uint64_t largest; /* finite magnitude */
	bool one_nan;	  /* it is what is elsewhere -0 */
};

struct ckpt_float_form ckpt_float_form(enum ckpt_dtype floating);

#endif
