/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_SAFETENSORS_WRITE_H
#define CKPT_FORMAT_SAFETENSORS_WRITE_H

#include "format/safetensors.h"
#include "io/patch.h"

/* A tensor that is to be written. */
struct ckpt_safetensors_item {
	const char *name;	  /* UTF-8, with a NUL behind */
	uint32_t name_len, order; /* order: of the model */
	enum ckpt_safetensors_dtype dtype;
	const struct ckpt_value *value; /* of the model */
	struct ckpt_tensor t; /* what it is; of one made of numpy's numbers without a storage */
	uint64_t nbytes;      /* of its items, in the file */
	uint64_t begin;	      /* of them, from the first byte of data: set when it is placed */
	const struct ckpt_safetensors_item
		*same; /* the one that is written for both; NULL: itself */
};

/* The entries of a state dict that a file of this format can hold. */
struct ckpt_safetensors_list {
	struct ckpt_arena *arena;	     /* owned: names, shapes */
	struct ckpt_safetensors_item *items; /* owned; in the order of the model */
	uint32_t count, cap;
	uint64_t others;	  /* entries that cannot be written */
	uint64_t cloned, aliased; /* tensors whose bytes another one has, too */
};

/*
 * List the entries of MODEL's root, and settle with OPTIONS what becomes of those that cannot be written, and of tensors that
 * share bytes. To be cleared, also on failure.
 *
 * CKPT_E_UNSUPPORTED: the root is no mapping, or has what cannot be written, or shared tensors.
 */
int ckpt_safetensors_list_make(const struct ckpt_model *model,
			       const struct ckpt_save_options *options,
			       struct ckpt_safetensors_list *out, struct ckpt_error *err);
void ckpt_safetensors_list_clear(struct ckpt_safetensors_list *list);

/* The second part of it, in safetensors_shared.c. */
int ckpt_safetensors_list_share(const struct ckpt_model *model, enum ckpt_shared shared,
				struct ckpt_safetensors_list *list, struct ckpt_error *err);

/* One file. */
struct ckpt_safetensors_out {
	const struct ckpt_model *model;
	struct ckpt_safetensors_item *const *items; /* none of them an alias; in any order */
	uint32_t count;
	const struct ckpt_safetensors_pair *metadata;
	uint32_t metadata_count;
	bool has_metadata;
	const struct ckpt_patch *held; /* the input, which the file replaces; NULL: it does not */
	/* The bytes of an item, if they are others than those of its value; what they need is kept in ARENA. Or NULL. */
	int (*bytes)(void *ctx, const struct ckpt_safetensors_item *item, struct ckpt_arena *arena,
		     struct ckpt_recipe *out, struct ckpt_error *err);
	void *ctx;
	struct ckpt_checks *checks; /* see ckpt_mover_options */
};

/* Write it to PATH, as save_file() of the package lays it out. OPTIONS: the flags, progress and cancel. */
int ckpt_safetensors_write(const struct ckpt_safetensors_out *out, const char *path,
			   const struct ckpt_save_options *options, struct ckpt_save_report *report,
			   struct ckpt_error *err);

/*
 * What the metadata of a file made of MODEL hold: those of its input, or that it is torch's, and the names of LIST that other
 * tensors stand for. Lives in LIST's arena.
 */
int ckpt_safetensors_metadata(const struct ckpt_model *model, struct ckpt_safetensors_list *list,
			      struct ckpt_safetensors_pair **out, uint32_t *count,
			      bool *has_metadata, struct ckpt_error *err);

/* CKPT_E_UNSUPPORTED: ITEM cannot be an alias, as its name is a key of the metadata already. */
int ckpt_safetensors_fail_taken(const struct ckpt_safetensors_item *item, struct ckpt_error *err);

int ckpt_safetensors_save(const struct ckpt_model *model, const char *path,
			  const struct ckpt_save_options *options, struct ckpt_save_report *report,
			  struct ckpt_error *err);
int ckpt_safetensors_save_in_place(const struct ckpt_model *model,
				   const struct ckpt_save_options *options,
				   struct ckpt_save_report *report, struct ckpt_error *err);

#endif
