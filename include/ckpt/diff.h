/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_H
#define CKPT_DIFF_H

#include <ckpt/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What is different between two checkpoints, of any two formats. Values are compared that have the same name; tensors by
 * what they show, not by how they lie in the file: strides, views, shared storages, byte order and the order of keys make
 * no difference.
 */
enum ckpt_diff_flags {
	CKPT_DIFF_QUICK = 1 << 0, /* names, shapes, dtypes, devices: no byte of a tensor is read */
	CKPT_DIFF_READ = 1 << 1,  /* read all, whatever CKPT_DIFF_TRUST_CHECKSUMS says */
	/*
	 * Differences are also: other bits of an equal number (0 and -0), strides, the class of a tensor (Parameter) and
	 * requires_grad, the type of a container (dict, OrderedDict), the order of keys, `_metadata` that only one has.
	 */
	CKPT_DIFF_STRICT = 1 << 2,
	CKPT_DIFF_IGNORE_DEVICE = 1 << 3,
	CKPT_DIFF_IGNORE_DTYPE = 1 << 4, /* only the values count */
	/*
	 * Two storages with the same size and the same recorded CRC-32 count as equal, and are not read. That goes by what was written: a
	 * copy that was damaged later counts as the same, and so do two tensors in 2^32 that are not.
	 */
	CKPT_DIFF_TRUST_CHECKSUMS = 1 << 5,
};

struct ckpt_diff_options {
	size_t size;
	unsigned flags;
	uint32_t threads; /* that work at once; see "Threads" in ckpt.h */
	const char *const *keep, *const *drop; /* patterns over names; NULL: all, none */
	size_t keep_count, drop_count;
	double atol,
		rtol; /* |a - b| <= atol + rtol * |b| counts as equal, as for torch.allclose() */
	void (*progress)(void *ctx, uint64_t done, uint64_t total); /* bytes */
	void *progress_ctx;
	const volatile int *cancel; /* not 0: it ends; see "Threads" in ckpt.h */
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
	CKPT_DIFFERS_TYPE =
		1 << 0, /* "tensor" and "ndarray", "int" and "str", "dict" and "Namespace" */
	CKPT_DIFFERS_SHAPE = 1 << 1,
	CKPT_DIFFERS_DTYPE = 1 << 2,
	CKPT_DIFFERS_DEVICE = 1 << 3,
	CKPT_DIFFERS_LAYOUT = 1 << 4,	 /* strided, sparse_coo ... */
	CKPT_DIFFERS_QUANTIZER = 1 << 5, /* scale, zero point ... */
	CKPT_DIFFERS_VALUE = 1 << 6,
	CKPT_DIFFERS_ATTRIBUTES = 1 << 11, /* of a tensor: what a program set on it */
	CKPT_DIFFERS_KEYS = 1 << 12,	   /* which names do not tell apart: objects, 0 and "0" in one dict, very long ones */
	/* with CKPT_DIFF_STRICT only */
	CKPT_DIFFERS_BITS = 1 << 7,
	CKPT_DIFFERS_STRIDES = 1 << 8,
	CKPT_DIFFERS_CLASS = 1 << 9, /* or requires_grad */
	CKPT_DIFFERS_ORDER = 1 << 10,
};

/*
 * How far numbers are apart; a complex number counts as two. Of two dtypes both are made float64 first (or, if both are
 * integers, compared as such). A NaN is equal to a NaN. Sums are over the pairs of finite numbers.
 */
struct ckpt_diff_numbers {
	size_t size;
	uint64_t count;	    /* pairs */
	uint64_t differing; /* that are not equal */
	uint64_t outside;   /* ... by more than the tolerance */
	uint64_t
		other_bits; /* that are equal, and stored with other bits: 0 and -0, two kinds of NaN */
	uint64_t nan_appeared, nan_vanished, nan_both; /* NaN in B only, in A only, in both */
	uint64_t inf_appeared, inf_vanished;	       /* infinite in B only, in A only */
	double max_abs;				       /* |a - b|; infinite if one is */
	double max_rel; /* |a - b| / max(|a|, |b|): at most 2, or infinite */
	double rms;	/* sqrt(mean((a - b)^2)) */
	double change;	/* norm(a - b) / max(norm(a), norm(b)): at most 2 */
	double cosine;	/* of the angle between a and b; NaN if one of them is 0 */
	uint64_t
		max_ulp; /* most steps from a number of the dtype to the next that lie between a and b */
	bool has_ulp; /* both are of one floating dtype */
	bool has_numbers; /* false: bits, which have no value (bits8, float4_e2m1fn_x2): of them only COUNT to OUTSIDE */
	uint8_t reserved[6];
};

/* One side of a difference. Strings and arrays are valid during the call. */
struct ckpt_diff_side {
	const char *type; /* "tensor", "ndarray", "dict", "int" ... escaped */
	const char *
		text; /* of what has no numbers: the value as repr() shows it, shortened, escaped; else "" */
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
	const char *
		within; /* REMOVED, ADDED: all of the container of this name is; NULL: it is the outermost */
	unsigned what;			    /* CHANGED: enum ckpt_difference_what, one or several */
	const struct ckpt_diff_side *a, *b; /* NULL where it is not */
	const struct ckpt_diff_numbers *numbers; /* CHANGED, and they were compared; or NULL */
	const char *text;			 /* UNREADABLE: why, escaped */
	bool by_checksum;			 /* RENAMED: not read */
	uint8_t reserved[7];
};

/* Of values of one kind. */
struct ckpt_diff_counts {
	uint64_t same, changed, removed, added, renamed, unreadable;
};

struct ckpt_diff_report {
	size_t size;
	bool same;				  /* nothing is different, and all could be told */
	struct ckpt_diff_counts tensors;	  /* and arrays */
	struct ckpt_diff_counts values;		  /* all else that holds nothing */
	uint64_t by_checksum;			  /* of the same tensors: not read */
	uint64_t by_checksum_nbytes, read_nbytes; /* of one side; of both */
	uint64_t other_bits;			  /* tensors with the same numbers in other bits */
	uint64_t tolerated; /* tensors with other numbers, within the tolerance */
	/*
	 * If names that only one has become names that only the other has when this is taken off: which has it in front,
	 * 'a' or 'b', and of how many tensors that is so. 0: no.
	 */
	char prefixed;
	char prefix[240];
	uint64_t prefix_count;
	const char *unmatched; /* the first pattern that nothing matched, as given; or NULL */
	uint64_t other_keys; /* dicts that have numbers for keys on one side, and texts on the other: 0 and "0" */
};
#define CKPT_DIFF_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_diff_report) \
	}

/*
 * Compare B with A, and call FOUND for each difference: what is gone, what is new, tensors that are renamed; changed tensors
 * with the largest change first (NaN and infinity that came or went before all others, then what has another shape, then by
 * CHANGE), and those that nobody can read; then other values that changed. Tensors are renamed if A has one that B has not, and B one that A has not, with
 * the same dtype, shape and values.
 *
 * All bytes of both are read, unless FLAGS say otherwise: what is called the same is the same. ckpt_verify() tells if it is what was written.
 *
 * Memory does not grow with the tensors, but for sparse ones that are compared with others. Both models may be the same.
 *
 * Returns 0; a negative status of FOUND; CKPT_E_ARG for a bad pattern; CKPT_E_NOTFOUND if KEEP and DROP leave nothing of both; CKPT_E_IO;
 * CKPT_E_CHANGED; CKPT_E_CANCELLED; CKPT_E_NOMEM. OPTIONS, FOUND and REPORT may be NULL.
 */
CKPT_API int ckpt_diff(const struct ckpt_model *a, const struct ckpt_model *b,
		       const struct ckpt_diff_options *options,
		       int (*found)(void *ctx, const struct ckpt_difference *difference), void *ctx,
		       struct ckpt_diff_report *report, struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
