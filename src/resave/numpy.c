/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays, scalars and dtypes of numpy, as numpy pickles them after it has loaded them: arrays in
 * the machine's byte order, with numpy's own dtype objects, and from protocol 5 on as a buffer.
 * Source: numpy, _core/src/multiarray/methods.c (array_reduce, array_reduce_ex_picklebuffer,
 * array_setstate) and scalartypes.c.src (gentype_reduce).
 *
 * All dtypes of one name that numpy has as a constant must get one id (`numpy_dtypes`), all
 * others one each; otherwise memo references go to the wrong object. In a model that was built of
 * objects in memory (`of_objects`) nodes say already which dtypes are one object, and arrays have
 * the byte order that they have: nothing there is as a load would leave it.
 */
#include "resave/resaver.h"

#include <stdio.h>
#include <string.h>

enum { MOST_FIELDS = 8 }; /* in fields */

/* The byte order and name of a plain numpy dtype, "<f8"; false for structured and odd ones. */
static bool numpy_dtype_text(struct ckpt_saver *s, const struct ckpt_value *dtype, char text[8])
{
	const struct ckpt_value *name, *order, *state;

	if (!ckpt_value_is_call_of(dtype, "numpy", "dtype") ||
	    dtype->u.call->args->kind != CKPT_TUPLE)
		return false;
	name = ckpt_resave_arg(s, dtype, 0);
	state = dtype->u.call->state;
	if (!name || name->kind != CKPT_STR || name->u.bytes.len > 5 || !name->u.bytes.len ||
	    !state || state->kind != CKPT_TUPLE || state->u.seq.count < 3 || state->u.seq.count > 8)
		return false;
	if (!strchr("?biufc", name->u.bytes.ptr[0]))
		return false;
	order = state->u.seq.items[1];
	if (order->kind != CKPT_STR || order->u.bytes.len != 1 || order->u.bytes.ptr[0] == '>')
		return false;
	text[0] = order->u.bytes.ptr[0];
	memcpy(text + 1, name->u.bytes.ptr, name->u.bytes.len);
	text[1 + name->u.bytes.len] = '\0';
	return true;
}

/* A copy of a dtype under the identity ID: nothing of it is shared with the original. */
static const struct ckpt_value *copy_dtype(struct ckpt_saver *s, const struct ckpt_value *dtype,
					   uint32_t id)
{
	const struct ckpt_value *args[3], *state = dtype->u.call->state;
	struct ckpt_value *name = ckpt_resave_make(s, CKPT_STR), *copy;

	if (!name)
		return NULL;
	name->u.bytes = ckpt_resave_arg(s, dtype, 0)->u.bytes;
	args[0] = name;
	args[1] = &ckpt_value_false;
	args[2] = &ckpt_value_true;
	copy = (struct ckpt_value *)ckpt_resave_call(s, dtype, dtype->u.call->func,
						     ckpt_resave_seq(s, CKPT_TUPLE, args, 3));
	if (!copy)
		return NULL;
	copy->id = id;
	copy->u.call->state =
		ckpt_resave_seq(s, CKPT_TUPLE, state->u.seq.items, state->u.seq.count);
	return copy->u.call->state ? copy : NULL;
}

/* The identity of numpy's own dtype object called TEXT, "<f8"; false: no memory. */
static bool numpy_dtype_id(struct ckpt_saver *s, const char *text, uint32_t *out)
{
	char *key = ckpt_arena_copy(s->out->arena, text, strlen(text));
	bool there;
	uint64_t *id =
		key ? ckpt_strmap_insert(&s->numpy_dtypes, key, strlen(key), s->next_id, &there)
		    : NULL;

	if (!id)
		return false;
	s->next_id += !there;
	*out = (uint32_t)*id;
	return true;
}

/*
 * All scalars of a type share numpy's own dtype object, which no array out of a file has but one
 * whose numbers were swapped.
 */
const struct ckpt_value *ckpt_resave_numpy_scalar(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *items[2] = { ckpt_resave_arg(s, v, 0), ckpt_resave_arg(s, v, 1) };
	char text[8];
	uint32_t id;

	if (s->model->doc->of_objects || !items[0] || !items[1] ||
	    !numpy_dtype_text(s, items[0], text))
		return v;
	if (!numpy_dtype_id(s, text, &id))
		return NULL;
	items[0] = copy_dtype(s, items[0], id);
	return ckpt_resave_call(s, v, v->u.call->func, ckpt_resave_seq(s, CKPT_TUPLE, items, 2));
}

static const struct ckpt_value *make_global(struct ckpt_saver *s, const char *module,
					    const char *name)
{
	return ckpt_resave_global(s, module, name, "");
}

/* numpy 2 moved its inner modules. */
static const char *numpy_multiarray(const struct ckpt_value *v)
{
	return !strncmp(v->u.call->func->u.global->module, "numpy._core", 11)
		       ? "numpy._core.multiarray"
		       : "numpy.core.multiarray";
}

/* _frombuffer(bytes, dtype, shape, order), which protocol 5 has -> _reconstruct and a state */
const struct ckpt_value *ckpt_resave_numpy_from_buffer(struct ckpt_saver *s,
						       const struct ckpt_value *v)
{
	const struct ckpt_value *buffer = ckpt_resave_arg(s, v, 0),
				*order = ckpt_resave_arg(s, v, 3), *args[3], *state[5];
	struct ckpt_value *zero = ckpt_resave_make(s, CKPT_INT),
			  *b = ckpt_resave_make(s, CKPT_BYTES),
			  *data = ckpt_resave_make(s, CKPT_BYTES);
	struct ckpt_value *one = ckpt_resave_make(s, CKPT_INT);
	const struct ckpt_value *items[1] = { zero };
	struct ckpt_value *made;

	if (s->o->protocol >= 5 || (buffer->kind != CKPT_BYTES && buffer->kind != CKPT_BYTEARRAY))
		return v;
	if (!zero || !one || !b || !data)
		return NULL;
	one->u.integer = 1;
	b->u.bytes.ptr = "b";
	b->u.bytes.len = 1;
	data->u.bytes = buffer->u.bytes;
	args[0] = make_global(s, "numpy", "ndarray");
	args[1] = ckpt_resave_seq(s, CKPT_TUPLE, items, 1);
	args[2] = b;
	state[0] = one;
	state[1] = ckpt_resave_fresh_tuple(s, ckpt_resave_arg(s, v, 2));
	state[2] = ckpt_resave_arg(s, v, 1);
	state[3] = ckpt_value_is_str(order, "F") ? &ckpt_value_true : &ckpt_value_false;
	state[4] = data;
	made = (struct ckpt_value *)ckpt_resave_call(s, v,
						     make_global(s, numpy_multiarray(v),
								 "_reconstruct"),
						     ckpt_resave_seq(s, CKPT_TUPLE, args, 3));
	if (!made)
		return NULL;
	made->u.call->state = ckpt_resave_seq(s, CKPT_TUPLE, state, 5);
	return made->u.call->state ? made : NULL;
}

/* Bytes per swapped unit of a big-endian dtype ("f8": 8, "c16": 8, "U20": 4), or 0. */
static uint64_t big_endian_unit(struct ckpt_saver *s, const struct ckpt_value *dtype)
{
	const struct ckpt_value *name, *state;
	unsigned long size;

	if (!ckpt_value_is_call_of(dtype, "numpy", "dtype"))
		return 0;
	name = ckpt_resave_arg(s, dtype, 0);
	state = dtype->u.call->state;
	if (!name || name->kind != CKPT_STR || name->u.bytes.len < 2 || !state ||
	    state->kind != CKPT_TUPLE || state->u.seq.count < 2 ||
	    !ckpt_value_is_str(state->u.seq.items[1], ">"))
		return 0;
	if (name->u.bytes.ptr[0] == 'U')
		return 4;
	if (name->u.bytes.len > 3 || !strchr("iufcmM", name->u.bytes.ptr[0]))
		return 0;
	size = name->u.bytes.ptr[1] - (unsigned long)'0';
	if (name->u.bytes.len == 3)
		size = size * 10 + (unsigned char)name->u.bytes.ptr[2] - '0';
	if (name->u.bytes.ptr[0] == 'c')
		size /= 2;
	return size == 2 || size == 4 || size == 8 ? size : 0;
}

static const struct ckpt_value *make_swapped_bytes(struct ckpt_saver *s,
						   const struct ckpt_value *data, uint64_t unit)
{
	struct ckpt_value *v = ckpt_resave_make(s, CKPT_BYTES);
	char *out;

	if (!v)
		return NULL;
	if (data->kind != CKPT_BYTES || data->u.bytes.len % unit) {
		ckpt_fail(s->err, CKPT_E_FORMAT,
			  "a numpy array has data that is not a whole number of items");
		return NULL;
	}
	out = ckpt_arena_alloc(s->scratch, data->u.bytes.len);
	if (!out)
		return NULL;
	for (uint64_t i = 0; i < data->u.bytes.len; i++)
		out[i] = data->u.bytes.ptr[i - i % unit + (unit - 1 - i % unit)];
	v->u.bytes.ptr = out;
	v->u.bytes.len = data->u.bytes.len;
	return v;
}

/*
 * Of numbers it is numpy's own; texts and dates have one of their own at every array
 * (PyArray_DescrFromType in array_setstate).
 */
static const struct ckpt_value *make_little_endian_dtype(struct ckpt_saver *s,
							 const struct ckpt_value *dtype)
{
	const struct ckpt_value *copy, *name = ckpt_resave_arg(s, dtype, 0);
	struct ckpt_value *order = ckpt_resave_make(s, CKPT_STR);
	char text[8];
	uint32_t id = 0;

	snprintf(text, sizeof(text), "<%.*s", (int)(name->u.bytes.len < 4 ? name->u.bytes.len : 4),
		 name->u.bytes.ptr);
	if (strchr("iufc", text[1]) && !numpy_dtype_id(s, text, &id))
		return NULL;
	copy = copy_dtype(s, dtype, id);
	if (!copy || !order)
		return NULL;
	order->u.bytes.ptr = "<";
	order->u.bytes.len = 1;
	((struct ckpt_value *)copy->u.call->state)->u.seq.items[1] = order;
	return copy;
}

/*
 * Does an array of SHAPE whose numbers lie in the order of Fortran lie otherwise than one in the
 * order of C?
 */
static bool has_two_orders(struct ckpt_saver *s, const struct ckpt_value *shape)
{
	uint32_t wide = 0;

	for (uint32_t i = 0; shape->kind == CKPT_TUPLE && i < shape->u.seq.count; i++) {
		const struct ckpt_value *size = ckpt_resave_now(s, shape->u.seq.items[i]);

		if (size->kind == CKPT_INT && !size->u.integer)
			return false;
		wide += size->kind != CKPT_INT || size->u.integer > 1;
	}
	return wide > 1;
}

/*
 * Can numpy lend out items of DTYPE, as pickle.PickleBuffer asks it to? Dates and times it cannot,
 * nor what has such fields, nor the types of other packages. DEPTH: levels of fields that are
 * looked at.
 */
static bool has_buffer(struct ckpt_saver *s, const struct ckpt_value *dtype, uint32_t depth)
{
	const struct ckpt_value *name, *state, *fields, *field;
	const struct ckpt_seq *pairs;
	bool lends = true;

	if (!depth || !ckpt_value_is_call_of(dtype, "numpy", "dtype"))
		return false;
	name = ckpt_resave_arg(s, dtype, 0);
	if (!name || name->kind != CKPT_STR || !name->u.bytes.len ||
	    !strchr("?biufcSUV", name->u.bytes.ptr[0]))
		return false;
	state = dtype->u.call->state ? ckpt_resave_now(s, dtype->u.call->state) : NULL;
	if (!state || state->kind != CKPT_TUPLE || state->u.seq.count < 5)
		return true;
	fields = ckpt_resave_now(s, state->u.seq.items[4]);
	pairs = ckpt_value_pairs(fields);
	/* name: (dtype, offset) */
	for (uint32_t i = 1; lends && pairs && i < pairs->count; i += 2) {
		field = ckpt_resave_now(s, pairs->items[i]);
		lends = field->kind == CKPT_TUPLE && field->u.seq.count &&
			has_buffer(s, ckpt_resave_now(s, field->u.seq.items[0]), depth - 1);
	}
	return lends;
}

/*
 * _reconstruct and a state -> _frombuffer(bytes, dtype, shape, order): what protocol 5 has for
 * every array that lies in one piece, as one that was loaded does. STATE: (version, shape, dtype,
 * is in the order of Fortran, data).
 */
static const struct ckpt_value *make_frombuffer(struct ckpt_saver *s, const struct ckpt_value *v,
						const struct ckpt_value *const *state)
{
	const struct ckpt_value *data = ckpt_resave_now(s, state[4]),
				*cls = ckpt_resave_arg(s, v, 0), *args[4];
	bool is_new = !strncmp(v->u.call->func->u.global->module, "numpy._core", 11);
	struct ckpt_value *buffer = ckpt_resave_make(s, CKPT_BYTEARRAY),
			  *order = ckpt_resave_make(s, CKPT_STR), *made;

	if (data->kind == CKPT_CALL)
		data = ckpt_resave_resolve_call(s, data);
	if (!buffer || !order || !data)
		return NULL;
	if (data->kind != CKPT_BYTES || !data->u.bytes.len ||
	    !ckpt_value_is_global(cls, "numpy", "ndarray") ||
	    !has_buffer(s, ckpt_resave_now(s, state[2]), MOST_FIELDS))
		return v;
	buffer->u.bytes = data->u.bytes;
	order->u.bytes.ptr = ckpt_resave_now(s, state[3])->u.integer &&
					     has_two_orders(s, ckpt_resave_now(s, state[1]))
				     ? "F"
				     : "C";
	order->u.bytes.len = 1;
	args[0] = buffer;
	args[1] = state[2];
	args[2] = ckpt_resave_fresh_tuple(s, ckpt_resave_now(s, state[1]));
	args[3] = order;
	made = (struct ckpt_value *)ckpt_resave_call(s, v,
						     make_global(s,
								 is_new ? "numpy._core.numeric"
									: "numpy.core.numeric",
								 "_frombuffer"),
						     ckpt_resave_seq(s, CKPT_TUPLE, args, 4));
	if (made)
		made->u.call->state = NULL;
	return made;
}

/* numpy swaps a big-endian array when it loads it, and keeps it that way; see of_objects above. */
const struct ckpt_value *ckpt_resave_numpy_array(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *state = v->u.call->state ? ckpt_resave_now(s, v->u.call->state)
							  : NULL,
				*items[5], *data;
	struct ckpt_value *made;
	uint64_t unit;

	if (!state || state->kind != CKPT_TUPLE || state->u.seq.count != 5)
		return v;
	memcpy(items, state->u.seq.items, sizeof(items));
	unit = s->model->doc->of_objects ? 0 : big_endian_unit(s, ckpt_resave_now(s, items[2]));
	if (!unit)
		return s->o->protocol >= 5 ? make_frombuffer(s, v, items) : v;
	data = ckpt_resave_now(s, items[4]);
	if (data->kind == CKPT_CALL)
		data = ckpt_resave_resolve_call(s, data);
	if (!data)
		return NULL;
	if (!s->o->python311 && !s->o->python313 && data->kind == CKPT_BYTES && !data->u.bytes.len)
		return v; /* numpy of those days leaves empty ones alone */
	items[2] = make_little_endian_dtype(s, ckpt_resave_now(s, items[2]));
	items[4] = make_swapped_bytes(s, data, unit);
	if (s->o->protocol >= 5 && items[2] && items[4])
		return make_frombuffer(s, v, items);
	made = (struct ckpt_value *)ckpt_resave_call(s, v, v->u.call->func, v->u.call->args);
	if (!made)
		return NULL;
	made->u.call->state = ckpt_resave_seq(s, CKPT_TUPLE, items, 5);
	return made->u.call->state ? made : NULL;
}
