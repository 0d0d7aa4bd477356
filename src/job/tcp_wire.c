/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of ranks over TCP as bytes, and their keyed hashes (HMAC-SHA-256).
 *
 * What must stay true: the token itself is never in a message, and every hash begins with a label that no
 * other has, so that none can stand for another. A length is bounded before it is believed, and hashes are
 * compared without telling by the time where they differ. What is shown before a proof is printable.
 */
#include "job/tcp_wire.h"

#include <assert.h>
#include <nettle/hmac.h>
#include <nettle/version.h>
#include <string.h>

static const char magic[8] = "CKPTMEET";

/* ---- fields: writing and reading are one list, so that they cannot come apart ---- */

struct cursor {
	uint8_t *out;	   /* NULL: reading */
	const uint8_t *in; /* NULL: writing */
	size_t pos;
};

static void number(struct cursor *c, uint32_t *value)
{
	uint32_t read = 0;

	for (int i = 0; i < 4; i++, c->pos++) {
		if (c->out)
			c->out[c->pos] = (uint8_t)(*value >> (8 * i));
		else
			read |= (uint32_t)c->in[c->pos] << (8 * i);
	}
	if (!c->out)
		*value = read;
}

static void bytes(struct cursor *c, void *field, size_t len)
{
	if (c->out)
		memcpy(c->out + c->pos, field, len);
	else
		memcpy(field, c->in + c->pos, len);
	c->pos += len;
}

/* It is shown before anything is proven. */
static void host(struct cursor *c, char field[CKPT_WIRE_HOST])
{
	bytes(c, field, CKPT_WIRE_HOST);
	field[CKPT_WIRE_HOST - 1] = '\0';
	for (char *p = field; *p; p++)
		if (*p <= 0x20 || *p >= 0x7f)
			*p = '?';
}

static void go_through_join(struct cursor *c, struct ckpt_wire_join *j)
{
	number(c, &j->rank);
	number(c, &j->size);
	number(c, &j->pid);
	bytes(c, j->process, sizeof(j->process));
	bytes(c, j->nonce, sizeof(j->nonce));
	bytes(c, j->key, sizeof(j->key));
	host(c, j->host);
}

static void go_through_challenge(struct cursor *c, struct ckpt_wire_challenge *h)
{
	number(c, &h->pid);
	bytes(c, h->nonce, sizeof(h->nonce));
	host(c, h->host);
}

/* What all versions begin with. */
static bool go_through_head(struct cursor *c, uint32_t *version)
{
	char found[sizeof(magic)];

	memcpy(found, magic, sizeof(found));
	bytes(c, found, sizeof(found));
	number(c, version);
	return !memcmp(found, magic, sizeof(found));
}

void ckpt_wire_write_join(const struct ckpt_wire_join *join, uint8_t out[CKPT_WIRE_JOIN])
{
	struct ckpt_wire_join j = *join;
	struct cursor c = { .out = out };

	go_through_head(&c, &j.version);
	go_through_join(&c, &j);
	assert(c.pos == CKPT_WIRE_JOIN);
}

bool ckpt_wire_read_join(const uint8_t in[CKPT_WIRE_JOIN], struct ckpt_wire_join *out)
{
	struct cursor c = { .in = in };

	*out = (struct ckpt_wire_join){ 0 };
	if (!go_through_head(&c, &out->version))
		return false;
	if (out->version == CKPT_WIRE_VERSION)
		go_through_join(&c, out);
	return true;
}

void ckpt_wire_write_challenge(const struct ckpt_wire_challenge *challenge,
			       uint8_t out[CKPT_WIRE_CHALLENGE])
{
	struct ckpt_wire_challenge h = *challenge;
	struct cursor c = { .out = out };

	go_through_head(&c, &h.version);
	go_through_challenge(&c, &h);
	assert(c.pos == CKPT_WIRE_CHALLENGE);
}

bool ckpt_wire_read_challenge(const uint8_t in[CKPT_WIRE_CHALLENGE],
			      struct ckpt_wire_challenge *out)
{
	struct cursor c = { .in = in };

	*out = (struct ckpt_wire_challenge){ 0 };
	if (!go_through_head(&c, &out->version))
		return false;
	if (out->version == CKPT_WIRE_VERSION)
		go_through_challenge(&c, out);
	return true;
}

/* ---- keyed hashes ---- */

static void finish(struct hmac_sha256_ctx *ctx, uint8_t out[CKPT_WIRE_KEY])
{
#if NETTLE_VERSION_MAJOR >= 4
	hmac_sha256_digest(ctx, out);
#else
	hmac_sha256_digest(ctx, CKPT_WIRE_KEY, out);
#endif
}

/* Of LABEL, with the NUL behind it, so that no label is the beginning of another. */
static void begin(struct hmac_sha256_ctx *ctx, const void *key, size_t len, const char *label)
{
	hmac_sha256_set_key(ctx, len, key);
	hmac_sha256_update(ctx, strlen(label) + 1, (const uint8_t *)label);
}

/* Of everything that both sides said, the same on both. */
static void hash_session(const struct ckpt_wire_session *s, const uint8_t secret[CKPT_WIRE_KEY],
			 const char *label, uint8_t out[CKPT_WIRE_KEY])
{
	struct hmac_sha256_ctx ctx;

	begin(&ctx, secret, CKPT_WIRE_KEY, label);
	hmac_sha256_update(&ctx, sizeof(s->join), s->join);
	hmac_sha256_update(&ctx, sizeof(s->challenge), s->challenge);
	finish(&ctx, out);
}

void ckpt_wire_make_secret(const void *token, size_t len, uint8_t out[CKPT_WIRE_KEY])
{
	struct hmac_sha256_ctx ctx;

	begin(&ctx, token, len, "ckpt: a token");
	finish(&ctx, out);
}

void ckpt_wire_hash_key(const char *job_key, uint8_t out[CKPT_WIRE_KEY])
{
	struct hmac_sha256_ctx ctx;

	begin(&ctx, job_key, strlen(job_key), "ckpt: a key of a job");
	finish(&ctx, out);
}

void ckpt_wire_derive_secret(const uint8_t secret[CKPT_WIRE_KEY], const uint8_t nonce[CKPT_WIRE_KEY],
			     uint8_t out[CKPT_WIRE_KEY])
{
	struct hmac_sha256_ctx ctx;

	begin(&ctx, secret, CKPT_WIRE_KEY, "ckpt: a transport");
	hmac_sha256_update(&ctx, CKPT_WIRE_KEY, nonce);
	finish(&ctx, out);
}

void ckpt_wire_make_proof(const struct ckpt_wire_session *s, const uint8_t secret[CKPT_WIRE_KEY],
			  uint8_t out[CKPT_WIRE_PROOF])
{
	hash_session(s, secret, "ckpt: proof of a rank", out);
}

static void make_keys(struct ckpt_wire_session *s, const uint8_t secret[CKPT_WIRE_KEY])
{
	hash_session(s, secret, "ckpt: frames of a rank", s->key_of_rank);
	hash_session(s, secret, "ckpt: frames of rank 0", s->key_of_rank0);
	s->sent = s->received = 0;
}

static void put_verdict(uint32_t verdict, uint8_t out[CKPT_WIRE_VERDICT])
{
	struct cursor c = { .out = out };

	memset(out, 0, CKPT_WIRE_VERDICT);
	number(&c, &verdict);
}

void ckpt_wire_make_welcome(struct ckpt_wire_session *s, const uint8_t secret[CKPT_WIRE_KEY],
			    uint8_t out[CKPT_WIRE_VERDICT])
{
	put_verdict(CKPT_WIRE_WELCOME, out);
	hash_session(s, secret, "ckpt: proof of rank 0", out + 4);
	make_keys(s, secret);
}

void ckpt_wire_make_rejection(uint8_t out[CKPT_WIRE_VERDICT])
{
	put_verdict(CKPT_WIRE_WRONG_TOKEN, out);
}

bool ckpt_wire_is_same(const uint8_t *a, const uint8_t *b, size_t len)
{
	volatile uint8_t differs = 0;

	for (size_t i = 0; i < len; i++)
		differs = differs | (a[i] ^ b[i]);
	return !differs;
}

int ckpt_wire_read_verdict(struct ckpt_wire_session *s, const uint8_t secret[CKPT_WIRE_KEY],
			   const uint8_t in[CKPT_WIRE_VERDICT])
{
	uint8_t welcome[CKPT_WIRE_VERDICT], rejection[CKPT_WIRE_VERDICT];

	ckpt_wire_make_rejection(rejection);
	if (!memcmp(in, rejection, sizeof(rejection)))
		return CKPT_WIRE_WRONG_TOKEN;
	ckpt_wire_make_welcome(s, secret, welcome);
	return ckpt_wire_is_same(in, welcome, sizeof(welcome)) ? CKPT_WIRE_WELCOME : 0;
}

/* ---- frames ---- */

/* Of the frame number COUNT, with its head. */
static void hash_frame(const uint8_t key[CKPT_WIRE_KEY], uint64_t count, const uint8_t *frame,
		       size_t size, uint8_t out[CKPT_WIRE_KEY])
{
	struct hmac_sha256_ctx ctx;
	uint8_t text[8];

	for (int i = 0; i < 8; i++)
		text[i] = (uint8_t)(count >> (8 * i));
	hmac_sha256_set_key(&ctx, CKPT_WIRE_KEY, key);
	hmac_sha256_update(&ctx, sizeof(text), text);
	hmac_sha256_update(&ctx, size, frame);
	finish(&ctx, out);
}

size_t ckpt_wire_write_frame(struct ckpt_wire_session *s, enum ckpt_wire_kind kind,
			     const void *payload, size_t len, uint8_t out[CKPT_WIRE_MOST_FRAME])
{
	uint32_t head[2] = { kind, (uint32_t)len };
	struct cursor c = { .out = out };

	assert(len <= CKPT_WIRE_MOST_BYTES);
	number(&c, &head[0]);
	number(&c, &head[1]);
	if (len)
		memcpy(out + CKPT_WIRE_HEAD, payload, len);
	hash_frame(s->is_rank0 ? s->key_of_rank0 : s->key_of_rank, s->sent++, out,
		   CKPT_WIRE_HEAD + len, out + CKPT_WIRE_HEAD + len);
	return CKPT_WIRE_HEAD + len + CKPT_WIRE_KEY;
}

static size_t read_head(const uint8_t *in, uint32_t *kind)
{
	struct cursor c = { .in = in };
	uint32_t len;

	number(&c, kind);
	number(&c, &len);
	return len;
}

size_t ckpt_wire_frame_size(const uint8_t head[CKPT_WIRE_HEAD])
{
	uint32_t kind;
	size_t len = read_head(head, &kind);

	if (!kind || kind >= CKPT_WIRE_KINDS || len > CKPT_WIRE_MOST_BYTES)
		return 0;
	return CKPT_WIRE_HEAD + len + CKPT_WIRE_KEY;
}

bool ckpt_wire_read_frame(struct ckpt_wire_session *s, const uint8_t *frame, size_t size,
			  enum ckpt_wire_kind *kind, const uint8_t **payload, size_t *len)
{
	uint8_t wanted[CKPT_WIRE_KEY];
	uint32_t number_of_kind;

	if (size < CKPT_WIRE_HEAD || ckpt_wire_frame_size(frame) != size)
		return false;
	hash_frame(s->is_rank0 ? s->key_of_rank : s->key_of_rank0, s->received, frame,
		   size - CKPT_WIRE_KEY, wanted);
	if (!ckpt_wire_is_same(wanted, frame + size - CKPT_WIRE_KEY, CKPT_WIRE_KEY))
		return false;
	s->received++;
	*len = read_head(frame, &number_of_kind);
	*kind = (enum ckpt_wire_kind)number_of_kind;
	*payload = frame + CKPT_WIRE_HEAD;
	return true;
}
