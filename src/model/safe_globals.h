/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_SAFE_GLOBALS_H
#define CKPT_MODEL_SAFE_GLOBALS_H

#include <stdbool.h>

/* Versions of torch; those in between have lists in between. */
enum ckpt_safe_in {
	CKPT_SAFE_IN_1_13 = 1 << 0,
	CKPT_SAFE_IN_2_6 = 1 << 1,
	CKPT_SAFE_IN_2_14 = 1 << 2,
};

/*
 * What torch.load(weights_only=True) takes without being told to: classes and functions by name,
 * from 2.6 on also in the spelling of Python 2. The versions that do. Source:
 * torch/_weights_only_unpickler.py, listed from running torch 1.13, 2.6 and 2.14.
 */
unsigned ckpt_safe_global_in(const char *module, const char *name);

/* By 2.6 and later. */
bool ckpt_is_safe_global(const char *module, const char *name);

#endif
