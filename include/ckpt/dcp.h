/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DCP_H
#define CKPT_DCP_H

#include <ckpt/save.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What belongs to directories of torch.distributed.checkpoint (DCP) alone. */

struct ckpt_reindex_options {
	size_t size;
	/* CKPT_SAVE_REPLACE, CKPT_SAVE_NO_SYNC, CKPT_SAVE_DRY_RUN, CKPT_SAVE_HARD_LINK */
	unsigned flags;
	uint32_t threads; /* that work at once; see "Threads" in ckpt.h */
	/*
	 * The oldest torch that has to load it: "2.0" or later gives the form that all of these
	 * load; "1.13" gives the form of 1.13, which no other loads. NULL: "2.0".
	 */
	const char *for_torch;
	bool from_ranks;     /* from the indexes of single ranks, although there is a .metadata */
	uint8_t reserved[7]; /* 0 */
	const volatile int *cancel; /* not 0: it ends; see "Threads" in ckpt.h */
	/* bytes of data files; TOTAL is 0 until the index is made; may be NULL */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
	int (*naming)(void *ctx, enum ckpt_naming what); /* as in struct ckpt_save_options */
	void *naming_ctx;
};
#define CKPT_REINDEX_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_reindex_options) \
	}

struct ckpt_reindex_report {
	size_t size;
	const char *source; /* what the index was made from: ".metadata", ".metadata.tmp", ... */
	uint32_t indexes;   /* how many files that were */
	uint64_t entries, chunks;
	uint64_t uncovered; /* tensors whose chunks do not cover them: torch loads those wrongly */
	uint64_t nbytes;    /* of the new index */
};
#define CKPT_REINDEX_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_reindex_report) \
	}

/*
 * Write the index of the directory PATH anew: for releases of torch and Python other than those
 * that wrote it; from a complete .metadata.tmp that an interrupted save left; or from the indexes
 * of single ranks (`__0.metadata` ...), which torch itself does not join. What other tools added to
 * the index is left out. Data files stay as they are: OUT, a new directory, gets them shared,
 * linked or copied; OUT NULL replaces the index in place, in one step.
 *
 * Returns 0; CKPT_E_FORMAT if there is no complete index, if ranks disagree about a tensor, or if
 * the ranks' chunks leave a hole (an index is missing); CKPT_E_ARG; CKPT_E_CANCELLED; and as
 * ckpt_save().
 */
CKPT_API int ckpt_reindex(const char *path, const char *out,
			  const struct ckpt_reindex_options *options,
			  struct ckpt_reindex_report *report, struct ckpt_error *err);

/*
 * Add the entries in the root dict of the torch.save file PATH to the root dict of MODEL, as
 * dict.update() does: what Lightning keeps beside its shards in meta.pt, and Megatron-Core in
 * common.pt. The caller owns *OUT, which keeps the file open, and gives it to ckpt_close(). Returns
 * 0; CKPT_E_UNSUPPORTED if one of the two roots is not a dict; and as ckpt_open().
 */
CKPT_API int ckpt_add_file(const struct ckpt_model *model, const char *path,
			   struct ckpt_model **out, struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
