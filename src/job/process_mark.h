/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_PROCESS_MARK_H
#define CKPT_JOB_PROCESS_MARK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Which process wrote a file that others find: so that one that reads it on the same machine can tell
 * that it has ended. Its number alone would not do: it is given again, and each container counts from 1.
 */
struct ckpt_process_mark {
	char machine[40];   /* the boot id; "": not known */
	uint64_t pid_space; /* in which PID is counted; 0: not known */
	uint64_t started;   /* in ticks since boot; 0: not known */
	uint32_t pid;
};

void ckpt_process_mark_own(struct ckpt_process_mark *out);

/* Never true of one that lives. False: it lives, or that cannot be told from here. */
bool ckpt_process_mark_is_gone(const struct ckpt_process_mark *mark);

/* The same in all containers of a machine, and another one after each start of it; "" if it is not known. */
void ckpt_read_boot_id(char *out, int size);

#endif
