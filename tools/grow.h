/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_GROW_H
#define CKPT_TOOLS_GROW_H

#include <stdint.h>
#include <stdlib.h>

/*
 * Make room for one more item in a malloc()ed array that holds COUNT items of SIZE bytes and has
 * room for *CAP. Returns the array, which may have moved, or NULL if there is no memory; the old
 * array then stays as it is.
 */
static inline void *grow_array(void *items, size_t count, size_t *cap, size_t size)
{
	size_t wider = *cap ? *cap * 2 : 32;
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
