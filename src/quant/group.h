/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_QUANT_GROUP_H
#define CKPT_QUANT_GROUP_H

#include "base/strmap.h"
#include "model/model.h"
#include "quant/config.h"
#include "quant/dequant.h"

#include <ckpt/quant.h>
#include <ckpt/read.h>

/* What a tensor is of a quantized weight. */
enum ckpt_part_role {
	CKPT_PART_ITEMS,
	CKPT_PART_SCALES,
	CKPT_PART_ZEROS,
	CKPT_PART_GLOBAL, /* one scale for all scales */
	CKPT_PART_GROUPS, /* which group each column is of */
	CKPT_PART_SHAPE,  /* int64[2] */
	CKPT_PART_MAP,	  /* a table of numbers */
	CKPT_PART_NESTED_SCALES,
	CKPT_PART_NESTED_MAP,
	CKPT_PART_STATE, /* JSON, or a number that says the layout */
	CKPT_PART_ROLES,
	CKPT_PART_ACTIVATIONS, /* for activations: of no use without quantized weights */
	CKPT_PART_REFUSED, /* changes what the weight means, in a way that ckpt cannot carry out */
};

struct ckpt_quant_group;

/*
 * The name of a part: the front that all parts of a weight have in common, and TEXT. Of two that a name
 * ends with the longer one counts. "": the front alone. "*qdata": the front's last part begins and ends with "_", as "_w1_" of
 * "X._w1_qdata".
 */
struct ckpt_quant_suffix {
	const char *text;
	uint8_t role;
};

struct ckpt_quant_format {
	const char *name;			  /* as in <ckpt/quant.h> */
	const struct ckpt_quant_suffix *suffixes; /* the last one is all zero */
	/* scales without items beside them are another thing of the same name, unless they are float8_e8m0fnu */
	bool is_loose;
	/* May DTYPE be that of items called ".weight"? Without scales that is an error. */
	bool (*is_item)(enum ckpt_dtype dtype);
	/*
	 * Prove that dtypes and shapes fit. Sets weight, but for TO; shape, ndim, scheme and RESULT, which is appended to
	 * the front.
	 */
	int (*fill)(struct ckpt_quant_group *g, struct ckpt_error *err);
	/* Of a format whose metadata list the parts of each weight: is there anything that no group has? NULL: that is seen elsewhere. */
	int (*check_all)(struct ckpt_quant *q, struct ckpt_error *err);
};
extern const struct ckpt_quant_format ckpt_quant_formats[];
extern const size_t ckpt_quant_format_count;

/* A tensor under a text key of a mapping. */
struct ckpt_quant_entry {
	const struct ckpt_value *holder; /* as edited */
	uint32_t at;			 /* of its key among the pairs */
	uint32_t key_len;
	const char *key;
	const struct ckpt_tensor *t;
	struct ckpt_quant_group *group; /* that it is a part of, or NULL */
	bool dropped;
};

struct ckpt_quant_part {
	struct ckpt_quant_entry *entry; /* NULL: there is none */
	const char *suffix;
};

struct ckpt_quant_group {
	struct ckpt_quant *quant;
	const char *base; /* the common front of the keys */
	uint32_t base_len;
	struct ckpt_quant_part parts[CKPT_PART_ROLES];
	const char *result; /* suffix of the plain weight */
	const char *key;    /* of the plain weight */
	const char *name;   /* ... in the whole checkpoint */
	char scheme[80];
	uint64_t shape[CKPT_MOST_DIMS];
	uint32_t ndim;
	struct ckpt_quant_weight weight;
	/* a tensor that says all of it, wherever it stands, and has its parts inside; NULL: they stand beside each other */
	const struct ckpt_tensor *whole;
	const struct ckpt_value *holder; /* ... the attributes that they are among, or NULL */
	const char *
		listed; /* of one that the model does not list: what it lists the items as; or NULL */
	bool has_numbers; /* they are NUMBERS, float32, not what WEIGHT says */
	struct ckpt_recipe numbers;
	/* of ckpt_dequantize(): what stands under the key, where others have the value of the items; or NULL */
	const struct ckpt_value *instead;
};

struct ckpt_quant_names;

/* Releases that make other numbers of the same files, which `as` names. */
enum ckpt_quant_release {
	CKPT_QUANT_RELEASE_NEWEST,
	CKPT_QUANT_RELEASE_TORCHAO_0_17,  /* multiplies the two scales of NVFP4 in the dtype of the weight */
	CKPT_QUANT_RELEASE_AUTO_GPTQ_0_6, /* the highest zero point is 2 to the power of the bits, and not 0 */
};

struct ckpt_quant {
	const struct ckpt_model *model;
	struct ckpt_arena *arena;
	const struct ckpt_quant_format *format;
	struct ckpt_quant_config config;
	enum ckpt_dtype to;		  /* of the plain weights: some arithmetics ask */
	struct ckpt_quant_entry *entries; /* malloc, by holder */
	uint32_t entry_count, entry_cap;
	struct ckpt_quant_group **groups; /* malloc, in the order of their first part */
	uint32_t group_count, group_cap;
	struct ckpt_array **arrays; /* malloc, owned: what NUMBERS of groups read */
	uint32_t array_count, array_cap;
	const struct ckpt_tensor *placeless; /* a tensor of float8 or FP4 that is in no mapping with names, so that no scales can belong to it */
	bool parts_only;      /* tensors that say all on their own are not asked for */
	bool has_wrappers;    /* some of the groups are tensors of torchao */
	bool has_engine;      /* ... of Transformer Engine */
	enum ckpt_quant_release release; /* whose arithmetic was asked for */
	uint32_t unknown_count; /* tensors of classes that nothing here knows */
	const char **dropped;	/* malloc */
	struct ckpt_strmap
		metadata; /* of all files: address of a struct ckpt_quant_pair, for the formats that have it */
	const struct ckpt_quant_names *name_lists; /* arena: the lists of names in the metadata, one of each file */
	const char *renamed; /* arena: a name that the metadata have for another tensor, or not at all; NULL: none is known */
	const char **stale; /* arena: keys of metadata that tell the classes of tensors, sorted */
	uint32_t stale_count;
	uint32_t dropped_count, dropped_cap;
};

/* The tensor of ROLE, or NULL. */
static inline const struct ckpt_tensor *ckpt_quant_tensor(const struct ckpt_quant_group *g,
							  enum ckpt_part_role role)
{
	return g->parts[role].entry ? g->parts[role].entry->t : NULL;
}

/* A new group, which the list has. NULL: no memory. */
struct ckpt_quant_group *ckpt_quant_new_group(struct ckpt_quant *q, struct ckpt_error *err);

/* Add the tensors that say on their own how they are quantized. */
int ckpt_quant_add_tensors(struct ckpt_quant *q, struct ckpt_error *err);

/* Weights of dtype TO. */
int ckpt_quant_find(const struct ckpt_model *model, const struct ckpt_quant_options *options,
		    enum ckpt_dtype to, struct ckpt_quant **out, struct ckpt_error *err);

/* CKPT_E_FORMAT: "'X.weight_scale' is float32 [3, 2]: " and why that does not fit. */
int ckpt_quant_misfit(const struct ckpt_quant_group *g, enum ckpt_part_role role,
		      struct ckpt_error *err, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The bytes of the tensor of ROLE, one number behind the other; an empty recipe if there is none. */
int ckpt_quant_bytes(struct ckpt_quant_group *g, enum ckpt_part_role role, struct ckpt_recipe *out,
		     struct ckpt_error *err);

/*
 * The bytes of ROLE, read and compared with their checksum; at most MOST. *OUT is in the arena and ends
 * with a NUL.
 */
int ckpt_quant_read(struct ckpt_quant_group *g, enum ckpt_part_role role, size_t most,
		    const uint8_t **out, size_t *len, struct ckpt_error *err);

#endif
