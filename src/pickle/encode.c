/* SPDX-License-Identifier: Apache-2.0 */
#include "pickle/encode.h"

#include "base/strmap.h"
#include "base/text.h"
#include "pickle/opcodes.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	BATCH = 1000,
	MOST_DEPTH = 100000,
	FRAME_TARGET = 64 * 1024,
	FRAME_MIN = 4,
	FRAME_HEADER = 9,
};

static const uint64_t SCRATCH_BUDGET = (uint64_t)1 << 40;

/* One value being written: what comes next is in PHASE and I. */
struct frame {
	const struct ckpt_value *v;
	const struct ckpt_value *self; /* whose identity it has: V before the protocol's disguise */
	uint8_t phase;
	bool single, resolved;
	uint32_t i, batch_end, batch_size;
	struct ckpt_arena_mark mark;
};

struct encoder {
	const struct ckpt_pickle_options *o;
	struct ckpt_buf *out;
	struct ckpt_error *err;
	struct ckpt_arena *scratch;

	struct frame *frames;
	size_t depth, cap;

	uint32_t *memo; /* by id: memo index + 1, 0 if not written yet */
	size_t memo_cap;
	uint32_t memo_count;
	uint32_t short_str[257], short_bytes[257]; /* by code point; 256: empty */
	struct ckpt_strmap named;   /* globals and interned strings, by content, to an index of: */
	uint32_t *named_memo;       /* memo index + 1 */
	size_t named_cap;
	struct ckpt_arena *names;   /* keys of NAMED */

	bool framing;
	size_t frame_start; /* SIZE_MAX: no frame is open */
};

/* ---- output and frames ---- */

static void close_frame(struct encoder *e)
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
		memmove(e->out->data + e->frame_start,
			e->out->data + e->frame_start + FRAME_HEADER, len);
		e->out->len -= FRAME_HEADER;
	}
	e->frame_start = SIZE_MAX;
}

static void open_frame(struct encoder *e)
{
	if (e->framing && e->frame_start == SIZE_MAX) {
		e->frame_start = e->out->len;
		ckpt_buf_add_fill(e->out, 0, FRAME_HEADER);
	}
}

static void frame_boundary(struct encoder *e)
{
	if (e->frame_start != SIZE_MAX &&
	    e->out->len - e->frame_start - FRAME_HEADER >= FRAME_TARGET)
		close_frame(e);
}

static void put(struct encoder *e, const void *bytes, size_t len)
{
	open_frame(e);
	ckpt_buf_add(e->out, bytes, len);
}

static void put_op(struct encoder *e, enum ckpt_opcode op)
{
	uint8_t byte = (uint8_t)op;

	put(e, &byte, 1);
}

static void put_op_le(struct encoder *e, enum ckpt_opcode op, uint64_t v, unsigned width)
{
	uint8_t bytes[9] = { (uint8_t)op };

	for (unsigned i = 0; i < width; i++)
		bytes[1 + i] = (uint8_t)(v >> (8 * i));
	put(e, bytes, 1 + width);
}

/* Long payloads stand outside of frames, header and all. */
static void put_payload(struct encoder *e, enum ckpt_opcode op, unsigned width, const char *bytes,
			uint64_t len)
{
	bool framing = e->framing, bypass = len >= FRAME_TARGET;

	if (bypass) {
		close_frame(e);
		e->framing = false;
	}
	put_op_le(e, op, len, width);
	put(e, bytes, len);
	e->framing = framing;
}

static void put_text(struct encoder *e, const char *text)
{
	put(e, text, strlen(text));
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

static uint32_t *named_slot(struct encoder *e, char tag, const char *a, size_t a_len, const char *b,
			    size_t b_len)
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

/*
 * Where the memo index of V is kept: by identity, or by content for what CPython has only one
 * object of. NULL with *FAILED unset: V is never memoised by identity (id 0).
 */
static uint32_t *slot_of(struct encoder *e, const struct ckpt_value *v, bool *failed)
{
	uint32_t *slot = NULL;
	int index = -1;
	bool by_name = v->kind == CKPT_GLOBAL || (v->flags & CKPT_VALUE_INTERNED);

	*failed = false;
	if (by_name && v->id && v->id < e->memo_cap && e->memo[v->id])
		return &e->memo[v->id]; /* its name was looked up before */
	if (v->kind == CKPT_STR && !(v->flags & CKPT_VALUE_DISTINCT) &&
	    !((v->flags & CKPT_VALUE_INTERNED) && e->o->interned_letters_apart))
		index = short_str_index(v);
	if (index >= 0)
		return &e->short_str[index];
	if (v->kind == CKPT_BYTES && v->u.bytes.len <= 1)
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

static void put_get(struct encoder *e, uint32_t index)
{
	if (index < 256)
		put_op_le(e, CKPT_OP_BINGET, index, 1);
	else
		put_op_le(e, CKPT_OP_LONG_BINGET, index, 4);
}

static int memoize(struct encoder *e, const struct ckpt_value *v)
{
	bool failed;
	uint32_t *slot = slot_of(e, v, &failed), index = e->memo_count++;

	if (failed || index == UINT32_MAX)
		return ckpt_fail_nomem(e->err);
	if (slot)
		*slot = index + 1;
	if (e->o->protocol >= 4)
		put_op(e, CKPT_OP_MEMOIZE);
	else if (index < 256)
		put_op_le(e, CKPT_OP_BINPUT, index, 1);
	else
		put_op_le(e, CKPT_OP_LONG_BINPUT, index, 4);
	return 0;
}

/* 1: V was written before and is now referred to. */
static int get_if_memoized(struct encoder *e, const struct ckpt_value *v)
{
	bool failed;
	uint32_t *slot = slot_of(e, v, &failed), *own, index;

	if (failed)
		return ckpt_fail_nomem(e->err);
	if (!slot || !*slot)
		return 0;
	index = *slot;
	if (v->id && (v->kind == CKPT_GLOBAL || (v->flags & CKPT_VALUE_INTERNED))) { /* next time without a look at the name */
		own = grown_slot(&e->memo, &e->memo_cap, v->id);
		if (own)
			*own = index;
	}
	put_get(e, index - 1);
	return 1;
}

/* ---- numbers and strings ---- */

/* Two's complement, little-endian -> decimal text, by repeated division. For protocol 1. */
static int put_long_text(struct encoder *e, const uint8_t *bytes, size_t len)
{
	uint8_t *work = malloc(len), *digits = malloc(len * 3 + 3);
	bool negative = bytes[len - 1] >= 0x80;
	size_t used = 0, top = len;
	unsigned carry = negative;

	for (size_t i = 0; work && digits && i < len; i++) {
		carry += (uint8_t)(negative ? ~bytes[i] : bytes[i]);
		work[i] = (uint8_t)carry;
		carry >>= 8;
	}
	for (; work && digits && top; top -= !work[top - 1]) {
		unsigned rest = 0;

		for (size_t i = top; i-- > 0;) {
			rest = rest << 8 | work[i];
			work[i] = (uint8_t)(rest / 10);
			rest %= 10;
		}
		digits[used++] = (uint8_t)('0' + rest);
	}
	put(e, negative ? "L-" : "L", negative ? 2 : 1);
	for (size_t i = used; digits && i-- > 0;)
		if (i < used - 1 || digits[i] != '0' || used == 1)
			put(e, &digits[i], 1);
	put(e, "L\n", 2);
	free(digits);
	if (!work)
		return ckpt_fail_nomem(e->err);
	free(work);
	return 0;
}

static int put_long(struct encoder *e, const uint8_t *bytes, size_t len)
{
	if (e->o->protocol < 2)
		return put_long_text(e, bytes, len);
	if (len < 256)
		put_op_le(e, CKPT_OP_LONG1, len, 1);
	else
		put_op_le(e, CKPT_OP_LONG4, len, 4);
	put(e, bytes, len);
	return 0;
}

static int put_int(struct encoder *e, int64_t v)
{
	uint8_t bytes[8];
	size_t len = 8;

	if (v >= 0 && v < 256) {
		put_op_le(e, CKPT_OP_BININT1, (uint64_t)v, 1);
	} else if (v >= 0 && v < 65536) {
		put_op_le(e, CKPT_OP_BININT2, (uint64_t)v, 2);
	} else if (v >= INT32_MIN && v <= INT32_MAX) {
		put_op_le(e, CKPT_OP_BININT, (uint64_t)v, 4);
	} else {
		for (unsigned i = 0; i < 8; i++)
			bytes[i] = (uint8_t)((uint64_t)v >> (8 * i));
		while (len > 1 && ((bytes[len - 1] == 0 && bytes[len - 2] < 0x80) ||
				   (bytes[len - 1] == 0xFF && bytes[len - 2] >= 0x80)))
			len--;
		return put_long(e, bytes, len);
	}
	return 0;
}

static void put_float(struct encoder *e, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	put_op_le(e, CKPT_OP_BINFLOAT, __builtin_bswap64(bits), 8);
}

static void put_bool(struct encoder *e, bool v)
{
	if (e->o->protocol >= 2)
		put_op(e, v ? CKPT_OP_NEWTRUE : CKPT_OP_NEWFALSE);
	else
		put_text(e, v ? "I01\n" : "I00\n");
}

static int put_str(struct encoder *e, const char *text, uint64_t len)
{
	if (len < 256 && e->o->protocol >= 4)
		put_payload(e, CKPT_OP_SHORT_BINUNICODE, 1, text, len);
	else if (len <= UINT32_MAX)
		put_payload(e, CKPT_OP_BINUNICODE, 4, text, len);
	else if (e->o->protocol >= 4)
		put_payload(e, CKPT_OP_BINUNICODE8, 8, text, len);
	else
		return ckpt_fail(e->err, CKPT_E_UNSUPPORTED,
				 "a string of 4 GiB or more needs protocol 4");
	return 0;
}

static void put_bytes(struct encoder *e, const char *bytes, uint64_t len)
{
	if (len < 256)
		put_payload(e, CKPT_OP_SHORT_BINBYTES, 1, bytes, len);
	else if (len <= UINT32_MAX)
		put_payload(e, CKPT_OP_BINBYTES, 4, bytes, len);
	else
		put_payload(e, CKPT_OP_BINBYTES8, 8, bytes, len);
}

/* ---- values that older protocols write as calls ---- */

static struct ckpt_value *scratch_value(struct encoder *e, uint8_t kind)
{
	struct ckpt_value *v = ckpt_arena_calloc(e->scratch, 1, sizeof(*v));

	if (v) {
		v->kind = kind;
		v->flags = CKPT_VALUE_FINAL;
	}
	return v;
}

static const struct ckpt_value *builtin(struct encoder *e, const char *name)
{
	static const struct ckpt_global py2[] = { { "__builtin__", "set", 11, 3 },
						  { "__builtin__", "frozenset", 11, 9 },
						  { "__builtin__", "bytes", 11, 5 },
						  { "__builtin__", "bytearray", 11, 9 },
						  { "__builtin__", "getattr", 11, 7 },
						  { "_codecs", "encode", 7, 6 } };
	static const struct ckpt_global py3[] = { { "builtins", "set", 8, 3 },
						  { "builtins", "frozenset", 8, 9 },
						  { "builtins", "bytes", 8, 5 },
						  { "builtins", "bytearray", 8, 9 },
						  { "builtins", "getattr", 8, 7 },
						  { "_codecs", "encode", 7, 6 } };
	const struct ckpt_global *table = e->o->protocol >= 3 ? py3 : py2;
	struct ckpt_value *v = scratch_value(e, CKPT_GLOBAL);

	for (size_t i = 0; v && i < sizeof(py2) / sizeof(py2[0]); i++)
		if (!strcmp(table[i].name, name))
			v->u.global = &table[i];
	return v;
}

static const struct ckpt_value *call_of(struct encoder *e, const char *func,
					const struct ckpt_value *const *args, uint32_t count)
{
	struct ckpt_value *v = scratch_value(e, CKPT_CALL), *tuple = scratch_value(e, CKPT_TUPLE);
	struct ckpt_call *call = ckpt_arena_calloc(e->scratch, 1, sizeof(*call));

	if (!v || !tuple || !call || !ckpt_seq_add_many(e->scratch, &tuple->u.seq, args, count))
		return NULL;
	call->func = builtin(e, func);
	call->args = count ? tuple : &ckpt_value_empty_tuple;
	v->u.call = call;
	return call->func ? v : NULL;
}

static const struct ckpt_value *set_as_call(struct encoder *e, const struct ckpt_value *v)
{
	struct ckpt_value *list = scratch_value(e, CKPT_LIST);
	const struct ckpt_value *args[1] = { list };

	if (!list)
		return NULL;
	list->u.seq = v->u.seq;
	return call_of(e, v->kind == CKPT_SET ? "set" : "frozenset", args, 1);
}

/* bytes -> _codecs.encode(text, 'latin1'): the text has a code point per byte. */
static const struct ckpt_value *bytes_as_call(struct encoder *e, const struct ckpt_value *v)
{
	struct ckpt_value *text = scratch_value(e, CKPT_STR), *codec = scratch_value(e, CKPT_STR);
	const struct ckpt_value *args[2] = { text, codec };
	uint64_t used = 0;
	char *utf8;

	if (!v->u.bytes.len)
		return call_of(e, "bytes", NULL, 0);
	utf8 = ckpt_arena_alloc(e->scratch, 2 * v->u.bytes.len);
	if (!text || !codec || !utf8)
		return NULL;
	for (uint64_t i = 0; i < v->u.bytes.len; i++) {
		uint8_t c = (uint8_t)v->u.bytes.ptr[i];

		if (c >= 0x80)
			utf8[used++] = (char)(0xC0 | c >> 6);
		utf8[used++] = (char)(c < 0x80 ? c : 0x80 | (c & 0x3F));
	}
	text->u.bytes.ptr = utf8;
	text->u.bytes.len = used;
	codec->u.bytes.ptr = "latin1";
	codec->u.bytes.len = 6;
	codec->flags |= CKPT_VALUE_INTERNED;
	return call_of(e, "encode", args, 2);
}

static const struct ckpt_value *bytearray_as_call(struct encoder *e, const struct ckpt_value *v)
{
	struct ckpt_value *bytes = scratch_value(e, CKPT_BYTES);
	const struct ckpt_value *args[1] = { bytes };

	if (!bytes)
		return NULL;
	bytes->u.bytes = v->u.bytes;
	return call_of(e, "bytearray", args, v->u.bytes.len ? 1 : 0);
}

/* module.A.b -> getattr(module.A, 'b') where the opcode cannot hold dots */
static const struct ckpt_value *nested_global_as_call(struct encoder *e, const struct ckpt_value *v)
{
	const struct ckpt_global *g = v->u.global;
	const char *dot = memrchr(g->name, '.', g->name_len);
	struct ckpt_value *parent = scratch_value(e, CKPT_GLOBAL), *name = scratch_value(e, CKPT_STR);
	struct ckpt_global *pg = ckpt_arena_calloc(e->scratch, 1, sizeof(*pg));
	const struct ckpt_value *args[2] = { parent, name };

	if (!parent || !name || !pg)
		return NULL;
	*pg = (struct ckpt_global){ g->module, NULL, g->module_len, (uint32_t)(dot - g->name) };
	pg->name = ckpt_arena_copy(e->scratch, g->name, pg->name_len);
	parent->u.global = pg;
	name->u.bytes.ptr = dot + 1;
	name->u.bytes.len = g->name_len - pg->name_len - 1;
	return pg->name ? call_of(e, "getattr", args, 2) : NULL;
}

/* V itself, or what the protocol writes for a value of its kind. */
static const struct ckpt_value *for_protocol(struct encoder *e, const struct ckpt_value *v)
{
	uint8_t p = e->o->protocol;

	switch (v->kind) {
	case CKPT_SET:
	case CKPT_FROZENSET: return p < 4 ? set_as_call(e, v) : v;
	case CKPT_BYTES: return p < 3 ? bytes_as_call(e, v) : v;
	case CKPT_BYTEARRAY: return p < 5 ? bytearray_as_call(e, v) : v;
	case CKPT_GLOBAL:
		if (p < 4 && !e->o->python313_nested &&
		    memchr(v->u.global->name, '.', v->u.global->name_len))
			return nested_global_as_call(e, v);
		return v;
	default: return v;
	}
}

/* ---- the walk ---- */

static struct frame *push_frame(struct encoder *e, const struct ckpt_value *v,
				const struct ckpt_value *self, bool resolved,
				struct ckpt_arena_mark mark)
{
	struct frame *f;

	if (e->depth == MOST_DEPTH) {
		ckpt_fail(e->err, CKPT_E_LIMIT, "values are nested deeper than %d levels", MOST_DEPTH);
		return NULL;
	}
	if (e->depth == e->cap) {
		size_t cap = e->cap ? e->cap * 2 : 64;
		struct frame *grown = realloc(e->frames, cap * sizeof(*grown));

		if (!grown) {
			ckpt_fail_nomem(e->err);
			return NULL;
		}
		e->frames = grown;
		e->cap = cap;
	}
	f = &e->frames[e->depth++];
	*f = (struct frame){ .v = v, .self = self, .resolved = resolved, .mark = mark };
	return f;
}

static void pop_frame(struct encoder *e)
{
	struct frame *f = &e->frames[--e->depth];

	if (f->resolved)
		ckpt_arena_release(e->scratch, f->mark);
}

static int save(struct encoder *e, const struct ckpt_value *original);

/* A bare GLOBAL, then one getattr for every further part of the name. */
static int save_nested_global(struct encoder *e, const struct ckpt_value *v)
{
	const struct ckpt_global *g = v->u.global;
	struct ckpt_value part = { .kind = CKPT_STR };
	const char *dot = strchr(g->name, '.'), *next;
	int rc = 0;

	for (next = dot; rc >= 0 && next; next = strchr(next + 1, '.'))
		rc = save(e, builtin(e, "getattr"));
	put_op(e, CKPT_OP_GLOBAL);
	put(e, g->module, g->module_len);
	put(e, "\n", 1);
	put(e, g->name, (size_t)(dot - g->name));
	put(e, "\n", 1);
	for (; rc >= 0 && dot; dot = next) {
		next = strchr(dot + 1, '.');
		part.u.bytes.ptr = dot + 1;
		part.u.bytes.len = next ? (size_t)(next - dot - 1) : strlen(dot + 1);
		rc = save(e, &part);
		put_op(e, CKPT_OP_TUPLE2);
		put_op(e, CKPT_OP_REDUCE);
	}
	return rc < 0 ? rc : memoize(e, v);
}

static int save_global(struct encoder *e, const struct ckpt_value *v)
{
	const struct ckpt_global *g = v->u.global;
	struct ckpt_value name = { .kind = CKPT_STR, .flags = CKPT_VALUE_INTERNED };
	int rc = 0;

	if (e->o->protocol < 4 && strchr(g->name, '.'))
		return save_nested_global(e, v);
	if (e->o->protocol < 4) {
		put_op(e, CKPT_OP_GLOBAL);
		put(e, g->module, g->module_len);
		put(e, "\n", 1);
		put(e, g->name, g->name_len);
		put(e, "\n", 1);
		return memoize(e, v);
	}
	for (int part = 0; rc >= 0 && part < 2; part++) {
		name.u.bytes.ptr = part ? g->name : g->module;
		name.u.bytes.len = part ? g->name_len : g->module_len;
		frame_boundary(e);
		rc = get_if_memoized(e, &name);
		if (rc == 0) {
			rc = put_str(e, name.u.bytes.ptr, name.u.bytes.len);
			if (rc == 0)
				rc = memoize(e, &name);
		}
	}
	if (rc < 0)
		return rc;
	put_op(e, CKPT_OP_STACK_GLOBAL);
	return memoize(e, v);
}

static int save_py2_str(struct encoder *e, const struct ckpt_value *v)
{
	if (v->u.bytes.len < 256)
		put_payload(e, CKPT_OP_SHORT_BINSTRING, 1, v->u.bytes.ptr, v->u.bytes.len);
	else if (v->u.bytes.len <= INT32_MAX)
		put_payload(e, CKPT_OP_BINSTRING, 4, v->u.bytes.ptr, v->u.bytes.len);
	else
		return ckpt_fail(e->err, CKPT_E_UNSUPPORTED, "a Python 2 str of 2 GiB or more");
	return memoize(e, v);
}

/* Values without children. Returns 1 if V has some and a frame is needed. */
static int save_atom(struct encoder *e, const struct ckpt_value *v)
{
	int rc = 0;

	switch ((enum ckpt_value_kind)v->kind) {
	case CKPT_NONE: put_op(e, CKPT_OP_NONE); return 0;
	case CKPT_BOOL: put_bool(e, v->u.integer); return 0;
	case CKPT_INT: return put_int(e, v->u.integer);
	case CKPT_BIGINT:
		return put_long(e, (const uint8_t *)v->u.bytes.ptr, v->u.bytes.len);
	case CKPT_FLOAT: put_float(e, v->u.real); return 0;
	case CKPT_STR:
		rc = put_str(e, v->u.bytes.ptr, v->u.bytes.len);
		return rc < 0 ? rc : memoize(e, v);
	case CKPT_PY2_STR: return save_py2_str(e, v);
	case CKPT_BYTES:
		put_bytes(e, v->u.bytes.ptr, v->u.bytes.len);
		return memoize(e, v);
	case CKPT_BYTEARRAY:
		put_payload(e, CKPT_OP_BYTEARRAY8, 8, v->u.bytes.ptr, v->u.bytes.len);
		return memoize(e, v);
	case CKPT_GLOBAL: return save_global(e, v);
	case CKPT_TUPLE:
		if (v->u.seq.count)
			return 1;
		if (e->o->protocol >= 1)
			put_op(e, CKPT_OP_EMPTY_TUPLE);
		return 0;
	case CKPT_EXT:
		return ckpt_fail(e->err, CKPT_E_UNSUPPORTED,
				 "copyreg extension code %" PRId64 " cannot be written", v->u.integer);
	case CKPT_LIST:
	case CKPT_SET:
	case CKPT_FROZENSET:
	case CKPT_DICT:
	case CKPT_CALL:
	case CKPT_PERSID: return 1;
	}
	return 0;
}

static const struct ckpt_value *resolve(struct encoder *e, const struct ckpt_value *v)
{
	if (e->o->resolve && !(v->flags & CKPT_VALUE_FINAL)) {
		v = e->o->resolve(e->o->ctx, v, e->scratch, e->err);
		if (!v)
			return NULL;
	}
	return v;
}

/* Write V, or open a frame for it. */
static int save(struct encoder *e, const struct ckpt_value *original)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(e->scratch);
	const struct ckpt_value *v, *shown;
	int rc;

	if (e->o->most_bytes && e->out->len > e->o->most_bytes)
		return ckpt_fail(e->err, CKPT_E_LIMIT,
				 "the pickle would grow to more than %" PRIu64 " MiB, which is the limit",
				 e->o->most_bytes >> 20);
	if (original->id && original->id < e->memo_cap && e->memo[original->id] &&
	    original->kind != CKPT_PERSID) { /* written before: no need to think about it again */
		frame_boundary(e);
		put_get(e, e->memo[original->id] - 1);
		return 0;
	}
	v = resolve(e, original);
	if (!v)
		return e->err && e->err->status ? e->err->status : CKPT_E_NOMEM;
	frame_boundary(e);
	/* a storage is a persistent id before it is anything else, and never in the memo */
	rc = v->kind == CKPT_PERSID ? 0 : get_if_memoized(e, v);
	if (rc == 0) {
		shown = for_protocol(e, v);
		if (!shown)
			return ckpt_fail_nomem(e->err);
		rc = shown->kind == CKPT_PERSID ? 1 : save_atom(e, shown);
		if (rc == 1)
			return push_frame(e, shown, v, shown != original, mark)
				       ? 0
				       : (e->err ? e->err->status : CKPT_E_NOMEM);
	}
	if (v != original)
		ckpt_arena_release(e->scratch, mark);
	return rc < 0 ? rc : 0;
}

/* ---- frames, one function per kind: 1 = call again after the child, 0 = done ---- */

static int end_tuple(struct encoder *e, const struct ckpt_value *v)
{
	static const uint8_t closing[] = { 0, CKPT_OP_TUPLE1, CKPT_OP_TUPLE2, CKPT_OP_TUPLE3 };
	uint32_t count = v->u.seq.count;
	bool marked = count > 3 || e->o->protocol < 2, failed;
	uint32_t *slot = slot_of(e, v, &failed);

	if (failed)
		return ckpt_fail_nomem(e->err);
	if (slot && *slot) { /* it contains itself, and a child has written it already */
		if (marked)
			put_op(e, CKPT_OP_POP_MARK);
		for (uint32_t i = 0; !marked && i < count; i++)
			put_op(e, CKPT_OP_POP);
		put_get(e, *slot - 1);
		return 0;
	}
	put_op(e, marked ? CKPT_OP_TUPLE : closing[count]);
	return memoize(e, v);
}

static int step_tuple(struct encoder *e, struct frame *f)
{
	const struct ckpt_value *v = f->v;
	int rc;

	if (f->i == 0 && (v->u.seq.count > 3 || e->o->protocol < 2))
		put_op(e, CKPT_OP_MARK);
	if (f->i < v->u.seq.count) {
		rc = save(e, v->u.seq.items[f->i++]); /* F may be stale from here on */
		return rc < 0 ? rc : 1;
	}
	return end_tuple(e, v);
}

/* What a batch is written with. */
struct batch_style {
	enum ckpt_opcode one, many;
	uint32_t width;      /* values per item */
	bool lone_is_marked;   /* a last batch of one gets MARK, unless it is the only one */
	bool always_marked;
	bool empty_after_full; /* a full batch is followed by another, be it empty */
};

/*
 * Items in batches of 1000. Returns 1 after a child, 0 when all are written.
 */
static int step_batches(struct encoder *e, struct frame *f, const struct ckpt_seq *seq,
			const struct batch_style *style)
{
	uint32_t full = BATCH * style->width;
	bool again;

	for (;;) {
		if (f->i < f->batch_end) {
			int rc = save(e, seq->items[f->i++]);

			return rc < 0 ? rc : 1;
		}
		again = f->i < seq->count;
		if (f->batch_size) {
			put_op(e, f->single ? style->one : style->many);
			again |= style->empty_after_full && f->batch_size == full;
		}
		if (!again)
			return 0;
		f->batch_size = seq->count - f->i < full ? seq->count - f->i : full;
		f->single = f->batch_size == style->width && !style->always_marked &&
			    (seq->count == style->width || !style->lone_is_marked);
		f->batch_end = f->i + f->batch_size;
		if (!f->single)
			put_op(e, CKPT_OP_MARK);
		if (!f->batch_size) {
			put_op(e, style->many);
			return 0;
		}
	}
}

static const struct batch_style *list_style(const struct encoder *e, bool of_object)
{
	static const struct batch_style exact = { CKPT_OP_APPEND, CKPT_OP_APPENDS, 1, true, false, false };
	static const struct batch_style plain = { CKPT_OP_APPEND, CKPT_OP_APPENDS, 1, false, false, false };

	return of_object || e->o->python_batches ? &plain : &exact;
}

static const struct batch_style *dict_style(const struct encoder *e, bool of_object)
{
	static const struct batch_style exact = { CKPT_OP_SETITEM, CKPT_OP_SETITEMS, 2, true, false, true };
	static const struct batch_style plain = { CKPT_OP_SETITEM, CKPT_OP_SETITEMS, 2, false, false, false };

	return of_object || e->o->python_batches ? &plain : &exact;
}

static int step_container(struct encoder *e, struct frame *f, enum ckpt_opcode empty,
			  const struct batch_style *style)
{
	int rc;

	if (f->phase == 0) {
		f->phase = 1;
		put_op(e, empty);
		rc = memoize(e, f->v);
		if (rc < 0)
			return rc;
	}
	return step_batches(e, f, &f->v->u.seq, style);
}

static int step_set(struct encoder *e, struct frame *f)
{
	static const struct batch_style style = { CKPT_OP_ADDITEMS, CKPT_OP_ADDITEMS, 1, true, true,
						  true };

	return step_container(e, f, CKPT_OP_EMPTY_SET, &style);
}

static int step_frozenset(struct encoder *e, struct frame *f)
{
	const struct ckpt_value *v = f->v;
	int rc;

	if (f->i == 0)
		put_op(e, CKPT_OP_MARK);
	if (f->i < v->u.seq.count) {
		rc = save(e, v->u.seq.items[f->i++]);
		return rc < 0 ? rc : 1;
	}
	put_op(e, CKPT_OP_FROZENSET);
	return memoize(e, v);
}

static int step_persid(struct encoder *e, struct frame *f)
{
	if (f->phase == 0) {
		int rc;

		if (f->v->u.persid.pid->kind == CKPT_STR && e->o->protocol == 0)
			return ckpt_fail(e->err, CKPT_E_UNSUPPORTED, "protocol 0 cannot be written");
		f->phase = 1;
		rc = save(e, f->v->u.persid.pid);
		return rc < 0 ? rc : 1;
	}
	put_op(e, CKPT_OP_BINPERSID);
	return 0;
}

enum call_phase {
	CALL_FUNC, CALL_ARGS, CALL_KWARGS, CALL_MADE, CALL_ITEMS, CALL_PAIRS, CALL_SETTER, CALL_STATE,
	CALL_DONE,
};

static int call_made(struct encoder *e, const struct frame *f)
{
	static const uint8_t ops[] = { CKPT_OP_REDUCE, CKPT_OP_NEWOBJ, CKPT_OP_NEWOBJ_EX };
	bool failed;
	uint32_t *slot = slot_of(e, f->self, &failed);

	if (failed)
		return ckpt_fail_nomem(e->err);
	put_op(e, ops[f->v->u.call->kind]);
	if (slot && *slot) { /* its arguments contain it */
		put_op(e, CKPT_OP_POP);
		put_get(e, *slot - 1);
		return 0;
	}
	return memoize(e, f->self);
}

static int save_phase(struct encoder *e, const struct ckpt_value *v)
{
	int rc = save(e, v);

	return rc < 0 ? rc : 1;
}

/* Every save makes the tuple of arguments anew, so it is never an object written before. */
static int save_args(struct encoder *e, const struct ckpt_value *args)
{
	struct ckpt_value *copy;

	if (!args->id || args->kind != CKPT_TUPLE)
		return save_phase(e, args);
	copy = ckpt_arena_alloc(e->scratch, sizeof(*copy));
	if (!copy)
		return ckpt_fail_nomem(e->err);
	*copy = *resolve(e, args);
	copy->id = 0;
	copy->flags |= CKPT_VALUE_FINAL;
	return save_phase(e, copy);
}

static int step_call(struct encoder *e, struct frame *f)
{
	const struct ckpt_value *v = f->v;
	const struct ckpt_call *call = v->u.call;
	int rc;

	switch ((enum call_phase)f->phase++) {
	case CALL_FUNC: return save_phase(e, call->func);
	case CALL_ARGS: return save_args(e, call->args);
	case CALL_KWARGS:
		if (!call->kwargs)
			return 1;
		if (e->o->protocol < 4)
			return ckpt_fail(e->err, CKPT_E_UNSUPPORTED,
					 "an object made with keyword arguments needs protocol 4");
		return save_phase(e, call->kwargs);
	case CALL_MADE:
		rc = call_made(e, f);
		return rc < 0 ? rc : 1;
	case CALL_ITEMS:
		f->phase = CALL_ITEMS;
		rc = step_batches(e, f, &call->items, list_style(e, true));
		if (rc != 0)
			return rc;
		f->phase = CALL_PAIRS;
		f->i = f->batch_end = f->batch_size = 0;
		return 1;
	case CALL_PAIRS:
		f->phase = CALL_PAIRS;
		rc = step_batches(e, f, &call->pairs, dict_style(e, true));
		if (rc != 0)
			return rc;
		f->phase = CALL_SETTER;
		return 1;
	case CALL_SETTER:
		if (!call->setter)
			return 1;
		rc = save(e, call->setter);
		return rc < 0 ? rc : 1;
	case CALL_STATE:
		if (!call->state)
			return 0;
		if (call->setter) {
			rc = get_if_memoized(e, f->self);
			if (rc < 0)
				return rc;
		}
		return save_phase(e, call->state);
	case CALL_DONE:
		if (call->setter) {
			put_op(e, CKPT_OP_TUPLE2);
			put_op(e, CKPT_OP_REDUCE);
			put_op(e, CKPT_OP_POP);
		} else {
			put_op(e, CKPT_OP_BUILD);
		}
		return 0;
	}
	return 0;
}

static int step(struct encoder *e)
{
	struct frame *f = &e->frames[e->depth - 1];

	switch ((enum ckpt_value_kind)f->v->kind) {
	case CKPT_TUPLE: return step_tuple(e, f);
	case CKPT_LIST: return step_container(e, f, CKPT_OP_EMPTY_LIST, list_style(e, false));
	case CKPT_DICT: return step_container(e, f, CKPT_OP_EMPTY_DICT, dict_style(e, false));
	case CKPT_SET: return step_set(e, f);
	case CKPT_FROZENSET: return step_frozenset(e, f);
	case CKPT_PERSID: return step_persid(e, f);
	default: return step_call(e, f);
	}
}

static int run(struct encoder *e, const struct ckpt_value *root)
{
	int rc = save(e, root);

	while (rc >= 0 && e->depth) {
		rc = step(e);
		if (rc == 0)
			pop_frame(e);
	}
	return rc < 0 ? rc : 0;
}

static void clear(struct encoder *e)
{
	free(e->frames);
	free(e->memo);
	free(e->named_memo);
	ckpt_strmap_clear(&e->named);
	ckpt_arena_free(e->scratch);
	ckpt_arena_free(e->names);
}

int ckpt_pickle_encode(const struct ckpt_value *root, const struct ckpt_pickle_options *options,
		       struct ckpt_buf *out, struct ckpt_error *err)
{
	struct ckpt_error local = CKPT_ERROR_INIT; /* the resolver's verdict must not get lost */
	struct encoder e = { .o = options, .out = out, .frame_start = SIZE_MAX };
	int rc = CKPT_E_NOMEM;

	assert(options->protocol >= 1 && options->protocol <= 5);
	e.err = err ? err : &local;
	e.scratch = ckpt_arena_new(SCRATCH_BUDGET);
	e.names = ckpt_arena_new(SCRATCH_BUDGET);
	if (e.scratch && e.names) {
		if (options->protocol >= 2)
			put_op_le(&e, CKPT_OP_PROTO, options->protocol, 1);
		e.framing = options->protocol >= 4;
		rc = run(&e, root);
		put_op(&e, CKPT_OP_STOP);
		close_frame(&e);
	}
	clear(&e);
	if (rc == 0 && out->bad)
		rc = CKPT_E_NOMEM;
	return rc == CKPT_E_NOMEM ? ckpt_fail_nomem(err) : rc;
}
