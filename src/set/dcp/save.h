/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_DCP_SAVE_H
#define CKPT_SET_DCP_SAVE_H

#include "io/folder.h"
#include "set/dcp/dcp.h"
#include "set/dcp/out.h"

/* Is NAME, from a directory PATH on, what a DCP directory consists of? For ckpt_folder_own. */
bool ckpt_dcp_is_own(const void *ctx, const char *path, const char *name);

/* A new directory with data files of its own, for options->ranks ranks. */
int ckpt_dcp_save_split(const struct ckpt_model *model, const char *path,
			const struct ckpt_save_options *options, struct ckpt_save_report *report,
			struct ckpt_error *err);

/*
 * An edited directory: the data files of the input, shared, linked or copied, under a new index.
 * Where tensors changed, new data files.
 */
int ckpt_dcp_save_edited(const struct ckpt_model *model, const char *path,
			 const struct ckpt_save_options *options, struct ckpt_save_report *report,
			 struct ckpt_error *err);
int ckpt_dcp_save_in_place(const struct ckpt_model *model, const struct ckpt_save_options *options,
			   struct ckpt_save_report *report, struct ckpt_error *err);

/* The entries of any model; those that came from a directory stay what they were. */
int ckpt_dcp_flatten_model(const struct ckpt_model *model, struct ckpt_dcp_out *out,
			   struct ckpt_error *err);

/* Could the directory be made? It must not be the input, or hold it. */
int ckpt_dcp_check_target(const struct ckpt_model *model, const char *path,
			  const struct ckpt_folder_own *own,
			  const struct ckpt_save_options *options, struct ckpt_error *err);

/*
 * CKPT_E_OUTPUT: the directory that is to be changed is named by a link, and FLAGS (enum
 * ckpt_save_flags) do not allow that.
 */
int ckpt_dcp_check_no_link(const char *path, unsigned flags, struct ckpt_error *err);

#endif
