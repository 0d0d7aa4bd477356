/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_STAGED_NOTE_H
#define CKPT_BROADCAST_STAGED_NOTE_H

#include "base/buf.h"

#include <stdint.h>

#define CKPT_STAGED_FIRST_LINE "staged by ckpt broadcast 2\n"

/* What the note of a staged copy says of the copy. The note may be anybody's, and say anything. */
struct ckpt_staged_file {
	const char *name; /* in TEXT below; not checked */
	uint64_t size, ino;
	int64_t mtime_sec;
	uint32_t mtime_nsec;
};

struct ckpt_staged_files {
	struct ckpt_staged_file *files; /* owned */
	uint32_t count, cap;
	char *text; /* owned */
};

/*
 * Read the note behind FD, which has SIZE bytes. 1: OUT, to be cleared, has one file or more. 0: it is no such note. -1: no
 * memory.
 */
int ckpt_staged_files_read(int fd, uint64_t size, struct ckpt_staged_files *out);
/* NAME as a line of a note has it: a newline is "\\n" there, and a backslash two. */
void ckpt_staged_name_add(struct ckpt_buf *out, const char *name);
void ckpt_staged_files_clear(struct ckpt_staged_files *files);

#endif
