/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_PIECE_READER_H
#define CKPT_BROADCAST_PIECE_READER_H

#include "broadcast/manifest.h"

/*
 * Reads pieces of the files of a manifest, by several threads at once. The file that was read last
 * stays open.
 */
struct ckpt_piece_reader;

/* Whether files are read past the page cache. */
enum ckpt_direct {
	CKPT_DIRECT_NEVER,
	CKPT_DIRECT_ALWAYS, /* where the file system can, and places fit */
	CKPT_DIRECT_AUTO,   /* ... of pieces that are not in the cache */
};

/*
 * Both borrowed. PATHS, by file, may be NULL on ranks that read nothing. No more than RATE bytes are read in a second; 0: there is
 * no limit.
 */
int ckpt_piece_reader_new(const struct ckpt_manifest *manifest, const char *const *paths, uint64_t rate,
			  enum ckpt_direct direct, struct ckpt_piece_reader **out, struct ckpt_error *err);
void ckpt_piece_reader_free(struct ckpt_piece_reader *reader);

/*
 * Read the bytes of PIECE into TO. CRC, if not NULL, is the CRC-32 of the bytes before, and is
 * updated. CKPT_E_CHANGED: the file is not the one in the manifest any more.
 */
int ckpt_piece_reader_read(struct ckpt_piece_reader *reader,
			   const struct ckpt_manifest_piece *piece, uint8_t *to, uint32_t *crc,
			   struct ckpt_error *err);

#endif
