/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a folder of files of numpy.save(), one for each array.
 *
 * The folder is filled under a temporary name and moved into place by ckpt_folder_commit() when all
 * files are written, the input is unchanged, and recorded checksums agree with the bytes
 * (`checks`). All sizes are known before (members.c), for the check of free space and the progress.
 */
#include "numpy/members.h"
#include "model/casts.h"
#include "numpy/names.h"
#include "numpy/numpy.h"

#include "io/folder.h"

#include <stdio.h>
#include <stdlib.h>

struct folder_writer {
	struct ckpt_numpy_members members;
	const struct ckpt_save_options *options;
	struct ckpt_folder *folder;
	struct ckpt_checks *checks;
	uint64_t size, done;
	unsigned mode; /* of the files */
};

static int check_name(const char *name, struct ckpt_error *err)
{
	char file[CKPT_NPY_MOST_FILE_NAME + 1];

	return ckpt_npy_file_name(name, file, err);
}

static int sum_sizes(struct folder_writer *t, struct ckpt_error *err)
{
	for (uint32_t i = 0; i < t->members.count; i++)
		if (__builtin_add_overflow(t->size, t->members.items[i].size, &t->size))
			return ckpt_fail(err, CKPT_E_LIMIT,
					 "the output would be larger than 16 EiB");
	return 0;
}

/* The progress of all files. */
static void report_progress(void *ctx, uint64_t done, uint64_t total)
{
	const struct folder_writer *t = ctx;

	(void)total;
	t->options->progress(t->options->progress_ctx, t->done + done, t->size);
}

static int write_array(struct folder_writer *t, const struct ckpt_npy *npy, struct ckpt_sink *sink,
		       struct ckpt_error *err)
{
	struct ckpt_mover_options options = { .progress =
						      t->options->progress ? report_progress : NULL,
					      .ctx = t,
					      .cancel = t->options->cancel,
					      .threads = t->options->threads,
					      .checks = t->checks };
	struct ckpt_moved moved = { 0 };
	struct ckpt_mover *mover;
	int rc = ckpt_mover_open(sink, &options, &mover, err);

	if (rc < 0)
		return rc;
	rc = ckpt_npy_move(npy, mover, &moved, err);
	if (rc == 0)
		rc = ckpt_mover_flush(mover, err);
	ckpt_mover_close(mover);
	return rc;
}

static int write_file(struct folder_writer *t, const struct ckpt_numpy_member *m, const char *path,
		      struct ckpt_error *err)
{
	unsigned flags = t->options->flags & CKPT_SAVE_NO_SYNC ? CKPT_SINK_NO_SYNC : 0;
	struct ckpt_array *array;
	struct ckpt_sink *sink;
	struct ckpt_npy npy;
	int rc = ckpt_numpy_member_open(&t->members, m, &array, &npy, err);

	if (rc == 0)
		rc = ckpt_sink_open(path, m->size, m->size, flags, t->mode, &sink, err);
	if (rc == 0) {
		rc = write_array(t, &npy, sink, err);
		rc = ckpt_folder_end_file(t->folder, sink, rc, err);
	}
	ckpt_npy_close(&npy);
	ckpt_array_close(array);
	t->done += m->size;
	return rc;
}

static int write_files(struct folder_writer *t, struct ckpt_error *err)
{
	char name[CKPT_NPY_MOST_FILE_NAME + 1], *path;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < t->members.count; i++) {
		rc = ckpt_npy_file_name(t->members.items[i].name, name, err);
		if (rc < 0)
			break;
		if (asprintf(&path, "%s/%s", ckpt_folder_temp_path(t->folder), name) < 0)
			return ckpt_fail_nomem(err);
		rc = write_file(t, &t->members.items[i], path, err);
		free(path);
	}
	return rc;
}

static unsigned folder_flags(const struct ckpt_save_options *o)
{
	return (o->flags & CKPT_SAVE_REPLACE ? CKPT_FOLDER_REPLACE : 0u) |
	       (o->flags & CKPT_SAVE_NO_SYNC ? CKPT_FOLDER_NO_SYNC : 0u);
}

static int write_folder(struct folder_writer *t, const char *path, struct ckpt_error *err)
{
	const struct ckpt_document *doc = t->members.model->doc;
	int rc = ckpt_folder_open(path, NULL, t->size, folder_flags(t->options),
				  ckpt_model_folder_mode(t->members.model), &t->folder, err);

	t->mode = ckpt_model_mode(t->members.model);
	if (rc < 0)
		return rc;
	rc = ckpt_checks_new(&t->checks, err);
	if (rc == 0)
		rc = write_files(t, err);
	if (rc == 0)
		rc = ckpt_checks_finish(t->checks, t->options->cancel, t->options->threads, err);
	ckpt_checks_free(t->checks);
	if (rc == 0)
		rc = ckpt_model_check_saved(t->members.model, t->options->flags, err);
	rc = ckpt_error_at(err, rc, ckpt_document_path(doc), NULL, CKPT_NO_OFFSET);
	if (rc == 0) {
		ckpt_folder_set_save(t->folder, t->options);
		return ckpt_folder_commit(t->folder, err);
	}
	ckpt_folder_discard(t->folder);
	return rc;
}

static int save(const struct ckpt_model *model, const char *path,
		const struct ckpt_save_options *options, struct ckpt_save_report *report,
		struct ckpt_error *err)
{
	struct folder_writer t = { .options = options };
	bool dry = options->flags & CKPT_SAVE_DRY_RUN;
	int rc = ckpt_folder_check(path, NULL, folder_flags(options), err);

	if (rc == 0)
		rc = ckpt_numpy_members_list(model, options, check_name, &t.members, err);
	if (rc == 0)
		rc = sum_sizes(&t, err);
	if (rc == 0 && !dry)
		rc = write_folder(&t, path, err);
	report->nbytes = t.size;
	report->written = t.size;
	report->arrays = t.members.count;
	report->others = t.members.others;
	ckpt_numpy_members_clear(&t.members);
	return rc;
}

const struct ckpt_format ckpt_format_npy = {
	.name = "npy folder",
	.code = CKPT_FORMAT_NPY_FOLDER,
	.save = save,
};
