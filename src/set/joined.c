/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tensor that is put together from the parts that ranks have of it, as blocks for
 * tensor/assemble.c: what DTensors, ShardedTensors and boxes in metadata have in common. Bytes
 * are described here, never read.
 *
 * Replicas are found by their box (`places`), and the first one stays: `blocks` and `boxes` have
 * the same entries in the same order, without doubles, or ckpt_cover_check() reports an overlap.
 * Offsets, shapes and strides of blocks live in the arena, which must outlive the recipe.
 */
#include "set/joined.h"

#include "base/grow.h"
#include "model/plain_values.h"
#include "model/state_dict.h"
#include "tensor/shape.h"

#include <stdlib.h>
#include <string.h>

struct ckpt_joined ckpt_joined_of(struct ckpt_arena *arena, const char *const *files, uint32_t ndim)
{
	return (struct ckpt_joined){ .arena = arena, .files = files, .ndim = ndim };
}

void ckpt_joined_clear(struct ckpt_joined *j)
{
	free(j->blocks);
	free(j->boxes);
	ckpt_strmap_clear(&j->places);
}

/* ---- the parts of ranks ---- */

int ckpt_joined_local(const struct ckpt_model *model, const struct ckpt_value *value,
		      struct ckpt_arena *arena, struct ckpt_tensor *t, struct ckpt_recipe *bytes,
		      struct ckpt_error *err)
{
	const struct ckpt_storage *s;
	int rc = value ? ckpt_tensor_parse(model, ckpt_model_now(model, value), arena, t, err) : 0;

	if (rc < 0)
		return rc;
	if (rc == 0 || t->kind != CKPT_KIND_STRIDED || t->storage < 0 ||
	    ckpt_dtype_packed(t->dtype) > 1)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "its local part is no plain tensor");
	if (t->is_neg || t->is_conj)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "its local part is negated or conjugated when it is loaded");
	s = &model->storages[t->storage];
	return ckpt_model_storage_bytes(model, s, bytes, err);
}

const struct ckpt_value *ckpt_joined_spec(const struct ckpt_model *m, const struct ckpt_tensor *t)
{
	const struct ckpt_value *args =
		t->value->kind == CKPT_CALL ? ckpt_model_now(m, t->value->u.call->args) : NULL;

	if (!args || args->kind != CKPT_TUPLE || args->u.seq.count < 4)
		return NULL;
	return ckpt_state_find(m, ckpt_model_now(m, args->u.seq.items[3]), "_spec");
}

/* ---- blocks ---- */

static bool grow(struct ckpt_joined *j)
{
	uint32_t cap = j->cap;
	void *blocks = ckpt_grow(j->blocks, j->count, &cap, sizeof(*j->blocks)), *boxes;

	if (!blocks)
		return false;
	j->blocks = blocks;
	boxes = ckpt_grow(j->boxes, j->count, &j->cap, sizeof(*j->boxes));
	if (boxes)
		j->boxes = boxes;
	return boxes;
}

int ckpt_joined_add(struct ckpt_joined *j, uint32_t file, const struct ckpt_tensor *local,
		    const struct ckpt_recipe *bytes, const uint64_t *local_offset,
		    const uint64_t *offset, const uint64_t *shape, struct ckpt_error *err)
{
	size_t size = j->ndim * sizeof(*shape);
	struct ckpt_tensor_block block = { .bytes = *bytes,
					   .stride = local->stride,
					   .first = local->offset };
	uint64_t *box;
	bool there;

	if (ckpt_shape_is_empty(shape, j->ndim))
		return 0;
	box = ckpt_arena_calloc(j->arena, 2 * (uint64_t)j->ndim + 1, sizeof(*box));
	if (!box)
		return ckpt_arena_fail(j->arena, err);
	if (!grow(j))
		return ckpt_fail_nomem(err);
	if (size) {
		memcpy(box, offset, size);
		memcpy(box + j->ndim, shape, size);
	}
	if (!ckpt_strmap_insert(&j->places, (char *)box, 2 * size, 0, &there))
		return ckpt_fail_nomem(err);
	if (there) /* a replica */
		return 0;
	for (uint32_t i = 0; local_offset && i < j->ndim; i++)
		block.first += local_offset[i] * local->stride[i];
	block.offset = box;
	block.shape = box + j->ndim;
	j->boxes[j->count] = (struct ckpt_box){ block.offset, block.shape, j->files[file] };
	j->blocks[j->count++] = block;
	return 0;
}

static bool has_shape(const struct ckpt_tensor *local, const struct ckpt_mesh_extent *extents,
		      uint32_t ndim)
{
	bool same = local->ndim == ndim;

	for (uint32_t i = 0; same && i < ndim; i++)
		same = local->shape[i] == ckpt_extent_len(&extents[i]);
	return same;
}

/* The next choice of one stretch per dimension; false: that was the last. */
static bool next_choice(uint32_t *at, const struct ckpt_mesh_extent *extents, uint32_t ndim)
{
	for (uint32_t i = ndim; i-- > 0; at[i] = 0)
		if (++at[i] < extents[i].count)
			return true;
	return false;
}

int ckpt_joined_add_extents(struct ckpt_joined *j, uint32_t file, const struct ckpt_tensor *local,
			    const struct ckpt_recipe *bytes, const struct ckpt_mesh_extent *extents,
			    struct ckpt_error *err)
{
	uint32_t at[CKPT_MOST_DIMS] = { 0 };
	int rc = 0;

	if (!has_shape(local, extents, j->ndim))
		return ckpt_fail(
			err, CKPT_E_FORMAT,
			"its local part is of another shape than its place in the mesh has: is the "
			"file's number not the rank's?");
	if (ckpt_shape_is_empty(local->shape, j->ndim))
		return 0;
	do {
		uint64_t inside[CKPT_MOST_DIMS], offset[CKPT_MOST_DIMS], shape[CKPT_MOST_DIMS];

		for (uint32_t i = 0; i < j->ndim; i++) {
			inside[i] = 0;
			for (uint32_t k = 0; k < at[i]; k++)
				inside[i] += extents[i].len[k];
			offset[i] = extents[i].start[at[i]];
			shape[i] = extents[i].len[at[i]];
		}
		rc = ckpt_joined_add(j, file, local, bytes, inside, offset, shape, err);
	} while (rc == 0 && next_choice(at, extents, j->ndim));
	return rc;
}

/* ---- the whole ---- */

int ckpt_joined_bytes(const struct ckpt_joined *j, const uint64_t *shape, enum ckpt_dtype dtype,
		      struct ckpt_recipe *out, struct ckpt_error *err)
{
	static const uint64_t zeros[CKPT_MOST_DIMS];
	int rc = ckpt_shape_check(shape, j->ndim, ckpt_dtype_size(dtype), err);

	if (rc == 0)
		rc = ckpt_cover_check(j->boxes, j->count, shape, j->ndim, err);
	if (rc < 0)
		return rc;
	return ckpt_assemble(j->blocks, j->count, j->ndim, zeros, shape, ckpt_dtype_size(dtype),
			     j->arena, out, err);
}

int ckpt_joined_store(struct ckpt_model *to, enum ckpt_dtype dtype, const char *location,
		      const struct ckpt_recipe *made, uint32_t *storage, struct ckpt_error *err)
{
	struct ckpt_recipe *kept = ckpt_arena_alloc(to->arena, sizeof(*kept));
	const char *key = ckpt_model_new_key(to, 'r');
	struct ckpt_storage *s = key && kept ? ckpt_model_add_storage(to) : NULL;

	if (!s)
		return ckpt_fail_nomem(err);
	*kept = *made;
	*storage = to->storage_count - 1;
	*s = (struct ckpt_storage){ .key = key,
				    .dtype = dtype,
				    .numel = made->len / ckpt_dtype_size(dtype),
				    .nbytes = made->len,
				    .location = location,
				    .made = kept };
	return 0;
}
