/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PLAN_READ_BLOCKS_H
#define CKPT_PLAN_READ_BLOCKS_H

#include "io/workers.h"
#include "tensor/recipe.h"

/* The default block is half of the size that a core's own cache has today. */
enum { CKPT_READ_BLOCK = 256 << 10, CKPT_READ_BLOCK_MAX = 512 << 10 };

/* LEN bytes at POS of recipe I. POS is a multiple of the length of a block. */
struct ckpt_block {
	uint64_t i, pos;
	size_t len;
	uint8_t *bytes; /* the thread's own, or where PLACE says */
	uint8_t *spare; /* as many bytes as were asked for; the thread's own */
};

/*
 * The one loop that takes bytes through memory. Several threads read the blocks of many recipes
 * in parallel, compute checksums, and hand each block to its user (verify, stat, diff, a copy
 * that casts), while it is in the cache of a core. Each block is handed over once, by one
 * thread.
 */
struct ckpt_block_reading {
	const struct ckpt_recipe *recipes;
	uint64_t count;
	/*
	 * The recipes, extents of random sources, have one length and are read beside each other: the
	 * blocks at one place are handed over at once, as a block of recipe 0, that of recipe I
	 * I * BLOCK_LEN behind BYTES. The thread goes on with the next place until it has done ROW_LEN
	 * bytes of each, a multiple of BLOCK_LEN.
	 */
	bool in_step;
	size_t row_len;
	size_t block_len; /* up to CKPT_READ_BLOCK_MAX; 0: CKPT_READ_BLOCK */
	/*
	 * Where the bytes at POS of recipe I are to be, not IN_STEP. NULL: in memory of the thread, only
	 * for USE.
	 */
	uint8_t *(*place)(void *ctx, uint64_t i, uint64_t pos);
	uint32_t *crc32;  /* out: the checksum of each recipe, COUNT of them; NULL: not wanted */
	/*
	 * Called by many threads at once, in any order, once for each block. An error ends the
	 * reading. NULL: only checksums are wanted, or the bytes at their PLACE.
	 */
	int (*use)(void *ctx, const struct ckpt_block *block, struct ckpt_error *err);
	/*
	 * Recipe I cannot be read. Return 0 to go on with the others; its checksum then means
	 * nothing. Called by one thread at a time, once for each recipe. NULL: the first failure
	 * ends the reading, as it does IN_STEP.
	 */
	int (*failed)(void *ctx, uint64_t i, int rc, const struct ckpt_error *err);
	/*
	 * Called by the caller's thread, now and then: DONE bytes were read and used. A negative
	 * status ends the reading. May be NULL.
	 */
	int (*tick)(void *ctx, uint64_t done, struct ckpt_error *err);
	void *ctx;
};

/* Memory that a worker needs for a block of BLOCK_LEN bytes (0: CKPT_READ_BLOCK) and SPARE more. */
size_t ckpt_block_buffer_size(size_t block_len, size_t spare);

/* An error of reading names the file that was read. */
int ckpt_read_blocks(struct ckpt_workers *workers, const struct ckpt_block_reading *reading,
		     struct ckpt_error *err);

#endif
