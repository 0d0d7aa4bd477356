/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_RENDEZVOUS_H
#define CKPT_JOB_RENDEZVOUS_H

#include "job/failure_notice.h"
#include "job/tcp_wire.h"
#include "job/world.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * How the ranks of a job meet before they have a transport: every rank gives a few bytes (its
 * hello), rank 0 reads all of them and gives an answer to all. All ranks make the same calls in the
 * same order: gather, then share, once each.
 */
struct ckpt_rendezvous;

enum { CKPT_MOST_HELLO = 4096 }; /* bytes; of an answer as well */

/*
 * DEADLINE, here and below, is in nanoseconds of CLOCK_MONOTONIC: after it the error is CKPT_E_PEER
 * and says which ranks are missing ("waiting for ranks 5, 9 of 64").
 *
 * HELLO has LEN bytes, the same LEN on all ranks. ALL, of world.size * LEN bytes, is filled on rank
 * 0, in the order of ranks, and is not touched on other ranks.
 */
struct ckpt_rendezvous_ops {
	const char *name; /* "file", "tcp", "pmix" */
	int (*gather)(struct ckpt_rendezvous *r, const void *hello, size_t len, void *all,
		      uint64_t deadline, struct ckpt_error *err);

	/* Send the LEN bytes of rank 0 to all. */
	int (*share)(struct ckpt_rendezvous *r, void *bytes, size_t len, uint64_t deadline,
		     struct ckpt_error *err);

	/*
	 * Which ranks have been silent, for the message when one of them does not answer any more:
	 * TEXT becomes "rank 3 (nodeB, pid 812) was last heard of 71 s ago", or "" if nothing is
	 * known.
	 */
	void (*silent)(struct ckpt_rendezvous *r, char *text, size_t size);

	void (*close)(struct ckpt_rendezvous *r); /* and removes what it left */

	/*
	 * This rank cannot go on, for WHY: rank 0 and so all others are told, and end as well. Before
	 * gather(), or after an error before share() was done; only close() may follow. Waits until
	 * DEADLINE at most, also if the cancel flag is set. NULL: the launcher tells them.
	 */
	void (*leave)(struct ckpt_rendezvous *r, const struct ckpt_error *why, uint64_t deadline);
};

struct ckpt_rendezvous {
	const struct ckpt_rendezvous_ops *ops;
	struct ckpt_world world;
	const volatile int *cancel; /* set after opening, or NULL; not 0 ends the waiting */
	/* Another rank has ended the meeting, and said why: the error is the one in TOLD. */
	bool is_told;
	struct ckpt_failure_notice told;
};

/*
 * By files in FOLDER, which all ranks see, on any shared file system. Its parent must exist. WORLD
 * needs a key (CKPT_E_ARG if there is none) that no other start has at the same time. Files of
 * earlier starts, whatever their key and however they ended, are never read as ours; meeting.h says
 * why. If two processes claim to be the same rank, or ranks disagree on their number, all ranks
 * learn of it, with hosts and pids.
 */
int ckpt_rendezvous_open_file(const char *folder, const struct ckpt_world *world,
			      struct ckpt_rendezvous **out, struct ckpt_error *err);

/*
 * Over TCP: rank 0 listens at ADDRESS, which is its host's, and the others connect to it. SECRET is
 * that of a token which all ranks know (token.h); who does not know it takes no part, and neither
 * delays nor ends the meeting. WORLD needs no key, but ranks of different keys do not meet. Ranks
 * that are twice, or disagree on their number, are told as above.
 * CKPT_E_LIMIT: rank 0 may not open that many connections.
 */
struct ckpt_tcp_address;
int ckpt_rendezvous_open_tcp(const struct ckpt_tcp_address *address,
			     const uint8_t secret[CKPT_WIRE_KEY], const struct ckpt_world *world,
			     struct ckpt_rendezvous **out, struct ckpt_error *err);

/* On rank 0 of a meeting over TCP: at which addresses the others reached it. False: it is none. */
struct ckpt_tcp_resolved;
bool ckpt_rendezvous_find_tcp(const struct ckpt_rendezvous *r, struct ckpt_tcp_resolved *out);

/* On the others: the scope of the address by which they reached rank 0, if it lies on a link only; else 0. */
uint32_t ckpt_rendezvous_find_scope(const struct ckpt_rendezvous *r);

/* By PMIx, if the launcher serves it: srun --mpi=pmix, mpirun of Open MPI, prterun. */
int ckpt_rendezvous_open_pmix(const struct ckpt_world *world, struct ckpt_rendezvous **out,
			      struct ckpt_error *err);
bool ckpt_rendezvous_has_pmix(void);

#endif
