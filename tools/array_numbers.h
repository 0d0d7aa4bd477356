/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_ARRAY_NUMBERS_H
#define CKPT_TOOLS_ARRAY_NUMBERS_H

#include "array_text.h"
#include "float_text.h"

/* Read the numbers of an array_view one by one, to print them. */
enum number_kind { KIND_BOOL, KIND_INT, KIND_UINT, KIND_FLOAT, KIND_COMPLEX };

struct number_type {
	const char *name;
	enum number_kind kind;
	unsigned size;
	enum float_kind precision;
};

/* NULL: numpy has no such dtype, or the view has too many dimensions. */
const struct number_type *number_type_of(const struct array_view *view);

/* Real parts of complex numbers have the even indices, imaginary parts the odd ones. */
double real_at(const struct array_view *view, const struct number_type *type, uint64_t i);
int64_t int_at(const struct array_view *view, const struct number_type *type, uint64_t i);
uint64_t uint_at(const struct array_view *view, const struct number_type *type, uint64_t i);

uint64_t shown_count(const struct array_view *view);

/* Is there a gap in front of item I of dimension DIM? */
bool is_gap(const struct array_view *view, uint32_t dim, uint64_t i);

#endif
