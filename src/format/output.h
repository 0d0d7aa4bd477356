/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_OUTPUT_H
#define CKPT_FORMAT_OUTPUT_H

#include "format/format.h"
#include "io/patch.h"
#include "plan/mover.h"

/* A single file that is made of a model: what all formats do around its bytes. */
struct ckpt_output {
	const struct ckpt_model *model;
	const struct ckpt_save_options *options;
	const struct ckpt_patch *held; /* the input, which the file replaces; NULL: it does not */
	uint64_t size;		       /* bytes of the file */
	struct ckpt_checks *checks;    /* see ckpt_mover_options */
	/* Put all SIZE bytes. */
	int (*put)(void *ctx, struct ckpt_mover *mover, struct ckpt_error *err);
	void *ctx;
};

/*
 * Could PATH be made? Not if it is the input itself (unless that is held), or is there and not to be
 * replaced.
 */
int ckpt_output_check(const struct ckpt_output *output, const char *path, struct ckpt_error *err);

/*
 * Write it, whole or not at all: the input must still be what it was at the end, and have the name PATH if it is
 * held.
 */
int ckpt_output_write(const struct ckpt_output *output, const char *path, struct ckpt_error *err);

/* Write MODEL to PATH; HELD is the input, which PATH replaces, or NULL. */
typedef int ckpt_output_save(const struct ckpt_model *model, const char *path,
			     const struct ckpt_patch *held, const struct ckpt_save_options *options,
			     struct ckpt_save_report *report, struct ckpt_error *err);

/*
 * For formats in which there is no place for anything longer, WHY says so: SAVE writes the input's file anew, under a name of its own
 * until it is whole.
 */
int ckpt_output_write_anew(const struct ckpt_model *model, ckpt_output_save *save, const char *why,
			   const struct ckpt_save_options *options, struct ckpt_save_report *report,
			   struct ckpt_error *err);

#endif
