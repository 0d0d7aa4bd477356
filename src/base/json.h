/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_JSON_H
#define CKPT_BASE_JSON_H

#include "base/c_locale.h"

#include <jansson.h>

/*
 * json_loadb() whatever the locale of the program: jansson reads the sign in 1.5 by it, and ends the
 * process where that is longer than a byte, as in ps_AF.
 */
static inline json_t *ckpt_json_load(const char *text, size_t len, size_t flags, json_error_t *error)
{
	locale_t before = ckpt_c_locale_enter();
	json_t *json = json_loadb(text, len, flags, error);

	ckpt_c_locale_leave(before);
	return json;
}

/* json_dumps() likewise: it writes the sign as the locale has it, and takes its first byte for all of it. To be released with free(). */
static inline char *ckpt_json_dump(const json_t *json, size_t flags)
{
	locale_t before = ckpt_c_locale_enter();
	char *text = json_dumps(json, flags);

	ckpt_c_locale_leave(before);
	return text;
}

#endif
