/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a rank stands in the mesh that a DTensorSpec names, and which part of a tensor that gives
 * it. A mesh is a list or tensor of ranks with a layout; the objects differ between releases and
 * are read by their attributes. Source: torch/distributed/device_mesh.py of 2.6 and 2.14,
 * torch/distributed/_mesh_layout.py of 2.14.
 *
 * Tensors share meshes, and a hostile file may let a million of them share one of a million
 * ranks. So each mesh is read once for a rank (`read`), and every step through a list of ranks is
 * paid for (count_steps()): a new loop over ranks has to count its steps as well.
 */
#include "set/mesh.h"

#include "model/state_dict.h"
#include "tensor/recipe.h"

#include <stdlib.h>
#include <string.h>

/*
 * A step takes some nanoseconds: what is too much is found within a tenth of a second and some per
 * MB.
 */
enum { STEPS_PER_BYTE = 16, MEMORY_PER_BYTE = 64 };
static const uint64_t STEPS_BASE = 16 << 20, MEMORY_BASE = 1 << 20;

/* What is kept of a mesh: where one rank is in it. */
struct position {
	uint64_t shape[CKPT_MESH_MOST_DIMS], at[CKPT_MESH_MOST_DIMS];
	uint32_t ndim;
	bool has; /* the rank is part of the mesh */
};

struct mesh {
	struct ckpt_meshes *meshes;
	const struct ckpt_model *model;
	struct position position;
	uint64_t stride[CKPT_MESH_MOST_DIMS];
	struct ckpt_error *err;
};

/* What a mesh and a rank are looked up by. */
struct mesh_key {
	uint64_t mesh, rank; /* MESH: its address */
};

int ckpt_meshes_init(struct ckpt_meshes *meshes, uint64_t nbytes, struct ckpt_error *err)
{
	*meshes = (struct ckpt_meshes){
		.arena = ckpt_arena_new(MEMORY_BASE + MEMORY_PER_BYTE * nbytes),
		.left = STEPS_BASE + STEPS_PER_BYTE * nbytes,
	};
	return meshes->arena ? 0 : ckpt_fail_nomem(err);
}

void ckpt_meshes_clear(struct ckpt_meshes *meshes)
{
	ckpt_arena_free(meshes->arena);
	ckpt_strmap_clear(&meshes->read);
}

static const struct ckpt_value *now(const struct mesh *m, const struct ckpt_value *v)
{
	return v ? ckpt_model_now(m->model, v) : NULL;
}

static const struct ckpt_value *find_attribute(const struct mesh *m,
					       const struct ckpt_value *object, const char *name)
{
	const struct ckpt_value *state =
		object && object->kind == CKPT_CALL ? now(m, object->u.call->state) : NULL;

	return state && state->kind == CKPT_DICT
		       ? now(m, ckpt_attribute_find(m->model, state, name))
		       : NULL;
}

static bool is_sequence(const struct ckpt_value *v)
{
	return v && (v->kind == CKPT_TUPLE || v->kind == CKPT_LIST);
}

static int fail_mesh(const struct mesh *m, const char *what)
{
	return ckpt_fail(m->err, CKPT_E_FORMAT, "its mesh of ranks cannot be read: %s", what);
}

static int count_steps(const struct mesh *m, uint64_t steps)
{
	if (steps > m->meshes->left)
		return ckpt_fail(m->err, CKPT_E_LIMIT,
				 "more meshes of ranks, or larger ones, than files of this size "
				 "may have");
	m->meshes->left -= steps;
	return 0;
}

/* ---- the mesh ---- */

static bool add_dim(struct mesh *m, uint64_t shape, uint64_t stride)
{
	struct position *position = &m->position;

	if (position->ndim == CKPT_MESH_MOST_DIMS || !shape || shape > CKPT_MESH_MOST_RANKS ||
	    stride > CKPT_MESH_MOST_RANKS)
		return false;
	position->shape[position->ndim] = shape;
	m->stride[position->ndim++] = stride;
	return true;
}

/* One dimension; an axis of size 1 has empty tuples. */
static bool add_axis(struct mesh *m, const struct ckpt_value *axis)
{
	const struct ckpt_value *shape = find_attribute(m, axis, "shape"),
				*stride = find_attribute(m, axis, "stride"), *n, *step;

	if (!is_sequence(shape) || !is_sequence(stride) ||
	    shape->u.seq.count != stride->u.seq.count || shape->u.seq.count > 1)
		return false;
	if (!shape->u.seq.count)
		return add_dim(m, 1, 0);
	n = now(m, shape->u.seq.items[0]);
	step = now(m, stride->u.seq.items[0]);
	return n->kind == CKPT_INT && step->kind == CKPT_INT &&
	       add_dim(m, (uint64_t)n->u.integer, (uint64_t)step->u.integer);
}

/*
 * A layout has shape and stride, one number per dimension, or in later releases axes that have
 * them.
 */
static bool read_layout(struct mesh *m, const struct ckpt_value *layout)
{
	const struct ckpt_value *axes = find_attribute(m, layout, "axes");
	const struct ckpt_value *shape = find_attribute(m, layout, "shape"),
				*stride = find_attribute(m, layout, "stride");
	bool ok = true;

	for (uint32_t i = 0; ok && is_sequence(axes) && i < axes->u.seq.count; i++)
		ok = add_axis(m, now(m, axes->u.seq.items[i]));
	if (is_sequence(axes))
		return ok;
	ok = is_sequence(shape) && is_sequence(stride) && shape->u.seq.count == stride->u.seq.count;
	for (uint32_t i = 0; ok && i < shape->u.seq.count; i++) {
		const struct ckpt_value *n = now(m, shape->u.seq.items[i]),
					*step = now(m, stride->u.seq.items[i]);

		ok = n->kind == CKPT_INT && step->kind == CKPT_INT &&
		     add_dim(m, (uint64_t)n->u.integer, (uint64_t)step->u.integer);
	}
	return ok;
}

/* The shape of the tensor of ranks, in C order. */
static bool read_shape(struct mesh *m, const struct ckpt_tensor *ranks)
{
	uint64_t step = 1;

	if (ranks->kind != CKPT_KIND_STRIDED || ranks->ndim > CKPT_MESH_MOST_DIMS)
		return false;
	m->position.ndim = ranks->ndim;
	for (uint32_t i = ranks->ndim; i-- > 0;) {
		if (!ranks->shape[i] || ranks->shape[i] > CKPT_MESH_MOST_RANKS ||
		    step > CKPT_MESH_MOST_RANKS)
			return false;
		m->position.shape[i] = ranks->shape[i];
		m->stride[i] = step;
		step *= ranks->shape[i];
	}
	return true;
}

static int find_in_tensor(const struct mesh *m, const struct ckpt_tensor *ranks, uint64_t rank,
			  uint64_t *apply_placement)
{
	const struct ckpt_storage *s =
		ranks->kind == CKPT_KIND_STRIDED ? &m->model->storages[ranks->storage] : NULL;
	uint32_t size = ckpt_dtype_size(ranks->dtype);
	struct ckpt_recipe bytes;
	struct ckpt_stream *stream;
	uint8_t *buf;
	int rc;

	if (!s || (size != 4 && size != 8) || s->nbytes > (uint64_t)CKPT_MESH_MOST_RANKS * 8)
		return fail_mesh(m, "the ranks are no integers");
	rc = count_steps(m, s->nbytes / size);
	if (rc == 0)
		rc = ckpt_model_storage_bytes(m->model, s, &bytes, m->err);
	if (rc == 0)
		rc = ckpt_recipe_stream(&bytes, &stream, m->err);
	if (rc < 0)
		return rc;
	buf = malloc(s->nbytes + 1);
	rc = buf ? stream->read(stream, buf, s->nbytes, m->err) : ckpt_fail_nomem(m->err);
	stream->close(stream);
	for (uint64_t i = ranks->offset; rc == 0 && i < s->nbytes / size; i++) {
		int64_t v8;
		int32_t v4;

		memcpy(&v4, buf + i * size, sizeof(v4));
		if (size == 8)
			memcpy(&v8, buf + i * size, sizeof(v8));
		else
			v8 = v4;
		if (v8 == (int64_t)rank && *apply_placement == UINT64_MAX)
			*apply_placement = i - ranks->offset;
	}
	free(buf);
	return rc;
}

/* Where RANK is in the list of ranks; UINT64_MAX: it is not in there. */
static int find_in_ranks(const struct mesh *m, const struct ckpt_value *list,
			 const struct ckpt_tensor *ranks, uint64_t rank, uint64_t *apply_placement)
{
	int rc;

	*apply_placement = UINT64_MAX;
	if (!is_sequence(list))
		return find_in_tensor(m, ranks, rank, apply_placement);
	rc = count_steps(m, list->u.seq.count);
	for (uint32_t i = 0; rc == 0 && i < list->u.seq.count && *apply_placement == UINT64_MAX;
	     i++) {
		const struct ckpt_value *v = now(m, list->u.seq.items[i]);

		if (v->kind == CKPT_INT && v->u.integer == (int64_t)rank)
			*apply_placement = i;
	}
	return rc;
}

/* The coordinates that give PLACE; several may where a mesh is a part of another: then none. */
static int find_coordinates(struct mesh *m, uint64_t apply_placement)
{
	struct position *position = &m->position;
	uint64_t count = 1;
	int rc = 0;

	for (uint32_t i = 0; i < position->ndim && count <= CKPT_MESH_MOST_RANKS; i++)
		count *= position->shape[i];
	if (count > CKPT_MESH_MOST_RANKS)
		return 0;
	for (uint64_t n = 0; rc == 0 && n < count && !position->has; n++) {
		uint64_t rest = n, flat = 0;

		for (uint32_t i = position->ndim; i-- > 0;) {
			position->at[i] = rest % position->shape[i];
			rest /= position->shape[i];
			flat += position->at[i] * m->stride[i];
		}
		position->has = flat == apply_placement;
		rc = count_steps(m, position->ndim + (uint64_t)1);
	}
	return rc;
}

static int read_mesh(struct mesh *m, const struct ckpt_value *mesh, uint64_t rank)
{
	const struct ckpt_value *layout = find_attribute(m, mesh, "_layout"),
				*tensor = find_attribute(m, mesh, layout ? "_rank_map" : "mesh"),
				*list = find_attribute(m, mesh,
						       layout ? "_flatten_rank_map"
							      : "_flatten_mesh_list");
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_tensor ranks;
	uint64_t apply_placement = UINT64_MAX;
	int rc = arena ? 0 : ckpt_fail_nomem(m->err);

	if (rc == 0 && !tensor)
		rc = fail_mesh(m, "it has no ranks");
	if (rc == 0)
		rc = ckpt_tensor_parse(m->model, tensor, arena, &ranks, m->err);
	if (rc >= 0 && (rc == 0 || !(layout ? read_layout(m, layout) : read_shape(m, &ranks))))
		rc = fail_mesh(m, "its shape is of an unknown kind");
	if (rc >= 0)
		rc = find_in_ranks(m, list, &ranks, rank, &apply_placement);
	if (rc == 0 && apply_placement != UINT64_MAX)
		rc = find_coordinates(m, apply_placement);
	ckpt_arena_free(arena);
	return rc;
}

static int keep_position(struct mesh *m, const struct mesh_key *key)
{
	struct {
		struct mesh_key key;
		struct position position;
	} *kept = ckpt_arena_alloc(m->meshes->arena, sizeof(*kept));
	bool there;

	if (!kept)
		return ckpt_arena_fail(m->meshes->arena, m->err);
	kept->key = *key;
	kept->position = m->position;
	return ckpt_strmap_insert(&m->meshes->read, (char *)&kept->key, sizeof(kept->key),
				  (uintptr_t)&kept->position, &there)
		       ? 0
		       : ckpt_fail_nomem(m->err);
}

/* Each mesh is read once for a rank. */
static int find_position(struct mesh *m, const struct ckpt_value *mesh, uint64_t rank)
{
	const struct mesh_key key = { (uintptr_t)mesh, rank };
	uint64_t *slot = ckpt_strmap_find(&m->meshes->read, (const char *)&key, sizeof(key));
	int rc;

	if (slot) {
		m->position = *(const struct position *)(uintptr_t)*slot;
		return 0;
	}
	rc = read_mesh(m, mesh, rank);
	return rc < 0 ? rc : keep_position(m, &key);
}

/* ---- placements ---- */

static int apply_placement(const struct mesh *m, const struct ckpt_value *value, uint32_t mesh_dim,
			   uint32_t ndim, struct ckpt_mesh_extent *out)
{
	const struct ckpt_value *func =
		value->kind == CKPT_CALL ? now(m, value->u.call->func) : NULL;
	const struct ckpt_value *dim = find_attribute(m, value, "dim"),
				*factor = find_attribute(m, value, "split_factor");
	const char *name = func && func->kind == CKPT_GLOBAL ? func->u.global->name : "";
	struct ckpt_placement placement = { .split = 1 };

	if (!strcmp(name, "Replicate"))
		return 0;
	if (strcmp(name, "Shard") && strcmp(name, "_StridedShard"))
		return ckpt_fail(m->err, CKPT_E_UNSUPPORTED, "is placed as '%.40s' over the ranks",
				 name);
	if (!strcmp(name, "_StridedShard")) {
		if (!factor || factor->kind != CKPT_INT || factor->u.integer < 1 ||
		    factor->u.integer > CKPT_MESH_MOST_RANKS)
			return fail_mesh(m, "a strided shard without a factor");
		placement.split = (uint64_t)factor->u.integer;
	}
	if (!dim || dim->kind != CKPT_INT || dim->u.integer < 0)
		return fail_mesh(m, "a shard of no dimension");
	placement.dim = (uint64_t)dim->u.integer;
	return ckpt_extents_place(out, ndim, &placement, m->position.shape[mesh_dim],
				  m->position.at[mesh_dim], m->err);
}

int ckpt_mesh_extents(struct ckpt_meshes *meshes, const struct ckpt_model *model,
		      const struct ckpt_value *spec, uint64_t rank, const uint64_t *shape,
		      uint32_t ndim, struct ckpt_mesh_extent *out, bool *has,
		      struct ckpt_error *err)
{
	struct mesh m = { .meshes = meshes, .model = model, .err = err };
	const struct ckpt_value *placements;
	int rc;

	spec = now(&m, spec);
	placements = find_attribute(&m, spec, "placements");
	rc = find_position(&m, find_attribute(&m, spec, "mesh"), rank);
	*has = rc == 0 && m.position.has;
	if (rc < 0 || !*has)
		return rc;
	if (!is_sequence(placements) || placements->u.seq.count != m.position.ndim)
		return fail_mesh(&m, "not one placement per dimension");
	ckpt_extents_init(out, shape, ndim);
	for (uint32_t i = 0; rc == 0 && i < m.position.ndim; i++)
		rc = apply_placement(&m, now(&m, placements->u.seq.items[i]), i, ndim, out);
	return rc;
}
