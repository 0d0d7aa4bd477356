/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ZIPFMT_EXACT_H
#define CKPT_ZIPFMT_EXACT_H

#include "zipfmt/index.h"

/*
 * All of an archive but the data of its records, byte by byte, against what torch's writer puts there for records of
 * these names, sizes and checksums (layout.h). No reader looks at most of these bytes; a difference in a single
 * place of an archive that is else as torch writes it was made by damage.
 */
enum ckpt_zip_part {
	CKPT_ZIP_HEADER,     /* of ENTRY, with its name and padding */
	CKPT_ZIP_DESCRIPTOR, /* of ENTRY */
	CKPT_ZIP_DIRECTORY,  /* that of ENTRY in the directory */
	CKPT_ZIP_ENDS,	     /* the end records */
	CKPT_ZIP_GAP, /* LEN bytes at OFF that belong to nothing, in front of ENTRY; NULL: of the directory or the ends */
	CKPT_ZIP_TRAILER, /* LEN bytes at OFF, behind the end */
};

struct ckpt_zip_difference {
	enum ckpt_zip_part part;
	const struct ckpt_zip_entry *entry;
	uint64_t off, len;
	int found, wanted; /* bytes at OFF; -1: one has no more. Not of gaps and trailers */
};

struct ckpt_zip_comparison {
	/* Each is called for what is not as torch writes it; a negative status ends it and is returned. */
	int (*differs)(void *ctx, const struct ckpt_zip_difference *difference);
	void *ctx;
	uint32_t same_headers, same_entries; /* out: how many are as torch writes them, in all */
};

/* The records must have been located; those that could not be are passed over. ALIGNMENT: that of the archive. */
int ckpt_zip_compare(struct ckpt_zip *zip, uint32_t alignment,
		     struct ckpt_zip_comparison *comparison, struct ckpt_error *err);

#endif
