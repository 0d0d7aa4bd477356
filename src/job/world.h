/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_WORLD_H
#define CKPT_JOB_WORLD_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { CKPT_WORLD_MOST_KEY = 500 }; /* bytes; a namespace of PMIx has up to 255 */

/*
 * Which process of a job this one is, from the variables that launchers set. Source of the names:
 * torchrun of torch 2.14, Open MPI 4.1, PMIx 4.2, MPICH 4, Slurm 22.05 and 23, Kubernetes Indexed Jobs.
 */
struct ckpt_world {
	uint32_t rank, size;
	uint32_t local_rank, local_size; /* LOCAL_SIZE is 0 where it is not known */
	const char *launcher; /* static: whose variables were used; "none" for a single process */
	/* the same for all processes of one start of the job; "" if nothing says it */
	char key[CKPT_WORLD_MOST_KEY + 1];
	bool has_node; /* only some launchers say it */
	uint32_t node;
	bool size_is_said; /* by a launcher or the caller; else it is 1, for nothing says another */
};

/* What the user said. It wins over variables. */
struct ckpt_world_wish {
	const char *launcher;		/* its name, as above; NULL: find it */
	int64_t rank, size, local_rank; /* -1: not said */
	const char *key;		/* NULL: not said */
};

/* The value of a variable, or NULL: getenv(), except in tests. */
typedef const char *ckpt_lookup(void *ctx, const char *name);

/*
 * CKPT_E_ARG: an unknown launcher, one that is not there, or a key in WISH that is too long.
 * CKPT_E_FORMAT: a variable that is no number, a key that variables make too long, or two launchers
 * that cannot both be right.
 */
int ckpt_world_find(const struct ckpt_world_wish *wish, ckpt_lookup *lookup, void *ctx,
		    struct ckpt_world *out, struct ckpt_error *err);

/* The nodes of a job of Slurm (node_list.h), where that says them; or NULL. */
const char *ckpt_world_slurm_nodes(ckpt_lookup *lookup, void *ctx);

/* "torchrun, openmpi, ...": the launchers that are known. */
const char *ckpt_world_launchers(void);

#endif
