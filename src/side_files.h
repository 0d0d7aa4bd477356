/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SIDE_FILES_H
#define CKPT_SIDE_FILES_H

#include "format/format.h"

/* Are the names and modes of options->files such as files can have? Returns 0 or CKPT_E_ARG. */
int ckpt_side_files_check(const struct ckpt_save_options *options, struct ckpt_error *err);

/*
 * ckpt_save() of a single file of FORMAT with options->files, or with CKPT_SAVE_IN_FOLDER: all that is
 * written gets its name, or nothing does. MODEL is whole where FORMAT wants it so.
 */
int ckpt_side_files_save(const struct ckpt_model *model, const struct ckpt_format *format, const char *path,
			 const struct ckpt_save_options *options, struct ckpt_save_report *report,
			 struct ckpt_error *err);

#endif
