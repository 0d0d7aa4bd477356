/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt extract`, `ckpt select` and `ckpt drop`: parts of a checkpoint.
 *
 * select gives a verdict on every entry of a mapping or list during one walk, and carries all out
 * afterwards, sorted by container. An entry is kept if it or something below matches a pattern, or
 * if it is below what matches; what is part of a tuple or of an object stays or goes with it. The
 * walk meets a shared container once: if it is met again where everything is kept, the entries that
 * the first place would have lost are kept after all (keep_met_again()). `above` holds, by depth,
 * the verdict that the walk is in, and must be set for every step that is entered.
 */
#include "base/grow.h"
#include "base/sized.h"
#include "base/text.h"
#include "edit/entries.h"
#include "model/find.h"
#include "model/patterns.h"

#include <ckpt/edit.h>

#include <stdlib.h>
#include <string.h>

int ckpt_extract(const struct ckpt_model *model, const char *name, struct ckpt_model **out,
		 struct ckpt_edit_report *report, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct ckpt_edit_report did = CKPT_EDIT_REPORT_INIT;
	const struct ckpt_value *found;

	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(did), err);
	*out = NULL;
	if (rc == 0)
		rc = ckpt_model_find(model, name, &found, err);
	if (rc == 0)
		rc = ckpt_model_derive(model, out, err);
	if (rc < 0)
		return rc;
	(*out)->root = found;
	did.extracted = true;
	did.tensors_dropped = ckpt_tensors_dropped(model, *out);
	ckpt_sized_give(report, &did, sizeof(did));
	return 0;
}

/* ---- select: a verdict on every entry ---- */

struct verdict {
	const struct ckpt_value *parent, *value;
	uint32_t index; /* among the entries of PARENT */
	uint32_t above; /* the verdict on the entry that PARENT is, or NO_VERDICT */
	bool keep, dropped;
	bool whole; /* nothing below it is left out */
};

enum { NO_VERDICT = UINT32_MAX };

struct selector {
	const struct ckpt_model *from;
	struct ckpt_model *to;
	struct ckpt_patterns keep, drop;
	const char *part_matched; /* a part of something whole that a pattern of DROP names */
	struct verdict *verdicts;
	uint32_t count, cap;
	uint32_t *above; /* by depth: the verdict on the entry the walk is in, or NO_VERDICT */
	size_t above_cap;
	/* SIZE_MAX, or: below this depth everything is kept; is dropped; cannot be taken apart */
	size_t kept_depth, dropped_depth, whole_depth;
	const struct ckpt_value **again; /* met again where it is kept: stays as a whole */
	uint32_t again_count, again_cap;
	uint64_t entries_dropped;
};

static bool grow_above(struct selector *s, size_t depth)
{
	size_t cap = 2 * depth + 16;
	uint32_t *grown;

	if (depth < s->above_cap)
		return true;
	grown = realloc(s->above, cap * sizeof(*grown));
	if (!grown)
		return false;
	s->above = grown;
	s->above_cap = cap;
	return true;
}

static bool add_verdict(struct selector *s, const struct verdict *verdict)
{
	void *grown = ckpt_grow(s->verdicts, s->count, &s->cap, sizeof(*s->verdicts));

	if (!grown)
		return false;
	s->verdicts = grown;
	s->verdicts[s->count++] = *verdict;
	return true;
}

static int add_met_again(struct selector *s, const struct ckpt_value *v, struct ckpt_error *err)
{
	void *grown = ckpt_grow(s->again, s->again_count, &s->again_cap, sizeof(*s->again));

	if (!grown)
		return ckpt_fail_nomem(err);
	s->again = grown;
	s->again[s->again_count++] = v;
	return 0;
}

/* The walk is at DEPTH now: leave what it has come out of. */
static void leave_depth(struct selector *s, size_t depth)
{
	size_t *const depths[] = { &s->kept_depth, &s->dropped_depth, &s->whole_depth };

	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
		if (depth <= *depths[i])
			*depths[i] = SIZE_MAX;
}

static void keep_ancestors(struct selector *s, size_t depth)
{
	if (s->kept_depth == SIZE_MAX)
		s->kept_depth = depth;
	for (size_t i = 1; i <= depth; i++)
		if (s->above[i] != NO_VERDICT)
			s->verdicts[s->above[i]].keep = true;
}

static int match_keep(struct selector *s, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	int hit = s->keep.count ? ckpt_patterns_match(&s->keep, step->name, err) : 0;

	if (hit > 0)
		keep_ancestors(s, step->depth);
	if (hit >= 0 && step->seen && s->kept_depth != SIZE_MAX)
		hit = add_met_again(s, step->value, err);
	return hit < 0 ? hit : 0;
}

/* What is part of a tuple or of an object stays with it. */
static int visit_part(struct selector *s, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	int rc, hit = 0;

	if (s->whole_depth == SIZE_MAX)
		s->whole_depth = step->depth - 1;
	s->above[step->depth] = NO_VERDICT;
	rc = match_keep(s, step, err);
	if (rc == 0 && !s->part_matched)
		for (size_t i = 0; hit == 0 && i < s->drop.count; i++)
			if (!s->drop.matched[i])
				hit = ckpt_pattern_matches(s->drop.compiled[i], step->name, err);
	if (hit > 0) {
		s->part_matched = ckpt_arena_copy(s->to->arena, step->name, step->name_len);
		if (!s->part_matched)
			return ckpt_arena_fail(s->to->arena, err);
	}
	return rc < 0 ? rc : hit < 0 ? hit : CKPT_WALK_ENTER;
}

static int visit_entry(struct selector *s, const struct ckpt_walk_step *step,
		       const struct verdict *verdict, struct ckpt_error *err)
{
	int rc, drop;

	s->above[step->depth] = s->count;
	if (!add_verdict(s, verdict))
		return ckpt_fail_nomem(err);
	drop = ckpt_patterns_match(&s->drop, step->name, err);
	if (drop < 0)
		return drop;
	if (drop) {
		s->verdicts[s->above[step->depth]].keep = false;
		s->verdicts[s->above[step->depth]].dropped = true;
		s->dropped_depth = step->depth;
	} else {
		rc = match_keep(s, step, err);
		if (rc < 0)
			return rc;
	}
	return ckpt_value_is_tensor(s->from, step->value) ? CKPT_WALK_SKIP : CKPT_WALK_ENTER;
}

/* Attributes and arguments of what has entries are no entries, and have nothing to do with them. */
static bool has_entries(const struct ckpt_value *v)
{
	return ckpt_value_pairs(v) || (v->kind == CKPT_CALL && v->u.call->items.count);
}

/*
 * Below what is dropped only the patterns are looked at: one that names a part of it is no error.
 */
static int visit_dropped(struct selector *s, const struct ckpt_walk_step *step,
			 struct ckpt_error *err)
{
	int rc = ckpt_patterns_match(&s->drop, step->name, err);

	if (rc >= 0)
		rc = ckpt_patterns_match(&s->keep, step->name, err);
	s->above[step->depth] = NO_VERDICT;
	return rc < 0 ? rc : CKPT_WALK_ENTER;
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct selector *s = ctx;
	struct verdict verdict = { .value = step->value };
	bool entry;

	if (step->depth == 0)
		return CKPT_WALK_ENTER;
	if (!grow_above(s, step->depth))
		return ckpt_fail_nomem(err);
	leave_depth(s, step->depth);
	if (s->dropped_depth != SIZE_MAX)
		return visit_dropped(s, step, err);
	entry = ckpt_walk_is_entry(step, &verdict.parent, &verdict.index);
	if (s->whole_depth != SIZE_MAX)
		return visit_part(s, step, err);
	if (!entry && has_entries(verdict.parent))
		return CKPT_WALK_SKIP;
	if (!entry)
		return visit_part(s, step, err);
	verdict.keep = !s->keep.count || s->kept_depth != SIZE_MAX;
	verdict.above = step->depth > 1 ? s->above[step->depth - 1] : NO_VERDICT;
	return visit_entry(s, step, &verdict, err);
}

/* ---- carrying it out ---- */

static int by_parent(const void *a, const void *b)
{
	const struct verdict *x = a, *y = b;

	if (x->parent->id != y->parent->id)
		return x->parent->id < y->parent->id ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* The verdicts, sorted, on the entries of V: the first of them; *COUNT may be 0. */
static struct verdict *verdicts_on(const struct selector *s, const struct ckpt_value *v,
				   uint32_t *count)
{
	uint32_t low = 0, high = s->count, end;

	*count = 0;
	if (!s->count)
		return NULL;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (s->verdicts[middle].parent->id < v->id)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; end < s->count && s->verdicts[end].parent->id == v->id; end++)
		;
	*count = end - low;
	return s->verdicts + low;
}

/* What was met again in a place where all is kept had its verdicts from the first place. */
static int keep_met_again(struct selector *s, struct ckpt_error *err)
{
	for (uint32_t i = 0; i < s->again_count; i++) {
		uint32_t count;
		struct verdict *v = verdicts_on(s, s->again[i], &count);

		for (uint32_t k = 0; k < count; k++) {
			if (v[k].whole || v[k].dropped)
				continue;
			v[k].whole = v[k].keep = true;
			if (add_met_again(s, v[k].value, err) < 0)
				return CKPT_E_NOMEM;
		}
	}
	return 0;
}

/* VERDICTS are those on all entries of one container. */
static int remove_entries(struct selector *s, const struct verdict *verdicts, uint32_t count,
			  struct ckpt_error *err)
{
	struct ckpt_fewer_entries fewer;
	int rc = ckpt_fewer_entries_begin(s->to, verdicts->parent, &fewer, err);

	for (uint32_t i = 0; rc == 0 && i < count; i++)
		if (verdicts[i].keep)
			rc = ckpt_fewer_entries_keep(s->to, &fewer, verdicts[i].index, err);
	return rc < 0 ? rc : ckpt_model_replace(s->to, fewer.copy, err);
}

/* An entry inside of another that is left out is not counted. */
static void count_dropped(struct selector *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		const struct verdict *v = &s->verdicts[i];

		s->entries_dropped +=
			!v->keep && (v->above == NO_VERDICT || s->verdicts[v->above].keep);
	}
}

static int remove_all_entries(struct selector *s, struct ckpt_error *err)
{
	int rc;

	count_dropped(s);
	if (s->count)
		qsort(s->verdicts, s->count, sizeof(*s->verdicts), by_parent);
	rc = keep_met_again(s, err);
	for (uint32_t i = 0, end; rc == 0 && i < s->count; i = end) {
		bool any = false;

		for (end = i; end < s->count && s->verdicts[end].parent == s->verdicts[i].parent;
		     end++)
			any |= !s->verdicts[end].keep;
		if (any)
			rc = remove_entries(s, &s->verdicts[i], end - i, err);
	}
	return rc;
}

static int check_patterns(const struct selector *s, struct ckpt_edit_report *did,
			  struct ckpt_error *err)
{
	const char *keep = ckpt_patterns_unmatched(&s->keep),
		   *drop = ckpt_patterns_unmatched(&s->drop);
	bool any = false;
	char shown[160];

	for (size_t i = 0; i < s->keep.count; i++)
		any |= s->keep.matched[i];
	if (s->keep.count && !any)
		return ckpt_fail(err, CKPT_E_NOTFOUND,
				 "nothing is named like '%s', nothing would be left",
				 ckpt_escape(shown, sizeof(shown), keep, strlen(keep)));
	if (drop && s->part_matched)
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"'%s' is part of a tuple or of an object, which stays or goes as a whole",
			ckpt_escape(shown, sizeof(shown), s->part_matched,
				    strlen(s->part_matched)));
	did->unmatched = keep ? keep : drop;
	return 0;
}

int ckpt_select(const struct ckpt_model *model, const char *const *keep, size_t keep_count,
		const char *const *drop, size_t drop_count, struct ckpt_model **out,
		struct ckpt_edit_report *report, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct selector s = { .from = model,
			      .kept_depth = SIZE_MAX,
			      .dropped_depth = SIZE_MAX,
			      .whole_depth = SIZE_MAX };
	struct ckpt_edit_report did = CKPT_EDIT_REPORT_INIT;

	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(did), err);
	*out = NULL;
	if (rc == 0)
		rc = ckpt_patterns_init(&s.keep, keep, keep_count, err);
	if (rc == 0)
		rc = ckpt_patterns_init(&s.drop, drop, drop_count, err);
	if (rc == 0)
		rc = ckpt_model_derive(model, &s.to, err);
	if (rc == 0)
		rc = ckpt_model_walk(model, visit_value, &s, err);
	if (rc == 0)
		rc = check_patterns(&s, &did, err);
	if (rc == 0)
		rc = remove_all_entries(&s, err);
	ckpt_patterns_clear(&s.keep);
	ckpt_patterns_clear(&s.drop);
	free(s.verdicts);
	free(s.above);
	free(s.again);
	if (rc < 0) {
		ckpt_close(s.to);
		return rc;
	}
	did.entries_dropped = s.entries_dropped;
	did.tensors_dropped = ckpt_tensors_dropped(model, s.to);
	ckpt_sized_give(report, &did, sizeof(did));
	*out = s.to;
	return 0;
}
