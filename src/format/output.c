/* SPDX-License-Identifier: Apache-2.0 */
#include "format/output.h"

#include "io/sink.h"
#include "model/casts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned sink_flags(const struct ckpt_save_options *o)
{
	return (o->flags & CKPT_SAVE_REPLACE ? CKPT_SINK_REPLACE : 0u) |
	       (o->flags & CKPT_SAVE_NO_SYNC ? CKPT_SINK_NO_SYNC : 0u);
}

static int check_not_input(const struct ckpt_model *model, const char *path, struct ckpt_error *err)
{
	if (!ckpt_model_has_file(model, path))
		return 0;
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_OUTPUT,
				       "the output is the input itself; name another file"),
			     path, NULL, CKPT_NO_OFFSET);
}

/* Not where a file is written anew in place of the input. */
static bool goes_to_fd(const struct ckpt_output *o)
{
	return o->options->flags & CKPT_SAVE_TO_FD && !o->replaced;
}

static const char *spool_folder(const struct ckpt_save_options *o)
{
	return o->spool_folder ? o->spool_folder : "/tmp";
}

static int check_fd(const struct ckpt_model *model, int fd, const char *name, struct ckpt_error *err)
{
	int mode = fcntl(fd, F_GETFL), rc = 0;
	char self[64];

	if (mode >= 0 && (mode & O_ACCMODE) == O_RDONLY) {
		errno = EBADF;
		mode = -1;
	}
	if (mode < 0)
		rc = ckpt_fail_errno(err, "cannot be written to");
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (rc == 0 && ckpt_model_has_file(model, self))
		rc = ckpt_fail(err, CKPT_E_OUTPUT, "the output is the input itself");
	return ckpt_error_at(err, rc, name, NULL, CKPT_NO_OFFSET);
}

int ckpt_output_check(const struct ckpt_output *o, const char *path, struct ckpt_error *err)
{
	int rc;

	if (goes_to_fd(o))
		return check_fd(o->model, o->options->out_fd, path, err);
	rc = o->replaced ? 0 : check_not_input(o->model, path, err);
	return rc < 0 ? rc : ckpt_sink_check(path, sink_flags(o->options), err);
}

static int write_to(const struct ckpt_output *o, const char *path, struct ckpt_sink *sink,
		    struct ckpt_error *err)
{
	struct ckpt_mover_options options = { .total = o->size,
					      .progress = o->options->progress,
					      .ctx = o->options->progress_ctx,
					      .cancel = o->options->cancel,
					      .threads = o->options->threads,
					      .checks = o->checks };
	struct ckpt_mover *mover = NULL;
	int rc = ckpt_mover_open(sink, &options, &mover, err);

	if (rc == 0)
		rc = o->put(o->ctx, mover, err);
	if (rc == 0)
		rc = ckpt_mover_finish(mover, err);
	if (rc == 0)
		rc = ckpt_model_check_saved(o->model, o->options->flags, err);
	if (rc == 0)
		rc = ckpt_mover_sync(mover, err);
	if (rc == 0 && o->replaced)
		rc = ckpt_patch_check(o->replaced, path, err);
	ckpt_mover_close(mover);
	return rc;
}

int ckpt_output_write(const struct ckpt_output *o, const char *path, struct ckpt_error *err)
{
	uint64_t need = o->size, in_file,
		 on_disk = ckpt_model_disk_bytes(o->model, &in_file);
	struct ckpt_sink *sink;
	int rc;

	if (on_disk < in_file && on_disk < o->size) /* holes stay holes */
		need = on_disk;
	if (goes_to_fd(o))
		rc = ckpt_sink_open_fd(o->options->out_fd, path, spool_folder(o->options), o->size,
				       need, o->options->cancel, &sink, err);
	else
		rc = ckpt_sink_open(path, o->size, need, sink_flags(o->options),
				    ckpt_model_mode(o->model), &sink, err);
	if (rc < 0)
		return rc;
	ckpt_sink_set_save(sink, o->options);
	rc = write_to(o, path, sink, err);
	/* errors of the sink have its path already; all others are about the input */
	rc = ckpt_error_at(err, rc, ckpt_document_path(o->model->doc), NULL, CKPT_NO_OFFSET);
	if (rc == 0)
		return ckpt_sink_commit(sink, err);
	ckpt_sink_discard(sink);
	return rc;
}

int ckpt_output_write_anew(const struct ckpt_model *model, ckpt_output_save *save, const char *why,
			   const struct ckpt_save_options *options, struct ckpt_save_report *report,
			   struct ckpt_error *err)
{
	const char *path = ckpt_source_path(model->doc->source);
	unsigned flags = options->flags & CKPT_SAVE_REPLACE ? CKPT_PATCH_ANY_NAMES : 0u;
	struct ckpt_save_options o = *options;
	struct ckpt_patch *replaced;
	char *target = realpath(path, NULL);
	int rc = target ? ckpt_patch_open(path, model->doc->source, flags, &replaced, err)
			: ckpt_fail_errno(err, "cannot be resolved");

	if (rc == 0) {
		o.flags |= CKPT_SAVE_REPLACE;
		report->rewritten = why;
		rc = ckpt_patch_check_one_name(replaced, why, err);
		if (rc == 0)
			rc = save(model, target, replaced, &o, report, err);
		ckpt_patch_close(replaced);
	}
	free(target);
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}
