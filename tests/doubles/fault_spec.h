/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TESTS_FAULT_SPEC_H
#define CKPT_TESTS_FAULT_SPEC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * An environment variable "NAME:CODE:NTH" that says which call of a double fails: the NTH of NAME ("*": of all), from 1,
 * with CODE. Without NTH every one. Counting starts when the variable gets another value.
 */
struct fault_spec {
	char text[120];
	unsigned seen;
};

static inline unsigned fault_code(struct fault_spec *f, const char *variable, const char *name)
{
	const char *text = getenv(variable);
	unsigned code = 0, nth = 0;
	char wanted[64] = "";

	if (!text)
		text = "";
	if (strcmp(text, f->text) != 0) {
		snprintf(f->text, sizeof(f->text), "%s", text);
		f->seen = 0;
	}
	if (sscanf(text, "%63[^:]:%u:%u", wanted, &code, &nth) < 2)
		return 0;
	if (strcmp(wanted, "*") != 0 && strcmp(wanted, name) != 0)
		return 0;
	f->seen++;
	return nth == 0 || f->seen == nth ? code : 0;
}

/* Of "NAME:MSEC:NTH": the call takes so long; HELD is let go of meanwhile. */
static inline void sleep_as(struct fault_spec *f, const char *variable, const char *name, pthread_mutex_t *held)
{
	unsigned msec = fault_code(f, variable, name);

	if (!msec)
		return;
	pthread_mutex_unlock(held);
	nanosleep(&(struct timespec){ msec / 1000, msec % 1000 * 1000000L }, NULL);
	pthread_mutex_lock(held);
}

static inline unsigned number_from(const char *variable, unsigned standard)
{
	const char *text = getenv(variable);

	return text && *text ? (unsigned)atoi(text) : standard;
}

#endif
