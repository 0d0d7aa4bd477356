/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What numpy's arrays are made of. numpy believes the state of a dtype: one that says of objects that they are bytes, or the
 * other way round, makes pointers of numbers in the file. So only what numpy writes itself is understood.
 */
#include "scan/walk.h"

#include <ctype.h>
#include <string.h>

enum { OBJECT_FLAGS = 63, TEXT_FLAGS = 8, VOID_FLAGS = 16 };

static const struct ckpt_value *item(const struct ckpt_value *tuple, uint32_t i)
{
	return tuple->kind == CKPT_TUPLE && i < tuple->u.seq.count ? tuple->u.seq.items[i] : NULL;
}

static bool is_kind(const struct ckpt_value *v, enum ckpt_value_kind kind)
{
	return v && v->kind == kind;
}

/* 'f4' -> 'f'; 0: of no kind that is known. */
static char letter_of(const struct ckpt_value *dtype)
{
	const struct ckpt_value *text;
	const char *at;
	uint64_t len;

	if (!ckpt_value_is_call_of(dtype, "numpy", "dtype"))
		return 0;
	text = item(dtype->u.call->args, 0);
	if (!text || (text->kind != CKPT_STR && text->kind != CKPT_PY2_STR))
		return 0;
	at = text->u.bytes.ptr;
	len = text->u.bytes.len;
	if (len && strchr("<>|=", *at)) {
		at++;
		len--;
	}
	if (!len || len > 8 || !strchr("biufcmMSUVO?", *at))
		return 0;
	for (uint64_t i = 1; i < len; i++)
		if (!isdigit((unsigned char)at[i]))
			return 0;
	return *at;
}

bool ckpt_scan_is_numbers_dtype(const struct ckpt_value *v)
{
	char letter = letter_of(v);

	return letter && letter != 'O';
}

/* (3, '<', None, None, None, -1, -1, 0) */
bool ckpt_scan_check_dtype_state(const struct ckpt_value *dtype, const struct ckpt_value *state)
{
	char letter = letter_of(dtype);
	const struct ckpt_value *flags = item(state, 7);

	if (!letter || state->kind != CKPT_TUPLE || state->u.seq.count < 8 ||
	    state->u.seq.count > 9)
		return false;
	if (!is_kind(item(state, 0), CKPT_INT) || !is_kind(item(state, 2), CKPT_NONE) ||
	    !is_kind(item(state, 3), CKPT_NONE) || !is_kind(item(state, 4), CKPT_NONE) ||
	    !is_kind(item(state, 5), CKPT_INT) || !is_kind(item(state, 6), CKPT_INT) ||
	    !is_kind(flags, CKPT_INT))
		return false;
	if (letter == 'O')
		return flags->u.integer == OBJECT_FLAGS;
	return !(flags->u.integer & ~(TEXT_FLAGS | VOID_FLAGS));
}

/* (1, (3, 4), dtype, False, bytes); of objects a list */
bool ckpt_scan_check_array_state(const struct ckpt_value *state)
{
	const struct ckpt_value *dtype = item(state, 2), *data = item(state, 4);
	char letter = dtype ? letter_of(dtype) : 0;

	if (!letter || !data || state->u.seq.count != 5 || !is_kind(item(state, 1), CKPT_TUPLE))
		return false;
	if (letter == 'O')
		return data->kind == CKPT_LIST;
	return data->kind == CKPT_BYTES || data->kind == CKPT_PY2_STR ||
	       ckpt_value_is_call_of(data, "_codecs", "encode") ||
	       ckpt_value_is_call_of(data, "__builtin__", "bytes") ||
	       ckpt_value_is_call_of(data, "builtins", "bytes");
}
