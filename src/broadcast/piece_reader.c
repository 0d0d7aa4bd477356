/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/piece_reader.h"

#include "base/clock.h"
#include "broadcast/bucket.h"
#include "io/source.h"

#include <errno.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { STEP = 1 << 20 }; /* read and looked at at a time: it stays in the cache */

struct ckpt_piece_reader {
	const struct ckpt_manifest *manifest;
	const char *const *paths;
	pthread_mutex_t lock;	  /* for what follows */
	struct ckpt_source *last; /* owned reference; NULL: none yet */
	uint32_t last_file;
	struct ckpt_bucket bucket;
};

int ckpt_piece_reader_new(const struct ckpt_manifest *manifest, const char *const *paths, uint64_t rate,
			  struct ckpt_piece_reader **out, struct ckpt_error *err)
{
	struct ckpt_piece_reader *r = calloc(1, sizeof(*r));

	*out = r;
	if (!r)
		return ckpt_fail_nomem(err);
	r->manifest = manifest;
	r->paths = paths;
	r->bucket.rate = rate;
	pthread_mutex_init(&r->lock, NULL);
	return 0;
}

void ckpt_piece_reader_free(struct ckpt_piece_reader *r)
{
	if (!r)
		return;
	ckpt_source_unref(r->last);
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

static void keep_open(struct ckpt_piece_reader *r, uint32_t file, struct ckpt_source *src)
{
	struct ckpt_source *before;

	ckpt_source_ref(src);
	pthread_mutex_lock(&r->lock);
	before = r->last;
	r->last = src;
	r->last_file = file;
	pthread_mutex_unlock(&r->lock);
	ckpt_source_unref(before);
}

/*
 * On the file system of a cluster every open is a question to a server. OUT is set behind an error,
 * too.
 */
static int open_file(struct ckpt_piece_reader *r, uint32_t file, struct ckpt_source **out,
		     struct ckpt_error *err)
{
	int rc;

	pthread_mutex_lock(&r->lock);
	*out = r->last && r->last_file == file ? ckpt_source_ref(r->last) : NULL;
	pthread_mutex_unlock(&r->lock);
	if (*out)
		return 0;
	rc = ckpt_source_open(r->paths[file], out, err);
	if (rc == 0)
		rc = check_same(&r->manifest->files[file], *out, err);
	if (rc == 0)
		keep_open(r, file, *out);
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

int ckpt_piece_reader_read(struct ckpt_piece_reader *r, const struct ckpt_manifest_piece *p,
			   uint8_t *to, uint32_t *crc, struct ckpt_error *err)
{
	struct ckpt_source *src;
	int rc = open_file(r, p->file, &src, err);

	if (rc == 0)
		wait_for_turn(r, p->len);
	for (uint64_t done = 0; rc == 0 && done < p->len; done += STEP) {
		size_t n = p->len - done < STEP ? (size_t)(p->len - done) : STEP;

		rc = ckpt_source_read(src, p->off + done, to + done, n, err);
		if (rc == 0 && crc)
			*crc = libdeflate_crc32(*crc, to + done, n);
	}
	rc = ckpt_error_at(err, rc, r->paths[p->file], NULL, CKPT_NO_OFFSET);
	ckpt_source_unref(src);
	return rc;
}
