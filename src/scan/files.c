/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/files.h"

#include "base/grow.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_FOLDERS = 1 << 20 };
static const uint64_t PATHS = (uint64_t)1 << 30;

static int add(struct ckpt_scan_files *f, const char *path, uint64_t size, struct ckpt_error *err)
{
	const char **paths = ckpt_grow(f->paths, f->count, &f->cap, sizeof(*paths));
	uint64_t *sizes;

	if (paths)
		f->paths = paths;
	sizes = paths ? ckpt_grow(f->sizes, f->count, &f->size_cap, sizeof(*sizes)) : NULL;
	if (sizes)
		f->sizes = sizes;
	if (!paths || !sizes)
		return ckpt_fail_nomem(err);
	f->paths[f->count] = path;
	f->sizes[f->count++] = size;
	f->bytes += size;
	return 0;
}

static const char *join(struct ckpt_scan_files *f, const char *folder, const char *name)
{
	size_t first = strlen(folder), second = strlen(name);
	char *path;

	while (first > 1 && folder[first - 1] == '/')
		first--;
	path = ckpt_arena_alloc(f->arena, first + second + 2);
	if (!path)
		return NULL;
	memcpy(path, folder, first);
	path[first] = '/';
	memcpy(path + first + 1, name, second + 1);
	return path;
}

/* Folders are put into FOLDERS, files into F. */
static int list_one(struct ckpt_scan_files *f, struct ckpt_scan_files *folders, const char *folder,
		    struct ckpt_error *err)
{
	DIR *dir = opendir(folder);
	const struct dirent *e;
	int rc = 0;

	if (!dir) {
		f->unreadable_folders++;
		return add(f, folder, 0, err); /* opening it says why */
	}
	while (rc == 0 && (e = readdir(dir))) {
		const char *path;
		struct stat st;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		path = join(f, folder, e->d_name);
		if (!path)
			rc = ckpt_arena_fail(f->arena, err);
		else if (lstat(path, &st) < 0)
			rc = add(f, path, 0, err);
		else if (S_ISDIR(st.st_mode))
			rc = add(folders, path, 0, err);
		else if (S_ISREG(st.st_mode))
			rc = add(f, path, (uint64_t)st.st_size, err);
	}
	closedir(dir);
	return rc;
}

struct listed {
	const char *path;
	uint64_t size;
};

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct listed *)a)->path, ((const struct listed *)b)->path);
}

static int sort(struct ckpt_scan_files *f, struct ckpt_error *err)
{
	struct listed *all = malloc((f->count + (size_t)1) * sizeof(*all));

	if (!all)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < f->count; i++)
		all[i] = (struct listed){ f->paths[i], f->sizes[i] };
	qsort(all, f->count, sizeof(*all), by_path);
	for (uint32_t i = 0; i < f->count; i++) {
		f->paths[i] = all[i].path;
		f->sizes[i] = all[i].size;
	}
	free(all);
	return 0;
}

static int list_all(struct ckpt_scan_files *f, const char *path, struct ckpt_error *err)
{
	struct ckpt_scan_files folders = { .arena = f->arena };
	int rc = add(&folders, path, 0, err);

	for (uint32_t i = 0; rc == 0 && i < folders.count && i < MOST_FOLDERS; i++)
		rc = list_one(f, &folders, folders.paths[i], err);
	free(folders.paths);
	free(folders.sizes);
	return rc < 0 ? rc : sort(f, err);
}

int ckpt_scan_list_files(const char *path, struct ckpt_scan_files *out, struct ckpt_error *err)
{
	struct stat st;

	*out = (struct ckpt_scan_files){ .arena = ckpt_arena_new(PATHS) };
	if (!out->arena)
		return ckpt_fail_nomem(err);
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return list_all(out, path, err);
	return add(out, path, 0, err);
}

void ckpt_scan_files_clear(struct ckpt_scan_files *f)
{
	free(f->paths);
	free(f->sizes);
	ckpt_arena_free(f->arena);
	*f = (struct ckpt_scan_files){ 0 };
}
