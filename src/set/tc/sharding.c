/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sharding metadata of torch_checkpointing say of one tensor: who has which part, as a
 * DTensor's mesh and placements, or as boxes (default_tensor_v1). Source: torch_checkpointing
 * 0.1.1, distributed_metadata.py.
 *
 * Many tensors name one mesh, so a mesh is read once and sorted by rank. Every number is checked
 * where it is read: ranks against the world size, boxes against the tensor and against the rank's
 * part. The tables point into the index's pickle.
 */
#include "set/tc/sharding.h"

#include "base/text.h"
#include "set/fields.h"
#include "set/tc/index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 80 };

void ckpt_tc_shardings_clear(struct ckpt_tc_shardings *s)
{
	ckpt_strmap_clear(&s->meshes);
}

static bool is_list(const struct ckpt_value *v)
{
	return v && (v->kind == CKPT_LIST || v->kind == CKPT_TUPLE);
}

/* ---- meshes ---- */

static int by_rank(const void *a, const void *b)
{
	const struct ckpt_tc_rank_place *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

static int read_ranks(struct ckpt_tc_shardings *s, const struct ckpt_value *list,
		      struct ckpt_tc_mesh *out, struct ckpt_error *err)
{
	uint32_t count = list->u.seq.count;
	struct ckpt_tc_rank_place *ranks =
		ckpt_arena_alloc(s->arena, (count + (uint64_t)1) * sizeof(*ranks));

	if (!ranks)
		return ckpt_arena_fail(s->arena, err);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t rank;
		int rc = ckpt_fields_number(list->u.seq.items[i], "a rank of the mesh", &rank, err);

		if (rc < 0)
			return rc;
		if (rank >= s->world_size)
			return ckpt_fail(err, CKPT_E_FORMAT,
					 "its mesh has rank %" PRIu64
					 ", the checkpoint has %" PRIu32 " ranks",
					 rank, s->world_size);
		ranks[i] = (struct ckpt_tc_rank_place){ (uint32_t)rank, i };
	}
	qsort(ranks, count, sizeof(*ranks), by_rank);
	for (uint32_t i = 1; i < count; i++)
		if (ranks[i].rank == ranks[i - 1].rank)
			return ckpt_fail(err, CKPT_E_FORMAT, "its mesh has rank %" PRIu32 " twice",
					 ranks[i].rank);
	*out = (struct ckpt_tc_mesh){ ranks, count };
	return 0;
}

static int find_mesh(struct ckpt_tc_shardings *s, const struct ckpt_value *list,
		     const struct ckpt_tc_mesh **out, struct ckpt_error *err)
{
	const struct ckpt_value **key;
	struct ckpt_tc_mesh *mesh;
	uint64_t *slot;
	bool there;
	int rc;

	if (!is_list(list))
		return ckpt_fields_wrong(err, "a list as mesh_data", list);
	slot = ckpt_strmap_find(&s->meshes, (const char *)&list, sizeof(list));
	if (slot) {
		*out = (const struct ckpt_tc_mesh *)(uintptr_t)*slot;
		return 0;
	}
	mesh = ckpt_arena_alloc(s->arena, sizeof(*mesh));
	key = ckpt_arena_alloc(s->arena, sizeof(list));
	if (!mesh || !key)
		return ckpt_arena_fail(s->arena, err);
	rc = read_ranks(s, list, mesh, err);
	if (rc < 0)
		return rc;
	*key = list;
	*out = mesh;
	if (!ckpt_strmap_insert(&s->meshes, (const char *)key, sizeof(list), (uintptr_t)mesh,
				&there))
		return ckpt_fail_nomem(err);
	return 0;
}

static int read_mesh(struct ckpt_tc_shardings *s, const struct ckpt_value *spec,
		     struct ckpt_tc_sharding *out, struct ckpt_error *err)
{
	const struct ckpt_value *shape = ckpt_tc_field(spec, "mesh_shape");
	uint64_t count = 1;
	int rc;

	if (!is_list(shape))
		return ckpt_fields_wrong(err, "a mesh_spec with a mesh_shape",
					 shape ? shape : spec);
	if (shape->u.seq.count > CKPT_MESH_MOST_DIMS)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "its mesh has %" PRIu32 " dimensions, the limit is %d",
				 shape->u.seq.count, CKPT_MESH_MOST_DIMS);
	out->mesh_ndim = shape->u.seq.count;
	for (uint32_t i = 0; i < out->mesh_ndim; i++) {
		rc = ckpt_fields_number(shape->u.seq.items[i], "mesh_shape", &out->mesh_shape[i],
					err);
		if (rc < 0)
			return rc;
		if (!out->mesh_shape[i] || out->mesh_shape[i] > CKPT_MESH_MOST_RANKS)
			return ckpt_fail(err, CKPT_E_FORMAT,
					 "its mesh has %" PRIu64 " ranks along dimension %" PRIu32,
					 out->mesh_shape[i], i);
		count *= out->mesh_shape[i];
		if (count > CKPT_MESH_MOST_RANKS)
			return ckpt_fail(err, CKPT_E_FORMAT,
					 "its mesh is larger than the checkpoint's ranks");
	}
	rc = find_mesh(s, ckpt_tc_field(spec, "mesh_data"), &out->mesh, err);
	if (rc == 0 && out->mesh->count != count)
		rc = ckpt_fail(err, CKPT_E_FORMAT,
			       "its mesh has %" PRIu32 " ranks, its shape wants %" PRIu64,
			       out->mesh->count, count);
	return rc;
}

/* ---- placements ---- */

static int read_placement(const struct ckpt_value *v, uint32_t ndim, struct ckpt_placement *out,
			  struct ckpt_error *err)
{
	const struct ckpt_value *type = ckpt_tc_field(v, "type");
	char shown[SHOWN];
	int rc;

	*out = (struct ckpt_placement){ .split = 1 };
	if (!type || type->kind != CKPT_STR)
		return ckpt_fields_wrong(err, "a placement with a type", type ? type : v);
	out->replicated = ckpt_value_is_str(type, "Replicate");
	if (out->replicated)
		return 0;
	if (!ckpt_value_is_str(type, "Shard") && !ckpt_value_is_str(type, "StridedShard"))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "is placed as '%s' over the ranks",
				 ckpt_escape(shown, sizeof(shown), type->u.bytes.ptr,
					     type->u.bytes.len));
	rc = ckpt_fields_number(ckpt_tc_field(v, "dim"), "the dim of a shard", &out->dim, err);
	if (rc == 0 && out->dim >= ndim)
		rc = ckpt_fail(err, CKPT_E_FORMAT,
			       "is cut along dimension %" PRIu64 " and has %" PRIu32, out->dim,
			       ndim);
	if (rc == 0 && ckpt_value_is_str(type, "StridedShard"))
		rc = ckpt_fields_number(ckpt_tc_field(v, "split_factor"), "split_factor",
					&out->split, err);
	if (rc == 0 && (!out->split || out->split > CKPT_MESH_MOST_RANKS))
		rc = ckpt_fail(err, CKPT_E_FORMAT, "a split_factor of %" PRIu64, out->split);
	return rc;
}

static int read_dtensor(struct ckpt_tc_shardings *s, const struct ckpt_value *data,
			struct ckpt_tc_sharding *out, struct ckpt_error *err)
{
	const struct ckpt_value *list = ckpt_tc_field(data, "placements");
	int rc = read_mesh(s, ckpt_tc_field(data, "mesh_spec"), out, err);

	if (rc < 0)
		return rc;
	if (!is_list(list) || list->u.seq.count != out->mesh_ndim)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "has not one placement for each of the %" PRIu32
				 " dimensions of its mesh",
				 out->mesh_ndim);
	out->replicated = true;
	for (uint32_t i = 0; rc == 0 && i < out->mesh_ndim; i++) {
		rc = read_placement(list->u.seq.items[i], out->ndim, &out->placements[i], err);
		out->replicated &= out->placements[i].replicated || out->mesh_shape[i] == 1;
	}
	return rc;
}

/* ---- boxes ---- */

static int read_boxes(const struct ckpt_value *data, struct ckpt_tc_sharding *out,
		      struct ckpt_error *err)
{
	out->global_offsets = ckpt_tc_field(data, "global_offsets");
	out->local_offsets = ckpt_tc_field(data, "local_offsets");
	out->local_sizes = ckpt_tc_field(data, "local_sizes");
	if (is_list(out->global_offsets) && is_list(out->local_offsets) &&
	    is_list(out->local_sizes) &&
	    out->global_offsets->u.seq.count == out->local_sizes->u.seq.count &&
	    out->local_offsets->u.seq.count == out->local_sizes->u.seq.count)
		return 0;
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "has not as many global_offsets and local_offsets as local_sizes");
}

/* NDIM numbers. */
static int read_corner(const struct ckpt_value *list, const char *what, uint32_t ndim,
		       uint64_t out[CKPT_MOST_DIMS], struct ckpt_error *err)
{
	int rc = 0;

	if (!is_list(list) || list->u.seq.count != ndim)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "%s without one number for each of %" PRIu32 " dimensions", what,
				 ndim);
	for (uint32_t i = 0; rc == 0 && i < ndim; i++)
		rc = ckpt_fields_number(list->u.seq.items[i], what, &out[i], err);
	return rc;
}

static int check_inside(const uint64_t *offset, const uint64_t *size, const uint64_t *shape,
			uint32_t ndim, const char *what, struct ckpt_error *err)
{
	for (uint32_t i = 0; i < ndim; i++)
		if (offset[i] > shape[i] || size[i] > shape[i] - offset[i])
			return ckpt_fail(err, CKPT_E_FORMAT,
					 "a shard of %" PRIu64 " at %" PRIu64
					 " reaches out of dimension %" PRIu32
					 " of %s, which has %" PRIu64,
					 size[i], offset[i], i, what, shape[i]);
	return 0;
}

static int add_box(const struct ckpt_tc_sharding *sharding, uint32_t i, uint32_t file,
		   const struct ckpt_tensor *local, const struct ckpt_recipe *bytes,
		   struct ckpt_joined *joined, struct ckpt_error *err)
{
	uint64_t offset[CKPT_MOST_DIMS], inside[CKPT_MOST_DIMS], size[CKPT_MOST_DIMS];
	uint32_t ndim = sharding->ndim;
	int rc = read_corner(sharding->global_offsets->u.seq.items[i], "global_offsets", ndim,
			     offset, err);

	if (rc == 0)
		rc = read_corner(sharding->local_offsets->u.seq.items[i], "local_offsets", ndim,
				 inside, err);
	if (rc == 0)
		rc = read_corner(sharding->local_sizes->u.seq.items[i], "local_sizes", ndim, size,
				 err);
	if (rc == 0)
		rc = check_inside(offset, size, sharding->shape, ndim, "the tensor", err);
	if (rc == 0)
		rc = check_inside(inside, size, local->shape, ndim, "the rank's part", err);
	if (rc == 0)
		rc = ckpt_joined_add(joined, file, local, bytes, inside, offset, size, err);
	return rc;
}

static int add_boxes(const struct ckpt_tc_sharding *sharding, uint32_t file,
		     const struct ckpt_tensor *local, const struct ckpt_recipe *bytes,
		     struct ckpt_joined *joined, struct ckpt_error *err)
{
	int rc = 0;

	if (local->ndim != sharding->ndim)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "has %" PRIu32 " dimensions, the metadata says %" PRIu32,
				 local->ndim, sharding->ndim);
	for (uint32_t i = 0; rc == 0 && i < sharding->local_sizes->u.seq.count; i++)
		rc = add_box(sharding, i, file, local, bytes, joined, err);
	return rc;
}

/* ---- both ---- */

int ckpt_tc_sharding_read(struct ckpt_tc_shardings *s, const struct ckpt_value *packed,
			  struct ckpt_tc_sharding *out, struct ckpt_error *err)
{
	const struct ckpt_value *type = ckpt_tc_field(packed, "type"),
				*data = ckpt_tc_field(packed, "data");
	char shown[SHOWN];
	int rc;

	*out = (struct ckpt_tc_sharding){ .dtype = ckpt_tc_field(data, "dtype") };
	if (!type || type->kind != CKPT_STR)
		return ckpt_fields_wrong(err, "sharding_metadata with a type",
					 type ? type : packed);
	rc = ckpt_fields_dims(ckpt_tc_field(data, "global_shape"), "global_shape", s->arena,
			      &out->shape, &out->ndim, err);
	if (rc < 0)
		return rc;
	if (ckpt_value_is_str(type, "DTensorShardingMetadata"))
		return read_dtensor(s, data, out, err);
	if (ckpt_value_is_str(type, "default_tensor_v1"))
		return read_boxes(data, out, err);
	return ckpt_fail(err, CKPT_E_UNSUPPORTED, "sharding metadata of type '%s' is not known",
			 ckpt_escape(shown, sizeof(shown), type->u.bytes.ptr, type->u.bytes.len));
}

static int add_dtensor(const struct ckpt_tc_sharding *sharding, uint32_t rank, uint32_t file,
		       const struct ckpt_tensor *local, const struct ckpt_recipe *bytes,
		       struct ckpt_joined *joined, struct ckpt_error *err)
{
	const struct ckpt_tc_rank_place wanted = { rank, 0 },
					*found = bsearch(&wanted, sharding->mesh->ranks,
							 sharding->mesh->count, sizeof(wanted),
							 by_rank);
	struct ckpt_mesh_extent *extents = calloc(sharding->ndim + (size_t)1, sizeof(*extents));
	uint64_t at[CKPT_MESH_MOST_DIMS], rest = found ? found->place : 0;
	int rc = extents ? 0 : ckpt_fail_nomem(err);

	if (rc == 0 && !found)
		rc = ckpt_fail(err, CKPT_E_FORMAT, "its mesh does not have rank %" PRIu32, rank);
	for (uint32_t i = sharding->mesh_ndim; i-- > 0;) {
		at[i] = rest % sharding->mesh_shape[i];
		rest /= sharding->mesh_shape[i];
	}
	if (rc == 0)
		ckpt_extents_init(extents, sharding->shape, sharding->ndim);
	for (uint32_t i = 0; rc == 0 && i < sharding->mesh_ndim; i++)
		rc = ckpt_extents_place(extents, sharding->ndim, &sharding->placements[i],
					sharding->mesh_shape[i], at[i], err);
	if (rc == 0)
		rc = ckpt_joined_add_extents(joined, file, local, bytes, extents, err);
	free(extents);
	return rc;
}

int ckpt_tc_sharding_add_part(const struct ckpt_tc_sharding *sharding, uint32_t rank, uint32_t file,
			      const struct ckpt_tensor *local, const struct ckpt_recipe *bytes,
			      struct ckpt_joined *joined, struct ckpt_error *err)
{
	return sharding->mesh ? add_dtensor(sharding, rank, file, local, bytes, joined, err)
			      : add_boxes(sharding, file, local, bytes, joined, err);
}
