/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads recipes block by block, with several threads (io/workers.h). An extent of a random
 * source is read in finish_block(), by many threads at once. Everything else is a stream, read
 * front to back in take_block(), which one thread runs at a time. Checksums are those of blocks,
 * joined in order at the end. In step, a row of blocks is taken of recipe 0, and finish_block() reads
 * them and those at the same places of all others.
 *
 * What must stay true: each block of each recipe is taken exactly once, whole but for the last
 * of its recipe, so that CRCS has one entry for each; NEXT, POS and STREAM change in
 * take_block() alone; a recipe that failed is reported once, whichever of its blocks failed
 * first.
 */
#include "plan/read_blocks.h"

#include "plan/moved.h"

#include <libdeflate.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <zlib.h>

enum { TOGETHER = 1 << 20 /* waking threads for less costs more than it saves */ };

struct reading {
	struct ckpt_work work;
	const struct ckpt_block_reading *r;
	size_t block_len, row_len;  /* ROW_LEN: what a thread takes; BLOCK_LEN but in step */
	uint64_t *first;	    /* by recipe: number of its first block among all blocks */
	uint32_t *crcs;		    /* by block; NULL: not wanted */
	uint64_t next, pos;	    /* the next block is at POS of recipe NEXT */
	struct ckpt_stream *stream; /* of recipe NEXT, if it is one; NULL: not open */
	pthread_mutex_t lock;	    /* of FAILED */
	uint8_t *failed;	    /* bitmap by recipe */
	atomic_uint_fast64_t done;  /* bytes */
};

/* One for each thread. BYTES has room for a block and then for its SPARE. */
struct buffer {
	struct ckpt_block block;
	uint8_t bytes[];
};

static size_t block_len_or_default(size_t block_len)
{
	return block_len ? block_len : CKPT_READ_BLOCK;
}

size_t ckpt_block_buffer_size(size_t block_len, size_t spare)
{
	return sizeof(struct buffer) + block_len_or_default(block_len) + spare;
}

uint32_t ckpt_join_crc(uint32_t first, uint32_t second, uint64_t len)
{
	return (uint32_t)crc32_combine(first, second, (z_off_t)len);
}

/* ---- failures ---- */

/* Recipe I cannot be read. The user of the blocks decides whether that ends the reading of all. */
static int fail_recipe(struct reading *l, uint64_t i, int rc, const struct ckpt_error *err)
{
	uint8_t bit = (uint8_t)(1 << (i & 7));

	if (!l->r->failed || rc == CKPT_E_NOMEM)
		return rc;
	pthread_mutex_lock(&l->lock);
	rc = l->failed[i >> 3] & bit ? 0 : l->r->failed(l->r->ctx, i, rc, err);
	l->failed[i >> 3] |= bit;
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* ---- blocks ---- */

static bool is_streamed(const struct ckpt_recipe *recipe)
{
	return recipe->kind != CKPT_RECIPE_EXTENT || ckpt_source_is_sequential(recipe->src);
}

static void close_stream(struct reading *l)
{
	if (l->stream)
		l->stream->close(l->stream);
	l->stream = NULL;
}

static void next_recipe(struct reading *l)
{
	close_stream(l);
	l->next++;
	l->pos = 0;
}

static int read_from_stream(struct reading *l, const struct ckpt_recipe *recipe,
			    struct ckpt_block *block, struct ckpt_error *err)
{
	int rc = l->stream ? 0 : ckpt_recipe_stream(recipe, &l->stream, err);

	return rc < 0 ? rc : l->stream->read(l->stream, block->bytes, block->len, err);
}

static int take_block(struct ckpt_work *work, void *thread, struct ckpt_error *err)
{
	struct reading *l = (struct reading *)work;
	struct buffer *buffer = thread;
	struct ckpt_block *block = &buffer->block;

	while (l->next < (l->r->in_step && l->r->count ? 1 : l->r->count)) {
		const struct ckpt_recipe *recipe = &l->r->recipes[l->next];
		uint64_t left = recipe->len - l->pos;
		int rc;

		if (!left) {
			next_recipe(l);
			continue;
		}
		*block = (struct ckpt_block){
			.i = l->next,
			.pos = l->pos,
			.len = left < l->row_len ? (size_t)left : l->row_len,
			.bytes = l->r->place ? l->r->place(l->r->ctx, l->next, l->pos)
					     : buffer->bytes,
			.spare = buffer->bytes + (l->r->in_step ? l->r->count : 1) * l->block_len
		};
		rc = is_streamed(recipe) ? read_from_stream(l, recipe, block, err) : 0;
		l->pos += block->len;
		if (rc == 0)
			return 1;
		rc = fail_recipe(l, l->next, rc, err);
		if (rc < 0)
			return rc;
		next_recipe(l);
	}
	return 0;
}

static int read_random(struct reading *l, const struct ckpt_block *block, struct ckpt_error *err)
{
	const struct ckpt_recipe *recipe = &l->r->recipes[block->i];
	int rc = 0;

	if (!is_streamed(recipe))
		rc = ckpt_source_read(recipe->src, recipe->off + block->pos, block->bytes,
				      block->len, err);
	if (rc < 0)
		return ckpt_error_at(err, rc, ckpt_source_path(recipe->src), NULL, CKPT_NO_OFFSET);
	if (l->crcs)
		l->crcs[l->first[block->i] + block->pos / l->block_len] =
			libdeflate_crc32(0, block->bytes, block->len);
	return 0;
}

/* The blocks at one place of all recipes. */
static int read_in_step(struct reading *l, struct ckpt_block block, struct ckpt_error *err)
{
	int rc = 0;

	for (; rc == 0 && block.i < l->r->count; block.i++, block.bytes += l->block_len)
		rc = read_random(l, &block, err);
	l->done += block.len * l->r->count;
	return rc;
}

static int finish_row(struct reading *l, struct ckpt_block block, struct ckpt_error *err)
{
	uint64_t end = block.pos + block.len;
	int rc = 0;

	for (; rc == 0 && block.pos < end; block.pos += block.len) {
		block.len =
			end - block.pos < l->block_len ? (size_t)(end - block.pos) : l->block_len;
		rc = read_in_step(l, block, err);
		if (rc == 0)
			rc = l->r->use(l->r->ctx, &block, err);
	}
	return rc;
}

static int finish_block(struct ckpt_work *work, void *thread, struct ckpt_error *err)
{
	struct reading *l = (struct reading *)work;
	struct ckpt_block *block = &((struct buffer *)thread)->block;
	int rc;

	if (l->r->in_step)
		return finish_row(l, *block, err);
	rc = read_random(l, block, err);
	if (rc < 0) {
		l->done += block->len;
		return fail_recipe(l, block->i, rc, err);
	}
	if (l->r->use)
		rc = l->r->use(l->r->ctx, block, err);
	l->done += block->len;
	return rc;
}

static int report_done(struct ckpt_work *work, struct ckpt_error *err)
{
	struct reading *l = (struct reading *)work;

	return l->r->tick ? l->r->tick(l->r->ctx, l->done, err) : 0;
}

/* ---- the whole ---- */

static void join_crcs(const struct reading *l)
{
	for (uint64_t i = 0; i < l->r->count; i++) {
		uint64_t len = l->r->recipes[i].len;
		const uint32_t *crc = &l->crcs[l->first[i]];
		uint32_t all = 0;

		for (uint64_t pos = 0; pos < len; pos += l->block_len, crc++)
			all = ckpt_join_crc(all, *crc,
					    len - pos < l->block_len ? len - pos : l->block_len);
		l->r->crc32[i] = all;
	}
}

/* *BYTES: the length of all recipes together. */
static int number_blocks(struct reading *l, uint64_t *bytes, struct ckpt_error *err)
{
	uint64_t blocks = 0, count = l->r->count;

	*bytes = 0;
	l->first = malloc((count + 1) * sizeof(*l->first));
	l->failed = calloc(count / 8 + 1, 1);
	if (!l->first || !l->failed)
		return ckpt_fail_nomem(err);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t len = l->r->recipes[i].len;

		l->first[i] = blocks;
		blocks += len / l->block_len + (len % l->block_len != 0);
		*bytes += len;
	}
	if (!l->r->crc32)
		return 0;
	l->crcs = calloc(blocks + 1, sizeof(*l->crcs));
	return l->crcs ? 0 : ckpt_fail_nomem(err);
}

int ckpt_read_blocks(struct ckpt_workers *workers, const struct ckpt_block_reading *reading,
		     struct ckpt_error *err)
{
	struct reading l = { .work = { take_block, finish_block, report_done },
			     .r = reading,
			     .block_len = block_len_or_default(reading->block_len) };
	struct ckpt_error local = CKPT_ERROR_INIT;
	uint64_t bytes;
	int rc;

	l.row_len = reading->in_step ? reading->row_len : l.block_len;
	rc = number_blocks(&l, &bytes, err);

	pthread_mutex_init(&l.lock, NULL);
	if (rc == 0)
		rc = ckpt_workers_run(workers, &l.work, bytes >= TOGETHER, err ? err : &local);
	if (rc == 0 && l.crcs)
		join_crcs(&l);
	close_stream(&l);
	pthread_mutex_destroy(&l.lock);
	free(l.first);
	free(l.failed);
	free(l.crcs);
	return rc;
}
