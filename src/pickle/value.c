/* SPDX-License-Identifier: Apache-2.0 */
#include "pickle/value.h"

#include <string.h>

const struct ckpt_value ckpt_value_none = { .kind = CKPT_NONE };
const struct ckpt_value ckpt_value_true = { .kind = CKPT_BOOL, .u.integer = 1 };
const struct ckpt_value ckpt_value_false = { .kind = CKPT_BOOL, .u.integer = 0 };
const struct ckpt_value ckpt_value_empty_tuple = { .kind = CKPT_TUPLE };

const char *ckpt_value_kind_name(const struct ckpt_value *v)
{
	static const char *const names[] = {
		[CKPT_NONE] = "None",
		[CKPT_BOOL] = "bool",
		[CKPT_INT] = "int",
		[CKPT_BIGINT] = "int",
		[CKPT_FLOAT] = "float",
		[CKPT_STR] = "str",
		[CKPT_PY2_STR] = "str",
		[CKPT_BYTES] = "bytes",
		[CKPT_BYTEARRAY] = "bytearray",
		[CKPT_TUPLE] = "tuple",
		[CKPT_LIST] = "list",
		[CKPT_SET] = "set",
		[CKPT_FROZENSET] = "frozenset",
		[CKPT_DICT] = "dict",
		[CKPT_GLOBAL] = "global",
		[CKPT_CALL] = "object",
		[CKPT_PERSID] = "storage",
		[CKPT_EXT] = "extension",
		[CKPT_FOLDED] = "object",
	};

	return names[v->kind];
}

bool ckpt_value_is_str(const struct ckpt_value *v, const char *text)
{
	size_t len = strlen(text);

	return v && (v->kind == CKPT_STR || v->kind == CKPT_PY2_STR) && v->u.bytes.len == len &&
	       !memcmp(v->u.bytes.ptr, text, len);
}

bool ckpt_value_is_global(const struct ckpt_value *v, const char *module, const char *name)
{
	return v && v->kind == CKPT_GLOBAL && !strcmp(v->u.global->name, name) &&
	       !strcmp(v->u.global->module, module);
}

bool ckpt_value_is_call_of(const struct ckpt_value *v, const char *module, const char *name)
{
	return v && v->kind == CKPT_CALL && ckpt_value_is_global(v->u.call->func, module, name);
}

const struct ckpt_seq *ckpt_value_pairs(const struct ckpt_value *v)
{
	if (v->kind == CKPT_DICT)
		return &v->u.seq;
	if (v->kind == CKPT_CALL && v->u.call->pairs.count)
		return &v->u.call->pairs;
	if (ckpt_value_is_call_of(v, "collections", "OrderedDict") ||
	    ckpt_value_is_call_of(v, "collections", "defaultdict"))
		return &v->u.call->pairs;
	return NULL;
}

bool ckpt_latin1_narrow(const char *text, uint64_t len, uint8_t *out, uint64_t *out_len)
{
	*out_len = 0;
	for (uint64_t i = 0; i < len; i++) {
		uint8_t c = (uint8_t)text[i];

		if (c >= 0x80) {
			if ((c & 0xFE) != 0xC2 || i + 1 == len)
				return false;
			c = (uint8_t)((c & 3) << 6 | ((uint8_t)text[++i] & 0x3F));
		}
		out[(*out_len)++] = c;
	}
	return true;
}

bool ckpt_latin1_bytes(const char *text, uint64_t len, struct ckpt_arena *arena,
		       const uint8_t **out, uint64_t *out_len)
{
	uint8_t *bytes = ckpt_arena_alloc(arena, len + 1);

	*out = bytes;
	*out_len = 0;
	return bytes && ckpt_latin1_narrow(text, len, bytes, out_len);
}

enum { LONG = 1 << 17 };

bool ckpt_seq_add_many(struct ckpt_arena *arena, struct ckpt_seq *seq,
		       const struct ckpt_value *const *items, uint32_t count)
{
	uint32_t need;

	if (__builtin_add_overflow(seq->count, count, &need))
		return false;
	if (need > seq->cap) {
		/*
		 * the first batch is usually the only one: exact; later ones double, and very long
		 * ones leave less behind
		 */
		uint64_t cap = seq->cap ? (seq->cap < LONG ? 2 : 4) * (uint64_t)seq->cap : need;
		const struct ckpt_value **grown;

		if (cap < need)
			cap = need;
		if (cap > UINT32_MAX)
			cap = UINT32_MAX;
		grown = ckpt_arena_alloc(arena, cap * sizeof(*grown));
		if (!grown)
			return false;
		if (seq->count)
			memcpy(grown, seq->items, seq->count * sizeof(*grown));
		seq->items = grown;
		seq->cap = (uint32_t)cap;
	}
	if (count)
		memcpy(seq->items + seq->count, items, count * sizeof(*items));
	seq->count = need;
	return true;
}

bool ckpt_seq_add(struct ckpt_arena *arena, struct ckpt_seq *seq, const struct ckpt_value *v)
{
	return ckpt_seq_add_many(arena, seq, &v, 1);
}
