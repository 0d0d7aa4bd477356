/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_VERIFY_H
#define CKPT_VERIFY_H

#include <ckpt/error.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ckpt_finding_kind {
	CKPT_FINDING_DAMAGE,	 /* something is not as it was written, or is missing */
	CKPT_FINDING_NOT_FINITE, /* NaN or infinity in a tensor */
	CKPT_FINDING_UNPROVEN,	 /* it may be sound: nothing is recorded that could prove it */
	CKPT_FINDING_ODD,	 /* harmless, but not what torch.save writes */
};

/* One thing that was found. Strings are valid during the call, escaped. */
struct ckpt_finding {
	size_t size;
	enum ckpt_finding_kind kind;
	const char *file;   /* of a directory: which of its files; NULL: the only one */
	const char *record; /* of the archive; NULL: none */
	uint64_t offset;    /* in the file, or the record if there is one; UINT64_MAX: none */
	const char *text;   /* one sentence */
	enum ckpt_reason reason; /* of what keeps the file from being opened */
	uint32_t reserved;
};

enum ckpt_verdict {
	CKPT_VERDICT_SOUND,    /* all that can be checked was, and nothing is wrong */
	CKPT_VERDICT_DAMAGED,  /* something is wrong */
	CKPT_VERDICT_UNPROVEN, /* nothing is wrong, but not everything could be checked */
	/*
	 * Nothing is wrong, and the tensors of safetensors files fill these to their last byte; that their
	 * bytes are as they were written nothing tells.
	 */
	CKPT_VERDICT_COMPLETE,
};

enum ckpt_verify_flags {
	CKPT_VERIFY_QUICK = 1 << 0,  /* metadata only: no byte of a tensor is read */
	CKPT_VERIFY_FINITE = 1 << 1, /* NaN and infinity in tensors also are findings */
	/* CKPT_VERDICT_UNPROVEN in place of COMPLETE, with a finding */
	CKPT_VERIFY_REQUIRE_CHECKSUMS = 1 << 2,
};

struct ckpt_verify_options {
	size_t size;
	unsigned flags;
	uint32_t threads; /* that work at once; see "Threads" in ckpt.h */
	void (*progress)(void *ctx, uint64_t done, uint64_t total); /* bytes */
	void *progress_ctx;
	const volatile int *cancel; /* not 0: it ends; see "Threads" in ckpt.h */
	/* Of the one file at PATH: 64 hex digits. Other bytes are damage. NULL: not compared */
	const char *sha256;
	/*
	 * Path of a file as `sha256sum` writes it (with --tag, too). Each file of the checkpoint, of a
	 * directory all that is in it at any depth, has to be listed (else: CKPT_FINDING_UNPROVEN) with its
	 * sum; what is listed in a directory has to be there. Names begin in the folder that this file is in.
	 */
	const char *sha256sums;
};
#define CKPT_VERIFY_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_verify_options) \
	}

struct ckpt_verify_report {
	size_t size;
	enum ckpt_verdict verdict;
	uint64_t findings[4]; /* by kind; those beyond the first 1000 of a kind are only counted */
	uint64_t files, records; /* that were examined */
	uint64_t checked;	 /* records whose bytes have the checksum that is recorded */
	uint64_t bytes;		 /* of these */
	uint64_t tensors;
	/*
	 * Indexes of directories, for which no checksum is recorded. They were compared with the
	 * files and checked for contradictions; a flipped bit that agrees with both is not found.
	 */
	uint64_t indexes;
	uint64_t sha256; /* files whose SHA-256 was compared; if all were, nothing is unproven */
};
#define CKPT_VERIFY_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_verify_report) \
	}

/*
 * Is the checkpoint at PATH, a file or a directory, as it was written? This checks what torch
 * itself never examines: the checksum of every record, and every byte between records against what
 * torch's writer puts there; the directory against the records, sizes against the pickle,
 * references in both directions, what .format_version promises; in a DCP directory each item, and
 * the index against the items. FOUND is called for each thing that is wrong, odd, or cannot be
 * decided.
 *
 * For a legacy stream, which has no checksums, and for files saved without them, the verdict is at
 * best "unproven", for safetensors "complete"; with the right SHA-256 of all files, "sound". The index of a DCP directory has no checksum either (report.indexes): it is
 * compared with the items, its names with their paths in the nested state, its classes and
 * attributes with those that torch 1.13 to 2.14 write. A name that is its own path (a key of the
 * outermost dict) cannot be compared with anything.
 *
 * Returns 0 if there is a verdict, in REPORT; a negative status of FOUND; CKPT_E_IO;
 * CKPT_E_UNSUPPORTED if it is not a checkpoint; CKPT_E_CANCELLED; CKPT_E_NOMEM. OPTIONS and FOUND
 * may be NULL.
 */
CKPT_API int ckpt_verify(const char *path, const struct ckpt_verify_options *options,
			 int (*found)(void *ctx, const struct ckpt_finding *finding), void *ctx,
			 struct ckpt_verify_report *report, struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
