/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_REPAIR_REBUILD_H
#define CKPT_REPAIR_REBUILD_H

#include "format/torch_remains.h"
#include "repair/rescue.h"

/* What was found out about the bytes of one record. */
struct ckpt_piece_fate {
	enum ckpt_fate_mark mark;
	uint32_t crc32;	 /* proven: that of its bytes */
	const char *why; /* not proven */
};

/* The archive that torch would have written, and what is left of it. */
struct ckpt_rebuild {
	const struct ckpt_remains *remains;
	struct ckpt_piece_fate *fates; /* by number of the record */
	const char *byteorder;	       /* what the damaged record said; NULL: not known */
	bool as_it_is; /* use all records that can be read, to find out whether they are damaged */
};

/*
 * Make it of sound and unproven records as they are, zeros for storages that are lost, and records
 * whose texts are the same in all files of one version of torch. *OUT borrows only the file from
 * the remains.
 */
int ckpt_rebuild_archive(const struct ckpt_rebuild *rebuild, struct ckpt_source **out,
			 struct ckpt_error *err);

/*
 * Find out what a damaged record 'byteorder' said. If that is not possible, no tensor is proven.
 * (byteorder.c)
 */
void ckpt_rebuild_find_byteorder(struct ckpt_rescue *rescue, struct ckpt_rebuild *rebuild);

/* The record of a storage, lost or not; NULL: there is none. */
const struct ckpt_remnant *ckpt_rebuild_storage(const struct ckpt_rebuild *rebuild, const char *key,
						size_t len);

/* Bytes in RECORD, unpacked. */
uint64_t ckpt_rebuild_nbytes(const struct ckpt_remnant *record);

/* Is RECORD one whose text is known? */
bool ckpt_rebuild_is_fixed(const struct ckpt_rebuild *rebuild, const struct ckpt_remnant *record);

#endif
