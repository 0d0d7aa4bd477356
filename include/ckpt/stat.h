/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_STAT_H
#define CKPT_STAT_H

#include <ckpt/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Statistics of the values of tensors: minimum, maximum, mean, standard deviation, norm, how many are
 * zero, NaN or infinite, histograms and quantiles. Values are those that torch.load would show, whatever the
 * tensor is in the file: a view, big-endian, cut into the chunks of a DCP directory. Only what a
 * tensor shows of its storage counts.
 *
 *   complex    magnitudes, as numpy.abs() gives them; infinite if a part is, else NaN if a part is
 *   bool       0 and 1
 *   quantized  the numbers that they stand for
 *   sparse     only the values that are stored; for a nested tensor, its buffer
 *   wrappers   (DTensor) the local tensor in it
 *   bits*, float4_e2m1fn_x2   their bytes, as unsigned integers
 *
 * Counts are exact. Mean and standard deviation are those of the finite values, computed with more
 * digits than a double has and rounded at the end, to some 1e-15, even if values cancel each other
 * or lie close together far from zero. They do not depend on the number of threads. Sums and
 * squares of float64 beyond the range of a double are infinite or NaN, like numpy's.
 */
struct ckpt_stat;

struct ckpt_stat_options {
	size_t size;
	/* only names that match one of these, as for ckpt_pattern_new(); NULL: all */
	const char *const *patterns;
	size_t pattern_count;
	/* of the histograms, at most 4096; 0: none. They take a second read of everything. */
	uint32_t bins;
	uint32_t threads; /* that work at once; see "Threads" in ckpt.h */
	void (*progress)(void *ctx, uint64_t done, uint64_t total); /* bytes */
	void *progress_ctx;
	const volatile int *cancel; /* not 0: it ends; see "Threads" in ckpt.h */
	/* make groups of items by so many first parts of their names, or CKPT_DEPTH_MODULE; 0: none */
	uint64_t depth;
	/*
	 * Quantiles from 0 to 1, at most 32, of each item, group and total. What has more than 65,536
	 * values is read about six times more for them, the rest once or twice. NULL: none.
	 */
	const double *quantiles;
	size_t quantile_count;
	/*
	 * Only tensors that ckpt_tensor_get() calls NAME for which this is true are described, and no arrays: with
	 * ckpt_parts_of(), the parameters. NULL: all.
	 */
	bool (*takes)(void *ctx, const char *name);
	void *takes_ctx;
};
#define CKPT_STAT_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_stat_options) \
	}

/* Of one tensor, or of many. */
struct ckpt_stat_values {
	size_t size;
	uint64_t count;			  /* values: all of them. Counts stop at UINT64_MAX. */
	uint64_t nans, infinities, zeros; /* zeros: of any sign */
	double min, max; /* of the finite ones, as all that follows; NaN if there is none */
	double mean;
	double std;	  /* of the population (ddof=0), as numpy's default is */
	bool is_integer;  /* MIN and MAX are integers, and these are they, exactly: */
	bool is_unsigned; /* ... of which those of uint64 are the bits of a uint64_t */
	int64_t min_integer, max_integer;
	/*
	 * BIN_COUNT bins of the same width from LOW, which is MIN, to HIGH, which is MAX. Each
	 * includes its lower edge, the last one both, as numpy.histogram() counts. If all values
	 * are the same, LOW is 0.5 less and HIGH 0.5 more. NULL: none were wanted, or there are no
	 * finite values.
	 */
	const uint64_t *bins;
	uint32_t bin_count;
	double low, high;
	double norm;		 /* L2: the root of the sum of squares */
	double absmax;		 /* the larger of |MIN| and |MAX| */
	uint64_t absmax_integer; /* the same, exactly, if IS_INTEGER */
	/*
	 * Those that the options ask for, in that order: exact, as numpy.quantile() gives them of the
	 * values as float64, linear between two values. NULL: none were wanted, or there are no
	 * finite values.
	 */
	const double *quantiles;
	uint64_t quantile_count;
};
#define CKPT_STAT_VALUES_INIT \
	{ \
		.size = sizeof(struct ckpt_stat_values) \
	}

/* One tensor or numpy array. Strings and arrays live as long as the ckpt_stat and its model. */
struct ckpt_stat_item {
	size_t size;
	const char *name, *kind;    /* "tensor", "ndarray" */
	const char *dtype, *layout; /* as in ckpt_tensor_info; for numpy as in ckpt_array_info */
	uint32_t ndim;
	const uint64_t *shape;
	uint64_t nbytes; /* as in ckpt_tensor_info */
	/*
	 * Dimensions of what was counted: the tensor itself, the stored values of a sparse one, or
	 * the local tensor of a wrapper. NULL: see WHY_NOT.
	 */
	uint32_t looked_ndim;
	const uint64_t *looked_shape;
	/* index of the first NaN or infinity in these, in C order; UINT64_MAX: none */
	uint64_t first_not_finite;
	/*
	 * Why nothing was counted: there are no values (meta, uninitialized), or no known way to
	 * read them. Else NULL.
	 */
	const char *why_not;
	bool unreadable;   /* there are values, but they could not be read */
	bool is_magnitude; /* of complex numbers */
	/* in the totals; false: another one also shows all of its values (tied weights, a view) */
	bool counted;
	uint8_t reserved[5];
};
#define CKPT_STAT_ITEM_INIT \
	{ \
		.size = sizeof(struct ckpt_stat_item) \
	}

/*
 * Compute the statistics of all tensors and numpy arrays of MODEL whose names match, with several
 * threads. Memory does not grow with the bytes. The caller owns *OUT and gives it to
 * ckpt_stat_free() before closing MODEL. OPTIONS may be NULL.
 *
 * Returns 0, even if nothing matches; CKPT_E_ARG if a pattern is wrong; CKPT_E_FORMAT, CKPT_E_IO,
 * with the name of the tensor; CKPT_E_LIMIT; CKPT_E_CANCELLED; CKPT_E_NOMEM.
 */
CKPT_API int ckpt_stat_new(const struct ckpt_model *model, const struct ckpt_stat_options *options,
			   struct ckpt_stat **out, struct ckpt_error *err);

/* NULL is allowed. */
CKPT_API void ckpt_stat_free(struct ckpt_stat *stat);

/* Tensors in the order of the file, then numpy arrays. */
CKPT_API uint64_t ckpt_stat_count(const struct ckpt_stat *stat);

/* Item I and its values, 0 <= I < ckpt_stat_count(). Both may be NULL. Returns 0 or CKPT_E_ARG. */
CKPT_API int ckpt_stat_get(const struct ckpt_stat *stat, uint64_t i, struct ckpt_stat_item *item,
			   struct ckpt_stat_values *values);

/* Items taken together: all of them, and those of each dtype. */
struct ckpt_stat_total {
	size_t size;
	const char *dtype; /* NULL: all */
	uint64_t items;	   /* how many; values that several of them show are in the total once */
};
#define CKPT_STAT_TOTAL_INIT \
	{ \
		.size = sizeof(struct ckpt_stat_total) \
	}

/* 1, and one for each dtype, in the order in which they are met. */
CKPT_API uint64_t ckpt_stat_total_count(const struct ckpt_stat *stat);

/* Total I: 0 is that of all. Only that one has a histogram. Returns 0 or CKPT_E_ARG. */
CKPT_API int ckpt_stat_total_get(const struct ckpt_stat *stat, uint64_t i,
				 struct ckpt_stat_total *total, struct ckpt_stat_values *values);

/*
 * Items taken together whose names begin with the same parts, as ckpt_name_front() tells them.
 * Values that several items of a group show are in it once.
 */
struct ckpt_stat_group {
	size_t size;
	const char *name;    /* these parts; the whole name, if it has no more */
	const char *dtype;   /* NULL: several */
	uint64_t items;	     /* how many */
	uint64_t nbytes;     /* of these, those once that others show, too */
	uint64_t unreadable; /* items whose values could not be read, and are missing */
};
#define CKPT_STAT_GROUP_INIT \
	{ \
		.size = sizeof(struct ckpt_stat_group) \
	}

/* 0 if the options have no depth. In the order of their first items. */
CKPT_API uint64_t ckpt_stat_group_count(const struct ckpt_stat *stat);

/* Group I, with a histogram. Returns 0 or CKPT_E_ARG. */
CKPT_API int ckpt_stat_group_get(const struct ckpt_stat *stat, uint64_t i,
				 struct ckpt_stat_group *group, struct ckpt_stat_values *values);

#ifdef __cplusplus
}
#endif
#endif
