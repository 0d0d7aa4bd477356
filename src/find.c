/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoints below a folder: first all names are listed and sorted, then they are visited.
 *
 * What must stay true: nothing is left out in silence. What cannot be listed is an entry as well,
 * and a file whose name is that of a checkpoint is one, whatever its bytes are. A link to a folder
 * below the root is skipped only because that folder is listed under its own name; no other is
 * entered, so that there are no loops.
 */
#include "base/grow.h"
#include "base/paths.h"
#include "base/text.h"
#include "format/container.h"
#include "format/format.h"
#include "set/set.h"

#include <ckpt/find.h>

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_FOLDERS = 1 << 20 };

struct found {
	char *path; /* owned */
	enum ckpt_found kind;
	bool is_probed;	  /* KIND is known */
	const char *what; /* cannot be done, if it is unreadable */
	int code;	  /* errno */
};

struct found_list {
	struct found *items; /* malloc */
	uint32_t count, cap;
};

struct finding {
	const char *root;
	struct found_list files, folders;
};

/* Takes PATH. */
static int add(struct found_list *list, char *path, struct found found, struct ckpt_error *err)
{
	struct found *items = ckpt_grow(list->items, list->count, &list->cap, sizeof(*items));

	if (!items) {
		free(path);
		return ckpt_fail_nomem(err);
	}
	list->items = items;
	found.path = path;
	items[list->count++] = found;
	return 0;
}

static void clear(struct found_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		free(list->items[i].path);
	free(list->items);
}

/* ---- one file ---- */

static bool is_named_like_one(const char *path)
{
	static const char *const ends[] = { ".pt", ".pth", ".ckpt", ".safetensors" };

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (ckpt_ends_with(path, ends[i]))
			return true;
	return false;
}

/* What ckpt itself writes beside its output is nobody's checkpoint yet. */
static bool is_unfinished(const char *path)
{
	return ckpt_ends_with(path, ".ckpt-tmp") || ckpt_ends_with(path, ".ckpt-staged");
}

static int probe(struct found *f, struct ckpt_error *err)
{
	struct ckpt_source *source;
	struct ckpt_error local = CKPT_ERROR_INIT;
	bool is;
	int rc;

	f->is_probed = true;
	f->kind = is_named_like_one(f->path) ? CKPT_FOUND_CHECKPOINT : CKPT_FOUND_OTHER;
	if (f->kind == CKPT_FOUND_CHECKPOINT || is_unfinished(f->path))
		return 0;
	rc = ckpt_source_open(f->path, &source, &local);
	if (rc == 0) {
		rc = ckpt_format_probe(source, &is, &local);
		ckpt_source_unref(source);
		if (rc == 0 && is)
			f->kind = CKPT_FOUND_CHECKPOINT;
	}
	if (rc == CKPT_E_NOMEM)
		return ckpt_fail_nomem(err);
	if (rc < 0) {
		f->kind = CKPT_FOUND_UNREADABLE;
		f->what = "cannot read";
		f->code = local.sys_errno;
	}
	return 0;
}

/* ---- listing ---- */

static int unreadable(struct finding *g, char *path, const char *what, int code,
		      struct ckpt_error *err)
{
	const struct found found = {
		.kind = CKPT_FOUND_UNREADABLE, .is_probed = true, .what = what, .code = code
	};

	return add(&g->files, path, found, err);
}

static int add_known(struct finding *g, char *path, enum ckpt_found kind, struct ckpt_error *err)
{
	const struct found found = { .kind = kind, .is_probed = true };

	return add(&g->files, path, found, err);
}

static int list_linked_folder(struct finding *g, char *path, struct ckpt_error *err)
{
	enum ckpt_set_extent extent;
	int rc;

	if (ckpt_is_below(path, g->root)) {
		free(path);
		return 0;
	}
	rc = ckpt_set_extent(path, &extent, err);
	if (rc < 0) {
		free(path);
		return rc;
	}
	if (extent >= CKPT_SET_FILES)
		return add_known(g, path, CKPT_FOUND_CHECKPOINT, err);
	return unreadable(g, path, "is a link to a folder elsewhere, which is not followed", 0,
			  err);
}

/* Takes PATH. */
static int list_entry(struct finding *g, char *path, struct ckpt_error *err)
{
	struct stat st, to;

	if (lstat(path, &st) < 0 || stat(path, &to) < 0)
		return unreadable(g, path, "cannot open", errno, err);
	if (S_ISDIR(st.st_mode) && is_unfinished(path))
		return add_known(g, path, CKPT_FOUND_OTHER, err);
	if (S_ISDIR(st.st_mode))
		return add(&g->folders, path, (struct found){ 0 }, err);
	if (S_ISDIR(to.st_mode))
		return list_linked_folder(g, path, err);
	if (!S_ISREG(to.st_mode))
		return add_known(g, path, CKPT_FOUND_OTHER, err);
	return add(&g->files, path, (struct found){ 0 }, err);
}

static int list_names(struct finding *g, const char *folder, bool folders_only,
		      struct ckpt_error *err)
{
	DIR *dir = opendir(folder);
	const struct dirent *e;
	int rc = 0, code = errno;

	if (!dir && code == ENOMEM)
		return ckpt_fail_nomem(err);
	while (dir && rc == 0 && (errno = 0, e = readdir(dir))) {
		struct stat st;
		char *path;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		rc = ckpt_path_join(folder, e->d_name, &path, err);
		if (rc < 0)
			break;
		if (folders_only && (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode)))
			free(path); /* a part of the set */
		else
			rc = list_entry(g, path, err);
	}
	if (dir)
		code = rc == 0 ? errno : 0;
	if (rc == 0 && (!dir || code)) {
		char *path = strdup(folder);

		rc = path ? unreadable(g, path, "cannot read the directory", code, err)
			  : ckpt_fail_nomem(err);
	}
	if (dir)
		closedir(dir);
	return rc;
}

static int list_folder(struct finding *g, const char *folder, bool is_root, struct ckpt_error *err)
{
	enum ckpt_set_extent extent = CKPT_SET_NONE;
	char *path;
	int rc = is_root ? 0 : ckpt_set_extent(folder, &extent, err);

	if (rc < 0)
		return rc;
	if (extent < CKPT_SET_FILES)
		return list_names(g, folder, false, err);
	path = strdup(folder);
	rc = path ? add_known(g, path, CKPT_FOUND_CHECKPOINT, err) : ckpt_fail_nomem(err);
	if (rc == 0 && extent == CKPT_SET_FILES)
		rc = list_names(g, folder, true, err);
	return rc;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct found *)a)->path, ((const struct found *)b)->path);
}

/* All that is below the root, sorted, and what it is. */
static int list_all(struct finding *g, struct ckpt_error *err)
{
	int rc = list_folder(g, g->root, true, err);

	for (uint32_t i = 0; rc == 0 && i < g->folders.count; i++)
		rc = i < MOST_FOLDERS ? list_folder(g, g->folders.items[i].path, false, err)
				      : ckpt_fail(err, CKPT_E_LIMIT, "holds more than %d folders",
						  MOST_FOLDERS);
	for (uint32_t i = 0; rc == 0 && i < g->files.count; i++)
		if (!g->files.items[i].is_probed)
			rc = probe(&g->files.items[i], err);
	if (rc == 0 && g->files.count)
		qsort(g->files.items, g->files.count, sizeof(*g->files.items), compare_paths);
	return rc;
}

/* ---- visiting ---- */

static int visit_one(const struct found *f,
		     int (*visit)(void *ctx, const char *path, enum ckpt_found found,
				  const struct ckpt_error *why),
		     void *ctx)
{
	struct ckpt_error why = CKPT_ERROR_INIT;

	if (f->kind != CKPT_FOUND_UNREADABLE)
		return visit(ctx, f->path, f->kind, NULL);
	errno = f->code;
	if (f->code)
		ckpt_fail_errno(&why, "%s", f->what);
	else
		ckpt_fail(&why, CKPT_E_UNSUPPORTED, "%s", f->what);
	ckpt_error_at(&why, why.status, f->path, NULL, CKPT_NO_OFFSET);
	return visit(ctx, f->path, f->kind, &why);
}

/* Is there a checkpoint beside the one .safetensors file that the folder is taken for? */
static bool has_several(const struct found_list *files)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < files->count; i++)
		count += files->items[i].kind == CKPT_FOUND_CHECKPOINT;
	return count > 1;
}

int ckpt_find_checkpoints(const char *path,
			  int (*visit)(void *ctx, const char *path, enum ckpt_found found,
				       const struct ckpt_error *why),
			  void *ctx, struct ckpt_error *err)
{
	enum ckpt_set_extent extent = CKPT_SET_WHOLE;
	size_t len = strlen(path);
	char *root = strdup(path);
	struct finding g = { .root = root };
	struct stat st;
	int rc = 0;

	if (!root)
		return ckpt_fail_nomem(err);
	while (len > 1 && root[len - 1] == '/')
		root[--len] = '\0';
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		rc = ckpt_set_extent(path, &extent, err);
	if (rc == 0 && extent < CKPT_SET_SINGLE)
		rc = list_all(&g, err);
	if (rc == 0 &&
	    (extent >= CKPT_SET_SINGLE || (extent == CKPT_SET_ONLY && !has_several(&g.files))))
		rc = visit(ctx, path, CKPT_FOUND_CHECKPOINT, NULL);
	else
		for (uint32_t i = 0; rc >= 0 && i < g.files.count; i++)
			rc = visit_one(&g.files.items[i], visit, ctx);
	clear(&g.files);
	clear(&g.folders);
	free(root);
	return ckpt_error_at(err, rc < 0 ? rc : 0, path, NULL, CKPT_NO_OFFSET);
}
