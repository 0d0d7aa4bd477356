/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/mover.h"

#include "plan/copy_blocks.h"
#include "plan/write_behind.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum {
	GATHER = 1 << 20,	/* size of a gathered write */
	SMALL = 64 << 10,	/* pieces up to here go through memory */
	WINDOW = 256 << 10,	/* small pieces are read in windows of this size */
	KERNEL_STEP = 64 << 20, /* between two looks at the cancel flag */
	MOST_WINDOWS = 32,
	LONG_PART = 8 << 20, /* what keeps the threads busy by itself */
	FEW_FULL = 4,	     /* gathered writes, before a thread is started for them */
};

struct ckpt_mover {
	struct ckpt_sink *sink;
	struct ckpt_mover_options o;
	uint64_t flushed; /* bytes in the sink */
	uint8_t *gather;
	size_t gathered;
	unsigned full;	/* how often it was, one behind the other */
	uint8_t *spare; /* the other of two, of which one is written while the other is filled; NULL: not needed yet */
	struct ckpt_write_behind *behind;
	struct ckpt_window windows[MOST_WINDOWS]; /* one per source: small pieces may alternate */
	unsigned next_window;
	uint8_t *block; /* for short streams */
	struct ckpt_workers *workers;
	struct ckpt_checks *checks, *own_checks; /* the caller's, or the mover's own */
};

/* It keeps its source, or another one at the same address would be taken for it. */
static void drop_window(struct ckpt_window *w)
{
	ckpt_source_unref((struct ckpt_source *)w->src);
	ckpt_window_clear(w);
}

int ckpt_mover_open(struct ckpt_sink *sink, const struct ckpt_mover_options *options,
		    struct ckpt_mover **out, struct ckpt_error *err)
{
	struct ckpt_mover *m = calloc(1, sizeof(*m));
	int rc;

	*out = NULL;
	if (!m)
		return ckpt_fail_nomem(err);
	m->sink = sink;
	m->o = *options;
	m->gather = malloc(GATHER);
	m->block = malloc(GATHER);
	if (!m->gather || !m->block) {
		ckpt_mover_close(m);
		return ckpt_fail_nomem(err);
	}
	rc = ckpt_workers_new(ckpt_copy_buffer_size(), &m->workers, err);
	if (rc == 0 && !options->checks)
		rc = ckpt_checks_new(&m->own_checks, err);
	m->checks = options->checks ? options->checks : m->own_checks;
	if (rc < 0)
		ckpt_mover_close(m);
	else
		*out = m;
	return rc;
}

void ckpt_mover_close(struct ckpt_mover *m)
{
	if (!m)
		return;
	for (unsigned i = 0; i < MOST_WINDOWS; i++)
		drop_window(&m->windows[i]);
	ckpt_write_behind_free(m->behind); /* before what it writes */
	free(m->gather);
	free(m->spare);
	free(m->block);
	ckpt_workers_free(m->workers);
	ckpt_checks_free(m->own_checks);
	free(m);
}

int ckpt_mover_check_cancel(const struct ckpt_mover *m, struct ckpt_error *err)
{
	if (m->o.cancel && atomic_load_explicit(m->o.cancel, memory_order_relaxed))
		return ckpt_fail(err, CKPT_E_CANCELLED, "interrupted, nothing was written");
	return 0;
}

static int report(struct ckpt_mover *m, struct ckpt_error *err)
{
	if (ckpt_mover_check_cancel(m, err) < 0)
		return CKPT_E_CANCELLED;
	if (m->o.progress)
		m->o.progress(m->o.ctx, m->flushed + m->gathered, m->o.total);
	return 0;
}

/* Nobody writes: the sink may be used. */
static int settle(struct ckpt_mover *m, struct ckpt_error *err)
{
	return m->behind ? ckpt_write_behind_wait(m->behind, err) : 0;
}

int ckpt_mover_flush(struct ckpt_mover *m, struct ckpt_error *err)
{
	int rc = settle(m, err);

	m->full = 0;
	if (rc == 0)
		rc = ckpt_sink_write(m->sink, m->flushed, m->gather, m->gathered, err);
	if (rc == 0) {
		m->flushed += m->gathered;
		m->gathered = 0;
		rc = report(m, err);
	}
	return rc;
}

/* Where one is full after the other, it is written while the next is filled. False: there is no memory for that. */
static bool can_write_behind(struct ckpt_mover *m)
{
	if (m->full++ < FEW_FULL)
		return false;
	if (!m->spare)
		m->spare = malloc(GATHER);
	if (!m->behind)
		m->behind = ckpt_write_behind_new(m->sink);
	return m->spare && m->behind;
}

static int hand_over(struct ckpt_mover *m, struct ckpt_error *err)
{
	unsigned full = m->full;
	uint8_t *filled = m->gather;
	int rc;

	if (!can_write_behind(m)) {
		rc = ckpt_mover_flush(m, err);
		m->full = full + 1;
		return rc;
	}
	rc = ckpt_write_behind_put(m->behind, m->flushed, filled, m->gathered, err);
	if (rc < 0)
		return rc;
	m->gather = m->spare;
	m->spare = filled;
	m->flushed += m->gathered;
	m->gathered = 0;
	return report(m, err);
}

int ckpt_mover_finish(struct ckpt_mover *m, struct ckpt_error *err)
{
	int rc = ckpt_mover_flush(m, err);

	return rc == 0 && m->own_checks ? ckpt_checks_finish(m->own_checks, m->o.cancel, err) : rc;
}

int ckpt_mover_put(struct ckpt_mover *m, const void *bytes, size_t len, struct ckpt_error *err)
{
	const uint8_t *p = bytes;

	while (len) {
		size_t room = GATHER - m->gathered, n = len < room ? len : room;

		memcpy(m->gather + m->gathered, p, n);
		m->gathered += n;
		p += n;
		len -= n;
		if (m->gathered == GATHER) {
			int rc = hand_over(m, err);

			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

int ckpt_mover_patch(struct ckpt_mover *m, uint64_t at, const void *bytes, size_t len,
		     struct ckpt_error *err)
{
	uint64_t there = at < m->flushed ? m->flushed - at : 0;
	size_t written = there < len ? (size_t)there : len;
	int rc;

	if (written < len)
		memcpy(m->gather + (at + written - m->flushed), (const uint8_t *)bytes + written,
		       len - written);
	rc = written ? settle(m, err) : 0;
	return rc == 0 && written ? ckpt_sink_write(m->sink, at, bytes, written, err) : rc;
}

static void look(struct ckpt_moved *moved, const uint8_t *bytes, size_t len, bool first)
{
	if (moved->want_crc)
		moved->crc32 = libdeflate_crc32(moved->crc32, bytes, len);
	if (first && len >= sizeof(moved->head)) {
		memcpy(moved->head, bytes, sizeof(moved->head));
		moved->has_head = true;
	}
}

static int put_seen(struct ckpt_mover *m, const uint8_t *bytes, size_t len, bool first,
		    struct ckpt_moved *moved, struct ckpt_error *err)
{
	look(moved, bytes, len, first);
	return ckpt_mover_put(m, bytes, len, err);
}

static int find_window(struct ckpt_mover *m, const struct ckpt_source *src,
		       struct ckpt_window **out, struct ckpt_error *err)
{
	struct ckpt_window *w;
	int rc;

	for (unsigned i = 0; i < MOST_WINDOWS; i++)
		if (m->windows[i].src == src) {
			*out = &m->windows[i];
			return 0;
		}
	*out = w = &m->windows[m->next_window++ % MOST_WINDOWS];
	drop_window(w);
	rc = ckpt_window_init(w, src, WINDOW, err);
	if (rc == 0)
		ckpt_source_ref((struct ckpt_source *)src);
	else
		w->src = NULL;
	return rc;
}

static int copy_small(struct ckpt_mover *m, const struct ckpt_recipe *recipe,
		      struct ckpt_moved *moved, struct ckpt_error *err)
{
	struct ckpt_window *window;
	const uint8_t *bytes;
	int rc = find_window(m, recipe->src, &window, err);

	if (rc == 0)
		rc = ckpt_window_read(window, recipe->off, recipe->len, &bytes, err);
	if (rc == 0)
		rc = put_seen(m, bytes, recipe->len, true, moved, err);
	return rc;
}

/* Up to LEN bytes; fewer, and no error, where the kernel will not do it. */
static int copy_in_kernel(struct ckpt_mover *m, const struct ckpt_source *src, uint64_t off,
			  uint64_t len, uint64_t *done, struct ckpt_error *err)
{
	int rc = 0;

	for (*done = 0; rc == 0 && *done < len;) {
		uint64_t n = len - *done < KERNEL_STEP ? len - *done : KERNEL_STEP, got;

		rc = ckpt_sink_copy(m->sink, m->flushed, src, off + *done, n, &got, err);
		*done += got;
		m->flushed += got;
		if (rc == 0)
			rc = report(m, err);
		if (got < n)
			break;
	}
	return rc;
}

static int report_blocks(void *ctx, uint64_t done, struct ckpt_error *err)
{
	struct ckpt_mover *m = ctx;

	if (ckpt_mover_check_cancel(m, err) < 0)
		return CKPT_E_CANCELLED;
	if (m->o.progress)
		m->o.progress(m->o.ctx, m->flushed + done, m->o.total);
	return 0;
}

/* Nothing may be gathered. */
static int copy_in_blocks(struct ckpt_mover *m, const struct ckpt_recipe *recipe,
			  struct ckpt_moved *moved, struct ckpt_error *err)
{
	int rc = ckpt_copy_blocks(m->workers, recipe, m->sink, m->flushed, report_blocks, m, moved, err);

	if (rc == 0)
		m->flushed += recipe->len;
	return rc < 0 ? rc : report(m, err);
}

/* What the kernel did not do of an extent. */
static int copy_rest(struct ckpt_mover *m, const struct ckpt_source *src, uint64_t off,
		     uint64_t len, struct ckpt_error *err)
{
	struct ckpt_recipe rest = {
		.kind = CKPT_RECIPE_EXTENT, .src = src, .off = off, .len = len
	};
	struct ckpt_moved unseen = { 0 };

	return copy_in_blocks(m, &rest, &unseen, err);
}

/* The holes of an extent stay holes, unless its checksum is wanted: zeros count there. */
static int copy_extent(struct ckpt_mover *m, const struct ckpt_recipe *recipe,
		       struct ckpt_moved *moved, struct ckpt_error *err)
{
	const struct ckpt_source *src = recipe->src;
	uint64_t off = recipe->off, end = off + recipe->len, start, data_end, done;
	int rc = ckpt_mover_flush(m, err);

	start = m->flushed;
	if (rc == 0 && moved->want_head) {
		rc = ckpt_source_read(src, off, moved->head, sizeof(moved->head), err);
		moved->has_head = true;
	}
	if (moved->want_crc)
		return rc < 0 ? rc : copy_in_blocks(m, recipe, moved, err);
	while (rc == 0 && ckpt_source_next_data(src, &off, end, &data_end)) {
		m->flushed = start + (off - recipe->off);
		rc = copy_in_kernel(m, src, off, data_end - off, &done, err);
		off += done;
		if (rc == 0 && off < data_end)
			rc = copy_rest(m, src, off, data_end - off, err);
		off = data_end;
	}
	m->flushed = start + recipe->len;
	ckpt_sink_reach(m->sink, m->flushed);
	return rc < 0 ? rc : report(m, err);
}

static int copy_short_stream(struct ckpt_mover *m, const struct ckpt_recipe *recipe,
			     struct ckpt_moved *moved, struct ckpt_error *err)
{
	size_t len = (size_t)recipe->len;
	struct ckpt_stream *stream;
	int rc = ckpt_recipe_stream(recipe, &stream, err);

	if (rc < 0)
		return rc;
	rc = len ? stream->read(stream, m->block, len, err) : 0;
	stream->close(stream);
	return rc < 0 ? rc : put_seen(m, m->block, len, true, moved, err);
}

static int copy_stream(struct ckpt_mover *m, const struct ckpt_recipe *recipe,
		       struct ckpt_moved *moved, struct ckpt_error *err)
{
	int rc;

	if (recipe->len <= GATHER)
		return copy_short_stream(m, recipe, moved, err);
	rc = ckpt_mover_flush(m, err);
	return rc < 0 ? rc : copy_in_blocks(m, recipe, moved, err);
}

/* The first bytes may come from several parts. */
static int read_head(const struct ckpt_recipe *recipe, struct ckpt_moved *moved,
		     struct ckpt_error *err)
{
	struct ckpt_stream *stream;
	int rc;

	if (recipe->len < sizeof(moved->head))
		return 0;
	rc = ckpt_recipe_stream(recipe, &stream, err);
	if (rc < 0)
		return rc;
	rc = stream->read(stream, moved->head, sizeof(moved->head), err);
	moved->has_head = rc == 0;
	stream->close(stream);
	return rc;
}

/*
 * Many parts of which each has to be read: one stretch, for threads to share, which they would not do with short parts. As such
 * it is also read without windows, of which there are fewer than parts may have sources.
 */
static bool is_one_stretch(const struct ckpt_recipe *recipe, const struct ckpt_moved *moved)
{
	if (!moved->want_crc || recipe->len / LONG_PART >= recipe->part_count ||
	    (recipe->len <= GATHER && recipe->part_count <= MOST_WINDOWS))
		return false;
	for (size_t i = 0; i < recipe->part_count; i++)
		if (recipe->parts[i].has_crc)
			return false;
	return true;
}

/* The parts of a joined recipe that know their checksum are not looked at for it. */
static int copy_joined(struct ckpt_mover *m, const struct ckpt_recipe *recipe,
		       struct ckpt_moved *moved, struct ckpt_error *err)
{
	int rc;

	if (is_one_stretch(recipe, moved)) {
		rc = copy_stream(m, recipe, moved, err);
		return rc < 0 ? rc : ckpt_checks_want(m->checks, recipe, err);
	}
	rc = moved->want_head ? read_head(recipe, moved, err) : 0;
	for (size_t i = 0; rc == 0 && i < recipe->part_count; i++) {
		const struct ckpt_recipe *part = &recipe->parts[i];
		struct ckpt_moved seen = { .want_crc = moved->want_crc && !part->has_crc };

		/* its recorded checksum becomes a part of the one that is written */
		seen.carried = moved->carried || (moved->want_crc && part->has_crc);

		rc = ckpt_mover_copy(m, part, &seen, err);
		if (moved->want_crc)
			moved->crc32 =
				ckpt_join_crc(moved->crc32,
					      part->has_crc ? part->crc32 : seen.crc32, part->len);
	}
	return rc;
}

static int copy(struct ckpt_mover *m, const struct ckpt_recipe *recipe, struct ckpt_moved *moved,
		struct ckpt_error *err)
{
	switch (recipe->kind) {
	case CKPT_RECIPE_MEMORY: return put_seen(m, recipe->memory, recipe->len, true, moved, err);
	case CKPT_RECIPE_MAP:
	case CKPT_RECIPE_STREAM: return copy_stream(m, recipe, moved, err);
	case CKPT_RECIPE_JOINED: return copy_joined(m, recipe, moved, err);
	case CKPT_RECIPE_EXTENT: break;
	}
	if (recipe->len <= SMALL)
		return copy_small(m, recipe, moved, err);
	return copy_extent(m, recipe, moved, err);
}

/* Is a record copied, or a part of one, whose checksum can be compared with what goes by? */
static bool sees_record(const struct ckpt_recipe *recipe)
{
	return (recipe->kind == CKPT_RECIPE_EXTENT && recipe->whole.len) ||
	       (recipe->has_crc && recipe->kind != CKPT_RECIPE_MEMORY);
}

int ckpt_mover_copy(struct ckpt_mover *m, const struct ckpt_recipe *recipe,
		    struct ckpt_moved *moved, struct ckpt_error *err)
{
	bool wanted = moved->want_crc;
	bool carried = moved->carried;
	bool sees = !carried && recipe->kind != CKPT_RECIPE_JOINED && sees_record(recipe);
	int rc;

	moved->crc32 = 0;
	moved->has_head = false;
	moved->want_crc |= sees;
	rc = copy(m, recipe, moved, err);
	moved->want_crc = wanted;
	if (rc == 0 && sees)
		rc = ckpt_checks_add(m->checks, recipe, moved->crc32, err);
	else if (rc == 0 && !carried && recipe->kind != CKPT_RECIPE_JOINED)
		rc = ckpt_checks_want(m->checks, recipe, err);
	return rc;
}
