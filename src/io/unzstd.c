/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads zstd frames as a source. A frame can only be unpacked front to back, so one decoder
 * stands at POS, and a read before it begins anew. Opening unpacks everything once: a frame need
 * not record its size, and what one records is not to be trusted.
 *
 * What must stay true: all fields but BASE belong to whoever has the lock; after an error the
 * decoder is dropped, as nobody knows where it stands; memory does not grow with what is
 * unpacked.
 */
#include "io/unzstd.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <zstd.h>

enum {
	PACKED = 64 << 10,  /* read at a time */
	STEP = 1 << 10,	    /* ... and given to the decoder: how exactly it is known where nothing comes out */
	SKIPPED = 64 << 10, /* unpacked at a time where the bytes are not wanted */
	/*
	 * With pyzstd, torch 2.14 reads so many packed bytes at a time, and takes it for the end if nothing comes of them (ZStandard in
	 * torch/distributed/checkpoint/_extension.py). A block has at most 128 KiB: who packs something writes no such.
	 */
	CHUNK = 134 << 10,
	/* ... or if just what has come fills up what Python reads at a time, 8 KiB or a multiple: the next read gets nothing */
	PYTHON_READS = 8 << 10,
	END_WINDOW = 72 << 10, /* a zip archive ends so far behind its end record, or nearer */
};
static const uint32_t ZIP_END = 0x504B0506; /* "PK\5\6" */

struct unzstd {
	struct ckpt_source *base;
	pthread_mutex_t lock; /* for all that follows */
	ZSTD_DCtx *context;   /* NULL: at the beginning */
	uint64_t pos;	      /* unpacked bytes so far */
	uint64_t read;	      /* bytes of BASE so far */
	bool inside;	      /* a frame has begun and not ended */
	bool is_measured;     /* all was unpacked once, and what follows is not looked at again */
	bool full;	      /* there may be more to come of what was read */
	uint64_t silent;      /* bytes of BASE since some came out, rounded up to a STEP */
	uint64_t came;	      /* bytes out, some of which POS may not count yet */
	uint64_t zip_end;     /* behind the last end record of a zip archive in these; 0: there was none */
	uint32_t last;	      /* four bytes of them */
	ZSTD_inBuffer in;
	uint8_t packed[PACKED], skipped[SKIPPED];
};

static void rewind_to_start(struct unzstd *u)
{
	ZSTD_freeDCtx(u->context);
	u->context = NULL;
	u->pos = u->read = u->silent = u->came = u->zip_end = u->last = 0;
	u->full = false;
	u->inside = false;
	u->in = (ZSTD_inBuffer){ u->packed, 0, 0 };
}

static int refill(struct unzstd *u, struct ckpt_error *err)
{
	uint64_t left = ckpt_source_size(u->base) - u->read;
	size_t n = left < PACKED ? (size_t)left : PACKED;
	int rc = ckpt_source_read(u->base, u->read, u->packed, n, err);

	u->read += n;
	u->in = (ZSTD_inBuffer){ u->packed, n, 0 };
	return rc;
}

static void note_output(struct unzstd *u, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		u->last = u->last << 8 | bytes[i];
		if (u->last == ZIP_END)
			u->zip_end = u->came + i + 1;
	}
	u->came += len;
}

/* Is there a reader for which what has come may be all, and an archive? */
static bool may_end_early(const struct unzstd *u)
{
	uint64_t packed = u->read - (u->in.size - u->in.pos);

	if (u->silent >= CHUNK)
		return true;
	return packed % CHUNK == 0 && packed < ckpt_source_size(u->base) && !u->full && u->came % PYTHON_READS == 0 && u->zip_end && u->came - u->zip_end <= END_WINDOW;
}

/* May give no bytes yet. */
static int decompress_some(struct unzstd *u, ZSTD_outBuffer *out, struct ckpt_error *err)
{
	size_t end = u->in.size, from = u->in.pos, before = out->pos, step = STEP - (u->read - (end - from)) % STEP, left;

	if (!u->is_measured)
		u->in.size = u->full ? from : end - from < step ? end : from + step;
	left = ZSTD_decompressStream(u->context, out, &u->in);
	u->in.size = end;
	if (ZSTD_isError(left))
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "is damaged: zstd says '%s' before byte %" PRIu64,
				 ZSTD_getErrorName(left), u->read);
	u->inside = left != 0;
	if (u->is_measured)
		return 0;
	u->full = out->pos == out->size;
	u->silent = (out->pos == before ? u->silent : 0) + (u->in.pos - from);
	note_output(u, (const uint8_t *)out->dst + before, out->pos - before);
	return may_end_early(u) ? ckpt_fail(err, CKPT_E_FORMAT, "has zstd before byte %" PRIu64 " that some readers take for the end", u->read) : 0;
}

static bool is_all_read(const struct unzstd *u)
{
	return u->in.pos == u->in.size && u->read == ckpt_source_size(u->base);
}

/* Up to LEN bytes to BUF. *DONE is less only at the end of all frames. */
static int unpack(struct unzstd *u, void *buf, size_t len, size_t *done, struct ckpt_error *err)
{
	ZSTD_outBuffer out = { buf, len, 0 };
	int rc = 0;

	if (!u->context)
		u->context = ZSTD_createDCtx();
	if (!u->context)
		return ckpt_fail_nomem(err);
	while (rc == 0 && out.pos < len && (u->inside || !is_all_read(u))) {
		size_t before = out.pos;
		bool was_all = is_all_read(u);

		if (u->in.pos == u->in.size && !was_all)
			rc = refill(u, err);
		if (rc == 0)
			rc = decompress_some(u, &out, err);
		if (was_all && out.pos == before)
			break;
	}
	*done = out.pos;
	u->pos += out.pos;
	if (rc == 0 && out.pos < len && u->inside)
		return ckpt_fail(err, CKPT_E_FORMAT, "is cut: a zstd frame does not end");
	return rc;
}

/* The caller has the lock. */
static int seek_to(struct unzstd *u, uint64_t off, struct ckpt_error *err)
{
	int rc = 0;

	if (off < u->pos)
		rewind_to_start(u);
	while (rc == 0 && u->pos < off) {
		uint64_t left = off - u->pos;
		size_t done;

		rc = unpack(u, u->skipped, left < SKIPPED ? (size_t)left : SKIPPED, &done, err);
		if (rc == 0 && !done)
			return ckpt_fail(err, CKPT_E_CHANGED,
					 "became shorter while it was being read");
	}
	return rc;
}

static int read_unpacked(void *ctx, uint64_t off, void *buf, size_t len, struct ckpt_error *err)
{
	struct unzstd *u = ctx;
	size_t done = len;
	int rc;

	pthread_mutex_lock(&u->lock);
	rc = seek_to(u, off, err);
	if (rc == 0)
		rc = unpack(u, buf, len, &done, err);
	if (rc == 0 && done < len)
		rc = ckpt_fail(err, CKPT_E_CHANGED, "became shorter while it was being read");
	if (rc < 0)
		rewind_to_start(u);
	pthread_mutex_unlock(&u->lock);
	return rc;
}

static void free_unzstd(void *ctx)
{
	struct unzstd *u = ctx;

	ZSTD_freeDCtx(u->context);
	pthread_mutex_destroy(&u->lock);
	ckpt_source_unref(u->base);
	free(u);
}

/* Unpack everything, up to MOST bytes: POS is then its size. */
static int measure(struct unzstd *u, uint64_t most, struct ckpt_error *err)
{
	size_t done = 1;
	int rc = 0;

	while (rc == 0 && done) {
		rc = unpack(u, u->skipped, SKIPPED, &done, err);
		if (u->pos > most)
			return ckpt_fail(err, CKPT_E_LIMIT,
					 "holds more than the %" PRIu64 " bytes that are expected",
					 most);
	}
	return rc;
}

int ckpt_source_unzstd(struct ckpt_source *base, uint64_t most, size_t edge,
		       struct ckpt_source **out, struct ckpt_error *err)
{
	static const struct ckpt_source_maker maker = { read_unpacked, free_unzstd, false };
	struct unzstd *u = calloc(1, sizeof(*u));
	struct ckpt_source *all;
	uint64_t size;
	int rc;

	*out = NULL;
	if (!u)
		return ckpt_fail_nomem(err);
	pthread_mutex_init(&u->lock, NULL);
	u->base = ckpt_source_ref(base);
	rewind_to_start(u);
	rc = measure(u, most, err);
	if (rc < 0) {
		free_unzstd(u);
		return rc;
	}
	size = u->pos;
	rewind_to_start(u);
	u->is_measured = true;
	rc = ckpt_source_make(&maker, u, base, size, &all, err);
	if (rc < 0)
		return rc;
	rc = ckpt_source_slice_edges(all, 0, size, edge, out, err);
	ckpt_source_unref(all);
	return rc;
}
