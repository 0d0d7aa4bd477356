/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in the checkpoint the objects hang that findings are about. While the pickle runs, a
 * finding notes the value on top of the stack; when all of it is put together, a walk from the
 * root gives these values their names.
 *
 * What must stay true: findings are named by their number in the scanner's list, so the list is
 * not sorted before ckpt_scan_name_subjects(). The walk has its own stack and meets each value
 * once, as values may be shared and may go in circles.
 */
#include "scan/walk.h"

#include "base/buf.h"
#include "base/grow.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * Where in the checkpoint the objects hang that findings are about: known only when all of it is
 * put together.
 */

enum { SHOWN = 300, MOST_NAME = 4096 };

/* A value that is being gone through: the name of what is below it begins with LEN bytes. */
struct value_level {
	const struct ckpt_value *v;
	uint32_t next;
	size_t len;
};

struct subject_search {
	struct ckpt_scan_walk *w;
	struct value_level *levels; /* malloc */
	uint32_t depth, cap;
	uint8_t *seen, *wanted; /* malloc: bits, by id */
	struct ckpt_buf name;
	uint32_t left; /* subjects without a path */
};

/* ---- noting ---- */

void ckpt_scan_note_subjects(struct ckpt_scan_walk *w, uint32_t first)
{
	struct ckpt_scanner *s = w->s;

	for (uint32_t i = first; i < s->finding_count && w->m.depth; i++) {
		struct ckpt_scan_subject *grown;

		if (s->findings[i].record != s->where || s->findings[i].path)
			continue;
		grown = ckpt_grow(w->subjects, w->subject_count, &w->subject_cap, sizeof(*grown));
		s->no_memory |= !grown;
		if (!grown)
			return;
		w->subjects = grown;
		grown[w->subject_count++] =
			(struct ckpt_scan_subject){ i, w->m.stack[w->m.depth - 1] };
	}
}

/* ---- what a value holds ---- */

static void add_component(struct subject_search *f, const struct ckpt_value *key, uint32_t index)
{
	if (f->name.len > MOST_NAME)
		return; /* deep nests of long keys: nobody reads the rest */
	if (f->name.len)
		ckpt_buf_add_u8(&f->name, '.');
	if (!key)
		ckpt_buf_printf(&f->name, "%" PRIu32, index);
	else if (key->kind == CKPT_STR || key->kind == CKPT_PY2_STR)
		ckpt_buf_add(&f->name, key->u.bytes.ptr, key->u.bytes.len);
	else if (key->kind == CKPT_INT)
		ckpt_buf_printf(&f->name, "%" PRId64, key->u.integer);
	else
		ckpt_buf_printf(&f->name, "(%s)", ckpt_value_kind_name(key));
}

/* Keys and values in turn: a key has the name of the mapping. */
static const struct ckpt_value *pair_part(struct subject_search *f, const struct ckpt_seq *pairs,
					  uint32_t i)
{
	if (i % 2)
		add_component(f, pairs->items[i - 1], 0);
	return pairs->items[i];
}

/*
 * What was called, with what, and what became of it: only items and attributes have names of their
 * own.
 */
static const struct ckpt_value *call_part(struct subject_search *f, const struct ckpt_call *c, uint32_t i)
{
	const struct ckpt_value *const parts[] = { c->func, c->args, c->kwargs, c->state,
						   c->setter };
	uint32_t count = sizeof(parts) / sizeof(parts[0]);

	if (i < count)
		return parts[i] ? parts[i] : &ckpt_value_none;
	i -= count;
	if (i < c->items.count) {
		add_component(f, NULL, i);
		return c->items.items[i];
	}
	i -= c->items.count;
	return i < c->pairs.count ? pair_part(f, &c->pairs, i) : NULL;
}

/* Part I of V, and the name of it; NULL: there are no more. */
static const struct ckpt_value *part_of(struct subject_search *f, const struct ckpt_value *v, uint32_t i)
{
	switch ((enum ckpt_value_kind)v->kind) {
	case CKPT_TUPLE:
	case CKPT_LIST:
	case CKPT_SET:
	case CKPT_FROZENSET:
		if (i >= v->u.seq.count)
			return NULL;
		add_component(f, NULL, i);
		return v->u.seq.items[i];
	case CKPT_DICT: return i < v->u.seq.count ? pair_part(f, &v->u.seq, i) : NULL;
	case CKPT_CALL: return call_part(f, v->u.call, i);
	case CKPT_PERSID: return i == 0 ? v->u.persid.pid : NULL;
	default: return NULL;
	}
}

/* ---- searching ---- */

static void name_subjects(struct subject_search *f, const struct ckpt_value *v)
{
	struct ckpt_scanner *s = f->w->s;
	char shown[SHOWN];

	for (uint32_t i = 0; i < f->w->subject_count; i++) {
		struct ckpt_scan_finding *finding = &s->findings[f->w->subjects[i].finding];

		if (f->w->subjects[i].value != v || finding->path)
			continue;
		f->left--;
		if (!f->name.len || f->name.bad) /* all of it */
			continue;
		ckpt_escape(shown, sizeof(shown), (const char *)f->name.data, f->name.len);
		finding->path = ckpt_arena_copy(s->arena, shown, strlen(shown));
		s->no_memory |= !finding->path;
	}
}

static bool get_bit(const uint8_t *bits, uint32_t id)
{
	return bits[id / 8] & 1u << id % 8;
}

static void set_bit(uint8_t *bits, uint32_t id)
{
	bits[id / 8] |= (uint8_t)(1u << id % 8);
}

/* Once for each; those without an identity hold nothing. */
static bool enter_value(struct subject_search *f, const struct ckpt_value *v)
{
	struct value_level *grown;

	if (!v->id || get_bit(f->seen, v->id))
		return true;
	set_bit(f->seen, v->id);
	if (get_bit(f->wanted, v->id))
		name_subjects(f, v);
	grown = ckpt_grow(f->levels, f->depth, &f->cap, sizeof(*grown));
	if (!grown)
		return false;
	f->levels = grown;
	grown[f->depth++] = (struct value_level){ v, 0, f->name.len };
	return true;
}

static bool search(struct subject_search *f, const struct ckpt_value *root)
{
	bool ok = enter_value(f, root);

	while (ok && f->depth && f->left) {
		struct value_level *top = &f->levels[f->depth - 1];
		const struct ckpt_value *part;

		f->name.len = top->len;
		part = part_of(f, top->v, top->next++);
		if (!part)
			f->depth--;
		else
			ok = enter_value(f, part);
	}
	return ok && !f->name.bad;
}

static bool mark_wanted(struct subject_search *f)
{
	size_t size = f->w->doc.next_id / 8 + 1u;

	f->seen = calloc(2, size);
	if (!f->seen)
		return false;
	f->wanted = f->seen + size;
	for (uint32_t i = 0; i < f->w->subject_count; i++)
		set_bit(f->wanted, f->w->subjects[i].value->id);
	return true;
}

void ckpt_scan_name_subjects(struct ckpt_scan_walk *w)
{
	struct subject_search f = { .w = w, .left = w->subject_count };

	if (w->subject_count && w->doc.root)
		w->s->no_memory |= !mark_wanted(&f) || !search(&f, w->doc.root);
	free(f.seen);
	free(f.levels);
	ckpt_buf_clear(&f.name);
	free(w->subjects);
	w->subjects = NULL;
}
