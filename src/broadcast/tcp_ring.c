/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two connections of a rank in the ring.
 *
 * What must stay true: each rank serves its own door while it connects to the next one's, or all would
 * wait for each other. Every wait has a deadline, and ends when the star says that a rank is gone.
 * Who is not the rank before this one, by the star's secret and by its number, is shown the door.
 */
#include "broadcast/tcp_ring.h"

#include "base/c_locale.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "io/network.h"
#include "job/tcp_call.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEP_MSEC = 20, MOST_UNPROVEN = 16 };

/* ns: until it connects again, if the other side ended the connection before it was proven */
static const uint64_t PAUSE_NSEC = 100000000;

struct opening {
	struct ckpt_tcp_star *star;
	const char *interface;
	struct ckpt_tcp_neighbors neighbors;
	struct ckpt_tcp_ring *ring;
	struct ckpt_wire_join me;
	struct ckpt_tcp_door door;
	struct ckpt_tcp_link *in, *out; /* owned */
	bool out_is_proven;
	int connecting; /* a socket, or -1 */
	uint64_t connect_from;
	char own_text[CKPT_TCP_ADDRESS_TEXT];
};

static uint32_t previous_rank(const struct opening *o)
{
	return (o->me.rank + o->me.size - 1) % o->me.size;
}

static uint32_t next_rank(const struct opening *o)
{
	return (o->me.rank + 1) % o->me.size;
}

/* ---- the door ---- */

static int admit(void *ctx, struct ckpt_tcp_link *l, bool *is_taken, struct ckpt_error *err)
{
	struct opening *o = ctx;

	(void)err;
	if (memcmp(l->join.key, o->me.key, sizeof(o->me.key)) != 0 ||
	    l->join.rank != previous_rank(o) || l->join.size != o->me.size) {
		ckpt_tcp_link_dismiss(l);
		return 0;
	}
	ckpt_tcp_link_free(o->in); /* it comes again */
	o->in = l;
	*is_taken = true;
	return 0;
}

static int listen_for_previous(void *ctx, struct sockaddr_storage *own, struct ckpt_error *err)
{
	struct opening *o = ctx;
	struct ckpt_tcp_resolved found = { .count = 1 };
	bool taken = false;
	int rc = 0;

	found.list[0].address = *own;
	found.list[0].len = own->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						       : sizeof(struct sockaddr_in);
	if (o->interface)
		rc = ckpt_tcp_find_own(o->interface, &found, err);
	if (rc == 0)
		rc = ckpt_tcp_door_listen(&o->door, &found.list[0].address, found.list[0].len,
					  &taken, err);
	if (rc == 0)
		return ckpt_fail(err, CKPT_E_PEER, "%s is no address of this host",
				 ckpt_tcp_address_print(&found.list[0].address, o->own_text));
	if (rc < 0)
		return rc;
	*own = o->door.bound[0];
	ckpt_tcp_address_print(own, o->own_text);
	return 0;
}

/* ---- the connection to the next rank ---- */

static int fail_connect(struct opening *o, const char *why, struct ckpt_error *err)
{
	char text[CKPT_TCP_ADDRESS_TEXT];

	return ckpt_fail(
		err, CKPT_E_PEER,
		"rank %" PRIu32 " (%s) cannot connect to %s at %s: %s; that one has ended, or something filters "
		"connections between these hosts: --interface NAME chooses another network",
		o->me.rank, o->me.host, o->ring->next_name,
		ckpt_tcp_address_print(&o->neighbors.next, text), why);
}

static int become_link(struct opening *o, struct ckpt_error *err)
{
	o->out = ckpt_tcp_link_new(o->connecting, CKPT_TCP_CHALLENGE);
	o->connecting = -1;
	if (!o->out)
		return ckpt_fail_nomem(err);
	return ckpt_tcp_call_begin(o->out, &o->me, err);
}

static int begin_connect(struct opening *o, struct ckpt_error *err)
{
	if (ckpt_now_nsec() < o->connect_from)
		return 0;
	o->connecting = ckpt_io_socket(o->neighbors.next.ss_family);
	if (o->connecting < 0)
		return ckpt_fail_errno(err, "cannot make a socket");
	if (ckpt_io_connect(o->connecting, (const struct sockaddr *)&o->neighbors.next,
			    o->neighbors.next_len) == 0)
		return become_link(o, err);
	return errno == EINPROGRESS || errno == EINTR
		       ? 0
		       : fail_connect(o, ckpt_errno_text(errno), err);
}

static int finish_connect(struct opening *o, struct ckpt_error *err)
{
	socklen_t size = sizeof(int);
	int code = 0;

	if (getsockopt(o->connecting, SOL_SOCKET, SO_ERROR, &code, &size) < 0)
		code = errno;
	return code ? fail_connect(o, ckpt_errno_text(code), err) : become_link(o, err);
}

static int go_on(struct opening *o, struct ckpt_error *err)
{
	struct ckpt_wire_challenge challenge;
	int rc = 1;

	while (rc > 0 && !o->out_is_proven) {
		bool sent = ckpt_tcp_link_flush(o->out);

		rc = ckpt_tcp_link_read(o->out);
		if (rc < 0 || (rc == 0 && !sent)) {
			ckpt_tcp_link_free(o->out); /* it may have had no room for one more */
			o->out = NULL;
			o->connect_from = ckpt_now_nsec() + PAUSE_NSEC;
			return 0;
		}
		if (rc == 0)
			return 0;
		switch (ckpt_tcp_call_go_on(o->out, ckpt_tcp_star_secret(o->star), &challenge)) {
		case CKPT_TCP_CALL_GOES_ON: break;
		case CKPT_TCP_CALL_PROVEN: o->out_is_proven = true; break;
		default: return fail_connect(o, "it is not that rank which listens there", err);
		}
	}
	return 0;
}

static int serve_next(struct opening *o, short came, struct ckpt_error *err)
{
	if (o->out_is_proven)
		return 0;
	if (o->out)
		return go_on(o, err);
	if (o->connecting >= 0)
		return came ? finish_connect(o, err) : 0;
	return begin_connect(o, err);
}

/* ---- both at a time ---- */

static int fail_late(struct opening *o, struct ckpt_error *err)
{
	if (o->door.accepts_from) /* the one before may be there, and wait to be let in */
		return ckpt_fail(err, CKPT_E_LIMIT,
				 "cannot accept a connection: this process may open too few files (ulimit -n), or there is no memory");
	if (!o->out_is_proven)
		return fail_connect(o, o->out ? "it does not answer" : "nothing comes back", err);
	return ckpt_fail(
		err, CKPT_E_PEER,
		"%s did not connect to rank %" PRIu32 " (%s) at %s: it hangs, or something filters "
		"connections between these hosts; --interface NAME chooses another network",
		o->ring->previous_name, o->me.rank, o->me.host, o->own_text);
}

static int turn(struct opening *o, struct ckpt_error *err)
{
	struct pollfd fds[CKPT_TCP_MOST_ADDRESSES + MOST_UNPROVEN + 1];
	unsigned count = ckpt_tcp_door_collect(&o->door, fds), at = count;
	int rc;

	if (o->connecting >= 0)
		fds[count++] = (struct pollfd){ .fd = o->connecting, .events = POLLOUT };
	else if (o->out && !o->out_is_proven)
		fds[count++] =
			(struct pollfd){ .fd = o->out->fd, .events = ckpt_tcp_link_events(o->out) };
	if (ckpt_io_poll(fds, count, STEP_MSEC) < 0 && errno != EINTR)
		return ckpt_fail_errno(err, "cannot wait for the ranks beside this one");
	ckpt_tcp_door_note_ready(&o->door, fds);
	rc = ckpt_tcp_door_serve(&o->door, err);
	if (rc == 0)
		rc = serve_next(o, count > at ? fds[at].revents : 0, err);
	if (rc == 0)
		ckpt_tcp_door_accept(&o->door);
	if (o->in)
		ckpt_tcp_link_flush(o->in);
	return rc;
}

static bool is_open(const struct opening *o)
{
	return o->out_is_proven && o->in && !ckpt_tcp_link_has_more(o->in) &&
	       !ckpt_tcp_link_has_more(o->out);
}

static int connect_both(struct opening *o, const volatile int *cancel, uint64_t deadline,
			struct ckpt_error *err)
{
	uint64_t begin = ckpt_now_nsec(), half = deadline > begin ? begin + (deadline - begin) / 2 : deadline;
	int rc = 0;

	while (rc == 0 && !is_open(o)) {
		if (ckpt_cancelled(cancel))
			rc = ckpt_tcp_fail_cancelled(err);
		else if (ckpt_now_nsec() > (o->door.accepts_from ? half : deadline)) /* who cannot accept knows more than who waits for it */
			rc = fail_late(o, err);
		else
			rc = turn(o, err);
		if (rc == 0)
			rc = ckpt_tcp_star_look(o->star, err);
	}
	return rc;
}

static void name_neighbors(struct opening *o)
{
	o->ring->next_is_here = strcmp(o->neighbors.next_host, o->me.host) == 0;
	snprintf(o->ring->next_name, sizeof(o->ring->next_name), "rank %" PRIu32 " (%.63s)",
		 next_rank(o), o->neighbors.next_host);
	snprintf(o->ring->previous_name, sizeof(o->ring->previous_name), "rank %" PRIu32 " (%.63s)",
		 previous_rank(o), o->neighbors.previous_host);
}

static int take_socket(struct ckpt_tcp_link **link)
{
	int fd = (*link)->fd;

	(*link)->fd = -1;
	ckpt_tcp_link_free(*link);
	*link = NULL;
	ckpt_io_set_no_keepalive(fd);
	return fd;
}

/* What all ranks end with, if this one cannot open its part. */
static void tell_others(struct ckpt_tcp_star *star, const struct ckpt_wire_join *me, const struct ckpt_error *err,
			const volatile int *cancel)
{
	struct ckpt_failure_notice notice;

	ckpt_failure_notice_make(me->rank, me->host, err, ckpt_cancelled(cancel), &notice);
	ckpt_tcp_star_stop(star, &notice);
}

int ckpt_tcp_ring_open(struct ckpt_tcp_star *star, const char *interface,
		       const volatile int *cancel, uint64_t deadline, struct ckpt_tcp_ring *out,
		       struct ckpt_error *err)
{
	struct opening o = { .star = star,
			     .interface = interface,
			     .ring = out,
			     .me = *ckpt_tcp_star_me(star),
			     .connecting = -1 };
	struct ckpt_error why = CKPT_ERROR_INIT;
	int rc;

	*out = (struct ckpt_tcp_ring){ .next = -1, .previous = -1 };
	ckpt_wire_hash_key("ring", o.me.key);
	o.door.secret = ckpt_tcp_star_secret(star);
	o.door.me = &o.me;
	o.door.most_unproven = MOST_UNPROVEN;
	o.door.admit = admit;
	o.door.ctx = &o;
	rc = ckpt_tcp_star_open(star, listen_for_previous, &o, cancel, deadline, &o.neighbors,
				&why);
	if (rc == 0) {
		uint64_t now = ckpt_now_nsec();

		name_neighbors(&o);
		/* sooner than those that wait for the result give up */
		rc = connect_both(&o, cancel, deadline > now ? now + (deadline - now) / 4 * 3 : deadline, &why);
	}
	if (rc < 0 && !ckpt_tcp_star_told(star))
		tell_others(star, &o.me, &why, cancel);
	ckpt_tcp_door_shut(&o.door);
	if (rc == 0) {
		out->next = take_socket(&o.out);
		out->previous = take_socket(&o.in);
	}
	if (o.connecting >= 0)
		close(o.connecting);
	ckpt_tcp_link_free(o.in);
	ckpt_tcp_link_free(o.out);
	if (rc < 0 && err)
		*err = why;
	return rc;
}

void ckpt_tcp_ring_close(struct ckpt_tcp_ring *ring)
{
	if (ring->next >= 0)
		close(ring->next);
	if (ring->previous >= 0)
		close(ring->previous);
	ring->next = ring->previous = -1;
}
