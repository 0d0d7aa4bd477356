/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_SAFETENSORS_WRITE_H
#define CKPT_FORMAT_SAFETENSORS_WRITE_H

#include "format/safetensors.h"
#include "io/patch.h"

/* A tensor that is to be written. */
struct ckpt_safetensors_item {
	const char *name;	  /* UTF-8, with a NUL after it */
	uint32_t name_len, order; /* ORDER: its place in the model */
	enum ckpt_safetensors_dtype dtype;
	const struct ckpt_value *value; /* of the model */
	struct ckpt_tensor t;		/* one made of numpy's numbers has no storage */
	uint64_t nbytes;		/* in the file */
	uint64_t begin;			/* in the data of the file; set when it is placed */
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
 * List the entries of MODEL's root. OPTIONS say what becomes of those that cannot be written,
 * and of tensors that share bytes. OUT is to be cleared, also on failure.
 *
 * CKPT_E_UNSUPPORTED: the root is no mapping, or has what cannot be written, or shared tensors.
 */
int ckpt_safetensors_list_make(const struct ckpt_model *model,
			       const struct ckpt_save_options *options,
			       struct ckpt_safetensors_list *out, struct ckpt_error *err);
void ckpt_safetensors_list_clear(struct ckpt_safetensors_list *list);

/* The part of that for tensors that share bytes, in safetensors_shared.c. */
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
	const struct ckpt_patch
		*replaced; /* the input, which the file replaces; NULL: it does not */
	/*
	 * The bytes of an item if they are not those of its value; what they need lives in
	 * ARENA. May be NULL.
	 */
	int (*bytes)(void *ctx, const struct ckpt_safetensors_item *item, struct ckpt_arena *arena,
		     struct ckpt_recipe *out, struct ckpt_error *err);
	void *ctx;
	struct ckpt_checks *checks; /* see ckpt_mover_options */
};

/*
 * Write the file to PATH as save_file() of the package does. Of OPTIONS it uses flags, progress and
 * cancel.
 */
int ckpt_safetensors_write(const struct ckpt_safetensors_out *out, const char *path,
			   const struct ckpt_save_options *options, struct ckpt_save_report *report,
			   struct ckpt_error *err);

/* Is the pair one of those in which torchao says of which class tensors are? */
bool ckpt_safetensors_is_class(const char *key, size_t key_len, const char *value, size_t len);

/*
 * Let these of PAIRS have the names that the tensors in LIST have now, and leave out those of tensors that it lacks.
 * CKPT_E_UNSUPPORTED: the parts of a tensor have names that do not belong together. (safetensors_classes.c)
 */
int ckpt_safetensors_rename_classes(const struct ckpt_model *model, struct ckpt_safetensors_list *list,
				    struct ckpt_safetensors_pair *pairs, uint32_t *count,
				    struct ckpt_error *err);

/*
 * The metadata of a file made of MODEL, in LIST's arena: those of the input, or, of a set, those that all its
 * files have alike, or that it is torch's; and the aliases of LIST. One of several files of a set (IN_SET) always
 * says that it is torch's, and has no aliases, which the index has.
 */
int ckpt_safetensors_metadata(const struct ckpt_model *model, struct ckpt_safetensors_list *list, bool in_set,
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
