/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"
#include "io/workers.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

/* Every block is done once, whichever thread does it. */

enum { MOST = 1000, NEVER = 1 << 30 };

struct job {
	struct ckpt_work work;
	unsigned next, count;
	unsigned take_fails, finish_fails, tick_fails; /* at which block */
	atomic_uint taking, done[MOST], all_done, ticks;
	pthread_t caller;
};

static int fail_on_purpose(struct ckpt_error *err, int code)
{
	return ckpt_fail(err, code, "on purpose");
}

static int take(struct ckpt_work *work, void *desk, struct ckpt_error *err)
{
	struct job *j = (struct job *)work;

	assert_int_equal(j->taking++, 0); /* one thread at a time */
	if (j->next == j->take_fails) {
		j->taking--;
		return fail_on_purpose(err, CKPT_E_FORMAT);
	}
	if (j->next < j->count)
		*(unsigned *)desk = j->next;
	j->taking--;
	return j->next++ < j->count;
}

static int finish(struct ckpt_work *work, void *desk, struct ckpt_error *err)
{
	struct job *j = (struct job *)work;
	unsigned block = *(unsigned *)desk;

	for (volatile int i = 0; i < 2000; i++)
		;
	assert_int_equal(*(unsigned *)desk, block); /* nobody else's desk */
	if (block == j->finish_fails)
		return fail_on_purpose(err, CKPT_E_IO);
	j->done[block]++;
	j->all_done++;
	return 0;
}

static int tick(struct ckpt_work *work, struct ckpt_error *err)
{
	struct job *j = (struct job *)work;

	assert_true(pthread_equal(pthread_self(), j->caller));
	return j->ticks++ == j->tick_fails ? fail_on_purpose(err, CKPT_E_CANCELLED) : 0;
}

static struct job job(unsigned count)
{
	return (struct job){ .work = { take, finish, tick },
			     .count = count,
			     .take_fails = NEVER,
			     .finish_fails = NEVER,
			     .tick_fails = NEVER,
			     .caller = pthread_self() };
}

static void check_all(struct ckpt_workers *workers)
{
	static const unsigned counts[] = { 0, 1, 2, 3, 10, MOST };
	struct ckpt_error err = CKPT_ERROR_INIT;

	for (unsigned round = 0; round < 20; round++)
		for (size_t i = 0; i < COUNT(counts); i++) {
			struct job j = job(counts[i]);

			assert_int_equal(ckpt_workers_run(workers, &j.work, round % 4, &err), 0);
			assert_int_equal(j.all_done, counts[i]);
			for (unsigned b = 0; b < counts[i]; b++)
				assert_int_equal(j.done[b], 1);
			if (round % 4 == 0)
				assert_int_equal(j.ticks, counts[i]);
		}
}

static struct ckpt_workers *new_workers(void)
{
	struct ckpt_workers *workers;

	assert_int_equal(ckpt_workers_new(64, &workers, NULL), 0);
	return workers;
}

static void every_block_is_done_once(void **state)
{
	struct ckpt_workers *workers = new_workers();

	(void)state;
	check_all(workers);
	ckpt_workers_free(workers);
}

static int no_threads(void *ctx, enum ckpt_io_op op)
{
	unsigned *asked = ctx;

	*asked += op == CKPT_IO_THREAD;
	return op == CKPT_IO_THREAD ? EAGAIN : 0;
}

static void without_threads_the_caller_does_it(void **state)
{
	struct ckpt_workers *workers = new_workers();
	unsigned asked = 0;

	(void)state;
	ckpt_io_set_hook(no_threads, &asked);
	check_all(workers);
	ckpt_io_set_hook(NULL, NULL);
	assert_true(asked <= 1); /* not tried again */
	ckpt_workers_free(workers);
}

/* Nothing is begun behind an error, and the next work is as good as the first. */
static void check_failure(struct ckpt_workers *workers, struct job *j, int code)
{
	for (unsigned together = 0; together < 2; together++) {
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct job again = *j;
		int rc = ckpt_workers_run(workers, &again.work, together, &err);

		if (rc == 0 && j->tick_fails != NEVER &&
		    again.ticks <= j->tick_fails) /* the helpers did nearly all */
			continue;
		assert_int_equal(rc, code);
		assert_int_equal(err.status, code);
		assert_string_equal(unit_text(&err), "on purpose");
		assert_true(again.all_done < MOST || j->tick_fails != NEVER);
	}
}

static void an_error_ends_it(void **state)
{
	struct ckpt_workers *workers = new_workers();

	(void)state;
	for (unsigned at = 0; at < 50; at++) {
		struct job a = job(MOST), b = job(MOST), c = job(MOST);

		a.take_fails = at;
		check_failure(workers, &a, CKPT_E_FORMAT);
		b.finish_fails = at;
		check_failure(workers, &b, CKPT_E_IO);
		c.tick_fails = at;
		check_failure(workers, &c, CKPT_E_CANCELLED);
	}
	check_all(workers);
	ckpt_workers_free(workers);
}

UNIT_SUITE(test_workers)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_block_is_done_once),
		cmocka_unit_test(without_threads_the_caller_does_it),
		cmocka_unit_test(an_error_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
