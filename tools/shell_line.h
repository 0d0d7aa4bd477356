/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_SHELL_LINE_H
#define CKPT_TOOLS_SHELL_LINE_H

#include "edit.h"

/*
 * A command line for a hint, to be pasted into a shell: as much of it as fits, since one that is too long is
 * not worth reading. Begins as { .len = 0 }.
 */
struct shell_line {
	char text[2000];
	size_t len;
};

void shell_add(struct shell_line *l, const char *text);
/* A space and WORD, quoted where a shell needs it. */
void shell_add_word(struct shell_line *l, const char *word);
/* The same of a file's name, which may begin like an option. */
void shell_add_path(struct shell_line *l, const char *path);

/*
 * The COUNT STEPS as options of 'ckpt edit' and 'ckpt convert'. False: they have options of their own that
 * these lack. DEVICES: what is written has a place for devices.
 */
bool shell_add_steps(struct shell_line *l, const struct edit_step *steps, size_t count, bool devices);

#endif
