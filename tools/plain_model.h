/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_PLAIN_MODEL_H
#define CKPT_TOOLS_PLAIN_MODEL_H

#include "edit.h"

/*
 * Whoever strips a prefix, or takes a state dict out of a trainer's file, wants most often what a plain
 * model loads. These functions say whether OUT is that, and if not, the one command line that makes it.
 */

/* The command that is running. */
struct plain_job {
	const char *in, *out; /* OUT NULL: in place; or, in a dry run, no OUT was given */
	bool in_place, force, dry_run;
	bool one_file; /* OUT is a file, whatever IN is */
	const char *profile; /* of --profile; NULL */
	const struct edit_step *steps;
	size_t count;
	bool converts, takes_weights; /* 'ckpt convert'; to a format that holds one state dict */
};

/* 'ckpt edit' and 'ckpt convert': what was typed, since a line that does more repeats it. */
void plain_set_typed(int argc, char **argv);

/* Look at MODEL, which was opened as IN, before the first step. JOB has to stay. */
void plain_begin(const struct plain_job *job, const struct ckpt_model *model);

/* The line to type instead, if STEP does nothing, or fails; static. NULL: none is known. */
const char *plain_line_instead(const struct edit_step *step);

/*
 * Look at MODEL, the result, before it is saved, so that no memory means no output. LEFT: of
 * wrappers_left(), or NULL.
 */
void plain_look(const struct ckpt_model *model, const char *left);

/* After the save: print a note of what is left to do, and the line that does all; or nothing. LEFT again. */
void plain_note(const char *left);

#endif
