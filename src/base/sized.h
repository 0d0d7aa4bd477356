/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_SIZED_H
#define CKPT_BASE_SIZED_H

#include "base/error.h"

#include <string.h>

/*
 * Structs of the public API begin with `size_t size`, by which versions tell each other's apart; <ckpt/ckpt.h> has
 * the rules. A caller that was built with an older ckpt has a shorter struct, and a newer one a longer struct, whose
 * end has to be 0 here. Nothing else looks at the size. GIVEN may be NULL everywhere.
 */
enum { CKPT_MOST_SIZED = 4096 }; /* a larger one was never initialised */

static inline int ckpt_sized_check(const void *given, size_t local_size, struct ckpt_error *err)
{
	size_t size = local_size;

	if (given)
		memcpy(&size, given, sizeof(size));
	if (size >= sizeof(size) && size <= CKPT_MOST_SIZED)
		return 0;
	return ckpt_fail(err, CKPT_E_ARG,
			 "a struct of %zu bytes, wanted about %zu: was it initialised?", size,
			 local_size);
}

/* Bytes that this version has no use for. */
static inline int ckpt_unused_check(const void *bytes, size_t len, struct ckpt_error *err)
{
	for (size_t i = 0; i < len; i++)
		if (((const char *)bytes)[i])
			return ckpt_fail(err, CKPT_E_ARG,
					 "a struct says something that this version does not know");
	return 0;
}

/* Options: put what the caller gave over LOCAL, which holds the defaults. */
static inline int ckpt_sized_take(void *local, size_t local_size, const void *given,
				  struct ckpt_error *err)
{
	int rc = ckpt_sized_check(given, local_size, err);
	size_t size;

	if (rc < 0 || !given)
		return rc;
	memcpy(&size, given, sizeof(size));
	if (size > local_size)
		rc = ckpt_unused_check((const char *)given + local_size, size - local_size, err);
	if (rc < 0)
		return rc;
	memcpy(local, given, size < local_size ? size : local_size);
	memcpy(local, &local_size, sizeof(local_size));
	return 0;
}

/* Reports: as much of LOCAL as the caller has room for, and 0 behind it. */
static inline void ckpt_sized_give(void *given, const void *local, size_t local_size)
{
	size_t size;

	if (!given)
		return;
	memcpy(&size, given, sizeof(size));
	if (size < sizeof(size) || size > CKPT_MOST_SIZED)
		return; /* the call failed for that */
	memcpy(given, local, size < local_size ? size : local_size);
	memcpy(given, &size, sizeof(size));
	if (size > local_size)
		memset((char *)given + local_size, 0, size - local_size);
}

#endif
