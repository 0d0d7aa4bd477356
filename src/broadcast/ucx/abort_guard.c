/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/ucx/abort_guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned takers;		   /* under the lock */
static struct sigaction before;	   /* under the lock, but for the handler, which only reads it while it is set */
static __thread sigjmp_buf *way_out; /* of the guarded call that this thread is in */

static void on_abort(int number)
{
	if (way_out)
		siglongjmp(*way_out, 1);
	sigaction(number, &before, NULL);
	raise(number);
}

void ckpt_ucx_guard_take(void)
{
	struct sigaction own = { .sa_handler = on_abort, .sa_flags = SA_NODEFER };

	sigemptyset(&own.sa_mask);
	pthread_mutex_lock(&lock);
	if (takers++ == 0)
		sigaction(SIGABRT, &own, &before);
	pthread_mutex_unlock(&lock);
}

void ckpt_ucx_guard_give_back(void)
{
	struct sigaction now;

	pthread_mutex_lock(&lock);
	if (--takers == 0 && sigaction(SIGABRT, NULL, &now) == 0 && now.sa_handler == on_abort)
		sigaction(SIGABRT, &before, NULL);
	pthread_mutex_unlock(&lock);
}

bool ckpt_ucx_guard_run(void (*call)(void *), void *ctx)
{
	sigjmp_buf here;

	if (sigsetjmp(here, 0) != 0) {
		way_out = NULL;
		return false;
	}
	way_out = &here;
	call(ctx);
	way_out = NULL;
	return true;
}
