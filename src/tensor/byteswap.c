/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/byteswap.h"

#include <assert.h>
#include <byteswap.h>
#include <stdlib.h>
#include <string.h>

struct swap_stream {
	struct ckpt_stream base;
	const struct ckpt_byteswap *swap;
	struct ckpt_stream *inner;
	uint64_t pos;
};

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

static void swap_all(uint8_t *bytes, size_t len, uint32_t width)
{
	size_t count = width > 1 ? len / width : 0;

	for (size_t i = 0; i < count; i++, bytes += width) {
		uint64_t v8;
		uint32_t v4;
		uint16_t v2;

		switch (width) {
		case 2:
			memcpy(&v2, bytes, 2);
			v2 = bswap_16(v2);
			memcpy(bytes, &v2, 2);
			break;
		case 4:
			memcpy(&v4, bytes, 4);
			v4 = bswap_32(v4);
			memcpy(bytes, &v4, 4);
			break;
		default:
			memcpy(&v8, bytes, 8);
			v8 = bswap_64(v8);
			memcpy(bytes, &v8, 8);
		}
	}
}

static int read_swapped(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct swap_stream *s = (struct swap_stream *)stream;
	int rc;

	assert(s->pos % s->swap->width == 0); /* no number is cut in two */
	rc = s->inner->read(s->inner, buf, len, err);
	s->pos += len;
	if (rc == 0)
		swap_all(buf, len, s->swap->width);
	return rc;
}

static void close_stream(struct ckpt_stream *stream)
{
	struct swap_stream *s = (struct swap_stream *)stream;

	s->inner->close(s->inner);
	free(s);
}

static int open_stream(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		       struct ckpt_error *err)
{
	struct swap_stream *s = calloc(1, sizeof(*s));
	int rc;

	*out = NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	s->base = (struct ckpt_stream){ read_swapped, close_stream };
	s->swap = recipe->ctx;
	rc = ckpt_recipe_stream(&s->swap->inner, &s->inner, err);
	if (rc < 0)
		free(s);
	else
		*out = &s->base;
	return rc;
}

struct ckpt_recipe ckpt_byteswap_recipe(const struct ckpt_byteswap *swap)
{
	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_STREAM,
				     .len = swap->inner.len,
				     .open = open_stream,
				     .ctx = (void *)swap };
}
