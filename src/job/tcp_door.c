/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who connects, until it has proven that it knows the secret.
 *
 * What must stay true: nobody who is not proven gets memory or time beyond the bounds, or anything that
 * depends on the secret but a yes or no. ADMIT alone decides what becomes of who is proven.
 */
#include "job/tcp_door.h"

#include "base/clock.h"
#include "io/network.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_ACCEPTED = 64 /* in one turn, for each address */ };

/* ns; EVICTABLE: it had time to say something */
static const uint64_t EVICTABLE = 200000000, NO_ROOM_PAUSE = 100000000;

uint64_t ckpt_tcp_proof_nsec = 5000000000;

/* ---- listening ---- */

int ckpt_tcp_door_listen(struct ckpt_tcp_door *d, const struct sockaddr_storage *address,
			 socklen_t len, bool *taken, struct ckpt_error *err)
{
	struct sockaddr_storage *bound = &d->bound[d->listener_count];
	socklen_t size = sizeof(*bound);
	char text[CKPT_TCP_ADDRESS_TEXT];
	int fd, code;

	if (d->listener_count == CKPT_TCP_MOST_ADDRESSES)
		return 0;
	fd = ckpt_io_socket(address->ss_family);
	if (fd < 0 && errno == EAFNOSUPPORT)
		return 0;
	if (fd < 0)
		return ckpt_fail_errno(err, "cannot make a socket");
	if (ckpt_io_listen(fd, (const struct sockaddr *)address, len) == 0 &&
	    getsockname(fd, (struct sockaddr *)bound, &size) == 0) {
		d->listeners[d->listener_count++] = fd;
		return 1;
	}
	code = errno;
	close(fd);
	if (code == EADDRNOTAVAIL)
		return 0;
	*taken = code == EADDRINUSE;
	errno = code;
	return ckpt_fail_errno(err, "cannot listen at %s", ckpt_tcp_address_print(address, text));
}

void ckpt_tcp_door_shut(struct ckpt_tcp_door *d)
{
	for (unsigned i = 0; i < d->listener_count; i++)
		close(d->listeners[i]);
	d->listener_count = 0;
	for (unsigned i = 0; i < d->unproven_count; i++) {
		ckpt_tcp_link_close(d->unproven[i], false);
		ckpt_tcp_link_free(d->unproven[i]);
	}
	d->unproven_count = 0;
}

/* ---- who comes ---- */

/* How little it has done. */
static int rate(const struct ckpt_tcp_link *l)
{
	if (l->stage != CKPT_TCP_JOIN)
		return l->stage == CKPT_TCP_LEAVING;
	return l->in_len ? 2 : 3;
}

/* Of those that had time, the one that has done least, and of these the oldest. */
static struct ckpt_tcp_link **find_evictable(struct ckpt_tcp_door *d)
{
	uint64_t now = ckpt_now_nsec();
	struct ckpt_tcp_link **found = NULL;

	for (unsigned i = 0; i < d->unproven_count; i++) {
		struct ckpt_tcp_link *l = d->unproven[i];

		if (now - l->since < EVICTABLE)
			continue;
		if (!found || rate(l) > rate(*found) ||
		    (rate(l) == rate(*found) && l->since < (*found)->since))
			found = &d->unproven[i];
	}
	return found;
}

static bool has_room(struct ckpt_tcp_door *d)
{
	return d->unproven_count < d->most_unproven || find_evictable(d);
}

static void take_in(struct ckpt_tcp_door *d, int fd, const struct sockaddr_storage *from)
{
	struct ckpt_tcp_link *l = ckpt_tcp_link_new(fd, CKPT_TCP_JOIN), **place;

	if (!l)
		return; /* it comes again */
	l->peer = *from;
	l->session.is_rank0 = true;
	if (d->unproven_count < d->most_unproven) {
		d->unproven[d->unproven_count++] = l;
		return;
	}
	place = find_evictable(d);
	ckpt_tcp_link_free(*place);
	*place = l;
}

static void accept_some(struct ckpt_tcp_door *d, int listener)
{
	for (int i = 0; i < MOST_ACCEPTED && has_room(d); i++) {
		struct sockaddr_storage from = { 0 };
		int fd = ckpt_io_accept(listener, &from);

		if (fd >= 0) {
			take_in(d, fd, &from);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN &&
		    errno != EWOULDBLOCK) /* no descriptors, or no memory: it may pass */
			d->accepts_from = ckpt_now_nsec() + NO_ROOM_PAUSE;
		return;
	}
}

void ckpt_tcp_door_accept(struct ckpt_tcp_door *d)
{
	if (ckpt_now_nsec() >= d->accepts_from)
		for (unsigned i = 0; i < d->listener_count; i++)
			accept_some(d, d->listeners[i]);
}

void ckpt_tcp_door_note_stranger(struct ckpt_tcp_door *d, const struct ckpt_tcp_link *l,
				 const char *what)
{
	char text[CKPT_TCP_ADDRESS_TEXT];

	ckpt_tcp_address_print(&l->peer, text);
	if (strrchr(text, ':'))
		*strrchr(text, ':') = '\0'; /* its port tells nothing */
	if (l->join.version != CKPT_WIRE_VERSION)
		snprintf(d->stranger, sizeof(d->stranger), "who came from %s has %s", text, what);
	else
		snprintf(d->stranger, sizeof(d->stranger),
			 "who came from %s as rank %" PRIu32 " (%s, pid %" PRIu32 ") has %s", text,
			 l->join.rank, l->join.host, l->join.pid, what);
}

/* ---- proofs ---- */

/* False: it is no rank, or we have no random numbers. */
static bool challenge(struct ckpt_tcp_door *d, struct ckpt_tcp_link *l)
{
	struct ckpt_wire_challenge c = { .version = CKPT_WIRE_VERSION, .pid = d->me->pid };

	memcpy(c.host, d->me->host, sizeof(c.host));
	memcpy(l->session.join, l->in, CKPT_WIRE_JOIN);
	if (!ckpt_wire_read_join(l->in, &l->join) ||
	    ckpt_tcp_draw(c.nonce, sizeof(c.nonce), NULL) < 0)
		return false;
	ckpt_wire_write_challenge(&c, l->session.challenge);
	ckpt_tcp_link_put(l, l->session.challenge, CKPT_WIRE_CHALLENGE);
	ckpt_tcp_link_set_stage(l, CKPT_TCP_PROOF);
	if (l->join.version != CKPT_WIRE_VERSION) {
		ckpt_tcp_door_note_stranger(d, l, "another version of ckpt");
		ckpt_tcp_link_dismiss(l);
	}
	return true;
}

static int check_proof(struct ckpt_tcp_door *d, struct ckpt_tcp_link *l, bool *is_taken,
		       struct ckpt_error *err)
{
	uint8_t wanted[CKPT_WIRE_PROOF], verdict[CKPT_WIRE_VERDICT];
	bool is_right;

	ckpt_wire_make_proof(&l->session, d->secret, wanted);
	is_right = ckpt_wire_is_same(l->in, wanted, sizeof(wanted));
	if (is_right)
		ckpt_wire_make_welcome(&l->session, d->secret, verdict);
	else
		ckpt_wire_make_rejection(verdict);
	ckpt_tcp_link_put(l, verdict, sizeof(verdict));
	if (!is_right) {
		ckpt_tcp_door_note_stranger(d, l, "another token, or none");
		ckpt_tcp_link_dismiss(l);
		return 0;
	}
	ckpt_tcp_link_set_stage(l, CKPT_TCP_FRAMES);
	return d->admit(d->ctx, l, is_taken, err);
}

/* What is there from somebody who is not proven. False: it is of no more use here. */
static bool advance(struct ckpt_tcp_door *d, struct ckpt_tcp_link *l, bool *is_taken, int *rc,
		    struct ckpt_error *err)
{
	bool goes_on = true;

	while (goes_on && l->is_ready && *rc == 0 &&
	       (l->stage == CKPT_TCP_JOIN || l->stage == CKPT_TCP_PROOF)) {
		int got = ckpt_tcp_link_read(l);

		if (got == 0)
			break;
		if (got < 0)
			goes_on = false;
		else if (l->stage == CKPT_TCP_JOIN)
			goes_on = challenge(d, l);
		else
			*rc = check_proof(d, l, is_taken, err);
	}
	if (!ckpt_tcp_link_flush(l))
		goes_on = false;
	if (*is_taken)
		return true; /* if it has ended, who took it will see */
	if (l->stage == CKPT_TCP_LEAVING && !ckpt_tcp_link_has_more(l)) {
		/* who closes first what the other still writes to takes back what was said */
		shutdown(l->fd, SHUT_WR);
		goes_on &= !l->is_ready || ckpt_tcp_link_drain(l);
	}
	return goes_on && ckpt_now_nsec() - l->since < ckpt_tcp_proof_nsec;
}

int ckpt_tcp_door_serve(struct ckpt_tcp_door *d, struct ckpt_error *err)
{
	unsigned kept = 0;
	int rc = 0;

	for (unsigned i = 0; i < d->unproven_count; i++) {
		struct ckpt_tcp_link *l = d->unproven[i];
		bool is_taken = false, stays = rc < 0 || advance(d, l, &is_taken, &rc, err);

		if (is_taken)
			continue;
		if (rc < 0 && l->stage == CKPT_TCP_FRAMES)
			stays = true; /* it is told why */
		if (stays) {
			d->unproven[kept++] = l;
			continue;
		}
		ckpt_tcp_link_close(l, false);
		ckpt_tcp_link_free(l);
	}
	d->unproven_count = kept;
	return rc;
}

/* ---- a turn ---- */

unsigned ckpt_tcp_door_collect(struct ckpt_tcp_door *d, struct pollfd *fds)
{
	bool accepts = ckpt_now_nsec() >= d->accepts_from && has_room(d);
	unsigned count = 0;

	for (unsigned i = 0; accepts && i < d->listener_count; i++)
		fds[count++] = (struct pollfd){ .fd = d->listeners[i], .events = POLLIN };
	d->polled_count = count;
	for (unsigned i = 0; i < d->unproven_count; i++)
		fds[count++] = (struct pollfd){ .fd = d->unproven[i]->fd,
						.events = ckpt_tcp_link_events(d->unproven[i]) };
	return count;
}

void ckpt_tcp_door_note_ready(struct ckpt_tcp_door *d, const struct pollfd *fds)
{
	for (unsigned i = 0; i < d->unproven_count; i++)
		d->unproven[i]->is_ready = fds[d->polled_count + i].revents & ~POLLOUT;
}
