/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_SMALL_H
#define CKPT_DIFF_SMALL_H

#include "diff/pair.h"
#include "io/source.h"

/*
 * Pairs of small tensors: opening arrays and reading each by itself would take far more time than
 * comparing. What lies behind one of them in its file is read along with it. All zero at first; for
 * one thread at a time.
 */
struct ckpt_small_pairs {
	struct ckpt_window a, b;
};

void ckpt_small_pairs_clear(struct ckpt_small_pairs *small);

/*
 * Compare the numbers of PAIR if each side is one small stretch of a file. False: it is not, or
 * cannot be read; whoever opens both as arrays finds out why.
 */
bool ckpt_small_pair_read(struct ckpt_small_pairs *small, const struct ckpt_comparison *c,
			  const struct ckpt_pair *pair, struct ckpt_measure *measure,
			  struct ckpt_numbers *numbers);

#endif
