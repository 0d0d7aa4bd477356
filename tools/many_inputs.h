/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_MANY_INPUTS_H
#define CKPT_TOOLS_MANY_INPUTS_H

#include "command.h"

#include <sys/types.h>

/* What many_files.c takes, in the order in which it is printed. */
struct input {
	char *path, *shown;	  /* owned; SHOWN is escaped */
	char *error;		  /* owned: why it cannot be taken; NULL */
	bool skipped;		  /* it is no checkpoint */
	const struct input *same; /* it is another name of that one, or IS_PART of it; or NULL */
	bool is_part;
	bool started, told, interrupted;
	pid_t pid; /* 0: it has ended */
	int out, err, life, status;
};

struct inputs {
	struct input *items; /* malloc */
	size_t count, room, skipped;
	bool directories_only;
};

/*
 * Append the operand PATH, or the checkpoints in it. Where it is a folder that holds none, it is the input:
 * the command says what it is. Returns the exit code.
 */
int inputs_add(struct inputs *inputs, const char *path);
void inputs_clear(struct inputs *inputs);

/* Note which are other names of one before them, or parts of another. */
void inputs_find_same(struct inputs *inputs);

#endif
