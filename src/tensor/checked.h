/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_CHECKED_H
#define CKPT_TENSOR_CHECKED_H

#include "tensor/recipe.h"

/*
 * The bytes of INNER, and at their end CKPT_E_FORMAT if their CRC-32 is another than CRC32: bytes that are
 * about to be changed would otherwise get a new checksum that says nothing of the damage.
 */
struct ckpt_checked {
	struct ckpt_recipe inner;
	uint32_t crc32;
};

/* Borrows CHECKED, which has to live as long as the recipe. */
struct ckpt_recipe ckpt_checked_recipe(const struct ckpt_checked *checked);

#endif
