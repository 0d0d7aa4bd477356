/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of TorchScript, word by word: what a load would run (__setstate__ and what it calls),
 * what the compiler would evaluate (defaults and constants), and nesting that would end torch's
 * parser.
 *
 * What must stay true: this is no parser. Every rule has to err towards a finding: words in
 * strings and comments count too, and what is not known to be a literal is computed.
 */
#include "scan/script.h"

#include "base/ascii.h"

#include <string.h>

/*
 * A word: what an identifier is made of. Those in texts and comments count, too: getattr() takes a
 * name as a text.
 */
struct word {
	const char *at;
	size_t len;
};

static bool is_letter(uint8_t c)
{
	return ckpt_is_alnum(c) || c == '_' || c >= 0x80;
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

static bool is_word(const struct word *w, const char *name)
{
	return w->len == strlen(name) && !memcmp(w->at, name, w->len);
}

static void record_outward(struct ckpt_scan_script *script, const struct word *w, const char *prefix)
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
		if (is_word(&before, "def"))
			inside = is_word(&w, "__setstate__") || is_word(&w, "set_weight_bias");
		else if (is_word(&w, "class"))
			inside = false;
		else if (inside && (is_word(&w, "while") || is_word(&w, "for")))
			record_outward(script, &w, "__setstate__: ");
		else if (inside && behind < len && text[behind] == '(' && !is_of_packing(&w) && !is_word(&w, "if") && !is_word(&w, "return") && !is_word(&w, "and") && !is_word(&w, "or") && !is_word(&w, "not") && !is_word(&w, "raise"))
			record_outward(script, &w, "__setstate__: ");
		before = w;
	}
}

/* ---- what is evaluated where the source is compiled ---- */

enum { MOST_NESTED = 200, MOST_ROW = 200, MOST_CHAIN = 1000, MOST_TUPLES = 16 };

/* A text in quotes, from *AT on. */
static void skip_text(const uint8_t *text, size_t len, size_t *at)
{
	uint8_t quote = text[(*at)++];

	while (*at < len && text[*at] != quote && text[*at] != '\n')
		*at += text[*at] == '\\' && *at + 1 < len ? 2 : 1;
	*at += *at < len;
}

static void record_evaluated(struct ckpt_scan_script *script, const uint8_t *text, size_t begin, size_t end)
{
	size_t n = 0;

	if (*script->evaluated)
		return;
	for (size_t i = begin; i < end && n + 1 < sizeof(script->evaluated); i++)
		script->evaluated[n++] = text[i] >= ' ' && text[i] < 0x7F ? (char)text[i] : '?';
	script->evaluated[n] = '\0';
	if (!n)
		memcpy(script->evaluated, "?", 2);
}

static bool is_word_of_literals(const struct word *w)
{
	static const char *const known[] = { "True", "False", "None", "inf", "nan", "math", "CONSTANTS", "torch", "device", NULL };

	return is_one_of(w, known) || (w->len && (ckpt_is_digit((unsigned char)*w->at) || (*w->at == 'c' && w->len > 1 && ckpt_is_digit((unsigned char)w->at[1]))));
}

/*
 * The value behind a '=', up to END: numbers, texts, lists, tuples and dicts of them. *AT: where it
 * ends, at a comma or bracket that is not its own, or at the end of its line. False: something is
 * computed. IS_TYPE: any names, of which none is called. IS_ARGUMENT: an end of line is none.
 */
static bool is_literal(const uint8_t *text, size_t len, size_t *at, bool is_type, bool is_argument)
{
	unsigned depth = 0;
	bool any = false;

	while (*at < len) {
		uint8_t c = text[*at];
		struct word w;
		size_t begin = *at;

		if ((c == ',' || c == ')' || c == ']' || c == '}' || (c == '\n' && !is_argument)) && !depth)
			return any;
		any |= !strchr(" \t\r\n", c);
		if (c == '\'' || c == '"') {
			skip_text(text, len, at);
		} else if (is_letter(c)) {
			next_word(text, len, at, &w);
			if ((!is_type && !is_word_of_literals(&w)) || (*at < len && text[*at] == '(' && !is_word(&w, "device")))
				return false;
		} else if (c == '(' || c == '[' || c == '{') {
			depth++;
			(*at)++;
		} else if (c == ')' || c == ']' || c == '}') {
			depth--;
			(*at)++;
		} else if (strchr(" \t\n\r,.:-", c) || (c == '+' && begin && (text[begin - 1] == 'e' || text[begin - 1] == 'E'))) {
			(*at)++;
		} else if (c == '#') {
			while (*at < len && text[*at] != '\n')
				(*at)++;
		} else {
			return false;
		}
	}
	return true;
}

/* The arguments of a function, from the '(' at AT on: behind the ')'. */
static size_t check_arguments(struct ckpt_scan_script *script, const uint8_t *text, size_t len, size_t at)
{
	unsigned depth = 0;

	while (at < len) {
		uint8_t c = text[at];
		size_t begin = at;

		if (c == '\'' || c == '"') {
			skip_text(text, len, &at);
			continue;
		}
		depth += c == '(' || c == '[' || c == '{';
		depth -= depth && (c == ')' || c == ']' || c == '}');
		at++;
		if (c == ')' && !depth)
			return at;
		if (c != '=')
			continue;
		if (is_literal(text, len, &at, false, true))
			continue;
		record_evaluated(script, text, begin, at + CKPT_SCRIPT_SHOWN < len ? at + CKPT_SCRIPT_SHOWN : len);
		return at;
	}
	return at;
}

static size_t end_of_line(const uint8_t *text, size_t len, size_t at)
{
	const uint8_t *end = at < len ? memchr(text + at, '\n', len - at) : NULL;

	return end ? (size_t)(end - text) : len;
}

/*
 * Line by line: functions' heads, what is outside of their bodies; these are compiled, and not run.
 */
static void check_evaluated(struct ckpt_scan_script *script, const uint8_t *text, size_t len)
{
	/* how far the head of the function is indented whose body this is */
	size_t body = SIZE_MAX;

	for (size_t at = 0, end; at < len; at = end + 1) {
		size_t begin = at, word_at;
		struct word w = { "", 0 };

		end = end_of_line(text, len, at);
		while (at < end && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\f'))
			at++;
		if (at == end || text[at] == '#' || (body != SIZE_MAX && at - begin > body))
			continue;
		body = SIZE_MAX;
		word_at = at;
		next_word(text, end, &word_at, &w);
		if (is_word(&w, "def")) {
			const uint8_t *open = memchr(text + at, '(', len - at);

			body = at - begin;
			if (open)
				at = check_arguments(script, text, len, (size_t)(open - text));
			end = end_of_line(text, len, at < end ? end : at);
			continue;
		}
		for (; at < end; at++) {
			size_t value = at + 1;

			if (text[at] == '\'' || text[at] == '"') {
				skip_text(text, end, &at);
				at--;
			} else if (text[at] == '=' && !is_literal(text, len, &value, is_word(&w, "__annotations__"), false)) {
				record_evaluated(script, text, begin, end);
				break;
			} else if (text[at] == '=') {
				at = value - 1;
				end = end_of_line(text, len, value < end ? end : value);
			}
		}
	}
}

static bool is_word_at(const uint8_t *text, size_t len, size_t at, const char *word)
{
	size_t n = strlen(word);

	return len - at >= n && !memcmp(text + at, word, n);
}

/*
 * a + b, (a).b(): one more of what the compiler has to go into for the first. A number with an
 * exponent counts as one, too.
 */
static bool is_link(const uint8_t *text, size_t len, size_t at)
{
	if (text[at] == '.')
		return at && (text[at - 1] == ')' || text[at - 1] == ']');
	return (text[at] && strchr("+-*/%<>|&^@", text[at])) || is_word_at(text, len, at, " and ") || is_word_at(text, len, at, " or ") || is_word_at(text, len, at, " if ");
}

/*
 * Brackets in brackets, signs in a row, and long chains of operators or elif: the compiler calls
 * itself for each.
 */
static void check_depth(struct ckpt_scan_script *script, const uint8_t *text, size_t len)
{
	/* by depth */
	unsigned depth = 0, row = 0, branches = 0, tuples = 0, chains[MOST_NESTED + 1] = { 0 }, *chain = chains;
	/* by depth: of types, for each of which in another one torch takes twice as long */
	bool is_tuple[MOST_NESTED + 1] = { false };

	for (size_t at = 0; at < len; at++) {
		uint8_t c = text[at];

		if (c == '\'' || c == '"') {
			skip_text(text, len, &at);
			at--;
			continue;
		}
		if (c == '(' || c == '[' || c == '{') {
			depth++;
			chain = &chains[depth < MOST_NESTED ? depth : MOST_NESTED];
			*chain = 0;
			is_tuple[depth < MOST_NESTED ? depth : MOST_NESTED] = c == '[' && at >= 5 && is_word_at(text, len, at - 5, "Tuple");
			tuples += is_tuple[depth < MOST_NESTED ? depth : MOST_NESTED];
		} else if (depth && (c == ')' || c == ']' || c == '}')) {
			tuples -= tuples && is_tuple[depth < MOST_NESTED ? depth : MOST_NESTED];
			depth--;
			chain = &chains[depth < MOST_NESTED ? depth : MOST_NESTED];
		}
		if (c == '-' || c == '~' || c == '+' || (c == 'n' && len - at > 4 && !memcmp(text + at, "not ", 4)))
			row++;
		else if (!strchr(" \tot", c))
			row = 0;
		if (c == ',' || (c == '\n' && !depth))
			*chain = 0;
		else
			*chain += is_link(text, len, at);
		if (is_word_at(text, len, at, "def "))
			branches = 0;
		branches += is_word_at(text, len, at, "elif ");
		script->is_deep |= depth > MOST_NESTED || row > MOST_ROW || *chain > MOST_CHAIN || branches > MOST_CHAIN || tuples > MOST_TUPLES;
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
		script->sets_states |= is_word(&w, "__setstate__");
		if (is_one_of(&w, outward))
			record_outward(script, &w, "");
		else if (is_word(&before, "ops") && !is_one_of(&w, known))
			record_outward(script, &w, "ops.");
		before = w;
	}
	check_bodies(script, text, len);
	check_evaluated(script, text, len);
	check_depth(script, text, len);
	/* a name that is spelled with escapes */
	for (size_t i = 0; i + 9 < len; i++)
		if (!memcmp(text + i, "getattr(", 8)) {
			const uint8_t *end = memchr(text + i, '\n', len - i);
			size_t line = end ? (size_t)(end - text) - i : len - i;

			if (memchr(text + i, '\\', line))
				record_outward(script, &(struct word){ "getattr", 7 }, "");
		}
}
