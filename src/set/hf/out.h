/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_HF_OUT_H
#define CKPT_SET_HF_OUT_H

#include "base/buf.h"
#include "format/safetensors_write.h"
#include "set/hf/pack.h"

/* A shard set being made. */

/* A tensor of it. */
struct ckpt_hf_tensor {
	const char *name; /* UTF-8, of LEN bytes */
	size_t len;
	const struct ckpt_value *key, *value; /* of a pickle */
	struct ckpt_safetensors_item *item;   /* of a safetensors file */
	uint64_t elements;
};

struct ckpt_hf_out {
	const struct ckpt_model *model;
	const struct ckpt_save_options *o;
	bool safetensors; /* else pickles */
	struct ckpt_safetensors_list list;
	struct ckpt_hf_tensor *tensors; /* malloc, and by the same numbers: */
	struct ckpt_hf_item *items;	/* malloc */
	uint32_t count, cap;
	uint64_t others; /* entries that were left out */
	struct ckpt_hf_packing packing;
	/* "model", ".safetensors", "model.safetensors.index.json" */
	char stem[256], rest[64], index_name[360];
};

/* The name of a file, to be freed; NULL: no memory. One file alone has no number. */
char *ckpt_hf_out_name(const struct ckpt_hf_out *out, uint32_t shard);

/* Names as the hub library gives them, or those of the input, if that is a set of the same kind. */
void ckpt_hf_out_choose_names(struct ckpt_hf_out *out);

/*
 * The limit for a set that is edited: what is in the largest file of the input, single tensors left
 * out.
 */
uint64_t ckpt_hf_out_limit(const struct ckpt_model *model);

/* List the tensors of the model's root, and what they count when they are dealt out. */
int ckpt_hf_out_list(struct ckpt_hf_out *out, struct ckpt_error *err);

/* Of all tensors, once they are listed. *AS_INPUT: the set that they came from has as many. */
uint64_t ckpt_hf_out_elements(const struct ckpt_hf_out *out, bool *as_input);

/*
 * The index, as json.dump(indent=2) of Python writes it. What that of the input says besides stays; sizes
 * and numbers of parameters are those of the output.
 */
int ckpt_hf_out_index(const struct ckpt_hf_out *out, struct ckpt_buf *text, struct ckpt_error *err);

/* Of JSON, in ASCII alone, as Python's json.dumps() writes it. S is UTF-8. */
void ckpt_hf_add_string(struct ckpt_buf *text, const char *s, size_t len);

void ckpt_hf_out_clear(struct ckpt_hf_out *out);

/*
 * ckpt_save() with options->shard_size, or of a set; ckpt_format.save. REPORT: bytes of all files
 * together.
 */
int ckpt_hf_save(const struct ckpt_model *model, const char *path,
		 const struct ckpt_save_options *options, struct ckpt_save_report *report,
		 struct ckpt_error *err);

/*
 * The same with options->ranks: a file for every rank that has a part of a tensor, as
 * HuggingFaceStorageWriter of torch leaves them. Tensors are cut as in a new DCP directory.
 */
int ckpt_hf_save_split(const struct ckpt_model *model, const char *path,
		       const struct ckpt_save_options *options, struct ckpt_save_report *report,
		       struct ckpt_error *err);

#endif
