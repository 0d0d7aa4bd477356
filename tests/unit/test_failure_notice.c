/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "job/failure_notice.h"

#include <string.h>

/* What a rank says to the others when it cannot go on. */

static void it_comes_as_it_was_sent(void **state)
{
	uint8_t bytes[CKPT_MOST_FAILURE_NOTICE];
	struct ckpt_failure_notice sent, came;
	struct ckpt_error why = CKPT_ERROR_INIT, err = CKPT_ERROR_INIT;

	(void)state;
	ckpt_fail(&why, CKPT_E_CANCELLED, "interrupted");
	ckpt_failure_notice_make(7, "nodeH", &why, 15, &sent);
	ckpt_failure_notice_read(bytes, ckpt_failure_notice_write(&sent, bytes), &came);
	assert_int_equal(came.rank, 7);
	assert_int_equal(came.signal, 15);
	assert_int_equal(ckpt_failure_notice_fail(&came, &err), CKPT_E_CANCELLED);
	assert_string_equal(unit_text(&err), "rank 7 (nodeH): interrupted");
}

static void what_a_rank_was_told_itself_is_not_its_own(void **state)
{
	struct ckpt_error why = CKPT_ERROR_INIT;
	struct ckpt_failure_notice n;

	(void)state;
	ckpt_fail(&why, CKPT_E_PEER, "rank 3 (nodeD) is twice");
	ckpt_failure_notice_make(0, "nodeA", &why, 0, &n);
	assert_string_equal(n.text, "rank 3 (nodeD) is twice");
	ckpt_error_at(&why, ckpt_fail(&why, CKPT_E_IO, "cannot be read"), "/nfs/a.pt", NULL, CKPT_NO_OFFSET);
	ckpt_failure_notice_make(0, "nodeA", &why, 0, &n);
	assert_string_equal(n.text, "rank 0 (nodeA): /nfs/a.pt: cannot be read");
}

/* The longest text of an error, and any bytes that somebody else sends. */
static void whatever_comes_is_a_failure_with_a_text(void **state)
{
	uint8_t bytes[2000], written[CKPT_MOST_FAILURE_NOTICE];
	struct ckpt_failure_notice n, again;

	(void)state;
	for (unsigned seed = 0; seed < 2000; seed++) {
		size_t len = seed % 40 ? seed % 37 : 2000;
		uint32_t random = seed * 2654435761u;

		for (size_t i = 0; i < sizeof(bytes); i++) {
			random = random * 1664525u + 1013904223u;
			bytes[i] = i < 12 && seed % 3 ? (uint8_t)(i % 4 ? 0 : random >> 26) : (uint8_t)(random >> 24);
		}
		ckpt_failure_notice_read(bytes, len, &n);
		assert_true(n.status < 0 && n.status >= CKPT_E_SYSTEM);
		assert_true(n.signal >= 0 && n.signal < 128 && (n.signal > 0) == (n.status == CKPT_E_CANCELLED));
		assert_true(n.text[0] && strlen(n.text) < sizeof(n.text));
		for (const char *p = n.text; *p; p++)
			assert_false(*p > 0 && *p < 0x20);
		ckpt_failure_notice_read(written, ckpt_failure_notice_write(&n, written), &again);
		assert_string_equal(again.text, n.text);
	}
}

UNIT_SUITE(test_failure_notice)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_comes_as_it_was_sent),
		cmocka_unit_test(what_a_rank_was_told_itself_is_not_its_own),
		cmocka_unit_test(whatever_comes_is_a_failure_with_a_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
