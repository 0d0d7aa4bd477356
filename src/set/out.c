/* SPDX-License-Identifier: Apache-2.0 */
#include "set/out.h"

#include "base/paths.h"
#include "format/torch_zip.h"

#include <stdlib.h>
#include <string.h>

unsigned ckpt_set_folder_flags(const struct ckpt_save_options *o)
{
	return (o->flags & CKPT_SAVE_REPLACE ? CKPT_FOLDER_REPLACE : 0u) |
	       (o->flags & CKPT_SAVE_NO_SYNC ? CKPT_FOLDER_NO_SYNC : 0u);
}

unsigned ckpt_set_sink_flags(unsigned save_flags)
{
	return save_flags & CKPT_SAVE_NO_SYNC ? CKPT_SINK_NO_SYNC : 0u;
}

int ckpt_set_fail_is_input(const char *path, struct ckpt_error *err)
{
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_OUTPUT,
				       "the output is the input itself, or the folder it "
				       "is in; name another"),
			     path, NULL, CKPT_NO_OFFSET);
}

int ckpt_set_check_not_input(const struct ckpt_model *model, const char *path,
			     struct ckpt_error *err)
{
	const char *which;

	return ckpt_model_has_file_in(model, path, &which) ? ckpt_set_fail_is_input(path, err) : 0;
}

int ckpt_set_check_source(const struct ckpt_model *model, struct ckpt_error *err)
{
	if (model->doc->format == &ckpt_format_torch_zip &&
	    !strcmp(ckpt_torch_zip_of(model)->byteorder, "big"))
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"a big-endian file cannot be split; 'ckpt convert' turns it around");
	return 0;
}

static int write_bytes(struct ckpt_folder *folder, const char *path, const void *bytes, size_t len, unsigned flags,
		       unsigned mode, struct ckpt_error *err)
{
	struct ckpt_sink *sink;
	int rc = ckpt_sink_open(path, len, len, flags, mode, &sink, err);

	if (rc < 0)
		return rc;
	rc = ckpt_sink_write(sink, 0, bytes, len, err);
	return ckpt_folder_end_file(folder, sink, rc, err);
}

int ckpt_set_write_file(struct ckpt_folder *folder, const char *path, const struct ckpt_buf *bytes,
			unsigned flags, unsigned mode, struct ckpt_error *err)
{
	return write_bytes(folder, path, bytes->data, bytes->len, flags, mode, err);
}

int ckpt_set_write_side_files(struct ckpt_folder *folder, const struct ckpt_save_options *o, unsigned mode,
			      struct ckpt_error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < o->file_count; i++) {
		const struct ckpt_side_file *f = &o->files[i];
		char *path;

		rc = ckpt_path_join(ckpt_folder_temp_path(folder), f->name, &path, err);
		if (rc == 0)
			rc = write_bytes(folder, path, f->bytes, f->len, ckpt_set_sink_flags(o->flags), f->mode & mode, err);
		free(path);
	}
	return rc;
}
