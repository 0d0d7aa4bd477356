/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_HF_INDEX_H
#define CKPT_SET_HF_INDEX_H

#include "base/arena.h"
#include "base/strmap.h"
#include "io/source.h"

/*
 * What `model.safetensors.index.json` says: {"metadata": {"total_size": 123, ...}, "weight_map":
 * {NAME: FILE, ...}}. Source: save_torch_state_dict() and _load_sharded_checkpoint() in
 * huggingface_hub/serialization/_torch.py, of 2.4.
 */

/* A tensor, and the number of the file it is in. */
struct ckpt_hf_entry {
	const char *name;
	size_t len;
	uint32_t file;
	bool found;	/* for the user */
	uint32_t alias; /* the first one, or UINT32_MAX */
};

/*
 * A name that shares the bytes of an entry, which alone is in a file: metadata say {NAME: that of
 * the entry}, as save_torch_state_dict() leaves it.
 */
struct ckpt_hf_alias {
	const char *name;
	size_t len;
	uint32_t next; /* another one of the entry, or UINT32_MAX */
};

/* What else the index says, at its root or in the metadata, but for total_size and aliases. */
struct ckpt_hf_other {
	const char *key, *json; /* JSON, with an indent of 2 */
	const char *text;	/* the value, if it is a text: it may be the name of a tensor; else NULL */
	bool in_metadata;
};

struct ckpt_hf_file {
	const char *name; /* relative to the index, checked to stay inside of its directory */
	uint64_t names;	  /* tensors that the index has there */
};

struct ckpt_hf_index {
	struct ckpt_arena *arena;      /* owned: texts */
	struct ckpt_hf_file *files;    /* malloc, sorted by name, numbers as numbers */
	struct ckpt_hf_entry *entries; /* malloc, in the order of the text */
	struct ckpt_strmap entry_by_name;
	struct ckpt_hf_alias *aliases; /* malloc */
	uint32_t file_count, entry_count, entry_cap, alias_count, alias_cap;
	bool has_total;
	double total_size; /* metadata.total_size; some writers have it as a float */
	struct ckpt_hf_other *others; /* malloc */
	uint32_t other_count, other_cap;
};

/*
 * To be cleared also on failure. Returns 0; CKPT_E_FORMAT with the place in the text; CKPT_E_LIMIT;
 * CKPT_E_IO; CKPT_E_NOMEM.
 */
int ckpt_hf_index_read(const struct ckpt_source *source, struct ckpt_hf_index *out,
		       struct ckpt_error *err);
void ckpt_hf_index_clear(struct ckpt_hf_index *index);

/* Is KEY one that metadata have for something else than an alias? */
bool ckpt_hf_index_is_taken(const char *key);

/* The same of a text in memory. */
int ckpt_hf_index_parse(const char *text, size_t len, struct ckpt_hf_index *out,
			struct ckpt_error *err);

/* Without an index the files say what is in them. The text is copied. */
int ckpt_hf_index_add_file(struct ckpt_hf_index *index, const char *name, struct ckpt_error *err);
int ckpt_hf_index_add_entry(struct ckpt_hf_index *index, const char *name, size_t len,
			    uint32_t file, struct ckpt_error *err);

/* NULL: it does not name that. */
struct ckpt_hf_entry *ckpt_hf_index_find(const struct ckpt_hf_index *index, const char *name,
					 size_t len);

#endif
