/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_RECIPE_H
#define CKPT_TENSOR_RECIPE_H

#include "io/source.h"
#include "io/stream.h"

/*
 * How to get bytes, without getting them: nothing is read until the mover asks. Borrowed by
 * whoever holds it; the source outlives it.
 */
enum ckpt_recipe_kind {
	CKPT_RECIPE_EXTENT, /* LEN bytes at OFF of SRC */
	CKPT_RECIPE_MEMORY, /* LEN bytes at MEMORY */
	CKPT_RECIPE_STREAM, /* what OPEN gives, front to back: compressed records */
};

struct ckpt_recipe {
	enum ckpt_recipe_kind kind;
	uint64_t len;
	const struct ckpt_source *src;
	uint64_t off;
	const void *memory;
	int (*open)(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		    struct ckpt_error *err);
	void *ctx; /* for OPEN; OFF is its second argument */
};

/* The bytes of any recipe as a stream, to be closed by the caller. Borrows RECIPE. */
int ckpt_recipe_stream(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		       struct ckpt_error *err);

#endif
