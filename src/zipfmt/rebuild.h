/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ZIPFMT_REBUILD_H
#define CKPT_ZIPFMT_REBUILD_H

#include "zipfmt/index.h"

/* One record of an archive that is put together from the remains of another. */
struct ckpt_zip_rebuilt {
	const char *name; /* without the folder */
	enum { CKPT_ZIP_FROM_FILE, CKPT_ZIP_FROM_MEMORY, CKPT_ZIP_ZEROS } from;
	uint64_t off;	    /* in the file */
	const void *memory; /* borrowed until the archive is made */
	uint64_t csize, usize;
	uint16_t method; /* of the bytes; a deflated record has to be smaller than 4 GiB */
	uint32_t crc32;	 /* 0: none is recorded */
};

/*
 * Make an archive of RECORDS in FOLDER, laid out as torch does, with a directory. The bytes of
 * the records stay in BASE: *OUT only shows them in their new places.
 */
int ckpt_zip_rebuild(struct ckpt_source *base, const char *folder,
		     const struct ckpt_zip_rebuilt *records, uint32_t count,
		     struct ckpt_source **out, struct ckpt_error *err);

#endif
