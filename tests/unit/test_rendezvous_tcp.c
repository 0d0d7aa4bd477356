/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "io/network.h"
#include "job/tcp_meeting.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Ranks that are threads meet over TCP: who comes, who does not, and what strangers do meanwhile. */

enum { HELLO = 40, ANSWER = 16, MOST_RANKS = 256 };

struct rank {
	pthread_t thread;
	struct ckpt_world world;
	const char *host, *token;
	double seconds; /* from then on that it waits */
	unsigned late_ms;
	bool leaves; /* without waiting for an answer */
	struct ckpt_rendezvous *meeting; /* left open if KEEPS */
	bool keeps;
	uint8_t *all;
	uint8_t answer[ANSWER];
	char silent[300];
	struct ckpt_error err;
	int rc;
};

static struct rank ranks[MOST_RANKS];
static uint8_t all_hellos[MOST_RANKS * HELLO];
static volatile int cancel;
static uint64_t began;
static unsigned port;

static struct sockaddr_in here(unsigned at)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons((uint16_t)at),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* That nothing listens at. */
static unsigned free_port(void)
{
	struct sockaddr_in a = here(0);
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	close(fd);
	return ntohs(a.sin_port);
}

static int setup(void **state)
{
	(void)state;
	port = free_port();
	ckpt_tcp_proof_nsec = 5000000000;
	__atomic_store_n(&cancel, 0, __ATOMIC_RELAXED);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ckpt_io_set_hook(NULL, NULL);
	return 0;
}

static void sleep_ms(unsigned ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
}

static int open_rank(struct rank *r)
{
	struct ckpt_tcp_address address;
	uint8_t secret[CKPT_WIRE_KEY];
	char text[300];
	int rc;

	snprintf(text, sizeof(text), "%s:%u", r->host, port);
	ckpt_wire_make_secret(r->token, strlen(r->token), secret);
	rc = ckpt_tcp_address_read(text, &address, &r->err);
	if (rc == 0)
		rc = ckpt_rendezvous_open_tcp(&address, secret, &r->world, &r->meeting, &r->err);
	if (rc == 0)
		r->meeting->cancel = &cancel;
	return rc;
}

static void hello_of(uint32_t rank, uint8_t out[HELLO])
{
	memset(out, (int)(rank % 251) + 1, HELLO);
}

static atomic_bool has_gathered;

static void *run_rank(void *arg)
{
	struct rank *r = arg;
	uint64_t deadline = began + (uint64_t)(r->seconds * 1e9);
	uint8_t hello[HELLO];

	sleep_ms(r->late_ms);
	hello_of(r->world.rank, hello);
	r->rc = open_rank(r);
	if (r->rc < 0)
		return NULL;
	r->rc = r->meeting->ops->gather(r->meeting, hello, HELLO, r->all, deadline, &r->err);
	if (r->world.rank == 0) {
		memset(r->answer, 'a', ANSWER);
		atomic_store(&has_gathered, true);
	}
	while (r->leaves && r->world.rank && !atomic_load(&has_gathered)) /* else another may still come in its place */
		sleep_ms(1);
	if (r->rc == 0 && !r->leaves)
		r->rc = r->meeting->ops->share(r->meeting, r->answer, ANSWER, deadline, &r->err);
	r->meeting->ops->silent(r->meeting, r->silent, sizeof(r->silent));
	if (!r->keeps)
		r->meeting->ops->close(r->meeting);
	return NULL;
}

static void make_ranks(uint32_t size, double seconds)
{
	memset(ranks, 0, sizeof(ranks));
	atomic_store(&has_gathered, false);
	began = ckpt_now_nsec();
	for (uint32_t i = 0; i < size; i++) {
		ranks[i].world = (struct ckpt_world){ .rank = i, .size = size };
		ranks[i].seconds = seconds;
		ranks[i].host = "127.0.0.1";
		ranks[i].token = "0123456789abcdef";
	}
	ranks[0].all = all_hellos;
}

static void start(uint32_t i)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 19);
	assert_int_equal(pthread_create(&ranks[i].thread, &attr, run_rank, &ranks[i]), 0);
	pthread_attr_destroy(&attr);
}

static void join(uint32_t i)
{
	pthread_join(ranks[i].thread, NULL);
}

static void run(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		start(i);
	for (uint32_t i = 0; i < count; i++)
		join(i);
}

static void check_met(uint32_t size)
{
	uint8_t hello[HELLO];

	for (uint32_t i = 0; i < size; i++) {
		if (ranks[i].rc < 0)
			print_message("rank %u: %s\n", i, unit_message(&ranks[i].err));
		assert_int_equal(ranks[i].rc, 0);
		assert_int_equal(ranks[i].answer[ANSWER - 1], 'a');
		hello_of(i, hello);
		assert_memory_equal(all_hellos + i * HELLO, hello, HELLO);
	}
}

static void check_text(uint32_t i, const char *text)
{
	if (ranks[i].rc != CKPT_E_PEER || !strstr(unit_text(&ranks[i].err), text))
		print_message("rank %u, %d: %s\nwanted: %s\n", i, ranks[i].rc, unit_text(&ranks[i].err), text);
	assert_int_equal(ranks[i].rc, CKPT_E_PEER);
	assert_non_null(strstr(unit_text(&ranks[i].err), text));
}

static double seconds_since_began(void)
{
	return (double)(ckpt_now_nsec() - began) / 1e9;
}

/* ---- who comes ---- */

static void all_ranks_meet(void **state)
{
	(void)state;
	for (uint32_t size = 1; size <= 8; size++)
		for (unsigned order = 0; order < 3; order++) {
			port = free_port();
			make_ranks(size, 60);
			for (uint32_t i = 0; i < size; i++)
				ranks[i].late_ms = order == 0 ? 0 : order == 1 ? i * 7 : (size - i) * 7;
			run(size);
			check_met(size);
			for (uint32_t i = 0; i < size; i++)
				assert_string_equal(ranks[i].silent, "");
		}
}

static void hundreds_of_ranks_meet_soon(void **state)
{
	double seconds;

	(void)state;
	make_ranks(MOST_RANKS, 60);
	run(MOST_RANKS);
	check_met(MOST_RANKS);
	seconds = seconds_since_began();
	print_message("%d ranks met in %.2f s\n", MOST_RANKS, seconds);
	assert_true(seconds < 20); /* 2 on a machine that does nothing else */
}

static void rank_0_may_come_late(void **state)
{
	(void)state;
	make_ranks(4, 60);
	ranks[0].late_ms = 1000;
	run(4);
	check_met(4);
}

static void they_meet_over_ipv6_and_by_name(void **state)
{
	static const char *const hosts[] = { "[::1]", "localhost" };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in6 loopback = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	bool has_v6 = fd >= 0 && bind(fd, (struct sockaddr *)&loopback, sizeof(loopback)) == 0;

	(void)state;
	if (fd >= 0)
		close(fd);
	for (size_t h = has_v6 ? 0 : 1; h < COUNT(hosts); h++) {
		make_ranks(3, 60);
		for (int i = 0; i < 3; i++)
			ranks[i].host = hosts[h];
		run(3);
		check_met(3);
	}
}

static void a_second_meeting_has_the_same_port(void **state)
{
	struct ckpt_rendezvous *first[3];

	(void)state;
	make_ranks(3, 60);
	for (uint32_t i = 0; i < 3; i++)
		ranks[i].keeps = true;
	run(3);
	check_met(3);
	for (uint32_t i = 0; i < 3; i++)
		first[i] = ranks[i].meeting;
	make_ranks(3, 60);
	for (uint32_t i = 0; i < 3; i++)
		strcpy(ranks[i].world.key, "opening.");
	run(3);
	check_met(3);
	for (uint32_t i = 0; i < 3; i++)
		first[i]->ops->close(first[i]);
}

static void a_rank_of_the_second_meeting_may_come_to_the_first(void **state)
{
	(void)state;
	make_ranks(3, 60);
	strcpy(ranks[2].world.key, "opening.");
	ranks[2].world.rank = 1;
	ranks[2].world.size = 2;
	ranks[3] = ranks[0];
	strcpy(ranks[3].world.key, "opening.");
	ranks[0].world.size = ranks[1].world.size = ranks[3].world.size = 2;
	start(0);
	start(2);
	sleep_ms(300); /* it is there, and of no use */
	start(1);
	join(0);
	join(1);
	check_met(2);
	start(3);
	join(3);
	join(2);
	assert_int_equal(ranks[3].rc, 0);
	assert_int_equal(ranks[2].rc, 0);
}

/* ---- who does not ---- */

static void a_missing_rank_is_named_on_all(void **state)
{
	(void)state;
	for (uint32_t missing = 0; missing < 4; missing++) {
		char text[200];

		port = free_port();
		make_ranks(4, 1);
		for (uint32_t i = 0; i < 4; i++)
			if (i != missing)
				start(i);
		for (uint32_t i = 0; i < 4; i++)
			if (i != missing)
				join(i);
		snprintf(text, sizeof(text), "waiting for rank %" PRIu32 " of 4 at '127.0.0.1:%u': start %s, or give all ranks the same --rdzv",
			 missing, port, missing ? "them" : "it");
		for (uint32_t i = 0; i < 4; i++)
			if (i != missing)
				check_text(i, text);
		if (missing == 0)
			check_text(1, "; cannot connect to 127.0.0.1:");
		else
			assert_null(strstr(unit_text(&ranks[0].err), "came and left"));
		assert_true(seconds_since_began() < 10);
	}
}

static void a_rank_whose_time_is_over_first_knows_who_is_missing(void **state)
{
	(void)state;
	make_ranks(3, 3);
	ranks[1].seconds = 1;
	run(2);
	check_text(1, "waiting for rank 2 of 3 at '127.0.0.1:");
	check_text(0, "waiting for ranks 1, 2 of 3 at '127.0.0.1:");
	check_text(0, "; rank 1 (");
	check_text(0, ") came and left");
}

static void another_process_may_come_for_one_that_left(void **state)
{
	(void)state;
	make_ranks(3, 30);
	ranks[3] = ranks[1];
	ranks[1].seconds = 0.5;
	start(0);
	start(1);
	join(1);
	check_text(1, "waiting for rank 2 of 3");
	start(3);
	start(2);
	join(0);
	join(2);
	join(3);
	ranks[1] = ranks[3];
	check_met(3);
}

static void a_rank_that_leaves_before_the_answer_is_told(void **state)
{
	(void)state;
	make_ranks(2, 20);
	ranks[1].leaves = true;
	run(2);
	check_text(0, "rank 1 (");
	check_text(0, ") left before it took rank 0's answer");
	assert_true(seconds_since_began() < 15);
}

static void a_rank_0_that_leaves_before_it_answers_is_told(void **state)
{
	(void)state;
	make_ranks(3, 20);
	ranks[0].leaves = true;
	run(3);
	check_text(1, "rank 0 (");
	check_text(1, ") left before it answered");
	check_text(2, ") left before it answered");
}

static void one_rank_twice_is_told_to_all(void **state)
{
	(void)state;
	for (uint32_t twice = 0; twice < 3; twice++) {
		char text[200], host[64] = "";

		port = free_port();
		make_ranks(4, 20);
		ranks[4] = ranks[twice];
		start(0);
		sleep_ms(100);
		for (uint32_t i = 1; i < 3; i++)
			start(i);
		sleep_ms(200);
		start(4);
		for (uint32_t i = 0; i < 5; i++)
			if (i != 3)
				join(i);
		snprintf(text, sizeof(text), "two processes say that they are rank %" PRIu32 " at '127.0.0.1:%u': ", twice, port);
		for (uint32_t i = 0; i < 5; i++)
			if (i != 3)
				check_text(i, text);
		gethostname(host, sizeof(host) - 1);
		assert_non_null(strstr(unit_text(&ranks[0].err), host));
		assert_true(seconds_since_began() < 15);
	}
}

static void different_sizes_are_told_to_all(void **state)
{
	(void)state;
	make_ranks(3, 20);
	ranks[2].world.size = 4;
	run(3);
	for (uint32_t i = 0; i < 3; i++) {
		check_text(i, "rank 2 (");
		check_text(i, ") was started for 4 ranks, rank 0 (");
		check_text(i, ") for 3: all need the same");
	}
	assert_true(seconds_since_began() < 10);
}

static void another_key_is_named(void **state)
{
	(void)state;
	make_ranks(2, 1);
	strcpy(ranks[1].world.key, "other");
	run(2);
	check_text(0, "has another --job-key, give all ranks the same; waiting for rank 1 of 2");
	check_text(1, ") there has another --job-key");
}

static void another_token_is_named_on_both_sides(void **state)
{
	(void)state;
	make_ranks(3, 1);
	ranks[1].token = "0123456789abcdeF";
	run(3);
	check_text(1, "rank 0 (");
	check_text(1, " has another token, or none: give all ranks the same CKPT_TOKEN or --token-file");
	check_text(0, "who came from 127.0.0.1 as rank 1 (");
	check_text(0, ") has another token, or none, give all ranks the same; waiting for rank 1 of 3 at");
	check_text(2, ") has another token, or none, give all ranks the same; waiting for rank 1 of 3 at");
}

/* Rank 0 goes on: who has another token, or none must not be able to end the meeting. */
static void another_token_stops_nobody(void **state)
{
	(void)state;
	make_ranks(3, 30);
	ranks[3] = ranks[1];
	ranks[3].token = "something entirely different";
	start(0);
	start(3);
	join(3);
	check_text(3, " has another token, or none: ");
	start(1);
	start(2);
	for (uint32_t i = 0; i < 3; i++)
		join(i);
	check_met(3);
}

static void a_meeting_can_be_cancelled(void **state)
{
	(void)state;
	make_ranks(3, 60);
	start(0);
	start(1);
	sleep_ms(300);
	__atomic_store_n(&cancel, 2, __ATOMIC_RELAXED);
	join(0);
	join(1);
	assert_int_equal(ranks[0].rc, CKPT_E_CANCELLED);
	assert_true(ranks[1].rc == CKPT_E_CANCELLED || ranks[1].rc == CKPT_E_PEER);
	for (uint32_t i = 0; i < 2; i++)
		assert_non_null(strstr(unit_text(&ranks[i].err), "interrupted while the ranks met"));
	assert_true(seconds_since_began() < 10);
}

static void a_host_that_is_none_of_rank_0_is_told(void **state)
{
	(void)state;
	make_ranks(2, 20);
	ranks[0].host = "192.0.2.1"; /* for documents: nobody has it */
	run(1);
	check_text(0, ", and '192.0.2.1' (192.0.2.1:");
	check_text(0, ") is no address of that host: --rdzv names the host of rank 0");
}

static void too_many_ranks_for_the_process_are_told(void **state)
{
	static uint8_t all[1000 * HELLO];
	struct rlimit limit, small;
	uint8_t hello[HELLO] = { 0 };

	(void)state;
	make_ranks(2, 1);
	ranks[0].world.size = 1000;
	getrlimit(RLIMIT_NOFILE, &limit);
	small = (struct rlimit){ 512, limit.rlim_max };
	setrlimit(RLIMIT_NOFILE, &small);
	assert_int_equal(open_rank(&ranks[0]), 0);
	setrlimit(RLIMIT_NOFILE, &limit);
	assert_int_equal(ranks[0].meeting->ops->gather(ranks[0].meeting, hello, HELLO, all, began + 1000000000, &ranks[0].err), CKPT_E_LIMIT);
	ranks[0].meeting->ops->close(ranks[0].meeting);
	assert_non_null(strstr(unit_text(&ranks[0].err), "rank 0 has a connection to each of 1000 ranks, and may open 512 files: raise that to 1080"));
}

/* ---- strangers ---- */

static int connect_stranger(void)
{
	struct sockaddr_in a = here(port);

	for (int i = 0; i < 1000; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		assert_true(fd >= 0);
		if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
			return fd;
		close(fd);
		sleep_ms(10);
	}
	fail();
	return -1;
}

static void send_bytes(int fd, const void *bytes, size_t len)
{
	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static size_t receive(int fd, void *bytes, size_t len)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = recv(fd, (uint8_t *)bytes + got, len - got, 0);

		if (n <= 0)
			break;
		got += (size_t)n;
	}
	return got;
}

static void make_join(uint32_t rank, uint8_t out[CKPT_WIRE_JOIN])
{
	struct ckpt_wire_join join = { .version = CKPT_WIRE_VERSION, .rank = rank, .size = 2, .pid = 77, .host = "stranger" };

	ckpt_wire_hash_key("", join.key);
	ckpt_wire_write_join(&join, out);
}

/* Everything up to the proof, with a token that may be wrong. The connection stays. */
static void come(int fd, const char *token, struct ckpt_wire_session *s, uint8_t verdict[CKPT_WIRE_VERDICT])
{
	uint8_t proof[CKPT_WIRE_PROOF], secret[CKPT_WIRE_KEY];

	*s = (struct ckpt_wire_session){ 0 };
	make_join(1, s->join);
	send_bytes(fd, s->join, sizeof(s->join));
	assert_int_equal(receive(fd, s->challenge, sizeof(s->challenge)), sizeof(s->challenge));
	ckpt_wire_make_secret(token, strlen(token), secret);
	ckpt_wire_make_proof(s, secret, proof);
	send_bytes(fd, proof, sizeof(proof));
	assert_int_equal(receive(fd, verdict, CKPT_WIRE_VERDICT), CKPT_WIRE_VERDICT);
	if (verdict[0] == CKPT_WIRE_WELCOME)
		assert_int_equal(ckpt_wire_read_verdict(s, secret, verdict), CKPT_WIRE_WELCOME);
}

static void strangers_stop_nothing(void **state)
{
	uint8_t bytes[4096], verdict[CKPT_WIRE_VERDICT], recorded[CKPT_WIRE_PROOF], secret[CKPT_WIRE_KEY];
	struct ckpt_wire_session s;
	int fds[10];

	(void)state;
	ckpt_tcp_proof_nsec = 1000000000;
	make_ranks(2, 30);
	start(0);
	for (size_t i = 0; i < COUNT(fds); i++)
		fds[i] = connect_stranger();
	/* 0: silent. 1: closes at once. 2: resets */
	close(fds[1]);
	setsockopt(fds[2], SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
	close(fds[2]);
	/* 3: garbage. 4: half a join. 5: a join, and then nothing */
	memset(bytes, 'G', sizeof(bytes));
	send_bytes(fds[3], bytes, sizeof(bytes));
	make_join(1, bytes);
	send_bytes(fds[4], bytes, 80);
	send_bytes(fds[5], bytes, CKPT_WIRE_JOIN);
	/* 6: half a proof */
	send_bytes(fds[6], bytes, CKPT_WIRE_JOIN);
	send_bytes(fds[6], bytes, CKPT_WIRE_PROOF / 2);
	/* 7: another token. 8: the proof of another connection */
	come(fds[7], "another token than ours", &s, verdict);
	assert_int_equal(verdict[0], CKPT_WIRE_WRONG_TOKEN);
	assert_int_equal(receive(fds[7], bytes, 1), 0); /* and that is all */
	ckpt_wire_make_secret(ranks[0].token, strlen(ranks[0].token), secret);
	ckpt_wire_make_proof(&s, secret, recorded); /* right for the connection before */
	make_join(1, bytes);
	send_bytes(fds[8], bytes, CKPT_WIRE_JOIN);
	assert_int_equal(receive(fds[8], bytes, CKPT_WIRE_CHALLENGE), CKPT_WIRE_CHALLENGE);
	send_bytes(fds[8], recorded, sizeof(recorded));
	assert_int_equal(receive(fds[8], verdict, sizeof(verdict)), sizeof(verdict));
	assert_int_equal(verdict[0], CKPT_WIRE_WRONG_TOKEN);
	/* 9: rank 0's proof sent back to it */
	make_join(1, bytes);
	send_bytes(fds[9], bytes, CKPT_WIRE_JOIN);
	assert_int_equal(receive(fds[9], s.challenge, CKPT_WIRE_CHALLENGE), CKPT_WIRE_CHALLENGE);
	memcpy(s.join, bytes, CKPT_WIRE_JOIN);
	ckpt_wire_make_welcome(&s, secret, verdict);
	send_bytes(fds[9], verdict + 4, CKPT_WIRE_PROOF);
	assert_int_equal(receive(fds[9], verdict, sizeof(verdict)), sizeof(verdict));
	assert_int_equal(verdict[0], CKPT_WIRE_WRONG_TOKEN);
	/* who takes too long is sent away */
	assert_int_equal(receive(fds[0], bytes, 1), 0);
	assert_int_equal(receive(fds[4], bytes, 1), 0);
	start(1);
	join(0);
	join(1);
	check_met(2);
	for (size_t i = 0; i < COUNT(fds); i++)
		if (i != 1 && i != 2)
			close(fds[i]);
}

/* A byte at a time, which never gets to an end. */
static void slow_senders_are_sent_away(void **state)
{
	uint8_t join_bytes[CKPT_WIRE_JOIN];
	unsigned sent = 0;
	int fd;

	(void)state;
	ckpt_tcp_proof_nsec = 500000000;
	make_ranks(2, 30);
	start(0);
	fd = connect_stranger();
	make_join(1, join_bytes);
	while (sent < sizeof(join_bytes) && send(fd, join_bytes + sent, 1, MSG_NOSIGNAL) == 1) {
		sent++;
		sleep_ms(20);
	}
	assert_true(sent < 80);
	start(1);
	join(0);
	join(1);
	check_met(2);
	close(fd);
}

static void a_flood_of_connections_stops_nothing(void **state)
{
	enum { FLOOD = 500 };
	struct rlimit limit;
	int fds[FLOOD];
	uint64_t before;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
	setrlimit(RLIMIT_NOFILE, &limit);
	make_ranks(4, 60);
	start(0);
	for (int i = 0; i < FLOOD; i++)
		fds[i] = connect_stranger();
	before = ckpt_now_nsec();
	for (uint32_t i = 1; i < 4; i++)
		start(i);
	for (uint32_t i = 0; i < 4; i++)
		join(i);
	check_met(4);
	print_message("with %d strangers they met in %.2f s\n", FLOOD, (double)(ckpt_now_nsec() - before) / 1e9);
	assert_true(ckpt_now_nsec() - before < 4500000000); /* without waiting for theirs to end */
	for (int i = 0; i < FLOOD; i++)
		close(fds[i]);
}

/* A rank that is proven and then dies, at each step. */
static void who_dies_after_its_proof_is_replaced(void **state)
{
	uint8_t verdict[CKPT_WIRE_VERDICT], frame[CKPT_WIRE_MOST_FRAME], hello[HELLO];
	struct ckpt_wire_session s;

	(void)state;
	for (int step = 0; step < 4; step++) {
		size_t len;
		int fd;

		port = free_port();
		make_ranks(2, 30);
		start(0);
		fd = connect_stranger();
		come(fd, ranks[0].token, &s, verdict);
		assert_int_equal(verdict[0], CKPT_WIRE_WELCOME);
		hello_of(1, hello);
		len = ckpt_wire_write_frame(&s, CKPT_WIRE_HELLO, hello, HELLO, frame);
		if (step == 1)
			send_bytes(fd, frame, 5);
		else if (step == 2)
			send_bytes(fd, frame, len - 1);
		else if (step == 3) { /* changed on the way */
			frame[12] ^= 1;
			send_bytes(fd, frame, len);
		}
		close(fd);
		start(1);
		join(0);
		join(1);
		check_met(2);
	}
}

/* ---- who listens there is somebody else ---- */

struct impostor {
	pthread_t thread;
	int fd;
	const uint8_t *bytes;
	size_t len;
};

static void *run_impostor(void *arg)
{
	struct impostor *i = arg;
	uint8_t got[CKPT_WIRE_JOIN];
	int fd = accept4(i->fd, NULL, NULL, SOCK_CLOEXEC);

	receive(fd, got, sizeof(got));
	send_bytes(fd, i->bytes, i->len);
	while (receive(fd, got, 1) == 1)
		continue;
	close(fd);
	return NULL;
}

static int listen_here(void)
{
	struct sockaddr_in a = here(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

static void what_is_not_rank_0_is_told(void **state)
{
	uint8_t other[CKPT_WIRE_CHALLENGE], old[CKPT_WIRE_CHALLENGE], no_proof[CKPT_WIRE_CHALLENGE + CKPT_WIRE_VERDICT] = { 0 };
	const struct ckpt_wire_challenge h = { .version = CKPT_WIRE_VERSION, .pid = 5, .host = "evil\nhost" };
	const struct ckpt_wire_challenge newer = { .version = 9 };
	struct impostor cases[] = { { .bytes = other, .len = sizeof(other) },
				    { .bytes = old, .len = sizeof(old) },
				    { .bytes = no_proof, .len = sizeof(no_proof) } };
	static const char *const texts[] = { " is not rank 0 of ckpt broadcast: give all ranks a --rdzv",
					     "is of another version of ckpt (9 of how ranks meet, this is 2)",
					     "says that it is rank 0 (evil?host), but does not know the token" };

	(void)state;
	memset(other, 'H', sizeof(other));
	ckpt_wire_write_challenge(&newer, old);
	ckpt_wire_write_challenge(&h, no_proof);
	no_proof[CKPT_WIRE_CHALLENGE] = CKPT_WIRE_WELCOME;
	for (size_t i = 0; i < COUNT(cases); i++) {
		port = free_port();
		cases[i].fd = listen_here();
		assert_int_equal(pthread_create(&cases[i].thread, NULL, run_impostor, &cases[i]), 0);
		make_ranks(2, 20);
		start(1);
		join(1);
		check_text(1, texts[i]);
		assert_true(seconds_since_began() < 10);
		pthread_join(cases[i].thread, NULL);
		close(cases[i].fd);
	}
}

static void who_listens_and_says_nothing_is_left_at_the_deadline(void **state)
{
	int fd = listen_here();

	(void)state;
	make_ranks(2, 1);
	ckpt_tcp_proof_nsec = 200000000;
	start(1);
	join(1);
	check_text(1, "waiting for rank 0 of 2 at '127.0.0.1:");
	check_text(1, "; it does not answer this rank");
	assert_true(seconds_since_began() < 5);
	close(fd);
}

static void a_port_that_is_taken_is_told(void **state)
{
	int fd = listen_here();

	(void)state;
	make_ranks(2, 20);
	ckpt_tcp_proof_nsec = 400000000;
	start(0);
	join(0);
	check_text(0, " of '127.0.0.1' is taken, by another program or an earlier start of this job: give all ranks a --rdzv with another port");
	close(fd);
}

/* ---- calls that fail ---- */

struct fault {
	enum ckpt_io_op op;
	int code;
	unsigned at;
	atomic_uint seen;
};

static int inject(void *ctx, enum ckpt_io_op op)
{
	struct fault *f = ctx;

	return op == f->op && ++f->seen == f->at ? f->code : 0;
}

/* Whatever call fails on whichever rank: nobody waits for longer than it has to. What may pass is tried again. */
static void calls_that_fail_are_told(void **state)
{
	static const struct {
		enum ckpt_io_op op;
		int code;
		bool passes;
	} cases[] = {
		{ CKPT_IO_SOCKET, EMFILE, false }, { CKPT_IO_BIND, EIO, false },	{ CKPT_IO_LISTEN, EIO, false },
		{ CKPT_IO_THREAD, EAGAIN, false }, { CKPT_IO_POLL, ENOMEM, false },	{ CKPT_IO_POLL, EINTR, true },
		{ CKPT_IO_ACCEPT, EINTR, true },   { CKPT_IO_ACCEPT, ECONNABORTED, true }, { CKPT_IO_ACCEPT, EMFILE, true },
		{ CKPT_IO_ACCEPT, EIO, true },	   { CKPT_IO_CONNECT, EINTR, true },	{ CKPT_IO_CONNECT, ECONNREFUSED, true },
		{ CKPT_IO_CONNECT, EIO, true },	   { CKPT_IO_SEND, EINTR, true },	{ CKPT_IO_SEND, EAGAIN, true },
		{ CKPT_IO_SEND, EPIPE, true },	   { CKPT_IO_RECV, EINTR, true },	{ CKPT_IO_RECV, EAGAIN, true },
		{ CKPT_IO_RECV, ECONNRESET, true },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		for (unsigned at = 1; at < 60; at++) {
			struct fault fault = { cases[i].op, cases[i].code, at, 0 };
			unsigned failed = 0, told = 0;

			port = free_port();
			make_ranks(3, cases[i].passes ? 20 : 0.3);
			ckpt_io_set_hook(inject, &fault);
			run(3);
			ckpt_io_set_hook(NULL, NULL);
			for (uint32_t r = 0; r < 3; r++) {
				failed += ranks[r].rc < 0;
				told += ranks[r].err.text[0] != '\0';
				/* nobody can know whether a rank has it that was lost just then */
				if (ranks[r].rc < 0 && cases[i].code == ECONNRESET && strstr(unit_text(&ranks[r].err), "left before it took"))
					failed--;
				else if (ranks[r].rc < 0 && cases[i].passes)
					print_message("op %d at %u, rank %u: %s\n", (int)cases[i].op, at, r, unit_text(&ranks[r].err));
			}
			assert_true(failed == 0 || (!cases[i].passes && told > 0));
			assert_true(seconds_since_began() < 8);
			if (fault.seen < at)
				break;
			if (at > 6) /* the same again and again */
				at += 3;
		}
}

/* ---- who is silent ---- */

static void silent_ranks_are_named(void **state)
{
	struct ckpt_tcp_meeting *m;
	char text[300], small[20];

	(void)state;
	make_ranks(4, 30);
	for (uint32_t i = 0; i < 4; i++)
		ranks[i].keeps = true;
	run(4);
	check_met(4);
	m = (struct ckpt_tcp_meeting *)ranks[0].meeting;
	pthread_mutex_lock(&m->lock);
	m->seats[1].link->last_heard -= 71500000000;
	pthread_mutex_unlock(&m->lock);
	/* rank 2 dies: its process closes what it had */
	shutdown(((struct ckpt_tcp_meeting *)ranks[2].meeting)->link->fd, SHUT_RDWR);
	/* rank 3 leaves in order */
	ranks[3].meeting->ops->close(ranks[3].meeting);
	sleep_ms(100);
	ranks[0].meeting->ops->silent(ranks[0].meeting, text, sizeof(text));
	assert_non_null(strstr(text, "rank 1 ("));
	assert_non_null(strstr(text, ") was last heard of 7"));
	assert_non_null(strstr(text, ", rank 2 ("));
	assert_non_null(strstr(text, ") ended without a word"));
	assert_null(strstr(text, "rank 3"));
	ranks[0].meeting->ops->silent(ranks[0].meeting, small, sizeof(small));
	assert_string_equal(small, "");
	ranks[1].meeting->ops->silent(ranks[1].meeting, text, sizeof(text));
	assert_string_equal(text, "");
	m = (struct ckpt_tcp_meeting *)ranks[1].meeting;
	pthread_mutex_lock(&m->lock);
	m->link->last_heard -= 20500000000;
	pthread_mutex_unlock(&m->lock);
	ranks[1].meeting->ops->silent(ranks[1].meeting, text, sizeof(text));
	assert_non_null(strstr(text, "rank 0 ("));
	assert_non_null(strstr(text, " was last heard of 20 s ago"));
	for (uint32_t i = 0; i < 3; i++)
		ranks[i].meeting->ops->close(ranks[i].meeting);
}

static void ranks_that_live_are_heard(void **state)
{
	struct ckpt_tcp_meeting *m;
	char text[300];

	(void)state;
	make_ranks(2, 30);
	ranks[0].keeps = ranks[1].keeps = true;
	run(2);
	check_met(2);
	for (int i = 0; i < 2; i++) {
		m = (struct ckpt_tcp_meeting *)ranks[i].meeting;
		pthread_mutex_lock(&m->lock);
		(i ? m->link : m->seats[1].link)->last_heard -= 30000000000;
		pthread_mutex_unlock(&m->lock);
	}
	sleep_ms(2500); /* the first sign of life is sent after one second */
	for (int i = 0; i < 2; i++) {
		ranks[i].meeting->ops->silent(ranks[i].meeting, text, sizeof(text));
		assert_string_equal(text, "");
	}
	for (int i = 0; i < 2; i++)
		ranks[i].meeting->ops->close(ranks[i].meeting);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

UNIT_SUITE(test_rendezvous_tcp)
{
	const struct CMUnitTest tests[] = {
		TEST(all_ranks_meet),
		TEST(hundreds_of_ranks_meet_soon),
		TEST(rank_0_may_come_late),
		TEST(they_meet_over_ipv6_and_by_name),
		TEST(a_second_meeting_has_the_same_port),
		TEST(a_rank_of_the_second_meeting_may_come_to_the_first),
		TEST(a_missing_rank_is_named_on_all),
		TEST(a_rank_whose_time_is_over_first_knows_who_is_missing),
		TEST(another_process_may_come_for_one_that_left),
		TEST(a_rank_that_leaves_before_the_answer_is_told),
		TEST(a_rank_0_that_leaves_before_it_answers_is_told),
		TEST(one_rank_twice_is_told_to_all),
		TEST(different_sizes_are_told_to_all),
		TEST(another_key_is_named),
		TEST(another_token_is_named_on_both_sides),
		TEST(another_token_stops_nobody),
		TEST(a_meeting_can_be_cancelled),
		TEST(a_host_that_is_none_of_rank_0_is_told),
		TEST(too_many_ranks_for_the_process_are_told),
		TEST(strangers_stop_nothing),
		TEST(slow_senders_are_sent_away),
		TEST(a_flood_of_connections_stops_nothing),
		TEST(who_dies_after_its_proof_is_replaced),
		TEST(what_is_not_rank_0_is_told),
		TEST(who_listens_and_says_nothing_is_left_at_the_deadline),
		TEST(a_port_that_is_taken_is_told),
		TEST(calls_that_fail_are_told),
		TEST(silent_ranks_are_named),
		TEST(ranks_that_live_are_heard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
