/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_GROW_H
#define CKPT_BASE_GROW_H

#include <stdint.h>
#include <stdlib.h>

/*
 * Make room for one more item in a malloc()ed array that holds COUNT items of SIZE bytes and has
 * room for *CAP. Returns the array, which may have moved, or NULL if there is no memory; the old
 * array then stays as it is.
 */
static inline void *ckpt_grow(void *items, uint32_t count, uint32_t *cap, size_t size)
{
	uint32_t wider = *cap ? *cap * 2 : 8; /* some tables have one array for each row */
	void *grown;

	if (count < *cap)
		return items;
	if (wider <= *cap || wider > SIZE_MAX / size)
		return NULL;
	grown = realloc(items, wider * size);
	if (grown)
		*cap = wider;
	return grown;
}

#endif
