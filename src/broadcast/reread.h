/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_REREAD_H
#define CKPT_BROADCAST_REREAD_H

#include "broadcast/landing.h"

/*
 * What was written is read again, from the disk and not from memory, and held against the checksums
 * of what came. It may take as long as the writing, so it is done in stretches: the ranks tell each
 * other between them that they are at it.
 */
struct ckpt_reread {
	struct ckpt_landing *landing;
	const struct ckpt_manifest *manifest;
	const uint32_t *crcs; /* by file */
	uint8_t *memory;
	int fd; /* of the file it is at; -1: not open */
	uint32_t file, crc;
	uint64_t off;
};

/* LANDING is finished, that is, on the disk. */
int ckpt_reread_open(struct ckpt_reread *out, struct ckpt_landing *landing,
		     const struct ckpt_manifest *manifest, const uint32_t *crcs,
		     struct ckpt_error *err);
void ckpt_reread_close(struct ckpt_reread *reread);

/*
 * Go on until all is read (*DONE) or about NSEC have passed. CKPT_E_FORMAT: the disk gave other
 * bytes back.
 */
int ckpt_reread_go(struct ckpt_reread *reread, uint64_t nsec, bool *done, struct ckpt_error *err);

#endif
