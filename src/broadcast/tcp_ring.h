/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_TCP_RING_H
#define CKPT_BROADCAST_TCP_RING_H

#include "broadcast/tcp_star.h"

/*
 * Opens the connections over which the bytes go: this rank connects to the next one, and the one
 * before it connects to this one. Both sides of each prove that they know the star's secret.
 */
struct ckpt_tcp_ring {
	int next, previous;			 /* sockets, the caller's; -1: there is none */
	char next_name[100], previous_name[100]; /* "rank 2 (nodeC)" */
	bool next_is_here;			 /* by the names of the hosts */
};

/*
 * INTERFACE: whose address the ring uses, or NULL for the one by which this host and rank 0's reach
 * each other. Who fails tells the others over the star, so that all ranks give the same reason.
 */
int ckpt_tcp_ring_open(struct ckpt_tcp_star *star, const char *interface,
		       const volatile int *cancel, uint64_t deadline, struct ckpt_tcp_ring *out,
		       struct ckpt_error *err);
void ckpt_tcp_ring_close(struct ckpt_tcp_ring *ring);

#endif
