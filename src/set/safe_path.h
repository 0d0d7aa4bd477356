/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_SAFE_PATH_H
#define CKPT_SET_SAFE_PATH_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Names of files that an index gives, relative to its directory. Is PATH one that leads out of it
 * on any system: absolute, with a drive, or by way of ".."?
 */
bool ckpt_path_leads_out(const char *path, size_t len);

/* Can it be the name of a file at all: neither empty, nor too long, nor with a NUL? */
bool ckpt_path_is_name(const char *path, size_t len);

#endif
