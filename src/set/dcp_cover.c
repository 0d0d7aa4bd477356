/* SPDX-License-Identifier: Apache-2.0 */
#include "set/dcp_index.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BOX_TEXT = 240, MOST_LOOKED_AT = 2048, MOST_DIMS = 64 };

struct cover {
	const struct ckpt_dcp_index *index;
	const struct ckpt_dcp_entry *entry;
	const struct ckpt_dcp_chunk **chunks; /* those that are not empty */
	uint64_t count;
	uint32_t dim; /* they are sorted along */
};

static uint64_t volume(const uint64_t *shape, uint32_t ndim)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < ndim; i++)
		n *= shape[i];
	return n;
}

/* "[0:3, 2:4]", as Python would slice it out. */
static const char *box_text(const uint64_t *offset, const uint64_t *shape, uint32_t ndim,
			    char text[BOX_TEXT])
{
	size_t len = (size_t)snprintf(text, BOX_TEXT, "[");

	for (uint32_t i = 0; i < ndim && len < BOX_TEXT; i++)
		len += (size_t)snprintf(text + len, BOX_TEXT - len, "%s%" PRIu64 ":%" PRIu64,
					i ? ", " : "", offset[i], offset[i] + shape[i]);
	if (len < BOX_TEXT)
		snprintf(text + len, BOX_TEXT - len, "]");
	return text;
}

static const char *file_of(const struct cover *c, const struct ckpt_dcp_chunk *chunk)
{
	return chunk->file == CKPT_DCP_NO_FILE ? "no file" : c->index->files[chunk->file];
}

static bool overlap(const struct cover *c, const struct ckpt_dcp_chunk *a,
		    const struct ckpt_dcp_chunk *b)
{
	for (uint32_t i = 0; i < c->entry->ndim; i++)
		if (a->offset[i] >= b->offset[i] + b->shape[i] ||
		    b->offset[i] >= a->offset[i] + a->shape[i])
			return false;
	return true;
}

static int fail_overlap(const struct cover *c, const struct ckpt_dcp_chunk *a,
			const struct ckpt_dcp_chunk *b, struct ckpt_error *err)
{
	char first[BOX_TEXT], second[BOX_TEXT];
	uint32_t ndim = c->entry->ndim;

	return ckpt_fail(err, CKPT_E_FORMAT, "chunks overlap: %.150s in %.60s and %.150s in %.60s",
			 box_text(a->offset, a->shape, ndim, first), file_of(c, a),
			 box_text(b->offset, b->shape, ndim, second), file_of(c, b));
}

static int by_start(const void *x, const void *y, void *dim)
{
	const struct ckpt_dcp_chunk *const *a = x, *const *b = y;
	uint32_t d = *(uint32_t *)dim;

	return ((*a)->offset[d] > (*b)->offset[d]) - ((*a)->offset[d] < (*b)->offset[d]);
}

/* Along the dimension in which chunks are shortest, few of them stand side by side. */
static void sort(struct cover *c)
{
	double least = 0;

	for (uint32_t i = 0; i < c->entry->ndim; i++) {
		double lengths = 0;

		for (uint64_t k = 0; k < c->count; k++)
			lengths += (double)c->chunks[k]->shape[i];
		lengths /= (double)c->entry->shape[i];
		if (i == 0 || lengths < least) {
			least = lengths;
			c->dim = i;
		}
	}
	qsort_r(c->chunks, c->count, sizeof(struct ckpt_dcp_chunk *), by_start, &c->dim);
}

/* A sweep along one dimension: a chunk is compared with those that have not ended yet. */
static int check_overlap(struct cover *c, struct ckpt_error *err)
{
	const struct ckpt_dcp_chunk **open = malloc((c->count + 1) * sizeof(*open));
	uint64_t open_count = 0;
	int rc = 0;

	if (!open)
		return ckpt_fail_nomem(err);
	for (uint64_t i = 0; rc == 0 && i < c->count; i++) {
		const struct ckpt_dcp_chunk *chunk = c->chunks[i];
		uint64_t kept = 0;

		for (uint64_t k = 0; k < open_count; k++) {
			if (open[k]->offset[c->dim] + open[k]->shape[c->dim] <=
			    chunk->offset[c->dim])
				continue;
			open[kept++] = open[k];
			if (rc == 0 && overlap(c, open[k], chunk))
				rc = fail_overlap(c, open[k], chunk, err);
		}
		open[kept++] = chunk;
		open_count = kept;
	}
	free(open);
	return rc;
}

static bool is_covered(const struct cover *c, const uint64_t *at)
{
	for (uint64_t k = 0; k < c->count; k++) {
		const struct ckpt_dcp_chunk *chunk = c->chunks[k];
		uint32_t i = 0;

		while (i < c->entry->ndim && at[i] >= chunk->offset[i] &&
		       at[i] < chunk->offset[i] + chunk->shape[i])
			i++;
		if (i == c->entry->ndim)
			return true;
	}
	return false;
}

/* An item that no chunk holds: the first one, or one that lies right behind a chunk. */
static bool find_hole(const struct cover *c, uint64_t at[MOST_DIMS])
{
	uint32_t ndim = c->entry->ndim;

	memset(at, 0, MOST_DIMS * sizeof(*at));
	if (c->count > MOST_LOOKED_AT)
		return false;
	if (!is_covered(c, at))
		return true;
	for (uint64_t k = 0; k < c->count; k++)
		for (uint32_t d = 0; d < ndim; d++) {
			memcpy(at, c->chunks[k]->offset, ndim * sizeof(*at));
			at[d] += c->chunks[k]->shape[d];
			if (at[d] < c->entry->shape[d] && !is_covered(c, at))
				return true;
		}
	return false;
}

static int fail_hole(const struct cover *c, uint64_t covered, uint64_t wanted,
		     struct ckpt_error *err)
{
	uint64_t at[MOST_DIMS], ones[MOST_DIMS];
	char box[BOX_TEXT];

	for (uint32_t i = 0; i < MOST_DIMS; i++)
		ones[i] = 1;
	if (find_hole(c, at))
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "its chunks hold %" PRIu64 " of %" PRIu64
				 " items; the one at %s is in none of them",
				 covered, wanted, box_text(at, ones, c->entry->ndim, box));
	return ckpt_fail(err, CKPT_E_FORMAT, "its chunks hold %" PRIu64 " of %" PRIu64 " items",
			 covered, wanted);
}

static int check(struct cover *c, struct ckpt_error *err)
{
	const struct ckpt_dcp_entry *e = c->entry;
	uint64_t covered = 0, wanted = volume(e->shape, e->ndim);
	char box[BOX_TEXT];
	int rc;

	for (uint64_t i = 0; i < e->chunk_count; i++) {
		const struct ckpt_dcp_chunk *chunk = &c->index->chunks[e->first_chunk + i];

		if (!volume(chunk->shape, e->ndim))
			continue;
		if (chunk->file == CKPT_DCP_NO_FILE)
			return ckpt_fail(err, CKPT_E_FORMAT,
					 "the index does not say where chunk %.200s is",
					 box_text(chunk->offset, chunk->shape, e->ndim, box));
		c->chunks[c->count++] = chunk;
		if (__builtin_add_overflow(covered, volume(chunk->shape, e->ndim), &covered))
			covered = UINT64_MAX;
	}
	if (c->count < 2)
		return covered == wanted ? 0 : fail_hole(c, covered, wanted, err);
	if (!e->ndim)
		return ckpt_fail(err, CKPT_E_FORMAT, "a scalar in %" PRIu64 " chunks", c->count);
	sort(c);
	rc = check_overlap(c, err);
	return rc == 0 && covered != wanted ? fail_hole(c, covered, wanted, err) : rc;
}

int ckpt_dcp_check_cover(const struct ckpt_dcp_index *index, const struct ckpt_dcp_entry *entry,
			 struct ckpt_error *err)
{
	struct cover c = { .index = index, .entry = entry };
	int rc;

	c.chunks = malloc((entry->chunk_count + 1) * sizeof(struct ckpt_dcp_chunk *));
	if (!c.chunks)
		return ckpt_fail_nomem(err);
	rc = check(&c, err);
	free(c.chunks);
	return rc;
}
