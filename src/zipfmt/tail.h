/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ZIPFMT_TAIL_H
#define CKPT_ZIPFMT_TAIL_H

#include "base/buf.h"
#include "zipfmt/index.h"
#include "zipfmt/layout.h"

/*
 * A new end for an archive that stays where it is: some new records, a directory over them and what
 * is kept of the old ones, end records. Nothing before the old end of the file is touched.
 */
struct ckpt_zip_tail {
	uint64_t off;	      /* old size of the file */
	uint64_t start;	      /* BODY goes here: OFF or a little behind */
	struct ckpt_buf body; /* new records and directory; the end records follow it */
	uint8_t old_ends[98]; /* the old end records, fit for the place behind BODY */
	uint8_t new_ends[98];
	uint64_t ends_off; /* where they go: never across a 512-byte sector */
};

/*
 * False: the archive does not end as torch's writer ends it (zip64 end, its locator, end, and
 * nothing else), so no copy of its end records would do.
 */
bool ckpt_zip_has_plain_ends(struct ckpt_zip *zip);

/*
 * Make it. LAYOUT has the new records, whose contents are BYTES and whose places are chosen here; KEEP
 * says for every entry of ZIP if it stays in the directory. To be cleared in any case.
 */
int ckpt_zip_tail_make(struct ckpt_zip *zip, const bool *keep, struct ckpt_zip_layout *layout,
		       const void *const *bytes, struct ckpt_zip_tail *tail,
		       struct ckpt_error *err);
void ckpt_zip_tail_clear(struct ckpt_zip_tail *tail);

#endif
