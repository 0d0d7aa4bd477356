/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_GROW_H
#define CKPT_BASE_GROW_H

#include <stdint.h>
#include <stdlib.h>

/*
 * Room for one more item behind the COUNT items of SIZE bytes in a malloc()ed array, of which *CAP fit. Returns
 * the array, which may have moved, or NULL: no memory, and the old one stays as it is.
 */
static inline void *ckpt_grow(void *items, uint32_t count, uint32_t *cap, size_t size)
{
	uint32_t wider = *cap ? *cap * 2 : 256;
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
