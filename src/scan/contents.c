/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that become dates, or texts of numpy, without anybody asking whether there are such. A date
 * of month 1, day 0 crashes CPython when it is shown; a text of numpy with a character beyond
 * Unicode is one that Python must not have. Source: CPython 3.9 to 3.14, Modules/_datetimemodule.c
 * (date_new, datetime_new, time_new); numpy 1.19 to 2.3, scalartypes and arraytypes.
 */
#include "scan/walk.h"

#include "base/buf.h"

#include <string.h>

bool ckpt_scan_is_of_one_encoding(const struct ckpt_value *v)
{
	for (uint64_t i = 0; v->kind == CKPT_PY2_STR && i < v->u.bytes.len; i++)
		if ((unsigned char)v->u.bytes.ptr[i] & 0x80)
			return false;
	return true;
}

enum { MOST_DEPTH = 8 };

static const struct ckpt_value *item(const struct ckpt_value *v, uint32_t i)
{
	return (v->kind == CKPT_TUPLE || v->kind == CKPT_LIST) && i < v->u.seq.count ? v->u.seq.items[i] : &ckpt_value_none;
}

/* The bytes that V is, or that a call of bytes() or encode() makes; false: they are not known. */
static bool add_bytes(struct ckpt_buf *out, const struct ckpt_value *v, unsigned depth)
{
	if (v->kind == CKPT_BYTES || v->kind == CKPT_BYTEARRAY || v->kind == CKPT_PY2_STR) {
		ckpt_buf_add(out, v->u.bytes.ptr, (size_t)v->u.bytes.len);
		return true;
	}
	if (v->kind == CKPT_STR) { /* as _codecs.encode(text, 'latin1') has it */
		uint8_t *room = ckpt_buf_grow(out, (size_t)v->u.bytes.len);
		uint64_t len = 0;
		bool is_bytes = room && ckpt_latin1_narrow(v->u.bytes.ptr, v->u.bytes.len, room, &len);

		if (room)
			out->len -= (size_t)(v->u.bytes.len - len);
		return is_bytes;
	}
	if (v->kind == CKPT_LIST || v->kind == CKPT_TUPLE) {
		for (uint32_t i = 0; i < v->u.seq.count; i++) {
			uint8_t byte = (uint8_t)v->u.seq.items[i]->u.integer;

			if (v->u.seq.items[i]->kind != CKPT_INT && v->u.seq.items[i]->kind != CKPT_BOOL)
				return false;
			ckpt_buf_add(out, &byte, 1);
		}
		return true;
	}
	if (v->kind != CKPT_CALL || depth == MOST_DEPTH)
		return false;
	return v->u.call->args->kind == CKPT_TUPLE && (!v->u.call->args->u.seq.count || add_bytes(out, item(v->u.call->args, 0), depth + 1));
}

/* ---- dates ---- */

static unsigned days_in(unsigned year, unsigned month)
{
	static const uint8_t days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = year % 4 == 0 && (year % 100 || year % 400 == 0);

	return days[month - 1] + (month == 2 && leap);
}

static bool is_day(const uint8_t *at, bool has_fold)
{
	unsigned year = at[0] << 8 | at[1], month = at[2] & (has_fold ? 0x7F : 0xFF), day = at[3];

	return year >= 1 && year <= 9999 && month >= 1 && month <= 12 && day >= 1 && day <= days_in(year, month);
}

static bool is_time(const uint8_t *at, bool has_fold)
{
	return (at[0] & (has_fold ? 0x7F : 0xFF)) < 24 && at[1] < 60 && at[2] < 60 && (at[3] << 16 | at[4] << 8 | at[5]) < 1000000;
}

bool ckpt_scan_is_date(struct ckpt_scan_walk *w, enum ckpt_scan_call call, const struct ckpt_value *first)
{
	struct ckpt_buf bytes = { 0 };
	bool is = true;

	if (first->kind == CKPT_INT) /* the class looks at numbers itself */
		return true;
	if (!add_bytes(&bytes, first, 0))
		is = false;
	else if (call == CKPT_CALL_DATE)
		is = bytes.len == 4 && is_day(bytes.data, false);
	else if (call == CKPT_CALL_TIME)
		is = bytes.len == 6 && is_time(bytes.data, true);
	else
		is = bytes.len == 10 && is_day(bytes.data, true) && is_time(bytes.data + 4, false);
	w->s->no_memory |= bytes.bad;
	ckpt_buf_clear(&bytes);
	return is;
}

/* ---- ranges ---- */

/* Characters of a text, or bytes; -1: not known. */
static int64_t length_of(const struct ckpt_value *v)
{
	int64_t n = 0;

	if (v->kind == CKPT_CALL) /* encode(text, 'latin1') */
		v = item(v->u.call->args, 0);
	if (v->kind == CKPT_BYTES || v->kind == CKPT_PY2_STR)
		return (int64_t)v->u.bytes.len;
	if (v->kind != CKPT_STR)
		return -1;
	for (uint64_t i = 0; i < v->u.bytes.len; i++)
		n += ((uint8_t)v->u.bytes.ptr[i] & 0xC0) != 0x80;
	return n;
}

bool ckpt_scan_is_range(const struct ckpt_value *args)
{
	uint32_t count = args->u.seq.count;
	const struct ckpt_value *start = item(args, count - 3), *end = item(args, count - 2);

	return start->u.integer >= 0 && start->u.integer <= end->u.integer && end->u.integer <= length_of(item(args, count - 4));
}

bool ckpt_scan_is_position(const struct ckpt_value *bytes, const struct ckpt_value *position)
{
	return position->kind == CKPT_INT && position->u.integer >= 0 && position->u.integer <= length_of(bytes);
}

/* ---- texts of numpy ---- */

bool ckpt_scan_are_texts(struct ckpt_scan_walk *w, const struct ckpt_value *dtype, const struct ckpt_value *data)
{
	struct ckpt_buf bytes = { 0 };
	struct ckpt_scan_numpy_data items = { 0 };
	bool are;

	if (!ckpt_scan_numpy_has_text(w, dtype))
		return true;
	are = add_bytes(&bytes, data, 0);
	items.bytes = bytes.data;
	items.len = bytes.bad ? 0 : bytes.len;
	are = are && ckpt_scan_numpy_are_texts(w, dtype, &items);
	w->s->no_memory |= bytes.bad;
	ckpt_buf_clear(&bytes);
	return are;
}
