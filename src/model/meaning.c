/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a value of a pickle is to a reader: pickles make bytes, sets, complex numbers and the like by
 * calls, and which call means which is decided here, for <ckpt/node.h>.
 *
 * What must stay true: only a call that does what its name says, with arguments of the kinds that torch
 * and Python write, gets a meaning; any other is an object of a class.
 */
#include "model/meaning.h"

#include "model/numpy_value.h"
#include "model/plain_values.h"

#include <string.h>

static bool is_builtin(const struct ckpt_value *v, const char *name)
{
	return ckpt_value_is_call_of(v, "__builtin__", name) ||
	       ckpt_value_is_call_of(v, "builtins", name);
}

/* MODULE.NAME(*args) and nothing done to the result. */
static bool is_call_alone(const struct ckpt_value *v)
{
	const struct ckpt_call *call = v->u.call;

	return call->kind == CKPT_CALL_REDUCE && !call->items.count && !call->pairs.count &&
	       !call->state && !call->kwargs;
}

static bool is_latin1(const struct ckpt_value *v)
{
	return ckpt_value_is_str(v, "latin1") || ckpt_value_is_str(v, "latin-1");
}

static bool all_are_bytes(const struct ckpt_value *text)
{
	for (uint64_t i = 0; i < text->u.bytes.len; i++) {
		uint8_t c = (uint8_t)text->u.bytes.ptr[i];

		if (c >= 0xc4)
			return false;
	}
	return true;
}

static bool set_latin1(struct ckpt_meaning *out, enum ckpt_node_kind kind,
		       const struct ckpt_value *text)
{
	if (!text || text->kind != CKPT_STR || !all_are_bytes(text))
		return false;
	out->kind = kind;
	out->bytes = text->u.bytes.ptr;
	out->len = text->u.bytes.len;
	out->latin1 = true;
	return true;
}

/* _codecs.encode(text, 'latin1'), and bytes() if there are none. */
static bool bytes_meaning(const struct ckpt_model *model, const struct ckpt_value *v,
			  enum ckpt_node_kind kind, struct ckpt_meaning *out)
{
	if (v->kind == CKPT_BYTES) {
		out->kind = kind;
		out->bytes = v->u.bytes.ptr;
		out->len = v->u.bytes.len;
		return true;
	}
	if (v->kind != CKPT_CALL || !is_call_alone(v))
		return false;
	if (is_builtin(v, "bytes") && ckpt_plain_arg_count(model, v) == 0) {
		out->kind = kind;
		out->bytes = "";
		return true;
	}
	return ckpt_value_is_call_of(v, "_codecs", "encode") &&
	       ckpt_plain_arg_count(model, v) == 2 && is_latin1(ckpt_plain_arg(model, v, 1)) &&
	       set_latin1(out, kind, ckpt_plain_arg(model, v, 0));
}

static bool bytearray_meaning(const struct ckpt_model *model, const struct ckpt_value *v,
			      struct ckpt_meaning *out)
{
	uint32_t count = ckpt_plain_arg_count(model, v);

	if (!is_call_alone(v) || !is_builtin(v, "bytearray"))
		return false;
	if (count == 0) {
		out->kind = CKPT_NODE_BYTEARRAY;
		out->bytes = "";
		return true;
	}
	if (count == 2) /* Python 2, and protocol 2 of some Pythons 3 */
		return is_latin1(ckpt_plain_arg(model, v, 1)) &&
		       set_latin1(out, CKPT_NODE_BYTEARRAY, ckpt_plain_arg(model, v, 0));
	return count == 1 &&
	       bytes_meaning(model, ckpt_plain_arg(model, v, 0), CKPT_NODE_BYTEARRAY, out);
}

static bool complex_meaning(const struct ckpt_model *model, const struct ckpt_value *v,
			    struct ckpt_meaning *out)
{
	const struct ckpt_value *real = ckpt_plain_arg(model, v, 0),
				*imag = ckpt_plain_arg(model, v, 1);

	if (!is_call_alone(v) || !is_builtin(v, "complex") || ckpt_plain_arg_count(model, v) != 2 ||
	    real->kind != CKPT_FLOAT || imag->kind != CKPT_FLOAT)
		return false;
	out->kind = CKPT_NODE_COMPLEX;
	out->real = real->u.real;
	out->imag = imag->u.real;
	return true;
}

/* set([1, 2]), frozenset([1, 2]), torch.Size((1, 2)) */
static bool sequence_meaning(const struct ckpt_model *model, const struct ckpt_value *v,
			     struct ckpt_meaning *out)
{
	const struct ckpt_value *arg = ckpt_plain_arg(model, v, 0);

	if (!is_call_alone(v) || ckpt_plain_arg_count(model, v) != 1 ||
	    (arg->kind != CKPT_LIST && arg->kind != CKPT_TUPLE))
		return false;
	if (is_builtin(v, "set"))
		out->kind = CKPT_NODE_SET;
	else if (is_builtin(v, "frozenset"))
		out->kind = CKPT_NODE_FROZENSET;
	else if (ckpt_value_is_call_of(v, "torch", "Size"))
		out->kind = CKPT_NODE_TUPLE;
	else
		return false;
	out->items = &arg->u.seq;
	return true;
}

/* OrderedDict(), defaultdict(factory) and Counter({...}), filled with pairs. */
static bool mapping_meaning(const struct ckpt_model *model, const struct ckpt_value *v,
			    struct ckpt_meaning *out)
{
	const struct ckpt_call *call = v->u.call;
	uint32_t count = ckpt_plain_arg_count(model, v);
	const struct ckpt_value *arg = ckpt_plain_arg(model, v, 0);

	if (call->kind != CKPT_CALL_REDUCE || call->items.count || call->setter)
		return false;
	out->pairs = &call->pairs;
	if (ckpt_value_is_call_of(v, "collections", "OrderedDict")) {
		out->kind = CKPT_NODE_DICT;
		return count == 0;
	}
	if (call->state)
		return false;
	if (ckpt_value_is_call_of(v, "collections", "defaultdict")) {
		out->kind = CKPT_NODE_DICT;
		return count <= 1;
	}
	if (!ckpt_value_is_call_of(v, "collections", "Counter"))
		return false;
	out->kind = CKPT_NODE_DICT;
	if (count == 1 && arg->kind == CKPT_DICT && !call->pairs.count)
		out->pairs = &arg->u.seq;
	return count == 0 || (count == 1 && arg->kind == CKPT_DICT && !call->pairs.count);
}

static enum ckpt_node_kind numpy_kind(const struct ckpt_model *model, const struct ckpt_value *v)
{
	struct ckpt_numpy n;

	if (!ckpt_numpy_parse(model, v, &n) || n.is_subclass)
		return CKPT_NODE_OBJECT;
	return n.is_scalar ? CKPT_NODE_SCALAR : CKPT_NODE_NDARRAY;
}

static void call_meaning(const struct ckpt_model *model, const struct ckpt_value *v,
			 struct ckpt_meaning *out)
{
	const struct ckpt_value *func = ckpt_model_now(model, v->u.call->func);
	const struct ckpt_global *global = func->kind == CKPT_GLOBAL ? func->u.global : NULL;
	struct ckpt_meaning none = { .global = global };

	*out = none;
	if (ckpt_value_is_tensor(model, v)) {
		out->kind = CKPT_NODE_TENSOR;
		out->items = &v->u.call->items; /* what no torch writes: those who make it refuse it */
		out->pairs = &v->u.call->pairs;
		return;
	}
	if (global) {
		if (bytes_meaning(model, v, CKPT_NODE_BYTES, out) ||
		    bytearray_meaning(model, v, out) || complex_meaning(model, v, out) ||
		    sequence_meaning(model, v, out) || mapping_meaning(model, v, out))
			return;
		*out = none;
	}
	out->kind = numpy_kind(model, v);
	out->items = &v->u.call->items;
	out->pairs = &v->u.call->pairs;
}

void ckpt_value_meaning(const struct ckpt_model *model, const struct ckpt_value *v,
			struct ckpt_meaning *out)
{
	*out = (struct ckpt_meaning){ .kind = CKPT_NODE_NONE };
	switch ((enum ckpt_value_kind)v->kind) {
	case CKPT_NONE: break;
	case CKPT_BOOL: out->kind = CKPT_NODE_BOOL; break;
	case CKPT_INT: out->kind = CKPT_NODE_INT; break;
	case CKPT_BIGINT: out->kind = CKPT_NODE_LONG; break;
	case CKPT_FLOAT: out->kind = CKPT_NODE_FLOAT; break;
	case CKPT_STR: out->kind = CKPT_NODE_STR; break;
	case CKPT_PY2_STR: out->kind = CKPT_NODE_PY2_STR; break;
	case CKPT_BYTES: bytes_meaning(model, v, CKPT_NODE_BYTES, out); break;
	case CKPT_BYTEARRAY:
		out->kind = CKPT_NODE_BYTEARRAY;
		out->bytes = v->u.bytes.ptr;
		out->len = v->u.bytes.len;
		break;
	case CKPT_LIST: out->kind = CKPT_NODE_LIST; break;
	case CKPT_TUPLE: out->kind = CKPT_NODE_TUPLE; break;
	case CKPT_SET: out->kind = CKPT_NODE_SET; break;
	case CKPT_FROZENSET: out->kind = CKPT_NODE_FROZENSET; break;
	case CKPT_DICT: out->kind = CKPT_NODE_DICT; break;
	case CKPT_GLOBAL:
		out->kind = CKPT_NODE_GLOBAL;
		out->global = v->u.global;
		break;
	case CKPT_CALL: call_meaning(model, v, out); break;
	case CKPT_FOLDED: out->kind = CKPT_NODE_TENSOR; break;
	case CKPT_EXT: out->kind = CKPT_NODE_EXTENSION; break;
	case CKPT_PERSID:
		out->kind = v->flags & CKPT_VALUE_MISSING ? CKPT_NODE_MISSING
			    : ckpt_storage_of(v) >= 0	  ? CKPT_NODE_STORAGE
							  : CKPT_NODE_OTHER;
		break;
	}
	if (v->kind >= CKPT_TUPLE && v->kind <= CKPT_FROZENSET)
		out->items = &v->u.seq;
	if (v->kind == CKPT_DICT)
		out->pairs = &v->u.seq;
}
