/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_REREAD_H
#define CKPT_BROADCAST_REREAD_H

#include "broadcast/landing.h"

/*
 * Reads what was written again, from the disk and not from memory, and compares it with the
 * checksums of what arrived. That may take as long as writing did, so it is done in steps, between
 * which the ranks vote.
 */
struct ckpt_reread {
	struct ckpt_landing *landing;
	const struct ckpt_manifest *manifest;
	const uint32_t *crcs; /* by file */
	uint8_t *memory;
	int fd; /* of the current file; -1: not open */
	uint32_t file, crc;
	uint64_t off;
};

/* LANDING must be finished, that is, on the disk. */
int ckpt_reread_open(struct ckpt_reread *out, struct ckpt_landing *landing,
		     const struct ckpt_manifest *manifest, const uint32_t *crcs,
		     struct ckpt_error *err);
void ckpt_reread_close(struct ckpt_reread *reread);

/*
 * Go on until all is read (*DONE) or about NSEC have passed. CKPT_E_FORMAT: the disk returned other
 * bytes.
 */
int ckpt_reread_go(struct ckpt_reread *reread, uint64_t nsec, bool *done, struct ckpt_error *err);

#endif
