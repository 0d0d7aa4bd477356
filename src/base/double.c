/* SPDX-License-Identifier: Apache-2.0 */
#include "base/double.h"

#include "base/c_locale.h"

#include <stdio.h>
#include <stdlib.h>

void ckpt_double_format(char *buf, size_t size, int digits, double v)
{
	locale_t before = ckpt_c_locale_enter();

	snprintf(buf, size, "%.*g", digits, v);
	ckpt_c_locale_leave(before);
}

double ckpt_double_parse(const char *text, char **end)
{
	locale_t before = ckpt_c_locale_enter();
	double v = strtod(text, end);

	ckpt_c_locale_leave(before);
	return v;
}
