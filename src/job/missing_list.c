/* SPDX-License-Identifier: Apache-2.0 */
#include "job/missing_list.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOST_NAMED = 8 };

uint32_t ckpt_missing_list(const bool *there, uint32_t size, char *text, size_t room)
{
	uint32_t missing = 0, named = 0;
	size_t len;

	for (uint32_t i = 0; i < size; i++)
		missing += !there[i];
	len = (size_t)snprintf(text, room, "rank%s ", missing == 1 ? "" : "s");
	for (uint32_t i = 0; i < size && named < MOST_NAMED; i++)
		if (!there[i])
			len += (size_t)snprintf(text + len, room - len, "%s%" PRIu32,
						named++ ? ", " : "", i);
	if (missing > named)
		len += (size_t)snprintf(text + len, room - len, " and %" PRIu32 " more",
					missing - named);
	snprintf(text + len, room - len, " of %" PRIu32, size);
	return missing;
}

int ckpt_missing_fail_answer(uint32_t size, uint32_t count, uint32_t first, const char *host,
			     uint32_t pid, struct ckpt_error *err)
{
	return ckpt_fail(err, CKPT_E_PEER,
			 "all %" PRIu32 " ranks came, but %" PRIu32 " did not take rank 0's answer: rank %" PRIu32
			 " (%s, pid %" PRIu32 ")%s",
			 size, count, first, host, pid, count > 1 ? " is the first of them" : "");
}
