/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value as Python's repr() would show it, in one line of bounded length: numbers and texts, and
 * one level of tuples, lists and sets; of everything else, what it is. (show.c shows all of it.)
 *
 * Floats have the shortest text that reads back the same, in any locale. Bytes that could move a
 * terminal's cursor are escaped: whoever prints a repr may print it as it is.
 */
#include "model/repr.h"

#include "base/double.h"
#include "base/text.h"
#include "pickle/fold.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void put_float(double v, struct ckpt_buf *out)
{
	char text[40];

	if (isnan(v) || isinf(v)) {
		ckpt_buf_printf(out, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
		return;
	}
	for (int digits = 1; digits <= 17;
	     digits++) { /* the shortest text that reads back the same */
		ckpt_double_format(text, sizeof(text), digits, v);
		if (ckpt_double_parse(text, NULL) == v)
			break;
	}
	ckpt_buf_printf(out, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
}

enum { MOST_BIGINT = 40 };

static void put_bigint(const struct ckpt_value *v, struct ckpt_buf *out)
{
	uint64_t least = v->u.bytes.len > MOST_BIGINT ? v->u.bytes.len - MOST_BIGINT : 0;

	/* as the two's complement it is stored as: these are hashes and seeds, not quantities */
	ckpt_buf_printf(out, "0x");
	for (uint64_t i = v->u.bytes.len; i-- > least && !out->bad;)
		ckpt_buf_printf(out, "%02x", (uint8_t)v->u.bytes.ptr[i]);
	if (least)
		ckpt_buf_printf(out, "... (%" PRIu64 " bytes)", v->u.bytes.len);
}

enum { MOST_QUOTED = 200 };

static void put_quoted(const char *text, uint64_t len, bool as_bytes, struct ckpt_buf *out)
{
	uint64_t shown = len < MOST_QUOTED ? len : MOST_QUOTED;
	char quote = memchr(text, '\'', len) && !memchr(text, '"', len) ? '"' : '\'';
	char one[24];

	ckpt_buf_add_u8(out, (uint8_t)quote);
	for (uint64_t i = 0; i < shown;) {
		uint64_t n = as_bytes ? 1 : ckpt_utf8_len(text + i, len - i);

		if (!n)
			n = 1;
		if (n == 1 && (text[i] == quote)) {
			ckpt_buf_printf(out, "\\%c", quote);
		} else if (as_bytes && (uint8_t)text[i] >= 0x80) {
			ckpt_buf_printf(out, "\\x%02x", (uint8_t)text[i]);
		} else {
			ckpt_escape(one, sizeof(one), text + i, n);
			ckpt_buf_add(out, one, strlen(one));
		}
		i += n;
	}
	if (shown < len)
		ckpt_buf_printf(out, "...");
	ckpt_buf_add_u8(out, (uint8_t)quote);
}

static void put_escaped(const char *text, uint64_t len, struct ckpt_buf *out)
{
	char shown[200];

	ckpt_buf_printf(out, "%s", ckpt_escape(shown, sizeof(shown), text, len));
}

/* Bytes as protocol 2 has them: _codecs.encode(text, 'latin1'), or bytes() if there are none. False: V is something else. */
static bool put_encoded_bytes(const struct ckpt_value *v, struct ckpt_buf *out)
{
	const struct ckpt_call *call = v->u.call;
	const struct ckpt_seq *args = &call->args->u.seq;
	const struct ckpt_value *text = args->count ? args->items[0] : NULL;
	char bytes[MOST_QUOTED + 1];
	uint64_t len = 0;

	if (call->kind != CKPT_CALL_REDUCE || call->args->kind != CKPT_TUPLE || call->state || call->items.count || call->pairs.count)
		return false;
	if (text || !(ckpt_value_is_call_of(v, "builtins", "bytes") || ckpt_value_is_call_of(v, "__builtin__", "bytes"))) {
		if (args->count != 2 || text->kind != CKPT_STR || !ckpt_value_is_call_of(v, "_codecs", "encode") ||
		    !(ckpt_value_is_str(args->items[1], "latin1") || ckpt_value_is_str(args->items[1], "latin-1")))
			return false;
		for (uint64_t i = 0; i < text->u.bytes.len; i++) {
			uint8_t c = (uint8_t)text->u.bytes.ptr[i], next;

			if (c >= 0x80 && (c < 0xc2 || c > 0xc3 || i + 1 == text->u.bytes.len))
				return false;
			next = c < 0x80 ? c : (uint8_t)text->u.bytes.ptr[++i];
			if (len < sizeof(bytes))
				bytes[len++] = (char)(c < 0x80 ? c : (c & 3) << 6 | (next & 0x3f));
		}
	}
	ckpt_buf_printf(out, "b");
	put_quoted(bytes, len, true, out);
	return true;
}

static void put_type_of(const struct ckpt_value *v, struct ckpt_buf *out)
{
	const struct ckpt_value *func = v->u.call->func;

	if (func->kind == CKPT_GLOBAL)
		put_escaped(func->u.global->name, func->u.global->name_len, out);
	else
		ckpt_buf_printf(out, "unknown");
}

/* Small tuples and lists of plain values, one level. */
static void put_flat_seq(const struct ckpt_value *v, struct ckpt_buf *out)
{
	static const char *const open[] = { "(", "[", "{", "frozenset({" };
	static const char *const close[] = { ")", "]", "}", "})" };
	unsigned which = v->kind - CKPT_TUPLE;

	ckpt_buf_printf(out, "%s", open[which]);
	for (uint32_t i = 0; i < v->u.seq.count; i++) {
		const struct ckpt_value *item = v->u.seq.items[i];

		if (i == 8) {
			ckpt_buf_printf(out, ", ... %" PRIu32 " items", v->u.seq.count);
			break;
		}
		ckpt_buf_printf(out, "%s", i ? ", " : "");
		if (item->kind < CKPT_TUPLE || item->kind == CKPT_GLOBAL)
			ckpt_value_repr(item, out);
		else
			ckpt_buf_printf(out, "%s", ckpt_value_kind_name(item));
	}
	ckpt_buf_printf(out, "%s%s", v->kind == CKPT_TUPLE && v->u.seq.count == 1 ? "," : "",
			close[which]);
}

void ckpt_value_repr(const struct ckpt_value *v, struct ckpt_buf *out)
{
	switch ((enum ckpt_value_kind)v->kind) {
	case CKPT_NONE: ckpt_buf_printf(out, "None"); break;
	case CKPT_BOOL: ckpt_buf_printf(out, v->u.integer ? "True" : "False"); break;
	case CKPT_INT: ckpt_buf_printf(out, "%" PRId64, v->u.integer); break;
	case CKPT_BIGINT: put_bigint(v, out); break;
	case CKPT_FLOAT: put_float(v->u.real, out); break;
	case CKPT_STR:
	case CKPT_PY2_STR: put_quoted(v->u.bytes.ptr, v->u.bytes.len, false, out); break;
	case CKPT_BYTEARRAY:
	case CKPT_BYTES:
		ckpt_buf_printf(out, "b");
		put_quoted(v->u.bytes.ptr, v->u.bytes.len, true, out);
		break;
	case CKPT_TUPLE:
	case CKPT_LIST:
	case CKPT_SET:
	case CKPT_FROZENSET: put_flat_seq(v, out); break;
	case CKPT_DICT: ckpt_buf_printf(out, "dict of %" PRIu32, v->u.seq.count / 2); break;
	case CKPT_GLOBAL:
		put_escaped(v->u.global->module, v->u.global->module_len, out);
		ckpt_buf_printf(out, ".");
		put_escaped(v->u.global->name, v->u.global->name_len, out);
		break;
	case CKPT_CALL:
		if (put_encoded_bytes(v, out))
			break;
		ckpt_buf_printf(out, "<");
		put_type_of(v, out);
		ckpt_buf_printf(out, " object>");
		break;
	case CKPT_PERSID:
		ckpt_buf_printf(out, v->flags & CKPT_VALUE_MISSING ? "<missing>" : "<storage>");
		break;
	case CKPT_EXT: ckpt_buf_printf(out, "<extension %" PRId64 ">", v->u.integer); break;
	case CKPT_FOLDED:
		ckpt_buf_printf(out, "<");
		put_escaped(v->u.folded.mold->func->u.global->name,
			    v->u.folded.mold->func->u.global->name_len, out);
		ckpt_buf_printf(out, " object>");
		break;
	}
}
