/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_TERMINAL_H
#define CKPT_TOOLS_TERMINAL_H

#include "command.h"

/*
 * What is for the eyes alone: on a terminal tables and help fit its width. In a pipe or a file,
 * nothing is shortened or broken.
 */

/* How wide OUT is: COLUMNS, or what the terminal says; 0: it is no terminal, or nobody knows. */
int terminal_columns(FILE *out);

/* How wide a column of names on stdout may become before it is fitted. */
int name_most(void);

/* How wide a column of names is that needs NAME columns, beside REST columns of other cells. */
int fit_name(int name, int rest);

/* On a terminal, take out of the middle of TEXT what is beyond WIDTH columns. Returns TEXT. */
char *shorten(char *text, int width);

/* print_padded() of what shorten() leaves. */
void print_name(char *text, int width);

/* Print TEXT to OUT, with lines broken at spaces where it is a terminal too narrow for them. */
void print_wrapped(const char *text, FILE *out);

extern const char *color_when; /* "auto", "always", "never"; NULL: auto */

#define COLOR_OPT \
	OPT_STR("color", 0, &color_when, "WHEN", \
		"color text: auto (on a terminal without NO_COLOR), always, never")

/* Decide by the options, once they are parsed, whether stdout is in color. Returns the exit code. */
int check_color(const struct command *cmd);

/* What is printed before and behind text in a color; "" without colors. */
const char *red(void);
const char *green(void);
const char *yellow(void);
const char *bold(void);
const char *plain(void);

#endif
