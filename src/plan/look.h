/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PLAN_LOOK_H
#define CKPT_PLAN_LOOK_H

#include "io/workers.h"
#include "tensor/recipe.h"

/* A block is half of what a core's own cache has today. */
enum { CKPT_LOOK_BLOCK = 256 << 10 };

/*
 * Bytes that are only looked at, none are written: many recipes, in blocks that some threads read side by side.
 * A block stays in a processor's own cache while it is looked at.
 */
struct ckpt_look {
	const struct ckpt_recipe *recipes;
	uint64_t count;
	uint32_t *crc32; /* out: the checksum of each, COUNT of them; NULL: not wanted */
	/*
	 * LEN bytes at POS of recipe I, which is a multiple of a block: by many threads at once, in any order. Each block once.
	 * NULL: only checksums are wanted.
	 */
	void (*see)(void *ctx, uint64_t i, uint64_t pos, const uint8_t *bytes, size_t len);
	/*
	 * Recipe I cannot be read. 0: go on with the others; its checksum means nothing. By one thread at a time, once for
	 * each. NULL: the first failure ends it.
	 */
	int (*failed)(void *ctx, uint64_t i, int rc, const struct ckpt_error *err);
	/* By the caller's thread, now and then: DONE bytes were looked at. A negative status ends it. NULL is allowed. */
	int (*tick)(void *ctx, uint64_t done, struct ckpt_error *err);
	void *ctx;
};

/* What the desk of WORKERS has to hold. */
size_t ckpt_look_desk(void);

int ckpt_look_run(struct ckpt_workers *workers, const struct ckpt_look *look,
		  struct ckpt_error *err);

#endif
