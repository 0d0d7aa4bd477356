/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks on their way over UCX: from the rank before this one, and on to the next, as over TCP
 * (transport_tcp.c), but UCX moves them, without a copy where the network can. A chunk is a message
 * whose tag is its number, and a part of the star's secret, which a stranger does not know.
 *
 * Nothing here blocks and no thread runs: bytes move while test() is called, and while a vote waits. A
 * rank votes once nothing is left here which another one waits for: it may not work for UCX
 * behind the vote.
 *
 * What must stay true: a chunk is done once it has come and, unless the next rank is its root, is
 * sent. After an error a buffer that UCX may still write to is not given back. Whether a rank has
 * died is the star's to say: UCX learns of it late, and in shared memory never.
 */
#include "broadcast/transport_ucx.h"

#include "base/c_locale.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/plugin.h"
#include "broadcast/transport_star.h"
#include "broadcast/ucx_plugin.h"
#include "io/network.h"
#include "job/tcp_address.h"
#include "job/tcp_call.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	FLUSH = CKPT_MOST_FLYING, /* the slot of a vote */
	MOVES = 8,		  /* calls of UCX in one test(), so that it comes back */
	STEP_MSEC = 20,
	PAUSE_MSEC = 1,
	LENGTH = 4, /* bytes, before an address */
	/* Of UCX, in a second, that are bytes: it counts what it does, and asks each rank beside it now and then whether it lives. */
	MOVING_EVENTS = 8,
};

static const uint64_t QUIET_NSEC = 500000000; /* how long UCX may take to let go of memory */

static const struct ckpt_plugin plugin = { "ckpt-ucx.so", "CKPT_UCX_PLUGIN", CKPT_UCX_GET_NAME,
					   "UCX", "the package libucx-dev" };

struct flight {
	struct ckpt_transport_chunk chunk;
	uint64_t number; /* as all ranks count them */
	enum { DONE, COMING, GOING } state;
};

struct ucx {
	struct ckpt_star_transport star; /* its ring carries no chunks */
	const struct ckpt_ucx_ops *ops;		 /* of the plug-in */
	struct ckpt_ucx *link;			 /* owned */
	struct flight flights[CKPT_MOST_FLYING]; /* by ticket */
	uint64_t begun, tags;
	uint64_t second;      /* when it began */
	unsigned events;      /* in it */
	bool is_wired; /* all ranks are connected by UCX */
	bool is_quiet;
};

bool ckpt_ucx_is_there(void)
{
	return ckpt_plugin_find(&plugin, NULL, 0);
}

void ckpt_ucx_describe(char *out, size_t size)
{
	if (!ckpt_plugin_find(&plugin, out, size))
		snprintf(
			out, size,
			"no %s, with which 'ckpt broadcast' works over InfiniBand and RoCE without MPI: build ckpt where %s is",
			plugin.file, plugin.needs);
}

/* ---- chunks ---- */

static uint32_t next_rank(const struct ucx *t)
{
	return (t->star.base.rank + 1) % t->star.base.size;
}

static uint64_t tag_of(const struct ucx *t, const struct flight *f)
{
	return t->tags | (f->number & UINT32_MAX);
}

/* The kernel closes the sockets of the ring, which are older, before those of UCX. */
static bool has_neighbor_ended(const struct ucx *t)
{
	struct pollfd fds[2] = { { .fd = t->star.ring.previous, .events = POLLRDHUP },
				 { .fd = t->star.ring.next, .events = POLLRDHUP } };

	return ckpt_io_poll(fds, 2, 0) > 0 &&
	       ((fds[0].revents | fds[1].revents) & (POLLRDHUP | POLLHUP | POLLERR));
}

/*
 * While it connects, UCX 1.13 gives up by an assertion if the other side has died ("got REP message"). It is left alone then,
 * and the star says who that was. An assertion that fails all the same is an error of the plug-in.
 */
static bool progress(const struct ucx *t)
{
	return (t->is_wired || !has_neighbor_ended(t)) && t->ops->progress(t->link);
}

/* It is here: done, or to be sent on. */
static int pass_on(struct ucx *t, unsigned ticket, struct ckpt_error *err)
{
	struct flight *f = &t->flights[ticket];

	f->state = DONE;
	if (f->chunk.root == next_rank(t))
		return 0;
	f->state = GOING;
	return t->ops->send(t->link, ticket, f->chunk.buffer, f->chunk.nbytes, tag_of(t, f), err);
}

static int begin(struct ckpt_transport *transport, const struct ckpt_transport_chunk *chunk,
		 unsigned ticket, struct ckpt_error *err)
{
	struct ucx *t = (struct ucx *)transport;
	struct flight *f = &t->flights[ticket];
	int rc;

	if (t->star.broken)
		return ckpt_star_fail_broken(err);
	assert(ticket < CKPT_MOST_FLYING && f->state == DONE && chunk->nbytes <= UINT32_MAX);
	*f = (struct flight){ *chunk, t->begun++, DONE };
	if (chunk->nbytes == 0)
		return 0;
	f->state = COMING;
	rc = chunk->root == transport->rank ? pass_on(t, ticket, err)
					    : t->ops->receive(t->link, ticket, chunk->buffer,
							      chunk->nbytes, tag_of(t, f), err);
	t->star.broken |= rc < 0;
	return rc;
}

/* UCX tells of whole messages only, and whether it has done something. */
static void note_event(struct ucx *t)
{
	uint64_t now = ckpt_now_nsec();

	if (now - t->second >= 1000000000) {
		t->second = now;
		t->events = 0;
	}
	if (++t->events >= MOVING_EVENTS)
		ckpt_tcp_star_say_moving(t->star.star);
}

static int move_chunks(struct ucx *t, struct ckpt_error *err)
{
	for (int i = 0; i < MOVES && progress(t); i++)
		note_event(t);
	for (unsigned i = 0; i < CKPT_MOST_FLYING; i++) {
		int rc = t->flights[i].state == DONE ? 0 : t->ops->test(t->link, i, err);

		if (rc > 0 && t->flights[i].state == COMING)
			rc = pass_on(t, i, err);
		else if (rc > 0)
			t->flights[i].state = DONE;
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int test(struct ckpt_transport *transport, unsigned ticket, struct ckpt_error *err)
{
	struct ucx *t = (struct ucx *)transport;
	int rc;

	if (t->star.broken)
		return ckpt_star_fail_broken(err);
	rc = ckpt_star_look_around(&t->star, move_chunks(t, err), err);
	t->star.broken = rc < 0;
	return rc < 0 ? rc : t->flights[ticket].state == DONE;
}

/* ---- votes ---- */

/* Whatever other ranks wait for has left this one. */
static int flush(struct ucx *t, uint64_t deadline, struct ckpt_error *err)
{
	int rc = t->ops->flush(t->link, FLUSH, err);

	while (rc == 0) {
		bool moved = progress(t);

		rc = t->ops->test(t->link, FLUSH, err);
		if (rc <= 0)
			rc = ckpt_star_look_around(&t->star, rc, err);
		if (rc == 0 && ckpt_now_nsec() > deadline)
			rc = ckpt_fail(err, CKPT_E_PEER, "%s takes nothing more",
				       t->star.ring.next_name);
		if (rc == 0 && !moved)
			ckpt_io_poll(NULL, 0, PAUSE_MSEC);
	}
	return rc < 0 ? rc : 0;
}

static bool work(void *transport)
{
	return progress(transport);
}

static int vote(struct ckpt_transport *transport, uint64_t *numbers, size_t count,
		uint64_t deadline, struct ckpt_error *err)
{
	struct ucx *t = (struct ucx *)transport;
	int rc = t->star.broken ? ckpt_star_fail_broken(err) : flush(t, deadline, err);

	t->star.broken |= rc < 0;
	if (rc == 0)
		rc = ckpt_star_vote(transport, numbers, count, deadline, err);
	t->is_wired |= rc == 0; /* what has left every rank has been answered */
	return rc;
}

/* ---- the end ---- */

/*
 * After an error UCX is left alone, with the memory that it may write to: version 1.13 ends the process, or
 * waits, where it is to take down a connection that has failed.
 */
static void end_ucx(struct ucx *t)
{
	if (!t->star.broken && !t->is_quiet && t->link)
		t->is_quiet = t->ops->quiesce(t->link, QUIET_NSEC);
}

/* The sockets stay until the end: who finds them closed would take this rank for the one that died. */
static void give_up(struct ckpt_transport *transport)
{
	((struct ucx *)transport)->star.broken = true;
}

static void release(struct ckpt_transport *transport, void *buffer)
{
	struct ucx *t = (struct ucx *)transport;

	if (!t->star.broken)
		ckpt_transport_host_release(transport, buffer);
}

static void close_ucx(struct ckpt_transport *transport)
{
	struct ucx *t = (struct ucx *)transport;

	end_ucx(t);
	ckpt_star_close(&t->star);
	if (t->link)
		t->ops->close(t->link);
	free(t);
}

static void describe(const struct ckpt_transport *transport, char *text, size_t size)
{
	const struct ucx *t = (const struct ucx *)transport;

	t->ops->describe(t->link, text, size);
}

/* ---- opening ---- */

/* What goes to the rank before this one, and comes from the next: a length, then the bytes. */
struct exchange {
	uint8_t out[LENGTH + CKPT_UCX_MOST_ADDRESS], in[LENGTH + CKPT_UCX_MOST_ADDRESS];
	size_t out_len, sent, received, in_len;
};

static bool is_later(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

static int send_own(struct ucx *t, struct exchange *x, struct ckpt_error *err)
{
	ssize_t n = x->sent < x->out_len ? ckpt_io_send(t->star.ring.previous, x->out + x->sent,
							x->out_len - x->sent)
					 : 0;

	if (n > 0)
		x->sent += (size_t)n;
	return n >= 0 || is_later(n)
		       ? 0
		       : ckpt_fail(err, CKPT_E_PEER, "the connection from %s is lost: %s",
				   t->star.ring.previous_name, ckpt_errno_text(errno));
}

static int receive_next(struct ucx *t, struct exchange *x, struct ckpt_error *err)
{
	ssize_t n = x->received < x->in_len ? ckpt_io_recv(t->star.ring.next, x->in + x->received,
							   x->in_len - x->received)
					    : 1;
	uint32_t len;

	if (is_later(n))
		return 0;
	if (n <= 0)
		return ckpt_fail(err, CKPT_E_PEER, "the connection to %s is lost: %s",
				 t->star.ring.next_name,
				 n < 0 ? ckpt_errno_text(errno) : "it ended it");
	if (x->received < x->in_len)
		x->received += (size_t)n;
	if (x->received != LENGTH || x->in_len != LENGTH)
		return 0;
	len = (uint32_t)x->in[0] | (uint32_t)x->in[1] << 8 | (uint32_t)x->in[2] << 16 |
	      (uint32_t)x->in[3] << 24;
	if (len == 0 || len > CKPT_UCX_MOST_ADDRESS)
		return ckpt_fail(err, CKPT_E_PEER, "%s sent no address of UCX",
				 t->star.ring.next_name);
	x->in_len += len;
	return 0;
}

static bool is_exchanged(const struct exchange *x)
{
	return x->sent == x->out_len && x->in_len > LENGTH && x->received == x->in_len;
}

static int exchange_addresses(struct ucx *t, struct exchange *x, const volatile int *cancel,
			      uint64_t deadline, struct ckpt_error *err)
{
	int rc = 0;

	while (rc == 0 && !is_exchanged(x)) {
		struct pollfd fds[2] = {
			{ .fd = t->star.ring.previous,
			  .events = x->sent < x->out_len ? POLLOUT : 0 },
			{ .fd = t->star.ring.next, .events = POLLIN },
		};

		if (ckpt_cancelled(cancel))
			return ckpt_tcp_fail_cancelled(err);
		if (ckpt_now_nsec() > deadline)
			return ckpt_fail(err, CKPT_E_PEER, "%s does not say where UCX listens",
					 t->star.ring.next_name);
		if (ckpt_io_poll(fds, 2, STEP_MSEC) < 0 && errno != EINTR)
			return ckpt_fail_errno(err, "cannot wait for the ranks beside this one");
		rc = send_own(t, x, err);
		if (rc == 0)
			rc = receive_next(t, x, err);
		rc = ckpt_star_look_around(&t->star, rc, err);
	}
	return rc;
}

static int connect_ring(struct ucx *t, const struct ckpt_star_opening *o, struct ckpt_error *err)
{
	struct exchange *x = calloc(1, sizeof(*x));
	size_t len;
	const void *own = t->ops->address(t->link, &len);
	int rc;

	if (!x)
		return ckpt_fail_nomem(err);
	for (int i = 0; i < LENGTH; i++)
		x->out[i] = (uint8_t)(len >> 8 * i);
	memcpy(x->out + LENGTH, own, len);
	x->out_len = LENGTH + len;
	x->in_len = LENGTH;
	rc = exchange_addresses(t, x, o->cancel, o->deadline, err);
	if (rc == 0)
		rc = t->ops->connect(t->link, x->in + LENGTH, x->in_len - LENGTH,
				     t->star.ring.next_is_here, err);
	free(x);
	return rc;
}

/*
 * UCX has signals of its own for debugging, SIGHUP among them, and takes them while it is loaded. They stay
 * whose they were.
 */
static int load_plugin(struct ucx *t, struct ckpt_error *err)
{
	static const int taken[] = { SIGHUP, SIGILL, SIGSEGV, SIGBUS, SIGFPE };
	enum { TAKEN = sizeof(taken) / sizeof(taken[0]) };
	struct sigaction were[TAKEN];
	ckpt_ucx_get *get;
	int rc;

	for (int i = 0; i < TAKEN; i++)
		sigaction(taken[i], NULL, &were[i]);
	rc = ckpt_plugin_load(&plugin, (void **)&get, err);
	for (int i = 0; i < TAKEN; i++)
		sigaction(taken[i], &were[i], NULL);
	return rc < 0 ? rc : get(CKPT_UCX_PLUGIN_VERSION, &t->ops, err);
}

/*
 * Unless somebody chose another one: the network by which the ranks beside this one have just been reached, and RDMA. UCX
 * would take others, too, which may lead nowhere.
 */
static int open_link(struct ucx *t, const char *interface, struct ckpt_error *err)
{
	char next[CKPT_TCP_INTERFACE_NAME], previous[CKPT_TCP_INTERFACE_NAME], both[2 * CKPT_TCP_INTERFACE_NAME] = "";

	if (interface)
		return t->ops->open(interface, false, &t->link, err);
	if (ckpt_tcp_interface_of(t->star.ring.next, next))
		snprintf(both, sizeof(both), "%s", next);
	if (ckpt_tcp_interface_of(t->star.ring.previous, previous) && strcmp(both, previous) != 0)
		snprintf(both + strlen(both), sizeof(both) - strlen(both), "%s%s", *both ? "," : "", previous);
	return t->ops->open(*both ? both : NULL, true, &t->link, err);
}

static int start(struct ckpt_star_transport *star, const struct ckpt_star_opening *o,
		 struct ckpt_error *err)
{
	static const uint8_t nonce[CKPT_WIRE_KEY] =
		"tags of UCX"; /* the star's secret is for one use itself */
	struct ucx *t = (struct ucx *)star;
	uint8_t tags[CKPT_WIRE_KEY];
	int rc;

	ckpt_wire_derive_secret(ckpt_tcp_star_secret(star->star), nonce, tags);
	for (int i = 0; i < 4; i++)
		t->tags |= (uint64_t)tags[i] << (32 + 8 * i);
	rc = load_plugin(t, err);
	if (rc == 0)
		rc = open_link(t, o->interface, err);
	if (rc == 0)
		rc = connect_ring(t, o, err);
	if (rc == 0)
		ckpt_tcp_star_set_work(star->star, work, t);
	return rc;
}

int ckpt_transport_open_ucx(struct ckpt_tcp_star *star, const char *interface,
			    const volatile int *cancel, uint64_t deadline,
			    struct ckpt_transport **out, struct ckpt_failure_notice *told,
			    struct ckpt_error *err)
{
	static const struct ckpt_transport_ops ops = {
		.name = "ucx",
		.alloc = ckpt_transport_host_alloc,
		.release = release,
		.begin = begin,
		.test = test,
		.vote = vote,
		.abort = give_up,
		.close = close_ucx,
		.find_silent = ckpt_star_find_silent,
		.look = ckpt_star_look,
		.stop = ckpt_star_stop,
		.say_moving = ckpt_star_say_moving,
		.moved_at = ckpt_star_moved_at,
		.describe = describe,
	};
	const struct ckpt_star_opening opening = { star, interface, cancel, deadline, start };
	struct ucx *t = calloc(1, sizeof(*t));

	return ckpt_star_open(t ? &t->star : NULL, &ops, &opening, out, told, err);
}
