/* SPDX-License-Identifier: Apache-2.0 */
#include "io/pieces.h"

#include "base/buf.h"
#include "base/grow.h"

#include <stdlib.h>

enum piece_kind { EXTENT, MEMORY, ZEROS };

struct piece {
	uint64_t end; /* in the whole source */
	uint64_t off; /* in the base, or in BYTES */
	enum piece_kind kind;
};

struct ckpt_pieces {
	struct ckpt_source *base; /* owned reference */
	struct piece *items;
	uint32_t count, cap;
	struct ckpt_buf bytes;
	bool bad, too_long;
};

struct ckpt_pieces *ckpt_pieces_new(struct ckpt_source *base)
{
	struct ckpt_pieces *p = calloc(1, sizeof(*p));

	if (p)
		p->base = ckpt_source_ref(base);
	return p;
}

void ckpt_pieces_free(struct ckpt_pieces *p)
{
	if (!p)
		return;
	ckpt_source_unref(p->base);
	ckpt_buf_clear(&p->bytes);
	free(p->items);
	free(p);
}

static uint64_t size_of(const struct ckpt_pieces *p)
{
	return p->count ? p->items[p->count - 1].end : 0;
}

static void add_piece(struct ckpt_pieces *p, enum piece_kind kind, uint64_t off, uint64_t len)
{
	struct piece piece = { .kind = kind, .off = off };
	void *grown;

	if (!p || !len)
		return;
	if (__builtin_add_overflow(size_of(p), len, &piece.end) || piece.end > INT64_MAX) {
		p->too_long = true;
		return;
	}
	grown = ckpt_grow(p->items, p->count, &p->cap, sizeof(*p->items));
	if (!grown) {
		p->bad = true;
		return;
	}
	p->items = grown;
	p->items[p->count++] = piece;
}

void ckpt_pieces_add_extent(struct ckpt_pieces *p, uint64_t off, uint64_t len)
{
	add_piece(p, EXTENT, off, len);
}

void ckpt_pieces_add_memory(struct ckpt_pieces *p, const void *bytes, size_t len)
{
	if (!p)
		return;
	add_piece(p, MEMORY, p->bytes.len, len);
	ckpt_buf_add(&p->bytes, bytes, len);
}

void ckpt_pieces_add_zeros(struct ckpt_pieces *p, uint64_t len)
{
	add_piece(p, ZEROS, 0, len);
}

/* The piece that has byte OFF of the whole. */
static uint32_t piece_at(const struct ckpt_pieces *p, uint64_t off)
{
	uint32_t low = 0, high = p->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (p->items[middle].end <= off)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int read_pieces(void *ctx, uint64_t off, void *buf, size_t len, struct ckpt_error *err)
{
	const struct ckpt_pieces *p = ctx;
	uint8_t *out = buf;
	int rc = 0;

	for (uint32_t i = len ? piece_at(p, off) : 0; rc == 0 && len; i++) {
		const struct piece *piece = &p->items[i];
		uint64_t begin = i ? piece[-1].end : 0, left = piece->end - off;
		size_t n = left < len ? (size_t)left : len;

		if (piece->kind == EXTENT)
			rc = ckpt_source_read(p->base, piece->off + (off - begin), out, n, err);
		else if (piece->kind == MEMORY)
			memcpy(out, p->bytes.data + piece->off + (off - begin), n);
		else
			memset(out, 0, n);
		out += n;
		off += n;
		len -= n;
	}
	return rc;
}

static void free_pieces(void *ctx)
{
	ckpt_pieces_free(ctx);
}

int ckpt_pieces_finish(struct ckpt_pieces *p, struct ckpt_source **out, struct ckpt_error *err)
{
	static const struct ckpt_source_maker maker = { .read = read_pieces,
							.free = free_pieces,
							.is_random = true };
	int rc;

	*out = NULL;
	if (!p || p->bad || p->bytes.bad)
		rc = ckpt_fail_nomem(err);
	else if (p->too_long)
		rc = ckpt_fail(err, CKPT_E_LIMIT, "the whole would be larger than 8 EiB");
	else
		return ckpt_source_make(&maker, p, p->base, size_of(p), out, err);
	ckpt_pieces_free(p);
	return rc;
}
