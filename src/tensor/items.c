/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any stretch of the items of a strided view. The stretch is cut into boxes: whole rows, rows of
 * rows and so on. Of a box everything is read at once whose bytes lie close together, so the
 * columns of a matrix are read row by row, not number by number.
 *
 * What must stay true: ckpt_items_check() has proven that every item lies inside BYTES; no
 * function below it checks again. Memory is bounded by CKPT_SPAN_MOST, whatever the
 * strides are. A stream without seek is read from its beginning when the reader goes back.
 */
#include "tensor/items.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Dimensions of a box, the one with the longest stride first. */
struct item_box {
	uint32_t ndim;
	uint64_t count[CKPT_ITEMS_MOST_DIMS], stride[CKPT_ITEMS_MOST_DIMS];
	/* stride in what is read, in items; of a reversed dimension below 0, modulo 2^64 */
	uint64_t to[CKPT_ITEMS_MOST_DIMS];
	uint64_t first; /* item of BYTES, the lowest of the box */
	uint64_t start; /* its place in what is read */
};

int ckpt_items_check(struct ckpt_items *items, struct ckpt_error *err)
{
	uint64_t last = items->offset, reach, end;
	bool over = items->ndim > CKPT_ITEMS_MOST_DIMS;

	items->numel = 1;
	for (uint32_t i = 0; i < items->ndim; i++)
		if (!items->shape[i])
			items->numel = 0;
	if (!items->numel)
		return 0;
	for (uint32_t i = 0; !over && i < items->ndim; i++) {
		over |= __builtin_mul_overflow(items->numel, items->shape[i], &items->numel);
		over |= __builtin_mul_overflow(items->shape[i] - 1, items->stride[i], &reach);
		over |= __builtin_add_overflow(last, reach, &last);
	}
	over |= items->numel > UINT64_MAX / 16;
	over |= __builtin_add_overflow(last, 1, &end);
	over |= __builtin_mul_overflow(end, (uint64_t)items->itemsize, &end);
	if (!over && end <= items->bytes.len)
		return 0;
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "its items reach beyond the %" PRIu64 " bytes that it has",
			 items->bytes.len);
}

bool ckpt_items_are_dense(const struct ckpt_items *items)
{
	uint64_t step = 1;

	for (uint32_t i = items->ndim; items->numel && i-- > 0; step *= items->shape[i])
		if (items->shape[i] > 1 &&
		    (items->stride[i] != step || items->reversed >> i & 1))
			return false;
	return true;
}

void ckpt_items_open(const struct ckpt_items *items, struct ckpt_items_reader *reader)
{
	*reader = (struct ckpt_items_reader){ .items = items };
}

void ckpt_items_close(struct ckpt_items_reader *r)
{
	if (r->stream)
		r->stream->close(r->stream);
	free(r->span.bytes);
	*r = (struct ckpt_items_reader){ .items = r->items };
}

/* ---- bytes ---- */

/* Let the stream be at OFF. */
static int seek_or_skip(struct ckpt_items_reader *r, uint64_t off, struct ckpt_error *err)
{
	int rc = 0;

	if (r->stream && off < r->pos && !r->stream->seek) {
		r->stream->close(r->stream);
		r->stream = NULL;
	}
	if (!r->stream) {
		r->pos = 0;
		rc = ckpt_recipe_stream(&r->items->bytes, &r->stream, err);
	}
	if (rc < 0 || off == r->pos)
		return rc;
	rc = r->stream->seek ? r->stream->seek(r->stream, off, err)
			     : ckpt_stream_skip(r->stream, off - r->pos, err);
	r->pos = off;
	return rc;
}

static int read_bytes(struct ckpt_items_reader *r, uint64_t off, void *buf, size_t len,
		      struct ckpt_error *err)
{
	const struct ckpt_recipe *bytes = &r->items->bytes;
	int rc;

	if (ckpt_recipe_is_random(bytes))
		return ckpt_recipe_read(bytes, off, buf, len, err);
	rc = seek_or_skip(r, off, err);
	if (rc == 0)
		rc = r->stream->read(r->stream, buf, len, err);
	r->pos += len;
	return rc;
}

/* ---- boxes ---- */

/*
 * The largest box of whole rows, of rows of rows and so on, that begins with item FIRST and has no
 * more than COUNT items: *TAKEN of them.
 */
static void cut_box(const struct ckpt_items *items, uint64_t first, uint64_t count,
		    struct item_box *box, uint64_t *taken)
{
	uint64_t rows = 1, to = 1, at;
	uint32_t dim = items->ndim;

	*box = (struct item_box){ .first = items->offset };
	*taken = 1;
	while (dim > 0 && first % (rows * items->shape[dim - 1]) == 0 &&
	       count / rows >= items->shape[dim - 1])
		rows *= items->shape[--dim];
	for (uint32_t i = items->ndim; i-- > 0; first /= items->shape[i]) {
		uint64_t n = i >= dim ? items->shape[i] : 1;
		bool reversed = items->reversed >> i & 1;

		at = first % items->shape[i];
		if (i + 1 == dim) {
			n = items->shape[i] - at < count / rows ? items->shape[i] - at
								: count / rows;
		}
		box->first += (reversed ? items->shape[i] - at - n : at) * items->stride[i];
		box->start += reversed ? (n - 1) * to : 0;
		if (n > 1) {
			box->count[box->ndim] = n;
			box->stride[box->ndim] = items->stride[i];
			box->to[box->ndim++] = reversed ? -to : to;
		}
		*taken *= n;
		to *= n;
	}
}

/*
 * The longest stride first; dimensions that repeat what they show are where they need fewest reads:
 * inside.
 */
static void sort_box(struct item_box *box)
{
	for (uint32_t i = 1; i < box->ndim; i++)
		for (uint32_t k = i; k > 0 && box->stride[k - 1] < box->stride[k]; k--) {
			uint64_t count = box->count[k], stride = box->stride[k], to = box->to[k];

			box->count[k] = box->count[k - 1];
			box->stride[k] = box->stride[k - 1];
			box->to[k] = box->to[k - 1];
			box->count[k - 1] = count;
			box->stride[k - 1] = stride;
			box->to[k - 1] = to;
		}
}

static void copy_item(uint8_t *to, const uint8_t *from, uint32_t size)
{
	switch (size) {
	case 1: *to = *from; break;
	case 2: memcpy(to, from, 2); break;
	case 4: memcpy(to, from, 4); break;
	case 8: memcpy(to, from, 8); break;
	default: memcpy(to, from, size);
	}
}

/* The index AT of dimensions FROM to END counts on; false: it was the last. */
static bool next_index(const struct item_box *box, uint32_t from, uint32_t end, uint64_t *at)
{
	for (uint32_t i = end; i-- > from;) {
		if (++at[i] < box->count[i])
			return true;
		at[i] = 0;
	}
	return false;
}

static uint64_t sum_steps(const uint64_t *step, const uint64_t *at, uint32_t from, uint32_t end)
{
	uint64_t n = 0;

	for (uint32_t i = from; i < end; i++)
		n += at[i] * step[i];
	return n;
}

/* Put the items of the dimensions from INNER on, which SPAN holds, in their places. */
static void scatter(const struct item_box *box, uint32_t inner, uint32_t size, const uint8_t *span,
		    uint8_t *out)
{
	uint64_t at[CKPT_ITEMS_MOST_DIMS] = { 0 };
	uint32_t last = box->ndim - 1;

	do {
		const uint8_t *from = span + sum_steps(box->stride, at, inner, last) * size;
		uint8_t *to = out + (ptrdiff_t)(sum_steps(box->to, at, inner, last) * size);
		uint64_t step = box->stride[last] * size;
		ptrdiff_t to_step = (ptrdiff_t)(box->to[last] * size);

		if (box->stride[last] == 1 && box->to[last] == 1) {
			memcpy(to, from, box->count[last] * size);
			continue;
		}
		for (uint64_t i = 0; i < box->count[last]; i++, from += step, to += to_step)
			copy_item(to, from, size);
	} while (next_index(box, inner, last, at));
}

/* How many dimensions are counted through outside of what is read at once; *SPAN: bytes of that. */
static uint32_t choose_inner(const struct item_box *box, uint32_t size, uint64_t *span)
{
	uint64_t reach = 0, distinct = 1;
	uint32_t inner = box->ndim;

	*span = size;
	for (uint32_t i = box->ndim; i-- > 0;) {
		uint64_t bytes;

		if (__builtin_mul_overflow(box->count[i] - 1, box->stride[i], &bytes) ||
		    __builtin_add_overflow(reach, bytes, &reach) || reach > CKPT_SPAN_MOST / size - 1)
			return inner;
		distinct *= box->stride[i] ? box->count[i] : 1;
		bytes = (reach + 1) * size;
		if (ckpt_span_is_worth(bytes, distinct * size)) {
			inner = i;
			*span = bytes;
		}
	}
	return inner;
}

static bool lies_in_order(const struct item_box *box)
{
	for (uint32_t i = 0; i < box->ndim; i++)
		if (box->stride[i] != box->to[i])
			return false;
	return true;
}

static int read_box(struct ckpt_items_reader *r, struct item_box *box, uint64_t taken, uint8_t *out,
		    struct ckpt_error *err)
{
	uint64_t at[CKPT_ITEMS_MOST_DIMS] = { 0 }, span;
	uint32_t size = r->items->itemsize, inner;
	int rc = 0;

	if (lies_in_order(box))
		return read_bytes(r, box->first * size, out, taken * size, err);
	sort_box(box);
	inner = choose_inner(box, size, &span);
	if (inner < box->ndim && !ckpt_span_reserve(&r->span, (size_t)span))
		return ckpt_fail_nomem(err);
	do {
		uint64_t from = box->first + sum_steps(box->stride, at, 0, inner);
		uint8_t *to = out + (box->start + sum_steps(box->to, at, 0, inner)) * size;

		if (inner == box->ndim)
			rc = read_bytes(r, from * size, to, size, err);
		else
			rc = read_bytes(r, from * size, r->span.bytes, (size_t)span, err);
		if (rc == 0 && inner < box->ndim)
			scatter(box, inner, size, r->span.bytes, to);
	} while (rc == 0 && next_index(box, 0, inner, at));
	return rc;
}

int ckpt_items_read(struct ckpt_items_reader *r, uint64_t first, uint64_t count, void *buf,
		    struct ckpt_error *err)
{
	uint8_t *out = buf;
	int rc = 0;

	while (rc == 0 && count) {
		struct item_box box;
		uint64_t taken;

		cut_box(r->items, first, count, &box, &taken);
		rc = read_box(r, &box, taken, out, err);
		out += taken * r->items->itemsize;
		first += taken;
		count -= taken;
	}
	return rc;
}
