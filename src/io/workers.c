/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller and up to MOST_HELPERS threads take blocks of one work until none is left. Helpers
 * start with the first work that is worth it, and then wait for the next one until
 * ckpt_workers_free().
 *
 * What must stay true:
 *  - One thread at a time is in take(), and after a failure nobody takes a block any more.
 *  - ckpt_workers_run() returns when no helper touches the work any more: WORK is NULL, so none
 *    joins, and BUSY is 0. The work lives on the caller's stack.
 *  - A helper that saw the end of a work does not join it again (BEGUN), or it would spin.
 */
#include "io/workers.h"

#include "io/fault.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum {
	USUAL_HELPERS = 3, /* besides the caller: more gain little, as the page cache is the limit */
	MOST_HELPERS = 63, /* where the caller asks for them */
};

struct ckpt_workers {
	pthread_mutex_t taking; /* held while a block is taken */

	pthread_mutex_t lock; /* for all up to ERR */
	pthread_cond_t changed;
	struct ckpt_work *work; /* which helpers may join; NULL: none */
	unsigned long begun;	/* number of works so far */
	unsigned busy;		/* helpers at work */
	bool quit;
	int rc; /* the first failure of this work */
	struct ckpt_error err;

	pthread_t helpers[MOST_HELPERS];
	unsigned helper_count;
	uint32_t threads; /* as the caller asked for */
	bool started; /* it was tried to start the helpers */
	size_t buffer_size;
	void *callers_buffer;
};

static unsigned usual_helpers(void)
{
	int cpus = 2;

	for (int most = 1024; most <= 1 << 20; most *= 4) { /* EINVAL: the machine has more CPUs */
		size_t size = CPU_ALLOC_SIZE(most);
		cpu_set_t *set = CPU_ALLOC(most);
		bool known = set && sched_getaffinity(0, size, set) == 0;

		if (known)
			cpus = CPU_COUNT_S(size, set);
		if (set)
			CPU_FREE(set);
		if (known || errno != EINVAL)
			break;
	}
	return cpus - 1 < USUAL_HELPERS ? (unsigned)(cpus - 1) : USUAL_HELPERS;
}

static unsigned helpers_wanted(uint32_t threads)
{
	if (!threads)
		return usual_helpers();
	return threads - 1 < MOST_HELPERS ? threads - 1 : MOST_HELPERS;
}

static bool has_failed(struct ckpt_workers *w)
{
	bool failed;

	pthread_mutex_lock(&w->lock);
	failed = w->rc < 0;
	pthread_mutex_unlock(&w->lock);
	return failed;
}

static void set_failure(struct ckpt_workers *w, int rc, const struct ckpt_error *err)
{
	pthread_mutex_lock(&w->lock);
	if (w->rc == 0) {
		w->rc = rc;
		w->err = *err;
	}
	pthread_mutex_unlock(&w->lock);
}

/* 1: a block was done; 0: none is left; or an error. */
static int do_block(struct ckpt_workers *w, struct ckpt_work *work, void *buffer,
		    struct ckpt_error *err)
{
	int rc;

	pthread_mutex_lock(&w->taking);
	rc = has_failed(w) ? 0 : work->take(work, buffer, err);
	pthread_mutex_unlock(&w->taking);
	if (rc <= 0)
		return rc;
	rc = work->finish(work, buffer, err);
	return rc < 0 ? rc : 1;
}

static void do_blocks(struct ckpt_workers *w, struct ckpt_work *work, void *buffer, bool is_caller)
{
	struct ckpt_error err = { 0 };
	int rc;

	do {
		rc = do_block(w, work, buffer, &err);
		if (rc > 0 && is_caller && work->tick) {
			int stop = work->tick(work, &err);

			rc = stop < 0 ? stop : rc;
		}
	} while (rc > 0);
	if (rc < 0)
		set_failure(w, rc, &err);
}

static void *helper_thread(void *arg)
{
	struct ckpt_workers *w = arg;
	void *buffer = malloc(w->buffer_size); /* without one there is one helper less */
	unsigned long seen = 0;

	pthread_mutex_lock(&w->lock);
	while (!w->quit) {
		struct ckpt_work *work = w->work;

		if (!work || !buffer || seen == w->begun) {
			pthread_cond_wait(&w->changed, &w->lock);
			continue;
		}
		seen = w->begun;
		w->busy++;
		pthread_mutex_unlock(&w->lock);
		do_blocks(w, work, buffer, false);
		pthread_mutex_lock(&w->lock);
		w->busy--;
		pthread_cond_broadcast(&w->changed);
	}
	pthread_mutex_unlock(&w->lock);
	free(buffer);
	return NULL;
}

int ckpt_workers_new(size_t buffer_size, uint32_t threads, struct ckpt_workers **out,
		     struct ckpt_error *err)
{
	struct ckpt_workers *w = calloc(1, sizeof(*w));

	*out = NULL;
	if (!w || !(w->callers_buffer = malloc(buffer_size))) {
		free(w);
		return ckpt_fail_nomem(err);
	}
	w->buffer_size = buffer_size;
	w->threads = threads;
	pthread_mutex_init(&w->taking, NULL);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	*out = w;
	return 0;
}

void ckpt_workers_free(struct ckpt_workers *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->quit = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < w->helper_count; i++)
		pthread_join(w->helpers[i], NULL);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	pthread_mutex_destroy(&w->taking);
	free(w->callers_buffer);
	free(w);
}

static void start_helpers(struct ckpt_workers *w)
{
	unsigned wanted = helpers_wanted(w->threads);

	w->started = true;
	while (w->helper_count < wanted &&
	       ckpt_io_thread(&w->helpers[w->helper_count], helper_thread, w) == 0)
		w->helper_count++;
}

static void offer_to_helpers(struct ckpt_workers *w, struct ckpt_work *work)
{
	pthread_mutex_lock(&w->lock);
	w->work = work;
	w->begun++;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static void wait_for_helpers(struct ckpt_workers *w)
{
	pthread_mutex_lock(&w->lock);
	w->work = NULL;
	while (w->busy)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

int ckpt_workers_run(struct ckpt_workers *w, struct ckpt_work *work, bool together,
		     struct ckpt_error *err)
{
	w->rc = 0;
	if (together && !w->started)
		start_helpers(w);
	if (together)
		offer_to_helpers(w, work);
	do_blocks(w, work, w->callers_buffer, true);
	if (together)
		wait_for_helpers(w);
	if (together && w->rc == 0 && work->tick) { /* of what the helpers did last, which may be all of it */
		struct ckpt_error at_end = { 0 };
		int rc = work->tick(work, &at_end);

		if (rc < 0)
			set_failure(w, rc, &at_end);
	}
	if (w->rc < 0 && err)
		*err = w->err;
	return w->rc;
}
