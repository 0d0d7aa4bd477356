/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_REPAIR_H
#define CKPT_REPAIR_H

#include <ckpt/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What to do with tensors whose bytes are lost. Sparse and nested ones cannot be filled and are
 * always left out.
 */
enum ckpt_repair_fill {
	CKPT_FILL_NOTHING, /* leave them out of the mappings that have them as entries */
	CKPT_FILL_ZEROS,
	CKPT_FILL_NAN, /* numbers that cannot be NaN (integers, bool, quantized) become zeros */
};

enum ckpt_repair_flags {
	CKPT_REPAIR_PROVEN_ONLY = 1 << 0, /* what no checksum proves counts as lost */
};

enum ckpt_repair_kind {
	CKPT_REPAIR_LOST, /* a tensor whose bytes are not all there, or are not what was written */
	CKPT_REPAIR_UNPROVEN, /* a tensor that is there, but has no checksum to prove it */
	CKPT_REPAIR_DAMAGE,   /* something else that is wrong with the file */
	CKPT_REPAIR_NOTE,     /* something that is good to know */
};

/* One thing that was found. Strings are valid during the call; all but NAME are escaped. */
struct ckpt_repair_finding {
	size_t size;
	enum ckpt_repair_kind kind;
	const char *name;   /* of the tensor; NULL: it is about the file */
	const char *record; /* of the archive; NULL: none */
	uint64_t offset;    /* in the file; UINT64_MAX: none */
	uint64_t nbytes;    /* of the tensor's storages */
	bool filled;	    /* with what was asked for */
	bool zeros;	    /* ... but with zeros, as its dtype has no NaN */
	bool of_optimizer;  /* in the state of an optimizer, which may not work without it */
	const char *text;   /* one sentence */
};

struct ckpt_repair_options {
	size_t size;
	unsigned flags;
	enum ckpt_repair_fill fill;
	void (*progress)(void *ctx, uint64_t done, uint64_t total); /* bytes */
	void *progress_ctx;
	const volatile int *cancel; /* not 0: it ends; see "Threads" in ckpt.h */
	uint32_t threads;	    /* that work at once; see "Threads" in ckpt.h */
	uint32_t reserved;	    /* 0 */
};
#define CKPT_REPAIR_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_repair_options) \
	}

/*
 * Tensors count once for each name, as in ckpt_tensor_count(); storages that are values themselves
 * count, too.
 */
struct ckpt_repair_report {
	size_t size;
	bool damaged; /* false: there is nothing to repair */
	uint64_t tensors;
	/* their bytes, and the pickle that names them, have the recorded checksums */
	uint64_t proven;
	uint64_t unproven; /* kept, if not only proven ones are wanted */
	uint64_t lost;	   /* with what was unproven and not wanted */
	uint64_t filled;   /* of the lost */
	uint64_t storages; /* bytes are counted by storage, as many tensors may show one */
	uint64_t proven_nbytes, unproven_nbytes, lost_nbytes;
	uint64_t optimizer_lost; /* lost, not filled, and in the state of an optimizer */
};
#define CKPT_REPAIR_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_repair_report) \
	}

/*
 * Open the torch.save or safetensors file at PATH, however damaged it is: cut off, partly overwritten, without a
 * directory, with junk in front. Its records are found by their own headers and descriptors, by
 * what is left of the directory, and by the sizes in the pickle; then the bytes of every record are
 * read and compared with each checksum that is recorded for it.
 *
 * *OUT is a model of what is left, to be edited, read, saved and closed like any other: lost
 * tensors have been left out or filled. What is unproven is reported, and nothing is claimed beyond
 * what the checksums prove: a record without one gets none when the model is saved. If there is
 * nothing to repair, *OUT is what ckpt_open() gives.
 *
 * A legacy stream has no checksums, so all of its tensors are unproven; nor has a safetensors file, of
 * which *OUT has the tensors in front of where it ends. FOUND is called for each
 * thing that is lost, unproven or wrong; a negative status stops and is returned.
 *
 * Returns 0; CKPT_E_FORMAT if nothing can be saved: the pickle, which gives every tensor its name
 * and shape, is cut or damaged, or no tensor is left; CKPT_E_UNSUPPORTED for other formats and for
 * directories, and if a lost tensor is not an entry of a mapping but part of a list or an object
 * and therefore has to be filled (REPORT is filled in then); CKPT_E_IO; CKPT_E_LIMIT;
 * CKPT_E_CANCELLED; CKPT_E_NOMEM. OPTIONS, FOUND and REPORT may be NULL.
 */
CKPT_API int ckpt_repair_open(const char *path, const struct ckpt_repair_options *options,
			      int (*found)(void *ctx, const struct ckpt_repair_finding *finding),
			      void *ctx, struct ckpt_model **out, struct ckpt_repair_report *report,
			      struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
