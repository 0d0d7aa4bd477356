/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_PIECES_H
#define CKPT_IO_PIECES_H

#include "io/source.h"

/*
 * A source that is put together from stretches of another one, bytes in memory, and zeros.
 * Readers of sound files can so read what a damaged file should have been, without copying it.
 * One thread builds it; if memory runs out, ckpt_pieces_finish() says so.
 */
struct ckpt_pieces;

/* Takes a reference of BASE. NULL: no memory; the functions below accept that. */
struct ckpt_pieces *ckpt_pieces_new(struct ckpt_source *base);
void ckpt_pieces_free(struct ckpt_pieces *pieces);

/* Append LEN bytes: those at OFF of the base, which has to have them; a copy of BYTES; zeros. */
void ckpt_pieces_add_extent(struct ckpt_pieces *pieces, uint64_t off, uint64_t len);
void ckpt_pieces_add_memory(struct ckpt_pieces *pieces, const void *bytes, size_t len);
void ckpt_pieces_add_zeros(struct ckpt_pieces *pieces, uint64_t len);

/* Takes PIECES, also on failure. The base has the path, and is checked for changes. */
int ckpt_pieces_finish(struct ckpt_pieces *pieces, struct ckpt_source **out,
		       struct ckpt_error *err);

#endif
