/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_TRANSPORT_UCX_H
#define CKPT_BROADCAST_TRANSPORT_UCX_H

#include "broadcast/tcp_star.h"
#include "broadcast/transport.h"

#include <stdbool.h>

/*
 * The transport over UCX, which uses InfiniBand, RoCE, TCP or shared memory: the ranks vote, and learn
 * who has gone, over the star of the transport tcp. Over the connections of its ring, where both sides have proven who
 * they are, they tell each other where UCX listens; the chunks then go through UCX. STAR, INTERFACE and
 * DEADLINE are, and TOLD is, as in transport_tcp.h. CKPT_E_UNSUPPORTED: the plug-in is not there.
 */
int ckpt_transport_open_ucx(struct ckpt_tcp_star *star, const char *interface,
			    const volatile int *cancel, uint64_t deadline,
			    struct ckpt_transport **out, struct ckpt_failure_notice *told,
			    struct ckpt_error *err);

/* Is there a plug-in to load? */
bool ckpt_ucx_is_there(void);

/* Where it is, or how to get it. */
void ckpt_ucx_describe(char *out, size_t size);

#endif
