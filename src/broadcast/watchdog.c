/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/watchdog.h"

#include "io/fault.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct ckpt_watchdog {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stopped;
	struct timespec until;
	int code;
	char text[200];
};

static void *watch(void *arg)
{
	struct ckpt_watchdog *w = arg;
	int rc = 0;

	pthread_mutex_lock(&w->lock);
	while (!w->stopped && rc == 0)
		rc = pthread_cond_timedwait(&w->changed, &w->lock, &w->until);
	if (!w->stopped) {
		fprintf(stderr, "%s\n", w->text);
		_exit(w->code);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

struct ckpt_watchdog *ckpt_watchdog_start(uint64_t nsec, int code, const char *text)
{
	struct ckpt_watchdog *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	clock_gettime(CLOCK_REALTIME, &w->until);
	nsec += (uint64_t)w->until.tv_nsec;
	w->until.tv_sec += (time_t)(nsec / 1000000000u);
	w->until.tv_nsec = (long)(nsec % 1000000000u);
	w->code = code;
	snprintf(w->text, sizeof(w->text), "%s", text);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	if (ckpt_io_thread(&w->thread, watch, w) == 0)
		return w;
	free(w);
	return NULL;
}

void ckpt_watchdog_stop(struct ckpt_watchdog *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stopped = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
