/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_PATHS_H
#define CKPT_BASE_PATHS_H

#include "base/error.h"

#include <stdbool.h>

/*
 * Is PATH the folder FOLDER, by whatever name, or somewhere below it, with all links followed?
 * False if one of them does not exist.
 */
bool ckpt_is_below(const char *path, const char *folder);

/*
 * Is PATH the name of a descriptor of a process, or of a device (/dev/stdin, /proc/self/fd/0), however
 * it is spelled? Such a name says nothing of what is read there, and means something else tomorrow.
 */
bool ckpt_is_descriptor(const char *path);

/* The folder that PATH is in: "." of a name alone. To be freed. NULL: no memory. */
char *ckpt_path_parent(const char *path);

/* *OUT: "FOLDER/NAME", to be freed. CKPT_E_NOMEM: *OUT is NULL. */
int ckpt_path_join(const char *folder, const char *name, char **out, struct ckpt_error *err);

#endif
