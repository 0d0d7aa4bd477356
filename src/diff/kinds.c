/* SPDX-License-Identifier: Apache-2.0 */
#include "diff/kinds.h"

#include "model/numpy_value.h"
#include "model/plain_values.h"

static bool is_builtin(const struct ckpt_value *v, const char *name)
{
	return ckpt_value_is_call_of(v, "builtins", name) ||
	       ckpt_value_is_call_of(v, "__builtin__", name);
}

const struct ckpt_seq *ckpt_set_of_call(const struct ckpt_model *model, const struct ckpt_value *v)
{
	const struct ckpt_value *items;

	if (!is_builtin(v, "set") && !is_builtin(v, "frozenset"))
		return NULL;
	items = ckpt_plain_arg_count(model, v) == 1 ? ckpt_plain_arg(model, v, 0) : NULL;
	return items && (items->kind == CKPT_LIST || items->kind == CKPT_TUPLE) ? &items->u.seq
										: NULL;
}

static bool is_bytes_call(const struct ckpt_value *v)
{
	return ckpt_value_is_call_of(v, "_codecs", "encode") || is_builtin(v, "bytes");
}

bool ckpt_is_one_value(const struct ckpt_model *model, const struct ckpt_value *v)
{
	struct ckpt_numpy n;

	if (v->kind == CKPT_CALL)
		return ckpt_set_of_call(model, v) || is_bytes_call(v) ||
		       ckpt_numpy_parse(model, v, &n);
	return v->kind < CKPT_TUPLE || v->kind == CKPT_SET || v->kind == CKPT_FROZENSET ||
	       v->kind > CKPT_DICT;
}

uint8_t ckpt_value_kind_of(const struct ckpt_model *model, const struct ckpt_value *v)
{
	struct ckpt_numpy n;

	if (v->kind == CKPT_PY2_STR)
		return CKPT_STR;
	if (v->kind == CKPT_FOLDED)
		return CKPT_CALL;
	if (v->kind != CKPT_CALL)
		return v->kind;
	if (ckpt_set_of_call(model, v))
		return is_builtin(v, "set") ? CKPT_SET : CKPT_FROZENSET;
	if (is_bytes_call(v))
		return CKPT_BYTES;
	return ckpt_numpy_parse(model, v, &n) ? CKPT_OF_NUMPY : CKPT_CALL;
}
