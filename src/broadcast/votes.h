/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_VOTES_H
#define CKPT_BROADCAST_VOTES_H

#include "broadcast/session.h"

/* What has become of a step, on this rank and on all. */

/* Are files written by this rank? */
bool ckpt_session_writes(const struct ckpt_session *s);

/*
 * Bring RC, an error that is the session's, to a vote: CODE (enum ckpt_broadcast_code) is what
 * kind of error that is. Returns the session's code, what all agreed upon. LISTING: what all ranks
 * say is told, not what one does.
 */
int ckpt_session_agree(struct ckpt_session *s, int rc, int code);
int ckpt_session_agree_listing(struct ckpt_session *s, int rc, int code);

/* Those who dropped out say why. */
int ckpt_session_tell_dropped(struct ckpt_session *s, int code);

/* Has everybody who writes dropped out? Then that is the session's code, else 0. */
int ckpt_session_check_left(struct ckpt_session *s);

#endif
