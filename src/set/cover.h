/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_COVER_H
#define CKPT_SET_COVER_H

#include "base/error.h"

#include <stdint.h>

/* A block of a tensor, in items: one number per dimension. */
struct ckpt_box {
	const uint64_t *offset, *shape;
	const char *file; /* for messages, where it is; NULL: the index does not say that */
};

/*
 * Do COUNT boxes cover a tensor of SHAPE, once, and nothing else? They lie inside of it. What is
 * wrong goes to ERR, CKPT_E_FORMAT: which box, and in which file. A box without items need not be
 * anywhere.
 */
int ckpt_cover_check(const struct ckpt_box *boxes, uint64_t count, const uint64_t *shape,
		     uint32_t ndim, struct ckpt_error *err);

#endif
