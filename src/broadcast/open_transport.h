/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_OPEN_TRANSPORT_H
#define CKPT_BROADCAST_OPEN_TRANSPORT_H

#include "broadcast/session.h"
#include "broadcast/watchdog.h"

/* How a session comes to its place among the ranks, and to what carries its bytes. */

int ckpt_session_find_world(struct ckpt_session *s);

/* Ranks meet where they have to. On an error the session's code is set. */
int ckpt_session_open_transport(struct ckpt_session *s, struct ckpt_transport **out);

/* Behind the transport's end. */
void ckpt_session_leave(struct ckpt_session *s);

/* Who has not been heard of, where the ranks met in a folder, becomes part of what the session's error says. */
void ckpt_session_add_silent(struct ckpt_session *s);

/* For WHAT, a call of MPI that may wait for a lost rank for ever. NULL if the process is not to be ended. */
struct ckpt_watchdog *ckpt_session_watch(const struct ckpt_session *s, double seconds, int code,
					 const char *what);

#endif
