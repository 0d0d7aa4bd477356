/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_TCP_HEAD_H
#define CKPT_BROADCAST_TCP_HEAD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What stands before a chunk that goes from rank to rank over TCP: which one it is, as all ranks
 * count them, how long, and whose. It is the same for all that a rank could read there, or the
 * connection is of no more use.
 */
enum { CKPT_TCP_HEAD = 20 };

struct ckpt_tcp_head {
	uint64_t number;
	uint32_t nbytes, root;
};

void ckpt_tcp_head_write(const struct ckpt_tcp_head *head, uint8_t out[CKPT_TCP_HEAD]);
/* False: it is none. */
bool ckpt_tcp_head_read(const uint8_t in[CKPT_TCP_HEAD], struct ckpt_tcp_head *out);

#endif
