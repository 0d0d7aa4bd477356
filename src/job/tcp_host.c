/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0 of a meeting over TCP: one loop over everybody who is connected.
 *
 * What must stay true: who has not proven that it knows the token can neither end the meeting nor
 * delay it for long (tcp_door.h). Every wait ends at the deadline or when it is cancelled. If rank 0 fails, it says why to all who
 * are proven, and for a moment to those who still come. A connection is closed in a turn, but only
 * freed at its end: the turn may still hold it.
 */
#include "job/tcp_meeting.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "io/network.h"
#include "job/missing_list.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEP_MSEC = 50 /* between looks at the caller's cancel flag */ };

/* ns: */
static const uint64_t NAME_PAUSE = 100000000, SAY_WAITING = 250000000, LAST_WORDS = 500000000,
	COUNT_AHEAD = 15000000000, COME_AGAIN = 3000000000; /* who lost its connection before it took the answer */

/* ---- listening ---- */

/* Whoever listens there: if it is another rank 0 of this job, it says so, and its ranks learn of it. */
static int fail_taken(struct ckpt_tcp_meeting *m, uint64_t deadline, struct ckpt_error *err)
{
	uint64_t until = ckpt_now_nsec() + ckpt_tcp_proof_nsec / 2;
	struct ckpt_error theirs = CKPT_ERROR_INIT;
	uint8_t nothing;
	int rc = ckpt_tcp_guest_join(m, until < deadline ? until : deadline, &theirs);

	if (rc == 0)
		rc = ckpt_tcp_guest_share(m, &nothing, 0, until < deadline ? until : deadline, &theirs);
	ckpt_tcp_guest_close(m);
	if (rc == CKPT_E_CANCELLED || m->base.is_told) {
		if (err)
			*err = theirs;
		return rc;
	}
	return ckpt_fail(err, CKPT_E_PEER,
			 "port %u of '%s' is taken, by another program or an earlier start of this job: give "
			 "all ranks a --rdzv with another port",
			 m->address.port, m->address.host);
}

/* A name that is not known yet may be known later, as that of a pod. */
static int find_own_addresses(struct ckpt_tcp_meeting *m, uint64_t deadline, struct ckpt_error *err)
{
	for (;;) {
		int rc = ckpt_tcp_address_resolve(&m->address, deadline, m->base.cancel, &m->found, m->why, err);

		if (rc != 0)
			return rc < 0 ? rc : 0;
		if (ckpt_cancelled(m->base.cancel))
			return ckpt_tcp_fail_cancelled(err);
		if (ckpt_now_nsec() > deadline)
			return ckpt_fail(err, CKPT_E_PEER, "%s: --rdzv names the host of rank 0", m->why);
		nanosleep(&(struct timespec){ 0, NAME_PAUSE }, NULL);
	}
}

static int start_listening(struct ckpt_tcp_meeting *m, uint64_t deadline, struct ckpt_error *err)
{
	int rc = find_own_addresses(m, deadline, err);
	char text[CKPT_TCP_ADDRESS_TEXT];
	bool taken = false;

	for (unsigned i = 0; rc >= 0 && i < m->found.count; i++)
		rc = ckpt_tcp_door_listen(&m->door, &m->found.list[i].address, m->found.list[i].len, &taken, err);
	if (rc < 0)
		ckpt_tcp_door_shut(&m->door);
	if (taken)
		return fail_taken(m, deadline, err);
	if (rc < 0 || m->door.listener_count)
		return rc < 0 ? rc : 0;
	return ckpt_fail(err, CKPT_E_PEER,
			 "rank 0 runs on %s, and '%s' (%s) is no address of that host: --rdzv names the host "
			 "of rank 0",
			 m->me.host, m->address.host, ckpt_tcp_address_print(&m->found.list[0].address, text));
}

/* ---- who is proven ---- */

static int fail_twice(struct ckpt_tcp_meeting *m, const struct ckpt_tcp_link *l, const char *host,
		      uint32_t pid, struct ckpt_error *err)
{
	return ckpt_fail(err, CKPT_E_PEER,
			 "two processes say that they are rank %" PRIu32 " at '%s': %s (pid %" PRIu32
			 ") and %s (pid %" PRIu32
			 "): give each its own rank, and each start its own --job-key or port",
			 l->join.rank, m->address.text, host, pid, l->join.host, l->join.pid);
}

static int compare_with_us(struct ckpt_tcp_meeting *m, const struct ckpt_tcp_link *l, struct ckpt_error *err)
{
	if (l->join.size != m->me.size)
		return ckpt_fail(err, CKPT_E_PEER,
				 "rank %" PRIu32 " (%s, pid %" PRIu32 ") was started for %" PRIu32
				 " ranks, rank 0 (%s, pid %" PRIu32 ") for %" PRIu32 ": all need the same",
				 l->join.rank, l->join.host, l->join.pid, l->join.size, m->me.host, m->me.pid,
				 m->me.size);
	if (l->join.rank == 0)
		return fail_twice(m, l, m->me.host, m->me.pid, err);
	if (l->join.rank >= m->me.size)
		return ckpt_fail(err, CKPT_E_PEER, "rank %" PRIu32 " of %" PRIu32 " cannot be", l->join.rank, m->me.size);
	return 0;
}

static void lose(struct ckpt_tcp_meeting *m, struct ckpt_tcp_seat *seat)
{
	seat->said_bye = seat->link->said_bye;
	ckpt_tcp_link_free(seat->link);
	seat->link = NULL;
	seat->lost_at = ckpt_now_nsec();
	if (m->all)
		seat->has_hello = false; /* another process may come for it */
}

static int use_frame(struct ckpt_tcp_meeting *m, struct ckpt_tcp_seat *seat, enum ckpt_wire_kind kind,
		     const uint8_t *bytes, size_t len, struct ckpt_error *err)
{
	const struct ckpt_tcp_link *l = seat->link;

	if (kind == CKPT_WIRE_BYE)
		seat->link->said_bye = true;
	else if (kind == CKPT_WIRE_TAKEN)
		seat->has_taken = true;
	else if (kind == CKPT_WIRE_STOP && !m->refusal)
		return ckpt_tcp_take_notice(m, bytes, len, err);
	if (kind != CKPT_WIRE_HELLO || !m->all)
		return 0;
	if (len != m->len)
		return ckpt_fail(err, CKPT_E_PEER,
				 "rank %" PRIu32 " (%s, pid %" PRIu32 ") is of another version of ckpt than rank 0 "
				 "(%s, pid %" PRIu32 "): start the same on all nodes",
				 l->join.rank, l->join.host, l->join.pid, m->me.host, m->me.pid);
	memcpy(m->all + (size_t)l->join.rank * len, bytes, len);
	seat->has_hello = true;
	return 0;
}

/* All that is there from a rank. Its connection may be gone afterwards. */
static int read_seat(struct ckpt_tcp_meeting *m, struct ckpt_tcp_seat *seat, struct ckpt_error *err)
{
	struct ckpt_tcp_link *l = seat->link;
	enum ckpt_wire_kind kind;
	const uint8_t *bytes;
	size_t len;
	int rc = 0;

	/* what follows the last message of a meeting is for whoever uses the connection then */
	while (!seat->has_taken && (rc = ckpt_tcp_link_read(l)) > 0) {
		if (!ckpt_wire_read_frame(&l->session, l->in, l->in_len, &kind, &bytes, &len)) {
			rc = -1;
			break;
		}
		rc = use_frame(m, seat, kind, bytes, len, err);
		if (rc < 0)
			return rc;
		ckpt_tcp_link_next(l);
	}
	if (rc < 0)
		lose(m, seat);
	return 0;
}

static void put_answer(struct ckpt_tcp_meeting *m, uint32_t rank)
{
	ckpt_tcp_link_put_frame(m->seats[rank].link, CKPT_WIRE_ANSWER,
				(const uint8_t *)m->answer + (size_t)rank * m->answer_step, m->len);
}

/* It does not fit the others, who go on without it. */
static void dismiss_with(struct ckpt_tcp_meeting *m, struct ckpt_tcp_link *l, struct ckpt_error *why)
{
	struct ckpt_failure_notice notice;

	ckpt_tcp_make_notice(m, why, &notice);
	ckpt_tcp_link_put_failure(l, CKPT_WIRE_REFUSED, &notice);
	*why = (struct ckpt_error)CKPT_ERROR_INIT;
	ckpt_tcp_link_dismiss(l);
}

/* L has a place of its own now, or is dismissed. */
static int seat_link(struct ckpt_tcp_meeting *m, struct ckpt_tcp_link *l, bool *is_seated, struct ckpt_error *err)
{
	struct ckpt_tcp_seat *seat = &m->seats[l->join.rank];
	bool is_same = seat->came && ckpt_wire_is_same(seat->process, l->join.process, sizeof(seat->process));
	int rc = seat->link && !is_same ? read_seat(m, seat, err) : 0;

	if (rc == 0 && !is_same && (seat->link || (seat->came && !m->all))) {
		/* they have met without it: that is no reason for the others to end */
		rc = fail_twice(m, l, seat->host, seat->pid, err);
		if (m->all)
			return rc;
		dismiss_with(m, l, err);
		return 0;
	}
	if (rc < 0)
		return rc;
	ckpt_tcp_link_free(seat->link);
	*seat = (struct ckpt_tcp_seat){ .link = l, .came = true, .pid = l->join.pid, .has_hello = is_same && !m->all };
	memcpy(seat->process, l->join.process, sizeof(seat->process));
	memcpy(seat->host, l->join.host, sizeof(seat->host));
	*is_seated = true;
	if (m->answer)
		put_answer(m, l->join.rank);
	return 0;
}

/* L knows the token. */
int ckpt_tcp_host_admit(void *ctx, struct ckpt_tcp_link *l, bool *is_seated, struct ckpt_error *err)
{
	struct ckpt_tcp_meeting *m = ctx;
	int rc;

	if (memcmp(l->join.key, m->me.key, sizeof(m->me.key)) != 0) {
		ckpt_tcp_door_note_stranger(&m->door, l, "another --job-key");
		ckpt_tcp_link_put_frame(l, CKPT_WIRE_LATER, NULL, 0);
		ckpt_tcp_link_dismiss(l);
		return 0;
	}
	if (m->refusal) {
		ckpt_tcp_link_put_failure(l, CKPT_WIRE_REFUSED, m->refusal);
		if (l->join.size == m->me.size && l->join.rank < m->me.size)
			m->seats[l->join.rank].was_told = true;
		ckpt_tcp_link_dismiss(l);
		return 0;
	}
	rc = compare_with_us(m, l, err);
	if (rc == 0)
		return seat_link(m, l, is_seated, err);
	if (!m->all) { /* the others have met */
		dismiss_with(m, l, err);
		return 0;
	}
	return rc;
}

/* ---- a turn ---- */

/* Those that are to be read, and that wait to be sent to; *FIRST is the first rank. */
static unsigned collect(struct ckpt_tcp_meeting *m, unsigned *first)
{
	unsigned count = *first = ckpt_tcp_door_collect(&m->door, m->fds);

	for (uint32_t i = 1; i < m->me.size; i++) {
		struct ckpt_tcp_link *l = m->seats[i].link;

		if (l)
			m->fds[count++] = (struct pollfd){ .fd = m->seats[i].has_taken ? -1 : l->fd,
							   .events = ckpt_tcp_link_events(l) };
	}
	return count;
}

/* In the order in which they were collected. */
static void note_ready(struct ckpt_tcp_meeting *m, unsigned first)
{
	const struct pollfd *next = m->fds + first;

	ckpt_tcp_door_note_ready(&m->door, m->fds);
	for (uint32_t i = 1; i < m->me.size; i++)
		if (m->seats[i].link)
			m->seats[i].link->is_ready = (next++)->revents & ~POLLOUT;
}

static int serve_seats(struct ckpt_tcp_meeting *m, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 1; rc == 0 && i < m->me.size; i++) {
		struct ckpt_tcp_seat *seat = &m->seats[i];
		bool sent;

		if (!seat->link)
			continue;
		sent = ckpt_tcp_link_flush(seat->link);
		if (seat->link->is_ready || !sent)
			rc = read_seat(m, seat, err);
		if (rc == 0 && !sent && seat->link)
			lose(m, seat);
	}
	return rc;
}

/* Wait for something to happen, for up to STEP_MSEC, and do what follows from it. */
static int turn(struct ckpt_tcp_meeting *m, struct ckpt_error *err)
{
	unsigned first, count = collect(m, &first);
	int n = ckpt_io_poll(m->fds, count, STEP_MSEC), rc;

	if (n < 0 && errno != EINTR)
		return ckpt_fail_errno(err, "cannot wait for the other ranks");
	if (n < 0)
		return 0;
	note_ready(m, first);
	rc = ckpt_tcp_door_serve(&m->door, err);
	if (rc == 0)
		rc = serve_seats(m, err);
	if (rc == 0)
		ckpt_tcp_door_accept(&m->door);
	return rc;
}

/* ---- the end of a meeting that failed ---- */

/* Who is to hear of it has, and has gone. */
static bool is_all_told(const struct ckpt_tcp_meeting *m, bool all_ranks)
{
	for (uint32_t i = 1; i < m->me.size; i++)
		if (m->seats[i].link || (all_ranks && !m->seats[i].was_told))
			return false;
	return m->door.unproven_count == 0;
}

/*
 * Tell the others why, so that they do not wait until their time is over; and those that come while
 * there is still time, for a moment.
 */
void ckpt_tcp_host_refuse(struct ckpt_tcp_meeting *m, const struct ckpt_error *why, uint64_t settle_nsec,
			  uint64_t deadline)
{
	uint64_t now = ckpt_now_nsec(), settle = now + settle_nsec < deadline ? now + settle_nsec : deadline;
	struct ckpt_error unused = CKPT_ERROR_INIT;
	uint64_t last = now + LAST_WORDS > settle ? now + LAST_WORDS : settle;
	struct ckpt_failure_notice notice;

	if (m->has_refused)
		return;
	m->has_refused = true;
	if (m->base.is_told)
		notice = m->base.told;
	else
		ckpt_tcp_make_notice(m, why, &notice);
	m->refusal = &notice;
	for (uint32_t i = 1; i < m->me.size; i++)
		if (m->seats[i].link) { /* who has taken the answer goes on already, and listens for that */
			ckpt_tcp_link_put_failure(m->seats[i].link, m->seats[i].has_taken ? CKPT_WIRE_STOP : CKPT_WIRE_REFUSED, &notice);
			m->seats[i].was_told = true;
		}
	for (unsigned i = 0; i < m->door.unproven_count; i++)
		if (m->door.unproven[i]->stage == CKPT_TCP_FRAMES) { /* the one that does not fit */
			ckpt_tcp_link_put_failure(m->door.unproven[i], CKPT_WIRE_REFUSED, &notice);
			ckpt_tcp_link_dismiss(m->door.unproven[i]);
		}
	while ((now = ckpt_now_nsec()) < last && !is_all_told(m, now < settle))
		if (turn(m, &unused) < 0)
			break;
	m->refusal = NULL;
}

void ckpt_tcp_host_leave(struct ckpt_tcp_meeting *m, const struct ckpt_error *why, uint64_t deadline)
{
	const volatile int *cancel = m->base.cancel;
	int rc = 0;

	if (m->has_refused)
		return;
	m->base.cancel = NULL; /* it may be why */
	if (m->door.listener_count == 0)
		rc = start_listening(m, deadline, NULL);
	m->base.cancel = cancel;
	if (rc == 0)
		ckpt_tcp_host_refuse(m, why, UINT64_MAX / 2, deadline);
	ckpt_tcp_door_shut(&m->door);
}

/* ---- gather ---- */

static uint32_t list_missing(struct ckpt_tcp_meeting *m, char *text, size_t size)
{
	m->there[0] = true;
	for (uint32_t i = 1; i < m->me.size; i++)
		m->there[i] = m->seats[i].has_hello;
	return ckpt_missing_list(m->there, m->me.size, text, size);
}

/* So that a rank whose time is over first knows it as well. */
static void say_waiting(struct ckpt_tcp_meeting *m)
{
	char text[sizeof(m->said_waiting)];
	uint64_t now = ckpt_now_nsec();

	if (now - m->said_at < SAY_WAITING)
		return;
	m->said_at = now;
	list_missing(m, text, sizeof(text));
	for (uint32_t i = 1; i < m->me.size; i++) {
		struct ckpt_tcp_seat *seat = &m->seats[i];

		if (seat->link && !ckpt_tcp_link_has_more(seat->link) &&
		    (strcmp(text, m->said_waiting) != 0 || seat->link->since + 2 * SAY_WAITING > now))
			ckpt_tcp_link_put_frame(seat->link, CKPT_WIRE_WAITING, text, strlen(text));
	}
	strcpy(m->said_waiting, text);
}

/* SINCE: who left later only gave up a little earlier than this process does. */
static bool describe_who_left(const struct ckpt_tcp_meeting *m, uint64_t since, char *text, size_t size)
{
	for (uint32_t i = 1; i < m->me.size; i++)
		if (m->seats[i].came && !m->seats[i].link && m->seats[i].lost_at < since) {
			snprintf(text, size, "; rank %" PRIu32 " (%s, pid %" PRIu32 ") came and left", i,
				 m->seats[i].host, m->seats[i].pid);
			return true;
		}
	*text = '\0';
	return false;
}

static int fail_missing(struct ckpt_tcp_meeting *m, struct ckpt_error *err)
{
	char ranks[160], left[120], where[CKPT_TCP_ADDRESS_TEXT], only[240] = "";
	uint64_t now = ckpt_now_nsec(), quarter = (now - m->began) / 4;
	uint64_t since = now - (quarter < COUNT_AHEAD ? quarter : COUNT_AHEAD);
	bool misses = list_missing(m, ranks, sizeof(ranks)) > 0, is_other = false;

	for (uint32_t i = 1; i < m->me.size; i++) {
		m->there[i] |= m->seats[i].came && !m->seats[i].link && m->seats[i].lost_at >= since;
		is_other |= !m->there[i];
	}
	if (misses && is_other)
		ckpt_missing_list(m->there, m->me.size, ranks, sizeof(ranks));
	describe_who_left(m, is_other ? since : UINT64_MAX, left, sizeof(left));
	if (m->address.host[0] && ckpt_tcp_address_is_loopback(&m->door.bound[0]))
		snprintf(only, sizeof(only),
			 "; '%.40s' is %s on this host, which no other host reaches: ranks on other hosts need a name or address "
			 "of this one",
			 m->address.host, ckpt_tcp_address_print(&m->door.bound[0], where));
	return ckpt_fail(err, CKPT_E_PEER,
			 "%s%swaiting for %s at '%s': %s%s%s",
			 m->door.stranger, m->door.stranger[0] ? ", give all ranks the same; " : "", ranks, m->address.text,
			 m->remedy ? m->remedy : CKPT_TCP_REMEDY, left, only);
}

static bool are_all_here(const struct ckpt_tcp_meeting *m)
{
	for (uint32_t i = 1; i < m->me.size; i++)
		if (!m->seats[i].has_hello)
			return false;
	return true;
}

int ckpt_tcp_host_gather(struct ckpt_tcp_meeting *m, const void *hello, size_t len, void *all,
			 uint64_t deadline, struct ckpt_error *err)
{
	struct ckpt_error why = CKPT_ERROR_INIT;
	int rc;
	bool listens;

	m->began = ckpt_now_nsec();
	rc = m->door.listener_count ? 0 : start_listening(m, deadline, &why);
	listens = rc == 0;

	m->all = all;
	m->len = len;
	memcpy(m->all, hello, len);
	while (rc == 0 && !are_all_here(m)) {
		if (ckpt_cancelled(m->base.cancel))
			rc = ckpt_tcp_fail_cancelled(&why);
		else if (ckpt_now_nsec() > deadline)
			rc = fail_missing(m, &why);
		else
			rc = turn(m, &why);
		if (rc == 0)
			say_waiting(m);
	}
	m->all = NULL;
	if (rc < 0 && listens)
		ckpt_tcp_host_refuse(m, &why, CKPT_TCP_SETTLE_NSEC, deadline);
	return ckpt_error_pass(err, rc, &why);
}

/* ---- share ---- */

/* 1: all have taken it; 0: not yet; CKPT_E_PEER: a rank does not come again. */
static int was_taken_by_all(const struct ckpt_tcp_meeting *m, struct ckpt_error *err)
{
	uint64_t now = ckpt_now_nsec();
	bool all = true;

	for (uint32_t i = 1; i < m->me.size; i++) {
		const struct ckpt_tcp_seat *seat = &m->seats[i];

		if (!seat->has_taken && !seat->link && now - seat->lost_at > COME_AGAIN)
			return ckpt_fail(err, CKPT_E_PEER,
					 "rank %" PRIu32 " (%s, pid %" PRIu32 ") left before it took rank 0's answer", i,
					 seat->host, seat->pid);
		all &= seat->has_taken;
	}
	return all;
}

static int fail_not_taken(const struct ckpt_tcp_meeting *m, struct ckpt_error *err)
{
	uint32_t count = 0, first = 0;

	for (uint32_t i = m->me.size - 1; i > 0; i--)
		if (!m->seats[i].has_taken) {
			count++;
			first = i;
		}
	return ckpt_missing_fail_answer(m->me.size, count, first, m->seats[first].host,
					m->seats[first].pid, err);
}

int ckpt_tcp_host_share(struct ckpt_tcp_meeting *m, const void *bytes, size_t len,
			uint64_t deadline, struct ckpt_error *err)
{
	struct ckpt_error why = CKPT_ERROR_INIT;
	int rc = 0;

	m->answer = bytes;
	m->len = len;
	for (uint32_t i = 1; i < m->me.size; i++)
		if (m->seats[i].link)
			put_answer(m, i);
	while (rc == 0 && (rc = was_taken_by_all(m, &why)) == 0) {
		if (ckpt_cancelled(m->base.cancel))
			rc = ckpt_tcp_fail_cancelled(&why);
		else if (ckpt_now_nsec() > deadline)
			rc = fail_not_taken(m, &why);
		else
			rc = turn(m, &why);
	}
	m->answer = NULL;
	if (rc < 0)
		ckpt_tcp_host_refuse(m, &why, 0, deadline); /* all have come */
	ckpt_tcp_door_shut(&m->door);
	return ckpt_error_pass(err, rc < 0 ? rc : 0, &why);
}

/* ---- afterwards ---- */

void ckpt_tcp_host_close(struct ckpt_tcp_meeting *m)
{
	ckpt_tcp_door_shut(&m->door);
	for (uint32_t i = 1; m->seats && i < m->me.size; i++) {
		ckpt_tcp_link_close(m->seats[i].link, true);
		ckpt_tcp_link_free(m->seats[i].link);
		m->seats[i].link = NULL;
	}
}

void ckpt_tcp_host_beat(struct ckpt_tcp_meeting *m, bool send)
{
	for (uint32_t i = 1; i < m->me.size; i++) {
		struct ckpt_tcp_link *l = m->seats[i].link;
		enum ckpt_wire_kind kind;
		const uint8_t *bytes;
		size_t len;

		while (l && ckpt_tcp_link_read(l) > 0) {
			if (!ckpt_wire_read_frame(&l->session, l->in, l->in_len, &kind, &bytes, &len)) {
				l->has_ended = true;
				break;
			}
			l->said_bye |= kind == CKPT_WIRE_BYE;
			ckpt_tcp_link_next(l);
		}
		if (l && send && !ckpt_tcp_link_has_more(l)) {
			ckpt_tcp_link_put_frame(l, CKPT_WIRE_BEAT, NULL, 0);
			ckpt_tcp_link_flush(l);
		}
	}
}
