/* SPDX-License-Identifier: Apache-2.0 */
#include "format/torch_mobile.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * All values of a model are in one list, in which later ones refer to earlier ones by their numbers. An object becomes what a
 * TorchScript archive has for it: an instance of its class with the attributes as state. Source:
 * torch/csrc/jit/mobile/flatbuffer_loader.cpp, FlatbufferLoader::parseModule() and the functions below it.
 */
enum ivalue_kind {
	IVALUE_NONE,
	IVALUE_INT,
	IVALUE_BOOL,
	IVALUE_DOUBLE,
	IVALUE_COMPLEX,
	IVALUE_TENSOR,
	IVALUE_STRING,
	IVALUE_LIST,
	IVALUE_TUPLE,
	IVALUE_DICT,
	IVALUE_OBJECT,
	IVALUE_INT_LIST,
	IVALUE_DOUBLE_LIST,
	IVALUE_BOOL_LIST,
	IVALUE_DEVICE,
	IVALUE_ENUM,
	IVALUE_FUNCTION,
	IVALUE_KINDS,
};

enum {
	TENSOR_STORAGE,
	TENSOR_DTYPE,
	TENSOR_OFFSET,
	TENSOR_SIZES,
	TENSOR_STRIDES,
	TENSOR_REQUIRES_GRAD,
	TENSOR_QUANTIZED
};
enum {
	QUANTIZED_SCHEME,
	QUANTIZED_SCALE,
	QUANTIZED_ZERO_POINT,
	QUANTIZED_SCALES,
	QUANTIZED_ZEROS,
	QUANTIZED_AXIS
};
enum { OBJECT_TYPE, OBJECT_STATE, OBJECT_ATTRS };
enum { TYPE_NAME, TYPE_KIND, TYPE_ATTR_NAMES };
enum { CLASS_WITH_FIELD = 1 };

/* By number of c10::ScalarType, c10/core/ScalarType.h. */
static const enum ckpt_dtype dtypes[] = {
	CKPT_DTYPE_UINT8,	    CKPT_DTYPE_INT8,
	CKPT_DTYPE_INT16,	    CKPT_DTYPE_INT32,
	CKPT_DTYPE_INT64,	    CKPT_DTYPE_FLOAT16,
	CKPT_DTYPE_FLOAT32,	    CKPT_DTYPE_FLOAT64,
	CKPT_DTYPE_COMPLEX32,	    CKPT_DTYPE_COMPLEX64,
	CKPT_DTYPE_COMPLEX128,	    CKPT_DTYPE_BOOL,
	CKPT_DTYPE_QINT8,	    CKPT_DTYPE_QUINT8,
	CKPT_DTYPE_QINT32,	    CKPT_DTYPE_BFLOAT16,
	CKPT_DTYPE_QUINT4X2,	    CKPT_DTYPE_QUINT2X4,
	CKPT_DTYPE_BITS1X8,	    CKPT_DTYPE_BITS2X4,
	CKPT_DTYPE_BITS4X2,	    CKPT_DTYPE_BITS8,
	CKPT_DTYPE_BITS16,	    CKPT_DTYPE_FLOAT8_E5M2,
	CKPT_DTYPE_FLOAT8_E4M3FN,   CKPT_DTYPE_FLOAT8_E5M2FNUZ,
	CKPT_DTYPE_FLOAT8_E4M3FNUZ, CKPT_DTYPE_UINT16,
	CKPT_DTYPE_UINT32,	    CKPT_DTYPE_UINT64,
};

struct type {
	const struct ckpt_value *class;
	const struct ckpt_value **names; /* of attributes */
	uint32_t count;
	bool has_fields;
};

/* What a storage is, as far as tensors have said. */
struct storage {
	const struct ckpt_value *value;
	enum ckpt_dtype dtype;
};

struct reader {
	struct ckpt_document *doc;
	struct ckpt_maker *maker;
	struct ckpt_flatbuffer *fb;
	struct type *types; /* arena */
	uint32_t type_count;
	struct storage *storages;	  /* malloc */
	const struct ckpt_value **values; /* malloc: those that were read */
	uint32_t value_count;
};

static struct ckpt_arena *arena(const struct reader *r)
{
	return r->maker->arena;
}

/* ---- small things ---- */

static const struct ckpt_value *fail(struct reader *r, int status, uint64_t at, const char *what)
{
	ckpt_flatbuffer_fail(r->fb, status, at, what);
	return NULL;
}

/* V, or NULL with the reason why it is not. */
static const struct ckpt_value *made(struct reader *r, const struct ckpt_value *v)
{
	if (!v && r->fb->rc == 0)
		r->fb->rc = ckpt_arena_fail(arena(r), r->fb->err);
	return r->fb->rc < 0 ? NULL : v;
}

static const struct ckpt_value *make_float(struct reader *r, uint64_t bits)
{
	struct ckpt_value *v = ckpt_maker_node(r->maker, CKPT_FLOAT);

	if (v)
		memcpy(&v->u.real, &bits, sizeof(bits));
	return made(r, v);
}

static const struct ckpt_value *make_bool(uint64_t v)
{
	return v ? &ckpt_value_true : &ckpt_value_false;
}

/* A value that was read before: so there are no circles, and nothing is deeper than the list is long. */
static const struct ckpt_value *value_at(struct reader *r, uint64_t number, uint64_t at)
{
	if (number < r->value_count)
		return r->values[number];
	return fail(r, CKPT_E_FORMAT, at, "a value refers to one that comes after it, or to none");
}

static const struct ckpt_value *read_text(struct reader *r, const struct ckpt_flatbuffer_table *t,
					  unsigned field)
{
	struct ckpt_value *v = ckpt_maker_node(r->maker, CKPT_STR);
	uint32_t len;
	const char *text = ckpt_flatbuffer_text(r->fb, t, field, arena(r), &len);

	if (v && text) {
		if (!ckpt_utf8_ok(text, len))
			v->kind = CKPT_BYTES; /* TorchScript's texts are any bytes */
		v->u.bytes.ptr = text;
		v->u.bytes.len = len;
	}
	return made(r, v);
}

/* ---- classes ---- */

/* "__torch__.a.b.Class" */
static const struct ckpt_value *read_class(struct reader *r, const struct ckpt_flatbuffer_table *t,
					   unsigned field)
{
	uint32_t len;
	char *text = (char *)ckpt_flatbuffer_text(r->fb, t, field, arena(r), &len), *dot;

	if (!text)
		return NULL;
	dot = memrchr(text, '.', len);
	/* a pickle, for one, could not hold it */
	if (!len || !dot || dot == text || !dot[1] || memchr(text, '\0', len) ||
	    memchr(text, '\n', len) || !ckpt_utf8_ok(text, len))
		return fail(r, CKPT_E_FORMAT, t->at, "the name of a class is none");
	*dot = '\0';
	return made(r, ckpt_maker_global(r->maker, text, dot + 1));
}

static const struct ckpt_value *read_name(struct reader *r, const struct ckpt_flatbuffer_vector *v,
					  uint32_t i)
{
	struct ckpt_value *name = ckpt_maker_node(r->maker, CKPT_STR);
	uint32_t len;
	const char *text = ckpt_flatbuffer_text_item(r->fb, v, i, arena(r), &len);

	if (text && !ckpt_utf8_ok(text, len))
		return fail(r, CKPT_E_FORMAT, v->at, "the name of an attribute is no UTF-8");
	if (name && text) {
		name->u.bytes.ptr = text;
		name->u.bytes.len = len;
	}
	return made(r, name);
}

static int read_type(struct reader *r, const struct ckpt_flatbuffer_table *t, struct type *out)
{
	struct ckpt_flatbuffer_vector names = ckpt_flatbuffer_vector(r->fb, t, TYPE_ATTR_NAMES, 4);

	out->class = read_class(r, t, TYPE_NAME);
	out->has_fields = ckpt_flatbuffer_scalar(r->fb, t, TYPE_KIND, 1, 0) == CLASS_WITH_FIELD;
	out->count = names.count;
	out->names = ckpt_arena_calloc(arena(r), names.count, sizeof(*out->names));
	if (!out->names && r->fb->rc == 0)
		r->fb->rc = ckpt_arena_fail(arena(r), r->fb->err);
	for (uint32_t i = 0; r->fb->rc == 0 && i < names.count; i++)
		out->names[i] = read_name(r, &names, i);
	return r->fb->rc;
}

static int read_types(struct reader *r, const struct ckpt_flatbuffer_table *module)
{
	struct ckpt_flatbuffer_vector types =
		ckpt_flatbuffer_vector(r->fb, module, MODULE_OBJECT_TYPES, 4);

	r->types = ckpt_arena_calloc(arena(r), types.count + (uint64_t)1, sizeof(*r->types));
	if (!r->types && r->fb->rc == 0)
		r->fb->rc = ckpt_arena_fail(arena(r), r->fb->err);
	for (uint32_t i = 0; r->fb->rc == 0 && i < types.count; i++) {
		struct ckpt_flatbuffer_table t = ckpt_flatbuffer_item(r->fb, &types, i);

		if (r->fb->rc == 0)
			read_type(r, &t, &r->types[i]);
	}
	r->type_count = types.count;
	return r->fb->rc;
}

/* ---- tensors ---- */

static int read_dims(struct reader *r, const struct ckpt_flatbuffer_table *t, unsigned field,
		     uint64_t dims[CKPT_MOST_DIMS], uint32_t *ndim)
{
	struct ckpt_flatbuffer_vector v = ckpt_flatbuffer_vector(r->fb, t, field, 4);

	if (v.count > CKPT_MOST_DIMS)
		fail(r, CKPT_E_FORMAT, t->at, "a tensor of more than 64 dimensions");
	for (uint32_t i = 0; r->fb->rc == 0 && i < v.count; i++) {
		dims[i] = ckpt_flatbuffer_number(r->fb, v.at + 4 * (uint64_t)i, 4);
		if (dims[i] > INT32_MAX)
			fail(r, CKPT_E_FORMAT, t->at, "a size or stride that is negative");
	}
	*ndim = v.count;
	return r->fb->rc;
}

static const struct ckpt_value *find_storage(struct reader *r, uint64_t number,
					     enum ckpt_dtype dtype, uint64_t at)
{
	const struct ckpt_mobile *mobile = r->doc->container;
	struct storage *s;
	char key[16];

	if (number >= mobile->storage_count)
		return fail(r, CKPT_E_FORMAT, at, "a tensor whose storage is not in the file");
	s = &r->storages[number];
	if (s->value && s->dtype != dtype)
		return fail(r, CKPT_E_UNSUPPORTED, at,
			    "two tensors of different dtypes over one storage");
	if (!s->value) {
		snprintf(key, sizeof(key), "%u", (unsigned)number);
		s->dtype = dtype;
		s->value =
			ckpt_maker_storage(r->maker, dtype, key, NULL,
					   mobile->storages[number].len / ckpt_dtype_size(dtype));
	}
	return made(r, s->value);
}

static const struct ckpt_value *read_tensor(struct reader *r,
					    const struct ckpt_flatbuffer_table *t);

/* (per_tensor_affine, scale, zero_point), or (per_channel_affine, scales, zero_points, axis) */
static const struct ckpt_value *read_quantizer(struct reader *r,
					       const struct ckpt_flatbuffer_table *q)
{
	struct ckpt_flatbuffer_table scales = ckpt_flatbuffer_table(r->fb, q, QUANTIZED_SCALES),
				     zeros = ckpt_flatbuffer_table(r->fb, q, QUANTIZED_ZEROS);
	uint64_t zero = ckpt_flatbuffer_scalar(r->fb, q, QUANTIZED_ZERO_POINT, 4, 0);
	const struct ckpt_value *items[4] = { NULL };
	bool channels = scales.at;

	items[0] = ckpt_maker_global(r->maker, "torch",
				     channels ? "per_channel_affine" : "per_tensor_affine");
	if (!channels) {
		items[1] = make_float(r, ckpt_flatbuffer_scalar(r->fb, q, QUANTIZED_SCALE, 8, 0));
		items[2] = ckpt_maker_int(r->maker, (uint64_t)(int64_t)(int32_t)zero);
		return made(r, ckpt_maker_tuple(r->maker, items, 3));
	}
	/* tensors of numbers: those of a tensor of numbers are not looked for */
	if (ckpt_flatbuffer_table(r->fb, &scales, TENSOR_QUANTIZED).at ||
	    ckpt_flatbuffer_table(r->fb, &zeros, TENSOR_QUANTIZED).at || !zeros.at)
		return fail(r, CKPT_E_FORMAT, q->at,
			    "scales and zero points that are no plain tensors");
	items[1] = read_tensor(r, &scales);
	items[2] = r->fb->rc < 0 ? NULL : read_tensor(r, &zeros);
	items[3] = ckpt_maker_int(r->maker, ckpt_flatbuffer_scalar(r->fb, q, QUANTIZED_AXIS, 4, 0));
	return made(r, ckpt_maker_tuple(r->maker, items, 4));
}

/* _rebuild_qtensor(storage, offset, size, stride, quantizer, requires_grad, hooks) of what was made for a plain tensor */
static const struct ckpt_value *quantized(struct reader *r, const struct ckpt_value *plain,
					  const struct ckpt_flatbuffer_table *q)
{
	const struct ckpt_seq *args = &plain->u.call->args->u.seq;
	const struct ckpt_value *items[7] = { args->items[0], args->items[1],	    args->items[2],
					      args->items[3], read_quantizer(r, q), args->items[4],
					      args->items[5] };

	return made(r,
		    ckpt_maker_call(r->maker,
				    ckpt_maker_global(r->maker, "torch._utils", "_rebuild_qtensor"),
				    ckpt_maker_tuple(r->maker, items, 7)));
}

static const struct ckpt_value *read_tensor(struct reader *r, const struct ckpt_flatbuffer_table *t)
{
	struct ckpt_flatbuffer_table q = ckpt_flatbuffer_table(r->fb, t, TENSOR_QUANTIZED);
	uint64_t shape[CKPT_MOST_DIMS], stride[CKPT_MOST_DIMS],
		dtype = ckpt_flatbuffer_scalar(r->fb, t, TENSOR_DTYPE, 1, 0),
		storage = ckpt_flatbuffer_scalar(r->fb, t, TENSOR_STORAGE, 4, 0);
	struct ckpt_maker_view view = { .shape = shape, .stride = stride };
	const struct ckpt_value *v;
	uint32_t strides;

	view.offset = ckpt_flatbuffer_scalar(r->fb, t, TENSOR_OFFSET, 4, 0);
	view.requires_grad = ckpt_flatbuffer_scalar(r->fb, t, TENSOR_REQUIRES_GRAD, 1, 0);
	if (read_dims(r, t, TENSOR_SIZES, shape, &view.ndim) < 0 ||
	    read_dims(r, t, TENSOR_STRIDES, stride, &strides) < 0)
		return NULL;
	if (strides != view.ndim || view.offset > INT32_MAX)
		return fail(r, CKPT_E_FORMAT, t->at,
			    "sizes, strides and offset of a tensor do not fit");
	if (dtype >= sizeof(dtypes) / sizeof(dtypes[0]))
		return fail(r, CKPT_E_UNSUPPORTED, t->at,
			    "a tensor whose dtype has no known number");
	view.dtype = dtypes[dtype];
	v = find_storage(r, storage, view.dtype, t->at);
	v = v ? made(r, ckpt_maker_tensor(r->maker, v, &view)) : NULL;
	return v && q.at ? quantized(r, v, &q) : v;
}

/* ---- containers ---- */

static const struct ckpt_value *read_items(struct reader *r, const struct ckpt_flatbuffer_table *t,
					   uint8_t kind)
{
	struct ckpt_flatbuffer_vector v = ckpt_flatbuffer_vector(r->fb, t, 0, 4);
	struct ckpt_value *list = ckpt_maker_node(r->maker, kind);

	for (uint32_t i = 0; list && r->fb->rc == 0 && i < v.count; i++) {
		uint64_t at = v.at + 4 * (uint64_t)i;
		const struct ckpt_value *item =
			value_at(r, ckpt_flatbuffer_number(r->fb, at, 4), at);

		if (item && !ckpt_seq_add(arena(r), &list->u.seq, item))
			return made(r, NULL);
	}
	return made(r, list);
}

static const struct ckpt_value *read_numbers(struct reader *r,
					     const struct ckpt_flatbuffer_table *t, unsigned width,
					     enum ivalue_kind kind)
{
	struct ckpt_flatbuffer_vector v = ckpt_flatbuffer_vector(r->fb, t, 0, width);
	struct ckpt_value *list = ckpt_maker_node(r->maker, CKPT_LIST);

	for (uint32_t i = 0; list && r->fb->rc == 0 && i < v.count; i++) {
		uint64_t bits = ckpt_flatbuffer_number(r->fb, v.at + (uint64_t)width * i, width);
		const struct ckpt_value *item = kind == IVALUE_BOOL_LIST ? make_bool(bits)
						: kind == IVALUE_DOUBLE_LIST
							? make_float(r, bits)
							: ckpt_maker_int(r->maker, bits);

		if (!item || !ckpt_seq_add(arena(r), &list->u.seq, item))
			return made(r, NULL);
	}
	return made(r, list);
}

static const struct ckpt_value *read_dict(struct reader *r, const struct ckpt_flatbuffer_table *t)
{
	struct ckpt_flatbuffer_vector keys = ckpt_flatbuffer_vector(r->fb, t, 0, 4),
				      values = ckpt_flatbuffer_vector(r->fb, t, 1, 4);
	struct ckpt_value *dict = ckpt_maker_node(r->maker, CKPT_DICT);

	if (r->fb->rc == 0 && keys.count != values.count)
		return fail(r, CKPT_E_FORMAT, t->at, "a dict of more keys than values, or less");
	for (uint32_t i = 0; dict && r->fb->rc == 0 && i < keys.count; i++) {
		uint64_t key_at = keys.at + 4 * (uint64_t)i, at = values.at + 4 * (uint64_t)i;
		const struct ckpt_value *key =
			value_at(r, ckpt_flatbuffer_number(r->fb, key_at, 4), key_at);
		const struct ckpt_value *value =
			value_at(r, ckpt_flatbuffer_number(r->fb, at, 4), at);

		if (key && value && !ckpt_maker_put(r->maker, dict, key, value))
			return made(r, NULL);
	}
	return made(r, dict);
}

static const struct ckpt_value *read_attributes(struct reader *r, const struct type *type,
						const struct ckpt_flatbuffer_table *t)
{
	struct ckpt_flatbuffer_vector v = ckpt_flatbuffer_vector(r->fb, t, OBJECT_ATTRS, 4);
	struct ckpt_value *dict = ckpt_maker_node(r->maker, CKPT_DICT);

	if (r->fb->rc == 0 && v.count != type->count)
		return fail(r, CKPT_E_FORMAT, t->at,
			    "an object with other attributes than its class");
	for (uint32_t i = 0; dict && r->fb->rc == 0 && i < v.count; i++) {
		uint64_t at = v.at + 4 * (uint64_t)i;
		const struct ckpt_value *value =
			value_at(r, ckpt_flatbuffer_number(r->fb, at, 4), at);

		if (value && !ckpt_maker_put(r->maker, dict, type->names[i], value))
			return made(r, NULL);
	}
	return made(r, dict);
}

static const struct ckpt_value *read_object(struct reader *r, const struct ckpt_flatbuffer_table *t)
{
	uint64_t number = ckpt_flatbuffer_scalar(r->fb, t, OBJECT_TYPE, 4, 0);
	const struct ckpt_value *state;
	struct ckpt_value *v;

	if (number >= r->type_count)
		return fail(r, CKPT_E_FORMAT, t->at, "an object whose class is not in the file");
	if (r->types[number].has_fields)
		state = read_attributes(r, &r->types[number], t);
	else /* a class that makes its attributes itself */
		state = value_at(r, ckpt_flatbuffer_scalar(r->fb, t, OBJECT_STATE, 4, 0), t->at);
	if (!state)
		return NULL;
	v = (struct ckpt_value *)made(r, ckpt_maker_call(r->maker, r->types[number].class,
							 &ckpt_value_empty_tuple));
	if (!v)
		return NULL;
	v->u.call->kind = CKPT_CALL_NEWOBJ; /* made just now, for nobody else */
	v->u.call->state = state;
	return v;
}

/* ---- one value ---- */

static const struct ckpt_value *read_complex(struct reader *r, uint64_t at)
{
	const struct ckpt_value *items[2] = {
		make_float(r, ckpt_flatbuffer_number(r->fb, at, 8)),
		make_float(r, ckpt_flatbuffer_number(r->fb, at + 8, 8)),
	};

	return made(r, ckpt_maker_call(r->maker, ckpt_maker_global(r->maker, "builtins", "complex"),
				       ckpt_maker_tuple(r->maker, items, 2)));
}

static const struct ckpt_value *read_enum(struct reader *r, const struct ckpt_flatbuffer_table *t)
{
	const struct ckpt_value *class = read_class(r, t, 0),
				*item = class ? value_at(r,
							 ckpt_flatbuffer_scalar(r->fb, t, 1, 4, 0),
							 t->at)
					      : NULL;

	return item ? made(r,
			   ckpt_maker_call(r->maker, class, ckpt_maker_tuple(r->maker, &item, 1)))
		    : NULL;
}

static const struct ckpt_value *read_of_table(struct reader *r, enum ivalue_kind kind,
					      const struct ckpt_flatbuffer_table *t)
{
	switch (kind) {
	case IVALUE_TENSOR: return read_tensor(r, t);
	case IVALUE_STRING:
	case IVALUE_DEVICE: return read_text(r, t, 0);
	case IVALUE_LIST: return read_items(r, t, CKPT_LIST);
	case IVALUE_TUPLE: return read_items(r, t, CKPT_TUPLE);
	case IVALUE_DICT: return read_dict(r, t);
	case IVALUE_OBJECT: return read_object(r, t);
	case IVALUE_INT_LIST: return read_numbers(r, t, 8, kind);
	case IVALUE_DOUBLE_LIST: return read_numbers(r, t, 8, kind);
	case IVALUE_BOOL_LIST: return read_numbers(r, t, 1, kind);
	case IVALUE_ENUM: return read_enum(r, t);
	default: return &ckpt_value_none; /* functions are no values of a checkpoint */
	}
}

static const struct ckpt_value *read_value(struct reader *r, const struct ckpt_flatbuffer_table *t)
{
	uint64_t kind = ckpt_flatbuffer_scalar(r->fb, t, 0, 1, 0), at;
	struct ckpt_flatbuffer_table inner;

	if (r->fb->rc == 0 && kind >= IVALUE_KINDS)
		return fail(r, CKPT_E_UNSUPPORTED, t->at, "a value of a kind that is not known");
	if (r->fb->rc < 0 || kind == IVALUE_NONE)
		return r->fb->rc < 0 ? NULL : &ckpt_value_none;
	at = ckpt_flatbuffer_struct(r->fb, t, 1);
	if (!at)
		return fail(r, CKPT_E_FORMAT, t->at, "a value of which only the kind is there");
	switch (kind) {
	case IVALUE_INT:
		return made(r, ckpt_maker_int(r->maker, ckpt_flatbuffer_number(r->fb, at, 8)));
	case IVALUE_BOOL: return make_bool(ckpt_flatbuffer_number(r->fb, at, 1));
	case IVALUE_DOUBLE: return make_float(r, ckpt_flatbuffer_number(r->fb, at, 8));
	case IVALUE_COMPLEX: return read_complex(r, at);
	default: break;
	}
	inner = ckpt_flatbuffer_table(r->fb, t, 1);
	return r->fb->rc < 0 ? NULL : read_of_table(r, (enum ivalue_kind)kind, &inner);
}

/* ---- the whole ---- */

static int read_all(struct reader *r, const struct ckpt_flatbuffer_table *module)
{
	struct ckpt_flatbuffer_vector v = ckpt_flatbuffer_vector(r->fb, module, MODULE_IVALUES, 4);

	r->values = calloc(v.count + (size_t)1, sizeof(*r->values));
	if (!r->values && r->fb->rc == 0)
		r->fb->rc = ckpt_fail_nomem(r->fb->err);
	for (uint32_t i = 0; r->fb->rc == 0 && i < v.count; i++) {
		struct ckpt_flatbuffer_table t = ckpt_flatbuffer_item(r->fb, &v, i);

		if (r->fb->rc == 0)
			r->values[i] = read_value(r, &t);
		r->value_count += r->fb->rc == 0;
	}
	return r->fb->rc;
}

/* Tensors that only code uses hang on the object as "constants", as those of a TorchScript archive do. */
static int add_constants(struct reader *r, const struct ckpt_flatbuffer_table *module,
			 const struct ckpt_value *root)
{
	struct ckpt_flatbuffer_vector v =
		ckpt_flatbuffer_vector(r->fb, module, MODULE_JIT_CONSTANTS, 4);
	/* made here */
	struct ckpt_value *list,
		*state = root->kind == CKPT_CALL ? (struct ckpt_value *)root->u.call->state : NULL;

	if (!v.count || !state || state->kind != CKPT_DICT)
		return r->fb->rc;
	list = ckpt_maker_node(r->maker, CKPT_LIST);
	for (uint32_t i = 0; list && r->fb->rc == 0 && i < v.count; i++) {
		uint64_t at = v.at + 4 * (uint64_t)i;
		const struct ckpt_value *item =
			value_at(r, ckpt_flatbuffer_number(r->fb, at, 4), at);

		if (item && !ckpt_seq_add(arena(r), &list->u.seq, item))
			made(r, NULL);
	}
	if (r->fb->rc == 0 &&
	    !ckpt_maker_put(r->maker, state, ckpt_maker_str(r->maker, "constants"), list))
		made(r, NULL);
	return r->fb->rc;
}

int ckpt_mobile_read_values(struct ckpt_document *doc, struct ckpt_maker *maker,
			    struct ckpt_flatbuffer *fb, const struct ckpt_flatbuffer_table *module,
			    const struct ckpt_value **root)
{
	struct reader r = { .doc = doc, .maker = maker, .fb = fb };
	const struct ckpt_mobile *mobile = doc->container;

	r.storages = calloc(mobile->storage_count + (size_t)1, sizeof(*r.storages));
	if (!r.storages)
		fb->rc = ckpt_fail_nomem(fb->err);
	if (fb->rc == 0 && read_types(&r, module) == 0 && read_all(&r, module) == 0) {
		*root = value_at(&r, ckpt_flatbuffer_scalar(fb, module, MODULE_STATE_OBJ, 4, 0),
				 module->at);
		if (*root)
			add_constants(&r, module, *root);
	}
	free(r.storages);
	free(r.values);
	return fb->rc;
}
