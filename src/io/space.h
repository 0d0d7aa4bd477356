/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_SPACE_H
#define CKPT_IO_SPACE_H

#include "base/error.h"

#include <stdint.h>
#include <sys/statvfs.h>

/*
 * CKPT_E_IO (ENOSPC) if the file system FS, of FOLDER, has fewer than NEED bytes free. This only
 * asks: some systems write blocks that fallocate() reserved twice.
 */
int ckpt_space_check(const struct statvfs *fs, uint64_t need, const char *folder,
		     struct ckpt_error *err);

#endif
