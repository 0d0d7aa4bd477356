/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_SIDES_H
#define CKPT_DIFF_SIDES_H

#include "diff/pair.h"

/* What is known without reading. */

/* What E is, for who asked for the differences, and for comparing; what it needs is in ARENA. */
int ckpt_side_of(const struct ckpt_entries *entries, const struct ckpt_entry *e,
		 struct ckpt_arena *arena, struct ckpt_diff_side *out, struct ckpt_error *err);

/* The bytes of both sides of PAIR. */
uint64_t ckpt_bytes_of_pair(const struct ckpt_comparison *c, const struct ckpt_pair *pair);

/* Compare two tensors or arrays as far as that goes without their bytes. */
int ckpt_compare_sides(const struct ckpt_comparison *c, struct ckpt_pair *pair,
		       struct ckpt_error *err);

/* Do TA and TB show the same part of equal bytes, as far as checksums tell? */
bool ckpt_same_bytes(const struct ckpt_comparison *c, const struct ckpt_tensor *ta,
		     const struct ckpt_tensor *tb);

/* The checksum of all bytes of storage I. */
bool ckpt_known_crc(const struct ckpt_model *model, int64_t i, uint32_t *crc);

#endif
