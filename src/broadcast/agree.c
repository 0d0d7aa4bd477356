/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the ranks come to one decision: votes (the greatest number of all), and texts that one rank
 * sends to the others.
 *
 * What must stay true: every rank makes the same calls in the same order, whatever failed on it; a
 * rank that returned early would leave the others waiting. Once the transport fails (BROKEN), no
 * rank is asked again, and each says what it knows by itself.
 */
#include "broadcast/agree.h"

#include "base/clock.h"

#include <ckpt/broadcast.h>

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	AT_ONCE = 8, /* numbers in a vote */
	LINE = 300,  /* what one of several ranks says */
	LIST = 470,  /* ... and all of them: what an error has room for */
};

static const uint64_t LONGEST_ASKED = 10000000000; /* nsec */

size_t ckpt_agree_buffer = 1 << 20;

int ckpt_agreement_open(struct ckpt_agreement *a, struct ckpt_transport *transport,
			uint64_t patience_nsec, struct ckpt_error *err)
{
	*a = (struct ckpt_agreement){ .transport = transport, .patience_nsec = patience_nsec };
	if (gethostname(a->host, sizeof(a->host) - 1) < 0)
		snprintf(a->host, sizeof(a->host), "unknown host");
	a->buffer_size = ckpt_agree_buffer;
	return transport->ops->alloc(transport, a->buffer_size, &a->buffer, err);
}

void ckpt_agreement_close(struct ckpt_agreement *a)
{
	if (a->buffer)
		a->transport->ops->release(a->transport, a->buffer);
	a->buffer = NULL;
}

static int vote(struct ckpt_agreement *a, uint64_t *numbers, size_t count, struct ckpt_error *err)
{
	struct ckpt_transport *t = a->transport;
	int rc = t->ops->vote(t, numbers, count, ckpt_now_nsec() + a->patience_nsec, err);

	a->broken |= rc < 0;
	return rc;
}

static int wait_for(struct ckpt_agreement *a, struct ckpt_error *err)
{
	uint64_t start = ckpt_now_nsec(), now;
	int done;

	while ((done = a->transport->ops->test(a->transport, 0, err)) == 0) {
		now = ckpt_now_nsec();
		if (now - start > a->patience_nsec)
			return ckpt_fail(err, CKPT_E_PEER, "a rank does not answer");
		ckpt_transport_pause(a->transport, now - start);
	}
	return done < 0 ? done : 0;
}

int ckpt_agree_send(struct ckpt_agreement *a, void *bytes, size_t len, uint32_t root,
		    struct ckpt_error *err)
{
	struct ckpt_transport *t = a->transport;
	uint8_t *p = bytes;
	int rc = 0;

	for (size_t done = 0, n; rc == 0 && done < len; done += n) {
		struct ckpt_transport_chunk chunk = { .buffer = a->buffer, .root = root };

		n = len - done < a->buffer_size ? len - done : a->buffer_size;
		chunk.nbytes = n;
		if (t->rank == root)
			memcpy(a->buffer, p + done, n);
		rc = t->ops->begin(t, &chunk, 0, err);
		if (rc == 0)
			rc = wait_for(a, err);
		if (rc == 0 && t->rank != root)
			memcpy(p + done, a->buffer, n);
	}
	a->broken |= rc < 0;
	return rc;
}

static void set_own_text(struct ckpt_agreement *a, const char *text)
{
	if (a->transport->size == 1 || a->transport->is_told)
		snprintf(a->text, sizeof(a->text), "%s", text);
	else
		snprintf(a->text, sizeof(a->text), "rank %u (%s): %s", a->transport->rank, a->host,
			 text);
}

/* All that still live come here, one sooner than the other. */
static void append_silent_ranks(struct ckpt_agreement *a)
{
	const struct ckpt_transport_ops *ops = a->transport->ops;
	uint64_t nsec = a->patience_nsec / 2 < LONGEST_ASKED ? a->patience_nsec / 2 : LONGEST_ASKED;
	size_t len = strlen(a->text);
	char text[200] = "";

	if (ops->find_silent && !a->asked)
		ops->find_silent(a->transport, nsec, text, sizeof(text));
	a->asked = true;
	if (*text)
		snprintf(a->text + len, sizeof(a->text) - len, "; no answer from %s", text);
}

/* No vote is possible any more. Who is told that a rank was interrupted has nobody to look for. */
static void tell_others(struct ckpt_agreement *a, int code)
{
	const struct ckpt_transport_ops *ops = a->transport->ops;
	int signal = code > CKPT_BROADCAST_CANCELLED ? code - CKPT_BROADCAST_CANCELLED : 0;

	if (ops->stop && !a->transport->is_told && !a->asked)
		ops->stop(a->transport, a->text, signal);
	if (!ops->stop || !signal)
		append_silent_ranks(a);
}

int ckpt_agree(struct ckpt_agreement *a, int code, const char *text)
{
	uint32_t rank = a->transport->rank;
	uint64_t worst = code ? (uint64_t)code << 32 | (UINT32_MAX - rank) : 0;
	struct ckpt_error err = CKPT_ERROR_INIT;
	char said[sizeof(err.text)];
	int rc = a->broken ? CKPT_E_PEER : vote(a, &worst, 1, &err);

	if (rc == 0 && !worst)
		return 0;
	a->failed_rank = UINT32_MAX - (uint32_t)worst;
	if (rc == 0 && a->failed_rank == rank)
		set_own_text(a, text);
	if (rc == 0)
		rc = ckpt_agree_send(a, a->text, sizeof(a->text), a->failed_rank, &err);
	if (rc == 0) {
		a->text[sizeof(a->text) - 1] = '\0';
		return (int)(worst >> 32);
	}
	a->failed_rank = a->transport->is_told ? a->transport->told_rank : rank;
	/* what has ended it was said then; a later step has nothing to add */
	if (code || !a->text[0])
		set_own_text(a, code ? text : ckpt_error_text(&err, said, sizeof(said)));
	if (!code)
		code = a->transport->told_signal ? CKPT_BROADCAST_CANCELLED + a->transport->told_signal
						 : CKPT_BROADCAST_LOST;
	tell_others(a, code);
	return code;
}

/* A vote in which a number has one rank that is not 0. */
int ckpt_agree_gather(struct ckpt_agreement *a, const uint64_t *numbers, size_t count,
		      uint64_t *all, struct ckpt_error *err)
{
	size_t total = a->transport->size * count, first = a->transport->rank * count;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < total; i += AT_ONCE) {
		size_t n = total - i < AT_ONCE ? total - i : AT_ONCE;
		uint64_t some[AT_ONCE] = { 0 };

		for (size_t k = 0; k < n; k++)
			if (i + k >= first && i + k < first + count)
				some[k] = numbers[i + k - first];
		rc = vote(a, some, n, err);
		if (rc == 0 && all)
			memcpy(all + i, some, n * sizeof(*some));
	}
	return rc;
}

/*
 * What rank ROOT says, behind what is in the text already. False: there was no room, or it was not
 * heard.
 */
static bool add_line(struct ckpt_agreement *a, uint32_t root, const char *text)
{
	size_t len = strlen(a->text);
	char line[LINE] = "";

	if (a->transport->rank == root)
		snprintf(line, sizeof(line), "; rank %u (%s): %.220s", root, a->host, text);
	if (ckpt_agree_send(a, line, sizeof(line), root, NULL) < 0)
		return false;
	line[sizeof(line) - 1] = '\0';
	if (len + strlen(line) > LIST)
		return false;
	strcpy(a->text + len, line);
	return true;
}

/*
 * The ranks from FIRST on, some of them: who of them says the same kind of thing? FITS, MORE: see
 * below.
 */
static void list_some(struct ckpt_agreement *a, uint32_t first, bool mine, const char *text,
		      bool *fits, uint32_t *more)
{
	uint32_t left = a->transport->size - first, rank = a->transport->rank;
	size_t n = left < AT_ONCE ? left : AT_ONCE;
	uint64_t failed[AT_ONCE] = { 0 };

	if (rank >= first && rank < first + n)
		failed[rank - first] = mine;
	if (vote(a, failed, n, NULL) < 0)
		return;
	for (uint32_t i = 0; i < n; i++) {
		bool is_new = failed[i] && first + i != a->failed_rank;

		if (is_new && *fits)
			*fits = add_line(a, first + i, text);
		*more += is_new && !*fits;
	}
}

int ckpt_agree_listing(struct ckpt_agreement *a, int code, const char *text)
{
	int worst = ckpt_agree(a, code, text);
	bool fits = true; /* the same on all ranks, as the text is */
	uint32_t more = 0;

	if (worst == 0 || a->transport->size == 1)
		return worst;
	for (uint32_t i = 0; i < a->transport->size && !a->broken; i += AT_ONCE)
		list_some(a, i, code == worst, text, &fits, &more);
	if (more)
		snprintf(a->text + strlen(a->text), sizeof(a->text) - strlen(a->text),
			 "; and %u more", more);
	return worst;
}

int ckpt_agree_same(struct ckpt_agreement *a, uint64_t number, bool *same, struct ckpt_error *err)
{
	uint64_t most_and_least[2] = { number, ~number };
	int rc = vote(a, most_and_least, 2, err);

	*same = most_and_least[0] == ~most_and_least[1];
	return rc;
}

int ckpt_agree_all(struct ckpt_agreement *a, bool yes, bool *all, struct ckpt_error *err)
{
	uint64_t no = !yes;
	int rc = vote(a, &no, 1, err);

	*all = !no;
	return rc;
}

int ckpt_agree_most(struct ckpt_agreement *a, uint64_t *numbers, size_t count, struct ckpt_error *err)
{
	return vote(a, numbers, count, err);
}

int ckpt_agree_first(struct ckpt_agreement *a, bool yes, uint32_t *first, struct ckpt_error *err)
{
	uint64_t from_end = yes ? UINT32_MAX - a->transport->rank : 0;
	int rc = vote(a, &from_end, 1, err);

	*first = from_end ? UINT32_MAX - (uint32_t)from_end : 0;
	return rc;
}
