/* SPDX-License-Identifier: Apache-2.0 */
#include "set/mesh.h"

#include "model/state_dict.h"
#include "tensor/recipe.h"

#include <stdlib.h>
#include <string.h>

struct mesh {
	const struct ckpt_model *model;
	uint64_t shape[CKPT_MESH_MOST_DIMS], stride[CKPT_MESH_MOST_DIMS];
	uint32_t ndim;
	uint64_t at[CKPT_MESH_MOST_DIMS]; /* coordinates of the rank */
	struct ckpt_error *err;
};

static const struct ckpt_value *now(const struct mesh *m, const struct ckpt_value *v)
{
	return v ? ckpt_model_now(m->model, v) : NULL;
}

static const struct ckpt_value *attribute(const struct mesh *m, const struct ckpt_value *object,
					  const char *name)
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

static int fail(const struct mesh *m, const char *what)
{
	return ckpt_fail(m->err, CKPT_E_FORMAT, "its mesh of ranks cannot be read: %s", what);
}

/* ---- the mesh ---- */

static bool add_dim(struct mesh *m, uint64_t shape, uint64_t stride)
{
	if (m->ndim == CKPT_MESH_MOST_DIMS || !shape || shape > CKPT_MESH_MOST_RANKS ||
	    stride > CKPT_MESH_MOST_RANKS)
		return false;
	m->shape[m->ndim] = shape;
	m->stride[m->ndim++] = stride;
	return true;
}

/* One dimension; an axis of size 1 has empty tuples. */
static bool add_axis(struct mesh *m, const struct ckpt_value *axis)
{
	const struct ckpt_value *shape = attribute(m, axis, "shape"),
				*stride = attribute(m, axis, "stride"), *n, *step;

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

/* A layout has shape and stride, one number per dimension, or in later releases axes that have them. */
static bool read_layout(struct mesh *m, const struct ckpt_value *layout)
{
	const struct ckpt_value *axes = attribute(m, layout, "axes");
	const struct ckpt_value *shape = attribute(m, layout, "shape"),
				*stride = attribute(m, layout, "stride");
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
	m->ndim = ranks->ndim;
	for (uint32_t i = ranks->ndim; i-- > 0;) {
		if (!ranks->shape[i] || ranks->shape[i] > CKPT_MESH_MOST_RANKS ||
		    step > CKPT_MESH_MOST_RANKS)
			return false;
		m->shape[i] = ranks->shape[i];
		m->stride[i] = step;
		step *= ranks->shape[i];
	}
	return true;
}

static int place_in_bytes(const struct mesh *m, const struct ckpt_tensor *ranks, uint64_t rank,
			  uint64_t *place)
{
	const struct ckpt_storage *s =
		ranks->kind == CKPT_KIND_STRIDED ? &m->model->storages[ranks->storage] : NULL;
	uint32_t size = ckpt_dtype_size(ranks->dtype);
	struct ckpt_recipe bytes;
	struct ckpt_stream *stream;
	uint8_t *buf;
	int rc;

	if (!s || (size != 4 && size != 8) || s->nbytes > (uint64_t)CKPT_MESH_MOST_RANKS * 8)
		return fail(m, "the ranks are no integers");
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
		if (v8 == (int64_t)rank && *place == UINT64_MAX)
			*place = i - ranks->offset;
	}
	free(buf);
	return rc;
}

/* Where RANK is in the list of ranks; UINT64_MAX: it is not in there. */
static int find_place(const struct mesh *m, const struct ckpt_value *list,
		      const struct ckpt_tensor *ranks, uint64_t rank, uint64_t *place)
{
	*place = UINT64_MAX;
	if (!is_sequence(list))
		return place_in_bytes(m, ranks, rank, place);
	for (uint32_t i = 0; i < list->u.seq.count && *place == UINT64_MAX; i++) {
		const struct ckpt_value *v = now(m, list->u.seq.items[i]);

		if (v->kind == CKPT_INT && v->u.integer == (int64_t)rank)
			*place = i;
	}
	return 0;
}

/* The coordinates that give PLACE; several may where a mesh is a part of another: then none. */
static bool find_coordinates(struct mesh *m, uint64_t place)
{
	uint64_t count = 1;

	for (uint32_t i = 0; i < m->ndim; i++)
		count *= m->shape[i];
	for (uint64_t n = 0; n < count && count <= CKPT_MESH_MOST_RANKS; n++) {
		uint64_t rest = n, flat = 0;

		for (uint32_t i = m->ndim; i-- > 0;) {
			m->at[i] = rest % m->shape[i];
			rest /= m->shape[i];
			flat += m->at[i] * m->stride[i];
		}
		if (flat == place)
			return true;
	}
	return false;
}

static int read_mesh(struct mesh *m, const struct ckpt_value *mesh, uint64_t rank, bool *has)
{
	const struct ckpt_value *layout = attribute(m, mesh, "_layout"),
				*tensor = attribute(m, mesh, layout ? "_rank_map" : "mesh"),
				*list = attribute(m, mesh,
						  layout ? "_flatten_rank_map"
							 : "_flatten_mesh_list");
	struct ckpt_arena *arena = ckpt_arena_new(1 << 20);
	struct ckpt_tensor ranks;
	uint64_t place = UINT64_MAX;
	int rc = arena ? 0 : ckpt_fail_nomem(m->err);

	*has = false;
	if (rc == 0 && !tensor)
		rc = fail(m, "it has no ranks");
	if (rc == 0)
		rc = ckpt_tensor_parse(m->model, tensor, arena, &ranks, m->err);
	if (rc >= 0 && (rc == 0 || !(layout ? read_layout(m, layout) : read_shape(m, &ranks))))
		rc = fail(m, "its shape is of an unknown kind");
	if (rc >= 0)
		rc = find_place(m, list, &ranks, rank, &place);
	if (rc == 0 && place != UINT64_MAX)
		*has = find_coordinates(m, place);
	ckpt_arena_free(arena);
	return rc;
}

/* ---- placements ---- */

static int place(const struct mesh *m, const struct ckpt_value *value, uint32_t mesh_dim,
		 uint32_t ndim, struct ckpt_mesh_extent *out)
{
	const struct ckpt_value *func =
		value->kind == CKPT_CALL ? now(m, value->u.call->func) : NULL;
	const struct ckpt_value *dim = attribute(m, value, "dim"),
				*factor = attribute(m, value, "split_factor");
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
			return fail(m, "a strided shard without a factor");
		placement.split = (uint64_t)factor->u.integer;
	}
	if (!dim || dim->kind != CKPT_INT || dim->u.integer < 0)
		return fail(m, "a shard of no dimension");
	placement.dim = (uint64_t)dim->u.integer;
	return ckpt_extents_place(out, ndim, &placement, m->shape[mesh_dim], m->at[mesh_dim],
				  m->err);
}

int ckpt_mesh_extents(const struct ckpt_model *model, const struct ckpt_value *spec, uint64_t rank,
		      const uint64_t *shape, uint32_t ndim, struct ckpt_mesh_extent *out, bool *has,
		      struct ckpt_error *err)
{
	struct mesh m = { .model = model, .err = err };
	const struct ckpt_value *placements;
	int rc;

	spec = now(&m, spec);
	placements = attribute(&m, spec, "placements");
	rc = read_mesh(&m, attribute(&m, spec, "mesh"), rank, has);
	if (rc < 0 || !*has)
		return rc;
	if (!is_sequence(placements) || placements->u.seq.count != m.ndim)
		return fail(&m, "not one placement per dimension");
	ckpt_extents_init(out, shape, ndim);
	for (uint32_t i = 0; rc == 0 && i < m.ndim; i++)
		rc = place(&m, now(&m, placements->u.seq.items[i]), i, ndim, out);
	return rc;
}
