/* SPDX-License-Identifier: Apache-2.0 */
#include "model/resave.h"

#include "pickle/encode.h"
#include "pickle/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Few bytes of a hostile pickle can mean very many; a real one hardly grows. */
static const uint64_t OUTPUT_BASE = 64 << 20, OUTPUT_PER_BYTE = 16;

/* What every tensor mentions: made once per save, with an identity. */
enum constant {
	STR_STORAGE, STR_CPU, STR_MPS, STR_META, ORDERED_DICT, REBUILD_V2, REBUILD_SPARSE, UNTYPED,
	CONSTANT_COUNT,
};
static const struct {
	const char *module, *name; /* module NULL: a string */
} constants[CONSTANT_COUNT] = {
	[STR_STORAGE] = { NULL, "storage" },
	[STR_CPU] = { NULL, "cpu" },
	[STR_MPS] = { NULL, "mps" },
	[STR_META] = { NULL, "meta" },
	[ORDERED_DICT] = { "collections", "OrderedDict" },
	[REBUILD_V2] = { "torch._utils", "_rebuild_tensor_v2" },
	[REBUILD_SPARSE] = { "torch._utils", "_rebuild_sparse_tensor" },
	[UNTYPED] = { "torch.storage", "UntypedStorage" },
};

enum { MOST_NESTING = 32 };

struct saver {
	const struct ckpt_model *model;
	const struct ckpt_resave_options *o;
	struct ckpt_resaved *out;
	const struct ckpt_value **key_nodes; /* by storage index; NULL: not met yet */
	uint32_t key_cap;
	struct ckpt_strmap numpy_dtypes; /* "<f8" to the one dtype object of all scalars */
	uint32_t next_id;
	struct ckpt_value constants[CONSTANT_COUNT], classes[CKPT_DTYPE_COUNT]; /* storage classes */
	struct ckpt_global constant_names[CONSTANT_COUNT], class_names[CKPT_DTYPE_COUNT];
	unsigned nesting;
	struct ckpt_arena *scratch; /* of the value being resolved */
	struct ckpt_error *err;
};

typedef const struct ckpt_value *resave_call(struct saver *s, const struct ckpt_value *v);

/* ---- small helpers; NULL always means: no memory, or ERR is filled ---- */

static const struct ckpt_value *now(const struct saver *s, const struct ckpt_value *v)
{
	return ckpt_model_now(s->model, v);
}

static const struct ckpt_value *arg(const struct saver *s, const struct ckpt_value *call, uint32_t i)
{
	const struct ckpt_value *args = now(s, call->u.call->args);

	return i < args->u.seq.count ? now(s, args->u.seq.items[i]) : NULL;
}

static struct ckpt_value *make(struct saver *s, uint8_t kind)
{
	struct ckpt_value *v = ckpt_arena_calloc(s->scratch, 1, sizeof(*v));

	if (v) {
		v->kind = kind;
		v->flags = CKPT_VALUE_FINAL;
	}
	return v;
}

static const struct ckpt_value *make_seq(struct saver *s, uint8_t kind,
					 const struct ckpt_value *const *items, uint32_t count)
{
	struct ckpt_value *v;

	if (!count && kind == CKPT_TUPLE)
		return &ckpt_value_empty_tuple;
	for (uint32_t i = 0; i < count; i++)
		if (!items[i])
			return NULL;
	v = make(s, kind);
	return v && ckpt_seq_add_many(s->scratch, &v->u.seq, items, count) ? v : NULL;
}

/* A call like LIKE (same object, same items and state) with other arguments. */
static const struct ckpt_value *make_call(struct saver *s, const struct ckpt_value *like,
					  const struct ckpt_value *func,
					  const struct ckpt_value *args)
{
	struct ckpt_value *v = make(s, CKPT_CALL);
	struct ckpt_call *call = ckpt_arena_calloc(s->scratch, 1, sizeof(*call));

	if (!v || !call || !args)
		return NULL;
	if (like) {
		*call = *like->u.call;
		v->id = like->id;
		v->pos = like->pos;
	}
	call->func = func;
	call->args = args;
	v->u.call = call;
	return v;
}

/* ---- storages ---- */

static bool grow_keys(struct saver *s)
{
	uint32_t cap = s->model->doc->storage_count;
	void *nodes, *order, *keys;

	if (cap <= s->key_cap)
		return true;
	nodes = realloc(s->key_nodes, cap * sizeof(*s->key_nodes));
	if (nodes)
		s->key_nodes = nodes;
	order = realloc(s->out->order, cap * sizeof(*s->out->order));
	if (order)
		s->out->order = order;
	keys = realloc(s->out->keys, cap * sizeof(*s->out->keys));
	if (keys)
		s->out->keys = keys;
	if (!nodes || !order || !keys)
		return false;
	memset(s->key_nodes + s->key_cap, 0, (cap - s->key_cap) * sizeof(*s->key_nodes));
	s->key_cap = cap;
	return true;
}

/* The key of a storage, numbered at its first mention. */
static const struct ckpt_value *key_node(struct saver *s, int64_t index)
{
	const struct ckpt_storage *storage = &s->model->doc->storages[index];
	struct ckpt_value *node;
	char text[16];

	if (!grow_keys(s))
		return NULL;
	if (s->key_nodes[index])
		return s->key_nodes[index];
	snprintf(text, sizeof(text), "%u", s->out->count);
	node = ckpt_arena_calloc(s->out->arena, 1, sizeof(*node));
	if (!node)
		return NULL;
	node->kind = CKPT_STR;
	node->flags = CKPT_VALUE_FINAL | CKPT_VALUE_DISTINCT;
	node->id = s->o->spell_keys ? 0 : s->next_id++;
	node->u.bytes.ptr = s->o->keep_keys ? storage->key
					    : ckpt_arena_copy(s->out->arena, text, strlen(text));
	if (!node->u.bytes.ptr)
		return NULL;
	node->u.bytes.len = strlen(node->u.bytes.ptr);
	s->key_nodes[index] = node;
	s->out->order[s->out->count] = (uint32_t)index;
	s->out->keys[s->out->count++] = node->u.bytes.ptr;
	return node;
}

/* Tags that torch has as constants are one object; others are put together for every tensor. */
static const struct ckpt_value *location_node(struct saver *s, const char *location)
{
	struct ckpt_value *v;

	if (!strcmp(location, "cpu"))
		return &s->constants[STR_CPU];
	if (!strcmp(location, "mps"))
		return &s->constants[STR_MPS];
	if (!strcmp(location, "meta"))
		return &s->constants[STR_META];
	v = make(s, CKPT_STR);
	if (v) {
		v->flags |= CKPT_VALUE_DISTINCT;
		v->u.bytes.ptr = location;
		v->u.bytes.len = strlen(location);
	}
	return v;
}

static const struct ckpt_value *int_node(struct saver *s, uint64_t integer)
{
	struct ckpt_value *v = make(s, CKPT_INT);

	if (v)
		v->u.integer = (int64_t)integer;
	return v;
}

/* ('storage', class, key, location, numel); IN_TENSOR_V3: an untyped storage stays one. */
static const struct ckpt_value *storage_node(struct saver *s, const struct ckpt_value *persid,
					     bool in_tensor_v3)
{
	const struct ckpt_storage *storage;
	const struct ckpt_value *items[5], *type;
	struct ckpt_value *v;
	enum ckpt_dtype dtype;
	int64_t index = ckpt_storage_of(persid);

	if (index < 0)
		return persid;
	storage = &s->model->doc->storages[index];
	type = now(s, persid->u.persid.pid->u.seq.items[1]);
	dtype = type->kind == CKPT_GLOBAL ? ckpt_dtype_of_storage(type->u.global->name)
					  : CKPT_DTYPE_UNKNOWN;
	if (dtype == CKPT_DTYPE_UNKNOWN)
		dtype = storage->dtype;
	items[0] = &s->constants[STR_STORAGE];
	if (in_tensor_v3)
		items[1] = &s->constants[UNTYPED];
	else /* a raw untyped storage is loaded as one of bytes */
		items[1] = &s->classes[dtype];
	items[2] = key_node(s, index);
	items[3] = location_node(s, storage->location);
	items[4] = int_node(s, in_tensor_v3 ? storage->nbytes
					    : storage->nbytes / ckpt_dtype_size(dtype));
	v = make(s, CKPT_PERSID);
	if (!v)
		return NULL;
	v->u.persid.pid = make_seq(s, CKPT_TUPLE, items, 5);
	return v->u.persid.pid ? v : NULL;
}

/* ---- tensors ---- */

static const struct ckpt_value *fresh_tuple(struct saver *s, const struct ckpt_value *v)
{
	if (ckpt_value_is_call_of(v, "torch", "Size") && arg(s, v, 0))
		v = arg(s, v, 0);
	if (v->kind != CKPT_TUPLE && v->kind != CKPT_LIST) {
		ckpt_fail(s->err, CKPT_E_FORMAT, "wanted the size of a tensor, found %s",
			  ckpt_value_kind_name(v));
		return NULL;
	}
	return make_seq(s, CKPT_TUPLE, v->u.seq.items, v->u.seq.count);
}

static const struct ckpt_value *fresh_hooks(struct saver *s)
{
	return make_call(s, NULL, &s->constants[ORDERED_DICT], &ckpt_value_empty_tuple);
}

static const struct ckpt_value *interned(struct saver *s, const struct ckpt_value *key)
{
	struct ckpt_value *v;

	if (key->kind != CKPT_STR)
		return key;
	v = make(s, CKPT_STR);
	if (v) {
		v->flags |= CKPT_VALUE_INTERNED;
		v->u.bytes = key->u.bytes;
	}
	return v;
}

/* A dict whose keys are names that the program has interned. */
static const struct ckpt_value *attribute_dict(struct saver *s, const struct ckpt_value *dict)
{
	struct ckpt_value *v = make(s, CKPT_DICT);
	uint32_t count = dict->u.seq.count;

	if (!v || !ckpt_seq_add_many(s->scratch, &v->u.seq, dict->u.seq.items, count))
		return NULL;
	for (uint32_t i = 0; i < count; i += 2) {
		v->u.seq.items[i] = interned(s, now(s, dict->u.seq.items[i]));
		if (!v->u.seq.items[i])
			return NULL;
	}
	return v;
}

/* {'conj': True}: the words are made anew for every tensor. */
static const struct ckpt_value *bits_dict(struct saver *s, const struct ckpt_value *dict)
{
	const struct ckpt_value *v = attribute_dict(s, dict);

	for (uint32_t i = 0; v && i < v->u.seq.count; i += 2)
		if (v->u.seq.items[i]->kind == CKPT_STR) /* then attribute_dict() has made it */
			((struct ckpt_value *)v->u.seq.items[i])->flags =
				CKPT_VALUE_FINAL | CKPT_VALUE_DISTINCT;
	return v;
}

static const struct ckpt_value *plain_tensor(struct saver *s, const struct ckpt_value *v, bool v3)
{
	const struct ckpt_value *items[8], *storage = arg(s, v, 0), *metadata = arg(s, v, v3 ? 7 : 6);
	const struct ckpt_value *requires_grad = arg(s, v, 4), *func = v->u.call->func;
	uint32_t count = v3 ? 7 : 6;

	if (storage->kind != CKPT_PERSID)
		return v;
	items[0] = storage_node(s, storage, v3);
	items[1] = arg(s, v, 1);
	items[2] = fresh_tuple(s, arg(s, v, 2));
	items[3] = fresh_tuple(s, arg(s, v, 3));
	items[4] = requires_grad ? requires_grad : &ckpt_value_false;
	items[5] = fresh_hooks(s);
	if (v3)
		items[6] = arg(s, v, 6);
	if (metadata && metadata->kind == CKPT_DICT && metadata->u.seq.count)
		items[count++] = bits_dict(s, metadata);
	if (ckpt_value_is_global(func, "torch._utils", "_rebuild_tensor"))
		func = &s->constants[REBUILD_V2];
	return make_call(s, v, func, make_seq(s, CKPT_TUPLE, items, count));
}

static const struct ckpt_value *tensor_v2(struct saver *s, const struct ckpt_value *v)
{
	return plain_tensor(s, v, false);
}

static const struct ckpt_value *tensor_v3(struct saver *s, const struct ckpt_value *v)
{
	return plain_tensor(s, v, true);
}

static const struct ckpt_value *resolve_call(struct saver *s, const struct ckpt_value *v);

/* A tensor inside another is handed out anew for every save: nobody else holds it. */
static const struct ckpt_value *anonymous(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *resolved = v->kind == CKPT_CALL ? resolve_call(s, v) : v;
	struct ckpt_value *copy;

	if (!resolved || resolved == v)
		return resolved;
	copy = make(s, resolved->kind);
	if (copy) {
		*copy = *resolved;
		copy->id = 0;
	}
	return copy;
}

static const struct ckpt_value *attributes(struct saver *s, const struct ckpt_value *state);

static const struct ckpt_value *parameter(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *items[4], *state = arg(s, v, 3);
	uint32_t count = 3;

	items[0] = anonymous(s, arg(s, v, 0));
	items[1] = arg(s, v, 1);
	items[2] = fresh_hooks(s);
	if (state)
		items[count++] = attributes(s, state);
	return make_call(s, v, v->u.call->func, make_seq(s, CKPT_TUPLE, items, count));
}

static const struct ckpt_value *quantized(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *items[7], *storage = arg(s, v, 0);

	if (storage->kind != CKPT_PERSID)
		return v;
	items[0] = storage_node(s, storage, false);
	items[1] = arg(s, v, 1);
	items[2] = fresh_tuple(s, arg(s, v, 2));
	items[3] = fresh_tuple(s, arg(s, v, 3));
	items[4] = arg(s, v, 4);
	items[5] = arg(s, v, 5);
	items[6] = fresh_hooks(s);
	return make_call(s, v, v->u.call->func, make_seq(s, CKPT_TUPLE, items, 7));
}

/* (indices, values, size[, is_coalesced]): the flag came with torch 2.1. */
static const struct ckpt_value *sparse_data(struct saver *s, const struct ckpt_value *data)
{
	const struct ckpt_value *items[4] = { NULL, NULL, NULL, &ckpt_value_false };
	uint32_t count = s->o->is_coalesced ? 4 : 3;

	for (uint32_t i = 0; i < 4 && i < data->u.seq.count; i++)
		items[i] = data->u.seq.items[i];
	return make_seq(s, CKPT_TUPLE, items, count);
}

static const struct ckpt_value *sparse(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *items[2] = { arg(s, v, 0), arg(s, v, 1) }, *func = v->u.call->func;
	const struct ckpt_value *name = items[0];

	if (name->kind == CKPT_CALL && name->u.call->args->kind == CKPT_TUPLE &&
	    name->u.call->args->u.seq.count == 1)
		name = name->u.call->args->u.seq.items[0];
	if (ckpt_value_is_str(name, "torch.sparse_coo") && items[1]->kind == CKPT_TUPLE &&
	    items[1]->u.seq.count >= 3)
		items[1] = sparse_data(s, items[1]);
	if (s->o->is_coalesced)
		func = &s->constants[REBUILD_SPARSE];
	return make_call(s, v, func, make_seq(s, CKPT_TUPLE, items, 2));
}

static const struct ckpt_value *with_attribute_dicts(struct saver *s, const struct ckpt_value *args)
{
	struct ckpt_value *copy = make(s, CKPT_TUPLE);

	if (!copy || !ckpt_seq_add_many(s->scratch, &copy->u.seq, args->u.seq.items, args->u.seq.count))
		return NULL;
	for (uint32_t i = 0; i < copy->u.seq.count; i++)
		if (now(s, copy->u.seq.items[i])->kind == CKPT_DICT)
			copy->u.seq.items[i] = attribute_dict(s, now(s, copy->u.seq.items[i]));
	return copy;
}

/* _rebuild_from_type_v2(func, class, args, state): ARGS are those of FUNC */
static const struct ckpt_value *from_type(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *items[4] = { arg(s, v, 0), arg(s, v, 1), arg(s, v, 2), arg(s, v, 3) };
	const struct ckpt_value *inner, *resolved;

	if (items[2]->kind != CKPT_TUPLE)
		return v;
	inner = make_call(s, NULL, items[0], items[2]);
	resolved = inner ? resolve_call(s, inner) : NULL;
	if (!resolved)
		return NULL;
	/* a function of the subclass's own gets its attributes as arguments */
	if (resolved == inner || resolved->kind != CKPT_CALL)
		items[2] = with_attribute_dicts(s, items[2]);
	else
		items[2] = resolved->u.call->args;
	items[3] = attributes(s, items[3]);
	return make_call(s, v, v->u.call->func, make_seq(s, CKPT_TUPLE, items, 4));
}

/* ---- other calls that a load turns into something of its own ---- */

/* _codecs.encode(text, 'latin1') is how protocol 2 writes bytes. */
static const struct ckpt_value *latin1_bytes(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *text = arg(s, v, 0), *codec = arg(s, v, 1);
	struct ckpt_value *bytes;
	uint64_t used = 0;
	char *out;

	if (!text || !codec || text->kind != CKPT_STR || !ckpt_value_is_str(codec, "latin1"))
		return v;
	out = ckpt_arena_alloc(s->scratch, text->u.bytes.len);
	bytes = make(s, CKPT_BYTES);
	if (!out || !bytes)
		return NULL;
	for (uint64_t i = 0; i < text->u.bytes.len; i++) {
		uint8_t c = (uint8_t)text->u.bytes.ptr[i];

		if (c >= 0x80) {
			if ((c & 0xFE) != 0xC2 || i + 1 == text->u.bytes.len)
				return v; /* no Latin-1: such a call would fail */
			c = (uint8_t)((c & 3) << 6 | ((uint8_t)text->u.bytes.ptr[++i] & 0x3F));
		}
		out[used++] = (char)c;
	}
	bytes->id = v->id;
	bytes->u.bytes.ptr = out;
	bytes->u.bytes.len = used;
	return bytes;
}

static const struct ckpt_value *empty_bytes(struct saver *s, const struct ckpt_value *v)
{
	struct ckpt_value *bytes;

	if (v->u.call->args->kind != CKPT_TUPLE || v->u.call->args->u.seq.count)
		return v;
	bytes = make(s, CKPT_BYTES);
	if (bytes) {
		bytes->id = v->id;
		bytes->u.bytes.ptr = "";
	}
	return bytes;
}

static struct ckpt_value *make_global(struct saver *s, const char *module, const char *name,
					   const char *tail)
{
	struct ckpt_value *v = make(s, CKPT_GLOBAL);
	struct ckpt_global *g = ckpt_arena_calloc(s->scratch, 1, sizeof(*g));
	size_t len = strlen(name), tail_len = strlen(tail);
	char *text = ckpt_arena_alloc(s->scratch, len + tail_len + 2);

	if (!v || !g || !text)
		return NULL;
	memcpy(text, name, len);
	if (tail_len)
		text[len++] = '.';
	memcpy(text + len, tail, tail_len + 1);
	*g = (struct ckpt_global){ module, text, (uint32_t)strlen(module), (uint32_t)(len + tail_len) };
	v->u.global = g;
	return v;
}

/* getattr(module.A, 'B') is how protocol 2 names the nested class module.A.B. */
static const struct ckpt_value *nested_global(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *parent = arg(s, v, 0), *name = arg(s, v, 1);
	struct ckpt_value *made;
	const char *tail;

	if (parent && parent->kind == CKPT_CALL && ckpt_value_is_global(parent->u.call->func,
		v->u.call->func->u.global->module, "getattr"))
		parent = resolve_call(s, parent);
	if (!parent || !name || parent->kind != CKPT_GLOBAL || name->kind != CKPT_STR ||
	    strstr(parent->u.global->module, "builtin") || /* dict.fromkeys: really a call */
	    memchr(name->u.bytes.ptr, '\0', name->u.bytes.len) || name->u.bytes.len > 1000)
		return v;
	tail = ckpt_arena_copy(s->scratch, name->u.bytes.ptr, name->u.bytes.len);
	made = tail ? make_global(s, parent->u.global->module, parent->u.global->name, tail) : NULL;
	if (made)
		made->id = v->id;
	return made;
}

/* A functools.partial that is called at once: how protocol 2 passes keyword arguments. */
static const struct ckpt_value *called_partial(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *partial = now(s, v->u.call->func), *items[4], *copy, *state;

	state = partial->u.call->state ? now(s, partial->u.call->state) : NULL;
	if (!state || state->kind != CKPT_TUPLE || state->u.seq.count != 4)
		return v;
	memcpy(items, state->u.seq.items, sizeof(items));
	if (now(s, items[2])->kind != CKPT_DICT)
		return v;
	items[2] = attribute_dict(s, now(s, items[2]));
	copy = make_call(s, partial, partial->u.call->func, partial->u.call->args);
	if (!copy)
		return NULL;
	copy->u.call->state = make_seq(s, CKPT_TUPLE, items, 4);
	return copy->u.call->state ? make_call(s, v, copy, v->u.call->args) : NULL;
}

/* Protocol 4's call with keyword arguments, for older protocols. */
static const struct ckpt_value *new_with_keywords(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *cls = now(s, v->u.call->func), *args = now(s, v->u.call->args);
	const struct ckpt_value *func, *partial, *state[4], *items[64];
	struct ckpt_value *made;

	if (cls->kind != CKPT_GLOBAL || args->u.seq.count >= 63)
		return v;
	func = make_global(s, cls->u.global->module, cls->u.global->name, "__new__");
	items[0] = cls;
	memcpy(items + 1, args->u.seq.items, args->u.seq.count * sizeof(*items));
	state[0] = func;
	state[1] = make_seq(s, CKPT_TUPLE, items, args->u.seq.count + 1);
	state[2] = now(s, v->u.call->kwargs);
	if (state[2]->kind == CKPT_DICT)
		state[2] = attribute_dict(s, state[2]);
	state[3] = &ckpt_value_none;
	partial = make_call(s, NULL, make_global(s, "functools", "partial", ""),
			    make_seq(s, CKPT_TUPLE, &func, 1));
	if (!partial)
		return NULL;
	partial->u.call->state = make_seq(s, CKPT_TUPLE, state, 4);
	made = (struct ckpt_value *)make_call(s, v, partial, &ckpt_value_empty_tuple);
	if (!made || !partial->u.call->state)
		return NULL;
	made->u.call->kind = CKPT_CALL_REDUCE;
	made->u.call->kwargs = NULL;
	return made;
}

static const struct ckpt_value *python2_global(struct saver *s, const struct ckpt_value *v)
{
	const char *module, *name;
	struct ckpt_value *made;

	if (!s->o->python2_names ||
	    !ckpt_python2_name(v->u.global->module, v->u.global->name, &module, &name))
		return v;
	made = make_global(s, module, name, "");
	if (made)
		made->id = v->id;
	return made;
}

/* The byte order and name of a plain numpy dtype, "<f8"; false for structured and odd ones. */
static bool numpy_dtype_text(struct saver *s, const struct ckpt_value *dtype, char text[8])
{
	const struct ckpt_value *name, *order, *state;

	if (!ckpt_value_is_call_of(dtype, "numpy", "dtype") || dtype->u.call->args->kind != CKPT_TUPLE)
		return false;
	name = arg(s, dtype, 0);
	state = dtype->u.call->state;
	if (!name || name->kind != CKPT_STR || name->u.bytes.len > 5 || !name->u.bytes.len || !state ||
	    state->kind != CKPT_TUPLE || state->u.seq.count < 3 || state->u.seq.count > 8)
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
static const struct ckpt_value *copy_dtype(struct saver *s, const struct ckpt_value *dtype, uint32_t id)
{
	const struct ckpt_value *args[3], *state = dtype->u.call->state;
	struct ckpt_value *name = make(s, CKPT_STR), *copy;

	if (!name)
		return NULL;
	name->u.bytes = arg(s, dtype, 0)->u.bytes;
	args[0] = name;
	args[1] = &ckpt_value_false;
	args[2] = &ckpt_value_true;
	copy = (struct ckpt_value *)make_call(s, dtype, dtype->u.call->func,
					      make_seq(s, CKPT_TUPLE, args, 3));
	if (!copy)
		return NULL;
	copy->id = id;
	copy->u.call->state = make_seq(s, CKPT_TUPLE, state->u.seq.items, state->u.seq.count);
	return copy->u.call->state ? copy : NULL;
}

/* All scalars of a type share numpy's own dtype object, which no array out of a file has. */
static const struct ckpt_value *numpy_scalar(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *items[2] = { arg(s, v, 0), arg(s, v, 1) };
	uint64_t *id;
	char text[8], *key;
	bool there;

	if (!items[0] || !items[1] || !numpy_dtype_text(s, items[0], text))
		return v;
	key = ckpt_arena_copy(s->out->arena, text, strlen(text));
	id = key ? ckpt_strmap_insert(&s->numpy_dtypes, key, strlen(key), s->next_id, &there) : NULL;
	if (!id)
		return NULL;
	s->next_id += !there;
	items[0] = copy_dtype(s, items[0], (uint32_t)*id);
	return make_call(s, v, v->u.call->func, make_seq(s, CKPT_TUPLE, items, 2));
}

static const struct ckpt_value *global_of(struct saver *s, const char *module, const char *name)
{
	return make_global(s, module, name, "");
}

/* numpy 2 moved its inner modules. */
static const char *numpy_multiarray(const struct ckpt_value *v)
{
	return !strncmp(v->u.call->func->u.global->module, "numpy._core", 11) ? "numpy._core.multiarray"
									      : "numpy.core.multiarray";
}

/* _frombuffer(bytes, dtype, shape, order), which protocol 5 has -> _reconstruct and a state */
static const struct ckpt_value *numpy_from_buffer(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *buffer = arg(s, v, 0), *order = arg(s, v, 3), *args[3], *state[5];
	struct ckpt_value *zero = make(s, CKPT_INT), *b = make(s, CKPT_BYTES), *data = make(s, CKPT_BYTES);
	struct ckpt_value *one = make(s, CKPT_INT);
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
	args[0] = global_of(s, "numpy", "ndarray");
	args[1] = make_seq(s, CKPT_TUPLE, items, 1);
	args[2] = b;
	state[0] = one;
	state[1] = fresh_tuple(s, arg(s, v, 2));
	state[2] = arg(s, v, 1);
	state[3] = ckpt_value_is_str(order, "F") ? &ckpt_value_true : &ckpt_value_false;
	state[4] = data;
	made = (struct ckpt_value *)make_call(s, v, global_of(s, numpy_multiarray(v), "_reconstruct"),
					      make_seq(s, CKPT_TUPLE, args, 3));
	if (!made)
		return NULL;
	made->u.call->state = make_seq(s, CKPT_TUPLE, state, 5);
	return made->u.call->state ? made : NULL;
}

/* Bytes per swapped unit of a big-endian dtype ("f8": 8, "c16": 8), or 0. */
static uint64_t big_endian_unit(struct saver *s, const struct ckpt_value *dtype)
{
	const struct ckpt_value *name, *state;
	unsigned long size;

	if (!ckpt_value_is_call_of(dtype, "numpy", "dtype"))
		return 0;
	name = arg(s, dtype, 0);
	state = dtype->u.call->state;
	if (!name || name->kind != CKPT_STR || name->u.bytes.len < 2 || name->u.bytes.len > 3 || !state ||
	    state->kind != CKPT_TUPLE || state->u.seq.count < 2 ||
	    !ckpt_value_is_str(state->u.seq.items[1], ">") || !strchr("iufc", name->u.bytes.ptr[0]))
		return 0;
	size = name->u.bytes.ptr[1] - (unsigned long)'0';
	if (name->u.bytes.len == 3)
		size = size * 10 + (unsigned char)name->u.bytes.ptr[2] - '0';
	if (name->u.bytes.ptr[0] == 'c')
		size /= 2;
	return size == 2 || size == 4 || size == 8 ? size : 0;
}

static const struct ckpt_value *swapped_bytes(struct saver *s, const struct ckpt_value *data,
					      uint64_t unit)
{
	struct ckpt_value *v = make(s, CKPT_BYTES);
	char *out;

	if (data->kind == CKPT_CALL)
		data = latin1_bytes(s, data);
	if (!v || !data)
		return NULL;
	if (data->kind != CKPT_BYTES || data->u.bytes.len % unit) {
		ckpt_fail(s->err, CKPT_E_FORMAT, "a numpy array has data that are no whole number of items");
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

static const struct ckpt_value *little_endian_dtype(struct saver *s, const struct ckpt_value *dtype)
{
	const struct ckpt_value *copy = copy_dtype(s, dtype, 0);
	struct ckpt_value *order = make(s, CKPT_STR);

	if (!copy || !order)
		return NULL;
	order->u.bytes.ptr = "<";
	order->u.bytes.len = 1;
	((struct ckpt_value *)copy->u.call->state)->u.seq.items[1] = order;
	return copy;
}

/* numpy swaps a big-endian array when it loads it, and keeps it that way. */
static const struct ckpt_value *numpy_array(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *state = v->u.call->state ? now(s, v->u.call->state) : NULL, *items[5];
	struct ckpt_value *made;
	uint64_t unit;

	if (!state || state->kind != CKPT_TUPLE || state->u.seq.count != 5)
		return v;
	memcpy(items, state->u.seq.items, sizeof(items));
	unit = big_endian_unit(s, now(s, items[2]));
	if (!unit)
		return v;
	items[2] = little_endian_dtype(s, now(s, items[2]));
	items[4] = swapped_bytes(s, now(s, items[4]), unit);
	made = (struct ckpt_value *)make_call(s, v, v->u.call->func, v->u.call->args);
	if (!made)
		return NULL;
	made->u.call->state = make_seq(s, CKPT_TUPLE, items, 5);
	return made->u.call->state ? made : NULL;
}

/* ---- attributes ---- */

static bool has_key(const struct saver *s, const struct ckpt_value *dict, const char *key)
{
	for (uint32_t i = 0; i + 1 < dict->u.seq.count; i += 2)
		if (ckpt_value_is_str(now(s, dict->u.seq.items[i]), key))
			return true;
	return false;
}

/* Modules and optimizers take their state with a dict update, which keeps the keys as they are. */
static bool keeps_key_objects(const struct saver *s, const struct ckpt_value *state)
{
	return (has_key(s, state, "_parameters") && has_key(s, state, "_modules")) ||
	       (has_key(s, state, "param_groups") && has_key(s, state, "defaults"));
}

/* What Python's object state looks like after a load: names of attributes are interned. */
static const struct ckpt_value *attributes(struct saver *s, const struct ckpt_value *state)
{
	const struct ckpt_value *items[2];

	if (state->kind == CKPT_DICT)
		return keeps_key_objects(s, state) ? state : attribute_dict(s, state);
	if (state->kind != CKPT_TUPLE || state->u.seq.count != 2)
		return state;
	for (int half = 0; half < 2; half++) {
		items[half] = now(s, state->u.seq.items[half]);
		if (items[half]->kind == CKPT_DICT)
			items[half] = attribute_dict(s, items[half]);
		else if (half == 1 || items[half]->kind != CKPT_NONE)
			return state;
	}
	return make_seq(s, CKPT_TUPLE, items, 2);
}

/* Classes whose instances spell their attributes out for every save. */
static bool makes_keys_anew(const struct ckpt_value *cls)
{
	return cls->kind == CKPT_GLOBAL &&
	       !strcmp(cls->u.global->module, "torch.distributed.tensor.placement_types");
}

static const struct ckpt_value *with_attributes(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *state = v->u.call->state ? now(s, v->u.call->state) : NULL, *made;
	struct ckpt_value *copy;

	if (!state || v->u.call->setter || makes_keys_anew(v->u.call->func))
		return v;
	made = attributes(s, state);
	if (!made || made == state)
		return made ? v : NULL;
	copy = (struct ckpt_value *)make_call(s, v, v->u.call->func, v->u.call->args);
	if (copy)
		copy->u.call->state = made;
	return copy;
}

/* ---- dispatch ---- */

static const struct {
	const char *module, *name;
	uint32_t least_args;
	resave_call *resave;
} table[] = {
	{ "torch._utils", "_rebuild_tensor_v2", 4, tensor_v2 },
	{ "torch._utils", "_rebuild_tensor_v3", 7, tensor_v3 },
	{ "torch._utils", "_rebuild_tensor", 4, tensor_v2 },
	{ "torch._utils", "_rebuild_parameter", 3, parameter },
	{ "torch._utils", "_rebuild_parameter_with_state", 4, parameter },
	{ "torch._utils", "_rebuild_qtensor", 7, quantized },
	{ "torch._utils", "_rebuild_sparse_tensor", 2, sparse },
	{ "torch._utils", "_rebuild_sparse_csr_tensor", 2, sparse },
	{ "torch._tensor", "_rebuild_from_type_v2", 4, from_type },
	{ "__builtin__", "getattr", 2, nested_global },
	{ "builtins", "getattr", 2, nested_global },
	{ "_codecs", "encode", 2, latin1_bytes },
	{ "__builtin__", "bytes", 0, empty_bytes },
	{ "builtins", "bytes", 0, empty_bytes },
	{ "numpy.core.multiarray", "_reconstruct", 3, numpy_array },
	{ "numpy._core.multiarray", "_reconstruct", 3, numpy_array },
	{ "numpy.core.numeric", "_frombuffer", 4, numpy_from_buffer },
	{ "numpy._core.numeric", "_frombuffer", 4, numpy_from_buffer },
	{ "numpy.core.multiarray", "scalar", 2, numpy_scalar },
	{ "numpy._core.multiarray", "scalar", 2, numpy_scalar },
};

static const struct ckpt_value *dispatch(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *func = now(s, v->u.call->func), *args = now(s, v->u.call->args);

	if (v->u.call->kind == CKPT_CALL_NEWOBJ_EX && s->o->protocol < 4) {
		v = new_with_keywords(s, v);
		return v ? with_attributes(s, v) : NULL;
	}
	if (ckpt_value_is_call_of(func, "functools", "partial")) {
		v = called_partial(s, v);
		return v ? with_attributes(s, v) : NULL;
	}
	if (func->kind != CKPT_GLOBAL || v->u.call->kind != CKPT_CALL_REDUCE)
		return with_attributes(s, v);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (ckpt_value_is_global(func, table[i].module, table[i].name))
			return args->kind == CKPT_TUPLE && args->u.seq.count >= table[i].least_args
				       ? table[i].resave(s, v)
				       : v;
	return with_attributes(s, v);
}

/* Calls inside of calls: what is nested deeper than any real object stays as it is. */
static const struct ckpt_value *resolve_call(struct saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *answer = v;

	if (s->nesting < MOST_NESTING) {
		s->nesting++;
		answer = dispatch(s, v);
		s->nesting--;
	}
	return answer;
}

static const struct ckpt_value *resolve(void *ctx, const struct ckpt_value *v,
					struct ckpt_arena *scratch, struct ckpt_error *err)
{
	struct saver *s = ctx;
	const struct ckpt_value *answer;

	v = now(s, v);
	if (v->flags & CKPT_VALUE_FINAL)
		return v;
	s->scratch = scratch;
	s->err = err;
	if (v->kind == CKPT_PERSID)
		answer = storage_node(s, v, false);
	else if (v->kind == CKPT_CALL)
		answer = resolve_call(s, v);
	else if (v->kind == CKPT_GLOBAL)
		answer = python2_global(s, v);
	else
		return v;
	if (!answer && !err->status)
		ckpt_fail_nomem(err);
	return answer;
}

static void set_global(struct saver *s, struct ckpt_value *v, struct ckpt_global *names,
		       const char *module, const char *name)
{
	*names = (struct ckpt_global){ module, name, (uint32_t)strlen(module), (uint32_t)strlen(name) };
	*v = (struct ckpt_value){ .kind = CKPT_GLOBAL, .flags = CKPT_VALUE_FINAL, .id = s->next_id++ };
	v->u.global = names;
}

static void set_constants(struct saver *s)
{
	for (int i = 0; i < CONSTANT_COUNT; i++) {
		struct ckpt_value *v = &s->constants[i];

		if (constants[i].module) {
			set_global(s, v, &s->constant_names[i], constants[i].module, constants[i].name);
			continue;
		}
		*v = (struct ckpt_value){ .kind = CKPT_STR, .id = s->next_id++ };
		v->flags = CKPT_VALUE_FINAL | CKPT_VALUE_INTERNED;
		v->u.bytes.ptr = constants[i].name;
		v->u.bytes.len = strlen(constants[i].name);
	}
	for (int i = 0; i < CKPT_DTYPE_COUNT; i++)
		set_global(s, &s->classes[i], &s->class_names[i], "torch", ckpt_dtype_storage_class(i));
}

int ckpt_model_resave(const struct ckpt_model *model, const struct ckpt_resave_options *options,
		      struct ckpt_resaved *out, struct ckpt_error *err)
{
	struct saver s = { .model = model, .o = options, .out = out, .next_id = model->next_id };
	struct ckpt_pickle_options pickle = {
		.protocol = options->protocol,
		.python_batches = options->python_batches,
		.interned_letters_apart = options->python311,
		.python313_nested = options->python313,
		.most_bytes = OUTPUT_BASE + OUTPUT_PER_BYTE * (uint64_t)model->doc->pickle_len,
		.resolve = resolve,
		.ctx = &s,
	};
	int rc;

	*out = (struct ckpt_resaved){ .arena = ckpt_arena_new(UINT64_MAX >> 1) };
	if (!out->arena)
		return ckpt_fail_nomem(err);
	set_constants(&s);
	rc = ckpt_pickle_encode(model->doc->pickle.root, &pickle, &out->pickle, err);
	free(s.key_nodes);
	ckpt_strmap_clear(&s.numpy_dtypes);
	if (rc < 0)
		ckpt_resaved_clear(out);
	return rc;
}

void ckpt_resaved_clear(struct ckpt_resaved *resaved)
{
	ckpt_buf_clear(&resaved->pickle);
	free(resaved->order);
	free(resaved->keys);
	ckpt_arena_free(resaved->arena);
	*resaved = (struct ckpt_resaved){ 0 };
}
