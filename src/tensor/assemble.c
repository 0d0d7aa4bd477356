/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box of a tensor as one recipe over the blocks that cover it. Each block that meets the box
 * gives a tile. If every tile is a run of the box, the tiles are joined, in the cheapest form
 * each: the bytes as they are, a part, or a gather. If not, they become a mosaic.
 *
 * What must stay true: the tiles cover the box without a gap and without overlap. The gap is found
 * by counting items, which is right only because the caller has refused blocks that overlap. Bytes
 * that come front to back only are never read at any place: fail_stream() says so instead.
 */
#include "tensor/assemble.h"

#include "tensor/gather.h"
#include "tensor/mosaic.h"
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The box that is put together, and what its recipe is made with. */
struct target_box {
	uint32_t ndim;
	const uint64_t *offset, *shape;
	uint32_t itemsize;
	struct ckpt_arena *arena;
	struct ckpt_error *err;
};

/* What a block and the box have in common, in coordinates of the box. False: nothing. */
static bool intersect_block(const struct target_box *b, const struct ckpt_tensor_block *block,
			    struct ckpt_mosaic_tile *tile)
{
	uint64_t first = block->first;

	for (uint32_t i = 0; i < b->ndim; i++) {
		uint64_t box_end = b->offset[i] + b->shape[i],
			 block_end = block->offset[i] + block->shape[i],
			 end = box_end < block_end ? box_end : block_end,
			 start = b->offset[i] > block->offset[i] ? b->offset[i] : block->offset[i];

		if (start >= end)
			return false;
		tile->offset[i] = start - b->offset[i];
		tile->shape[i] = end - start;
		tile->stride[i] = block->stride[i];
		first += (start - block->offset[i]) * block->stride[i];
	}
	tile->first = first;
	tile->bytes = block->bytes;
	return true;
}

/* Do the tile's items follow each other in the box? START: the item of the box it begins at. */
static bool is_run_of_box(const struct target_box *b, const struct ckpt_mosaic_tile *t,
			  uint64_t *start)
{
	bool whole = true; /* all dimensions behind this one are there in full */
	bool run = true;
	uint64_t step = 1;

	*start = 0;
	for (uint32_t i = b->ndim; i-- > 0;) {
		run &= whole || t->shape[i] == 1;
		whole &= t->shape[i] == b->shape[i];
		*start += t->offset[i] * step;
		step *= b->shape[i];
	}
	return run;
}

static bool is_dense(const struct target_box *b, const struct ckpt_mosaic_tile *t)
{
	uint64_t step = 1;

	for (uint32_t i = b->ndim; i-- > 0;) {
		if (t->shape[i] > 1 && t->stride[i] != step)
			return false;
		step *= t->shape[i];
	}
	return true;
}

static int gather_tile(const struct target_box *b, const struct ckpt_mosaic_tile *t,
		       struct ckpt_recipe *out)
{
	struct ckpt_gather *g = ckpt_arena_alloc(b->arena, sizeof(*g));

	if (!g)
		return ckpt_arena_fail(b->arena, b->err);
	g->inner = t->bytes;
	g->itemsize = b->itemsize;
	g->ndim = b->ndim;
	g->offset = t->first;
	memcpy(g->shape, t->shape, b->ndim * sizeof(*g->shape));
	memcpy(g->stride, t->stride, b->ndim * sizeof(*g->stride));
	*out = ckpt_gather_recipe(g);
	return 0;
}

static int fail_stream(const struct target_box *b)
{
	return ckpt_fail(
		b->err, CKPT_E_UNSUPPORTED,
		"rows would have to be taken out of bytes that come front to back only (compressed, or "
		"cast)");
}

/* A stretch of bytes that come front to back only: what is before it is read, and dropped. */
static int skip_to_tile(const struct target_box *b, const struct ckpt_mosaic_tile *t,
			uint64_t first, uint64_t len, struct ckpt_recipe *out)
{
	struct ckpt_skip *skip = ckpt_arena_alloc(b->arena, sizeof(*skip));

	if (!skip)
		return ckpt_arena_fail(b->arena, b->err);
	*skip = (struct ckpt_skip){ t->bytes, first, len, false };
	*out = ckpt_skip_recipe(skip);
	return 0;
}

/* The items of a tile, one behind the other. */
static int tile_recipe(const struct target_box *b, const struct ckpt_mosaic_tile *t,
		       struct ckpt_recipe *out)
{
	uint64_t first = t->first * b->itemsize, len = ckpt_shape_count(t->shape, b->ndim) * b->itemsize;

	if (is_dense(b, t) && first == 0 && len == t->bytes.len) {
		*out = t->bytes;
		return 0;
	}
	if (!ckpt_recipe_is_random(&t->bytes))
		return is_dense(b, t) ? skip_to_tile(b, t, first, len, out) : fail_stream(b);
	if (!is_dense(b, t))
		return gather_tile(b, t, out);
	*out = ckpt_recipe_part(&t->bytes, first, len);
	return 0;
}

static int compare_starts(const void *a, const void *b)
{
	const struct ckpt_mosaic_tile *const *x = a, *const *y = b;

	return ((*x)->start > (*y)->start) - ((*x)->start < (*y)->start);
}

/* All tiles are runs and sorted. */
static int join_tiles(const struct target_box *b, struct ckpt_mosaic_tile *const *tiles,
		      size_t count, struct ckpt_recipe *out)
{
	struct ckpt_recipe *parts;
	uint64_t len = 0;
	int rc = 0;

	if (count == 1)
		return tile_recipe(b, tiles[0], out);
	parts = ckpt_arena_calloc(b->arena, count, sizeof(*parts));
	if (!parts)
		return ckpt_arena_fail(b->arena, b->err);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		rc = tile_recipe(b, tiles[i], &parts[i]);
		len += parts[i].len;
	}
	*out = (struct ckpt_recipe){
		.kind = CKPT_RECIPE_JOINED, .len = len, .parts = parts, .part_count = count
	};
	return rc;
}

static int make_mosaic(const struct target_box *b, struct ckpt_mosaic_tile **tiles, size_t count,
		       struct ckpt_recipe *out)
{
	struct ckpt_mosaic *m = ckpt_arena_alloc(b->arena, sizeof(*m));
	struct ckpt_mosaic_tile *copies = ckpt_arena_alloc(b->arena, count * sizeof(*copies));

	if (!m || !copies)
		return ckpt_arena_fail(b->arena, b->err);
	for (size_t i = 0; i < count; i++) {
		if (!ckpt_recipe_is_random(&tiles[i]->bytes))
			return fail_stream(b);
		copies[i] = *tiles[i];
	}
	*m = (struct ckpt_mosaic){
		.itemsize = b->itemsize, .ndim = b->ndim, .tiles = copies, .tile_count = count
	};
	memcpy(m->shape, b->shape, b->ndim * sizeof(*m->shape));
	*out = ckpt_mosaic_recipe(m);
	return 0;
}

int ckpt_assemble(const struct ckpt_tensor_block *blocks, size_t count, uint32_t ndim,
		  const uint64_t *offset, const uint64_t *shape, uint32_t itemsize,
		  struct ckpt_arena *arena, struct ckpt_recipe *out, struct ckpt_error *err)
{
	struct target_box box = { ndim, offset, shape, itemsize, arena, err };
	uint64_t covered = 0, wanted = ckpt_shape_count(shape, ndim);
	struct ckpt_mosaic_tile *tiles, **sorted;
	size_t tile_count = 0;
	bool runs = true;
	int rc;

	*out = (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEMORY, .memory = "" };
	if (!wanted)
		return 0;
	tiles = malloc((count + 1) * sizeof(*tiles));
	sorted = malloc((count + 1) * sizeof(struct ckpt_mosaic_tile *));
	for (size_t i = 0; tiles && sorted && i < count; i++) {
		struct ckpt_mosaic_tile *tile = &tiles[tile_count];

		if (!intersect_block(&box, &blocks[i], tile))
			continue;
		sorted[tile_count++] = tile;
		covered += ckpt_shape_count(tile->shape, ndim);
		runs &= is_run_of_box(&box, tile, &tile->start);
	}
	if (!tiles || !sorted) {
		rc = ckpt_fail_nomem(err);
	} else if (covered != wanted) {
		rc = ckpt_fail(err, CKPT_E_FORMAT,
			       "its chunks hold %" PRIu64 " of %" PRIu64 " items", covered, wanted);
	} else {
		qsort(sorted, tile_count, sizeof(struct ckpt_mosaic_tile *), compare_starts);
		rc = runs ? join_tiles(&box, sorted, tile_count, out)
			  : make_mosaic(&box, sorted, tile_count, out);
	}
	free(sorted);
	free(tiles);
	return rc;
}
