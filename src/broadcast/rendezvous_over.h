/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_RENDEZVOUS_OVER_H
#define CKPT_BROADCAST_RENDEZVOUS_OVER_H

#include "broadcast/transport.h"
#include "job/rendezvous.h"

/*
 * Ranks that already have a transport meet over it, to find out whether there is a better one.
 * TRANSPORT is borrowed and must outlive *OUT.
 */
int ckpt_rendezvous_over(struct ckpt_transport *transport, const struct ckpt_world *world,
			 struct ckpt_rendezvous **out, struct ckpt_error *err);

#endif
