/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was found in one file: findings, names of globals, refusals of weights_only, each list with
 * a limit; and the verdict, the worst of all.
 *
 * What must stay true: the verdict is raised before a limit drops the finding, so no number of
 * harmless findings hides a bad one, and the file says how many were left out. Texts of the file
 * are escaped before they are kept. Lack of memory is remembered in the scanner and ends the file;
 * it never makes it plain.
 */
#include "scan/scanner.h"

#include "base/cancel.h"
#include "base/grow.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OF_A_LIST = 1000, MOST_OBJECTS = 1000 /* more, for names that are not listed yet */, SHOWN = 300, MOST_TEXT = 1024 };
static const uint64_t TEXTS = 8 << 20, MOST_TEXTS = 1 << 30, UNPACKED_BASE = 256 << 20;
static const uint64_t NESTED_BASE = 4 << 20, PICKLES_BASE = 8 << 20;
/* a packed record may become 24 times as long, and is looked at as a file, and then as what is in it */
enum { UNPACKED_OF_BYTE = 32, PICKLES_OF_BYTE = 32 };

int ckpt_scanner_init(struct ckpt_scanner *s, const char *path)
{
	*s = (struct ckpt_scanner){ .where = "", .budget = UNPACKED_BASE };
	s->file = (struct ckpt_scan_file){ .size = sizeof(s->file),
					   .path = path,
					   .format = "unknown" };
	s->arena = ckpt_arena_new(TEXTS);
	return s->arena ? 0 : CKPT_E_NOMEM;
}

int ckpt_scanner_set_size(struct ckpt_scanner *s, uint64_t nbytes)
{
	uint64_t texts = nbytes < MOST_TEXTS / 2 ? TEXTS + 2 * nbytes : TEXTS + MOST_TEXTS;

	s->file.bytes = nbytes;
	s->budget = UNPACKED_BASE + UNPACKED_OF_BYTE * nbytes;
	s->nested_budget = NESTED_BASE + 2 * nbytes;
	s->pickle_budget = PICKLES_BASE + PICKLES_OF_BYTE * nbytes;
	ckpt_arena_free(s->arena); /* there is nothing in it yet */
	s->arena = ckpt_arena_new(texts);
	return s->arena ? 0 : CKPT_E_NOMEM;
}

void ckpt_scanner_clear(struct ckpt_scanner *s)
{
	free(s->globals);
	free(s->findings);
	free(s->refusals);
	ckpt_strmap_clear(&s->known);
	ckpt_strmap_clear(&s->objects);
	ckpt_arena_free(s->arena);
	*s = (struct ckpt_scanner){ 0 };
}

bool ckpt_scan_is_cancelled(const struct ckpt_scanner *s)
{
	return ckpt_cancelled(s->cancel) != 0;
}

/* Whatever of a file is in it: nothing that a terminal would obey. */
static const char *copy_text(struct ckpt_scanner *s, const char *text)
{
	char shown[4 * MOST_TEXT];
	const char *copy;

	ckpt_escape_again(shown, sizeof(shown), text, strlen(text));
	copy = ckpt_arena_copy(s->arena, shown, strlen(shown));

	s->no_memory |= !copy;
	return copy ? copy : "";
}

static void raise_verdict(struct ckpt_scanner *s, enum ckpt_scan_verdict verdict)
{
	if (verdict > s->file.verdict)
		s->file.verdict = verdict;
}

/* ---- findings ---- */

void ckpt_scan_find(struct ckpt_scanner *s, enum ckpt_scan_verdict verdict, const char *kind,
		    uint64_t offset, const char *fmt, ...)
{
	struct ckpt_scan_finding f = { .size = sizeof(f),
				       .verdict = verdict,
				       .kind = kind,
				       .record = s->where,
				       .offset = offset };
	struct ckpt_scan_finding *grown;
	char text[MOST_TEXT];
	va_list ap;

	raise_verdict(s, verdict);
	if (s->finding_count >= MOST_OF_A_LIST) {
		s->file.left_out++;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	f.text = copy_text(s, text);
	grown = ckpt_grow(s->findings, s->finding_count, &s->finding_cap, sizeof(*grown));
	s->no_memory |= !grown;
	if (!grown)
		return;
	s->findings = grown;
	s->findings[s->finding_count++] = f;
}

bool ckpt_scan_is_full(struct ckpt_scanner *s)
{
	static const char text[] = "has more names than are kept: the rest is not looked into";
	struct ckpt_scan_finding *grown;

	if (ckpt_arena_fail(s->arena, NULL) != CKPT_E_LIMIT)
		return false;
	raise_verdict(s, CKPT_SCAN_UNREADABLE);
	grown = ckpt_grow(s->findings, s->finding_count, &s->finding_cap, sizeof(*grown));
	if (!grown)
		return false;
	s->findings = grown;
	s->findings[s->finding_count++] =
		(struct ckpt_scan_finding){ .size = sizeof(*grown),
					    .verdict = CKPT_SCAN_UNREADABLE,
					    .kind = "unreadable",
					    .record = "",
					    .offset = CKPT_NO_OFFSET,
					    .text = text };
	return true;
}

void ckpt_scan_failed(struct ckpt_scanner *s, int rc, const struct ckpt_error *err)
{
	char place[200] = "", text[sizeof(err->text)];

	if (rc == 0 || s->rc < 0)
		return;
	if (rc == CKPT_E_NOMEM || rc == CKPT_E_CANCELLED) {
		s->rc = rc;
		return;
	}
	if (err->record[0])
		snprintf(place, sizeof(place), "%.160s: ", err->record);
	ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "unreadable", err->offset, "%s%.512s", place,
		       ckpt_error_text(err, text, sizeof(text)));
}

/* ---- globals ---- */

const char *ckpt_scan_show_global(const struct ckpt_global *g, char *buf, size_t size)
{
	char module[SHOWN], name[SHOWN];

	snprintf(buf, size, "%s.%s", ckpt_escape(module, sizeof(module), g->module, g->module_len),
		 ckpt_escape(name, sizeof(name), g->name, g->name_len));
	return buf;
}

static struct ckpt_scan_global *find_global(struct ckpt_scanner *s, const char *key, size_t len,
					    bool *there)
{
	uint64_t *slot = ckpt_strmap_insert(&s->known, key, len, s->global_count, there);

	s->no_memory |= !slot;
	return slot && *there ? &s->globals[*slot] : NULL;
}

/*
 * Does NAME go into the list, which is as long as lists get? What a load of a file imports that needs
 * objects is listed, were it once, or the file is not decided.
 */
static bool has_place(struct ckpt_scanner *s, const char *name, size_t len, enum ckpt_scan_kind kind)
{
	if (s->global_count < MOST_OF_A_LIST)
		return true;
	if (kind != CKPT_SCAN_OBJECT || ckpt_strmap_find(&s->objects, name, len))
		return false;
	return s->global_count < MOST_OF_A_LIST + MOST_OBJECTS;
}

/* NAME has no place. Makes a finding: to be called when nothing in the arena is about to be released. */
static void note_unlisted(struct ckpt_scanner *s, const char *name, size_t len, enum ckpt_scan_kind kind)
{
	if (kind != CKPT_SCAN_OBJECT || ckpt_strmap_find(&s->objects, name, len) || s->has_unlisted)
		return;
	s->has_unlisted = true;
	ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "name", CKPT_NO_OFFSET, "imports more classes and functions than are listed");
}

/* complex128 is the only dtype of torch with 16 bytes. */
static bool is_of_wide_numbers(const char *name)
{
	return !strcmp(name, "complex128") || !strcmp(name, "cdouble") || !strcmp(name, "ComplexDoubleStorage");
}

struct ckpt_scan_global *ckpt_scan_add_global(struct ckpt_scanner *s, const struct ckpt_global *g,
					      uint64_t offset, enum ckpt_scan_kind kind)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(s->arena);
	char shown[2 * SHOWN + 8];
	size_t where_len = strlen(s->where), name_len;
	struct ckpt_scan_global *grown, *entry;
	bool there = false;
	char *key;

	s->has_wide_numbers |= is_of_wide_numbers(g->name);
	if (kind == CKPT_SCAN_OBJECT) /* of CODE it is told when it is known how it is used */
		raise_verdict(s, CKPT_SCAN_NEEDS_OBJECTS);
	ckpt_scan_show_global(g, shown, sizeof(shown));
	name_len = strlen(shown);
	key = ckpt_arena_alloc(s->arena, where_len + name_len + 2);
	if (!key) {
		s->no_memory = true;
		return NULL;
	}
	memcpy(key, s->where, where_len + 1);
	memcpy(key + where_len + 1, shown, name_len + 1);
	if (!has_place(s, shown, name_len, kind)) {
		uint64_t *slot = ckpt_strmap_find(&s->known, key, where_len + name_len + 1);

		s->file.left_out += !slot;
		ckpt_arena_release(s->arena, mark);
		note_unlisted(s, shown, name_len, kind);
		return slot ? &s->globals[*slot] : NULL;
	}
	entry = find_global(s, key, where_len + name_len + 1, &there);
	if (there) /* a pickle may name one a million times */
		ckpt_arena_release(s->arena, mark);
	if (there || s->no_memory)
		return entry;
	grown = ckpt_grow(s->globals, s->global_count, &s->global_cap, sizeof(*grown));
	s->no_memory |= !grown;
	if (!grown)
		return NULL;
	s->globals = grown;
	s->globals[s->global_count] = (struct ckpt_scan_global){ .size = sizeof(*grown),
								 .name = key + where_len + 1,
								 .where = s->where,
								 .offset = offset,
								 .kind = kind };
	if (kind == CKPT_SCAN_OBJECT && strstr(shown, "...")) /* cut, or nothing that Python finds */
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "name", offset, "imports %s, of which not all is shown", shown);
	if (kind == CKPT_SCAN_OBJECT && !ckpt_strmap_insert(&s->objects, key + where_len + 1, name_len, 0, &there))
		s->no_memory = true;
	return &s->globals[s->global_count++];
}

/* ---- weights_only ---- */

void ckpt_scan_refuse(struct ckpt_scanner *s, unsigned versions, const struct ckpt_global *global,
		      uint64_t offset, const char *fmt, ...)
{
	struct ckpt_scan_refusal r = {
		.size = sizeof(r), .versions = versions, .record = s->where, .offset = offset
	};
	struct ckpt_scan_refusal *grown;
	char text[MOST_TEXT];
	va_list ap;

	s->refused |= versions;
	if (s->refusal_count >= MOST_OF_A_LIST) {
		s->file.left_out++;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r.text = copy_text(s, text);
	if (global) {
		r.name = copy_text(s, ckpt_scan_show_global(global, text, sizeof(text)));
		r.can_be_allowed = true;
	}
	grown = ckpt_grow(s->refusals, s->refusal_count, &s->refusal_cap, sizeof(*grown));
	s->no_memory |= !grown;
	if (!grown)
		return;
	s->refusals = grown;
	s->refusals[s->refusal_count++] = r;
}

/* ---- places ---- */

const char *ckpt_scan_enter(struct ckpt_scanner *s, const char *name, size_t len)
{
	const char *before = s->where;
	char shown[SHOWN], *joined;
	size_t size;

	ckpt_escape(shown, sizeof(shown), name, len);
	size = strlen(before) + strlen(shown) + 3;
	joined = ckpt_arena_alloc(s->arena, size);
	if (joined)
		snprintf(joined, size, "%s%s%s", before, *before ? "::" : "", shown);
	s->no_memory |= !joined;
	s->where = joined ? joined : before;
	return before;
}

/* ---- the result ---- */

struct ranked {
	struct ckpt_scan_finding finding;
	uint32_t number;
};

static int compare_verdicts(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->finding.verdict != y->finding.verdict)
		return x->finding.verdict > y->finding.verdict ? -1 : 1;
	return x->number < y->number ? -1 : 1;
}

static void sort_findings(struct ckpt_scanner *s)
{
	struct ranked *ranked = malloc((s->finding_count + (size_t)1) * sizeof(*ranked));

	s->no_memory |= !ranked;
	if (!ranked)
		return;
	for (uint32_t i = 0; i < s->finding_count; i++)
		ranked[i] = (struct ranked){ s->findings[i], i };
	qsort(ranked, s->finding_count, sizeof(*ranked), compare_verdicts);
	for (uint32_t i = 0; i < s->finding_count; i++)
		s->findings[i] = ranked[i].finding;
	free(ranked);
}

/* What runs code is not there for nothing, even if this pickle does not call it. */
static void find_uncalled(struct ckpt_scanner *s)
{
	for (uint32_t i = 0; i < s->global_count; i++) {
		if (s->globals[i].kind != CKPT_SCAN_CODE || s->globals[i].called)
			continue;
		s->where = s->globals[i].where;
		ckpt_scan_find(s, CKPT_SCAN_DANGEROUS, "name", s->globals[i].offset, "imports %s",
			       s->globals[i].name);
	}
	s->where = "";
}

/* What the verdict means, to whoever sees nothing but it; what is compiled says that itself. */
static void explain_objects(struct ckpt_scanner *s)
{
	for (uint32_t i = 0; s->file.verdict == CKPT_SCAN_NEEDS_OBJECTS && i < s->global_count; i++) {
		if (s->globals[i].kind != CKPT_SCAN_OBJECT)
			continue;
		ckpt_scan_find(s, CKPT_SCAN_NEEDS_OBJECTS, "objects", CKPT_NO_OFFSET,
			       "a load imports what is listed here and runs its code with data of the file: as safe as that code is with hostile data");
		return;
	}
}

void ckpt_scanner_finish(struct ckpt_scanner *s)
{
	find_uncalled(s);
	explain_objects(s);
	sort_findings(s);
	s->file.globals = s->globals;
	s->file.global_count = s->global_count;
	s->file.findings = s->findings;
	s->file.finding_count = s->finding_count;
	s->file.refusals = s->refusals;
	s->file.refusal_count = s->refusal_count;
	s->weights_cut |= !s->weights_seen;
	for (unsigned i = 0; s->file.is_torch && i < CKPT_SCAN_TORCH_COUNT; i++) {
		s->file.weights_only[i] = !(s->refused & 1u << i) && !s->weights_cut;
		if (!(s->refused & 1u << i) && s->weights_cut)
			s->file.weights_only_unknown |= UINT64_C(1) << i;
	}
}
