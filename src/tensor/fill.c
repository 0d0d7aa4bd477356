/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/fill.h"

#include <stdlib.h>
#include <string.h>

struct ckpt_fill ckpt_fill_zeros(uint64_t len)
{
	return (struct ckpt_fill){ .size = 1, .len = len };
}

/* As torch.full(..., nan) writes it, and how many numbers an item has. */
static const struct {
	enum ckpt_dtype dtype;
	uint64_t nan;
	uint32_t size, count;
} nans[] = {
	{ CKPT_DTYPE_FLOAT64, 0x7FF8000000000000, 8, 1 },
	{ CKPT_DTYPE_FLOAT32, 0x7FC00000, 4, 1 },
	{ CKPT_DTYPE_FLOAT16, 0x7E00, 2, 1 },
	{ CKPT_DTYPE_BFLOAT16, 0x7FC0, 2, 1 },
	{ CKPT_DTYPE_COMPLEX128, 0x7FF8000000000000, 8, 2 },
	{ CKPT_DTYPE_COMPLEX64, 0x7FC00000, 4, 2 },
	{ CKPT_DTYPE_COMPLEX32, 0x7E00, 2, 2 },
	{ CKPT_DTYPE_BCOMPLEX32, 0x7FC0, 2, 2 },
	{ CKPT_DTYPE_FLOAT8_E5M2, 0x7F, 1, 1 },
	{ CKPT_DTYPE_FLOAT8_E4M3FN, 0x7F, 1, 1 },
	{ CKPT_DTYPE_FLOAT8_E5M2FNUZ, 0x80, 1, 1 },
	{ CKPT_DTYPE_FLOAT8_E4M3FNUZ, 0x80, 1, 1 },
	{ CKPT_DTYPE_FLOAT8_E8M0FNU, 0xFF, 1, 1 },
};

bool ckpt_fill_nan(enum ckpt_dtype dtype, bool swapped, uint64_t len, struct ckpt_fill *out)
{
	*out = ckpt_fill_zeros(len);
	for (size_t i = 0; i < sizeof(nans) / sizeof(nans[0]); i++) {
		uint32_t size = nans[i].size;

		if (nans[i].dtype != dtype)
			continue;
		out->size = size * nans[i].count;
		for (uint32_t k = 0; k < out->size; k++) {
			uint32_t byte = swapped ? size - 1 - k % size : k % size;

			out->number[k] = (uint8_t)(nans[i].nan >> 8 * byte);
		}
		return true;
	}
	return false;
}

struct fill_stream {
	struct ckpt_stream base;
	const struct ckpt_fill *fill;
	uint64_t pos;
};

static int read_fill(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct fill_stream *s = (struct fill_stream *)stream;
	uint8_t *out = buf;

	(void)err;
	for (size_t i = 0; i < len; i++)
		out[i] = s->fill->number[(s->pos + i) % s->fill->size];
	s->pos += len;
	return 0;
}

static void close_fill(struct ckpt_stream *stream)
{
	free(stream);
}

static int seek_fill(struct ckpt_stream *stream, uint64_t off, struct ckpt_error *err)
{
	(void)err;
	((struct fill_stream *)stream)->pos = off;
	return 0;
}

static int open_fill(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		     struct ckpt_error *err)
{
	struct fill_stream *s = malloc(sizeof(*s));

	*out = NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	*s = (struct fill_stream){
		.base = { .read = read_fill, .close = close_fill, .seek = seek_fill },
		.fill = recipe->ctx
	};
	*out = &s->base;
	return 0;
}

struct ckpt_recipe ckpt_fill_recipe(const struct ckpt_fill *fill)
{
	return (struct ckpt_recipe){
		.kind = CKPT_RECIPE_STREAM, .len = fill->len, .open = open_fill, .ctx = (void *)fill
	};
}
