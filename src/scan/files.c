/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files below a folder, sorted by path, each to be scanned.
 *
 * What must stay true: nothing is left out in silence. What cannot be listed or is no file becomes
 * an entry all the same, and opening it says why. A link to a folder below the root is skipped
 * only because that folder is listed under its own name. One in an unpacked torch.package is not:
 * what it leads to is part of the package.
 */
#include "scan/files.h"

#include "base/grow.h"
#include "base/paths.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_FOLDERS = 1 << 20 };
static const uint64_t PATHS = (uint64_t)1 << 30;

static int add_file(struct ckpt_scan_files *f, const char *path, uint64_t size, struct ckpt_error *err)
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

static const char *join_path(struct ckpt_scan_files *f, const char *folder, const char *name)
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

const char *ckpt_scan_path_in_package(const struct ckpt_scan_files *f, const char *path)
{
	const char *in = NULL;

	/* the first, as all below it is in that, too; in the ".data" of one there may be others */
	for (const char *slash = strchr(path, '/'); f->packages.count && slash && (!in || !strncmp(in, ".data/", 6)); slash = strchr(slash + 1, '/'))
		if (ckpt_strmap_find(&f->packages, path, slash == path ? 1 : (size_t)(slash - path)))
			in = slash + 1;
	return in;
}

/*
 * torch.package.PackageImporter takes a folder for a package if one of these files is in it, by whatever links: that of torch 1.8 the
 * second. The name is put down as paths below it begin: without slashes at its end.
 */
static int note_package(struct ckpt_scan_files *f, const char *folder, struct ckpt_error *err)
{
	static const char *const marks[] = { ".data/extern_modules", "extern_modules" };
	const char *outer = ckpt_scan_path_in_package(f, folder);
	size_t len = strlen(folder), count = outer && !strcmp(outer, ".data") ? 1 : 2; /* that list is one of the outer package */
	bool is_package = false, there;
	struct stat st;

	for (size_t i = 0; i < count; i++) {
		const char *mark = join_path(f, folder, marks[i]);

		if (!mark)
			return ckpt_arena_fail(f->arena, err);
		is_package |= stat(mark, &st) == 0 && S_ISREG(st.st_mode);
	}
	if (!is_package)
		return 0;
	while (len > 1 && folder[len - 1] == '/')
		len--;
	return ckpt_strmap_insert(&f->packages, folder, len, 0, &there) ? 0 : ckpt_fail_nomem(err);
}

static int add_folder(struct ckpt_scan_files *f, struct ckpt_scan_files *folders, const char *path, struct ckpt_error *err)
{
	int rc = note_package(f, path, err);

	return rc < 0 ? rc : add_file(folders, path, 0, err);
}

/*
 * Folders are put into FOLDERS, files into F; of links what they lead to, as a snapshot of a hub is
 * nothing but links. A link to a folder is one more name of what is below ROOT, or else an entry of
 * F, as is all that is no file: opening it says why it cannot be looked at, and nothing is left out
 * in silence.
 */
static int list_entry(struct ckpt_scan_files *f, struct ckpt_scan_files *folders, const char *root,
		      const char *path, struct ckpt_error *err)
{
	struct stat st, to;

	if (lstat(path, &st) < 0 || stat(path, &to) < 0)
		return add_file(f, path, 0, err);
	if (S_ISDIR(st.st_mode))
		return add_folder(f, folders, path, err);
	if (S_ISDIR(to.st_mode) && !ckpt_scan_path_in_package(f, path) && ckpt_is_below(path, root))
		return 0;
	return add_file(f, path, S_ISREG(to.st_mode) ? (uint64_t)to.st_size : 0, err);
}

static int list_one(struct ckpt_scan_files *f, struct ckpt_scan_files *folders, const char *folder,
		    struct ckpt_error *err)
{
	DIR *dir = opendir(folder);
	const struct dirent *e;
	int rc = 0;

	if (!dir && errno == ENOMEM)
		return ckpt_fail_nomem(err);
	while (dir && rc == 0 && (errno = 0, e = readdir(dir))) {
		const char *path;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		path = join_path(f, folder, e->d_name);
		rc = path ? list_entry(f, folders, folders->paths[0], path, err)
			  : ckpt_arena_fail(f->arena, err);
	}
	if (rc == 0 && (!dir || errno)) { /* opening it says why */
		f->unreadable_folders++;
		rc = add_file(f, folder, 0, err);
	}
	if (dir)
		closedir(dir);
	return rc;
}

struct listed {
	const char *path;
	uint64_t size;
};

static int compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct listed *)a)->path, ((const struct listed *)b)->path);
}

static int sort_files(struct ckpt_scan_files *f, struct ckpt_error *err)
{
	struct listed *all = malloc((f->count + (size_t)1) * sizeof(*all));

	if (!all)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < f->count; i++)
		all[i] = (struct listed){ f->paths[i], f->sizes[i] };
	qsort(all, f->count, sizeof(*all), compare_paths);
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
	int rc = add_folder(f, &folders, path, err);

	for (uint32_t i = 0; rc == 0 && i < folders.count; i++)
		rc = i < MOST_FOLDERS ? list_one(f, &folders, folders.paths[i], err)
				      : ckpt_fail(err, CKPT_E_LIMIT,
						  "holds more than %d folders", MOST_FOLDERS);
	free(folders.paths);
	free(folders.sizes);
	return rc < 0 ? rc : sort_files(f, err);
}

int ckpt_scan_list_files(const char *path, struct ckpt_scan_files *out, struct ckpt_error *err)
{
	struct stat st;
	bool is_there = stat(path, &st) == 0;

	*out = (struct ckpt_scan_files){ .arena = ckpt_arena_new(PATHS) };
	if (!out->arena)
		return ckpt_fail_nomem(err);
	if (is_there && S_ISDIR(st.st_mode))
		return list_all(out, path, err);
	return add_file(out, path, is_there && st.st_size > 0 ? (uint64_t)st.st_size : 0, err);
}

void ckpt_scan_files_clear(struct ckpt_scan_files *f)
{
	free(f->paths);
	free(f->sizes);
	ckpt_strmap_clear(&f->packages);
	ckpt_arena_free(f->arena);
	*f = (struct ckpt_scan_files){ 0 };
}
