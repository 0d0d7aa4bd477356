/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/values.h"

#include "array/array.h"
#include "diff/kinds.h"
#include "model/describe.h"
#include "model/numpy_value.h"
#include "model/plain_values.h"
#include "pickle/fold.h"
#include "pickle/names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Values that are no tensors. Most hold nothing; sets and objects of numpy are compared as wholes. */

enum {
	MOST_DEPTH = 500,
	MOST_WRITTEN = 1 << 24, /* values */
	LONG_KEY = 4096,	/* bytes */
	MOST_NUMBERS = 1 << 28, /* bytes of tensors and arrays inside of them */
};

enum { OF_NUMBERS = CKPT_OF_NUMPY + 1, OF_ITSELF }; /* beside what ckpt_value_kind_of() returns */

/* ---- a value as bytes that are the same for equal values ---- */

struct writer {
	const struct ckpt_model *model;
	struct ckpt_buf out;
	struct writing *whole;
	bool too_much;
};

/* What the writers of one value share. */
struct writing {
	uint32_t left;	/* how many values may still be written */
	uint64_t bytes; /* of tensors and arrays */
	bool quick;	/* which are not read */
	bool strict;	/* classes, strides and orders are written, too, and numbers and containers as they are */
	const struct ckpt_value *path[MOST_DEPTH + 1]; /* what is being written, by depth */
	const char *why; /* TOO_MUCH: what is; or NULL */
};

static const char TOO_LARGE[] = "holds too much to be compared as one value", NO_NUMBERS[] = "holds a tensor that cannot be compared inside of another value";

static void give_up(struct writer *w, const char *why)
{
	w->too_much = true;
	if (!w->whole->why)
		w->whole->why = why;
}

static void write_value(struct writer *w, const struct ckpt_value *v, unsigned depth);

/* V, or that there is none: what follows cannot be taken for it. */
static void write_optional(struct writer *w, const struct ckpt_value *v, unsigned depth)
{
	ckpt_buf_add_u8(&w->out, v != NULL);
	if (v)
		write_value(w, v, depth);
}

struct piece {
	const uint8_t *bytes;
	size_t off, len;
};

static int compare_pieces(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	int order = memcmp(x->bytes + x->off, y->bytes + y->off, x->len < y->len ? x->len : y->len);

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Items, or STEP = 2: keys with their values, in an order that does not depend on the file. */
static void write_unordered(struct writer *w, const struct ckpt_seq *seq, uint32_t step,
			    unsigned depth)
{
	struct writer inner = { .model = w->model, .whole = w->whole };
	struct piece *pieces = calloc(seq->count + 1u, sizeof(*pieces));
	uint32_t count = 0;

	for (uint32_t i = 0; pieces && i + step <= seq->count; i += step, count++) {
		pieces[count].off = inner.out.len;
		for (uint32_t k = 0; k < step; k++)
			write_value(&inner, seq->items[i + k], depth + 1);
		pieces[count].len = inner.out.len - pieces[count].off;
	}
	for (uint32_t i = 0; i < count; i++)
		pieces[i].bytes = inner.out.data;
	w->too_much |= inner.too_much;
	w->out.bad |= inner.out.bad || !pieces;
	if (!w->out.bad && count)
		qsort(pieces, count, sizeof(*pieces), compare_pieces);
	for (uint32_t i = 0; !w->out.bad && i < count; i++)
		ckpt_buf_add(&w->out, pieces[i].bytes + pieces[i].off, pieces[i].len);
	ckpt_buf_clear(&inner.out);
	free(pieces);
}

static void write_seq(struct writer *w, const struct ckpt_seq *seq, unsigned depth)
{
	ckpt_buf_add_u32(&w->out, seq->count);
	for (uint32_t i = 0; i < seq->count; i++)
		write_value(w, seq->items[i], depth + 1);
}

static void write_bytes(struct writer *w, const void *bytes, uint64_t len)
{
	ckpt_buf_add_u64(&w->out, len);
	ckpt_buf_add(&w->out, bytes, len);
}

/* Keys and their values: in their order where that counts. */
static void write_pairs(struct writer *w, const struct ckpt_seq *pairs, unsigned depth)
{
	if (w->whole->strict) {
		write_seq(w, pairs, depth);
		return;
	}
	ckpt_buf_add_u32(&w->out, pairs->count);
	write_unordered(w, pairs, 2, depth);
}

static void write_set(struct writer *w, const struct ckpt_seq *items, unsigned depth)
{
	ckpt_buf_add_u32(&w->out, items->count);
	write_unordered(w, items, 1, depth);
}

static void write_call(struct writer *w, const struct ckpt_call *call, unsigned depth);

static void write_bytes_call(struct writer *w, const struct ckpt_value *v, unsigned depth)
{
	struct ckpt_arena *scratch = ckpt_arena_new((uint64_t)1 << 32);
	const uint8_t *bytes;
	uint64_t len;

	if (!scratch)
		w->out.bad = true;
	else if (ckpt_plain_bytes_in(w->model, v, scratch, &bytes, &len))
		write_bytes(w, bytes, len);
	else
		write_call(w, v->u.call, depth); /* it has an odd form */
	ckpt_arena_free(scratch);
}

/* ---- tensors and arrays inside of other values ---- */

static void write_text(struct writer *w, const char *text)
{
	write_bytes(w, text, strlen(text));
}

static void write_items(struct writer *w, const struct ckpt_array *a)
{
	uint64_t count = ckpt_array_numel(a), size = ckpt_dtype_size(a->reads), len;
	uint8_t *bytes;

	if (__builtin_mul_overflow(count, size, &len) || len > w->whole->bytes) {
		give_up(w, TOO_LARGE);
		return;
	}
	w->whole->bytes -= len;
	bytes = ckpt_buf_grow(&w->out, len);
	if (bytes && ckpt_array_read(a, 0, count, bytes, NULL) < 0)
		give_up(w, NO_NUMBERS);
}

/* Is it one array that can be read? */
static bool is_readable(const struct ckpt_array *a)
{
	return !a->why_not && (a->t.kind == CKPT_KIND_STRIDED || a->t.kind == CKPT_KIND_NUMPY);
}

/* All that makes the numbers what they are. */
static void write_array(struct writer *w, const struct ckpt_array *a)
{
	ckpt_buf_add_u8(&w->out, OF_NUMBERS);
	write_text(w, a->kind ? a->kind : "");
	write_text(w, a->dtype ? a->dtype : "");
	ckpt_buf_add_u32(&w->out, a->t.ndim);
	for (uint32_t i = 0; i < a->t.ndim; i++)
		ckpt_buf_add_u64(&w->out, a->t.shape[i]);
	if (!w->whole->quick)
		write_items(w, a);
}

/* Of what class it is and how it lies, which only a strict comparison asks. */
static void write_form(struct writer *w, const struct ckpt_value *v, const struct ckpt_array *a)
{
	const struct ckpt_tensor *t = &a->t;
	struct ckpt_numpy n;

	write_text(w, t->class_name ? t->class_name : "");
	ckpt_buf_add_u8(&w->out, (uint8_t)(t->is_parameter | t->requires_grad << 1));
	for (uint32_t i = 0; i < t->ndim; i++)
		ckpt_buf_add_u64(&w->out, t->stride && t->shape[i] > 1 ? t->stride[i] : 0);
	if (ckpt_numpy_parse(w->model, v, &n) > 0) {
		const struct ckpt_value *cls = ckpt_plain_arg_count(w->model, v) ? ckpt_plain_arg(w->model, v, 0) : NULL;

		write_text(w, cls && cls->kind == CKPT_GLOBAL ? cls->u.global->name : "");
		ckpt_buf_add_u8(&w->out, (uint8_t)((n.fortran && n.ndim > 1) | (n.big_endian && ckpt_dtype_size(n.dtype) > 1) << 1));
	}
}

static const struct ckpt_value *attributes_of(const struct ckpt_model *model, const struct ckpt_tensor *t);

/* V: a tensor, or an array of numpy. One that is made of several, or of none, is written as it is put together. */
static void write_numbers(struct writer *w, const struct ckpt_value *v, unsigned depth)
{
	const struct ckpt_value *attributes = NULL;
	struct ckpt_array *array = NULL;

	if (ckpt_array_open_value(w->model, v, "", 0, &array, NULL) < 0 || !is_readable(array)) {
		ckpt_array_close(array);
		ckpt_buf_add_u8(&w->out, CKPT_CALL);
		write_call(w, v->u.call, depth);
		return;
	}
	write_array(w, array);
	if (w->whole->strict)
		write_form(w, v, array);
	if (array->t.value == v)
		attributes = attributes_of(w->model, &array->t);
	write_optional(w, attributes, depth + 1);
	ckpt_array_close(array);
}

static void write_storage(struct writer *w, const struct ckpt_value *v)
{
	struct ckpt_array *array;

	if (ckpt_array_of_storage(w->model, ckpt_storage_of(v), "", &array, NULL) < 0) {
		give_up(w, NO_NUMBERS);
		return;
	}
	write_array(w, array);
	ckpt_array_close(array);
}

static bool is_dtype(const struct ckpt_model *model, const struct ckpt_value *v)
{
	return v->kind == CKPT_CALL && ckpt_value_is_global(ckpt_model_now(model, v->u.call->func), "numpy", "dtype");
}

/* The dtype among the arguments of an array, or in its state; NULL: there is none, or it is known by name. */
static const struct ckpt_value *dtype_in(const struct ckpt_model *model, const struct ckpt_value *tuple)
{
	tuple = tuple ? ckpt_model_now(model, tuple) : NULL;
	for (uint32_t i = 0; tuple && tuple->kind == CKPT_TUPLE && i < tuple->u.seq.count; i++) {
		const struct ckpt_value *v = ckpt_model_now(model, tuple->u.seq.items[i]);

		if (is_dtype(model, v))
			return v;
	}
	return NULL;
}

/* dtype and shape, and the number or what the items are made of */
static void write_numpy(struct writer *w, const struct ckpt_value *v, unsigned depth)
{
	const struct ckpt_value *dtype;
	struct ckpt_numpy n;

	if (!ckpt_numpy_parse(w->model, v, &n))
		return;
	if (n.dtype != CKPT_DTYPE_UNKNOWN && !n.is_scalar) {
		write_numbers(w, v, depth);
		return;
	}
	ckpt_numpy_text(w->model, &n, &w->out);
	if (n.dtype != CKPT_DTYPE_UNKNOWN)
		return;
	dtype = dtype_in(w->model, v->u.call->args);
	if (!dtype)
		dtype = dtype_in(w->model, v->u.call->state);
	write_optional(w, dtype, depth + 1);
	write_optional(w, n.data, depth + 1);
}

/* ('M8', False, True): the others are the same in all that numpy writes, as truth values or as numbers. */
static void write_dtype(struct writer *w, const struct ckpt_call *call, unsigned depth)
{
	const struct ckpt_value *args = ckpt_model_now(w->model, call->args);

	if (args->kind == CKPT_TUPLE && args->u.seq.count)
		write_value(w, args->u.seq.items[0], depth + 1);
	write_optional(w, call->state, depth + 1);
}

static void write_call(struct writer *w, const struct ckpt_call *call, unsigned depth)
{
	ckpt_buf_add_u8(&w->out, call->kind);
	write_value(w, call->func, depth + 1);
	write_value(w, call->args, depth + 1);
	write_optional(w, call->kwargs, depth + 1);
	write_seq(w, &call->items, depth);
	write_pairs(w, &call->pairs, depth);
	write_optional(w, call->state, depth + 1);
}

/* What a FOLDED stands for. */
static void write_folded(struct writer *w, const struct ckpt_value *v, unsigned depth)
{
	struct ckpt_arena *scratch = ckpt_arena_new(1 << 20);
	const struct ckpt_value *unfolded = scratch ? ckpt_unfold(v, scratch) : NULL;

	if (unfolded)
		write_value(w, unfolded, depth);
	else
		w->out.bad = true;
	ckpt_arena_free(scratch);
}

/* It is written how far above it stands. */
static bool is_inside_itself(struct writer *w, const struct ckpt_value *v, unsigned depth)
{
	w->whole->path[depth] = v;
	for (unsigned i = 0; v->id && v->kind >= CKPT_TUPLE && i < depth; i++)
		if (w->whole->path[i] == v) {
			ckpt_buf_add_u8(&w->out, OF_ITSELF);
			ckpt_buf_add_u32(&w->out, depth - i);
			return true;
		}
	return false;
}

/* As Python 2 spells it, as protocol 2 does: range is xrange. */
static void write_global(struct writer *w, const struct ckpt_global *g)
{
	const char *module, *name;

	ckpt_python2_name(g->module, g->name, &module, &name);
	write_text(w, module);
	write_text(w, name);
}

/* 0 and -0 are equal, and what is no number is: a strict comparison tells the zeros apart. */
static void write_float(struct writer *w, double number)
{
	if (isnan(number))
		number = NAN;
	else if (number == 0 && !w->whole->strict)
		number = 0;
	ckpt_buf_add(&w->out, &number, sizeof(number));
}

static void write_value(struct writer *w, const struct ckpt_value *v, unsigned depth)
{
	uint8_t kind;

	v = ckpt_model_now(w->model, v);
	if (depth > MOST_DEPTH || !w->whole->left)
		give_up(w, TOO_LARGE);
	if (w->too_much)
		return;
	if (v->kind == CKPT_FOLDED) {
		write_folded(w, v, depth);
		return;
	}
	--w->whole->left;
	if (is_inside_itself(w, v, depth))
		return;
	if (ckpt_value_is_tensor(w->model, v)) {
		write_numbers(w, v, depth);
		return;
	}
	kind = ckpt_value_kind_of(w->model, v);
	ckpt_buf_add_u8(&w->out, kind == CKPT_TUPLE && !w->whole->strict ? CKPT_LIST : kind);
	if (kind == CKPT_OF_NUMPY) {
		write_numpy(w, v, depth);
		return;
	}
	if (v->kind == CKPT_CALL && kind != CKPT_CALL) {
		if (kind == CKPT_BYTES)
			write_bytes_call(w, v, depth);
		else
			write_set(w, ckpt_set_of_call(w->model, v), depth);
		return;
	}
	switch ((enum ckpt_value_kind)kind) {
	case CKPT_NONE: break;
	case CKPT_BOOL:
	case CKPT_INT:
	case CKPT_EXT: ckpt_buf_add_u64(&w->out, (uint64_t)v->u.integer); break;
	case CKPT_FLOAT: write_float(w, v->u.real); break;
	case CKPT_BIGINT:
	case CKPT_STR:
	case CKPT_PY2_STR:
	case CKPT_BYTES:
	case CKPT_BYTEARRAY: write_bytes(w, v->u.bytes.ptr, v->u.bytes.len); break;
	case CKPT_TUPLE:
	case CKPT_LIST: write_seq(w, &v->u.seq, depth); break;
	case CKPT_SET:
	case CKPT_FROZENSET: write_set(w, &v->u.seq, depth); break;
	case CKPT_DICT: write_pairs(w, &v->u.seq, depth); break;
	case CKPT_GLOBAL: write_global(w, v->u.global); break;
	case CKPT_CALL:
		if (is_dtype(w->model, v))
			write_dtype(w, v->u.call, depth);
		else
			write_call(w, v->u.call, depth);
		break;
	case CKPT_FOLDED: break; /* write_folded() */
	case CKPT_PERSID:
		if (ckpt_storage_of(v) >= 0)
			write_storage(w, v);
		else
			write_value(w, v->u.persid.pid, depth + 1);
		break;
	}
}

/* The two sides of what is held against each other. */
struct written {
	struct writing whole[2];
	struct writer a, b;
};

static struct written *begin_writing(const struct ckpt_comparison *c, struct ckpt_error *err)
{
	struct written *both = calloc(1, sizeof(*both));

	if (!both) {
		ckpt_fail_nomem(err);
		return NULL;
	}
	for (int i = 0; i < 2; i++) {
		both->whole[i].left = MOST_WRITTEN;
		both->whole[i].bytes = MOST_NUMBERS;
		both->whole[i].quick = ckpt_comparison_has(c, CKPT_DIFF_QUICK);
		both->whole[i].strict = ckpt_comparison_has(c, CKPT_DIFF_STRICT);
	}
	both->a = (struct writer){ .model = c->a.model, .whole = &both->whole[0] };
	both->b = (struct writer){ .model = c->b.model, .whole = &both->whole[1] };
	return both;
}

/* 1: they are equal; 0: they are not; CKPT_E_LIMIT: nobody can tell. Frees BOTH. */
static int end_writing(struct written *both, struct ckpt_error *err)
{
	const struct ckpt_buf *a = &both->a.out, *b = &both->b.out;
	const char *why = both->whole[0].why ? both->whole[0].why : both->whole[1].why;
	int rc;

	if (a->bad || b->bad)
		rc = ckpt_fail_nomem(err);
	else if (both->a.too_much || both->b.too_much)
		rc = ckpt_fail(err, CKPT_E_LIMIT, "%s", why ? why : TOO_LARGE);
	else
		rc = a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
	ckpt_buf_clear(&both->a.out);
	ckpt_buf_clear(&both->b.out);
	free(both);
	return rc;
}

/* 1: they are equal; 0: they are not. */
static int compare_written(const struct ckpt_comparison *c, const struct ckpt_value *a,
			   const struct ckpt_value *b, struct ckpt_error *err)
{
	struct written *both = begin_writing(c, err);

	if (!both)
		return CKPT_E_NOMEM;
	write_value(&both->a, a, 0);
	write_value(&both->b, b, 0);
	return end_writing(both, err);
}

/* ---- comparing ---- */

static bool same_float(const struct ckpt_comparison *c, double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) && isnan(b);
	if (ckpt_comparison_has(c, CKPT_DIFF_STRICT) && signbit(a) != signbit(b))
		return false; /* 0 and -0 */
	return a == b || fabs(a - b) <= c->options.atol + c->options.rtol * fabs(b);
}

static bool is_missing(const struct ckpt_value *v)
{
	return v->kind == CKPT_PERSID && v->flags & CKPT_VALUE_MISSING;
}

static int unreadable(const struct ckpt_comparison *c, struct ckpt_pair *pair, const char *why,
		      struct ckpt_error *err)
{
	pair->state = CKPT_PAIR_UNREADABLE;
	pair->why = ckpt_arena_copy(c->arena, why, strlen(why));
	return pair->why ? 0 : ckpt_arena_fail(c->arena, err);
}

int ckpt_compare_values(const struct ckpt_comparison *c, struct ckpt_pair *pair,
			struct ckpt_error *err)
{
	const struct ckpt_value *a = pair->a->value, *b = pair->b->value;
	struct ckpt_error limit = CKPT_ERROR_INIT;
	char text[sizeof(limit.text)];
	int same;

	if (is_missing(a) || is_missing(b))
		return unreadable(c, pair, "could not be read when the checkpoint was opened", err);
	if (ckpt_value_kind_of(c->a.model, a) != ckpt_value_kind_of(c->b.model, b)) {
		pair->what = CKPT_DIFFERS_TYPE | CKPT_DIFFERS_VALUE;
		pair->state = CKPT_PAIR_CHANGED;
		return 0;
	}
	same = a->kind == CKPT_FLOAT ? same_float(c, a->u.real, b->u.real)
				     : compare_written(c, a, b, &limit);
	if (same == CKPT_E_LIMIT)
		return unreadable(c, pair, ckpt_error_text(&limit, text, sizeof(text)), err);
	if (same < 0)
		return ckpt_fail_nomem(err);
	pair->what = same ? 0 : CKPT_DIFFERS_VALUE;
	pair->state = same ? CKPT_PAIR_SAME : CKPT_PAIR_CHANGED;
	return 0;
}

/* ---- what hangs on tensors, and on keys ---- */

static bool is_nothing(const struct ckpt_model *model, const struct ckpt_value *v)
{
	v = ckpt_model_now(model, v);
	return v->kind == CKPT_NONE || (v->kind == CKPT_DICT && !v->u.seq.count);
}

/* NULL: there are none. */
static const struct ckpt_value *attributes_of(const struct ckpt_model *model, const struct ckpt_tensor *t)
{
	const struct ckpt_value *v = t->attributes;
	bool any = false;

	if (!v || is_nothing(model, v))
		return NULL;
	for (uint32_t i = 0; v->kind == CKPT_TUPLE && i < v->u.seq.count; i++)
		any |= !is_nothing(model, v->u.seq.items[i]);
	return any || v->kind != CKPT_TUPLE ? v : NULL;
}

int ckpt_compare_attributes(const struct ckpt_comparison *c, struct ckpt_pair *pair,
			    struct ckpt_error *err)
{
	const struct ckpt_value *a = attributes_of(c->a.model, pair->a->t),
				*b = attributes_of(c->b.model, pair->b->t);
	struct ckpt_error limit = CKPT_ERROR_INIT;
	char text[sizeof(limit.text)];
	int same = !a && !b;

	if (a && b)
		same = compare_written(c, a, b, &limit);
	if (same == CKPT_E_LIMIT)
		return unreadable(c, pair, ckpt_error_text(&limit, text, sizeof(text)), err);
	if (same < 0)
		return ckpt_fail_nomem(err);
	if (!same)
		pair->what |= CKPT_DIFFERS_ATTRIBUTES;
	return 0;
}

bool ckpt_same_class_of_numpy(const struct ckpt_comparison *c, const struct ckpt_value *a,
			      const struct ckpt_value *b)
{
	const struct ckpt_value *class_a =
		ckpt_plain_arg_count(c->a.model, a) ? ckpt_plain_arg(c->a.model, a, 0) : NULL;
	const struct ckpt_value *class_b =
		ckpt_plain_arg_count(c->b.model, b) ? ckpt_plain_arg(c->b.model, b, 0) : NULL;
	bool is_class_a = class_a && class_a->kind == CKPT_GLOBAL && strcmp(class_a->u.global->name, "ndarray") != 0;
	bool is_class_b = class_b && class_b->kind == CKPT_GLOBAL && strcmp(class_b->u.global->name, "ndarray") != 0;

	return is_class_a == is_class_b && (!is_class_a || !strcmp(class_a->u.global->name, class_b->u.global->name));
}

/* A key that names say all of, with more of them in front. */
static bool is_plain_key(const struct ckpt_value *key)
{
	bool is_text = key->kind == CKPT_STR || key->kind == CKPT_PY2_STR || key->kind == CKPT_BYTES;

	return key->kind < CKPT_TUPLE && key->kind != CKPT_BIGINT && (!is_text || key->u.bytes.len < LONG_KEY);
}

/* The others in their order, or WITH_VALUES: with what they stand for, in any order. */
static void write_keys(struct writer *w, const struct ckpt_value *v, bool with_values)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(ckpt_model_now(w->model, v));
	struct ckpt_seq keys = { 0 };

	keys.items = pairs ? calloc(pairs->count + 1u, sizeof(*keys.items)) : NULL;
	w->out.bad |= pairs && !keys.items;
	for (uint32_t i = 0; keys.items && i + 1 < pairs->count; i += 2)
		if (!is_plain_key(ckpt_model_now(w->model, pairs->items[i]))) {
			keys.items[keys.count++] = pairs->items[i];
			if (with_values)
				keys.items[keys.count++] = pairs->items[i + 1];
		}
	if (with_values)
		write_unordered(w, &keys, 2, 0);
	else
		write_seq(w, &keys, 0);
	free(keys.items);
}

/*
 * 1: the keys that are no texts or numbers are the same. In one order they are held against each other in that, and so is what they stand for; in
 * another one names do not say what belongs together.
 */
static int compare_keys(const struct ckpt_comparison *c, const struct ckpt_value *a,
			const struct ckpt_value *b, struct ckpt_error *err)
{
	int rc = 0;

	for (int with_values = 0; rc == 0 && with_values < 2; with_values++) {
		struct written *both = begin_writing(c, err);

		if (!both)
			return CKPT_E_NOMEM;
		write_keys(&both->a, a, with_values);
		write_keys(&both->b, b, with_values);
		rc = end_writing(both, err);
	}
	return rc;
}

/* What Python uses in the same way. */
static int family(const struct ckpt_item *item)
{
	if (item->mapping)
		return 1;
	return !strcmp(item->type, "list") || !strcmp(item->type, "tuple") ? 2 : 0;
}

/* How many keys are no texts: of the same names 0 and "0" differ in that. */
static uint32_t other_keys(const struct ckpt_model *model, const struct ckpt_value *v)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(ckpt_model_now(model, v));
	uint32_t count = 0;

	for (uint32_t i = 0; pairs && i + 1 < pairs->count; i += 2)
		count += pairs->items[i]->kind != CKPT_STR && pairs->items[i]->kind != CKPT_PY2_STR;
	return count;
}

/* Objects of one class, which Python 2 may spell otherwise. */
static bool same_class(const struct ckpt_comparison *c, const struct ckpt_pair *pair)
{
	const struct ckpt_value *a = ckpt_model_now(c->a.model, pair->a->value),
				*b = ckpt_model_now(c->b.model, pair->b->value);
	const char *modules[2], *names[2];

	if (a->kind != CKPT_CALL || b->kind != CKPT_CALL)
		return false;
	a = ckpt_model_now(c->a.model, a->u.call->func);
	b = ckpt_model_now(c->b.model, b->u.call->func);
	if (a->kind != CKPT_GLOBAL || b->kind != CKPT_GLOBAL)
		return false;
	ckpt_python2_name(a->u.global->module, a->u.global->name, &modules[0], &names[0]);
	ckpt_python2_name(b->u.global->module, b->u.global->name, &modules[1], &names[1]);
	return !strcmp(modules[0], modules[1]) && !strcmp(names[0], names[1]);
}

/* Does one object have as items what the other has as pairs, under the numbers of the items? */
static bool same_contents(const struct ckpt_comparison *c, const struct ckpt_pair *pair)
{
	const struct ckpt_value *a = ckpt_model_now(c->a.model, pair->a->value),
				*b = ckpt_model_now(c->b.model, pair->b->value);

	if (a->kind != CKPT_CALL || b->kind != CKPT_CALL)
		return true;
	return !(a->u.call->items.count && !a->u.call->pairs.count && b->u.call->pairs.count && !b->u.call->items.count) &&
	       !(b->u.call->items.count && !b->u.call->pairs.count && a->u.call->pairs.count && !a->u.call->items.count);
}

static bool has_other_keys(const struct ckpt_model *model, const struct ckpt_value *v)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(ckpt_model_now(model, v));
	bool any = false;

	for (uint32_t i = 0; pairs && !any && i + 1 < pairs->count; i += 2)
		any = !is_plain_key(ckpt_model_now(model, pairs->items[i]));
	return any;
}

int ckpt_compare_containers(const struct ckpt_comparison *c, struct ckpt_pair *pair,
			    struct ckpt_error *err)
{
	struct ckpt_describer da = { .model = c->a.model }, db = { .model = c->b.model };
	struct ckpt_item a = { .size = sizeof(a) }, b = { .size = sizeof(b) };
	bool same;
	int rc = ckpt_describe(&da, pair->a->value, &a, err);

	if (rc == 0)
		rc = ckpt_describe(&db, pair->b->value, &b, err);
	if (rc == 0) {
		same = ((!strcmp(a.type, b.type) || same_class(c, pair)) && same_contents(c, pair)) ||
		       (!ckpt_comparison_has(c, CKPT_DIFF_STRICT) && family(&a) &&
			family(&a) == family(&b));
		if (same && a.mapping && b.mapping &&
		    other_keys(c->a.model, pair->a->value) !=
			    other_keys(c->b.model, pair->b->value)) {
			pair->other_keys = true;
			same = !ckpt_comparison_has(c, CKPT_DIFF_STRICT);
		}
		pair->what = same ? 0 : CKPT_DIFFERS_TYPE;
	}
	if (rc == 0 && a.mapping && b.mapping &&
	    (has_other_keys(c->a.model, pair->a->value) ||
	     has_other_keys(c->b.model, pair->b->value))) {
		rc = compare_keys(c, pair->a->value, pair->b->value, err);
		if (rc == 0 || rc == CKPT_E_LIMIT)
			pair->what |= CKPT_DIFFERS_KEYS;
		rc = rc == CKPT_E_LIMIT || rc >= 0 ? 0 : rc;
	}
	pair->state = pair->what ? CKPT_PAIR_CHANGED : CKPT_PAIR_SAME;
	ckpt_describer_clear(&da);
	ckpt_describer_clear(&db);
	return rc;
}
