/* SPDX-License-Identifier: Apache-2.0 */
/* What a damaged file still holds, as a Model; and a Model with what another file has. */
#include "_ckpt.h"

#include <stdlib.h>

static const char *const fills[] = { NULL, "zeros", "nan" };

struct finding {
	const struct ckpt_repair_finding *found;
	enum ckpt_repair_fill fill;
};

static PyObject *finding_of(const void *what)
{
	static const char *const kinds[] = { "lost", "unproven", "damage", "note" };
	const struct finding *finding = what;
	const struct ckpt_repair_finding *f = finding->found;
	PyObject *dict = PyDict_New();

	ckpt_py_put(dict, "kind", ckpt_py_string(kinds[f->kind]));
	if (f->name) {
		ckpt_py_put(dict, "name", ckpt_py_string(f->name));
		ckpt_py_put(dict, "nbytes", PyLong_FromUnsignedLongLong(f->nbytes));
	}
	if (f->record)
		ckpt_py_put(dict, "record", ckpt_py_string(f->record));
	if (f->offset != CKPT_NO_OFFSET)
		ckpt_py_put(dict, "offset", PyLong_FromUnsignedLongLong(f->offset));
	if (f->filled)
		ckpt_py_put(dict, "filled",
			    ckpt_py_string(f->zeros ? "zeros" : fills[finding->fill]));
	if (f->of_optimizer)
		ckpt_py_put(dict, "of_optimizer", Py_NewRef(Py_True));
	ckpt_py_put(dict, "text", ckpt_py_string(f->text));
	return ckpt_py_finished(dict);
}

/* A thread of its own opens it, as a disk that is slow may hold that. */
struct repair {
	struct task task;
	PyObject *path;
	struct ckpt_repair_options options;
	struct ckpt_repair_report report;
	struct ckpt_error err;
	struct ckpt_model *model; /* until somebody takes it */
	int rc;
};

static void free_repair(struct task *task)
{
	struct repair *r = (struct repair *)task;

	if (r->model) {
		Py_BEGIN_ALLOW_THREADS ckpt_close(r->model);
		Py_END_ALLOW_THREADS
	}
	Py_XDECREF(r->path);
	free(r);
}

static int add_finding(void *ctx, const struct ckpt_repair_finding *found)
{
	struct repair *repair = ctx;
	const struct finding finding = { found, repair->options.fill };

	return ckpt_py_task_add(&repair->task, finding_of, &finding);
}

static void call_repair(struct task *task)
{
	struct repair *r = (struct repair *)task;

	r->rc = ckpt_repair_open(PyBytes_AsString(r->path), &r->options, add_finding, r, &r->model, &r->report, &r->err);
}

static PyObject *report_of(const struct ckpt_repair_report *r)
{
	const char *verdict = !r->damaged	       ? "sound"
			      : r->lost || r->unproven ? "partial"
						       : "repaired";
#define COUNT(member) #member, (unsigned long long)r->member
	return Py_BuildValue("{s:s,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "verdict", verdict,
			     COUNT(tensors), COUNT(proven), COUNT(unproven), COUNT(lost),
			     COUNT(filled), COUNT(optimizer_lost), COUNT(storages),
			     COUNT(proven_nbytes), COUNT(unproven_nbytes), COUNT(lost_nbytes));
#undef COUNT
}

PyObject *ckpt_py_repair_open(PyObject *module, PyObject *args)
{
	struct state *state = PyModule_GetState(module);
	struct repair *r = calloc(1, sizeof(*r));
	PyObject *progress, *result = NULL;
	unsigned fill, threads;
	struct model *out;

	if (!r)
		return PyErr_NoMemory();
	r->options = (struct ckpt_repair_options)CKPT_REPAIR_OPTIONS_INIT;
	r->report = (struct ckpt_repair_report)CKPT_REPAIR_REPORT_INIT;
	r->err = (struct ckpt_error)CKPT_ERROR_INIT;
	r->task.call = call_repair;
	r->task.free = free_repair;
	if (!PyArg_ParseTuple(args, "O&IIO&O", PyUnicode_FSConverter, &r->path, &r->options.flags, &fill,
			      ckpt_py_take_unsigned, &threads, &progress) ||
	    !ckpt_py_task_init(&r->task, progress)) {
		free_repair(&r->task);
		return NULL;
	}
	r->options.fill = fill == 1 ? CKPT_FILL_ZEROS : fill == 2 ? CKPT_FILL_NAN : CKPT_FILL_NOTHING;
	r->options.threads = threads;
	r->options.progress = ckpt_py_task_progress;
	r->options.progress_ctx = &r->task;
	r->options.cancel = &r->task.cancel;
	if (!ckpt_py_task_run(&r->task))
		return NULL;
	out = PyErr_Occurred() ? NULL : ckpt_py_model_new(state, NULL);
	if (out && r->rc < 0)
		ckpt_py_raise(state, &r->err, r->rc);
	if (out && r->rc == 0) {
		out->source = ckpt_py_path(r->path);
		out->model = r->model;
		r->model = NULL;
		result = Py_BuildValue("(ONO)", out, report_of(&r->report), r->task.list);
	}
	Py_XDECREF((PyObject *)out);
	ckpt_py_task_free(&r->task);
	return result;
}

PyObject *ckpt_py_add_file(PyObject *object, PyObject *given)
{
	struct model *self = (struct model *)object, *out;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	PyObject *path = NULL;
	int rc;

	if (!PyUnicode_FSConverter(given, &path))
		return NULL;
	model = ckpt_py_model_use(self);
	out = model ? ckpt_py_model_new(STATE(self), self) : NULL;
	if (out) {
		const char *text = PyBytes_AsString(path);

		Py_BEGIN_ALLOW_THREADS rc = ckpt_add_file(model, text, &out->model, &err);
		Py_END_ALLOW_THREADS if (rc < 0)
		{
			Py_DECREF(out);
			out = NULL;
			ckpt_py_raise_for_one_of(self, &err, rc);
		}
	}
	if (model)
		ckpt_py_model_drop(self);
	Py_DECREF(path);
	return (PyObject *)out;
}
