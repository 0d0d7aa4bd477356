/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last two steps: all bytes have arrived, are they the same everywhere, and on the disk? Then
 * the files get their names.
 *
 * What must stay true: a name is given only after a vote that all checksums agree, that all files
 * are synced, and that the sources did not change meanwhile. A rank that has dropped out takes part
 * in every vote and compares nothing.
 */
#include "broadcast/steps.h"

#include "base/clock.h"
#include "broadcast/destination.h"
#include "broadcast/reread.h"
#include "broadcast/undo.h"
#include "broadcast/votes.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds. */
static const uint64_t SECOND = 1000000000, TENTH = 100000000, LEAST_SLOW = 1000000000;
static const uint64_t MIB = 1 << 20, TENTHS_OF_MB = 10ull * 1048576 * 1000; /* in a second, by nanoseconds for a MiB */

enum { RANK_BITS = 24 };

/*
 * The first rank sends the checksums of the bytes that it received, and all ranks must have the
 * same. A rank that has dropped out did not see all bytes.
 */
static int compare_crcs(struct ckpt_session *s)
{
	uint32_t *crcs, mine, firsts, first = 0;
	int rc = 0;

	if (s->o.flags & CKPT_BROADCAST_NO_VERIFY)
		return 0;
	s->crcs = crcs = calloc(s->manifest.count, sizeof(*crcs));
	if (crcs)
		ckpt_ring_crcs(s->ring, crcs);
	else
		rc = ckpt_fail_nomem(&s->err);
	if (ckpt_session_agree(s, rc, CKPT_BROADCAST_SETUP))
		return s->code;
	mine = firsts = libdeflate_crc32(0, crcs, s->manifest.count * sizeof(*crcs));
	rc = ckpt_agree_first(&s->agreement, !s->dropped, &first, &s->err);
	if (rc == 0)
		rc = ckpt_agree_send(&s->agreement, &firsts, sizeof(firsts), first, &s->err);
	if (rc == 0 && mine != firsts && !s->dropped)
		rc = ckpt_fail(&s->err, CKPT_E_FORMAT,
			       "other bytes came than rank %u has: memory or network is broken",
			       first);
	if (rc == 0 && s->o.has_expected && crcs[0] != s->o.expected_crc32 && !s->dropped)
		rc = ckpt_error_at(&s->err,
				   ckpt_fail(&s->err, CKPT_E_FORMAT,
					     "has crc32 %08" PRIx32 ", wanted %08" PRIx32, crcs[0],
					     s->o.expected_crc32),
				   s->sources[0], NULL, CKPT_NO_OFFSET);
	return ckpt_session_agree(s, rc, CKPT_BROADCAST_DAMAGED);
}

/* On the ranks that read: are the sources still what they were? */
static int check_sources(struct ckpt_session *s)
{
	for (uint32_t i = 0; s->world.rank < s->o.readers && i < s->manifest.count; i++) {
		int rc = ckpt_manifest_check_unchanged(&s->manifest.files[i], s->paths[i], &s->err);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static int reread_files(struct ckpt_session *s)
{
	int rc = 0, code = CKPT_BROADCAST_DESTINATION;
	bool is_here = s->landing && !s->dropped, done = !is_here, all = false;
	struct ckpt_reread reread;

	if (!(s->o.flags & CKPT_BROADCAST_REREAD))
		return 0;
	if (!done)
		rc = ckpt_reread_open(&reread, s->landing, &s->manifest, s->crcs, &s->err);
	while (ckpt_session_agree(s, rc, code) == 0 && !all) {
		int lost;

		if (s->dropped) {
			done = true;
			rc = 0;
		}
		if (!done) { /* for a part of the time that the other ranks wait */
			rc = ckpt_reread_go(&reread, s->agreement.patience_nsec / 4, &done,
					    &s->err);
			code = rc == CKPT_E_FORMAT && !(s->o.flags & CKPT_BROADCAST_KEEP_GOING)
				       ? CKPT_BROADCAST_DAMAGED
				       : CKPT_BROADCAST_DESTINATION;
		}
		lost = ckpt_agree_all(&s->agreement, done, &all, rc ? NULL : &s->err);
		rc = rc ? rc : lost;
	}
	if (is_here)
		ckpt_reread_close(&reread);
	return s->code;
}

/* Of one rank. */
struct disk_time {
	uint64_t waited, written, whole; /* as of ckpt_ring_disk_nsec(); WHOLE: since the bytes began to move */
};

/*
 * The rank whose disk all waited for: at least a second and a quarter of the time, and writing took it twice as long as half of
 * the others. Where all disks are alike, none is. False: there is none.
 */
static bool find_slow(const struct disk_time *of, uint32_t count, uint32_t *slow)
{
	uint32_t faster = 0;

	*slow = 0;
	for (uint32_t i = 1; i < count; i++)
		if (of[i].waited > of[*slow].waited)
			*slow = i;
	for (uint32_t i = 0; i < count; i++)
		faster += of[i].written <= of[*slow].written / 2;
	return of[*slow].waited >= LEAST_SLOW && of[*slow].waited >= of[*slow].whole / 4 && faster >= count / 2;
}

/* Rank 0 says whose disk was slow. */
static int name_slow_disk(struct ckpt_session *s, const struct disk_time *mine)
{
	enum { NUMBERS = sizeof(*mine) / sizeof(uint64_t) };
	const uint64_t numbers[NUMBERS] = { mine->waited, mine->written, mine->whole };
	char host[sizeof(s->agreement.host)];
	struct disk_time *all = calloc(s->world.size, sizeof(*all));
	int rc = all ? 0 : ckpt_fail_nomem(&s->err);
	uint32_t slow;

	if (ckpt_session_agree(s, rc, CKPT_BROADCAST_SETUP) == 0) {
		rc = ckpt_agree_gather(&s->agreement, numbers, NUMBERS, (uint64_t *)all, &s->err);
		if (rc == 0 && find_slow(all, s->world.size, &slow)) {
			memcpy(host, s->agreement.host, sizeof(host));
			rc = ckpt_agree_send(&s->agreement, host, sizeof(host), slow, &s->err);
			host[sizeof(host) - 1] = '\0';
			if (rc == 0 && !s->advice[0])
				snprintf(s->advice, sizeof(s->advice), "all waited %" PRIu64 ".%" PRIu64 " of %" PRIu64 ".%" PRIu64 " s for the disk of rank %u (%s)",
					 all[slow].waited / SECOND, all[slow].waited % SECOND / TENTH, all[slow].whole / SECOND, all[slow].whole % SECOND / TENTH, slow, host);
		}
		ckpt_session_agree(s, rc, CKPT_BROADCAST_LOST);
	}
	free(all);
	return s->code;
}

/* The rank before the slow way says which one that is. */
static int name_slow_way(struct ckpt_session *s, uint32_t slow, const uint64_t nsec_per_mib[2], const struct ckpt_transport_way *mine)
{
	uint64_t took = TENTHS_OF_MB / nsec_per_mib[0], other = TENTHS_OF_MB / (nsec_per_mib[1] + 1);
	char next[100] = "", text[400];
	int rc;

	if (s->world.rank == slow)
		snprintf(next, sizeof(next), "%s", mine->next);
	snprintf(text, sizeof(text), "all waited for the network from rank %u (%s) to %s: it took %" PRIu64 ".%" PRIu64 " MB/s, another one %" PRIu64 ".%" PRIu64,
		 s->world.rank, s->agreement.host, next, took / 10, took % 10, other / 10, other % 10);
	rc = ckpt_agree_send(&s->agreement, text, sizeof(text), slow, &s->err);
	text[sizeof(text) - 1] = '\0';
	if (rc == 0 && !s->advice[0])
		snprintf(s->advice, sizeof(s->advice), "%.255s", text);
	return ckpt_session_agree(s, rc, CKPT_BROADCAST_LOST);
}

/*
 * Nearly always nothing is slow, and one vote says so: a disk that all waited for, or a way between two hosts that was busy nearly
 * all the time. Which of them was the slowest, and whether another one was faster, are seen in the same vote. The way from a rank
 * that reads is the one that the others wait for, too, where all have the same limit.
 */
static int name_slow(struct ckpt_session *s, const struct disk_time *disk)
{
	const struct ckpt_transport *t = s->agreement.transport;
	struct ckpt_transport_way way = { 0 };
	bool has_way = t->ops->look_back && t->ops->look_back(t, &way) && way.nbytes >= MIB;
	uint64_t nsec_per_mib = has_way ? way.nsec / (way.nbytes / MIB) : 0;
	bool is_slow = has_way && s->world.rank >= s->o.readers && way.nsec >= LEAST_SLOW && way.nsec >= disk->whole / 10 * 9 &&
		       nsec_per_mib < UINT64_MAX >> RANK_BITS;
	uint64_t most[] = { disk->waited >= LEAST_SLOW, is_slow ? nsec_per_mib << RANK_BITS | s->world.rank : 0, has_way ? UINT64_MAX - nsec_per_mib : 0 };
	int rc = ckpt_agree_most(&s->agreement, most, sizeof(most) / sizeof(most[0]), &s->err);

	if (rc < 0)
		return ckpt_session_agree(s, rc, CKPT_BROADCAST_LOST);
	if (most[0] && name_slow_disk(s, disk))
		return s->code;
	const uint64_t both[2] = { most[1] >> RANK_BITS, UINT64_MAX - most[2] };
	if (!most[1] || both[1] > both[0] / 3 * 2)
		return 0;
	return name_slow_way(s, (uint32_t)(most[1] & ((1u << RANK_BITS) - 1)), both, &way);
}

int ckpt_step_finish(struct ckpt_session *s)
{
	struct disk_time disk = { 0 };
	uint64_t start = ckpt_now_nsec();
	int rc = 0;

	if (ckpt_session_check_left(s))
		return s->code;
	if (s->landing && !s->dropped) {
		rc = ckpt_landing_finish(s->landing, &s->err);
		ckpt_ring_disk_nsec(s->ring, &disk.waited, &disk.written);
		disk.waited += ckpt_now_nsec() - start;
		disk.written += ckpt_now_nsec() - start;
	}
	disk.whole = ckpt_now_nsec() - s->carry_start;
	if (ckpt_session_agree(s, rc, CKPT_BROADCAST_DESTINATION) || (s->world.size > 1 && name_slow(s, &disk)) || compare_crcs(s) ||
	    reread_files(s))
		return s->code;
	rc = check_sources(s);
	return ckpt_session_agree(s, rc, CKPT_BROADCAST_SOURCE) || ckpt_session_check_left(s);
}

/* Some of the ranks could not give the names. The session's code stays, unless this fails. */
static void undo_names(struct ckpt_session *s, const struct ckpt_undo *undo)
{
	int code = s->code, rc = 0;

	if (undo->made) {
		ckpt_staged_forget(&s->manifest, s->path);
		rc = ckpt_undo_names(undo, s->path, &s->err);
	}
	if (ckpt_session_agree(s, rc, CKPT_BROADCAST_DESTINATION) == 0)
		s->code = code;
}

/* Without its note the copy is there all the same, and is written anew next time. */
static void note_copy(struct ckpt_session *s)
{
	struct ckpt_error why = CKPT_ERROR_INIT;

	if (ckpt_staged_note(&s->manifest, s->path, s->crcs, &why) < 0)
		ckpt_error_text(&why, s->no_note, sizeof(s->no_note));
}

/* A node that dies between naming its file and this vote leaves a whole, checked file. */
int ckpt_step_names(struct ckpt_session *s)
{
	bool all_or_none = s->o.flags & CKPT_BROADCAST_ALL_OR_NONE;
	struct ckpt_undo undo = { 0 };
	int rc = 0;

	s->named = true;
	if (s->landing && all_or_none)
		rc = ckpt_undo_open(&undo, s->landing, &s->manifest, &s->err);
	if (s->landing && rc == 0 && !s->dropped) {
		struct ckpt_landing *landing = s->landing;

		s->landing = NULL;
		ckpt_staged_forget(&s->manifest, s->path);
		rc = ckpt_landing_commit(landing, s->crcs, &s->err);
		if (rc == 0 && !s->manifest.is_directory)
			note_copy(s);
	}
	if (ckpt_session_agree_listing(s, rc, CKPT_BROADCAST_DESTINATION) && all_or_none)
		undo_names(s, &undo);
	ckpt_undo_close(&undo);
	return s->code ? s->code : ckpt_session_check_left(s);
}
