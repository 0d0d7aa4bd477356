/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the blocks of one long recipe, changes their bytes if it is a map, and writes them. Of a mean
 * of extents it reads the blocks of all of them in step, sums them, and writes the result.
 * Neither what is read for a block nor what is written for it may pass CKPT_READ_BLOCK_MAX, the
 * size of a worker's two buffers, and both are whole items: a map that makes its bytes more
 * reads shorter blocks.
 */
#include "plan/copy_blocks.h"

#include "plan/copy_made.h"
#include "plan/read_blocks.h"
#include "tensor/map.h"
#include "tensor/mean.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

struct copy {
	const struct ckpt_map *map; /* NULL: bytes are written as they are read */
	void *kept;		    /* what it needs */
	const struct ckpt_mean *mean;
	struct ckpt_sink *sink;
	uint64_t at;
	struct ckpt_moved *moved;
	size_t block_len, row_len; /* ROW_LEN: that a mean is written in */
	uint32_t *written_crcs;	   /* by block, of a map's output; malloc; NULL: not wanted */
	int (*tick)(void *ctx, uint64_t done, struct ckpt_error *err);
	void *tick_ctx;
};

size_t ckpt_copy_buffer_size(void)
{
	return ckpt_block_buffer_size(CKPT_READ_BLOCK_MAX, CKPT_READ_BLOCK_MAX);
}

/* How many bytes are written for READ bytes, which are whole items. */
static uint64_t written_for(const struct copy *c, uint64_t read)
{
	return c->map && c->map->from != c->map->to ? read / c->map->from * c->map->to : read;
}

static int write_block(void *ctx, const struct ckpt_block *block, struct ckpt_error *err)
{
	struct copy *c = ctx;
	size_t len = (size_t)written_for(c, block->len);
	const uint8_t *bytes = block->bytes;

	if (c->map) {
		int rc = c->map->apply(c->map, c->kept, block->pos, block->bytes, block->len,
				       block->spare, err);

		if (rc < 0)
			return rc;
		bytes = block->spare;
	}
	if (c->written_crcs)
		c->written_crcs[block->pos / c->block_len] = libdeflate_crc32(0, bytes, len);
	if (block->pos == 0 && len >= sizeof(c->moved->head)) {
		memcpy(c->moved->head, bytes, sizeof(c->moved->head));
		c->moved->has_head = true;
	}
	return ckpt_sink_write(c->sink, c->at + written_for(c, block->pos), bytes, len, err);
}

static int report_written(void *ctx, uint64_t done, struct ckpt_error *err)
{
	struct copy *c = ctx;

	return c->tick(c->tick_ctx, written_for(c, done), err);
}

static uint32_t join_written_crcs(const struct copy *c, uint64_t len)
{
	uint32_t all = 0;

	for (uint64_t pos = 0; pos < len; pos += c->block_len)
		all = ckpt_join_crc(all, c->written_crcs[pos / c->block_len],
				    written_for(c, len - pos < c->block_len ? len - pos
									    : c->block_len));
	return all;
}

/* ---- the mean of several ---- */

/*
 * A worker's memory holds a block of each recipe, and a row of what is made of them: one long write
 * takes less of the kernel's time than several short ones. 0: there are too many recipes for that.
 */
static size_t mean_block_len(const struct ckpt_mean *mean)
{
	enum { LEAST = 8 << 10, MOST = 128 << 10 }; /* shorter reads take longer than a stream's */
	size_t len = MOST;

	while (len >= LEAST && len * mean->count > CKPT_READ_BLOCK_MAX)
		len /= 2;
	return len >= LEAST ? len : 0;
}

static int write_mean_block(void *ctx, const struct ckpt_block *block, struct ckpt_error *err)
{
	struct copy *c = ctx;
	const struct ckpt_mean *mean = c->mean;
	size_t size = ckpt_dtype_size(mean->dtype), rest = block->len % size;
	const uint8_t *last = block->bytes + (mean->count - 1) * c->block_len;
	uint64_t row = block->pos / c->row_len * c->row_len, end = block->pos + block->len;
	uint8_t *made = block->spare + (block->pos - row);

	ckpt_mean_of_blocks(mean, block->bytes, c->block_len, block->len / size, made);
	memcpy(made + block->len - rest, last + block->len - rest, rest);
	if (c->written_crcs)
		c->written_crcs[block->pos / c->block_len] = libdeflate_crc32(0, made, block->len);
	if (block->pos == 0 && block->len >= sizeof(c->moved->head)) {
		memcpy(c->moved->head, made, sizeof(c->moved->head));
		c->moved->has_head = true;
	}
	if (end % c->row_len && end < mean->inner->len)
		return 0;
	return ckpt_sink_write(c->sink, c->at + row, block->spare, (size_t)(end - row), err);
}

static int report_mean_written(void *ctx, uint64_t done, struct ckpt_error *err)
{
	struct copy *c = ctx;

	return c->tick(c->tick_ctx, done / c->mean->count, err);
}

static int copy_mean(struct ckpt_workers *workers, struct copy *c, struct ckpt_error *err)
{
	const struct ckpt_mean *mean = c->mean;
	uint64_t len = mean->inner->len;
	struct ckpt_block_reading reading = { .recipes = mean->inner,
					      .count = mean->count,
					      .in_step = true,
					      .row_len = c->row_len,
					      .block_len = c->block_len,
					      .crc32 = calloc(mean->count, sizeof(uint32_t)),
					      .use = write_mean_block,
					      .tick = report_mean_written,
					      .ctx = c };
	int rc;

	if (c->moved->want_crc)
		c->written_crcs = calloc(len / c->block_len + 1, sizeof(*c->written_crcs));
	if (!reading.crc32 || (c->moved->want_crc && !c->written_crcs))
		rc = ckpt_fail_nomem(err);
	else
		rc = ckpt_read_blocks(workers, &reading, err);
	for (size_t i = 0; rc == 0 && i < mean->count; i++)
		rc = ckpt_recipe_check(&mean->inner[i], reading.crc32[i], err);
	c->moved->crc32 = rc == 0 && c->written_crcs ? join_written_crcs(c, len) : 0;
	free(c->written_crcs);
	free(reading.crc32);
	return rc;
}

int ckpt_copy_blocks(struct ckpt_workers *workers, const struct ckpt_recipe *recipe,
		     struct ckpt_sink *sink, uint64_t at,
		     int (*tick)(void *ctx, uint64_t done, struct ckpt_error *err), void *tick_ctx,
		     struct ckpt_moved *moved, struct ckpt_error *err)
{
	const struct ckpt_mean *mean =
		recipe->kind == CKPT_RECIPE_MEAN ? ckpt_recipe_mean(recipe) : NULL;
	const struct ckpt_map *map =
		recipe->kind == CKPT_RECIPE_MAP ? ckpt_recipe_map(recipe) : NULL;
	const struct ckpt_recipe *from = map ? &map->inner : recipe;
	bool want_crc = map ? map->inner.has_crc : moved->want_crc; /* of what is read */
	size_t block_len = map && map->to > map->from ? CKPT_READ_BLOCK_MAX / map->to * map->from
						      : CKPT_READ_BLOCK_MAX;
	struct copy c = { .map = map,
			  .sink = sink,
			  .at = at,
			  .moved = moved,
			  .block_len = block_len,
			  .tick = tick,
			  .tick_ctx = tick_ctx };
	uint32_t crc = 0;
	struct ckpt_block_reading reading = { .recipes = from,
					      .count = 1,
					      .block_len = block_len,
					      .crc32 = want_crc ? &crc : NULL,
					      .use = write_block,
					      .tick = report_written,
					      .ctx = &c };
	int rc;

	ckpt_sink_expect(sink, at, recipe->len);
	if (recipe->kind == CKPT_RECIPE_MADE)
		return ckpt_copy_made(workers, ckpt_recipe_made(recipe), sink, at, tick, tick_ctx,
				      moved, err);
	if (mean && mean_block_len(mean) && ckpt_mean_is_random(mean)) {
		c.mean = mean;
		c.block_len = mean_block_len(mean);
		c.row_len = CKPT_READ_BLOCK_MAX;
		return copy_mean(workers, &c, err);
	}
	if (map && moved->want_crc) {
		c.written_crcs = calloc(from->len / block_len + 1, sizeof(*c.written_crcs));
		if (!c.written_crcs)
			return ckpt_fail_nomem(err);
	}
	rc = map ? ckpt_map_begin(map, &c.kept, err) : 0;
	if (rc == 0)
		rc = ckpt_read_blocks(workers, &reading, err);
	if (map)
		ckpt_map_end(map, c.kept);
	moved->crc32 = map ? 0 : crc;
	if (rc == 0 && c.written_crcs)
		moved->crc32 = join_written_crcs(&c, from->len);
	free(c.written_crcs);
	return rc == 0 && map ? ckpt_recipe_check(&map->inner, crc, err) : rc;
}
