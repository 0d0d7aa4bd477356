/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches messages with regular expressions, and cleans an error before that.
 *
 * The expressions are ours, the text is not: limits of PCRE2 bound the work, and a search that
 * passes them counts as not found. Cleaning leaves out lines of source code that a traceback shows:
 * they may hold the words of a message, for example where a program raises it.
 */
#include "why/match.h"

#include "base/ascii.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

enum { MATCH_LIMIT = 20000000, HEAP_LIMIT_KIB = 8192 };

/* ---- matching ---- */

static void copy_captures(struct ckpt_why *w, pcre2_match_data *data, struct ckpt_match *out)
{
	const PCRE2_SIZE *at = pcre2_get_ovector_pointer(data);
	uint32_t count = pcre2_get_ovector_count(data);

	*out = (struct ckpt_match){ .end = at[1] > at[0] ? at[1] : at[0] + 1 };
	out->all = ckpt_why_print(w, "%.*s", (int)(at[1] - at[0]), w->error + at[0]);
	for (uint32_t i = 0; i < CKPT_WHY_MOST_CAPTURES; i++) {
		bool there = i + 1 < count && at[2 * i + 2] != PCRE2_UNSET;

		out->part[i] =
			there ? ckpt_why_print(w, "%.*s", (int)(at[2 * i + 3] - at[2 * i + 2]),
					       w->error + at[2 * i + 2])
			      : "";
	}
}

bool ckpt_why_match(struct ckpt_why *w, const char *pattern, size_t from, struct ckpt_match *out)
{
	pcre2_code *code;
	pcre2_match_data *data = NULL;
	pcre2_match_context *limits = NULL;
	PCRE2_SIZE where;
	int error, rc = PCRE2_ERROR_NOMATCH;

	if (from > w->error_len || w->failed < 0)
		return false;
	code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_MULTILINE, &error,
			     &where, NULL);
	if (code) {
		data = pcre2_match_data_create_from_pattern(code, NULL);
		limits = pcre2_match_context_create(NULL);
	}
	if (!data || !limits)
		w->failed = CKPT_E_NOMEM;
	else {
		pcre2_set_match_limit(limits, MATCH_LIMIT);
		pcre2_set_heap_limit(limits, HEAP_LIMIT_KIB);
		rc = pcre2_match(code, (PCRE2_SPTR)w->error, w->error_len, from, 0, data, limits);
		if (rc > 0)
			copy_captures(w, data, out);
	}
	pcre2_match_context_free(limits);
	pcre2_match_data_free(data);
	pcre2_code_free(code);
	return rc > 0;
}

/* ---- cleaning ---- */

/* The length of a color, ESC [ ... letter, at the beginning of TEXT, or 0. */
static size_t color_length(const char *text, size_t len)
{
	size_t n = 2;

	if (len < 3 || text[0] != 0x1b || text[1] != '[')
		return 0;
	while (n < len && n < 16 && (ckpt_is_digit((unsigned char)text[n]) || text[n] == ';'))
		n++;
	return n < len && ckpt_is_alpha((unsigned char)text[n]) ? n + 1 : 0;
}

/* "[rank0]:" and "[rank12]: ", as torch prints it before lines of a job. */
static size_t rank_prefix_length(const char *line, size_t len)
{
	size_t n = 5;

	if (len < 8 || memcmp(line, "[rank", 5) != 0)
		return 0;
	while (n < len && ckpt_is_digit((unsigned char)line[n]))
		n++;
	if (n + 1 >= len || line[n] != ']' || line[n + 1] != ':')
		return 0;
	return n + 2 + (n + 2 < len && line[n + 2] == ' ');
}

static size_t indent_of(const char *line, size_t len)
{
	size_t n = 0;

	while (n < len && line[n] == ' ')
		n++;
	return n;
}

/* `  File "x.py", line 3, in f` */
static bool is_frame(const char *line, size_t len, size_t indent)
{
	return len > indent + 6 && !memcmp(line + indent, "File \"", 6) &&
	       memmem(line, len, "\", line ", 8);
}

/* Jupyter's: "---> 12 raise ..." and "     13 code" */
static bool is_notebook_line(const char *line, size_t len)
{
	size_t n = 0, digits = 0;

	while (n < len && (line[n] == '-' || line[n] == '>' || line[n] == ' '))
		n++;
	while (n + digits < len && ckpt_is_digit((unsigned char)line[n + digits]))
		digits++;
	return n >= 4 && digits && (n + digits == len || line[n + digits] == ' ');
}

const char *ckpt_why_clean(struct ckpt_why *w, const char *error, size_t error_len, size_t *len)
{
	char *plain = ckpt_arena_alloc(w->arena, (uint64_t)error_len + 1);
	size_t n = 0, out = 0, frame = SIZE_MAX;

	*len = 0;
	if (!plain) {
		w->failed = CKPT_E_NOMEM;
		return "";
	}
	for (size_t i = 0; i < error_len;) {
		size_t skip = color_length(error + i, error_len - i);

		if (!skip)
			plain[n++] = error[i] ? error[i] : ' ';
		i += skip ? skip : 1;
	}
	for (size_t at = 0; at < n;) {
		const char *end = memchr(plain + at, '\n', n - at);
		size_t line_len = end ? (size_t)(end - plain) - at + 1 : n - at;
		size_t rank = rank_prefix_length(plain + at, line_len), indent;
		const char *line = plain + at + rank;

		line_len -= rank;
		at += rank + line_len;
		indent = indent_of(line, line_len);
		if (is_frame(line, line_len, indent)) {
			frame = indent;
			continue;
		}
		if (frame != SIZE_MAX && indent > frame)
			continue; /* the code of the frame, and marks below it */
		frame = SIZE_MAX;
		if (is_notebook_line(line, line_len))
			continue;
		memmove(plain + out, line, line_len);
		out += line_len;
	}
	plain[out] = '\0';
	*len = out;
	return plain;
}
