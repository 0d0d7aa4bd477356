/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_TEMP_H
#define CKPT_IO_TEMP_H

enum { CKPT_TEMP_TRIES = 100 };

/* What a killed run leaves behind has such a name. For fnmatch(). */
#define CKPT_TEMP_PATTERN ".*.ckpt-tmp"

/*
 * A random hidden name for PATH, in the folder DIR. It may exist by chance: whoever makes the
 * file tries again on EEXIST, CKPT_TEMP_TRIES times. To be freed. NULL: no memory.
 */
char *ckpt_temp_name(const char *dir, const char *path);

#endif
