/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formulas in programs of torch.export (see the header). A text is plain only if it is made of
 * names, numbers and operators that torch writes.
 *
 * What must stay true: texts are found without a JSON parser, by their key alone, so that a broken
 * file or a repeated key hides none. Powers are limited, since sympy computes them.
 */
#include "scan/export.h"

#include "scan/json_text.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NAME = 40, MOST_DIGITS = 20, MOST_POWERS = 2, MOST_IN_POWER = 4096 };

/* ---- a formula ---- */

/* The language of C, whatever the locale. */
static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* "s0", "u12", "zuf3": of a symbol. */
static bool is_symbol(const char *name, size_t len)
{
	size_t letters = 0, digits;

	while (letters < len && name[letters] >= 'a' && name[letters] <= 'z')
		letters++;
	for (digits = letters; digits < len && is_digit(name[digits]);)
		digits++;
	return letters >= 1 && letters <= 4 && digits > letters && digits == len;
}

static bool is_known(const char *name, size_t len)
{
	static const char *const names[] = {
		"Symbol", "Integer", "Rational", "Float", "Add", "Mul", "Pow", "Max", "Min", "Mod", "Abs", "And", "Or", "Not", "Eq", "Ne", "Lt", "Le", "Gt", "Ge",
		"Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan", "Piecewise", "ITE", "floor", "ceiling", "sqrt", "true", "false",
		"True", "False", "None", "oo", "int_oo", "positive", "nonnegative", "negative", "integer", "real", "finite", "zero", "nonzero", "evaluate", "precision",
		"FloorDiv", "ModularIndexing", "Where", "PythonMod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv", "LShift", "RShift", "PowByNatural", "FloatPow",
		"FloatTrueDiv", "IntTrueDiv", "TruncToFloat", "TruncToInt", "RoundToInt", "RoundDecimal", "ToFloat", "Identity",
		"IsNonOverlappingAndDenseIndicator", "BitwiseFn_bitwise_and", "BitwiseFn_bitwise_or", "BitwiseFn_bitwise_xor",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == len && !memcmp(names[i], name, len))
			return true;
	return is_symbol(name, len) || (len > 14 && len <= MOST_NAME && !memcmp(name, "OpaqueUnaryFn_", 14));
}

/* Behind a quote, up to the next: the name of a symbol, or a number. *AT: behind it. */
static bool is_plain_text(const char *text, size_t len, size_t *at, char quote)
{
	while (*at < len && (is_letter(text[*at]) || is_digit(text[*at]) || text[*at] == '.' || text[*at] == '-' || text[*at] == '+'))
		(*at)++;
	return *at < len && text[(*at)++] == quote;
}

/* Names, numbers and operators that torch writes, and powers that do not grow without end. */
static bool is_formula(const char *text, size_t len)
{
	uint64_t largest = 0;
	unsigned powers = 0;

	for (size_t at = 0; at < len;) {
		size_t begin = at;
		char c = text[at++];

		if (is_letter(c)) {
			while (at < len && (is_letter(text[at]) || is_digit(text[at])))
				at++;
			if (!is_known(text + begin, at - begin))
				return false;
			powers += at - begin >= 3 && memmem(text + begin, at - begin, "Pow", 3);
		} else if (is_digit(c)) {
			while (at < len && is_digit(text[at]))
				at++;
			if (at - begin > MOST_DIGITS - 1)
				return false;
			if (strtoull(text + begin, NULL, 10) > largest)
				largest = strtoull(text + begin, NULL, 10);
			if (at + 1 < len && text[at] == '.' && is_digit(text[at + 1]))
				for (at++; at < len && is_digit(text[at]);)
					at++;
			if (at < len && (is_letter(text[at]) || text[at] == '.'))
				return false; /* 1e999, 0x10, 1.__class__ */
		} else if (c == '\'' || c == '"') {
			if (!is_plain_text(text, len, &at, c))
				return false;
		} else if (c == '*' && at < len && text[at] == '*') {
			at++;
			powers++;
		} else if (!strchr(" +-*/%(),=<>&|~!", c)) {
			return false;
		}
	}
	return !powers || (powers <= MOST_POWERS && largest <= MOST_IN_POWER);
}

bool ckpt_scan_export_runs(const uint8_t *json, size_t len, char shown[CKPT_EXPORT_SHOWN])
{
	struct ckpt_json_cursor c = { json, json + len };
	char text[CKPT_JSON_MOST_TEXT + 1];

	while ((c.at = memchr(c.at, '"', (size_t)(c.end - c.at)))) {
		size_t n;

		c.at++;
		n = ckpt_json_read_text(&c, text);
		if (n != 8 || memcmp(text, "expr_str", 8) != 0 || !ckpt_json_skip(&c, ':') || !ckpt_json_skip(&c, '"'))
			continue;
		n = ckpt_json_read_text(&c, text);
		if (n <= CKPT_JSON_MOST_TEXT && is_formula(text, n))
			continue;
		text[n < CKPT_EXPORT_SHOWN ? n : CKPT_EXPORT_SHOWN - 1] = '\0';
		memcpy(shown, text, strlen(text) + 1);
		return true;
	}
	return false;
}
