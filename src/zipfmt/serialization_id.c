/* SPDX-License-Identifier: Apache-2.0 */
#include "zipfmt/serialization_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ckpt_name_node {
	uint64_t hash;
	uint32_t next; /* index + 1 of the next in the one list, 0: end */
};

/* libstdc++ takes the first of its primes that holds twice the elements. */
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
	free(id->nodes);
	free(id->buckets);
	*id = (struct ckpt_serialization_id){ 0 };
}

/*
 * A new name goes in front of the first listed name of its bucket, or to the head of the list.
 * BUCKETS holds, per bucket, the node BEFORE its first one (count + 1 stands for the list's head).
 */
static void link_node(struct ckpt_serialization_id *id, uint32_t i)
{
	struct ckpt_name_node *nodes = id->nodes;
	uint32_t bucket = (uint32_t)(nodes[i].hash % id->bucket_count);
	uint32_t before = id->buckets[bucket];

	if (before == 0) { /* empty bucket */
		nodes[i].next = id->head;
		id->head = i + 1;
		if (nodes[i].next) {
			uint64_t next_hash = nodes[nodes[i].next - 1].hash;

			id->buckets[next_hash % id->bucket_count] = i + 1;
		}
		id->buckets[bucket] = UINT32_MAX; /* before it: the head */
	} else if (before == UINT32_MAX) {
		nodes[i].next = id->head;
		id->head = i + 1;
	} else {
		nodes[i].next = nodes[before - 1].next;
		nodes[before - 1].next = i + 1;
	}
}

static void rehash(struct ckpt_serialization_id *id)
{
	uint32_t at = id->head, p = 0;

	while (p + 1 < sizeof(primes) / sizeof(primes[0]) && primes[p] <= id->bucket_count)
		p++;
	id->bucket_count = primes[p];
	free(id->buckets);
	id->buckets = calloc(id->bucket_count, sizeof(*id->buckets));
	if (!id->buckets) {
		id->bad = true;
		return;
	}
	id->head = 0;
	while (at) {
		uint32_t next = id->nodes[at - 1].next;

		link_node(id, at - 1);
		at = next;
	}
}

static bool reserve(struct ckpt_serialization_id *id)
{
	if (id->count == id->cap) {
		uint32_t cap = id->cap ? id->cap * 2 : 64;
		void *grown = realloc(id->nodes, cap * sizeof(*id->nodes));

		if (!grown)
			return false;
		id->nodes = grown;
		id->cap = cap;
	}
	return true;
}

static void add_name(struct ckpt_serialization_id *id, const char *name)
{
	if (id->bad || !reserve(id)) {
		id->bad = true;
		return;
	}
	if (id->count + 1 > id->bucket_count)
		rehash(id);
	if (id->bad)
		return;
	id->nodes[id->count] = (struct ckpt_name_node){ .hash = hash_name(name) };
	link_node(id, id->count++);
}

void ckpt_serialization_id_add(struct ckpt_serialization_id *id, const char *name, uint64_t size,
			       uint32_t crc32, const uint8_t *head)
{
	static const uint8_t descriptor[4] = { 'P', 'K', 7, 8 };

	add_name(id, name);
	if (head && !memcmp(head, descriptor, 4))
		id->data_hash = combine(id->data_hash, (uint32_t)head[4] | (uint32_t)head[5] << 8 |
							       (uint32_t)head[6] << 16 |
							       (uint32_t)head[7] << 24);
	if (size)
		id->data_hash = combine(id->data_hash, crc32);
}

int ckpt_serialization_id_format(const struct ckpt_serialization_id *id, char out[41],
				 struct ckpt_error *err)
{
	uint64_t names = 0;

	if (id->bad)
		return ckpt_fail_nomem(err);
	for (uint32_t at = id->head; at; at = id->nodes[at - 1].next)
		names = combine(names, id->nodes[at - 1].hash);
	snprintf(out, 41, "%020" PRIu64 "%020" PRIu64, names, id->data_hash);
	return 0;
}
