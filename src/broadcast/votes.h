/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_VOTES_H
#define CKPT_BROADCAST_VOTES_H

#include "broadcast/session.h"

/* How a step ended, on this rank and on all. */

/* Does this rank write files? */
bool ckpt_session_writes(const struct ckpt_session *s);

/*
 * Bring RC, which is 0 or the session's error, to a vote: CODE (enum ckpt_broadcast_code) says what
 * kind of error that is. Returns the session's code, on which all agreed. LISTING: the error lists
 * what all ranks say, not only one of them.
 */
int ckpt_session_agree(struct ckpt_session *s, int rc, int code);
int ckpt_session_agree_listing(struct ckpt_session *s, int rc, int code);

/* A vote in which the ranks that dropped out say why. */
int ckpt_session_report_dropped(struct ckpt_session *s, int code);

/* Have all ranks that write dropped out? Then that is the session's code, else 0. */
int ckpt_session_check_left(struct ckpt_session *s);

#endif
