/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_MEMORY_H
#define CKPT_JOB_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What the job may still take of memory. Behind that the kernel ends a process of it, with no error
 * that anybody could handle. What lies in a tmpfs is counted as memory of whoever wrote it.
 */
struct ckpt_memory {
	uint64_t left;	/* bytes; what the kernel could drop is left, too */
	char file[400]; /* that says the limit */
};

/*
 * The tightest of the process's own memory cgroup and those around it, version 2 or 1. False: there
 * is no limit, or it cannot be read. ROOT: "", or a folder that has another "proc" and "sys", for
 * tests.
 */
bool ckpt_memory_find(const char *root, struct ckpt_memory *out);

#endif
