/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "broadcast/tcp_head.h"
#include "broadcast/tcp_ring.h"
#include "broadcast/transport_tcp.h"
#include "io/network.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Ranks that are threads carry over TCP, on the loopback. What needs processes that die is in tests/broadcast/tcp.py. */

enum { MOST_RANKS = 6, CHUNK = 300001 };

typedef void play(struct ckpt_transport *t);

struct rank {
	pthread_t thread;
	struct ckpt_world world;
	struct ckpt_tcp_star *star; /* for rank 0: it listens already */
	struct ckpt_tcp_place place;
	const char *interface;
	double seconds;
	play *part;
	void (*raw)(struct ckpt_tcp_star *star,
		    struct ckpt_tcp_ring *ring); /* in the place of a transport */
	struct ckpt_failure_notice told;
	struct ckpt_error err;
	int rc;
};

static _Thread_local uint32_t own_rank;
static struct rank ranks[MOST_RANKS];
static const uint8_t secret[CKPT_WIRE_KEY] = { 1, 2, 3 };
static volatile int cancel;
static pthread_barrier_t barrier;

static int setup(void **state)
{
	(void)state;
	__atomic_store_n(&cancel, 0, __ATOMIC_RELAXED);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ckpt_io_set_hook(NULL, NULL);
	return 0;
}

static uint64_t in_seconds(double seconds)
{
	return ckpt_now_nsec() + (uint64_t)(seconds * 1e9);
}

static void *run_rank(void *arg)
{
	struct rank *r = arg;
	struct ckpt_transport *t = NULL;
	struct ckpt_tcp_ring ring;

	own_rank = r->world.rank;
	r->rc = r->star ? 0 : ckpt_tcp_star_new(&r->world, secret, &r->place, &r->star, &r->err);
	if (r->rc < 0)
		return NULL;
	if (r->raw) {
		r->rc = ckpt_tcp_ring_open(r->star, r->interface, &cancel, in_seconds(r->seconds),
					   &ring, &r->err);
		if (r->rc == 0)
			r->raw(r->star, &ring);
		ckpt_tcp_ring_close(&ring);
		ckpt_tcp_star_close(r->star, true);
		return NULL;
	}
	r->rc = ckpt_transport_open_tcp(r->star, r->interface, &cancel, in_seconds(r->seconds), &t, &r->told,
					&r->err);
	if (r->rc == 0 && r->part)
		r->part(t);
	if (t)
		t->ops->close(t);
	return NULL;
}

static void make_ranks(uint32_t size, double seconds, play *part)
{
	struct ckpt_tcp_resolved at;
	struct ckpt_error err = CKPT_ERROR_INIT;

	memset(ranks, 0, sizeof(ranks));
	assert_int_equal(ckpt_tcp_find_own("lo", &at, &err), 0);
	for (uint32_t i = 0; i < size; i++) {
		ranks[i].world = (struct ckpt_world){ .rank = i, .size = size };
		ranks[i].seconds = seconds;
		ranks[i].part = part;
	}
	ranks[0].place.nonce[0] = 77;
	assert_int_equal(ckpt_tcp_star_new(&ranks[0].world, secret, &ranks[0].place, &ranks[0].star,
					   &err),
			 0);
	assert_int_equal(ckpt_tcp_star_listen(ranks[0].star, &at, &ranks[0].place, &err), 0);
	for (uint32_t i = 1; i < size; i++)
		ranks[i].place = ranks[0].place;
}

static void start(uint32_t i)
{
	assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
}

static void run(uint32_t size)
{
	pthread_barrier_init(&barrier, NULL, size);
	for (uint32_t i = 0; i < size; i++)
		start(i);
	for (uint32_t i = 0; i < size; i++)
		pthread_join(ranks[i].thread, NULL);
	pthread_barrier_destroy(&barrier);
}

static void check_all(uint32_t size)
{
	for (uint32_t i = 0; i < size; i++) {
		if (ranks[i].rc < 0)
			print_message("rank %u: %s\n", i, unit_message(&ranks[i].err));
		assert_int_equal(ranks[i].rc, 0);
	}
}

static void check_text(uint32_t i, int status, const char *text)
{
	if (ranks[i].rc != status || !strstr(unit_text(&ranks[i].err), text))
		print_message("rank %u, %d: %s\nwanted: %d, %s\n", i, ranks[i].rc,
			      unit_text(&ranks[i].err), status, text);
	assert_int_equal(ranks[i].rc, status);
	assert_non_null(strstr(unit_text(&ranks[i].err), text));
}

/* Of this rank, for the tests. */
static void fail_rank(struct ckpt_transport *t, int rc, const struct ckpt_error *err)
{
	ranks[t->rank].rc = rc;
	ranks[t->rank].err = *err;
}

/* ---- bytes ---- */

static uint8_t byte_of(unsigned chunk, size_t at)
{
	return (uint8_t)((chunk * 2654435761u + at * 40503u) >> 8);
}

/* 0: all is there. */
static int carry(struct ckpt_transport *t, unsigned count, unsigned at_a_time, uint32_t roots,
		 struct ckpt_error *err)
{
	static const size_t sizes[] = { CHUNK, 1, 4096, 0, CHUNK - 7, 19, 100000 };
	uint8_t *buffers[CKPT_MOST_FLYING];
	int rc = 0;

	for (unsigned i = 0; i < at_a_time; i++)
		buffers[i] = malloc(CHUNK);
	for (unsigned begun = 0, landed = 0; rc == 0 && landed < count;) {
		unsigned ticket = begun % at_a_time;

		if (begun < count && begun - landed < at_a_time) {
			struct ckpt_transport_chunk c = { .buffer = buffers[ticket],
							  .nbytes = sizes[begun % COUNT(sizes)],
							  .root = begun % roots };

			for (size_t i = 0; i < c.nbytes; i++)
				buffers[ticket][i] = c.root == t->rank ? byte_of(begun, i) : 0;
			rc = t->ops->begin(t, &c, ticket, err);
			begun++;
			continue;
		}
		ticket = landed % at_a_time;
		rc = t->ops->test(t, ticket, err);
		if (rc <= 0)
			continue;
		rc = 0;
		for (size_t i = 0; i < sizes[landed % COUNT(sizes)]; i++)
			if (buffers[ticket][i] != byte_of(landed, i))
				rc = ckpt_fail(err, CKPT_E_FORMAT, "chunk %u, byte %zu", landed, i);
		landed++;
	}
	for (unsigned i = 0; i < at_a_time; i++)
		free(buffers[i]);
	return rc;
}

static void vote_and_carry(struct ckpt_transport *t)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc = 0;

	for (unsigned round = 0; rc == 0 && round < 4; round++) {
		uint64_t numbers[3] = { t->rank, UINT64_MAX - t->rank, round };

		rc = carry(t, 30, round % 2 ? 3 : CKPT_MOST_FLYING, round < 2 ? 1 : t->size, &err);
		if (rc == 0)
			rc = t->ops->vote(t, numbers, 3, in_seconds(20), &err);
		if (rc == 0 &&
		    (numbers[0] != t->size - 1 || numbers[1] != UINT64_MAX || numbers[2] != round))
			rc = ckpt_fail(&err, CKPT_E_FORMAT, "another result of the vote");
	}
	fail_rank(t, rc, &err);
}

static void all_ranks_get_the_bytes_and_the_result(void **state)
{
	(void)state;
	for (uint32_t size = 2; size <= MOST_RANKS; size++) {
		make_ranks(size, 20, vote_and_carry);
		run(size);
		check_all(size);
	}
}

static void a_rank_may_come_late(void **state)
{
	(void)state;
	make_ranks(3, 20, vote_and_carry);
	start(1);
	start(2);
	nanosleep(&(struct timespec){ 0, 200000000 }, NULL);
	start(0);
	for (uint32_t i = 0; i < 3; i++)
		pthread_join(ranks[i].thread, NULL);
	check_all(3);
}

/* ---- who is missing, silent or foreign ---- */

static void a_rank_that_does_not_come_is_named(void **state)
{
	(void)state;
	make_ranks(3, 1, NULL);
	start(0);
	start(1);
	pthread_join(ranks[0].thread, NULL);
	pthread_join(ranks[1].thread, NULL);
	check_text(0, CKPT_E_PEER, "waiting for rank 2 of 3 at '127.0.0.1:");
	check_text(1, CKPT_E_PEER, "waiting for rank 2 of 3 at '127.0.0.1:");
	check_text(0, CKPT_E_PEER, "--interface NAME chooses another network");
}

static void rank_0_that_is_not_there_is_named(void **state)
{
	(void)state;
	make_ranks(2, 1, NULL);
	ckpt_tcp_star_close(ranks[0].star, true);
	start(1);
	pthread_join(ranks[1].thread, NULL);
	check_text(1, CKPT_E_PEER, "waiting for rank 0 of 2 at '127.0.0.1:");
	check_text(1, CKPT_E_PEER, ": Connection refused");
}

static void hang(struct ckpt_tcp_star *star, struct ckpt_tcp_ring *ring)
{
	uint64_t nothing = 0;

	(void)ring;
	ckpt_tcp_star_vote(star, &nothing, 1, in_seconds(20), NULL);
	pthread_barrier_wait(&barrier);
}

/* Sooner than it is told to wait, because bytes come or can go. */
static void wait_for_bytes(struct ckpt_transport *t)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	static uint8_t buffers[MOST_RANKS][1 << 20];
	struct ckpt_transport_chunk c = { .buffer = buffers[t->rank], .nbytes = sizeof(buffers[0]), .root = 0 };
	uint64_t start = ckpt_now_nsec();
	int rc = t->ops->begin(t, &c, 0, &err), done = 0;

	while (rc == 0 && !done && (done = t->ops->test(t, 0, &err)) == 0)
		t->ops->wait(t, 20000000000);
	if (rc == 0)
		rc = done < 0 ? done : 0;
	if (rc == 0 && ckpt_now_nsec() - start > 10000000000)
		rc = ckpt_fail(&err, CKPT_E_PEER, "it waited for nothing");
	fail_rank(t, rc, &err);
	pthread_barrier_wait(&barrier); /* who has its bytes ends no connection */
}

static void waiting_ends_with_the_bytes(void **state)
{
	(void)state;
	make_ranks(4, 20, wait_for_bytes);
	run(4);
	check_all(4);
}

static void vote_in_vain(struct ckpt_transport *t)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t nothing = 0;
	char text[200];
	int rc = t->ops->vote(t, &nothing, 1, in_seconds(0.3), &err);

	t->ops->find_silent(t, 300000000, text, sizeof(text));
	ckpt_error_append(&err, "; no answer from %s", text);
	fail_rank(t, rc, &err);
	pthread_barrier_wait(&barrier);
}

static void a_rank_that_hangs_is_named_on_all(void **state)
{
	(void)state;
	for (uint32_t i = 1; i < 4; i++) {
		char text[60];

		make_ranks(4, 20, vote_in_vain);
		ranks[i].raw = hang;
		run(4);
		snprintf(text, sizeof(text), "; no answer from rank %" PRIu32 " (", i);
		for (uint32_t k = 0; k < 4; k++)
			if (k != i)
				check_text(k, CKPT_E_PEER, text);
	}
}

/* What the one before rank 2 sends in the place of a chunk, and what is said of it. */
static const struct {
	struct ckpt_tcp_head head;
	bool damaged;
	const char *text;
} wrong[] = {
	{ { 0, 99, 0 },
	  false,
	  "sent chunk 0 of 99 bytes of rank 0, which is not what comes next (1 were begun here)" },
	{ { 0, 4096, 1 },
	  false,
	  "sent chunk 0 of 4096 bytes of rank 1, which is not what comes next" },
	{ { 16 + 1, 4096, 0 },
	  false,
	  "sent chunk 17 of 4096 bytes of rank 0, which is not what comes next" },
	{ { UINT64_MAX, UINT32_MAX, UINT32_MAX },
	  false,
	  "sent chunk 18446744073709551615 of 4294967295 bytes" },
	{ { 0, 4096, 0 }, true, "sent what is no chunk" },
};
static size_t which;

static void send_wrong(struct ckpt_tcp_star *star, struct ckpt_tcp_ring *ring)
{
	uint8_t head[CKPT_TCP_HEAD];
	uint64_t nothing = 0;

	ckpt_tcp_star_vote(star, &nothing, 1, in_seconds(20), NULL);
	ckpt_tcp_head_write(&wrong[which].head, head);
	head[0] ^= wrong[which].damaged;
	ckpt_io_send(ring->next, head, sizeof(head));
	pthread_barrier_wait(&barrier);
}

static int wait_for(struct ckpt_transport *t, unsigned ticket, double seconds,
		    struct ckpt_error *err)
{
	uint64_t end = in_seconds(seconds);
	int rc;

	while ((rc = t->ops->test(t, ticket, err)) == 0 && ckpt_now_nsec() < end)
		nanosleep(&(struct timespec){ 0, 20000 }, NULL);
	return rc;
}

static void receive_wrong(struct ckpt_transport *t)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint8_t buffer[4096 + 64];
	struct ckpt_transport_chunk c = { .buffer = buffer, .nbytes = 4096, .root = 0 };
	int rc;

	memset(buffer, 'x', sizeof(buffer));
	rc = t->ops->begin(t, &c, 0, &err);
	if (rc == 0 && t->rank == 2)
		rc = wait_for(t, 0, 20, &err);
	for (size_t i = 4096; i < sizeof(buffer); i++)
		if (buffer[i] != 'x')
			rc = ckpt_fail(&err, CKPT_E_FORMAT, "written behind the chunk");
	fail_rank(t, rc, &err);
	if (rc < 0)
		t->ops->abort(t);
	pthread_barrier_wait(&barrier);
}

static void a_chunk_that_does_not_fit_ends_the_transport(void **state)
{
	(void)state;
	for (which = 0; which < COUNT(wrong); which++) {
		make_ranks(3, 20, receive_wrong);
		ranks[1].raw = send_wrong;
		run(3);
		check_text(2, CKPT_E_PEER, wrong[which].text);
	}
}

/* All is sent but the end, and then the connection ends. */
static void send_a_part(struct ckpt_tcp_star *star, struct ckpt_tcp_ring *ring)
{
	static uint8_t bytes[CKPT_TCP_HEAD + 4096];
	uint64_t nothing = 0;

	ckpt_tcp_star_vote(star, &nothing, 1, in_seconds(20), NULL);
	ckpt_tcp_head_write(&(struct ckpt_tcp_head){ 0, 4096, 0 }, bytes);
	ckpt_io_send(ring->next, bytes, sizeof(bytes) - 1);
	ckpt_tcp_ring_close(ring);
	pthread_barrier_wait(&barrier);
}

static void a_connection_that_ends_in_a_chunk_is_an_error(void **state)
{
	(void)state;
	make_ranks(3, 20, receive_wrong);
	ranks[1].raw = send_a_part;
	run(3);
	check_text(2, CKPT_E_PEER, "rank 1 (");
	check_text(2, CKPT_E_PEER, ") ended the connection");
}

static void stop_all(struct ckpt_tcp_star *star, struct ckpt_tcp_ring *ring)
{
	const struct ckpt_failure_notice why = { .status = CKPT_E_PEER, .rank = 1, .text = "rank 1 has a reason" };
	uint64_t nothing = 0;

	(void)ring;
	ckpt_tcp_star_vote(star, &nothing, 1, in_seconds(20), NULL);
	ckpt_tcp_star_stop(star, &why);
	pthread_barrier_wait(&barrier);
}

static void wait_for_nothing(struct ckpt_transport *t)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint8_t buffer[64];
	struct ckpt_transport_chunk c = { .buffer = buffer, .nbytes = sizeof(buffer), .root = 1 };
	int rc = t->ops->begin(t, &c, 0, &err);

	if (rc == 0)
		rc = wait_for(t, 0, 20, &err);
	fail_rank(t, rc, &err);
	pthread_barrier_wait(&barrier);
}

static void a_rank_that_stops_is_heard_by_all_at_once(void **state)
{
	uint64_t before = ckpt_now_nsec();

	(void)state;
	make_ranks(4, 20, wait_for_nothing);
	ranks[1].raw = stop_all;
	run(4);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 1)
			check_text(i, CKPT_E_PEER, "rank 1 has a reason");
	assert_true(ckpt_now_nsec() - before < 5000000000);
}

static void vote_on_two(struct ckpt_tcp_star *star, struct ckpt_tcp_ring *ring)
{
	uint64_t numbers[2] = { 0 };

	(void)ring;
	ckpt_tcp_star_vote(star, numbers, 1, in_seconds(20), NULL);
	ckpt_tcp_star_vote(star, numbers, 2, in_seconds(0.5), NULL);
	pthread_barrier_wait(&barrier);
}

static void vote_on_three(struct ckpt_transport *t)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t numbers[3] = { 0 };
	int rc = t->ops->vote(t, numbers, 3, in_seconds(20), &err);

	fail_rank(t, rc, &err);
	if (rc < 0)
		t->ops->abort(t);
	pthread_barrier_wait(&barrier);
}

static void a_vote_on_something_else_is_an_error(void **state)
{
	(void)state;
	make_ranks(2, 20, vote_on_three);
	ranks[1].raw = vote_on_two;
	run(2);
	check_text(0, CKPT_E_PEER, ") votes on 2 numbers, rank 0 on 3");
}

/* ---- calls of the system that fail ---- */

struct fault {
	enum ckpt_io_op op;
	int code;
	unsigned at;
	atomic_uint seen;
};

static int inject(void *ctx, enum ckpt_io_op op)
{
	struct fault *f = ctx;

	return op == f->op && atomic_fetch_add(&f->seen, 1) + 1 == f->at ? f->code : 0;
}

/* As a broadcast does: who fails looks for the silent ones, and then gives up. */
static void carry_or_give_up(struct ckpt_transport *t)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t nothing = 0;
	char text[200];
	int rc = carry(t, 12, 3, t->size, &err);

	if (rc == 0)
		rc = t->ops->vote(t, &nothing, 1, in_seconds(5), &err);
	if (rc < 0) {
		t->ops->find_silent(t, 300000000, text, sizeof(text));
		t->ops->abort(t);
	}
	fail_rank(t, rc, &err);
}

static void whichever_call_fails_all_ranks_end(void **state)
{
	static const struct {
		enum ckpt_io_op op;
		int code;
	} faults[] = {
		{ CKPT_IO_SOCKET, EMFILE },	{ CKPT_IO_BIND, EACCES },
		{ CKPT_IO_LISTEN, EADDRINUSE }, { CKPT_IO_ACCEPT, EMFILE },
		{ CKPT_IO_CONNECT, ENETDOWN },	{ CKPT_IO_SEND, ECONNRESET },
		{ CKPT_IO_RECV, ECONNRESET },	{ CKPT_IO_POLL, ENOMEM },
		{ CKPT_IO_SEND, EINTR },	{ CKPT_IO_RECV, EINTR },
		{ CKPT_IO_POLL, EINTR },
	};
	static const unsigned places[] = { 1, 2, 3, 5, 8, 13, 21, 34, 55, 89 };
	unsigned failed = 0;

	(void)state;
	for (size_t f = 0; f < COUNT(faults); f++)
		for (size_t p = 0; p < COUNT(places); p++) {
			struct fault fault = { .op = faults[f].op,
					       .code = faults[f].code,
					       .at = places[p] };
			uint64_t before = ckpt_now_nsec();

			make_ranks(3, 1, carry_or_give_up);
			ckpt_io_set_hook(inject, &fault);
			run(3);
			ckpt_io_set_hook(NULL, NULL);
			if (atomic_load(&fault.seen) < fault.at)
				break;
			for (uint32_t i = 0; i < 3; i++) {
				if (ranks[i].rc == CKPT_E_FORMAT)
					print_message("fault %zu at %u, rank %u: %s\n", f, fault.at,
						      i, unit_message(&ranks[i].err));
				assert_int_not_equal(ranks[i].rc, CKPT_E_FORMAT); /* other bytes */
				failed += ranks[i].rc < 0;
			}
			if (fault.code == EINTR)
				check_all(3);
			assert_true(ckpt_now_nsec() - before < 8000000000);
		}
	assert_true(failed > 50);
}

/* ---- a rank that hangs while they connect ---- */

static const double PATIENCE = 0.6; /* seconds; nothing else waits that long */

struct hanging {
	uint32_t rank;
	unsigned at;
	atomic_uint seen;
	atomic_bool goes_on;
};

static int hang_at(void *ctx, enum ckpt_io_op op)
{
	struct hanging *h = ctx;

	if (op != CKPT_IO_RECV || own_rank != h->rank || atomic_fetch_add(&h->seen, 1) + 1 != h->at)
		return 0;
	while (!atomic_load(&h->goes_on))
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	return ECONNRESET;
}

/* Rank 2 as it waits for something for the AT-th time; the others wait as in a broadcast, a little longer than rank 0. Have they ended? */
static bool hang_while_they_connect(unsigned at)
{
	struct hanging h = { .rank = 2, .at = at };

	make_ranks(4, PATIENCE, NULL);
	for (uint32_t i = 1; i < 4; i++)
		ranks[i].seconds = PATIENCE * 1.25;
	ckpt_io_set_hook(hang_at, &h);
	for (uint32_t i = 0; i < 4; i++)
		start(i);
	for (uint32_t i = 0; i < 4; i++)
		if (i != h.rank)
			pthread_join(ranks[i].thread, NULL);
	atomic_store(&h.goes_on, true);
	pthread_join(ranks[h.rank].thread, NULL);
	ckpt_io_set_hook(NULL, NULL);
	return atomic_load(&h.seen) >= at && ranks[0].rc < 0;
}

static void a_rank_that_hangs_while_they_connect_is_named_on_all(void **state)
{
	static const unsigned places[] = { 1, 4, 5, 6, 7, 8, 11, 15 };
	unsigned hung = 0;

	(void)state;
	for (size_t p = 0; p < COUNT(places); p++) {
		if (!hang_while_they_connect(places[p]))
			continue; /* they were done */
		hung++;
		for (uint32_t i = 0; i < 4; i++) {
			if (i == 2)
				continue;
			check_text(i, CKPT_E_PEER, "rank 2 ");
			assert_null(strstr(unit_text(&ranks[i].err), "no answer from rank 0"));
		}
	}
	assert_true(hung >= 6);
}

/* ---- strangers ---- */

static void another_secret_is_none_of_ours(void **state)
{
	static const uint8_t other[CKPT_WIRE_KEY] = { 9 };
	struct ckpt_error err = CKPT_ERROR_INIT;

	(void)state;
	make_ranks(2, 2, NULL);
	assert_int_equal(ckpt_tcp_star_new(&ranks[1].world, other, &ranks[1].place, &ranks[1].star,
					   &err),
			 0);
	start(0);
	start(1);
	pthread_join(ranks[0].thread, NULL);
	pthread_join(ranks[1].thread, NULL);
	check_text(0, CKPT_E_PEER, "has another token");
	check_text(1, CKPT_E_PEER, "has another token");
}

/* What rank 0 said says more than that nobody listens at its next address, or there any more. */
static void what_rank_0_said_is_told_though_another_address_is_dead(void **state)
{
	static const uint8_t other[CKPT_WIRE_KEY] = { 9 };
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct sockaddr_in nobody = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(1) };
	struct sockaddr_storage dead = { 0 };

	(void)state;
	make_ranks(2, 1, NULL);
	memcpy(&dead, &nobody, sizeof(nobody));
	ckpt_tcp_spot_write(&dead, ranks[1].place.spots[1]);
	ranks[1].place.count = 2;
	assert_int_equal(ckpt_tcp_star_new(&ranks[1].world, other, &ranks[1].place, &ranks[1].star, &err), 0);
	start(0);
	start(1);
	pthread_join(ranks[0].thread, NULL);
	pthread_join(ranks[1].thread, NULL);
	check_text(1, CKPT_E_PEER, "has another token");
}

static void an_interface_that_is_not_there_is_told(void **state)
{
	(void)state;
	make_ranks(2, 1, NULL);
	for (int i = 0; i < 2; i++)
		ranks[i].interface = "none7";
	run(2);
	check_text(1, CKPT_E_ARG, "this host has no interface 'none7' with an address, it has: ");
}

static void it_can_be_cancelled(void **state)
{
	(void)state;
	make_ranks(2, 30, NULL);
	start(1);
	__atomic_store_n(&cancel, 2, __ATOMIC_RELAXED);
	pthread_join(ranks[1].thread, NULL);
	assert_int_equal(ranks[1].rc, CKPT_E_CANCELLED);
	ckpt_tcp_star_close(ranks[0].star, true);
}

static atomic_bool opened, may_end;

static void hold(struct ckpt_tcp_star *star, struct ckpt_tcp_ring *ring)
{
	(void)star;
	(void)ring;
	atomic_store(&opened, true);
	while (!atomic_load(&may_end))
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
}

static void it_can_be_cancelled_while_others_connect(void **state)
{
	uint64_t begin = ckpt_now_nsec();

	(void)state;
	make_ranks(3, 30, NULL);
	ranks[2].raw = hold;
	for (uint32_t i = 0; i < 3; i++)
		start(i);
	while (!atomic_load(&opened))
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	__atomic_store_n(&cancel, 2, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < 2; i++)
		pthread_join(ranks[i].thread, NULL);
	atomic_store(&may_end, true);
	pthread_join(ranks[2].thread, NULL);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(ranks[i].rc, CKPT_E_CANCELLED);
	assert_true(ckpt_now_nsec() - begin < 15000000000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

UNIT_SUITE(test_transport_tcp)
{
	const struct CMUnitTest tests[] = {
		TEST(all_ranks_get_the_bytes_and_the_result),
		TEST(waiting_ends_with_the_bytes),
		TEST(a_rank_may_come_late),
		TEST(a_rank_that_does_not_come_is_named),
		TEST(rank_0_that_is_not_there_is_named),
		TEST(a_rank_that_hangs_is_named_on_all),
		TEST(a_chunk_that_does_not_fit_ends_the_transport),
		TEST(a_connection_that_ends_in_a_chunk_is_an_error),
		TEST(a_rank_that_stops_is_heard_by_all_at_once),
		TEST(a_vote_on_something_else_is_an_error),
		TEST(whichever_call_fails_all_ranks_end),
		TEST(a_rank_that_hangs_while_they_connect_is_named_on_all),
		TEST(another_secret_is_none_of_ours),
		TEST(what_rank_0_said_is_told_though_another_address_is_dead),
		TEST(an_interface_that_is_not_there_is_told),
		TEST(it_can_be_cancelled),
		TEST(it_can_be_cancelled_while_others_connect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
