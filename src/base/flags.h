/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_FLAGS_H
#define CKPT_BASE_FLAGS_H

#include "base/error.h"

/*
 * FLAGS that the caller gave, of which this version knows KNOWN. What a newer version means by another
 * one would be left undone without a word.
 */
static inline int ckpt_flags_check(unsigned flags, unsigned known, struct ckpt_error *err)
{
	if (!(flags & ~known))
		return 0;
	return ckpt_fail(err, CKPT_E_ARG, "flags 0x%x are not known to this version", flags & ~known);
}

/* All of enum ckpt_save_flags. */
#define CKPT_SAVE_FLAGS \
	(CKPT_SAVE_REPLACE | CKPT_SAVE_NO_SYNC | CKPT_SAVE_CANONICAL | CKPT_SAVE_DRY_RUN | \
	 CKPT_SAVE_HARD_LINK | CKPT_SAVE_DROP_OTHERS | CKPT_SAVE_CHECK_CASTS)

#endif
