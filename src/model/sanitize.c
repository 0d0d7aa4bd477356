/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sized.h"
#include "base/text.h"
#include "model/plain_values.h"
#include "model/safe_globals.h"
#include "model/walk.h"
#include "tensor/cast.h"

#include <ckpt/edit.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What torch.load(weights_only=True) refuses becomes plain data, as far as its meaning can be told without
 * calling anything. One pass replaces the outermost values that need it; what was inside of them is met in
 * the next one. In the last pass nothing is replaced, and what is still refused is an error.
 */
enum { MOST_PASSES = 40, MOST_MODULES = 64 };

struct sanitizer {
	struct ckpt_model *to;
	bool last;	     /* nothing is replaced any more: look what is left */
	size_t tensor_depth; /* inside a tensor as long as the walk is deeper: its parts are its own */
	uint64_t replaced;		  /* in this pass */
	struct ckpt_edit_change *changes; /* malloc; texts in the arena of TO */
	size_t count, cap;
};

static const struct ckpt_value *now(const struct sanitizer *s, const struct ckpt_value *v)
{
	return ckpt_model_now(s->to, v);
}

static bool is_call(const struct ckpt_value *v, const char *module, const char *name)
{
	return ckpt_value_is_call_of(v, module, name);
}

static const struct ckpt_value *new_text(struct sanitizer *s, const char *text)
{
	return ckpt_model_new_str(s->to, text, strlen(text));
}

/* ---- objects with attributes ---- */

static bool add_attributes(struct sanitizer *s, struct ckpt_value *dict,
			   const struct ckpt_value *state)
{
	return state->kind != CKPT_DICT ||
	       ckpt_seq_add_many(s->to->arena, &dict->u.seq, state->u.seq.items,
				 state->u.seq.count);
}

/* An instance of a class without arguments, whose state is a dict, or a dict (or None) and slots. */
static const struct ckpt_value *from_object(struct sanitizer *s, const struct ckpt_value *v)
{
	const struct ckpt_call *call = v->u.call;
	const struct ckpt_value *state = call->state ? now(s, call->state) : NULL;
	struct ckpt_value *dict;

	if (call->setter || call->items.count || call->pairs.count ||
	    ckpt_plain_arg_count(s->to, v) != 0)
		return NULL;
	if (!state && call->kind == CKPT_CALL_REDUCE && !is_call(v, "types", "SimpleNamespace"))
		return NULL; /* a function without arguments gives anything */
	if (call->kind == CKPT_CALL_REDUCE && !is_call(v, "types", "SimpleNamespace"))
		return NULL;
	dict = ckpt_model_new_value(s->to, CKPT_DICT);
	if (!dict || !state)
		return dict;
	if (state->kind == CKPT_DICT)
		return add_attributes(s, dict, state) ? dict : NULL;
	if (state->kind != CKPT_TUPLE || state->u.seq.count != 2)
		return NULL;
	for (int half = 0; half < 2; half++)
		if (!add_attributes(s, dict, now(s, state->u.seq.items[half])))
			return NULL;
	return dict;
}

/* The attribute NAME of an object with a dict as state. */
static const struct ckpt_value *attribute(const struct sanitizer *s, const struct ckpt_value *v,
					  const char *name)
{
	const struct ckpt_value *state =
		v->kind == CKPT_CALL && v->u.call->state ? now(s, v->u.call->state) : NULL;

	for (uint32_t i = 0; state && state->kind == CKPT_DICT && i < state->u.seq.count; i += 2)
		if (ckpt_value_is_str(now(s, state->u.seq.items[i]), name))
			return now(s, state->u.seq.items[i + 1]);
	return NULL;
}

/* omegaconf: containers keep what they hold in _content, leaves in _val. */
static const struct ckpt_value *from_omegaconf(struct sanitizer *s, const struct ckpt_value *v)
{
	const struct ckpt_value *func = v->u.call->func, *content;

	if (func->kind != CKPT_GLOBAL || strncmp(func->u.global->module, "omegaconf.", 10))
		return NULL;
	content = attribute(s, v, "_content");
	return content ? content : attribute(s, v, "_val");
}

/* ---- modules ---- */

static bool is_module(const struct sanitizer *s, const struct ckpt_value *v)
{
	return v->kind == CKPT_CALL && attribute(s, v, "_parameters") &&
	       attribute(s, v, "_modules") && attribute(s, v, "_buffers");
}

/* A set is a SET, or at protocol 2 a call with a list. */
static bool set_has(const struct sanitizer *s, const struct ckpt_value *set,
		    const struct ckpt_value *name)
{
	const struct ckpt_value *items = set;

	if (set && set->kind == CKPT_CALL)
		items = ckpt_plain_arg(s->to, set, 0);
	if (!items || items->kind < CKPT_TUPLE || items->kind > CKPT_FROZENSET)
		return false;
	for (uint32_t i = 0; i < items->u.seq.count; i++) {
		const struct ckpt_value *item = now(s, items->u.seq.items[i]);

		if (item->kind == CKPT_STR && item->u.bytes.len == name->u.bytes.len &&
		    !memcmp(item->u.bytes.ptr, name->u.bytes.ptr, item->u.bytes.len))
			return true;
	}
	return false;
}

struct module_level {
	const struct ckpt_seq *children; /* _modules */
	uint32_t next;
	size_t prefix_len;
	const struct ckpt_value *module;
};

static bool add_named(struct sanitizer *s, struct ckpt_seq *pairs, struct ckpt_buf *prefix,
		      const struct ckpt_value *key, const struct ckpt_value *value)
{
	size_t len = prefix->len;
	const struct ckpt_value *name;

	ckpt_buf_add(prefix, key->u.bytes.ptr, key->u.bytes.len);
	name = prefix->bad ? NULL
			   : ckpt_model_new_str(s->to, (const char *)prefix->data, prefix->len);
	prefix->len = len;
	return name && ckpt_seq_add(s->to->arena, pairs, name) &&
	       ckpt_seq_add(s->to->arena, pairs, value);
}

/* Parameters without the Parameter around them, as state_dict() gives them; None is left out. */
static bool add_entries(struct sanitizer *s, struct ckpt_seq *pairs, struct ckpt_buf *prefix,
			const struct ckpt_value *module, const char *which)
{
	const struct ckpt_value *dict = attribute(s, module, which),
				*unsaved = attribute(s, module, "_non_persistent_buffers_set");
	const struct ckpt_seq *entries = dict ? ckpt_value_pairs(dict) : NULL;

	for (uint32_t i = 0; entries && i < entries->count; i += 2) {
		const struct ckpt_value *key = now(s, entries->items[i]),
					*value = now(s, entries->items[i + 1]), *inner;

		if (key->kind != CKPT_STR || value->kind == CKPT_NONE ||
		    (!strcmp(which, "_buffers") && set_has(s, unsaved, key)))
			continue;
		inner = is_call(value, "torch._utils", "_rebuild_parameter") ||
					is_call(value, "torch._utils",
						"_rebuild_parameter_with_state")
				? ckpt_plain_arg(s->to, value, 0)
				: value;
		if (!add_named(s, pairs, prefix, key, inner ? inner : value))
			return false;
	}
	return true;
}

/* The state dict of MODULE and of all below it; NULL if they are nested too deep, or no memory. */
static const struct ckpt_value *from_module(struct sanitizer *s, const struct ckpt_value *module)
{
	struct ckpt_value *od = ckpt_plain_call(s->to, "collections", "OrderedDict", NULL, 0);
	struct module_level levels[MOST_MODULES];
	struct ckpt_buf prefix = { 0 };
	uint32_t depth = 0, visited = 0;
	bool fine = od != NULL;

	levels[0] = (struct module_level){ .module = module };
	while (fine) {
		struct module_level *top = &levels[depth];
		const struct ckpt_value *key, *child;

		if (!top->children) {
			top->children = ckpt_value_pairs(attribute(s, top->module, "_modules"));
			top->prefix_len = prefix.len;
			fine = ++visited < 1000000 && top->children &&
			       add_entries(s, &od->u.call->pairs, &prefix, top->module,
					   "_parameters") &&
			       add_entries(s, &od->u.call->pairs, &prefix, top->module, "_buffers");
			continue;
		}
		prefix.len = top->prefix_len;
		if (top->next >= top->children->count) {
			if (!depth--)
				break;
			continue;
		}
		key = now(s, top->children->items[top->next]);
		child = now(s, top->children->items[top->next + 1]);
		top->next += 2;
		if (key->kind != CKPT_STR || !is_module(s, child))
			continue;
		fine = ++depth < MOST_MODULES;
		ckpt_buf_add(&prefix, key->u.bytes.ptr, key->u.bytes.len);
		ckpt_buf_add_u8(&prefix, '.');
		if (fine)
			levels[depth] = (struct module_level){ .module = child };
	}
	fine &= !prefix.bad;
	ckpt_buf_clear(&prefix);
	return fine ? od : NULL;
}

/* ---- numpy ---- */

static bool numpy_dtype(const struct sanitizer *s, const struct ckpt_value *v, enum ckpt_dtype *out)
{
	static const struct {
		const char *code;
		enum ckpt_dtype dtype;
	} codes[] = {
		{ "f8", CKPT_DTYPE_FLOAT64 },	{ "f4", CKPT_DTYPE_FLOAT32 },
		{ "f2", CKPT_DTYPE_FLOAT16 },	{ "i8", CKPT_DTYPE_INT64 },
		{ "i4", CKPT_DTYPE_INT32 },	{ "i2", CKPT_DTYPE_INT16 },
		{ "i1", CKPT_DTYPE_INT8 },	{ "u1", CKPT_DTYPE_UINT8 },
		{ "u2", CKPT_DTYPE_UINT16 },	{ "u4", CKPT_DTYPE_UINT32 },
		{ "u8", CKPT_DTYPE_UINT64 },	{ "b1", CKPT_DTYPE_BOOL },
		{ "c8", CKPT_DTYPE_COMPLEX64 }, { "c16", CKPT_DTYPE_COMPLEX128 },
	};
	const struct ckpt_value *code, *state;

	if (!is_call(v, "numpy", "dtype") || !(code = ckpt_plain_arg(s->to, v, 0)))
		return false;
	state = v->u.call->state ? now(s, v->u.call->state) : NULL;
	if (state && state->kind == CKPT_TUPLE && state->u.seq.count > 1 &&
	    ckpt_value_is_str(now(s, state->u.seq.items[1]), ">"))
		return false;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (ckpt_value_is_str(code, codes[i].code)) {
			*out = codes[i].dtype;
			return true;
		}
	return false;
}

static const struct ckpt_value *number(struct sanitizer *s, enum ckpt_dtype dtype,
				       const uint8_t *bytes)
{
	const struct ckpt_value *parts[2];
	struct ckpt_value *flag;
	uint64_t wide = 0;
	double real[2];

	if (ckpt_dtype_is_floating(dtype)) {
		ckpt_cast_items(dtype, CKPT_DTYPE_FLOAT64, bytes, real, 1);
		return ckpt_plain_float(s->to, real[0]);
	}
	if (dtype == CKPT_DTYPE_COMPLEX64 || dtype == CKPT_DTYPE_COMPLEX128) {
		ckpt_cast_items(dtype == CKPT_DTYPE_COMPLEX64 ? CKPT_DTYPE_FLOAT32
							      : CKPT_DTYPE_FLOAT64,
				CKPT_DTYPE_FLOAT64, bytes, real, 2);
		parts[0] = ckpt_plain_float(s->to, real[0]);
		parts[1] = ckpt_plain_float(s->to, real[1]);
		return ckpt_plain_call(s->to, "builtins", "complex", parts, 2);
	}
	memcpy(&wide, bytes, ckpt_dtype_size(dtype));
	if (dtype == CKPT_DTYPE_BOOL) {
		flag = ckpt_model_new_value(s->to, CKPT_BOOL);
		if (flag)
			flag->u.integer = wide != 0;
		return flag;
	}
	switch (dtype) {
	case CKPT_DTYPE_INT8: return ckpt_plain_int(s->to, (int8_t)wide);
	case CKPT_DTYPE_INT16: return ckpt_plain_int(s->to, (int16_t)wide);
	case CKPT_DTYPE_INT32: return ckpt_plain_int(s->to, (int32_t)wide);
	case CKPT_DTYPE_UINT64:
		return wide <= INT64_MAX ? ckpt_plain_int(s->to, (int64_t)wide) : NULL;
	default: return ckpt_plain_int(s->to, (int64_t)wide);
	}
}

static bool is_numpy(const struct ckpt_value *v, const char *module, const char *name)
{
	char old[60], fresh[60];

	snprintf(old, sizeof(old), "numpy.core.%s", module);
	snprintf(fresh, sizeof(fresh), "numpy._core.%s", module);
	return is_call(v, old, name) || is_call(v, fresh, name);
}

static const struct ckpt_value *from_numpy_scalar(struct sanitizer *s, const struct ckpt_value *v)
{
	const struct ckpt_value *dtype = ckpt_plain_arg(s->to, v, 0),
				*data = ckpt_plain_arg(s->to, v, 1);
	enum ckpt_dtype type;
	const uint8_t *bytes;
	uint64_t len;

	if (!dtype || !data || !numpy_dtype(s, dtype, &type) ||
	    !ckpt_plain_bytes(s->to, data, &bytes, &len) || len != ckpt_dtype_size(type))
		return NULL;
	return number(s, type, bytes);
}

static const struct ckpt_value *array(struct sanitizer *s, const struct ckpt_value *dtype,
				      const struct ckpt_value *dims, const struct ckpt_value *data,
				      bool fortran, struct ckpt_error *err)
{
	uint64_t shape[CKPT_MOST_DIMS], numel = 1, len;
	enum ckpt_dtype type;
	const uint8_t *bytes;

	if (!numpy_dtype(s, dtype, &type) || dims->kind != CKPT_TUPLE ||
	    dims->u.seq.count > CKPT_MOST_DIMS || !ckpt_plain_bytes(s->to, data, &bytes, &len))
		return NULL;
	for (uint32_t i = 0; i < dims->u.seq.count; i++) {
		const struct ckpt_value *dim = now(s, dims->u.seq.items[i]);

		if (dim->kind != CKPT_INT || dim->u.integer < 0 ||
		    __builtin_mul_overflow(numel, (uint64_t)dim->u.integer, &numel))
			return NULL;
		shape[i] = (uint64_t)dim->u.integer;
	}
	if (__builtin_mul_overflow(numel, (uint64_t)ckpt_dtype_size(type), &numel) || numel != len)
		return NULL;
	return ckpt_plain_tensor(s->to, type, shape, dims->u.seq.count, fortran, bytes, len, err);
}

/* _reconstruct(ndarray, (0,), b'b') with the state (1, shape, dtype, is Fortran's, bytes) */
static const struct ckpt_value *from_numpy_array(struct sanitizer *s, const struct ckpt_value *v,
						 struct ckpt_error *err)
{
	const struct ckpt_value *state = v->u.call->state ? now(s, v->u.call->state) : NULL,
				*part[5];

	if (!state || state->kind != CKPT_TUPLE || state->u.seq.count != 5)
		return NULL;
	for (int i = 0; i < 5; i++)
		part[i] = now(s, state->u.seq.items[i]);
	return array(s, part[2], part[1], part[4], part[3]->kind == CKPT_BOOL && part[3]->u.integer,
		     err);
}

/* _frombuffer(bytes, dtype, shape, order) of protocol 5 */
static const struct ckpt_value *from_numpy_buffer(struct sanitizer *s, const struct ckpt_value *v,
						  struct ckpt_error *err)
{
	if (ckpt_plain_arg_count(s->to, v) != 4)
		return NULL;
	return array(s, ckpt_plain_arg(s->to, v, 1), ckpt_plain_arg(s->to, v, 2),
		     ckpt_plain_arg(s->to, v, 0),
		     ckpt_value_is_str(ckpt_plain_arg(s->to, v, 3), "F"), err);
}

/* ---- small things of the standard library ---- */

/* PosixPath('/', 'a', 'b') or ('/a/b',) */
static const struct ckpt_value *from_path(struct sanitizer *s, const struct ckpt_value *v)
{
	struct ckpt_buf path = { 0 };
	const struct ckpt_value *text = NULL;

	for (uint32_t i = 0; i < ckpt_plain_arg_count(s->to, v); i++) {
		const struct ckpt_value *part = ckpt_plain_arg(s->to, v, i);

		if (!part || part->kind != CKPT_STR) {
			ckpt_buf_clear(&path);
			return NULL;
		}
		if (path.len && path.data[path.len - 1] != '/')
			ckpt_buf_add_u8(&path, '/');
		ckpt_buf_add(&path, part->u.bytes.ptr, part->u.bytes.len);
	}
	if (!path.len)
		ckpt_buf_add_u8(&path, '.');
	if (!path.bad)
		text = ckpt_model_new_str(s->to, (const char *)path.data, path.len);
	ckpt_buf_clear(&path);
	return text;
}

/* As isoformat() writes them; only those without a time zone have one argument. */
static const struct ckpt_value *from_date(struct sanitizer *s, const struct ckpt_value *v,
					  const char *name)
{
	const struct ckpt_value *data = ckpt_plain_arg(s->to, v, 0);
	const uint8_t *b;
	unsigned micro;
	char text[40];
	uint64_t len;
	int n = 0;

	if (!data || ckpt_plain_arg_count(s->to, v) != 1 ||
	    !ckpt_plain_bytes(s->to, data, &b, &len))
		return NULL;
	if (len != (!strcmp(name, "datetime") ? 10u : !strcmp(name, "date") ? 4u : 6u))
		return NULL;
	if (strcmp(name, "time"))
		n = snprintf(text, sizeof(text), "%04u-%02u-%02u", b[0] * 256u + b[1], b[2] & 0x7Fu,
			     b[3]);
	if (!strcmp(name, "date"))
		return new_text(s, text);
	b += !strcmp(name, "datetime") ? 4 : 0;
	micro = b[3] * 65536u + b[4] * 256u + b[5];
	snprintf(text + n, sizeof(text) - (size_t)n,
		 micro ? "%s%02u:%02u:%02u.%06u" : "%s%02u:%02u:%02u", n ? "T" : "", b[0] & 0x7Fu,
		 b[1], b[2], micro);
	return new_text(s, text);
}

/* The first argument, if it is the text that the object stands for. */
static const struct ckpt_value *text_argument(const struct sanitizer *s, const struct ckpt_value *v)
{
	const struct ckpt_value *text = ckpt_plain_arg(s->to, v, 0);

	return ckpt_plain_arg_count(s->to, v) == 1 && text && text->kind == CKPT_STR ? text : NULL;
}

static const struct ckpt_value *from_library(struct sanitizer *s, const struct ckpt_value *v,
					     const struct ckpt_global *g)
{
	if (!strncmp(g->module, "pathlib", 7) && strstr(g->name, "Path"))
		return from_path(s, v);
	if (!strcmp(g->module, "datetime") &&
	    (!strcmp(g->name, "datetime") || !strcmp(g->name, "date") || !strcmp(g->name, "time")))
		return from_date(s, v, g->name);
	if ((!strcmp(g->module, "decimal") && !strcmp(g->name, "Decimal")) ||
	    !strcmp(g->name, "TorchVersion"))
		return text_argument(s, v);
	if (!strcmp(g->module, "numpy") && !strcmp(g->name, "dtype"))
		return ckpt_plain_arg(s->to, v, 0);
	return NULL;
}

/* A dict or list out of what was filled like one. */
static const struct ckpt_value *from_filled(struct sanitizer *s, const struct ckpt_value *v)
{
	const struct ckpt_call *call = v->u.call;
	struct ckpt_value *made;

	if (is_call(v, "collections", "defaultdict")) {
		made = ckpt_model_new_value(s->to, CKPT_DICT);
		return made && ckpt_seq_add_many(s->to->arena, &made->u.seq, call->pairs.items,
						 call->pairs.count)
			       ? made
			       : NULL;
	}
	if (is_call(v, "collections", "deque")) {
		made = ckpt_model_new_value(s->to, CKPT_LIST);
		return made && ckpt_seq_add_many(s->to->arena, &made->u.seq, call->items.items,
						 call->items.count)
			       ? made
			       : NULL;
	}
	if (is_call(v, "builtins", "frozenset") || is_call(v, "__builtin__", "frozenset")) {
		const struct ckpt_value *items = ckpt_plain_arg(s->to, v, 0);

		return items ? ckpt_plain_call(s->to, "builtins", "set", &items, 1) : NULL;
	}
	return NULL;
}

/* ---- which, and what ---- */

/* _codecs.encode('', 'latin1'): the form of empty bytes that is allowed, and is not to be written otherwise. */
static const struct ckpt_value *empty_bytes(struct sanitizer *s)
{
	const struct ckpt_value *items[2] = { new_text(s, ""), new_text(s, "latin1") };
	struct ckpt_value *call = ckpt_plain_call(s->to, "_codecs", "encode", items, 2);

	if (call)
		call->flags |= CKPT_VALUE_FINAL;
	return call;
}

static bool is_empty_bytes(struct sanitizer *s, const struct ckpt_value *v)
{
	const uint8_t *bytes;
	uint64_t len;

	return !(v->flags & CKPT_VALUE_FINAL) && v->kind != CKPT_PY2_STR &&
	       ckpt_plain_bytes(s->to, v, &bytes, &len) && !len;
}

static const struct ckpt_value *plain(struct sanitizer *s, const struct ckpt_value *v,
				      struct ckpt_error *err)
{
	const struct ckpt_value *func = now(s, v->u.call->func), *made;

	if (func->kind != CKPT_GLOBAL)
		return NULL;
	if (is_empty_bytes(s, v))
		return empty_bytes(s);
	if (is_module(s, v))
		return from_module(s, v);
	if (is_numpy(v, "multiarray", "scalar"))
		return from_numpy_scalar(s, v);
	if (is_numpy(v, "multiarray", "_reconstruct"))
		return from_numpy_array(s, v, err);
	if (is_numpy(v, "numeric", "_frombuffer"))
		return from_numpy_buffer(s, v, err);
	made = from_omegaconf(s, v);
	if (!made)
		made = from_library(s, v, func->u.global);
	if (!made)
		made = from_filled(s, v);
	return made ? made : from_object(s, v);
}

static bool is_refused(struct sanitizer *s, const struct ckpt_value *v)
{
	const struct ckpt_value *func;

	if (v->kind == CKPT_BYTES)
		return !v->u.bytes.len;
	if (v->kind == CKPT_BIGINT)
		return v->u.bytes.len > 255;

	if (v->kind == CKPT_GLOBAL)
		return !ckpt_is_safe_global(v->u.global->module, v->u.global->name);
	if (v->kind == CKPT_FROZENSET || v->kind == CKPT_EXT)
		return true;
	if (v->kind != CKPT_CALL)
		return false;
	func = now(s, v->u.call->func);
	return func->kind != CKPT_GLOBAL || v->u.call->items.count || is_empty_bytes(s, v) ||
	       !ckpt_is_safe_global(func->u.global->module, func->u.global->name);
}

/* A value with the id of OLD, to stand in its place. */
static const struct ckpt_value *in_place_of(struct sanitizer *s, const struct ckpt_value *old,
					    const struct ckpt_value *fresh)
{
	struct ckpt_value *copy = ckpt_arena_alloc(s->to->arena, sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = *fresh;
	copy->id = old->id;
	return copy;
}

static const char *type_of(struct sanitizer *s, const struct ckpt_value *v)
{
	const struct ckpt_value *func = v->kind == CKPT_CALL ? now(s, v->u.call->func) : NULL;
	char shown[120];

	if (v->kind == CKPT_CALL && ckpt_value_is_tensor(s->to, v))
		return "tensor";
	if (!func || func->kind != CKPT_GLOBAL)
		return v->kind == CKPT_GLOBAL ? "class" : ckpt_value_kind_name(v);
	if (!strcmp(func->u.global->name, "scalar") ||
	    !strcmp(func->u.global->name, "_reconstruct") ||
	    !strcmp(func->u.global->name, "_frombuffer"))
		return func->u.global->name[0] == 's' ? "numpy scalar" : "numpy array";
	ckpt_escape(shown, sizeof(shown), func->u.global->name, func->u.global->name_len);
	return ckpt_arena_copy(s->to->arena, shown, strlen(shown));
}

static int note_change(struct sanitizer *s, const struct ckpt_walk_step *step,
		       const struct ckpt_value *was, const struct ckpt_value *fresh,
		       struct ckpt_error *err)
{
	struct ckpt_edit_change *change;

	if (s->count == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		struct ckpt_edit_change *grown = realloc(s->changes, cap * sizeof(*grown));

		if (!grown)
			return ckpt_fail_nomem(err);
		s->changes = grown;
		s->cap = cap;
	}
	change = &s->changes[s->count++];
	change->name = ckpt_arena_copy(s->to->arena, step->name, step->name_len);
	change->was = type_of(s, was);
	change->is = type_of(s, fresh);
	s->replaced++;
	return change->name && change->was && change->is ? 0 : ckpt_fail_nomem(err);
}

/* V is what hangs at the step, or a key in it. */
static int refuse(struct sanitizer *s, const struct ckpt_walk_step *step,
		  const struct ckpt_value *v, struct ckpt_error *err)
{
	const struct ckpt_value *func = v->kind == CKPT_CALL ? now(s, v->u.call->func) : v;
	char shown[160], module[100] = "?", name[100] = "?";

	if (func->kind == CKPT_BIGINT)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "'%s' is an integer of %" PRIu64
				 " bytes, weights_only reads up to 255",
				 ckpt_escape(shown, sizeof(shown), step->name, step->name_len),
				 func->u.bytes.len);
	if (func->kind == CKPT_GLOBAL) {
		ckpt_escape(module, sizeof(module), func->u.global->module,
			    func->u.global->module_len);
		ckpt_escape(name, sizeof(name), func->u.global->name, func->u.global->name_len);
	}
	return ckpt_fail(err, CKPT_E_UNSUPPORTED, "'%s' cannot be told without calling %s.%s",
			 ckpt_escape(shown, sizeof(shown), step->name, step->name_len), module,
			 name);
}

static const struct ckpt_value *class_name(struct sanitizer *s, const struct ckpt_value *v)
{
	char text[400];

	snprintf(text, sizeof(text), "%.190s.%.190s", v->u.global->module, v->u.global->name);
	return new_text(s, text);
}

/* What stands for V, or NULL: it is not known, or no memory. */
static const struct ckpt_value *replacement(struct sanitizer *s, const struct ckpt_value *v,
					    struct ckpt_error *err)
{
	switch (v->kind) {
	case CKPT_CALL: return plain(s, v, err);
	case CKPT_GLOBAL: return class_name(s, v);
	case CKPT_FROZENSET: return ckpt_plain_seq(s->to, CKPT_SET, v->u.seq.items, v->u.seq.count);
	case CKPT_BYTES: return empty_bytes(s);
	default: return NULL;
	}
}

/* What may be a key: Python hashes no dicts, lists and sets. */
static bool can_be_key(const struct ckpt_value *v)
{
	return v->kind < CKPT_TUPLE || is_call(v, "builtins", "complex") ||
	       is_call(v, "_codecs", "encode");
}

/* 1: V was replaced. */
static int replace(struct sanitizer *s, const struct ckpt_walk_step *step,
		   const struct ckpt_value *v, bool is_key, struct ckpt_error *err)
{
	const struct ckpt_value *fresh;
	int rc;

	if (v->id && now(s, v) != v) /* met again under another name */
		return 1;
	fresh = v->id ? replacement(s, v, err) : NULL;
	if (!fresh || (is_key && !can_be_key(fresh)))
		return 0; /* the last pass says so, if it is still there */
	rc = note_change(s, step, v, fresh, err);
	fresh = rc == 0 ? in_place_of(s, v, fresh) : NULL;
	if (rc == 0 && !fresh)
		rc = ckpt_arena_fail(s->to->arena, err);
	if (rc == 0)
		rc = ckpt_model_replace(s->to, fresh, err);
	return rc < 0 ? rc : 1;
}

/* Keys are not met on the walk. */
static int look_at_keys(struct sanitizer *s, const struct ckpt_walk_step *step,
			struct ckpt_error *err)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(step->value);
	int rc = 0;

	for (uint32_t i = 0; rc >= 0 && pairs && i < pairs->count; i += 2) {
		const struct ckpt_value *key = now(s, pairs->items[i]);

		if (is_refused(s, key))
			rc = s->last ? refuse(s, step, key, err) : replace(s, step, key, true, err);
	}
	return rc < 0 ? rc : 0;
}

static int look(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct sanitizer *s = ctx;
	const struct ckpt_value *v = step->value;
	int rc = 0;

	if (step->depth <= s->tensor_depth)
		s->tensor_depth = SIZE_MAX;
	if (s->tensor_depth == SIZE_MAX && ckpt_value_is_tensor(s->to, v))
		s->tensor_depth = step->depth;
	if (s->tensor_depth == SIZE_MAX && !step->seen)
		rc = look_at_keys(s, step, err);
	if (rc < 0 || !is_refused(s, v))
		return rc < 0 ? rc : CKPT_WALK_ENTER;
	if (s->last)
		return refuse(s, step, v, err);
	if (s->tensor_depth != SIZE_MAX)
		return CKPT_WALK_ENTER; /* the last pass says so */
	rc = replace(s, step, v, false, err);
	return rc < 0 ? rc : rc > 0 ? CKPT_WALK_SKIP : CKPT_WALK_ENTER;
}

/* Protocols that the restricted unpickler reads. */
static void choose_protocol(struct sanitizer *s)
{
	uint8_t is = s->to->protocol ? s->to->protocol : s->to->doc->pickle.protocol;

	if (is != 2)
		s->to->protocol = 2;
}

/* A model that is walked does not change: what is replaced is in the next one. */
static int one_pass(struct sanitizer *s, struct ckpt_error *err)
{
	struct ckpt_model *before = s->to;
	int rc = ckpt_model_derive(before, &s->to, err);

	if (rc < 0) {
		s->to = before;
		return rc;
	}
	s->replaced = 0;
	s->tensor_depth = SIZE_MAX;
	rc = ckpt_model_walk(before, look, s, err);
	ckpt_close(before); /* the next one keeps it alive */
	return rc;
}

int ckpt_sanitize(const struct ckpt_model *model, struct ckpt_model **out,
		  struct ckpt_edit_report *report, struct ckpt_error *err)
{
	struct ckpt_edit_report did = CKPT_EDIT_REPORT_INIT;
	struct sanitizer s = { 0 };
	int rc = ckpt_sized_check(report, sizeof(did), err);

	*out = NULL;
	if (rc == 0)
		rc = ckpt_model_derive(model, &s.to, err);
	for (int pass = 0; rc == 0 && !s.last && pass <= MOST_PASSES; pass++) {
		s.last = pass > 0 && (!s.replaced || pass == MOST_PASSES);
		rc = one_pass(&s, err);
	}
	if (rc == 0) {
		did.protocol_changed = s.to->doc->pickle.protocol != 2 && s.to->protocol != 2;
		choose_protocol(&s);
		did.changes = ckpt_arena_alloc(s.to->arena, (s.count + 1) * sizeof(*s.changes));
		did.change_count = s.count;
		rc = did.changes ? 0 : ckpt_arena_fail(s.to->arena, err);
	}
	if (rc == 0 && s.count)
		memcpy((void *)did.changes, s.changes, s.count * sizeof(*s.changes));
	free(s.changes);
	if (rc < 0) {
		ckpt_close(s.to);
		return rc;
	}
	ckpt_sized_give(report, &did);
	*out = s.to;
	return 0;
}
