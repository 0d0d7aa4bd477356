/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/blocks.h"

#include "tensor/map.h"

#include <libdeflate.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
	BLOCK = 512 << 10,    /* in memory, before and behind a map */
	TOGETHER = 2 * BLOCK, /* waking threads for less costs more than it saves */
};

/* One block's checksums: as read, and as written. */
struct crcs {
	uint32_t before, after;
};

struct copy {
	struct ckpt_work work;
	const struct ckpt_recipe *from; /* what is read */
	const struct ckpt_map *map;	/* what is done with it, or NULL */
	struct ckpt_stream *stream; /* of FROM, where it can only be read front to back, or NULL */
	struct ckpt_sink *sink;
	uint64_t at;
	const struct ckpt_blocks_tick *tick;
	struct ckpt_moved *moved;
	size_t block;		   /* bytes that are read for each but the last */
	uint64_t next, count;	   /* blocks */
	struct crcs *crcs;	   /* by block; NULL: none are wanted */
	atomic_uint_fast64_t done; /* bytes written */
};

/* A thread's own. */
struct desk {
	uint64_t number;
	size_t len;
	uint8_t in[BLOCK], out[BLOCK];
};

size_t ckpt_blocks_desk(void)
{
	return sizeof(struct desk);
}

uint32_t ckpt_join_crc(uint32_t first, uint32_t second, uint64_t len)
{
	return (uint32_t)crc32_combine(first, second, (z_off_t)len);
}

/* What is read begins, or ends, with what is written, in proportion. */
static uint64_t written_for(const struct copy *c, uint64_t read)
{
	return c->map && c->map->from != c->map->to ? read / c->map->from * c->map->to : read;
}

static int read_block(struct copy *c, struct desk *desk, struct ckpt_error *err)
{
	uint64_t pos = desk->number * c->block;
	int rc;

	if (c->stream)
		return c->stream->read(c->stream, desk->in, desk->len, err);
	rc = ckpt_source_read(c->from->src, c->from->off + pos, desk->in, desk->len, err);
	return ckpt_error_at(err, rc, ckpt_source_path(c->from->src), NULL, CKPT_NO_OFFSET);
}

static int take(struct ckpt_work *work, void *thread, struct ckpt_error *err)
{
	struct copy *c = (struct copy *)work;
	struct desk *desk = thread;
	uint64_t left = c->from->len - c->next * c->block;
	int rc = 0;

	if (c->next == c->count)
		return 0;
	desk->number = c->next++;
	desk->len = left < c->block ? (size_t)left : c->block;
	if (c->stream)
		rc = read_block(c, desk, err);
	return rc < 0 ? rc : 1;
}

static void look(struct copy *c, const struct desk *desk, const uint8_t *bytes, size_t len)
{
	struct ckpt_moved *moved = c->moved;

	if (moved->want_crc)
		c->crcs[desk->number].after = libdeflate_crc32(0, bytes, len);
	if (desk->number == 0 && len >= sizeof(moved->head)) {
		memcpy(moved->head, bytes, sizeof(moved->head));
		moved->has_head = true;
	}
}

static int finish(struct ckpt_work *work, void *thread, struct ckpt_error *err)
{
	struct copy *c = (struct copy *)work;
	struct desk *desk = thread;
	uint64_t pos = desk->number * c->block;
	size_t len = (size_t)written_for(c, desk->len);
	uint8_t *bytes = desk->in;
	int rc = c->stream ? 0 : read_block(c, desk, err);

	if (rc < 0)
		return rc;
	if (c->map) {
		if (c->map->inner.has_crc)
			c->crcs[desk->number].before = libdeflate_crc32(0, desk->in, desk->len);
		bytes = desk->out;
		c->map->apply(c->map, pos, desk->in, desk->len, bytes);
	}
	look(c, desk, bytes, len);
	rc = ckpt_sink_write(c->sink, c->at + written_for(c, pos), bytes, len, err);
	c->done += len;
	return rc;
}

static int tick(struct ckpt_work *work, struct ckpt_error *err)
{
	struct copy *c = (struct copy *)work;

	return c->tick->tick(c->tick->ctx, c->done, err);
}

static void join_crcs(struct copy *c, struct crcs *all)
{
	for (uint64_t i = 0, pos = 0; i < c->count; i++, pos += c->block) {
		uint64_t left = c->from->len - pos, len = left < c->block ? left : c->block;

		if (c->map && c->map->inner.has_crc)
			all->before = ckpt_join_crc(all->before, c->crcs[i].before, len);
		if (c->moved->want_crc)
			all->after =
				ckpt_join_crc(all->after, c->crcs[i].after, written_for(c, len));
	}
}

static int copy_blocks(struct copy *c, struct ckpt_workers *workers, struct ckpt_error *err)
{
	bool wants = c->moved->want_crc || (c->map && c->map->inner.has_crc);
	struct crcs all = { 0, 0 };
	int rc;

	c->crcs = wants ? calloc(c->count, sizeof(*c->crcs)) : NULL;
	if (wants && !c->crcs)
		return ckpt_fail_nomem(err);
	rc = ckpt_workers_run(workers, &c->work, c->from->len >= TOGETHER, err);
	if (rc == 0 && wants)
		join_crcs(c, &all);
	c->moved->crc32 = all.after;
	free(c->crcs);
	return rc == 0 && c->map ? ckpt_recipe_check(&c->map->inner, all.before, err) : rc;
}

int ckpt_blocks_copy(struct ckpt_workers *workers, const struct ckpt_recipe *recipe,
		     struct ckpt_sink *sink, uint64_t at, const struct ckpt_blocks_tick *ticks,
		     struct ckpt_moved *moved, struct ckpt_error *err)
{
	const struct ckpt_map *map =
		recipe->kind == CKPT_RECIPE_MAP ? ckpt_recipe_map(recipe) : NULL;
	const struct ckpt_recipe *from = map ? &map->inner : recipe;
	struct copy c = { .work = { take, finish, tick },
			  .from = from,
			  .map = map,
			  .sink = sink,
			  .at = at,
			  .tick = ticks,
			  .moved = moved };
	int rc = 0;

	if (from->kind != CKPT_RECIPE_EXTENT || ckpt_source_is_sequential(from->src))
		rc = ckpt_recipe_stream(from, &c.stream, err);
	if (rc < 0)
		return rc;
	c.block = map && map->to > map->from ? BLOCK / map->to * map->from : BLOCK;
	c.count = from->len / c.block + (from->len % c.block != 0);
	rc = copy_blocks(&c, workers, err);
	if (c.stream)
		c.stream->close(c.stream);
	return rc;
}
