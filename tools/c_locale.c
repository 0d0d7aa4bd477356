/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The command sets no locale, but a library that is loaded into it may. */
static locale_t use_c_locale(void)
{
	static locale_t c_locale;

	if (!c_locale)
		c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	return uselocale(c_locale);
}

char *number_text(char *buf, size_t size, const char *fmt, ...)
{
	locale_t before = use_c_locale();
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf, size, fmt, ap);
	va_end(ap);
	uselocale(before);
	return buf;
}

double number_of(const char *text, char **end)
{
	locale_t before = use_c_locale();
	double v = strtod(text, end);

	uselocale(before);
	return v;
}

float float_of(const char *text)
{
	locale_t before = use_c_locale();
	float v = strtof(text, NULL);

	uselocale(before);
	return v;
}

const char *errno_text(int code)
{
	locale_t before = use_c_locale();
	const char *text = strerror(code);

	uselocale(before);
	return text;
}

const char *seconds_phrase(double s, char *buf)
{
	return number_text(buf, 32, "%.2f s", s);
}
