/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks on their way over TCP: from the rank before this one, and on to the next.
 *
 * Nothing here blocks and no thread runs: bytes move while test() is called. Chunks of several roots
 * overtake each other, so each has a head (tcp_head.h) by which it is known. A head of a chunk that is
 * not begun here yet waits, and what is behind it: no rank begins a chunk before all that are ASKED (ring.c)
 * places before it are sent, and this rank has room for so many, so all that it needs to get as far was
 * sent before.
 *
 * What must stay true: a chunk is done once it has come and, unless the next rank is its root, is
 * sent. What comes is written only to where a chunk that was begun has room for it, whatever the head
 * says. After an error nothing more is read or sent.
 */
#include "broadcast/transport_tcp.h"

#include "base/c_locale.h"
#include "broadcast/tcp_head.h"
#include "broadcast/transport_star.h"
#include "io/network.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOVES = 8, /* calls of the system each way in one test(), so that it comes back */
	NOBODY = CKPT_MOST_FLYING,
};

struct flight {
	struct ckpt_transport_chunk chunk;
	uint64_t number; /* as all ranks count them */
	enum { DONE, COMING, WAITING /* to be sent */, GOING } state;
};

/* One direction: a head, then its chunk. */
struct stream {
	uint8_t head[CKPT_TCP_HEAD];
	size_t pos;	 /* in the head, and behind it in the chunk */
	unsigned ticket; /* NOBODY: the head is not whole, or its chunk is not begun here */
};

struct tcp {
	struct ckpt_star_transport star;
	struct flight flights[CKPT_MOST_FLYING]; /* by ticket */
	uint64_t begun;
	struct stream in, out;
	unsigned queue[CKPT_MOST_FLYING], queue_first, queued; /* tickets that wait to be sent */
};

static uint32_t next_rank(const struct tcp *t)
{
	return (t->star.base.rank + 1) % t->star.base.size;
}

/* It is here: done, or to be sent on. */
static void pass_on(struct tcp *t, unsigned ticket)
{
	struct flight *f = &t->flights[ticket];

	if (f->chunk.root == next_rank(t)) {
		f->state = DONE;
		return;
	}
	f->state = WAITING;
	t->queue[(t->queue_first + t->queued++) % CKPT_MOST_FLYING] = ticket;
}

static int begin(struct ckpt_transport *transport, const struct ckpt_transport_chunk *chunk,
		 unsigned ticket, struct ckpt_error *err)
{
	struct tcp *t = (struct tcp *)transport;
	struct flight *f = &t->flights[ticket];

	if (t->star.broken)
		return ckpt_star_fail_broken(err);
	assert(ticket < CKPT_MOST_FLYING && f->state == DONE && chunk->nbytes <= UINT32_MAX);
	*f = (struct flight){ *chunk, t->begun++, DONE };
	if (chunk->nbytes == 0)
		return 0;
	f->state = COMING;
	if (chunk->root == transport->rank)
		pass_on(t, ticket);
	return 0;
}

/* ---- what comes ---- */

static int fail_foreign(struct tcp *t, const struct ckpt_tcp_head *h, struct ckpt_error *err)
{
	return ckpt_fail(err, CKPT_E_PEER,
			 "%s sent chunk %" PRIu64 " of %" PRIu32 " bytes of rank %" PRIu32
			 ", which is not what comes next (%" PRIu64 " were begun here)",
			 t->star.ring.previous_name, h->number, h->nbytes, h->root, t->begun);
}

/* 1: the head's chunk is found; 0: it is not begun here. */
static int find_coming(struct tcp *t, struct ckpt_error *err)
{
	struct ckpt_tcp_head h;

	if (!ckpt_tcp_head_read(t->in.head, &h))
		return ckpt_fail(err, CKPT_E_PEER, "%s sent what is no chunk",
				 t->star.ring.previous_name);
	for (unsigned i = 0; i < CKPT_MOST_FLYING; i++) {
		const struct flight *f = &t->flights[i];

		if (f->state != COMING || f->number != h.number)
			continue;
		if (f->chunk.nbytes != h.nbytes || f->chunk.root != h.root)
			return fail_foreign(t, &h, err);
		t->in.ticket = i;
		return 1;
	}
	/* nobody is further ahead than by the chunks that may fly */
	if (h.number < t->begun || h.number - t->begun >= CKPT_MOST_FLYING)
		return fail_foreign(t, &h, err);
	return 0;
}

static int fail_ended(struct tcp *t, int code, struct ckpt_error *err)
{
	return code ? ckpt_fail(err, CKPT_E_PEER, "the connection from %s is lost: %s",
				t->star.ring.previous_name, ckpt_errno_text(code))
		    : ckpt_fail(err, CKPT_E_PEER, "%s ended the connection",
				t->star.ring.previous_name);
}

static bool expects_any(const struct tcp *t)
{
	for (unsigned i = 0; i < CKPT_MOST_FLYING; i++)
		if (t->flights[i].state == COMING)
			return true;
	return false;
}

/* 1: something came; 0: nothing is there, or is wanted. */
static int receive(struct tcp *t, struct ckpt_error *err)
{
	struct stream *in = &t->in;
	size_t wanted = CKPT_TCP_HEAD;
	uint8_t *to = in->head + in->pos;
	ssize_t n;

	if (!expects_any(t))
		return 0;
	if (in->ticket == NOBODY && in->pos == CKPT_TCP_HEAD) {
		int rc = find_coming(t, err);

		if (rc <= 0)
			return rc;
	}
	if (in->ticket != NOBODY) {
		const struct ckpt_transport_chunk *c = &t->flights[in->ticket].chunk;

		to = (uint8_t *)c->buffer + (in->pos - CKPT_TCP_HEAD);
		wanted += c->nbytes;
	}
	n = ckpt_io_recv(t->star.ring.previous, to, wanted - in->pos);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return 0;
	if (n <= 0)
		return fail_ended(t, n < 0 ? errno : 0, err);
	in->pos += (size_t)n;
	if (in->ticket != NOBODY && in->pos == wanted) {
		pass_on(t, in->ticket);
		*in = (struct stream){ .ticket = NOBODY };
	}
	return 1;
}

/* ---- what goes ---- */

static void start_next(struct tcp *t)
{
	struct ckpt_tcp_head h;
	struct flight *f;

	t->out = (struct stream){ .ticket = t->queue[t->queue_first] };
	t->queue_first = (t->queue_first + 1) % CKPT_MOST_FLYING;
	t->queued--;
	f = &t->flights[t->out.ticket];
	f->state = GOING;
	h = (struct ckpt_tcp_head){ f->number, (uint32_t)f->chunk.nbytes, f->chunk.root };
	ckpt_tcp_head_write(&h, t->out.head);
}

/* 1: something went; 0: nothing can, or is to. */
static int send_some(struct tcp *t, struct ckpt_error *err)
{
	struct stream *out = &t->out;
	const struct ckpt_transport_chunk *c;
	ssize_t n;

	if (out->ticket == NOBODY && t->queued == 0)
		return 0;
	if (out->ticket == NOBODY)
		start_next(t);
	c = &t->flights[out->ticket].chunk;
	if (out->pos < CKPT_TCP_HEAD)
		n = ckpt_io_send(t->star.ring.next, out->head + out->pos, CKPT_TCP_HEAD - out->pos);
	else
		n = ckpt_io_send(t->star.ring.next,
				 (const uint8_t *)c->buffer + (out->pos - CKPT_TCP_HEAD),
				 CKPT_TCP_HEAD + c->nbytes - out->pos);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return 0;
	if (n < 0)
		return ckpt_fail(err, CKPT_E_PEER, "the connection to %s is lost: %s",
				 t->star.ring.next_name, ckpt_errno_text(errno));
	out->pos += (size_t)n;
	if (out->pos == CKPT_TCP_HEAD + c->nbytes) {
		t->flights[out->ticket].state = DONE;
		out->ticket = NOBODY;
	}
	return 1;
}

/* Both ways, by turns, as long as something moves. */
static int move_bytes(struct tcp *t, struct ckpt_error *err)
{
	int came = 1, went = 1;
	bool moved = false;

	for (int i = 0; i < MOVES && (came > 0 || went > 0); i++) {
		came = receive(t, err);
		if (came < 0)
			return came;
		went = send_some(t, err);
		if (went < 0)
			return went;
		moved |= came > 0 || went > 0;
	}
	if (moved)
		ckpt_tcp_star_say_moving(t->star.star);
	return 0;
}

static int test(struct ckpt_transport *transport, unsigned ticket, struct ckpt_error *err)
{
	struct tcp *t = (struct tcp *)transport;
	int rc;

	if (t->star.broken)
		return ckpt_star_fail_broken(err);
	rc = ckpt_star_look_around(&t->star, move_bytes(t, err), err);
	t->star.broken = rc < 0;
	return rc < 0 ? rc : t->flights[ticket].state == DONE;
}

/* What waits for the caller to begin a chunk cannot be waited for here. */
static void wait_for_sockets(struct ckpt_transport *transport, uint64_t nsec)
{
	const struct tcp *t = (const struct tcp *)transport;
	bool is_blocked = t->in.ticket == NOBODY && t->in.pos == CKPT_TCP_HEAD;
	struct pollfd fds[2];
	nfds_t count = 0;

	if (expects_any(t) && !is_blocked)
		fds[count++] = (struct pollfd){ .fd = t->star.ring.previous, .events = POLLIN };
	if (t->out.ticket != NOBODY || t->queued)
		fds[count++] = (struct pollfd){ .fd = t->star.ring.next, .events = POLLOUT };
	ckpt_io_poll(fds, count, is_blocked ? 1 : (int)((nsec + 999999) / 1000000));
}

static bool look_back(const struct ckpt_transport *transport, struct ckpt_transport_way *out)
{
	const struct ckpt_tcp_ring *ring = &((const struct tcp *)transport)->star.ring;

	out->next = ring->next_name;
	return !ring->next_is_here && ckpt_io_sent(ring->next, &out->nbytes, &out->nsec);
}

/* The sockets stay until the end: who finds them closed would take this rank for the one that died. */
static void give_up(struct ckpt_transport *transport)
{
	((struct tcp *)transport)->star.broken = true;
}

static void close_tcp(struct ckpt_transport *transport)
{
	struct tcp *t = (struct tcp *)transport;

	ckpt_star_close(&t->star);
	free(t);
}

int ckpt_transport_open_tcp(struct ckpt_tcp_star *star, const char *interface,
			    const volatile int *cancel, uint64_t deadline,
			    struct ckpt_transport **out, struct ckpt_failure_notice *told,
			    struct ckpt_error *err)
{
	static const struct ckpt_transport_ops ops = {
		.name = "tcp",
		.alloc = ckpt_transport_host_alloc,
		.release = ckpt_transport_host_release,
		.begin = begin,
		.test = test,
		.wait = wait_for_sockets,
		.vote = ckpt_star_vote,
		.abort = give_up,
		.close = close_tcp,
		.find_silent = ckpt_star_find_silent,
		.look = ckpt_star_look,
		.stop = ckpt_star_stop,
		.say_moving = ckpt_star_say_moving,
		.moved_at = ckpt_star_moved_at,
		.look_back = look_back,
	};
	const struct ckpt_star_opening opening = { star, interface, cancel, deadline, NULL };
	struct tcp *t = calloc(1, sizeof(*t));

	if (t)
		t->in.ticket = t->out.ticket = NOBODY;
	return ckpt_star_open(t ? &t->star : NULL, &ops, &opening, out, told, err);
}
