/* SPDX-License-Identifier: Apache-2.0 */
#include "base/paths.h"

#include <stdlib.h>
#include <string.h>

bool ckpt_is_below(const char *path, const char *folder)
{
	char *in = realpath(path, NULL), *around = realpath(folder, NULL);
	size_t len = around ? strlen(around) : 0;
	bool below = in && around && !strncmp(in, around, len) &&
		     (!in[len] || in[len] == '/' || len == 1); /* "/" */

	free(in);
	free(around);
	return below;
}
