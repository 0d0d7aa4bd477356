/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/script.h"

#include <ctype.h>
#include <string.h>

/* A word: what an identifier is made of. Those in texts and comments count, too: getattr() takes a name as a text. */
struct word {
	const char *at;
	size_t len;
};

static bool is_letter(uint8_t c)
{
	return isalnum(c) || c == '_' || c >= 0x80;
}

/* The next word from *AT on; false: there is none. */
static bool next_word(const uint8_t *text, size_t len, size_t *at, struct word *out)
{
	size_t begin;

	while (*at < len && !is_letter(text[*at]))
		(*at)++;
	begin = *at;
	while (*at < len && is_letter(text[*at]))
		(*at)++;
	*out = (struct word){ (const char *)text + begin, *at - begin };
	return *at > begin;
}

static bool is_one_of(const struct word *w, const char *const *names)
{
	for (; *names; names++)
		if (w->len == strlen(*names) && !memcmp(w->at, *names, w->len))
			return true;
	return false;
}

static bool is(const struct word *w, const char *name)
{
	return w->len == strlen(name) && !memcmp(w->at, name, w->len);
}

static void say(struct ckpt_scan_script *script, const struct word *w, const char *prefix)
{
	size_t len = strlen(prefix), rest = w->len;

	if (*script->outward)
		return;
	if (rest > sizeof(script->outward) - 1 - len)
		rest = sizeof(script->outward) - 1 - len;
	memcpy(script->outward, prefix, len);
	for (size_t i = 0; i < rest; i++)
		script->outward[len + i] = is_letter((uint8_t)w->at[i]) && (uint8_t)w->at[i] < 0x80 ? w->at[i] : '?';
	script->outward[len + rest] = '\0';
}

void ckpt_scan_script_source(struct ckpt_scan_script *script, const uint8_t *text, size_t len)
{
	static const char *const outward[] = { "from_file", "save", "load", "rpc_async", "rpc_sync", "rpc_remote", NULL };
	/* operators that torch itself brings, and that compute */
	static const char *const known[] = { "aten",	"prim",	     "prims",	      "quantized", "_quantized", "sparse",
					     "mkldnn",	"prepacked", "mkldnn_prepacked", "onednn",  "quantized_decomposed", NULL };
	struct word w, before = { "", 0 };
	size_t at = 0;

	while (next_word(text, len, &at, &w)) {
		script->sets_states |= is(&w, "__setstate__");
		if (is_one_of(&w, outward))
			say(script, &w, "");
		else if (is(&before, "ops") && !is_one_of(&w, known))
			say(script, &w, "ops.");
		before = w;
	}
	/* a name that is spelled with escapes */
	for (size_t i = 0; i + 9 < len; i++)
		if (!memcmp(text + i, "getattr(", 8)) {
			const uint8_t *end = memchr(text + i, '\n', len - i);
			size_t line = end ? (size_t)(end - text) - i : len - i;

			if (memchr(text + i, '\\', line))
				say(script, &(struct word){ "getattr", 7 }, "");
		}
}
