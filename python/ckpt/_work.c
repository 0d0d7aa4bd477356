/* SPDX-License-Identifier: Apache-2.0 */
/* What calls of the library need: lists of texts, progress, and the dicts that reports become. */
#include "_ckpt.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ckpt_py_words_clear(struct words *words)
{
	free(words->items);
	Py_XDECREF(words->bytes);
}

bool ckpt_py_words_take(PyObject *list, size_t none, struct words *words)
{
	Py_ssize_t count = PySequence_Size(list);

	if (count < 0)
		return false;
	words->items = calloc((size_t)count + 1, sizeof(*words->items));
	words->bytes = PyList_New(0);
	if (!words->items || !words->bytes) {
		PyErr_NoMemory();
		return false;
	}
	for (Py_ssize_t i = 0; i < count; i++) {
		PyObject *item = PySequence_GetItem(list, i), *bytes = NULL;
		bool is_none = item == Py_None && (size_t)i < none;

		if (item && !is_none)
			bytes = ckpt_py_name(item);
		Py_XDECREF(item);
		if (!is_none && (!bytes || PyList_Append(words->bytes, bytes) < 0)) {
			Py_XDECREF(bytes);
			return false;
		}
		words->items[i] = bytes ? PyBytes_AsString(bytes) : NULL;
		Py_XDECREF(bytes); /* the list has it */
	}
	words->count = (size_t)count;
	return true;
}

bool ckpt_py_work_begin(struct work *work, PyObject *function)
{
	*work = (struct work){ .pid = getpid(),
			       .function = function == Py_None ? NULL : function,
			       .list = PyList_New(0) };
	if (!work->list)
		return false;
	work->thread = PyEval_SaveThread();
	return true;
}

void ckpt_py_work_end(struct work *work)
{
	PyEval_RestoreThread(work->thread);
}

int ckpt_py_work_tell(void *ctx, uint64_t done, uint64_t total)
{
	struct work *work = ctx;
	PyObject *result;
	int rc;

	PyEval_RestoreThread(work->thread);
	rc = PyErr_Occurred() ? -1 : PyErr_CheckSignals();
	if (rc == 0 && work->function) {
		result = PyObject_CallFunction(work->function, "KK", (unsigned long long)done,
					       (unsigned long long)total);
		rc = result ? 0 : -1;
		Py_XDECREF(result);
	}
	if (getpid() != work->pid) {
		ckpt_py_raise_forked();
		rc = -1;
	}
	work->thread = PyEval_SaveThread();
	return rc < 0 ? CKPT_E_CANCELLED : 0;
}

void ckpt_py_raise_forked(void)
{
	if (!PyErr_Occurred())
		PyErr_SetString(PyExc_RuntimeError,
				"this process was forked while a call of ckpt ran: the other one goes on with that");
}

void ckpt_py_work_progress(void *ctx, uint64_t done, uint64_t total)
{
	struct work *work = ctx;

	if (ckpt_py_work_tell(ctx, done, total) < 0)
		__atomic_store_n(&work->cancel, 1, __ATOMIC_RELAXED);
}

int ckpt_py_work_add(struct work *work, PyObject *(*make)(const void *what), const void *what)
{
	PyObject *made;
	int rc = CKPT_E_CANCELLED;

	PyEval_RestoreThread(work->thread);
	if (!PyErr_Occurred()) {
		made = make(what);
		if (made && PyList_Append(work->list, made) == 0 && PyErr_CheckSignals() == 0)
			rc = 0;
		Py_XDECREF(made);
	}
	work->thread = PyEval_SaveThread();
	return rc;
}

void ckpt_py_put(PyObject *dict, const char *key, PyObject *value)
{
	if (dict && value && !PyErr_Occurred())
		PyDict_SetItemString(dict, key, value);
	Py_XDECREF(value);
}

void ckpt_py_append(PyObject **list, PyObject *item)
{
	if (!item || PyList_Append(*list, item) < 0)
		Py_CLEAR(*list);
	Py_XDECREF(item);
}

PyObject *ckpt_py_string(const char *text)
{
	return ckpt_py_text(text, strlen(text));
}

/* NUMBER if it is none above MOST; otherwise an exception is set. */
static unsigned long long take_at_most(PyObject *number, unsigned long long most)
{
	PyObject *index = PyNumber_Index(number);
	unsigned long long value = index ? PyLong_AsUnsignedLongLong(index) : 0;

	Py_XDECREF(index);
	if (PyErr_Occurred() ? PyErr_ExceptionMatches(PyExc_OverflowError) : value > most) {
		PyErr_Clear();
		PyErr_Format(PyExc_ValueError, "wanted a number from 0 to %llu, not %R", most, number);
	}
	return value;
}

int ckpt_py_take_unsigned(PyObject *number, void *to)
{
	*(unsigned *)to = (unsigned)take_at_most(number, UINT_MAX);
	return !PyErr_Occurred();
}

int ckpt_py_take_uint64(PyObject *number, void *to)
{
	*(uint64_t *)to = take_at_most(number, UINT64_MAX);
	return !PyErr_Occurred();
}

PyObject *ckpt_py_numbers(const uint64_t *numbers, uint64_t count)
{
	PyObject *list = PyList_New(0);

	for (uint64_t i = 0; list && i < count; i++)
		ckpt_py_append(&list, PyLong_FromUnsignedLongLong(numbers[i]));
	return list;
}

PyObject *ckpt_py_finished(PyObject *dict)
{
	if (PyErr_Occurred())
		Py_CLEAR(dict);
	return dict;
}
