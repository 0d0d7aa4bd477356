/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SCAN_NUMPY_H
#define CKPT_SCAN_NUMPY_H

#include <stdbool.h>
#include <stddef.h>

/* Arrays of numpy, in pickles (numpy.c) and in files (loaders/npy.c) alike. */
enum {
	CKPT_NUMPY_FEW_ITEMS = 4096,	   /* an array in a pickle has so many, or as many as it has bytes */
	CKPT_NUMPY_EMPTY_LISTS = 1 << 24, /* ... and if it has none, it is so many empty lists */
};

/* "ns": a unit of dates by the name that numpy writes. Of others, as "s/3", numpy makes units that are multiplied by zero. */
bool ckpt_scan_is_numpy_unit(const char *name, size_t len);

#endif
