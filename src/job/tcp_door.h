/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_TCP_DOOR_H
#define CKPT_JOB_TCP_DOOR_H

#include "base/error.h"
#include "job/tcp_address.h"
#include "job/tcp_link.h"

#include <poll.h>

/*
 * Where ranks listen, and who has come but not yet proven that it knows the secret. What everybody
 * may do who reaches the port costs little and stops nothing: those who are not proven are bounded
 * in number, memory and time; when there is no room, the one that has done least makes room, and
 * the system keeps the others waiting meanwhile.
 */
enum { CKPT_TCP_MOST_UNPROVEN = 256 };

struct ckpt_tcp_door {
	/* To be set before: */
	const uint8_t *secret;		 /* borrowed */
	const struct ckpt_wire_join *me; /* borrowed: its host and pid are shown */
	unsigned most_unproven;		 /* up to CKPT_TCP_MOST_UNPROVEN */
	/*
	 * LINK has proven that it knows the secret. *IS_TAKEN: it is somebody else's now. Else the
	 * door sends what was put into it, and closes it. An error ends the turn, and LINK stays.
	 */
	int (*admit)(void *ctx, struct ckpt_tcp_link *link, bool *is_taken, struct ckpt_error *err);
	void *ctx;

	int listeners[CKPT_TCP_MOST_ADDRESSES];
	struct sockaddr_storage bound[CKPT_TCP_MOST_ADDRESSES]; /* where they listen */
	unsigned listener_count, polled_count;
	uint64_t accepts_from; /* not before, as the system has no room */
	struct ckpt_tcp_link *unproven[CKPT_TCP_MOST_UNPROVEN]; /* owned */
	unsigned unproven_count;
	char stranger[300]; /* the last that had another token or key, for the message */
};

/* How long who connects may take for its proof; tests make it shorter. */
extern uint64_t ckpt_tcp_proof_nsec;

/*
 * 1: it listens there as well; 0: the address is none of this host, or there are enough. *TAKEN:
 * it fails as somebody else listens there.
 */
int ckpt_tcp_door_listen(struct ckpt_tcp_door *door, const struct sockaddr_storage *address,
			 socklen_t len, bool *taken, struct ckpt_error *err);
/* Listen no more, and end what is not proven. */
void ckpt_tcp_door_shut(struct ckpt_tcp_door *door);

/*
 * A turn: what to poll for, of which FDS has room for CKPT_TCP_MOST_ADDRESSES and most_unproven;
 * what came of that; those who are not proven, whom ADMIT may take; and then who is new.
 */
unsigned ckpt_tcp_door_collect(struct ckpt_tcp_door *door, struct pollfd *fds);
void ckpt_tcp_door_note_ready(struct ckpt_tcp_door *door, const struct pollfd *fds);
int ckpt_tcp_door_serve(struct ckpt_tcp_door *door, struct ckpt_error *err);
void ckpt_tcp_door_accept(struct ckpt_tcp_door *door);

/* For the message: who came as LINK, and has WHAT. */
void ckpt_tcp_door_note_stranger(struct ckpt_tcp_door *door, const struct ckpt_tcp_link *link,
				 const char *what);

#endif
