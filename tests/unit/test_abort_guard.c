/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "broadcast/ucx/abort_guard.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A call that comes to abort() comes back where it is guarded, and nowhere else. */

enum { OTHERS_CODE = 9, FELL_CODE = 3, TIMES = 3 };

static void fall(void *ctx)
{
	++*(int *)ctx;
	abort();
}

static void go_well(void *ctx)
{
	++*(int *)ctx;
}

static void end_as_other(int number)
{
	(void)number;
	_exit(OTHERS_CODE);
}

static void *fall_unguarded(void *ctx)
{
	fall(ctx);
	return NULL;
}

/* How a process ends that RUN ends in. */
static int end_of(void (*run)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		signal(SIGABRT, end_as_other);
		run();
		_exit(FELL_CODE);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void a_guarded_call_comes_back(void **state)
{
	struct sigaction before, after;
	int calls = 0;

	(void)state;
	sigaction(SIGABRT, NULL, &before);
	ckpt_ucx_guard_take();
	ckpt_ucx_guard_take();
	for (int i = 0; i < TIMES; i++) {
		assert_false(ckpt_ucx_guard_run(fall, &calls));
		assert_true(ckpt_ucx_guard_run(go_well, &calls));
	}
	ckpt_ucx_guard_give_back();
	assert_false(ckpt_ucx_guard_run(fall, &calls));
	assert_int_equal(calls, 2 * TIMES + 1);
	ckpt_ucx_guard_give_back();
	sigaction(SIGABRT, NULL, &after);
	assert_ptr_equal(before.sa_handler, after.sa_handler);
}

static void after_a_guarded_call(void)
{
	int calls = 0;

	ckpt_ucx_guard_take();
	if (!ckpt_ucx_guard_run(go_well, &calls) || ckpt_ucx_guard_run(fall, &calls))
		_exit(1);
	fall(&calls);
}

static void fall_beside(void *ctx)
{
	pthread_t other;

	pthread_create(&other, NULL, fall_unguarded, ctx);
	pthread_join(other, NULL);
}

static void beside_a_guarded_call(void)
{
	int calls = 0;

	ckpt_ucx_guard_take();
	ckpt_ucx_guard_run(fall_beside, &calls);
}

static void after_the_guard(void)
{
	int calls = 0;

	ckpt_ucx_guard_take();
	ckpt_ucx_guard_give_back();
	fall(&calls);
}

static void what_another_one_asked_for(void)
{
	struct sigaction now;

	ckpt_ucx_guard_take();
	signal(SIGABRT, SIG_IGN); /* somebody else, meanwhile */
	ckpt_ucx_guard_give_back();
	sigaction(SIGABRT, NULL, &now);
	_exit(now.sa_handler == SIG_IGN ? OTHERS_CODE : 1);
}

static void an_abort_of_others_is_theirs(void **state)
{
	(void)state;
	assert_int_equal(end_of(after_a_guarded_call), OTHERS_CODE);
	assert_int_equal(end_of(beside_a_guarded_call), OTHERS_CODE);
	assert_int_equal(end_of(after_the_guard), OTHERS_CODE);
	assert_int_equal(end_of(what_another_one_asked_for), OTHERS_CODE);
}

UNIT_SUITE(test_abort_guard)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_guarded_call_comes_back),
		cmocka_unit_test(an_abort_of_others_is_theirs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
