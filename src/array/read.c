/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads values of an array: any stretch of them, only the edges that numpy prints, or all of them
 * as a recipe for the mover. Stored items go through the steps of fill.c, PIECE items at a time,
 * between two buffers.
 *
 * Steps map items one by one and never look at a neighbor, so a stretch may begin anywhere; a
 * buffer has 16 bytes for each item, the widest of any dtype. A sparse tensor has no items of its
 * own: it is made dense in memory (sparse.c), and has neither edges nor a recipe.
 */
#include "array/array.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 64 << 10 };

void ckpt_array_do_steps(const struct ckpt_array *a, struct ckpt_array_buffers *b, uint64_t first,
			 size_t count)
{
	uint64_t pos = first * a->items.itemsize;
	size_t len = count * a->items.itemsize;

	for (uint32_t i = 0; i < a->step_count; i++) {
		const struct ckpt_map *map = &a->steps[i].map;
		uint8_t *in = b->in;
		int rc = map->apply(map, NULL, pos, in, len, b->out, NULL);

		assert(rc == 0); /* no step needs anything that could fail */
		(void)rc;
		pos = pos / map->from * map->to;
		len = len / map->from * map->to;
		b->in = b->out;
		b->out = in;
	}
}

static int read_in_pieces(const struct ckpt_array *a, struct ckpt_items_reader *reader,
			  uint64_t first, uint64_t count, uint8_t *out, struct ckpt_error *err)
{
	uint32_t size = ckpt_dtype_size(a->reads);
	uint8_t *both = malloc(2 * PIECE * (size_t)16);
	struct ckpt_array_buffers b = { both, both ? both + PIECE * (size_t)16 : NULL };
	int rc = both ? 0 : ckpt_fail_nomem(err);

	while (rc == 0 && count) {
		size_t n = count < PIECE ? (size_t)count : PIECE;

		rc = ckpt_items_read(reader, first, n, b.in, err);
		if (rc < 0)
			break;
		ckpt_array_do_steps(a, &b, first, n);
		memcpy(out, b.in, n * size);
		out += n * size;
		first += n;
		count -= n;
	}
	free(both);
	return rc;
}

static int read_items(const struct ckpt_array *a, struct ckpt_items_reader *reader, uint64_t first,
		      uint64_t count, void *out, struct ckpt_error *err)
{
	return a->step_count ? read_in_pieces(a, reader, first, count, out, err)
			     : ckpt_items_read(reader, first, count, out, err);
}

static int fail_unreadable(const struct ckpt_array *a, struct ckpt_error *err)
{
	return ckpt_error_at(err, ckpt_fail(err, CKPT_E_UNSUPPORTED, "%s", a->why_not),
			     ckpt_document_path(a->model->doc), NULL, CKPT_NO_OFFSET);
}

static int add_path(const struct ckpt_array *a, int rc, struct ckpt_error *err)
{
	return ckpt_error_at(err, rc, ckpt_document_path(a->model->doc), NULL, CKPT_NO_OFFSET);
}

int ckpt_array_read(const struct ckpt_array *a, uint64_t first, uint64_t count, void *buf,
		    struct ckpt_error *err)
{
	uint64_t numel = ckpt_array_numel(a);
	struct ckpt_items_reader reader;
	uint8_t *dense;
	int rc;

	if (a->why_not)
		return fail_unreadable(a, err);
	if (first > numel || count > numel - first)
		return ckpt_fail(err, CKPT_E_ARG,
				 "items %" PRIu64 " to %" PRIu64 " are wanted, there are %" PRIu64,
				 first, first + count, numel);
	if (!count)
		return 0;
	if (a->t.kind == CKPT_KIND_SPARSE) {
		rc = ckpt_array_dense(a, &dense, err);
		if (rc == 0)
			memcpy(buf, dense + first * ckpt_dtype_size(a->reads),
			       count * ckpt_dtype_size(a->reads));
		free(dense);
		return add_path(a, rc, err);
	}
	ckpt_items_open(&a->items, &reader);
	rc = read_items(a, &reader, first, count, buf, err);
	ckpt_items_close(&reader);
	return add_path(a, rc, err);
}

/* ---- edges ---- */

/* The index in all of the array of the one that is number I in the edges of a dimension. */
static uint64_t edge_index(uint64_t i, uint64_t len, uint64_t edge)
{
	return len > 2 * edge && i >= edge ? len - 2 * edge + i : i;
}

/* One row of the last dimension; AT: which one. */
static int read_row(const struct ckpt_array *a, struct ckpt_items_reader *reader, uint64_t row,
		    uint64_t edge, uint8_t *out, struct ckpt_error *err)
{
	uint64_t len = a->t.ndim ? a->t.shape[a->t.ndim - 1] : 1;
	int rc;

	if (len <= 2 * edge)
		return read_items(a, reader, row * len, len, out, err);
	rc = read_items(a, reader, row * len, edge, out, err);
	if (rc == 0)
		rc = read_items(a, reader, (row + 1) * len - edge, edge,
				out + edge * ckpt_dtype_size(a->reads), err);
	return rc;
}

static int read_rows(const struct ckpt_array *a, uint64_t edge, const uint64_t *shape, uint8_t *out,
		     struct ckpt_error *err)
{
	uint64_t at[CKPT_ITEMS_MOST_DIMS] = { 0 }, row_len = 1;
	uint32_t outer = a->t.ndim ? a->t.ndim - 1 : 0, i;
	struct ckpt_items_reader reader;
	int rc = 0;

	if (a->t.ndim)
		row_len = shape[outer];
	ckpt_items_open(&a->items, &reader);
	do {
		uint64_t row = 0;

		for (i = 0; i < outer; i++)
			row = row * a->t.shape[i] + edge_index(at[i], a->t.shape[i], edge);
		rc = read_row(a, &reader, row, edge, out, err);
		out += row_len * ckpt_dtype_size(a->reads);
		for (i = outer; i > 0 && ++at[i - 1] == shape[i - 1]; i--)
			at[i - 1] = 0;
	} while (rc == 0 && i > 0);
	ckpt_items_close(&reader);
	return add_path(a, rc, err);
}

int ckpt_array_read_edges(const struct ckpt_array *a, uint64_t edge, uint64_t *shape, void *buf,
			  struct ckpt_error *err)
{
	if (a->why_not)
		return fail_unreadable(a, err);
	if (!edge || a->t.kind == CKPT_KIND_SPARSE)
		return ckpt_fail(err, CKPT_E_ARG,
				 "only of what is not sparse, and 1 or more of each dimension");
	for (uint32_t i = 0; i < a->t.ndim; i++)
		shape[i] = a->t.shape[i] > 2 * edge ? 2 * edge : a->t.shape[i];
	if (!buf || !ckpt_array_numel(a))
		return 0;
	return read_rows(a, edge, shape, buf, err);
}

/* ---- for others ---- */

int ckpt_array_doubles(const struct ckpt_array *a, double *out, uint64_t count,
		       struct ckpt_error *err)
{
	uint8_t bytes[16];
	int rc = 0;

	if (ckpt_array_numel(a) != count || ckpt_dtype_size(a->reads) > 8)
		return ckpt_fail(err, CKPT_E_FORMAT, "has another number of channels");
	for (uint64_t i = 0; rc == 0 && i < count; i++) {
		int64_t wide = 0;

		rc = ckpt_array_read(a, i, 1, bytes, err);
		if (rc < 0)
			break;
		if (ckpt_dtype_is_floating(a->reads)) {
			ckpt_cast_items(a->reads, CKPT_DTYPE_FLOAT64, bytes, &out[i], 1);
			continue;
		}
		if (a->reads == CKPT_DTYPE_INT64)
			memcpy(&wide, bytes, 8);
		else if (a->reads == CKPT_DTYPE_INT32)
			wide = *(int32_t *)memcpy(&(int32_t){ 0 }, bytes, 4);
		else
			rc = ckpt_fail(err, CKPT_E_FORMAT, "has channels of dtype %s",
				       ckpt_dtype_name(a->reads));
		out[i] = (double)wide;
	}
	return rc;
}

/* ---- as a recipe ---- */

int ckpt_array_recipe(const struct ckpt_array *a, struct ckpt_arena *arena, struct ckpt_recipe *out,
		      struct ckpt_error *err)
{
	union ckpt_array_step *steps =
		ckpt_arena_calloc(arena, CKPT_ARRAY_MOST_STEPS, sizeof(*steps));

	if (a->why_not)
		return fail_unreadable(a, err);
	if (!steps)
		return ckpt_arena_fail(arena, err);
	*out = ckpt_items_recipe(&a->items);
	for (uint32_t i = 0; out->len && i < a->step_count; i++) {
		steps[i] = a->steps[i];
		steps[i].map.inner = *out;
		*out = ckpt_map_recipe(&steps[i].map);
	}
	return 0;
}
