/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_DCP_DCP_H
#define CKPT_SET_DCP_DCP_H

#include "format/safetensors.h"
#include "format/torch_zip.h"
#include "set/dcp/index.h"
#include "tensor/assemble.h"

#include <pthread.h>
#include <time.h>

/* A data file of the directory. */
struct ckpt_dcp_file {
	const char *name, *path;    /* relative to the directory; and with it */
	struct ckpt_source *source; /* owned; NULL until it is needed */
	bool missing;
	uint64_t size, disk_bytes;
	unsigned mode;
	struct timespec mtime;
	dev_t dev;
	ino_t ino;
	/* of safetensors: its header, which is read when it is needed, and the names there */
	bool has_header;
	uint64_t header_off;
	struct ckpt_safetensors_header header;
	struct ckpt_strmap names;
};

/* A value that is no tensor: a torch.save file inside of a data file, decoded. */
struct ckpt_dcp_item {
	uint32_t entry;
	struct ckpt_torch_zip *tz;     /* owned; NULL where it holds no tensors */
	struct ckpt_source *source;    /* owned: the item; NULL likewise */
	struct ckpt_pickle pickle;     /* owned */
	uint8_t *pickle_bytes;	       /* owned */
	const struct ckpt_value *root; /* what stands for it in the nested state */
};

/* Where the bytes of a storage are: the chunks of a tensor, or a record of an item. */
struct ckpt_dcp_place {
	uint32_t entry;		       /* of a tensor; UINT32_MAX: */
	uint32_t item;		       /* ... of this item */
	struct ckpt_zip_entry *record; /* ... this one */
};

/* What torch.load and copying do with stored bytes: numbers turned around, signs turned. */
struct ckpt_dcp_finish {
	uint32_t swap; /* width of big-endian numbers; 0: little-endian ones */
	enum ckpt_dtype dtype;
	bool is_neg, is_conj;
};

/* A DCP directory; hangs on the document. */
struct ckpt_dcp {
	char *path; /* owned: the directory */
	struct ckpt_dcp_index index;
	struct ckpt_dcp_file *files; /* malloc: those of the index, by the same numbers */
	struct ckpt_dcp_item *items; /* malloc */
	uint32_t item_count;
	struct ckpt_arena *arena; /* owned: values that were made, blocks */
	/*
	 * by entry, malloc: what stands for it in the nested state; blocks of tensors that were
	 * opened
	 */
	const struct ckpt_value **values;
	const struct ckpt_tensor_block **blocks;
	/* malloc: by entry, what is left to do when its blocks are joined */
	struct ckpt_dcp_finish *finish;
	struct ckpt_dcp_place *places; /* malloc, by storage of the document */
	pthread_mutex_t lock;	       /* of what is opened later: sources, blocks, recipes */
	/* malloc, owned: compressed items of tensors that were opened */
	struct ckpt_source **unpacked;
	uint32_t unpacked_count, unpacked_cap;
	uint32_t missing_files, unreadable_items;
	bool ignores_checksums; /* of what is opened from now on */
	char first_unreadable[512]; /* why the first of them could not be read */
};

extern const struct ckpt_format ckpt_format_dcp;

static inline struct ckpt_dcp *ckpt_dcp_of(const struct ckpt_model *model)
{
	return model->doc->container;
}

/* The directory PATH with the index INDEX, its `.metadata`. */
int ckpt_dcp_open_index(const char *path, struct ckpt_source *index, struct ckpt_model **out,
			struct ckpt_error *err);

/* ---- the nested state (nest.c) ---- */

/*
 * Put what stands for each entry, dcp->values, into nested dicts and lists as the planner data say:
 * what torch's own converter makes of the directory. Ids from *NEXT_ID on.
 */
int ckpt_dcp_nest(struct ckpt_dcp *dcp, uint32_t *next_id, const struct ckpt_value **root,
		  struct ckpt_error *err);

/* ---- items (item.c) ---- */

/* Is it the one way to pack items that torch has, "stream.zstd/1"? */
bool ckpt_dcp_is_zstd(const char *transform);

/* The bytes of a chunk as they are in the data file, which is opened and kept. */
int ckpt_dcp_chunk_source(struct ckpt_dcp *dcp, const struct ckpt_dcp_entry *entry,
			  const struct ckpt_dcp_chunk *chunk, struct ckpt_source **out,
			  struct ckpt_error *err);

/* Under the lock, as all that opens files later. */
int ckpt_dcp_open_file(struct ckpt_dcp_file *file, struct ckpt_error *err);

/* ---- data files that are safetensors (safetensors.c) ---- */

/* Does such a file begin where the index has the item? Under the lock. */
bool ckpt_dcp_chunk_is_safetensors(struct ckpt_dcp *dcp, const struct ckpt_dcp_chunk *chunk);

/* Is the first item of any tensor in one? */
bool ckpt_dcp_has_safetensors(struct ckpt_dcp *dcp);

/* The part of a tensor that such a file has, checked against the index. Under the lock. */
int ckpt_dcp_safetensors_block(struct ckpt_dcp *dcp, const struct ckpt_dcp_entry *entry,
			       const struct ckpt_dcp_chunk *chunk, struct ckpt_tensor_block *out,
			       struct ckpt_error *err);

/* Decode the item of a value that is no tensor; its values get ids from *NEXT_ID on. */
int ckpt_dcp_read_item(struct ckpt_dcp *dcp, struct ckpt_dcp_item *item, uint32_t *next_id,
		       struct ckpt_error *err);

/* Close it as a file; its values stay. */
void ckpt_dcp_item_forget_file(struct ckpt_dcp_item *item);

/*
 * The chunks of a tensor, their items opened and checked against the index. Under the lock.
 * *OUT has as many blocks as *COUNT, empty chunks left out; it lives as long as DCP.
 */
int ckpt_dcp_blocks(struct ckpt_dcp *dcp, uint32_t entry, const struct ckpt_tensor_block **out,
		    uint64_t *count, struct ckpt_error *err);

/* The bytes of a box of the tensor, in C order. Lives as long as DCP. */
int ckpt_dcp_box_bytes(struct ckpt_dcp *dcp, uint32_t entry, const uint64_t *offset,
		       const uint64_t *shape, struct ckpt_recipe *out, struct ckpt_error *err);

#endif
