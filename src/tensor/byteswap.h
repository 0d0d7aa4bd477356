/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_BYTESWAP_H
#define CKPT_TENSOR_BYTESWAP_H

#include "tensor/dtype.h"
#include "tensor/map.h"

/*
 * For ckpt_map_recipe(): the bytes of MAP.inner with every number of WIDTH bytes (1, 2, 4 or 8)
 * turned around, as torch.load does with a file of the other byte order. A remainder that is no
 * whole number stays as it is.
 */
struct ckpt_byteswap {
	struct ckpt_map map;
};

struct ckpt_byteswap ckpt_byteswap_of(const struct ckpt_recipe *inner, uint32_t width);

/* How wide the numbers are that a dtype consists of: a complex one has two. */
uint32_t ckpt_byteswap_width(enum ckpt_dtype dtype);

#endif
