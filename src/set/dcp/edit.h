/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_DCP_EDIT_H
#define CKPT_SET_DCP_EDIT_H

#include "plan/mover.h"
#include "set/dcp/save.h"

/*
 * What an edited directory is made of: entries of the input under new names, and values written
 * anew.
 */
struct ckpt_dcp_edit {
	const struct ckpt_model *model;
	struct ckpt_dcp_out out;
	uint32_t *from;	  /* malloc: by entry, that of the input; UINT32_MAX: an edit made it */
	uint8_t *rewrite; /* malloc: by entry, is it to be written anew */
	uint32_t rewrite_count;
	/* an entry of the input that is no tensor: how such are described; or UINT32_MAX */
	uint32_t like;
	bool new_data; /* tensors changed: a new index is not enough */
};

int ckpt_dcp_edit_plan(const struct ckpt_model *model, struct ckpt_dcp_edit *out,
		       struct ckpt_error *err);
void ckpt_dcp_edit_clear(struct ckpt_dcp_edit *edit);

/* The values that are written anew, for a data file of their own. MOVER NULL: only the size. */
int ckpt_dcp_edit_write_values(struct ckpt_dcp_edit *edit, struct ckpt_mover *mover, uint64_t *size,
			       struct ckpt_error *err);

/* The new index, in the dialect of the old one. NEW_FILE: name of the file with the new values. */
int ckpt_dcp_edit_index(const struct ckpt_dcp_edit *edit, const char *new_file,
			struct ckpt_buf *out, struct ckpt_error *err);

#endif
