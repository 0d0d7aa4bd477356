/* SPDX-License-Identifier: Apache-2.0 */
#include "job/meeting.h"

#include "base/buf.h"
#include "base/reader.h"

#include <stdlib.h>
#include <string.h>

/*
 * What rank 0 leaves for the others: whether it refuses them, who it is for, and the bytes, or the
 * reason.
 */

int ckpt_answer_write(struct ckpt_meeting *m, bool refused, const struct ckpt_seat *seats,
		      uint32_t count, const void *bytes, size_t len, struct ckpt_error *err)
{
	struct ckpt_note note = m->me;
	struct ckpt_buf b = { 0 };
	char name[64];
	int rc;

	ckpt_buf_add_u32(&b, refused);
	ckpt_buf_add_u32(&b, count);
	for (uint32_t i = 0; i < count; i++) {
		ckpt_buf_add_u32(&b, seats[i].rank);
		ckpt_buf_add_u64(&b, seats[i].nonce);
	}
	ckpt_buf_add_u32(&b, (uint32_t)len);
	ckpt_buf_add(&b, bytes, len);
	note.bytes = b.data;
	note.len = b.len;
	ckpt_answer_name(name, m->me.nonce);
	rc = b.bad ? ckpt_fail_nomem(err) : ckpt_note_write(m->folder, name, &note, err);
	ckpt_buf_clear(&b);
	if (rc == 0)
		m->answered_by = m->me.nonce;
	return rc;
}

static int read_seats(struct ckpt_meeting *m, struct ckpt_reader *r, bool *is_for_us,
		      struct ckpt_error *err)
{
	uint32_t count = ckpt_read_u32(r);
	struct ckpt_seat *seats;

	*is_for_us = false;
	if (r->bad || count > (r->len - r->pos) / 12)
		return 0;
	seats = calloc(count + (size_t)1, sizeof(*seats));
	if (!seats)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < count; i++) {
		seats[i].rank = ckpt_read_u32(r);
		seats[i].nonce = ckpt_read_u64(r);
		*is_for_us |= seats[i].rank == m->me.rank && seats[i].nonce == m->me.nonce;
	}
	if (*is_for_us) {
		m->seats = seats;
		m->seat_count = count;
	} else {
		free(seats);
	}
	return 0;
}

static int read_answer(struct ckpt_meeting *m, const struct ckpt_note *note, void *bytes,
		       size_t len, struct ckpt_error *err)
{
	struct ckpt_reader r = { note->bytes, note->len, 0, false };
	uint32_t refused = ckpt_read_u32(&r), given;
	bool is_for_us;
	const void *p;
	int rc = read_seats(m, &r, &is_for_us, err);

	if (rc < 0 || !is_for_us)
		return rc;
	m->answered_by = note->nonce;
	given = ckpt_read_u32(&r);
	p = ckpt_read_bytes(&r, given);
	if (refused && p) {
		ckpt_failure_notice_read(p, given, &m->base.told);
		m->base.is_told = true;
		return ckpt_failure_notice_fail(&m->base.told, err);
	}
	if (!p || given != len)
		return ckpt_fail(
			err, CKPT_E_PEER,
			"rank 0 (%s, pid %u) answered with %u bytes, wanted %zu: start the "
			"same ckpt on all nodes",
			note->host, note->pid, given, len);
	if (len)
		memcpy(bytes, p, len);
	return 1;
}

int ckpt_answer_read(struct ckpt_meeting *m, uint64_t first, void *bytes, size_t len,
		     struct ckpt_error *err)
{
	struct ckpt_note note;
	char name[64];
	int rc;

	ckpt_answer_name(name, first);
	rc = ckpt_note_read(m->folder, name, m->uid, &note, err);
	if (rc != CKPT_NOTE_WHOLE)
		return rc < 0 ? rc : 0;
	rc = note.nonce == first ? read_answer(m, &note, bytes, len, err) : 0;
	ckpt_note_clear(&note);
	return rc;
}
