/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_SIZED_H
#define CKPT_BASE_SIZED_H

#include "base/error.h"

#include <string.h>

/*
 * Structs of the public API begin with `size_t size`: a caller that was built with an older ckpt
 * has a shorter one. Only this file uses it. GIVEN may be NULL everywhere.
 */

static inline int ckpt_sized_check(const void *given, size_t local_size, struct ckpt_error *err)
{
	size_t size = local_size;

	if (given)
		memcpy(&size, given, sizeof(size));
	if (size >= sizeof(size) && size <= local_size)
		return 0;
	return ckpt_fail(err, CKPT_E_ARG,
			 "a struct of %zu bytes, wanted up to %zu: was it initialised?", size,
			 local_size);
}

/* Options: LOCAL holds the defaults; copy over it what the caller gave. */
static inline int ckpt_sized_take(void *local, size_t local_size, const void *given,
				  struct ckpt_error *err)
{
	int rc = ckpt_sized_check(given, local_size, err);
	size_t size;

	if (rc < 0 || !given)
		return rc;
	memcpy(&size, given, sizeof(size));
	memcpy(local, given, size);
	memcpy(local, &local_size, sizeof(local_size));
	return 0;
}

/* Reports: copy as much of LOCAL as the caller's struct holds. GIVEN was checked. */
static inline void ckpt_sized_give(void *given, const void *local)
{
	size_t size;

	if (!given)
		return;
	memcpy(&size, given, sizeof(size));
	memcpy(given, local, size);
	memcpy(given, &size, sizeof(size));
}

#endif
