/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tensors are, in three steps: a walk gives each its place (places.c), the tensors of places that hold
 * models are told apart (tell.c), and bytes are counted, once however many names they have (sizes.c).
 * extras.c lists what of the file is no model.
 *
 * What must stay true: time grows with the number of tensors, times its logarithm where many share a
 * storage; a hostile file may have as many places as tensors.
 */
#ifndef CKPT_PARTS_PARTS_H
#define CKPT_PARTS_PARTS_H

#include "base/strmap.h"
#include "model/model.h"

#include <ckpt/parts.h>

/* What holds tensors. */
enum ckpt_holder_kind {
	CKPT_HOLDS_SOME,  /* a list, or a mapping of other things too */
	CKPT_HOLDS_STATE, /* a state dict: nothing but tensors */
	CKPT_HOLDS_MODULE,
};

struct ckpt_parts_place {
	const char *name;
	size_t inner; /* where names of its tensors go on behind its own */
	enum ckpt_holder_kind kind;
	enum ckpt_part part;
	bool looks_like_copy, is_weights;
	unsigned told_by;
	int64_t same_as; /* a place; -1 */
	uint64_t tensors, elements, nbytes;
	uint32_t first, listed; /* its tensors are order[FIRST], LISTED of them */
};

struct ckpt_parts_tensor {
	uint32_t place;
	uint32_t
		counted; /* the tensor that counts for it: itself, or the same one under another name */
	uint8_t part;
	bool is_said;	   /* a TorchScript class says PART */
	bool is_parameter; /* it, or another name of the same, is a Parameter */
	bool is_beside;	   /* an optimizer's, but not of its state or groups: it stands beside one */
};

struct ckpt_parts {
	const struct ckpt_model *model;
	struct ckpt_arena *arena;
	struct ckpt_parts_tensor *tensors; /* malloc; of the model, in its order */
	uint32_t *order;		   /* malloc: tensors by place */
	uint32_t tensor_count;		   /* that the walk met: all of the model's */
	struct ckpt_parts_place *places;   /* malloc */
	uint32_t place_count, place_cap;
	struct ckpt_strmap by_name[2]; /* places: others, optimizers */
	uint32_t *shown;	       /* malloc: places of models, copies and optimizers */
	uint32_t shown_count;
	struct ckpt_part_size sizes[CKPT_PARTS];
	struct ckpt_parts_view *shared; /* malloc: see sizes.c */
	uint32_t shared_count;
	uint64_t unseen;  /* bytes that no tensor shows, of storages of which some show a part */
	uint32_t partial; /* tensors in such storages */
	uint64_t most_unseen; /* in one storage; 0: there is none */
	uint32_t most_unseen_at; /* a tensor in it */
	struct ckpt_extra *extras; /* malloc */
	uint32_t extra_count, extra_cap;
};

/* Give every tensor its place, and say which an optimizer's are. */
int ckpt_parts_find_places(struct ckpt_parts *parts, struct ckpt_error *err);

/* Find what has several names, and bytes that no tensor shows. The places are known. */
int ckpt_parts_find_shared(struct ckpt_parts *parts, struct ckpt_error *err);

/* Say what the others are. Then everything is known that sizes need. */
int ckpt_parts_tell(struct ckpt_parts *parts, struct ckpt_error *err);

/* Add up sizes. */
void ckpt_parts_add_up(struct ckpt_parts *parts);

int ckpt_parts_list_extras(struct ckpt_parts *parts, struct ckpt_error *err);

/* Behind the last dot. */
const char *ckpt_parts_last_of(const char *name);

static inline uint64_t ckpt_parts_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

#endif
