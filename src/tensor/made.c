/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that are made in bands, as a stream: for what is short, and for readers that go front to
 * back. The mover makes the bands of a long one with several threads (plan/copy_made.c).
 */
#include "tensor/made.h"

#include "io/bands.h"

#include <stdlib.h>

struct made_stream {
	struct ckpt_stream base;
	const struct ckpt_made *made;
	void *kept;
	bool begun;    /* KEPT is there */
	uint64_t next; /* byte behind the band */
	struct ckpt_bands bands;
};

static int next_band(struct ckpt_stream *stream, struct ckpt_error *err)
{
	struct made_stream *s = (struct made_stream *)stream;
	const struct ckpt_made *made = s->made;
	size_t len = made->len - s->next < made->band ? (size_t)(made->len - s->next) : made->band;
	int rc = s->begun ? 0 : ckpt_made_begin(made, &s->kept, err);

	if (rc < 0)
		return rc;
	s->begun = true;
	rc = made->make(made, s->kept, s->next, len, s->bands.bytes, err);
	s->next += len;
	s->bands.len = len;
	s->bands.taken = 0;
	return rc;
}

static int read_made(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct made_stream *s = (struct made_stream *)stream;

	return ckpt_bands_read(&s->bands, stream, next_band, buf, len, err);
}

static int seek_made(struct ckpt_stream *stream, uint64_t off, struct ckpt_error *err)
{
	struct made_stream *s = (struct made_stream *)stream;
	size_t skip = (size_t)(off % s->made->band);
	int rc;

	s->next = off - skip;
	s->bands.len = s->bands.taken = 0;
	rc = skip ? next_band(stream, err) : 0;
	s->bands.taken = skip;
	return rc;
}

static void close_made(struct ckpt_stream *stream)
{
	struct made_stream *s = (struct made_stream *)stream;

	ckpt_made_end(s->made, s->kept);
	free(s->bands.bytes);
	free(s);
}

static int open_made(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		     struct ckpt_error *err)
{
	struct made_stream *s = calloc(1, sizeof(*s));
	const struct ckpt_made *made = ckpt_recipe_made(recipe);

	*out = NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	s->base = (struct ckpt_stream){ read_made, close_made, seek_made };
	s->made = made;
	s->bands.bytes = malloc((made->len < made->band ? (size_t)made->len : made->band) + 1);
	if (!s->bands.bytes) {
		free(s);
		return ckpt_fail_nomem(err);
	}
	*out = &s->base;
	return 0;
}

const struct ckpt_made *ckpt_recipe_made(const struct ckpt_recipe *recipe)
{
	return recipe->ctx;
}

int ckpt_made_begin(const struct ckpt_made *made, void **kept, struct ckpt_error *err)
{
	*kept = NULL;
	return made->begin ? made->begin(made, kept, err) : 0;
}

void ckpt_made_end(const struct ckpt_made *made, void *kept)
{
	if (kept)
		made->end(made, kept);
}

struct ckpt_recipe ckpt_made_recipe(const struct ckpt_made *made)
{
	return (struct ckpt_recipe){
		.kind = CKPT_RECIPE_MADE, .len = made->len, .open = open_made, .ctx = (void *)made
	};
}
