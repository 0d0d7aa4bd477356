/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of Python's library that another protocol or another Python writes in another way: times,
 * paths and arrays. Source: CPython 3.9 to 3.14, Modules/_datetimemodule.c and
 * Modules/arraymodule.c, Lib/pathlib.
 *
 * What must stay true: a call whose arguments are not exactly those that CPython writes stays as it
 * is in the file, only with its attributes.
 */
#include "resave/resaver.h"

#include <string.h>

/* The bytes that V is, or that _codecs.encode() makes; NULL: V is not bytes, or no memory. */
static const struct ckpt_value *as_bytes(struct ckpt_saver *s, const struct ckpt_value *v)
{
	v = ckpt_resave_now(s, v);
	if (v->kind == CKPT_CALL)
		v = ckpt_resave_resolve_call(s, v);
	return v && v->kind == CKPT_BYTES ? v : NULL;
}

/*
 * fold=1, the second of two equal hours, is a bit of the month, or of the hour in a time. Only
 * protocol 4 and later write it.
 */
const struct ckpt_value *ckpt_resave_time(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *data = as_bytes(s, ckpt_resave_arg(s, v, 0)),
				*items[2] = { NULL, ckpt_resave_arg(s, v, 1) };
	size_t at = !strcmp(v->u.call->func->u.global->name, "time") ? 0 : 2;
	struct ckpt_value *copy;
	char *text;

	if (s->o->protocol >= 4 || !data || data->u.bytes.len <= at ||
	    !(data->u.bytes.ptr[at] & 0x80))
		return ckpt_resave_with_attributes(s, v);
	copy = ckpt_resave_make(s, CKPT_BYTES);
	text = ckpt_arena_copy(s->scratch, data->u.bytes.ptr, data->u.bytes.len);
	if (!copy || !text)
		return NULL;
	text[at] &= 0x7F;
	copy->u.bytes.ptr = text;
	copy->u.bytes.len = data->u.bytes.len;
	items[0] = copy;
	return ckpt_resave_call(s, v, v->u.call->func,
				ckpt_resave_seq(s, CKPT_TUPLE, items, items[1] ? 2 : 1));
}

/*
 * Python up to 3.11 interns the parts of a path, except the one that it joins from a drive and a
 * backslash.
 */
const struct ckpt_value *ckpt_resave_path(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_seq *parts = &ckpt_resave_now(s, v->u.call->args)->u.seq;
	struct ckpt_value *args, *part;

	if (s->o->python313)
		return ckpt_resave_with_attributes(s, v);
	args = ckpt_resave_make(s, CKPT_TUPLE);
	if (!args || !ckpt_seq_add_many(s->scratch, &args->u.seq, parts->items, parts->count))
		return NULL;
	for (uint32_t i = 0; i < args->u.seq.count; i++) {
		const struct ckpt_value *was = ckpt_resave_now(s, args->u.seq.items[i]);

		if (was->kind != CKPT_STR)
			continue;
		part = ckpt_resave_make(s, CKPT_STR);
		if (!part)
			return NULL;
		part->flags |=
			!i && was->u.bytes.len && was->u.bytes.ptr[was->u.bytes.len - 1] == '\\'
				? CKPT_VALUE_DISTINCT
				: CKPT_VALUE_INTERNED;
		part->u.bytes = was->u.bytes;
		args->u.seq.items[i] = part;
	}
	return ckpt_resave_call(s, v, v->u.call->func, args);
}

/* ---- array.array ---- */

/* What the third argument of _array_reconstructor() says about little-endian items. */
static const struct {
	char kind; /* 'u' unsigned, 'i' signed, 'f' float; 0: unknown, or big-endian */
	uint8_t width;
} machine_formats[] = {
	[0] = { 'u', 1 },  [1] = { 'i', 1 },  [2] = { 'u', 2 },	 [4] = { 'i', 2 },
	[6] = { 'u', 4 },  [8] = { 'i', 4 },  [10] = { 'u', 8 }, [12] = { 'i', 8 },
	[14] = { 'f', 4 }, [16] = { 'f', 8 },
};

static const struct ckpt_value *array_item(struct ckpt_saver *s, char kind, uint8_t width,
					   const char *at)
{
	struct ckpt_value *v = ckpt_resave_make(s, kind == 'f' ? CKPT_FLOAT : CKPT_INT);
	uint64_t bits = 0;
	float single;

	if (!v)
		return NULL;
	for (unsigned i = 0; i < width; i++)
		bits |= (uint64_t)(uint8_t)at[i] << 8 * i;
	if (kind == 'f' && width == sizeof(single)) {
		uint32_t narrow = (uint32_t)bits;

		memcpy(&single, &narrow, sizeof(single));
		v->u.real = single;
	} else if (kind == 'f') {
		memcpy(&v->u.real, &bits, sizeof(v->u.real));
	} else if (kind == 'i' && width < 8 && bits >> (8 * width - 1)) {
		v->u.integer = (int64_t)(bits | UINT64_MAX << 8 * width);
	} else if (kind == 'u' && bits >> 63) {
		char *nine = ckpt_arena_alloc(s->scratch, 9);

		if (!nine)
			return NULL;
		memcpy(nine, at, 8);
		nine[8] = 0;
		v->kind = CKPT_BIGINT;
		v->u.bytes.ptr = nine;
		v->u.bytes.len = 9;
	} else {
		v->u.integer = (int64_t)bits;
	}
	return v;
}

/* _array_reconstructor(class, 'f', format, bytes) -> class('f', list), as in protocols up to 2. */
const struct ckpt_value *ckpt_resave_array(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *format = ckpt_resave_arg(s, v, 2),
				*data = as_bytes(s, ckpt_resave_arg(s, v, 3));
	const struct ckpt_value *items[2] = { ckpt_resave_arg(s, v, 1), NULL },
				*cls = ckpt_resave_arg(s, v, 0);
	struct ckpt_value *list;
	uint64_t known = sizeof(machine_formats) / sizeof(machine_formats[0]);
	uint8_t width;
	char kind;

	if (s->o->protocol > 2 || !data || cls->kind != CKPT_GLOBAL || format->kind != CKPT_INT ||
	    (uint64_t)format->u.integer >= known)
		return ckpt_resave_with_attributes(s, v);
	kind = machine_formats[format->u.integer].kind;
	width = machine_formats[format->u.integer].width;
	if (!kind || data->u.bytes.len % width)
		return ckpt_resave_with_attributes(s, v);
	list = ckpt_resave_make(s, CKPT_LIST);
	if (!list)
		return NULL;
	for (uint64_t at = 0; at < data->u.bytes.len; at += width) {
		const struct ckpt_value *item = array_item(s, kind, width, data->u.bytes.ptr + at);

		if (!item || !ckpt_seq_add(s->scratch, &list->u.seq, item))
			return NULL;
	}
	items[1] = list;
	return ckpt_resave_call(s, v, cls, ckpt_resave_seq(s, CKPT_TUPLE, items, 2));
}
