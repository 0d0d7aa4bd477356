/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items of a strided view in C order, read as runs: the items of the last dimension if they lie
 * side by side, else one item at a time. A window over the source keeps the reads large.
 *
 * What must stay true: a permutation of all bytes of INNER gets a new checksum, so the recorded
 * one is compared first (check_inner()), or damage would get a checksum that says it is sound. A
 * gather of a part has no such check; whoever wants one reads the whole.
 */
#include "tensor/gather.h"

#include "tensor/shape.h"

#include <assert.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 256 << 10 };

struct gather_stream {
	struct ckpt_stream base;
	const struct ckpt_gather *gather;
	struct ckpt_window window;
	uint64_t at[CKPT_GATHER_MOST_DIMS]; /* index of the next run, without the last dimension */
	uint64_t run_off, run_left;	    /* of the run that is being read, in bytes */
	uint64_t run_len;		    /* of every run; the items of one lie side by side */
	uint32_t outer;			    /* dimensions that are counted through by AT */
	bool unchecked; /* the checksum of INNER, if it has one, is still to be compared */
};

/* Where the run at AT begins in INNER. */
static uint64_t run_start(const struct gather_stream *s)
{
	const struct ckpt_gather *g = s->gather;
	uint64_t item = g->offset;

	for (uint32_t i = 0; i < s->outer; i++)
		item += s->at[i] * g->stride[i];
	return item * g->itemsize;
}

static void next_run(struct gather_stream *s)
{
	for (uint32_t i = s->outer; i-- > 0;) {
		if (++s->at[i] < s->gather->shape[i])
			break;
		s->at[i] = 0;
	}
	s->run_off = run_start(s);
	s->run_left = s->run_len;
}

static int read_inner(struct gather_stream *s, uint64_t off, uint8_t *out, size_t len,
		      struct ckpt_error *err)
{
	const struct ckpt_recipe *inner = &s->gather->inner;
	const uint8_t *bytes;
	int rc;

	if (inner->kind == CKPT_RECIPE_MEMORY) {
		memcpy(out, (const uint8_t *)inner->memory + off, len);
		return 0;
	}
	rc = ckpt_window_read(&s->window, inner->off + off, len, &bytes, err);
	if (rc == 0)
		memcpy(out, bytes, len);
	return rc;
}

/*
 * Items that are put in another order get a new checksum, so the one that all of them had is
 * checked first, which means to read them twice.
 */
static int check_inner(const struct ckpt_recipe *inner, struct ckpt_error *err)
{
	struct ckpt_stream *stream;
	uint8_t *buf = malloc(WINDOW);
	uint32_t crc = 0;
	int rc = buf ? ckpt_recipe_stream(inner, &stream, err) : ckpt_fail_nomem(err);

	if (rc < 0) {
		free(buf);
		return rc;
	}
	for (uint64_t left = inner->len; rc == 0 && left;) {
		size_t n = left < WINDOW ? (size_t)left : WINDOW;

		rc = stream->read(stream, buf, n, err);
		crc = libdeflate_crc32(crc, buf, n);
		left -= n;
	}
	stream->close(stream);
	free(buf);
	return rc < 0 ? rc : ckpt_recipe_check(inner, crc, err);
}

static int read_gathered(struct ckpt_stream *stream, void *buf, size_t len, struct ckpt_error *err)
{
	struct gather_stream *s = (struct gather_stream *)stream;
	uint8_t *out = buf;
	int rc = s->unchecked ? check_inner(&s->gather->inner, err) : 0;

	s->unchecked = false;
	while (rc == 0 && len) {
		size_t n = len < s->run_left ? len : (size_t)s->run_left;

		if (n > WINDOW / 2)
			n = WINDOW / 2;
		rc = read_inner(s, s->run_off, out, n, err);
		out += n;
		len -= n;
		s->run_off += n;
		s->run_left -= n;
		if (!s->run_left)
			next_run(s);
	}
	return rc;
}

static void close_gathered(struct ckpt_stream *stream)
{
	struct gather_stream *s = (struct gather_stream *)stream;

	ckpt_window_clear(&s->window);
	free(s);
}

static int seek_gathered(struct ckpt_stream *stream, uint64_t off, struct ckpt_error *err)
{
	struct gather_stream *s = (struct gather_stream *)stream;
	uint64_t run = off / s->run_len;

	(void)err;
	for (uint32_t i = s->outer; i-- > 0; run /= s->gather->shape[i])
		s->at[i] = run % s->gather->shape[i];
	s->run_off = run_start(s) + off % s->run_len;
	s->run_left = s->run_len - off % s->run_len;
	s->unchecked = false;
	return 0;
}

static int open_gathered(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
			 struct ckpt_error *err)
{
	struct gather_stream *s = calloc(1, sizeof(*s));
	const struct ckpt_gather *g = recipe->ctx;
	bool side_by_side = g->ndim && g->stride[g->ndim - 1] == 1;
	int rc = 0;

	*out = NULL;
	if (!s)
		return ckpt_fail_nomem(err);
	s->base = (struct ckpt_stream){ read_gathered, close_gathered, seek_gathered };
	s->gather = g;
	s->outer = side_by_side ? g->ndim - 1 : g->ndim;
	s->run_len = g->itemsize * (side_by_side ? g->shape[g->ndim - 1] : 1);
	s->run_left = s->run_len;
	s->run_off = run_start(s);
	if (g->inner.kind == CKPT_RECIPE_EXTENT)
		rc = ckpt_window_init(&s->window, g->inner.src, WINDOW, err);
	s->unchecked = g->inner.has_crc && recipe->len == g->inner.len;
	if (rc < 0)
		close_gathered(&s->base);
	else
		*out = &s->base;
	return rc;
}

static const struct ckpt_recipe *inner_of_gather(const struct ckpt_recipe *recipe, size_t i)
{
	const struct ckpt_gather *g = recipe->ctx;

	return i ? NULL : &g->inner;
}

struct ckpt_recipe ckpt_gather_recipe(const struct ckpt_gather *gather)
{
	uint64_t len = ckpt_shape_count(gather->shape, gather->ndim) * gather->itemsize;

	assert(ckpt_recipe_is_random(&gather->inner));
	return (struct ckpt_recipe){
		.kind = CKPT_RECIPE_STREAM,
		.len = len,
		.open = open_gathered,
		.inner = inner_of_gather,
		.checks_inner = len == gather->inner.len, /* a permutation */
		.ctx = (void *)gather,
	};
}
