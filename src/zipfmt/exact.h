/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ZIPFMT_EXACT_H
#define CKPT_ZIPFMT_EXACT_H

#include "zipfmt/index.h"

/*
 * Compares an archive, all but the data of its records, byte by byte with what torch's writer
 * puts there for records of these names, sizes and checksums (layout.h). Readers ignore most of
 * these bytes. In an archive that otherwise is as torch writes it, a difference in a single
 * place is damage.
 */
enum ckpt_zip_part {
	CKPT_ZIP_HEADER,     /* the local header of ENTRY, with its name and padding */
	CKPT_ZIP_DESCRIPTOR, /* the data descriptor of ENTRY */
	CKPT_ZIP_DIRECTORY,  /* the directory entry of ENTRY */
	CKPT_ZIP_ENDS,	     /* the end records */
	/* LEN unused bytes at OFF, before ENTRY; NULL: before the directory or the end records */
	CKPT_ZIP_GAP,
	CKPT_ZIP_TRAILER, /* LEN bytes at OFF, after the end */
};

struct ckpt_zip_difference {
	enum ckpt_zip_part part;
	const struct ckpt_zip_entry *entry;
	uint64_t off, len;
	int found, wanted; /* the bytes at OFF; -1: the end, or a gap or trailer */
};

struct ckpt_zip_comparison {
	/* Called for each difference. A negative status ends the comparison and is returned. */
	int (*differs)(void *ctx, const struct ckpt_zip_difference *difference);
	void *ctx;
	uint32_t same_headers, same_entries; /* out: how many are as torch writes them */
};

/* Records that could not be located (DATA_OFF 0) are skipped. ALIGNMENT: that of the archive. */
int ckpt_zip_compare(struct ckpt_zip *zip, uint32_t alignment,
		     struct ckpt_zip_comparison *comparison, struct ckpt_error *err);

#endif
