/* SPDX-License-Identifier: Apache-2.0 */
#include <ckpt/text.h>

#include <string.h>

/* Names are grouped by their first parts wherever something has a --depth. */
size_t ckpt_name_front(const char *name, uint64_t parts)
{
	const char *last = strrchr(name, '.');
	size_t len = 0;

	if (parts == CKPT_DEPTH_MODULE)
		return last ? (size_t)(last - name) : strlen(name);
	for (; parts; parts--) {
		len += strcspn(name + len, ".");
		if (parts == 1 || !name[len])
			break;
		len++;
	}
	return len;
}
