/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that meets rank 0 over TCP: it connects, both prove that they know the token, it gives its
 * hello and waits for the answer.
 *
 * What must stay true: every wait ends at the deadline or when it is cancelled. What may pass (nobody
 * listens yet, the connection is lost, rank 0 holds a meeting of another key) is tried again until
 * the deadline; what cannot pass (another token, another program) ends at once, and says so.
 * Nothing of rank 0 is believed before its proof, except that the token is wrong.
 */
#include "job/tcp_meeting.h"

#include "base/c_locale.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "io/network.h"
#include "job/tcp_call.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	STEP_MSEC = 50,	       /* between looks at the caller's cancel flag */
	FIRST_PAUSE = 20000000, /* ns; grows up to */
	LAST_PAUSE = 500000000,
};

/* LAST_WORD: rank 0's time is over at about the same time, and it knows more. */
static const uint64_t CONNECT_NSEC = 5000000000, LOOK_UP_NSEC = 5000000000, LAST_WORD_NSEC = 300000000;

enum { ENDED = 2 }; /* beside 0, 1 and errors: the connection has ended */

static int check_wait(struct ckpt_tcp_meeting *m, struct ckpt_error *err)
{
	return ckpt_cancelled(m->base.cancel) ? ckpt_tcp_fail_cancelled(err) : 0;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* 1: FD is ready for EVENTS; 0: the time is over. */
static int wait_ready(struct ckpt_tcp_meeting *m, int fd, short events, uint64_t until,
		      struct ckpt_error *err)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		int rc = check_wait(m, err), n;

		if (rc < 0)
			return rc;
		n = ckpt_io_poll(&p, 1, STEP_MSEC);
		if (n > 0)
			return 1;
		if (n < 0 && errno != EINTR)
			return ckpt_fail_errno(err, "cannot wait for rank 0");
		if (ckpt_now_nsec() > until)
			return 0;
	}
}

/* 1: a message is whole; 0: the time is over; ENDED. */
static int wait_message(struct ckpt_tcp_meeting *m, uint64_t until, struct ckpt_error *err)
{
	struct ckpt_tcp_link *l = m->link;

	for (;;) {
		bool sent = ckpt_tcp_link_flush(l);
		int rc = ckpt_tcp_link_read(l);

		if (rc > 0)
			return 1;
		if (rc < 0 || !sent)
			return ENDED;
		rc = wait_ready(m, l->fd, (short)(POLLIN | (ckpt_tcp_link_has_more(l) ? POLLOUT : 0)), until, err);
		if (rc <= 0)
			return rc;
	}
}

/* ---- one try ---- */

/* 1: connected; 0: not, and m->why says why. */
static int connect_to(struct ckpt_tcp_meeting *m, const struct sockaddr_storage *address,
		      socklen_t len, uint64_t deadline, struct ckpt_error *err)
{
	char text[CKPT_TCP_ADDRESS_TEXT];
	int code = 0, fd = ckpt_io_socket(address->ss_family), rc = 1;
	socklen_t size = sizeof(code);

	if (fd < 0)
		return ckpt_fail_errno(err, "cannot make a socket");
	if (ckpt_io_connect(fd, (const struct sockaddr *)address, len) < 0)
		code = errno;
	if (code == EINPROGRESS || code == EINTR) {
		rc = wait_ready(m, fd, POLLOUT, earlier(deadline, ckpt_now_nsec() + CONNECT_NSEC), err);
		if (rc == 0)
			code = ETIMEDOUT;
		else if (rc > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) < 0)
			code = errno;
	}
	if (rc < 0 || code) {
		close(fd);
		snprintf(m->why, sizeof(m->why), "cannot connect to %s: %s",
			 ckpt_tcp_address_print(address, text), ckpt_errno_text(code));
		return rc < 0 ? rc : 0;
	}
	m->link = ckpt_tcp_link_new(fd, CKPT_TCP_CHALLENGE);
	if (!m->link)
		return ckpt_fail_nomem(err);
	m->link->peer = *address;
	return 1;
}

/* Why it cannot be, in words. */
static int fail_call(struct ckpt_tcp_meeting *m, enum ckpt_tcp_call how,
		     const struct ckpt_wire_challenge *challenge, struct ckpt_error *err)
{
	const struct ckpt_tcp_link *l = m->link;
	char text[CKPT_TCP_ADDRESS_TEXT];

	if (how == CKPT_TCP_CALL_STRANGER)
		return ckpt_fail(err, CKPT_E_PEER,
				 "what listens at %s is not rank 0 of ckpt broadcast: give all ranks a "
				 "--rdzv with a port that nothing else has",
				 ckpt_tcp_address_print(&l->peer, text));
	if (how == CKPT_TCP_CALL_OTHER_VERSION)
		return ckpt_fail(err, CKPT_E_PEER,
				 "rank 0 at '%s' is of another version of ckpt (%" PRIu32
				 " of how ranks meet, this is %d): start the same on all nodes",
				 m->address.text, challenge->version, CKPT_WIRE_VERSION);
	if (how == CKPT_TCP_CALL_WRONG_TOKEN)
		return ckpt_fail(err, CKPT_E_PEER,
				 "rank 0 (%s, pid %" PRIu32 ") at '%s' has another token, or none: give all ranks "
				 "the same CKPT_TOKEN or --token-file",
				 l->host0, l->pid0, m->address.text);
	return ckpt_fail(err, CKPT_E_PEER,
			 "what listens at '%s' says that it is rank 0 (%s), but does not know the token",
			 m->address.text, l->host0);
}

/* 1: rank 0 has welcomed this rank; 0: try again. */
static int exchange_proofs(struct ckpt_tcp_meeting *m, uint64_t deadline, struct ckpt_error *err)
{
	uint64_t until = earlier(deadline, ckpt_now_nsec() + 2 * ckpt_tcp_proof_nsec);
	enum ckpt_tcp_call how = CKPT_TCP_CALL_GOES_ON;
	struct ckpt_wire_challenge challenge = { 0 };
	struct ckpt_error why = CKPT_ERROR_INIT;
	int rc = ckpt_tcp_call_begin(m->link, &m->me, err);

	while (rc == 0 && how == CKPT_TCP_CALL_GOES_ON) {
		rc = wait_message(m, until, err);
		if (rc == 0 || rc == ENDED) {
			snprintf(m->why, sizeof(m->why), rc == 0 ? "it does not answer this rank" : "it ended the connection");
			return 0;
		}
		if (rc < 0)
			break;
		how = ckpt_tcp_call_go_on(m->link, m->secret, &challenge);
		rc = how > CKPT_TCP_CALL_PROVEN ? fail_call(m, how, &challenge, &why) : 0;
	}
	if (rc < 0 && how > CKPT_TCP_CALL_PROVEN && m->is_fixed) {
		/* an address of rank 0's host may be that of another host here; if not, the next failure to connect says less */
		ckpt_error_text(&why, m->said, sizeof(m->said));
		return 0;
	}
	if (rc == 0 && m->is_fixed)
		m->said[0] = '\0';
	if (rc < 0 && how > CKPT_TCP_CALL_PROVEN && err)
		*err = why;
	return rc < 0 ? rc : 1;
}

static void leave(struct ckpt_tcp_meeting *m)
{
	ckpt_tcp_link_free(m->link);
	m->link = NULL;
}

static int try_address(struct ckpt_tcp_meeting *m, unsigned i, uint64_t deadline,
		       struct ckpt_error *err)
{
	int rc = connect_to(m, &m->found.list[i].address, m->found.list[i].len, deadline, err);

	if (rc > 0)
		rc = exchange_proofs(m, deadline, err);
	if (rc <= 0)
		leave(m);
	return rc;
}

/* ---- until it is there ---- */

/* A pod that was started again has another address. */
static int look_up(struct ckpt_tcp_meeting *m, uint64_t deadline, struct ckpt_error *err)
{
	int rc;

	if (m->is_fixed || (m->found.count && ckpt_now_nsec() - m->found_at < LOOK_UP_NSEC))
		return 1;
	rc = ckpt_tcp_address_resolve(&m->address, deadline, m->base.cancel, &m->found, m->why, err);
	if (rc <= 0)
		m->found.count = 0;
	m->found_at = ckpt_now_nsec();
	return rc;
}

static int fail_late(struct ckpt_tcp_meeting *m, struct ckpt_error *err)
{
	const char *why = m->said[0] ? m->said : m->why;
	char only[120] = "";

	if (m->waiting[0])
		return ckpt_fail(err, CKPT_E_PEER,
				 "waiting for %s at '%s': %s%s%s", m->waiting, m->address.text,
				 m->remedy ? m->remedy : CKPT_TCP_REMEDY, why[0] ? "; " : "", why);
	if (m->link)
		return ckpt_fail(err, CKPT_E_PEER,
				 "rank 0 (%s, pid %" PRIu32 ") is at '%s', but did not answer",
				 m->link->host0, m->link->pid0, m->address.text);
	if (!m->is_fixed && m->found.count && ckpt_tcp_address_is_loopback(&m->found.list[0].address))
		snprintf(only, sizeof(only), "; '%.40s' is this host itself: if rank 0 runs on another one, name that",
			 m->address.host);
	return ckpt_fail(err, CKPT_E_PEER,
			 "waiting for rank 0 of %" PRIu32 " at '%s': %s%s%s%s", m->base.world.size,
			 m->address.text,
			 m->remedy ? m->remedy : "start it, or give all ranks the same --rdzv",
			 why[0] ? "; " : "", why, only);
}

static int pause_for(struct ckpt_tcp_meeting *m, uint64_t nsec, uint64_t deadline,
		     struct ckpt_error *err)
{
	uint64_t until = earlier(ckpt_now_nsec() + nsec, deadline), now;
	int rc;

	while ((rc = check_wait(m, err)) == 0 && (now = ckpt_now_nsec()) < until)
		nanosleep(&(struct timespec){ 0, (long)earlier(until - now, STEP_MSEC * UINT64_C(1000000)) },
			  NULL);
	return rc;
}

int ckpt_tcp_guest_join(struct ckpt_tcp_meeting *m, uint64_t deadline, struct ckpt_error *err)
{
	uint64_t pause = FIRST_PAUSE + m->me.process[0] * UINT64_C(50000); /* not all at once */

	for (;;) {
		int rc = look_up(m, deadline, err);

		for (unsigned i = 0; rc >= 0 && i < m->found.count; i++) {
			rc = try_address(m, i, deadline, err);
			if (rc != 0)
				return rc < 0 ? rc : 0;
		}
		if (rc >= 0)
			rc = check_wait(m, err);
		if (rc < 0)
			return rc;
		if (ckpt_now_nsec() > deadline)
			return fail_late(m, err);
		rc = pause_for(m, pause, deadline, err);
		if (rc < 0)
			return rc;
		pause = earlier(pause * 3 / 2, LAST_PAUSE);
	}
}

/* ---- gather and share ---- */

static void say_hello(struct ckpt_tcp_meeting *m)
{
	m->why[0] = '\0';
	ckpt_tcp_link_put_frame(m->link, CKPT_WIRE_HELLO, m->hello, m->hello_len);
	ckpt_tcp_link_flush(m->link); /* the rest goes when the answer is waited for */
}

static int join_with_hello(struct ckpt_tcp_meeting *m, uint64_t deadline, struct ckpt_error *err)
{
	int rc = ckpt_tcp_guest_join(m, deadline, err);

	if (rc == 0)
		say_hello(m);
	return rc;
}

void ckpt_tcp_guest_say(struct ckpt_tcp_meeting *m, const void *hello, size_t len)
{
	memcpy(m->hello, hello, len);
	m->hello_len = len;
	say_hello(m);
}

int ckpt_tcp_guest_gather(struct ckpt_tcp_meeting *m, const void *hello, size_t len,
			  uint64_t deadline, struct ckpt_error *err)
{
	int rc = ckpt_tcp_guest_join(m, deadline, err);

	if (rc == 0)
		ckpt_tcp_guest_say(m, hello, len);
	return rc;
}

static void copy_text(char *out, size_t size, const uint8_t *bytes, size_t len)
{
	size_t n = len < size ? len : size - 1;

	memcpy(out, bytes, n);
	out[n] = '\0';
	for (char *p = out; *p; p++)
		if (*p < 0x20 && *p > 0)
			*p = '?';
}

/* It has the answer: rank 0 waits to hear that. */
static int confirm(struct ckpt_tcp_meeting *m, uint64_t deadline, struct ckpt_error *err)
{
	struct ckpt_tcp_link *l = m->link;
	int rc = 1;

	ckpt_tcp_link_put_frame(l, CKPT_WIRE_TAKEN, NULL, 0);
	while (rc > 0 && ckpt_tcp_link_flush(l) && ckpt_tcp_link_has_more(l))
		rc = wait_ready(m, l->fd, POLLOUT, deadline, err);
	return rc < 0 ? rc : 0;
}

/* 1: the answer is there; 0: not yet; ENDED: come again. */
static int use_frame(struct ckpt_tcp_meeting *m, void *bytes, size_t len, struct ckpt_error *err)
{
	struct ckpt_tcp_link *l = m->link;
	enum ckpt_wire_kind kind;
	const uint8_t *payload;
	size_t got;

	if (!ckpt_wire_read_frame(&l->session, l->in, l->in_len, &kind, &payload, &got)) {
		snprintf(m->why, sizeof(m->why), "what came over the connection was damaged");
		return ENDED;
	}
	switch (kind) {
	case CKPT_WIRE_ANSWER:
		if (got != len)
			return ckpt_fail(err, CKPT_E_PEER,
					 "rank 0 (%s, pid %" PRIu32 ") is of another version of ckpt: start "
					 "the same on all nodes",
					 l->host0, l->pid0);
		memcpy(bytes, payload, len);
		ckpt_tcp_link_next(l);
		return 1;
	case CKPT_WIRE_REFUSED:
		return ckpt_tcp_take_notice(m, payload, got, err);
	case CKPT_WIRE_LATER:
		snprintf(m->said, sizeof(m->said), "rank 0 (%s, pid %" PRIu32 ") there has another --job-key", l->host0,
			 l->pid0);
		return ENDED;
	case CKPT_WIRE_BYE:
		return ckpt_fail(err, CKPT_E_PEER,
				 "rank 0 (%s, pid %" PRIu32 ") left before it answered", l->host0, l->pid0);
	case CKPT_WIRE_WAITING:
		m->said[0] = '\0';
		copy_text(m->waiting, sizeof(m->waiting), payload, got);
		break;
	default: break;
	}
	ckpt_tcp_link_next(l);
	return 0;
}

int ckpt_tcp_guest_share(struct ckpt_tcp_meeting *m, void *bytes, size_t len, uint64_t deadline,
			 struct ckpt_error *err)
{
	for (;;) {
		int rc = wait_message(m, deadline + LAST_WORD_NSEC, err);

		if (rc == 0)
			return fail_late(m, err);
		if (rc == ENDED)
			snprintf(m->why, sizeof(m->why), "rank 0 (%s, pid %" PRIu32 ") came and left",
				 m->link->host0, m->link->pid0);
		if (rc == 1)
			rc = use_frame(m, bytes, len, err);
		if (rc == 1)
			return confirm(m, deadline, err);
		if (rc == ENDED) {
			leave(m);
			rc = pause_for(m, FIRST_PAUSE * 5, deadline, err);
			if (rc == 0 && ckpt_now_nsec() > deadline)
				rc = fail_late(m, err);
			if (rc == 0)
				rc = join_with_hello(m, deadline, err);
		}
		if (rc < 0)
			return rc;
	}
}

/* Until rank 0 has heard it, and says so to all. */
void ckpt_tcp_guest_leave(struct ckpt_tcp_meeting *m, const struct ckpt_error *why, uint64_t deadline)
{
	struct ckpt_failure_notice notice;
	struct ckpt_error unused = CKPT_ERROR_INIT;
	uint8_t nothing;
	int rc;

	ckpt_tcp_make_notice(m, why, &notice);
	m->base.cancel = NULL; /* it may be why */
	rc = m->link && !m->link->has_ended ? 0 : ckpt_tcp_guest_join(m, deadline, &unused);
	if (rc < 0)
		return;
	ckpt_tcp_link_put_failure(m->link, CKPT_WIRE_STOP, &notice);
	while ((rc = wait_message(m, deadline, &unused)) == 1 && use_frame(m, &nothing, 0, &unused) == 0)
		;
}

void ckpt_tcp_guest_close(struct ckpt_tcp_meeting *m)
{
	ckpt_tcp_link_close(m->link, true);
	leave(m);
}

void ckpt_tcp_guest_beat(struct ckpt_tcp_meeting *m, bool send)
{
	struct ckpt_tcp_link *l = m->link;
	enum ckpt_wire_kind kind;
	const uint8_t *payload;
	size_t len;

	while (l && ckpt_tcp_link_read(l) > 0) {
		if (!ckpt_wire_read_frame(&l->session, l->in, l->in_len, &kind, &payload, &len)) {
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
