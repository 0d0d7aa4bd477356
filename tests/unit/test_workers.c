/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "io/fault.h"
#include "io/workers.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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
			else
				assert_in_range(j.ticks, 1, counts[i] + 1);
		}
}

static struct ckpt_workers *new_workers(void)
{
	struct ckpt_workers *workers;

	assert_int_equal(ckpt_workers_new(64, 0, &workers, NULL), 0);
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

/* What the system answers below: MASK_CPUS in a mask that has to have room for MASK_ROOM. 0: the truth. */
static int mask_cpus, mask_room;

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	if (!mask_room) {
		long rc = syscall(SYS_sched_getaffinity, pid, size, set);

		memset((char *)set + (rc > 0 ? rc : 0), 0, size - (size_t)(rc > 0 ? rc : 0));
		return rc < 0 ? -1 : 0;
	}
	if (size * 8 < (size_t)mask_room) {
		errno = EINVAL;
		return -1;
	}
	CPU_ZERO_S(size, set);
	for (int i = 0; i < mask_cpus; i++)
		CPU_SET_S((size_t)(mask_room - 1 - i), size, set);
	return 0;
}

static int count_threads(void *ctx, enum ckpt_io_op op)
{
	*(atomic_uint *)ctx += op == CKPT_IO_THREAD;
	return 0;
}

static unsigned helpers_for(uint32_t threads)
{
	struct ckpt_workers *workers;
	struct job j = job(10);
	atomic_uint started = 0;

	ckpt_io_set_hook(count_threads, &started);
	assert_int_equal(ckpt_workers_new(64, threads, &workers, NULL), 0);
	assert_int_equal(ckpt_workers_run(workers, &j.work, true, NULL), 0);
	ckpt_workers_free(workers);
	ckpt_io_set_hook(NULL, NULL);
	return started;
}

static void there_are_as_many_threads_as_are_wanted(void **state)
{
	static const struct {
		int cpus, room;
		uint32_t threads, helpers;
	} table[] = {
		{ 1, 64, 0, 0 },     { 2, 64, 0, 1 },	  { 3, 1024, 0, 2 },  { 200, 1024, 0, 3 },
		{ 1, 1025, 0, 0 },   { 3, 2048, 0, 2 },	  { 1, 4097, 0, 0 },  { 3, 100000, 0, 2 },
		{ 1, 1 << 20, 0, 0 }, { 64, 1 << 20, 0, 3 }, { 64, 64, 1, 0 }, { 1, 64, 2, 1 },
		{ 1, 64, 9, 8 },     { 1, 64, 64, 63 },	  { 1, 64, 65, 63 }, { 1, 64, UINT32_MAX, 63 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(table); i++) {
		unsigned helpers;

		mask_cpus = table[i].cpus;
		mask_room = table[i].room;
		helpers = helpers_for(table[i].threads);
		if (helpers != table[i].helpers)
			fail_msg("%d processors of %d, %u threads: %u helpers", mask_cpus, mask_room,
				 table[i].threads, helpers);
	}
	mask_room = 0;
}

UNIT_SUITE(test_workers)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_block_is_done_once),
		cmocka_unit_test(without_threads_the_caller_does_it),
		cmocka_unit_test(an_error_ends_it),
		cmocka_unit_test(there_are_as_many_threads_as_are_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
