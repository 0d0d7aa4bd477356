/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_SESSION_H
#define CKPT_BROADCAST_SESSION_H

#include "broadcast/agree.h"
#include "broadcast/landing.h"
#include "broadcast/manifest.h"
#include "broadcast/meet.h"
#include "broadcast/ring.h"
#include "gpu/copy.h"
#include "gpu/peers.h"
#include "job/board.h"
#include "job/rendezvous.h"

#include <ckpt/broadcast.h>

/* The state of one rank in one broadcast. */
struct ckpt_session {
	struct ckpt_broadcast_options o; /* with defaults filled in */
	const char *const *sources;	 /* borrowed */
	size_t source_count;
	const char *wish;		     /* borrowed: the destination as it was given */
	struct ckpt_collectives collectives; /* if the options have some */
	struct ckpt_world world;
	struct ckpt_rendezvous *rendezvous; /* owned; NULL: not needed, or not any more */
	uint8_t secret[CKPT_WIRE_KEY];	    /* of the job's token; zeros where none is needed */
	struct ckpt_tcp_resolved own;	    /* where the transport tcp may listen; see find_own() */
	bool has_plan; /* all ranks have met: from then on the others hear of a failure by a vote */
	struct ckpt_tcp_star *star;	    /* owned until a transport has it: rank 0 listens for it */
	struct ckpt_cuda *cuda;		    /* owned; the transport's GPU, if it has one */
	struct ckpt_board *board;	    /* owned; NULL: there is none */
	char advice[256];		    /* as in the report */
	char no_note[256];		    /* as in the report */
	bool was_told;			    /* the error is what another rank announced there */
	struct ckpt_agreement agreement;
	struct ckpt_manifest manifest;
	char *path; /* owned: on this node; NULL: nothing is written here */
	struct ckpt_landing *landing;
	struct ckpt_gpu_copy *gpu; /* owned until the report has it */
	struct ckpt_ring *ring;
	char **paths;			     /* owned: of the sources' files */
	uint32_t *crcs;			     /* owned: by file */
	uint64_t carry_start;		     /* when the bytes began to move, by ckpt_now_nsec() */
	struct ckpt_transport *met_over;     /* owned: the ranks met over it, and then failed */
	bool standard_chunk, standard_depth, standard_threads; /* the options have none */
	bool reused;
	bool named;		/* names were given: it cannot be stopped any more */
	bool dropped;		/* this rank cannot write, and goes on without */
	char dropped_text[900]; /* why */
	char *folder;		/* owned: the one of the destination */
	char *made;		/* owned: the outermost folder above it that was made */
	int code;		/* enum ckpt_broadcast_code: the result of the last vote */
	int signal;		/* that another rank got, and all end for; 0: none */
	struct ckpt_error err;
};

/* Initializes everything but the world. */
int ckpt_session_init(struct ckpt_session *session, const char *const *sources, size_t count,
		      const char *destination, const struct ckpt_broadcast_options *options);

/* The number of this process's GPU. */
int ckpt_session_gpu(struct ckpt_session *session, uint32_t *ordinal);

/* A checksum of everything that must be the same on all ranks. */
uint64_t ckpt_session_wishes(const struct ckpt_session *s);
/* One of each; see enum ckpt_meet_wish. */
void ckpt_session_each_wish(const struct ckpt_session *s, uint32_t out[CKPT_WISHES]);

/* Choose the size and number of chunks that the options leave open. TOTAL: bytes; UINT64_MAX: not known yet. */
void ckpt_session_choose_chunks(struct ckpt_session *s, bool on_gpu, uint64_t total);

/* 64 KiB to 1 MiB, by a model of the ring that docs/broadcast.md states. */
uint64_t ckpt_session_best_chunk(uint64_t total, uint32_t ranks);

#endif
