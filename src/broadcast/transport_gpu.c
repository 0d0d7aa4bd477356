/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport over GPUs: a chunk goes up from the root's host memory, across by the carrier (NCCL,
 * or functions of the program), and down again, in three streams that events put in order.
 *
 * What must stay true: the carrier takes one thing at a time, and the same in the same order on
 * all ranks, hence the queue. A ticket's memory is used again only when its last event is done. No
 * call waits without a deadline: the end (aborting, freeing), which may, is one call in a thread
 * that owns everything from then on.
 */
#include "broadcast/transport_gpu.h"

#include "base/clock.h"
#include "gpu/bounded.h"
#include "gpu/crc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	POLL_NSEC = 20000,
	LOOK_NSEC = 10000000, /* how often the carrier is asked whether it has failed */
	MOST_VOTES = 64,
};

/* Page-locked memory of the host, and as much on the GPU. */
struct gpu_buffer {
	struct gpu_buffer *next;
	struct ckpt_cuda_host host;
	ckpt_cuda_address address;
};

enum stage {
	IDLE,
	WAITING, /* for the carrier to be done with what was asked before */
	ASKED,	 /* the carrier puts it into the stream as soon as it likes */
	FLYING,
};

/*
 * A buffer is used again only when its chunk is done: no stream has to wait for what used its
 * memory before.
 */
struct ticket {
	enum stage stage;
	struct ckpt_transport_chunk chunk;
	struct ckpt_transport_copy *copies; /* owned: the chunk's */
	size_t room;
	ckpt_cuda_address address;
	ckpt_cuda_event uploaded, carried, downloaded;
};

struct gpu {
	struct ckpt_transport base;
	struct ckpt_transport_ops ops; /* with the carrier's name */
	struct ckpt_cuda *cuda;	       /* counted */
	struct ckpt_gpu_carrier carrier;
	struct ckpt_gpu_peers peers;
	ckpt_cuda_stream up, across, down;
	struct gpu_buffer *buffers;
	struct ticket tickets[CKPT_MOST_FLYING];
	struct ticket *queue[CKPT_MOST_FLYING]; /* those that wait or were asked for, in order */
	uint64_t queue_first, queue_end;
	uint64_t looked_nsec;
	struct gpu_buffer ballot;
	struct ckpt_cuda_crc *crc; /* owned; NULL: no chunk asks for sums */
	ckpt_cuda_event counted;
	bool given_up; /* abort() was called */
};

/* ---- buffers ---- */

static int init_buffer(struct gpu *g, size_t nbytes, struct gpu_buffer *b, struct ckpt_error *err)
{
	int rc = ckpt_cuda_alloc_host(g->cuda, nbytes, &b->host, err);

	return rc < 0 ? rc : ckpt_cuda_alloc(g->cuda, nbytes, &b->address, err);
}

static void clear_buffer(struct gpu *g, struct gpu_buffer *b)
{
	ckpt_cuda_free(g->cuda, b->address);
	ckpt_cuda_free_host(g->cuda, b->host);
}

static int alloc(struct ckpt_transport *t, size_t nbytes, void **out, struct ckpt_error *err)
{
	struct gpu *g = (struct gpu *)t;
	struct gpu_buffer *b = calloc(1, sizeof(*b));
	int rc = b ? init_buffer(g, nbytes, b, err) : ckpt_fail_nomem(err);

	*out = NULL;
	if (rc == 0) {
		b->next = g->buffers;
		g->buffers = b;
		*out = b->host.memory;
	} else if (b) {
		clear_buffer(g, b);
		free(b);
	}
	return rc;
}

static const struct gpu_buffer *find_buffer(const struct gpu *g, const void *memory)
{
	const struct gpu_buffer *b = g->buffers;

	while (b && b->host.memory != memory)
		b = b->next;
	assert(b);
	return b;
}

/* At the end, with all others: to free it may be to wait for whatever the GPU does. */
static void release(struct ckpt_transport *t, void *memory)
{
	(void)t;
	(void)memory;
}

/* ---- one chunk ---- */

static bool is_downloaded(const struct gpu *g, const struct ticket *k)
{
	return k->chunk.root != g->base.rank && !k->chunk.not_in_buffer;
}

static unsigned sum_slot(const struct gpu *g, const struct ticket *k, size_t copy)
{
	return (unsigned)(k - g->tickets) * CKPT_MOST_SUMS + (unsigned)copy;
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

static int upload(struct gpu *g, struct ticket *k, struct ckpt_error *err)
{
	int rc;

	if (k->chunk.root != g->base.rank)
		return 0;
	rc = ckpt_cuda_upload_in(g->cuda, g->up, k->address, k->chunk.buffer, k->chunk.nbytes, err);
	return rc < 0 ? rc : ckpt_cuda_event_record(g->cuda, k->uploaded, g->up, err);
}

static int begin_broadcast(struct gpu *g, struct ticket *k, struct ckpt_error *err)
{
	int rc = 0;

	if (k->chunk.root == g->base.rank)
		rc = ckpt_cuda_stream_wait(g->cuda, g->across, k->uploaded, err);
	if (rc == 0)
		rc = g->carrier.broadcast(g->carrier.self, g->across, k->address, k->chunk.nbytes,
					  k->chunk.root, err);
	k->stage = ASKED;
	return rc;
}

/* What comes behind the broadcast, once that is in its stream. */
static int queue_copies(struct gpu *g, struct ticket *k, struct ckpt_error *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < k->chunk.copy_count; i++)
		rc = ckpt_cuda_copy_in(g->cuda, g->across, k->copies[i].to,
				       k->address + k->copies[i].from, k->copies[i].nbytes, err);
	if (rc == 0)
		rc = ckpt_cuda_event_record(g->cuda, k->carried, g->across, err);
	k->stage = FLYING;
	if (rc < 0 || !(is_downloaded(g, k) || k->chunk.sums))
		return rc;
	rc = ckpt_cuda_stream_wait(g->cuda, g->down, k->carried, err);
	if (rc == 0 && is_downloaded(g, k))
		rc = ckpt_cuda_download_in(g->cuda, g->down, k->chunk.buffer, k->address,
					   k->chunk.nbytes, err);
	for (size_t i = 0; rc == 0 && k->chunk.sums && i < k->chunk.copy_count; i++)
		rc = ckpt_cuda_crc_in(g->crc, g->down, k->copies[i].to, k->copies[i].nbytes,
				      sum_slot(g, k, i), err);
	return rc < 0 ? rc : ckpt_cuda_event_record(g->cuda, k->downloaded, g->down, err);
}

/* The carrier takes one thing at a time. 1: it has all that was begun, 0: not yet. */
static int advance_queue(struct gpu *g, struct ckpt_error *err)
{
	int rc = 1;

	while (rc > 0 && g->queue_first < g->queue_end) {
		struct ticket *k = g->queue[g->queue_first % CKPT_MOST_FLYING];

		rc = k->stage == WAITING ? begin_broadcast(g, k, err) : 0;
		if (rc == 0)
			rc = g->carrier.ready(g->carrier.self, err);
		if (rc == 1) {
			g->queue_first++;
			rc = queue_copies(g, k, err);
			rc = rc < 0 ? rc : 1;
		}
	}
	return rc;
}

static int begin(struct ckpt_transport *t, const struct ckpt_transport_chunk *chunk,
		 unsigned ticket, struct ckpt_error *err)
{
	struct gpu *g = (struct gpu *)t;
	struct ticket *k = &g->tickets[ticket];
	int rc;

	assert(ticket < CKPT_MOST_FLYING && k->stage == IDLE);
	assert(!chunk->sums || (g->crc && chunk->copy_count <= CKPT_MOST_SUMS));
	k->address = find_buffer(g, chunk->buffer)->address;
	rc = keep_chunk(k, chunk, err);
	if (rc == 0)
		rc = upload(g, k, err);
	if (rc < 0)
		return rc;
	k->stage = WAITING;
	g->queue[g->queue_end++ % CKPT_MOST_FLYING] = k;
	rc = advance_queue(g, err);
	return rc < 0 ? rc : 0;
}

/* Now and then: 0, or what the carrier has noticed meanwhile. */
static int check_carrier(struct gpu *g, struct ckpt_error *err)
{
	uint64_t now = ckpt_now_nsec();
	int rc;

	if (now - g->looked_nsec < LOOK_NSEC)
		return 0;
	g->looked_nsec = now;
	rc = ckpt_gpu_peers_check(&g->peers, err);
	if (rc == 0)
		rc = g->carrier.ready(g->carrier.self, err);
	return rc < 0 ? rc : 0;
}

static int test(struct ckpt_transport *t, unsigned ticket, struct ckpt_error *err)
{
	struct gpu *g = (struct gpu *)t;
	struct ticket *k = &g->tickets[ticket];
	int rc = advance_queue(g, err);

	if (rc < 0 || k->stage != FLYING)
		return rc < 0 ? rc : check_carrier(g, err);
	rc = ckpt_cuda_event_done(
		g->cuda, is_downloaded(g, k) || k->chunk.sums ? k->downloaded : k->carried, err);
	if (rc == 1)
		k->stage = IDLE;
	return rc == 0 ? check_carrier(g, err) : rc;
}

static int prepare_sums(struct ckpt_transport *t, struct ckpt_error *err)
{
	struct gpu *g = (struct gpu *)t;

	return g->crc ? 0
		      : ckpt_cuda_crc_new(g->cuda, CKPT_CUDA_CRC_BLOCKS,
					  CKPT_MOST_FLYING * CKPT_MOST_SUMS, &g->crc, err);
}

static uint32_t sum(struct ckpt_transport *t, unsigned ticket, size_t copy)
{
	const struct gpu *g = (struct gpu *)t;

	return ckpt_cuda_crc_get(g->crc, sum_slot(g, &g->tickets[ticket], copy));
}

/* ---- votes ---- */

static int is_asked(struct gpu *g, struct ckpt_error *err)
{
	int rc = g->carrier.ready(g->carrier.self, err);

	return rc == 0 ? ckpt_gpu_peers_check(&g->peers, err) : rc;
}

static int is_counted(struct gpu *g, struct ckpt_error *err)
{
	int rc = ckpt_cuda_event_done(g->cuda, g->counted, err);

	return rc == 0 ? check_carrier(g, err) : rc;
}

static int wait_until(struct gpu *g, int (*is_done)(struct gpu *, struct ckpt_error *),
		      uint64_t deadline, struct ckpt_error *err)
{
	int rc;

	while ((rc = is_done(g, err)) == 0) {
		if (ckpt_now_nsec() > deadline)
			return ckpt_fail(err, CKPT_E_PEER, "a rank does not answer");
		nanosleep(&(struct timespec){ 0, POLL_NSEC }, NULL);
	}
	return rc < 0 ? rc : 0;
}

static int count_votes(struct gpu *g, size_t count, uint64_t deadline, struct ckpt_error *err)
{
	struct gpu_buffer *b = &g->ballot;
	size_t nbytes = count * sizeof(uint64_t);
	int rc = wait_until(g, advance_queue, deadline, err);

	if (rc == 0)
		rc = ckpt_cuda_upload_in(g->cuda, g->across, b->address, b->host.memory, nbytes, err);
	if (rc == 0)
		rc = g->carrier.greatest(g->carrier.self, g->across, b->address, count, err);
	if (rc == 0)
		rc = wait_until(g, is_asked, deadline, err);
	if (rc == 0)
		rc = ckpt_cuda_download_in(g->cuda, g->across, b->host.memory, b->address, nbytes, err);
	if (rc == 0)
		rc = ckpt_cuda_event_record(g->cuda, g->counted, g->across, err);
	return rc < 0 ? rc : wait_until(g, is_counted, deadline, err);
}

static int vote(struct ckpt_transport *t, uint64_t *numbers, size_t count, uint64_t deadline,
		struct ckpt_error *err)
{
	struct gpu *g = (struct gpu *)t;
	int rc = 0;

	if (!g->carrier.greatest)
		return g->carrier.vote(g->carrier.self, numbers, count, err);
	for (size_t done = 0, some; rc == 0 && done < count; done += some) {
		some = count - done < MOST_VOTES ? count - done : MOST_VOTES;
		memcpy(g->ballot.host.memory, numbers + done, some * sizeof(*numbers));
		rc = count_votes(g, some, deadline, err);
		if (rc == 0)
			memcpy(numbers + done, g->ballot.host.memory, some * sizeof(*numbers));
	}
	return rc;
}

/* ---- opened and closed ---- */

static void abort_carrier(struct ckpt_transport *t)
{
	struct gpu *g = (struct gpu *)t;

	g->given_up = true;
}

static void clear_tickets(struct gpu *g)
{
	for (unsigned i = 0; i < CKPT_MOST_FLYING; i++) {
		struct ticket *k = &g->tickets[i];

		ckpt_cuda_event_free(g->cuda, k->uploaded);
		ckpt_cuda_event_free(g->cuda, k->carried);
		ckpt_cuda_event_free(g->cuda, k->downloaded);
		free(k->copies);
	}
}

static void close_gpu(struct ckpt_transport *t)
{
	struct gpu *g = (struct gpu *)t;

	if (g->given_up && g->carrier.self && !g->carrier.abort(g->carrier.self))
		return; /* to free its memory would be to wait for it */
	g->carrier.close(g->carrier.self);
	while (g->buffers) {
		struct gpu_buffer *b = g->buffers;

		g->buffers = b->next;
		clear_buffer(g, b);
		free(b);
	}
	clear_buffer(g, &g->ballot);
	ckpt_cuda_crc_free(g->crc);
	clear_tickets(g);
	ckpt_cuda_event_free(g->cuda, g->counted);
	ckpt_cuda_stream_free(g->cuda, g->up);
	ckpt_cuda_stream_free(g->cuda, g->across);
	ckpt_cuda_stream_free(g->cuda, g->down);
	ckpt_cuda_close(g->cuda);
	free(g);
}

static void end_gpu(void *t)
{
	close_gpu(t);
}

static int make_tickets(struct gpu *g, struct ckpt_error *err)
{
	int rc = ckpt_cuda_event_new(g->cuda, &g->counted, err);

	for (unsigned i = 0; rc == 0 && i < CKPT_MOST_FLYING; i++) {
		struct ticket *k = &g->tickets[i];

		rc = ckpt_cuda_event_new(g->cuda, &k->uploaded, err);
		if (rc == 0)
			rc = ckpt_cuda_event_new(g->cuda, &k->carried, err);
		if (rc == 0)
			rc = ckpt_cuda_event_new(g->cuda, &k->downloaded, err);
	}
	return rc;
}

/* Everything of this rank's own first, so that its failures keep nobody waiting. */
static int make_all(struct gpu *g, struct ckpt_error *err)
{
	int rc = ckpt_cuda_stream_new(g->cuda, &g->up, err);

	if (rc == 0)
		rc = ckpt_cuda_stream_new(g->cuda, &g->across, err);
	if (rc == 0)
		rc = ckpt_cuda_stream_new(g->cuda, &g->down, err);
	if (rc == 0)
		rc = init_buffer(g, MOST_VOTES * sizeof(uint64_t), &g->ballot, err);
	return rc < 0 ? rc : make_tickets(g, err);
}

int ckpt_transport_open_gpu(struct ckpt_cuda *cuda, uint32_t rank, uint32_t size,
			    const struct ckpt_gpu_carrier *carrier,
			    int (*open)(void *ctx, void **self, struct ckpt_error *err), void *ctx,
			    const struct ckpt_gpu_peers *peers, struct ckpt_transport **out,
			    struct ckpt_error *err)
{
	struct gpu *g = calloc(1, sizeof(*g));
	struct ckpt_error why = CKPT_ERROR_INIT;
	int rc;

	*out = NULL;
	if (!g)
		return ckpt_fail_nomem(err);
	g->ops = (struct ckpt_transport_ops){
		.name = carrier->name,
		.is_on_gpu = true,
		.alloc = alloc,
		.release = release,
		.begin = begin,
		.test = test,
		.prepare_sums = prepare_sums,
		.sum = sum,
		.vote = vote,
		.abort = abort_carrier,
		.close = close_gpu,
	};
	g->base = (struct ckpt_transport){ .ops = &g->ops, .rank = rank, .size = size };
	g->cuda = ckpt_cuda_ref(cuda);
	g->carrier = *carrier;
	g->carrier.self = NULL;
	if (peers)
		g->peers = *peers;
	rc = make_all(g, &why);
	if (rc == 0)
		rc = open(ctx, &g->carrier.self, &why);
	if (rc < 0 && err)
		*err = why;
	if (rc < 0 && g->peers.announce)
		g->peers.announce(g->peers.ctx, &why);
	if (rc < 0)
		ckpt_gpu_run_bounded(end_gpu, &g->base);
	else
		*out = &g->base;
	return rc;
}
