/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SCAN_ROW_INDEX_H
#define CKPT_SCAN_ROW_INDEX_H

#include "scan/names.h"

#include <assert.h>
#include <string.h>

/*
 * A table of rules, to be searched by name: a pickle asks for each of its calls. Static, built once; of
 * rows with one name and module the first is found, as by a search from the front.
 */
struct ckpt_row_index {
	const struct ckpt_scan_rule *rows;
	uint16_t first[512], next[1024]; /* 1 + number of a row; 0: none. NEXT: of the same hash */
};

/* Of a few letters, by which the names of the rows are told apart, and how many there are. */
static inline uint32_t ckpt_row_hash(const char *name)
{
	size_t len = strlen(name), last = len ? len - 1 : 0;
	const size_t places[] = { 0, len / 3, len / 2, last - last / 4, last };
	uint32_t hash = 2166136261u ^ (uint32_t)len; /* FNV-1a */

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		hash = (hash ^ (uint8_t)name[places[i]]) * 16777619u;
	return (hash ^ hash >> 16) % 512;
}

static inline void ckpt_row_index_build(struct ckpt_row_index *x, const struct ckpt_scan_rule *rows,
					size_t count)
{
	assert(count <= sizeof(x->next) / sizeof(x->next[0]));
	x->rows = rows;
	for (size_t i = count; i-- > 0;) {
		uint16_t *first = &x->first[ckpt_row_hash(rows[i].name)];

		x->next[i] = *first;
		*first = (uint16_t)(i + 1);
	}
}

static inline const struct ckpt_scan_rule *
ckpt_row_index_find(const struct ckpt_row_index *x, const char *module, const char *name)
{
	for (uint16_t i = x->first[ckpt_row_hash(name)]; i; i = x->next[i - 1])
		if (!strcmp(x->rows[i - 1].name, name) && !strcmp(x->rows[i - 1].module, module))
			return &x->rows[i - 1];
	return NULL;
}

#endif
