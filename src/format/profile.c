/* SPDX-License-Identifier: Apache-2.0 */
#include "format/profile.h"

#include "base/ascii.h"

#include <stdlib.h>
#include <string.h>

const struct ckpt_profile ckpt_profiles[CKPT_PROFILE_COUNT] = {
	{ .since = "1.6",
	  .writers = "torch 1.6 to 1.8",
	  .major = 1,
	  .minor = 6,
	  .always_archive = true,
	  .address_keys = true },
	{ .since = "1.9",
	  .writers = "torch 1.9 to 1.12",
	  .major = 1,
	  .minor = 9,
	  .always_archive = true },
	{ .since = "1.13",
	  .writers = "torch 1.13 to 2.0",
	  .major = 1,
	  .minor = 13,
	  .differentiable = true,
	  .python311 = true },
	{ .since = "2.1",
	  .writers = "torch 2.1 to 2.6",
	  .major = 2,
	  .minor = 1,
	  .byteorder = true,
	  .serialization_id = true,
	  .ascii_path_only = true,
	  .is_coalesced = true,
	  .differentiable = true,
	  .empty_apart = true,
	  .python313 = true },
	{ .since = "2.7",
	  .writers = "torch 2.7 or later",
	  .major = 2,
	  .minor = 7,
	  .byteorder = true,
	  .serialization_id = true,
	  .format_version = true,
	  .numeric_order = true,
	  .ascii_path_only = true,
	  .is_coalesced = true,
	  .differentiable = true,
	  .empty_apart = true,
	  .heap_generator = true,
	  .prepared_keys = true,
	  .python313 = true },
};
const struct ckpt_profile *ckpt_profile_find(const char *version)
{
	const struct ckpt_profile *found = NULL;
	unsigned long major, minor;
	char *end;

	major = strtoul(version, &end, 10);
	if (end == version || *end != '.')
		return NULL;
	version = end + 1;
	minor = strtoul(version, &end, 10);
	if (end == version || (*end && *end != '.') || major < 1 || major > 2)
		return NULL;
	for (int i = 0; i < CKPT_PROFILE_COUNT; i++)
		if (ckpt_profiles[i].major < major ||
		    (ckpt_profiles[i].major == major && ckpt_profiles[i].minor <= minor))
			found = &ckpt_profiles[i];
	return found;
}

const struct ckpt_profile *ckpt_profile_detect(bool format_version, bool serialization_id,
					       bool byteorder, bool named_archive,
					       bool sequential_keys)
{
	if (format_version)
		return &ckpt_profiles[4];
	if (serialization_id || byteorder)
		return &ckpt_profiles[3];
	if (!named_archive)
		return &ckpt_profiles[2];
	return sequential_keys ? &ckpt_profiles[1] : &ckpt_profiles[0];
}

int ckpt_profile_archive_name(const struct ckpt_profile *profile, const char *path, char *name,
			      size_t size, struct ckpt_error *err)
{
	const char *base = path, *dot;
	size_t len;

	if (profile->always_archive || (profile->ascii_path_only && !ckpt_is_ascii(path))) {
		base = "archive";
		len = strlen(base);
	} else {
		for (const char *p = path; *p; p++)
			if (*p == '/' || *p == '\\')
				base = p + 1;
		dot = strrchr(base, '.');
		len = dot ? (size_t)(dot - base) : strlen(base);
	}
	if (!len || len >= size)
		return ckpt_fail(
			err, CKPT_E_OUTPUT,
			"torch names the archive after the file, and '%.200s' leaves no name",
			path);
	memcpy(name, base, len);
	name[len] = '\0';
	return 0;
}
