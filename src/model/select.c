/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sized.h"
#include "base/text.h"
#include "model/find.h"

#include <ckpt/edit.h>

#include <stdlib.h>
#include <string.h>

int ckpt_extract(const struct ckpt_model *model, const char *name, struct ckpt_model **out,
		 struct ckpt_edit_report *report, struct ckpt_error *err)
{
	struct ckpt_edit_report did = CKPT_EDIT_REPORT_INIT;
	const struct ckpt_value *found;
	int rc = ckpt_sized_check(report, sizeof(did), err);

	*out = NULL;
	if (rc == 0)
		rc = ckpt_model_find(model, name, &found, err);
	if (rc == 0)
		rc = ckpt_model_derive(model, out, err);
	if (rc < 0)
		return rc;
	(*out)->root = found;
	did.extracted = true;
	did.tensors_dropped = ckpt_tensor_count(model) - ckpt_tensor_count(*out);
	ckpt_sized_give(report, &did);
	return 0;
}

/* ---- select ---- */

struct patterns {
	const char *const *texts;
	size_t count;
	struct ckpt_pattern **compiled;
	bool *matched;
};

/* What becomes of one entry of one container. */
struct verdict {
	const struct ckpt_value *parent;
	uint32_t index;
	uint32_t above; /* the verdict on the entry that its container is, or NO_VERDICT */
	bool keep;
};

enum { NO_VERDICT = UINT32_MAX };

struct selector {
	const struct ckpt_model *from;
	struct ckpt_model *to;
	struct patterns keep, drop;
	struct verdict *verdicts;
	uint32_t count, cap;
	uint32_t *above; /* by depth: the verdict on the entry the walk is in, or NO_VERDICT */
	size_t above_cap;
	size_t kept_depth, whole_depth; /* below: all is kept; nothing can be taken apart */
	uint64_t dropped;
};

static int compile(struct patterns *p, struct ckpt_error *err)
{
	int rc = 0;

	p->compiled = calloc(p->count + 1, sizeof(*p->compiled));
	p->matched = calloc(p->count + 1, sizeof(*p->matched));
	if (!p->compiled || !p->matched)
		return ckpt_fail_nomem(err);
	for (size_t i = 0; rc == 0 && i < p->count; i++)
		rc = ckpt_pattern_new(p->texts[i], &p->compiled[i], err);
	return rc;
}

static void clear(struct patterns *p)
{
	for (size_t i = 0; p->compiled && i < p->count; i++)
		ckpt_pattern_free(p->compiled[i]);
	free(p->compiled);
	free(p->matched);
}

static bool matches(struct patterns *p, const char *name)
{
	bool any = false;

	for (size_t i = 0; i < p->count; i++)
		if (ckpt_pattern_matches(p->compiled[i], name))
			any = p->matched[i] = true;
	return any;
}

/* The first pattern that matched nothing; *ANY: one did match. */
static const char *unmatched(const struct patterns *p, bool *any)
{
	const char *first = NULL;

	*any = p->count == 0;
	for (size_t i = 0; i < p->count; i++) {
		*any |= p->matched[i];
		if (!p->matched[i] && !first)
			first = p->texts[i];
	}
	return first;
}

static int note_unmatched(const struct selector *s, struct ckpt_edit_report *did,
			  struct ckpt_error *err)
{
	bool keeps, drops;
	const char *keep = unmatched(&s->keep, &keeps), *drop = unmatched(&s->drop, &drops);
	char shown[160];

	did->unmatched = keep ? keep : drop;
	if (keeps)
		return 0;
	return ckpt_fail(err, CKPT_E_NOTFOUND, "nothing is named like '%s', nothing would be left",
			 ckpt_escape(shown, sizeof(shown), keep, strlen(keep)));
}

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
	if (s->count == s->cap) {
		uint32_t cap = s->cap ? s->cap * 2 : 256;
		struct verdict *grown = realloc(s->verdicts, cap * sizeof(*grown));

		if (!grown)
			return false;
		s->verdicts = grown;
		s->cap = cap;
	}
	s->verdicts[s->count++] = *verdict;
	return true;
}

/* The walk is at DEPTH now: leave what it has come out of. */
static void leave(struct selector *s, size_t depth)
{
	if (depth <= s->kept_depth)
		s->kept_depth = SIZE_MAX;
	if (depth <= s->whole_depth)
		s->whole_depth = SIZE_MAX;
}

static void keep_way_to(struct selector *s, size_t depth)
{
	if (s->kept_depth == SIZE_MAX)
		s->kept_depth = depth;
	for (size_t i = 1; i <= depth; i++)
		if (s->above[i] != NO_VERDICT)
			s->verdicts[s->above[i]].keep = true;
}

/* What is part of a tuple or of an object stays with it. */
static int judge_part(struct selector *s, const struct ckpt_walk_step *step)
{
	if (s->whole_depth == SIZE_MAX)
		s->whole_depth = step->depth - 1;
	s->above[step->depth] = NO_VERDICT;
	if (s->keep.count && matches(&s->keep, step->name))
		keep_way_to(s, step->depth);
	return CKPT_WALK_ENTER;
}

static int judge_entry(struct selector *s, const struct ckpt_walk_step *step,
		       const struct verdict *verdict, struct ckpt_error *err)
{
	s->above[step->depth] = s->count;
	if (!add_verdict(s, verdict))
		return ckpt_fail_nomem(err);
	if (s->keep.count && matches(&s->keep, step->name))
		keep_way_to(s, step->depth);
	if (matches(&s->drop, step->name)) {
		s->verdicts[s->above[step->depth]].keep = false;
		return CKPT_WALK_SKIP;
	}
	return ckpt_value_is_tensor(s->from, step->value) ? CKPT_WALK_SKIP : CKPT_WALK_ENTER;
}

static int judge(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct selector *s = ctx;
	struct verdict verdict = { 0 };

	if (step->depth == 0)
		return CKPT_WALK_ENTER;
	if (!grow_above(s, step->depth))
		return ckpt_fail_nomem(err);
	leave(s, step->depth);
	if (ckpt_walk_is_entry(step, &verdict.parent, &verdict.index) &&
	    s->whole_depth == SIZE_MAX) {
		verdict.keep = !s->keep.count || s->kept_depth != SIZE_MAX;
		verdict.above = step->depth > 1 ? s->above[step->depth - 1] : NO_VERDICT;
		return judge_entry(s, step, &verdict, err);
	}
	if (ckpt_value_pairs(verdict.parent)) /* an attribute of a mapping: _metadata */
		return CKPT_WALK_SKIP;
	return judge_part(s, step);
}

/* ---- carrying it out ---- */

static int by_parent(const void *a, const void *b)
{
	const struct verdict *x = a, *y = b;

	if (x->parent->id != y->parent->id)
		return x->parent->id < y->parent->id ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* The sequence with the entries of a container. */
static struct ckpt_seq *entries_of(struct ckpt_value *v)
{
	if (v->kind != CKPT_CALL)
		return &v->u.seq;
	return v->u.call->pairs.count ? &v->u.call->pairs : &v->u.call->items;
}

static struct ckpt_value *copy_of(struct selector *s, const struct ckpt_value *v)
{
	struct ckpt_value *copy = ckpt_arena_alloc(s->to->arena, sizeof(*copy));
	struct ckpt_call *call;

	if (!copy)
		return NULL;
	*copy = *v;
	if (v->kind == CKPT_CALL) {
		call = ckpt_arena_alloc(s->to->arena, sizeof(*call));
		if (!call)
			return NULL;
		*call = *v->u.call;
		copy->u.call = call;
	}
	return copy;
}

/* VERDICTS are those on all entries of one container. */
static int filter(struct selector *s, const struct verdict *verdicts, uint32_t count,
		  struct ckpt_error *err)
{
	struct ckpt_value *copy = copy_of(s, verdicts->parent);
	uint32_t width = ckpt_value_pairs(verdicts->parent) ? 2 : 1;
	struct ckpt_seq old, *seq;

	if (!copy)
		return ckpt_arena_fail(s->to->arena, err);
	seq = entries_of(copy);
	old = *seq;
	*seq = (struct ckpt_seq){ 0 };
	for (uint32_t i = 0; i < count; i++)
		if (verdicts[i].keep &&
		    !ckpt_seq_add_many(s->to->arena, seq, old.items + verdicts[i].index, width))
			return ckpt_arena_fail(s->to->arena, err);
	return ckpt_model_replace(s->to, copy, err);
}

static int filter_all(struct selector *s, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < s->count; i++) {
		const struct verdict *v = &s->verdicts[i];

		s->dropped += !v->keep && (v->above == NO_VERDICT || s->verdicts[v->above].keep);
	}
	if (s->count)
		qsort(s->verdicts, s->count, sizeof(*s->verdicts), by_parent);
	for (uint32_t i = 0, end; rc == 0 && i < s->count; i = end) {
		uint32_t dropped = 0;

		for (end = i; end < s->count && s->verdicts[end].parent == s->verdicts[i].parent;
		     end++)
			dropped += !s->verdicts[end].keep;
		if (dropped)
			rc = filter(s, &s->verdicts[i], end - i, err);
	}
	return rc;
}

int ckpt_select(const struct ckpt_model *model, const char *const *keep, size_t keep_count,
		const char *const *drop, size_t drop_count, struct ckpt_model **out,
		struct ckpt_edit_report *report, struct ckpt_error *err)
{
	struct selector s = { .from = model,
			      .keep = { keep, keep_count, NULL, NULL },
			      .drop = { drop, drop_count, NULL, NULL },
			      .kept_depth = SIZE_MAX,
			      .whole_depth = SIZE_MAX };
	struct ckpt_edit_report did = CKPT_EDIT_REPORT_INIT;
	int rc = ckpt_sized_check(report, sizeof(did), err);

	*out = NULL;
	if (rc == 0)
		rc = compile(&s.keep, err);
	if (rc == 0)
		rc = compile(&s.drop, err);
	if (rc == 0)
		rc = ckpt_model_derive(model, &s.to, err);
	if (rc == 0)
		rc = ckpt_model_walk(model, judge, &s, err);
	if (rc == 0)
		rc = note_unmatched(&s, &did, err);
	if (rc == 0)
		rc = filter_all(&s, err);
	clear(&s.keep);
	clear(&s.drop);
	free(s.verdicts);
	free(s.above);
	if (rc < 0) {
		ckpt_close(s.to);
		return rc;
	}
	did.entries_dropped = s.dropped;
	did.tensors_dropped = ckpt_tensor_count(model) - ckpt_tensor_count(s.to);
	ckpt_sized_give(report, &did);
	*out = s.to;
	return 0;
}
