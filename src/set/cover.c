/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do boxes cover a tensor once, and nothing else? If none overlap and their volumes add up to
 * that of the tensor, they do: so only overlaps are searched for, in a sweep along the dimension
 * in which the boxes are shortest, and the sum is compared.
 *
 * The boxes lie inside the tensor, whose volume fits into 64 bits: who calls has checked that
 * (tensor/shape.h). A hole is looked for only for the message, in a bounded number of boxes.
 */
#include "set/cover.h"

#include "tensor/shape.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BOX_TEXT = 240, MOST_LOOKED_AT = 2048, MOST_DIMS = 64 };

struct cover {
	const uint64_t *shape; /* of the tensor */
	uint32_t ndim;
	const struct ckpt_box **boxes; /* those that are not empty */
	uint64_t count;
	uint32_t dim; /* they are sorted along */
};

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

static bool boxes_overlap(const struct cover *c, const struct ckpt_box *a, const struct ckpt_box *b)
{
	for (uint32_t i = 0; i < c->ndim; i++)
		if (a->offset[i] >= b->offset[i] + b->shape[i] ||
		    b->offset[i] >= a->offset[i] + a->shape[i])
			return false;
	return true;
}

static int fail_overlap(const struct cover *c, const struct ckpt_box *a, const struct ckpt_box *b,
			struct ckpt_error *err)
{
	char first[BOX_TEXT], second[BOX_TEXT];
	uint32_t ndim = c->ndim;

	return ckpt_fail(err, CKPT_E_FORMAT, "chunks overlap: %.150s in %.60s and %.150s in %.60s",
			 box_text(a->offset, a->shape, ndim, first), a->file,
			 box_text(b->offset, b->shape, ndim, second), b->file);
}

static int by_start(const void *x, const void *y, void *dim)
{
	const struct ckpt_box *const *a = x, *const *b = y;
	uint32_t d = *(uint32_t *)dim;

	return ((*a)->offset[d] > (*b)->offset[d]) - ((*a)->offset[d] < (*b)->offset[d]);
}

/* Along the dimension in which boxes are shortest, few of them stand side by side. */
static void sort_boxes(struct cover *c)
{
	double least = 0;

	for (uint32_t i = 0; i < c->ndim; i++) {
		double lengths = 0;

		for (uint64_t k = 0; k < c->count; k++)
			lengths += (double)c->boxes[k]->shape[i];
		lengths /= (double)c->shape[i];
		if (i == 0 || lengths < least) {
			least = lengths;
			c->dim = i;
		}
	}
	qsort_r(c->boxes, c->count, sizeof(struct ckpt_box *), by_start, &c->dim);
}

/* A sweep along one dimension: a box is compared with those that have not ended yet. */
static int check_overlap(struct cover *c, struct ckpt_error *err)
{
	const struct ckpt_box **open = malloc((c->count + 1) * sizeof(*open));
	uint64_t open_count = 0;
	int rc = 0;

	if (!open)
		return ckpt_fail_nomem(err);
	for (uint64_t i = 0; rc == 0 && i < c->count; i++) {
		const struct ckpt_box *box = c->boxes[i];
		uint64_t kept = 0;

		for (uint64_t k = 0; k < open_count; k++) {
			if (open[k]->offset[c->dim] + open[k]->shape[c->dim] <= box->offset[c->dim])
				continue;
			open[kept++] = open[k];
			if (rc == 0 && boxes_overlap(c, open[k], box))
				rc = fail_overlap(c, open[k], box, err);
		}
		open[kept++] = box;
		open_count = kept;
	}
	free(open);
	return rc;
}

static bool is_covered(const struct cover *c, const uint64_t *at)
{
	for (uint64_t k = 0; k < c->count; k++) {
		const struct ckpt_box *box = c->boxes[k];
		uint32_t i = 0;

		while (i < c->ndim && at[i] >= box->offset[i] &&
		       at[i] < box->offset[i] + box->shape[i])
			i++;
		if (i == c->ndim)
			return true;
	}
	return false;
}

/* An item that no box holds: the first one, or one that lies right behind a box. */
static bool find_hole(const struct cover *c, uint64_t at[MOST_DIMS])
{
	uint32_t ndim = c->ndim;

	memset(at, 0, MOST_DIMS * sizeof(*at));
	if (c->count > MOST_LOOKED_AT)
		return false;
	if (!is_covered(c, at))
		return true;
	for (uint64_t k = 0; k < c->count; k++)
		for (uint32_t d = 0; d < ndim; d++) {
			memcpy(at, c->boxes[k]->offset, ndim * sizeof(*at));
			at[d] += c->boxes[k]->shape[d];
			if (at[d] < c->shape[d] && !is_covered(c, at))
				return true;
		}
	return false;
}

static int fail_hole(const struct cover *c, uint64_t covered, uint64_t wanted,
		     struct ckpt_error *err)
{
	uint64_t at[MOST_DIMS], ones[MOST_DIMS];
	char text[BOX_TEXT];

	for (uint32_t i = 0; i < MOST_DIMS; i++)
		ones[i] = 1;
	if (find_hole(c, at))
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "its chunks hold %" PRIu64 " of %" PRIu64
				 " items; the one at %s is in none of them",
				 covered, wanted, box_text(at, ones, c->ndim, text));
	return ckpt_fail(err, CKPT_E_FORMAT, "its chunks hold %" PRIu64 " of %" PRIu64 " items",
			 covered, wanted);
}

static int check_boxes(struct cover *c, const struct ckpt_box *boxes, uint64_t count,
		       struct ckpt_error *err)
{
	uint64_t covered = 0, wanted = ckpt_shape_count(c->shape, c->ndim);
	char text[BOX_TEXT];
	int rc;

	for (uint64_t i = 0; i < count; i++) {
		const struct ckpt_box *box = &boxes[i];

		if (!ckpt_shape_count(box->shape, c->ndim))
			continue;
		if (!box->file)
			return ckpt_fail(err, CKPT_E_FORMAT,
					 "the index does not say where chunk %.200s is",
					 box_text(box->offset, box->shape, c->ndim, text));
		c->boxes[c->count++] = box;
		if (__builtin_add_overflow(covered, ckpt_shape_count(box->shape, c->ndim),
					   &covered))
			covered = UINT64_MAX;
	}
	if (c->count < 2)
		return covered == wanted ? 0 : fail_hole(c, covered, wanted, err);
	if (!c->ndim)
		return ckpt_fail(err, CKPT_E_FORMAT, "a scalar in %" PRIu64 " chunks", c->count);
	sort_boxes(c);
	rc = check_overlap(c, err);
	return rc == 0 && covered != wanted ? fail_hole(c, covered, wanted, err) : rc;
}

int ckpt_cover_check(const struct ckpt_box *boxes, uint64_t count, const uint64_t *shape,
		     uint32_t ndim, struct ckpt_error *err)
{
	struct cover c = { .shape = shape, .ndim = ndim };
	int rc;

	c.boxes = malloc((count + 1) * sizeof(struct ckpt_box *));
	if (!c.boxes)
		return ckpt_fail_nomem(err);
	rc = check_boxes(&c, boxes, count, err);
	free(c.boxes);
	return rc;
}
