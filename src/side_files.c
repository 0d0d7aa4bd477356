/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A single file of a checkpoint with other files beside it, and one in a directory of its own.
 *
 * A new directory is made under a hidden name and renamed once, as those of sets are. In a directory that is
 * there, the side files are written first, without a name. They get their names directly before the checkpoint gets its
 * own, in the call that announces that (naming.h), when nothing is left to be done but a few renames.
 *
 * What must stay true: until the last of them has its name, each can be taken back. What is replaced has a second,
 * hidden name by then. Nothing is written to the directory that the input is in.
 */
#include "side_files.h"

#include "base/paths.h"
#include "io/fault.h"
#include "io/naming.h"
#include "io/temp.h"
#include "set/out.h"
#include "set/set.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file beside the checkpoint. */
struct side_file {
	const struct ckpt_side_file *file;
	char *path;
	struct ckpt_sink *sink; /* until it has its name */
	char *old;		/* the hidden name of what it replaces; NULL: there was nothing */
	bool is_named;
};

struct side_saver {
	const struct ckpt_model *model;
	const struct ckpt_format *format;
	const struct ckpt_save_options *o; /* the caller's */
	char *folder, *path;		   /* of the checkpoint */
	struct side_file *files;
	size_t count;
	struct stat before; /* what had the name PATH when the naming began */
	bool was_there, is_named;
	int rc; /* of what the callback did */
	struct ckpt_error *err, why;
};

int ckpt_side_files_check(const struct ckpt_save_options *o, struct ckpt_error *err)
{
	for (size_t i = 0; i < o->file_count; i++) {
		const char *name = o->files[i].name;

		if (!name || !*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, "..") ||
		    o->files[i].mode & ~0777u || o->files[i].reserved)
			return ckpt_fail(err, CKPT_E_ARG, "a file that is to be written with the output has no name or mode of a file");
		for (size_t j = 0; j < i; j++)
			if (!strcmp(name, o->files[j].name))
				return ckpt_fail(err, CKPT_E_ARG, "'%.200s' is to be written twice", name);
	}
	return 0;
}

static bool is_same_folder(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The folder that the input is, or is in; *OUT NULL: it is in memory. To be freed. */
static int folder_of_input(const struct ckpt_model *model, char **out, struct ckpt_error *err)
{
	const char *path = ckpt_document_path(model->doc);
	struct stat st;

	*out = NULL;
	if (!path)
		return 0;
	*out = stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? strdup(path) : ckpt_path_parent(path);
	return *out ? 0 : ckpt_fail_nomem(err);
}

static unsigned sink_flags(const struct side_saver *s)
{
	return ckpt_set_sink_flags(s->o->flags) | (s->o->flags & CKPT_SAVE_REPLACE ? CKPT_SINK_REPLACE : 0u);
}

/* ---- into a directory that is there ---- */

/* No side file has the NAME of the checkpoint. */
static int check_names(const struct side_saver *s, const char *name)
{
	for (size_t i = 0; i < s->o->file_count; i++)
		if (!strcmp(s->o->files[i].name, name))
			return ckpt_fail(s->err, CKPT_E_ARG, "'%.200s' is to be written twice", name);
	return 0;
}

static int list_files(struct side_saver *s)
{
	const char *slash = strrchr(s->path, '/'), *base = slash ? slash + 1 : s->path;
	char *input;
	int rc = folder_of_input(s->model, &input, s->err);

	if (rc == 0)
		rc = check_names(s, base);
	if (rc == 0 && s->o->file_count && input && is_same_folder(input, s->folder))
		rc = ckpt_error_at(s->err,
				   ckpt_fail(s->err, CKPT_E_OUTPUT,
					     "is in the folder of the input, whose other files would be replaced"),
				   s->path, NULL, CKPT_NO_OFFSET);
	free(input);
	if (rc == 0 && s->o->file_count && !(s->files = calloc(s->o->file_count, sizeof(*s->files))))
		rc = ckpt_fail_nomem(s->err);
	for (size_t i = 0; rc == 0 && i < s->o->file_count; i++) {
		struct side_file *f = &s->files[s->count++];

		f->file = &s->o->files[i];
		rc = ckpt_path_join(s->folder, f->file->name, &f->path, s->err);
		if (rc == 0)
			rc = ckpt_sink_check(f->path, sink_flags(s), s->err);
	}
	return rc;
}

/* On the disk, but for the name. */
static int write_file(struct side_saver *s, struct side_file *f)
{
	unsigned mode = f->file->mode & ckpt_model_mode(s->model);
	int rc = ckpt_sink_open(f->path, f->file->len, f->file->len, sink_flags(s), mode, &f->sink, s->err);

	if (rc == 0)
		rc = ckpt_sink_write(f->sink, 0, f->file->bytes, f->file->len, s->err);
	return rc == 0 ? ckpt_sink_sync(f->sink, s->err) : rc;
}

/* Give what has the name PATH a second one, from which it can come back. */
static int keep_old(struct side_saver *s, struct side_file *f)
{
	struct stat st;

	if (lstat(f->path, &st) < 0)
		return errno == ENOENT ? 0 : ckpt_fail_errno(&s->why, "cannot be looked at");
	for (int i = 0; i < CKPT_TEMP_TRIES; i++) {
		f->old = ckpt_temp_name(s->folder, f->path);
		if (!f->old)
			return ckpt_fail_nomem(&s->why);
		if (ckpt_io_linkat(AT_FDCWD, f->path, AT_FDCWD, f->old, 0) == 0)
			return 0;
		/* without links, or where only its owner may link it, it has to leave for a moment */
		if (errno != EEXIST && ckpt_io_rename(f->path, f->old, false) == 0)
			return 0;
		free(f->old);
		f->old = NULL;
		if (errno != EEXIST)
			break;
	}
	return ckpt_fail_errno(&s->why, "cannot be replaced");
}

static int name_file(struct side_saver *s, struct side_file *f)
{
	int rc = s->o->flags & CKPT_SAVE_REPLACE ? keep_old(s, f) : 0;

	if (rc == 0)
		rc = ckpt_sink_name(f->sink, &s->why);
	f->is_named = rc == 0;
	return ckpt_error_at(&s->why, rc, f->path, NULL, CKPT_NO_OFFSET);
}

/* What was there has its name again; what was not there is gone. */
static void take_back(struct side_saver *s)
{
	for (size_t i = s->count; i-- > 0;) {
		struct side_file *f = &s->files[i];

		/* one that is still a second name of the file itself is left by rename(), and goes */
		if (f->old && rename(f->old, f->path) == 0)
			unlink(f->old);
		else if (!f->old && f->is_named)
			unlink(f->path);
		free(f->old);
		f->old = NULL;
	}
}

/*
 * struct ckpt_save_options.naming, of the checkpoint. Whether that has its name in the end shows by what has
 * it: a failed sync of the folder comes after it, and takes nothing back.
 */
static int name_files(void *ctx, enum ckpt_naming what)
{
	struct side_saver *s = ctx;
	struct stat now;

	if (what == CKPT_NAMING_ENDED) {
		s->is_named = lstat(s->path, &now) == 0 &&
			      !(s->was_there && now.st_dev == s->before.st_dev && now.st_ino == s->before.st_ino);
		if (!s->is_named)
			take_back(s);
		ckpt_naming_end(s->o);
		return 0;
	}
	s->rc = ckpt_naming_begin(s->o, &s->why);
	if (s->rc < 0)
		return s->rc;
	s->was_there = lstat(s->path, &s->before) == 0;
	for (size_t i = 0; s->rc == 0 && i < s->count; i++)
		s->rc = name_file(s, &s->files[i]);
	if (s->rc < 0) {
		take_back(s);
		ckpt_naming_end(s->o);
	}
	return s->rc;
}

static int save_beside(struct side_saver *s, struct ckpt_save_report *report)
{
	struct ckpt_save_options o = *s->o;
	bool dry = o.flags & CKPT_SAVE_DRY_RUN;
	int rc = list_files(s);

	for (size_t i = 0; rc == 0 && !dry && i < s->count; i++)
		rc = write_file(s, &s->files[i]);
	o.flags &= ~(unsigned)CKPT_SAVE_IN_FOLDER;
	o.files = NULL;
	o.file_count = 0;
	o.naming = name_files;
	o.naming_ctx = s;
	if (rc == 0) {
		rc = s->format->save(s->model, s->path, &o, report, s->err);
		if (rc < 0 && s->rc < 0) {
			rc = s->rc;
			if (s->err)
				*s->err = s->why;
		}
	}
	for (size_t i = 0; i < s->count; i++) {
		if (s->files[i].old)
			unlink(s->files[i].old);
		ckpt_sink_discard(s->files[i].sink);
		free(s->files[i].old);
		free(s->files[i].path);
	}
	free(s->files);
	return rc;
}

/* ---- into a new directory ---- */

/* Who may not enter the folder of the input may not enter that of the output. */
static unsigned folder_mode(const struct ckpt_model *model, const char *input)
{
	unsigned mode = ckpt_model_mode(model);
	struct stat st;

	mode |= (mode & 0444) >> 2;
	return stat(input, &st) == 0 ? mode & ckpt_mode_for_new(&st) : mode;
}

static int save_new_folder(struct side_saver *s, const char *path, const char *input, const char *name,
			   struct ckpt_save_report *report)
{
	struct ckpt_save_options o = *s->o;
	struct ckpt_folder *folder = NULL;
	bool dry = o.flags & CKPT_SAVE_DRY_RUN;
	int rc = check_names(s, name);

	if (rc == 0)
		rc = ckpt_folder_open(path, NULL, 0, ckpt_set_folder_flags(s->o), folder_mode(s->model, input), &folder,
				      s->err);
	o.flags &= ~(unsigned)CKPT_SAVE_IN_FOLDER;
	o.files = NULL;
	o.file_count = 0;
	o.naming = NULL; /* of the folder alone */
	if (rc == 0 && !dry) /* before what takes long: then what is left of the disk is known */
		rc = ckpt_set_write_side_files(folder, s->o, ckpt_model_mode(s->model), s->err);
	if (rc == 0)
		rc = ckpt_path_join(ckpt_folder_temp_path(folder), name, &s->path, s->err);
	if (rc == 0)
		rc = s->format->save(s->model, s->path, &o, report, s->err);
	if (rc == 0 && !dry) {
		ckpt_folder_set_save(folder, s->o);
		return ckpt_folder_commit(folder, s->err);
	}
	ckpt_folder_discard(folder);
	return rc;
}

static int save_in_folder(struct side_saver *s, const char *path, struct ckpt_save_report *report)
{
	const char *input = ckpt_document_path(s->model->doc), *slash = input ? strrchr(input, '/') : NULL;
	struct stat st;
	char *around;
	int rc = folder_of_input(s->model, &around, s->err);

	if (rc == 0 && !input)
		rc = ckpt_fail(s->err, CKPT_E_ARG, "a model from memory has no name of a file, which the output could get");
	if (rc == 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		size_t len = strlen(path);

		while (len > 1 && path[len - 1] == '/')
			len--;
		s->folder = strndup(path, len);
		rc = s->folder ? ckpt_path_join(s->folder, slash ? slash + 1 : input, &s->path, s->err) : ckpt_fail_nomem(s->err);
		if (rc == 0)
			rc = ckpt_set_refuse_index(s->folder, s->err);
		if (rc == 0)
			rc = save_beside(s, report);
	} else if (rc == 0) {
		rc = save_new_folder(s, path, around, slash ? slash + 1 : input, report);
	}
	free(around);
	return rc;
}

int ckpt_side_files_save(const struct ckpt_model *model, const struct ckpt_format *format, const char *path,
			 const struct ckpt_save_options *options, struct ckpt_save_report *report,
			 struct ckpt_error *err)
{
	struct side_saver s = { .model = model, .format = format, .o = options, .err = err };
	int rc;

	if (options->flags & CKPT_SAVE_IN_FOLDER) {
		rc = save_in_folder(&s, path, report);
	} else {
		s.path = strdup(path);
		s.folder = s.path ? ckpt_path_parent(path) : NULL;
		rc = s.folder ? save_beside(&s, report) : ckpt_fail_nomem(err);
	}
	free(s.folder);
	free(s.path);
	return rc;
}
