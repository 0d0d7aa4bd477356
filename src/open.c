/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and saving: the public functions that choose by path, content and options, and leave
 * the work to src/format (one file) and src/set (a directory). Nothing here knows a format's
 * bytes.
 *
 * Reports and infos are filled in a local struct and given to the caller at the end
 * (base/sized.h), so that callers built against older headers work. Who passes a model to a
 * format that looks into tensors calls ckpt_model_whole() first.
 */
#include "base/flags.h"
#include "base/sized.h"
#include "format/container.h"
#include "format/format.h"
#include "model/casts.h"
#include "numpy/numpy.h"
#include "set/listing.h"
#include "set/set.h"
#include "side_files.h"

#include <string.h>

int ckpt_open(const char *path, struct ckpt_model **out, struct ckpt_error *err)
{
	return ckpt_open_with(path, 0, out, err);
}

int ckpt_open_with(const char *path, unsigned flags, struct ckpt_model **out,
		   struct ckpt_error *err)
{
	struct ckpt_source *source;
	bool inside;
	int rc;

	*out = NULL;
	rc = ckpt_flags_check(flags, CKPT_OPEN_BRIEF, err);
	if (rc < 0)
		return rc;
	if (ckpt_set_is_folder(path) || ckpt_set_is_index(path))
		return ckpt_set_open(path, out, err);
	rc = ckpt_container_open(path, &source, &inside, err);
	if (rc < 0)
		return rc;
	rc = flags & CKPT_OPEN_BRIEF ? ckpt_format_open_brief(source, out, err)
				     : ckpt_format_open(source, out, err);
	ckpt_source_unref(source); /* the model took its own reference */
	if (rc == 0) {
		rc = ckpt_format_refuse_data_file(path, err);
		if (rc < 0) {
			ckpt_close(*out);
			*out = NULL;
		}
	}
	if (rc == 0 && inside) {
		(*out)->doc->inner_path = strdup(path);
		if (!(*out)->doc->inner_path) {
			ckpt_close(*out);
			*out = NULL;
			rc = ckpt_fail_nomem(err);
		}
	}
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

int ckpt_open_memory(const void *bytes, size_t len, struct ckpt_model **out, struct ckpt_error *err)
{
	struct ckpt_source *source;
	int rc;

	*out = NULL;
	rc = ckpt_source_from_memory(bytes, len, &source, err);
	if (rc < 0)
		return rc;
	rc = ckpt_format_open(source, out, err);
	ckpt_source_unref(source);
	return rc;
}

int ckpt_open_reader(const struct ckpt_reader_options *reader, struct ckpt_model **out,
		     struct ckpt_error *err)
{
	struct ckpt_source *source;
	int rc = ckpt_source_from_caller(reader, &source, err);

	*out = NULL;
	if (rc == 0)
		rc = ckpt_format_open(source, out, err);
	ckpt_source_unref(source);
	return rc;
}

/* The format to be written: that of the input, or the one that is asked for. */
static const struct ckpt_format *format_of(const struct ckpt_model *model,
					   const struct ckpt_save_options *o,
					   struct ckpt_error *err)
{
	if (!o->format)
		return model->doc->format;
	if (!strcmp(o->format, "torch"))
		return &ckpt_format_torch_zip;
	if (!strcmp(o->format, "torch-legacy"))
		return &ckpt_format_torch_legacy;
	if (!strcmp(o->format, "safetensors"))
		return &ckpt_format_safetensors;
	if (!strcmp(o->format, "npz"))
		return &ckpt_format_npz;
	if (!strcmp(o->format, "npy"))
		return &ckpt_format_npy;
	if (ckpt_set_format(o->format))
		return ckpt_set_format(o->format);
	ckpt_fail(
		err, CKPT_E_ARG,
		"format '%.40s': wanted 'torch', 'torch-legacy', 'dcp', 'safetensors', 'npz' or 'npy'",
		o->format);
	return NULL;
}

static bool makes_folder(const struct ckpt_format *format)
{
	return format->code == CKPT_FORMAT_DCP || format->code == CKPT_FORMAT_HUGGING_FACE ||
	       format->code == CKPT_FORMAT_NPY_FOLDER;
}

/* Can the output, a directory or not, be what CKPT_SAVE_IN_FOLDER and `files` ask for? */
static int check_side_files(const struct ckpt_save_options *o, bool is_folder, bool is_set, struct ckpt_error *err)
{
	if (o->flags & CKPT_SAVE_TO_FD && (o->file_count || o->flags & CKPT_SAVE_IN_FOLDER))
		return ckpt_fail(err, CKPT_E_ARG, "what goes to a pipe is one file, without others or a directory");
	if (o->flags & CKPT_SAVE_IN_FOLDER && is_folder)
		return ckpt_fail(err, CKPT_E_ARG, "the output is a directory itself, not a file in one");
	if (o->file_count && is_folder && !is_set)
		return ckpt_fail(err, CKPT_E_ARG, "other files are written with a single file, or a set of shards, alone");
	return ckpt_side_files_check(o, err);
}

int ckpt_save(const struct ckpt_model *model, const char *path,
	      const struct ckpt_save_options *options, struct ckpt_save_report *report,
	      struct ckpt_error *err)
{
	struct ckpt_save_options o = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_save_report r = CKPT_SAVE_REPORT_INIT;
	const struct ckpt_format *format;
	bool by_rank, is_set;
	int rc = ckpt_sized_take(&o, sizeof(o), options, err);

	if (rc == 0)
		rc = ckpt_flags_check(o.flags, CKPT_SAVE_FLAGS | CKPT_SAVE_TO_FD | CKPT_SAVE_IN_FOLDER, err);
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(r), err);
	if (rc < 0)
		return rc;
	format = format_of(model, &o, err);
	if (!format)
		return CKPT_E_ARG;
	if (format != &ckpt_format_torch_zip || o.shard_size || o.ranks)
		rc = ckpt_model_whole(&model, err);
	if (rc < 0)
		return rc;
	if (o.flags & CKPT_SAVE_TO_FD && (o.ranks || o.shard_size || makes_folder(format)))
		return ckpt_error_at(err,
				     ckpt_fail(err, CKPT_E_OUTPUT,
					       "a directory of files cannot go to a pipe"),
				     path, NULL, CKPT_NO_OFFSET);
	by_rank = o.ranks && o.format && format == &ckpt_format_safetensors;
	is_set = !by_rank && (o.shard_size || format->code == CKPT_FORMAT_HUGGING_FACE);
	rc = check_side_files(&o, by_rank || is_set || makes_folder(format), is_set, err);
	if (rc < 0)
		return rc;
	if (model->doc->format->check_save)
		rc = model->doc->format->check_save(model, err);
	if (rc < 0)
		return rc;
	if (by_rank || o.shard_size)
		rc = ckpt_set_save_shards(model, path, by_rank, &o, &r, err);
	else if (!is_set && (o.file_count || o.flags & CKPT_SAVE_IN_FOLDER))
		rc = ckpt_side_files_save(model, format, path, &o, &r, err);
	else
		rc = format->save(model, path, &o, &r, err);
	if (rc == 0 && o.flags & CKPT_SAVE_DRY_RUN)
		rc = ckpt_error_at(err, ckpt_model_check_unsaved(model, o.flags, o.cancel, err),
				   ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
	ckpt_sized_give(report, &r, sizeof(r));
	return rc;
}

static bool has_several_files(const struct ckpt_model *model)
{
	bool is = !model->doc->format->save_in_place;

	for (const struct ckpt_model *m = model; m; m = m->base)
		is = is || m->held_files;
	return is;
}

int ckpt_save_in_place(const struct ckpt_model *model, const struct ckpt_save_options *options,
		       struct ckpt_save_report *report, struct ckpt_error *err)
{
	int rc = ckpt_model_whole(&model, err);
	struct ckpt_save_options o = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_save_report r = CKPT_SAVE_REPORT_INIT;

	if (rc == 0)
		rc = ckpt_sized_take(&o, sizeof(o), options, err);
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(r), err);
	if (rc == 0 && model->doc->inner_path)
		rc = ckpt_error_at(
			err,
			ckpt_fail(err, CKPT_E_UNSUPPORTED,
				  "is inside of an archive, which is left as it is: name an "
				  "output"),
			model->doc->inner_path, NULL, CKPT_NO_OFFSET);
	if (rc == 0 && !ckpt_source_path(model->doc->source))
		rc = ckpt_fail(err, CKPT_E_ARG, "a model from memory has no file to be edited");
	if (rc == 0 && has_several_files(model))
		rc = ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"is made of several files, none of which could take its place: name an "
			"output");
	if (rc == 0 && (o.flags & ~(CKPT_SAVE_DRY_RUN | CKPT_SAVE_REPLACE | CKPT_SAVE_FREE |
				     CKPT_SAVE_CHECK_CASTS)))
		rc = ckpt_fail(err, CKPT_E_ARG,
			       "an edit in place is always synced, and in the input's own form");
	if (rc < 0)
		return rc;
	rc = model->doc->format->save_in_place(model, &o, &r, err);
	if (rc == 0 && o.flags & CKPT_SAVE_DRY_RUN)
		rc = ckpt_error_at(err, ckpt_model_check_unsaved(model, o.flags, o.cancel, err),
				   ckpt_document_path(model->doc), NULL, CKPT_NO_OFFSET);
	ckpt_sized_give(report, &r, sizeof(r));
	return rc;
}

int ckpt_file_get(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;

	if (ckpt_sized_check(out, sizeof(info), NULL) < 0)
		return CKPT_E_ARG;
	info.file_nbytes = ckpt_source_size(model->doc->source);
	info.pickle_nbytes = model->doc->pickle_len;
	info.pickle_protocol = model->doc->pickle.protocol;
	info.format_code = model->doc->format->code;
	model->doc->format->describe(model, &info);
	ckpt_sized_give(out, &info, sizeof(info));
	return 0;
}

int ckpt_tell_state(const struct ckpt_model *model, void (*note)(void *ctx, const char *text),
		    void *ctx, struct ckpt_error *err)
{
	if (!model->doc->format->notes)
		return 0;
	return model->doc->format->notes(model, note, ctx, err);
}

int ckpt_each_record(const struct ckpt_model *model,
		     int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx,
		     struct ckpt_error *err)
{
	if (!model->doc->format->records)
		return 0;
	return model->doc->format->records(model, visit, ctx, err);
}

int ckpt_each_metadata(const struct ckpt_model *model,
		       int (*visit)(void *ctx, const char *key, size_t key_len, const char *value,
				    size_t value_len),
		       void *ctx, struct ckpt_error *err)
{
	(void)err;
	return model->doc->format->metadata ? model->doc->format->metadata(model, visit, ctx) : 0;
}
