/* SPDX-License-Identifier: Apache-2.0 */
#include "set/listing.h"

#include "base/c_locale.h"
#include "base/grow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int add_name(struct ckpt_listing *l, int dir, const char *name, struct ckpt_error *err)
{
	struct ckpt_listed *item;
	struct stat st = { 0 };

	item = ckpt_grow(l->items, (uint32_t)l->count, &l->cap, sizeof(*l->items));
	if (!item)
		return ckpt_fail_nomem(err);
	l->items = item;
	fstatat(dir, name, &st, 0); /* a link that leads nowhere has no size */
	item = &l->items[l->count];
	*item = (struct ckpt_listed){ .name = strdup(name),
				      .size = (uint64_t)st.st_size,
				      .mtime = st.st_mtim,
				      .is_folder = S_ISDIR(st.st_mode) };
	if (!item->name)
		return ckpt_fail_nomem(err);
	l->count++;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct ckpt_listed *x = a, *y = b;

	return strcmp(x->name, y->name);
}

bool ckpt_set_is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int ckpt_listing_read(const char *path, struct ckpt_listing *out, struct ckpt_error *err)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int rc = 0;

	*out = (struct ckpt_listing){ 0 };
	if (!dir)
		return ckpt_fail_errno(err, "cannot read the directory");
	errno = 0;
	while (rc == 0 && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			rc = add_name(out, dirfd(dir), entry->d_name, err);
		errno = 0;
	}
	if (rc == 0 && errno)
		rc = ckpt_fail_errno(err, "cannot read the directory");
	closedir(dir);
	if (rc < 0)
		ckpt_listing_clear(out);
	else if (out->count)
		qsort(out->items, out->count, sizeof(*out->items), by_name);
	return rc;
}

void ckpt_listing_clear(struct ckpt_listing *l)
{
	for (size_t i = 0; i < l->count; i++)
		free((char *)l->items[i].name);
	free(l->items);
	*l = (struct ckpt_listing){ 0 };
}

const struct ckpt_listed *ckpt_listing_find(const struct ckpt_listing *l, const char *name)
{
	for (size_t i = 0; i < l->count; i++)
		if (!strcmp(l->items[i].name, name))
			return &l->items[i];
	return NULL;
}

size_t ckpt_listing_count(const struct ckpt_listing *l, const char *pattern,
			  const struct ckpt_listed **first)
{
	size_t count = 0;

	for (size_t i = 0; i < l->count; i++)
		if (!l->items[i].is_folder && ckpt_glob_matches(pattern, l->items[i].name, 0)) {
			if (!count++ && first)
				*first = &l->items[i];
		}
	return count;
}

bool ckpt_listed_newer(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}
