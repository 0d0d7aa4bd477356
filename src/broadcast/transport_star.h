/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_TRANSPORT_STAR_H
#define CKPT_BROADCAST_TRANSPORT_STAR_H

#include "broadcast/tcp_ring.h"
#include "broadcast/tcp_star.h"
#include "broadcast/transport.h"

#include <stdbool.h>

/*
 * What the transports tcp and ucx have in common, and begin with: the ranks vote, and hear that one
 * has ended, over the star, and have proven to the ranks beside them, over the ring, who they are.
 */
struct ckpt_star_transport {
	struct ckpt_transport base;
	struct ckpt_tcp_star *star; /* owned */
	struct ckpt_tcp_ring ring;
	uint64_t looked_at;
	bool broken; /* after an error: nothing is carried any more */
};

int ckpt_star_fail_broken(struct ckpt_error *err);

/*
 * RC is what carrying has come to. The star may know better why a connection ended, or that another
 * rank has: then that is returned. After 0 it is asked only now and then.
 */
int ckpt_star_look_around(struct ckpt_star_transport *t, int rc, struct ckpt_error *err);

/* As in struct ckpt_transport_ops. */
int ckpt_star_look(struct ckpt_transport *transport, struct ckpt_error *err);
int ckpt_star_vote(struct ckpt_transport *transport, uint64_t *numbers, size_t count,
		   uint64_t deadline, struct ckpt_error *err);
void ckpt_star_find_silent(struct ckpt_transport *transport, uint64_t nsec, char *text,
			   size_t size);
void ckpt_star_say_moving(struct ckpt_transport *transport);
uint64_t ckpt_star_moved_at(const struct ckpt_transport *transport);
void ckpt_star_stop(struct ckpt_transport *transport, const char *why, int signal);

/* How the ring is opened: as of ckpt_transport_open_tcp(), and what comes behind it. */
struct ckpt_star_opening {
	struct ckpt_tcp_star *star;
	const char *interface;
	const volatile int *cancel;
	uint64_t deadline;
	/* Once the ring is open, on all ranks. An error of this rank alone reaches the others. NULL: nothing. */
	int (*start)(struct ckpt_star_transport *t, const struct ckpt_star_opening *opening,
		     struct ckpt_error *err);
};

/*
 * T: from calloc(), or NULL if there was no memory; with OPS, it becomes a transport that is open on all
 * ranks. After an error it is closed, TOLD is as of ckpt_transport_open_tcp(), and CKPT_E_PEER names
 * those that do not answer.
 */
int ckpt_star_open(struct ckpt_star_transport *t, const struct ckpt_transport_ops *ops,
		   const struct ckpt_star_opening *opening, struct ckpt_transport **out,
		   struct ckpt_failure_notice *told, struct ckpt_error *err);

/* Star and ring; T itself is the caller's. */
void ckpt_star_close(struct ckpt_star_transport *t);

#endif
