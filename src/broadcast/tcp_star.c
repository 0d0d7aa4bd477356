/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of all ranks to rank 0: votes, and who has ended.
 *
 * They are those of a meeting over TCP (tcp_meeting.h), which opens them with proofs, and whose
 * frames have keyed hashes of their own. A vote is one frame to rank 0 and one back. A rank that
 * fails says STOP; so does rank 0, to all. A connection that ends without a BYE is a rank that died.
 *
 * What must stay true: rank 0 never sends RESULT before all have voted, and each rank votes once for
 * each result. Who has said STOP takes part in no vote any more. Frames fit into the buffers of a
 * link, since a rank sends at most VOTE, STOP and BYE, and rank 0 RESULT, STOP, MISSING and BYE,
 * before something is read, and MOVING only where nothing waits to be sent.
 */
#include "broadcast/tcp_star.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "io/network.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	STEP_MSEC = 20,
	WORK_MSEC = 1, /* between looks for work, where there may be some */
	NUMBER = 8, /* bytes */
	ANSWER = CKPT_TCP_SPOT + 2 * CKPT_WIRE_HOST,
	MOST_NAMED = 8
};

/* To send the last words to ranks that do not read, and to hear of others that died as well. */
static const uint64_t LAST_WORDS_NSEC = 500000000, SETTLE_NSEC = 200000000;

/* For rank 0 to say why a connection has ended. */
static const uint64_t AWAITED_NSEC = 300000000;

/* Between two words that something moves. */
static const uint64_t MOVING_NSEC = 250000000;

struct ballot {
	bool has_voted, has_stopped, is_dead;
	unsigned count;
	uint64_t numbers[CKPT_TCP_MOST_VOTES];
};

struct ckpt_tcp_star {
	struct ckpt_tcp_meeting *m; /* owned */
	/* On rank 0: by rank. Else one: of rank 0. */
	struct ballot *ballots; /* owned */
	const volatile int *heeded;
	bool is_open;
	bool has_stopped; /* this rank has said so */
	bool is_over;	  /* somebody has failed: WHY */
	bool is_told;	  /* ... and says so itself */
	struct ckpt_failure_notice why;
	bool has_missing; /* rank 0 has said who does not answer */
	char missing[200];
	uint64_t moved_at, said_at; /* when a rank has last moved, and when this one has said so */
	bool (*work)(void *ctx); /* to be done while a vote is waited for; NULL: nothing */
	void *work_ctx;
};

static bool is_rank0(const struct ckpt_tcp_star *s)
{
	return s->m->me.rank == 0;
}

/* ---- made and closed ---- */

int ckpt_tcp_star_new(const struct ckpt_world *world, const uint8_t secret[CKPT_WIRE_KEY],
		      const struct ckpt_tcp_place *place, struct ckpt_tcp_star **out,
		      struct ckpt_error *err)
{
	static const struct ckpt_tcp_address nowhere = { .text = "its port" };
	struct ckpt_tcp_star *s = calloc(1, sizeof(*s));
	struct ckpt_rendezvous *r = NULL;
	struct ckpt_world own = *world;
	uint8_t derived[CKPT_WIRE_KEY];
	int rc = s ? 0 : ckpt_fail_nomem(err);

	*out = NULL;
	if (rc < 0)
		return rc;
	snprintf(own.key, sizeof(own.key), "star.%.490s", world->key);
	ckpt_wire_derive_secret(secret, place->nonce, derived);
	rc = ckpt_rendezvous_open_tcp(&nowhere, derived, &own, &r, err);
	explicit_bzero(derived, sizeof(derived));
	s->m = (struct ckpt_tcp_meeting *)r;
	s->ballots = calloc(world->rank == 0 ? world->size : 1, sizeof(*s->ballots));
	if (rc == 0 && !s->ballots)
		rc = ckpt_fail_nomem(err);
	if (rc < 0) {
		ckpt_tcp_star_close(s, true);
		return rc;
	}
	s->m->remedy =
		"all ranks have met, but not all connect now: one has died, or something filters "
		"connections between the hosts; --interface NAME chooses another network";
	for (uint32_t i = 0; i < place->count && i < CKPT_TCP_MOST_ADDRESSES; i++)
		if (ckpt_tcp_spot_read(place->spots[i],
				       &s->m->found.list[s->m->found.count].address,
				       &s->m->found.list[s->m->found.count].len))
			s->m->found.count++;
	s->m->is_fixed = true;
	if (s->m->found.count)
		ckpt_tcp_address_print(&s->m->found.list[0].address, s->m->address.text);
	*out = s;
	return 0;
}

void ckpt_tcp_star_set_scope(struct ckpt_tcp_star *s, uint32_t scope)
{
	for (unsigned i = 0; i < s->m->found.count; i++)
		ckpt_tcp_address_set_scope(&s->m->found.list[i].address, scope);
	if (s->m->found.count)
		ckpt_tcp_address_print(&s->m->found.list[0].address, s->m->address.text);
}

/* The link of rank I to this one, of which there is none to the rank itself. */
static struct ckpt_tcp_link *link_of(const struct ckpt_tcp_star *s, uint32_t i)
{
	return is_rank0(s) ? (i ? s->m->seats[i].link : NULL) : s->m->link;
}

static uint32_t link_count(const struct ckpt_tcp_star *s)
{
	return is_rank0(s) ? s->m->me.size : 1;
}

/* To rank 0, or from it to all. */
static void send_all(struct ckpt_tcp_star *s, enum ckpt_wire_kind kind, const void *bytes,
		     size_t len)
{
	for (uint32_t i = 0; i < link_count(s); i++) {
		struct ckpt_tcp_link *l = link_of(s, i);

		if (!l || l->has_ended || l->stage != CKPT_TCP_FRAMES)
			continue;
		ckpt_tcp_link_put_frame(l, kind, bytes, len);
		ckpt_tcp_link_flush(l);
	}
}

static void send_stop(struct ckpt_tcp_star *s, const struct ckpt_failure_notice *why)
{
	uint8_t bytes[CKPT_MOST_FAILURE_NOTICE];

	if (!s->has_stopped)
		send_all(s, CKPT_WIRE_STOP, bytes, ckpt_failure_notice_write(why, bytes));
	s->has_stopped = true;
}

/* That this rank ends as well. */
static void say_stop(struct ckpt_tcp_star *s)
{
	struct ckpt_failure_notice notice = { .status = CKPT_E_PEER, .rank = s->m->me.rank };

	snprintf(notice.text, sizeof(notice.text), "rank %" PRIu32 " (%s) has failed", s->m->me.rank, s->m->me.host);
	send_stop(s, s->is_told ? &s->why : &notice);
}

void ckpt_tcp_star_close(struct ckpt_tcp_star *s, bool in_order)
{
	if (!s)
		return;
	if (s->m && !in_order)
		say_stop(s);
	if (s->m)
		s->m->base.ops->close(&s->m->base); /* says BYE */
	free(s->ballots);
	free(s);
}

const uint8_t *ckpt_tcp_star_secret(const struct ckpt_tcp_star *s)
{
	return s->m->secret;
}

const struct ckpt_wire_join *ckpt_tcp_star_me(const struct ckpt_tcp_star *s)
{
	return &s->m->me;
}

/* ---- opened ---- */

int ckpt_tcp_star_listen(struct ckpt_tcp_star *s, const struct ckpt_tcp_resolved *at,
			 struct ckpt_tcp_place *place, struct ckpt_error *err)
{
	struct ckpt_tcp_door *d = &s->m->door;
	bool taken = false;
	int rc = 0;

	for (unsigned i = 0; rc >= 0 && i < at->count; i++)
		rc = ckpt_tcp_door_listen(d, &at->list[i].address, at->list[i].len, &taken, err);
	if (rc < 0)
		return rc;
	if (d->listener_count == 0)
		return ckpt_fail(err, CKPT_E_PEER,
				 "none of this host's addresses can be listened at");
	place->count = d->listener_count;
	for (unsigned i = 0; i < d->listener_count; i++)
		ckpt_tcp_spot_write(&d->bound[i], place->spots[i]);
	ckpt_tcp_address_print(&d->bound[0], s->m->address.text);
	return 0;
}

void ckpt_tcp_star_refuse(struct ckpt_tcp_star *s, const struct ckpt_error *why)
{
	ckpt_tcp_host_refuse(s->m, why, CKPT_TCP_SETTLE_NSEC, UINT64_MAX);
}

/* The own end of a connection: the other side reaches this host there. */
static int find_own_end(const struct ckpt_tcp_link *l, struct sockaddr_storage *out,
			struct ckpt_error *err)
{
	socklen_t len = sizeof(*out);

	if (!l)
		return ckpt_fail(err, CKPT_E_PEER, "a rank left as soon as all had met");
	if (getsockname(l->fd, (struct sockaddr *)out, &len) < 0)
		return ckpt_fail_errno(err, "cannot tell which address this host has");
	ckpt_tcp_address_set_port(out, 0);
	return 0;
}

static void read_answer(const uint8_t in[ANSWER], struct ckpt_tcp_neighbors *out)
{
	if (!ckpt_tcp_spot_read(in, &out->next, &out->next_len))
		out->next_len = 0;
	memcpy(out->next_host, in + CKPT_TCP_SPOT, CKPT_WIRE_HOST - 1);
	memcpy(out->previous_host, in + CKPT_TCP_SPOT + CKPT_WIRE_HOST, CKPT_WIRE_HOST - 1);
}

static const char *host_of(const struct ckpt_tcp_star *s, uint32_t rank)
{
	if (is_rank0(s))
		return rank ? s->m->seats[rank].host : s->m->me.host;
	return rank ? "" : s->m->link ? s->m->link->host0 : "";
}

/* ALL: where each rank listens for the one before it. */
static void write_answer(const struct ckpt_tcp_star *s, const uint8_t *all, uint32_t rank,
			 uint8_t out[ANSWER])
{
	uint32_t size = s->m->me.size, next = (rank + 1) % size,
		 previous = (rank + size - 1) % size;

	memcpy(out, all + (size_t)next * CKPT_TCP_SPOT, CKPT_TCP_SPOT);
	snprintf((char *)out + CKPT_TCP_SPOT, CKPT_WIRE_HOST, "%s", host_of(s, next));
	snprintf((char *)out + CKPT_TCP_SPOT + CKPT_WIRE_HOST, CKPT_WIRE_HOST, "%s",
		 host_of(s, previous));
}

static int open_as_rank0(struct ckpt_tcp_star *s, ckpt_tcp_listen *listen, void *ctx,
			 uint64_t deadline, struct ckpt_tcp_neighbors *out, struct ckpt_error *err)
{
	struct ckpt_tcp_meeting *m = s->m;
	uint8_t none[CKPT_TCP_SPOT] = { 0 }, *all = calloc(m->me.size, CKPT_TCP_SPOT),
		*answers = calloc(m->me.size, ANSWER);
	struct sockaddr_storage own;
	int rc = all && answers ? 0 : ckpt_fail_nomem(err);

	if (rc == 0)
		rc = ckpt_tcp_host_gather(m, none, sizeof(none), all, deadline, err);
	if (rc == 0)
		rc = find_own_end(m->seats[m->me.size - 1].link, &own, err);
	if (rc == 0)
		rc = listen(ctx, &own, err);
	if (rc == 0) {
		uint64_t now = ckpt_now_nsec();

		ckpt_tcp_spot_write(&own, all);
		for (uint32_t i = 0; i < m->me.size; i++)
			write_answer(s, all, i, answers + (size_t)i * ANSWER);
		m->answer_step = ANSWER;
		/* sooner than those that have taken theirs give up connecting to each other: they hear who has not */
		rc = ckpt_tcp_host_share(m, answers, ANSWER, deadline > now ? now + (deadline - now) / 4 * 3 : deadline, err);
		read_answer(answers, out);
	}
	free(all);
	free(answers);
	return rc;
}

static int open_as_other(struct ckpt_tcp_star *s, ckpt_tcp_listen *listen, void *ctx,
			 uint64_t deadline, struct ckpt_tcp_neighbors *out, struct ckpt_error *err)
{
	uint8_t spot[CKPT_TCP_SPOT], answer[ANSWER];
	struct sockaddr_storage own;
	int rc = ckpt_tcp_guest_join(s->m, deadline, err);

	if (rc == CKPT_E_CANCELLED && !s->m->base.is_told) /* the others would wait for it */
		ckpt_tcp_guest_leave(s->m, err, ckpt_now_nsec() + LAST_WORDS_NSEC);
	if (rc == 0)
		rc = find_own_end(s->m->link, &own, err);
	if (rc == 0)
		rc = listen(ctx, &own, err);
	if (rc < 0)
		return rc;
	ckpt_tcp_spot_write(&own, spot);
	ckpt_tcp_guest_say(s->m, spot, sizeof(spot));
	rc = ckpt_tcp_guest_share(s->m, answer, sizeof(answer), deadline, err);
	if (rc == 0)
		read_answer(answer, out);
	return rc;
}

int ckpt_tcp_star_open(struct ckpt_tcp_star *s, ckpt_tcp_listen *listen, void *ctx,
		       const volatile int *cancel, uint64_t deadline,
		       struct ckpt_tcp_neighbors *out, struct ckpt_error *err)
{
	struct sockaddr_storage own;
	int rc;

	s->m->base.cancel = cancel;
	*out = (struct ckpt_tcp_neighbors){ 0 };
	rc = (is_rank0(s) ? open_as_rank0 : open_as_other)(s, listen, ctx, deadline, out, err);
	if (rc == 0 && find_own_end(is_rank0(s) ? s->m->seats[1].link : s->m->link, &own, NULL) == 0)
		ckpt_tcp_address_set_scope(&out->next, ckpt_tcp_address_scope(&own));
	if (rc == 0 && !out->next_len)
		rc = ckpt_fail(err, CKPT_E_PEER, "the next rank listens nowhere");
	for (uint32_t i = 0; rc == 0 && i < link_count(s); i++)
		if (link_of(s, i))
			ckpt_io_set_no_keepalive(link_of(s, i)->fd);
	s->is_open = rc == 0;
	return rc;
}

/* ---- what comes ---- */

static void end_all(struct ckpt_tcp_star *s, const char *why)
{
	if (!s->is_over) {
		s->why.status = CKPT_E_PEER;
		snprintf(s->why.text, sizeof(s->why.text), "%s", why);
	}
	s->is_over = true;
}

/* A rank says why: that is known better than what this one sees of it. Rank 0 passes it on. */
static void take_notice(struct ckpt_tcp_star *s, const uint8_t *bytes, size_t len)
{
	struct ckpt_failure_notice notice;

	ckpt_failure_notice_read(bytes, len, &notice);
	if (!s->is_over) {
		s->why = notice;
		s->is_told = true;
	}
	s->is_over = true;
	if (is_rank0(s))
		send_stop(s, &s->why);
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

/* VOTE on rank 0, RESULT on the others. False: nobody asked for that. */
static bool take_numbers(struct ballot *b, const uint8_t *bytes, size_t len)
{
	if (b->has_voted || len % NUMBER || len > sizeof(b->numbers))
		return false;
	b->count = (unsigned)(len / NUMBER);
	for (unsigned i = 0; i < b->count; i++) {
		b->numbers[i] = 0;
		for (int k = 0; k < NUMBER; k++)
			b->numbers[i] |= (uint64_t)bytes[i * NUMBER + (unsigned)k] << (8 * k);
	}
	b->has_voted = true;
	return true;
}

/* To rank 0, or from it to all, which wait for a vote, or for bytes that have to come through others first. */
static void say_moving(struct ckpt_tcp_star *s)
{
	s->moved_at = ckpt_now_nsec();
	if (s->moved_at - s->said_at < MOVING_NSEC)
		return;
	s->said_at = s->moved_at;
	for (uint32_t i = 0; i < link_count(s); i++) {
		struct ckpt_tcp_link *l = link_of(s, i);

		if (!l || l->has_ended || l->stage != CKPT_TCP_FRAMES || ckpt_tcp_link_has_more(l))
			continue;
		ckpt_tcp_link_put_frame(l, CKPT_WIRE_MOVING, NULL, 0);
		ckpt_tcp_link_flush(l);
	}
}

void ckpt_tcp_star_say_moving(struct ckpt_tcp_star *s)
{
	if (!s->is_over)
		say_moving(s);
}

void ckpt_tcp_star_heed(struct ckpt_tcp_star *s, const volatile int *cancel)
{
	s->heeded = cancel;
}

uint64_t ckpt_tcp_star_moved_at(const struct ckpt_tcp_star *s)
{
	return s->moved_at;
}

static bool use_frame(struct ckpt_tcp_star *s, uint32_t rank, enum ckpt_wire_kind kind,
		      const uint8_t *bytes, size_t len)
{
	struct ballot *b = &s->ballots[rank];

	switch (kind) {
	case CKPT_WIRE_VOTE: return is_rank0(s) && take_numbers(b, bytes, len);
	case CKPT_WIRE_RESULT: return !is_rank0(s) && take_numbers(b, bytes, len);
	case CKPT_WIRE_BYE: link_of(s, rank)->said_bye = true; return true;
	case CKPT_WIRE_MOVING:
		if (is_rank0(s))
			say_moving(s);
		s->moved_at = ckpt_now_nsec();
		return len == 0;
	case CKPT_WIRE_REFUSED: /* from rank 0, before it has heard that this rank took its answer */
		if (is_rank0(s))
			return false;
		/* fall through */
	case CKPT_WIRE_STOP:
		b->has_stopped = true;
		take_notice(s, bytes, len);
		return true;
	case CKPT_WIRE_MISSING:
		copy_text(s->missing, sizeof(s->missing), bytes, len);
		s->has_missing = !is_rank0(s);
		end_all(s, "the other ranks have given this one up");
		return s->has_missing;
	default: return false;
	}
}

/* The connection to RANK has ended. In order it may, when all is done. */
static void lose(struct ckpt_tcp_star *s, uint32_t rank, const char *how)
{
	const struct ckpt_tcp_link *l = link_of(s, rank);
	char text[200];

	if (s->ballots[rank].is_dead)
		return;
	if (l->said_bye && !s->has_stopped && !s->ballots[rank].has_stopped)
		return;
	s->ballots[rank].is_dead = !l->said_bye;
	snprintf(text, sizeof(text), "rank %" PRIu32 " (%s) %s", rank, host_of(s, rank), how);
	end_all(s, text);
}

static void read_link(struct ckpt_tcp_star *s, uint32_t rank)
{
	struct ckpt_tcp_link *l = link_of(s, rank);
	enum ckpt_wire_kind kind;
	const uint8_t *bytes;
	size_t len;
	int rc;

	while ((rc = ckpt_tcp_link_read(l)) > 0) {
		if (!ckpt_wire_read_frame(&l->session, l->in, l->in_len, &kind, &bytes, &len) ||
		    !use_frame(s, rank, kind, bytes, len)) {
			l->has_ended = true;
			lose(s, rank, "sent what does not belong here");
			return;
		}
		ckpt_tcp_link_next(l);
	}
	if (rc < 0)
		lose(s, rank, "ended without a word");
}

static void look(struct ckpt_tcp_star *s)
{
	for (uint32_t i = 0; i < link_count(s); i++) {
		if (!link_of(s, i))
			continue;
		ckpt_tcp_link_flush(link_of(s, i));
		read_link(s, i);
	}
}

int ckpt_tcp_star_look(struct ckpt_tcp_star *s, struct ckpt_error *err)
{
	look(s);
	return s->is_over ? ckpt_failure_notice_fail(&s->why, err) : 0;
}

const struct ckpt_failure_notice *ckpt_tcp_star_told(const struct ckpt_tcp_star *s)
{
	if (s->m->base.is_told)
		return &s->m->base.told;
	return s->is_told ? &s->why : NULL;
}

static bool has_more(const struct ckpt_tcp_star *s)
{
	for (uint32_t i = 0; i < link_count(s); i++)
		if (link_of(s, i) && !link_of(s, i)->has_ended &&
		    ckpt_tcp_link_has_more(link_of(s, i)))
			return true;
	return false;
}

void ckpt_tcp_star_set_work(struct ckpt_tcp_star *s, bool (*work)(void *ctx), void *ctx)
{
	s->work = work;
	s->work_ctx = ctx;
}

/* Until something comes, for up to STEP_MSEC; links that have ended would be ready at once. */
static void wait_a_step(struct ckpt_tcp_star *s)
{
	struct pollfd one, *fds = is_rank0(s) ? s->m->fds : &one;
	nfds_t count = 0;

	for (uint32_t i = 0; i < link_count(s); i++) {
		struct ckpt_tcp_link *l = link_of(s, i);

		if (l && !l->has_ended)
			fds[count++] =
				(struct pollfd){ .fd = l->fd, .events = ckpt_tcp_link_events(l) };
	}
	ckpt_io_poll(fds, count, !s->work ? STEP_MSEC : s->work(s->work_ctx) ? 0 : WORK_MSEC);
}

int ckpt_tcp_star_await(struct ckpt_tcp_star *s, struct ckpt_error *err)
{
	uint64_t until = ckpt_now_nsec() + AWAITED_NSEC;

	look(s);
	while (!s->is_over && ckpt_now_nsec() < until) {
		wait_a_step(s);
		look(s);
	}
	return s->is_over ? ckpt_failure_notice_fail(&s->why, err) : 0;
}

void ckpt_tcp_star_stop(struct ckpt_tcp_star *s, const struct ckpt_failure_notice *why)
{
	uint64_t until = ckpt_now_nsec() + LAST_WORDS_NSEC;
	bool is_sent = s->has_stopped; /* long ago */

	send_stop(s, why);
	if (s->is_open && !why->signal)
		return; /* who is silent is asked for next, which takes longer */
	while (!is_sent && ckpt_now_nsec() < until &&
	       (is_rank0(s) ? has_more(s) : !s->ballots[0].has_stopped && s->m->link && !s->m->link->has_ended)) {
		wait_a_step(s);
		look(s);
	}
}

/* ---- votes ---- */

static size_t write_numbers(const uint64_t *numbers, size_t count, uint8_t *out)
{
	for (size_t i = 0; i < count; i++)
		for (int k = 0; k < NUMBER; k++)
			out[i * NUMBER + (size_t)k] = (uint8_t)(numbers[i] >> (8 * k));
	return count * NUMBER;
}

/* Of all ranks, or of rank 0. */
static bool have_all_voted(const struct ckpt_tcp_star *s)
{
	for (uint32_t i = is_rank0(s); i < link_count(s); i++)
		if (!s->ballots[i].has_voted)
			return false;
	return true;
}

static int wait_for_votes(struct ckpt_tcp_star *s, uint64_t deadline, struct ckpt_error *err)
{
	uint64_t now = ckpt_now_nsec(), patience = deadline > now ? deadline - now : 0;

	look(s);
	while (!have_all_voted(s)) {
		if (s->is_over)
			return ckpt_failure_notice_fail(&s->why, err);
		if (ckpt_cancelled(s->heeded))
			return ckpt_tcp_fail_cancelled(err);
		now = ckpt_now_nsec();
		if (now > deadline && now - s->moved_at > patience)
			return ckpt_fail(err, CKPT_E_PEER, "a rank does not answer");
		wait_a_step(s);
		look(s);
	}
	return 0;
}

/* Rank 0, with the votes of all. */
static int count_votes(struct ckpt_tcp_star *s, uint64_t *numbers, size_t count,
		       struct ckpt_error *err)
{
	for (uint32_t i = 1; i < s->m->me.size; i++) {
		struct ballot *b = &s->ballots[i];

		if (b->count != count)
			return ckpt_fail(err, CKPT_E_PEER,
					 "rank %" PRIu32 " (%s) votes on %u numbers, rank 0 on %zu",
					 i, host_of(s, i), b->count, count);
		for (size_t k = 0; k < count; k++)
			if (b->numbers[k] > numbers[k])
				numbers[k] = b->numbers[k];
		b->has_voted = false;
	}
	return 0;
}

int ckpt_tcp_star_vote(struct ckpt_tcp_star *s, uint64_t *numbers, size_t count, uint64_t deadline,
		       struct ckpt_error *err)
{
	uint8_t bytes[CKPT_TCP_MOST_VOTES * NUMBER];
	int rc;

	assert(count <= CKPT_TCP_MOST_VOTES);
	if (!is_rank0(s))
		send_all(s, CKPT_WIRE_VOTE, bytes, write_numbers(numbers, count, bytes));
	rc = wait_for_votes(s, deadline, err);
	if (rc < 0)
		return rc;
	if (is_rank0(s)) {
		rc = count_votes(s, numbers, count, err);
		if (rc == 0)
			send_all(s, CKPT_WIRE_RESULT, bytes, write_numbers(numbers, count, bytes));
		return rc;
	}
	s->ballots[0].has_voted = false;
	if (s->ballots[0].count != count)
		return ckpt_fail(err, CKPT_E_PEER, "rank 0 (%s) answers another vote",
				 host_of(s, 0));
	memcpy(numbers, s->ballots[0].numbers, count * sizeof(*numbers));
	return 0;
}

/* ---- who is silent ---- */

/* On rank 0. If a rank has died, the others that are silent may only be busy. */
static uint32_t list_missing(const struct ckpt_tcp_star *s, bool dead, char *text, size_t size)
{
	uint32_t missing = 0;
	size_t len = 0;

	*text = '\0';
	for (uint32_t i = 1; i < s->m->me.size; i++) {
		const struct ballot *b = &s->ballots[i];
		bool is_one = dead ? b->is_dead : !b->has_stopped && !b->is_dead;

		if (is_one && missing++ < MOST_NAMED && len < size)
			len += (size_t)snprintf(text + len, size - len, "%srank %" PRIu32 " (%s)",
						missing > 1 ? ", " : "", i, host_of(s, i));
	}
	if (missing > MOST_NAMED && len < size)
		snprintf(text + len, size - len, " and %" PRIu32 " more", missing - MOST_NAMED);
	return missing;
}

static void collect_missing(struct ckpt_tcp_star *s, uint64_t nsec)
{
	uint64_t now = ckpt_now_nsec(), deadline = now + nsec, last;

	look(s);
	while (list_missing(s, false, s->missing, sizeof(s->missing)) > 0 && now < deadline) {
		/* others of its host may have died with it */
		if (list_missing(s, true, s->missing, sizeof(s->missing)) > 0 &&
		    deadline > now + SETTLE_NSEC)
			deadline = now + SETTLE_NSEC;
		wait_a_step(s);
		look(s);
		now = ckpt_now_nsec();
	}
	if (list_missing(s, true, s->missing, sizeof(s->missing)) == 0)
		list_missing(s, false, s->missing, sizeof(s->missing));
	send_all(s, CKPT_WIRE_MISSING, s->missing, strlen(s->missing));
	last = ckpt_now_nsec() + (nsec < LAST_WORDS_NSEC ? nsec : LAST_WORDS_NSEC);
	while (has_more(s) && ckpt_now_nsec() < last) {
		wait_a_step(s);
		look(s);
	}
}

static void ask_missing(struct ckpt_tcp_star *s, uint64_t nsec)
{
	uint64_t deadline = ckpt_now_nsec() + nsec;

	look(s);
	while (!s->has_missing && s->m->link && !s->m->link->has_ended &&
	       ckpt_now_nsec() < deadline) {
		wait_a_step(s);
		look(s);
	}
	if (!s->has_missing && !(s->is_told && s->why.rank == 0)) /* which has said why, and ends */
		snprintf(s->missing, sizeof(s->missing), "rank 0 (%s)", host_of(s, 0));
}

void ckpt_tcp_star_find_silent(struct ckpt_tcp_star *s, uint64_t nsec, char *text, size_t size)
{
	say_stop(s);
	if (!s->is_open)
		s->missing[0] = '\0';
	else if (is_rank0(s))
		collect_missing(s, nsec);
	else
		ask_missing(s, 2 * nsec);
	snprintf(text, size, "%s", s->missing);
}
