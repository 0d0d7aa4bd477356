/* SPDX-License-Identifier: Apache-2.0 */
#include "base/c_locale.h"

#include <dlfcn.h>
#include <fnmatch.h>
#include <pthread.h>
#include <string.h>

static locale_t c_locale;

static void make_locale(void)
{
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/*
 * Without memory for the locale the thread keeps its own, as uselocale(0) changes nothing. With
 * glibc this does not happen: it needs no memory for "C".
 */
locale_t ckpt_c_locale_enter(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_locale);
	return uselocale(c_locale);
}

void ckpt_c_locale_leave(locale_t before)
{
	uselocale(before);
}

bool ckpt_glob_matches(const char *pattern, const char *name, int flags)
{
	locale_t before = ckpt_c_locale_enter();
	bool matches = fnmatch(pattern, name, flags) == 0;

	ckpt_c_locale_leave(before);
	return matches;
}

const char *ckpt_errno_text(int code)
{
	locale_t before = ckpt_c_locale_enter();
	const char *text = strerror(code);

	ckpt_c_locale_leave(before);
	return text;
}

const char *ckpt_dlerror(void)
{
	locale_t before = ckpt_c_locale_enter();
	const char *text = dlerror();

	ckpt_c_locale_leave(before);
	return text;
}
