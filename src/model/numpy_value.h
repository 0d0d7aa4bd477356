/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_NUMPY_VALUE_H
#define CKPT_MODEL_NUMPY_VALUE_H

#include "base/buf.h"
#include "model/model.h"

/* What the pickle of an array or a scalar of numpy says of it. */
struct ckpt_numpy {
	bool is_scalar;
	bool is_subclass; /* an array of another class than numpy.ndarray: matrix, memmap, one of the user's */
	enum ckpt_dtype dtype; /* UNKNOWN: text, records, objects, times */
	bool big_endian;
	/* numpy's own name of the dtype, "f8", in the pickle; UTF-8 of CODE_LEN bytes */
	const char *code;
	size_t code_len;
	uint32_t ndim;
	uint64_t shape[CKPT_MOST_DIMS], numel;
	uint8_t axes[CKPT_MOST_DIMS]; /* in what order they lie: that whose step is largest first (0, 1, 2 ... in the order of C) */
	const struct ckpt_value *data; /* for ckpt_numpy_bytes() */
};

/* 1: V is one, and OUT is filled; 0: it is not, or nothing that numpy could have written. */
int ckpt_numpy_parse(const struct ckpt_model *model, const struct ckpt_value *v,
		     struct ckpt_numpy *out);

/*
 * The items, as they are in the pickle: in the order of AXES, of its byte order. False: there are not as many bytes as there should be, or no memory.
 * They live as long as ARENA and the model.
 */
bool ckpt_numpy_bytes(const struct ckpt_model *model, const struct ckpt_numpy *numpy,
		      struct ckpt_arena *arena, const uint8_t **out);

/* Of each dimension, how many items are from one to the next. */
void ckpt_numpy_strides(const struct ckpt_numpy *numpy, uint64_t stride[CKPT_MOST_DIMS]);

/* The number of a scalar, little-endian: OUT has 16 bytes. False: it has none, or no memory. */
bool ckpt_numpy_scalar(const struct ckpt_model *model, const struct ckpt_numpy *numpy,
		       uint8_t *out);

/* "ndarray float64 [3, 4]", "numpy.float64 0.875". */
void ckpt_numpy_text(const struct ckpt_model *model, const struct ckpt_numpy *numpy,
		     struct ckpt_buf *out);

/* "ndarray", "float64" */
const char *ckpt_numpy_type(const struct ckpt_numpy *numpy);

#endif
