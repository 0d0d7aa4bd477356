/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floating numbers as numpy and Python print them: the fewest digits that mean the number and no
 * other of its dtype.
 *
 * Source: Dragon4_Positional() and Dragon4_Scientific() in numpy/_core/src/multiarray/dragon4.c,
 * and repr() of Python. Digits come from printf() and are checked by reading them back, instead
 * of an algorithm of our own: slower, but evidently right, as glibc rounds exactly.
 *
 * What must stay true: printf() and strtod() run in the C locale (number_text(), number_of(),
 * float_of()), else '.' is not found. Values are finite, and but for float_repr() 0 or more: the
 * caller prints the sign.
 */
#include "float_text.h"

#include "command.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bits of the mantissa without the first, and the least exponent. */
static const struct {
	int bits, least;
} formats[] = {
	[FLOAT_HALF] = { 10, -14 },
	[FLOAT_SINGLE] = { 23, -126 },
	[FLOAT_DOUBLE] = { 52, -1022 },
};

/* To the nearest integer, ties to even; V is small. */
static double round_even(double v)
{
	uint64_t whole = (uint64_t)v;
	double rest = v - (double)whole;

	return (double)(whole + (rest > 0.5 || (rest == 0.5 && whole % 2)));
}

double float_rounded(double v, enum float_kind kind)
{
	int exponent;
	double step;

	if (kind == FLOAT_DOUBLE || v == 0 || !isfinite(v))
		return v;
	if (kind == FLOAT_SINGLE)
		return (double)(float)v;
	frexp(v, &exponent);
	exponent = exponent - 1 < formats[kind].least ? formats[kind].least : exponent - 1;
	step = ldexp(1, exponent - formats[kind].bits);
	v = round_even(v / step) * step;
	return v >= 65520 ? INFINITY : v;
}

/* Does TEXT, read as a number of that kind, give V? */
static bool reads_back(const char *text, double v, enum float_kind kind)
{
	if (kind == FLOAT_SINGLE)
		return float_of(text) == (float)v;
	return float_rounded(number_of(text, NULL), kind) == v;
}

/* "9.99e+05" with one more in the last digit: "1.00e+06" */
static void next_up(char *text)
{
	char *e = strchr(text, 'e'), *p = e;
	int exponent = atoi(e + 1);

	while (p-- > text) {
		if (*p == '.')
			continue;
		if (*p != '9') {
			++*p;
			return;
		}
		*p = '0';
	}
	*text = '1';
	sprintf(e, "e%+03d", exponent + 1);
}

static struct float_digits digits_of(const char *text)
{
	struct float_digits d = { .exponent = atoi(strchr(text, 'e') + 1) };

	for (; *text != 'e'; text++)
		if (*text != '.')
			d.digits[d.count++] = *text;
	while (d.count > 1 && d.digits[d.count - 1] == '0')
		d.count--;
	d.digits[d.count] = '\0';
	return d;
}

struct float_digits float_shortest(double v, enum float_kind kind)
{
	char text[40];

	for (int count = 0; count < FLOAT_MOST_DIGITS; count++) {
		number_text(text, sizeof(text), "%.*e", count, v);
		if (reads_back(text, v, kind))
			break;
		/*
		 * below a power of two the neighbors are closer than above: the next digit may
		 * do where the nearest does not
		 */
		next_up(text);
		if (reads_back(text, v, kind))
			break;
	}
	return digits_of(text);
}

static void trim_zeros(char *text)
{
	size_t len = strlen(text);

	while (len && text[len - 1] == '0')
		text[--len] = '\0';
}

char *float_positional(char *buf, double v, enum float_kind kind, int precision)
{
	struct float_digits d = float_shortest(v, kind);
	int behind = d.count - 1 - d.exponent, whole = d.exponent + 1;
	char *p = buf;

	if (behind > precision) {
		number_text(buf, FLOAT_MOST_TEXT, "%#.*f", precision, v);
		trim_zeros(buf);
		return buf;
	}
	for (int i = 0; i < whole; i++)
		*p++ = i < d.count ? d.digits[i] : '0';
	if (whole <= 0)
		*p++ = '0';
	*p++ = '.';
	for (int i = whole; i < 0; i++)
		*p++ = '0';
	for (int i = whole > 0 ? whole : 0; i < d.count; i++)
		*p++ = d.digits[i];
	*p = '\0';
	trim_zeros(buf);
	return buf;
}

char *float_scientific(char *buf, double v, enum float_kind kind, int precision, int min_digits,
		       int exp_digits)
{
	struct float_digits d = float_shortest(v, kind);
	char *p = buf;

	/* round too many digits; fill too few up with digits of the number, not with zeros */
	if (d.count - 1 > precision || (min_digits && d.count - 1 < min_digits)) {
		char text[64];

		number_text(text, sizeof(text), "%.*e", min_digits ? min_digits : precision, v);
		d = digits_of(text);
	}
	*p++ = d.digits[0];
	*p++ = '.';
	for (int i = 1; i < d.count || i <= min_digits; i++)
		*p++ = i < d.count ? d.digits[i] : '0';
	p += sprintf(p, "e%c", d.exponent < 0 ? '-' : '+');
	sprintf(p, exp_digits > 2 ? "%03d" : "%02d", abs(d.exponent));
	return buf;
}

char *float_repr(char *buf, double v, enum float_kind kind)
{
	double magnitude = fabs(v);
	char *text = buf;

	if (signbit(v))
		*text++ = '-';
	if (magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16))
		float_scientific(text, magnitude, kind, FLOAT_MOST_DIGITS, 0, 2);
	else
		float_positional(text, magnitude, kind, FLOAT_MOST_TEXT);
	if (text[strlen(text) - 1] == '.')
		strcat(text, "0");
	else if (text[1] == '.' && text[2] == 'e') /* numpy has the point; Python and JSON do not */
		memmove(text + 1, text + 2, strlen(text + 2) + 1);
	return buf;
}
