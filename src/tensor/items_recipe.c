/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/items.h"

#include "io/bands.h"

#include <stdlib.h>

enum { BAND = 32 << 20 };

/* Items out of their order: read in bands, so that what lies close together is read at once. */
struct band_stream {
	struct ckpt_stream base;
	struct ckpt_items_reader reader;
	uint64_t next; /* item behind the band */
	struct ckpt_bands bands;
};

static int next_band(struct ckpt_stream *stream, struct ckpt_error *err)
{
	struct band_stream *s = (struct band_stream *)stream;
	uint32_t size = s->reader.items->itemsize;
	uint64_t left = s->reader.items->numel - s->next,
		 n = left < BAND / size ? left : BAND / size;
	int rc = ckpt_items_read(&s->reader, s->next, n, s->bands.bytes, err);

	s->next += n;
	s->bands.len = (size_t)(n * size);
	s->bands.taken = 0;
	return rc;
}

static int read_band(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct band_stream *s = (struct band_stream *)stream;

	return ckpt_bands_read(&s->bands, stream, next_band, buf, len, err);
}

static void close_band(struct ckpt_stream *stream)
{
	struct band_stream *s = (struct band_stream *)stream;

	ckpt_items_close(&s->reader);
	free(s->bands.bytes);
	free(s);
}

static int open_band(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		     struct ckpt_error *err)
{
	struct band_stream *s = calloc(1, sizeof(*s));
	uint64_t len = recipe->len < BAND ? recipe->len : BAND;

	*out = NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	s->base = (struct ckpt_stream){ .read = read_band, .close = close_band };
	ckpt_items_open(recipe->ctx, &s->reader);
	s->bands.bytes = malloc((size_t)len + 1);
	if (!s->bands.bytes) {
		close_band(&s->base);
		return ckpt_fail_nomem(err);
	}
	*out = &s->base;
	return 0;
}

static const struct ckpt_recipe *inner_of_items(const struct ckpt_recipe *recipe, size_t i)
{
	const struct ckpt_items *items = recipe->ctx;

	return i ? NULL : &items->bytes;
}

struct ckpt_recipe ckpt_items_recipe(const struct ckpt_items *items)
{
	uint64_t len = items->numel * items->itemsize, off = items->offset * items->itemsize;

	if (!items->numel)
		return (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY, .memory = "" };
	if (ckpt_items_are_dense(items) && !off && len == items->bytes.len)
		return items->bytes;
	if (ckpt_items_are_dense(items) && ckpt_recipe_is_random(&items->bytes))
		return ckpt_recipe_part(&items->bytes, off, len);
	return (struct ckpt_recipe){
		.kind = CKPT_RECIPE_STREAM,
		.len = len,
		.open = open_band,
		.inner = inner_of_items,
		.ctx = (void *)items,
	};
}
