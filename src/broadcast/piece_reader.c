/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces of a manifest, out of files that threads share: through the page cache, or past it. The file that was read last
 * stays open, and goes when the last thread that reads it is through.
 */
#include "broadcast/piece_reader.h"

#include "base/clock.h"
#include "broadcast/bucket.h"
#include "io/direct.h"
#include "io/source.h"

#include <errno.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
	STEP = 1 << 20, /* read and looked at at a time: it stays in the cache */
	DIRECT_STEP = 8 << 20, /* each waits for the disk */
};

/* A file that is read. */
struct opened {
	unsigned refs; /* with the lock */
	uint32_t file;
	struct ckpt_source *src;
	int direct; /* past the page cache; -1: it cannot, or is not to */
};

struct ckpt_piece_reader {
	const struct ckpt_manifest *manifest;
	const char *const *paths;
	enum ckpt_direct direct;
	pthread_mutex_t lock; /* for what follows */
	struct opened *last;  /* owned reference; NULL: none yet */
	struct ckpt_bucket bucket;
};

int ckpt_piece_reader_new(const struct ckpt_manifest *manifest, const char *const *paths, uint64_t rate,
			  enum ckpt_direct direct, struct ckpt_piece_reader **out, struct ckpt_error *err)
{
	struct ckpt_piece_reader *r = calloc(1, sizeof(*r));

	*out = r;
	if (!r)
		return ckpt_fail_nomem(err);
	r->manifest = manifest;
	r->paths = paths;
	r->direct = direct;
	r->bucket.rate = rate;
	pthread_mutex_init(&r->lock, NULL);
	return 0;
}

static void drop(struct ckpt_piece_reader *r, struct opened *f)
{
	bool is_last = false;

	pthread_mutex_lock(&r->lock);
	if (f)
		is_last = --f->refs == 0;
	pthread_mutex_unlock(&r->lock);
	if (!is_last)
		return;
	if (f->direct >= 0)
		close(f->direct);
	ckpt_source_unref(f->src);
	free(f);
}

void ckpt_piece_reader_free(struct ckpt_piece_reader *r)
{
	if (!r)
		return;
	drop(r, r->last);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static int check_same(const struct ckpt_manifest_file *f, const struct ckpt_source *src,
		      struct ckpt_error *err)
{
	dev_t dev;
	ino_t ino;

	ckpt_source_identity(src, &dev, &ino);
	if (ckpt_source_size(src) == f->size && ino == f->ino)
		return 0;
	if (ckpt_source_size(src) == f->size)
		return ckpt_error_at(err,
				     ckpt_fail(err, CKPT_E_CHANGED,
					       "was replaced during the broadcast, or is not the file that rank 0 sees: ranks that "
					       "read need the same one, on a file system that they share"),
				     ckpt_source_path(src), NULL, CKPT_NO_OFFSET);
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_CHANGED,
				       "was replaced or changed during the broadcast (%" PRIu64
				       " bytes, now %" PRIu64 ")",
				       f->size, ckpt_source_size(src)),
			     ckpt_source_path(src), NULL, CKPT_NO_OFFSET);
}

static void keep_open(struct ckpt_piece_reader *r, struct opened *f)
{
	struct opened *before;

	pthread_mutex_lock(&r->lock);
	f->refs++;
	before = r->last;
	r->last = f;
	pthread_mutex_unlock(&r->lock);
	drop(r, before);
}

static int open_new(struct ckpt_piece_reader *r, struct opened *f, struct ckpt_error *err)
{
	int rc = ckpt_source_open(r->paths[f->file], &f->src, err);

	if (rc == 0)
		rc = check_same(&r->manifest->files[f->file], f->src, err);
	if (rc == 0 && r->direct != CKPT_DIRECT_NEVER)
		f->direct = ckpt_direct_open(f->src);
	return rc;
}

/* On the file system of a cluster every open is a question to a server. *OUT is to be dropped, after an error, too. */
static int open_file(struct ckpt_piece_reader *r, uint32_t file, struct opened **out, struct ckpt_error *err)
{
	int rc;

	pthread_mutex_lock(&r->lock);
	*out = r->last && r->last->file == file ? r->last : NULL;
	if (*out)
		(*out)->refs++;
	pthread_mutex_unlock(&r->lock);
	if (*out)
		return 0;
	*out = malloc(sizeof(**out));
	if (!*out)
		return ckpt_fail_nomem(err);
	**out = (struct opened){ .refs = 1, .file = file, .direct = -1 };
	rc = open_new(r, *out, err);
	if (rc == 0)
		keep_open(r, *out);
	return rc;
}

/*
 * Threads get their turns in the order in which they ask. A turn is as long as a piece takes, up to 50 ms, and there are no more of
 * them ahead than threads: so nobody has to be woken up when all of it ends.
 */
static void wait_for_turn(struct ckpt_piece_reader *r, uint64_t nbytes)
{
	struct timespec until;
	uint64_t at;

	if (!r->bucket.rate)
		return;
	pthread_mutex_lock(&r->lock);
	at = ckpt_bucket_take(&r->bucket, ckpt_now_nsec(), nbytes);
	pthread_mutex_unlock(&r->lock);
	until = (struct timespec){ (time_t)(at / 1000000000u), (long)(at % 1000000000u) };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/* Pieces that are in the page cache come from there sooner than from a disk. */
static bool is_direct(const struct ckpt_piece_reader *r, const struct opened *f, const struct ckpt_manifest_piece *p)
{
	return f->direct >= 0 && (r->direct == CKPT_DIRECT_ALWAYS || !ckpt_direct_is_cached(f->src, p->off, (size_t)p->len));
}

int ckpt_piece_reader_read(struct ckpt_piece_reader *r, const struct ckpt_manifest_piece *p,
			   uint8_t *to, uint32_t *crc, struct ckpt_error *err)
{
	uint64_t step = STEP;
	struct opened *f;
	int rc = open_file(r, p->file, &f, err), direct = -1;

	if (rc == 0 && is_direct(r, f, p)) {
		direct = f->direct;
		step = DIRECT_STEP;
	}
	if (rc == 0)
		wait_for_turn(r, p->len);
	for (uint64_t done = 0; rc == 0 && done < p->len; done += step) {
		size_t n = p->len - done < step ? (size_t)(p->len - done) : (size_t)step;

		rc = direct < 0 ? ckpt_source_read(f->src, p->off + done, to + done, n, err)
				: ckpt_direct_read(f->src, direct, p->off + done, to + done, n, err);
		if (rc == 0 && crc)
			*crc = libdeflate_crc32(*crc, to + done, n);
	}
	rc = ckpt_error_at(err, rc, r->paths[p->file], NULL, CKPT_NO_OFFSET);
	drop(r, f);
	return rc;
}
