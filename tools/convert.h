/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_CONVERT_H
#define CKPT_TOOLS_CONVERT_H

#include "edit.h"

/* What 'ckpt convert' says (convert_tell.c). */

enum { CONVERT_MOST_LISTED = 20 };

/* Entries that the format cannot hold. */
struct convert_unfit {
	char *lines[CONVERT_MOST_LISTED];
	uint64_t count;
};

/* For ckpt_save_options.unfit; CTX is a struct convert_unfit. */
void convert_note_unfit(void *ctx, const char *name, const char *why);
void convert_clear_unfit(struct convert_unfit *unfit);

/* List them; TO is the format. Returns the exit code. */
int convert_tell_unfit(const struct convert_unfit *unfit, const char *in, const char *to);

/* What was done on the way. */
struct convert_summary {
	struct ckpt_edit_report taken, weights;
	struct edit_step *steps;
	struct ckpt_edit_report *reports; /* one for each of them */
	size_t step_count;
};

void convert_tell(const struct convert_summary *summary, const struct ckpt_save_report *report,
		  bool dry_run, double start);

/* What from_pretrained() needs beside the weights is no checkpoint, and stays where it is: say so. */
void convert_note_beside(const char *in);

#endif
