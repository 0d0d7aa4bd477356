/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of a verification share: the call, its counts, and records that are read together.
 *
 * What must stay true: a finding is counted where it is reported, by ckpt_verifier_report() alone, and
 * a record has at most one finding of damage.
 */
#ifndef CKPT_VERIFY_VERIFIER_H
#define CKPT_VERIFY_VERIFIER_H

#include "io/workers.h"
#include "model/model.h"
#include "tensor/dtype.h"
#include "zipfmt/index.h"

#include <ckpt/verify.h>

#include <stdatomic.h>

/* The bytes of one record, what they should be, and what is in them. */
struct ckpt_subject {
	const char *place;  /* the item of a directory that it is in; NULL: none */
	const char *record; /* escaped; both live as long as the batch */
	bool has_crc;
	uint32_t crc32;
	enum ckpt_dtype dtype;	       /* search for numbers that are not finite; UNKNOWN: do not */
	uint64_t shown_from, shown_to; /* ... in these bytes */
	bool swapped;		       /* numbers are big-endian */
	const char *tensor;	       /* the first that shows them */
	bool unreadable;
	atomic_uint_fast64_t nans, infinities;
};

/* Records to be read together, and what has to live until then. */
struct ckpt_batch {
	struct ckpt_recipe *recipes; /* malloc, all of them */
	struct ckpt_subject *subjects;
	uint32_t count, recipe_cap, subject_cap;
	uint64_t bytes;
	struct ckpt_arena *arena;
	struct ckpt_zip **zips; /* owned: those with the records */
	uint32_t zip_count, zip_cap;
};

/* One call of ckpt_verify(). */
struct ckpt_verifier {
	struct ckpt_verify_options options;
	int (*found)(void *ctx, const struct ckpt_finding *finding);
	void *ctx;
	struct ckpt_verify_report report;
	const char *file; /* of a directory: the one that is verified; NULL: the only one */
	enum ckpt_reason reason; /* of the error that is reported */
	struct ckpt_workers *workers;
	struct ckpt_batch batch;
	uint64_t done, total; /* bytes, for the progress */
	uint64_t without_crc, without_crc_bytes;
	bool is_summed; /* all files were compared with SHA-256 sums: nothing is unproven */
	bool has_filled; /* tensors of safetensors files, which fill them, without checksums */
	struct ckpt_strmap damaged; /* records of FILE with findings; the names are in: */
	struct ckpt_arena *names;
};

/*
 * Report a finding. RECORD is escaped, or NULL; OFFSET may be CKPT_NO_OFFSET. Returns 0, or the
 * status with which the caller's function ends the call.
 */
int ckpt_verifier_report(struct ckpt_verifier *v, enum ckpt_finding_kind kind, const char *record,
			 uint64_t offset, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/*
 * A step failed with RC and ERR. Damage becomes a finding, and 0 is returned; an error of the
 * system (no memory, no reading) is returned as RC.
 */
int ckpt_verifier_report_error(struct ckpt_verifier *v, int rc, const struct ckpt_error *err);

/* Report what is odd about the files, as the format notes it. */
int ckpt_verifier_report_notes(struct ckpt_verifier *v, const struct ckpt_model *model,
			       struct ckpt_error *err);

/* Forget which records are damaged: another file follows. */
void ckpt_verifier_begin_file(struct ckpt_verifier *v);

/* Report numbers that are not finite, in a checkpoint of any format. */
int ckpt_verify_numbers(struct ckpt_verifier *v, struct ckpt_model *model, struct ckpt_error *err);

bool ckpt_verifier_wants_bytes(const struct ckpt_verifier *v);

/* ---- one archive (archive.c) ---- */

/* Which bytes of a storage tensors show. */
struct ckpt_shown {
	enum ckpt_dtype dtype; /* UNKNOWN: all numbers are finite */
	uint64_t from, to;     /* bytes: from the first item of any tensor to the last */
	const char *tensor;    /* the first of them */
};

/* The tensors in the records of an archive. */
struct ckpt_contents {
	struct ckpt_shown *shown; /* by the numbers of the records */
	bool swapped;
};

/* Add T, which shows the storage, too. */
void ckpt_shown_add(struct ckpt_shown *shown, const struct ckpt_tensor *t);
void ckpt_shown_copy(const struct ckpt_shown *shown, struct ckpt_subject *subject);

/*
 * Verify an archive: headers, directory, checksums. PLACE: the item of a directory that it is, or
 * NULL. The batch owns ZIP from now on, also on failure, and reads its bytes later. CONTENTS may be
 * NULL.
 */
int ckpt_verify_archive(struct ckpt_verifier *v, struct ckpt_zip *zip, const char *place,
			const struct ckpt_contents *contents, struct ckpt_error *err);

/* ---- bytes (batch.c) ---- */

/* Add a record to be read later. */
int ckpt_batch_add(struct ckpt_verifier *v, const struct ckpt_recipe *recipe,
		   const struct ckpt_subject *subject, struct ckpt_error *err);

/* ZIP belongs to the batch, also on failure. */
int ckpt_batch_add_zip(struct ckpt_verifier *v, struct ckpt_zip *zip, struct ckpt_error *err);

/* A text that lives as long; NULL: no memory. */
const char *ckpt_batch_text(struct ckpt_verifier *v, const char *text, size_t len);

/* Read and report what was collected; the first only if there is much. Only between archives. */
int ckpt_batch_flush_if_large(struct ckpt_verifier *v, struct ckpt_error *err);
int ckpt_batch_flush(struct ckpt_verifier *v, struct ckpt_error *err);
void ckpt_batch_clear(struct ckpt_batch *batch);

/* ---- what is in the files ---- */

/* One file of any format, with the reference to SOURCE still the caller's (file.c). */
int ckpt_verify_file(struct ckpt_verifier *v, struct ckpt_source *source, struct ckpt_error *err);

/* A directory of any kind (directory.c). */
int ckpt_verify_directory(struct ckpt_verifier *v, const char *path, struct ckpt_error *err);

/* The index of a DCP directory by itself (index.c). */
int ckpt_verify_index(struct ckpt_verifier *v, const struct ckpt_model *model,
		      struct ckpt_error *err);

/* Are storages where .format_version makes torch look for them (storage_layout.c)? */
int ckpt_verify_storage_layout(struct ckpt_verifier *v, const struct ckpt_model *model,
			       struct ckpt_error *err);

/*
 * Compare the file, or all files of the directory, with the SHA-256 sums of the options, and set
 * v->is_summed if each has one (sha256.c).
 */
int ckpt_verify_sums(struct ckpt_verifier *v, const char *path, struct ckpt_error *err);

/*
 * Tensors of a safetensors file have no checksums, but fill the file. True: with that the verdict is
 * CKPT_VERDICT_COMPLETE; false: a finding is due.
 */
bool ckpt_verifier_note_filled(struct ckpt_verifier *v);

/* ---- numbers (finite.c) ---- */

/* Has DTYPE values that are not finite? */
bool ckpt_dtype_may_be_infinite(enum ckpt_dtype dtype);

/* Count them among the whole items in LEN bytes. */
void ckpt_count_not_finite(enum ckpt_dtype dtype, bool swapped, const uint8_t *bytes, size_t len,
			   uint64_t *nans, uint64_t *infinities);

#endif
