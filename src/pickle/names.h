/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PICKLE_NAMES_H
#define CKPT_PICKLE_NAMES_H

#include <stdbool.h>

/*
 * The spelling that protocols 0 to 2 use for a name of Python 3: builtins.set is __builtin__.set.
 * False, and the names themselves, if they are the same.
 */
bool ckpt_python2_name(const char *module, const char *name, const char **old_module,
		       const char **old_name);

#endif
