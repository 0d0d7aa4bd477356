/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_FLOAT_TEXT_H
#define CKPT_TOOLS_FLOAT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* The floating type of a number decides how many digits tell it from its neighbors. */
enum float_kind { FLOAT_HALF, FLOAT_SINGLE, FLOAT_DOUBLE };

enum { FLOAT_MOST_DIGITS = 17, FLOAT_MOST_TEXT = 400 };

/* D.DDD * 10**EXPONENT */
struct float_digits {
	char digits[FLOAT_MOST_DIGITS + 1];
	int count, exponent;
};

/*
 * The fewest digits that mean V and no other number of its kind; among those, the nearest to V. V
 * is finite, and 0 or more.
 */
struct float_digits float_shortest(double v, enum float_kind kind);

/*
 * Write the magnitude of V as numpy prints it, with at most PRECISION digits after the point, and
 * at least MIN_DIGITS: "1.5", "0.", or "1.5e+00" with an exponent of EXP_DIGITS digits, 2 or 3, or
 * more. BUF has FLOAT_MOST_TEXT bytes.
 */
char *float_positional(char *buf, double v, enum float_kind kind, int precision);
char *float_scientific(char *buf, double v, enum float_kind kind, int precision, int min_digits,
		       int exp_digits);

/* Write V as repr() of Python does, which JSON accepts. V is finite. */
char *float_repr(char *buf, double v, enum float_kind kind);

/* V, 0 or more, rounded to what its kind can hold. */
double float_rounded(double v, enum float_kind kind);

#endif
