/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that an older protocol has no opcode for, as the calls that CPython's pickler writes
 * instead (save_bytes, save_set and save_global in Modules/_pickle.c).
 *
 * What must stay true: what is made here lives in SCRATCH, is FINAL, so that the resolver is not
 * asked about it, and has no id, so that the memo does not keep it by identity.
 */
#include "pickle/older.h"

#include <string.h>

struct older {
	struct ckpt_arena *scratch;
	uint8_t protocol;
};

static struct ckpt_value *scratch_value(struct older *e, uint8_t kind)
{
	struct ckpt_value *v = ckpt_arena_calloc(e->scratch, 1, sizeof(*v));

	if (v) {
		v->kind = kind;
		v->flags = CKPT_VALUE_FINAL;
	}
	return v;
}

const struct ckpt_value *ckpt_value_builtin(const char *name, uint8_t protocol,
					    struct ckpt_arena *scratch)
{
	static const struct ckpt_global py2[] = {
		{ "__builtin__", "set", 11, 3 },     { "__builtin__", "frozenset", 11, 9 },
		{ "__builtin__", "bytes", 11, 5 },   { "__builtin__", "bytearray", 11, 9 },
		{ "__builtin__", "getattr", 11, 7 }, { "_codecs", "encode", 7, 6 }
	};
	static const struct ckpt_global py3[] = {
		{ "builtins", "set", 8, 3 },	 { "builtins", "frozenset", 8, 9 },
		{ "builtins", "bytes", 8, 5 },	 { "builtins", "bytearray", 8, 9 },
		{ "builtins", "getattr", 8, 7 }, { "_codecs", "encode", 7, 6 }
	};
	const struct ckpt_global *table = protocol >= 3 ? py3 : py2;
	struct older older = { scratch, protocol };
	struct ckpt_value *v = scratch_value(&older, CKPT_GLOBAL);

	for (size_t i = 0; v && i < sizeof(py2) / sizeof(py2[0]); i++)
		if (!strcmp(table[i].name, name))
			v->u.global = &table[i];
	return v;
}

static const struct ckpt_value *call_of(struct older *e, const char *func,
					const struct ckpt_value *const *args, uint32_t count)
{
	struct ckpt_value *v = scratch_value(e, CKPT_CALL), *tuple = scratch_value(e, CKPT_TUPLE);
	struct ckpt_call *call = ckpt_arena_calloc(e->scratch, 1, sizeof(*call));

	if (!v || !tuple || !call || !ckpt_seq_add_many(e->scratch, &tuple->u.seq, args, count))
		return NULL;
	call->func = ckpt_value_builtin(func, e->protocol, e->scratch);
	call->args = count ? tuple : &ckpt_value_empty_tuple;
	v->u.call = call;
	return call->func ? v : NULL;
}

static const struct ckpt_value *set_as_call(struct older *e, const struct ckpt_value *v)
{
	struct ckpt_value *list = scratch_value(e, CKPT_LIST);
	const struct ckpt_value *args[1] = { list };

	if (!list)
		return NULL;
	list->u.seq = v->u.seq;
	return call_of(e, v->kind == CKPT_SET ? "set" : "frozenset", args, 1);
}

/* bytes -> _codecs.encode(text, 'latin1'): the text has a code point per byte. */
static const struct ckpt_value *bytes_as_call(struct older *e, const struct ckpt_value *v)
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

static const struct ckpt_value *bytearray_as_call(struct older *e, const struct ckpt_value *v)
{
	struct ckpt_value *bytes = scratch_value(e, CKPT_BYTES);
	const struct ckpt_value *args[1] = { bytes };

	if (!bytes)
		return NULL;
	bytes->flags |= CKPT_VALUE_DISTINCT; /* bytearray makes them for this, of one byte, too */
	bytes->u.bytes = v->u.bytes;
	return call_of(e, "bytearray", args, v->u.bytes.len ? 1 : 0);
}

/* module.A.b -> getattr(module.A, 'b') where the opcode cannot hold dots */
static const struct ckpt_value *nested_global_as_call(struct older *e, const struct ckpt_value *v)
{
	const struct ckpt_global *g = v->u.global;
	const char *dot = memrchr(g->name, '.', g->name_len);
	struct ckpt_value *parent = scratch_value(e, CKPT_GLOBAL),
			  *name = scratch_value(e, CKPT_STR);
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

const struct ckpt_value *ckpt_value_for_protocol(const struct ckpt_value *v, uint8_t protocol,
						 bool python313_nested, struct ckpt_arena *scratch)
{
	struct older older = { scratch, protocol }, *e = &older;
	uint8_t p = protocol;

	switch (v->kind) {
	case CKPT_SET:
	case CKPT_FROZENSET: return p < 4 ? set_as_call(e, v) : v;
	case CKPT_BYTES: return p < 3 ? bytes_as_call(e, v) : v;
	case CKPT_BYTEARRAY: return p < 5 ? bytearray_as_call(e, v) : v;
	case CKPT_GLOBAL:
		if (p < 4 && !python313_nested &&
		    memchr(v->u.global->name, '.', v->u.global->name_len))
			return nested_global_as_call(e, v);
		return v;
	default: return v;
	}
}
