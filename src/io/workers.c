/* SPDX-License-Identifier: Apache-2.0 */
#include "io/workers.h"

#include "io/fault.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum {
	MOST_HELPERS = 3, /* beside the caller: the page cache gains little by more */
};

struct ckpt_workers {
	pthread_mutex_t taking; /* held while a block is taken */

	pthread_mutex_t lock; /* for all that follows */
	pthread_cond_t changed;
	struct ckpt_work *work; /* that may be joined; NULL: none */
	unsigned long begun; /* works so far: who has seen one to its end does not join it again */
	unsigned busy;	     /* helpers at work */
	bool quit;
	int rc;
	struct ckpt_error err;

	pthread_t helpers[MOST_HELPERS];
	unsigned helper_count;
	bool started;
	size_t desk;
	void *callers_desk;
};

static unsigned helpers_wanted(void)
{
	int cpus = 2;

	for (int most = 1024; most <= 1 << 20; most *= 4) { /* fails where the machine has more */
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
	return cpus - 1 < MOST_HELPERS ? (unsigned)(cpus - 1) : MOST_HELPERS;
}

static bool has_failed(struct ckpt_workers *w)
{
	bool failed;

	pthread_mutex_lock(&w->lock);
	failed = w->rc < 0;
	pthread_mutex_unlock(&w->lock);
	return failed;
}

static void fail(struct ckpt_workers *w, int rc, const struct ckpt_error *err)
{
	pthread_mutex_lock(&w->lock);
	if (w->rc == 0) {
		w->rc = rc;
		w->err = *err;
	}
	pthread_mutex_unlock(&w->lock);
}

static int do_block(struct ckpt_workers *w, struct ckpt_work *work, void *desk,
		    struct ckpt_error *err)
{
	int rc;

	pthread_mutex_lock(&w->taking);
	rc = has_failed(w) ? 0 : work->take(work, desk, err);
	pthread_mutex_unlock(&w->taking);
	if (rc <= 0)
		return rc;
	rc = work->finish(work, desk, err);
	return rc < 0 ? rc : 1;
}

static void do_blocks(struct ckpt_workers *w, struct ckpt_work *work, void *desk, bool is_caller)
{
	struct ckpt_error err = { 0 };
	int rc;

	do {
		rc = do_block(w, work, desk, &err);
		if (rc > 0 && is_caller && work->tick) {
			int stop = work->tick(work, &err);

			rc = stop < 0 ? stop : rc;
		}
	} while (rc > 0);
	if (rc < 0)
		fail(w, rc, &err);
}

static void *help(void *arg)
{
	struct ckpt_workers *w = arg;
	void *desk = malloc(w->desk); /* without one there is one helper less */
	unsigned long seen = 0;

	pthread_mutex_lock(&w->lock);
	while (!w->quit) {
		struct ckpt_work *work = w->work;

		if (!work || !desk || seen == w->begun) {
			pthread_cond_wait(&w->changed, &w->lock);
			continue;
		}
		seen = w->begun;
		w->busy++;
		pthread_mutex_unlock(&w->lock);
		do_blocks(w, work, desk, false);
		pthread_mutex_lock(&w->lock);
		w->busy--;
		pthread_cond_broadcast(&w->changed);
	}
	pthread_mutex_unlock(&w->lock);
	free(desk);
	return NULL;
}

int ckpt_workers_new(size_t desk, struct ckpt_workers **out, struct ckpt_error *err)
{
	struct ckpt_workers *w = calloc(1, sizeof(*w));

	*out = NULL;
	if (!w || !(w->callers_desk = malloc(desk))) {
		free(w);
		return ckpt_fail_nomem(err);
	}
	w->desk = desk;
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
	free(w->callers_desk);
	free(w);
}

static void start_helpers(struct ckpt_workers *w)
{
	unsigned wanted = helpers_wanted();

	w->started = true;
	while (w->helper_count < wanted &&
	       ckpt_io_thread(&w->helpers[w->helper_count], help, w) == 0)
		w->helper_count++;
}

static void offer(struct ckpt_workers *w, struct ckpt_work *work)
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
		offer(w, work);
	do_blocks(w, work, w->callers_desk, true);
	if (together)
		wait_for_helpers(w);
	if (w->rc < 0 && err)
		*err = w->err;
	return w->rc;
}
