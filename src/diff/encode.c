/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares values as wholes: each is encoded as bytes that are the same for equal values, whatever
 * the pickle protocol, the order of sets, and without CKPT_DIFF_STRICT the order of dicts.
 *
 * What must stay true:
 *  - Encodings of different values differ: lengths and presence are encoded, so that what follows
 *    cannot be taken for it.
 *  - Values may be shared or contain themselves, so the work is bounded: MOST_VALUES and MOST_BYTES
 *    for one value, MOST_DEPTH for the recursion, and a value inside itself is encoded as its
 *    distance (encode_if_cycle()). What passes a limit is reported as not comparable, never as
 *    equal or different.
 */
#include "diff/encode.h"

#include "array/array.h"
#include "diff/kinds.h"
#include "model/numpy_value.h"
#include "model/plain_values.h"
#include "pickle/fold.h"
#include "pickle/names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST_DEPTH = 500,
	MOST_VALUES = 1 << 24,
	MOST_BYTES = 1 << 28, /* of tensors and arrays inside of values */
	LONG_KEY = 4096,      /* bytes */
};

enum { CODE_ARRAY = CKPT_OF_NUMPY + 1, CODE_CYCLE }; /* beside what ckpt_value_kind_of() returns */

struct encoder {
	const struct ckpt_model *model;
	struct ckpt_buf out;
	struct encoding *shared;
	bool failed;
};

/* What the encoders of one value share. */
struct encoding {
	uint32_t left;	/* how many values may still be encoded */
	uint64_t bytes; /* of tensors and arrays, likewise */
	bool quick;	/* tensors and arrays are not read */
	/* encode classes, strides and orders, too, and numbers and containers as they are */
	bool strict;
	const struct ckpt_value *path[MOST_DEPTH + 1]; /* what is being encoded, by depth */
	const char *why;			       /* it failed; or NULL */
};

static const char TOO_LARGE[] = "holds too much to be compared as one value";
static const char UNREADABLE[] = "holds a tensor that cannot be compared inside of another value";

static void fail_encoding(struct encoder *w, const char *why)
{
	w->failed = true;
	if (!w->shared->why)
		w->shared->why = why;
}

static void encode_value(struct encoder *w, const struct ckpt_value *v, unsigned depth);

/* V may be NULL. */
static void encode_optional(struct encoder *w, const struct ckpt_value *v, unsigned depth)
{
	ckpt_buf_add_u8(&w->out, v != NULL);
	if (v)
		encode_value(w, v, depth);
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

/* Items, or with STEP = 2 keys and their values, in an order that does not depend on the file. */
static void encode_unordered(struct encoder *w, const struct ckpt_seq *seq, uint32_t step,
			     unsigned depth)
{
	struct encoder inner = { .model = w->model, .shared = w->shared };
	struct piece *pieces = calloc(seq->count + 1u, sizeof(*pieces));
	uint32_t count = 0;

	for (uint32_t i = 0; pieces && i + step <= seq->count; i += step, count++) {
		pieces[count].off = inner.out.len;
		for (uint32_t k = 0; k < step; k++)
			encode_value(&inner, seq->items[i + k], depth + 1);
		pieces[count].len = inner.out.len - pieces[count].off;
	}
	for (uint32_t i = 0; i < count; i++)
		pieces[i].bytes = inner.out.data;
	w->failed |= inner.failed;
	w->out.bad |= inner.out.bad || !pieces;
	if (!w->out.bad && count)
		qsort(pieces, count, sizeof(*pieces), compare_pieces);
	for (uint32_t i = 0; !w->out.bad && i < count; i++)
		ckpt_buf_add(&w->out, pieces[i].bytes + pieces[i].off, pieces[i].len);
	ckpt_buf_clear(&inner.out);
	free(pieces);
}

static void encode_seq(struct encoder *w, const struct ckpt_seq *seq, unsigned depth)
{
	ckpt_buf_add_u32(&w->out, seq->count);
	for (uint32_t i = 0; i < seq->count; i++)
		encode_value(w, seq->items[i], depth + 1);
}

static void encode_bytes(struct encoder *w, const void *bytes, uint64_t len)
{
	ckpt_buf_add_u64(&w->out, len);
	ckpt_buf_add(&w->out, bytes, len);
}

/* Keys and their values, in their order if that counts. */
static void encode_pairs(struct encoder *w, const struct ckpt_seq *pairs, unsigned depth)
{
	if (w->shared->strict) {
		encode_seq(w, pairs, depth);
		return;
	}
	ckpt_buf_add_u32(&w->out, pairs->count);
	encode_unordered(w, pairs, 2, depth);
}

static void encode_set(struct encoder *w, const struct ckpt_seq *items, unsigned depth)
{
	ckpt_buf_add_u32(&w->out, items->count);
	encode_unordered(w, items, 1, depth);
}

static void encode_call(struct encoder *w, const struct ckpt_call *call, unsigned depth);

static void encode_bytes_call(struct encoder *w, const struct ckpt_value *v, unsigned depth)
{
	struct ckpt_arena *scratch = ckpt_arena_new((uint64_t)1 << 32);
	const uint8_t *bytes;
	uint64_t len;

	if (!scratch)
		w->out.bad = true;
	else if (ckpt_plain_bytes_in(w->model, v, scratch, &bytes, &len))
		encode_bytes(w, bytes, len);
	else
		encode_call(w, v->u.call, depth); /* of an unusual form */
	ckpt_arena_free(scratch);
}

/* ---- tensors and arrays inside of other values ---- */

static void encode_text(struct encoder *w, const char *text)
{
	encode_bytes(w, text, strlen(text));
}

static void encode_items(struct encoder *w, const struct ckpt_array *a)
{
	uint64_t count = ckpt_array_numel(a), size = ckpt_dtype_size(a->reads), len;
	uint8_t *bytes;

	if (__builtin_mul_overflow(count, size, &len) || len > w->shared->bytes) {
		fail_encoding(w, TOO_LARGE);
		return;
	}
	w->shared->bytes -= len;
	bytes = ckpt_buf_grow(&w->out, len);
	if (bytes && ckpt_array_read(a, 0, count, bytes, NULL) < 0)
		fail_encoding(w, UNREADABLE);
}

/* Is it one array that can be read? */
static bool is_readable(const struct ckpt_array *a)
{
	return !a->why_not && (a->t.kind == CKPT_KIND_STRIDED || a->t.kind == CKPT_KIND_NUMPY);
}

/* All that the numbers depend on, and the numbers. */
static void encode_array(struct encoder *w, const struct ckpt_array *a)
{
	ckpt_buf_add_u8(&w->out, CODE_ARRAY);
	encode_text(w, a->kind ? a->kind : "");
	encode_text(w, a->dtype ? a->dtype : "");
	ckpt_buf_add_u32(&w->out, a->t.ndim);
	for (uint32_t i = 0; i < a->t.ndim; i++)
		ckpt_buf_add_u64(&w->out, a->t.shape[i]);
	if (!w->shared->quick)
		encode_items(w, a);
}

/* Class and layout, which only a strict comparison asks for. */
static void encode_form(struct encoder *w, const struct ckpt_value *v, const struct ckpt_array *a)
{
	const struct ckpt_tensor *t = &a->t;
	struct ckpt_numpy n;

	encode_text(w, t->class_name ? t->class_name : "");
	ckpt_buf_add_u8(&w->out, (uint8_t)(t->is_parameter | t->requires_grad << 1));
	for (uint32_t i = 0; i < t->ndim; i++)
		ckpt_buf_add_u64(&w->out, t->stride && t->shape[i] > 1 ? t->stride[i] : 0);
	if (ckpt_numpy_parse(w->model, v, &n) > 0) {
		const struct ckpt_value *cls =
			ckpt_plain_arg_count(w->model, v) ? ckpt_plain_arg(w->model, v, 0) : NULL;

		encode_text(w, cls && cls->kind == CKPT_GLOBAL ? cls->u.global->name : "");
		ckpt_buf_add_u8(&w->out,
				(uint8_t)((n.big_endian && ckpt_dtype_size(n.dtype) > 1) << 1));
		ckpt_buf_add(&w->out, n.axes, n.ndim);
	}
}

static bool is_nothing(const struct ckpt_model *model, const struct ckpt_value *v)
{
	v = ckpt_model_now(model, v);
	return v->kind == CKPT_NONE || (v->kind == CKPT_DICT && !v->u.seq.count);
}

const struct ckpt_value *ckpt_tensor_attributes(const struct ckpt_model *model,
						const struct ckpt_tensor *t)
{
	const struct ckpt_value *v = t->attributes;
	bool any = false;

	if (!v || is_nothing(model, v))
		return NULL;
	for (uint32_t i = 0; v->kind == CKPT_TUPLE && i < v->u.seq.count; i++)
		any |= !is_nothing(model, v->u.seq.items[i]);
	return any || v->kind != CKPT_TUPLE ? v : NULL;
}

/* A tensor that is made of several, or of none, is encoded as the call that makes it. */
static void encode_tensor_or_array(struct encoder *w, const struct ckpt_value *v, unsigned depth)
{
	const struct ckpt_value *attributes = NULL;
	struct ckpt_array *array = NULL;

	if (ckpt_array_open_value(w->model, v, "", 0, &array, NULL) < 0 || !is_readable(array)) {
		ckpt_array_close(array);
		ckpt_buf_add_u8(&w->out, CKPT_CALL);
		encode_call(w, v->u.call, depth);
		return;
	}
	encode_array(w, array);
	if (w->shared->strict)
		encode_form(w, v, array);
	if (array->t.value == v)
		attributes = ckpt_tensor_attributes(w->model, &array->t);
	encode_optional(w, attributes, depth + 1);
	ckpt_array_close(array);
}

static void encode_storage(struct encoder *w, const struct ckpt_value *v)
{
	struct ckpt_array *array;

	if (ckpt_array_of_storage(w->model, ckpt_storage_of(v), "", &array, NULL) < 0) {
		fail_encoding(w, UNREADABLE);
		return;
	}
	encode_array(w, array);
	ckpt_array_close(array);
}

static bool is_dtype(const struct ckpt_model *model, const struct ckpt_value *v)
{
	return v->kind == CKPT_CALL &&
	       ckpt_value_is_global(ckpt_model_now(model, v->u.call->func), "numpy", "dtype");
}

/* The dtype among the arguments or in the state of an array; NULL: there is none. */
static const struct ckpt_value *dtype_in(const struct ckpt_model *model,
					 const struct ckpt_value *tuple)
{
	tuple = tuple ? ckpt_model_now(model, tuple) : NULL;
	for (uint32_t i = 0; tuple && tuple->kind == CKPT_TUPLE && i < tuple->u.seq.count; i++) {
		const struct ckpt_value *v = ckpt_model_now(model, tuple->u.seq.items[i]);

		if (is_dtype(model, v))
			return v;
	}
	return NULL;
}

/* Dtype, shape, and the number or the items. */
static void encode_numpy(struct encoder *w, const struct ckpt_value *v, unsigned depth)
{
	const struct ckpt_value *dtype;
	struct ckpt_numpy n;

	if (!ckpt_numpy_parse(w->model, v, &n))
		return;
	if (n.dtype != CKPT_DTYPE_UNKNOWN && !n.is_scalar) {
		encode_tensor_or_array(w, v, depth);
		return;
	}
	ckpt_numpy_text(w->model, &n, &w->out);
	if (n.dtype != CKPT_DTYPE_UNKNOWN)
		return;
	dtype = dtype_in(w->model, v->u.call->args);
	if (!dtype)
		dtype = dtype_in(w->model, v->u.call->state);
	encode_optional(w, dtype, depth + 1);
	encode_optional(w, n.data, depth + 1);
}

/* ('M8', False, True): numpy always writes the same flags, as bools or as numbers. */
static void encode_dtype(struct encoder *w, const struct ckpt_call *call, unsigned depth)
{
	const struct ckpt_value *args = ckpt_model_now(w->model, call->args);

	if (args->kind == CKPT_TUPLE && args->u.seq.count)
		encode_value(w, args->u.seq.items[0], depth + 1);
	encode_optional(w, call->state, depth + 1);
}

static void encode_call(struct encoder *w, const struct ckpt_call *call, unsigned depth)
{
	ckpt_buf_add_u8(&w->out, call->kind);
	encode_value(w, call->func, depth + 1);
	encode_value(w, call->args, depth + 1);
	encode_optional(w, call->kwargs, depth + 1);
	encode_seq(w, &call->items, depth);
	encode_pairs(w, &call->pairs, depth);
	encode_optional(w, call->state, depth + 1);
}

/* The value that a FOLDED one abbreviates. */
static void encode_folded(struct encoder *w, const struct ckpt_value *v, unsigned depth)
{
	struct ckpt_arena *scratch = ckpt_arena_new(1 << 20);
	const struct ckpt_value *unfolded = scratch ? ckpt_unfold(v, scratch) : NULL;

	if (unfolded)
		encode_value(w, unfolded, depth);
	else
		w->out.bad = true;
	ckpt_arena_free(scratch);
}

/* True: V is inside itself, and its distance upwards is encoded in its place. */
static bool encode_if_cycle(struct encoder *w, const struct ckpt_value *v, unsigned depth)
{
	w->shared->path[depth] = v;
	for (unsigned i = 0; v->id && v->kind >= CKPT_TUPLE && i < depth; i++)
		if (w->shared->path[i] == v) {
			ckpt_buf_add_u8(&w->out, CODE_CYCLE);
			ckpt_buf_add_u32(&w->out, depth - i);
			return true;
		}
	return false;
}

/* With the name that Python 2 and protocol 2 have for it: range is xrange. */
static void encode_global(struct encoder *w, const struct ckpt_global *g)
{
	const char *module, *name;

	ckpt_python2_name(g->module, g->name, &module, &name);
	encode_text(w, module);
	encode_text(w, name);
}

/* NaNs are equal, and so are 0 and -0 if the comparison is not strict. */
static void encode_float(struct encoder *w, double number)
{
	if (isnan(number))
		number = NAN;
	else if (number == 0 && !w->shared->strict)
		number = 0;
	ckpt_buf_add(&w->out, &number, sizeof(number));
}

static void encode_value(struct encoder *w, const struct ckpt_value *v, unsigned depth)
{
	uint8_t kind;

	v = ckpt_model_now(w->model, v);
	if (depth > MOST_DEPTH || !w->shared->left)
		fail_encoding(w, TOO_LARGE);
	if (w->failed)
		return;
	if (v->kind == CKPT_FOLDED) {
		encode_folded(w, v, depth);
		return;
	}
	--w->shared->left;
	if (encode_if_cycle(w, v, depth))
		return;
	if (ckpt_value_is_tensor(w->model, v)) {
		encode_tensor_or_array(w, v, depth);
		return;
	}
	kind = ckpt_value_kind_of(w->model, v);
	ckpt_buf_add_u8(&w->out, kind == CKPT_TUPLE && !w->shared->strict ? CKPT_LIST : kind);
	if (kind == CKPT_OF_NUMPY) {
		encode_numpy(w, v, depth);
		return;
	}
	if (v->kind == CKPT_CALL && kind != CKPT_CALL) {
		if (kind == CKPT_BYTES)
			encode_bytes_call(w, v, depth);
		else
			encode_set(w, ckpt_set_of_call(w->model, v), depth);
		return;
	}
	switch ((enum ckpt_value_kind)kind) {
	case CKPT_NONE: break;
	case CKPT_BOOL:
	case CKPT_INT:
	case CKPT_EXT: ckpt_buf_add_u64(&w->out, (uint64_t)v->u.integer); break;
	case CKPT_FLOAT: encode_float(w, v->u.real); break;
	case CKPT_BIGINT:
	case CKPT_STR:
	case CKPT_PY2_STR:
	case CKPT_BYTES:
	case CKPT_BYTEARRAY: encode_bytes(w, v->u.bytes.ptr, v->u.bytes.len); break;
	case CKPT_TUPLE:
	case CKPT_LIST: encode_seq(w, &v->u.seq, depth); break;
	case CKPT_SET:
	case CKPT_FROZENSET: encode_set(w, &v->u.seq, depth); break;
	case CKPT_DICT: encode_pairs(w, &v->u.seq, depth); break;
	case CKPT_GLOBAL: encode_global(w, v->u.global); break;
	case CKPT_CALL:
		if (is_dtype(w->model, v))
			encode_dtype(w, v->u.call, depth);
		else
			encode_call(w, v->u.call, depth);
		break;
	case CKPT_FOLDED: break; /* encode_folded() */
	case CKPT_PERSID:
		if (ckpt_storage_of(v) >= 0)
			encode_storage(w, v);
		else
			encode_value(w, v->u.persid.pid, depth + 1);
		break;
	}
}

/* Both sides of a comparison. */
struct encoded_pair {
	struct encoding shared[2];
	struct encoder a, b;
};

static struct encoded_pair *begin_encoding(const struct ckpt_comparison *c, struct ckpt_error *err)
{
	struct encoded_pair *both = calloc(1, sizeof(*both));

	if (!both) {
		ckpt_fail_nomem(err);
		return NULL;
	}
	for (int i = 0; i < 2; i++) {
		both->shared[i].left = MOST_VALUES;
		both->shared[i].bytes = MOST_BYTES;
		both->shared[i].quick = ckpt_comparison_has(c, CKPT_DIFF_QUICK);
		both->shared[i].strict = ckpt_comparison_has(c, CKPT_DIFF_STRICT);
	}
	both->a = (struct encoder){ .model = c->a.model, .shared = &both->shared[0] };
	both->b = (struct encoder){ .model = c->b.model, .shared = &both->shared[1] };
	return both;
}

/* 1: equal; 0: not equal; CKPT_E_LIMIT: not known. Frees BOTH. */
static int end_encoding(struct encoded_pair *both, struct ckpt_error *err)
{
	const struct ckpt_buf *a = &both->a.out, *b = &both->b.out;
	const char *why = both->shared[0].why ? both->shared[0].why : both->shared[1].why;
	int rc;

	if (a->bad || b->bad)
		rc = ckpt_fail_nomem(err);
	else if (both->a.failed || both->b.failed)
		rc = ckpt_fail(err, CKPT_E_LIMIT, "%s", why ? why : TOO_LARGE);
	else
		rc = a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
	ckpt_buf_clear(&both->a.out);
	ckpt_buf_clear(&both->b.out);
	free(both);
	return rc;
}

int ckpt_compare_encoded(const struct ckpt_comparison *c, const struct ckpt_value *a,
			 const struct ckpt_value *b, struct ckpt_error *err)
{
	struct encoded_pair *both = begin_encoding(c, err);

	if (!both)
		return CKPT_E_NOMEM;
	encode_value(&both->a, a, 0);
	encode_value(&both->b, b, 0);
	return end_encoding(both, err);
}

/* ---- keys that are no plain ones ---- */

/* A key that names of entries hold in full. */
static bool is_plain_key(const struct ckpt_value *key)
{
	bool is_text =
		key->kind == CKPT_STR || key->kind == CKPT_PY2_STR || key->kind == CKPT_BYTES;

	return key->kind < CKPT_TUPLE && key->kind != CKPT_BIGINT &&
	       (!is_text || key->u.bytes.len < LONG_KEY);
}

/* The keys that are not plain, in their order; WITH_VALUES: with their values, in any order. */
static void encode_keys(struct encoder *w, const struct ckpt_value *v, bool with_values)
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
		encode_unordered(w, &keys, 2, 0);
	else
		encode_seq(w, &keys, 0);
	free(keys.items);
}

/*
 * If the keys are equal in their order, their values are compared as entries of their own. In
 * another order names do not say which entries belong together, so keys are compared with their
 * values.
 */
int ckpt_compare_other_keys(const struct ckpt_comparison *c, const struct ckpt_value *a,
			    const struct ckpt_value *b, struct ckpt_error *err)
{
	int rc = 0;

	for (int with_values = 0; rc == 0 && with_values < 2; with_values++) {
		struct encoded_pair *both = begin_encoding(c, err);

		if (!both)
			return CKPT_E_NOMEM;
		encode_keys(&both->a, a, with_values);
		encode_keys(&both->b, b, with_values);
		rc = end_encoding(both, err);
	}
	return rc;
}

bool ckpt_has_other_keys(const struct ckpt_model *model, const struct ckpt_value *v)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(ckpt_model_now(model, v));
	bool any = false;

	for (uint32_t i = 0; pairs && !any && i + 1 < pairs->count; i += 2)
		any = !is_plain_key(ckpt_model_now(model, pairs->items[i]));
	return any;
}
