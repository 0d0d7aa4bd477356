/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_VERIFY_VERIFIER_H
#define CKPT_VERIFY_VERIFIER_H

#include "io/workers.h"
#include "model/model.h"
#include "tensor/dtype.h"
#include "zipfmt/index.h"

#include <ckpt/verify.h>

#include <stdatomic.h>

/* The bytes of one record, and what is known of them. */
struct ckpt_subject {
	const char *place;  /* of a directory: which item it is of; NULL: none */
	const char *record; /* escaped; both live until the batch is looked at */
	bool has_crc;
	uint32_t crc32;
	enum ckpt_dtype dtype;	       /* look for what is not finite; UNKNOWN: do not */
	uint64_t shown_from, shown_to; /* ... in these bytes, which tensors show */
	bool swapped;		       /* numbers are big-endian */
	const char *tensor;	       /* which is in it */
	bool unreadable;
	atomic_uint_fast64_t nans, infinities;
};

/* What is to be looked at next, with what has to live until then. */
struct ckpt_batch {
	struct ckpt_recipe *recipes; /* malloc, all of them */
	struct ckpt_subject *subjects;
	uint64_t count, cap, bytes;
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
	const char *file; /* of a directory: the one that is looked at; NULL: the only one */
	struct ckpt_workers *workers;
	struct ckpt_batch batch;
	uint64_t done, total; /* bytes, for the progress */
	uint64_t without_crc, without_crc_bytes;
	struct ckpt_strmap damaged; /* records of FILE of which that was said; the names are in: */
	struct ckpt_arena *names;
};

/*
 * Something was found. RECORD is escaped, or NULL; OFFSET may be CKPT_NO_OFFSET. Returns 0, or the status with which the
 * caller's function wants it to end.
 */
int ckpt_verifier_find(struct ckpt_verifier *v, enum ckpt_finding_kind kind, const char *record,
		       uint64_t offset, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/*
 * A step failed with RC and ERR: 0 if that is damage, which is now a finding; else RC. What a file says of itself is
 * damage; what the system says (no memory, no reading) is none.
 */
int ckpt_verifier_take_error(struct ckpt_verifier *v, int rc, const struct ckpt_error *err);

/* What is odd about the files, as the format tells it. */
int ckpt_verifier_take_notes(struct ckpt_verifier *v, const struct ckpt_model *model,
			     struct ckpt_error *err);

/* Forget which records are damaged: another file follows. */
void ckpt_verifier_begin_file(struct ckpt_verifier *v);

/* Only what is not finite, wherever the bytes are. */
int ckpt_verify_numbers(struct ckpt_verifier *v, struct ckpt_model *model, struct ckpt_error *err);

bool ckpt_verifier_wants_bytes(const struct ckpt_verifier *v);

/* ---- one archive (archive.c) ---- */

/* What tensors show of a storage. */
struct ckpt_shown {
	enum ckpt_dtype dtype; /* UNKNOWN: nothing that can be not finite */
	uint64_t from, to;     /* bytes: from the first item of any tensor to the last */
	const char *tensor;    /* the first of them */
};

/* The tensors in the records of an archive. */
struct ckpt_contents {
	struct ckpt_shown *shown; /* by the numbers of the records */
	bool swapped;
};

/* T, which lies in this storage, too. */
void ckpt_shown_add(struct ckpt_shown *shown, const struct ckpt_tensor *t);
void ckpt_shown_give(const struct ckpt_shown *shown, struct ckpt_subject *subject);

/*
 * All of an archive: headers, directory, checksums. PLACE: of a directory, which item it is; NULL. The batch takes ZIP, also on
 * failure, and looks at its bytes later. CONTENTS may be NULL.
 */
int ckpt_verify_archive(struct ckpt_verifier *v, struct ckpt_zip *zip, const char *place,
			const struct ckpt_contents *contents, struct ckpt_error *err);

/* ---- bytes (batch.c) ---- */

/* Looks at what has come together, if it is enough. */
int ckpt_batch_add(struct ckpt_verifier *v, const struct ckpt_recipe *recipe,
		   const struct ckpt_subject *subject, struct ckpt_error *err);

/* ZIP stays until the batch is looked at. */
int ckpt_batch_keep(struct ckpt_verifier *v, struct ckpt_zip *zip, struct ckpt_error *err);

/* A text that lives as long; NULL: no memory. */
const char *ckpt_batch_text(struct ckpt_verifier *v, const char *text, size_t len);

/* Look now if there is much. Only between archives. */
int ckpt_batch_settle(struct ckpt_verifier *v, struct ckpt_error *err);
int ckpt_batch_flush(struct ckpt_verifier *v, struct ckpt_error *err);
void ckpt_batch_clear(struct ckpt_batch *batch);

/* ---- what is in the files ---- */

/* One file of any format, with the reference to SOURCE still the caller's (file.c). */
int ckpt_verify_file(struct ckpt_verifier *v, struct ckpt_source *source, struct ckpt_error *err);

/* A directory of any kind (directory.c). */
int ckpt_verify_directory(struct ckpt_verifier *v, const char *path, struct ckpt_error *err);

/* What the index of a DCP directory says of itself (index.c). */
int ckpt_verify_index(struct ckpt_verifier *v, const struct ckpt_model *model,
		      struct ckpt_error *err);

/* What .format_version says of where storages are (promises.c). */
int ckpt_verify_promises(struct ckpt_verifier *v, const struct ckpt_model *model,
			 struct ckpt_error *err);

/* ---- numbers (finite.c) ---- */

/* Has DTYPE values that are not finite? */
bool ckpt_dtype_may_be_infinite(enum ckpt_dtype dtype);

/* Count them among the whole items in LEN bytes. */
void ckpt_count_not_finite(enum ckpt_dtype dtype, bool swapped, const uint8_t *bytes, size_t len,
			   uint64_t *nans, uint64_t *infinities);

#endif
