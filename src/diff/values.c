/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/differ.h"

#include "model/describe.h"
#include "model/numpy_value.h"
#include "model/plain_values.h"
#include "pickle/fold.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Values that are no tensors. Most hold nothing; sets and objects of numpy are compared as wholes. */

enum { MOST_DEPTH = 32, MOST_WRITTEN = 1 << 24 }; /* values */

/* ---- what older protocols write as calls ---- */

static bool is_builtin(const struct ckpt_value *v, const char *name)
{
	return ckpt_value_is_call_of(v, "builtins", name) ||
	       ckpt_value_is_call_of(v, "__builtin__", name);
}

/* The items of a set that is made of a list; NULL: V is none. */
static const struct ckpt_seq *set_of_call(const struct ckpt_model *model,
					  const struct ckpt_value *v)
{
	const struct ckpt_value *items;

	if (!is_builtin(v, "set") && !is_builtin(v, "frozenset"))
		return NULL;
	items = ckpt_plain_arg_count(model, v) == 1 ? ckpt_plain_arg(model, v, 0) : NULL;
	return items && (items->kind == CKPT_LIST || items->kind == CKPT_TUPLE) ? &items->u.seq
										: NULL;
}

static bool is_bytes_call(const struct ckpt_value *v)
{
	return ckpt_value_is_call_of(v, "_codecs", "encode") || is_builtin(v, "bytes");
}

bool ckpt_is_one_value(const struct ckpt_model *model, const struct ckpt_value *v)
{
	struct ckpt_numpy n;

	if (v->kind == CKPT_CALL)
		return set_of_call(model, v) || is_bytes_call(v) || ckpt_numpy_parse(model, v, &n);
	return v->kind < CKPT_TUPLE || v->kind == CKPT_SET || v->kind == CKPT_FROZENSET ||
	       v->kind > CKPT_DICT;
}

enum { OF_NUMPY = 0x80 }; /* beside enum ckpt_value_kind */

static uint8_t kind_of(const struct ckpt_model *model, const struct ckpt_value *v)
{
	struct ckpt_numpy n;

	if (v->kind == CKPT_PY2_STR)
		return CKPT_STR;
	if (v->kind == CKPT_FOLDED)
		return CKPT_CALL;
	if (v->kind != CKPT_CALL)
		return v->kind;
	if (set_of_call(model, v))
		return is_builtin(v, "set") ? CKPT_SET : CKPT_FROZENSET;
	if (is_bytes_call(v))
		return CKPT_BYTES;
	return ckpt_numpy_parse(model, v, &n) ? OF_NUMPY : CKPT_CALL;
}

/* ---- a value as bytes that are the same for equal values ---- */

struct writer {
	const struct ckpt_model *model;
	struct ckpt_buf out;
	uint32_t *left; /* how many values may still be written */
	bool too_much;
};

static void write_value(struct writer *w, const struct ckpt_value *v, unsigned depth);

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
	struct writer inner = { .model = w->model, .left = w->left };
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

static void write_set(struct writer *w, const struct ckpt_seq *items, unsigned depth)
{
	ckpt_buf_add_u32(&w->out, items->count);
	write_unordered(w, items, 1, depth);
}

static void write_bytes_call(struct writer *w, const struct ckpt_value *v)
{
	struct ckpt_arena *scratch = ckpt_arena_new((uint64_t)1 << 32);
	const uint8_t *bytes;
	uint64_t len;

	if (!scratch)
		w->out.bad = true;
	else if (ckpt_plain_bytes_in(w->model, v, scratch, &bytes, &len))
		write_bytes(w, bytes, len);
	else
		w->too_much = true; /* it has an odd form */
	ckpt_arena_free(scratch);
}

/* dtype and shape, and the number or what the items are made of */
static void write_numpy(struct writer *w, const struct ckpt_value *v, unsigned depth)
{
	struct ckpt_numpy n;

	if (!ckpt_numpy_parse(w->model, v, &n))
		return;
	ckpt_numpy_text(w->model, &n, &w->out);
	if (n.dtype == CKPT_DTYPE_UNKNOWN && n.data)
		write_value(w, n.data, depth + 1);
}

static void write_call(struct writer *w, const struct ckpt_call *call, unsigned depth)
{
	ckpt_buf_add_u8(&w->out, call->kind);
	write_value(w, call->func, depth + 1);
	write_value(w, call->args, depth + 1);
	if (call->kwargs)
		write_value(w, call->kwargs, depth + 1);
	write_seq(w, &call->items, depth);
	ckpt_buf_add_u32(&w->out, call->pairs.count);
	write_unordered(w, &call->pairs, 2, depth);
	if (call->state)
		write_value(w, call->state, depth + 1);
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

static void write_value(struct writer *w, const struct ckpt_value *v, unsigned depth)
{
	uint8_t kind;

	v = ckpt_model_now(w->model, v);
	w->too_much |= depth > MOST_DEPTH || !*w->left;
	if (w->too_much)
		return;
	if (v->kind == CKPT_FOLDED) {
		write_folded(w, v, depth);
		return;
	}
	--*w->left;
	kind = kind_of(w->model, v);
	ckpt_buf_add_u8(&w->out, kind);
	if (kind == OF_NUMPY) {
		write_numpy(w, v, depth);
		return;
	}
	if (v->kind == CKPT_CALL && kind != CKPT_CALL) {
		if (kind == CKPT_BYTES)
			write_bytes_call(w, v);
		else
			write_set(w, set_of_call(w->model, v), depth);
		return;
	}
	switch ((enum ckpt_value_kind)kind) {
	case CKPT_NONE: break;
	case CKPT_BOOL:
	case CKPT_INT:
	case CKPT_EXT: ckpt_buf_add_u64(&w->out, (uint64_t)v->u.integer); break;
	case CKPT_FLOAT: ckpt_buf_add(&w->out, &v->u.real, sizeof(v->u.real)); break;
	case CKPT_BIGINT:
	case CKPT_STR:
	case CKPT_PY2_STR:
	case CKPT_BYTES:
	case CKPT_BYTEARRAY: write_bytes(w, v->u.bytes.ptr, v->u.bytes.len); break;
	case CKPT_TUPLE:
	case CKPT_LIST: write_seq(w, &v->u.seq, depth); break;
	case CKPT_SET:
	case CKPT_FROZENSET: write_set(w, &v->u.seq, depth); break;
	case CKPT_DICT:
		ckpt_buf_add_u32(&w->out, v->u.seq.count);
		write_unordered(w, &v->u.seq, 2, depth);
		break;
	case CKPT_GLOBAL:
		write_bytes(w, v->u.global->module, v->u.global->module_len);
		write_bytes(w, v->u.global->name, v->u.global->name_len);
		break;
	case CKPT_CALL: write_call(w, v->u.call, depth); break;
	case CKPT_FOLDED: break; /* write_folded() */
	case CKPT_PERSID: write_value(w, v->u.persid.pid, depth + 1); break;
	}
}

/* 1: they are equal; 0: they are not. */
static int compare_written(const struct ckpt_differ *d, const struct ckpt_value *a,
			   const struct ckpt_value *b, struct ckpt_error *err)
{
	uint32_t left_a = MOST_WRITTEN, left_b = MOST_WRITTEN;
	struct writer wa = { .model = d->a.model, .left = &left_a };
	struct writer wb = { .model = d->b.model, .left = &left_b };
	int rc;

	write_value(&wa, a, 0);
	write_value(&wb, b, 0);
	if (wa.out.bad || wb.out.bad)
		rc = ckpt_fail_nomem(err);
	else if (wa.too_much || wb.too_much)
		rc = ckpt_fail(err, CKPT_E_LIMIT, "holds too much to be compared as one value");
	else
		rc = wa.out.len == wb.out.len && !memcmp(wa.out.data, wb.out.data, wa.out.len);
	ckpt_buf_clear(&wa.out);
	ckpt_buf_clear(&wb.out);
	return rc;
}

/* ---- comparing ---- */

static bool same_float(const struct ckpt_differ *d, double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) && isnan(b);
	if (ckpt_differ_has(d, CKPT_DIFF_STRICT) && signbit(a) != signbit(b))
		return false; /* 0 and -0 */
	return a == b || fabs(a - b) <= d->options.atol + d->options.rtol * fabs(b);
}

static bool is_missing(const struct ckpt_value *v)
{
	return v->kind == CKPT_PERSID && v->flags & CKPT_VALUE_MISSING;
}

static int unreadable(struct ckpt_differ *d, struct ckpt_pair *pair, const char *why,
		      struct ckpt_error *err)
{
	pair->state = CKPT_PAIR_UNREADABLE;
	pair->why = ckpt_arena_copy(d->arena, why, strlen(why));
	return pair->why ? 0 : ckpt_arena_fail(d->arena, err);
}

int ckpt_compare_values(struct ckpt_differ *d, struct ckpt_pair *pair, struct ckpt_error *err)
{
	const struct ckpt_value *a = pair->a->value, *b = pair->b->value;
	int same;

	if (is_missing(a) || is_missing(b))
		return unreadable(d, pair, "could not be read when the checkpoint was opened", err);
	if (kind_of(d->a.model, a) != kind_of(d->b.model, b)) {
		pair->what = CKPT_DIFFERS_TYPE | CKPT_DIFFERS_VALUE;
		pair->state = CKPT_PAIR_CHANGED;
		return 0;
	}
	same = a->kind == CKPT_FLOAT ? same_float(d, a->u.real, b->u.real)
				     : compare_written(d, a, b, err);
	if (same == CKPT_E_LIMIT)
		return unreadable(d, pair, "holds too much to be compared as one value", err);
	if (same < 0)
		return same;
	pair->what = same ? 0 : CKPT_DIFFERS_VALUE;
	pair->state = same ? CKPT_PAIR_SAME : CKPT_PAIR_CHANGED;
	return 0;
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

int ckpt_compare_containers(struct ckpt_differ *d, struct ckpt_pair *pair, struct ckpt_error *err)
{
	struct ckpt_describer da = { .model = d->a.model }, db = { .model = d->b.model };
	struct ckpt_item a = { .size = sizeof(a) }, b = { .size = sizeof(b) };
	bool same;
	int rc = ckpt_describe(&da, pair->a->value, &a, err);

	if (rc == 0)
		rc = ckpt_describe(&db, pair->b->value, &b, err);
	if (rc == 0) {
		same = !strcmp(a.type, b.type) || (!ckpt_differ_has(d, CKPT_DIFF_STRICT) &&
						   family(&a) && family(&a) == family(&b));
		if (same && a.mapping && b.mapping &&
		    other_keys(d->a.model, pair->a->value) != other_keys(d->b.model, pair->b->value)) {
			d->report.other_keys++;
			same = !ckpt_differ_has(d, CKPT_DIFF_STRICT);
		}
		pair->what = same ? 0 : CKPT_DIFFERS_TYPE;
		pair->state = same ? CKPT_PAIR_SAME : CKPT_PAIR_CHANGED;
	}
	ckpt_describer_clear(&da);
	ckpt_describer_clear(&db);
	return rc;
}
