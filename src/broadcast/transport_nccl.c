/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/transport_nccl.h"

#include "base/clock.h"
#include "gpu/nccl_comm.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	POLL_NSEC = 20000,
	LOOK_NSEC = 10000000, /* how often NCCL is asked whether it has failed */
	MOST_VOTES = 64,
};

/* Page-locked memory of the host, and as much on the GPU. */
struct buffer {
	struct buffer *next;
	void *memory;
	ckpt_cuda_address address;
};

enum stage {
	IDLE,
	WAITING, /* for NCCL to be done with what was asked before */
	ASKED,	 /* NCCL puts it into the stream as soon as it likes */
	FLYING,
};

/* A buffer is used again only when its chunk is done: no stream has to wait for what used its memory before. */
struct ticket {
	enum stage stage;
	struct ckpt_transport_chunk chunk;
	struct ckpt_transport_copy *copies; /* owned: the chunk's */
	size_t room;
	ckpt_cuda_address address;
	ckpt_cuda_event uploaded, carried, downloaded;
};

struct nccl {
	struct ckpt_transport base;
	struct ckpt_cuda *cuda; /* borrowed */
	struct ckpt_nccl_comm *comm;
	ckpt_cuda_stream up, across, down;
	struct buffer *buffers;
	struct ticket tickets[CKPT_MOST_FLYING];
	struct ticket *queue[CKPT_MOST_FLYING]; /* those that wait or were asked for, in order */
	uint64_t queue_first, queue_end;
	uint64_t looked_nsec;
	struct buffer ballot;
	ckpt_cuda_event counted;
	bool hangs; /* NCCL may use for ever what it was given */
};

/* ---- buffers ---- */

static int fill_buffer(struct nccl *n, size_t nbytes, struct buffer *b, struct ckpt_error *err)
{
	int rc = ckpt_cuda_alloc_host(n->cuda, nbytes, &b->memory, err);

	return rc < 0 ? rc : ckpt_cuda_alloc(n->cuda, nbytes, &b->address, err);
}

static void clear_buffer(struct nccl *n, struct buffer *b)
{
	ckpt_cuda_free(n->cuda, b->address);
	ckpt_cuda_free_host(n->cuda, b->memory);
}

static int alloc(struct ckpt_transport *t, size_t nbytes, void **out, struct ckpt_error *err)
{
	struct nccl *n = (struct nccl *)t;
	struct buffer *b = calloc(1, sizeof(*b));
	int rc = b ? fill_buffer(n, nbytes, b, err) : ckpt_fail_nomem(err);

	*out = NULL;
	if (rc == 0) {
		b->next = n->buffers;
		n->buffers = b;
		*out = b->memory;
	} else if (b) {
		clear_buffer(n, b);
		free(b);
	}
	return rc;
}

static struct buffer **find_buffer(struct nccl *n, const void *memory)
{
	struct buffer **at = &n->buffers;

	while (*at && (*at)->memory != memory)
		at = &(*at)->next;
	assert(*at);
	return at;
}

static void release(struct ckpt_transport *t, void *memory)
{
	struct nccl *n = (struct nccl *)t;
	struct buffer **at = find_buffer(n, memory), *b = *at;

	if (n->hangs)
		return;
	*at = b->next;
	clear_buffer(n, b);
	free(b);
}

/* ---- one chunk ---- */

static bool is_downloaded(const struct nccl *n, const struct ticket *k)
{
	return k->chunk.root != n->base.rank && !k->chunk.not_in_buffer;
}

static int keep_chunk(struct ticket *k, const struct ckpt_transport_chunk *chunk,
		      struct ckpt_error *err)
{
	if (chunk->copy_count > k->room) {
		void *more = realloc(k->copies, chunk->copy_count * sizeof(*k->copies));

		if (!more)
			return ckpt_fail_nomem(err);
		k->copies = more;
		k->room = chunk->copy_count;
	}
	k->chunk = *chunk;
	if (chunk->copy_count)
		memcpy(k->copies, chunk->copies, chunk->copy_count * sizeof(*k->copies));
	return 0;
}

static int upload(struct nccl *n, struct ticket *k, struct ckpt_error *err)
{
	int rc;

	if (k->chunk.root != n->base.rank)
		return 0;
	rc = ckpt_cuda_upload_in(n->cuda, n->up, k->address, k->chunk.buffer, k->chunk.nbytes, err);
	return rc < 0 ? rc : ckpt_cuda_event_record(n->cuda, k->uploaded, n->up, err);
}

static int ask(struct nccl *n, struct ticket *k, struct ckpt_error *err)
{
	int rc = 0;

	if (k->chunk.root == n->base.rank)
		rc = ckpt_cuda_stream_wait(n->cuda, n->across, k->uploaded, err);
	if (rc == 0)
		rc = ckpt_nccl_comm_broadcast(n->comm, n->across, k->address, k->chunk.nbytes,
					      k->chunk.root, err);
	k->stage = ASKED;
	return rc;
}

/* What comes behind the broadcast, once that is in its stream. */
static int follow(struct nccl *n, struct ticket *k, struct ckpt_error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < k->chunk.copy_count; i++)
		rc = ckpt_cuda_copy_in(n->cuda, n->across, k->copies[i].to,
				       k->address + k->copies[i].from, k->copies[i].nbytes, err);
	if (rc == 0)
		rc = ckpt_cuda_event_record(n->cuda, k->carried, n->across, err);
	k->stage = FLYING;
	if (rc < 0 || !is_downloaded(n, k))
		return rc;
	rc = ckpt_cuda_stream_wait(n->cuda, n->down, k->carried, err);
	if (rc == 0)
		rc = ckpt_cuda_download_in(n->cuda, n->down, k->chunk.buffer, k->address,
					   k->chunk.nbytes, err);
	return rc < 0 ? rc : ckpt_cuda_event_record(n->cuda, k->downloaded, n->down, err);
}

/* NCCL takes one thing at a time. 1: it has all that was begun, 0: not yet. */
static int progress(struct nccl *n, struct ckpt_error *err)
{
	int rc = 1;

	while (rc > 0 && n->queue_first < n->queue_end) {
		struct ticket *k = n->queue[n->queue_first % CKPT_MOST_FLYING];

		rc = k->stage == WAITING ? ask(n, k, err) : 0;
		if (rc == 0)
			rc = ckpt_nccl_comm_ready(n->comm, err);
		if (rc == 1) {
			n->queue_first++;
			rc = follow(n, k, err);
			rc = rc < 0 ? rc : 1;
		}
	}
	return rc;
}

static int begin(struct ckpt_transport *t, const struct ckpt_transport_chunk *chunk,
		 unsigned ticket, struct ckpt_error *err)
{
	struct nccl *n = (struct nccl *)t;
	struct ticket *k = &n->tickets[ticket];
	int rc;

	assert(ticket < CKPT_MOST_FLYING && k->stage == IDLE);
	k->address = (*find_buffer(n, chunk->buffer))->address;
	rc = keep_chunk(k, chunk, err);
	if (rc == 0)
		rc = upload(n, k, err);
	if (rc < 0)
		return rc;
	k->stage = WAITING;
	n->queue[n->queue_end++ % CKPT_MOST_FLYING] = k;
	rc = progress(n, err);
	return rc < 0 ? rc : 0;
}

/* Now and then: 0, or what NCCL has noticed meanwhile. */
static int look(struct nccl *n, struct ckpt_error *err)
{
	uint64_t now = ckpt_now_nsec();
	int rc;

	if (now - n->looked_nsec < LOOK_NSEC)
		return 0;
	n->looked_nsec = now;
	rc = ckpt_nccl_comm_ready(n->comm, err);
	return rc < 0 ? rc : 0;
}

static int test(struct ckpt_transport *t, unsigned ticket, struct ckpt_error *err)
{
	struct nccl *n = (struct nccl *)t;
	struct ticket *k = &n->tickets[ticket];
	int rc = progress(n, err);

	if (rc < 0 || k->stage != FLYING)
		return rc < 0 ? rc : 0;
	rc = ckpt_cuda_event_done(n->cuda, is_downloaded(n, k) ? k->downloaded : k->carried, err);
	if (rc == 1)
		k->stage = IDLE;
	return rc == 0 ? look(n, err) : rc;
}

/* ---- votes ---- */

static int is_asked(struct nccl *n, struct ckpt_error *err)
{
	return ckpt_nccl_comm_ready(n->comm, err);
}

static int is_counted(struct nccl *n, struct ckpt_error *err)
{
	int rc = ckpt_cuda_event_done(n->cuda, n->counted, err);

	return rc == 0 ? look(n, err) : rc;
}

static int wait_until(struct nccl *n, int (*is_done)(struct nccl *, struct ckpt_error *),
		      uint64_t deadline, struct ckpt_error *err)
{
	int rc;

	while ((rc = is_done(n, err)) == 0) {
		if (ckpt_now_nsec() > deadline)
			return ckpt_fail(err, CKPT_E_PEER, "a rank does not answer");
		nanosleep(&(struct timespec){ 0, POLL_NSEC }, NULL);
	}
	return rc < 0 ? rc : 0;
}

static int count_votes(struct nccl *n, size_t count, uint64_t deadline, struct ckpt_error *err)
{
	struct buffer *b = &n->ballot;
	size_t nbytes = count * sizeof(uint64_t);
	int rc = wait_until(n, progress, deadline, err);

	if (rc == 0)
		rc = ckpt_cuda_upload_in(n->cuda, n->across, b->address, b->memory, nbytes, err);
	if (rc == 0)
		rc = ckpt_nccl_comm_greatest(n->comm, n->across, b->address, count, err);
	if (rc == 0)
		rc = wait_until(n, is_asked, deadline, err);
	if (rc == 0)
		rc = ckpt_cuda_download_in(n->cuda, n->across, b->memory, b->address, nbytes, err);
	if (rc == 0)
		rc = ckpt_cuda_event_record(n->cuda, n->counted, n->across, err);
	return rc < 0 ? rc : wait_until(n, is_counted, deadline, err);
}

static int vote(struct ckpt_transport *t, uint64_t *numbers, size_t count, uint64_t deadline,
		struct ckpt_error *err)
{
	struct nccl *n = (struct nccl *)t;
	int rc = 0;

	for (size_t done = 0, some; rc == 0 && done < count; done += some) {
		some = count - done < MOST_VOTES ? count - done : MOST_VOTES;
		memcpy(n->ballot.memory, numbers + done, some * sizeof(*numbers));
		rc = count_votes(n, some, deadline, err);
		if (rc == 0)
			memcpy(numbers + done, n->ballot.memory, some * sizeof(*numbers));
	}
	return rc;
}

/* ---- opened and closed ---- */

static void let_go(struct ckpt_transport *t)
{
	struct nccl *n = (struct nccl *)t;

	n->hangs = !ckpt_nccl_comm_abort(n->comm);
}

static void clear_tickets(struct nccl *n)
{
	for (unsigned i = 0; i < CKPT_MOST_FLYING; i++) {
		struct ticket *k = &n->tickets[i];

		ckpt_cuda_event_free(n->cuda, k->uploaded);
		ckpt_cuda_event_free(n->cuda, k->carried);
		ckpt_cuda_event_free(n->cuda, k->downloaded);
		free(k->copies);
	}
}

/* What hangs keeps its memory: to free it would be to wait for it. */
static void close_nccl(struct ckpt_transport *t)
{
	struct nccl *n = (struct nccl *)t;

	if (n->hangs || !ckpt_nccl_comm_close(n->comm))
		return;
	while (n->buffers)
		release(t, n->buffers->memory);
	clear_buffer(n, &n->ballot);
	clear_tickets(n);
	ckpt_cuda_event_free(n->cuda, n->counted);
	ckpt_cuda_stream_free(n->cuda, n->up);
	ckpt_cuda_stream_free(n->cuda, n->across);
	ckpt_cuda_stream_free(n->cuda, n->down);
	free(n);
}

static int make_tickets(struct nccl *n, struct ckpt_error *err)
{
	int rc = ckpt_cuda_event_new(n->cuda, &n->counted, err);

	for (unsigned i = 0; rc == 0 && i < CKPT_MOST_FLYING; i++) {
		struct ticket *k = &n->tickets[i];

		rc = ckpt_cuda_event_new(n->cuda, &k->uploaded, err);
		if (rc == 0)
			rc = ckpt_cuda_event_new(n->cuda, &k->carried, err);
		if (rc == 0)
			rc = ckpt_cuda_event_new(n->cuda, &k->downloaded, err);
	}
	return rc;
}

/* Everything of this rank's own first, so that its failures keep nobody waiting. */
static int make_all(struct nccl *n, struct ckpt_error *err)
{
	int rc = ckpt_cuda_stream_new(n->cuda, &n->up, err);

	if (rc == 0)
		rc = ckpt_cuda_stream_new(n->cuda, &n->across, err);
	if (rc == 0)
		rc = ckpt_cuda_stream_new(n->cuda, &n->down, err);
	if (rc == 0)
		rc = fill_buffer(n, MOST_VOTES * sizeof(uint64_t), &n->ballot, err);
	return rc < 0 ? rc : make_tickets(n, err);
}

int ckpt_transport_open_nccl(struct ckpt_cuda *cuda, const struct ckpt_nccl_id *id, uint32_t rank,
			     uint32_t size, uint64_t deadline, struct ckpt_transport **out,
			     struct ckpt_error *err)
{
	static const struct ckpt_transport_ops ops = { "nccl", true, alloc,  release,	begin,
						       test,   vote, let_go, close_nccl };
	struct nccl *n = calloc(1, sizeof(*n));
	int rc;

	*out = NULL;
	if (!n)
		return ckpt_fail_nomem(err);
	n->base = (struct ckpt_transport){ &ops, rank, size };
	n->cuda = cuda;
	rc = make_all(n, err);
	if (rc == 0)
		rc = ckpt_nccl_comm_open(cuda, id, rank, size, deadline, &n->comm, err);
	if (rc < 0)
		close_nccl(&n->base);
	else
		*out = &n->base;
	return rc;
}
