/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ZIPFMT_TAIL_H
#define CKPT_ZIPFMT_TAIL_H

#include "base/buf.h"
#include "zipfmt/index.h"
#include "zipfmt/layout.h"

/*
 * A new end for an archive that stays where it is: new records, a directory of them and the old
 * ones that are kept, end records. What is before it does not change.
 */
struct ckpt_zip_tail {
	uint64_t off;	      /* old size of the file */
	uint64_t start;	      /* BODY goes here: what was asked for, or a little after it */
	struct ckpt_buf body; /* new records and directory; the end records follow it */
	uint8_t old_ends[98]; /* the old end records, with a locator for ENDS_OFF */
	uint8_t new_ends[98];
	uint64_t ends_off; /* both go here: never across a 512-byte sector */
};

/*
 * False: the archive does not end as torch's writer ends it (zip64 end record, its locator, end
 * record, and nothing else), so that a copy of its end records would not do.
 * ckpt_zip_tail_make() needs it.
 */
bool ckpt_zip_has_plain_ends(struct ckpt_zip *zip);

/*
 * Make the tail, to begin at START: the end of the file, or inside of it, where nobody needs what is
 * there. LAYOUT has the new records, with BYTES their contents; this sets their places.
 * KEEP says for each entry of ZIP whether it stays in the directory. To be cleared in any case.
 */
int ckpt_zip_tail_make(struct ckpt_zip *zip, const bool *keep, uint64_t start, struct ckpt_zip_layout *layout,
		       const void *const *bytes, struct ckpt_zip_tail *tail,
		       struct ckpt_error *err);
void ckpt_zip_tail_clear(struct ckpt_zip_tail *tail);

#endif
