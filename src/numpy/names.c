/* SPDX-License-Identifier: Apache-2.0 */
#include "numpy/names.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

static const char suffix[] = ".npy";

static bool is_slash(char c)
{
	return c == '/' || c == '\\'; /* some programs that unpack archives take both */
}

/* The last part cannot be "..", as ".npy" follows. */
static bool leads_out(const char *name)
{
	if (is_slash(*name))
		return true;
	for (const char *at = name; *at; at++)
		if (at[0] == '.' && at[1] == '.' && is_slash(at[2]) &&
		    (at == name || is_slash(at[-1])))
			return true;
	return false;
}

int ckpt_npz_check_name(const char *name, struct ckpt_error *err)
{
	if (!ckpt_utf8_ok(name, strlen(name)))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "is a name that is not UTF-8, which numpy cannot read");
	if (leads_out(name))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "is a path that leads out of the folder where it is unpacked");
	return 0;
}

/* How many bytes at AT can stay as they are; 0: the first has to be written as %XX. */
static size_t plain_len(const char *at, size_t len, bool first)
{
	unsigned char c = (unsigned char)*at;

	if (c < 0x20 || c == 0x7F || c == '/' || c == '%')
		return 0;
	return first && (c == '.' || c == '-') ? 0 : ckpt_utf8_len(at, len);
}

int ckpt_npy_file_name(const char *name, char out[CKPT_NPY_MOST_FILE_NAME + 1],
		       struct ckpt_error *err)
{
	size_t len = strlen(name), used = 0;

	for (size_t i = 0; i < len;) {
		size_t n = plain_len(name + i, len - i, i == 0), takes = n ? n : 3;

		if (used + takes + strlen(suffix) > CKPT_NPY_MOST_FILE_NAME)
			return ckpt_fail(err, CKPT_E_UNSUPPORTED,
					 "is longer than the name of a file can be, %d bytes",
					 CKPT_NPY_MOST_FILE_NAME);
		if (n)
			memcpy(out + used, name + i, n);
		else
			snprintf(out + used, 4, "%%%02X", (unsigned char)name[i]);
		used += takes;
		i += n ? n : 1;
	}
	memcpy(out + used, suffix, sizeof(suffix));
	return 0;
}
