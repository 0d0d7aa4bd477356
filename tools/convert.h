/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_CONVERT_H
#define CKPT_TOOLS_CONVERT_H

#include "edit.h"

/*
 * What 'ckpt convert', 'ckpt split' and 'ckpt merge' share: saving (convert_save.c) and reports
 * (convert_report.c).
 */

/*
 * Replace *MODEL by the one state dict to write: NAME, or the only or largest one. Returns the exit
 * code.
 */
int convert_take_weights(struct ckpt_model **model, const char *name, struct ckpt_edit_report *did);

/* "'optimizer', 'epoch', 'step'": what the last convert_take_weights() left beside the state dict; "" if there is nothing. */
const char *convert_left_behind(void);

/* enum ckpt_shared of --shared; -1: no such word. */
int convert_shared_of(const char *word);

/*
 * Call ckpt_save(); if it fails, list the entries that the format cannot hold, with hints. Sets
 * OPTIONS->unfit. Returns the exit code.
 */
int convert_save(struct ckpt_save_options *options, const struct ckpt_model *model, const char *in,
		 const char *out, struct ckpt_save_report *report);
/* An option of 'ckpt convert' that a hint named would have let the last convert_save() succeed. */
extern bool convert_option_helps;


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
int convert_print_unfit(const struct convert_unfit *unfit, const char *in, const char *to);

/* Print which state dict was taken, if there was a choice: the beginning of a line. */
void convert_print_weights(const struct ckpt_edit_report *did);

/* What was done on the way. */
struct convert_summary {
	struct ckpt_edit_report taken, weights;
	struct edit_step *steps;
	struct ckpt_edit_report *reports; /* one for each of them */
	size_t step_count;
};

void convert_print_summary(const struct convert_summary *summary,
			   const struct ckpt_save_report *report, bool dry_run, double start);

/* Print a note that files which from_pretrained() needs beside the weights are not copied. */
void convert_note_left_files(const char *in);

#endif
