/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table with linear probing. TABLE has numbers of ENTRIES (plus 1), which stay in the
 * order of insertion; an entry keeps 32 bits of its hash, so that a lookup seldom compares keys
 * and growing hashes none again.
 *
 * What must stay true: TABLE always has a free place, or a probe for an absent key never ends
 * (table_for(), three quarters); the hash is seeded per process, so that no file can be made to
 * collide; hash_small() of any key is hash_bytes() of the key in small letters.
 */
#include "base/strmap.h"

#include "base/ascii.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static uint64_t seed(void)
{
	static _Atomic uint64_t cached;
	uint64_t s = atomic_load(&cached), none = 0;

	if (s)
		return s;
	if (getrandom(&s, sizeof(s), GRND_NONBLOCK) != sizeof(s))
		s = (uint64_t)(uintptr_t)&cached;
	s |= 1;
	if (!atomic_compare_exchange_strong(&cached, &none, s))
		s = none; /* another thread was first */
	return s;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
	unsigned __int128 product = (unsigned __int128)(h ^ v) * 0x9E3779B97F4A7C15u;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static char lower(char c)
{
	return (char)ckpt_to_lower(c);
}

static bool equals_in_lower_case(const char *lower_key, const char *key, size_t len)
{
	while (len && *lower_key == lower(*key)) {
		lower_key++;
		key++;
		len--;
	}
	return !len;
}

static uint64_t hash_bytes(const char *key, size_t len)
{
	uint64_t h = seed() ^ len, tail = 0;
	uint64_t secret = h * 0xD6E8FEB86659FD93u;

	for (; len >= 8; key += 8, len -= 8) {
		uint64_t v;

		memcpy(&v, key, 8);
		h = mix(h, v ^ secret);
	}
	if (len)
		memcpy(&tail, key, len);
	return mix(mix(h, tail ^ secret), secret);
}

/* The hash of KEY in small letters. */
static uint64_t hash_small(const char *key, size_t len)
{
	uint64_t h = seed() ^ len, tail = 0;
	uint64_t secret = h * 0xD6E8FEB86659FD93u;
	char part[8];

	for (; len >= 8; key += 8, len -= 8) {
		uint64_t v;

		for (int i = 0; i < 8; i++)
			part[i] = lower(key[i]);
		memcpy(&v, part, 8);
		h = mix(h, v ^ secret);
	}
	for (size_t i = 0; i < len; i++)
		part[i] = lower(key[i]);
	if (len)
		memcpy(&tail, part, len);
	return mix(mix(h, tail ^ secret), secret);
}

/* The part of a hash that picks the place in the table, and that an entry keeps. */
static uint32_t fold_hash(uint64_t hash)
{
	return (uint32_t)(hash ^ hash >> 32);
}

/* Where in the table the search for a key with HASH begins. */
static size_t first_place(const struct ckpt_strmap *map, uint32_t hash)
{
	return hash & (map->cap - 1);
}

uint64_t *ckpt_strmap_find_small(const struct ckpt_strmap *map, const char *key, size_t len)
{
	uint32_t hash;

	if (!map->cap)
		return NULL;
	hash = fold_hash(hash_small(key, len));
	for (size_t i = first_place(map, hash); map->table[i]; i = (i + 1) & (map->cap - 1)) {
		struct ckpt_strmap_entry *e = &map->entries[map->table[i] - 1];

		if (e->hash == hash && e->len == len && equals_in_lower_case(e->key, key, len))
			return &e->value;
	}
	return NULL;
}

void ckpt_strmap_clear(struct ckpt_strmap *map)
{
	free(map->entries);
	free(map->table);
	*map = (struct ckpt_strmap){ 0 };
}

/* The place of KEY in the table, or the free one where it would be. */
static uint32_t *probe(const struct ckpt_strmap *map, const char *key, size_t len, uint32_t hash)
{
	for (size_t i = first_place(map, hash);; i = (i + 1) & (map->cap - 1)) {
		uint32_t *place = &map->table[i];
		const struct ckpt_strmap_entry *e = *place ? &map->entries[*place - 1] : NULL;

		if (!e || (e->hash == hash && e->len == len && !memcmp(e->key, key, len)))
			return place;
	}
}

uint64_t *ckpt_strmap_find(const struct ckpt_strmap *map, const char *key, size_t len)
{
	uint32_t *place;

	if (!map->cap)
		return NULL;
	place = probe(map, key, len, fold_hash(hash_bytes(key, len)));
	return *place ? &map->entries[*place - 1].value : NULL;
}

static bool resize_entries(struct ckpt_strmap *map, size_t room)
{
	struct ckpt_strmap_entry *grown = realloc(map->entries, room * sizeof(*grown));

	if (!grown)
		return false;
	map->entries = grown;
	map->room = room;
	return true;
}

/* Make a table of CAP places, with all keys in it. */
static bool resize_table(struct ckpt_strmap *map, size_t cap)
{
	uint32_t *table = calloc(cap, sizeof(*table));

	if (!table)
		return false;
	free(map->table);
	map->table = table;
	map->cap = cap;
	for (size_t n = 0; n < map->count; n++) { /* no two keys are the same */
		size_t i = first_place(map, map->entries[n].hash);

		while (table[i])
			i = (i + 1) & (cap - 1);
		table[i] = (uint32_t)(n + 1);
	}
	return true;
}

/* The size of a table in which COUNT keys take at most three quarters of the places. */
static size_t table_for(size_t count)
{
	size_t cap = 16;

	while (cap < SIZE_MAX / 8 && count * 4 >= cap * 3)
		cap *= 2;
	return cap;
}

bool ckpt_strmap_reserve(struct ckpt_strmap *map, size_t count)
{
	size_t cap = table_for(count);

	if (count >= UINT32_MAX || (count > map->room && !resize_entries(map, count)))
		return false;
	return cap <= map->cap || resize_table(map, cap);
}

/*
 * Nearly every place is far from the last one in memory, so what a key needs is fetched while those
 * before it are inserted: its place in the table first, then the entry that has this place already.
 */
bool ckpt_strmap_build(struct ckpt_strmap *map, struct ckpt_strmap_entry *entries, size_t count,
		       size_t *first_again)
{
	enum { AHEAD = 32 };
	uint32_t *place;

	*map = (struct ckpt_strmap){ .entries = entries, .room = count };
	*first_again = count;
	if (!resize_table(map, table_for(count)))
		return false;
	for (size_t i = 0; i < count + AHEAD; i++) {
		size_t near = i - AHEAD / 2, now = i - AHEAD; /* wrapped at first */
		struct ckpt_strmap_entry *e;

		if (i < count) {
			e = &entries[i];
			e->hash = fold_hash(hash_bytes(e->key, e->len));
			__builtin_prefetch(&map->table[first_place(map, e->hash)], 1);
		}
		if (near < count) {
			place = &map->table[first_place(map, entries[near].hash)];
			if (*place)
				__builtin_prefetch(&entries[*place - 1]);
		}
		if (now >= count)
			continue;
		e = &entries[now];
		place = probe(map, e->key, e->len, e->hash);
		if (*place) {
			*first_again = now;
			break;
		}
		*place = (uint32_t)++map->count;
	}
	return true;
}

uint64_t *ckpt_strmap_insert(struct ckpt_strmap *map, const char *key, size_t len, uint64_t value,
			     bool *was_there)
{
	uint32_t hash = fold_hash(hash_bytes(key, len)), *place;

	if (map->count == UINT32_MAX - 1 || len > UINT32_MAX)
		return NULL;
	if (map->count * 4 >= map->cap * 3 && !resize_table(map, map->cap ? map->cap * 2 : 16))
		return NULL;
	place = probe(map, key, len, hash);
	*was_there = *place != 0;
	if (!*place) {
		if (map->count == map->room &&
		    !resize_entries(map, map->room < 8 ? 8 : map->room + map->room / 2))
			return NULL;
		map->entries[map->count++] =
			(struct ckpt_strmap_entry){ key, (uint32_t)len, hash, value };
		*place = (uint32_t)map->count;
	}
	return &map->entries[*place - 1].value;
}
