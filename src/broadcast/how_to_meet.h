/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_HOW_TO_MEET_H
#define CKPT_BROADCAST_HOW_TO_MEET_H

#include "gpu/nccl.h"
#include "job/tcp_address.h"
#include "job/world.h"

/* How ranks meet before they have a transport. */
enum ckpt_way { CKPT_WAY_ALONE, CKPT_WAY_MPI, CKPT_WAY_PMIX, CKPT_WAY_FILE, CKPT_WAY_TCP, CKPT_WAY_ID };

struct ckpt_ways {
	bool has_mpi, has_pmix; /* the plug-ins are there */
	char folder[1024];	/* for CKPT_WAY_FILE */
	struct ckpt_tcp_address address; /* for CKPT_WAY_TCP: where rank 0 listens */
	struct ckpt_nccl_id id; /* for CKPT_WAY_ID: they meet in NCCL itself */
};

/*
 * WISH: "mpi", "pmix", "file:DIR", "tcp://HOST:PORT", "env", "id:HEX"; NULL or "auto": what the
 * launcher offers, MPI before PMIx before a folder, which is $CKPT_RDZV_DIR or else
 * $SLURM_SUBMIT_DIR/.ckpt. "env" is tcp:// with $MASTER_ADDR, and as port $CKPT_RDZV_PORT or the one
 * behind $MASTER_PORT, where torchrun itself listens. A single rank does not meet anyone. CKPT_E_ARG:
 * an unknown wish, or variables that are missing; CKPT_E_UNSUPPORTED: there is no way.
 */
int ckpt_how_to_meet(const char *wish, const struct ckpt_world *world, ckpt_lookup *lookup,
		     void *ctx, struct ckpt_ways *ways, enum ckpt_way *out, struct ckpt_error *err);

/* Was the process started by a launcher that tells MPI the peers? */
bool ckpt_world_is_mpi(const struct ckpt_world *world, ckpt_lookup *lookup, void *ctx);

#endif
