/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_MEMORY_H
#define CKPT_JOB_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How much memory the job may still use. Beyond that, the kernel kills one of its processes, and no
 * error can be handled. Files in a tmpfs count as memory of the process that wrote them.
 */
struct ckpt_memory {
	uint64_t left;	/* bytes; includes page cache that the kernel could drop */
	char file[400]; /* the file with the limit */
};

/*
 * The tightest limit of the process's own memory cgroup and those around it, version 2 or 1. False:
 * there is no limit, or it cannot be read. ROOT: "", or, for tests, a folder with another "proc"
 * and "sys".
 */
bool ckpt_memory_find(const char *root, struct ckpt_memory *out);

#endif
