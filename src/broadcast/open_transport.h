/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_OPEN_TRANSPORT_H
#define CKPT_BROADCAST_OPEN_TRANSPORT_H

#include "broadcast/session.h"
#include "broadcast/watchdog.h"

/* How a session finds its place among the ranks, and the transport of its bytes. */

/* Which rank this is, of how many. */
int ckpt_session_find_world(struct ckpt_session *s);

/* Lets the ranks meet where they must. On an error the session's code is set. */
int ckpt_session_open_transport(struct ckpt_session *s, struct ckpt_transport **out);

/* Before its abort: tell the ranks of this node that use NCCL why, and wait for them a moment. */
void ckpt_session_announce(struct ckpt_session *s, const struct ckpt_error *why);

/*
 * After an error of this rank alone, before all had met: the others are told, and end. It takes some
 * seconds at most, until they are there.
 */
void ckpt_session_tell_failure(struct ckpt_session *s);

/* After the transport was closed. Takes no longer than the grace period of gpu/bounded.h. */
void ckpt_session_leave(struct ckpt_session *s);

/* If the ranks met in a folder: adds the ranks that have been silent to the session's error. */
void ckpt_session_add_silent(struct ckpt_session *s);

/*
 * A watchdog over WHAT, a call of MPI that may wait for a lost rank forever. NULL if the process
 * must not be ended.
 */
struct ckpt_watchdog *ckpt_session_watch(const struct ckpt_session *s, double seconds, int code,
					 const char *what);

#endif
