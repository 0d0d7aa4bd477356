/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt sanitize`: what torch.load(weights_only=True) refuses becomes plain data, as far as its
 * meaning can be told without calling anything. plain_*.c know what an object means;
 * model/safe_globals.c knows what torch refuses.
 *
 * One pass replaces the outermost values that need it; what was inside of them is met in the next
 * one. A model that is walked does not change: each pass makes the next model. In the last pass
 * nothing is replaced, and what is still refused is an error, so that a result without an error
 * is one that torch loads. Keys and items of sets are not met by the walk: they are looked at
 * with their container, must stay hashable, and must stay different from each other. What is
 * inside a tensor belongs to it and stays.
 */
#include "base/grow.h"
#include "base/sized.h"
#include "base/text.h"
#include "edit/plain.h"
#include "model/module.h"
#include "model/plain_values.h"
#include "model/safe_globals.h"
#include "model/walk.h"

#include <ckpt/edit.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PASSES = 40 };

/*
 * Values by their numbers: a tuple that is shared in tuples that are shared would be met 2 to the
 * power of their depth times.
 */
struct id_set {
	uint8_t *bits; /* malloc */
	size_t size;
};

struct sanitizer {
	struct ckpt_model *to;
	bool last;	     /* nothing is replaced any more: look what is left */
	bool gave_up;	     /* ... because there were MOST_PASSES, and not because all was replaced */
	/* inside a tensor as long as the walk is deeper: its parts are its own */
	size_t tensor_depth;
	uint64_t replaced;		  /* in this pass */
	struct ckpt_edit_change *changes; /* malloc; texts in the arena of TO */
	uint32_t count, cap;
	struct id_set visited;	 /* tuples in keys, in this pass */
	struct id_set hashed;	 /* tuples that were found to be good keys */
};

/* 1: V was not in SET, or has no number and is never shared; 0: it was; less: an error. */
static int is_first(struct id_set *set, const struct ckpt_value *v, struct ckpt_error *err)
{
	size_t at = v->id / 8;
	uint8_t bit = (uint8_t)(1u << v->id % 8);

	if (!v->id)
		return 1;
	if (at >= set->size) {
		size_t size = at * 2 + 64;
		uint8_t *grown = realloc(set->bits, size);

		if (!grown)
			return ckpt_fail_nomem(err);
		memset(grown + set->size, 0, size - set->size);
		set->bits = grown;
		set->size = size;
	}
	if (set->bits[at] & bit)
		return 0;
	set->bits[at] |= bit;
	return 1;
}

static const struct ckpt_value *now(const struct sanitizer *s, const struct ckpt_value *v)
{
	return ckpt_model_now(s->to, v);
}

static const struct ckpt_value *new_text(struct sanitizer *s, const char *text)
{
	return ckpt_model_new_str(s->to, text, strlen(text));
}

/* ---- which, and what ---- */

/*
 * _codecs.encode('', 'latin1'): the form of empty bytes that is allowed, and is not to be written
 * otherwise.
 */
static const struct ckpt_value *empty_bytes(struct sanitizer *s)
{
	const struct ckpt_value *items[2] = { new_text(s, ""), new_text(s, "latin1") };
	struct ckpt_value *call = ckpt_plain_call(s->to, "_codecs", "encode", items, 2);

	if (call)
		call->flags |= CKPT_VALUE_FINAL;
	return call;
}

static bool is_empty_bytes(struct sanitizer *s, const struct ckpt_value *v)
{
	const uint8_t *bytes;
	uint64_t len;

	return !(v->flags & CKPT_VALUE_FINAL) && v->kind != CKPT_PY2_STR &&
	       ckpt_plain_bytes(s->to, v, &bytes, &len) && !len;
}

static const struct ckpt_value *make_plain(struct sanitizer *s, const struct ckpt_value *v,
					   struct ckpt_error *err)
{
	const struct ckpt_value *func = now(s, v->u.call->func), *made;

	if (func->kind != CKPT_GLOBAL)
		return NULL;
	if (is_empty_bytes(s, v))
		return empty_bytes(s);
	if (ckpt_is_module(s->to, v))
		return ckpt_module_state_dict(s->to, v, NULL, err);
	made = ckpt_plain_from_numpy(s->to, v, err);
	if (!made)
		made = ckpt_plain_from_omegaconf(s->to, v);
	if (!made)
		made = ckpt_plain_from_library(s->to, v, func->u.global);
	if (!made)
		made = ckpt_plain_from_filled(s->to, v);
	return made ? made : ckpt_plain_from_object(s->to, v);
}

static bool is_refused(struct sanitizer *s, const struct ckpt_value *v)
{
	const struct ckpt_value *func;

	if (v->kind == CKPT_BYTES)
		return !v->u.bytes.len;
	if (v->kind == CKPT_BIGINT)
		return v->u.bytes.len > 255;

	if (v->kind == CKPT_GLOBAL)
		return !ckpt_is_safe_global(v->u.global->module, v->u.global->name);
	if (v->kind == CKPT_FROZENSET || v->kind == CKPT_EXT)
		return true;
	if (v->kind != CKPT_CALL)
		return false;
	func = now(s, v->u.call->func);
	return func->kind != CKPT_GLOBAL || v->u.call->items.count || is_empty_bytes(s, v) ||
	       !ckpt_is_safe_global(func->u.global->module, func->u.global->name);
}

/* A value with the id of OLD, to stand in its place. */
static const struct ckpt_value *copy_with_id(struct sanitizer *s, const struct ckpt_value *old,
					     const struct ckpt_value *fresh)
{
	struct ckpt_value *copy = ckpt_arena_alloc(s->to->arena, sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = *fresh;
	copy->id = old->id;
	return copy;
}

static const char *type_of(struct sanitizer *s, const struct ckpt_value *v)
{
	const struct ckpt_value *func = v->kind == CKPT_CALL ? now(s, v->u.call->func) : NULL;
	char shown[120];

	if (v->kind == CKPT_CALL && ckpt_value_is_tensor(s->to, v))
		return "tensor";
	if (!func || func->kind != CKPT_GLOBAL)
		return v->kind == CKPT_GLOBAL ? "class" : ckpt_value_kind_name(v);
	if (!strcmp(func->u.global->name, "scalar") ||
	    !strcmp(func->u.global->name, "_reconstruct") ||
	    !strcmp(func->u.global->name, "_frombuffer"))
		return func->u.global->name[0] == 's' ? "numpy scalar" : "numpy array";
	ckpt_escape(shown, sizeof(shown), func->u.global->name, func->u.global->name_len);
	return ckpt_arena_copy(s->to->arena, shown, strlen(shown));
}

static int note_change(struct sanitizer *s, const struct ckpt_walk_step *step,
		       const struct ckpt_value *was, const struct ckpt_value *fresh,
		       struct ckpt_error *err)
{
	struct ckpt_edit_change *change = ckpt_grow(s->changes, s->count, &s->cap, sizeof(*change));

	if (!change)
		return ckpt_fail_nomem(err);
	s->changes = change;
	change = &s->changes[s->count++];
	change->name = ckpt_arena_copy(s->to->arena, step->name, step->name_len);
	change->was = type_of(s, was);
	change->is = type_of(s, fresh);
	s->replaced++;
	return change->name && change->was && change->is ? 0 : ckpt_fail_nomem(err);
}

/* V is what hangs at the step, or a key in it. */
static int fail_refused(struct sanitizer *s, const struct ckpt_walk_step *step,
			const struct ckpt_value *v, struct ckpt_error *err)
{
	const struct ckpt_value *func = v->kind == CKPT_CALL ? now(s, v->u.call->func) : v;
	char shown[160], module[100] = "?", name[100] = "?";

	if (func->kind == CKPT_BIGINT)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "'%s' is an integer of %" PRIu64
				 " bytes, weights_only reads up to 255",
				 ckpt_escape(shown, sizeof(shown), step->name, step->name_len),
				 func->u.bytes.len);
	if (func->kind == CKPT_GLOBAL) {
		ckpt_escape(module, sizeof(module), func->u.global->module,
			    func->u.global->module_len);
		ckpt_escape(name, sizeof(name), func->u.global->name, func->u.global->name_len);
	}
	return ckpt_fail(err, CKPT_E_UNSUPPORTED, "'%s' cannot be told without calling %s.%s",
			 ckpt_escape(shown, sizeof(shown), step->name, step->name_len), module,
			 name);
}

static const struct ckpt_value *class_name(struct sanitizer *s, const struct ckpt_value *v)
{
	char text[400];

	snprintf(text, sizeof(text), "%.190s.%.190s", v->u.global->module, v->u.global->name);
	return new_text(s, text);
}

/* What stands for V, or NULL: it is not known, or no memory. */
static const struct ckpt_value *make_replacement(struct sanitizer *s, const struct ckpt_value *v,
						 struct ckpt_error *err)
{
	switch (v->kind) {
	case CKPT_CALL: return make_plain(s, v, err);
	case CKPT_GLOBAL: return class_name(s, v);
	case CKPT_FROZENSET: return ckpt_plain_seq(s->to, CKPT_SET, v->u.seq.items, v->u.seq.count);
	case CKPT_BYTES: return empty_bytes(s);
	default: return NULL;
	}
}

/* V is left behind the last pass. */
static int fail_left(struct sanitizer *s, const struct ckpt_walk_step *step,
		     const struct ckpt_value *v, struct ckpt_error *err)
{
	struct ckpt_error reason = CKPT_ERROR_INIT;
	char shown[160];

	if (!s->gave_up || !make_replacement(s, v, &reason))
		return fail_refused(s, step, v, err);
	return ckpt_fail(err, CKPT_E_LIMIT, "'%s' is inside of more than %d objects, one in another",
			 ckpt_escape(shown, sizeof(shown), step->name, step->name_len), MOST_PASSES - 1);
}

/* What may be a key: Python hashes no dicts, lists and sets. */
static bool can_be_key(const struct ckpt_value *v)
{
	return v->kind < CKPT_TUPLE || ckpt_value_is_call_of(v, "builtins", "complex") ||
	       ckpt_value_is_call_of(v, "_codecs", "encode");
}

/* 1: V was replaced. */
static int replace_value(struct sanitizer *s, const struct ckpt_walk_step *step,
			 const struct ckpt_value *v, bool is_key, struct ckpt_error *err)
{
	struct ckpt_error reason =
		CKPT_ERROR_INIT; /* why nothing can stand for it, which need not be told yet */
	const struct ckpt_value *fresh;
	int rc;

	if (v->id && now(s, v) != v) /* met again under another name */
		return 1;
	fresh = v->id ? make_replacement(s, v, &reason) : NULL;
	if (!fresh && reason.status == CKPT_E_NOMEM)
		return ckpt_fail_nomem(err);
	if (!fresh || (is_key && !can_be_key(fresh)))
		return 0; /* the last pass says so, if it is still there */
	rc = note_change(s, step, v, fresh, err);
	fresh = rc == 0 ? copy_with_id(s, v, fresh) : NULL;
	if (rc == 0 && !fresh)
		rc = ckpt_arena_fail(s->to->arena, err);
	if (rc == 0)
		rc = ckpt_model_replace(s->to, fresh, err);
	return rc < 0 ? rc : 1;
}

enum { MOST_TUPLES = 32 };

/* A key, and what is in it if it is a tuple: neither is met on the walk. */
static int sanitize_key(struct sanitizer *s, const struct ckpt_walk_step *step,
			const struct ckpt_value *key, unsigned depth, struct ckpt_error *err)
{
	int rc = 0;

	key = now(s, key);
	if (is_refused(s, key))
		rc = s->last ? fail_left(s, step, key, err)
			     : replace_value(s, step, key, true, err);
	else if (key->kind == CKPT_TUPLE && depth < MOST_TUPLES &&
		 (rc = is_first(&s->visited, key, err)) > 0)
		for (uint32_t i = 0; rc >= 0 && i < key->u.seq.count; i++)
			rc = sanitize_key(s, step, key->u.seq.items[i], depth + 1, err);
	return rc < 0 ? rc : 0;
}

static int sanitize_keys(struct sanitizer *s, const struct ckpt_walk_step *step,
			 struct ckpt_error *err)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(step->value);
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && pairs && i < pairs->count; i += 2)
		rc = sanitize_key(s, step, pairs->items[i], 0, err);
	return rc;
}

/*
 * *BAD: what Python cannot hash in V, which becomes a key or an item of a set, or as it was: it
 * can.
 */
static int find_not_hashed(struct sanitizer *s, const struct ckpt_value *v, unsigned depth,
			   const struct ckpt_value **bad, struct ckpt_error *err)
{
	int rc = 0;

	v = now(s, v);
	if (v->kind == CKPT_TUPLE && depth < MOST_TUPLES && (rc = is_first(&s->hashed, v, err)) > 0)
		for (uint32_t i = 0; rc >= 0 && !*bad && i < v->u.seq.count; i++)
			rc = find_not_hashed(s, v->u.seq.items[i], depth + 1, bad, err);
	if (v->kind == CKPT_BYTEARRAY || v->kind == CKPT_LIST || v->kind == CKPT_DICT ||
	    v->kind == CKPT_SET || ckpt_value_is_call_of(v, "builtins", "set") ||
	    ckpt_value_is_call_of(v, "__builtin__", "set") ||
	    ckpt_value_is_call_of(v, "builtins", "bytearray") ||
	    ckpt_value_is_call_of(v, "__builtin__", "bytearray") ||
	    (ckpt_value_pairs(v) && !ckpt_value_is_tensor(s->to, v)))
		*bad = v;
	return rc < 0 ? rc : 0;
}

/* Texts that were different things: SEEN has those before KEY. 1: it is among them. */
static int is_there_twice(struct ckpt_strmap *seen, const struct ckpt_value *key,
			  struct ckpt_error *err)
{
	bool there = false;

	if (key->kind == CKPT_STR &&
	    !ckpt_strmap_insert(seen, key->u.bytes.ptr, key->u.bytes.len, 0, &there))
		return ckpt_fail_nomem(err);
	return there;
}

/*
 * Keys, or the items of a set, from I on and each STEP-th: what was made of them has to be
 * different still, and what Python hashes.
 */
static int check_hashed(struct sanitizer *s, const struct ckpt_walk_step *step,
			const struct ckpt_seq *seq, uint32_t every, struct ckpt_error *err)
{
	struct ckpt_strmap seen = { 0 };
	bool any_replaced = false;
	char shown[160], text[80];
	int rc = 0;

	for (uint32_t i = 0; i < seq->count; i += every)
		any_replaced |=
			now(s, seq->items[i]) != seq->items[i] || seq->items[i]->kind >= CKPT_TUPLE;
	ckpt_escape(shown, sizeof(shown), step->name, step->name_len);
	for (uint32_t i = 0; rc == 0 && any_replaced && i < seq->count; i += every) {
		const struct ckpt_value *key = now(s, seq->items[i]), *bad = NULL;

		rc = find_not_hashed(s, key, 0, &bad, err);
		if (rc < 0)
			break;
		if (bad)
			rc = ckpt_fail(
				err, CKPT_E_UNSUPPORTED,
				"'%s' would have a %s as a key or in a set, which Python cannot hash",
				shown, type_of(s, bad));
		else
			rc = is_there_twice(&seen, key, err);
		if (rc > 0)
			rc = ckpt_fail(err, CKPT_E_CLASH, "'%s' would have '%s' twice", shown,
				       ckpt_escape(text, sizeof(text), key->u.bytes.ptr,
						   key->u.bytes.len));
	}
	ckpt_strmap_clear(&seen);
	return rc;
}

/* Behind all passes: dicts and sets in which something was replaced. */
static int check_keys(struct sanitizer *s, const struct ckpt_walk_step *step,
		      struct ckpt_error *err)
{
	const struct ckpt_value *v = step->value, *list = NULL;
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);

	if (ckpt_value_is_call_of(v, "builtins", "set") ||
	    ckpt_value_is_call_of(v, "__builtin__", "set"))
		list = ckpt_plain_arg(s->to, v, 0);
	if (pairs)
		return check_hashed(s, step, pairs, 2, err);
	if (v->kind == CKPT_SET || (list && (list->kind == CKPT_LIST || list->kind == CKPT_TUPLE)))
		return check_hashed(s, step, v->kind == CKPT_SET ? &v->u.seq : &list->u.seq, 1,
				    err);
	return 0;
}

static int visit_value(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct sanitizer *s = ctx;
	const struct ckpt_value *v = step->value;
	int rc = 0;

	if (step->depth <= s->tensor_depth)
		s->tensor_depth = SIZE_MAX;
	if (s->tensor_depth == SIZE_MAX && ckpt_value_is_tensor(s->to, v))
		s->tensor_depth = step->depth;
	if (s->tensor_depth == SIZE_MAX && !step->seen)
		rc = sanitize_keys(s, step, err);
	if (rc == 0 && s->last && s->count && s->tensor_depth == SIZE_MAX && !step->seen)
		rc = check_keys(s, step, err);
	if (rc < 0 || !is_refused(s, v))
		return rc < 0 ? rc : CKPT_WALK_ENTER;
	if (s->last)
		return fail_left(s, step, v, err);
	if (s->tensor_depth != SIZE_MAX)
		return CKPT_WALK_ENTER; /* the last pass says so */
	rc = replace_value(s, step, v, false, err);
	return rc < 0 ? rc : rc > 0 ? CKPT_WALK_SKIP : CKPT_WALK_ENTER;
}

/* Protocols that the restricted unpickler reads. */
static void choose_protocol(struct sanitizer *s)
{
	uint8_t is = s->to->protocol ? s->to->protocol : s->to->doc->pickle.protocol;

	if (is != 2)
		s->to->protocol = 2;
}

/* A model that is walked does not change: what is replaced is in the next one. */
static int make_pass(struct sanitizer *s, struct ckpt_error *err)
{
	struct ckpt_model *before = s->to;
	int rc = ckpt_model_derive(before, &s->to, err);

	if (rc < 0) {
		s->to = before;
		return rc;
	}
	s->replaced = 0;
	s->tensor_depth = SIZE_MAX;
	if (s->visited.size)
		memset(s->visited.bits, 0, s->visited.size);
	rc = ckpt_model_walk(before, visit_value, s, err);
	ckpt_close(before); /* the next one keeps it alive */
	return rc;
}

int ckpt_sanitize(const struct ckpt_model *model, struct ckpt_model **out,
		  struct ckpt_edit_report *report, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct ckpt_edit_report did = CKPT_EDIT_REPORT_INIT;
	struct sanitizer s = { 0 };

	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(did), err);
	*out = NULL;
	if (rc == 0)
		rc = ckpt_model_derive(model, &s.to, err);
	for (int pass = 0; rc == 0 && !s.last && pass <= MOST_PASSES; pass++) {
		s.last = pass > 0 && (!s.replaced || pass == MOST_PASSES);
		s.gave_up = s.last && s.replaced;
		rc = make_pass(&s, err);
	}
	if (rc == 0) {
		did.protocol_changed = s.to->doc->pickle.protocol != 2 && s.to->protocol != 2;
		choose_protocol(&s);
		did.changes =
			ckpt_arena_alloc(s.to->arena, (s.count + (uint64_t)1) * sizeof(*s.changes));
		did.change_count = s.count;
		rc = did.changes ? 0 : ckpt_arena_fail(s.to->arena, err);
	}
	if (rc == 0 && s.count)
		memcpy((void *)did.changes, s.changes, s.count * sizeof(*s.changes));
	free(s.changes);
	free(s.visited.bits);
	free(s.hashed.bits);
	if (rc < 0) {
		ckpt_close(s.to);
		return rc;
	}
	ckpt_sized_give(report, &did, sizeof(did));
	*out = s.to;
	return 0;
}
