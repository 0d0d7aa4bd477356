/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storages and tensors, as torch pickles them: each call is made anew from its arguments, since
 * torch makes tuples, hooks and flags for every tensor it saves. Source: torch/serialization.py
 * (persistent_id), torch/_tensor.py (__reduce_ex__, _reduce_ex_internal).
 *
 * Storages get their keys in the order in which they are first mentioned; `order` and `keys` of
 * the result have that order, and the writer places records by it. `widths` says how wide the
 * numbers in a storage are, for the byte order: it is set at every mention, and differing
 * mentions must leave CKPT_WIDTHS_DIFFER.
 */
#include "resave/resaver.h"

#include "pickle/fold.h"

#include "base/grow.h"
#include "tensor/byteswap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool grow_keys(struct ckpt_saver *s)
{
	uint32_t cap = s->model->storage_count;
	void *nodes, *widths;

	if (cap <= s->key_cap)
		return true;
	nodes = realloc(s->key_nodes, cap * sizeof(*s->key_nodes));
	if (nodes)
		s->key_nodes = nodes;
	widths = realloc(s->out->widths, cap * sizeof(*s->out->widths));
	if (widths)
		s->out->widths = widths;
	if (!nodes || !widths)
		return false;
	memset(s->out->widths + s->key_cap, 0, cap - s->key_cap);
	memset(s->key_nodes + s->key_cap, 0, (cap - s->key_cap) * sizeof(*s->key_nodes));
	s->key_cap = cap;
	return true;
}

static bool grow_order(struct ckpt_saver *s)
{
	uint32_t cap = s->order_cap;
	void *order = ckpt_grow(s->out->order, s->out->count, &cap, sizeof(*s->out->order)), *keys;

	if (!order)
		return false;
	s->out->order = order;
	keys = ckpt_grow(s->out->keys, s->out->count, &s->order_cap, sizeof(*s->out->keys));
	if (keys)
		s->out->keys = keys;
	return keys;
}

/*
 * A key like KEY that the file does not have: of a further storage, which torch reads from the same
 * place.
 */
static const char *further_key(struct ckpt_saver *s, const char *key)
{
	char text[40 + CKPT_MOST_STORAGE_KEY];
	int len;

	do
		len = snprintf(text, sizeof(text), "%s%" PRIu32, key, s->further++);
	while (ckpt_strmap_find(&s->model->doc->storage_by_key, text, (size_t)len));
	return ckpt_arena_copy(s->out->arena, text, (uint64_t)len);
}

static const char *key_text(struct ckpt_saver *s, const struct ckpt_storage *storage, bool again)
{
	char text[16];

	if (s->o->keep_keys)
		return again ? further_key(s, storage->key) : storage->key;
	snprintf(text, sizeof(text), "%" PRIu32, s->out->count);
	return ckpt_arena_copy(s->out->arena, text, strlen(text));
}

/* A key for a storage that has none yet, or none for this mention of it. */
static const struct ckpt_value *new_key_node(struct ckpt_saver *s, int64_t index)
{
	const struct ckpt_storage *storage = &s->model->storages[index];
	struct ckpt_value *node;
	bool again;

	if (!grow_order(s))
		return NULL;
	again = s->key_nodes[index];
	node = ckpt_arena_calloc(s->out->arena, 1, sizeof(*node));
	if (!node)
		return NULL;
	node->kind = CKPT_STR;
	node->flags = CKPT_VALUE_FINAL | CKPT_VALUE_DISTINCT;
	node->id = s->o->spell_keys ? 0 : s->next_id++;
	node->u.bytes.ptr = key_text(s, storage, again);
	if (!node->u.bytes.ptr)
		return NULL;
	node->u.bytes.len = strlen(node->u.bytes.ptr);
	s->key_nodes[index] = node;
	s->out->order[s->out->count] = (uint32_t)index;
	s->out->keys[s->out->count++] = node->u.bytes.ptr;
	return node;
}

/*
 * The key of a storage without bytes: torch.load makes one at each mention. A mention is the same
 * one again where its tensor is written again, because that is part of its own attributes.
 */
static const struct ckpt_value *empty_key_node(struct ckpt_saver *s,
					       const struct ckpt_value *mention, int64_t index)
{
	const char *address = ckpt_arena_copy(s->out->arena, &mention, sizeof(mention));
	bool there;
	uint64_t *node =
		address ? ckpt_strmap_insert(&s->empty_keys, address, sizeof(mention), 0, &there)
			: NULL;

	if (node && !there)
		*node = (uintptr_t)new_key_node(s, index);
	return node ? (const struct ckpt_value *)(uintptr_t)*node : NULL;
}

/* The key of a storage, numbered at its first mention. */
static const struct ckpt_value *key_node(struct ckpt_saver *s, const struct ckpt_value *mention,
					 int64_t index)
{
	if (!grow_keys(s))
		return NULL;
	if (s->o->empty_apart && !s->model->storages[index].nbytes)
		return empty_key_node(s, mention, index);
	return s->key_nodes[index] ? s->key_nodes[index] : new_key_node(s, index);
}

/* Tags that torch has as constants are one object; others are put together for every tensor. */
static const struct ckpt_value *location_node(struct ckpt_saver *s, const char *location)
{
	struct ckpt_value *v;

	if (!strcmp(location, "cpu"))
		return &s->constants[CKPT_RESAVE_STR_CPU];
	if (!strcmp(location, "mps"))
		return &s->constants[CKPT_RESAVE_STR_MPS];
	if (!strcmp(location, "meta"))
		return &s->constants[CKPT_RESAVE_STR_META];
	v = ckpt_resave_make(s, CKPT_STR);
	if (v) {
		v->flags |= CKPT_VALUE_DISTINCT;
		v->u.bytes.ptr = location;
		v->u.bytes.len = strlen(location);
	}
	return v;
}

static const struct ckpt_value *int_node(struct ckpt_saver *s, uint64_t integer)
{
	struct ckpt_value *v = ckpt_resave_make(s, CKPT_INT);

	if (v)
		v->u.integer = (int64_t)integer;
	return v;
}

static void note_width(struct ckpt_saver *s, int64_t index, enum ckpt_dtype dtype)
{
	uint8_t *known = &s->out->widths[index], width = (uint8_t)ckpt_byteswap_width(dtype);

	*known = *known && *known != width ? CKPT_WIDTHS_DIFFER : width;
}

/*
 * ('storage', class, key, location, numel); V3: in a tensor of a dtype that has no class, the
 * storage stays untyped.
 */
const struct ckpt_value *ckpt_resave_storage(struct ckpt_saver *s, const struct ckpt_value *persid,
					     enum ckpt_dtype v3)
{
	bool in_tensor_v3 = v3 != CKPT_DTYPE_UNKNOWN;
	const struct ckpt_storage *storage;
	const struct ckpt_value *items[6];
	struct ckpt_value *v;
	enum ckpt_dtype dtype;
	int64_t index = ckpt_storage_of(persid);

	if (persid->flags & CKPT_VALUE_MISSING) {
		ckpt_fail(s->err, CKPT_E_FORMAT, "%.*s", (int)persid->u.persid.pid->u.bytes.len,
			  persid->u.persid.pid->u.bytes.ptr);
		return NULL;
	}
	if (index < 0)
		return persid;
	if (in_tensor_v3 && s->o->legacy_ids) {
		/*
		 * torch 2.6 to 2.14 write it, and fail where they read it: UntypedStorage has no
		 * dtype (torch/serialization.py)
		 */
		ckpt_fail(s->err, CKPT_E_UNSUPPORTED,
			  "holds a tensor of %s, which no torch can load from a legacy stream; "
			  "'ckpt convert --to torch' writes a file of today",
			  ckpt_dtype_name(v3));
		return NULL;
	}
	storage = &s->model->storages[index];
	dtype = s->o->empty_apart || s->o->as_read ? ckpt_storage_dtype(s->model, index, persid)
						   : storage->dtype;
	items[0] = &s->constants[CKPT_RESAVE_STR_STORAGE];
	if (in_tensor_v3)
		items[1] = &s->constants[CKPT_RESAVE_UNTYPED];
	else /* a raw untyped storage is loaded as one of bytes */
		items[1] = &s->classes[dtype];
	items[2] = key_node(s, persid, index);
	if (items[2])
		note_width(s, index, in_tensor_v3 ? v3 : dtype);
	items[3] = location_node(s, storage->location);
	items[4] = int_node(s, in_tensor_v3 ? storage->nbytes
					    : storage->nbytes / ckpt_dtype_size(dtype));
	v = ckpt_resave_make(s, CKPT_PERSID);
	if (!v)
		return NULL;
	items[5] = &ckpt_value_none;
	v->u.persid.pid = ckpt_resave_seq(s, CKPT_TUPLE, items, s->o->legacy_ids ? 6 : 5);
	return v->u.persid.pid ? v : NULL;
}

const struct ckpt_value *ckpt_resave_fresh_tuple(struct ckpt_saver *s, const struct ckpt_value *v)
{
	if (ckpt_value_is_call_of(v, "torch", "Size") && ckpt_resave_arg(s, v, 0))
		v = ckpt_resave_arg(s, v, 0);
	if (v->kind != CKPT_TUPLE && v->kind != CKPT_LIST) {
		ckpt_fail(s->err, CKPT_E_FORMAT, "wanted the size of a tensor, found %s",
			  ckpt_value_kind_name(v));
		return NULL;
	}
	return ckpt_resave_seq(s, CKPT_TUPLE, v->u.seq.items, v->u.seq.count);
}

static const struct ckpt_value *fresh_hooks(struct ckpt_saver *s)
{
	return ckpt_resave_call(s, NULL, &s->constants[CKPT_RESAVE_ORDERED_DICT],
				&ckpt_value_empty_tuple);
}

/* {'conj': True}: the words are made anew for every tensor. */
static const struct ckpt_value *bits_dict(struct ckpt_saver *s, const struct ckpt_value *dict)
{
	const struct ckpt_value *v = ckpt_resave_attribute_dict(s, dict);

	for (uint32_t i = 0; v && i < v->u.seq.count; i += 2)
		if (v->u.seq.items[i]->kind == CKPT_STR) /* then attribute_dict() has made it */
			((struct ckpt_value *)v->u.seq.items[i])->flags =
				CKPT_VALUE_FINAL | CKPT_VALUE_DISTINCT;
	return v;
}

/* Storage, offset, size and stride: what the arguments of every strided tensor begin with. */
static void make_strided_args(struct ckpt_saver *s, const struct ckpt_value *v, enum ckpt_dtype v3,
			      const struct ckpt_value *items[4])
{
	items[0] = ckpt_resave_storage(s, ckpt_resave_arg(s, v, 0), v3);
	items[1] = ckpt_resave_arg(s, v, 1);
	items[2] = ckpt_resave_fresh_tuple(s, ckpt_resave_arg(s, v, 2));
	items[3] = ckpt_resave_fresh_tuple(s, ckpt_resave_arg(s, v, 3));
}

/* The storage of a tensor if an edit gave it another dtype, else NULL. */
static const struct ckpt_storage *retyped_storage(const struct ckpt_saver *s,
						  const struct ckpt_value *persid)
{
	int64_t index = ckpt_storage_of(persid);

	return index >= 0 && s->model->storages[index].retyped ? &s->model->storages[index] : NULL;
}

/* That of a tensor in whose call it is named; one that is not known is taken for bytes. */
static enum ckpt_dtype v3_dtype(const struct ckpt_saver *s, const struct ckpt_value *v,
				const struct ckpt_storage *retyped_to)
{
	const struct ckpt_value *name = retyped_to ? NULL : ckpt_resave_arg(s, v, 6);
	enum ckpt_dtype dtype = CKPT_DTYPE_UINT8;

	if (retyped_to)
		return retyped_to->dtype;
	if (name && name->kind == CKPT_GLOBAL &&
	    ckpt_dtype_find(name->u.global->name) != CKPT_DTYPE_UNKNOWN)
		dtype = ckpt_dtype_find(name->u.global->name);
	return dtype;
}

/* WAS_V3: the call that was read names the dtype, as it has no typed storage. */
static const struct ckpt_value *make_strided(struct ckpt_saver *s, const struct ckpt_value *v,
					     bool was_v3)
{
	const struct ckpt_value *items[8], *metadata = ckpt_resave_arg(s, v, was_v3 ? 7 : 6);
	const struct ckpt_value *requires_grad = ckpt_resave_arg(s, v, 4), *func = v->u.call->func;
	const struct ckpt_value *persid = ckpt_resave_arg(s, v, 0);
	const struct ckpt_storage *storage;
	bool v3 = was_v3;
	uint32_t count;

	if (persid->kind != CKPT_PERSID)
		return v;
	storage = retyped_storage(s, persid);
	if (storage)
		v3 = !*ckpt_dtype_storage_class(storage->dtype);
	count = v3 ? 7 : 6;
	make_strided_args(s, v, v3 ? v3_dtype(s, v, storage) : CKPT_DTYPE_UNKNOWN, items);
	items[4] = requires_grad ? requires_grad : &ckpt_value_false;
	items[5] = fresh_hooks(s);
	if (v3)
		items[6] = storage ? &s->dtypes[storage->dtype] : ckpt_resave_arg(s, v, 6);
	if (metadata && metadata->kind == CKPT_DICT && metadata->u.seq.count)
		items[count++] = bits_dict(s, metadata);
	if (v3 != was_v3 || ckpt_value_is_global(func, "torch._utils", "_rebuild_tensor"))
		func = &s->constants[v3 ? CKPT_RESAVE_REBUILD_V3 : CKPT_RESAVE_REBUILD_V2];
	return ckpt_resave_call(s, v, func, ckpt_resave_seq(s, CKPT_TUPLE, items, count));
}

const struct ckpt_value *ckpt_resave_tensor_v2(struct ckpt_saver *s, const struct ckpt_value *v)
{
	return make_strided(s, v, false);
}

const struct ckpt_value *ckpt_resave_tensor_v3(struct ckpt_saver *s, const struct ckpt_value *v)
{
	return make_strided(s, v, true);
}

/* A tensor inside another is handed out anew for every save: nobody else holds it. */
static const struct ckpt_value *make_without_id(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *resolved;
	struct ckpt_value *copy;

	if (v->kind == CKPT_FOLDED)
		v = ckpt_unfold(v, s->scratch);
	if (!v)
		return NULL;
	resolved = v->kind == CKPT_CALL ? ckpt_resave_resolve_call(s, v) : v;

	if (!resolved || resolved == v)
		return resolved;
	copy = ckpt_resave_make(s, resolved->kind);
	if (copy) {
		*copy = *resolved;
		copy->id = 0;
	}
	return copy;
}

const struct ckpt_value *ckpt_resave_parameter(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *items[4], *state = ckpt_resave_arg(s, v, 3),
					   *func = v->u.call->func;
	uint32_t count = 3;

	items[0] = make_without_id(s, ckpt_resave_arg(s, v, 0));
	items[1] = ckpt_resave_arg(s, v, 1);
	items[2] = fresh_hooks(s);
	if (state && v->u.call->early)
		func = &s->constants[CKPT_RESAVE_REBUILD_PARAMETER];
	else if (state)
		items[count++] = ckpt_resave_tensor_attributes(s, v, state);
	return ckpt_resave_call(s, v, func, ckpt_resave_seq(s, CKPT_TUPLE, items, count));
}

/* A Variable is a tensor that may want a gradient, since 0.4. */
static const struct ckpt_value *make_variable(struct ckpt_saver *s, const struct ckpt_value *v,
					      const struct ckpt_old_tensor *old)
{
	const struct ckpt_value *data = make_without_id(s, old->data), *items[8];
	struct ckpt_value *made;
	const struct ckpt_seq *args;

	if (!data || data->kind != CKPT_CALL || data->u.call->args->kind != CKPT_TUPLE)
		return data ? v : NULL;
	args = &data->u.call->args->u.seq;
	if (!ckpt_value_is_global(data->u.call->func, "torch._utils", "_rebuild_tensor_v2") ||
	    args->count < 6 || args->count > 8)
		return v;
	memcpy(items, args->items, args->count * sizeof(*items));
	items[4] = old->requires_grad;
	made = (struct ckpt_value *)ckpt_resave_call(s, NULL, data->u.call->func,
						     ckpt_resave_seq(s, CKPT_TUPLE, items,
								     args->count));
	if (made)
		made->id = v->id;
	return made;
}

/* What torch makes of it when it loads it. */
const struct ckpt_value *ckpt_resave_old_tensor(struct ckpt_saver *s, const struct ckpt_value *v,
						const struct ckpt_old_tensor *old)
{
	const struct ckpt_value *items[3], *func, *args = old->data;
	struct ckpt_value *made;

	if (old->kind == CKPT_OLD_VARIABLE)
		return make_variable(s, v, old);
	func = &s->constants[old->kind == CKPT_OLD_TENSOR ? CKPT_RESAVE_REBUILD_V2
							  : CKPT_RESAVE_REBUILD_PARAMETER];
	if (old->kind == CKPT_OLD_PARAMETER) {
		items[0] = make_without_id(s, old->data);
		items[1] = old->requires_grad;
		items[2] = fresh_hooks(s);
		args = ckpt_resave_seq(s, CKPT_TUPLE, items, 3);
	}
	made = (struct ckpt_value *)ckpt_resave_call(s, NULL, func, args);
	if (made)
		made->id = v->id;
	return !made || old->kind == CKPT_OLD_PARAMETER ? made : ckpt_resave_tensor_v2(s, made);
}

/* (dtype, size, stride, requires_grad): torch makes both tuples for each mention. */
const struct ckpt_value *ckpt_resave_meta(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *items[4];

	for (uint32_t i = 0; i < 4; i++) {
		items[i] = ckpt_resave_arg(s, v, i);
		if (items[i] && items[i]->kind == CKPT_TUPLE)
			items[i] = ckpt_resave_fresh_tuple(s, items[i]);
	}
	return ckpt_resave_call(s, v, v->u.call->func, ckpt_resave_seq(s, CKPT_TUPLE, items, 4));
}

const struct ckpt_value *ckpt_resave_quantized(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *items[7];

	if (ckpt_resave_arg(s, v, 0)->kind != CKPT_PERSID)
		return v;
	make_strided_args(s, v, CKPT_DTYPE_UNKNOWN, items);
	items[4] = ckpt_resave_arg(s, v, 4);
	items[5] = ckpt_resave_arg(s, v, 5);
	items[6] = fresh_hooks(s);
	return ckpt_resave_call(s, v, v->u.call->func, ckpt_resave_seq(s, CKPT_TUPLE, items, 7));
}

/*
 * What torch 2.1+ makes of a sparse tensor without a flag: one of less than two numbers cannot but
 * be coalesced (SparseTensorImpl.h).
 */
static bool is_coalesced_anyway(struct ckpt_saver *s, const struct ckpt_value *values)
{
	const struct ckpt_value *size =
		values->kind == CKPT_CALL && values->u.call->args->kind == CKPT_TUPLE
			? ckpt_resave_arg(s, values, 2)
			: NULL;

	return size && size->kind == CKPT_TUPLE && size->u.seq.count &&
	       size->u.seq.items[0]->kind == CKPT_INT && size->u.seq.items[0]->u.integer < 2;
}

/* (indices, values, size[, is_coalesced]): the flag came with torch 2.1. */
static const struct ckpt_value *sparse_data(struct ckpt_saver *s, const struct ckpt_value *data)
{
	const struct ckpt_value *items[4] = { NULL, NULL, NULL, &ckpt_value_false };
	uint32_t count = s->o->as_read ? data->u.seq.count < 4 ? 3 : 4 : s->o->is_coalesced ? 4 : 3;

	for (uint32_t i = 0; i < 4 && i < data->u.seq.count; i++)
		items[i] = data->u.seq.items[i];
	if (data->u.seq.count < 4 && is_coalesced_anyway(s, items[1]))
		items[3] = &ckpt_value_true;
	return ckpt_resave_seq(s, CKPT_TUPLE, items, count);
}

const struct ckpt_value *ckpt_resave_sparse(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *items[2] = { ckpt_resave_arg(s, v, 0), ckpt_resave_arg(s, v, 1) },
				*func = v->u.call->func;
	const struct ckpt_value *name = items[0];

	if (name->kind == CKPT_CALL && name->u.call->args->kind == CKPT_TUPLE &&
	    name->u.call->args->u.seq.count == 1)
		name = name->u.call->args->u.seq.items[0];
	if (ckpt_value_is_str(name, "torch.sparse_coo") && items[1]->kind == CKPT_TUPLE &&
	    items[1]->u.seq.count >= 3)
		items[1] = sparse_data(s, items[1]);
	if (s->o->is_coalesced && !s->o->as_read)
		func = &s->constants[CKPT_RESAVE_REBUILD_SPARSE];
	return ckpt_resave_call(s, v, func, ckpt_resave_seq(s, CKPT_TUPLE, items, 2));
}

static const struct ckpt_value *with_attribute_dicts(struct ckpt_saver *s,
						     const struct ckpt_value *args)
{
	struct ckpt_value *copy = ckpt_resave_make(s, CKPT_TUPLE);

	if (!copy ||
	    !ckpt_seq_add_many(s->scratch, &copy->u.seq, args->u.seq.items, args->u.seq.count))
		return NULL;
	for (uint32_t i = 0; i < copy->u.seq.count; i++) {
		const struct ckpt_value *item = ckpt_resave_now(s, copy->u.seq.items[i]);

		if (item->kind == CKPT_DICT)
			copy->u.seq.items[i] = ckpt_resave_attribute_dict(s, item);
		if (!copy->u.seq.items[i])
			return NULL;
	}
	return copy;
}

static bool is_of_torch(const struct ckpt_value *func)
{
	return func->kind == CKPT_GLOBAL && !strncmp(func->u.global->module, "torch.", 6);
}

/* *FUNC and *ARGS as a call of the one with the others would be written. */
static void resolve_inner(struct ckpt_saver *s, const struct ckpt_value **func,
			  const struct ckpt_value **args)
{
	const struct ckpt_value *inner = NULL, *resolved = NULL;

	/* a function of the subclass's own gets its attributes as arguments */
	if (is_of_torch(*func)) {
		inner = ckpt_resave_call(s, NULL, *func, *args);
		resolved = inner ? ckpt_resave_resolve_call(s, inner) : NULL;
		if (!resolved) {
			*args = NULL;
			return;
		}
	}
	if (resolved == inner || resolved->kind != CKPT_CALL) {
		*args = with_attribute_dicts(s, *args);
		return;
	}
	*func = resolved->u.call->func;
	*args = resolved->u.call->args;
}

/* _rebuild_from_type_v2(func, class, args, state): ARGS are those of FUNC */
const struct ckpt_value *ckpt_resave_from_type(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *items[4] = { ckpt_resave_arg(s, v, 0), ckpt_resave_arg(s, v, 1),
					      ckpt_resave_arg(s, v, 2), ckpt_resave_arg(s, v, 3) };

	if (items[2]->kind != CKPT_TUPLE)
		return v;
	resolve_inner(s, &items[0], &items[2]);
	/* it was made without attributes */
	if (v->u.call->early && ckpt_value_is_global(items[1], "torch", "Tensor"))
		return ckpt_resave_call(s, v, items[0], items[2]);
	items[3] = ckpt_resave_tensor_attributes(s, v, items[3]);
	return ckpt_resave_call(s, v, v->u.call->func, ckpt_resave_seq(s, CKPT_TUPLE, items, 4));
}
