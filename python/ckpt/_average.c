/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mean of several Models, and the index of a DCP directory made anew.
 *
 * What must stay true: the mean reads all of its Models until it is closed, so each of them stays
 * open as long, with the memory and functions that it has.
 */
#include "_ckpt.h"

#include <stdlib.h>

/* Models, until release(). Begins as zeros. */
struct inputs {
	struct model **owners; /* of a list that the caller holds */
	const struct ckpt_model **models;
	size_t count;
};

static void release(struct inputs *in)
{
	while (in->count)
		ckpt_py_model_drop(in->owners[--in->count]);
	free(in->owners);
	free(in->models);
}

static bool take(struct state *state, PyObject *list, struct inputs *in)
{
	Py_ssize_t count = PyList_Check(list) ? PyList_Size(list) : -1;

	if (count < 1) {
		PyErr_SetString(PyExc_ValueError, "a mean is of one or more models");
		return false;
	}
	in->owners = calloc((size_t)count, sizeof(*in->owners));
	in->models = calloc((size_t)count, sizeof(*in->models));
	if (!in->owners || !in->models) {
		PyErr_NoMemory();
		return false;
	}
	for (Py_ssize_t i = 0; i < count; i++) {
		PyObject *item = PyList_GetItem(list, i);

		if (Py_TYPE(item) != state->model) {
			PyErr_SetString(PyExc_TypeError, "a mean is of models");
			return false;
		}
		in->owners[i] = (struct model *)item;
		in->models[i] = ckpt_py_model_use(in->owners[i]);
		if (!in->models[i])
			return false;
		in->count++;
	}
	return true;
}

/* A Model without a model; it keeps all of IN open. */
static struct model *new_mean(struct state *state, const struct inputs *in)
{
	struct model *mean = ckpt_py_model_new(state, in->owners[0]);

	if (!mean)
		return NULL;
	mean->keep = PyList_New(0);
	for (size_t i = 1; mean->keep && i < in->count; i++)
		ckpt_py_append(&mean->keep, (PyObject *)ckpt_py_model_new(state, in->owners[i]));
	if (!mean->keep)
		Py_CLEAR(mean);
	return mean;
}

/* WEIGHTS: a list of as many numbers as there are models, or None. To be freed. */
static bool take_weights(PyObject *weights, size_t count, double **out)
{
	*out = NULL;
	if (weights == Py_None)
		return true;
	if (!PyList_Check(weights) || (size_t)PyList_Size(weights) != count) {
		PyErr_Format(PyExc_ValueError, "wanted a weight for each of the %zu checkpoints",
			     count);
		return false;
	}
	*out = calloc(count, sizeof(**out));
	if (!*out) {
		PyErr_NoMemory();
		return false;
	}
	for (size_t i = 0; i < count; i++)
		(*out)[i] = PyFloat_AsDouble(PyList_GetItem(weights, (Py_ssize_t)i));
	return !PyErr_Occurred();
}

static PyObject *average(struct state *state, const struct inputs *in,
			 struct ckpt_average_options *options)
{
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct model *mean = new_mean(state, in);
	PyObject *dict = NULL;
	struct work work;
	int rc;

	if (!mean)
		return NULL;
	if (!ckpt_py_work_begin(&work, Py_None)) {
		Py_DECREF(mean);
		return NULL;
	}
	options->progress = ckpt_py_work_progress;
	options->progress_ctx = &work;
	options->cancel = &work.cancel;
	rc = ckpt_average(in->models, in->count, options, &mean->model, &report, &err);
	ckpt_py_work_end(&work);
	Py_DECREF(work.list);
	if (rc < 0 || PyErr_Occurred())
		ckpt_py_raise_for_one_of(in->owners[0], &err, rc);
	else
		dict = ckpt_py_edit_report(&report);
	if (dict)
		return Py_BuildValue("(NN)", mean, dict);
	Py_DECREF(mean);
	return NULL;
}

PyObject *ckpt_py_average(PyObject *module, PyObject *args)
{
	struct ckpt_average_options options = CKPT_AVERAGE_OPTIONS_INIT;
	struct state *state = PyModule_GetState(module);
	struct inputs in = { NULL, NULL, 0 };
	struct words only = { NULL, 0, NULL };
	PyObject *models, *patterns, *weights, *result = NULL;
	double *numbers = NULL;

	if (!PyArg_ParseTuple(args, "OIOOdz", &models, &options.flags, &patterns, &weights,
			      &options.decay, &options.as))
		return NULL;
	if (take(state, models, &in) && ckpt_py_words_take(patterns, 0, &only) &&
	    take_weights(weights, in.count, &numbers)) {
		options.only = only.count ? only.items : NULL;
		options.only_count = only.count;
		options.weights = numbers;
		result = average(state, &in, &options);
	}
	free(numbers);
	ckpt_py_words_clear(&only);
	release(&in);
	return result;
}

struct reindexing {
	struct task task;
	PyObject *path, *out; /* OUT NULL: in place */
	PyObject *args;	      /* has the texts of OPTIONS */
	struct ckpt_reindex_options options;
	struct ckpt_reindex_report report;
	struct ckpt_error err;
	int rc;
};

static void call_reindex(struct task *task)
{
	struct reindexing *r = (struct reindexing *)task;

	r->rc = ckpt_reindex(PyBytes_AsString(r->path), r->out ? PyBytes_AsString(r->out) : NULL,
			     &r->options, &r->report, &r->err);
}

static void free_reindexing(struct task *task)
{
	struct reindexing *r = (struct reindexing *)task;

	Py_XDECREF(r->path);
	Py_XDECREF(r->out);
	Py_XDECREF(r->args);
	free(r);
}

static PyObject *reindex_dict(const struct ckpt_reindex_report *report)
{
	return Py_BuildValue("{s:s,s:I,s:K,s:K,s:K,s:K}", "source", report->source, "indexes",
			     (unsigned)report->indexes, "entries", (unsigned long long)report->entries,
			     "chunks", (unsigned long long)report->chunks, "uncovered",
			     (unsigned long long)report->uncovered, "nbytes",
			     (unsigned long long)report->nbytes);
}

PyObject *ckpt_py_reindex(PyObject *module, PyObject *args)
{
	struct reindexing *r = calloc(1, sizeof(*r));
	PyObject *target, *progress, *result = NULL;
	int from_ranks;

	if (!r)
		return PyErr_NoMemory();
	r->options = (struct ckpt_reindex_options)CKPT_REINDEX_OPTIONS_INIT;
	r->report = (struct ckpt_reindex_report)CKPT_REINDEX_REPORT_INIT;
	r->err = (struct ckpt_error)CKPT_ERROR_INIT;
	r->args = Py_NewRef(args);
	r->task.call = call_reindex;
	r->task.free = free_reindexing;
	if (!PyArg_ParseTuple(args, "O&OIzpO", PyUnicode_FSConverter, &r->path, &target,
			      &r->options.flags, &r->options.for_torch, &from_ranks, &progress) ||
	    (target != Py_None && !PyUnicode_FSConverter(target, &r->out)) ||
	    !ckpt_py_task_init(&r->task, progress)) {
		free_reindexing(&r->task);
		return NULL;
	}
	r->task.stays = !r->out;
	r->options.from_ranks = from_ranks != 0;
	r->options.progress = ckpt_py_task_progress;
	r->options.naming = ckpt_py_task_naming;
	r->options.progress_ctx = r->options.naming_ctx = r;
	r->options.cancel = &r->task.cancel;
	if (!ckpt_py_task_run(&r->task))
		return NULL;
	if (r->rc < 0 || PyErr_Occurred())
		ckpt_py_raise(PyModule_GetState(module), &r->err, r->rc);
	else
		result = reindex_dict(&r->report);
	ckpt_py_task_free(&r->task);
	return result;
}
