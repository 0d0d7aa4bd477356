/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One slot, guarded by LOCK: the caller fills it and sets BUSY, the thread empties it and clears
 * BUSY. The result of a write waits in RC and ERR for the caller's next call; a failed write
 * stays failed.
 */
#include "plan/write_behind.h"

#include "io/fault.h"

#include <pthread.h>
#include <stdlib.h>

struct ckpt_write_behind {
	struct ckpt_sink *sink;
	pthread_t thread;
	bool started, no_thread; /* NO_THREAD: it could not be started, the caller writes */
	pthread_mutex_t lock;	 /* for all that follows */
	pthread_cond_t changed;
	bool busy, quit;
	uint64_t off;
	const void *bytes;
	size_t len;
	int rc; /* of the last write */
	struct ckpt_error err;
};

static void *writer_thread(void *arg)
{
	struct ckpt_write_behind *w = arg;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct ckpt_error err = CKPT_ERROR_INIT;
		int rc;

		while (!w->busy && !w->quit)
			pthread_cond_wait(&w->changed, &w->lock);
		if (!w->busy)
			break;
		pthread_mutex_unlock(&w->lock);
		rc = ckpt_sink_write(w->sink, w->off, w->bytes, w->len, &err);
		pthread_mutex_lock(&w->lock);
		w->rc = rc;
		w->err = err;
		w->busy = false;
		pthread_cond_broadcast(&w->changed);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

struct ckpt_write_behind *ckpt_write_behind_new(struct ckpt_sink *sink)
{
	struct ckpt_write_behind *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->sink = sink;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	return w;
}

void ckpt_write_behind_free(struct ckpt_write_behind *w)
{
	if (!w)
		return;
	if (w->started) {
		pthread_mutex_lock(&w->lock);
		w->quit = true;
		pthread_cond_broadcast(&w->changed);
		pthread_mutex_unlock(&w->lock);
		pthread_join(w->thread, NULL);
	}
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

int ckpt_write_behind_wait(struct ckpt_write_behind *w, struct ckpt_error *err)
{
	int rc;

	if (!w->started)
		return 0;
	pthread_mutex_lock(&w->lock);
	while (w->busy)
		pthread_cond_wait(&w->changed, &w->lock);
	rc = w->rc;
	if (rc < 0 && err)
		*err = w->err;
	pthread_mutex_unlock(&w->lock);
	return rc;
}

int ckpt_write_behind_put(struct ckpt_write_behind *w, uint64_t off, const void *bytes, size_t len,
			  struct ckpt_error *err)
{
	int rc;

	if (!w->started && !w->no_thread)
		w->started = ckpt_io_thread(&w->thread, writer_thread, w) == 0;
	w->no_thread = !w->started;
	if (w->no_thread)
		return ckpt_sink_write(w->sink, off, bytes, len, err);
	rc = ckpt_write_behind_wait(w, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&w->lock);
	w->off = off;
	w->bytes = bytes;
	w->len = len;
	w->busy = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	return 0;
}
