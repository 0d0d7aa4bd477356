/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "job/tcp_wire.h"

#include <string.h>

/* What ranks say to each other over TCP: every byte counts, and nothing can be sent again. */

static const uint8_t secret[CKPT_WIRE_KEY] = "thirty-two bytes, more or less..";

/* Both sides of a connection after the proofs. */
static void make_pair(struct ckpt_wire_session *rank, struct ckpt_wire_session *rank0)
{
	const struct ckpt_wire_join join = { .version = CKPT_WIRE_VERSION, .rank = 3, .size = 8, .pid = 812, .nonce = { 1, 2 }, .host = "nodeB" };
	const struct ckpt_wire_challenge challenge = { .version = CKPT_WIRE_VERSION, .pid = 7, .nonce = { 9 }, .host = "nodeA" };
	uint8_t verdict[CKPT_WIRE_VERDICT];

	*rank = (struct ckpt_wire_session){ 0 };
	ckpt_wire_write_join(&join, rank->join);
	ckpt_wire_write_challenge(&challenge, rank->challenge);
	*rank0 = *rank;
	rank0->is_rank0 = true;
	ckpt_wire_make_welcome(rank0, secret, verdict);
	assert_int_equal(ckpt_wire_read_verdict(rank, secret, verdict), CKPT_WIRE_WELCOME);
}

static void messages_are_read_as_they_were_written(void **state)
{
	struct ckpt_wire_session rank, rank0;
	struct ckpt_wire_challenge h;
	struct ckpt_wire_join j;

	(void)state;
	make_pair(&rank, &rank0);
	assert_true(ckpt_wire_read_join(rank.join, &j));
	assert_int_equal(j.version, CKPT_WIRE_VERSION);
	assert_int_equal(j.rank, 3);
	assert_int_equal(j.size, 8);
	assert_int_equal(j.pid, 812);
	assert_int_equal(j.nonce[1], 2);
	assert_string_equal(j.host, "nodeB");
	assert_true(ckpt_wire_read_challenge(rank.challenge, &h));
	assert_int_equal(h.pid, 7);
	assert_string_equal(h.host, "nodeA");
	rank.join[CKPT_WIRE_JOIN - CKPT_WIRE_HOST] = 0x1b; /* it goes to a terminal */
	memset(rank.join + CKPT_WIRE_JOIN - 2, 'x', 2);
	assert_true(ckpt_wire_read_join(rank.join, &j));
	assert_string_equal(j.host, "?odeB");
	rank.join[0] ^= 1;
	assert_false(ckpt_wire_read_join(rank.join, &j));
	rank.challenge[7] ^= 1;
	assert_false(ckpt_wire_read_challenge(rank.challenge, &h));
}

static void of_other_versions_only_the_version_is_read(void **state)
{
	struct ckpt_wire_join j = { .version = CKPT_WIRE_VERSION + 1, .rank = 9, .host = "new" };
	uint8_t bytes[CKPT_WIRE_JOIN];

	(void)state;
	ckpt_wire_write_join(&j, bytes);
	assert_true(ckpt_wire_read_join(bytes, &j));
	assert_int_equal(j.version, CKPT_WIRE_VERSION + 1);
	assert_int_equal(j.rank, 0);
	assert_string_equal(j.host, "");
}

static void a_proof_is_for_one_connection_token_and_side(void **state)
{
	uint8_t proof[CKPT_WIRE_PROOF], other[CKPT_WIRE_PROOF], verdict[CKPT_WIRE_VERDICT], wrong[CKPT_WIRE_KEY];
	struct ckpt_wire_session rank, rank0;

	(void)state;
	make_pair(&rank, &rank0);
	ckpt_wire_make_proof(&rank, secret, proof);
	ckpt_wire_make_proof(&rank0, secret, other);
	assert_memory_equal(proof, other, sizeof(proof));
	for (size_t i = 0; i < sizeof(rank.join) + sizeof(rank.challenge); i++) {
		uint8_t *byte = i < sizeof(rank.join) ? &rank.join[i] : &rank.challenge[i - sizeof(rank.join)];

		*byte ^= 0x40;
		ckpt_wire_make_proof(&rank, secret, other);
		assert_memory_not_equal(proof, other, sizeof(proof));
		*byte ^= 0x40;
	}
	memcpy(wrong, secret, sizeof(wrong));
	wrong[31] ^= 1;
	ckpt_wire_make_proof(&rank, wrong, other);
	assert_memory_not_equal(proof, other, sizeof(proof));
	ckpt_wire_make_welcome(&rank0, secret, verdict);
	assert_memory_not_equal(proof, verdict + 4, sizeof(proof));
	assert_int_equal(ckpt_wire_read_verdict(&rank, secret, verdict), CKPT_WIRE_WELCOME);
	for (size_t i = 0; i < sizeof(verdict); i++) {
		verdict[i] ^= 4;
		assert_int_equal(ckpt_wire_read_verdict(&rank, secret, verdict), 0);
		verdict[i] ^= 4;
	}
	assert_int_equal(ckpt_wire_read_verdict(&rank, wrong, verdict), 0);
	ckpt_wire_make_rejection(verdict);
	assert_int_equal(ckpt_wire_read_verdict(&rank, secret, verdict), CKPT_WIRE_WRONG_TOKEN);
}

static void frames_come_once_in_order_and_unchanged(void **state)
{
	uint8_t one[CKPT_WIRE_MOST_FRAME], two[CKPT_WIRE_MOST_FRAME], back[CKPT_WIRE_MOST_FRAME], payload[CKPT_WIRE_MOST_BYTES];
	struct ckpt_wire_session rank, rank0;
	enum ckpt_wire_kind kind;
	const uint8_t *bytes;
	size_t len, size;

	(void)state;
	make_pair(&rank, &rank0);
	memset(payload, 'p', sizeof(payload));
	size = ckpt_wire_write_frame(&rank, CKPT_WIRE_HELLO, payload, sizeof(payload), one);
	assert_int_equal(size, CKPT_WIRE_MOST_FRAME);
	assert_int_equal(ckpt_wire_write_frame(&rank, CKPT_WIRE_BYE, NULL, 0, two), CKPT_WIRE_HEAD + CKPT_WIRE_KEY);
	assert_false(ckpt_wire_read_frame(&rank0, two, CKPT_WIRE_HEAD + CKPT_WIRE_KEY, &kind, &bytes, &len)); /* too early */
	for (size_t i = 0; i < size; i += i < 16 || i + 40 > size ? 1 : 97) {
		one[i] ^= 1;
		assert_false(ckpt_wire_read_frame(&rank0, one, size, &kind, &bytes, &len));
		one[i] ^= 1;
	}
	assert_int_equal(ckpt_wire_frame_size(one), size);
	assert_true(ckpt_wire_read_frame(&rank0, one, size, &kind, &bytes, &len));
	assert_int_equal(kind, CKPT_WIRE_HELLO);
	assert_int_equal(len, sizeof(payload));
	assert_memory_equal(bytes, payload, len);
	assert_false(ckpt_wire_read_frame(&rank0, one, size, &kind, &bytes, &len)); /* again */
	assert_true(ckpt_wire_read_frame(&rank0, two, CKPT_WIRE_HEAD + CKPT_WIRE_KEY, &kind, &bytes, &len));
	assert_int_equal(kind, CKPT_WIRE_BYE);
	/* what a rank sent does not pass for what rank 0 sends */
	make_pair(&rank, &rank0);
	ckpt_wire_write_frame(&rank, CKPT_WIRE_BYE, NULL, 0, back);
	assert_false(ckpt_wire_read_frame(&rank, back, CKPT_WIRE_HEAD + CKPT_WIRE_KEY, &kind, &bytes, &len));
}

static void heads_of_frames_are_bounded(void **state)
{
	static const struct {
		uint8_t head[CKPT_WIRE_HEAD];
		size_t size;
	} heads[] = {
		{ { 0, 0, 0, 0, 0, 0, 0, 0 }, 0 },
		{ { 1, 0, 0, 0, 0, 0, 0, 0 }, 40 },
		{ { 1, 0, 0, 0, 0, 0x10, 0, 0 }, CKPT_WIRE_MOST_FRAME },
		{ { 1, 0, 0, 0, 1, 0x10, 0, 0 }, 0 },
		{ { 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff }, 0 },
		{ { CKPT_WIRE_KINDS, 0, 0, 0, 0, 0, 0, 0 }, 0 },
		{ { 1, 0, 0, 1, 0, 0, 0, 0 }, 0 },
		{ { 'G', 'E', 'T', ' ', '/', ' ', 'H', 'T' }, 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(heads); i++)
		assert_int_equal(ckpt_wire_frame_size(heads[i].head), heads[i].size);
}

UNIT_SUITE(test_tcp_wire)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_are_read_as_they_were_written),
		cmocka_unit_test(of_other_versions_only_the_version_is_read),
		cmocka_unit_test(a_proof_is_for_one_connection_token_and_side),
		cmocka_unit_test(frames_come_once_in_order_and_unchanged),
		cmocka_unit_test(heads_of_frames_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
