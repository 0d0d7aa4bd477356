/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TAR_H
#define CKPT_FORMAT_TAR_H

#include "io/source.h"

/*
 * The members of a tar archive, one after the other, as far as torch 0.1 made use of it: ustar headers, and those of pax and
 * GNU tar for names and sizes that find no room there. Source: POSIX.1-2008, pax, "ustar Interchange Format" and "pax Header
 * Block"; what readers make of the rest: CPython, Lib/tarfile.py, which torch reads with.
 */
enum { CKPT_TAR_BLOCK = 512, CKPT_TAR_MOST_NAME = 100 };

struct ckpt_tar_member {
	char name[CKPT_TAR_MOST_NAME + 1]; /* "" for one that is longer */
	uint64_t header, off, len;	   /* where its header is; where its bytes are */
	bool is_file;			   /* a plain one, without holes that the header lists */
};

struct ckpt_tar {
	struct ckpt_source *source; /* borrowed */
	uint64_t at;		    /* of the next header; 0 to begin with */
};

/* Is HEAD, the first LEN bytes of a file, a header? */
bool ckpt_tar_probe(const uint8_t *head, size_t len);

/* The next member: 1; 0: there is none; CKPT_E_FORMAT with the offset of the header; CKPT_E_IO. */
int ckpt_tar_next(struct ckpt_tar *tar, struct ckpt_tar_member *out, struct ckpt_error *err);

#endif
