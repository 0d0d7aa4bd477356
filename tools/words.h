/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_WORDS_H
#define CKPT_TOOLS_WORDS_H

#include "command.h"

/*
 * The words that may stand behind OPTION of COMMAND, between spaces; NULL: it takes no words. *OPEN:
 * there are others, too.
 */
const char *option_words(const struct command *cmd, const struct opt *option, bool *open);

/* The same of operands: those of the operand called NAME, "DTYPE"; NULL: it takes no words. */
const char *operand_words(const char *name);

/* Hint at the word that was meant by the value of an option of CMD that takes words; false: none is near. */
bool hint_value(const struct command *cmd);

/* Is WORD one of WORDS, which stand between spaces? */
bool is_one_of(const char *word, const char *words);

enum { MOST_WORD = 40 };

/* Like suggest(), of words between spaces. BUF has MOST_WORD bytes. */
const char *suggest_word(const char *word, const char *words, char *buf);

/*
 * Operands of CMD that stand in each other's place, as in 'cast IN OUT bf16', where it cannot do
 * what was typed: print a message and the right command line. ARGV is as getopt_long() leaves it, with operands from
 * FIRST on. Returns the exit code.
 */
int refuse_swapped(const struct command *cmd, int argc, char **argv, int first);

/* The same of 'ckpt remap', where the operand WRONG, one from FIRST on, is no OLD=NEW. EXIT_FINE: it is something else. */
int refuse_no_map(const struct command *cmd, int argc, char **argv, int first, int wrong);

#endif
