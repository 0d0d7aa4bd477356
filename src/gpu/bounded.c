/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/bounded.h"

#include "base/clock.h"
#include "io/fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

uint64_t ckpt_gpu_grace_nsec = 10000000000u;

static atomic_uint abandoned;

/* Has two users, the thread and who waits for it; the last one frees it. */
struct bounded_call {
	void (*run)(void *arg);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done, given_up;
};

static void free_call(struct bounded_call *c)
{
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void *run_call(void *arg)
{
	struct bounded_call *c = arg;
	bool given_up;

	c->run(c->arg);
	pthread_mutex_lock(&c->lock);
	c->done = true;
	given_up = c->given_up;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
	if (given_up) {
		atomic_fetch_sub(&abandoned, 1);
		free_call(c);
	}
	return NULL;
}

static struct bounded_call *new_call(void (*run)(void *arg), void *arg)
{
	struct bounded_call *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;

	if (!c)
		return NULL;
	c->run = run;
	c->arg = arg;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, &attr);
	pthread_condattr_destroy(&attr);
	return c;
}

static struct timespec end_of_grace(void)
{
	uint64_t nsec = ckpt_gpu_grace_nsec;

	if (atomic_load(&abandoned))
		nsec /= 10;
	nsec += ckpt_now_nsec();
	return (struct timespec){ (time_t)(nsec / 1000000000u), (long)(nsec % 1000000000u) };
}

bool ckpt_gpu_run_bounded(void (*run)(void *arg), void *arg)
{
	struct bounded_call *c = new_call(run, arg);
	struct timespec until = end_of_grace();
	pthread_t thread;
	bool done;
	int rc = 0;

	if (!c || ckpt_io_thread(&thread, run_call, c) != 0) {
		if (c)
			free_call(c);
		atomic_fetch_add(&abandoned, 1); /* for good */
		return false;
	}
	pthread_mutex_lock(&c->lock);
	while (!c->done && rc == 0)
		rc = pthread_cond_timedwait(&c->changed, &c->lock, &until);
	done = c->done;
	c->given_up = !done;
	if (!done)
		atomic_fetch_add(&abandoned, 1);
	pthread_mutex_unlock(&c->lock);
	if (!done) {
		pthread_detach(thread);
		return false;
	}
	pthread_join(thread, NULL);
	free_call(c);
	return true;
}

unsigned ckpt_gpu_count_abandoned(void)
{
	return atomic_load(&abandoned);
}
