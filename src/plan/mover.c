/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends recipes to a sink. The output position is FLUSHED + GATHERED: bytes before FLUSHED are
 * in the sink, or the writer thread (write_behind.h) has them; the next GATHERED bytes are in
 * memory. Small pieces are gathered, long extents are copied by the kernel, everything else goes
 * through blocks (copy_blocks.h).
 *
 * What must stay true:
 *  - Whoever writes to the sink directly calls ckpt_mover_flush() first. It ends the gathering
 *    and waits for the writer thread, so that FLUSHED is where the sink goes on.
 *  - A hole is never written: FLUSHED moves over it. It reads as zeros only because the sink is
 *    new, and the output is long enough only because ckpt_sink_reach() is told its end.
 *  - Bytes that get a new checksum, or none, are reported to CHECKS (ckpt_mover_copy), or damage
 *    in the input would get a valid checksum in the output.
 */
#include "plan/mover.h"

#include "base/cancel.h"
#include "plan/copy_blocks.h"
#include "plan/write_behind.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum {
	GATHER = 1 << 20,	/* size of a gathered write */
	SMALL = 64 << 10,	/* pieces up to here go through memory */
	WINDOW = 256 << 10,	/* small pieces are read in windows of this size */
	KERNEL_STEP = 8 << 20, /* the cancel flag is checked after each */
	SYNC_STEP = 2 << 20,	/* the same */
	MOST_WINDOWS = 32,
	LONG_PART = 8 << 20, /* long enough to keep the threads busy by itself */
	FEW_FULL = 4,	     /* full buffers in a row, before a thread is started to write them */
};

struct ckpt_mover {
	struct ckpt_sink *sink;
	struct ckpt_mover_options o;
	uint64_t flushed; /* bytes in the sink, or handed to BEHIND */
	uint8_t *gather;
	size_t gathered; /* bytes of GATHER in use */
	unsigned full;	 /* how often GATHER filled up in a row */
	uint8_t *spare;	 /* BEHIND writes one buffer while the other fills; may be NULL */
	struct ckpt_write_behind *behind;	  /* NULL: not needed yet */
	struct ckpt_window windows[MOST_WINDOWS]; /* one per source: small pieces may alternate */
	unsigned next_window;
	uint8_t *block; /* for short streams */
	struct ckpt_workers *workers;
	struct ckpt_checks *checks, *own_checks; /* the caller's, or the mover's own */
};

/* A window holds a reference: a later source at the same address must not pass for this one. */
static void release_window(struct ckpt_window *w)
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
	rc = ckpt_workers_new(ckpt_copy_buffer_size(), options->threads, &m->workers, err);
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
		release_window(&m->windows[i]);
	ckpt_write_behind_free(m->behind); /* first: it still reads one of the buffers */
	free(m->gather);
	free(m->spare);
	free(m->block);
	ckpt_workers_free(m->workers);
	ckpt_checks_free(m->own_checks);
	free(m);
}

static int check_cancel(const struct ckpt_mover *m, struct ckpt_error *err)
{
	if (ckpt_cancelled(m->o.cancel))
		return ckpt_fail(err, CKPT_E_CANCELLED, "interrupted, nothing was written");
	return 0;
}

static int report_progress(struct ckpt_mover *m, struct ckpt_error *err)
{
	if (check_cancel(m, err) < 0)
		return CKPT_E_CANCELLED;
	if (m->o.progress)
		m->o.progress(m->o.ctx, m->flushed + m->gathered, m->o.total);
	return 0;
}

int ckpt_mover_sync(struct ckpt_mover *m, struct ckpt_error *err)
{
	int rc = 0;

	ckpt_sink_start_sync(m->sink);
	for (uint64_t off = 0; rc == 0 && off < m->flushed; off += SYNC_STEP) {
		rc = ckpt_sink_sync_part(m->sink, off, SYNC_STEP, err);
		if (rc == 0)
			rc = report_progress(m, err);
	}
	if (rc == 0)
		rc = ckpt_sink_sync(m->sink, err);
	if (rc == 0)
		rc = report_progress(m, err); /* which may be what raises the flag */
	return rc < 0 ? rc : check_cancel(m, err);
}

/* After this nobody else writes to the sink. */
static int wait_for_writer(struct ckpt_mover *m, struct ckpt_error *err)
{
	return m->behind ? ckpt_write_behind_wait(m->behind, err) : 0;
}

int ckpt_mover_flush(struct ckpt_mover *m, struct ckpt_error *err)
{
	int rc = wait_for_writer(m, err);

	m->full = 0;
	if (rc == 0)
		rc = ckpt_sink_write(m->sink, m->flushed, m->gather, m->gathered, err);
	if (rc == 0) {
		m->flushed += m->gathered;
		m->gathered = 0;
		rc = report_progress(m, err);
	}
	return rc;
}

/*
 * If buffers fill up in a row, a thread writes one while the next is filled. False: they do not, or
 * there is no memory for it.
 */
static bool can_write_behind(struct ckpt_mover *m)
{
	if (m->full++ < FEW_FULL || m->o.threads == 1)
		return false;
	if (!m->spare)
		m->spare = malloc(GATHER);
	if (!m->behind)
		m->behind = ckpt_write_behind_new(m->sink);
	return m->spare && m->behind;
}

static int write_full_buffer(struct ckpt_mover *m, struct ckpt_error *err)
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
	return report_progress(m, err);
}

int ckpt_mover_finish(struct ckpt_mover *m, struct ckpt_error *err)
{
	int rc = ckpt_mover_flush(m, err);

	if (rc == 0 && m->own_checks)
		rc = ckpt_checks_finish(m->own_checks, m->o.cancel, m->o.threads, err);
	return rc;
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
			int rc = write_full_buffer(m, err);

			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

int ckpt_mover_patch(struct ckpt_mover *m, uint64_t at, const void *bytes, size_t len,
		     struct ckpt_error *err)
{
	uint64_t in_sink = at < m->flushed ? m->flushed - at : 0;
	size_t written = in_sink < len ? (size_t)in_sink : len;
	int rc;

	if (written < len)
		memcpy(m->gather + (at + written - m->flushed), (const uint8_t *)bytes + written,
		       len - written);
	rc = written ? wait_for_writer(m, err) : 0;
	return rc == 0 && written ? ckpt_sink_write(m->sink, at, bytes, written, err) : rc;
}

/* All bytes of a recipe, which are in memory. */
static int put_recipe_bytes(struct ckpt_mover *m, const uint8_t *bytes, size_t len,
			    struct ckpt_moved *moved, struct ckpt_error *err)
{
	if (moved->want_crc)
		moved->crc32 = libdeflate_crc32(moved->crc32, bytes, len);
	if (len >= sizeof(moved->head)) {
		memcpy(moved->head, bytes, sizeof(moved->head));
		moved->has_head = true;
	}
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
	release_window(w);
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
		rc = put_recipe_bytes(m, bytes, recipe->len, moved, err);
	return rc;
}

/* *DONE is less than LEN, without an error, where the kernel does not copy. */
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
			rc = report_progress(m, err);
		if (got < n)
			break;
	}
	return rc;
}

static int report_blocks(void *ctx, uint64_t done, struct ckpt_error *err)
{
	struct ckpt_mover *m = ctx;

	if (check_cancel(m, err) < 0)
		return CKPT_E_CANCELLED;
	if (m->o.progress)
		m->o.progress(m->o.ctx, m->flushed + done, m->o.total);
	return 0;
}

/* Writes to the sink itself: the caller has flushed. */
static int copy_in_blocks(struct ckpt_mover *m, const struct ckpt_recipe *recipe,
			  struct ckpt_moved *moved, struct ckpt_error *err)
{
	int rc = ckpt_copy_blocks(m->workers, recipe, m->sink, m->flushed, report_blocks, m, moved,
				  err);

	if (rc == 0)
		m->flushed += recipe->len;
	return rc < 0 ? rc : report_progress(m, err);
}

/*
 * The holes of an extent stay holes: FLUSHED moves over them, and the sink has to be told the
 * end, as the last one may be a hole. If the checksum is wanted, zeros are read and written like
 * all bytes.
 */
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
		if (rc == 0 && off < data_end) {
			struct ckpt_recipe rest = { .kind = CKPT_RECIPE_EXTENT,
						    .src = src,
						    .off = off,
						    .len = data_end - off };
			struct ckpt_moved unchecked = { 0 };

			rc = copy_in_blocks(m, &rest, &unchecked, err);
		}
		off = data_end;
	}
	m->flushed = start + recipe->len;
	ckpt_sink_reach(m->sink, m->flushed);
	return rc < 0 ? rc : report_progress(m, err);
}

static int copy_stream(struct ckpt_mover *m, const struct ckpt_recipe *recipe,
		       struct ckpt_moved *moved, struct ckpt_error *err)
{
	struct ckpt_stream *stream;
	int rc;

	if (recipe->len > GATHER) {
		rc = ckpt_mover_flush(m, err);
		return rc < 0 ? rc : copy_in_blocks(m, recipe, moved, err);
	}
	rc = ckpt_recipe_stream(recipe, &stream, err);
	if (rc < 0)
		return rc;
	rc = recipe->len ? stream->read(stream, m->block, (size_t)recipe->len, err) : 0;
	stream->close(stream);
	return rc < 0 ? rc : put_recipe_bytes(m, m->block, (size_t)recipe->len, moved, err);
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
 * True if all parts have to be read and are short: as one stream, threads share the work, and
 * parts of many sources do not compete for the few windows.
 */
static bool is_read_as_stream(const struct ckpt_recipe *recipe, const struct ckpt_moved *moved)
{
	if (!moved->want_crc || recipe->len / LONG_PART >= recipe->part_count ||
	    (recipe->len <= GATHER && recipe->part_count <= MOST_WINDOWS))
		return false;
	for (size_t i = 0; i < recipe->part_count; i++)
		if (recipe->parts[i].has_crc)
			return false;
	return true;
}

/* Parts with a recorded checksum are not read for it. */
static int copy_joined(struct ckpt_mover *m, const struct ckpt_recipe *recipe,
		       struct ckpt_moved *moved, struct ckpt_error *err)
{
	int rc;

	if (is_read_as_stream(recipe, moved)) {
		rc = copy_stream(m, recipe, moved, err);
		return rc < 0 ? rc : ckpt_checks_want(m->checks, recipe, err);
	}
	rc = moved->want_head ? read_head(recipe, moved, err) : 0;
	for (size_t i = 0; rc == 0 && i < recipe->part_count; i++) {
		const struct ckpt_recipe *part = &recipe->parts[i];
		struct ckpt_moved part_moved = { .want_crc = moved->want_crc && !part->has_crc };

		/* its recorded checksum becomes a part of the one that is written */
		part_moved.carried = moved->carried || (moved->want_crc && part->has_crc);

		rc = ckpt_mover_copy(m, part, &part_moved, err);
		if (moved->want_crc)
			moved->crc32 = ckpt_join_crc(moved->crc32,
						     part->has_crc ? part->crc32 : part_moved.crc32,
						     part->len);
	}
	return rc;
}

static int copy(struct ckpt_mover *m, const struct ckpt_recipe *recipe, struct ckpt_moved *moved,
		struct ckpt_error *err)
{
	switch (recipe->kind) {
	case CKPT_RECIPE_MEMORY:
		return put_recipe_bytes(m, recipe->memory, recipe->len, moved, err);
	case CKPT_RECIPE_MAP:
	case CKPT_RECIPE_MEAN:
	case CKPT_RECIPE_MADE:
	case CKPT_RECIPE_STREAM: return copy_stream(m, recipe, moved, err);
	case CKPT_RECIPE_JOINED: return copy_joined(m, recipe, moved, err);
	case CKPT_RECIPE_EXTENT: break;
	}
	if (recipe->len <= SMALL)
		return copy_small(m, recipe, moved, err);
	return copy_extent(m, recipe, moved, err);
}

/*
 * Is it a record, or a part of one, whose recorded checksum can be compared with the copied
 * bytes?
 */
static bool has_checksum(const struct ckpt_recipe *recipe)
{
	return (recipe->kind == CKPT_RECIPE_EXTENT && recipe->whole.len) ||
	       (recipe->has_crc && recipe->kind != CKPT_RECIPE_MEMORY);
}

int ckpt_mover_copy(struct ckpt_mover *m, const struct ckpt_recipe *recipe,
		    struct ckpt_moved *moved, struct ckpt_error *err)
{
	bool wanted = moved->want_crc;
	bool carried = moved->carried;
	bool compare = !carried && recipe->kind != CKPT_RECIPE_JOINED && has_checksum(recipe);
	int rc;

	moved->crc32 = 0;
	moved->has_head = false;
	moved->want_crc |= compare;
	rc = copy(m, recipe, moved, err);
	moved->want_crc = wanted;
	if (rc == 0 && compare)
		rc = ckpt_checks_add(m->checks, recipe, moved->crc32, err);
	else if (rc == 0 && !carried && recipe->kind != CKPT_RECIPE_JOINED)
		rc = ckpt_checks_want(m->checks, recipe, err);
	return rc;
}
