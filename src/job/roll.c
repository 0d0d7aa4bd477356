/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0's list of the processes that are there. A round goes through the files in the folder:
 * whoever has seen this rank 0 is there, and its hello is read once.
 *
 * What must stay true: only a hello whose process has seen this rank 0 counts (meeting.h says why),
 * so a file of an earlier start is never read as one of this start. A round does not end at the
 * first error, so that every process that is to hear of a refusal is met.
 */
#include "job/meeting.h"

#include "base/grow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct roll_round {
	struct ckpt_meeting *m;
	struct ckpt_error *err;
	int rc; /* the first error; the round goes on */
};

static int fail_twice(struct ckpt_meeting *m, uint32_t rank, const char *host, uint32_t pid,
		      const struct ckpt_note *other, struct ckpt_error *err)
{
	return ckpt_fail(err, CKPT_E_PEER,
			 "two processes say that they are rank %" PRIu32
			 " of '%s': %s (pid %" PRIu32 ") and %s (pid %" PRIu32
			 "): give each its own rank, and each start its own "
			 "--job-key",
			 rank, m->base.world.key, host, pid, other->host, other->pid);
}

static int compare_with_us(struct ckpt_meeting *m, const struct ckpt_note *note,
			   struct ckpt_error *err)
{
	if (note->size != m->me.size)
		return ckpt_fail(err, CKPT_E_PEER,
				 "rank %" PRIu32 " (%s, pid %" PRIu32 ") was started for %" PRIu32
				 " ranks, rank 0 (%s, pid %" PRIu32 ") for %" PRIu32
				 ": all need the same",
				 note->rank, note->host, note->pid, note->size, m->me.host,
				 m->me.pid, m->me.size);
	if (note->rank == 0)
		return fail_twice(m, 0, m->me.host, m->me.pid, note, err);
	if (note->len != m->me.len)
		return ckpt_fail(err, CKPT_E_PEER,
				 "rank %" PRIu32 " (%s, pid %" PRIu32 ") is of another version of "
				 "ckpt than rank 0 (%s, pid %" PRIu32
				 "): start the same on all nodes",
				 note->rank, note->host, note->pid, m->me.host, m->me.pid);
	return 0;
}

/*
 * A process that has left has removed its hello: another one may take its place, as when a pod is
 * started again.
 */
static int compare_with_roll(struct ckpt_meeting *m, const struct ckpt_note *note,
			     struct ckpt_error *err)
{
	const struct ckpt_roll_entry *e = &m->roll[note->rank]; /* below its size, which is ours */
	char name[64];

	ckpt_hello_name(name, note->rank, e->nonce);
	if (e->nonce && e->nonce != note->nonce && ckpt_note_mtime(m->folder, name, m->uid) >= 0)
		return fail_twice(m, note->rank, e->host, e->pid, note, err);
	return 0;
}

static void record_hello(struct ckpt_meeting *m, const struct ckpt_note *note)
{
	struct ckpt_roll_entry *e = &m->roll[note->rank];

	e->nonce = note->nonce;
	e->last_round = m->round;
	e->pid = note->pid;
	memcpy(e->host, note->host, sizeof(e->host));
	memcpy(m->all + note->rank * note->len, note->bytes, note->len);
}

/* Read the hello of a process that was not met before. */
static int meet_process(struct ckpt_meeting *m, const struct ckpt_sighting *s,
			struct ckpt_error *err)
{
	struct ckpt_seat *grown;
	struct ckpt_note note;
	char name[64];
	int rc;

	ckpt_hello_name(name, s->rank, s->nonce);
	rc = ckpt_note_read(m->folder, name, m->uid, &note, err);
	if (rc == CKPT_NOTE_DAMAGED)
		snprintf(m->damaged, sizeof(m->damaged), "%s", name);
	if (rc != CKPT_NOTE_WHOLE)
		return rc < 0 ? rc : 0;
	grown = ckpt_grow(m->met, m->met_count, &m->met_cap, sizeof(*grown));
	rc = grown ? 0 : ckpt_fail_nomem(err);
	if (grown) {
		m->met = grown;
		m->met[m->met_count++] = (struct ckpt_seat){ s->rank, s->nonce };
	}
	if (rc == 0 && (note.rank != s->rank || note.nonce != s->nonce || note.rank >= note.size))
		rc = ckpt_fail(err, CKPT_E_PEER, "'%s' is not what its name says", name);
	if (rc == 0)
		rc = compare_with_us(m, &note, err);
	if (rc == 0)
		rc = compare_with_roll(m, &note, err);
	if (rc == 0)
		record_hello(m, &note);
	ckpt_note_clear(&note);
	return rc;
}

static bool was_met(const struct ckpt_meeting *m, const struct ckpt_sighting *s)
{
	for (uint32_t i = 0; i < m->met_count; i++)
		if (m->met[i].nonce == s->nonce && m->met[i].rank == s->rank)
			return true;
	return false;
}

/* A rank cannot go on. That it is read is what it waits for. */
static int take_notice(struct ckpt_meeting *m, const struct ckpt_sighting *s, struct ckpt_error *err)
{
	struct ckpt_note note;
	char name[64];
	int rc;

	ckpt_left_name(name, s->first, s->rank, s->nonce);
	rc = ckpt_note_read(m->folder, name, m->uid, &note, err);
	if (rc == CKPT_NOTE_NONE || rc < 0)
		return rc < 0 ? rc : 0;
	if (!m->base.is_told) {
		m->base.is_told = true;
		ckpt_failure_notice_read(note.bytes, rc == CKPT_NOTE_WHOLE ? note.len : 0, &m->base.told);
	}
	ckpt_note_clear(&note);
	ckpt_meeting_remove(m, name);
	m->left_count += !was_met(m, s);
	return ckpt_failure_notice_fail(&m->base.told, err);
}

static int visit_sighting(void *ctx, const struct ckpt_sighting *s)
{
	struct roll_round *round = ctx;
	struct ckpt_meeting *m = round->m;
	struct ckpt_error *err = round->rc == 0 ? round->err : NULL;
	struct ckpt_roll_entry *e;
	int rc = 0;

	/* another rank 0: it may be alive, and do the same as this one */
	if (s->kind == CKPT_SIGHT_HELLO && s->rank == 0 && s->nonce != m->me.nonce)
		rc = ckpt_meeting_acknowledge(m, s->nonce, err);
	if (s->kind == CKPT_SIGHT_SEEN && s->first == m->me.nonce) {
		e = s->rank < m->me.size ? &m->roll[s->rank] : NULL;
		if (e && e->nonce == s->nonce)
			e->last_round = m->round;
		else if (!was_met(m, s))
			rc = meet_process(m, s, err);
	}
	if (s->kind == CKPT_SIGHT_LEFT && s->first == m->me.nonce)
		rc = take_notice(m, s, err);
	if (round->rc == 0)
		round->rc = rc;
	return 0;
}

int ckpt_roll_call(struct ckpt_meeting *m, struct ckpt_error *err)
{
	struct roll_round round = { m, err, 0 };
	uint32_t there = 0;
	int rc;

	m->round++;
	m->roll[0].last_round = m->round;
	rc = ckpt_meeting_list(m->folder, visit_sighting, &round, err);
	if (rc < 0 || round.rc < 0)
		return round.rc < 0 ? round.rc : rc;
	for (uint32_t i = 0; i < m->me.size; i++)
		there += m->roll[i].last_round == m->round;
	return there == m->me.size;
}
