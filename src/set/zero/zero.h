/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_ZERO_ZERO_H
#define CKPT_SET_ZERO_ZERO_H

#include "format/format.h"
#include "set/listing.h"
#include "set/zero/stream.h"

#include <pthread.h>

/*
 * Directories of DeepSpeed: `latest` names a folder, and in this there is a torch.save file of
 * model states, in ZeRO stage 3 one per rank, and one of the optimizer's states per rank. The
 * optimizer has the weights in full precision, as flat vectors that are cut among the ranks; the
 * model states say which names and shapes they have. The checkpoint is the state dict that
 * DeepSpeed's own zero_to_fp32.py makes of them. Sources: of DeepSpeed 0.3.16 to 0.19.8
 * runtime/engine.py, runtime/bf16_optimizer.py, runtime/zero/stage_1_and_2.py,
 * runtime/zero/stage3.py, utils/zero_to_fp32.py.
 */

/* What the names of the files say. */
struct ckpt_zero_names {
	char *folder;	     /* malloc: where they are, under the path that was given */
	char **model_states; /* malloc, and each name: by rank; but in stage 3 there is one only */
	char **optim_states; /* by rank */
	uint32_t model_count, optim_count;
	bool is_stage3; /* by the names of the model states */
};

struct ckpt_zero_file {
	const char *name;	    /* of NAMES */
	struct ckpt_source *source; /* owned */
	struct ckpt_model *model;   /* owned; NULL: it was let go */
	uint64_t nbytes, pickle_nbytes;
	bool is_needed; /* MODEL makes bytes that are no stretches of the file */
};

/* A tensor of the result. */
struct ckpt_zero_entry {
	enum ckpt_dtype dtype;
	uint32_t ndim;
	const uint64_t *shape;
	uint64_t numel;
	/*
	 * A parameter that was cut: SHARE items from FIRST on of each stream, one behind the other.
	 */
	const struct ckpt_zero_stream *streams;
	uint32_t stream_count;
	uint64_t first, share;
	/* Any other (STREAM_COUNT 0): a tensor of the model states. */
	struct ckpt_tensor whole;
	struct ckpt_recipe whole_bytes;
	const struct ckpt_recipe *made; /* NULL: nobody asked for its bytes yet */
	const struct ckpt_value *value; /* while the directory is opened */
};

/* Items behind each parameter of a group. */
struct ckpt_zero_paddings {
	uint64_t *items; /* arena */
	uint32_t count;
};

/* A name of the result. */
struct ckpt_zero_name {
	const char *text;
	size_t len;
	uint32_t entry;
};

/* Hangs on the document; models over it keep it. */
struct ckpt_zero {
	char *path; /* owned: as it was given */
	struct ckpt_zero_names names;
	struct ckpt_arena *arena;     /* owned: of entries */
	struct ckpt_zero_file *files; /* malloc: those of the model states, then the optimizer's */
	uint32_t file_count;
	int stage;			  /* 1 to 3 */
	bool is_bf16_optimizer;		  /* whose files do not say a stage */
	char version[40];		  /* of DeepSpeed, or empty */
	struct ckpt_zero_stream *streams; /* malloc: of stages 1 and 2 by group, of 3 by rank */
	struct ckpt_zero_stream *frozen;  /* malloc: stage 3, by rank */
	uint32_t stream_count, frozen_count, group_count;
	struct ckpt_zero_paddings *paddings; /* arena: by group; NULL: there are none */
	struct ckpt_zero_entry **entries;    /* malloc; each in the arena */
	uint32_t entry_count, entry_cap;
	struct ckpt_zero_name *order; /* malloc */
	uint32_t name_count, name_cap;
	struct ckpt_strmap by_name; /* to its place in ORDER */
	pthread_mutex_t lock;	    /* of entries' recipes, and of the arena */
	char writer[80];
	/* for those who ask in what state it is */
	uint64_t dp_world_size;	      /* as the model states say; 0: not */
	uint32_t frozen_narrow;	      /* frozen parameters that are not float32 */
	enum ckpt_dtype frozen_dtype; /* of the first of these */
	uint32_t left_out;	      /* tensors of `module` that have no place in the result */
	char first_left_out[200];
};

extern const struct ckpt_format ckpt_format_zero;

/*
 * Is PATH, or the folder that its `latest` names, such a directory? 1: NAMES is filled, to be
 * cleared by the caller. 0: no. CKPT_E_FORMAT, CKPT_E_UNSUPPORTED: it is one in a state, or of a
 * kind, that cannot be read.
 */
int ckpt_zero_find(const char *path, const struct ckpt_listing *listing,
		   struct ckpt_zero_names *names, struct ckpt_error *err);
void ckpt_zero_names_clear(struct ckpt_zero_names *names);

/* What `latest` in PATH names, a folder in PATH, malloc; NULL: nothing. */
char *ckpt_zero_latest(const char *path);

/* Are there files of DeepSpeed in the folder TAG of PATH? */
bool ckpt_zero_is_folder(const char *path, const char *tag);

/* Takes NAMES, in any case. */
int ckpt_zero_open(const char *path, struct ckpt_zero_names *names, struct ckpt_model **out,
		   struct ckpt_error *err);

/* What is odd about the directory (ckpt_format.notes). */
int ckpt_zero_check_directory(const struct ckpt_model *model,
			      void (*note)(void *ctx, const char *text), void *ctx,
			      struct ckpt_error *err);

#endif
