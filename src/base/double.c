/* SPDX-License-Identifier: Apache-2.0 */
#include "base/double.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t c_locale;

static void make_locale(void)
{
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* For this thread alone, until the result is given to uselocale(). */
static locale_t use_c_locale(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_locale);
	return uselocale(c_locale);
}

void ckpt_double_format(char *buf, size_t size, int digits, double v)
{
	locale_t before = use_c_locale();

	snprintf(buf, size, "%.*g", digits, v);
	uselocale(before);
}

double ckpt_double_parse(const char *text, char **end)
{
	locale_t before = use_c_locale();
	double v = strtod(text, end);

	uselocale(before);
	return v;
}
