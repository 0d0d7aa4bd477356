/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/negate.h"

#include "tensor/byteswap.h"

#include <string.h>

/* The sign is in the last byte of a number. */
static void apply(const struct ckpt_map *map, uint64_t pos, const void *in, size_t len, void *out)
{
	const struct ckpt_negate *negate = (const struct ckpt_negate *)map;
	uint32_t width = map->from;
	uint64_t number = pos / width;
	uint8_t *bytes = out;

	memcpy(out, in, len);
	for (size_t i = width - 1; i < len; i += width, number++)
		if (number % 2 ? negate->odd : negate->even)
			bytes[i] ^= 0x80;
}

struct ckpt_negate ckpt_negate_of(const struct ckpt_recipe *inner, enum ckpt_dtype dtype,
				  bool is_neg, bool is_conj)
{
	uint32_t width = ckpt_byteswap_width(dtype);
	bool is_complex = width != ckpt_dtype_size(dtype);

	return (struct ckpt_negate){ .map = { *inner, width, width, apply },
				     .even = is_neg,
				     .odd = is_neg != (is_complex && is_conj) };
}
