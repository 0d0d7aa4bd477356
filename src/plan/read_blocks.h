/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PLAN_READ_BLOCKS_H
#define CKPT_PLAN_READ_BLOCKS_H

#include "io/workers.h"
#include "tensor/recipe.h"

/* The usual block is half of what a core's own cache has today. */
enum { CKPT_READ_BLOCK = 256 << 10, CKPT_READ_BLOCK_MAX = 512 << 10 };

/* LEN bytes at POS of recipe I. POS is a multiple of the length of a block. */
struct ckpt_block {
	uint64_t i, pos;
	size_t len;
	uint8_t *bytes; /* the thread's own */
	uint8_t *spare; /* as many bytes as were asked for; the thread's own */
};

/*
 * The one loop that takes bytes through memory: many recipes, in blocks that some threads read side by side, check, and hand to whoever
 * uses them (verify, stat, diff, a copy that casts). A block stays in a processor's own cache meanwhile. What must stay true: each block is
 * handed over once, and no two threads have the same block.
 */
struct ckpt_block_reading {
	const struct ckpt_recipe *recipes;
	uint64_t count;
	size_t block_len; /* up to CKPT_READ_BLOCK_MAX; 0: CKPT_READ_BLOCK */
	uint32_t *crc32;  /* out: the checksum of each recipe, COUNT of them; NULL: not wanted */
	/*
	 * By many threads at once, in any order, once for each block. An error ends it all.
	 * NULL: only checksums are wanted.
	 */
	int (*use)(void *ctx, const struct ckpt_block *block, struct ckpt_error *err);
	/*
	 * Recipe I cannot be read. 0: go on with the others; its checksum means nothing. By one thread at a time, once for
	 * each. NULL: the first failure ends it.
	 */
	int (*failed)(void *ctx, uint64_t i, int rc, const struct ckpt_error *err);
	/* By the caller's thread, now and then: DONE bytes were read and used. A negative status ends it. NULL is allowed. */
	int (*tick)(void *ctx, uint64_t done, struct ckpt_error *err);
	void *ctx;
};

/* Memory that each of the workers needs for blocks of BLOCK_LEN bytes (0: CKPT_READ_BLOCK) and SPARE more. */
size_t ckpt_block_buffer_size(size_t block_len, size_t spare);

/* An error of reading names the file that was read. */
int ckpt_read_blocks(struct ckpt_workers *workers, const struct ckpt_block_reading *reading, struct ckpt_error *err);

#endif
