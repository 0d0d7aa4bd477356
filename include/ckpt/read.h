/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_READ_H
#define CKPT_READ_H

#include <ckpt/model.h>
#include <ckpt/save.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The values of one tensor, or of a numpy array or scalar inside a pickle: what torch.load would
 * show, in C order, contiguous, in the byte order of this machine. It does not matter what the
 * tensor is in the file: a view with any strides, expanded, big-endian, compressed, conjugated or
 * negated, cut into the chunks of a DCP directory. Only the values that the caller asks for are
 * read (and, from a compressed record, what lies before them).
 *
 * An array keeps its model open. Several threads may call any function but ckpt_array_close() on
 * one array.
 */
struct ckpt_array;

enum ckpt_array_flags {
	/*
	 * Numbers that numpy has no dtype for are converted to one that it has, with the same
	 * value: bfloat16 and float8_* to float32, complex32 to complex64; bits* and
	 * float4_e2m1fn_x2, which have no arithmetic, become uint8 or uint16.
	 */
	CKPT_ARRAY_FOR_NUMPY = 1 << 0,
};

/*
 * The array called NAME, found as ckpt_find() finds it. A wrapper (DTensor) gives the local tensor
 * in it. The caller owns *OUT and gives it to ckpt_array_close().
 *
 * Returns 0; CKPT_E_NOTFOUND; CKPT_E_ARG if NAME names two things, or something that is neither a
 * tensor nor an array; CKPT_E_UNSUPPORTED for arrays of text, records and objects; CKPT_E_FORMAT;
 * CKPT_E_IO; CKPT_E_NOMEM. A tensor without values (meta, uninitialized) can be opened but not
 * read.
 */
CKPT_API int ckpt_array_find(const struct ckpt_model *model, const char *name, unsigned flags,
			     struct ckpt_array **out, struct ckpt_error *err);

/* The same for tensor I, 0 <= I < ckpt_tensor_count(). */
CKPT_API int ckpt_array_open(const struct ckpt_model *model, uint64_t i, unsigned flags,
			     struct ckpt_array **out, struct ckpt_error *err);

/*
 * One part of ARRAY as an array of its own. A sparse_coo tensor has "values" and "indices"; the
 * other sparse ones have "values" and either "crow_indices" and "col_indices" or "ccol_indices" and
 * "row_indices"; a quantized one has "int_repr", as torch calls it, and, if it is quantized per
 * channel, "scales" and "zero_points"; a nested one has "buffer", "sizes", "strides" and "offsets".
 * CKPT_E_NOTFOUND: it has no such part.
 */
CKPT_API int ckpt_array_part(const struct ckpt_array *array, const char *part,
			     struct ckpt_array **out, struct ckpt_error *err);

/*
 * Make ARRAY the part of it that numpy's basic indexing gives, of which TEXT is what stands between the brackets: integers,
 * slices and one ellipsis, "0:2, ::4", "-1", "..., ::-1". Only what is in the part is read afterwards. It has no
 * parts for ckpt_array_part(); a tensor that is quantized per channel has no qscheme then. No other thread may use ARRAY meanwhile.
 *
 * Returns 0; CKPT_E_ARG if TEXT is something else (None, a list, a mask), or has more dimensions than ARRAY;
 * CKPT_E_NOTFOUND for an integer beyond a dimension; CKPT_E_UNSUPPORTED for sparse and nested tensors, whose parts can be
 * taken, and for those that have no shape; CKPT_E_NOMEM. ARRAY is as it was if this fails.
 */
CKPT_API int ckpt_array_slice(struct ckpt_array *array, const char *text, struct ckpt_error *err);

/* NULL is allowed. */
CKPT_API void ckpt_array_close(struct ckpt_array *array);

enum { CKPT_ARRAY_MOST_PARTS = 4 };

/* One array. Strings and arrays are borrowed from it. */
struct ckpt_array_info {
	size_t size;
	const char *kind;  /* "tensor", "ndarray", "scalar" (numpy's) */
	const char *dtype; /* as torch or numpy names it: "float32", "bfloat16", "qint8" ... */
	/* dtype of what is read: the file's or CKPT_ARRAY_FOR_NUMPY's; "float32" if quantized */
	const char *reads;
	const char *layout;	/* as in ckpt_tensor_info */
	const char *device;	/* "" for numpy's arrays and scalars */
	const char *class_name; /* "Parameter", "DTensor" ...; NULL for a plain one */
	const char *wrapped; /* layout and shape are those of this class's local tensor; or NULL */
	uint32_t itemsize;   /* bytes of an item that is read */
	uint32_t ndim;
	const uint64_t *shape;
	uint64_t numel;	 /* UINT64_MAX: more */
	uint64_t nbytes; /* numel * itemsize; UINT64_MAX: more */
	bool readable;	 /* false: it has no values (meta, uninitialized), or no shape (nested) */
	const char *parts[CKPT_ARRAY_MOST_PARTS + 1]; /* for ckpt_array_part(); ends with NULL */
	/* only if it is quantized; else QSCHEME is NULL and the others mean nothing */
	const char *qscheme; /* "per_tensor_affine", "per_channel_affine" */
	double scale;	     /* per_tensor_affine */
	int64_t zero_point;
	uint32_t axis; /* per_channel_affine */
	uint32_t reserved;
};
#define CKPT_ARRAY_INFO_INIT \
	{ \
		.size = sizeof(struct ckpt_array_info) \
	}

/* Returns 0 or CKPT_E_ARG. */
CKPT_API int ckpt_array_get(const struct ckpt_array *array, struct ckpt_array_info *out);

/*
 * Copy COUNT items from item FIRST on, in C order, to BUF, which has COUNT * itemsize bytes. A
 * sparse tensor gives the items of the dense one, which each call makes in memory: at most 16 GiB.
 *
 * Returns 0; CKPT_E_ARG for items that do not exist; CKPT_E_UNSUPPORTED for an array that has no
 * values; CKPT_E_FORMAT; CKPT_E_IO; CKPT_E_LIMIT; CKPT_E_NOMEM.
 */
CKPT_API int ckpt_array_read(const struct ckpt_array *array, uint64_t first, uint64_t count,
			     void *buf, struct ckpt_error *err);

/*
 * Copy what numpy prints of a long array: from every dimension longer than 2 * EDGE, only the first
 * and the last EDGE. SHAPE, ndim numbers, gets the shape of that; BUF may be NULL to ask only for
 * the shape.
 */
CKPT_API int ckpt_array_read_edges(const struct ckpt_array *array, uint64_t edge, uint64_t *shape,
				   void *buf, struct ckpt_error *err);

/*
 * Write ARRAY, which was opened with CKPT_ARRAY_FOR_NUMPY, to PATH in the format of numpy.save():
 * version 1.0, C order, data at a multiple of 64 bytes. Of OPTIONS, only the flags
 * CKPT_SAVE_REPLACE, CKPT_SAVE_NO_SYNC and CKPT_SAVE_DRY_RUN, `progress` and `cancel` count; NULL:
 * none of them. The file appears when it is complete, as with ckpt_save(), and memory does not grow
 * with the array, unless it is sparse.
 *
 * Returns 0, what ckpt_save() returns, or what ckpt_array_read() returns. REPORT may be NULL.
 */
CKPT_API int ckpt_array_save_npy(const struct ckpt_array *array, const char *path,
				 const struct ckpt_save_options *options,
				 struct ckpt_save_report *report, struct ckpt_error *err);

/*
 * The value called NAME as Python's repr() shows it, in full: texts, numbers, and what containers
 * hold, with tensors and arrays by dtype and shape. PUT gets it piece by piece, safe to print; a
 * negative status stops and is returned. Values nested deeper than 8 levels, or after the first
 * 10000 items of a container, are only counted, and so is the content of all containers after the
 * first million.
 */
CKPT_API int ckpt_show(const struct ckpt_model *model, const char *name,
		       int (*put)(void *ctx, const char *text), void *ctx, struct ckpt_error *err);

/*
 * The value called NAME as one JSON value, in full. PUT gets it piece by piece, in ASCII and safe to print; a negative
 * status stops and is returned. Numbers, True, False and None are JSON's; integers beyond 64 bits with a sign, and what is not
 * finite, are strings. Lists, tuples and sets are arrays. A mapping is an object: keys that are numbers, True, False or None
 * become text, as in Python's json.dumps(). What JSON has no word for is an object whose first key begins with '$':
 *
 *	{"$dict": [[KEY, VALUE], ...]}	a mapping with other keys, with two that have the same text, or with one that begins with '$'
 *	{"$bytes": "00ff"}		in hex
 *	{"$tensor": "float32", "shape": [2, 3]}		without the numbers
 *	{"$ndarray": "float64", "shape": [4]}, {"$scalar": "U3", "shape": []}	of numpy, whose other scalars are numbers
 *	{"$global": "torch.float32"}	a class, a function, a constant
 *	{"$object": "argparse.Namespace", "args": [...], "items": [...], "pairs": [[...]], "state": ...}	of these, what there is
 *	{"$storage": "float32"}, {"$missing": null}, {"$extension": 7}
 *	{"$cycle": 1}			the container so many levels up: it contains itself
 *
 * Bytes of a text that are not UTF-8 become U+FFFD. CKPT_E_LIMIT if it is nested deeper than 100 levels, or has more than a million
 * containers, or more text than 64 MiB and 64 bytes for each byte of the pickle, where shared ones count as often as they are met.
 * Else as ckpt_find().
 */
CKPT_API int ckpt_show_json(const struct ckpt_model *model, const char *name,
			    int (*put)(void *ctx, const char *text), void *ctx,
			    struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
