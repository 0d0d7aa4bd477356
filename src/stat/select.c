/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of a number is its 64 bits, changed so that keys have the order of the numbers. The first
 * round counts by the highest 16 bits of the key, later ones by 12 more, for those keys only whose
 * first bits are known to be those of a wanted number.
 *
 * What must stay true: nothing here trusts that all rounds show the same numbers, for a file may be
 * written to in between (the caller finds that out at the end): no index comes from a count
 * without a check.
 */
#include "stat/select.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BITS = 64, FIRST_DIGIT = 16, DIGIT = 12, FIRSTS_BYTES = (1 << FIRST_DIGIT) / 8 };

/* ---- keys ---- */

static const uint64_t sign = (uint64_t)1 << 63;

static uint64_t key_of(double v)
{
	uint64_t bits;

	v += 0.0; /* -0.0 is 0.0 */
	memcpy(&bits, &v, sizeof(bits));
	return bits & sign ? ~bits : bits | sign;
}

static double number_of(uint64_t key)
{
	uint64_t bits = key & sign ? key & ~sign : ~key;
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static uint64_t prefix_of(const struct ckpt_select *s, uint64_t key)
{
	return s->unknown == KEY_BITS ? 0 : key >> s->unknown;
}

static uint64_t add_counts(uint64_t a, uint64_t b)
{
	return __builtin_add_overflow(a, b, &a) ? UINT64_MAX : a;
}

/* NULL: no wanted number begins so. */
static const struct ckpt_select_range *find_range(const struct ckpt_select *s, uint64_t prefix)
{
	uint32_t low = 0, high = s->range_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (s->ranges[middle].prefix < prefix)
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->range_count && s->ranges[low].prefix == prefix ? &s->ranges[low] : NULL;
}

/* ---- one round ---- */

/* Most numbers are told to be unwanted by their first bits, before a range is looked for. */
static bool set_firsts(struct ckpt_select *s)
{
	if (s->unknown == KEY_BITS)
		return true;
	if (!s->firsts)
		s->firsts = malloc(FIRSTS_BYTES);
	if (!s->firsts)
		return false;
	memset(s->firsts, 0, FIRSTS_BYTES);
	for (uint32_t i = 0; i < s->range_count; i++) {
		uint64_t first = s->ranges[i].prefix >> (KEY_BITS - FIRST_DIGIT - s->unknown);

		s->firsts[first / 64] |= (uint64_t)1 << first % 64;
	}
	return true;
}

/* Prepares a round: RANGES, PREFIXES and UNKNOWN are set. */
static int begin_round(struct ckpt_select *s, struct ckpt_error *err)
{
	uint64_t left = 0;
	size_t each;

	free(s->counts);
	s->counts = NULL;
	if (!set_firsts(s))
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < s->range_count; i++)
		left = add_counts(left, s->ranges[i].count);
	if (left <= CKPT_SELECT_MOST_KEPT) {
		s->digit = 0;
		s->kept_room = left;
		s->kept = malloc((left + 1) * sizeof(*s->kept));
		return s->kept ? 0 : ckpt_fail_nomem(err);
	}
	s->digit = s->unknown == KEY_BITS ? FIRST_DIGIT : DIGIT;
	each = (size_t)1 << s->digit;
	s->counts = calloc(s->range_count * each, sizeof(*s->counts));
	if (!s->counts)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < s->range_count; i++)
		s->ranges[i].counts = s->counts + i * each;
	return 0;
}

size_t ckpt_select_memory(uint32_t quantiles, uint64_t count)
{
	size_t kept = sizeof(struct ckpt_select_kept), first = sizeof(uint64_t) << FIRST_DIGIT,
	       later = 2 * quantiles * (sizeof(uint64_t) << DIGIT), most;

	if (count <= CKPT_SELECT_MOST_KEPT)
		return sizeof(struct ckpt_select) + (size_t)(count + 1) * kept;
	most = (CKPT_SELECT_MOST_KEPT + 1) * kept;
	most = first > most ? first : most;
	return sizeof(struct ckpt_select) + FIRSTS_BYTES + (later > most ? later : most);
}

int ckpt_select_init(struct ckpt_select *s, const double *at, uint32_t quantiles, uint64_t count,
		     struct ckpt_error *err)
{
	assert(count && quantiles <= CKPT_SELECT_MOST_QUANTILES);
	*s = (struct ckpt_select){ .count = count,
				   .at = at,
				   .rank_count = 2 * quantiles,
				   .unknown = KEY_BITS,
				   .ranges = { { .count = count } },
				   .range_count = 1 };
	for (uint32_t i = 0; i < quantiles; i++) {
		double place = at[i] * (double)(count - 1);
		uint64_t rank = place < 0x1p64 ? (uint64_t)place : count - 1;

		s->ranks[2 * i] = rank < count ? rank : count - 1;
		s->ranks[2 * i + 1] = rank + 1 < count ? rank + 1 : count - 1;
	}
	return begin_round(s, err);
}

void ckpt_select_clear(struct ckpt_select *s)
{
	free(s->counts);
	free(s->kept);
	free(s->firsts);
	s->firsts = NULL;
	s->counts = NULL;
	s->kept = NULL;
}

size_t ckpt_select_keys(const struct ckpt_select *s, const double *in, size_t count, uint64_t *keys)
{
	size_t n = 0, kept = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t key = key_of(in[i]), first = key >> (KEY_BITS - FIRST_DIGIT);

		keys[n] = key;
		n += isfinite(in[i]) && (!s->firsts || s->firsts[first / 64] >> first % 64 & 1);
	}
	if (!s->firsts || s->unknown == KEY_BITS - FIRST_DIGIT)
		return n;
	for (size_t i = 0; i < n; i++) {
		keys[kept] = keys[i];
		kept += find_range(s, keys[i] >> s->unknown) != NULL;
	}
	return kept;
}

void ckpt_select_add(struct ckpt_select *s, const uint64_t *keys, size_t count, uint64_t times)
{
	for (size_t i = 0; i < count; i++) {
		const struct ckpt_select_range *range;
		uint64_t *n;

		if (!s->digit) {
			if (s->kept_count < s->kept_room)
				s->kept[s->kept_count++] =
					(struct ckpt_select_kept){ keys[i], times };
			continue;
		}
		range = s->firsts ? find_range(s, prefix_of(s, keys[i])) : s->ranges;
		n = &range->counts[keys[i] >> (s->unknown - s->digit) &
				   (((uint64_t)1 << s->digit) - 1)];
		*n = add_counts(*n, times);
	}
}

/* ---- between rounds ---- */

static int by_prefix(const void *x, const void *y)
{
	const struct ckpt_select_range *a = x, *b = y;

	return (a->prefix > b->prefix) - (a->prefix < b->prefix);
}

static int by_key(const void *x, const void *y)
{
	const struct ckpt_select_kept *a = x, *b = y;

	return (a->key > b->key) - (a->key < b->key);
}

/* The part of RANGE that the number RANK is in; if none is, the last one. */
static struct ckpt_select_range narrow(const struct ckpt_select *s,
				       const struct ckpt_select_range *range, uint64_t rank)
{
	uint64_t before = range->before, last = ((uint64_t)1 << s->digit) - 1, i = 0;

	for (; i < last && add_counts(before, range->counts[i]) <= rank; i++)
		before = add_counts(before, range->counts[i]);
	return (struct ckpt_select_range){ .prefix = range->prefix << s->digit | i,
					   .before = before,
					   .count = range->counts[i] };
}

static void find_kept(struct ckpt_select *s)
{
	qsort(s->kept, s->kept_count, sizeof(*s->kept), by_key);
	for (uint32_t r = 0; r < s->rank_count; r++) {
		uint64_t prefix = s->prefixes[r], seen = find_range(s, prefix)->before,
			 key = prefix;

		if (s->unknown < KEY_BITS)
			key <<= s->unknown;
		for (uint64_t i = 0; i < s->kept_count && seen <= s->ranks[r]; i++)
			if (prefix_of(s, s->kept[i].key) == prefix) {
				key = s->kept[i].key;
				seen = add_counts(seen, s->kept[i].times);
			}
		s->prefixes[r] = key;
	}
	s->unknown = 0;
}

int ckpt_select_next(struct ckpt_select *s, struct ckpt_error *err)
{
	struct ckpt_select_range narrowed[2 * CKPT_SELECT_MOST_QUANTILES];
	uint32_t count = 0;

	if (!s->digit) {
		find_kept(s);
		return 0;
	}
	for (uint32_t r = 0; r < s->rank_count; r++) {
		narrowed[r] = narrow(s, find_range(s, s->prefixes[r]), s->ranks[r]);
		s->prefixes[r] = narrowed[r].prefix;
	}
	s->unknown -= s->digit;
	if (!s->unknown)
		return 0;
	qsort(narrowed, s->rank_count, sizeof(*narrowed), by_prefix);
	for (uint32_t r = 0; r < s->rank_count; r++)
		if (!r || narrowed[r].prefix != narrowed[r - 1].prefix)
			s->ranges[count++] = narrowed[r];
	s->range_count = count;
	return begin_round(s, err) < 0 ? CKPT_E_NOMEM : 1;
}

/* ---- results ---- */

/* The way numpy goes between A and B, so that the last digit is numpy's. */
static double between(double a, double b, double t)
{
	double apart = b - a;

	if (!isfinite(apart)) /* beyond the range of a double */
		return a * (1 - t) + b * t;
	return t >= 0.5 ? b - apart * (1 - t) : a + apart * t;
}

void ckpt_select_quantiles(const struct ckpt_select *s, double *out)
{
	for (uint32_t i = 0; i < s->rank_count / 2; i++) {
		double place = s->at[i] * (double)(s->count - 1);

		out[i] = between(number_of(s->prefixes[2 * i]), number_of(s->prefixes[2 * i + 1]),
				 place - floor(place));
	}
}
