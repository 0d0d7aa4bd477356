/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the values of a mobile model. They are in one list, in which later ones refer to earlier
 * ones by number. An object becomes what a TorchScript archive has for it: an instance of its
 * class with its attributes as state. Source: torch/csrc/jit/serialization/mobile_bytecode.fbs;
 * torch/csrc/jit/mobile/flatbuffer_loader.cpp, FlatbufferLoader::parseModule() and the functions
 * below it.
 *
 * What must stay true: a value refers only to values before it (value_at()), so that there are
 * no cycles and no recursion.
 */
#include "format/torch_mobile.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

enum { OBJECT_TYPE, OBJECT_STATE, OBJECT_ATTRS };
enum { TYPE_NAME, TYPE_KIND, TYPE_ATTR_NAMES };
enum { CLASS_WITH_FIELD = 1 };

struct type {
	const struct ckpt_value *class;
	const struct ckpt_value **names; /* of attributes */
	uint32_t count;
	bool has_fields;
};

struct reader {
	struct ckpt_mobile_reader common;
	struct type *types; /* arena */
	uint32_t type_count;
	const struct ckpt_value **values; /* malloc: those that were read */
	uint32_t value_count;
};

static struct ckpt_arena *arena(const struct reader *r)
{
	return r->common.maker->arena;
}

static const struct ckpt_value *fail(struct reader *r, int status, uint64_t at, const char *what)
{
	return ckpt_mobile_fail(&r->common, status, at, what);
}

static const struct ckpt_value *made(struct reader *r, const struct ckpt_value *v)
{
	return ckpt_mobile_made(&r->common, v);
}

static const struct ckpt_value *make_float(struct reader *r, uint64_t bits)
{
	return ckpt_mobile_float(&r->common, bits);
}

static const struct ckpt_value *make_bool(uint64_t v)
{
	return v ? &ckpt_value_true : &ckpt_value_false;
}

/*
 * A value that was read before: so there are no circles, and nothing is deeper than the list is
 * long.
 */
static const struct ckpt_value *value_at(struct reader *r, uint64_t number, uint64_t at)
{
	if (number < r->value_count)
		return r->values[number];
	return fail(r, CKPT_E_FORMAT, at, "a value refers to one that comes after it, or to none");
}

static const struct ckpt_value *read_text(struct reader *r, const struct ckpt_flatbuffer_table *t,
					  unsigned field)
{
	struct ckpt_value *v = ckpt_maker_node(r->common.maker, CKPT_STR);
	uint32_t len;
	const char *text = ckpt_flatbuffer_text(r->common.fb, t, field, arena(r), &len);

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
	char *text = (char *)ckpt_flatbuffer_text(r->common.fb, t, field, arena(r), &len), *dot;

	if (!text)
		return NULL;
	dot = memrchr(text, '.', len);
	/* a pickle, for one, could not hold it */
	if (!len || !dot || dot == text || !dot[1] || memchr(text, '\0', len) ||
	    memchr(text, '\n', len) || !ckpt_utf8_ok(text, len))
		return fail(r, CKPT_E_FORMAT, t->at, "the name of a class is none");
	*dot = '\0';
	return made(r, ckpt_maker_global(r->common.maker, text, dot + 1));
}

static const struct ckpt_value *read_name(struct reader *r, const struct ckpt_flatbuffer_vector *v,
					  uint32_t i)
{
	struct ckpt_value *name = ckpt_maker_node(r->common.maker, CKPT_STR);
	uint32_t len;
	const char *text = ckpt_flatbuffer_text_item(r->common.fb, v, i, arena(r), &len);

	if (text && !ckpt_utf8_ok(text, len))
		return fail(r, CKPT_E_FORMAT, v->at, "the name of an attribute is not UTF-8");
	if (name && text) {
		name->u.bytes.ptr = text;
		name->u.bytes.len = len;
	}
	return made(r, name);
}

static int read_type(struct reader *r, const struct ckpt_flatbuffer_table *t, struct type *out)
{
	struct ckpt_flatbuffer_vector names =
		ckpt_flatbuffer_vector(r->common.fb, t, TYPE_ATTR_NAMES, 4);

	out->class = read_class(r, t, TYPE_NAME);
	out->has_fields =
		ckpt_flatbuffer_scalar(r->common.fb, t, TYPE_KIND, 1, 0) == CLASS_WITH_FIELD;
	out->count = names.count;
	out->names = ckpt_arena_calloc(arena(r), names.count, sizeof(*out->names));
	if (!out->names && r->common.fb->rc == 0)
		r->common.fb->rc = ckpt_arena_fail(arena(r), r->common.fb->err);
	for (uint32_t i = 0; r->common.fb->rc == 0 && i < names.count; i++)
		out->names[i] = read_name(r, &names, i);
	return r->common.fb->rc;
}

static int read_types(struct reader *r, const struct ckpt_flatbuffer_table *module)
{
	struct ckpt_flatbuffer_vector types =
		ckpt_flatbuffer_vector(r->common.fb, module, MODULE_OBJECT_TYPES, 4);

	r->types = ckpt_arena_calloc(arena(r), types.count + (uint64_t)1, sizeof(*r->types));
	if (!r->types && r->common.fb->rc == 0)
		r->common.fb->rc = ckpt_arena_fail(arena(r), r->common.fb->err);
	for (uint32_t i = 0; r->common.fb->rc == 0 && i < types.count; i++) {
		struct ckpt_flatbuffer_table t = ckpt_flatbuffer_item(r->common.fb, &types, i);

		if (r->common.fb->rc == 0)
			read_type(r, &t, &r->types[i]);
	}
	r->type_count = types.count;
	return r->common.fb->rc;
}

/* ---- containers ---- */

static const struct ckpt_value *read_items(struct reader *r, const struct ckpt_flatbuffer_table *t,
					   uint8_t kind)
{
	struct ckpt_flatbuffer_vector v = ckpt_flatbuffer_vector(r->common.fb, t, 0, 4);
	struct ckpt_value *list = ckpt_maker_node(r->common.maker, kind);

	for (uint32_t i = 0; list && r->common.fb->rc == 0 && i < v.count; i++) {
		uint64_t at = v.at + 4 * (uint64_t)i;
		const struct ckpt_value *item =
			value_at(r, ckpt_flatbuffer_number(r->common.fb, at, 4), at);

		if (item && !ckpt_seq_add(arena(r), &list->u.seq, item))
			return made(r, NULL);
	}
	return made(r, list);
}

static const struct ckpt_value *read_numbers(struct reader *r,
					     const struct ckpt_flatbuffer_table *t, unsigned width,
					     enum ivalue_kind kind)
{
	struct ckpt_flatbuffer_vector v = ckpt_flatbuffer_vector(r->common.fb, t, 0, width);
	struct ckpt_value *list = ckpt_maker_node(r->common.maker, CKPT_LIST);

	for (uint32_t i = 0; list && r->common.fb->rc == 0 && i < v.count; i++) {
		uint64_t bits =
			ckpt_flatbuffer_number(r->common.fb, v.at + (uint64_t)width * i, width);
		const struct ckpt_value *item = kind == IVALUE_BOOL_LIST ? make_bool(bits)
						: kind == IVALUE_DOUBLE_LIST
							? make_float(r, bits)
							: ckpt_maker_int(r->common.maker, bits);

		if (!item || !ckpt_seq_add(arena(r), &list->u.seq, item))
			return made(r, NULL);
	}
	return made(r, list);
}

static const struct ckpt_value *read_dict(struct reader *r, const struct ckpt_flatbuffer_table *t)
{
	struct ckpt_flatbuffer_vector keys = ckpt_flatbuffer_vector(r->common.fb, t, 0, 4),
				      values = ckpt_flatbuffer_vector(r->common.fb, t, 1, 4);
	struct ckpt_value *dict = ckpt_maker_node(r->common.maker, CKPT_DICT);

	if (r->common.fb->rc == 0 && keys.count != values.count)
		return fail(r, CKPT_E_FORMAT, t->at, "a dict of more keys than values, or less");
	for (uint32_t i = 0; dict && r->common.fb->rc == 0 && i < keys.count; i++) {
		uint64_t key_at = keys.at + 4 * (uint64_t)i, at = values.at + 4 * (uint64_t)i;
		const struct ckpt_value *key =
			value_at(r, ckpt_flatbuffer_number(r->common.fb, key_at, 4), key_at);
		const struct ckpt_value *value =
			value_at(r, ckpt_flatbuffer_number(r->common.fb, at, 4), at);

		if (key && value && !ckpt_maker_put(r->common.maker, dict, key, value))
			return made(r, NULL);
	}
	return made(r, dict);
}

static const struct ckpt_value *read_attributes(struct reader *r, const struct type *type,
						const struct ckpt_flatbuffer_table *t)
{
	struct ckpt_flatbuffer_vector v = ckpt_flatbuffer_vector(r->common.fb, t, OBJECT_ATTRS, 4);
	struct ckpt_value *dict = ckpt_maker_node(r->common.maker, CKPT_DICT);

	if (r->common.fb->rc == 0 && v.count != type->count)
		return fail(r, CKPT_E_FORMAT, t->at,
			    "an object with other attributes than its class");
	for (uint32_t i = 0; dict && r->common.fb->rc == 0 && i < v.count; i++) {
		uint64_t at = v.at + 4 * (uint64_t)i;
		const struct ckpt_value *value =
			value_at(r, ckpt_flatbuffer_number(r->common.fb, at, 4), at);

		if (value && !ckpt_maker_put(r->common.maker, dict, type->names[i], value))
			return made(r, NULL);
	}
	return made(r, dict);
}

static const struct ckpt_value *read_object(struct reader *r, const struct ckpt_flatbuffer_table *t)
{
	uint64_t number = ckpt_flatbuffer_scalar(r->common.fb, t, OBJECT_TYPE, 4, 0);
	const struct ckpt_value *state;
	struct ckpt_value *v;

	if (number >= r->type_count)
		return fail(r, CKPT_E_FORMAT, t->at, "an object whose class is not in the file");
	if (r->types[number].has_fields)
		state = read_attributes(r, &r->types[number], t);
	else /* a class that makes its attributes itself */
		state = value_at(r, ckpt_flatbuffer_scalar(r->common.fb, t, OBJECT_STATE, 4, 0),
				 t->at);
	if (!state)
		return NULL;
	v = (struct ckpt_value *)made(r, ckpt_maker_call(r->common.maker, r->types[number].class,
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
		make_float(r, ckpt_flatbuffer_number(r->common.fb, at, 8)),
		make_float(r, ckpt_flatbuffer_number(r->common.fb, at + 8, 8)),
	};

	return made(r, ckpt_maker_call(r->common.maker,
				       ckpt_maker_global(r->common.maker, "builtins", "complex"),
				       ckpt_maker_tuple(r->common.maker, items, 2)));
}

static const struct ckpt_value *read_enum(struct reader *r, const struct ckpt_flatbuffer_table *t)
{
	const struct ckpt_value *class = read_class(r, t, 0),
				*item = class ? value_at(r,
							 ckpt_flatbuffer_scalar(r->common.fb, t, 1,
										4, 0),
							 t->at)
					      : NULL;

	return item ? made(r, ckpt_maker_call(r->common.maker, class,
					      ckpt_maker_tuple(r->common.maker, &item, 1)))
		    : NULL;
}

static const struct ckpt_value *read_of_table(struct reader *r, enum ivalue_kind kind,
					      const struct ckpt_flatbuffer_table *t)
{
	switch (kind) {
	case IVALUE_TENSOR: return ckpt_mobile_read_tensor(&r->common, t);
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
	uint64_t kind = ckpt_flatbuffer_scalar(r->common.fb, t, 0, 1, 0), at;
	struct ckpt_flatbuffer_table inner;

	if (r->common.fb->rc == 0 && kind >= IVALUE_KINDS)
		return fail(r, CKPT_E_UNSUPPORTED, t->at, "a value of a kind that is not known");
	if (r->common.fb->rc < 0 || kind == IVALUE_NONE)
		return r->common.fb->rc < 0 ? NULL : &ckpt_value_none;
	at = ckpt_flatbuffer_struct(r->common.fb, t, 1);
	if (!at)
		return fail(r, CKPT_E_FORMAT, t->at, "a value of which only the kind is there");
	switch (kind) {
	case IVALUE_INT:
		return made(r, ckpt_maker_int(r->common.maker,
					      ckpt_flatbuffer_number(r->common.fb, at, 8)));
	case IVALUE_BOOL: return make_bool(ckpt_flatbuffer_number(r->common.fb, at, 1));
	case IVALUE_DOUBLE: return make_float(r, ckpt_flatbuffer_number(r->common.fb, at, 8));
	case IVALUE_COMPLEX: return read_complex(r, at);
	default: break;
	}
	inner = ckpt_flatbuffer_table(r->common.fb, t, 1);
	return r->common.fb->rc < 0 ? NULL : read_of_table(r, (enum ivalue_kind)kind, &inner);
}

/* ---- the whole ---- */

static int read_all(struct reader *r, const struct ckpt_flatbuffer_table *module)
{
	struct ckpt_flatbuffer_vector v =
		ckpt_flatbuffer_vector(r->common.fb, module, MODULE_IVALUES, 4);

	r->values = calloc(v.count + (size_t)1, sizeof(*r->values));
	if (!r->values && r->common.fb->rc == 0)
		r->common.fb->rc = ckpt_fail_nomem(r->common.fb->err);
	for (uint32_t i = 0; r->common.fb->rc == 0 && i < v.count; i++) {
		struct ckpt_flatbuffer_table t = ckpt_flatbuffer_item(r->common.fb, &v, i);

		if (r->common.fb->rc == 0)
			r->values[i] = read_value(r, &t);
		r->value_count += r->common.fb->rc == 0;
	}
	return r->common.fb->rc;
}

/*
 * Tensors that only code uses hang on the object as "constants", as those of a TorchScript
 * archive do.
 */
static int add_constants(struct reader *r, const struct ckpt_flatbuffer_table *module,
			 const struct ckpt_value *root)
{
	struct ckpt_flatbuffer_vector v =
		ckpt_flatbuffer_vector(r->common.fb, module, MODULE_JIT_CONSTANTS, 4);
	/* made here */
	struct ckpt_value *list,
		*state = root->kind == CKPT_CALL ? (struct ckpt_value *)root->u.call->state : NULL;

	if (!v.count || !state || state->kind != CKPT_DICT)
		return r->common.fb->rc;
	list = ckpt_maker_node(r->common.maker, CKPT_LIST);
	for (uint32_t i = 0; list && r->common.fb->rc == 0 && i < v.count; i++) {
		uint64_t at = v.at + 4 * (uint64_t)i;
		const struct ckpt_value *item =
			value_at(r, ckpt_flatbuffer_number(r->common.fb, at, 4), at);

		if (item && !ckpt_seq_add(arena(r), &list->u.seq, item))
			made(r, NULL);
	}
	if (r->common.fb->rc == 0 &&
	    !ckpt_maker_put(r->common.maker, state, ckpt_maker_str(r->common.maker, "constants"),
			    list))
		made(r, NULL);
	return r->common.fb->rc;
}

int ckpt_mobile_read_values(struct ckpt_document *doc, struct ckpt_maker *maker,
			    struct ckpt_flatbuffer *fb, const struct ckpt_flatbuffer_table *module,
			    const struct ckpt_value **root)
{
	struct reader r = { .common = { .doc = doc, .maker = maker, .fb = fb } };
	const struct ckpt_mobile *mobile = doc->container;

	r.common.storages = calloc(mobile->storage_count + (size_t)1, sizeof(*r.common.storages));
	if (!r.common.storages)
		fb->rc = ckpt_fail_nomem(fb->err);
	if (fb->rc == 0 && read_types(&r, module) == 0 && read_all(&r, module) == 0) {
		*root = value_at(&r, ckpt_flatbuffer_scalar(fb, module, MODULE_STATE_OBJ, 4, 0),
				 module->at);
		if (*root)
			add_constants(&r, module, *root);
	}
	free(r.common.storages);
	free(r.values);
	return fb->rc;
}
