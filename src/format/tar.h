/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TAR_H
#define CKPT_FORMAT_TAR_H

#include "io/source.h"

/*
 * Reads the members of a tar archive in order, as far as torch 0.1 used the format: ustar
 * headers, and extended headers of pax and GNU tar for names and sizes that do not fit there.
 * Source: POSIX.1-2008, pax, "ustar Interchange Format" and "pax Header Block"; for all else
 * CPython, Lib/tarfile.py, with which torch reads it.
 */
enum { CKPT_TAR_BLOCK = 512, CKPT_TAR_MOST_NAME = 100 };

struct ckpt_tar_member {
	char name[CKPT_TAR_MOST_NAME + 1]; /* "" if it is longer */
	uint64_t header, off, len; /* offset of its header; offset and length of its bytes */
	bool is_file;		   /* a plain file, and not a sparse one */
};

struct ckpt_tar {
	struct ckpt_source *source; /* borrowed */
	uint64_t at;		    /* offset of the next header; 0 at first */
};

/* Is HEAD, the first LEN bytes of a file, a header? */
bool ckpt_tar_probe(const uint8_t *head, size_t len);

/*
 * Read the next member. 1: there is one; 0: the end; CKPT_E_FORMAT, with the offset of the
 * header; CKPT_E_IO.
 */
int ckpt_tar_next(struct ckpt_tar *tar, struct ckpt_tar_member *out, struct ckpt_error *err);

#endif
