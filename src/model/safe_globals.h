/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_SAFE_GLOBALS_H
#define CKPT_MODEL_SAFE_GLOBALS_H

#include <stdbool.h>

/*
 * What torch.load(weights_only=True) of torch 2.6 and later takes without being told to: classes and
 * functions by name, also in the spelling of Python 2. Source: torch/_weights_only_unpickler.py, listed from running
 * torch 2.6 and 2.14.
 */
bool ckpt_is_safe_global(const char *module, const char *name);

#endif
