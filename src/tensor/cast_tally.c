/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/cast_tally.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

/*
 * More stretches that lie apart are not kept, nor is what there is no memory for: they count again
 * if they are cast again. So a number that is lost is never passed over.
 */
enum { MOST_SPANS = 4096 };

void ckpt_cast_tally_init(struct ckpt_cast_tally *t)
{
	*t = (struct ckpt_cast_tally){ .count = CKPT_CAST_COUNT_INIT };
	pthread_mutex_init(&t->lock, NULL);
}

void ckpt_cast_tally_clear(struct ckpt_cast_tally *t)
{
	free(t->counted);
	t->counted = NULL;
	pthread_mutex_destroy(&t->lock);
}

/* The number of the first span that ends at AT or behind. */
static uint32_t find_span(const struct ckpt_cast_tally *t, uint64_t at)
{
	uint32_t low = 0, high = t->span_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (t->counted[middle].to < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* FROM to TO lies between span I and the one before it, and may touch both. */
static void add_span(struct ckpt_cast_tally *t, uint32_t i, uint64_t from, uint64_t to)
{
	struct ckpt_cast_span *grown;

	if (i < t->span_count && t->counted[i].to == from) {
		t->counted[i].to = to;
		if (i + 1 < t->span_count && t->counted[i + 1].from == to) {
			t->counted[i].to = t->counted[i + 1].to;
			t->span_count--;
			memmove(&t->counted[i + 1], &t->counted[i + 2],
				(t->span_count - i - 1) * sizeof(*t->counted));
		}
		return;
	}
	if (i < t->span_count && t->counted[i].from == to) {
		t->counted[i].from = from;
		return;
	}
	if (t->span_count == MOST_SPANS)
		return;
	grown = ckpt_grow(t->counted, t->span_count, &t->span_cap, sizeof(*grown));
	if (!grown)
		return;
	t->counted = grown;
	memmove(&grown[i + 1], &grown[i], (t->span_count - i) * sizeof(*grown));
	grown[i] = (struct ckpt_cast_span){ from, to };
	t->span_count++;
}

/*
 * How far from AT on, up to END, all items are counted already, or none (*FRESH), which are now
 * the caller's to count.
 */
static uint64_t claim(struct ckpt_cast_tally *t, uint64_t at, uint64_t end, bool *fresh)
{
	uint64_t stop = end;
	uint32_t i, next;

	pthread_mutex_lock(&t->lock);
	i = next = find_span(t, at);
	if (next < t->span_count && t->counted[next].to == at)
		next++;
	*fresh = next == t->span_count || t->counted[next].from > at;
	if (next < t->span_count) {
		uint64_t edge = *fresh ? t->counted[next].from : t->counted[next].to;

		stop = edge < end ? edge : end;
	}
	if (*fresh)
		add_span(t, i, at, stop);
	pthread_mutex_unlock(&t->lock);
	return stop;
}

static double number_at(const struct ckpt_cast *cast, const uint8_t *in, uint64_t i)
{
	double v;

	ckpt_cast_items(cast->from, CKPT_DTYPE_FLOAT64, in + i * cast->map.from, &v, 1);
	return v;
}

static void add_count(struct ckpt_cast_tally *t, const struct ckpt_cast *cast, uint64_t at,
		      const uint8_t *in, const struct ckpt_cast_count *c)
{
	if (!c->overflowed && !c->underflowed)
		return;
	pthread_mutex_lock(&t->lock);
	t->count.overflowed += c->overflowed;
	t->count.underflowed += c->underflowed;
	if (c->overflowed && at + c->first_overflow < t->count.first_overflow) {
		t->count.first_overflow = at + c->first_overflow;
		t->overflow = number_at(cast, in, c->first_overflow);
	}
	if (c->underflowed && at + c->first_underflow < t->count.first_underflow) {
		t->count.first_underflow = at + c->first_underflow;
		t->underflow = number_at(cast, in, c->first_underflow);
	}
	pthread_mutex_unlock(&t->lock);
}

void ckpt_cast_tally_items(struct ckpt_cast_tally *t, const struct ckpt_cast *cast, uint64_t at,
			   const void *in, void *out, size_t count)
{
	const uint8_t *from = in;
	uint64_t end = at + count;
	uint8_t *to = out;

	while (at < end) {
		struct ckpt_cast_count c = CKPT_CAST_COUNT_INIT;
		bool fresh;
		size_t n = (size_t)(claim(t, at, end, &fresh) - at);

		ckpt_cast_items_counting(cast->from, cast->to, from, to, n, fresh ? &c : NULL);
		add_count(t, cast, at, from, &c);
		at += n;
		from += n * cast->map.from;
		to += n * cast->map.to;
	}
}
