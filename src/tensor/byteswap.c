/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/byteswap.h"

#include <byteswap.h>
#include <string.h>

uint32_t ckpt_byteswap_width(enum ckpt_dtype dtype)
{
	switch (dtype) {
	case CKPT_DTYPE_COMPLEX128:
	case CKPT_DTYPE_COMPLEX64:
	case CKPT_DTYPE_COMPLEX32:
	case CKPT_DTYPE_BCOMPLEX32: return ckpt_dtype_size(dtype) / 2;
	default: return ckpt_dtype_size(dtype);
	}
}

static void swap2(uint8_t *bytes)
{
	uint16_t v;

	memcpy(&v, bytes, 2);
	v = bswap_16(v);
	memcpy(bytes, &v, 2);
}

static void swap4(uint8_t *bytes)
{
	uint32_t v;

	memcpy(&v, bytes, 4);
	v = bswap_32(v);
	memcpy(bytes, &v, 4);
}

static void swap8(uint8_t *bytes)
{
	uint64_t v;

	memcpy(&v, bytes, 8);
	v = bswap_64(v);
	memcpy(bytes, &v, 8);
}

static int byteswap_piece(const struct ckpt_map *map, const void *kept, uint64_t pos,
			  const void *in, size_t len, void *out, struct ckpt_error *err)
{
	uint32_t width = map->from;
	uint8_t *bytes = out;

	(void)kept;
	(void)pos;
	(void)err;
	memcpy(out, in, len);
	for (size_t left = len / width; left > 0; left--, bytes += width)
		switch (width) {
		case 2: swap2(bytes); break;
		case 4: swap4(bytes); break;
		case 8: swap8(bytes); break;
		}
	return 0;
}

struct ckpt_byteswap ckpt_byteswap_of(const struct ckpt_recipe *inner, uint32_t width)
{
	return (struct ckpt_byteswap){ { *inner, width, width, byteswap_piece, NULL, NULL } };
}
