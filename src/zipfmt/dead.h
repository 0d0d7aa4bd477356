/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ZIPFMT_DEAD_H
#define CKPT_ZIPFMT_DEAD_H

#include "zipfmt/index.h"

/*
 * Dead bytes: those of records that the directory does not have any more, and of earlier
 * directories, which edits in place leave behind.
 */

/* What looks like less may be padding of a header. */
enum { CKPT_ZIP_SMALL_GAP = 256 };

/* LEN bytes at OFF of the file. */
struct ckpt_zip_gap {
	uint64_t off, len;
};

/*
 * What lies in front of the records that KEEP (by entry; NULL: all) says are there, between them, and
 * between the last of them and END. The local header with which the file begins is in none. In the order of the file; *OUT is to be freed. Gaps of less than LEAST
 * bytes are left out. Local headers are read only where there seems to be a gap.
 */
int ckpt_zip_gaps(struct ckpt_zip *zip, const bool *keep, uint64_t end, uint64_t least, struct ckpt_zip_gap **out, size_t *count, struct ckpt_error *err);

/* Bytes of whole blocks of GAP that are no hole. */
uint64_t ckpt_zip_gap_on_disk(const struct ckpt_source *source, const struct ckpt_zip_gap *gap);

/* All of them together, of the file as it is; ON_DISK: of whole blocks that are no holes. */
int ckpt_zip_dead_nbytes(struct ckpt_zip *zip, uint64_t *out, uint64_t *on_disk, struct ckpt_error *err);

/*
 * Where a dead record says so in its local header: for whoever reads these alone. NAME: of the
 * record, without the archive's; "data.pkl" -> 0: "dead.pkl", ".format_version" -> 1:
 * ".deadat_version".
 */
enum { CKPT_ZIP_DEAD_BYTES = 4 };
#define CKPT_ZIP_DEAD "dead"
size_t ckpt_zip_dead_at(const char *name);

/*
 * Where what edits in place have left behind begins, of which nobody has more than a pickle and
 * directories: zeros, and records that were the pickle or the id of the file. It ends at END, and
 * begins at LEAST_OFF at the earliest. *OUT = END: there is none. NAME: of the archive.
 */
int ckpt_zip_find_left_behind(struct ckpt_zip *zip, const char *name, uint64_t least_off, uint64_t end, uint64_t *out, struct ckpt_error *err);

#endif
