/* SPDX-License-Identifier: Apache-2.0 */
#include "set/hf/name.h"

#include "base/ascii.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 9 };

/* The number that TEXT begins with, and where it ends; false: it has no digits, or too many. */
static bool read_number(const char *text, uint32_t *out, const char **end)
{
	size_t digits = 0;

	while (ckpt_is_digit((unsigned char)text[digits]))
		digits++;
	if (!digits || digits > MOST_DIGITS)
		return false;
	*out = (uint32_t)strtoul(text, NULL, 10);
	*end = text + digits;
	return true;
}

bool ckpt_hf_name_parse(const char *name, struct ckpt_hf_name *out)
{
	const char *of = NULL, *start, *end;

	for (const char *at = name; (at = strstr(at, "-of-")); at++)
		of = at; /* the last one: "state-of-the-art-00001-of-00002.bin" */
	if (!of || !read_number(of + strlen("-of-"), &out->count, &out->rest))
		return false;
	for (start = of; start > name && ckpt_is_digit((unsigned char)start[-1]);)
		start--;
	if (start == name || start[-1] != '-' || !read_number(start, &out->number, &end) ||
	    end != of)
		return false;
	out->stem_len = (size_t)(start - 1 - name);
	return true;
}

bool ckpt_hf_name_is_like(const char *a, const struct ckpt_hf_name *in_a, const char *b,
			  const struct ckpt_hf_name *in_b)
{
	return in_a->stem_len == in_b->stem_len && !memcmp(a, b, in_a->stem_len) &&
	       !strcmp(in_a->rest, in_b->rest);
}
