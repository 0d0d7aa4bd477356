/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes what PyTorchStreamWriter::writeSerializationId() of torch does (caffe2/serialize/
 * inline_container.cc): one hash over the names of the records, in the order in which
 * libstdc++'s unordered_set iterates, and one over their CRCs, in the order of writing.
 *
 * What must stay true: hash_name(), the primes, when buckets are added and where in the list a
 * name goes are those of libstdc++, or the digits are not those of torch
 * (serialization_id_cases.h has real ones).
 */
#include "zipfmt/serialization_id.h"

#include "base/grow.h"
#include "base/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The names as libstdc++'s unordered_set keeps them: one list, in which the names of a bucket
 * are neighbors. With a million names nearly every step misses the cache. So the names are not
 * linked one by one as they come, but all at the end, with prefetches for the next ones.
 */
struct name_list {
	const uint64_t *hashes;
	uint32_t *next; /* by name: the index + 1 of the one after it; 0: end */
	/* by bucket: the index + 1 of the name BEFORE its first one; AT_HEAD: none is; 0: empty */
	uint32_t *buckets;
	uint32_t bucket_count;
	uint32_t head, head_bucket; /* the index + 1 of the first name, and its bucket */
};

enum { AHEAD = 16, RING = 32 };
static const uint32_t AT_HEAD = UINT32_MAX;

/* The numbers of buckets of libstdc++: each is the first of its primes above twice the last. */
static const uint32_t primes[] = { 13,	      29,	59,	  127,	    257,       541,
				   1109,      2357,	5087,	  10273,    20753,     42043,
				   85229,     172933,	351061,	  712697,   1447153,   2938679,
				   5967347,   12117689, 24607243, 49969847, 101473717, 206062531,
				   418450471, 849747671 };

static uint64_t combine(uint64_t seed, uint64_t v)
{
	return seed ^ (v + 0x9E3779B9u + (seed << 6) + (seed >> 2));
}

/* std::hash<std::string>: 64-bit Murmur2, its "A" form. */
static uint64_t hash_name(const char *name)
{
	const uint64_t m = 0xC6A4A7935BD1E995u;
	size_t len = strlen(name);
	uint64_t h = 0xC70F6907u ^ (len * m), d;

	for (; len >= 8; name += 8, len -= 8) {
		memcpy(&d, name, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
		d = __builtin_bswap64(d);
#endif
		d *= m;
		d ^= d >> 47;
		d *= m;
		h ^= d;
		h *= m;
	}
	if (len) {
		d = 0;
		for (size_t i = 0; i < len; i++)
			d |= (uint64_t)(uint8_t)name[i] << (8 * i);
		h ^= d;
		h *= m;
	}
	h ^= h >> 47;
	h *= m;
	return h ^ (h >> 47);
}

void ckpt_serialization_id_init(struct ckpt_serialization_id *id)
{
	*id = (struct ckpt_serialization_id){ 0 };
}

void ckpt_serialization_id_clear(struct ckpt_serialization_id *id)
{
	free(id->hashes);
	*id = (struct ckpt_serialization_id){ 0 };
}

/*
 * A new name goes before the first one of its bucket, or, if that is empty, to the head of the
 * list.
 */
static void link_name(struct name_list *l, uint32_t i, uint32_t bucket)
{
	uint32_t before = l->buckets[bucket];

	if (before && before != AT_HEAD) {
		l->next[i] = l->next[before - 1];
		l->next[before - 1] = i + 1;
		return;
	}
	if (!before && l->head)
		l->buckets[l->head_bucket] = i + 1;
	l->buckets[bucket] = AT_HEAD;
	l->next[i] = l->head;
	l->head = i + 1;
	l->head_bucket = bucket;
}

/* Link the names FROM to TO, or those that ORDER has there. */
static void link_names(struct name_list *l, const uint32_t *order, uint32_t from, uint32_t to)
{
	uint32_t ring[RING];

	for (uint64_t i = from; i < (uint64_t)to + AHEAD; i++) {
		uint64_t k = i - AHEAD / 2, now = i - AHEAD; /* below FROM at first, or wrapped */

		if (i < to) {
			ring[i % RING] =
				(uint32_t)(l->hashes[order ? order[i] : i] % l->bucket_count);
			__builtin_prefetch(&l->buckets[ring[i % RING]], 1);
		}
		if (k >= from && k < to) {
			uint32_t before = l->buckets[ring[k % RING]];

			if (before && before != AT_HEAD)
				__builtin_prefetch(&l->next[before - 1], 1);
		}
		if (now >= from && now < to)
			link_name(l, order ? order[now] : (uint32_t)now, ring[now % RING]);
	}
}

/* Add buckets, and link the names anew in the order of the list. False: no memory. */
static bool rehash(struct name_list *l, uint32_t count)
{
	uint32_t *order = malloc((count + (size_t)1) * sizeof(*order)), n = 0, p = 0;

	while (p + 1 < sizeof(primes) / sizeof(primes[0]) && primes[p] <= l->bucket_count)
		p++;
	l->bucket_count = primes[p];
	free(l->buckets);
	l->buckets = calloc(l->bucket_count, sizeof(*l->buckets));
	if (!order || !l->buckets) {
		free(order);
		return false;
	}
	for (uint32_t at = l->head; at; at = l->next[at - 1])
		order[n++] = at - 1;
	l->head = 0;
	link_names(l, order, 0, n);
	free(order);
	return true;
}

/* False: no memory. */
static bool link_all(struct name_list *l, uint32_t count)
{
	uint32_t done = 0;

	l->next = malloc((count + (size_t)1) * sizeof(*l->next));
	if (!l->next)
		return false;
	while (done < count) {
		uint32_t to;

		if (!rehash(l, done))
			return false;
		to = l->bucket_count > done && l->bucket_count < count ? l->bucket_count : count;
		link_names(l, NULL, done, to);
		done = to;
	}
	return true;
}

void ckpt_serialization_id_add(struct ckpt_serialization_id *id, const char *name, uint64_t size,
			       uint32_t crc32, const uint8_t *head)
{
	static const uint8_t descriptor[4] = { 'P', 'K', 7, 8 };
	void *grown = ckpt_grow(id->hashes, id->count, &id->cap, sizeof(*id->hashes));

	if (grown) {
		id->hashes = grown;
		id->hashes[id->count++] = hash_name(name);
	} else {
		id->bad = true;
	}
	if (head && !memcmp(head, descriptor, 4))
		id->data_hash = combine(id->data_hash, ckpt_get_u32(head + 4));
	if (size)
		id->data_hash = combine(id->data_hash, crc32);
}

int ckpt_serialization_id_format(const struct ckpt_serialization_id *id, char out[41],
				 struct ckpt_error *err)
{
	struct name_list l = { .hashes = id->hashes };
	bool fine = !id->bad && link_all(&l, id->count);
	uint64_t names = 0;

	for (uint32_t at = fine ? l.head : 0; at; at = l.next[at - 1])
		names = combine(names, id->hashes[at - 1]);
	free(l.next);
	free(l.buckets);
	if (!fine)
		return ckpt_fail_nomem(err);
	snprintf(out, 41, "%020" PRIu64 "%020" PRIu64, names, id->data_hash);
	return 0;
}
