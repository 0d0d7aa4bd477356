/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value as Python's repr() shows it, in full, for `ckpt cat`. Text goes to the caller whenever
 * 4 KiB have gathered, so a long value needs little memory.
 *
 * Values form a graph that may share or contain itself. Depth is limited to MOST_DEPTH, which
 * also bounds the recursion of show(), and the number of containers shown to MOST_SHOWN.
 */
#include "base/text.h"
#include "model/find.h"
#include "model/numpy_value.h"
#include "model/repr.h"

#include <ckpt/read.h>

#include <inttypes.h>
#include <string.h>

enum { MOST_DEPTH = 8, MOST_ITEMS = 10000, MOST_SHOWN = 1000000, FLUSH = 4096 };

struct value_printer {
	const struct ckpt_model *model;
	int (*put)(void *ctx, const char *text);
	void *ctx;
	struct ckpt_buf text;
	uint32_t shown; /* values: what is shared is shown again and again */
	struct ckpt_error *err;
};

static int show_value(struct value_printer *s, const struct ckpt_value *v, unsigned depth);

/* Give away what there is, once it is enough. */
static int flush(struct value_printer *s, size_t least)
{
	int rc;

	if (s->text.bad)
		return ckpt_fail_nomem(s->err);
	if (s->text.len < least || !s->text.len)
		return 0;
	ckpt_buf_add_u8(&s->text, '\0');
	if (s->text.bad)
		return ckpt_fail_nomem(s->err);
	rc = s->put(s->ctx, (const char *)s->text.data);
	s->text.len = 0;
	return rc;
}

static int show_text(struct value_printer *s, const struct ckpt_value *v)
{
	bool as_bytes = v->kind == CKPT_BYTES || v->kind == CKPT_BYTEARRAY;
	const char *text = v->u.bytes.ptr;
	uint64_t len = v->u.bytes.len;
	char quote = memchr(text, '\'', len) && !memchr(text, '"', len) ? '"' : '\'', one[24];
	int rc = 0;

	ckpt_buf_printf(&s->text, "%s%c", as_bytes ? "b" : "", quote);
	for (uint64_t i = 0, n; rc == 0 && i < len; i += n) {
		n = as_bytes ? 1 : ckpt_utf8_len(text + i, len - i);
		if (!n)
			n = 1;
		if (n == 1 && text[i] == quote)
			ckpt_buf_printf(&s->text, "\\%c", quote);
		else if (as_bytes && (uint8_t)text[i] >= 0x80)
			ckpt_buf_printf(&s->text, "\\x%02x", (uint8_t)text[i]);
		else
			ckpt_buf_printf(&s->text, "%s", ckpt_escape(one, sizeof(one), text + i, n));
		rc = flush(s, FLUSH);
	}
	ckpt_buf_add_u8(&s->text, (uint8_t)quote);
	return rc;
}

/* dtype and shape; false: it is none. */
static bool show_tensor(struct value_printer *s, const struct ckpt_value *v)
{
	struct ckpt_arena *scratch;
	struct ckpt_tensor t;
	bool is_one;

	if (!ckpt_value_is_tensor(s->model, v))
		return false;
	scratch = ckpt_arena_new(1 << 20);
	is_one = scratch && ckpt_tensor_parse(s->model, v, scratch, &t, NULL) > 0;
	ckpt_buf_printf(&s->text, "<tensor");
	if (is_one)
		ckpt_buf_printf(&s->text, " %s [", ckpt_dtype_name(t.dtype));
	for (uint32_t i = 0; is_one && i < t.ndim; i++)
		ckpt_buf_printf(&s->text, "%s%" PRIu64, i ? ", " : "", t.shape[i]);
	ckpt_buf_printf(&s->text, is_one ? "]>" : ">");
	ckpt_arena_free(scratch);
	return true;
}

/* Keys and values, or items, between OPEN and CLOSE. */
static int show_items(struct value_printer *s, const struct ckpt_seq *seq, bool keyed,
		      unsigned depth, const char *close)
{
	uint32_t step = keyed ? 2 : 1;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i + step <= seq->count; i += step) {
		if (i)
			ckpt_buf_printf(&s->text, ", ");
		if (i / step == MOST_ITEMS) {
			ckpt_buf_printf(&s->text, "... %" PRIu32 " more",
					seq->count / step - MOST_ITEMS);
			break;
		}
		rc = show_value(s, seq->items[i], depth + 1);
		if (rc == 0 && keyed) {
			ckpt_buf_printf(&s->text, ": ");
			rc = show_value(s, seq->items[i + 1], depth + 1);
		}
		if (rc == 0)
			rc = flush(s, FLUSH);
	}
	ckpt_buf_printf(&s->text, "%s", close);
	return rc;
}

static int show_container(struct value_printer *s, const struct ckpt_value *v, unsigned depth)
{
	static const char *const open[] = { "(", "[", "{", "frozenset({", "{" };
	static const char *const close[] = { ")", "]", "}", "})", "}" };
	unsigned which = v->kind - CKPT_TUPLE;

	if (!v->u.seq.count && (v->kind == CKPT_SET || v->kind == CKPT_FROZENSET)) {
		ckpt_buf_printf(&s->text, v->kind == CKPT_SET ? "set()" : "frozenset()");
		return 0;
	}
	ckpt_buf_printf(&s->text, "%s", open[which]);
	return show_items(s, &v->u.seq, v->kind == CKPT_DICT, depth,
			  v->kind == CKPT_TUPLE && v->u.seq.count == 1 ? ",)" : close[which]);
}

/* What was called, with what, and what was put into it: OrderedDict({...}). */
static int show_call(struct value_printer *s, const struct ckpt_value *v, unsigned depth)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(v);
	const struct ckpt_value *func = ckpt_model_now(s->model, v->u.call->func),
				*args = ckpt_model_now(s->model, v->u.call->args);
	char shown[200];
	int rc = 0;

	if (func->kind != CKPT_GLOBAL) {
		ckpt_value_repr(v, &s->text);
		return 0;
	}
	ckpt_buf_printf(&s->text, "%s(",
			ckpt_escape(shown, sizeof(shown), func->u.global->name,
				    func->u.global->name_len));
	if (pairs && pairs->count) {
		ckpt_buf_add_u8(&s->text, '{');
		return show_items(s, pairs, true, depth, "})");
	}
	if (v->u.call->items.count) {
		ckpt_buf_add_u8(&s->text, '[');
		return show_items(s, &v->u.call->items, false, depth, "])");
	}
	if (args->kind == CKPT_TUPLE)
		rc = show_items(s, &args->u.seq, false, depth, "");
	if (rc == 0 && v->u.call->state) {
		ckpt_buf_printf(&s->text,
				args->kind == CKPT_TUPLE && args->u.seq.count ? ", " : "");
		rc = show_value(s, v->u.call->state, depth + 1);
	}
	ckpt_buf_add_u8(&s->text, ')');
	return rc;
}

static int show_value(struct value_printer *s, const struct ckpt_value *v, unsigned depth)
{
	struct ckpt_numpy n;

	v = ckpt_model_now(s->model, v);
	if (v->kind >= CKPT_STR && v->kind <= CKPT_BYTEARRAY)
		return show_text(s, v);
	if (v->kind == CKPT_CALL && show_tensor(s, v))
		return 0;
	if (ckpt_numpy_parse(s->model, v, &n)) {
		ckpt_buf_printf(&s->text, depth ? "<" : "");
		ckpt_numpy_text(s->model, &n, &s->text);
		ckpt_buf_printf(&s->text, depth ? ">" : "");
		return 0;
	}
	if (v->kind == CKPT_CALL || (v->kind >= CKPT_TUPLE && v->kind <= CKPT_DICT)) {
		if (depth == MOST_DEPTH || s->shown++ > MOST_SHOWN) {
			ckpt_buf_printf(&s->text, "...");
			return 0;
		}
		return v->kind == CKPT_CALL ? show_call(s, v, depth) : show_container(s, v, depth);
	}
	ckpt_value_repr(v, &s->text);
	return 0;
}

int ckpt_show(const struct ckpt_model *model, const char *name,
	      int (*put)(void *ctx, const char *text), void *ctx, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct value_printer s = { .model = model, .put = put, .ctx = ctx, .err = err };
	const struct ckpt_value *v;

	if (rc == 0)
		rc = ckpt_model_find(model, name, &v, err);
	if (rc == 0)
		rc = show_value(&s, v, 0);
	if (rc == 0)
		rc = flush(&s, 1);
	ckpt_buf_clear(&s.text);
	return rc;
}
