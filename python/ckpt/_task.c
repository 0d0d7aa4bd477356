/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call that writes, made by a thread of its own. A disk may hold that thread in a system call that
 * nothing ends; Ctrl-C ends the caller's wait nevertheless. What the call needs is the task's then,
 * not the caller's, and is given back when the thread is done.
 *
 * What must stay true:
 *  - Functions of Python's are called by the caller's thread, while the other waits: they see the
 *    thread, the signals and the exceptions of whoever made the call.
 *  - The caller leaves only after a signal, as what else ends a call can wait until all is clean, only
 *    with CANCEL up and never while the output gets its name
 *    (NAMING_BEGINS): what is there when the call ends is all that will ever be. Both are decided
 *    under LOCK.
 *  - Nobody waits for the GIL with LOCK, and nobody for LOCK's condition with the GIL.
 *  - The last of the two frees the task: the caller, or, once it has left, the thread.
 *  - The interpreter does not end before the threads that are left, which need it for that.
 */
#include "_ckpt.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	LOOK_MS = 20,	/* between two looks for signals */
	GRACE_MS = 110, /* for a call that was cancelled, before it is left */
};

/* Threads of this process whose callers have left. */
static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left_changed = PTHREAD_COND_INITIALIZER;
static unsigned left_count;

/* A forked process has none of the threads. */
static void forget_left(void)
{
	pthread_mutex_init(&left_lock, NULL);
	pthread_cond_init(&left_changed, NULL);
	left_count = 0;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forget_left);
}

static struct timespec in_milliseconds(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static bool is_over(const struct timespec *t)
{
	struct timespec now = in_milliseconds(CLOCK_MONOTONIC, 0);

	return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

/* ---- the thread ---- */

/* Let the caller run WHAT, with the GIL. -1: it has left, or an exception is set. */
static int ask_caller(struct task *t, struct task_question *what)
{
	int rc = -1;

	pthread_mutex_lock(&t->lock);
	if (!t->left && !t->cancel) {
		t->question = what;
		pthread_cond_broadcast(&t->changed);
		while (t->question == what && !t->left && !t->cancel)
			pthread_cond_wait(&t->changed, &t->lock);
		t->question = NULL;
		rc = t->left || t->cancel ? -1 : 0;
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

void ckpt_py_task_progress(void *ctx, uint64_t done, uint64_t total)
{
	struct task_question what = { .done = done, .total = total };
	struct task *t = ctx;

	if (t->function)
		ask_caller(t, &what);
}

int ckpt_py_task_add(struct task *t, PyObject *(*make)(const void *what), const void *what)
{
	struct task_question question = { .make = make, .what = what };

	return ask_caller(t, &question) < 0 ? CKPT_E_CANCELLED : 0;
}

int ckpt_py_task_naming(void *ctx, enum ckpt_naming what)
{
	struct task *t = ctx;
	int rc;

	pthread_mutex_lock(&t->lock);
	rc = t->cancel ? -1 : 0;
	if (what == CKPT_NAMING_ENDED || rc == 0)
		t->is_naming = what == CKPT_NAMING_BEGINS;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
	return rc;
}

static void free_task(struct task *t)
{
	Py_XDECREF(t->function);
	Py_XDECREF(t->list);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
	t->free(t);
}

static void free_left_task(struct task *t)
{
	PyGILState_STATE gil = PyGILState_Ensure();

	free_task(t);
	PyGILState_Release(gil);
	pthread_mutex_lock(&left_lock);
	left_count--;
	pthread_cond_broadcast(&left_changed);
	pthread_mutex_unlock(&left_lock);
}

static void *run(void *arg)
{
	struct task *t = arg;
	bool left;

	t->call(t);
	pthread_mutex_lock(&t->lock);
	left = t->left;
	t->ended = true;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
	if (left)
		free_left_task(t);
	return NULL;
}

/* ---- the caller ---- */

static bool answer(struct task *t, const struct task_question *what)
{
	PyObject *result;
	bool fine;

	if (what->make) {
		result = what->make(what->what);
		fine = result && PyList_Append(t->list, result) == 0;
	} else {
		result = PyObject_CallFunction(t->function, "KK", (unsigned long long)what->done,
					       (unsigned long long)what->total);
		fine = result != NULL;
	}
	Py_XDECREF(result);
	return fine && PyErr_CheckSignals() == 0;
}

/*
 * LOCK is held, but not meanwhile. Look for signals, and answer the question that there is; whoever asks
 * it waits. If there is an exception then, nothing is answered any more, and LEAVE_AT is set.
 *
 * False: this is a process that was forked meanwhile. It has no such thread, whose locks may be held for ever: the task is
 * not touched any more. There is an exception, and the GIL is held.
 */
static bool turn_to_python(struct task *t, PyThreadState **thread, struct timespec *leave_at)
{
	const struct task_question *what = t->question;
	bool fine, is_signal;

	pthread_mutex_unlock(&t->lock);
	PyEval_RestoreThread(*thread);
	fine = PyErr_CheckSignals() == 0;
	is_signal = !fine;
	if (fine && what) {
		fine = answer(t, what);
		is_signal = !fine && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
	}
	if (getpid() != t->pid) {
		ckpt_py_raise_forked();
		return false;
	}
	*thread = PyEval_SaveThread();
	pthread_mutex_lock(&t->lock);
	if (!fine) {
		__atomic_store_n(&t->cancel, 1, __ATOMIC_SEQ_CST);
		*leave_at = in_milliseconds(CLOCK_MONOTONIC, GRACE_MS);
		t->stays |= !is_signal;
	}
	if (what)
		t->question = NULL;
	pthread_cond_broadcast(&t->changed);
	return true;
}

/* Until the thread is done: true. False: it was left, and the task is its own. */
static bool wait_for(struct task *t)
{
	PyThreadState *thread = PyEval_SaveThread();
	struct timespec leave_at = { 0 }, look_at = in_milliseconds(CLOCK_MONOTONIC, LOOK_MS);
	bool ended;

	pthread_mutex_lock(&t->lock);
	while (!t->ended) {
		bool may_leave = t->cancel && !t->is_naming && !t->stays;

		if (may_leave && is_over(&leave_at))
			break;
		if (!is_over(&look_at) && !(t->question && !t->cancel)) {
			pthread_cond_timedwait(&t->changed, &t->lock, &look_at);
			continue;
		}
		if (!t->cancel)
			if (!turn_to_python(t, &thread, &leave_at))
				return false;
		look_at = in_milliseconds(CLOCK_MONOTONIC, LOOK_MS);
	}
	ended = t->ended;
	if (!ended) {
		pthread_mutex_lock(&left_lock);
		left_count++;
		pthread_mutex_unlock(&left_lock);
		t->left = true;
		pthread_cond_broadcast(&t->changed);
	}
	pthread_mutex_unlock(&t->lock);
	PyEval_RestoreThread(thread);
	return ended;
}

/* Without signals, which are for the threads of the program. */
static int start(struct task *t, pthread_t *thread)
{
	sigset_t all, before;
	int code;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(thread, NULL, run, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return code;
}

bool ckpt_py_task_init(struct task *t, PyObject *function)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_condattr_t attr;

	t->list = PyList_New(0);
	if (!t->list)
		return false;
	pthread_once(&once, watch_forks);
	t->pid = getpid();
	t->function = function == Py_None ? NULL : Py_NewRef(function);
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->changed, &attr);
	pthread_condattr_destroy(&attr);
	return true;
}

bool ckpt_py_task_run(struct task *t)
{
	pthread_t thread;
	pid_t pid = t->pid; /* who leaves the task has it no more */
	int code = start(t, &thread);

	if (code) {
		errno = code;
		PyErr_SetFromErrno(PyExc_OSError);
		free_task(t);
		return false;
	}
	if (wait_for(t)) {
		Py_BEGIN_ALLOW_THREADS pthread_join(thread, NULL);
		Py_END_ALLOW_THREADS return true;
	}
	if (getpid() == pid)
		pthread_detach(thread);
	return false;
}

void ckpt_py_task_free(struct task *t)
{
	free_task(t);
}

PyObject *ckpt_py_wait_for_tasks(PyObject *module, PyObject *none)
{
	bool more = true;
	int rc = 0;

	(void)module;
	(void)none;
	while (more && rc == 0) {
		PyThreadState *thread = PyEval_SaveThread();
		struct timespec look_at = in_milliseconds(CLOCK_REALTIME, LOOK_MS);

		pthread_mutex_lock(&left_lock);
		if (left_count)
			pthread_cond_timedwait(&left_changed, &left_lock, &look_at);
		more = left_count != 0;
		pthread_mutex_unlock(&left_lock);
		PyEval_RestoreThread(thread);
		rc = PyErr_CheckSignals();
	}
	if (rc < 0)
		return NULL;
	Py_RETURN_NONE;
}
