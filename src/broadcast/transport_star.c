/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/transport_star.h"

#include "base/cancel.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

/* Between looks at what rank 0 says while bytes are carried; and how long who does not answer is looked for. */
static const uint64_t LOOK_NSEC = 20000000, ASKED_NSEC = 1000000000;

/* All that live hear of it at once, over the star: who is silent is found out sooner than it could be over MPI. */
enum { SOONER = 4 };

int ckpt_star_fail_broken(struct ckpt_error *err)
{
	return ckpt_fail(err, CKPT_E_PEER, "the transport cannot be used any more");
}

/* After an error: is it another rank's, which all give as their own? */
static void note_told(struct ckpt_star_transport *t)
{
	const struct ckpt_failure_notice *told = ckpt_tcp_star_told(t->star);

	if (!told)
		return;
	t->base.is_told = true;
	t->base.told_rank = told->rank;
	t->base.told_signal = told->signal;
}

int ckpt_star_look_around(struct ckpt_star_transport *t, int rc, struct ckpt_error *err)
{
	uint64_t now = ckpt_now_nsec();
	struct ckpt_error known = CKPT_ERROR_INIT;

	if (rc == 0 && now - t->looked_at < LOOK_NSEC)
		return 0;
	t->looked_at = now;
	if ((rc < 0 ? ckpt_tcp_star_await : ckpt_tcp_star_look)(t->star, &known) == 0)
		return rc;
	note_told(t);
	if ((rc == 0 || t->base.is_told) && err)
		*err = known;
	return known.status;
}

int ckpt_star_look(struct ckpt_transport *transport, struct ckpt_error *err)
{
	struct ckpt_star_transport *t = (struct ckpt_star_transport *)transport;
	int rc;

	if (t->broken)
		return ckpt_star_fail_broken(err);
	rc = ckpt_star_look_around(t, 0, err);
	t->broken = rc < 0;
	return rc;
}

int ckpt_star_vote(struct ckpt_transport *transport, uint64_t *numbers, size_t count,
		   uint64_t deadline, struct ckpt_error *err)
{
	struct ckpt_star_transport *t = (struct ckpt_star_transport *)transport;
	int rc = t->broken ? ckpt_star_fail_broken(err)
			   : ckpt_tcp_star_vote(t->star, numbers, count, deadline, err);

	if (rc < 0)
		note_told(t);
	t->broken |= rc < 0;
	return rc;
}

void ckpt_star_find_silent(struct ckpt_transport *transport, uint64_t nsec, char *text, size_t size)
{
	ckpt_tcp_star_find_silent(((struct ckpt_star_transport *)transport)->star, nsec / SOONER,
				  text, size);
}

void ckpt_star_say_moving(struct ckpt_transport *transport)
{
	ckpt_tcp_star_say_moving(((struct ckpt_star_transport *)transport)->star);
}

uint64_t ckpt_star_moved_at(const struct ckpt_transport *transport)
{
	return ckpt_tcp_star_moved_at(((const struct ckpt_star_transport *)transport)->star);
}

void ckpt_star_stop(struct ckpt_transport *transport, const char *why, int signal)
{
	struct ckpt_failure_notice notice = { .status = signal ? CKPT_E_CANCELLED : CKPT_E_PEER,
					      .signal = signal,
					      .rank = transport->rank };

	snprintf(notice.text, sizeof(notice.text), "%s", why);
	ckpt_tcp_star_stop(((struct ckpt_star_transport *)transport)->star, &notice);
}

void ckpt_star_close(struct ckpt_star_transport *t)
{
	ckpt_tcp_star_close(t->star, !t->broken);
	ckpt_tcp_ring_close(&t->ring);
}

/* ---- opening ---- */

/* What fails behind the ring fails here alone. Returns RC. */
static int tell_why(struct ckpt_star_transport *t, const struct ckpt_star_opening *o, int rc, const struct ckpt_error *why)
{
	char text[400], said[sizeof(why->text)];

	if (t->base.is_told)
		return rc;
	snprintf(text, sizeof(text), "rank %u (%s): %.300s", t->base.rank, ckpt_tcp_star_me(t->star)->host,
		 ckpt_error_text(why, said, sizeof(said)));
	ckpt_star_stop(&t->base, text, rc == CKPT_E_CANCELLED ? ckpt_cancelled(o->cancel) : 0);
	return rc;
}

static int start(struct ckpt_star_transport *t, const struct ckpt_star_opening *o,
		 struct ckpt_error *why)
{
	int rc = o->start(t, o, why);

	return rc == 0 ? 0 : tell_why(t, o, ckpt_star_look_around(t, rc, why), why);
}

/* The first vote comes back only if the ring is closed on all ranks, which may take as long as connecting does. */
static int open_all(struct ckpt_star_transport *t, const struct ckpt_star_opening *o,
		    struct ckpt_error *why)
{
	uint64_t nothing = 0;
	int rc = ckpt_tcp_ring_open(o->star, o->interface, o->cancel, o->deadline, &t->ring, why);

	if (rc == 0 && o->start)
		rc = start(t, o, why);
	if (rc < 0)
		return rc;
	ckpt_tcp_star_heed(o->star, o->cancel);
	rc = t->base.ops->vote(&t->base, &nothing, 1, o->deadline, why);
	ckpt_tcp_star_heed(o->star, NULL);
	return rc == CKPT_E_CANCELLED ? tell_why(t, o, rc, why) : rc;
}

int ckpt_star_open(struct ckpt_star_transport *t, const struct ckpt_transport_ops *ops,
		   const struct ckpt_star_opening *o, struct ckpt_transport **out,
		   struct ckpt_failure_notice *told, struct ckpt_error *err)
{
	struct ckpt_error why = CKPT_ERROR_INIT;
	char text[200] = "";
	int rc;

	*out = NULL;
	if (!t) {
		ckpt_tcp_star_close(o->star, false);
		return ckpt_fail_nomem(err);
	}
	t->base.ops = ops;
	t->base.rank = ckpt_tcp_star_me(o->star)->rank;
	t->base.size = ckpt_tcp_star_me(o->star)->size;
	t->star = o->star;
	rc = open_all(t, o, &why);
	t->broken = rc < 0;
	note_told(t);
	if (rc == 0) {
		*out = &t->base;
		return 0;
	}
	ckpt_star_find_silent(&t->base, ASKED_NSEC, text, sizeof(text));
	if (*text && rc == CKPT_E_PEER)
		ckpt_error_append(&why, "; no answer from %s", text);
	if (err)
		*err = why;
	if (told && t->base.is_told)
		*told = *ckpt_tcp_star_told(t->star);
	ops->close(&t->base);
	return rc;
}
