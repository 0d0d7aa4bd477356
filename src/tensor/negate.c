/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/negate.h"

#include "tensor/byteswap.h"

#include <string.h>

/* What torch negates as two's complement; bools and types of bits it does not negate at all. */
static bool is_integer(enum ckpt_dtype dtype)
{
	switch (dtype) {
	case CKPT_DTYPE_INT64:
	case CKPT_DTYPE_INT32:
	case CKPT_DTYPE_INT16:
	case CKPT_DTYPE_INT8:
	case CKPT_DTYPE_UINT64:
	case CKPT_DTYPE_UINT32:
	case CKPT_DTYPE_UINT16:
	case CKPT_DTYPE_UINT8: return true;
	default: return false;
	}
}

static int negate_integers(const struct ckpt_map *map, const void *kept, uint64_t pos,
			   const void *in, size_t len, void *out, struct ckpt_error *err)
{
	const uint8_t *from = in;
	uint8_t *to = out;

	(void)kept;
	(void)pos;
	(void)err;
	memcpy(out, in, len); /* of a last number that is cut short, too */
	for (size_t i = 0; i + map->from <= len; i += map->from)
		for (unsigned carry = 1, k = 0; k < map->from; k++) {
			unsigned sum = (uint8_t)~from[i + k] + carry;

			to[i + k] = (uint8_t)sum;
			carry = sum >> 8;
		}
	return 0;
}

/* The sign is in the last byte of a number. */
static int negate_piece(const struct ckpt_map *map, const void *kept, uint64_t pos,
			const void *in, size_t len, void *out, struct ckpt_error *err)
{
	const struct ckpt_negate *negate = (const struct ckpt_negate *)map;
	uint32_t width = map->from;
	uint64_t number = pos / width;
	uint8_t *bytes = out;

	(void)kept;
	(void)err;
	memcpy(out, in, len);
	for (size_t i = width - 1; i < len; i += width, number++)
		if (number % 2 ? negate->odd : negate->even)
			bytes[i] ^= 0x80;
	return 0;
}

struct ckpt_negate ckpt_negate_of(const struct ckpt_recipe *inner, enum ckpt_dtype dtype,
				  bool is_neg, bool is_conj)
{
	uint32_t width = ckpt_byteswap_width(dtype);
	bool is_complex = width != ckpt_dtype_size(dtype);

	return (struct ckpt_negate){ .map = { .inner = *inner,
					      .from = width,
					      .to = width,
					      .apply = is_neg && is_integer(dtype) ? negate_integers
										   : negate_piece },
				     .even = is_neg,
				     .odd = is_neg != (is_complex && is_conj) };
}
