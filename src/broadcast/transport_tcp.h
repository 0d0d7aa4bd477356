/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_TRANSPORT_TCP_H
#define CKPT_BROADCAST_TRANSPORT_TCP_H

#include "broadcast/tcp_star.h"
#include "broadcast/transport.h"

/*
 * The transport over plain TCP: every rank sends each chunk on to the next one as soon as it has it,
 * so each sends and receives every byte once. It needs neither MPI nor a GPU. Two ranks or more.
 *
 * STAR: of ckpt_tcp_star_new() on all ranks, and on rank 0 listening; it is the transport's from now
 * on, also after an error. INTERFACE: whose address the bytes go to, or NULL. CKPT_E_PEER: the
 * connections between the ranks do not come about until DEADLINE. TOLD: if another rank has ended it, what
 * it said; its status stays 0 otherwise.
 */
int ckpt_transport_open_tcp(struct ckpt_tcp_star *star, const char *interface,
			    const volatile int *cancel, uint64_t deadline,
			    struct ckpt_transport **out, struct ckpt_failure_notice *told,
			    struct ckpt_error *err);

#endif
