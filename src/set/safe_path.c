/* SPDX-License-Identifier: Apache-2.0 */
#include "set/safe_path.h"

#include "base/ascii.h"

#include <string.h>

enum { MOST_PATH = 4096 };

bool ckpt_path_leads_out(const char *path, size_t len)
{
	size_t start = 0;

	if (len && (path[0] == '/' || path[0] == '\\'))
		return true;
	if (len > 1 && ckpt_is_alpha((unsigned char)path[0]) && path[1] == ':')
		return true;
	for (size_t i = 0; i <= len; i++) {
		if (i < len && path[i] != '/' && path[i] != '\\')
			continue;
		if (i - start == 2 && path[start] == '.' && path[start + 1] == '.')
			return true;
		start = i + 1;
	}
	return false;
}

bool ckpt_path_is_name(const char *path, size_t len)
{
	return len && len <= MOST_PATH && !memchr(path, '\0', len);
}
