/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_JOINED_H
#define CKPT_SET_JOINED_H

#include "base/strmap.h"
#include "model/model.h"
#include "set/cover.h"
#include "set/placement.h"
#include "tensor/assemble.h"

/* A tensor that is put together from the parts that ranks have of it. */
struct ckpt_joined {
	struct ckpt_arena *arena; /* borrowed: of what is kept */
	const char *const *files; /* for messages: where parts are, by their number */
	uint32_t ndim;
	struct ckpt_tensor_block *blocks; /* malloc */
	struct ckpt_box *boxes;	   /* malloc: the same, to check what they cover */
	uint32_t count, cap;
	struct ckpt_strmap places; /* of which box there is a block */
};

/* Take nothing: there is only something to clear once a block was added. */
struct ckpt_joined ckpt_joined_of(struct ckpt_arena *arena, const char *const *files,
				  uint32_t ndim);
void ckpt_joined_clear(struct ckpt_joined *joined);

/*
 * A plain tensor of MODEL, the local part of a rank, and its bytes. Returns 0; CKPT_E_UNSUPPORTED
 * if it is none; what ckpt_tensor_parse() returns.
 */
int ckpt_joined_local(const struct ckpt_model *model, const struct ckpt_value *value,
		      struct ckpt_arena *arena, struct ckpt_tensor *out, struct ckpt_recipe *bytes,
		      struct ckpt_error *err);

/*
 * The part of LOCAL that begins at LOCAL_OFFSET, NULL: at its first item, as the box of SHAPE at
 * OFFSET in the whole. A replica of a block that is there is left out, and so is a box without
 * items.
 */
int ckpt_joined_add(struct ckpt_joined *joined, uint32_t file, const struct ckpt_tensor *local,
		    const struct ckpt_recipe *bytes, const uint64_t *local_offset,
		    const uint64_t *offset, const uint64_t *shape, struct ckpt_error *err);

/* All of LOCAL, which has to have the shape that EXTENTS have, at the places they say. */
int ckpt_joined_add_extents(struct ckpt_joined *joined, uint32_t file,
			    const struct ckpt_tensor *local, const struct ckpt_recipe *bytes,
			    const struct ckpt_mesh_extent *extents, struct ckpt_error *err);

/*
 * The bytes of the whole, in C order. CKPT_E_FORMAT: the blocks leave a hole in SHAPE, or overlap.
 */
int ckpt_joined_bytes(const struct ckpt_joined *joined, const uint64_t *shape,
		      enum ckpt_dtype dtype, struct ckpt_recipe *out, struct ckpt_error *err);

/* A storage of TO's own, whose bytes MADE describes. */
int ckpt_joined_store(struct ckpt_model *to, enum ckpt_dtype dtype, const char *location,
		      const struct ckpt_recipe *made, uint32_t *storage, struct ckpt_error *err);


/* The DTensorSpec of a DTensor, which a rank saved as it is. NULL: it has none. */
const struct ckpt_value *ckpt_joined_spec(const struct ckpt_model *model,
					  const struct ckpt_tensor *t);

#endif
