/* SPDX-License-Identifier: Apache-2.0 */
/* What a damaged file still holds, as a Model; and a Model with what another file has. */
#include "_ckpt.h"

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

struct repair {
	struct work work;
	enum ckpt_repair_fill fill;
};

static int add_finding(void *ctx, const struct ckpt_repair_finding *found)
{
	struct repair *repair = ctx;
	const struct finding finding = { found, repair->fill };

	return ckpt_py_work_add(&repair->work, finding_of, &finding);
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
	struct ckpt_repair_options options = CKPT_REPAIR_OPTIONS_INIT;
	struct ckpt_repair_report report = CKPT_REPAIR_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct state *state = PyModule_GetState(module);
	PyObject *path = NULL, *progress, *result = NULL;
	unsigned fill, threads;
	struct repair repair;
	struct model *out;
	int rc;

	if (!PyArg_ParseTuple(args, "O&IIO&O", PyUnicode_FSConverter, &path, &options.flags, &fill,
			      ckpt_py_take_unsigned, &threads, &progress))
		return NULL;
	options.fill = repair.fill = fill == 1	 ? CKPT_FILL_ZEROS
				     : fill == 2 ? CKPT_FILL_NAN
						 : CKPT_FILL_NOTHING;
	out = ckpt_py_model_new(state, NULL);
	if (out && ckpt_py_work_begin(&repair.work, progress)) {
		options.threads = threads;
		options.progress = ckpt_py_work_progress;
		options.progress_ctx = &repair.work;
		options.cancel = &repair.work.cancel;
		rc = ckpt_repair_open(PyBytes_AsString(path), &options, add_finding, &repair,
				      &out->model, &report, &err);
		ckpt_py_work_end(&repair.work);
		if (rc < 0 || PyErr_Occurred())
			ckpt_py_raise(state, &err, rc);
		else
			result = Py_BuildValue("(ONO)", out, report_of(&report), repair.work.list);
		Py_DECREF(repair.work.list);
	}
	Py_XDECREF((PyObject *)out);
	Py_DECREF(path);
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
