/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_OUTPUT_H
#define CKPT_FORMAT_OUTPUT_H

#include "format/format.h"
#include "io/patch.h"
#include "plan/mover.h"

/* A single file that is made of a model: what all formats have to do besides making its bytes. */
struct ckpt_output {
	const struct ckpt_model *model;
	const struct ckpt_save_options *options;
	const struct ckpt_patch
		*replaced;	       /* the input, which the file replaces; NULL: it does not */
	uint64_t size;		       /* bytes of the file */
	struct ckpt_checks *checks;    /* see ckpt_mover_options */
	/* Pass all SIZE bytes to MOVER. */
	int (*put)(void *ctx, struct ckpt_mover *mover, struct ckpt_error *err);
	void *ctx;
};

/*
 * Check before the work whether PATH can be made: it may not be the input (unless REPLACED), nor
 * exist already if it is not to be replaced.
 */
int ckpt_output_check(const struct ckpt_output *output, const char *path, struct ckpt_error *err);

/*
 * Write the file, as a whole or not at all. At the end the input must be unchanged, and still
 * have the name PATH if it is REPLACED.
 */
int ckpt_output_write(const struct ckpt_output *output, const char *path, struct ckpt_error *err);

/* Write MODEL to PATH; REPLACED is the input, which PATH replaces, or NULL. */
typedef int ckpt_output_save(const struct ckpt_model *model, const char *path,
			     const struct ckpt_patch *replaced,
			     const struct ckpt_save_options *options,
			     struct ckpt_save_report *report, struct ckpt_error *err);

/*
 * For formats that have no room for a longer pickle (WHY says so): SAVE writes the file anew in
 * place of the input, under another name until it is complete.
 */
int ckpt_output_write_anew(const struct ckpt_model *model, ckpt_output_save *save, const char *why,
			   const struct ckpt_save_options *options, struct ckpt_save_report *report,
			   struct ckpt_error *err);

#endif
