/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_TEMP_H
#define CKPT_IO_TEMP_H

enum { CKPT_TEMP_TRIES = 100 };

/* What a run that was killed leaves behind has such a name. For fnmatch(). */
#define CKPT_TEMP_PATTERN ".*.ckpt-tmp"

/*
 * A hidden name beside PATH, in the folder DIR, that nothing has, as far as chance goes: whoever makes it has to try again where it
 * is taken (EEXIST), CKPT_TEMP_TRIES times. Freed by the caller. NULL: no memory.
 */
char *ckpt_temp_name(const char *dir, const char *path);

#endif
