/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/recipe.h"

#include <stdlib.h>
#include <string.h>

struct plain_stream {
	struct ckpt_stream base;
	const struct ckpt_recipe *recipe;
	uint64_t pos;
};

static int read_plain(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct plain_stream *s = (struct plain_stream *)stream;
	const struct ckpt_recipe *r = s->recipe;
	uint64_t pos = s->pos;

	s->pos += len;
	if (r->kind == CKPT_RECIPE_EXTENT)
		return ckpt_source_read(r->src, r->off + pos, buf, len, err);
	memcpy(buf, (const uint8_t *)r->memory + pos, len);
	return 0;
}

static void close_plain(struct ckpt_stream *stream)
{
	free(stream);
}

int ckpt_recipe_stream(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		       struct ckpt_error *err)
{
	struct plain_stream *s;

	if (recipe->kind == CKPT_RECIPE_STREAM)
		return recipe->open(recipe, out, err);
	*out = NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return ckpt_fail_nomem(err);
	*s = (struct plain_stream){ { read_plain, close_plain }, recipe, 0 };
	*out = &s->base;
	return 0;
}
