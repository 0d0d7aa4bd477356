/* SPDX-License-Identifier: Apache-2.0 */
#include "set/ranks.h"

#include "base/text.h"
#include "format/torch_zip.h"
#include "model/state_dict.h"
#include "set/mesh.h"
#include "tensor/assemble.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 65536, SHOWN = 120 };

/* ---- which files ---- */

/* "model_world_size_8_rank_3.pt": the rank, and how long the name is in front of it. -1: no such name. */
static int64_t rank_of(const char *name, size_t *stem, size_t *digits)
{
	const char *at = strstr(name, "_rank");
	unsigned long rank;
	char *end;

	if (!at)
		return -1;
	at += strlen("_rank");
	at += *at == '_';
	if (!isdigit((unsigned char)*at))
		return -1;
	rank = strtoul(at, &end, 10);
	if (rank >= MOST_RANKS ||
	    (strcmp(end, ".pt") && strcmp(end, ".bin") && strcmp(end, ".pth")))
		return -1;
	*stem = (size_t)(at - name);
	*digits = (size_t)(end - at);
	return (int64_t)rank;
}

bool ckpt_ranks_find(const struct ckpt_listing *l, char *stem, size_t size)
{
	bool found = false;

	for (size_t i = 0; i < l->count; i++) {
		const char *name = l->items[i].name;
		size_t len, digits;

		if (rank_of(name, &len, &digits) != 0 || len >= size)
			continue;
		/* of several sets the model's: optimizers and other states are files of their own */
		if (found && strncmp(name, "model_", 6) && strncmp(name, "pytorch_model", 13))
			continue;
		snprintf(stem, size, "%.*s", (int)len, name);
		found = true;
	}
	return found;
}

/* ---- the set ---- */

struct held {
	struct ckpt_model **models;
	uint32_t count;
};

struct joiner {
	struct held *held;
	const struct ckpt_model *first;
	struct ckpt_model *to;
	struct ckpt_strmap *names; /* by rank: names of tensors to their numbers */
	struct ckpt_error *err;
};

static void free_held(void *ctx)
{
	struct held *h = ctx;

	for (uint32_t i = 0; h && i < h->count; i++)
		ckpt_close(h->models[i]);
	if (h)
		free(h->models);
	free(h);
}

static int fail_tensor(struct joiner *j, const struct ckpt_tensor *t, uint32_t rank, int rc)
{
	struct ckpt_error inner;
	char shown[SHOWN];

	if (!j->err || rc == CKPT_E_NOMEM)
		return rc;
	inner = *j->err;
	ckpt_fail(j->err, rc, "'%s' of rank %" PRIu32 ": %s",
		  ckpt_escape(shown, sizeof(shown), t->name, strlen(t->name)), rank, inner.text);
	return rc;
}

/* The tensor NAME of a rank, or NULL. */
static const struct ckpt_tensor *tensor_of(const struct joiner *j, uint32_t rank, const char *name)
{
	uint64_t *slot = ckpt_strmap_find(&j->names[rank], name, strlen(name));

	return slot ? &j->held->models[rank]->tensors[*slot] : NULL;
}

/* ---- blocks of one tensor ---- */

struct blocks {
	struct ckpt_block *items; /* malloc */
	size_t count, cap;
};

static bool is_there(const struct blocks *b, const uint64_t *offset, uint32_t ndim)
{
	for (size_t i = 0; i < b->count; i++)
		if (!memcmp(b->items[i].offset, offset, ndim * sizeof(*offset)))
			return true;
	return false;
}

static int add_block(struct joiner *j, struct blocks *b, const struct ckpt_block *block,
		     uint32_t ndim)
{
	if (is_there(b, block->offset, ndim)) /* a replica */
		return 0;
	if (b->count == b->cap) {
		size_t cap = b->cap ? b->cap * 2 : 16;
		void *items = realloc(b->items, cap * sizeof(*b->items));

		if (!items)
			return ckpt_fail_nomem(j->err);
		b->items = items;
		b->cap = cap;
	}
	b->items[b->count++] = *block;
	return 0;
}

/* A plain tensor of a rank, as the source of blocks. */
static int open_local(struct joiner *j, uint32_t rank, const struct ckpt_value *value,
		      struct ckpt_tensor *t, struct ckpt_recipe *bytes)
{
	const struct ckpt_model *m = j->held->models[rank];
	const struct ckpt_storage *s;
	int rc =
		value ? ckpt_tensor_parse(m, ckpt_model_now(m, value), j->to->arena, t, j->err) : 0;

	if (rc < 0)
		return rc;
	if (rc == 0 || t->kind != CKPT_KIND_STRIDED || t->storage < 0)
		return ckpt_fail(j->err, CKPT_E_UNSUPPORTED, "its local part is no plain tensor");
	s = &m->storages[t->storage];
	rc = ckpt_model_storage_bytes(m, s, bytes, j->err);
	bytes->has_crc = !s->made && s->has_crc;
	bytes->crc32 = s->crc32;
	return rc;
}

static uint64_t *copy_dims(struct joiner *j, const uint64_t *dims, uint32_t ndim)
{
	uint64_t *copy = ckpt_arena_calloc(j->to->arena, ndim + (uint64_t)1, sizeof(*copy));

	if (copy && ndim)
		memcpy(copy, dims, ndim * sizeof(*copy));
	return copy;
}

/* A rank's stretches, crossed over all dimensions: one block for each, out of its local tensor. */
static int add_extents(struct joiner *j, struct blocks *b, const struct ckpt_tensor *local,
		       const struct ckpt_recipe *bytes, const struct ckpt_mesh_extent *extents)
{
	uint32_t at[CKPT_MOST_DIMS] = { 0 }, ndim = local->ndim;
	int rc = 0;

	for (bool more = true; rc == 0 && more;) {
		uint64_t offset[CKPT_MOST_DIMS], shape[CKPT_MOST_DIMS], first = local->offset;
		struct ckpt_block block = { .bytes = *bytes, .stride = local->stride };

		for (uint32_t i = 0; i < ndim; i++) {
			uint64_t before = 0;

			for (uint32_t k = 0; k < at[i]; k++)
				before += extents[i].len[k];
			first += before * local->stride[i];
			offset[i] = extents[i].start[at[i]];
			shape[i] = extents[i].len[at[i]];
		}
		block.first = first;
		block.offset = copy_dims(j, offset, ndim);
		block.shape = copy_dims(j, shape, ndim);
		rc = block.offset && block.shape ? add_block(j, b, &block, ndim)
						 : ckpt_fail_nomem(j->err);
		more = false;
		for (uint32_t i = ndim; i-- > 0 && !more;) {
			more = ++at[i] < extents[i].count;
			if (!more)
				at[i] = 0;
		}
	}
	return rc;
}

static bool fits(const struct ckpt_tensor *local, const struct ckpt_mesh_extent *extents,
		 uint32_t ndim, bool *empty)
{
	bool ok = local->ndim == ndim;

	*empty = false;
	for (uint32_t i = 0; ok && i < ndim; i++) {
		uint64_t n = 0;

		for (uint32_t k = 0; k < extents[i].count; k++)
			n += extents[i].len[k];
		*empty |= n == 0;
		ok = local->shape[i] == n;
	}
	return ok;
}

static const struct ckpt_value *spec_of(const struct ckpt_model *m, const struct ckpt_tensor *t)
{
	const struct ckpt_value *args = ckpt_model_now(m, t->value->u.call->args), *state,
				*found = NULL;

	if (args->kind != CKPT_TUPLE || args->u.seq.count < 4)
		return NULL;
	state = ckpt_model_now(m, args->u.seq.items[3]);
	if (state->kind == CKPT_DICT)
		return ckpt_attribute_find(m, state, "_spec");
	for (uint32_t i = 0; state->kind == CKPT_TUPLE && !found && i < state->u.seq.count; i++) {
		const struct ckpt_value *half = ckpt_model_now(m, state->u.seq.items[i]);

		if (half->kind == CKPT_DICT)
			found = ckpt_attribute_find(m, half, "_spec");
	}
	return found;
}

static int add_dtensor(struct joiner *j, struct blocks *b, uint32_t rank,
		       const struct ckpt_tensor *t)
{
	struct ckpt_mesh_extent *extents = calloc(t->ndim + (size_t)1, sizeof(*extents));
	const struct ckpt_model *m = j->held->models[rank];
	const struct ckpt_value *spec = spec_of(m, t);
	struct ckpt_tensor local = { 0 };
	struct ckpt_recipe bytes = { 0 };
	bool has = false, empty;
	int rc = extents ? 0 : ckpt_fail_nomem(j->err);

	if (rc == 0 && !spec)
		rc = ckpt_fail(j->err, CKPT_E_FORMAT, "does not say how it is spread");
	if (rc == 0)
		rc = ckpt_mesh_extents(m, spec, rank, t->shape, t->ndim, extents, &has, j->err);
	if (rc == 0 && has)
		rc = open_local(j, rank, t->local, &local, &bytes);
	if (rc == 0 && has && !fits(&local, extents, t->ndim, &empty))
		rc = ckpt_fail(
			j->err, CKPT_E_FORMAT,
			"its local part is of another shape than its place in the mesh has: is the "
			"file's number not the rank's?");
	else if (rc == 0 && has && !empty)
		rc = add_extents(j, b, &local, &bytes, extents);
	free(extents);
	return rc;
}

/* An attribute of an object whose state is a dict, or a pair of one or none and the dict of its slots. */
static const struct ckpt_value *field_of(const struct ckpt_model *m,
					 const struct ckpt_value *object, const char *name)
{
	const struct ckpt_value *state, *found = NULL;

	object = object ? ckpt_model_now(m, object) : NULL;
	if (!object || object->kind != CKPT_CALL || !object->u.call->state)
		return NULL;
	state = ckpt_model_now(m, object->u.call->state);
	if (state->kind == CKPT_DICT)
		return ckpt_attribute_find(m, state, name);
	for (uint32_t i = 0; state->kind == CKPT_TUPLE && !found && i < state->u.seq.count; i++) {
		const struct ckpt_value *half = ckpt_model_now(m, state->u.seq.items[i]);

		if (half->kind == CKPT_DICT)
			found = ckpt_attribute_find(m, half, name);
	}
	return found;
}

static int read_numbers(struct joiner *j, const struct ckpt_model *m, const struct ckpt_value *list,
			uint32_t count, uint64_t *out)
{
	list = list ? ckpt_model_now(m, list) : NULL;
	if (!list || (list->kind != CKPT_LIST && list->kind != CKPT_TUPLE) ||
	    list->u.seq.count != count)
		return ckpt_fail(j->err, CKPT_E_FORMAT, "a shard does not say where it lies");
	for (uint32_t i = 0; i < count; i++) {
		const struct ckpt_value *v = ckpt_model_now(m, list->u.seq.items[i]);

		if (v->kind != CKPT_INT || v->u.integer < 0)
			return ckpt_fail(j->err, CKPT_E_FORMAT, "a shard lies at no place");
		out[i] = (uint64_t)v->u.integer;
	}
	return 0;
}

static int add_shard(struct joiner *j, struct blocks *b, uint32_t rank, const struct ckpt_tensor *t,
		     const struct ckpt_value *shard)
{
	const struct ckpt_model *m = j->held->models[rank];
	const struct ckpt_value *metadata = field_of(m, shard, "metadata");
	uint64_t offset[CKPT_MOST_DIMS];
	struct ckpt_tensor local;
	struct ckpt_block block = { 0 };
	int rc = read_numbers(j, m, field_of(m, metadata, "shard_offsets"), t->ndim, offset);

	if (rc == 0)
		rc = open_local(j, rank, field_of(m, shard, "tensor"), &local, &block.bytes);
	if (rc < 0)
		return rc;
	if (local.ndim != t->ndim)
		return ckpt_fail(j->err, CKPT_E_FORMAT, "a shard has other dimensions");
	for (uint32_t i = 0; i < t->ndim; i++) {
		if (!local.shape[i])
			return 0;
		if (offset[i] > t->shape[i] || local.shape[i] > t->shape[i] - offset[i])
			return ckpt_fail(j->err, CKPT_E_FORMAT,
					 "a shard reaches out of its tensor");
	}
	block.offset = copy_dims(j, offset, t->ndim);
	block.shape = local.shape;
	block.stride = local.stride;
	block.first = local.offset;
	return block.offset ? add_block(j, b, &block, t->ndim) : ckpt_fail_nomem(j->err);
}

/* The state of a ShardedTensor begins with the list of its local shards. */
static int add_sharded(struct joiner *j, struct blocks *b, uint32_t rank,
		       const struct ckpt_tensor *t)
{
	const struct ckpt_model *m = j->held->models[rank];
	const struct ckpt_value *args = ckpt_model_now(m, t->value->u.call->args), *state,
				*list = NULL;
	int rc = 0;

	if (args->kind == CKPT_TUPLE && args->u.seq.count >= 4) {
		state = ckpt_model_now(m, args->u.seq.items[3]);
		if (state->kind == CKPT_TUPLE && state->u.seq.count)
			list = ckpt_model_now(m, state->u.seq.items[0]);
	}
	if (!list || list->kind != CKPT_LIST)
		return ckpt_fail(j->err, CKPT_E_FORMAT, "has no list of shards");
	for (uint32_t i = 0; rc == 0 && i < list->u.seq.count; i++)
		rc = add_shard(j, b, rank, t, list->u.seq.items[i]);
	return rc;
}

/* ---- new values ---- */

static const struct ckpt_value *int_value(struct joiner *j, uint64_t n)
{
	struct ckpt_value *v = ckpt_model_new_value(j->to, CKPT_INT);

	if (v)
		v->u.integer = (int64_t)n;
	return v;
}

static const struct ckpt_value *tuple_value(struct joiner *j, const struct ckpt_value *const *items,
					    uint32_t count)
{
	struct ckpt_value *v = ckpt_model_new_value(j->to, CKPT_TUPLE);

	for (uint32_t i = 0; i < count; i++)
		if (!items[i])
			return NULL;
	return v && ckpt_seq_add_many(j->to->arena, &v->u.seq, items, count) ? v : NULL;
}

static const struct ckpt_value *dims_value(struct joiner *j, const uint64_t *dims, uint32_t ndim)
{
	const struct ckpt_value *items[CKPT_MOST_DIMS];

	for (uint32_t i = 0; i < ndim; i++)
		items[i] = int_value(j, dims[i]);
	return tuple_value(j, items, ndim);
}

static const struct ckpt_value *global_value(struct joiner *j, const char *module, const char *name)
{
	struct ckpt_value *v = ckpt_model_new_value(j->to, CKPT_GLOBAL);
	struct ckpt_global *g = ckpt_arena_calloc(j->to->arena, 1, sizeof(*g));

	if (!v || !g)
		return NULL;
	*g = (struct ckpt_global){ module, name, (uint32_t)strlen(module), (uint32_t)strlen(name) };
	v->u.global = g;
	return v;
}

/* A storage of its own, whose bytes MADE describes. -1: no memory. */
static int64_t new_storage(struct joiner *j, const struct ckpt_tensor *t, const char *location,
			   const struct ckpt_recipe *made)
{
	struct ckpt_storage *grown =
		realloc(j->to->storages, (j->to->storage_count + (size_t)1) * sizeof(*grown));
	struct ckpt_recipe *kept = ckpt_arena_alloc(j->to->arena, sizeof(*kept));
	const char *key = ckpt_model_new_key(j->to, 'r');

	if (grown)
		j->to->storages = grown;
	if (!grown || !kept || !key)
		return -1;
	*kept = *made;
	grown[j->to->storage_count] =
		(struct ckpt_storage){ .key = key,
				       .dtype = t->dtype,
				       .numel = made->len / ckpt_dtype_size(t->dtype),
				       .nbytes = made->len,
				       .location = location,
				       .made = kept };
	return j->to->storage_count++;
}

static const struct ckpt_value *storage_value(struct joiner *j, const struct ckpt_tensor *t,
					      const char *location, int64_t storage)
{
	const struct ckpt_storage *s = &j->to->storages[storage];
	const char *class = ckpt_dtype_storage_class(t->dtype);
	struct ckpt_value *v = ckpt_model_new_value(j->to, CKPT_PERSID);
	const struct ckpt_value *items[5] = {
		ckpt_model_new_str(j->to, "storage", 7),
		*class ? global_value(j, "torch", class)
		       : global_value(j, "torch.storage", "UntypedStorage"),
		ckpt_model_new_str(j->to, s->key, strlen(s->key)),
		ckpt_model_new_str(j->to, location, strlen(location)),
		int_value(j, *class ? s->numel : s->nbytes),
	};

	if (!v)
		return NULL;
	v->u.persid.pid = tuple_value(j, items, 5);
	v->u.persid.meaning = (uint64_t)storage + 1;
	return v->u.persid.pid ? v : NULL;
}

/* A plain tensor with the identity of the one that it stands for. */
static int replace(struct joiner *j, const struct ckpt_tensor *t, const char *location,
		   const struct ckpt_recipe *made)
{
	bool typed = *ckpt_dtype_storage_class(t->dtype);
	uint64_t stride[CKPT_MOST_DIMS], step = 1;
	struct ckpt_value *v = ckpt_arena_calloc(j->to->arena, 1, sizeof(*v));
	struct ckpt_call *call = ckpt_arena_calloc(j->to->arena, 1, sizeof(*call)),
			 *hooks = ckpt_arena_calloc(j->to->arena, 1, sizeof(*hooks));
	struct ckpt_value *dict = ckpt_model_new_value(j->to, CKPT_CALL);
	const struct ckpt_value *items[7] = { NULL };
	int64_t storage = new_storage(j, t, location, made);

	if (!v || !call || !hooks || !dict || storage < 0)
		return ckpt_fail_nomem(j->err);
	for (uint32_t i = t->ndim; i-- > 0; step *= t->shape[i] ? t->shape[i] : 1)
		stride[i] = step;
	*hooks = (struct ckpt_call){ .func = global_value(j, "collections", "OrderedDict"),
				     .args = &ckpt_value_empty_tuple };
	dict->u.call = hooks;
	items[0] = storage_value(j, t, location, storage);
	items[1] = int_value(j, 0);
	items[2] = dims_value(j, t->shape, t->ndim);
	items[3] = dims_value(j, stride, t->ndim);
	items[4] = t->requires_grad ? &ckpt_value_true : &ckpt_value_false;
	items[5] = dict;
	items[6] = global_value(j, "torch", ckpt_dtype_name(t->dtype));
	*call = (struct ckpt_call){
		.func = global_value(j, "torch._utils",
				     typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3"),
		.args = tuple_value(j, items, typed ? 6 : 7),
	};
	if (!call->func || !call->args || !hooks->func)
		return ckpt_fail_nomem(j->err);
	*v = *t->value;
	v->kind = CKPT_CALL;
	v->u.call = call;
	return ckpt_model_replace(j->to, v, j->err);
}

/* ---- joining ---- */

static bool same_dims(const struct ckpt_tensor *a, const struct ckpt_tensor *b)
{
	bool same = a->ndim == b->ndim && a->dtype == b->dtype;

	for (uint32_t i = 0; same && i < a->ndim; i++)
		same = a->shape[i] == b->shape[i];
	return same;
}

/* The device of rank 0's local part: "cuda:0", where the DTensor itself says "cuda". */
static const char *location_of(struct joiner *j, const struct ckpt_tensor *t)
{
	struct ckpt_tensor local;

	if (t->local &&
	    ckpt_tensor_parse(j->first, ckpt_model_now(j->first, t->local), j->to->arena, &local,
			      NULL) == 1 &&
	    local.storage >= 0)
		return j->first->storages[local.storage].location;
	return t->device;
}

static int join_tensor(struct joiner *j, const struct ckpt_tensor *t)
{
	static const uint64_t zeros[CKPT_MOST_DIMS];
	struct blocks b = { 0 };
	struct ckpt_recipe made;
	bool sharded = t->class_name && !strcmp(t->class_name, "ShardedTensor");
	int rc = 0;

	if (!sharded && (!t->class_name || strcmp(t->class_name, "DTensor")))
		return ckpt_fail(j->err, CKPT_E_UNSUPPORTED,
				 "'%s' is a %s, which cannot be joined yet", t->name,
				 t->class_name ? t->class_name : "tensor of an unknown kind");
	for (uint32_t r = 0; rc == 0 && r < j->held->count; r++) {
		const struct ckpt_tensor *of = tensor_of(j, r, t->name);

		if (!of)
			rc = ckpt_fail(j->err, CKPT_E_FORMAT, "is not there");
		else if (of->kind != CKPT_KIND_WRAPPER || !same_dims(t, of))
			rc = ckpt_fail(j->err, CKPT_E_FORMAT, "is of another shape or dtype");
		else
			rc = sharded ? add_sharded(j, &b, r, of) : add_dtensor(j, &b, r, of);
		if (rc < 0)
			fail_tensor(j, t, r, rc);
	}
	if (rc == 0) {
		rc = ckpt_assemble(b.items, b.count, t->ndim, zeros, t->shape,
				   ckpt_dtype_size(t->dtype), j->to->arena, &made, j->err);
		if (rc < 0)
			fail_tensor(j, t, j->held->count, rc);
	}
	if (rc == 0)
		rc = replace(j, t, location_of(j, t), &made);
	free(b.items);
	return rc;
}

static int check_replica(struct joiner *j, const struct ckpt_tensor *t)
{
	for (uint32_t r = 1; r < j->held->count; r++) {
		const struct ckpt_tensor *of = tensor_of(j, r, t->name);

		if (!of || of->kind != t->kind || !same_dims(t, of)) {
			ckpt_fail(j->err, CKPT_E_FORMAT,
				  of ? "is of another shape or dtype than rank 0's"
				     : "is not there, rank 0 has it");
			return fail_tensor(j, t, r, CKPT_E_FORMAT);
		}
	}
	return 0;
}

static int join_all(struct joiner *j)
{
	const struct ckpt_model *first = j->held->models[0];
	int rc = ckpt_model_derive(first, &j->to, j->err);

	j->first = first;
	if (rc == 0)
		rc = ckpt_model_own_storages(j->to, j->err);
	for (uint32_t i = 0; rc == 0 && i < first->tensor_count; i++) {
		const struct ckpt_tensor *t = &first->tensors[i];

		if (t->value->id < j->to->replaced_cap && j->to->replaced[t->value->id])
			continue; /* under another name already */
		rc = t->kind == CKPT_KIND_WRAPPER ? join_tensor(j, t) : check_replica(j, t);
	}
	return rc;
}

static int list_names(struct joiner *j)
{
	j->names = calloc(j->held->count, sizeof(*j->names));
	if (!j->names)
		return ckpt_fail_nomem(j->err);
	for (uint32_t r = 0; r < j->held->count; r++) {
		const struct ckpt_model *m = j->held->models[r];
		bool there;

		if (!ckpt_model_has_tensors(m))
			return ckpt_fail_nomem(j->err);
		for (uint32_t i = 0; i < m->tensor_count; i++)
			if (!ckpt_strmap_insert(&j->names[r], m->tensors[i].name,
						strlen(m->tensors[i].name), i, &there))
				return ckpt_fail_nomem(j->err);
	}
	return 0;
}

/* ---- opening ---- */

static int open_rank(const char *path, const char *name, struct ckpt_model **out,
		     struct ckpt_error *err)
{
	struct ckpt_source *source;
	char *file;
	int rc;

	if (asprintf(&file, "%s/%s", path, name) < 0)
		return ckpt_fail_nomem(err);
	rc = ckpt_source_open(file, &source, err);
	if (rc == 0) {
		rc = ckpt_format_torch_zip.read(source, out, err);
		ckpt_source_unref(source);
	}
	rc = ckpt_error_at(err, rc, file, NULL, CKPT_NO_OFFSET);
	free(file);
	return rc;
}

/* "world_size_8" in the name says how many there are. */
static uint64_t world_size(const char *stem)
{
	const char *at = strstr(stem, "world_size_");

	return at ? strtoull(at + strlen("world_size_"), NULL, 10) : 0;
}

static int open_all(const char *path, const struct ckpt_listing *l, const char *stem,
		    struct held *held, struct ckpt_error *err)
{
	size_t len = strlen(stem), stem_len, digits;
	uint32_t found = 0;
	int rc = 0;

	for (size_t i = 0; i < l->count; i++) {
		int64_t rank = rank_of(l->items[i].name, &stem_len, &digits);

		if (rank >= 0 && stem_len == len && !strncmp(l->items[i].name, stem, len)) {
			found++;
			if (rank >= held->count)
				held->count = (uint32_t)rank + 1;
		}
	}
	if (world_size(stem) > held->count)
		held->count =
			world_size(stem) < MOST_RANKS ? (uint32_t)world_size(stem) : MOST_RANKS;
	held->models = calloc(held->count, sizeof(struct ckpt_model *));
	if (!held->models)
		return ckpt_fail_nomem(err);
	if (found != held->count)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "holds %" PRIu32 " of the %" PRIu32
				 " files '%.100s...' of all ranks",
				 found, held->count, stem);
	for (size_t i = 0; rc == 0 && i < l->count; i++) {
		int64_t rank = rank_of(l->items[i].name, &stem_len, &digits);

		if (rank >= 0 && stem_len == len && !strncmp(l->items[i].name, stem, len) &&
		    !held->models[rank])
			rc = open_rank(path, l->items[i].name, &held->models[rank], err);
	}
	return rc;
}

int ckpt_ranks_open(const char *path, const struct ckpt_listing *listing, const char *stem,
		    struct ckpt_model **out, struct ckpt_error *err)
{
	struct joiner j = { .held = calloc(1, sizeof(struct held)), .err = err };
	int rc = j.held ? open_all(path, listing, stem, j.held, err) : ckpt_fail_nomem(err);

	*out = NULL;
	if (rc == 0)
		rc = list_names(&j);
	if (rc == 0)
		rc = join_all(&j);
	for (uint32_t r = 0; j.names && r < j.held->count; r++)
		ckpt_strmap_clear(&j.names[r]);
	free(j.names);
	if (rc < 0) {
		ckpt_close(j.to);
		free_held(j.held);
		return rc;
	}
	j.to->held =
		j.held; /* the other ranks' files stay open as long as the bytes may be wanted */
	j.to->free_held = free_held;
	*out = j.to;
	return 0;
}
