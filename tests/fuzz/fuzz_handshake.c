/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stranger or a rank sends to a port of ckpt broadcast. The first byte says how far the input gets by
 * what it knows: nothing, the secret, or the keys of frames as well, which nobody would guess.
 */
#include "fuzz.h"

#include "broadcast/meet.h"
#include "broadcast/tcp_head.h"
#include "job/tcp_call.h"
#include "job/tcp_door.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KNOWS_SECRET = 1, KNOWS_KEYS = 2, CALLS = 4 };

static const uint8_t secret[CKPT_WIRE_KEY] = { 7 };

static void check_host(const char *host)
{
	for (size_t i = 0; host[i]; i++)
		REQUIRE(i < CKPT_WIRE_HOST - 1 && host[i] > 0x20 && host[i] < 0x7f);
}

/* Messages of fixed length: whatever they hold, their texts end. */
static void read_messages(const uint8_t *data, size_t size)
{
	uint8_t bytes[CKPT_MEET_HELLO] = { 0 }, back[CKPT_MEET_HELLO];
	struct ckpt_wire_join join;
	struct ckpt_wire_challenge challenge;
	struct ckpt_meet_hello hello;
	struct ckpt_meet_plan plan;
	struct ckpt_tcp_head head;
	struct sockaddr_storage address;
	socklen_t len;

	memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
	if (ckpt_wire_read_join(bytes, &join))
		check_host(join.host);
	if (ckpt_wire_read_challenge(bytes, &challenge))
		check_host(challenge.host);
	if (ckpt_tcp_head_read(bytes, &head)) {
		ckpt_tcp_head_write(&head, back);
		REQUIRE(!memcmp(bytes, back, CKPT_TCP_HEAD));
	}
	if (ckpt_tcp_spot_read(bytes, &address, &len)) {
		char text[CKPT_TCP_ADDRESS_TEXT];

		ckpt_tcp_address_print(&address, text);
		REQUIRE(len <= sizeof(address) && *text);
	}
	ckpt_meet_read_hello(bytes, &hello);
	REQUIRE(strlen(hello.no_tcp) < sizeof(hello.no_tcp) &&
		strlen(hello.host) < sizeof(hello.host));
	ckpt_meet_read_plan(bytes, &plan);
	REQUIRE(strlen(plan.text) < sizeof(plan.text) &&
		strlen(plan.transport) < sizeof(plan.transport));
}

/* All frames that are there. Returns how many were believed. */
static unsigned read_frames(struct ckpt_tcp_link *l)
{
	enum ckpt_wire_kind kind;
	const uint8_t *bytes;
	size_t len;
	unsigned n = 0;

	while (ckpt_tcp_link_read(l) > 0 &&
	       ckpt_wire_read_frame(&l->session, l->in, l->in_len, &kind, &bytes, &len)) {
		REQUIRE(len <= CKPT_WIRE_MOST_BYTES && bytes >= l->in &&
			bytes + len <= l->in + sizeof(l->in));
		REQUIRE(kind > 0 && kind < CKPT_WIRE_KINDS);
		ckpt_tcp_link_next(l);
		n++;
	}
	return n;
}

static struct ckpt_tcp_link *admitted;

static int admit(void *ctx, struct ckpt_tcp_link *l, bool *is_taken, struct ckpt_error *err)
{
	(void)ctx;
	(void)err;
	check_host(l->join.host);
	admitted = l;
	*is_taken = true;
	return 0;
}

static void send_all(int fd, const void *bytes, size_t len)
{
	REQUIRE(send(fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len);
}

/* As frames: a byte for the kind, two for the length. */
static unsigned send_frames(int fd, struct ckpt_wire_session *s, const uint8_t *data, size_t size)
{
	uint8_t frame[CKPT_WIRE_MOST_FRAME];
	unsigned n = 0;

	for (size_t len; size >= 3 && n < 8; data += 3 + len, size -= 3 + len, n++) {
		len = (data[1] | (size_t)data[2] << 8) % (CKPT_WIRE_MOST_BYTES + 1);
		if (len > size - 3)
			len = size - 3;
		send_all(fd, frame,
			 ckpt_wire_write_frame(
				 s, (enum ckpt_wire_kind)(1 + data[0] % (CKPT_WIRE_KINDS - 1)),
				 data + 3, len, frame));
	}
	return n;
}

/* The input comes to a door. */
static void come(int fds[2], uint8_t how, const uint8_t *data, size_t size)
{
	struct ckpt_wire_join me = { .host = "host" };
	struct ckpt_tcp_door door = {
		.secret = secret, .me = &me, .most_unproven = 1, .admit = admit, .unproven_count = 1
	};
	struct ckpt_wire_session s = { 0 };
	uint8_t proof[CKPT_WIRE_KEY], verdict[CKPT_WIRE_VERDICT];
	size_t n = size < CKPT_WIRE_JOIN ? size : CKPT_WIRE_JOIN;
	unsigned sent = 0;

	admitted = NULL;
	door.unproven[0] = ckpt_tcp_link_new(fds[0], CKPT_TCP_JOIN);
	REQUIRE(door.unproven[0]);
	door.unproven[0]->session.is_rank0 = true;
	send_all(fds[1], data, n);
	REQUIRE(ckpt_tcp_door_serve(&door, NULL) == 0);
	if (n == CKPT_WIRE_JOIN &&
	    recv(fds[1], s.challenge, sizeof(s.challenge), MSG_DONTWAIT) ==
		    (ssize_t)sizeof(s.challenge) &&
	    door.unproven_count && door.unproven[0]->stage == CKPT_TCP_PROOF) {
		memcpy(s.join, data, n);
		data += n;
		size -= n;
		if (how & (KNOWS_SECRET | KNOWS_KEYS)) {
			ckpt_wire_make_proof(&s, secret, proof);
			send_all(fds[1], proof, sizeof(proof));
		} else {
			send_all(fds[1], data, size);
		}
		REQUIRE(ckpt_tcp_door_serve(&door, NULL) == 0);
		REQUIRE(!admitted == !(how & (KNOWS_SECRET | KNOWS_KEYS)));
	}
	if (admitted) {
		REQUIRE(recv(fds[1], verdict, sizeof(verdict), MSG_DONTWAIT) ==
			(ssize_t)sizeof(verdict));
		REQUIRE(ckpt_wire_read_verdict(&s, secret, verdict) == CKPT_WIRE_WELCOME);
		if (how & KNOWS_KEYS)
			sent = send_frames(fds[1], &s, data, size);
		else
			send_all(fds[1], data, size);
		REQUIRE(read_frames(admitted) == sent);
		ckpt_tcp_link_free(admitted);
	}
	ckpt_tcp_door_shut(&door);
	close(fds[1]);
}

/* The input answers who calls. */
static void answer(int fds[2], const uint8_t *data, size_t size)
{
	struct ckpt_tcp_link *l = ckpt_tcp_link_new(fds[0], CKPT_TCP_CHALLENGE);
	struct ckpt_wire_join me = { .version = CKPT_WIRE_VERSION };
	struct ckpt_wire_challenge challenge;
	enum ckpt_tcp_call how = CKPT_TCP_CALL_GOES_ON;

	REQUIRE(l && ckpt_tcp_call_begin(l, &me, NULL) == 0);
	send_all(fds[1], data, size);
	while (how == CKPT_TCP_CALL_GOES_ON && ckpt_tcp_link_read(l) > 0)
		how = ckpt_tcp_call_go_on(l, secret, &challenge);
	REQUIRE(how != CKPT_TCP_CALL_PROVEN);
	check_host(l->host0);
	ckpt_tcp_link_free(l);
	close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fds[2];

	if (size < 1 || size > 30000)
		return 0;
	read_messages(data + 1, size - 1);
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	if (data[0] & CALLS)
		answer(fds, data + 1, size - 1);
	else
		come(fds, data[0], data + 1, size - 1);
	return 0;
}
