/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_TCP_WIRE_H
#define CKPT_JOB_TCP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What ranks that meet over TCP say to each other, as bytes. Both sides have a secret, the job's
 * token, and prove it before anything counts:
 *
 *   rank -> rank 0   JOIN: who it is, and a number that it drew for this connection
 *   rank 0 -> rank   CHALLENGE: who that is, and a number of its own
 *   rank -> rank 0   PROOF: a keyed hash of the two
 *   rank 0 -> rank   VERDICT: that it was wrong; or, as rank 0's own proof, a keyed hash of the three
 *
 * So who only connects gets nothing that depends on the token, what was recorded on one connection
 * is worth nothing on another, and no side's proof can pass for the other's. From then on both send
 * frames, each with a keyed hash of its own over its number, so that nothing can be put in between,
 * left out or sent twice. Nothing is encrypted.
 *
 * Numbers are little-endian. A reader never takes more bytes than the message has that it waits for.
 */

enum {
	CKPT_WIRE_VERSION = 2,
	CKPT_WIRE_KEY = 32, /* bytes of keys, hashes and drawn numbers */
	CKPT_WIRE_HOST = 64,
	CKPT_WIRE_JOIN = 168,
	CKPT_WIRE_CHALLENGE = 112,
	CKPT_WIRE_PROOF = CKPT_WIRE_KEY,
	CKPT_WIRE_VERDICT = 4 + CKPT_WIRE_KEY,
	CKPT_WIRE_HEAD = 8, /* of a frame */
	CKPT_WIRE_MOST_BYTES = 4096,
	CKPT_WIRE_MOST_FRAME = CKPT_WIRE_HEAD + CKPT_WIRE_MOST_BYTES + CKPT_WIRE_KEY,
};

struct ckpt_wire_join {
	uint32_t version, rank, size, pid;
	uint8_t process[16];	       /* drawn once in a process: it may come again */
	uint8_t nonce[CKPT_WIRE_KEY];  /* drawn for this connection */
	uint8_t key[CKPT_WIRE_KEY];    /* a hash of the job's key */
	char host[CKPT_WIRE_HOST];     /* printable */
};

void ckpt_wire_write_join(const struct ckpt_wire_join *join, uint8_t out[CKPT_WIRE_JOIN]);
/* False: it is none, of any version. Of another version only VERSION is read. */
bool ckpt_wire_read_join(const uint8_t in[CKPT_WIRE_JOIN], struct ckpt_wire_join *out);

struct ckpt_wire_challenge {
	uint32_t version, pid;
	uint8_t nonce[CKPT_WIRE_KEY];
	char host[CKPT_WIRE_HOST];
};

void ckpt_wire_write_challenge(const struct ckpt_wire_challenge *challenge,
			       uint8_t out[CKPT_WIRE_CHALLENGE]);
bool ckpt_wire_read_challenge(const uint8_t in[CKPT_WIRE_CHALLENGE],
			      struct ckpt_wire_challenge *out);

enum ckpt_wire_verdict { CKPT_WIRE_WELCOME = 1, CKPT_WIRE_WRONG_TOKEN = 2 };

/* Both sides' view of one connection: what was said, and the keys that follow from it. */
struct ckpt_wire_session {
	uint8_t join[CKPT_WIRE_JOIN], challenge[CKPT_WIRE_CHALLENGE];
	uint8_t key_of_rank[CKPT_WIRE_KEY], key_of_rank0[CKPT_WIRE_KEY];
	uint64_t sent, received; /* frames */
	bool is_rank0;
};

/* The secret of a token, so that the token itself need not be kept. */
void ckpt_wire_make_secret(const void *token, size_t len, uint8_t out[CKPT_WIRE_KEY]);
void ckpt_wire_hash_key(const char *job_key, uint8_t out[CKPT_WIRE_KEY]);

/* A secret for one use, from one that lasts: NONCE is drawn anew. */
void ckpt_wire_derive_secret(const uint8_t secret[CKPT_WIRE_KEY], const uint8_t nonce[CKPT_WIRE_KEY],
			     uint8_t out[CKPT_WIRE_KEY]);

/* From SESSION's join and challenge. */
void ckpt_wire_make_proof(const struct ckpt_wire_session *session,
			  const uint8_t secret[CKPT_WIRE_KEY], uint8_t out[CKPT_WIRE_PROOF]);
/* With the keys of the session, which both sides make once they believe each other. */
void ckpt_wire_make_welcome(struct ckpt_wire_session *session, const uint8_t secret[CKPT_WIRE_KEY],
			    uint8_t out[CKPT_WIRE_VERDICT]);
void ckpt_wire_make_rejection(uint8_t out[CKPT_WIRE_VERDICT]);
/* 0 where it is neither, or its proof is wrong. */
int ckpt_wire_read_verdict(struct ckpt_wire_session *session, const uint8_t secret[CKPT_WIRE_KEY],
			   const uint8_t in[CKPT_WIRE_VERDICT]);
/* Without telling by the time it takes where they differ. */
bool ckpt_wire_is_same(const uint8_t *a, const uint8_t *b, size_t len);

enum ckpt_wire_kind {
	CKPT_WIRE_HELLO = 1, /* of a rank */
	CKPT_WIRE_ANSWER,    /* rank 0's, to all */
	CKPT_WIRE_TAKEN,     /* the rank has it */
	CKPT_WIRE_REFUSED,   /* rank 0: all end, for this reason (failure_notice.h) */
	CKPT_WIRE_LATER,     /* rank 0: this is a meeting of another key, try again */
	CKPT_WIRE_WAITING,   /* rank 0: for these ranks */
	CKPT_WIRE_BEAT,	     /* the process lives */
	CKPT_WIRE_BYE,	     /* it leaves in order */
	/* once they have met, where they carry over TCP: */
	CKPT_WIRE_VOTE,	   /* a rank's numbers */
	CKPT_WIRE_RESULT,  /* the greatest of all */
	CKPT_WIRE_STOP,	   /* a rank cannot go on, and why (failure_notice.h); also while they meet */
	CKPT_WIRE_MISSING, /* rank 0: these do not answer */
	CKPT_WIRE_MOVING,  /* a rank, or rank 0 of one: something still moves */
	CKPT_WIRE_KINDS
};

/* LEN bytes, up to CKPT_WIRE_MOST_BYTES. Returns how long the frame is. */
size_t ckpt_wire_write_frame(struct ckpt_wire_session *session, enum ckpt_wire_kind kind,
			     const void *bytes, size_t len, uint8_t out[CKPT_WIRE_MOST_FRAME]);

/*
 * How long the frame is that begins with HEAD, or 0: no frame begins so. The length is believed
 * before its hash is known, so it is bounded here.
 */
size_t ckpt_wire_frame_size(const uint8_t head[CKPT_WIRE_HEAD]);

/* The next whole frame. False: it is not what the other side sent next. *BYTES points into FRAME. */
bool ckpt_wire_read_frame(struct ckpt_wire_session *session, const uint8_t *frame, size_t size,
			  enum ckpt_wire_kind *kind, const uint8_t **bytes, size_t *len);

#endif
