/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that are made in bands, as a stream: for what is short, and for readers that go front to
 * back. The mover makes the bands of a long one with several threads (plan/copy_made.c).
 */
#include "tensor/made.h"

#include "io/bands.h"

#include <assert.h>
#include <stdlib.h>

struct made_stream {
	struct ckpt_stream base;
	const struct ckpt_made *made;
	void *kept;
	bool begun;    /* KEPT is there */
	void *taken;   /* of the band at BAND */
	uint64_t band; /* UINT64_MAX: none is taken */
	uint64_t next; /* byte behind the piece */
	struct ckpt_bands pieces;
};

/* Let what the band at POS needs be there. */
static int take_band(struct made_stream *s, uint64_t pos, struct ckpt_error *err)
{
	int rc = s->begun ? 0 : ckpt_made_begin(s->made, &s->kept, err);

	if (rc < 0)
		return rc;
	s->begun = true;
	if (s->band == pos)
		return 0;
	ckpt_made_drop(s->made, s->taken);
	s->band = UINT64_MAX;
	rc = ckpt_made_take(s->made, s->kept, pos, &s->taken, err);
	s->band = rc == 0 ? pos : UINT64_MAX;
	return rc;
}

static int next_piece(struct ckpt_stream *stream, struct ckpt_error *err)
{
	struct made_stream *s = (struct made_stream *)stream;
	const struct ckpt_made *made = s->made;
	size_t len = ckpt_made_piece_len(made, s->next);
	int rc = take_band(s, s->next / made->band * made->band, err);

	if (rc < 0)
		return rc;
	rc = made->make(made, s->kept, s->taken, s->next, len, s->pieces.bytes, err);
	s->next += len;
	s->pieces.len = len;
	s->pieces.taken = 0;
	return rc;
}

static int read_made(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct made_stream *s = (struct made_stream *)stream;

	return ckpt_bands_read(&s->pieces, stream, next_piece, buf, len, err);
}

static int seek_made(struct ckpt_stream *stream, uint64_t off, struct ckpt_error *err)
{
	struct made_stream *s = (struct made_stream *)stream;
	size_t skip = (size_t)(off % s->made->piece);
	int rc;

	s->next = off - skip;
	s->pieces.len = s->pieces.taken = 0;
	rc = skip ? next_piece(stream, err) : 0;
	s->pieces.taken = skip;
	return rc;
}

static void close_made(struct ckpt_stream *stream)
{
	struct made_stream *s = (struct made_stream *)stream;

	ckpt_made_drop(s->made, s->taken);
	ckpt_made_end(s->made, s->kept);
	free(s->pieces.bytes);
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
	s->band = UINT64_MAX;
	s->pieces.bytes = malloc(ckpt_made_piece_len(made, 0) + 1);
	if (!s->pieces.bytes) {
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

size_t ckpt_made_band_len(const struct ckpt_made *made, uint64_t pos)
{
	return made->len - pos < made->band ? (size_t)(made->len - pos) : made->band;
}

size_t ckpt_made_piece_len(const struct ckpt_made *made, uint64_t pos)
{
	return made->len - pos < made->piece ? (size_t)(made->len - pos) : made->piece;
}

int ckpt_made_take(const struct ckpt_made *made, const void *kept, uint64_t pos, void **taken,
		   struct ckpt_error *err)
{
	*taken = NULL;
	return made->take ? made->take(made, kept, pos, ckpt_made_band_len(made, pos), taken, err)
			  : 0;
}

void ckpt_made_drop(const struct ckpt_made *made, void *taken)
{
	if (taken)
		made->drop(made, taken);
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
	assert(made->piece && made->band % made->piece == 0);
	return (struct ckpt_recipe){
		.kind = CKPT_RECIPE_MADE, .len = made->len, .open = open_made, .ctx = (void *)made
	};
}
