/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tensors of a checkpoint are: parameters, buffers, an optimizer's; how much of each there
 * is, and what else makes its file larger than the model in it.
 */
#ifndef CKPT_PARTS_H
#define CKPT_PARTS_H

#include <ckpt/model.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ckpt_parts;

enum ckpt_part {
	CKPT_PART_PARAMETER, /* of a model, what is trained */
	CKPT_PART_BUFFER,    /* of a model, what is not */
	CKPT_PART_OPTIMIZER,
	CKPT_PART_COPY, /* another set of the parameters, with a name as averages of weights have: "ema" */
	CKPT_PART_OTHER, /* states of random numbers, counters of a trainer ... */
};
enum { CKPT_PARTS = 5 };

/* By what parameters and buffers are told apart: a set of bits. */
enum ckpt_parts_told_by {
	CKPT_TOLD_BY_PARAMETERS = 1 << 0, /* some tensors are torch.nn.Parameter, others are not */
	CKPT_TOLD_BY_PROGRAM = 1 << 1,	  /* the source in a TorchScript archive says it */
	CKPT_TOLD_BY_OPTIMIZER = 1 << 2,  /* by how many an optimizer has, and their shapes */
	CKPT_TOLD_BY_NAMES =
		1 << 3, /* buffers are running_mean, running_var, num_batches_tracked */
};

/*
 * Find out what each tensor of MODEL is. Nothing in a file says it for certain: see
 * ckpt_parts_told_by(). It reads metadata only. The caller owns *OUT and gives it to ckpt_parts_free()
 * before closing MODEL; several threads may use it. Returns 0, CKPT_E_NOMEM, or what reading the file
 * again gives if MODEL was opened with CKPT_OPEN_BRIEF.
 */
CKPT_API int ckpt_parts_new(const struct ckpt_model *model, struct ckpt_parts **out,
			    struct ckpt_error *err);

/* NULL is allowed. */
CKPT_API void ckpt_parts_free(struct ckpt_parts *parts);

/* What tensor I is, 0 <= I < ckpt_tensor_count(). */
CKPT_API enum ckpt_part ckpt_parts_of(const struct ckpt_parts *parts, uint64_t i);

/*
 * The tensor that counts for tensor I: itself, or another name of the same, such as that of a tied
 * weight. Tensors are the same if they show the same bytes of one storage.
 */
CKPT_API uint64_t ckpt_parts_counted(const struct ckpt_parts *parts, uint64_t i);

/* Bits of enum ckpt_parts_told_by; several if models of one file are told by different ones; 0: there is no model. */
CKPT_API unsigned ckpt_parts_told_by(const struct ckpt_parts *parts);

/* How much of one kind there is. What has several names (tied weights) is in here once. */
struct ckpt_part_size {
	size_t size;
	uint64_t tensors, elements,
		nbytes; /* NBYTES: as ckpt_tensor_info has it; UINT64_MAX: too many */
};
#define CKPT_PART_SIZE_INIT \
	{ \
		.size = sizeof(struct ckpt_part_size) \
	}

/* Returns 0 or CKPT_E_ARG. */
CKPT_API int ckpt_parts_get(const struct ckpt_parts *parts, enum ckpt_part part,
			    struct ckpt_part_size *out);

/* A value that holds a model, a copy of one, or an optimizer. Strings live as long as the parts. */
struct ckpt_part_place {
	size_t size;
	/*
	 * As ckpt_find() takes it; "" for the root. Of an optimizer whose tensors stand beside those of
	 * the model: a pattern for them.
	 */
	const char *name;
	/* of a model or a copy: the name of an earlier one whose tensors have the same names and shapes; NULL: there is none */
	const char *same_as;
	enum ckpt_part
		part;	  /* CKPT_PART_PARAMETER: parameters and buffers; else COPY or OPTIMIZER */
	unsigned told_by; /* of a model: see enum ckpt_parts_told_by */
	uint64_t tensors, elements, nbytes; /* as in struct ckpt_part_size */
};
#define CKPT_PART_PLACE_INIT \
	{ \
		.size = sizeof(struct ckpt_part_place) \
	}

CKPT_API uint64_t ckpt_part_place_count(const struct ckpt_parts *parts);

/* Place I, in the order of the file. Returns 0 or CKPT_E_ARG. */
CKPT_API int ckpt_part_place_get(const struct ckpt_parts *parts, uint64_t i,
				 struct ckpt_part_place *out);

enum ckpt_extra_kind {
	CKPT_EXTRA_UNSEEN, /* of storages of which tensors show a part: ckpt_compact() drops it */
	CKPT_EXTRA_OPTIMIZER, /* at PLACE: ckpt_select() drops it */
	CKPT_EXTRA_COPY,      /* the same */
	CKPT_EXTRA_TWIN, /* the same: a model with the names and shapes of another; both may be in use */
	CKPT_EXTRA_DEAD, /* gaps that edits in place left: any edit that writes a new file drops them */
	CKPT_EXTRA_UNUSED, /* storages that no tensor mentions: the same */
	CKPT_EXTRA_HEADERS, /* headers, padding and the like, of which there is more with more tensors */
};

/* Bytes of the file that are no parameters and no buffers. Strings live as long as the parts. */
struct ckpt_extra {
	size_t size;
	enum ckpt_extra_kind kind;
	uint32_t
		tensors; /* how many show too little, or are at PLACE; UINT32_MAX: that many or more */
	uint64_t nbytes;
	const char *place; /* see ckpt_part_place; of CKPT_EXTRA_UNSEEN: the tensor whose storage has most of it; NULL: it is not at one place */
	const char *same_as; /* of a copy: what it has the shapes of; NULL: unknown */
};
#define CKPT_EXTRA_INIT \
	{ \
		.size = sizeof(struct ckpt_extra) \
	}

/* Everything of that kind that has bytes, the largest first. Returns 0 or CKPT_E_ARG. */
CKPT_API uint64_t ckpt_extra_count(const struct ckpt_parts *parts);
CKPT_API int ckpt_extra_get(const struct ckpt_parts *parts, uint64_t i, struct ckpt_extra *out);

#ifdef __cplusplus
}
#endif
#endif
