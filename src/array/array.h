/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ARRAY_ARRAY_H
#define CKPT_ARRAY_ARRAY_H

#include "model/numpy_value.h"
#include "tensor/byteswap.h"
#include "tensor/cast.h"
#include "tensor/items.h"
#include "tensor/negate.h"

#include <ckpt/read.h>

/* Numbers of a quantized tensor: (q - zero point) * scale. */
struct ckpt_dequantize {
	struct ckpt_map map;
	enum ckpt_dtype from; /* an integer type */
	bool per_channel, float_zero_points;
	uint64_t channels, inner; /* of the axis; items behind each other that have one channel */
	const double *scales, *zero_points; /* CHANNELS of each */
};

/* What is done to stored items, one after the other, until they are the values. */
union ckpt_array_step {
	struct ckpt_map map;
	struct ckpt_byteswap swap;
	struct ckpt_negate negate;
	struct ckpt_cast cast;
	struct ckpt_dequantize dequantize;
};

enum { CKPT_ARRAY_MOST_STEPS = 4 };

struct ckpt_array_part_value {
	const char *name;
	const struct ckpt_value *value; /* a tensor, or a list of numbers */
};

struct ckpt_array {
	struct ckpt_model *model; /* owned reference */
	struct ckpt_arena *arena; /* owned */
	unsigned flags;
	const char *name, *kind, *wrapped;
	struct ckpt_tensor t; /* of numpy's: what there is of it */
	const char *dtype;    /* by name: numpy has others than torch */
	enum ckpt_dtype reads;
	const char *why_not; /* it cannot be read; or NULL */
	struct ckpt_items items;
	union ckpt_array_step steps[CKPT_ARRAY_MOST_STEPS];
	uint32_t step_count;
	struct ckpt_array_part_value parts[CKPT_ARRAY_MOST_PARTS];
	uint32_t part_count;
	const char *qscheme;
	double scale;
	int64_t zero_point;
	uint32_t axis;
};

/* What LIKE has open and is named, with nothing in it yet. */
int ckpt_array_new(const struct ckpt_model *model, const char *name, unsigned flags,
		   struct ckpt_array **out, struct ckpt_error *err);

/* Say what V is: a tensor, or numpy's. */
int ckpt_array_fill(struct ckpt_array *array, const struct ckpt_value *v, struct ckpt_error *err);

/* Let ITEMS be those of a strided tensor, as they are stored. */
int ckpt_array_set_items(struct ckpt_array *array, const struct ckpt_tensor *t,
			 struct ckpt_error *err);

/* A new step at the end, to be filled. */
union ckpt_array_step *ckpt_array_add_step(struct ckpt_array *array);

/* Numbers that numpy does not have become others, if that was asked for. Sets READS. */
void ckpt_array_choose_dtype(struct ckpt_array *array, enum ckpt_dtype dtype);

/* Of T, a quantized one: what its integers mean, and how to get at them. RAW: they themselves. */
int ckpt_array_quantized(struct ckpt_array *array, const struct ckpt_seq *args, bool raw,
			 struct ckpt_error *err);

/*
 * Of a tensor that is quantized per channel: only the channels FIRST, FIRST + STEP ..., COUNT of them, with INNER
 * items behind each other that have one.
 */
int ckpt_array_slice_channels(struct ckpt_array *array, uint64_t first, int64_t step,
			      uint64_t count, uint64_t inner, struct ckpt_error *err);

/* The innermost rebuild call of a tensor: NULL if it has an odd form. */
const struct ckpt_seq *ckpt_tensor_args(const struct ckpt_model *model, const struct ckpt_value *v);

/* All items of the dense array that a sparse one is, to be freed. */
int ckpt_array_dense(const struct ckpt_array *array, uint8_t **out, struct ckpt_error *err);

/* Numbers of a small array as double: CKPT_E_FORMAT if they are not COUNT. */
int ckpt_array_doubles(const struct ckpt_array *array, double *out, uint64_t count,
		       struct ckpt_error *err);

/* Product of the shape; UINT64_MAX if it does not fit. */
uint64_t ckpt_array_numel(const struct ckpt_array *array);

/* Items between steps: IN and OUT have room for 16 bytes each. */
struct ckpt_array_buffers {
	uint8_t *in, *out;
};

/*
 * Do the steps to COUNT items in B->in, the first of them item FIRST. What they are then is in
 * B->in again.
 */
void ckpt_array_do_steps(const struct ckpt_array *array, struct ckpt_array_buffers *b,
			 uint64_t first, size_t count);

/* "'NAME' what ERR says", in place of what ERR says. Returns RC. */
int ckpt_array_fail_named(const struct ckpt_model *model, const char *name, int rc,
			  struct ckpt_error *err);

/* The values of V, which is called NAME; as ckpt_array_open(). */
int ckpt_array_open_value(const struct ckpt_model *model, const struct ckpt_value *v,
			  const char *name, unsigned flags, struct ckpt_array **out,
			  struct ckpt_error *err);

/* All items of a storage that stands in a checkpoint on its own. */
int ckpt_array_of_storage(const struct ckpt_model *model, int64_t storage, const char *name,
			  struct ckpt_array **out, struct ckpt_error *err);

/* The values as a recipe, for the mover; what it needs is kept in ARENA. Not of a sparse one. */
int ckpt_array_recipe(const struct ckpt_array *array, struct ckpt_arena *arena,
		      struct ckpt_recipe *out, struct ckpt_error *err);

#endif
