/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_MEET_H
#define CKPT_BROADCAST_MEET_H

#include "base/error.h"
#include "broadcast/tcp_star.h"
#include "gpu/cuda.h"
#include "gpu/nccl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the ranks send to rank 0 when they meet, and what it decides from that: which transport all
 * ranks use, or a sentence that says which rank cannot, and what to do. It is decided once: a rank
 * that decided for itself would wait in one library for others that wait in another.
 */
enum { CKPT_MEET_PROTOCOL = 4 };

/* What the ranks must have in common, each with a checksum of its own, so that what differs has a name. */
enum ckpt_meet_wish {
	CKPT_WISH_DST,
	CKPT_WISH_SOURCES, /* how many, and their names */
	CKPT_WISH_SIZE,	   /* of the world */
	CKPT_WISH_CHUNK,
	CKPT_WISH_DEPTH,
	CKPT_WISH_READERS,
	CKPT_WISH_FLAGS,
	CKPT_WISH_EXPECT,
	CKPT_WISHES
};

struct ckpt_meet_hello {
	char version[24]; /* of ckpt */
	uint32_t protocol;
	uint64_t wishes; /* a checksum of all that has to be the same */
	char host[64];
	uint32_t pid, rank, local_rank;
	int64_t gpu; /* as the user said; -1: by the local rank */
	struct ckpt_cuda_facts cuda;
	struct ckpt_nccl_facts nccl;
	/*
	 * Of the GPU that it uses. MACHINE: the boot id, which containers of one machine have in
	 * common. NCCL_HOST: NCCL_HOSTID, "" if it is not set; SHARES: several ranks may use one
	 * GPU (NCCL_MULTI_RANK_GPU_ENABLE of NCCL 2.30).
	 */
	struct ckpt_cuda_identity identity;
	char machine[40], nccl_host[32];
	bool shares;
	uint32_t each_wish[CKPT_WISHES];
	uint32_t flags; /* enum ckpt_broadcast_flags */
	char sources[240], destination[160]; /* as they were given; of long ones the end */
	bool has_mpi;	  /* it was started by a launcher of MPI, and the plug-in is there */
	bool has_ucx;	  /* the plug-in is there */
	char no_tcp[200]; /* why it cannot carry over TCP; "": it can */
};

/*
 * Encoded: little-endian, of fixed length. Ranks with another version of ckpt are recognized by the
 * first fields.
 */
enum { CKPT_MEET_HELLO = 2045 };
void ckpt_meet_write_hello(const struct ckpt_meet_hello *hello, uint8_t out[CKPT_MEET_HELLO]);
void ckpt_meet_read_hello(const uint8_t in[CKPT_MEET_HELLO], struct ckpt_meet_hello *out);

struct ckpt_meet_plan {
	int status;	/* 0, or why nothing can carry: CKPT_E_UNSUPPORTED, CKPT_E_PEER */
	char text[440]; /* why not; with status 0: advice, or "" */
	uint32_t failed_rank;
	char transport[8];	   /* "self", "mpi", "nccl", "ucx", "tcp" */
	struct ckpt_nccl_id id;	   /* for nccl */
	struct ckpt_tcp_place tcp; /* for ucx and tcp */
};

enum { CKPT_MEET_PLAN = 800 };
void ckpt_meet_write_plan(const struct ckpt_meet_plan *plan, uint8_t out[CKPT_MEET_PLAN]);
void ckpt_meet_read_plan(const uint8_t in[CKPT_MEET_PLAN], struct ckpt_meet_plan *out);

/*
 * HELLOS: COUNT of them, by rank. WISH: "nccl", "mpi", "ucx", "tcp", "self", or NULL for the best:
 * NCCL if every rank has it and a GPU, else MPI if all were started by it, else TCP. UCX is never
 * chosen: docs/broadcast.md says why. *PLAN has no id and no place yet. Returns its status: CKPT_E_PEER if ranks do
 * not match each other, CKPT_E_UNSUPPORTED if one of them lacks something.
 */
int ckpt_meet_decide(const struct ckpt_meet_hello *hellos, uint32_t count, const char *wish,
		     struct ckpt_meet_plan *plan, struct ckpt_error *err);

#endif
