/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_PIPES_H
#define CKPT_TOOLS_PIPES_H

#include "command.h"

/*
 * Put a file in the place of each of the COUNT operands of CMD that is a pipe to be read. Returns the
 * exit code.
 */
int take_pipes(const struct command *cmd, int count, char **operands);

/* Is standard input an IN? */
bool is_standard_input_taken(void);

/* Is OUT a descriptor, such as '-', and no name of a file? */
bool is_stream(const char *out);

/*
 * From now on, the output OUT, which is_stream(), is written to that descriptor, and if that is
 * stdout, what is printed goes to stderr. Prints why it cannot be, and returns the exit code.
 */
int open_stream(const char *out);

/* Let ckpt_save() write to the stream, if there is one. Returns what it is to call OUT. */
const char *save_to_stream(struct ckpt_save_options *options, const char *out);

#endif
