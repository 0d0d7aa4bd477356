/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_PARENTS_H
#define CKPT_BROADCAST_PARENTS_H

#include "base/error.h"

/*
 * Make FOLDER, and those around it that are missing. *FIRST, for the caller to free: the outermost
 * that was made, or NULL.
 */
int ckpt_parents_make(const char *folder, char **first, struct ckpt_error *err);

/* Remove them again, as long as they are empty. FIRST may be NULL. */
void ckpt_parents_remove(const char *folder, const char *first);

#endif
