/* SPDX-License-Identifier: Apache-2.0 */
#include "io/space.h"

#include <errno.h>
#include <inttypes.h>

int ckpt_space_check(const struct statvfs *fs, uint64_t need, const char *folder,
		     struct ckpt_error *err)
{
	uint64_t available;

	if (!fs->f_blocks || /* it does not say */
	    __builtin_mul_overflow((uint64_t)fs->f_bavail, (uint64_t)fs->f_frsize, &available) ||
	    available >= need)
		return 0;
	errno = ENOSPC;
	return ckpt_fail_errno(err, "needs %" PRIu64 " bytes, %" PRIu64 " are free in '%s'", need,
			       available, folder);
}
