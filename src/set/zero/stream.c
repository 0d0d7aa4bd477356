/* SPDX-License-Identifier: Apache-2.0 */
#include "set/zero/stream.h"

#include "base/grow.h"
#include "tensor/assemble.h"

#include <stdlib.h>

void ckpt_zero_stream_clear(struct ckpt_zero_stream *s)
{
	free(s->pieces);
	*s = (struct ckpt_zero_stream){ 0 };
}

int ckpt_zero_stream_add(struct ckpt_zero_stream *s, const struct ckpt_tensor *flat,
			 const struct ckpt_recipe *bytes, struct ckpt_error *err)
{
	uint64_t numel = flat->shape[0], end;
	void *grown;

	if (__builtin_add_overflow(s->numel, numel, &end) || end > INT64_MAX)
		return ckpt_fail(err, CKPT_E_FORMAT, "its vectors have more items than any file");
	grown = ckpt_grow(s->pieces, s->count, &s->cap, sizeof(*s->pieces));
	if (!grown)
		return ckpt_fail_nomem(err);
	s->pieces = grown;
	s->pieces[s->count++] = (struct ckpt_zero_piece){ .bytes = *bytes,
							  .offset = flat->offset,
							  .start = s->numel,
							  .numel = numel,
							  .dtype = flat->dtype };
	s->numel = end;
	return 0;
}

/* The first piece that ends behind ITEM; COUNT if none does. */
static uint32_t find_piece(const struct ckpt_zero_stream *s, uint64_t item)
{
	uint32_t low = 0, high = s->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (s->pieces[middle].start + s->pieces[middle].numel <= item)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t ckpt_zero_stream_alike(const struct ckpt_zero_stream *s, uint64_t first, uint64_t count,
				enum ckpt_dtype *dtype)
{
	uint64_t at = first, end = first + count;

	for (uint32_t i = find_piece(s, first); i < s->count && at < end; i++) {
		const struct ckpt_zero_piece *p = &s->pieces[i];

		if (!p->numel)
			continue;
		if (at == first)
			*dtype = p->dtype;
		else if (p->dtype != *dtype)
			break;
		at = p->start + p->numel;
	}
	return (at < end ? at : end) - first;
}

/* ---- bytes ---- */

/* Blocks of one tensor in one dimension; their numbers are in the arena. */
struct cutter {
	struct ckpt_tensor_block *blocks; /* malloc */
	uint32_t count, cap;
	struct ckpt_arena *arena;
	struct ckpt_error *err;
};

static int add_block(struct cutter *c, const struct ckpt_zero_piece *p, uint64_t inside,
		     uint64_t at, uint64_t len)
{
	static const uint64_t one = 1;
	uint64_t *box = ckpt_arena_calloc(c->arena, 2, sizeof(*box));
	void *grown;

	if (!box)
		return ckpt_arena_fail(c->arena, c->err);
	grown = ckpt_grow(c->blocks, c->count, &c->cap, sizeof(*c->blocks));
	if (!grown)
		return ckpt_fail_nomem(c->err);
	c->blocks = grown;
	box[0] = at;
	box[1] = len;
	c->blocks[c->count++] = (struct ckpt_tensor_block){ .offset = &box[0],
							    .shape = &box[1],
							    .stride = &one,
							    .first = p->offset + inside,
							    .bytes = p->bytes };
	return 0;
}

/* COUNT items of a stream are those of the tensor from AT on. */
static int cut_stream(struct cutter *c, const struct ckpt_zero_stream *s, uint64_t first,
		      uint64_t count, uint64_t at)
{
	int rc = 0;

	for (uint32_t i = find_piece(s, first); rc == 0 && count; i++) {
		const struct ckpt_zero_piece *p = &s->pieces[i];
		uint64_t inside = first - p->start,
			 len = p->numel - inside < count ? p->numel - inside : count;

		if (len)
			rc = add_block(c, p, inside, at, len);
		first += len;
		count -= len;
		at += len;
	}
	return rc;
}

int ckpt_zero_streams_bytes(const struct ckpt_zero_stream *streams, uint64_t first, uint64_t share,
			    uint64_t numel, enum ckpt_dtype dtype, struct ckpt_arena *arena,
			    struct ckpt_recipe *out, struct ckpt_error *err)
{
	static const uint64_t zero;
	struct cutter c = { .arena = arena, .err = err };
	int rc = 0;

	for (uint64_t at = 0; rc == 0 && at < numel; at += share, streams++)
		rc = cut_stream(&c, streams, first, numel - at < share ? numel - at : share, at);
	if (rc == 0)
		rc = ckpt_assemble(c.blocks, c.count, 1, &zero, &numel, ckpt_dtype_size(dtype),
				   arena, out, err);
	free(c.blocks);
	return rc;
}
