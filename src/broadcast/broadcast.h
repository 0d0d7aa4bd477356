/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_BROADCAST_H
#define CKPT_BROADCAST_BROADCAST_H

#include "broadcast/session.h"

/*
 * All steps, over TRANSPORT, which is closed in the end, as is the session. For tests with other
 * transports.
 */
int ckpt_broadcast_over(struct ckpt_session *session, struct ckpt_transport *transport,
			struct ckpt_broadcast_report *report, struct ckpt_error *err);

#endif
