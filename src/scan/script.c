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

/* What torch's own __setstate__ of packed weights, and what that calls, are made of. */
static bool is_of_packing(const struct word *w)
{
	static const char *const known[] = { "annotate", "uninitialized", "unchecked_cast", "set_weight_bias", "len", "int", "float", "bool", "str", "__is__", "__isnot__",
					     "__not__",	 "eq",		  "ne",		    "_unwrap_optional", "get",	     "Exception", "AssertionError", "RaiseException", NULL };

	return is_one_of(w, known) || memmem(w->at, w->len, "_prepack", 8);
}

/* The functions that a load runs: what they call, and whether they go in circles. */
static void check_bodies(struct ckpt_scan_script *script, const uint8_t *text, size_t len)
{
	struct word w, before = { "", 0 };
	bool inside = false;
	size_t at = 0;

	while (next_word(text, len, &at, &w)) {
		size_t behind = at;

		while (behind < len && (text[behind] == ' ' || text[behind] == '\t'))
			behind++;
		if (is(&before, "def"))
			inside = is(&w, "__setstate__") || is(&w, "set_weight_bias");
		else if (is(&w, "class"))
			inside = false;
		else if (inside && (is(&w, "while") || is(&w, "for")))
			say(script, &w, "__setstate__: ");
		else if (inside && behind < len && text[behind] == '(' && !is_of_packing(&w) && !is(&w, "if") && !is(&w, "return") && !is(&w, "and") && !is(&w, "or") && !is(&w, "not") && !is(&w, "raise"))
			say(script, &w, "__setstate__: ");
		before = w;
	}
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
	check_bodies(script, text, len);
	/* a name that is spelled with escapes */
	for (size_t i = 0; i + 9 < len; i++)
		if (!memcmp(text + i, "getattr(", 8)) {
			const uint8_t *end = memchr(text + i, '\n', len - i);
			size_t line = end ? (size_t)(end - text) - i : len - i;

			if (memchr(text + i, '\\', line))
				say(script, &(struct word){ "getattr", 7 }, "");
		}
}
