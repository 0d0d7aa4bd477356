/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt edit --set`: one number, text, True, False or None becomes another one.
 *
 * As in Python, d["epoch"] = 0 changes the dict and no other place that showed the same number or text; where the dict
 * itself is in several places, all of them show it. So a copy of what holds the value takes its place, by its id, and the value
 * is new. A tuple cannot be changed in Python, only replaced: one that is in several places is refused.
 */
#include "base/ascii.h"
#include "base/double.h"
#include "base/flags.h"
#include "base/json.h"
#include "base/sized.h"
#include "base/text.h"
#include "model/find.h"
#include "model/numpy_value.h"
#include "model/plain_values.h"
#include "model/repr.h"

#include <ckpt/edit.h>

#include <stdlib.h>
#include <string.h>

struct setter {
	struct ckpt_model *to;
	const char *name, *text;
	struct ckpt_error *err;
};

/* ---- the new value ---- */

/* Messages name the value, and the text that was given; "an int", "a str". */
static int fail_text(const struct setter *s, const char *is, const char *wanted)
{
	char name[120], text[120];

	return ckpt_fail(s->err, CKPT_E_ARG, "'%s' is %s, and '%s' is %s",
			 ckpt_escape(name, sizeof(name), s->name, strlen(s->name)), is,
			 ckpt_escape(text, sizeof(text), s->text, strlen(s->text)), wanted);
}

static int new_int(const struct setter *s, const struct ckpt_value **out)
{
	const char *p = s->text;
	bool negative = *p == '-', over = false;
	int64_t v = 0;

	p += *p == '-' || *p == '+';
	if (!*p)
		return fail_text(s, "an int", "none");
	for (; ckpt_is_digit((unsigned char)*p); p++) {
		over |= __builtin_mul_overflow(v, (int64_t)10, &v);
		over |= negative ? __builtin_sub_overflow(v, (int64_t)(*p - '0'), &v)
				 : __builtin_add_overflow(v, (int64_t)(*p - '0'), &v);
	}
	if (*p)
		return fail_text(s, "an int", "none");
	if (over)
		return fail_text(s, "an int", "too large for 64 bits");
	*out = ckpt_plain_int(s->to, v);
	return *out ? 0 : ckpt_arena_fail(s->to->arena, s->err);
}

static int new_float(const struct setter *s, const struct ckpt_value **out)
{
	char *end;
	double v = ckpt_double_parse(s->text, &end);
	size_t len = strlen(s->text);

	/* what strtod() takes and Python's float() does not: hex, and characters in a NaN */
	if (!len || *end || strpbrk(s->text, "xX( \t\n\v\f\r"))
		return fail_text(s, "a float", "no number");
	*out = ckpt_plain_float(s->to, v);
	return *out ? 0 : ckpt_arena_fail(s->to->arena, s->err);
}

static int new_text(const struct setter *s, const char *text, size_t len,
		    const struct ckpt_value **out)
{
	if (!ckpt_utf8_ok(text, len))
		return fail_text(s, "a text", "not UTF-8");
	*out = ckpt_model_new_str(s->to, text, len);
	return *out ? 0 : ckpt_arena_fail(s->to->arena, s->err);
}

/* The text as a value of the type that is there. */
static int new_of_type(const struct setter *s, const struct ckpt_value *was,
		       const struct ckpt_value **out)
{
	switch (was->kind) {
	case CKPT_INT:
	case CKPT_BIGINT: return new_int(s, out);
	case CKPT_FLOAT: return new_float(s, out);
	case CKPT_STR:
	case CKPT_PY2_STR: return new_text(s, s->text, strlen(s->text), out);
	case CKPT_BOOL:
		*out = &ckpt_value_true;
		if (!strcmp(s->text, "True") || !strcmp(s->text, "true"))
			return 0;
		*out = &ckpt_value_false;
		if (!strcmp(s->text, "False") || !strcmp(s->text, "false"))
			return 0;
		return fail_text(s, "a bool", "neither True nor False");
	default:
		*out = &ckpt_value_none;
		if (!strcmp(s->text, "None"))
			return 0;
		return fail_text(s, "None", "of another type");
	}
}

/* The text as JSON, which says the type. */
static int new_of_json(const struct setter *s, const struct ckpt_value **out)
{
	json_error_t wrong;
	json_t *j = ckpt_json_load(s->text, strlen(s->text), JSON_DECODE_ANY | JSON_ALLOW_NUL, &wrong);
	char text[120];
	int rc = 0;

	switch (j ? json_typeof(j) : JSON_OBJECT) {
	case JSON_INTEGER: *out = ckpt_plain_int(s->to, json_integer_value(j)); break;
	case JSON_REAL: *out = ckpt_plain_float(s->to, json_real_value(j)); break;
	case JSON_TRUE: *out = &ckpt_value_true; break;
	case JSON_FALSE: *out = &ckpt_value_false; break;
	case JSON_NULL: *out = &ckpt_value_none; break;
	case JSON_STRING: rc = new_text(s, json_string_value(j), json_string_length(j), out); break;
	default:
		rc = ckpt_fail(s->err, CKPT_E_ARG,
			       !j && json_error_code(&wrong) == json_error_numeric_overflow ?
				       "'%s' is a number that is too large: integers have 64 bits" :
				       "'%s' is no number, text, true, false or null in JSON",
			       ckpt_escape(text, sizeof(text), s->text, strlen(s->text)));
	}
	json_decref(j);
	return rc == 0 && !*out ? ckpt_arena_fail(s->to->arena, s->err) : rc;
}

static bool are_equal(const struct ckpt_value *a, const struct ckpt_value *b)
{
	if (a->kind != b->kind)
		return false;
	if (ckpt_value_is_text(a))
		return a->u.bytes.len == b->u.bytes.len &&
		       (!a->u.bytes.len || !memcmp(a->u.bytes.ptr, b->u.bytes.ptr, a->u.bytes.len));
	if (a->kind == CKPT_FLOAT)
		return !memcmp(&a->u.real, &b->u.real, sizeof(a->u.real));
	return a->kind == CKPT_NONE || a->u.integer == b->u.integer;
}

/* ---- in its place ---- */

/* A copy, with the same id, in which the slot has ITEM. */
static int fill_slot(struct setter *s, const struct ckpt_slot *slot, const struct ckpt_value *item)
{
	struct ckpt_arena *arena = s->to->arena;
	struct ckpt_value *copy = ckpt_arena_alloc(arena, sizeof(*copy));
	struct ckpt_seq *seq, fresh = { 0 };

	if (!copy)
		return ckpt_arena_fail(arena, s->err);
	*copy = *slot->holder;
	seq = &copy->u.seq;
	if (slot->part != CKPT_SLOT_SEQ) {
		struct ckpt_call *call = ckpt_arena_alloc(arena, sizeof(*call));

		if (!call)
			return ckpt_arena_fail(arena, s->err);
		*call = *copy->u.call;
		copy->u.call = call;
		seq = slot->part == CKPT_SLOT_ITEMS ? &call->items : &call->pairs;
	}
	if (!ckpt_seq_add_many(arena, &fresh, seq->items, seq->count))
		return ckpt_arena_fail(arena, s->err);
	fresh.items[slot->index] = item;
	*seq = fresh;
	return ckpt_model_replace(s->to, copy, s->err);
}

/* What is there can be set, and where it is, it can be another one. */
static int check_place(const struct setter *s, const struct ckpt_value *was,
		       const struct ckpt_slot *slot, bool json)
{
	struct ckpt_numpy n;
	char name[160];
	bool is_scalar = json && ckpt_numpy_parse(s->to, was, &n) && n.is_scalar;

	ckpt_escape(name, sizeof(name), s->name, strlen(s->name));
	if (was->kind > CKPT_PY2_STR && !is_scalar)
		return ckpt_fail(
			s->err, CKPT_E_UNSUPPORTED,
			"'%s' is %s%s, and only a number, a text, True, False or None can be set",
			name, was->kind == CKPT_CALL ? "" : "a ",
			ckpt_value_is_tensor(s->to, was) ? "a tensor"
			: ckpt_numpy_parse(s->to, was, &n)
				? n.is_scalar ? "a scalar of numpy" : "an array of numpy"
			: was->kind == CKPT_CALL ? "an object"
						 : ckpt_value_kind_name(was));
	if (!slot->holder && was != ckpt_model_now(s->to, s->to->root))
		return ckpt_fail(s->err, CKPT_E_UNSUPPORTED,
				 "'%s' is part of how an object is made, or of a set", name);
	if (slot->holder && slot->holder->kind == CKPT_TUPLE &&
	    slot->holder->flags & CKPT_VALUE_SHARED)
		return ckpt_fail(s->err, CKPT_E_UNSUPPORTED,
				 "'%s' is in a tuple that stands in several places", name);
	return 0;
}

static const char *repr_of(const struct setter *s, const struct ckpt_value *v)
{
	struct ckpt_buf text = { 0 };
	const char *copy = NULL;

	ckpt_value_repr(v, &text);
	if (!text.bad)
		copy = ckpt_arena_copy(s->to->arena, text.data, text.len);
	ckpt_buf_clear(&text);
	return copy;
}

static int report_change(const struct setter *s, const struct ckpt_value *was,
			 const struct ckpt_value *is, struct ckpt_edit_report *did)
{
	struct ckpt_edit_change *change = ckpt_arena_calloc(s->to->arena, 1, sizeof(*change));

	if (!change)
		return ckpt_arena_fail(s->to->arena, s->err);
	change->name = ckpt_arena_copy(s->to->arena, s->name, strlen(s->name));
	change->was = repr_of(s, was);
	change->is = repr_of(s, is);
	did->changes = change;
	did->change_count = 1;
	return change->name && change->was && change->is ? 0
							 : ckpt_arena_fail(s->to->arena, s->err);
}

static int set_value(struct setter *s, unsigned flags, struct ckpt_edit_report *did)
{
	const struct ckpt_value *was, *fresh = NULL;
	struct ckpt_slot slot;
	bool json = flags & CKPT_SET_JSON;
	int rc = ckpt_model_find_slot(s->to, s->name, &was, &slot, s->err);

	if (rc == 0)
		rc = check_place(s, was, &slot, json);
	if (rc == 0)
		rc = json ? new_of_json(s, &fresh) : new_of_type(s, was, &fresh);
	if (rc < 0 || are_equal(was, fresh))
		return rc;
	if (slot.holder)
		rc = fill_slot(s, &slot, fresh);
	else
		s->to->root = fresh;
	return rc < 0 ? rc : report_change(s, was, fresh, did);
}

int ckpt_set(const struct ckpt_model *model, const char *name, const char *text, unsigned flags,
	     struct ckpt_model **out, struct ckpt_edit_report *report, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct ckpt_edit_report did = CKPT_EDIT_REPORT_INIT;
	struct setter s = { .name = name, .text = text, .err = err };

	*out = NULL;
	if (rc == 0)
		rc = ckpt_flags_check(flags, CKPT_SET_JSON, err);
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(did), err);
	if (rc == 0)
		rc = ckpt_model_derive(model, &s.to, err);
	if (rc == 0)
		rc = set_value(&s, flags, &did);
	if (rc < 0) {
		ckpt_close(s.to);
		return rc;
	}
	ckpt_sized_give(report, &did, sizeof(did));
	*out = s.to;
	return 0;
}
