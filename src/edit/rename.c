/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt rename`: expressions s/PATTERN/REPLACEMENT/flags, written as Python's re.sub() has them
 * and carried out by PCRE2, over the keys of state dicts (keys.c).
 *
 * Replacements are translated once, and groups that the pattern does not have are refused then,
 * not when the first key matches. Expressions apply one after the other, each to the result of
 * the one before. Matching is limited in steps (MATCH_LIMIT), since both the expression and the
 * keys may be hostile.
 */
#include "edit/keys.h"

#include "base/ascii.h"
#include "base/text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MATCH_LIMIT = 1000000 };

struct expression {
	const char *text; /* as given, for messages */
	pcre2_code *code;
	char *replacement; /* in PCRE2's spelling */
	bool global, matched;
};

struct renamer {
	struct expression *expressions;
	size_t count;
	pcre2_match_data *match;
	pcre2_match_context *limits;
	struct ckpt_buf work, next;
	bool in_module; /* the name is a module's, and no key */
};

static int fail_expression(const char *text, const char *why, struct ckpt_error *err)
{
	char shown[160];

	return ckpt_fail(err, CKPT_E_ARG, "expression '%s': %s",
			 ckpt_escape(shown, sizeof(shown), text, strlen(text)), why);
}

/* The end of one part of s/A/B/: the next delimiter that no backslash takes away. */
static const char *part_end(const char *at, char delimiter)
{
	for (; *at && *at != delimiter; at++)
		if (*at == '\\' && at[1])
			at++;
	return *at ? at : NULL;
}

/* A part with \DELIMITER turned back into the delimiter. */
static char *copy_part(const char *from, const char *end, char delimiter)
{
	char *copy = malloc((size_t)(end - from) + 1), *to = copy;

	for (; copy && from < end; from++) {
		if (*from == '\\' && from + 1 < end && from[1] == delimiter && delimiter != '\\')
			from++;
		else if (*from == '\\' && from + 1 < end)
			*to++ = *from++;
		*to++ = *from;
	}
	if (copy)
		*to = '\0';
	return copy;
}

/* Python's \1, \g<1>, \g<name>, \\ -> PCRE2's ${1}, ${name}, \; a lone $ is text. */
static char *translate_replacement(const char *python)
{
	struct ckpt_buf out = { 0 };

	for (const char *p = python; *p; p++) {
		if (*p == '$') {
			ckpt_buf_add(&out, "$$", 2);
		} else if (*p == '\\' && ckpt_is_digit((unsigned char)p[1])) {
			ckpt_buf_printf(&out, "${%c", *++p);
			if (ckpt_is_digit((unsigned char)p[1]))
				ckpt_buf_add_u8(&out, (uint8_t) * ++p);
			ckpt_buf_add_u8(&out, '}');
		} else if (*p == '\\' && p[1] == 'g' && p[2] == '<' && strchr(p, '>')) {
			const char *end = strchr(p, '>');

			ckpt_buf_printf(&out, "${%.*s}", (int)(end - p - 3), p + 3);
			p = end;
		} else if (*p == '\\' && p[1] && strchr("abfnrtv", p[1])) {
			ckpt_buf_add_u8(&out, (uint8_t)"\a\b\f\n\r\t\v"[strchr("abfnrtv", *++p) -
									 "abfnrtv"]);
		} else if (*p == '\\' && p[1]) {
			ckpt_buf_add_u8(&out, (uint8_t) * ++p);
		} else {
			ckpt_buf_add_u8(&out, (uint8_t)*p);
		}
	}
	ckpt_buf_add_u8(&out, '\0');
	if (out.bad)
		ckpt_buf_clear(&out);
	return (char *)out.data;
}

static int parse_flags(struct expression *e, const char *flags, uint32_t *options,
		       struct ckpt_error *err)
{
	for (; *flags; flags++) {
		if (*flags == 'g')
			e->global = true;
		else if (*flags == 'i')
			*options |= PCRE2_CASELESS;
		else
			return fail_expression(e->text, "only the flags g and i are known", err);
	}
	return 0;
}

/* A group that the pattern does not have is an error now, not when the first key matches. */
static int check_groups(const struct expression *e, struct ckpt_error *err)
{
	uint32_t groups = 0;
	char name[64], message[160];

	pcre2_pattern_info(e->code, PCRE2_INFO_CAPTURECOUNT, &groups);
	for (const char *p = e->replacement; (p = strchr(p, '$')); p++) {
		if (p[1] == '$') {
			p++;
			continue;
		}
		if (sscanf(p, "${%63[^}]}", name) != 1)
			continue;
		if (ckpt_is_digit((unsigned char)name[0])
			    ? strtoul(name, NULL, 10) <= groups
			    : pcre2_substring_number_from_name(e->code, (PCRE2_SPTR)name) > 0)
			continue;
		snprintf(message, sizeof(message),
			 "the replacement names group '%s', the pattern has none of "
			 "that name",
			 name);
		return fail_expression(e->text, message, err);
	}
	return 0;
}

static int compile_expression(struct expression *e, const char *text, struct ckpt_error *err)
{
	const char *middle, *end;
	char *pattern, *replacement, message[120];
	uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF;
	PCRE2_SIZE where;
	int code, rc;

	e->text = text;
	if (text[0] != 's' || !text[1] || ckpt_is_alnum((unsigned char)text[1]))
		return fail_expression(text, "wanted s/PATTERN/REPLACEMENT/", err);
	middle = part_end(text + 2, text[1]);
	end = middle ? part_end(middle + 1, text[1]) : NULL;
	if (!end)
		return fail_expression(text,
				       "wanted s/PATTERN/REPLACEMENT/, a delimiter is missing",
				       err);
	rc = parse_flags(e, end + 1, &options, err);
	if (rc < 0)
		return rc;
	pattern = copy_part(text + 2, middle, text[1]);
	replacement = copy_part(middle + 1, end, text[1]);
	e->replacement = replacement ? translate_replacement(replacement) : NULL;
	free(replacement);
	if (!pattern || !e->replacement) {
		free(pattern);
		return ckpt_fail_nomem(err);
	}
	e->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &code, &where,
				NULL);
	free(pattern);
	if (e->code)
		return check_groups(e, err);
	pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof(message));
	return fail_expression(text, message, err);
}

/* One expression over WORK; the result is in NEXT. 1: it matched. */
static int substitute(struct renamer *r, const struct expression *e, struct ckpt_error *err)
{
	uint32_t options =
		PCRE2_SUBSTITUTE_OVERFLOW_LENGTH | (e->global ? PCRE2_SUBSTITUTE_GLOBAL : 0);
	PCRE2_SIZE len = r->work.len * 2 + 256;
	char message[120];
	int rc;

	for (int attempt = 0; attempt < 2; attempt++) {
		r->next.len = 0;
		if (!ckpt_buf_grow(&r->next, len))
			return ckpt_fail_nomem(err);
		rc = pcre2_substitute(e->code, (PCRE2_SPTR)r->work.data, r->work.len, 0, options,
				      r->match, r->limits, (PCRE2_SPTR)e->replacement,
				      PCRE2_ZERO_TERMINATED, r->next.data, &len);
		if (rc != PCRE2_ERROR_NOMEMORY)
			break;
	}
	if (rc < 0) {
		pcre2_get_error_message(rc, (PCRE2_UCHAR *)message, sizeof(message));
		return fail_expression(e->text, message, err);
	}
	r->next.len = len;
	return rc > 0;
}

static int rename_key(void *ctx, const char *key, size_t len, struct ckpt_buf *out,
		      struct ckpt_error *err)
{
	struct renamer *r = ctx;
	int rc = 0;

	r->work.len = 0;
	ckpt_buf_add(&r->work, key, len);
	ckpt_buf_add_u8(&r->work, '\0'); /* never empty: NULL is no subject */
	if (r->work.bad)
		return ckpt_fail_nomem(err);
	r->work.len--;
	for (size_t i = 0; rc >= 0 && i < r->count; i++) {
		rc = substitute(r, &r->expressions[i], err);
		if (rc > 0) {
			struct ckpt_buf swap = r->work;

			r->expressions[i].matched |= !r->in_module;
			r->work = r->next;
			r->next = swap;
		}
	}
	if (rc < 0)
		return rc;
	ckpt_buf_add(out, r->work.data, r->work.len);
	return r->work.len != len || memcmp(r->work.data, key, len);
}

/*
 * Module names are matched with the dot that parameters have behind them. An expression that takes
 * the dot away ("s/$/_old/") is about the names of tensors: the module keeps its name.
 */
static int rename_module(void *ctx, const char *key, size_t len, struct ckpt_buf *out,
			 struct ckpt_error *err)
{
	struct ckpt_buf dotted = { 0 };
	struct renamer *r = ctx;
	size_t before = out->len;
	int rc;

	if (!len)
		return 0;
	ckpt_buf_add(&dotted, key, len);
	ckpt_buf_add_u8(&dotted, '.');
	r->in_module = true;
	rc = dotted.bad ? ckpt_fail_nomem(err)
			: rename_key(ctx, (const char *)dotted.data, dotted.len, out, err);
	r->in_module = false;
	ckpt_buf_clear(&dotted);
	if (rc <= 0 || out->len == before)
		return rc;
	if (out->data[out->len - 1] == '.') {
		out->len--;
		return 1;
	}
	out->len = before;
	return 0;
}

/* What matched nothing goes into the report. */
static int report_unused(void *ctx, struct ckpt_arena *arena, struct ckpt_edit_report *report,
			 struct ckpt_error *err)
{
	const struct renamer *r = ctx;
	const char **unused = ckpt_arena_alloc(arena, (r->count + 1) * sizeof(*unused));

	if (!unused)
		return ckpt_arena_fail(arena, err);
	report->unused = unused;
	for (size_t i = 0; i < r->count; i++)
		if (!r->expressions[i].matched)
			unused[report->unused_count++] = r->expressions[i].text;
	return 0;
}

static void clear_renamer(struct renamer *r)
{
	for (size_t i = 0; r->expressions && i < r->count; i++) {
		pcre2_code_free(r->expressions[i].code);
		free(r->expressions[i].replacement);
	}
	free(r->expressions);
	pcre2_match_data_free(r->match);
	pcre2_match_context_free(r->limits);
	ckpt_buf_clear(&r->work);
	ckpt_buf_clear(&r->next);
}

int ckpt_rename(const struct ckpt_model *model, const char *const *expressions, size_t count,
		const struct ckpt_key_options *options, struct ckpt_model **out,
		struct ckpt_edit_report *report, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct renamer r = { .count = count };
	struct ckpt_key_edit edit = { .rename = rename_key,
				      .rename_module = rename_module,
				      .end = report_unused,
				      .only_direct = true,
				      .ctx = &r };

	*out = NULL;
	r.expressions = calloc(count + 1, sizeof(*r.expressions));
	r.match = pcre2_match_data_create(100, NULL);
	r.limits = pcre2_match_context_create(NULL);
	if (!r.expressions || !r.match || !r.limits)
		rc = ckpt_fail_nomem(err);
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = compile_expression(&r.expressions[i], expressions[i], err);
	if (rc == 0) {
		pcre2_set_match_limit(r.limits, MATCH_LIMIT);
		rc = ckpt_model_edit_keys(model, &edit, options, out, report, err);
	}
	clear_renamer(&r);
	return rc;
}
