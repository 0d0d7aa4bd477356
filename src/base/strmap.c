/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strmap.h"

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

static char small(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static bool same_small(const char *small_key, const char *key, size_t len)
{
	while (len && *small_key == small(*key)) {
		small_key++;
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

/* That of KEY in small letters. */
static uint64_t hash_small(const char *key, size_t len)
{
	uint64_t h = seed() ^ len, tail = 0;
	uint64_t secret = h * 0xD6E8FEB86659FD93u;
	char part[8];

	for (; len >= 8; key += 8, len -= 8) {
		uint64_t v;

		for (int i = 0; i < 8; i++)
			part[i] = small(key[i]);
		memcpy(&v, part, 8);
		h = mix(h, v ^ secret);
	}
	for (size_t i = 0; i < len; i++)
		part[i] = small(key[i]);
	if (len)
		memcpy(&tail, part, len);
	return mix(mix(h, tail ^ secret), secret);
}

uint64_t *ckpt_strmap_find_small(const struct ckpt_strmap *map, const char *key, size_t len)
{
	uint64_t hash = hash_small(key, len);

	for (size_t i = hash; map->cap; i++) {
		struct ckpt_strmap_slot *slot = &map->slots[i & (map->cap - 1)];

		if (!slot->key)
			return NULL;
		if (slot->hash == hash && slot->len == len && same_small(slot->key, key, len))
			return &slot->value;
	}
	return NULL;
}

void ckpt_strmap_clear(struct ckpt_strmap *map)
{
	free(map->slots);
	*map = (struct ckpt_strmap){ 0 };
}

static struct ckpt_strmap_slot *probe(const struct ckpt_strmap *map, const char *key, size_t len,
				      uint64_t hash)
{
	size_t i = hash & (map->cap - 1);

	for (;; i = (i + 1) & (map->cap - 1)) {
		struct ckpt_strmap_slot *slot = &map->slots[i];

		if (!slot->key)
			return slot;
		if (slot->hash == hash && slot->len == len && !memcmp(slot->key, key, len))
			return slot;
	}
}

uint64_t *ckpt_strmap_find(const struct ckpt_strmap *map, const char *key, size_t len)
{
	struct ckpt_strmap_slot *slot;

	if (!map->cap)
		return NULL;
	slot = probe(map, key, len, hash_bytes(key, len));
	return slot->key ? &slot->value : NULL;
}

static bool resize(struct ckpt_strmap *map, size_t cap)
{
	struct ckpt_strmap bigger = { .cap = cap, .count = map->count };

	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	if (!bigger.slots)
		return false;
	for (size_t i = 0; i < map->cap; i++) {
		const struct ckpt_strmap_slot *old = &map->slots[i];

		if (old->key)
			*probe(&bigger, old->key, old->len, old->hash) = *old;
	}
	free(map->slots);
	*map = bigger;
	return true;
}

static bool grow(struct ckpt_strmap *map)
{
	return resize(map, map->cap ? map->cap * 2 : 16);
}

bool ckpt_strmap_reserve(struct ckpt_strmap *map, size_t count)
{
	size_t cap = 16;

	while (cap < SIZE_MAX / 8 && count * 4 >= cap * 3)
		cap *= 2;
	return cap <= map->cap || resize(map, cap);
}

uint64_t *ckpt_strmap_insert(struct ckpt_strmap *map, const char *key, size_t len, uint64_t value,
			     bool *was_there)
{
	uint64_t hash = hash_bytes(key, len);
	struct ckpt_strmap_slot *slot;

	if (map->count * 4 >= map->cap * 3 && !grow(map))
		return NULL;
	slot = probe(map, key, len, hash);
	*was_there = slot->key != NULL;
	if (!slot->key) {
		*slot = (struct ckpt_strmap_slot){ key, len, hash, value };
		map->count++;
	}
	return &slot->value;
}
