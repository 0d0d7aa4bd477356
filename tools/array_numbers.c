/* SPDX-License-Identifier: Apache-2.0 */
#include "array_numbers.h"

#include <math.h>
#include <string.h>

static const struct number_type types[] = {
	{ "float64", KIND_FLOAT, 8, FLOAT_DOUBLE },
	{ "float32", KIND_FLOAT, 4, FLOAT_SINGLE },
	{ "float16", KIND_FLOAT, 2, FLOAT_HALF },
	{ "int64", KIND_INT, 8, 0 },
	{ "int32", KIND_INT, 4, 0 },
	{ "int16", KIND_INT, 2, 0 },
	{ "int8", KIND_INT, 1, 0 },
	{ "uint64", KIND_UINT, 8, 0 },
	{ "uint32", KIND_UINT, 4, 0 },
	{ "uint16", KIND_UINT, 2, 0 },
	{ "uint8", KIND_UINT, 1, 0 },
	{ "bool", KIND_BOOL, 1, 0 },
	{ "complex128", KIND_COMPLEX, 16, FLOAT_DOUBLE },
	{ "complex64", KIND_COMPLEX, 8, FLOAT_SINGLE },
};

const struct number_type *number_type_of(const struct array_view *v)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(types[i].name, v->dtype) && v->ndim <= ARRAY_MOST_DIMS)
			return &types[i];
	return NULL;
}

static double half_of(uint16_t bits)
{
	int exponent = bits >> 10 & 31, mantissa = bits & 1023;
	double v = exponent == 31 ? (mantissa ? (double)NAN : (double)INFINITY)
		   : exponent	  ? ldexp(mantissa + 1024, exponent - 25)
				  : ldexp(mantissa, -24);

	return bits & 0x8000 ? -v : v;
}

double real_at(const struct array_view *v, const struct number_type *type, uint64_t i)
{
	uint16_t half;
	float single;
	double wide;

	switch (type->precision) {
	case FLOAT_HALF: memcpy(&half, (const char *)v->bytes + 2 * i, 2); return half_of(half);
	case FLOAT_SINGLE:
		memcpy(&single, (const char *)v->bytes + 4 * i, 4);
		return (double)single;
	default: memcpy(&wide, (const char *)v->bytes + 8 * i, 8); return wide;
	}
}

int64_t int_at(const struct array_view *v, const struct number_type *type, uint64_t i)
{
	const char *at = (const char *)v->bytes + i * type->size;
	int32_t middle;
	int16_t narrow;
	int64_t wide;

	switch (type->size) {
	case 1: return *(const int8_t *)at;
	case 2: memcpy(&narrow, at, 2); return narrow;
	case 4: memcpy(&middle, at, 4); return middle;
	default: memcpy(&wide, at, 8); return wide;
	}
}

uint64_t uint_at(const struct array_view *v, const struct number_type *type, uint64_t i)
{
	uint64_t wide = 0;

	memcpy(&wide, (const char *)v->bytes + i * type->size, type->size);
	return wide;
}

uint64_t shown_count(const struct array_view *v)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < v->ndim; i++)
		n *= v->shown[i];
	return n;
}

bool is_gap(const struct array_view *v, uint32_t dim, uint64_t i)
{
	return i == ARRAY_EDGE && v->summarised && v->shape[dim] > 2 * ARRAY_EDGE;
}
