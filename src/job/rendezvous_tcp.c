/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous over TCP: what rank 0 and the others have in common. tcp_meeting.h says how they
 * meet.
 *
 * What must stay true: until all have the answer, the caller's thread alone uses the connections;
 * from then on, whoever holds the lock.
 */
#include "job/tcp_meeting.h"

#include "base/cancel.h"
#include "base/c_locale.h"
#include "base/clock.h"
#include "io/network.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static_assert((int)CKPT_MOST_HELLO <= (int)CKPT_WIRE_MOST_BYTES, "a hello fits into a frame");

enum { LOOK_S = 1, BEAT_S = 5, SILENT_S = 8, MOST_NAMED = 4, OTHER_FILES = 64, LEAST_UNPROVEN = 16 };

int ckpt_tcp_fail_cancelled(struct ckpt_error *err)
{
	return ckpt_fail(err, CKPT_E_CANCELLED, "interrupted while the ranks met, nothing was written");
}

void ckpt_tcp_make_notice(const struct ckpt_tcp_meeting *m, const struct ckpt_error *why,
			  struct ckpt_failure_notice *out)
{
	ckpt_failure_notice_make(m->me.rank, m->me.host, why, ckpt_cancelled(m->base.cancel), out);
}

int ckpt_tcp_take_notice(struct ckpt_tcp_meeting *m, const uint8_t *bytes, size_t len, struct ckpt_error *err)
{
	ckpt_failure_notice_read(bytes, len, &m->base.told);
	m->base.is_told = true;
	return ckpt_failure_notice_fail(&m->base.told, err);
}

/* ---- signs of life ---- */

static void look_around(struct ckpt_tcp_meeting *m, bool send)
{
	if (m->me.rank == 0)
		ckpt_tcp_host_beat(m, send);
	else
		ckpt_tcp_guest_beat(m, send);
}

static void *beat(void *arg)
{
	struct ckpt_tcp_meeting *m = arg;
	struct timespec next;
	unsigned looks = 0;

	pthread_mutex_lock(&m->lock);
	while (!m->stopped) {
		int rc = 0;

		clock_gettime(CLOCK_MONOTONIC, &next);
		next.tv_sec += LOOK_S;
		while (!m->stopped && rc == 0)
			rc = pthread_cond_timedwait(&m->changed, &m->lock, &next);
		if (!m->stopped && m->beats)
			look_around(m, looks++ % BEAT_S == 0);
	}
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

/* Before anybody counts on this rank: one that gives no sign of life would seem to hang. */
static int start_thread(struct ckpt_tcp_meeting *m, struct ckpt_error *err)
{
	int code = m->has_thread ? 0 : ckpt_io_thread(&m->thread, beat, m);

	if (code)
		return ckpt_fail(err, CKPT_E_NOMEM, "cannot start a thread: %s", ckpt_errno_text(code));
	m->has_thread = true;
	return 0;
}

static void stop_thread(struct ckpt_tcp_meeting *m)
{
	if (!m->has_thread)
		return;
	pthread_mutex_lock(&m->lock);
	m->stopped = true;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
	pthread_join(m->thread, NULL);
	m->has_thread = false;
}

/* False: it is heard, or it left in order. */
static bool describe_link(const struct ckpt_tcp_link *l, bool said_bye, char *text, size_t size)
{
	uint64_t sec = l ? (ckpt_now_nsec() - l->last_heard) / 1000000000 : 0;

	if (said_bye || (l && l->said_bye))
		return false;
	if (!l || l->has_ended)
		snprintf(text, size, "ended without a word");
	else if (sec > SILENT_S)
		snprintf(text, size, "was last heard of %" PRIu64 " s ago", sec);
	else
		return false;
	return true;
}

static size_t add(char *text, size_t size, size_t len, uint32_t rank, const char *host, uint32_t pid, const char *what)
{
	char one[200];

	snprintf(one, sizeof(one), "%srank %" PRIu32 " (%s, pid %" PRIu32 ") %s", len ? ", " : "", rank, host, pid, what);
	if (len + strlen(one) >= size)
		return len;
	strcpy(text + len, one);
	return len + strlen(one);
}

static void describe_silent(struct ckpt_rendezvous *r, char *text, size_t size)
{
	struct ckpt_tcp_meeting *m = (struct ckpt_tcp_meeting *)r;
	unsigned named = 0;
	size_t len = 0;
	char what[80];

	*text = '\0';
	pthread_mutex_lock(&m->lock);
	if (m->beats)
		look_around(m, false);
	if (m->beats && m->me.rank != 0 && describe_link(m->link, false, what, sizeof(what)))
		add(text, size, 0, 0, m->link->host0, m->link->pid0, what);
	for (uint32_t i = 1; m->beats && m->me.rank == 0 && i < m->me.size && named < MOST_NAMED; i++) {
		const struct ckpt_tcp_seat *seat = &m->seats[i];

		if (!describe_link(seat->link, seat->said_bye, what, sizeof(what)))
			continue;
		len = add(text, size, len, i, seat->host, seat->pid, what);
		named++;
	}
	pthread_mutex_unlock(&m->lock);
}

/* ---- gather and share ---- */

static int gather(struct ckpt_rendezvous *r, const void *hello, size_t len, void *all,
		  uint64_t deadline, struct ckpt_error *err)
{
	struct ckpt_tcp_meeting *m = (struct ckpt_tcp_meeting *)r;
	int rc = m->no_room.status ? m->no_room.status : start_thread(m, err);

	if (m->no_room.status && err)
		*err = m->no_room;
	if (rc < 0)
		return rc;
	return m->me.rank == 0 ? ckpt_tcp_host_gather(m, hello, len, all, deadline, err)
			       : ckpt_tcp_guest_gather(m, hello, len, deadline, err);
}

static int share(struct ckpt_rendezvous *r, void *bytes, size_t len, uint64_t deadline,
		 struct ckpt_error *err)
{
	struct ckpt_tcp_meeting *m = (struct ckpt_tcp_meeting *)r;
	int rc = m->me.rank == 0 ? ckpt_tcp_host_share(m, bytes, len, deadline, err)
				 : ckpt_tcp_guest_share(m, bytes, len, deadline, err);

	pthread_mutex_lock(&m->lock);
	m->beats = rc == 0;
	pthread_mutex_unlock(&m->lock);
	return rc;
}

/* What this rank was told itself, and that others do not come, is for nobody else to hear. */
static void leave(struct ckpt_rendezvous *r, const struct ckpt_error *why, uint64_t deadline)
{
	struct ckpt_tcp_meeting *m = (struct ckpt_tcp_meeting *)r;

	if (r->is_told || why->status == CKPT_E_PEER)
		return;
	if (m->me.rank == 0)
		ckpt_tcp_host_leave(m, why, deadline);
	else
		ckpt_tcp_guest_leave(m, why, deadline);
}

/* ---- open and close ---- */

static void close_tcp(struct ckpt_rendezvous *r)
{
	struct ckpt_tcp_meeting *m = (struct ckpt_tcp_meeting *)r;

	stop_thread(m);
	if (m->me.rank == 0)
		ckpt_tcp_host_close(m);
	else
		ckpt_tcp_guest_close(m);
	pthread_cond_destroy(&m->changed);
	pthread_mutex_destroy(&m->lock);
	explicit_bzero(m->secret, sizeof(m->secret));
	free(m->seats);
	free(m->fds);
	free(m->there);
	free(m);
}

static int name_this_process(struct ckpt_tcp_meeting *m, struct ckpt_error *err)
{
	m->me.version = CKPT_WIRE_VERSION;
	m->me.rank = m->base.world.rank;
	m->me.size = m->base.world.size;
	m->me.pid = (uint32_t)getpid();
	if (gethostname(m->me.host, sizeof(m->me.host) - 1) < 0)
		snprintf(m->me.host, sizeof(m->me.host), "unknown host");
	ckpt_wire_hash_key(m->base.world.key, m->me.key);
	return ckpt_tcp_draw(m->me.process, sizeof(m->me.process), err);
}

/* The system gives the lowest number that is free: about as many are open. */
static uint64_t count_open_files(void)
{
	int fd = ckpt_io_socket(AF_INET);

	if (fd >= 0)
		close(fd);
	return fd < OTHER_FILES ? OTHER_FILES : (uint64_t)fd;
}

/*
 * Rank 0 has a connection to every rank, and some to those who are not proven yet. If it may not have so many, it does not gather, but
 * can tell one after the other.
 */
static int make_room(struct ckpt_tcp_meeting *m, struct ckpt_error *err)
{
	struct rlimit limit;
	uint64_t needed = m->me.size + count_open_files() + LEAST_UNPROVEN;
	size_t most = (size_t)m->me.size + CKPT_TCP_MOST_UNPROVEN + CKPT_TCP_MOST_ADDRESSES;

	m->door.most_unproven = CKPT_TCP_MOST_UNPROVEN;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
		if (limit.rlim_cur < needed) {
			m->door.most_unproven = 1;
			ckpt_fail(&m->no_room, CKPT_E_LIMIT,
				  "rank 0 has a connection to each of %" PRIu32
				  " ranks, and may open %" PRIu64 " files: raise that to %" PRIu64 " (ulimit -n)",
				  m->me.size, (uint64_t)limit.rlim_cur, needed);
		} else if (limit.rlim_cur - needed + LEAST_UNPROVEN < m->door.most_unproven)
			m->door.most_unproven = (unsigned)(limit.rlim_cur - needed) + LEAST_UNPROVEN;
	}
	m->seats = calloc(m->me.size, sizeof(*m->seats));
	m->there = calloc(m->me.size, sizeof(*m->there));
	m->fds = calloc(most, sizeof(*m->fds));
	return m->seats && m->there && m->fds ? 0 : ckpt_fail_nomem(err);
}

int ckpt_rendezvous_open_tcp(const struct ckpt_tcp_address *address,
			     const uint8_t secret[CKPT_WIRE_KEY], const struct ckpt_world *world,
			     struct ckpt_rendezvous **out, struct ckpt_error *err)
{
	static const struct ckpt_rendezvous_ops ops = { "tcp", gather, share, describe_silent, close_tcp, leave };
	struct ckpt_tcp_meeting *m = calloc(1, sizeof(*m));
	pthread_condattr_t attr;
	int rc;

	*out = NULL;
	if (!m)
		return ckpt_fail_nomem(err);
	m->base = (struct ckpt_rendezvous){ .ops = &ops, .world = *world };
	m->address = *address;
	memcpy(m->secret, secret, sizeof(m->secret));
	m->door.secret = m->secret;
	m->door.me = &m->me;
	m->door.admit = ckpt_tcp_host_admit;
	m->door.ctx = m;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->changed, &attr);
	pthread_condattr_destroy(&attr);
	rc = name_this_process(m, err);
	if (rc == 0 && m->me.rank == 0)
		rc = make_room(m, err);
	if (rc < 0)
		close_tcp(&m->base);
	else
		*out = &m->base;
	return rc;
}

bool ckpt_rendezvous_find_tcp(const struct ckpt_rendezvous *r, struct ckpt_tcp_resolved *out)
{
	const struct ckpt_tcp_meeting *m = (const struct ckpt_tcp_meeting *)r;

	if (r->ops->gather != gather || m->me.rank != 0 || m->door.listener_count == 0 ||
	    ckpt_tcp_address_is_any(&m->door.bound[0]))
		return false;
	out->count = m->door.listener_count;
	for (unsigned i = 0; i < m->door.listener_count; i++) {
		out->list[i].address = m->door.bound[i];
		ckpt_tcp_address_set_port(&out->list[i].address, 0);
		out->list[i].len = out->list[i].address.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
									       : sizeof(struct sockaddr_in);
	}
	return true;
}

uint32_t ckpt_rendezvous_find_scope(const struct ckpt_rendezvous *r)
{
	const struct ckpt_tcp_meeting *m = (const struct ckpt_tcp_meeting *)r;

	return r->ops->gather == gather && m->link ? ckpt_tcp_address_scope(&m->link->peer) : 0;
}
