/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes causes, and the texts in them: ckpt_why_begin(), then facts and advice, then
 * ckpt_why_end(), which gives the cause to the caller.
 *
 * What must stay true:
 *  - A cause is given once: ckpt_why_begin() is false for an id that was given, and the callers
 *    skip the rest then.
 *  - All texts live in the arena of the call. A lack of memory is noted in FAILED; texts are ""
 *    then, and nothing is given to the caller anymore.
 *  - A command may be pasted into a shell: paths and names in it are quoted, none is taken for an
 *    option, and what it writes does not exist yet.
 *  - Without a file there is nothing to paste: commands and Python become plain words.
 */
#include "why/why.h"

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SHOWN = 120, MOST_PATH = 4096, MOST_NAMES_TRIED = 100 };

/* ---- text ---- */

static const char *keep_buf(struct ckpt_why *w, struct ckpt_buf *buf)
{
	const char *copy = buf->bad ? NULL : ckpt_arena_copy(w->arena, buf->data, buf->len);

	ckpt_buf_clear(buf);
	if (!copy && w->failed == 0)
		w->failed = CKPT_E_NOMEM;
	return copy ? copy : "";
}

static const char *print(struct ckpt_why *w, const char *fmt, va_list args)
{
	char *text = NULL;
	const char *copy = NULL;
	int len = vasprintf(&text, fmt, args);

	if (len >= 0) {
		copy = ckpt_arena_copy(w->arena, text, (uint64_t)len);
		free(text);
	}
	if (!copy && w->failed == 0)
		w->failed = CKPT_E_NOMEM;
	return copy ? copy : "";
}

const char *ckpt_why_print(struct ckpt_why *w, const char *fmt, ...)
{
	va_list args;
	const char *text;

	va_start(args, fmt);
	text = print(w, fmt, args);
	va_end(args);
	return text;
}

const char *ckpt_why_show(struct ckpt_why *w, const char *text)
{
	char shown[MOST_SHOWN + 4];

	return ckpt_why_print(w, "%s", ckpt_escape(shown, sizeof(shown), text, strlen(text)));
}

/* Has it characters that a terminal would act on? */
static bool is_unsafe(const char *text)
{
	size_t len = strlen(text), size = 4 * len + 8;
	char *shown = malloc(size);
	bool unsafe = true;

	if (shown) {
		ckpt_escape_again(shown, size, text, len);
		unsafe = strcmp(shown, text) != 0;
	}
	free(shown);
	return unsafe;
}

/*
 * $'...' is not in every shell, but in those that people type into, and only names that nobody
 * types need it.
 */
const char *ckpt_why_quote(struct ckpt_why *w, const char *text)
{
	static const char harmless[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				       "0123456789_-./:=,+@%";
	bool unsafe = is_unsafe(text);
	struct ckpt_buf out = { 0 };

	if (*text && strspn(text, harmless) == strlen(text))
		return ckpt_why_print(w, "%s", text);
	ckpt_buf_printf(&out, unsafe ? "$'" : "'");
	for (const char *p = text; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (unsafe && (c < 0x20 || c >= 0x7f))
			ckpt_buf_printf(&out, "\\%03o", c);
		else if (unsafe && (c == '\'' || c == '\\'))
			ckpt_buf_printf(&out, "\\%c", c);
		else if (c == '\'')
			ckpt_buf_printf(&out, "'\\''");
		else
			ckpt_buf_add_u8(&out, c);
	}
	ckpt_buf_printf(&out, "'");
	return keep_buf(w, &out);
}

/* A path that is no UTF-8 becomes a bytes literal, which open() takes, too. */
const char *ckpt_why_python_text(struct ckpt_why *w, const char *text)
{
	bool plain = ckpt_utf8_ok(text, strlen(text));
	struct ckpt_buf out = { 0 };

	ckpt_buf_printf(&out, plain ? "'" : "b'");
	for (const char *p = text; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (c < 0x20 || c == 0x7f || (!plain && c >= 0x80))
			ckpt_buf_printf(&out, "\\x%02x", c);
		else if (c == '\'' || c == '\\')
			ckpt_buf_printf(&out, "\\%c", c);
		else
			ckpt_buf_add_u8(&out, c);
	}
	ckpt_buf_printf(&out, "'");
	return keep_buf(w, &out);
}

/* ---- paths ---- */

/* A path that begins with a dash would be taken for an option. */
static const char *as_operand(struct ckpt_why *w, const char *path)
{
	return ckpt_why_quote(w, *path == '-' ? ckpt_why_print(w, "./%s", path) : path);
}

/* NULL: there is none, or nobody can use it after this process: that of a pipe. */
static const char *path_to_type(const struct ckpt_why *w)
{
	return w->facts.path && !ckpt_is_descriptor(w->facts.path) ? w->facts.path : NULL;
}

const char *ckpt_why_in(struct ckpt_why *w)
{
	const char *path = path_to_type(w);

	return as_operand(w, path ? path : "IN");
}

/* For ARCHIVE::NAME, output goes beside the archive and is called NAME. */
static const char *beside_archive(struct ckpt_why *w)
{
	const char *path = w->facts.path, *inside = strstr(path, "::"), *slash, *name;

	if (!inside || access(path, F_OK) == 0)
		return path;
	while (inside > path && inside[-1] != '/')
		inside--;
	name = strrchr(path, ':') + 1;
	slash = strrchr(name, '/');
	return ckpt_why_print(w, "%.*s%s", (int)(inside - path), path, slash ? slash + 1 : name);
}

/* A directory as "." or "a/.." has no name that another could begin with: its own, then. */
static const char *with_name(struct ckpt_why *w, const char *path)
{
	size_t len = strlen(path);
	const char *kept = path;
	char *own;

	while (len > 1 && path[len - 1] == '/')
		len--;
	if (!w->facts.folder || !len || path[len - 1] != '.' ||
	    !(len == 1 || path[len - 2] == '/' || (path[len - 2] == '.' && (len == 2 || path[len - 3] == '/'))))
		return path;
	own = realpath(path, NULL);
	if (own && own[1])
		kept = ckpt_why_print(w, "%s", own);
	free(own);
	return kept;
}

/* The length without the ending: ".pt", or ".pth.tar" as a whole. */
static size_t stem_length(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *dot = strrchr(name, '.');
	size_t len = strlen(path);

	if (!dot || dot == name || strlen(dot) > 12)
		return len;
	if (!strcmp(dot, ".tar") && dot - name > 4 && !memcmp(dot - 4, ".pth", 4))
		dot -= 4;
	else if (!strcmp(dot, ".tar") && dot - name > 3 && !memcmp(dot - 3, ".pt", 3))
		dot -= 3;
	return (size_t)(dot - path);
}

/* The first name that nothing has, with a number above LAST, which becomes its number. */
static const char *free_name_above(struct ckpt_why *w, const char *path, const char *word, int *last)
{
	size_t len = strlen(path), stem;
	const char *name = "";

	while (len > 1 && path[len - 1] == '/')
		len--;
	path = ckpt_why_print(w, "%.*s", (int)len, path);
	stem = w->facts.folder ? len : stem_length(path);
	for (int i = 0; i < MOST_NAMES_TRIED; i++) {
		++*last;
		name = *last == 1 ? ckpt_why_print(w, "%.*s%s%s", (int)stem, path, word, path + stem)
				  : ckpt_why_print(w, "%.*s%s-%d%s", (int)stem, path, word, *last, path + stem);
		if (access(name, F_OK) != 0)
			break;
	}
	return name;
}

static const char *free_name(struct ckpt_why *w, const char *path, const char *word)
{
	int last = 0;

	return free_name_above(w, path, word, &last);
}

const char *ckpt_why_out(struct ckpt_why *w)
{
	if (!path_to_type(w))
		return "OUT";
	if (!w->out)
		w->out = as_operand(w, free_name_above(w, with_name(w, beside_archive(w)), "-mended", &w->outs));
	return w->out;
}

const char *ckpt_why_out_without(struct ckpt_why *w, const char *cut)
{
	size_t len = strlen(w->facts.path), end = strlen(cut);
	const char *name;

	if (!end || len <= end || strcmp(w->facts.path + len - end, cut) != 0)
		return ckpt_why_out(w);
	name = ckpt_why_print(w, "%.*s", (int)(len - end), w->facts.path);
	return as_operand(w, access(name, F_OK) == 0 ? free_name(w, name, "-unpacked") : name);
}

void ckpt_why_one_file(struct ckpt_why *w)
{
	bool was_folder = w->facts.folder;
	size_t len = strlen(w->facts.path);

	while (len > 1 && w->facts.path[len - 1] == '/')
		len--;
	w->facts.folder = false; /* ".pt" is an ending */
	w->out = as_operand(w, free_name_above(w, strcmp(w->facts.path, ".") ? ckpt_why_print(w, "%.*s.pt", (int)len, w->facts.path) : "model.pt", "-mended", &w->outs));
	w->facts.folder = was_folder;
}

const char *ckpt_why_merged(struct ckpt_why *w, const char *folder)
{
	size_t len = strlen(folder);
	bool here = !strcmp(folder, "."), was_folder = w->facts.folder;
	const char *name;

	while (len > 1 && folder[len - 1] == '/')
		len--;
	w->facts.folder = false;
	name = here ? "merged.pt" : ckpt_why_print(w, "%.*s.pt", (int)len, folder);
	if (access(name, F_OK) == 0)
		name = free_name(w, name, "-merged");
	w->facts.folder = was_folder;
	return as_operand(w, name);
}

const char *ckpt_why_shards(struct ckpt_why *w)
{
	return as_operand(w, free_name(w, "dcp", "-shards"));
}

const char *ckpt_why_load(struct ckpt_why *w, const char *arguments)
{
	return ckpt_why_print(w, "torch.load(%s%s)",
			      w->facts.path ? ckpt_why_python_text(w, w->facts.path) : "PATH",
			      arguments);
}

const char *ckpt_why_load_dict(struct ckpt_why *w, const struct ckpt_why_dict *dict)
{
	if (!dict || !*dict->name || !ckpt_why_has_plain_name(dict))
		return ckpt_why_load(w, "");
	return ckpt_why_print(w, "%s[%s]", ckpt_why_load(w, ""),
			      ckpt_why_python_text(w, dict->name));
}

/* ---- causes ---- */

bool ckpt_why_begin(struct ckpt_why *w, const char *id, enum ckpt_certainty certainty,
		    const char *fmt, ...)
{
	va_list args;

	if (w->failed < 0 || w->reported_count == CKPT_WHY_MOST_REPORTED)
		return false;
	for (uint32_t i = 0; i < w->reported_count; i++)
		if (!strcmp(w->reported[i], id))
			return false;
	w->reported[w->reported_count++] = id;
	w->out = NULL;
	w->cause =
		(struct ckpt_cause){ .size = sizeof(w->cause), .id = id, .certainty = certainty };
	va_start(args, fmt);
	w->cause.text = print(w, fmt, args);
	va_end(args);
	return true;
}

void ckpt_why_fact(struct ckpt_why *w, const char *fmt, ...)
{
	va_list args;

	if (w->cause.fact_count == CKPT_WHY_MOST_LINES)
		return;
	va_start(args, fmt);
	w->fact[w->cause.fact_count++] = print(w, fmt, args);
	va_end(args);
}

void ckpt_why_fact_opening(struct ckpt_why *w)
{
	static const char *const verbs[] = { "is ", "has ", "holds ", "begins ", "was " };
	char text[sizeof(w->facts.opening.text)];
	bool verb = false;

	ckpt_error_text(&w->facts.opening, text, sizeof(text));
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		verb |= !strncmp(text, verbs[i], strlen(verbs[i]));
	ckpt_why_fact(w, "%s%s", verb ? "it " : "", text);
}

static void add_advice(struct ckpt_why *w, enum ckpt_mend_kind kind, const char *text)
{
	if (w->cause.mend_count < CKPT_WHY_MOST_LINES)
		w->mend[w->cause.mend_count++] = (struct ckpt_mend){ kind, text };
}

#define ADD_ADVICE(kind) \
	do { \
		va_list args; \
		va_start(args, fmt); \
		add_advice(w, kind, print(w, fmt, args)); \
		va_end(args); \
	} while (0)

void ckpt_why_command(struct ckpt_why *w, const char *fmt, ...)
{
	ADD_ADVICE(w->facts.path ? CKPT_MEND_COMMAND : CKPT_MEND_WORDS);
}

void ckpt_why_python(struct ckpt_why *w, const char *fmt, ...)
{
	if (!w->dangerous)
		ADD_ADVICE(w->facts.path ? CKPT_MEND_PYTHON : CKPT_MEND_WORDS);
}

void ckpt_why_python_load(struct ckpt_why *w, const char *fmt, ...)
{
	if (w->dangerous)
		return;
	if (!w->facts.folder)
		ADD_ADVICE(w->facts.path ? CKPT_MEND_PYTHON : CKPT_MEND_WORDS);
	else if (!w->cause.mend_count)
		ckpt_why_command(w, "ckpt merge %s %s", ckpt_why_in(w), ckpt_why_merged(w, w->facts.path));
}

void ckpt_why_words(struct ckpt_why *w, const char *fmt, ...)
{
	ADD_ADVICE(CKPT_MEND_WORDS);
}

void ckpt_why_end(struct ckpt_why *w)
{
	int rc;

	if (w->failed < 0)
		return;
	w->cause.facts = w->fact;
	w->cause.mends = w->mend;
	if (w->cause.certainty == CKPT_CAUSE_LARGE)
		w->report.large++;
	else
		w->report.causes++;
	rc = w->found ? w->found(w->ctx, &w->cause) : 0;
	if (rc < 0)
		w->failed = rc;
}
