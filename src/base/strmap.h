/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_STRMAP_H
#define CKPT_BASE_STRMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Byte strings to numbers. Keys are borrowed and must outlive the map. The hash is seeded per
 * process, so that a file cannot be made to collide; nothing depends on the order of the table.
 * For few bytes per key the entries lie side by side, and the table has numbers of them.
 */
struct ckpt_strmap_entry {
	const char *key;
	uint32_t len, hash;
	uint64_t value;
};

struct ckpt_strmap {
	struct ckpt_strmap_entry *entries; /* in the order in which they came */
	size_t count, room;
	uint32_t *table; /* of a power of two: by hash, number of an entry + 1; 0: free */
	size_t cap;
};

void ckpt_strmap_clear(struct ckpt_strmap *map);

/* Room for COUNT keys at once, so that the table need not grow on the way. False: no memory. */
bool ckpt_strmap_reserve(struct ckpt_strmap *map, size_t count);

/* Pointer to the value of KEY, or NULL. Valid until the next insertion. */
uint64_t *ckpt_strmap_find(const struct ckpt_strmap *map, const char *key, size_t len);

/* The same for a map whose keys have no capitals of ASCII: those of KEY count as small letters. */
uint64_t *ckpt_strmap_find_small(const struct ckpt_strmap *map, const char *key, size_t len);

/*
 * Pointer to the value of KEY, which is made with VALUE if it was absent. *WAS_THERE says which.
 * NULL if there is no memory, or no room for another number (4 GiB of them, or of a key).
 */
uint64_t *ckpt_strmap_insert(struct ckpt_strmap *map, const char *key, size_t len, uint64_t value,
			     bool *was_there);

#endif
