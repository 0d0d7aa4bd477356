/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_OUT_H
#define CKPT_SET_OUT_H

#include "base/buf.h"
#include "io/folder.h"
#include "model/model.h"

#include <ckpt/save.h>

/* What all kinds of directories need that are written. */

/* Of what OPTIONS say: enum ckpt_folder_flags. */
unsigned ckpt_set_folder_flags(const struct ckpt_save_options *options);

/* Of SAVE_FLAGS, enum ckpt_save_flags: enum ckpt_sink_flags of a new file. */
unsigned ckpt_set_sink_flags(unsigned save_flags);

/*
 * CKPT_E_OUTPUT if replacing PATH would destroy the input: it is the input, or a folder around it.
 */
int ckpt_set_check_not_input(const struct ckpt_model *model, const char *path,
			     struct ckpt_error *err);

/* ... as it is said. */
int ckpt_set_fail_is_input(const char *path, struct ckpt_error *err);

/* CKPT_E_UNSUPPORTED if the tensors cannot be cut: their numbers would have to be turned around. */
int ckpt_set_check_source(const struct ckpt_model *model, struct ckpt_error *err);

/*
 * Write BYTES to PATH, whole or not at all. FOLDER: the one being made that PATH is in, or NULL.
 * FLAGS: enum ckpt_sink_flags. MODE: as of ckpt_sink_open().
 */
int ckpt_set_write_file(struct ckpt_folder *folder, const char *path, const struct ckpt_buf *bytes,
			unsigned flags, unsigned mode, struct ckpt_error *err);

/*
 * Write the side files of the options O into the folder being made. MODE: as of ckpt_sink_open(), the limit of
 * their own.
 */
int ckpt_set_write_side_files(struct ckpt_folder *folder, const struct ckpt_save_options *o, unsigned mode,
			      struct ckpt_error *err);

#endif
