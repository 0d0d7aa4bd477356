/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_PIECES_H
#define CKPT_IO_PIECES_H

#include "io/source.h"

/*
 * A source that is put together: stretches of another one, bytes in memory, zeros. What a damaged file should have been can
 * so be read by whoever reads sound ones, and nothing is copied for it. While it is made, by one thread, memory that
 * runs out is only noted; finishing says so.
 */
struct ckpt_pieces;

/* NULL: no memory, which the functions below take as well. BASE: a reference is taken. */
struct ckpt_pieces *ckpt_pieces_new(struct ckpt_source *base);
void ckpt_pieces_free(struct ckpt_pieces *pieces);

/* Each appends LEN bytes: those at OFF of the base, which must be there; a copy of BYTES; zeros. */
void ckpt_pieces_add_extent(struct ckpt_pieces *pieces, uint64_t off, uint64_t len);
void ckpt_pieces_add_memory(struct ckpt_pieces *pieces, const void *bytes, size_t len);
void ckpt_pieces_add_zeros(struct ckpt_pieces *pieces, uint64_t len);

/* Takes PIECES, also on failure. The base is asked for the path and for changes. */
int ckpt_pieces_finish(struct ckpt_pieces *pieces, struct ckpt_source **out,
		       struct ckpt_error *err);

#endif
