/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_HF_HF_H
#define CKPT_SET_HF_HF_H

#include "format/format.h"
#include "set/hf/index.h"
#include "set/listing.h"

/*
 * Shard sets as Hugging Face's libraries write them: model-00001-of-00003.safetensors or
 * pytorch_model-00001-of-00003.bin, and an index that says which tensor is in which file. One state
 * dict is spread over the files.
 */

/* Where the bytes of a storage are: that storage of that file, or what is made of several. */
struct ckpt_hf_place {
	uint32_t shard, storage;
	const struct ckpt_recipe *made;
};

/* Hangs on the document. */
struct ckpt_hf {
	char *path;	  /* owned: the directory */
	char *index_name; /* owned: of the file in it; NULL: there is none */
	struct ckpt_hf_index index;
	struct ckpt_model **shards;   /* malloc, owned: by the files of the index */
	struct ckpt_hf_place *places; /* malloc: by storage of the document */
	uint32_t place_count, place_cap;
	bool is_sharded;			/* the files have parts of tensors */
	uint64_t storage_nbytes, tensor_nbytes; /* of storages, each once; of tensors */
	/* for those who ask in what state it is */
	uint64_t unnamed; /* tensors that the index does not name */
	char first_unnamed[256];
};

extern const struct ckpt_format ckpt_format_hf;

static inline struct ckpt_hf *ckpt_hf_of(const struct ckpt_model *model)
{
	return model->doc->container;
}

/* What a directory has of it: one of the four, or nothing. Names are the listing's. */
struct ckpt_hf_found {
	const char *index;    /* the index of a set */
	const char *single;   /* a file that is all of a model */
	const char *numbered; /* one of the files of a set without an index */
	const char *sharded;  /* one of those that have parts of tensors */
};
bool ckpt_hf_find(const struct ckpt_listing *listing, struct ckpt_hf_found *out);

/* Is NAME, of a file, one of an index? */
bool ckpt_hf_is_index_name(const char *name);

/* ... or of an index, or of a file that is all of a model? */
bool ckpt_hf_is_model_name(const char *name);

/* The set in the directory PATH with what was FOUND there. */
int ckpt_hf_open(const char *path, const struct ckpt_listing *listing,
		 const struct ckpt_hf_found *found, struct ckpt_model **out,
		 struct ckpt_error *err);

/* Do the numbers in the names of its files fit together? */
int ckpt_hf_check_numbers(const struct ckpt_hf_index *index, struct ckpt_error *err);

/* Are all files there? What is in those that are not is counted. */
int ckpt_hf_check_files(const struct ckpt_hf *hf, struct ckpt_error *err);

/* Is every tensor of the index in its file? After all files were read. */
int ckpt_hf_check_found(const struct ckpt_hf_index *index, struct ckpt_error *err);

/* The state dict of all files. */
int ckpt_hf_make_values(struct ckpt_document *doc, struct ckpt_error *err);

/* The same where the files have parts of tensors. */
int ckpt_hf_join_values(struct ckpt_document *doc, struct ckpt_error *err);

/* What is odd about the directory (ckpt_format.notes). */
int ckpt_hf_check_directory(const struct ckpt_model *model,
			    void (*note)(void *ctx, const char *text), void *ctx,
			    struct ckpt_error *err);

#endif
