/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/negate.h"

#include "tensor/byteswap.h"

#include <stdlib.h>

struct negate_stream {
	struct ckpt_stream base;
	const struct ckpt_negate *negate;
	struct ckpt_stream *inner;
	uint64_t pos;
};

static int read_negated(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct negate_stream *s = (struct negate_stream *)stream;
	uint32_t width = s->negate->width;
	uint8_t *bytes = buf;
	int rc = s->inner->read(s->inner, buf, len, err);

	/* the sign is in the last byte of a number */
	for (size_t i = 0; rc == 0 && i < len; i++) {
		uint64_t number = (s->pos + i) / width;

		if ((s->pos + i) % width == width - 1 &&
		    (number % 2 ? s->negate->odd : s->negate->even))
			bytes[i] ^= 0x80;
	}
	s->pos += len;
	return rc;
}

static void close_stream(struct ckpt_stream *stream)
{
	struct negate_stream *s = (struct negate_stream *)stream;

	s->inner->close(s->inner);
	free(s);
}

static int open_stream(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		       struct ckpt_error *err)
{
	struct negate_stream *s = calloc(1, sizeof(*s));
	int rc;

	*out = NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	s->base = (struct ckpt_stream){ read_negated, close_stream };
	s->negate = recipe->ctx;
	rc = ckpt_recipe_stream(&s->negate->inner, &s->inner, err);
	if (rc < 0)
		free(s);
	else
		*out = &s->base;
	return rc;
}

struct ckpt_recipe ckpt_negate_recipe(const struct ckpt_negate *negate)
{
	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_STREAM,
				     .len = negate->inner.len,
				     .open = open_stream,
				     .ctx = (void *)negate };
}

struct ckpt_negate ckpt_negate_of(const struct ckpt_recipe *inner, enum ckpt_dtype dtype,
				  bool is_neg, bool is_conj)
{
	uint32_t width = ckpt_byteswap_width(dtype);
	bool is_complex = width != ckpt_dtype_size(dtype);

	return (struct ckpt_negate){ .inner = *inner,
				     .width = width,
				     .even = is_neg,
				     .odd = is_neg != (is_complex && is_conj) };
}
