/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_TEMP_H
#define CKPT_IO_TEMP_H

#include <stdbool.h>
#include <stdint.h>

enum { CKPT_TEMP_TRIES = 100 };

/* What a killed run leaves behind has such a name. For fnmatch(). */
#define CKPT_TEMP_PATTERN ".*.ckpt-tmp"

/*
 * A random hidden name for PATH, in the folder DIR. It may exist by chance: whoever makes the
 * file tries again on EEXIST, CKPT_TEMP_TRIES times. To be freed. NULL: no memory.
 */
char *ckpt_temp_name(const char *dir, const char *path);

/*
 * A temporary file is locked as long as its writer lives: the system lets go of the lock when that ends,
 * however it does. A temporary folder has a file of this name in it for that, until it is to get its name;
 * without it, it may be somebody's, and stays.
 */
#define CKPT_TEMP_OWNER ".ckpt-owner"

/*
 * FD: just made, open for writing. 0: it is locked, or the file system has no locks; -1: somebody removes it as
 * left over, and another name has to be taken.
 */
int ckpt_temp_lock(int fd);

/*
 * Remove the temporary files and folders for PATH, in its folder DIR, whose writer has ended. What cannot be
 * told or removed stays.
 */
void ckpt_temp_remove_left_over(const char *dir, const char *path);

/* NAME, in its folder, takes NBYTES on the disk. */
typedef void ckpt_temp_found(void *ctx, const char *name, uint64_t nbytes);

/* The same of all that is in DIR, whatever it was for. With STAYS it is only looked for. */
void ckpt_temp_each_left_over(const char *dir, bool stays, ckpt_temp_found *found, void *ctx);

#endif
