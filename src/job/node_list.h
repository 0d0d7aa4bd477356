/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_NODE_LIST_H
#define CKPT_JOB_NODE_LIST_H

#include "base/error.h"

#include <stdint.h>

/*
 * The nodes of a job as Slurm writes them: "gpu[01-03,7],r[1-2]n[1-4],login". Brackets hold numbers and
 * ranges, which keep the width of their first number; of several brackets the last one counts
 * fastest. Source: what 'scontrol show hostnames' of Slurm 22.05 makes of such lists.
 */
enum { CKPT_NODE_NAME = 256, CKPT_MOST_NODES = 1 << 20 };

/*
 * How many nodes LIST has, and which of them NAME is, from 0: *INDEX is *COUNT if it is none. FIRST
 * is the first one's name. FIRST may be NULL. CKPT_E_FORMAT: no list, one without nodes, or more than
 * CKPT_MOST_NODES.
 */
int ckpt_node_list_find(const char *list, const char *name, uint32_t *index, uint32_t *count,
			char first[CKPT_NODE_NAME], struct ckpt_error *err);

#endif
