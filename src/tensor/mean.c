/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Means of numbers, and the recipe of them as a stream. The mover reads a mean of plain extents
 * block by block with many threads (plan/copy_blocks.c); what is short, or comes front to back
 * only, is read here.
 *
 * What must stay true: the order of the sum is that of the recipes, and each operation is rounded by
 * itself (CMakeLists.txt switches contraction off), so that the bits are those that numpy's float64
 * gives.
 */
#include "tensor/mean.h"

#include "tensor/cast.h"
#include "tensor/mean_kernels.h"

#include <libdeflate.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 1024 /* numbers that are decoded at a time: they stay in the cache */ };

/* ---- numbers ---- */

static void begin_plain(const struct ckpt_mean *mean, const uint8_t *in, size_t count, double zero,
			double *sums)
{
	double weight = mean->weights[0];

	ckpt_cast_to_doubles(mean->dtype, in, sums, count);
	for (size_t k = 0; k < count; k++)
		sums[k] = zero + weight * sums[k];
}

static void add_plain(const struct ckpt_mean *mean, const uint8_t *in, size_t count, double weight,
		      double *sums)
{
	uint32_t size = ckpt_dtype_size(mean->dtype);
	double numbers[AT_ONCE];

	for (size_t at = 0; at < count; at += AT_ONCE) {
		size_t n = count - at < AT_ONCE ? count - at : AT_ONCE;

		ckpt_cast_to_doubles(mean->dtype, in + at * size, numbers, n);
		for (size_t k = 0; k < n; k++)
			sums[at + k] = mean->keep * sums[at + k] + weight * numbers[k];
	}
}

static void add_with(const struct ckpt_mean_kernels *kernels, const struct ckpt_mean *mean,
		     size_t i, const uint8_t *in, size_t count, double *sums)
{
	double weight = mean->weights[i], zero = mean->from_zero ? 0 : -0.0; /* -0 + x is x */
	size_t done = 0;

	if (kernels && i == 0)
		done = kernels->begin(mean->dtype, in, count, zero, weight, sums);
	else if (kernels)
		done = kernels->add(mean->dtype, in, count, mean->keep, weight, sums);
	in += done * ckpt_dtype_size(mean->dtype);
	if (i == 0)
		begin_plain(mean, in, count - done, zero, sums + done);
	else
		add_plain(mean, in, count - done, weight, sums + done);
}

static void finish_with(const struct ckpt_mean_kernels *kernels, const struct ckpt_mean *mean,
			double *sums, size_t count, uint8_t *out)
{
	size_t done = kernels ? kernels->finish(mean->dtype, sums, count, mean->divisor, out) : 0;

	for (size_t k = done; k < count; k++) {
		sums[k] /= mean->divisor;
		sums[k] = sums[k] == sums[k] ? sums[k] : (double)NAN;
	}
	ckpt_cast_from_doubles(mean->dtype, sums + done, out + done * ckpt_dtype_size(mean->dtype),
			       count - done);
}

void ckpt_mean_add(const struct ckpt_mean *mean, size_t i, const void *in, size_t count,
		   double *sums)
{
	add_with(ckpt_mean_best(), mean, i, in, count, sums);
}

void ckpt_mean_finish(const struct ckpt_mean *mean, double *sums, size_t count, void *out)
{
	finish_with(ckpt_mean_best(), mean, sums, count, out);
}

void ckpt_mean_of_blocks(const struct ckpt_mean *mean, const uint8_t *first, size_t apart,
			 size_t count, uint8_t *out)
{
	const struct ckpt_mean_kernels *kernels = ckpt_mean_best();
	uint32_t size = ckpt_dtype_size(mean->dtype);
	double sums[AT_ONCE];

	for (size_t at = 0; at < count; at += AT_ONCE) {
		size_t n = count - at < AT_ONCE ? count - at : AT_ONCE;

		for (size_t i = 0; i < mean->count; i++)
			add_with(kernels, mean, i, first + i * apart + at * size, n, sums);
		finish_with(kernels, mean, sums, n, out + at * size);
	}
}

void ckpt_mean_add_plain(const struct ckpt_mean *mean, size_t i, const void *in, size_t count,
			 double *sums)
{
	add_with(NULL, mean, i, in, count, sums);
}

void ckpt_mean_finish_plain(const struct ckpt_mean *mean, double *sums, size_t count, void *out)
{
	finish_with(NULL, mean, sums, count, out);
}

/* ---- as a recipe ---- */

enum { PIECE_NUMBERS = 4096 };

struct mean_stream {
	struct ckpt_stream base;
	const struct ckpt_mean *mean;
	struct ckpt_stream **inner; /* COUNT */
	uint32_t *crc32;	    /* by recipe, of what was read */
	uint64_t pos;
	bool sought; /* not all is read, so there are no checksums to compare */
	double sums[PIECE_NUMBERS];
	uint8_t piece[PIECE_NUMBERS * sizeof(double)];
};

static int check_all(const struct mean_stream *s, struct ckpt_error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && !s->sought && i < s->mean->count; i++)
		rc = ckpt_recipe_check(&s->mean->inner[i], s->crc32[i], err);
	return rc;
}

/* LEN: whole numbers, but at the end. */
static int read_piece(struct mean_stream *s, size_t len, uint8_t *out, struct ckpt_error *err)
{
	const struct ckpt_mean *mean = s->mean;
	uint32_t size = ckpt_dtype_size(mean->dtype);
	size_t rest = len % size;

	for (size_t i = 0; i < mean->count; i++) {
		const struct ckpt_recipe *from = &mean->inner[i];
		int rc = s->inner[i]->read(s->inner[i], s->piece, len, err);

		if (rc < 0) /* which of them */
			return from->kind == CKPT_RECIPE_EXTENT
				       ? ckpt_error_at(err, rc, ckpt_source_path(from->src), NULL,
						       CKPT_NO_OFFSET)
				       : rc;
		if (from->has_crc && !s->sought)
			s->crc32[i] = libdeflate_crc32(s->crc32[i], s->piece, len);
		ckpt_mean_add(mean, i, s->piece, len / size, s->sums);
	}
	ckpt_mean_finish(mean, s->sums, len / size, out);
	memcpy(out + len - rest, s->piece + len - rest, rest);
	s->pos += len;
	return s->pos == mean->inner->len ? check_all(s, err) : 0;
}

static int read_mean(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct mean_stream *s = (struct mean_stream *)stream;
	size_t most = (size_t)PIECE_NUMBERS * ckpt_dtype_size(s->mean->dtype);
	uint8_t *out = buf;
	int rc = 0;

	while (rc == 0 && len) {
		size_t n = len < most ? len : most;

		rc = read_piece(s, n, out, err);
		out += n;
		len -= n;
	}
	return rc;
}

static int seek_mean(struct ckpt_stream *stream, uint64_t off, struct ckpt_error *err)
{
	struct mean_stream *s = (struct mean_stream *)stream;
	int rc = 0;

	s->sought = true;
	s->pos = off;
	for (size_t i = 0; rc == 0 && i < s->mean->count; i++)
		rc = s->inner[i]->seek(s->inner[i], off, err);
	return rc;
}

static void close_mean(struct ckpt_stream *stream)
{
	struct mean_stream *s = (struct mean_stream *)stream;

	for (size_t i = 0; s->inner && i < s->mean->count; i++)
		if (s->inner[i])
			s->inner[i]->close(s->inner[i]);
	free(s->inner);
	free(s->crc32);
	free(s);
}

static int open_mean(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		     struct ckpt_error *err)
{
	const struct ckpt_mean *mean = ckpt_recipe_mean(recipe);
	struct mean_stream *s = malloc(sizeof(*s));
	bool all_seek = true;
	int rc = 0;

	*out = NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	s->base = (struct ckpt_stream){ .read = read_mean, .close = close_mean };
	s->mean = mean;
	s->pos = 0;
	s->sought = false;
	s->inner = calloc(mean->count, sizeof(struct ckpt_stream *));
	s->crc32 = calloc(mean->count, sizeof(*s->crc32));
	if (!s->inner || !s->crc32)
		rc = ckpt_fail_nomem(err);
	for (size_t i = 0; rc == 0 && i < mean->count; i++) {
		rc = ckpt_recipe_stream(&mean->inner[i], &s->inner[i], err);
		all_seek = all_seek && rc == 0 && s->inner[i]->seek;
	}
	if (rc < 0) {
		close_mean(&s->base);
		return rc;
	}
	if (all_seek)
		s->base.seek = seek_mean;
	*out = &s->base;
	return 0;
}

const struct ckpt_mean *ckpt_recipe_mean(const struct ckpt_recipe *recipe)
{
	return recipe->ctx;
}

bool ckpt_mean_is_random(const struct ckpt_mean *mean)
{
	for (size_t i = 0; i < mean->count; i++)
		if (mean->inner[i].kind != CKPT_RECIPE_EXTENT ||
		    ckpt_source_is_sequential(mean->inner[i].src))
			return false;
	return true;
}

static const struct ckpt_recipe *inner_of_mean(const struct ckpt_recipe *recipe, size_t i)
{
	const struct ckpt_mean *mean = ckpt_recipe_mean(recipe);

	return i < mean->count ? &mean->inner[i] : NULL;
}

struct ckpt_recipe ckpt_mean_recipe(const struct ckpt_mean *mean)
{
	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_MEAN,
				     .len = mean->inner->len,
				     .open = open_mean,
				     .inner = inner_of_mean,
				     .checks_inner = true,
				     .ctx = (void *)mean };
}
