/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_ARRAY_TEXT_H
#define CKPT_TOOLS_ARRAY_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { ARRAY_EDGE = 3, ARRAY_THRESHOLD = 1000, ARRAY_MOST_DIMS = 64 };

/*
 * Numbers to print: all of an array of SHAPE or, if SUMMARISED, its edges: ARRAY_EDGE numbers at
 * each side of every dimension that is longer than two of these. SHOWN is the shape of BYTES.
 */
struct array_view {
	const char *dtype; /* one that numpy has */
	uint32_t ndim;
	const uint64_t *shape, *shown;
	bool summarised;
	const void *bytes;
};

/*
 * Print VIEW as numpy.array2string() does, and a line feed. PRECISION: numpy's is 8. Returns false
 * for a dtype that numpy lacks.
 */
bool print_array(FILE *out, const struct array_view *view, int precision);

/*
 * Print nested lists of numbers. "..." stands for what is left out; a number that JSON cannot
 * write is a string.
 */
bool print_array_json(FILE *out, const struct array_view *view);

#endif
