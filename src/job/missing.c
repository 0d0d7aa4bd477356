/* SPDX-License-Identifier: Apache-2.0 */
#include "job/meeting.h"
#include "job/missing_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Which ranks are missing. Only for messages after a timeout: for these, the times of files are
 * good enough, all of them by the clock of the file server.
 */

enum { FRESH_S = 15 };

struct census {
	struct ckpt_meeting *m;
	int64_t since;
	struct ckpt_note twin; /* another process that says it is this rank */
};

static int count_hello(void *ctx, const struct ckpt_sighting *s)
{
	struct census *c = ctx;
	struct ckpt_meeting *m = c->m;
	char name[64];

	ckpt_hello_name(name, s->rank, s->nonce);
	if (s->kind != CKPT_SIGHT_HELLO || s->nonce == m->me.nonce ||
	    ckpt_note_mtime(m->folder, name, m->uid) < c->since)
		return 0;
	/* of many ranks' files only those are read that a message is about */
	if ((s->rank == m->me.rank || s->rank == 0) && ckpt_meeting_is_left_over(m, s->rank, s->nonce))
		return 0;
	/* another rank 0 that lives has seen this one, which then knows it already */
	if (s->rank == m->me.rank && m->me.rank != 0 && !c->twin.nonce &&
	    ckpt_note_read(m->folder, name, m->uid, &c->twin, NULL) == CKPT_NOTE_WHOLE)
		ckpt_note_clear(&c->twin);
	if (s->rank < m->me.size && m->me.rank != 0)
		m->came[s->rank] = true;
	return 0;
}

static int count_ranks(struct census *c, struct ckpt_error *err)
{
	struct ckpt_meeting *m = c->m;

	if (!m->came)
		m->came = calloc(m->me.size, sizeof(*m->came));
	if (!m->came)
		return ckpt_fail_nomem(err);
	ckpt_note_touch(m->folder, m->own);
	c->since = ckpt_note_mtime(m->folder, m->own, m->uid) - FRESH_S * INT64_C(1000000000);
	m->came[m->me.rank] = true;
	/* rank 0 knows better */
	for (uint32_t i = 0; m->me.rank == 0 && i < m->me.size; i++)
		m->came[i] = m->roll[i].nonce != 0;
	return ckpt_meeting_list(m->folder, count_hello, c, err);
}

int ckpt_meeting_record_who_came(struct ckpt_meeting *m, struct ckpt_error *err)
{
	struct census c = { .m = m };

	return count_ranks(&c, err);
}

/* The first rank that rank 0 has met and that has left since. */
static bool describe_who_left(const struct ckpt_meeting *m, char *text, size_t size)
{
	for (uint32_t i = 0; m->me.rank == 0 && i < m->me.size; i++) {
		const struct ckpt_roll_entry *e = &m->roll[i];

		if (!e->nonce || e->last_round == m->round)
			continue;
		snprintf(text, size, "rank %" PRIu32 " (%s, pid %" PRIu32 ") came and left", i,
			 e->host, e->pid);
		return true;
	}
	return false;
}

static int fail_twin(const struct census *c, struct ckpt_error *err)
{
	const struct ckpt_meeting *m = c->m;

	return ckpt_fail(err, CKPT_E_PEER,
			 "two processes say that they are rank %" PRIu32
			 " in '%.200s': %s (pid %" PRIu32 ") and %s (pid %" PRIu32
			 "): give each its own rank, and each start its own --job-key",
			 m->me.rank, m->folder, m->me.host, m->me.pid, c->twin.host, c->twin.pid);
}

static int fail_missing(const struct ckpt_meeting *m, struct ckpt_error *err)
{
	char ranks[160], left[120] = "";
	bool has_left = describe_who_left(m, left, sizeof(left));

	if (ckpt_missing_list(m->came, m->me.size, ranks, sizeof(ranks)))
		return ckpt_fail(
			err, CKPT_E_PEER,
			"waiting for %s in '%.200s': start them, or give all ranks the same "
			"--rdzv folder and --job-key%s%s%s%s%s",
			ranks, m->folder, has_left ? "; " : "", left, m->damaged[0] ? "; '" : "",
			m->damaged,
			m->damaged[0] ? "' is damaged, or of another version of ckpt" : "");
	if (has_left)
		return ckpt_fail(err, CKPT_E_PEER, "%s before all %" PRIu32 " ranks were there",
				 left, m->me.size);
	return ckpt_fail(err, CKPT_E_PEER,
			 "all %" PRIu32 " ranks came to '%.200s', but rank 0 did not answer",
			 m->me.size, m->folder);
}

int ckpt_meeting_fail_missing(struct ckpt_meeting *m, struct ckpt_error *err)
{
	struct census c = { .m = m };
	int rc = count_ranks(&c, err);

	if (rc < 0)
		return rc;
	return c.twin.nonce ? fail_twin(&c, err) : fail_missing(m, err);
}
