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
 * with CODE. Without NTH every one; with "NTH+" that one and all that follow. Counting starts when the variable gets
 * another value; what is behind "#" makes it another.
 */
struct fault_spec {
	char text[120], name[64];
	unsigned code, nth, seen;
	bool stays; /* the value has a "+" */
};

static inline void fault_parse(struct fault_spec *f, const char *text)
{
	char plus = 0;

	*f = (struct fault_spec){ .code = 0 };
	snprintf(f->text, sizeof(f->text), "%s", text);
	if (sscanf(text, "%63[^:]:%u:%u%c", f->name, &f->code, &f->nth, &plus) < 2)
		f->code = 0;
	f->stays = plus == '+';
}

static inline unsigned fault_code(struct fault_spec *f, const char *variable, const char *name)
{
	const char *text = getenv(variable);

	if (!text)
		text = "";
	if (strcmp(text, f->text) != 0)
		fault_parse(f, text);
	if (!f->code || (strcmp(f->name, "*") != 0 && strcmp(f->name, name) != 0))
		return 0;
	f->seen++;
	return f->nth == 0 || f->seen == f->nth || (f->stays && f->seen > f->nth) ? f->code : 0;
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
