/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_SIDES_H
#define CKPT_DIFF_SIDES_H

#include "diff/pair.h"

/* Describe E, for the caller of ckpt_diff() and for comparing. Texts and shapes are in ARENA. */
int ckpt_describe_side(const struct ckpt_entries *entries, const struct ckpt_entry *e,
		       struct ckpt_arena *arena, struct ckpt_diff_side *out,
		       struct ckpt_error *err);

/* The bytes of both sides of PAIR. */
uint64_t ckpt_pair_nbytes(const struct ckpt_comparison *c, const struct ckpt_pair *pair);

/* Compare two tensors or arrays as far as that goes without their bytes. */
int ckpt_compare_sides(const struct ckpt_comparison *c, struct ckpt_pair *pair,
		       struct ckpt_error *err);

/* Do TA and TB show the same part of bytes with equal checksums? */
bool ckpt_same_bytes(const struct ckpt_comparison *c, const struct ckpt_tensor *ta,
		     const struct ckpt_tensor *tb);

/* The recorded checksum of all bytes of storage I; false: there is none. */
bool ckpt_recorded_crc(const struct ckpt_model *model, int64_t i, uint32_t *crc);

#endif
