/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks on their way: threads read this rank's chunks and write all that came, the caller's
 * thread gives them to the transport, in order. A chunk has a slot, whose states (slots.h) say who
 * may touch its memory.
 *
 * What must stay true: the transport sees the same chunks in the same order on all ranks, so a
 * chunk that cannot be read is carried all the same, and failures are only recorded until the next
 * vote. States change under LOCK; memory is touched without it, by the one whose state it is. Only
 * the caller's thread calls the transport, and only while it is asked do bytes move.
 */
#include "broadcast/ring.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "broadcast/slots.h"
#include "io/fault.h"

#include <assert.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <zlib.h>

enum {
	STEP = 1 << 20, /* written and looked at at a time: it stays in the cache */
	GPU_POLL_NSEC = 30000, /* a chunk of 8 MiB takes 25 us over NVLink, 160 us to a GPU */
	GPU_SLACK_NSEC = 1000,
	SPIN_NSEC = 20000000,
	SHORT_SPIN_NSEC = 1000000, /* ... where there is something to wait for */
	WAIT_NSEC = 20000000,
	/* chunks that the transport has at a time: one comes, one goes on, one is to come next */
	ASKED = 3,
	ASKED_OF_GPU = 8, /* it has to bring them to the GPU and back as well: that takes as long as several chunks between GPUs */
	SOONER = 8,
};

uint64_t ckpt_ring_gpu_sums_from = 2ull << 30;

struct failure {
	int rc;
	struct ckpt_error err;
};

struct ckpt_ring {
	struct ckpt_ring_options o;
	struct ckpt_piece_reader *reader;
	uint64_t chunks;
	unsigned asked; /* the transport has no more chunks at a time */
	uint64_t
		*first_piece; /* by chunk: number of its first piece, and behind the last: of all */
	uint32_t *crcs;	      /* by piece; NULL: none wanted */
	struct ckpt_transport_copy
		*copies; /* of the chunk that is begun; NULL: the transport makes none */
	bool gpu_sums;	 /* the transport sums what it has copied, see is_summed() */

	pthread_mutex_t lock;	  /* for all that follows */
	pthread_cond_t has_work;  /* for a thread */
	pthread_cond_t has_moved; /* a chunk, for the caller */
	struct ckpt_slots slots;
	uint64_t next_read; /* chunk */
	struct failure reading, writing;
	uint64_t write_nsec; /* of all threads together */
	bool quit;

	pthread_t *threads;
	unsigned started;
	uint64_t landed; /* the caller's: of the chunks that were begun, those that came */
	uint64_t last_nsec;
	uint64_t said_nsec; /* WRITE_NSEC when others were last told that it grows */
	uint64_t disk_nsec; /* how long nothing moved here because of what was still to be written */
};

static uint64_t chunk_end(const struct ckpt_ring *r, uint64_t chunk)
{
	uint64_t start = chunk * r->o.chunk, left = r->o.manifest->total - start;

	return start + (left < r->o.chunk ? left : r->o.chunk);
}

static uint32_t reader_of(const struct ckpt_ring *r, uint64_t chunk)
{
	return (uint32_t)(chunk % r->o.readers);
}

static bool is_mine(const struct ckpt_ring *r, uint64_t chunk)
{
	return reader_of(r, chunk) == r->o.transport->rank;
}

/* Names a chunk for the transport, as long as it has it. */
static unsigned ticket_of(const struct ckpt_ring *r, uint64_t chunk)
{
	return (unsigned)(chunk % r->asked);
}

/* ---- failures ---- */

static bool has_failed(struct ckpt_ring *r, const struct failure *f)
{
	bool failed;

	pthread_mutex_lock(&r->lock);
	failed = f->rc < 0;
	pthread_mutex_unlock(&r->lock);
	return failed;
}

static void record_failure(struct ckpt_ring *r, struct failure *f, int rc,
			   const struct ckpt_error *err)
{
	pthread_mutex_lock(&r->lock);
	if (f->rc == 0)
		*f = (struct failure){ rc, *err };
	pthread_mutex_unlock(&r->lock);
}

int ckpt_ring_failed(struct ckpt_ring *r, bool read, struct ckpt_error *err)
{
	struct failure *f = read ? &r->reading : &r->writing;
	int rc;

	pthread_mutex_lock(&r->lock);
	rc = f->rc;
	if (rc < 0 && err)
		*err = f->err;
	pthread_mutex_unlock(&r->lock);
	return rc;
}

/* ---- one chunk, by a thread ---- */

/* To where it is wanted, but for what the transport has brought there. */
static int write_bytes(struct ckpt_ring *r, const struct ckpt_manifest_piece *p, uint64_t done,
		       const uint8_t *from, size_t n, struct ckpt_error *err)
{
	int rc = 0;

	if (r->o.landing)
		rc = ckpt_landing_write(r->o.landing, p->file, p->off + done, from + done, n, err);
	if (rc == 0 && r->o.slab && !r->copies)
		rc = ckpt_slab_write(r->o.slab, p->file, p->off + done, from + done, n, err);
	return rc;
}

static int write_piece(struct ckpt_ring *r, const struct ckpt_manifest_piece *p,
		       const uint8_t *from, uint32_t *crc, struct ckpt_error *err)
{
	bool writes = !has_failed(r, &r->writing);
	int rc = 0;

	*crc = 0;
	for (uint64_t done = 0; rc == 0 && done < p->len; done += STEP) {
		size_t n = p->len - done < STEP ? (size_t)(p->len - done) : STEP;

		if (r->crcs)
			*crc = libdeflate_crc32(*crc, from + done, n);
		if (writes)
			rc = write_bytes(r, p, done, from, n, err);
	}
	return rc;
}

/*
 * A chunk that cannot be read is carried all the same: all ranks wait for it. What it holds then
 * does not matter, as nothing that came is kept.
 */
static void read_chunk(struct ckpt_ring *r, const struct ckpt_slot *slot)
{
	uint64_t start = slot->chunk * r->o.chunk, end = chunk_end(r, slot->chunk), pos = start;
	uint32_t *crc = r->crcs ? &r->crcs[r->first_piece[slot->chunk]] : NULL;
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc = has_failed(r, &r->reading) ? CKPT_E_IO : 0;

	while (rc == 0 && pos < end) {
		struct ckpt_manifest_piece p = ckpt_manifest_piece_at(r->o.manifest, pos, end);

		rc = ckpt_piece_reader_read(r->reader, &p, slot->memory + (pos - start), crc, &err);
		if (crc)
			crc++;
		pos += p.len;
	}
	if (rc < 0) {
		memset(slot->memory, 0, (size_t)(end - start));
		record_failure(r, &r->reading, rc, &err);
	}
}

/*
 * What this rank read itself was looked at then: on its way through the transport it must not have
 * changed.
 */
static int record_crc(struct ckpt_ring *r, uint64_t chunk, uint64_t piece, uint32_t crc,
		      struct ckpt_error *err)
{
	if (!r->crcs)
		return 0;
	if (!is_mine(r, chunk)) {
		r->crcs[piece] = crc;
		return 0;
	}
	if (r->crcs[piece] == crc || has_failed(r, &r->reading))
		return 0;
	return ckpt_fail(
		err, CKPT_E_FORMAT,
		"bytes changed in memory between reading and writing: memory or transport is "
		"broken");
}

static void write_chunk(struct ckpt_ring *r, const struct ckpt_slot *slot)
{
	uint64_t start = slot->chunk * r->o.chunk, end = chunk_end(r, slot->chunk), pos = start;
	uint64_t piece = r->first_piece[slot->chunk];
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc = 0;

	while (rc == 0 && pos < end) {
		struct ckpt_manifest_piece p = ckpt_manifest_piece_at(r->o.manifest, pos, end);
		uint32_t crc;

		rc = write_piece(r, &p, slot->memory + (pos - start), &crc, &err);
		if (rc == 0)
			rc = record_crc(r, slot->chunk, piece++, crc, &err);
		pos += p.len;
	}
	if (rc < 0)
		record_failure(r, &r->writing, rc, &err);
}

/* ---- threads ---- */

/* Called with the lock, as the next ones. */
static struct ckpt_slot *find_to_read(const struct ckpt_ring *r)
{
	if (r->next_read >= r->chunks || !ckpt_slots_may_read(&r->slots))
		return NULL;
	return ckpt_slots_free_for(&r->slots, r->next_read, true);
}

static bool is_work(const struct ckpt_ring *r)
{
	return ckpt_slots_first(&r->slots, CKPT_SLOT_ARRIVED) || find_to_read(r);
}

static void set_state(struct ckpt_ring *r, struct ckpt_slot *s, enum ckpt_slot_state state)
{
	s->state = state;
	pthread_cond_signal(&r->has_moved);
	if (is_work(r))
		pthread_cond_signal(&r->has_work);
}

static uint64_t next_mine(const struct ckpt_ring *r, uint64_t chunk)
{
	while (chunk < r->chunks && !is_mine(r, chunk))
		chunk++;
	return chunk;
}

/* What there is to do, what came first. */
static bool do_next_work(struct ckpt_ring *r)
{
	struct ckpt_slot *s = ckpt_slots_first(&r->slots, CKPT_SLOT_ARRIVED);
	uint64_t start;

	if (s) {
		set_state(r, s, CKPT_SLOT_WRITING);
		pthread_mutex_unlock(&r->lock);
		start = ckpt_now_nsec();
		write_chunk(r, s);
		start = ckpt_now_nsec() - start;
		pthread_mutex_lock(&r->lock);
		r->write_nsec += start;
		set_state(r, s, CKPT_SLOT_FREE);
		return true;
	}
	s = find_to_read(r);
	if (!s)
		return false;
	s->chunk = r->next_read;
	r->next_read = next_mine(r, r->next_read + 1);
	set_state(r, s, CKPT_SLOT_READING);
	pthread_mutex_unlock(&r->lock);
	read_chunk(r, s);
	pthread_mutex_lock(&r->lock);
	set_state(r, s, CKPT_SLOT_READY);
	return true;
}

static void *run_thread(void *arg)
{
	struct ckpt_ring *r = arg;

	pthread_mutex_lock(&r->lock);
	while (!r->quit)
		if (!do_next_work(r))
			pthread_cond_wait(&r->has_work, &r->lock);
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static int start_threads(struct ckpt_ring *r, struct ckpt_error *err)
{
	while (r->started < r->o.threads &&
	       ckpt_io_thread(&r->threads[r->started], run_thread, r) == 0)
		r->started++;
	if (!r->started)
		return ckpt_fail(err, CKPT_E_NOMEM,
				 "the system gives no thread to read and write with");
	return 0;
}

/* ---- made and freed ---- */

static uint64_t count_pieces(const struct ckpt_ring *r, uint64_t chunk)
{
	uint64_t pos = chunk * r->o.chunk, end = chunk_end(r, chunk), n = 0;

	for (; pos < end; n++)
		pos += ckpt_manifest_piece_at(r->o.manifest, pos, end).len;
	return n;
}

static bool init_slots(struct ckpt_ring *r)
{
	bool reads_too = r->o.readers > 1 && r->o.transport->rank < r->o.readers;

	return ckpt_slots_init(&r->slots, r->o.depth, reads_too ? r->o.depth : 0, r->o.transport->ops->is_on_gpu);
}

static int make_tables(struct ckpt_ring *r, struct ckpt_error *err)
{
	uint64_t pieces = 0, most = 0;

	r->first_piece = calloc(r->chunks + 1, sizeof(*r->first_piece));
	r->threads = calloc(r->o.threads, sizeof(*r->threads));
	if (!init_slots(r) || !r->first_piece || !r->threads)
		return ckpt_fail_nomem(err);
	for (uint64_t i = 0; i < r->chunks; i++) {
		uint64_t n = count_pieces(r, i);

		r->first_piece[i] = pieces;
		pieces += n;
		most = n > most ? n : most;
	}
	if (r->o.slab && r->o.transport->ops->is_on_gpu) {
		r->copies = calloc(most + 1, sizeof(*r->copies));
		if (!r->copies)
			return ckpt_fail_nomem(err);
	}
	r->first_piece[r->chunks] = pieces;
	if (r->o.crc) {
		r->crcs = calloc(pieces + 1, sizeof(*r->crcs));
		if (!r->crcs)
			return ckpt_fail_nomem(err);
	}
	return 0;
}

static int make_slots(struct ckpt_ring *r, struct ckpt_error *err)
{
	struct ckpt_transport *t = r->o.transport;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < r->slots.count; i++) {
		void *memory = NULL;

		rc = t->ops->alloc(t, r->o.chunk, &memory, err);
		r->slots.all[i].memory = memory;
	}
	return rc;
}

/*
 * A process alone knows what it read. It takes some time to load what sums, and nothing more can
 * be found by it than what the bus to the GPU looks at itself.
 */
static int prepare_sums(struct ckpt_ring *r, struct ckpt_error *err)
{
	struct ckpt_transport *t = r->o.transport;
	struct ckpt_error why = CKPT_ERROR_INIT;
	int rc;

	if (!r->copies || !r->crcs || t->size == 1 || !t->ops->prepare_sums ||
	    r->o.manifest->total < ckpt_ring_gpu_sums_from)
		return 0;
	rc = t->ops->prepare_sums(t, &why);
	r->gpu_sums = rc == 0;
	if (rc == 0 || rc == CKPT_E_UNSUPPORTED)
		return 0;
	*err = why;
	return rc;
}

int ckpt_ring_new(const struct ckpt_ring_options *options, struct ckpt_ring **out,
		  struct ckpt_error *err)
{
	struct ckpt_ring *r = calloc(1, sizeof(*r));
	int rc;

	*out = NULL;
	if (!r)
		return ckpt_fail_nomem(err);
	assert(options->depth <= CKPT_MOST_FLYING);
	r->o = *options;
	r->chunks = r->o.manifest->total / r->o.chunk + (r->o.manifest->total % r->o.chunk != 0);
	r->asked = r->o.transport->ops->is_on_gpu ? ASKED_OF_GPU : ASKED;
	/* no rank is further ahead of the next one than that has room for: over TCP chunks keep their order */
	if (r->asked > options->depth)
		r->asked = options->depth;
	r->next_read = next_mine(r, 0);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->has_work, NULL);
	pthread_cond_init(&r->has_moved, NULL);
	rc = ckpt_piece_reader_new(r->o.manifest, r->o.sources, r->o.rate, r->o.direct, &r->reader, err);
	if (rc == 0)
		rc = make_tables(r, err);
	if (rc == 0)
		rc = make_slots(r, err);
	if (rc == 0)
		rc = prepare_sums(r, err);
	if (rc == 0)
		rc = start_threads(r, err);
	if (rc < 0)
		ckpt_ring_free(r);
	else
		*out = r;
	return rc;
}

static void stop_threads(struct ckpt_ring *r)
{
	pthread_mutex_lock(&r->lock);
	r->quit = true;
	pthread_cond_broadcast(&r->has_work);
	pthread_mutex_unlock(&r->lock);
	for (unsigned i = 0; i < r->started; i++)
		pthread_join(r->threads[i], NULL);
	r->started = 0;
}

void ckpt_ring_free(struct ckpt_ring *r)
{
	if (!r)
		return;
	stop_threads(r);
	for (unsigned i = 0; r->slots.all && i < r->slots.count; i++)
		if (r->slots.all[i].memory)
			r->o.transport->ops->release(r->o.transport, r->slots.all[i].memory);
	pthread_cond_destroy(&r->has_work);
	pthread_cond_destroy(&r->has_moved);
	pthread_mutex_destroy(&r->lock);
	ckpt_piece_reader_free(r->reader);
	free(r->first_piece);
	free(r->crcs);
	free(r->copies);
	free(r->slots.all);
	free(r->threads);
	free(r);
}

/* ---- carrying ---- */

/* By the GPU, where the bytes stay. Many small pieces are sooner summed by the host. */
static bool is_summed(const struct ckpt_ring *r, uint64_t chunk)
{
	return r->gpu_sums && r->first_piece[chunk + 1] - r->first_piece[chunk] <= CKPT_MOST_SUMS;
}

/*
 * Does this rank look at CHUNK when it came, or write it? What it read itself was summed then, and
 * is summed again on its way to a file only.
 */
static bool wants_chunk(const struct ckpt_ring *r, uint64_t chunk)
{
	return r->o.landing || (r->o.slab && !r->copies) ||
	       (r->crcs && !is_mine(r, chunk) && !is_summed(r, chunk));
}

/* What the GPU says of the pieces of CHUNK, which the transport has brought. */
static void take_sums(struct ckpt_ring *r, uint64_t chunk)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t first = r->first_piece[chunk];

	for (uint64_t i = first; i < r->first_piece[chunk + 1]; i++) {
		int rc = record_crc(r, chunk, i,
				    r->o.transport->ops->sum(r->o.transport, ticket_of(r, chunk), i - first),
				    &err);

		if (rc < 0)
			record_failure(r, &r->writing, rc, &err);
	}
}

static bool is_flying(const struct ckpt_ring *r)
{
	return r->landed < r->slots.carried;
}

/* The oldest chunk in the air, if it has come. */
static int poll_transport(struct ckpt_ring *r, struct ckpt_error *err)
{
	int done;

	if (!is_flying(r))
		return r->o.transport->ops->look ? r->o.transport->ops->look(r->o.transport, err) : 0;
	done = r->o.transport->ops->test(r->o.transport, ticket_of(r, r->landed), err);
	if (done <= 0)
		return done;
	if (is_summed(r, r->landed))
		take_sums(r, r->landed);
	pthread_mutex_lock(&r->lock);
	set_state(r, ckpt_slots_first(&r->slots, CKPT_SLOT_FLYING),
		  wants_chunk(r, r->landed) ? CKPT_SLOT_ARRIVED : CKPT_SLOT_FREE);
	pthread_mutex_unlock(&r->lock);
	r->landed++;
	r->last_nsec = ckpt_now_nsec();
	if (r->o.transport->ops->say_moving)
		r->o.transport->ops->say_moving(r->o.transport);
	if (r->o.progress)
		r->o.progress(r->o.ctx, r->landed < r->chunks ? r->landed * r->o.chunk
							      : r->o.manifest->total);
	return 1;
}

/*
 * Who waits for its own disk knows whose it is, and says so before the others, which only see that nothing
 * comes, give up.
 */
static int check_own_disk(struct ckpt_ring *r, struct ckpt_error *err)
{
	uint64_t most = r->o.stall_nsec - (r->o.transport->size > 1 ? r->o.stall_nsec / SOONER : 0);
	bool reads;

	if (ckpt_now_nsec() - r->last_nsec < most)
		return 0;
	pthread_mutex_lock(&r->lock);
	reads = ckpt_slots_count(&r->slots, CKPT_SLOT_READING) > 0;
	pthread_mutex_unlock(&r->lock);
	return ckpt_fail(err, CKPT_E_PEER,
			 "this rank has %s nothing for %" PRIu64 " s, behind chunk %" PRIu64 " of %" PRIu64
			 ": the disk of the %s hangs, or is too slow",
			 reads ? "read" : "written", most / 1000000000u, r->landed, r->chunks,
			 reads ? "source" : "destination");
}

/* A chunk may take longer than that on its way: as long as something of it moves, anywhere, it comes. */
static int check_stall(const struct ckpt_ring *r, struct ckpt_error *err)
{
	const struct ckpt_transport *t = r->o.transport;
	uint64_t moved = t->ops->moved_at ? t->ops->moved_at(t) : 0;
	char reader[60] = "";

	if (ckpt_now_nsec() - (moved > r->last_nsec ? moved : r->last_nsec) < r->o.stall_nsec)
		return 0;
	if (!is_mine(r, r->landed))
		snprintf(reader, sizeof(reader), "rank %" PRIu32 ", which reads the next, or ", reader_of(r, r->landed));
	return ckpt_fail(err, CKPT_E_PEER,
			 "no bytes came for %" PRIu64 " s, after chunk %" PRIu64 " of %" PRIu64
			 ": %sanother %s has died or hangs, or the network carries nothing between two of them",
			 r->o.stall_nsec / 1000000000u, r->landed, r->chunks, reader, *reader ? "one" : "rank");
}

/* Other transports wait for the next vote: the others could not be told. */
static int check_cancel(const struct ckpt_ring *r, struct ckpt_error *err)
{
	if ((r->o.transport->size > 1 && !r->o.transport->ops->stop) || !ckpt_cancelled(r->o.cancel))
		return 0;
	return ckpt_fail(err, CKPT_E_CANCELLED, "interrupted, nothing was written");
}

/* With the lock: where the chunk is, or is to come; NULL: not now. */
static struct ckpt_slot *slot_to_begin(const struct ckpt_ring *r, uint64_t chunk)
{
	struct ckpt_slot *ready;

	if (r->slots.carried - r->landed >= r->asked)
		return NULL;
	if (!is_mine(r, chunk))
		return ckpt_slots_free_for(&r->slots, chunk, false);
	ready = ckpt_slots_first(&r->slots, CKPT_SLOT_READY);
	return ready && ready->chunk == chunk ? ready : NULL;
}

/* With the lock, and nothing is in the air: is it only the destination's disk that this rank waits for? */
static bool waits_to_write(const struct ckpt_ring *r)
{
	return ckpt_slots_count(&r->slots, CKPT_SLOT_READING) == 0 &&
	       ckpt_slots_count(&r->slots, CKPT_SLOT_ARRIVED) + ckpt_slots_count(&r->slots, CKPT_SLOT_WRITING) > 0;
}

static bool can_begin(struct ckpt_ring *r, uint64_t chunk)
{
	return slot_to_begin(r, chunk) != NULL;
}

/* Called with the lock: until a thread tells something, or a while has passed. */
static void wait_for_threads(struct ckpt_ring *r)
{
	bool writes = waits_to_write(r);
	uint64_t start = ckpt_now_nsec();
	struct timespec t;

	ckpt_slots_read_further(&r->slots); /* nothing is in the air */
	if (is_work(r))
		pthread_cond_signal(&r->has_work);
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += WAIT_NSEC;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&r->has_moved, &r->lock, &t);
	if (writes)
		r->disk_nsec += ckpt_now_nsec() - start;
}

/*
 * MPI moves bytes only while it is asked, and a chunk takes less time than the shortest sleep: the
 * processor is only left to others at first, and slept upon when nothing has come for a while. A
 * GPU moves its bytes itself, a chunk takes longer than the sleep, and NCCL's threads need the
 * processor.
 */
static void pause_poll(struct ckpt_ring *r)
{
	uint64_t waited = ckpt_now_nsec() - r->last_nsec;

	if (r->o.transport->ops->is_on_gpu)
		nanosleep(&(struct timespec){ 0, GPU_POLL_NSEC }, NULL);
	else if (waited < (r->o.transport->ops->wait ? SHORT_SPIN_NSEC : SPIN_NSEC))
		sched_yield();
	else
		ckpt_transport_pause(r->o.transport, waited);
}

/*
 * READY is asked with the lock. What is in the air has to be asked for, threads tell of themselves.
 */
static int wait_for(struct ckpt_ring *r, bool (*ready)(struct ckpt_ring *, uint64_t),
		    uint64_t chunk, struct ckpt_error *err)
{
	bool flying, is_ready, writes;
	int rc = 0;

	do {
		flying = is_flying(r);
		pthread_mutex_lock(&r->lock);
		is_ready = ready(r, chunk);
		if (!is_ready && !flying)
			wait_for_threads(r);
		writes = r->write_nsec != r->said_nsec;
		r->said_nsec = r->write_nsec;
		pthread_mutex_unlock(&r->lock);
		if (writes && r->o.transport->ops->say_moving)
			r->o.transport->ops->say_moving(r->o.transport);
		if (is_ready)
			return 0;
		rc = poll_transport(r, err);
		if (rc == 0)
			rc = flying ? check_stall(r, err) : check_own_disk(r, err);
		if (rc >= 0 && check_cancel(r, err) < 0)
			rc = CKPT_E_CANCELLED;
		if (rc == 0 && flying)
			pause_poll(r);
	} while (rc >= 0);
	return rc;
}

/* Where the pieces of a chunk belong on the GPU. */
static size_t list_copies(struct ckpt_ring *r, uint64_t chunk)
{
	uint64_t start = chunk * r->o.chunk, end = chunk_end(r, chunk);
	size_t n = 0;

	for (uint64_t pos = start; pos < end; n++) {
		struct ckpt_manifest_piece p = ckpt_manifest_piece_at(r->o.manifest, pos, end);

		r->copies[n] =
			(struct ckpt_transport_copy){ (size_t)(pos - start),
						      ckpt_slab_address(r->o.slab, p.file, p.off),
						      (size_t)p.len };
		pos += p.len;
	}
	return n;
}

static int begin_chunk(struct ckpt_ring *r, uint64_t chunk, struct ckpt_error *err)
{
	struct ckpt_transport *t = r->o.transport;
	struct ckpt_transport_chunk carried;
	struct ckpt_slot *s;

	pthread_mutex_lock(&r->lock);
	s = slot_to_begin(r, chunk);
	s->chunk = chunk;
	ckpt_slots_carry(&r->slots, chunk, is_mine(r, chunk));
	set_state(r, s, CKPT_SLOT_FLYING);
	pthread_mutex_unlock(&r->lock);
	carried = (struct ckpt_transport_chunk){
		.buffer = s->memory,
		.nbytes = (size_t)(chunk_end(r, chunk) - chunk * r->o.chunk),
		.root = reader_of(r, chunk),
		.copies = r->copies,
		.copy_count = r->copies ? list_copies(r, chunk) : 0,
		.not_in_buffer = !wants_chunk(r, chunk),
		.sums = is_summed(r, chunk),
	};
	return t->ops->begin(t, &carried, ticket_of(r, chunk), err);
}

static bool all_landed(struct ckpt_ring *r, uint64_t chunk)
{
	(void)chunk;
	return !is_flying(r);
}

/* No slot holds what still has to be written. */
static bool all_written(struct ckpt_ring *r, uint64_t chunk)
{
	(void)chunk;
	r->last_nsec = ckpt_now_nsec(); /* a slow disk of this rank is no silence of others */
	return ckpt_slots_count(&r->slots, CKPT_SLOT_ARRIVED) +
		       ckpt_slots_count(&r->slots, CKPT_SLOT_WRITING) ==
	       0;
}

static int carry_all(struct ckpt_ring *r, struct ckpt_error *err)
{
	bool stop = false;
	int rc = 0;

	r->last_nsec = ckpt_now_nsec();
	for (uint64_t k = 0; rc == 0 && !stop && k < r->chunks; k++) {
		if (k && k % r->o.vote_every == 0) {
			if (r->o.transport->size > 1)
				rc = wait_for(r, all_landed, 0, err);
			stop = rc == 0 && r->o.vote(r->o.ctx) != 0;
			r->last_nsec = ckpt_now_nsec();
		}
		if (rc == 0 && !stop)
			rc = wait_for(r, can_begin, k, err);
		if (rc == 0 && !stop)
			rc = begin_chunk(r, k, err);
	}
	if (rc == 0)
		rc = wait_for(r, all_landed, 0, err);
	return rc < 0 ? rc : wait_for(r, all_written, 0, err);
}

/*
 * NCCL takes one chunk at a time, and idles until it is asked whether it has it. The system lets a thread sleep 50 us longer
 * than it wants, unless the thread says how much that may be.
 */
int ckpt_ring_run(struct ckpt_ring *r, struct ckpt_error *err)
{
	int slack = r->o.transport->ops->is_on_gpu ? prctl(PR_GET_TIMERSLACK) : -1;
	int rc;

	if (slack > GPU_SLACK_NSEC)
		prctl(PR_SET_TIMERSLACK, (unsigned long)GPU_SLACK_NSEC);
	rc = carry_all(r, err);
	if (slack > GPU_SLACK_NSEC)
		prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
	return rc;
}

void ckpt_ring_disk_nsec(struct ckpt_ring *r, uint64_t *waited, uint64_t *written)
{
	pthread_mutex_lock(&r->lock);
	*waited = r->disk_nsec;
	*written = r->write_nsec;
	pthread_mutex_unlock(&r->lock);
}

void ckpt_ring_crcs(const struct ckpt_ring *r, uint32_t *out)
{
	uint64_t piece = 0;

	for (uint32_t i = 0; i < r->o.manifest->count; i++)
		out[i] = 0;
	for (uint64_t chunk = 0; chunk < r->chunks; chunk++) {
		uint64_t pos = chunk * r->o.chunk, end = chunk_end(r, chunk);

		while (pos < end) {
			struct ckpt_manifest_piece p =
				ckpt_manifest_piece_at(r->o.manifest, pos, end);

			out[p.file] = (uint32_t)crc32_combine(out[p.file], r->crcs[piece++],
							      (z_off_t)p.len);
			pos += p.len;
		}
	}
}
