/* SPDX-License-Identifier: Apache-2.0 */
#include "base/c_locale.h"
#include "job/meeting.h"

#include "io/fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Every process touches its hello now and then, so that others can tell which has stopped. */

enum { BEAT_S = 5, SILENT_S = 8, MOST_NAMED = 4 };

static void *touch_hello(void *arg)
{
	struct ckpt_meeting *m = arg;
	struct timespec next;

	pthread_mutex_lock(&m->lock);
	while (!m->stopped) {
		int rc = 0;

		clock_gettime(CLOCK_MONOTONIC, &next);
		next.tv_sec += BEAT_S;
		while (!m->stopped && rc == 0)
			rc = pthread_cond_timedwait(&m->stop, &m->lock, &next);
		pthread_mutex_unlock(&m->lock); /* a file server may take its time */
		ckpt_note_touch(m->folder, m->own);
		pthread_mutex_lock(&m->lock);
	}
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

int ckpt_heartbeat_start(struct ckpt_meeting *m, struct ckpt_error *err)
{
	pthread_condattr_t attr;
	int code;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->stop, &attr);
	pthread_condattr_destroy(&attr);
	code = ckpt_io_thread(&m->thread, touch_hello, m);
	m->beats = code == 0;
	if (m->beats)
		return 0;
	pthread_cond_destroy(&m->stop);
	pthread_mutex_destroy(&m->lock);
	return ckpt_fail(err, CKPT_E_NOMEM, "cannot start a thread: %s", ckpt_errno_text(code));
}

void ckpt_heartbeat_stop(struct ckpt_meeting *m)
{
	if (!m->beats)
		return;
	pthread_mutex_lock(&m->lock);
	m->stopped = true;
	pthread_cond_broadcast(&m->stop);
	pthread_mutex_unlock(&m->lock);
	pthread_join(m->thread, NULL);
	pthread_cond_destroy(&m->stop);
	pthread_mutex_destroy(&m->lock);
	m->beats = false;
}

/* Seconds that the rank in SEAT is behind NOW, or 0 if that is not known. */
static int64_t seconds_silent(const struct ckpt_meeting *m, const struct ckpt_seat *seat,
			      int64_t now)
{
	char name[64];
	int64_t mtime;

	ckpt_hello_name(name, seat->rank, seat->nonce);
	mtime = ckpt_note_mtime(m->folder, name, m->uid);
	return mtime < 0 ? 0 : (now - mtime) / 1000000000;
}

static bool describe_seat(const struct ckpt_meeting *m, const struct ckpt_seat *seat, int64_t sec,
			  char *text, size_t size)
{
	struct ckpt_note note;
	char name[64];

	ckpt_hello_name(name, seat->rank, seat->nonce);
	if (ckpt_note_read(m->folder, name, m->uid, &note, NULL) != CKPT_NOTE_WHOLE)
		return false;
	snprintf(text, size,
		 "rank %" PRIu32 " (%s, pid %" PRIu32 ") was last heard of %" PRId64 " s ago",
		 seat->rank, note.host, note.pid, sec);
	ckpt_note_clear(&note);
	return true;
}

void ckpt_heartbeat_describe_silent(struct ckpt_meeting *m, char *text, size_t size)
{
	unsigned named = 0;
	size_t len = 0;
	char one[160];
	int64_t now;

	*text = '\0';
	ckpt_note_touch(m->folder, m->own);
	now = ckpt_note_mtime(m->folder, m->own, m->uid);
	for (uint32_t i = 0; now >= 0 && i < m->seat_count && named < MOST_NAMED; i++) {
		const struct ckpt_seat *seat = &m->seats[i];
		int64_t sec = seat->rank == m->me.rank ? 0 : seconds_silent(m, seat, now);

		if (sec <= SILENT_S || !describe_seat(m, seat, sec, one, sizeof(one)) ||
		    len + strlen(one) + 3 > size)
			continue;
		len += (size_t)snprintf(text + len, size - len, "%s%s", named ? ", " : "", one);
		named++;
	}
}
