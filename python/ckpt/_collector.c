/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python's collector of garbage waits while very many objects are made: it would look through all of
 * them, again and again.
 *
 * What must stay true: it is told so by a threshold that nobody else sets, and only that one is taken
 * back. Whoever enables, disables or sets it meanwhile has the last word. Only C is between the two
 * calls, so that no handler of a signal comes in between either of them and what it does; and in a
 * forked process, in which nobody is left to end it, the fork itself does.
 */
#include "_ckpt.h"

#include <limits.h>

enum { OURS = INT_MAX - 5 };

static bool is_ours(PyObject *thresholds)
{
	PyObject *first = PyTuple_Check(thresholds) && PyTuple_Size(thresholds) > 0 ? PyTuple_GetItem(thresholds, 0) : NULL;

	return first && PyLong_Check(first) && PyLong_AsLongLong(first) == OURS;
}

bool ckpt_py_pause_collector(struct state *state)
{
	PyObject *done;

	if (state->paused) { /* by another thread */
		state->paused++;
		return true;
	}
	Py_CLEAR(state->thresholds);
	state->thresholds = PyObject_CallNoArgs(state->get_threshold);
	if (!state->thresholds)
		return false;
	done = PyObject_CallFunction(state->set_threshold, "i", (int)OURS);
	Py_XDECREF(done);
	state->paused = done != NULL;
	return done != NULL;
}

static void resume(struct state *state)
{
	PyObject *type, *value, *traceback, *now, *done;

	PyErr_Fetch(&type, &value, &traceback);
	now = PyObject_CallNoArgs(state->get_threshold);
	if (now && is_ours(now) && state->thresholds) {
		done = PyObject_CallObject(state->set_threshold, state->thresholds);
		Py_XDECREF(done);
	}
	Py_XDECREF(now);
	Py_CLEAR(state->thresholds);
	PyErr_Restore(type, value, traceback);
}

void ckpt_py_resume_collector(struct state *state)
{
	if (state->paused && --state->paused == 0)
		resume(state);
}

PyObject *ckpt_py_collector_after_fork(PyObject *module, PyObject *none)
{
	struct state *state = PyModule_GetState(module);

	(void)none;
	if (state->paused) {
		state->paused = 0;
		resume(state);
	}
	return Py_NewRef(Py_None);
}
