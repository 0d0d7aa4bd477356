/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences between two checkpoints, of any two formats.
 *
 * Values of the same name are compared; tensors by what they show, not by how they lie in the file:
 * strides, views, shared storages, byte order and the order of keys make no difference.
 *
 * What must stay true: what is called the same is the same. All bytes of both are read for that,
 * unless the caller's flags say otherwise, and what cannot be read is CKPT_DIFFERENCE_UNREADABLE,
 * never equal.
 */
#ifndef CKPT_DIFF_H
#define CKPT_DIFF_H

#include <ckpt/model.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ckpt_diff_flags {
	CKPT_DIFF_QUICK = 1 << 0, /* names, shapes, dtypes, devices: read no byte of a tensor */
	CKPT_DIFF_READ = 1 << 1,  /* read all, whatever CKPT_DIFF_TRUST_CHECKSUMS says */
	/*
	 * These also are differences: other bits of an equal number (0 and -0), strides, the class
	 * of a tensor (Parameter) and requires_grad, the type of a container (dict, OrderedDict),
	 * the order of keys, `_metadata` that only one has.
	 */
	CKPT_DIFF_STRICT = 1 << 2,
	CKPT_DIFF_IGNORE_DEVICE = 1 << 3,
	CKPT_DIFF_IGNORE_DTYPE = 1 << 4, /* only the values count */
	/*
	 * Two storages of the same size and the same recorded CRC-32 count as equal and are not
	 * read. The checksum is that of what was written: a copy that was damaged later counts as
	 * the same, and so do two different tensors in 2^32.
	 */
	CKPT_DIFF_TRUST_CHECKSUMS = 1 << 5,
};

/* In which order changed tensors are given; of equal ones the first in A. */
enum ckpt_diff_order {
	/*
	 * NaNs and infinities that appeared or vanished, then other shapes, then values without
	 * numbers, then the largest CHANGE of ckpt_diff_numbers first
	 */
	CKPT_DIFF_BY_CHANGE,
	CKPT_DIFF_BY_RMS,  /* the same, but by RMS */
	CKPT_DIFF_BY_NAME, /* byte by byte */
};

struct ckpt_diff_options {
	size_t size;
	unsigned flags;
	uint32_t threads;		       /* that work at once; see "Threads" in ckpt.h */
	const char *const *keep, *const *drop; /* patterns over names; NULL: all, none */
	size_t keep_count, drop_count;
	/* |a - b| <= atol + rtol * |b| counts as equal, as for torch.allclose() */
	double atol, rtol;
	void (*progress)(void *ctx, uint64_t done, uint64_t total); /* bytes */
	void *progress_ctx;
	const volatile int *cancel; /* not 0: it ends; see "Threads" in ckpt.h */
	/*
	 * Are the numbers of the tensor that ckpt_tensor_get() calls NAME in A compared? If not its shape, dtype and the like are, and no byte
	 * of it is read. NULL: those of all are.
	 */
	bool (*reads)(void *ctx, const char *name);
	void *reads_ctx;
	uint32_t order; /* enum ckpt_diff_order */
	uint8_t reserved[4];
	/*
	 * Only tensors that ckpt_tensor_get() calls NAME for which this is true are compared, and no other values: with
	 * ckpt_parts_of(), the parameters. It is called for those of A and of B. NULL: all.
	 */
	bool (*takes)(void *ctx, const char *name);
	void *takes_ctx;
};
#define CKPT_DIFF_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_diff_options) \
	}

enum ckpt_difference_kind {
	CKPT_DIFFERENCE_REMOVED,    /* only A has it */
	CKPT_DIFFERENCE_ADDED,	    /* only B has it */
	CKPT_DIFFERENCE_RENAMED,    /* a tensor of A that B has under another name */
	CKPT_DIFFERENCE_CHANGED,    /* both have it */
	CKPT_DIFFERENCE_UNREADABLE, /* nobody can tell */
};

enum ckpt_difference_what {
	/* "tensor" and "ndarray", "int" and "str", "dict" and "Namespace" */
	CKPT_DIFFERS_TYPE = 1 << 0,
	CKPT_DIFFERS_SHAPE = 1 << 1,
	CKPT_DIFFERS_DTYPE = 1 << 2,
	CKPT_DIFFERS_DEVICE = 1 << 3,
	CKPT_DIFFERS_LAYOUT = 1 << 4,	 /* strided, sparse_coo ... */
	CKPT_DIFFERS_QUANTIZER = 1 << 5, /* scale, zero point ... */
	CKPT_DIFFERS_VALUE = 1 << 6,
	CKPT_DIFFERS_ATTRIBUTES = 1 << 11, /* of a tensor: what a program set on it */
	/* keys that names do not tell apart: objects, 0 and "0" in one dict, very long ones */
	CKPT_DIFFERS_KEYS = 1 << 12,
	/* with CKPT_DIFF_STRICT only */
	CKPT_DIFFERS_BITS = 1 << 7,
	CKPT_DIFFERS_STRIDES = 1 << 8,
	CKPT_DIFFERS_CLASS = 1 << 9, /* or requires_grad */
	CKPT_DIFFERS_ORDER = 1 << 10,
};

/*
 * How far apart numbers are. A complex number counts as two. If the dtypes differ, both sides are
 * converted to float64 first (or, if both are integers, compared as such). A NaN equals a NaN. Sums
 * are over the pairs of finite numbers.
 */
struct ckpt_diff_numbers {
	size_t size;
	uint64_t count;	    /* pairs */
	uint64_t differing; /* pairs that are not equal */
	uint64_t outside;   /* ... by more than the tolerance */
	/* equal pairs that are stored with other bits: 0 and -0, two kinds of NaN */
	uint64_t other_bits;
	uint64_t nan_appeared, nan_vanished, nan_both; /* NaN in B only, in A only, in both */
	uint64_t inf_appeared, inf_vanished;	       /* infinite in B only, in A only */
	double max_abs;				       /* |a - b|; infinite if one is */
	double max_rel; /* |a - b| / max(|a|, |b|): at most 2, or infinite */
	double rms;	/* sqrt(mean((a - b)^2)) */
	double change;	/* norm(a - b) / max(norm(a), norm(b)): at most 2 */
	double cosine;	/* of the angle between a and b; NaN if one of them is 0 */
	/* most steps from one number of the dtype to the next that lie between a and b */
	uint64_t max_ulp;
	bool has_ulp; /* both are of one floating dtype */
	/*
	 * false: the dtype is bits without a value (bits8, float4_e2m1fn_x2), and only the members
	 * from COUNT to OUTSIDE are filled in
	 */
	bool has_numbers;
	uint8_t reserved[6];
	/*
	 * Of the pairs of finite numbers: how many, norm(a - b), norm(a), norm(b). With these,
	 * figures of several tensors can be computed for all of them together.
	 */
	uint64_t finite;
	double norm_diff, norm_a, norm_b;
};

/* One side of a difference. Strings and arrays are valid during the call. */
struct ckpt_diff_side {
	const char *type; /* "tensor", "ndarray", "dict", "int" ... escaped */
	/* for what has no numbers: the value as repr() shows it, shortened, escaped; else "" */
	const char *text;
	bool is_array;			     /* what follows is known */
	const char *dtype, *device, *layout; /* as in ckpt_tensor_info */
	const char *class_name;		     /* "Parameter" ... or NULL */
	uint32_t ndim;
	const uint64_t *shape;
	uint64_t nbytes; /* of its items */
};

struct ckpt_difference {
	size_t size;
	enum ckpt_difference_kind kind;
	const char *name;	/* raw bytes, as in ckpt_item */
	const char *other_name; /* RENAMED: in B */
	/* REMOVED, ADDED: the whole container of this name is; NULL: this is the outermost */
	const char *within;
	unsigned what;			    /* CHANGED: enum ckpt_difference_what, one or several */
	const struct ckpt_diff_side *a, *b; /* NULL on the side that does not have it */
	const struct ckpt_diff_numbers *numbers; /* CHANGED, if they were compared; or NULL */
	const char *text;			 /* UNREADABLE: why, escaped */
	bool by_checksum;			 /* RENAMED: not read */
	/*
	 * It belongs to an optimizer, as the keys beside it tell (exp_avg, param_groups ...), and
	 * other tensors than an optimizer's are compared, too.
	 */
	bool of_optimizer;
	bool is_counter; /* a tensor of one integer, on both sides: num_batches_tracked ... */
	uint8_t reserved[5];
};

/* Of values of one kind. */
struct ckpt_diff_counts {
	uint64_t same, changed, removed, added, renamed, unreadable;
};

struct ckpt_diff_report {
	size_t size;
	bool same;				  /* nothing is different, and all was decided */
	struct ckpt_diff_counts tensors;	  /* and arrays */
	struct ckpt_diff_counts values;		  /* all other values that hold nothing */
	uint64_t by_checksum;			  /* of the same tensors: not read */
	uint64_t by_checksum_nbytes, read_nbytes; /* of one side; of both */
	uint64_t other_bits;			  /* tensors with the same numbers in other bits */
	uint64_t tolerated; /* tensors with other numbers, within the tolerance */
	/*
	 * A prefix whose removal turns names that only one side has into names that only the other
	 * has: which side has it, 'a' or 'b' (0: there is none), and for how many tensors.
	 */
	char prefixed;
	char prefix[240];
	uint64_t prefix_count;
	const char *unmatched; /* the first pattern that matched nothing, as given; or NULL */
	/* dicts whose keys are numbers on one side and strings on the other: 0 and "0" */
	uint64_t other_keys;
};
#define CKPT_DIFF_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_diff_report) \
	}

/*
 * Compare B with A, and call FOUND for each difference, in this order: what was removed; what was
 * added; renamed tensors; changed tensors, an optimizer's behind all others and counters last,
 * within these in the order of the options; unreadable tensors; then other values that changed. A tensor is renamed if only A has its name, and B has a tensor of the
 * same dtype, shape and values under a name that A does not have.
 *
 * All bytes of both are read, unless FLAGS say otherwise: what is called the same is the same.
 * Whether it is what was written is a question for ckpt_verify().
 *
 * Memory does not grow with the tensors, except for sparse ones that are compared with others. A
 * and B may be the same model.
 *
 * Returns 0; a negative status of FOUND; CKPT_E_ARG for a bad pattern; CKPT_E_NOTFOUND if KEEP and
 * DROP leave nothing of both; CKPT_E_IO; CKPT_E_CHANGED; CKPT_E_CANCELLED; CKPT_E_NOMEM. OPTIONS,
 * FOUND and REPORT may be NULL.
 */
CKPT_API int ckpt_diff(const struct ckpt_model *a, const struct ckpt_model *b,
		       const struct ckpt_diff_options *options,
		       int (*found)(void *ctx, const struct ckpt_difference *difference), void *ctx,
		       struct ckpt_diff_report *report, struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
