/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_TCP_STAR_H
#define CKPT_BROADCAST_TCP_STAR_H

#include "base/error.h"
#include "job/tcp_meeting.h"

/*
 * Where the bytes go over TCP, from rank to rank, each rank also has a connection to rank 0. Over it
 * they vote, and hear at once that a rank has ended: the ring would only show that nothing comes.
 * Every call is for one thread, and none waits longer than it is told.
 */
struct ckpt_tcp_star;

enum { CKPT_TCP_MOST_VOTES = 8 /* numbers at a time */ };

/* What rank 0 tells the others in the plan. */
struct ckpt_tcp_place {
	uint8_t nonce[CKPT_WIRE_KEY];
	uint32_t count;
	uint8_t spots[CKPT_TCP_MOST_ADDRESSES][CKPT_TCP_SPOT];
};

/* SECRET: what the ranks have in common already; the star's own follows from it and PLACE->nonce. */
int ckpt_tcp_star_new(const struct ckpt_world *world, const uint8_t secret[CKPT_WIRE_KEY],
		      const struct ckpt_tcp_place *place, struct ckpt_tcp_star **out,
		      struct ckpt_error *err);
/* Not on rank 0: by which link it is reached, if its addresses lie on one only. */
void ckpt_tcp_star_set_scope(struct ckpt_tcp_star *star, uint32_t scope);
/* Without IN_ORDER the others are told that this rank has failed, if they have not been yet. */
void ckpt_tcp_star_close(struct ckpt_tcp_star *star, bool in_order);

/* On rank 0, before the others are told: listen at AT, and note in PLACE where that is. */
int ckpt_tcp_star_listen(struct ckpt_tcp_star *star, const struct ckpt_tcp_resolved *at,
			 struct ckpt_tcp_place *place, struct ckpt_error *err);

/* On rank 0, in the place of opening it: the ranks that come for it, or have come, are told WHY. */
void ckpt_tcp_star_refuse(struct ckpt_tcp_star *star, const struct ckpt_error *why);

/* What a rank knows about the ring when all are connected to rank 0. */
struct ckpt_tcp_neighbors {
	struct sockaddr_storage next; /* where the next rank listens for this one */
	socklen_t next_len;
	char next_host[CKPT_WIRE_HOST], previous_host[CKPT_WIRE_HOST];
};

/*
 * All connect to rank 0. Then LISTEN opens a port for the rank before this one, at OWN, the address
 * by which this host and rank 0's reach each other, and puts there where it is. CKPT_E_PEER: not
 * all ranks came.
 */
typedef int ckpt_tcp_listen(void *ctx, struct sockaddr_storage *own, struct ckpt_error *err);
int ckpt_tcp_star_open(struct ckpt_tcp_star *star, ckpt_tcp_listen *listen, void *ctx,
		       const volatile int *cancel, uint64_t deadline,
		       struct ckpt_tcp_neighbors *out, struct ckpt_error *err);

/*
 * This rank has moved some of what all carry: those that wait for its vote, or for bytes, wait on. Said a few times a second at
 * most, and not where something else is still to be sent.
 */
void ckpt_tcp_star_say_moving(struct ckpt_tcp_star *star);

/* Votes end with CKPT_E_CANCELLED when CANCEL is set, as those of the caller do not, which agree on how all end. NULL: they do not. */
void ckpt_tcp_star_heed(struct ckpt_tcp_star *star, const volatile int *cancel);

/* When this rank has last said so, or heard it of another one, by ckpt_now_nsec(); 0: never. */
uint64_t ckpt_tcp_star_moved_at(const struct ckpt_tcp_star *star);

/*
 * WORK is done again and again while a vote is waited for, since other ranks may wait for it. It returns
 * whether there was something to do.
 */
void ckpt_tcp_star_set_work(struct ckpt_tcp_star *star, bool (*work)(void *ctx), void *ctx);

/* What has come meanwhile. CKPT_E_PEER: a rank has ended, or says that it has failed. */
int ckpt_tcp_star_look(struct ckpt_tcp_star *star, struct ckpt_error *err);

/* As vote() of a transport, for up to CKPT_TCP_MOST_VOTES numbers. The deadline is as far away again when a rank says that it moves. */
int ckpt_tcp_star_vote(struct ckpt_tcp_star *star, uint64_t *numbers, size_t count,
		       uint64_t deadline, struct ckpt_error *err);

/*
 * All end, for the reason WHY, which each of them gives as its own. It waits a moment for rank 0 to
 * tell the others, as they would take this rank for one that died.
 */
void ckpt_tcp_star_stop(struct ckpt_tcp_star *star, const struct ckpt_failure_notice *why);
/* What another rank has said so; NULL: none has. */
const struct ckpt_failure_notice *ckpt_tcp_star_told(const struct ckpt_tcp_star *star);
/* A connection has ended: until rank 0 has said why, a moment at most. As look(). */
int ckpt_tcp_star_await(struct ckpt_tcp_star *star, struct ckpt_error *err);

/* As find_silent() of a transport; "" before it is open. */
void ckpt_tcp_star_find_silent(struct ckpt_tcp_star *star, uint64_t nsec, char *text, size_t size);

/* For handshakes of the ring: the secret, and who this is. */
const uint8_t *ckpt_tcp_star_secret(const struct ckpt_tcp_star *star);
const struct ckpt_wire_join *ckpt_tcp_star_me(const struct ckpt_tcp_star *star);

#endif
