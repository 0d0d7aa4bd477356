/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_STRMAP_H
#define CKPT_BASE_STRMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Byte strings to numbers. Keys are borrowed and must outlive the map. The hash is seeded per
 * process, so that a file cannot be made to collide; nothing depends on the order of the table.
 */
struct ckpt_strmap_slot {
	const char *key;
	size_t len;
	uint64_t hash, value;
};

struct ckpt_strmap {
	struct ckpt_strmap_slot *slots;
	size_t count, cap;
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
 * NULL if there is no memory.
 */
uint64_t *ckpt_strmap_insert(struct ckpt_strmap *map, const char *key, size_t len, uint64_t value,
			     bool *was_there);

#endif
