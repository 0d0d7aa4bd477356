/* SPDX-License-Identifier: Apache-2.0 */
#include "base/paths.h"
#include "model/model.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Which files a model consists of: they must not change while it is saved, and no output may
 * replace one.
 */

int ckpt_model_visit_source(const struct ckpt_source *source, const char *path,
			    ckpt_model_visit_file *visit, void *ctx)
{
	struct ckpt_model_file file = { .path = path ? path : ckpt_source_path(source),
					.source = source,
					.mode = ckpt_source_mode(source),
					.size = ckpt_source_size(source),
					.disk_bytes = ckpt_source_disk_bytes(source) };

	file.has_identity = ckpt_source_identity(source, &file.dev, &file.ino);
	return visit(ctx, &file);
}

int ckpt_model_each_file(const struct ckpt_model *model, ckpt_model_visit_file *visit, void *ctx)
{
	const struct ckpt_document *doc = model->doc;
	int rc = doc->each_file ? doc->each_file(doc, visit, ctx)
				: ckpt_model_visit_source(doc->source, ckpt_document_path(doc),
							  visit, ctx);

	for (; rc == 0 && model; model = model->base)
		if (model->held_files)
			rc = model->held_files(model->held, visit, ctx);
	return rc;
}

static int check_file_unchanged(void *ctx, const struct ckpt_model_file *file)
{
	struct ckpt_error *err = ctx;

	if (!file->source)
		return 0;
	return ckpt_error_at(err, ckpt_source_check_unchanged(file->source, err), file->path, NULL,
			     CKPT_NO_OFFSET);
}

int ckpt_model_check_unchanged(const struct ckpt_model *model, struct ckpt_error *err)
{
	return ckpt_model_each_file(model, check_file_unchanged, err);
}

struct sum {
	uint64_t nbytes, on_disk;
};

static int add_file_size(void *ctx, const struct ckpt_model_file *file)
{
	struct sum *sum = ctx;

	sum->nbytes += file->size;
	sum->on_disk += file->disk_bytes;
	return 0;
}

uint64_t ckpt_model_disk_bytes(const struct ckpt_model *model, uint64_t *nbytes)
{
	struct sum sum = { 0, 0 };

	ckpt_model_each_file(model, add_file_size, &sum);
	*nbytes = sum.nbytes;
	return sum.on_disk;
}

static int limit_mode(void *ctx, const struct ckpt_model_file *file)
{
	unsigned *mode = ctx;

	*mode &= file->mode;
	return 0;
}

/* The mode of the directory that the model is, or 0777. */
static unsigned mode_of_directory(const struct ckpt_model *model)
{
	const char *path = ckpt_document_path(model->doc);
	struct stat st;

	return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? ckpt_mode_for_new(&st) : 0777;
}

/* Who may not enter the directory may not read its files. */
unsigned ckpt_model_mode(const struct ckpt_model *model)
{
	unsigned enter = mode_of_directory(model) & 0111, mode = (0700 | enter * 7) & ~model->doc->withheld;

	ckpt_model_each_file(model, limit_mode, &mode);
	return mode;
}

unsigned ckpt_model_folder_mode(const struct ckpt_model *model)
{
	unsigned mode = ckpt_model_mode(model);

	return (mode | (mode & 0444) >> 2) & mode_of_directory(model);
}

static int is_same_file(void *ctx, const struct ckpt_model_file *file)
{
	const struct stat *st = ctx;

	return file->has_identity && file->dev == st->st_dev && file->ino == st->st_ino;
}

bool ckpt_model_has_file(const struct ckpt_model *model, const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && ckpt_model_each_file(model, is_same_file, &st);
}

struct below {
	const char *folder, *which;
};

/* The file itself, or the link by which it was opened. */
static int is_below(void *ctx, const struct ckpt_model_file *file)
{
	struct below *b = ctx;
	char *path = file->has_identity && file->path ? strdup(file->path) : NULL;
	bool below = path && (ckpt_is_below(path, b->folder) ||
			      ckpt_is_below(dirname(path), b->folder));

	free(path);
	b->which = file->path;
	return below;
}

bool ckpt_model_has_file_in(const struct ckpt_model *model, const char *folder, const char **which)
{
	struct below b = { .folder = folder };
	bool has = ckpt_model_each_file(model, is_below, &b);

	*which = has ? b.which : NULL;
	return has;
}
