/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/votes.h"

#include "base/cancel.h"
#include "broadcast/destination.h"

#include <stdio.h>

static void error_text(const struct ckpt_error *err, char *text, size_t size)
{
	char said[sizeof(err->text)];

	snprintf(text, size, "%s%s%s", err->path, *err->path ? ": " : "",
		 ckpt_error_text(err, said, sizeof(said)));
}

bool ckpt_session_writes(const struct ckpt_session *s)
{
	return !(s->o.flags & CKPT_BROADCAST_NO_TARGET) &&
	       (s->world.local_rank == 0 || ckpt_destination_is_per_rank(s->wish));
}

/* If the caller allows it, a rank that cannot write goes on without, and says so at the end. */
static bool drop_out(struct ckpt_session *s, int code)
{
	if (!(s->o.flags & CKPT_BROADCAST_KEEP_GOING) || code != CKPT_BROADCAST_DESTINATION ||
	    !ckpt_session_writes(s))
		return false;
	if (!s->dropped)
		error_text(&s->err, s->dropped_text, sizeof(s->dropped_text));
	s->dropped = true;
	return true;
}

typedef int vote_fn(struct ckpt_agreement *agreement, int code, const char *text);

/* Bring CODE and the session's error to a vote; the result is the session's code. */
static int agree_by(vote_fn *vote, struct ckpt_session *s, int rc, int code)
{
	char text[900] = "";
	int cancelled = ckpt_cancelled(s->o.cancel);

	/* whatever the step was about: what it asked of the others failed */
	if (rc == CKPT_E_PEER || (rc < 0 && s->agreement.broken))
		code = CKPT_BROADCAST_LOST;
	if (rc == CKPT_E_CANCELLED && s->agreement.transport->told_signal)
		code = CKPT_BROADCAST_CANCELLED + s->agreement.transport->told_signal;
	else if (cancelled && !s->named) {
		rc = ckpt_fail(&s->err, CKPT_E_CANCELLED, "interrupted, nothing was written");
		code = CKPT_BROADCAST_CANCELLED + cancelled;
	}
	if (rc < 0 && drop_out(s, code))
		rc = 0;
	if (rc < 0)
		error_text(&s->err, text, sizeof(text));
	s->code = vote(&s->agreement, rc < 0 ? code : 0, text);
	return s->code;
}

int ckpt_session_agree(struct ckpt_session *s, int rc, int code)
{
	return agree_by(ckpt_agree, s, rc, code);
}

int ckpt_session_agree_listing(struct ckpt_session *s, int rc, int code)
{
	return agree_by(ckpt_agree_listing, s, rc, code);
}

int ckpt_session_report_dropped(struct ckpt_session *s, int code)
{
	if (s->o.flags & CKPT_BROADCAST_KEEP_GOING)
		s->code = ckpt_agree_listing(&s->agreement, s->dropped ? code : 0, s->dropped_text);
	return s->code;
}

int ckpt_session_check_left(struct ckpt_session *s)
{
	bool nobody = false;
	int rc = 0;

	if (s->o.flags & CKPT_BROADCAST_KEEP_GOING)
		rc = ckpt_agree_all(&s->agreement, s->dropped || !ckpt_session_writes(s), &nobody,
				    &s->err);
	if (rc < 0)
		return ckpt_session_agree(s, rc, CKPT_BROADCAST_LOST);
	return nobody ? ckpt_session_report_dropped(s, CKPT_BROADCAST_DESTINATION) : 0;
}
