/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tensor in C order, made of tiles that cover it, in bands: some rows of the first dimension
 * whose rows are not too long, within one index of each dimension before it. Of every tile a band
 * takes a box (a piece), whose bytes are read in one stretch where they lie close together.
 *
 * What must stay true: the tiles cover the whole without overlap (assemble.c counts them), since a
 * band is not cleared before they are placed. The bytes get a new checksum, so the recorded one of
 * a tile is compared on the way, if its bytes are read front to back; a seek ends that.
 */
#include "tensor/mosaic.h"

#include "io/bands.h"
#include "tensor/shape.h"
#include "tensor/span.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum { BAND = 1 << 20 };

/* How far a tile was read in one go from its beginning, and the checksum of that. */
struct progress {
	uint64_t next; /* byte; UINT64_MAX: it was not read front to back */
	uint32_t crc32;
};

struct mosaic_stream {
	struct ckpt_stream base;
	const struct ckpt_mosaic *m;
	uint32_t dim;			      /* of the rows */
	uint64_t row_items;		      /* items per row */
	uint64_t rows;			      /* per band */
	uint64_t at[CKPT_ASSEMBLE_MOST_DIMS]; /* first row of the next band */
	struct progress *progress;	      /* by tile */
	struct ckpt_bands bands;
	struct ckpt_span span;
};

/* The box of one tile in one band. */
struct band_piece {
	const struct ckpt_mosaic_tile *tile;
	uint64_t shape[CKPT_ASSEMBLE_MOST_DIMS];
	uint64_t from; /* first item in the tile's bytes */
	uint64_t to;   /* first item in the band */
};

static uint64_t last_item(const struct mosaic_stream *s, const struct band_piece *p)
{
	uint64_t last = 0;

	for (uint32_t i = s->dim; i < s->m->ndim; i++)
		last += (p->shape[i] - 1) * p->tile->stride[i];
	return last;
}

static uint64_t items_of(const struct mosaic_stream *s, const struct band_piece *p)
{
	return ckpt_shape_count(p->shape + s->dim, s->m->ndim - s->dim);
}

/* Items of the last dimension that lie side by side, here and there. */
static uint64_t run_items(const struct mosaic_stream *s, const struct band_piece *p)
{
	uint32_t last = s->m->ndim - 1;

	return p->tile->stride[last] == 1 || p->shape[last] == 1 ? p->shape[last] : 1;
}

/*
 * Put the runs of a piece in their places; SPAN holds the bytes from its first item on, or is NULL.
 */
static int place_runs(struct mosaic_stream *s, const struct band_piece *p, const uint8_t *span,
		      struct ckpt_error *err)
{
	uint64_t at[CKPT_ASSEMBLE_MOST_DIMS] = { 0 }, run = run_items(s, p);
	uint32_t ndim = s->m->ndim, itemsize = s->m->itemsize;
	uint64_t count = items_of(s, p) / run;
	size_t len = (size_t)(run * itemsize);
	int rc = 0;

	for (uint64_t n = 0; rc == 0 && n < count; n++) {
		uint64_t from = 0, to = p->to, step = 1;

		for (uint32_t i = ndim; i-- > s->dim;) {
			from += at[i] * p->tile->stride[i];
			to += at[i] * step;
			step *= s->m->shape[i];
		}
		if (span)
			memcpy(s->bands.bytes + to * itemsize, span + from * itemsize, len);
		else
			rc = ckpt_recipe_read(&p->tile->bytes, (p->from + from) * itemsize,
					s->bands.bytes + to * itemsize, len, err);
		for (uint32_t i = ndim; i-- > s->dim;) {
			at[i] += i == ndim - 1 ? run : 1;
			if (at[i] < p->shape[i])
				break;
			at[i] = 0;
		}
	}
	return rc;
}

/*
 * Bytes that are put elsewhere get a new checksum, so the one that they had is checked on the way.
 */
static int check_tile_crc(struct mosaic_stream *s, const struct band_piece *p, const uint8_t *bytes,
			  size_t len, struct ckpt_error *err)
{
	const struct ckpt_recipe *all = &p->tile->bytes;
	struct progress *so_far = &s->progress[p->tile - s->m->tiles];
	uint64_t from = p->from * s->m->itemsize;

	if (so_far->next != from) {
		so_far->next = UINT64_MAX;
		return 0;
	}
	so_far->crc32 = libdeflate_crc32(so_far->crc32, bytes, len);
	so_far->next += len;
	if (so_far->next < all->len || so_far->crc32 == all->crc32)
		return 0;
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_DAMAGED,
				       "is damaged: the CRC-32 of a chunk is %08" PRIx32
				       ", recorded is %08" PRIx32,
				       so_far->crc32, all->crc32),
			     all->kind == CKPT_RECIPE_EXTENT ? ckpt_source_path(all->src) : NULL,
			     NULL, CKPT_NO_OFFSET);
}

static int place_piece(struct mosaic_stream *s, const struct band_piece *p, struct ckpt_error *err)
{
	uint64_t itemsize = s->m->itemsize, span = (last_item(s, p) + 1) * itemsize,
		 wanted = items_of(s, p) * itemsize;
	uint8_t *buf;
	int rc;

	if (!ckpt_span_is_worth(span, wanted))
		return place_runs(s, p, NULL, err);
	buf = ckpt_span_reserve(&s->span, (size_t)span);
	if (!buf)
		return ckpt_fail_nomem(err);
	rc = ckpt_recipe_read(&p->tile->bytes, p->from * itemsize, buf, (size_t)span, err);
	if (rc == 0 && p->tile->bytes.has_crc)
		rc = check_tile_crc(s, p, buf, (size_t)span, err);
	return rc < 0 ? rc : place_runs(s, p, buf, err);
}

/* What TILE has of the band of ROWS rows at s->at. */
static bool cut_piece(const struct mosaic_stream *s, const struct ckpt_mosaic_tile *tile,
		      uint64_t rows, struct band_piece *p)
{
	uint64_t band_start = s->at[s->dim], start = tile->offset[s->dim],
		 end = start + tile->shape[s->dim], step = 1;

	for (uint32_t i = 0; i < s->dim; i++)
		if (s->at[i] < tile->offset[i] || s->at[i] >= tile->offset[i] + tile->shape[i])
			return false;
	if (start < band_start)
		start = band_start;
	if (end > band_start + rows)
		end = band_start + rows;
	if (start >= end)
		return false;
	p->tile = tile;
	p->from = tile->first + (start - tile->offset[s->dim]) * tile->stride[s->dim];
	p->to = 0;
	for (uint32_t i = 0; i < s->dim; i++)
		p->from += (s->at[i] - tile->offset[i]) * tile->stride[i];
	for (uint32_t i = s->m->ndim; i-- > s->dim;) {
		p->shape[i] = i == s->dim ? end - start : tile->shape[i];
		p->to += (i == s->dim ? start - band_start : tile->offset[i]) * step;
		step *= s->m->shape[i];
	}
	return true;
}

static int next_band(struct ckpt_stream *stream, struct ckpt_error *err)
{
	struct mosaic_stream *s = (struct mosaic_stream *)stream;
	uint64_t left = s->m->shape[s->dim] - s->at[s->dim], rows = left < s->rows ? left : s->rows;
	struct band_piece piece;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->m->tile_count; i++)
		if (cut_piece(s, &s->m->tiles[i], rows, &piece))
			rc = place_piece(s, &piece, err);
	s->bands.len = (size_t)(rows * s->row_items * s->m->itemsize);
	s->bands.taken = 0;
	s->at[s->dim] += rows;
	for (uint32_t i = s->dim; i > 0 && s->at[i] == s->m->shape[i]; i--) {
		s->at[i] = 0;
		s->at[i - 1]++;
	}
	return rc;
}

static int read_mosaic(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct mosaic_stream *s = (struct mosaic_stream *)stream;

	return ckpt_bands_read(&s->bands, stream, next_band, buf, len, err);
}

static void close_mosaic(struct ckpt_stream *stream)
{
	struct mosaic_stream *s = (struct mosaic_stream *)stream;

	free(s->bands.bytes);
	free(s->span.bytes);
	free(s->progress);
	free(s);
}

static int seek_mosaic(struct ckpt_stream *stream, uint64_t off, struct ckpt_error *err)
{
	struct mosaic_stream *s = (struct mosaic_stream *)stream;
	uint64_t row_len = s->row_items * s->m->itemsize, row = off / row_len;
	int rc = 0;

	for (size_t i = 0; i < s->m->tile_count; i++)
		s->progress[i].next = UINT64_MAX;
	for (uint32_t i = s->dim + 1; i-- > 0; row /= s->m->shape[i])
		s->at[i] = row % s->m->shape[i];
	s->bands.len = s->bands.taken = 0;
	if (off % row_len) {
		rc = next_band(stream, err);
		s->bands.taken = (size_t)(off % row_len);
	}
	return rc;
}

/* The first dimension whose rows are short enough for a band; the last one's always are. */
static void choose_band(struct mosaic_stream *s)
{
	const struct ckpt_mosaic *m = s->m;

	s->dim = m->ndim - 1;
	s->row_items = 1;
	while (s->dim > 0 && s->row_items * m->shape[s->dim] * m->itemsize <= BAND)
		s->row_items *= m->shape[s->dim--];
	s->rows = BAND / (s->row_items * m->itemsize);
	if (s->rows > m->shape[s->dim])
		s->rows = m->shape[s->dim];
}

static int open_mosaic(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		       struct ckpt_error *err)
{
	struct mosaic_stream *s = calloc(1, sizeof(*s));

	*out = NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	s->base = (struct ckpt_stream){ read_mosaic, close_mosaic, seek_mosaic };
	s->m = recipe->ctx;
	choose_band(s);
	s->bands.bytes = malloc((size_t)(s->rows * s->row_items * s->m->itemsize));
	s->progress = calloc(s->m->tile_count + 1, sizeof(*s->progress));
	if (!s->bands.bytes || !s->progress) {
		close_mosaic(&s->base);
		return ckpt_fail_nomem(err);
	}
	*out = &s->base;
	return 0;
}

static const struct ckpt_recipe *inner_of_mosaic(const struct ckpt_recipe *recipe, size_t i)
{
	const struct ckpt_mosaic *m = recipe->ctx;

	return i < m->tile_count ? &m->tiles[i].bytes : NULL;
}

struct ckpt_recipe ckpt_mosaic_recipe(const struct ckpt_mosaic *m)
{
	return (struct ckpt_recipe){
		.kind = CKPT_RECIPE_STREAM,
		.len = ckpt_shape_count(m->shape, m->ndim) * m->itemsize,
		.open = open_mosaic,
		.inner = inner_of_mosaic,
		.ctx = (void *)m,
	};
}
