/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_MEETING_H
#define CKPT_JOB_MEETING_H

#include "job/note.h"
#include "job/rendezvous.h"

#include <pthread.h>

/*
 * How ranks meet in a folder. The key should be new with every start, but not every key is: a job
 * is started again by hand, a requeued one has the name of the first. So the folder may hold files
 * of starts that died, at any step, and of ranks that were killed during a start. No file is ever
 * read as one of this start because of its name, its time or its place; what counts is an answer to
 * a number that only this start can know. Every process has a nonce, 64 random bits, and writes
 * only files that have it in their names:
 *
 *   hello.RANK.NONCE        written by every rank when it starts: who it is, and its hello
 *   seen.FIRST.RANK.NONCE   empty; written by every process for every hello of a rank 0 that it
 *                           finds; FIRST is the nonce of that rank 0
 *   answer.FIRST            written by that rank 0: the answer, and the ranks and nonces that it is
 *                           for
 *   left.FIRST.RANK.NONCE   written by a process that cannot go on, for that rank 0: why. Rank 0
 *                           removes it when it has read it, and tells all
 *
 * Rank 0 accepts a hello only if there is a file that says that its process has seen rank 0. The
 * process that wrote it was alive after rank 0 started: a file of a dead process never names a
 * nonce that was drawn later. A rank accepts an answer only if its own nonce is in it: the process
 * that wrote it has read the rank's hello. So whatever else is in the folder, both sides are
 * processes that ran at the same time; no file is ever overwritten, and no order of events matters.
 * Two processes that claim to be the same rank have files of their own: rank 0 sees both and tells
 * all. Two ranks 0 see each other in the same way.
 *
 * A rank that has the answer removes what it wrote for rank 0, and rank 0 waits for that before it
 * removes the answer. Every process removes its own files, and the one that finds the folder empty
 * removes the folder. Processes that were killed leave their files, some hundred bytes that do no
 * harm; rank 0 removes those of which it can tell that their process has ended (process_mark.h).
 *
 * The file system only has to show a renamed file as a whole, and show it sooner or later in a
 * folder that is opened anew (NFS: when its cache of attributes has expired, seconds).
 */
struct ckpt_seat {
	uint32_t rank;
	uint64_t nonce;
};

/* What rank 0 knows about a rank. */
struct ckpt_roll_entry {
	uint64_t nonce;	     /* 0: it was never there */
	uint64_t last_round; /* in which it was there */
	uint32_t pid;
	char host[64];
};

enum { CKPT_MOST_TOLD = 16 };

struct ckpt_meeting {
	struct ckpt_rendezvous base;
	char *folder; /* owned: FOLDER/KEY */
	char own[64]; /* name of the hello */
	struct ckpt_note me;
	uid_t uid;     /* of our files, as the file server has it */
	bool is_there; /* the hello is written */

	/* Ranks 0 for which this process wrote a "seen" file; one of them may be its own. */
	uint64_t *firsts; /* owned */
	uint32_t first_count, first_cap;

	bool *came; /* owned; by rank, for messages; NULL: not counted yet */

	/* On rank 0. */
	struct ckpt_roll_entry *roll; /* owned; by rank */
	uint64_t round;		      /* of the roll call */
	uint8_t *all;		      /* borrowed: hellos by rank */
	struct ckpt_seat *met;	      /* owned: who has seen this rank 0, also if it was refused */
	uint32_t met_count, met_cap;
	char damaged[64]; /* name of a file that cannot be read */

	uint32_t left_count;	      /* processes that cannot go on */

	/* Ranks 0 that this process has told that it cannot go on. */
	uint64_t told_firsts[CKPT_MOST_TOLD];
	uint32_t told_count;

	/* Whom the answer is for; on all ranks once it is there. */
	struct ckpt_seat *seats; /* owned */
	uint32_t seat_count;
	uint64_t answered_by; /* nonce of rank 0; 0: there is no answer yet */
	uint32_t waiting;     /* how many of them had not read it when last counted */
	uint32_t first_waiting; /* the lowest rank of these */
	bool has_refused;     /* on rank 0: it has told all that they end */

	pthread_t thread; /* touches the hello now and then */
	pthread_mutex_t lock;
	pthread_cond_t stop;
	bool beats, stopped;
};

/* ---- the folder ---- */

enum ckpt_sighting_kind { CKPT_SIGHT_HELLO, CKPT_SIGHT_SEEN, CKPT_SIGHT_ANSWER, CKPT_SIGHT_LEFT };

struct ckpt_sighting {
	enum ckpt_sighting_kind kind;
	uint32_t rank;
	uint64_t first, nonce; /* as in the names above */
};

/* Calls VISIT for every file of a meeting in FOLDER, until it returns an error. */
int ckpt_meeting_list(const char *folder, int (*visit)(void *ctx, const struct ckpt_sighting *s),
		      void *ctx, struct ckpt_error *err);

void ckpt_hello_name(char out[64], uint32_t rank, uint64_t nonce);
void ckpt_seen_name(char out[64], uint64_t first, uint32_t rank, uint64_t nonce);
void ckpt_answer_name(char out[64], uint64_t first);
void ckpt_left_name(char out[64], uint64_t first, uint32_t rank, uint64_t nonce);

/* Write the file that says that this process has seen the rank 0 of nonce FIRST. */
int ckpt_meeting_acknowledge(struct ckpt_meeting *m, uint64_t first, struct ckpt_error *err);
void ckpt_meeting_remove(const struct ckpt_meeting *m, const char *name);

/* The files of ranks that ended without a word, as far as that can be told from this host. */
void ckpt_meeting_remove_left_over(const struct ckpt_meeting *m);

/* Has the process of RANK and NONCE ended without a word? */
bool ckpt_meeting_is_left_over(const struct ckpt_meeting *m, uint32_t rank, uint64_t nonce);

/* ---- who is there: rank 0 ---- */

/*
 * One round. 1: all ranks are there, with their hellos in m->all; 0: not yet; CKPT_E_PEER: there
 * are processes that cannot belong to one start.
 */
int ckpt_roll_call(struct ckpt_meeting *m, struct ckpt_error *err);

/* ---- the answer ---- */

/* On rank 0: LEN bytes for the processes in SEATS; if REFUSED, why (failure_notice.h). */
int ckpt_answer_write(struct ckpt_meeting *m, bool refused, const struct ckpt_seat *seats,
		      uint32_t count, const void *bytes, size_t len, struct ckpt_error *err);

/*
 * On other ranks: the answer of the rank 0 of nonce FIRST. 1: BYTES are filled; 0: there is none,
 * or it is not for this process; else it is a refusal, and says why, also in m->base.told.
 */
int ckpt_answer_read(struct ckpt_meeting *m, uint64_t first, void *bytes, size_t len,
		     struct ckpt_error *err);

/* ---- who is missing, or silent ---- */

/*
 * Not on rank 0: ranks that are there now count as present, even if they give up a little earlier
 * than this process does.
 */
int ckpt_meeting_record_who_came(struct ckpt_meeting *m, struct ckpt_error *err);

/* CKPT_E_PEER, with the ranks that are missing. On any rank. */
int ckpt_meeting_fail_missing(struct ckpt_meeting *m, struct ckpt_error *err);

int ckpt_heartbeat_start(struct ckpt_meeting *m, struct ckpt_error *err);
void ckpt_heartbeat_stop(struct ckpt_meeting *m);
void ckpt_heartbeat_describe_silent(struct ckpt_meeting *m, char *text, size_t size);

#endif
