/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ZIPFMT_KILLED_H
#define CKPT_ZIPFMT_KILLED_H

#include "zipfmt/dead.h"

/*
 * What an edit in place leaves that was killed, or whose machine stopped: before its switch a copy of
 * the end records, with metadata in front of it that nobody refers to; behind its switch the metadata
 * of before, which it could not wipe any more.
 */

/*
 * Where the archive ended before an edit that never switched wrote a copy of its end records behind
 * it: the file can be cut off there. The size of the file if there is no such copy.
 */
uint64_t ckpt_zip_end_before_copy(struct ckpt_zip *zip);

/* Metadata that another directory than the archive's has, and nothing of it lies in a record of the archive. */
struct ckpt_zip_remains {
	uint64_t *marks; /* owned; where CKPT_ZIP_DEAD goes, for records that the archive does not have */
	size_t mark_count;
	struct ckpt_zip_gap pickle;    /* its bytes; LEN 0: there is none */
	struct ckpt_zip_gap directory; /* and its end records */
};

/*
 * Look for remains in front of FIRST, where the metadata begin that the last edit wrote; all other
 * records of ZIP lie before that, and all are located. NAME: of the archive. Returns 1 and sets *OUT,
 * to be cleared; 0: there are none.
 */
int ckpt_zip_find_remains(struct ckpt_zip *zip, const char *name, uint64_t first, struct ckpt_zip_remains *out, struct ckpt_error *err);
void ckpt_zip_remains_clear(struct ckpt_zip_remains *remains);

#endif
