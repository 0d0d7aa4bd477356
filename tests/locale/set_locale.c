/* SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Preloaded into the command, which itself never does that: as if a program with a locale had the library. */
__attribute__((constructor)) static void set_locale(void)
{
	if (setlocale(LC_ALL, getenv("CKPT_TEST_LOCALE")) && !strcmp(localeconv()->decimal_point, ","))
		return;
	fprintf(stderr, "set_locale: the locale has no comma\n");
	_exit(99);
}
