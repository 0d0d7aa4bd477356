/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ZIPFMT_TAIL_H
#define CKPT_ZIPFMT_TAIL_H

#include "base/buf.h"
#include "zipfmt/dead.h"
#include "zipfmt/layout.h"

/*
 * A new end for an archive that stays where it is: new records, a directory of them and the old
 * ones that are kept, end records. What is before it does not change.
 */
enum { CKPT_ZIP_ENDS_BYTES = 98 };

struct ckpt_zip_tail {
	uint64_t off;	      /* where the file can be cut off as long as there was no switch: its old size */
	uint64_t start;	      /* BODY goes here: what was asked for, or a little after it */
	struct ckpt_buf body; /* new records and directory; the end records follow it */
	uint8_t old_ends[CKPT_ZIP_ENDS_BYTES]; /* the old end records, with a locator for ENDS_OFF */
	uint8_t new_ends[CKPT_ZIP_ENDS_BYTES];
	uint64_t ends_off; /* both go here: never across a 512-byte sector */
};

/*
 * False: the archive does not end as torch's writer ends it (zip64 end record, its locator, end
 * record, and nothing else), so that a copy of its end records would not do.
 * ckpt_zip_tail_make() needs it.
 */
bool ckpt_zip_has_plain_ends(struct ckpt_zip *zip);

/* Such end records at OFF of SOURCE, and where the directory is that they lead to. False: there are none. */
bool ckpt_zip_read_plain_ends(const struct ckpt_source *source, uint64_t off, uint8_t ends[CKPT_ZIP_ENDS_BYTES], struct ckpt_zip_gap *directory);
/* Make them those of the same directory, but at OFF. */
void ckpt_zip_move_ends(uint8_t ends[CKPT_ZIP_ENDS_BYTES], uint64_t off);

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
