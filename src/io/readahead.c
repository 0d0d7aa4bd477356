/* SPDX-License-Identifier: Apache-2.0 */
#include "io/readahead.h"

#include "io/fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

enum {
	BLOCK = 512 << 10, /* stays in the second-level cache between reader and writer */
	DEPTH = 4,
	WORTH_IT = 2 * BLOCK, /* waking a thread for less costs more than it saves */
	STACK = 256 << 10,
};

struct ckpt_readahead {
	pthread_t thread;
	bool started, no_thread;
	bool threaded; /* the extent of now */

	pthread_mutex_t lock; /* for all that follows, while the extent is threaded */
	pthread_cond_t changed;
	const struct ckpt_source *src;
	struct ckpt_stream *stream; /* instead of SRC, or NULL */
	uint64_t off, end;	    /* what is still to be read */
	unsigned filled, returned;  /* blocks, counted since the extent began */
	bool reading, lent, quit;
	int rc;
	struct ckpt_error err;
	size_t len[DEPTH];
	uint8_t *blocks;
};

static uint8_t *block(const struct ckpt_readahead *ra, unsigned number)
{
	return ra->blocks + (size_t)(number % DEPTH) * BLOCK;
}

static size_t next_length(const struct ckpt_readahead *ra)
{
	return ra->end - ra->off < BLOCK ? (size_t)(ra->end - ra->off) : BLOCK;
}

static bool may_read(const struct ckpt_readahead *ra)
{
	return ra->threaded && ra->rc == 0 && ra->off < ra->end &&
	       ra->filled - ra->returned < DEPTH;
}

static int read_bytes(const struct ckpt_readahead *ra, uint64_t off, void *buf, size_t len,
		      struct ckpt_error *err)
{
	if (ra->stream)
		return ra->stream->read(ra->stream, buf, len, err);
	return ckpt_source_read(ra->src, off, buf, len, err);
}

/* Called with the lock, which is open while the bytes come. */
static void read_block(struct ckpt_readahead *ra)
{
	uint64_t off = ra->off;
	size_t len = next_length(ra);
	int rc;

	ra->reading = true;
	pthread_mutex_unlock(&ra->lock);
	rc = read_bytes(ra, off, block(ra, ra->filled), len, &ra->err);
	pthread_mutex_lock(&ra->lock);
	ra->reading = false;
	ra->rc = rc;
	ra->len[ra->filled % DEPTH] = len;
	if (rc == 0)
		ra->filled++;
	ra->off += len;
}

static void *read_extents(void *arg)
{
	struct ckpt_readahead *ra = arg;

	pthread_mutex_lock(&ra->lock);
	while (!ra->quit) {
		if (may_read(ra)) {
			read_block(ra);
			pthread_cond_broadcast(&ra->changed);
		} else {
			pthread_cond_wait(&ra->changed, &ra->lock);
		}
	}
	pthread_mutex_unlock(&ra->lock);
	return NULL;
}

int ckpt_readahead_new(struct ckpt_readahead **out, struct ckpt_error *err)
{
	struct ckpt_readahead *ra = calloc(1, sizeof(*ra));

	*out = NULL;
	if (!ra || !(ra->blocks = malloc((size_t)DEPTH * BLOCK))) {
		free(ra);
		return ckpt_fail_nomem(err);
	}
	pthread_mutex_init(&ra->lock, NULL);
	pthread_cond_init(&ra->changed, NULL);
	*out = ra;
	return 0;
}

void ckpt_readahead_free(struct ckpt_readahead *ra)
{
	if (!ra)
		return;
	if (ra->started) {
		pthread_mutex_lock(&ra->lock);
		ra->quit = true;
		pthread_cond_broadcast(&ra->changed);
		pthread_mutex_unlock(&ra->lock);
		pthread_join(ra->thread, NULL);
	}
	pthread_cond_destroy(&ra->changed);
	pthread_mutex_destroy(&ra->lock);
	free(ra->blocks);
	free(ra);
}

/* Signals stay with the threads of the program that uses the library. */
static bool start_thread(struct ckpt_readahead *ra)
{
	pthread_attr_t attr;
	sigset_t all, before;

	if (pthread_attr_init(&attr) != 0)
		return false;
	pthread_attr_setstacksize(&attr, STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ra->started = ckpt_io_thread(&ra->thread, &attr, read_extents, ra) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return ra->started;
}

static void begin(struct ckpt_readahead *ra, const struct ckpt_source *src,
		  struct ckpt_stream *stream, uint64_t off, uint64_t len)
{
	pthread_mutex_lock(&ra->lock);
	ra->off = ra->end; /* nothing more of the extent before */
	while (ra->reading)
		pthread_cond_wait(&ra->changed, &ra->lock);
	ra->threaded = len >= WORTH_IT && !ra->no_thread && (ra->started || start_thread(ra));
	ra->no_thread |= len >= WORTH_IT && !ra->started;
	ra->src = src;
	ra->stream = stream;
	ra->off = off;
	ra->end = off + len;
	ra->filled = ra->returned = 0;
	ra->lent = false;
	ra->rc = 0;
	pthread_cond_broadcast(&ra->changed);
	pthread_mutex_unlock(&ra->lock);
}

void ckpt_readahead_begin(struct ckpt_readahead *ra, const struct ckpt_source *src, uint64_t off,
			  uint64_t len)
{
	begin(ra, src, NULL, off, len);
}

void ckpt_readahead_begin_stream(struct ckpt_readahead *ra, struct ckpt_stream *stream,
				 uint64_t len)
{
	begin(ra, NULL, stream, 0, len);
}

void ckpt_readahead_end(struct ckpt_readahead *ra)
{
	pthread_mutex_lock(&ra->lock);
	ra->off = ra->end;
	while (ra->reading)
		pthread_cond_wait(&ra->changed, &ra->lock);
	ra->threaded = false;
	pthread_mutex_unlock(&ra->lock);
}

static int next_here(struct ckpt_readahead *ra, const uint8_t **bytes, size_t *len,
		     struct ckpt_error *err)
{
	*bytes = ra->blocks;
	*len = next_length(ra);
	ra->off += *len;
	return *len ? read_bytes(ra, ra->off - *len, ra->blocks, *len, err) : 0;
}

/* Called with the lock. */
static int next_from_thread(struct ckpt_readahead *ra, const uint8_t **bytes, size_t *len,
			    struct ckpt_error *err)
{
	if (ra->lent) {
		ra->returned++;
		ra->lent = false;
		pthread_cond_broadcast(&ra->changed);
	}
	while (ra->filled == ra->returned && ra->rc == 0 && (ra->off < ra->end || ra->reading))
		pthread_cond_wait(&ra->changed, &ra->lock);
	*bytes = NULL;
	*len = 0;
	if (ra->filled != ra->returned) {
		*bytes = block(ra, ra->returned);
		*len = ra->len[ra->returned % DEPTH];
		ra->lent = true;
		return 0;
	}
	if (ra->rc < 0 && err)
		*err = ra->err;
	return ra->rc;
}

int ckpt_readahead_next(struct ckpt_readahead *ra, const uint8_t **bytes, size_t *len,
			struct ckpt_error *err)
{
	int rc;

	if (!ra->threaded)
		return next_here(ra, bytes, len, err);
	pthread_mutex_lock(&ra->lock);
	rc = next_from_thread(ra, bytes, len, err);
	pthread_mutex_unlock(&ra->lock);
	return rc;
}
