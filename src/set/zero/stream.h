/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_ZERO_STREAM_H
#define CKPT_SET_ZERO_STREAM_H

#include "base/arena.h"
#include "model/model.h"
#include "tensor/recipe.h"

/* Flat tensors, one behind the other. */
struct ckpt_zero_piece {
	struct ckpt_recipe bytes; /* of its storage */
	uint64_t offset;	  /* item of BYTES that it begins with */
	uint64_t start, numel;	  /* in the stream */
	enum ckpt_dtype dtype;
};

struct ckpt_zero_stream {
	struct ckpt_zero_piece *pieces; /* malloc */
	uint32_t count, cap;
	uint64_t numel;
};

void ckpt_zero_stream_clear(struct ckpt_zero_stream *stream);

/* At the end. CKPT_E_FORMAT: more items than can be counted. */
int ckpt_zero_stream_add(struct ckpt_zero_stream *stream, const struct ckpt_tensor *flat,
			 const struct ckpt_recipe *bytes, struct ckpt_error *err);

/*
 * How many items from FIRST on, of which there are COUNT, have the dtype of the first of them.
 * *DTYPE stays if there are none.
 */
uint64_t ckpt_zero_stream_alike(const struct ckpt_zero_stream *stream, uint64_t first,
				uint64_t count, enum ckpt_dtype *dtype);

/*
 * The bytes of NUMEL items: SHARE from FIRST on of each of STREAMS, one behind the other; of the
 * last ones fewer. They have to be there, and to be of DTYPE. What the recipe needs is kept in
 * ARENA.
 */
int ckpt_zero_streams_bytes(const struct ckpt_zero_stream *streams, uint64_t first, uint64_t share,
			    uint64_t numel, enum ckpt_dtype dtype, struct ckpt_arena *arena,
			    struct ckpt_recipe *out, struct ckpt_error *err);

#endif
