/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opcodes, frames and the memo of a pickle that is written: the bytes of CPython's pickler in C
 * (_Pickler_Write, _Pickler_OpcodeBoundary and memo_put in Modules/_pickle.c).
 *
 * What must stay true: memo indices are given in the order of the calls of ckpt_emit_memoize(),
 * and what is one object in CPython (globals, interned strings, strings of one character) is found
 * by content. The header of a frame is reserved when the frame opens and filled when it closes; a
 * frame of less than 4 bytes gets none, and its bytes move up. So no offset into the output is
 * final while a frame is open.
 */
#include "pickle/emit.h"

#include <stdlib.h>
#include <string.h>

enum { FRAME_TARGET = 64 * 1024, FRAME_MIN = 4, FRAME_HEADER = 9, MOST_LONG_TEXT = 1784 };

/* ---- output and frames ---- */

void ckpt_emit_close_frame(struct ckpt_emitter *e)
{
	size_t len;

	if (e->frame_start == SIZE_MAX || e->out->bad)
		return;
	len = e->out->len - e->frame_start - FRAME_HEADER;
	if (len >= FRAME_MIN) {
		uint8_t *at = e->out->data + e->frame_start;

		at[0] = CKPT_OP_FRAME;
		for (unsigned i = 0; i < 8; i++)
			at[1 + i] = (uint8_t)((uint64_t)len >> (8 * i));
	} else { /* too short for a frame: no header */
		memmove(e->out->data + e->frame_start, e->out->data + e->frame_start + FRAME_HEADER,
			len);
		e->out->len -= FRAME_HEADER;
	}
	e->frame_start = SIZE_MAX;
}

static void open_frame(struct ckpt_emitter *e)
{
	if (e->framing && e->frame_start == SIZE_MAX) {
		e->frame_start = e->out->len;
		ckpt_buf_add_fill(e->out, 0, FRAME_HEADER);
	}
}

void ckpt_emit_boundary(struct ckpt_emitter *e)
{
	if (e->frame_start != SIZE_MAX &&
	    e->out->len - e->frame_start - FRAME_HEADER >= FRAME_TARGET)
		ckpt_emit_close_frame(e);
}

void ckpt_emit(struct ckpt_emitter *e, const void *bytes, size_t len)
{
	open_frame(e);
	ckpt_buf_add(e->out, bytes, len);
}

void ckpt_emit_op(struct ckpt_emitter *e, enum ckpt_opcode op)
{
	uint8_t byte = (uint8_t)op;

	ckpt_emit(e, &byte, 1);
}

void ckpt_emit_op_le(struct ckpt_emitter *e, enum ckpt_opcode op, uint64_t v, unsigned width)
{
	uint8_t bytes[9] = { (uint8_t)op };

	for (unsigned i = 0; i < width; i++)
		bytes[1 + i] = (uint8_t)(v >> (8 * i));
	ckpt_emit(e, bytes, 1 + width);
}

/* Long payloads stand outside of frames, header and all. */
void ckpt_emit_payload(struct ckpt_emitter *e, enum ckpt_opcode op, unsigned width,
		       const char *bytes, uint64_t len)
{
	bool framing = e->framing, bypass = len >= FRAME_TARGET;

	if (bypass) {
		ckpt_emit_close_frame(e);
		e->framing = false;
	}
	ckpt_emit_op_le(e, op, len, width);
	ckpt_emit(e, bytes, len);
	e->framing = framing;
}

/* ---- memo ---- */

/* Entry I of an array that grows with zeros. */
static uint32_t *grown_slot(uint32_t **array, size_t *cap, size_t i)
{
	if (i >= *cap) {
		size_t bigger = *cap ? *cap : 1024;
		uint32_t *grown;

		while (bigger <= i)
			bigger *= 2;
		grown = realloc(*array, bigger * sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + *cap, 0, (bigger - *cap) * sizeof(*grown));
		*array = grown;
		*cap = bigger;
	}
	return *array + i;
}

/* The code point of a string of one character below U+0100, 256 for the empty one, else -1. */
static int short_str_index(const struct ckpt_value *v)
{
	const uint8_t *s = (const uint8_t *)v->u.bytes.ptr;

	switch (v->u.bytes.len) {
	case 0: return 256;
	case 1: return s[0] < 0x80 ? s[0] : -1;
	case 2:
		if ((s[0] & 0xFE) != 0xC2 || (s[1] & 0xC0) != 0x80)
			return -1;
		return (s[0] & 3) << 6 | (s[1] & 0x3F);
	default: return -1;
	}
}

static uint32_t *named_slot(struct ckpt_emitter *e, char tag, const char *a, size_t a_len,
			    const char *b, size_t b_len)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(e->names);
	char *key = ckpt_arena_alloc(e->names, a_len + b_len + 2);
	uint64_t *index;
	bool there;

	if (!key)
		return NULL;
	key[0] = tag;
	memcpy(key + 1, a, a_len);
	key[1 + a_len] = '\n';
	memcpy(key + 2 + a_len, b, b_len);
	index = ckpt_strmap_insert(&e->named, key, a_len + b_len + 2, e->named.count, &there);
	if (there)
		ckpt_arena_release(e->names, mark);
	return index ? grown_slot(&e->named_memo, &e->named_cap, *index) : NULL;
}

uint32_t *ckpt_emit_slot(struct ckpt_emitter *e, const struct ckpt_value *v, bool *failed)
{
	uint32_t *slot = NULL;
	int index = -1;
	bool by_name = v->kind == CKPT_GLOBAL || (v->flags & CKPT_VALUE_INTERNED);

	*failed = false;
	if (by_name && v->id && v->id < e->memo_cap && e->memo[v->id])
		return &e->memo[v->id]; /* found by its name before */
	if (v->kind == CKPT_STR && !(v->flags & CKPT_VALUE_DISTINCT) &&
	    !((v->flags & CKPT_VALUE_INTERNED) && e->interned_letters_apart))
		index = short_str_index(v);
	if (index >= 0)
		return &e->short_str[index];
	if (v->kind == CKPT_BYTES && v->u.bytes.len <= 1 && !(v->flags & CKPT_VALUE_DISTINCT))
		return &e->short_bytes[v->u.bytes.len ? (uint8_t)v->u.bytes.ptr[0] : 256];
	if (v->kind == CKPT_GLOBAL)
		slot = named_slot(e, 'g', v->u.global->module, v->u.global->module_len,
				  v->u.global->name, v->u.global->name_len);
	else if (v->kind == CKPT_STR && (v->flags & CKPT_VALUE_INTERNED))
		slot = named_slot(e, 's', v->u.bytes.ptr, v->u.bytes.len, "", 0);
	else if (v->id)
		slot = grown_slot(&e->memo, &e->memo_cap, v->id);
	else
		return NULL;
	*failed = !slot;
	return slot;
}

void ckpt_emit_get(struct ckpt_emitter *e, uint32_t index)
{
	if (index < 256)
		ckpt_emit_op_le(e, CKPT_OP_BINGET, index, 1);
	else
		ckpt_emit_op_le(e, CKPT_OP_LONG_BINGET, index, 4);
}

int ckpt_emit_memoize(struct ckpt_emitter *e, const struct ckpt_value *v)
{
	bool failed;
	uint32_t *slot = ckpt_emit_slot(e, v, &failed), index = e->memo_count++;

	if (failed || index == UINT32_MAX)
		return ckpt_fail_nomem(e->err);
	if (slot)
		*slot = index + 1;
	if (e->protocol >= 4)
		ckpt_emit_op(e, CKPT_OP_MEMOIZE);
	else if (index < 256)
		ckpt_emit_op_le(e, CKPT_OP_BINPUT, index, 1);
	else
		ckpt_emit_op_le(e, CKPT_OP_LONG_BINPUT, index, 4);
	return 0;
}

int ckpt_emit_name(struct ckpt_emitter *e, char owner, const char *text, size_t len)
{
	struct ckpt_value interned = { .kind = CKPT_STR,
				       .flags = owner ? CKPT_VALUE_INTERNED : CKPT_VALUE_DISTINCT,
				       .u.bytes = { text, len } };
	bool is_own = owner && owner != 's';
	uint32_t *slot = is_own ? named_slot(e, owner, text, len, "", 0) : NULL;
	int rc = 0;

	if (is_own && !slot)
		return ckpt_fail_nomem(e->err);
	ckpt_emit_boundary(e);
	if (slot && *slot) {
		ckpt_emit_get(e, *slot - 1);
		return 0;
	}
	if (!is_own)
		rc = ckpt_emit_get_if_memoized(e, &interned);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	rc = ckpt_emit_str(e, text, len);
	if (rc == 0)
		rc = ckpt_emit_memoize(e,
				       is_own ? &(struct ckpt_value){ .kind = CKPT_STR,
								      .flags = CKPT_VALUE_DISTINCT }
					      : &interned);
	if (rc == 0 && slot)
		*slot = e->memo_count;
	return rc;
}

int ckpt_emit_get_if_memoized(struct ckpt_emitter *e, const struct ckpt_value *v)
{
	bool failed;
	uint32_t *slot = ckpt_emit_slot(e, v, &failed), *own, index;

	if (failed)
		return ckpt_fail_nomem(e->err);
	if (!slot || !*slot)
		return 0;
	index = *slot;
	if (v->id &&
	    (v->kind == CKPT_GLOBAL || (v->flags & CKPT_VALUE_INTERNED))) { /* next time by id */
		own = grown_slot(&e->memo, &e->memo_cap, v->id);
		if (own)
			*own = index;
	}
	ckpt_emit_get(e, index - 1);
	return 1;
}

/* ---- numbers and strings ---- */

/* Two's complement, little-endian -> decimal text, by repeated division. For protocol 1. */
static int emit_long_text(struct ckpt_emitter *e, const uint8_t *bytes, size_t len)
{
	uint8_t work[MOST_LONG_TEXT], digits[3 * MOST_LONG_TEXT];
	bool negative = bytes[len - 1] >= 0x80;
	size_t used = 0, top = len;
	unsigned carry = negative;

	if (len > MOST_LONG_TEXT) /* CPython reads at most 4300 digits */
		return ckpt_fail(e->err, CKPT_E_UNSUPPORTED,
				 "an integer of %zu bytes needs protocol 2", len);
	for (size_t i = 0; i < len; i++) {
		carry += (uint8_t)(negative ? ~bytes[i] : bytes[i]);
		work[i] = (uint8_t)carry;
		carry >>= 8;
	}
	for (;;) {
		unsigned rest = 0;

		while (top && !work[top - 1])
			top--;
		if (!top)
			break;
		for (size_t i = top; i-- > 0;) {
			rest = rest << 8 | work[i];
			work[i] = (uint8_t)(rest / 10);
			rest %= 10;
		}
		digits[used++] = (uint8_t)('0' + rest);
	}
	ckpt_emit(e, negative ? "L-" : "L", negative ? 2 : 1);
	while (used)
		ckpt_emit(e, &digits[--used], 1);
	ckpt_emit(e, "L\n", 2);
	return 0;
}

int ckpt_emit_long(struct ckpt_emitter *e, const uint8_t *bytes, size_t len)
{
	if (e->protocol < 2)
		return emit_long_text(e, bytes, len);
	if (len < 256)
		ckpt_emit_op_le(e, CKPT_OP_LONG1, len, 1);
	else
		ckpt_emit_op_le(e, CKPT_OP_LONG4, len, 4);
	ckpt_emit(e, bytes, len);
	return 0;
}

int ckpt_emit_int(struct ckpt_emitter *e, int64_t v)
{
	uint8_t bytes[8];
	size_t len = 8;

	if (v >= 0 && v < 256) {
		ckpt_emit_op_le(e, CKPT_OP_BININT1, (uint64_t)v, 1);
	} else if (v >= 0 && v < 65536) {
		ckpt_emit_op_le(e, CKPT_OP_BININT2, (uint64_t)v, 2);
	} else if (v >= INT32_MIN && v <= INT32_MAX) {
		ckpt_emit_op_le(e, CKPT_OP_BININT, (uint64_t)v, 4);
	} else {
		for (unsigned i = 0; i < 8; i++)
			bytes[i] = (uint8_t)((uint64_t)v >> (8 * i));
		while (len > 1 && ((bytes[len - 1] == 0 && bytes[len - 2] < 0x80) ||
				   (bytes[len - 1] == 0xFF && bytes[len - 2] >= 0x80)))
			len--;
		return ckpt_emit_long(e, bytes, len);
	}
	return 0;
}

void ckpt_emit_float(struct ckpt_emitter *e, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	ckpt_emit_op_le(e, CKPT_OP_BINFLOAT, __builtin_bswap64(bits), 8);
}

void ckpt_emit_bool(struct ckpt_emitter *e, bool v)
{
	if (e->protocol >= 2)
		ckpt_emit_op(e, v ? CKPT_OP_NEWTRUE : CKPT_OP_NEWFALSE);
	else
		ckpt_emit(e, v ? "I01\n" : "I00\n", 4);
}

int ckpt_emit_str(struct ckpt_emitter *e, const char *text, uint64_t len)
{
	if (len < 256 && e->protocol >= 4)
		ckpt_emit_payload(e, CKPT_OP_SHORT_BINUNICODE, 1, text, len);
	else if (len <= UINT32_MAX)
		ckpt_emit_payload(e, CKPT_OP_BINUNICODE, 4, text, len);
	else if (e->protocol >= 4)
		ckpt_emit_payload(e, CKPT_OP_BINUNICODE8, 8, text, len);
	else
		return ckpt_fail(e->err, CKPT_E_UNSUPPORTED,
				 "a string of 4 GiB or more needs protocol 4");
	return 0;
}

void ckpt_emit_bytes(struct ckpt_emitter *e, const char *bytes, uint64_t len)
{
	if (len < 256)
		ckpt_emit_payload(e, CKPT_OP_SHORT_BINBYTES, 1, bytes, len);
	else if (len <= UINT32_MAX)
		ckpt_emit_payload(e, CKPT_OP_BINBYTES, 4, bytes, len);
	else
		ckpt_emit_payload(e, CKPT_OP_BINBYTES8, 8, bytes, len);
}

/* ---- life ---- */

int ckpt_emitter_init(struct ckpt_emitter *e, uint8_t protocol, struct ckpt_buf *out,
		      struct ckpt_error *err)
{
	*e = (struct ckpt_emitter){
		.protocol = protocol, .out = out, .err = err, .frame_start = SIZE_MAX
	};
	e->names = ckpt_arena_new(UINT64_MAX >> 1);
	return e->names ? 0 : ckpt_fail_nomem(err);
}

void ckpt_emitter_clear(struct ckpt_emitter *e)
{
	free(e->memo);
	free(e->named_memo);
	ckpt_strmap_clear(&e->named);
	ckpt_arena_free(e->names);
}
