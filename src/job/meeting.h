/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_MEETING_H
#define CKPT_JOB_MEETING_H

#include "job/note.h"
#include "job/rendezvous.h"

#include <pthread.h>

/*
 * How ranks meet in a folder. The key ought to be new with every start, but it is not always: a job
 * is started again by hand, a requeued one has the name of the first. So the folder may hold files
 * of starts that died, at any step, and of ranks that were killed while a start went on. No file is
 * ever read as one of this start because of its name, its time or its place; what counts is an
 * answer to a number that only this start can know. Every process has a nonce, 64 random bits, and
 * writes only files that have it in their names:
 *
 *   hello.RANK.NONCE        written by every rank when it comes: who it is, and its hello
 *   seen.FIRST.RANK.NONCE   empty; written by every process for every hello of a rank 0, of nonce FIRST, that it finds
 *   answer.FIRST            written by that rank 0: the answer, and the ranks and nonces that it is for
 *
 * Rank 0 takes a hello only if there is a file that says that its process has seen rank 0. Who
 * wrote that was alive behind rank 0's start: what a dead process left never names a nonce that was
 * drawn later. A rank takes an answer only if its own nonce is in it: who wrote that has read its
 * hello. So whatever else lies in the folder, both sides are of processes that ran at the same
 * time; nothing is ever written over, and no order of events has to be thought of. Two processes
 * that say that they are one rank have files of their own: rank 0 sees both, and tells all. So do
 * two ranks 0, which see each other.
 *
 * A rank that has the answer removes what it wrote for rank 0, and rank 0 waits for that before it
 * takes the answer away. Every process removes its own files, and the one that finds the folder
 * empty the folder. Processes that were killed leave theirs; they are some hundred bytes, and harm
 * nobody.
 *
 * All of this asks of the file system only that a renamed file is there as a whole, and that a
 * folder which is opened anew sooner or later shows it (NFS: when its cache of attributes has run
 * out, seconds).
 */
struct ckpt_seat {
	uint32_t rank;
	uint64_t nonce;
};

/* What rank 0 knows of a rank. */
struct ckpt_roll_entry {
	uint64_t nonce; /* 0: it has never come */
	uint64_t last_round; /* at which it was there */
	uint32_t pid;
	char host[64];
};

struct ckpt_meeting {
	struct ckpt_rendezvous base;
	char *folder; /* owned: FOLDER/KEY */
	char own[64]; /* name of the hello */
	struct ckpt_note me;
	uid_t uid;     /* of our files, as the file server has it */
	bool is_there; /* the hello is written */

	/* Ranks 0 that this process has said that it saw, one of which may be its own. */
	uint64_t *firsts; /* owned */
	uint32_t first_count, first_cap;

	bool *came; /* owned; by rank, for messages; NULL: nobody has looked yet */

	/* On rank 0. */
	struct ckpt_roll_entry *roll; /* owned; by rank */
	uint64_t round;		      /* of the roll call */
	uint8_t *all;	       /* borrowed: hellos by rank */
	struct ckpt_seat *met; /* owned: who has seen this rank 0, even if it cannot be taken */
	uint32_t met_count, met_cap;
	char damaged[64]; /* name of a file that cannot be read */

	/* Who the answer is for; on all ranks once it is there. */
	struct ckpt_seat *seats; /* owned */
	uint32_t seat_count;
	uint64_t answered_by; /* nonce of rank 0; 0: there is no answer yet */
	uint32_t waiting;     /* how many of them had not taken it when last counted */

	pthread_t thread; /* that touches the hello */
	pthread_mutex_t lock;
	pthread_cond_t stop;
	bool beats, stopped;
};

/* ---- the folder ---- */

enum ckpt_sighting_kind { CKPT_SIGHT_HELLO, CKPT_SIGHT_SEEN, CKPT_SIGHT_ANSWER };

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

/* Tell the rank 0 of nonce FIRST that this process has seen it. */
int ckpt_meeting_acknowledge(struct ckpt_meeting *m, uint64_t first, struct ckpt_error *err);
void ckpt_meeting_remove(const struct ckpt_meeting *m, const char *name);

/* ---- who is there: rank 0 ---- */

/*
 * One round. 1: all ranks are there, and their hellos in m->all; 0: not yet; CKPT_E_PEER: there are
 * processes that cannot be of one start.
 */
int ckpt_roll_call(struct ckpt_meeting *m, struct ckpt_error *err);

/* ---- the answer ---- */

/* On rank 0: LEN bytes for the processes in SEATS; if REFUSED, a sentence that says why. */
int ckpt_answer_write(struct ckpt_meeting *m, bool refused, const struct ckpt_seat *seats,
		      uint32_t count, const void *bytes, size_t len, struct ckpt_error *err);

/*
 * On other ranks: that of the rank 0 of nonce FIRST. 1: BYTES are filled; 0: there is none, or not
 * for this process; CKPT_E_PEER: it refuses, and says why.
 */
int ckpt_answer_read(struct ckpt_meeting *m, uint64_t first, void *bytes, size_t len,
		     struct ckpt_error *err);

/* ---- who is missing, or silent ---- */

/*
 * Not on rank 0: who is there now has come, even if it gives up a little earlier than this process
 * does.
 */
int ckpt_meeting_record_who_came(struct ckpt_meeting *m, struct ckpt_error *err);

/* CKPT_E_PEER, with the ranks that did not come. On any rank. */
int ckpt_meeting_fail_missing(struct ckpt_meeting *m, struct ckpt_error *err);

int ckpt_heartbeat_start(struct ckpt_meeting *m, struct ckpt_error *err);
void ckpt_heartbeat_stop(struct ckpt_meeting *m);
void ckpt_heartbeat_describe_silent(struct ckpt_meeting *m, char *text, size_t size);

#endif
