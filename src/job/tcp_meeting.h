/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_TCP_MEETING_H
#define CKPT_JOB_TCP_MEETING_H

#include "job/rendezvous.h"
#include "job/tcp_door.h"

#include <pthread.h>

/*
 * How ranks meet over TCP: rank 0 listens, the others connect to it, prove that they know the token
 * (tcp_wire.h) and give their hello. What everybody may do who reaches the port costs rank 0 little
 * and stops nothing: the connections that are not proven are bounded in number, memory and time,
 * and only who is proven can end the meeting. A rank that loses its connection comes again, as the
 * same process; one that finds nobody, or a meeting of another key, tries again until the deadline.
 *
 * When all have the answer rank 0 listens no more. The connections stay, and a thread on each rank
 * sends something now and then and looks what has come, so that a rank that hangs or has died can
 * be named.
 */

/* On rank 0: what it knows about a rank. */
struct ckpt_tcp_seat {
	struct ckpt_tcp_link *link; /* owned; NULL: it is not there (any more) */
	bool came;		    /* it was there: */
	uint8_t process[16];
	uint32_t pid;
	char host[CKPT_WIRE_HOST];
	bool has_hello, was_told /* why all end */, has_taken /* the answer */, said_bye;
	uint64_t lost_at; /* when its connection ended */
};

#define CKPT_TCP_REMEDY "start them, or give all ranks the same --rdzv and token"

struct ckpt_tcp_meeting {
	struct ckpt_rendezvous base;
	struct ckpt_tcp_address address;
	uint8_t secret[CKPT_WIRE_KEY];
	struct ckpt_wire_join me; /* without the nonce */
	const char *remedy;	  /* borrowed: what to do if a rank does not come; NULL: as below */

	/* Not on rank 0. */
	struct ckpt_tcp_link *link; /* owned; to rank 0 */
	uint8_t hello[CKPT_MOST_HELLO];
	size_t hello_len;
	struct ckpt_tcp_resolved found;
	uint64_t found_at;
	bool is_fixed; /* FOUND is given, and not to be looked up */
	char why[200];	   /* it is not connected, as far as it is known */
	char said[200];	   /* by rank 0, or what seemed to be it: why not now */
	char waiting[160]; /* for whom rank 0 waits, as it said last */

	/* On rank 0. */
	struct ckpt_tcp_door door;   /* if it listens already, it is not asked where */
	struct ckpt_tcp_seat *seats; /* owned; by rank */
	struct pollfd *fds;	     /* owned; room for all */
	bool *there;	/* owned; by rank: it has given its hello */
	uint8_t *all;	/* borrowed while they gather */
	const void *answer; /* borrowed while they share */
	size_t len;	/* of a hello, then of an answer */
	size_t answer_step; /* 0: all get the same; else how far the answers are apart, by rank */
	const struct ckpt_failure_notice *refusal; /* borrowed while all are told that they end */
	bool has_refused;
	struct ckpt_error no_room; /* of rank 0: it may not open as many files as there are ranks */
	char said_waiting[160];
	uint64_t said_at, began;

	/* All ranks; the rest is used under LOCK once BEATS is set. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool has_thread, beats, stopped;
};

int ckpt_tcp_fail_cancelled(struct ckpt_error *err);
/* The failure of this rank. */
void ckpt_tcp_make_notice(const struct ckpt_tcp_meeting *m, const struct ckpt_error *why,
			  struct ckpt_failure_notice *out);
/* What another rank has sent as LEN bytes: it is why all end. Returns its status. */
int ckpt_tcp_take_notice(struct ckpt_tcp_meeting *m, const uint8_t *bytes, size_t len, struct ckpt_error *err);

enum { CKPT_TCP_SETTLE_NSEC = 1000000000 };

/* ---- rank 0 ---- */

/* For the door. */
int ckpt_tcp_host_admit(void *ctx, struct ckpt_tcp_link *link, bool *is_seated, struct ckpt_error *err);
int ckpt_tcp_host_gather(struct ckpt_tcp_meeting *m, const void *hello, size_t len, void *all,
			 uint64_t deadline, struct ckpt_error *err);
int ckpt_tcp_host_share(struct ckpt_tcp_meeting *m, const void *bytes, size_t len,
			uint64_t deadline, struct ckpt_error *err);
/*
 * Nothing comes of it: tell why to all who are there, and for SETTLE_NSEC to those who still come, but
 * not after DEADLINE. The first reason stays.
 */
void ckpt_tcp_host_refuse(struct ckpt_tcp_meeting *m, const struct ckpt_error *why, uint64_t settle_nsec,
			  uint64_t deadline);
/* Before it has gathered: it listens, to tell the others. */
void ckpt_tcp_host_leave(struct ckpt_tcp_meeting *m, const struct ckpt_error *why, uint64_t deadline);
/* Frees all connections. */
void ckpt_tcp_host_close(struct ckpt_tcp_meeting *m);
void ckpt_tcp_host_beat(struct ckpt_tcp_meeting *m, bool send);

/* ---- the others ---- */

/*
 * Connect to rank 0 until it has welcomed this rank, or the deadline. CKPT_E_PEER: it has another
 * token, or is something else; or nobody was there.
 */
int ckpt_tcp_guest_join(struct ckpt_tcp_meeting *m, uint64_t deadline, struct ckpt_error *err);
int ckpt_tcp_guest_gather(struct ckpt_tcp_meeting *m, const void *hello, size_t len,
			  uint64_t deadline, struct ckpt_error *err);
/* The last half of it, once it has joined. */
void ckpt_tcp_guest_say(struct ckpt_tcp_meeting *m, const void *hello, size_t len);
int ckpt_tcp_guest_share(struct ckpt_tcp_meeting *m, void *bytes, size_t len, uint64_t deadline,
			 struct ckpt_error *err);
/* Tell rank 0 that all end, and why. */
void ckpt_tcp_guest_leave(struct ckpt_tcp_meeting *m, const struct ckpt_error *why, uint64_t deadline);
void ckpt_tcp_guest_close(struct ckpt_tcp_meeting *m);
void ckpt_tcp_guest_beat(struct ckpt_tcp_meeting *m, bool send);

#endif
