/* SPDX-License-Identifier: Apache-2.0 */
#include <ckpt/text.h>

#include <string.h>

/* Names are grouped by their first parts wherever something has a --depth. */
size_t ckpt_name_front(const char *name, uint64_t parts)
{
	size_t len = 0;

	for (; parts; parts--) {
		len += strcspn(name + len, ".");
		if (parts == 1 || !name[len])
			break;
		len++;
	}
	return len;
}
