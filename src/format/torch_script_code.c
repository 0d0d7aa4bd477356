/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out which attributes of a class are parameters and buffers, from its source. Of a class
 * __torch__.a.b.Name, code/__torch__/a/b.py has the source, with these lines; everything else is
 * skipped:
 *
 *     class Name(Module):
 *       __parameters__ = ["weight", "bias", ]
 *       __buffers__ = []
 *
 * Source: torch/csrc/jit/serialization/python_print.cpp, printNamedType(), printClass(). What
 * must stay true: a source is read once, under LOCK; one that is damaged or missing says nothing
 * and is no error.
 */
#include "format/torch_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t CODE_BUDGET = 64 << 20;
enum { MOST_PATH = 4096 };

static const struct ckpt_class unknown_class = { 0 };

void ckpt_script_code_init(struct ckpt_script_code *code, ckpt_script_source *source, void *ctx,
			   uint64_t size)
{
	code->source = source;
	code->ctx = ctx;
	code->size = size;
	pthread_mutex_init(&code->lock, NULL);
}

void ckpt_script_code_clear(struct ckpt_script_code *code)
{
	for (size_t i = 0; i < code->classes.count; i++)
		ckpt_strmap_clear(
			&((struct ckpt_class *)(uintptr_t)code->classes.entries[i].value)->members);
	ckpt_strmap_clear(&code->classes);
	ckpt_strmap_clear(&code->files);
	ckpt_arena_free(code->arena);
	pthread_mutex_destroy(&code->lock);
}

/* ---- one source ---- */

struct line {
	const char *text;
	size_t len;
};

static bool begins_with(const struct line *line, const char *with)
{
	size_t len = strlen(with);

	return line->len >= len && !memcmp(line->text, with, len);
}

/* One character of a quoted string, as c10::printQuotedString() writes it; *AT moves behind it. */
static char unescape(const char *text, size_t len, size_t *at)
{
	static const char letters[] = "nrtabfv", meant[] = "\n\r\t\a\b\f\v";
	const char *found;
	unsigned octal = 0;
	int digits = 0;
	char c = text[(*at)++];

	if (c != '\\' || *at >= len)
		return c;
	for (; digits < 3 && *at < len && text[*at] >= '0' && text[*at] <= '7'; digits++)
		octal = octal * 8 + (unsigned)(text[(*at)++] - '0');
	if (digits)
		return (char)octal;
	c = text[(*at)++];
	found = strchr(letters, c);
	return found && c ? meant[found - letters] : c;
}

/* ["weight", "bias", ] */
static bool add_members(struct ckpt_script_code *code, struct ckpt_class *cls,
			const struct line *line, enum ckpt_member kind)
{
	size_t at = 0;

	while (at < line->len) {
		char *name;
		size_t len = 0;
		bool there;

		if (line->text[at++] != '"')
			continue;
		name = ckpt_arena_alloc(code->arena, line->len - at + 1);
		if (!name)
			return false;
		while (at < line->len && line->text[at] != '"')
			name[len++] = unescape(line->text, line->len, &at);
		at++;
		if (!ckpt_strmap_insert(&cls->members, name, len, (uint64_t)kind, &there))
			return false;
	}
	return true;
}

/* "class Name(Module):" in the module MODULE; *OUT stays NULL if it is known already. */
static bool begin_class(struct ckpt_script_code *code, const struct ckpt_global *module,
			const struct line *line, struct ckpt_class **out)
{
	const char *name = line->text + 6;
	size_t len = 0, most = line->len - 6;
	struct ckpt_class *cls = ckpt_arena_calloc(code->arena, 1, sizeof(*cls));
	uint64_t *slot;
	char *full;
	bool there;

	while (len < most && name[len] != '(' && name[len] != ':')
		len++;
	full = ckpt_arena_alloc(code->arena, module->module_len + 1 + len);
	*out = NULL;
	if (!cls || !full)
		return false;
	memcpy(full, module->module, module->module_len);
	full[module->module_len] = '.';
	memcpy(full + module->module_len + 1, name, len);
	slot = ckpt_strmap_insert(&code->classes, full, module->module_len + 1 + len,
				  (uint64_t)(uintptr_t)cls, &there);
	if (!slot || there)
		return slot != NULL;
	cls->known = true;
	cls->is_module = most - len >= 9 && !memcmp(name + len, "(Module):", 9);
	*out = cls;
	return true;
}

static bool parse(struct ckpt_script_code *code, const struct ckpt_global *module, const char *text,
		  size_t size)
{
	struct ckpt_class *cls = NULL;
	bool fine = true;

	for (size_t at = 0; fine && at < size;) {
		const char *end = memchr(text + at, '\n', size - at);
		struct line line = { text + at, (end ? (size_t)(end - text) : size) - at };

		at += line.len + 1;
		if (begins_with(&line, "class "))
			fine = begin_class(code, module, &line, &cls);
		else if (cls && begins_with(&line, "  __parameters__ = ["))
			fine = add_members(code, cls, &line, CKPT_MEMBER_PARAMETER);
		else if (cls && begins_with(&line, "  __buffers__ = ["))
			fine = add_members(code, cls, &line, CKPT_MEMBER_BUFFER);
		else if (line.len && line.text[0] != ' ')
			cls = NULL; /* a function */
	}
	return fine;
}

/* ---- finding it ---- */

/* Reads each module once. One that is damaged or missing says nothing. */
static bool read_module(struct ckpt_script_code *code, const struct ckpt_global *cls)
{
	uint8_t *bytes;
	size_t len;
	bool there, fine = true;

	if (!ckpt_strmap_insert(&code->files, cls->module, cls->module_len, 0, &there))
		return false;
	if (there || !code->source(code->ctx, cls, &bytes, &len))
		return true;
	fine = parse(code, cls, (const char *)bytes, len);
	free(bytes);
	return fine;
}

static const struct ckpt_class *find_class(struct ckpt_script_code *code,
					   const struct ckpt_global *cls)
{
	char name[MOST_PATH];
	const uint64_t *slot;
	int len = snprintf(name, sizeof(name), "%s.%s", cls->module, cls->name);

	if (len < 0 || (size_t)len >= sizeof(name))
		return &unknown_class;
	slot = ckpt_strmap_find(&code->classes, name, (size_t)len);
	if (!slot && !read_module(code, cls))
		return NULL;
	if (!slot)
		slot = ckpt_strmap_find(&code->classes, name, (size_t)len);
	return slot ? (const struct ckpt_class *)(uintptr_t)*slot : &unknown_class;
}

const struct ckpt_class *ckpt_script_code_class(struct ckpt_script_code *code,
						const struct ckpt_global *cls)
{
	const struct ckpt_class *found = NULL;

	pthread_mutex_lock(&code->lock);
	if (!code->arena)
		code->arena = ckpt_arena_new(CODE_BUDGET + 2 * code->size);
	if (code->arena)
		found = find_class(code, cls);
	pthread_mutex_unlock(&code->lock);
	return found;
}
