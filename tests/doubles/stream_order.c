/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_order.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What somebody did, and the program has not yet seen to be over. */
struct access {
	struct access *next;
	struct stream_touch touch;
	unsigned stream;
	unsigned long number; /* of what did it, in its stream */
};

static struct access *accesses;
static struct stream_clock streams[STREAM_ORDER_MOST]; /* what comes before the next thing of each; of itself: all */
static struct stream_clock program;

static void join(struct stream_clock *c, const struct stream_clock *other)
{
	for (unsigned i = 0; i < STREAM_ORDER_MOST; i++)
		if (c->at[i] < other->at[i])
			c->at[i] = other->at[i];
}

static bool overlaps(const struct stream_touch *a, const struct stream_touch *b)
{
	uintptr_t x = (uintptr_t)a->memory, y = (uintptr_t)b->memory;

	return a->nbytes && b->nbytes && x < y + b->nbytes && y < x + a->nbytes;
}

static bool is_before(const struct access *a, unsigned stream)
{
	return a->stream == stream || a->number <= streams[stream].at[a->stream];
}

static bool is_seen(const struct access *a)
{
	return a->number <= program.at[a->stream];
}

static void add_access(unsigned stream, const struct stream_touch *touch)
{
	struct access *a = malloc(sizeof(*a));

	*a = (struct access){ accesses, *touch, stream, streams[stream].at[stream] };
	accesses = a;
}

bool stream_order_put(unsigned stream, const struct stream_touch *touches, size_t count)
{
	bool good = true;

	join(&streams[stream], &program);
	streams[stream].at[stream]++;
	for (struct access **at = &accesses, *a; (a = *at) != NULL;) {
		if (is_seen(a)) {
			*at = a->next;
			free(a);
			continue;
		}
		for (size_t i = 0; i < count; i++)
			good &= !overlaps(&a->touch, &touches[i]) || is_before(a, stream) ||
				!(a->touch.writes || touches[i].writes);
		at = &a->next;
	}
	for (size_t i = 0; i < count; i++)
		if (touches[i].nbytes)
			add_access(stream, &touches[i]);
	return good;
}

void stream_order_record(unsigned stream, struct stream_clock *event)
{
	join(&streams[stream], &program);
	*event = streams[stream];
}

void stream_order_wait(unsigned stream, const struct stream_clock *event)
{
	join(&streams[stream], event);
}

void stream_order_seen(const struct stream_clock *event)
{
	join(&program, event);
}

void stream_order_seen_all(unsigned stream)
{
	join(&program, &streams[stream]);
}

void stream_order_forget(const void *memory, size_t nbytes)
{
	const struct stream_touch touch = { memory, nbytes, true };

	for (struct access **at = &accesses, *a; (a = *at) != NULL;)
		if (overlaps(&a->touch, &touch)) {
			*at = a->next;
			free(a);
		} else {
			at = &a->next;
		}
}
