/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_LISTING_H
#define CKPT_SET_LISTING_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* A name in a directory. */
struct ckpt_listed {
	const char *name;
	uint64_t size;
	struct timespec mtime;
	bool is_folder;
};

/* The names in a directory, sorted, without "." and "..". */
struct ckpt_listing {
	struct ckpt_listed *items; /* malloc */
	size_t count;
	uint32_t cap;
};

bool ckpt_set_is_folder(const char *path);

int ckpt_listing_read(const char *path, struct ckpt_listing *out, struct ckpt_error *err);
void ckpt_listing_clear(struct ckpt_listing *listing);

/* The file NAME, or NULL. */
const struct ckpt_listed *ckpt_listing_find(const struct ckpt_listing *listing, const char *name);

/* How many names match a shell PATTERN; *FIRST, which may be NULL, is one of them. */
size_t ckpt_listing_count(const struct ckpt_listing *listing, const char *pattern,
			  const struct ckpt_listed **first);

/* Is A newer than B, by the time of the last change? */
bool ckpt_listed_newer(const struct timespec *a, const struct timespec *b);

#endif
