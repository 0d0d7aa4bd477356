/* SPDX-License-Identifier: Apache-2.0 */
#include "format/torch_tar_tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ckpt_value *dims(struct ckpt_tar_reader *r, const uint8_t *bytes, uint32_t ndim)
{
	const struct ckpt_value *items[CKPT_MOST_DIMS];

	for (uint32_t i = 0; i < ndim; i++)
		items[i] =
			ckpt_compose_int(&r->compose,
					 (int64_t)ckpt_tar_little_endian(bytes + 8 * (size_t)i, 8));
	return ckpt_compose_tuple(&r->compose, items, ndim);
}

/*
 * As torch.save writes it today. SHAPE: NDIM sizes, NDIM strides, the offset in the storage; 8
 * bytes each.
 */
static const struct ckpt_value *make_tensor(struct ckpt_tar_reader *r,
					    const struct ckpt_value *storage, const uint8_t *shape,
					    uint32_t ndim)
{
	const struct ckpt_composer *c = &r->compose;
	const struct ckpt_value *items[6] = {
		storage,
		ckpt_compose_int(c, (int64_t)ckpt_tar_little_endian(shape + 16 * (size_t)ndim, 8)),
		dims(r, shape, ndim),
		dims(r, shape + 8 * (size_t)ndim, ndim),
		&ckpt_value_false,
		ckpt_compose_call(c, r->ordered_dict, &ckpt_value_empty_tuple),
	};

	return ckpt_compose_call(c, r->rebuild, ckpt_compose_tuple(c, items, 6));
}

/* Number of dimensions, four bytes of no meaning, sizes, strides, offset. */
static int read_shape(struct ckpt_tar_reader *r, const struct ckpt_torch_tar_entry *storage, bool has_storage,
		      const struct ckpt_value **out)
{
	static const uint8_t empty[24] = { [8] = 1 }; /* size 0, stride 1, offset 0 */
	uint8_t head[8], rest[16 * CKPT_MOST_DIMS + 8];
	uint32_t ndim;
	int rc = ckpt_tar_read_bytes(r, head, sizeof(head));

	if (rc < 0)
		return rc;
	ndim = (uint32_t)ckpt_tar_little_endian(head, 4);
	if (ndim > CKPT_MOST_DIMS)
		return ckpt_fail(r->err, CKPT_E_FORMAT,
				 "a tensor with %" PRIu32 " dimensions, torch has at most %d", ndim,
				 CKPT_MOST_DIMS);
	rc = ckpt_tar_read_bytes(r, rest, 16 * (size_t)ndim + 8);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i <= 2 * ndim; i++)
		if (rest[8 * i + 7] & 0x80)
			return ckpt_fail(r->err, CKPT_E_FORMAT, "a tensor with a negative %s",
					 i == 2 * ndim ? "offset"
					 : i < ndim    ? "size"
						       : "stride");
	/* torch had no scalars then: a tensor without dimensions has no elements. Today's makes one, of memory that nobody has set */
	r->tt->has_number_of_nothing |= !ndim && !storage->numel && has_storage;
	if (!ndim && !storage->numel)
		*out = make_tensor(r, storage->value, empty, 1);
	else
		*out = make_tensor(r, storage->value, rest, ndim);
	return *out ? 0 : ckpt_arena_fail(r->tt->arena, r->err);
}

int ckpt_tar_read_tensor(struct ckpt_tar_reader *r)
{
	const struct ckpt_torch_tar_entry *storage = NULL;
	const struct ckpt_value *const *items = NULL, *value = NULL;
	struct ckpt_torch_tar_entry *e = NULL;
	int rc =
		ckpt_tar_next_tuple(r, 3, "the key, the storage and the class of a tensor", &items);

	if (rc < 0)
		return rc;
	if (items[0]->kind != CKPT_INT)
		return ckpt_tar_wrong(r, "a number as key", items[0]);
	if (items[1]->kind == CKPT_NONE)
		rc = ckpt_tar_empty_storage(r, items[0]->u.integer, items[2], &storage);
	else
		storage = ckpt_tar_find_entry(r, items[1]);
	if (rc == 0 && (!storage || !storage->type))
		rc = ckpt_fail(r->err, CKPT_E_FORMAT,
			       "tensor %" PRId64 " is one of a storage that is not there",
			       items[0]->u.integer);
	if (rc == 0)
		rc = read_shape(r, storage, items[1]->kind != CKPT_NONE, &value);
	if (rc == 0)
		rc = ckpt_tar_add_entry(r, items[0], &e);
	if (rc == 0)
		e->value = value;
	return rc;
}
