/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous in a folder: gather hellos on rank 0, share its answer, clean up. meeting.h says
 * how, and why that is right.
 *
 * What must stay true: every wait ends at the deadline, VERDICT later at most, or when it is cancelled, and then says who
 * is missing. If rank 0 fails, it still writes an answer that refuses, so that the others hear why
 * instead of waiting. Every process removes its own files, also after a failure.
 */
#include "base/cancel.h"
#include "job/meeting.h"
#include "job/missing_list.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	FIRST_PAUSE = 5000000, /* ns; grows up to */
	LAST_PAUSE = 250000000,
	MOST_KEY = 180, /* of a file name */
	/* ns in which a rank 0 that refuses goes on looking, so that all ranks learn of it */
	SETTLE = 1000000000,
	MOST_TRIES = 20,
};

#define COUNT_AHEAD UINT64_C(15000000000) /* ns */

/* ns that a rank which has seen rank 0 leaves it to say who is missing */
#define VERDICT UINT64_C(500000000)

/* Repeat STEP until it returns 1 or an error. 0: the time is over. */
static int wait_until(struct ckpt_meeting *m,
		      int (*step)(struct ckpt_meeting *m, void *ctx, struct ckpt_error *err),
		      void *ctx, uint64_t deadline, struct ckpt_error *err)
{
	long pause = FIRST_PAUSE;

	for (;;) {
		const volatile int *cancel = m->base.cancel;
		int rc = step(m, ctx, err);

		if (rc != 0)
			return rc;
		if (ckpt_cancelled(cancel))
			return ckpt_fail(err, CKPT_E_CANCELLED,
					 "interrupted while the ranks met, nothing was written");
		if (ckpt_now_nsec() > deadline)
			return 0;
		nanosleep(&(struct timespec){ 0, pause }, NULL);
		pause = pause * 3 / 2 < LAST_PAUSE ? pause * 3 / 2 : LAST_PAUSE;
	}
}

/* ---- gather ---- */

static int call_roll(struct ckpt_meeting *m, void *ctx, struct ckpt_error *err)
{
	(void)ctx;
	return ckpt_roll_call(m, err);
}

/* There may be two of a rank, and more than that. */
static int repeat_roll_call(struct ckpt_meeting *m, void *ctx, struct ckpt_error *err)
{
	(void)ctx;
	(void)err;
	ckpt_roll_call(m, NULL);
	return 0;
}

/* 1: so many have seen this rank 0 as there are to be, or have left. */
static int meet_all(struct ckpt_meeting *m, void *ctx, struct ckpt_error *err)
{
	uint32_t count;

	(void)ctx;
	(void)err;
	ckpt_roll_call(m, NULL);
	count = m->left_count + 1;
	for (uint32_t i = 0; i < m->met_count; i++) {
		bool is_twin = false;

		for (uint32_t k = 0; k < i; k++)
			is_twin |= m->met[k].rank == m->met[i].rank;
		count += !is_twin;
	}
	return count >= m->me.size;
}

/* Tell the others why, so that they do not wait until their time is over. */
static void refuse(struct ckpt_meeting *m, const struct ckpt_error *why, uint64_t settle_nsec, uint64_t deadline)
{
	uint64_t settle = ckpt_now_nsec() + settle_nsec;
	const volatile int *cancel = m->base.cancel;
	uint8_t bytes[CKPT_MOST_FAILURE_NOTICE];
	struct ckpt_failure_notice notice;

	if (m->base.is_told)
		notice = m->base.told;
	else
		ckpt_failure_notice_make(0, m->me.host, why, ckpt_cancelled(cancel), &notice);
	m->has_refused = true;
	m->base.cancel = NULL; /* it may be why */
	wait_until(m, notice.status == CKPT_E_PEER ? repeat_roll_call : meet_all, NULL, settle < deadline ? settle : deadline, NULL);
	m->base.cancel = cancel;
	free(m->seats);
	m->seats = m->met;
	m->seat_count = m->met_count;
	m->met = NULL;
	ckpt_answer_write(m, true, m->seats, m->seat_count, bytes, ckpt_failure_notice_write(&notice, bytes), NULL);
}

static int record_seats(struct ckpt_meeting *m, struct ckpt_error *err)
{
	m->seats = calloc(m->me.size, sizeof(*m->seats));
	if (!m->seats)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < m->me.size; i++)
		m->seats[i] = (struct ckpt_seat){ i, m->roll[i].nonce };
	m->seat_count = m->me.size;
	return 0;
}

static int gather_on_rank0(struct ckpt_meeting *m, uint64_t deadline, struct ckpt_error *err)
{
	struct ckpt_error why = CKPT_ERROR_INIT;
	int rc;

	m->roll = calloc(m->me.size, sizeof(*m->roll));
	if (!m->roll)
		return ckpt_fail_nomem(err);
	m->roll[0].nonce = m->me.nonce;
	memcpy(m->all, m->me.bytes, m->me.len);
	rc = wait_until(m, call_roll, NULL, deadline, &why);
	if (rc == 0)
		rc = ckpt_meeting_fail_missing(m, &why);
	if (rc > 0)
		rc = record_seats(m, &why);
	if (rc < 0)
		refuse(m, &why, SETTLE, deadline);
	return ckpt_error_pass(err, rc, &why);
}

/* The folder may be removed between the two calls, by the last process of an earlier start. */
static int write_hello(struct ckpt_meeting *m, struct ckpt_error *err)
{
	int rc = 0;

	for (int i = 0; i < MOST_TRIES; i++) {
		if (mkdir(m->folder, 0700) < 0 && errno != EEXIST)
			return ckpt_error_at(err, ckpt_fail_errno(err, "cannot make the folder"),
					     m->folder, NULL, CKPT_NO_OFFSET);
		rc = ckpt_note_write(m->folder, m->own, &m->me, err);
		if (rc == 0 || (err && err->sys_errno != ENOENT))
			return rc;
	}
	return rc;
}

static int announce_process(struct ckpt_meeting *m, struct ckpt_error *err)
{
	char path[PATH_MAX];
	struct stat st;
	int rc = write_hello(m, err);

	if (rc < 0)
		return rc;
	m->is_there = true;
	snprintf(path, sizeof(path), "%s/%s", m->folder, m->own);
	if (lstat(path, &st) < 0)
		return ckpt_error_at(err, ckpt_fail_errno(err, "is not there any more"), path, NULL,
				     CKPT_NO_OFFSET);
	m->uid = st.st_uid; /* a file server may have another idea of who we are */
	if (lstat(m->folder, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != m->uid)
		return ckpt_error_at(err,
				     ckpt_fail(err, CKPT_E_PEER,
					       "is a link or belongs to another user, who could change what the ranks say there: "
					       "give the start another name (--job-key) or place (--rdzv)"),
				     m->folder, NULL, CKPT_NO_OFFSET);
	if (m->me.rank == 0)
		ckpt_meeting_remove_left_over(m);
	return ckpt_heartbeat_start(m, err);
}

static int gather(struct ckpt_rendezvous *r, const void *hello, size_t len, void *all,
		  uint64_t deadline, struct ckpt_error *err)
{
	struct ckpt_meeting *m = (struct ckpt_meeting *)r;
	int rc;

	m->me.bytes = (uint8_t *)hello;
	m->me.len = len;
	m->all = all;
	rc = announce_process(m, err);
	if (rc == 0 && m->me.rank == 0)
		rc = gather_on_rank0(m, deadline, err);
	m->me.bytes = NULL; /* they were borrowed */
	m->me.len = 0;
	m->all = NULL;
	return rc;
}

/* ---- share ---- */

struct answer_request {
	struct ckpt_meeting *m;
	struct ckpt_error *err;
	void *bytes;
	size_t len;
};

static int acknowledge_rank0(void *ctx, const struct ckpt_sighting *s)
{
	struct answer_request *w = ctx;

	return s->kind == CKPT_SIGHT_HELLO && s->rank == 0
		       ? ckpt_meeting_acknowledge(w->m, s->nonce, w->err)
		       : 0;
}

static int find_answer(struct ckpt_meeting *m, void *ctx, struct ckpt_error *err)
{
	struct answer_request *w = ctx;
	int rc = ckpt_meeting_list(m->folder, acknowledge_rank0, w, err);

	for (uint32_t i = 0; rc == 0 && i < m->first_count; i++)
		rc = ckpt_answer_read(m, m->firsts[i], w->bytes, w->len, err);
	return rc;
}

/* The others give up about when this process does, so ranks are counted a while before. */
static uint64_t time_to_count(uint64_t deadline)
{
	uint64_t now = ckpt_now_nsec(), left = deadline > now ? deadline - now : 0;

	return deadline - (left / 4 < COUNT_AHEAD ? left / 4 : COUNT_AHEAD);
}

static int receive_answer(struct ckpt_meeting *m, void *bytes, size_t len, uint64_t deadline,
			  struct ckpt_error *err)
{
	struct answer_request w = { m, err, bytes, len };
	char name[64];
	int rc = wait_until(m, find_answer, &w, time_to_count(deadline), err);

	if (rc == 0) {
		rc = ckpt_meeting_record_who_came(m, err);
		if (rc == 0)
			rc = wait_until(m, find_answer, &w, deadline, err);
		if (rc == 0 && m->first_count) /* rank 0, which knows better, gives up about now */
			rc = wait_until(m, find_answer, &w, deadline + VERDICT, err);
	}
	if (rc == 0)
		return ckpt_meeting_fail_missing(m, err);
	ckpt_seen_name(name, m->answered_by, m->me.rank, m->me.nonce);
	if (m->answered_by)
		ckpt_meeting_remove(m, name); /* rank 0 waits for this */
	return rc < 0 ? rc : 0;
}

/*
 * A rank that has the answer removes its "seen" file. Only the ranks that the answer is for count.
 */
static int count_waiting(void *ctx, const struct ckpt_sighting *s)
{
	struct ckpt_meeting *m = ctx;

	for (uint32_t i = 0;
	     s->kind == CKPT_SIGHT_SEEN && s->first == m->answered_by && i < m->seat_count; i++) {
		if (m->seats[i].rank != s->rank || m->seats[i].nonce != s->nonce)
			continue;
		if (m->waiting++ == 0 || s->rank < m->first_waiting)
			m->first_waiting = s->rank;
	}
	return 0;
}

static int was_answer_read(struct ckpt_meeting *m, void *ctx, struct ckpt_error *err)
{
	int rc;

	(void)ctx;
	m->waiting = 0;
	rc = ckpt_meeting_list(m->folder, count_waiting, m, err);
	return rc < 0 ? rc : m->waiting == 0;
}

static int send_answer(struct ckpt_meeting *m, const void *bytes, size_t len, uint64_t deadline,
		       struct ckpt_error *err)
{
	int rc = ckpt_answer_write(m, false, m->seats, m->seat_count, bytes, len, err);
	const struct ckpt_roll_entry *first;
	char text[300];

	if (rc < 0)
		return rc;
	rc = wait_until(m, was_answer_read, NULL, deadline, err);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	first = &m->roll[m->first_waiting];
	ckpt_heartbeat_describe_silent(m, text, sizeof(text));
	rc = ckpt_missing_fail_answer(m->me.size, m->waiting, m->first_waiting, first->host,
				      first->pid, err);
	if (text[0])
		ckpt_error_append(err, "; %s", text);
	return rc;
}

static int share(struct ckpt_rendezvous *r, void *bytes, size_t len, uint64_t deadline,
		 struct ckpt_error *err)
{
	struct ckpt_meeting *m = (struct ckpt_meeting *)r;

	return m->me.rank == 0 ? send_answer(m, bytes, len, deadline, err)
			       : receive_answer(m, bytes, len, deadline, err);
}

static void describe_silent(struct ckpt_rendezvous *r, char *text, size_t size)
{
	ckpt_heartbeat_describe_silent((struct ckpt_meeting *)r, text, size);
}

/* ---- leave ---- */

struct leaving {
	struct ckpt_meeting *m;
	struct ckpt_note note;
};

static int write_notice(void *ctx, const struct ckpt_sighting *s)
{
	struct leaving *l = ctx;
	char name[64], path[PATH_MAX];
	struct stat st;

	if (s->kind != CKPT_SIGHT_HELLO || s->rank != 0)
		return 0;
	for (uint32_t i = 0; i < l->m->told_count; i++)
		if (l->m->told_firsts[i] == s->nonce)
			return 0;
	if (l->m->told_count == CKPT_MOST_TOLD)
		return 0;
	ckpt_left_name(name, s->nonce, l->note.rank, l->note.nonce);
	if (ckpt_note_write(l->m->folder, name, &l->note, NULL) < 0)
		return 0;
	l->m->told_firsts[l->m->told_count++] = s->nonce;
	snprintf(path, sizeof(path), "%s/%s", l->m->folder, name);
	if (!l->m->is_there && lstat(path, &st) == 0)
		l->m->uid = st.st_uid;
	return 0;
}

/* 1: a rank 0 has read it. */
static int find_reader(struct ckpt_meeting *m, void *ctx, struct ckpt_error *err)
{
	struct leaving *l = ctx;
	char name[64];

	(void)err;
	ckpt_meeting_list(m->folder, write_notice, l, NULL);
	for (uint32_t i = 0; i < m->told_count; i++) {
		ckpt_left_name(name, m->told_firsts[i], m->me.rank, m->me.nonce);
		if (ckpt_note_mtime(m->folder, name, m->uid) < 0)
			return 1;
	}
	return 0;
}

static void tell_rank0(struct ckpt_meeting *m, const struct ckpt_error *why, uint64_t deadline)
{
	uint8_t bytes[CKPT_MOST_FAILURE_NOTICE];
	struct ckpt_failure_notice notice;
	struct leaving l = { m, m->me };

	ckpt_failure_notice_make(m->me.rank, m->me.host, why, ckpt_cancelled(m->base.cancel), &notice);
	l.note.bytes = bytes;
	l.note.len = ckpt_failure_notice_write(&notice, bytes);
	m->base.cancel = NULL; /* it may be why */
	wait_until(m, find_reader, &l, deadline, NULL);
}

static void leave(struct ckpt_rendezvous *r, const struct ckpt_error *why, uint64_t deadline)
{
	struct ckpt_meeting *m = (struct ckpt_meeting *)r;

	if (r->is_told || m->has_refused || why->status == CKPT_E_PEER)
		return;
	if (m->me.rank != 0) {
		tell_rank0(m, why, deadline);
		return;
	}
	if (!m->is_there && announce_process(m, NULL) < 0)
		return;
	if (!m->roll)
		m->roll = calloc(m->me.size, sizeof(*m->roll));
	if (m->roll)
		refuse(m, why, UINT64_MAX / 2, deadline);
}

/* ---- open and close ---- */

/*
 * The last process that the answer was for removes it, and the one that finds the folder empty
 * removes the folder.
 */
static void remove_own_files(struct ckpt_meeting *m)
{
	char name[64];

	ckpt_meeting_remove(m, m->own);
	for (uint32_t i = 0; i < m->first_count; i++) {
		ckpt_seen_name(name, m->firsts[i], m->me.rank, m->me.nonce);
		ckpt_meeting_remove(m, name);
		if (!m->answered_by) /* it may have come while this process gave up */
			ckpt_answer_read(m, m->firsts[i], NULL, 0, NULL);
	}
	for (uint32_t i = 0; i < m->told_count; i++) {
		ckpt_left_name(name, m->told_firsts[i], m->me.rank, m->me.nonce);
		ckpt_meeting_remove(m, name);
	}
	if (m->answered_by && was_answer_read(m, NULL, NULL) == 1) {
		ckpt_answer_name(name, m->answered_by);
		ckpt_meeting_remove(m, name);
	}
	rmdir(m->folder);
}

static void close_file(struct ckpt_rendezvous *r)
{
	struct ckpt_meeting *m = (struct ckpt_meeting *)r;

	ckpt_heartbeat_stop(m);
	if (m->is_there || m->told_count)
		remove_own_files(m);
	free(m->folder);
	free(m->firsts);
	free(m->came);
	free(m->roll);
	free(m->met);
	free(m->seats);
	free(m);
}

/*
 * A key as a file name: everything except letters, digits and -_. becomes %XX, and a long one is
 * cut and ends with its checksum.
 */
static void escape_key(const char *key, char out[MOST_KEY + 12])
{
	size_t len = 0;

	for (const char *p = key; *p && len + 3 <= MOST_KEY; p++) {
		bool plain = (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') ||
			     (*p >= 'A' && *p <= 'Z') || *p == '-' || *p == '_' ||
			     (*p == '.' && p > key);

		len += (size_t)snprintf(out + len, 4, plain ? "%c" : "%%%02X", (uint8_t)*p);
	}
	out[len] = '\0';
	if (len + 3 > MOST_KEY)
		snprintf(out + len, 12, ".%08x", libdeflate_crc32(0, key, strlen(key)));
}

static int name_this_process(struct ckpt_meeting *m, struct ckpt_error *err)
{
	m->me.rank = m->base.world.rank;
	m->me.size = m->base.world.size;
	ckpt_process_mark_own(&m->me.process);
	m->me.pid = m->me.process.pid;
	if (gethostname(m->me.host, sizeof(m->me.host) - 1) < 0)
		snprintf(m->me.host, sizeof(m->me.host), "unknown host");
	while (!m->me.nonce)
		if (getrandom(&m->me.nonce, sizeof(m->me.nonce), 0) < 0 && errno != EINTR)
			return ckpt_fail_errno(err, "cannot get random numbers");
	ckpt_hello_name(m->own, m->me.rank, m->me.nonce);
	return 0;
}

int ckpt_rendezvous_open_file(const char *folder, const struct ckpt_world *world,
			      struct ckpt_rendezvous **out, struct ckpt_error *err)
{
	static const struct ckpt_rendezvous_ops ops = { "file", gather, share, describe_silent,
							close_file, leave };
	struct ckpt_meeting *m;
	char key[MOST_KEY + 12];
	int rc;

	*out = NULL;
	if (!world->key[0])
		return ckpt_fail(
			err, CKPT_E_ARG,
			"nothing says which start of the job this is, so ranks cannot meet in "
			"'%.200s': give all ranks of each start a --job-key of its own",
			folder);
	if (mkdir(folder, 0777) < 0 && errno != EEXIST)
		return ckpt_error_at(err, ckpt_fail_errno(err, "cannot make the folder"), folder,
				     NULL, CKPT_NO_OFFSET);
	m = calloc(1, sizeof(*m));
	if (!m)
		return ckpt_fail_nomem(err);
	m->base = (struct ckpt_rendezvous){ .ops = &ops, .world = *world };
	escape_key(world->key, key);
	if (asprintf(&m->folder, "%s/%s", folder, key) < 0)
		m->folder = NULL;
	rc = m->folder ? name_this_process(m, err) : ckpt_fail_nomem(err);
	if (rc < 0)
		close_file(&m->base);
	else
		*out = &m->base;
	return rc;
}
