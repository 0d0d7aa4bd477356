/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_STRMAP_H
#define CKPT_BASE_STRMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Maps byte strings to numbers. Keys are borrowed and have to outlive the map. The hash is seeded
 * per process, so that a file cannot be made to collide; nothing depends on the order of the table.
 */
struct ckpt_strmap_entry {
	const char *key;
	uint32_t len, hash;
	uint64_t value;
};

struct ckpt_strmap {
	struct ckpt_strmap_entry *entries; /* in the order of insertion */
	size_t count, room;		   /* ROOM: for so many */
	uint32_t *table; /* CAP places: by hash, the number of an entry + 1; 0: free */
	size_t cap;	 /* a power of two */
};

void ckpt_strmap_clear(struct ckpt_strmap *map);

/*
 * Make room for COUNT keys at once, so that the table need not grow step by step. False: no
 * memory.
 */
bool ckpt_strmap_reserve(struct ckpt_strmap *map, size_t count);

/*
 * Make the map of COUNT keys, fewer than 4 Gi, in much less time than that takes one by one. ENTRIES,
 * which malloc() gave, have all but HASH and are the map's from now on. *FIRST_AGAIN: the number of
 * the first one whose key is that of an earlier one, and the map ends before it; COUNT: there is
 * none. False: no memory.
 */
bool ckpt_strmap_build(struct ckpt_strmap *map, struct ckpt_strmap_entry *entries, size_t count,
		       size_t *first_again);

/* The value of KEY, or NULL. Valid until the next insertion. */
uint64_t *ckpt_strmap_find(const struct ckpt_strmap *map, const char *key, size_t len);

/* The same for a map whose keys have no ASCII capitals: capitals in KEY count as small letters. */
uint64_t *ckpt_strmap_find_small(const struct ckpt_strmap *map, const char *key, size_t len);

/*
 * The value of KEY, which is inserted with VALUE if it is absent; *WAS_THERE: it was not. NULL:
 * no memory, or a limit is reached (4 Gi keys, or 4 GiB of one key).
 */
uint64_t *ckpt_strmap_insert(struct ckpt_strmap *map, const char *key, size_t len, uint64_t value,
			     bool *was_there);

#endif
