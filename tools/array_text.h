/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_ARRAY_TEXT_H
#define CKPT_TOOLS_ARRAY_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { ARRAY_EDGE = 3, ARRAY_THRESHOLD = 1000, ARRAY_MOST_DIMS = 64 };

/*
 * Numbers to be printed: all of an array of SHAPE, or, if it is SUMMARISED, the edges of it, ARRAY_EDGE at each side of every
 * dimension that has more than two of these. SHOWN is the shape of BYTES.
 */
struct array_view {
	const char *dtype; /* one that numpy has */
	uint32_t ndim;
	const uint64_t *shape, *shown;
	bool summarised;
	const void *bytes;
};

/* As numpy.array2string() prints it, with a line feed at the end. PRECISION: numpy's is 8. False: no such dtype, or no memory. */
bool print_array(FILE *out, const struct array_view *view, int precision);

/* Nested lists of numbers; what is left out is "...", what is no number in JSON is a string. */
bool print_array_json(FILE *out, const struct array_view *view);

#endif
