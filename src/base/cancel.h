/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_CANCEL_H
#define CKPT_BASE_CANCEL_H

#include <stddef.h>

/*
 * The number that the caller's cancel flag shows, 0 where there is no flag. It is read as an atomic
 * number: another thread may set it meanwhile, and what it is written with is the caller's choice.
 */
static inline int ckpt_cancelled(const volatile int *cancel)
{
	return cancel ? __atomic_load_n(cancel, __ATOMIC_RELAXED) : 0;
}

#endif
