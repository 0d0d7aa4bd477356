/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "broadcast/bucket.h"

/* Time here is a number that the tests move. */
static const uint64_t MS = 1000000, START = 7000000000u;

static void bytes_go_at_the_rate_from_the_first_on(void **state)
{
	struct ckpt_bucket b = { .rate = 1000000 };
	uint64_t now = START;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t at = ckpt_bucket_take(&b, now, 10000); /* 10 ms */

		assert_int_equal(at, START + (uint64_t)i * 10 * MS);
		now = at;
	}
}

static void who_asks_ahead_of_time_gets_turns_in_order(void **state)
{
	struct ckpt_bucket b = { .rate = 1000000 };

	(void)state;
	for (int i = 0; i < 8; i++)
		assert_int_equal(ckpt_bucket_take(&b, START, 50000), START + (uint64_t)i * 50 * MS);
}

/* In every window: at most what the rate gives in it, and 100 ms more. */
static void a_pause_is_not_caught_up_in_one_burst(void **state)
{
	struct ckpt_bucket b = { .rate = 1000000 };
	uint64_t now = START, sent[4000] = { 0 }, times[4000];
	const uint64_t piece = 50000;

	(void)state;
	for (int i = 0; i < 400; i++) {
		uint64_t at;

		if (i % 50 == 49)
			now += 3000 * MS; /* a network that stands still */
		at = ckpt_bucket_take(&b, now, piece);
		assert_true(at >= now);
		now = at;
		times[i] = at;
		sent[i] = piece + (i ? sent[i - 1] : 0);
	}
	for (int i = 0; i < 400; i++)
		for (int k = i; k < 400; k++) {
			uint64_t in_window = sent[k] - (i ? sent[i - 1] : 0);

			assert_true(in_window <= (times[k] - times[i] + 100 * MS) / 1000);
		}
}

static void no_rate_is_no_limit(void **state)
{
	struct ckpt_bucket b = { 0 };

	(void)state;
	for (int i = 0; i < 10; i++)
		assert_int_equal(ckpt_bucket_take(&b, START, 1 << 30), START);
}

static void neither_the_largest_chunk_nor_any_rate_overflows(void **state)
{
	struct ckpt_bucket slow = { .rate = 1 }, fast = { .rate = UINT64_MAX };

	(void)state;
	assert_int_equal(ckpt_bucket_take(&slow, START, 1 << 30), START);
	assert_int_equal(ckpt_bucket_take(&slow, START, 1), START + (1ull << 30) * 1000 * MS);
	assert_int_equal(ckpt_bucket_take(&fast, START, 1 << 30), START);
	assert_int_equal(ckpt_bucket_take(&fast, START, 1 << 30), START);
}

UNIT_SUITE(test_bucket)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_go_at_the_rate_from_the_first_on),
		cmocka_unit_test(who_asks_ahead_of_time_gets_turns_in_order),
		cmocka_unit_test(a_pause_is_not_caught_up_in_one_burst),
		cmocka_unit_test(no_rate_is_no_limit),
		cmocka_unit_test(neither_the_largest_chunk_nor_any_rate_overflows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
