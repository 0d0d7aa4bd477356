/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_COMPLETE_H
#define CKPT_TOOLS_COMPLETE_H

#include "command.h"

/*
 * Print what may stand at word AT, from 0, of a command line of COUNT WORDS: a line "words" or "files", the
 * latter if names of files may stand there, too, and then one candidate in each line. Prints no errors.
 */
void complete_word(int at, char **words, int count);

/* Does the value of O name what is in a checkpoint? */
bool option_takes_names(const struct command *cmd, const struct opt *o);

/* Does it name a file? */
bool option_takes_files(const struct opt *o);

#endif
