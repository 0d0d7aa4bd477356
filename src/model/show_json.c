/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value as JSON, in full, for `ckpt cat --json`. As in show.c, text goes to the caller whenever 4 KiB have gathered.
 *
 * The recursion of put_value() is as deep as the value, and at most MOST_DEPTH. A container that contains itself is found among
 * those around it, and nothing is left out: what is too deep or too large is an error.
 */
#include "base/strmap.h"
#include "base/text.h"
#include "model/find.h"
#include "model/meaning.h"
#include "model/numpy_value.h"
#include "model/plain_values.h"
#include "model/repr.h"
#include "tensor/cast.h"

#include <ckpt/read.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 100, MOST_SHOWN = 1000000, FLUSH = 4096, MOST_DECIMAL = 512 };
/* Of text, and for each byte of the pickle: no number and no word for an object takes so much. */
enum { MOST_TEXT = 64 << 20, MOST_TEXT_PER_BYTE = 64 };

struct json_printer {
	const struct ckpt_model *model;
	int (*put)(void *ctx, const char *text);
	void *ctx;
	struct ckpt_buf text, key;
	const struct ckpt_value *around[MOST_DEPTH];
	uint32_t shown;
	uint64_t text_len; /* of all that PUT got */
	int rc; /* of a flush(): once it failed, nothing more is put, whoever heard of it */
	struct ckpt_error *err;
};

static int put_value(struct json_printer *p, const struct ckpt_value *v, unsigned depth);

static int put_out(struct json_printer *p)
{
	uint64_t most = MOST_TEXT + MOST_TEXT_PER_BYTE * (uint64_t)p->model->doc->pickle_len;

	p->text_len += p->text.len;
	if (p->text_len > most)
		return ckpt_fail(p->err, CKPT_E_LIMIT,
				 "is more than %" PRIu64 " bytes of text, values in several places "
				 "counted again",
				 most);
	ckpt_buf_add_u8(&p->text, '\0');
	return p->text.bad ? ckpt_fail_nomem(p->err)
			   : p->put(p->ctx, (const char *)p->text.data);
}

static int flush(struct json_printer *p, size_t least)
{
	if (p->rc < 0)
		return p->rc;
	if (p->text.bad || p->key.bad)
		return ckpt_fail_nomem(p->err);
	if (p->text.len < least || !p->text.len)
		return 0;
	p->rc = put_out(p);
	p->text.len = 0;
	return p->rc < 0 ? p->rc : 0;
}

/* ---- texts ---- */

/* Of N bytes that UTF-8 has for one character, or for half of a pair (a lone surrogate). */
static uint32_t code_point(const uint8_t *s, size_t n)
{
	uint32_t cp = n == 1 ? s[0] : s[0] & (0x7fu >> n);

	for (size_t i = 1; i < n; i++)
		cp = cp << 6 | (s[i] & 0x3f);
	return cp;
}

/* As Python has them in a str: ED A0..BF xx. */
static bool is_lone_surrogate(const uint8_t *s, uint64_t len)
{
	return len >= 3 && s[0] == 0xed && s[1] >= 0xa0 && s[1] <= 0xbf && s[2] >> 6 == 2;
}

static void put_code_point(struct ckpt_buf *out, uint32_t cp)
{
	if (cp == '"' || cp == '\\')
		ckpt_buf_printf(out, "\\%c", (char)cp);
	else if (cp >= 0x20 && cp < 0x7f)
		ckpt_buf_add_u8(out, (uint8_t)cp);
	else if (cp == '\n' || cp == '\t' || cp == '\r')
		ckpt_buf_printf(out, "\\%c", cp == '\n' ? 'n' : cp == '\t' ? 't' : 'r');
	else if (cp < 0x10000)
		ckpt_buf_printf(out, "\\u%04x", cp);
	else
		ckpt_buf_printf(out, "\\u%04x\\u%04x", 0xd7c0 + (cp >> 10), 0xdc00 + (cp & 0x3ff));
}

static int put_text(struct json_printer *p, const char *text, uint64_t len)
{
	int rc = 0;

	ckpt_buf_add_u8(&p->text, '"');
	for (uint64_t i = 0, n; rc == 0 && i < len; i += n) {
		const uint8_t *at = (const uint8_t *)text + i;

		n = ckpt_utf8_len(text + i, len - i);
		if (!n && is_lone_surrogate(at, len - i))
			n = 3;
		put_code_point(&p->text, n ? code_point(at, n) : 0xfffd);
		n = n ? n : 1;
		rc = flush(p, FLUSH);
	}
	ckpt_buf_add_u8(&p->text, '"');
	return rc;
}

static void put_plain_text(struct json_printer *p, const char *text)
{
	put_text(p, text, strlen(text)); /* the next flush() tells what failed */
}

static int put_bytes(struct json_printer *p, const uint8_t *bytes, uint64_t len)
{
	int rc = 0;

	ckpt_buf_printf(&p->text, "{\"$bytes\":\"");
	for (uint64_t i = 0; rc == 0 && i < len; i++) {
		ckpt_buf_printf(&p->text, "%02x", bytes[i]);
		rc = flush(p, FLUSH);
	}
	ckpt_buf_printf(&p->text, "\"}");
	return rc;
}

/* ---- numbers ---- */

/* Two's complement, little-endian, as decimal digits; of very large ones as hex. */
static void put_bigint(struct ckpt_buf *out, const struct ckpt_value *v)
{
	const uint8_t *bytes = (const uint8_t *)v->u.bytes.ptr;
	size_t len = v->u.bytes.len, digits = 0;
	uint8_t number[MOST_DECIMAL];
	char text[3 * MOST_DECIMAL];
	bool negative = len && bytes[len - 1] & 0x80;
	unsigned carry = 1;

	if (len > MOST_DECIMAL) {
		ckpt_buf_printf(out, "0x");
		for (size_t i = len; i-- > 0 && !out->bad;)
			ckpt_buf_printf(out, "%02x", bytes[i]);
		return;
	}
	for (size_t i = 0; i < len; i++) {
		unsigned digit = negative ? (uint8_t)~bytes[i] + carry : bytes[i];

		number[i] = (uint8_t)digit;
		carry = digit >> 8;
	}
	do {
		unsigned rest = 0;

		for (size_t i = len; i-- > 0;) {
			rest = rest << 8 | number[i];
			number[i] = (uint8_t)(rest / 10);
			rest %= 10;
		}
		text[digits++] = (char)('0' + rest);
		while (len && !number[len - 1])
			len--;
	} while (len);
	ckpt_buf_printf(out, negative ? "-" : "");
	while (digits)
		ckpt_buf_add_u8(out, (uint8_t)text[--digits]);
}

static void put_real(struct ckpt_buf *out, double real)
{
	struct ckpt_value v = { .kind = CKPT_FLOAT, .u.real = real };

	ckpt_buf_printf(out, isfinite(real) ? "" : "\"");
	ckpt_value_repr(&v, out);
	ckpt_buf_printf(out, isfinite(real) ? "" : "\"");
}

/* A number as JSON has it; QUOTE "" if it is within quotes already. */
static void put_number(struct ckpt_buf *out, const struct ckpt_value *v, const char *quote)
{
	switch (v->kind) {
	case CKPT_NONE: ckpt_buf_printf(out, "null"); break;
	case CKPT_BOOL: ckpt_buf_printf(out, v->u.integer ? "true" : "false"); break;
	case CKPT_INT: ckpt_buf_printf(out, "%" PRId64, v->u.integer); break;
	case CKPT_BIGINT:
		ckpt_buf_printf(out, "%s", quote);
		put_bigint(out, v);
		ckpt_buf_printf(out, "%s", quote);
		break;
	default:
		if (*quote)
			put_real(out, v->u.real);
		else
			ckpt_value_repr(v, out);
	}
}

static void put_half(struct ckpt_buf *out, enum ckpt_dtype dtype, const uint8_t *bytes)
{
	double real;

	ckpt_cast_items(dtype, CKPT_DTYPE_FLOAT64, bytes, &real, 1);
	put_real(out, real);
}

/* A number of numpy is a number; false: there is none. */
static bool put_scalar(struct json_printer *p, const struct ckpt_numpy *n)
{
	struct ckpt_buf *out = &p->text;
	uint8_t bytes[16] = { 0 };
	uint64_t wide;
	uint32_t size;

	if (!n->is_scalar || !ckpt_numpy_scalar(p->model, n, bytes))
		return false;
	size = ckpt_dtype_size(n->dtype);
	memcpy(&wide, bytes, sizeof(wide));
	switch (n->dtype) {
	case CKPT_DTYPE_BOOL: ckpt_buf_printf(out, wide ? "true" : "false"); break;
	case CKPT_DTYPE_INT8: ckpt_buf_printf(out, "%d", (int8_t)wide); break;
	case CKPT_DTYPE_INT16: ckpt_buf_printf(out, "%d", (int16_t)wide); break;
	case CKPT_DTYPE_INT32: ckpt_buf_printf(out, "%d", (int32_t)wide); break;
	case CKPT_DTYPE_INT64: ckpt_buf_printf(out, "%" PRId64, (int64_t)wide); break;
	case CKPT_DTYPE_COMPLEX64:
	case CKPT_DTYPE_COMPLEX128:
		ckpt_buf_add_u8(out, '[');
		put_half(out, size == 8 ? CKPT_DTYPE_FLOAT32 : CKPT_DTYPE_FLOAT64, bytes);
		ckpt_buf_add_u8(out, ',');
		put_half(out, size == 8 ? CKPT_DTYPE_FLOAT32 : CKPT_DTYPE_FLOAT64,
			 bytes + size / 2);
		ckpt_buf_add_u8(out, ']');
		break;
	default:
		if (ckpt_dtype_is_floating(n->dtype))
			put_half(out, n->dtype, bytes);
		else
			ckpt_buf_printf(out, wide > INT64_MAX ? "\"%" PRIu64 "\"" : "%" PRIu64,
					wide);
	}
	return true;
}

/* ---- tensors and arrays ---- */

static void put_shape(struct json_printer *p, const uint64_t *shape, uint32_t ndim)
{
	ckpt_buf_printf(&p->text, ",\"shape\":[");
	for (uint32_t i = 0; i < ndim; i++)
		ckpt_buf_printf(&p->text, shape[i] > INT64_MAX ? "%s\"%" PRIu64 "\"" : "%s%" PRIu64,
				i ? "," : "", shape[i]);
	ckpt_buf_printf(&p->text, "]}");
}

static bool put_tensor(struct json_printer *p, const struct ckpt_value *v)
{
	struct ckpt_arena *scratch;
	struct ckpt_tensor t;
	bool is_one;

	if (!ckpt_value_is_tensor(p->model, v))
		return false;
	scratch = ckpt_arena_new(1 << 20);
	is_one = scratch && ckpt_tensor_parse(p->model, v, scratch, &t, NULL) > 0;
	ckpt_buf_printf(&p->text, "{\"$tensor\":");
	if (is_one) {
		put_plain_text(p, ckpt_dtype_name(t.dtype));
		put_shape(p, t.shape, t.ndim);
	} else {
		ckpt_buf_printf(&p->text, "null}");
	}
	ckpt_arena_free(scratch);
	return true;
}

static bool put_numpy(struct json_printer *p, const struct ckpt_value *v)
{
	struct ckpt_numpy n;

	if (!ckpt_numpy_parse(p->model, v, &n))
		return false;
	if (put_scalar(p, &n))
		return true;
	ckpt_buf_printf(&p->text, n.is_scalar ? "{\"$scalar\":" : "{\"$ndarray\":");
	if (n.dtype == CKPT_DTYPE_UNKNOWN)
		put_text(p, n.code, n.code_len);
	else
		put_plain_text(p, ckpt_dtype_name(n.dtype));
	put_shape(p, n.shape, n.ndim);
	return true;
}

/* ---- containers ---- */

static int put_items(struct json_printer *p, const struct ckpt_seq *seq, unsigned depth)
{
	int rc = 0;

	ckpt_buf_add_u8(&p->text, '[');
	for (uint32_t i = 0; rc == 0 && i < seq->count; i++) {
		ckpt_buf_printf(&p->text, i ? "," : "");
		rc = put_value(p, seq->items[i], depth);
	}
	ckpt_buf_add_u8(&p->text, ']');
	return rc;
}

static int put_pairs(struct json_printer *p, const struct ckpt_seq *pairs, unsigned depth)
{
	int rc = 0;

	ckpt_buf_add_u8(&p->text, '[');
	for (uint32_t i = 0; rc == 0 && i + 1 < pairs->count; i += 2) {
		ckpt_buf_printf(&p->text, i ? ",[" : "[");
		rc = put_value(p, pairs->items[i], depth);
		ckpt_buf_add_u8(&p->text, ',');
		if (rc == 0)
			rc = put_value(p, pairs->items[i + 1], depth);
		ckpt_buf_add_u8(&p->text, ']');
	}
	ckpt_buf_add_u8(&p->text, ']');
	return rc;
}

static bool is_number(const struct ckpt_value *v)
{
	return v->kind <= CKPT_FLOAT;
}

/* Where in P->key the text of each key ends; they stand behind each other. */
static int collect_keys(struct json_printer *p, const struct ckpt_seq *pairs, uint64_t *ends)
{
	p->key.len = 0;
	for (uint32_t i = 0; i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *key = ckpt_model_now(p->model, pairs->items[i]);

		if (ckpt_value_is_text(key) && (!key->u.bytes.len || key->u.bytes.ptr[0] != '$'))
			ckpt_buf_add(&p->key, key->u.bytes.ptr, key->u.bytes.len);
		else if (is_number(key))
			put_number(&p->key, key, "");
		else
			return 0;
		ends[i / 2] = p->key.len;
	}
	return p->key.bad ? ckpt_fail_nomem(p->err) : 1;
}

/* 1: each key has a text, and no other has the same. */
static int keys_are_texts(struct json_printer *p, const struct ckpt_seq *pairs, uint64_t *ends)
{
	struct ckpt_strmap seen = { 0 };
	uint32_t count = pairs->count / 2;
	int rc = collect_keys(p, pairs, ends);
	bool there;

	if (rc > 0 && !ckpt_strmap_reserve(&seen, count))
		rc = ckpt_fail_nomem(p->err);
	for (uint32_t i = 0; rc > 0 && i < count; i++) {
		uint64_t start = i ? ends[i - 1] : 0;
		const char *text = ends[i] > start ? (const char *)p->key.data + start : "";

		if (!ckpt_strmap_insert(&seen, text, ends[i] - start, i, &there))
			rc = ckpt_fail_nomem(p->err);
		else if (there)
			rc = 0;
	}
	ckpt_strmap_clear(&seen);
	return rc;
}

static int put_key(struct json_printer *p, const struct ckpt_value *key)
{
	key = ckpt_model_now(p->model, key);
	if (!is_number(key))
		return put_text(p, key->u.bytes.ptr, key->u.bytes.len);
	ckpt_buf_add_u8(&p->text, '"');
	put_number(&p->text, key, "");
	ckpt_buf_add_u8(&p->text, '"');
	return 0;
}

static int put_mapping(struct json_printer *p, const struct ckpt_seq *pairs, unsigned depth)
{
	uint64_t *ends = calloc(pairs->count / 2 + 1u, sizeof(*ends));
	int rc = ends ? keys_are_texts(p, pairs, ends) : ckpt_fail_nomem(p->err);

	free(ends);
	if (rc < 0)
		return rc;
	if (rc == 0) {
		ckpt_buf_printf(&p->text, "{\"$dict\":");
		rc = put_pairs(p, pairs, depth);
		ckpt_buf_add_u8(&p->text, '}');
		return rc;
	}
	rc = 0;
	ckpt_buf_add_u8(&p->text, '{');
	for (uint32_t i = 0; rc == 0 && i + 1 < pairs->count; i += 2) {
		ckpt_buf_printf(&p->text, i ? "," : "");
		rc = put_key(p, pairs->items[i]);
		ckpt_buf_add_u8(&p->text, ':');
		if (rc == 0)
			rc = put_value(p, pairs->items[i + 1], depth);
	}
	ckpt_buf_add_u8(&p->text, '}');
	return rc;
}

static void put_global(struct json_printer *p, const char *what, const struct ckpt_value *v)
{
	const struct ckpt_global *g = v->kind == CKPT_GLOBAL ? v->u.global : NULL;

	ckpt_buf_printf(&p->text, "{\"%s\":", what);
	if (!g) {
		ckpt_buf_printf(&p->text, "null");
		return;
	}
	p->key.len = 0;
	ckpt_buf_add(&p->key, g->module, g->module_len);
	ckpt_buf_add_u8(&p->key, '.');
	ckpt_buf_add(&p->key, g->name, g->name_len);
	if (!p->key.bad)
		put_text(p, (const char *)p->key.data, p->key.len);
}

/* What was called, with what, and what was put into it. */
static int put_call(struct json_printer *p, const struct ckpt_value *v, unsigned depth)
{
	const struct ckpt_call *call = v->u.call;
	const struct ckpt_value *args = ckpt_model_now(p->model, call->args);
	int rc = 0;

	put_global(p, "$object", ckpt_model_now(p->model, call->func));
	if (args->kind == CKPT_TUPLE && args->u.seq.count) {
		ckpt_buf_printf(&p->text, ",\"args\":");
		rc = put_items(p, &args->u.seq, depth);
	}
	if (rc == 0 && call->kwargs) {
		ckpt_buf_printf(&p->text, ",\"kwargs\":");
		rc = put_value(p, call->kwargs, depth);
	}
	if (rc == 0 && call->items.count) {
		ckpt_buf_printf(&p->text, ",\"items\":");
		rc = put_items(p, &call->items, depth);
	}
	if (rc == 0 && call->pairs.count) {
		ckpt_buf_printf(&p->text, ",\"pairs\":");
		rc = put_pairs(p, &call->pairs, depth);
	}
	if (rc == 0 && call->state) {
		ckpt_buf_printf(&p->text, ",\"state\":");
		rc = put_value(p, call->state, depth);
	}
	ckpt_buf_add_u8(&p->text, '}');
	return rc;
}

/* Dicts, and what was filled like one and has no more than that: an OrderedDict, with `_metadata` or without. */
static bool is_mapping(const struct ckpt_value *v)
{
	return v->kind == CKPT_DICT || ckpt_value_is_call_of(v, "collections", "OrderedDict") ||
	       ckpt_value_is_call_of(v, "collections", "defaultdict") ||
	       ckpt_value_is_call_of(v, "collections", "Counter");
}

/* set([1, 2]), frozenset and torch.Size, as protocol 2 has them: the items; else NULL. */
static const struct ckpt_seq *items_of_call(const struct json_printer *p,
					    const struct ckpt_value *v)
{
	struct ckpt_meaning m;

	ckpt_value_meaning(p->model, v, &m);
	return m.kind == CKPT_NODE_TUPLE || m.kind == CKPT_NODE_SET || m.kind == CKPT_NODE_FROZENSET
		       ? m.items
		       : NULL;
}

static int put_container(struct json_printer *p, const struct ckpt_value *v, unsigned depth)
{
	const struct ckpt_seq *items;

	for (unsigned i = depth; i-- > 0;)
		if (p->around[i] == v) {
			ckpt_buf_printf(&p->text, "{\"$cycle\":%u}", depth - i);
			return 0;
		}
	if (depth == MOST_DEPTH)
		return ckpt_fail(p->err, CKPT_E_LIMIT, "is nested deeper than %d levels",
				 MOST_DEPTH);
	if (p->shown++ == MOST_SHOWN)
		return ckpt_fail(p->err, CKPT_E_LIMIT,
				 "has more than %d containers, shared ones counted again",
				 MOST_SHOWN);
	p->around[depth++] = v;
	if (is_mapping(v) && ckpt_value_pairs(v))
		return put_mapping(p, ckpt_value_pairs(v), depth);
	items = v->kind == CKPT_CALL ? items_of_call(p, v) : NULL;
	if (items)
		return put_items(p, items, depth);
	return v->kind == CKPT_CALL ? put_call(p, v, depth) : put_items(p, &v->u.seq, depth);
}

static void put_storage(struct json_printer *p, const struct ckpt_value *v)
{
	int64_t storage = ckpt_storage_of(v);

	ckpt_buf_printf(&p->text,
			"{\"%s\":", v->flags & CKPT_VALUE_MISSING ? "$missing" : "$storage");
	if (storage >= 0)
		put_plain_text(p, ckpt_dtype_name(p->model->storages[storage].dtype));
	else
		ckpt_buf_printf(&p->text, "null");
	ckpt_buf_add_u8(&p->text, '}');
}

/* Bytes, in all ways that a pickle has for them. *ARE: it is some. */
static int put_if_bytes(struct json_printer *p, const struct ckpt_value *v, bool *are)
{
	struct ckpt_arena *scratch;
	const uint8_t *bytes;
	uint64_t len;
	int rc = 0;

	*are = v->kind == CKPT_BYTES || v->kind == CKPT_BYTEARRAY;
	if (*are)
		return put_bytes(p, (const uint8_t *)v->u.bytes.ptr, v->u.bytes.len);
	if (!ckpt_value_is_call_of(v, "_codecs", "encode") &&
	    !ckpt_value_is_call_of(v, "__builtin__", "bytes") &&
	    !ckpt_value_is_call_of(v, "builtins", "bytes"))
		return 0;
	scratch = ckpt_arena_new(UINT64_MAX / 4);
	if (!scratch)
		return ckpt_fail_nomem(p->err);
	*are = ckpt_plain_bytes_in(p->model, v, scratch, &bytes, &len);
	if (*are)
		rc = put_bytes(p, bytes, len);
	ckpt_arena_free(scratch);
	return rc;
}

static int put_value(struct json_printer *p, const struct ckpt_value *v, unsigned depth)
{
	bool done = true;
	int rc;

	v = ckpt_model_now(p->model, v);
	rc = put_if_bytes(p, v, &done);
	if (rc < 0)
		return rc;
	if (!done && v->kind == CKPT_CALL)
		done = put_tensor(p, v) || put_numpy(p, v);
	if (done)
		return flush(p, FLUSH);
	switch ((enum ckpt_value_kind)v->kind) {
	case CKPT_STR:
	case CKPT_PY2_STR: rc = put_text(p, v->u.bytes.ptr, v->u.bytes.len); break;
	case CKPT_GLOBAL:
		put_global(p, "$global", v);
		ckpt_buf_add_u8(&p->text, '}');
		break;
	case CKPT_PERSID: put_storage(p, v); break;
	case CKPT_EXT:
		ckpt_buf_printf(&p->text, "{\"$extension\":%" PRId64 "}", v->u.integer);
		break;
	case CKPT_TUPLE:
	case CKPT_LIST:
	case CKPT_SET:
	case CKPT_FROZENSET:
	case CKPT_DICT:
	case CKPT_CALL: rc = put_container(p, v, depth); break;
	default: put_number(&p->text, v, "\""); break;
	}
	return rc < 0 ? rc : flush(p, FLUSH);
}

int ckpt_show_json(const struct ckpt_model *model, const char *name,
		   int (*put)(void *ctx, const char *text), void *ctx, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct json_printer p = { .model = model, .put = put, .ctx = ctx, .err = err };
	const struct ckpt_value *v;
	char shown[160];

	if (rc == 0)
		rc = ckpt_model_find(model, name, &v, err);
	if (rc == 0) {
		rc = put_value(&p, v, 0);
		if (rc == CKPT_E_LIMIT && *name)
			ckpt_error_prefix(err, rc, "'%s' ",
					  ckpt_escape(shown, sizeof(shown), name, strlen(name)));
		if (rc == CKPT_E_LIMIT)
			ckpt_error_at(err, rc, ckpt_document_path(model->doc), NULL,
				      CKPT_NO_OFFSET);
	}
	if (rc == 0)
		rc = flush(&p, 1);
	ckpt_buf_clear(&p.text);
	ckpt_buf_clear(&p.key);
	return rc;
}
