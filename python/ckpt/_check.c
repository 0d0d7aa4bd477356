/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with the checkpoint at a path: ckpt_verify(), ckpt_why() and ckpt_scan(), whose
 * reports become dicts in the shape of the command's --json (docs/json.md).
 */
#include "_ckpt.h"

#include <string.h>

static void put_place(PyObject *dict, const char *record, uint64_t offset)
{
	if (record && *record)
		ckpt_py_put(dict, "record", ckpt_py_string(record));
	if (offset != CKPT_NO_OFFSET)
		ckpt_py_put(dict, "offset", PyLong_FromUnsignedLongLong(offset));
}

static PyObject *strings(const char *const *items, size_t count)
{
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < count; i++)
		ckpt_py_append(&list, ckpt_py_string(items[i]));
	return list;
}

/* ---- verify ---- */

static PyObject *finding_of(const void *what)
{
	static const char *const kinds[] = { "damage", "not_finite", "unproven", "odd" };
	const struct ckpt_finding *f = what;
	PyObject *dict = PyDict_New();

	ckpt_py_put(dict, "kind", ckpt_py_string(kinds[f->kind]));
	if (f->file)
		ckpt_py_put(dict, "file", ckpt_py_string(f->file));
	put_place(dict, f->record, f->offset);
	ckpt_py_put(dict, "text", ckpt_py_string(f->text));
	return ckpt_py_finished(dict);
}

static int add_finding(void *ctx, const struct ckpt_finding *finding)
{
	return ckpt_py_work_add(ctx, finding_of, finding);
}

/* PATH, and the findings in LIST. */
static PyObject *verify_report(const struct ckpt_verify_report *r, PyObject *list, unsigned flags)
{
	static const char *const verdicts[] = { "sound", "damaged", "unproven", "complete" };

	return Py_BuildValue("{s:O,s:s,s:K,s:K,s:K,s:K,s:K,s:K,s:N,s:K}", "findings", list,
			     "verdict", verdicts[r->verdict], "tensors",
			     (unsigned long long)r->tensors, "files", (unsigned long long)r->files,
			     "records", (unsigned long long)r->records, "checked",
			     (unsigned long long)r->checked, "checked_nbytes",
			     (unsigned long long)r->bytes, "indexes",
			     (unsigned long long)r->indexes, "quick",
			     PyBool_FromLong((flags & CKPT_VERIFY_QUICK) != 0), "sha256",
			     (unsigned long long)r->sha256);
}

PyObject *ckpt_py_verify(PyObject *module, PyObject *args)
{
	struct ckpt_verify_options options = CKPT_VERIFY_OPTIONS_INIT;
	struct ckpt_verify_report report = CKPT_VERIFY_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *path = NULL, *progress, *result = NULL;
	unsigned threads;
	struct work work;
	int rc;

	if (!PyArg_ParseTuple(args, "O&IzzO&O", PyUnicode_FSConverter, &path, &options.flags,
			      &options.sha256, &options.sha256sums, ckpt_py_take_unsigned, &threads, &progress))
		return NULL;
	if (ckpt_py_work_begin(&work, progress)) {
		options.threads = threads;
		options.progress = ckpt_py_work_progress;
		options.progress_ctx = &work;
		options.cancel = &work.cancel;
		rc = ckpt_verify(PyBytes_AsString(path), &options, add_finding, &work, &report,
				 &err);
		ckpt_py_work_end(&work);
		if (rc < 0 || PyErr_Occurred())
			ckpt_py_raise(PyModule_GetState(module), &err, rc);
		else
			result = verify_report(&report, work.list, options.flags);
		Py_DECREF(work.list);
	}
	Py_DECREF(path);
	return result;
}

/* ---- why ---- */

static PyObject *mends_of(const struct ckpt_cause *c)
{
	static const char *const kinds[] = { "command", "python", "advice" };
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < c->mend_count; i++)
		ckpt_py_append(&list, Py_BuildValue("{s:s,s:N}", "kind", kinds[c->mends[i].kind],
						    "text", ckpt_py_string(c->mends[i].text)));
	return list;
}

static PyObject *cause_of(const void *what)
{
	static const char *const names[] = { "certain", "likely", "possible", "large" };
	const struct ckpt_cause *c = what;

	return Py_BuildValue("{s:s,s:s,s:N,s:N,s:N}", "id", c->id, "certainty", names[c->certainty],
			     "text", ckpt_py_string(c->text), "found",
			     strings(c->facts, c->fact_count), "mends", mends_of(c));
}

static int add_cause(void *ctx, const struct ckpt_cause *cause)
{
	return ckpt_py_work_add(ctx, cause_of, cause);
}

PyObject *ckpt_py_why(PyObject *module, PyObject *args)
{
	struct ckpt_why_options options = CKPT_WHY_OPTIONS_INIT;
	struct ckpt_why_report report = CKPT_WHY_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *given, *path = NULL, *result = NULL;
	Py_ssize_t error_len;
	unsigned threads;
	struct work work;
	int rc;

	if (!PyArg_ParseTuple(args, "Oz#O&", &given, &options.error, &error_len, ckpt_py_take_unsigned, &threads))
		return NULL;
	if (given != Py_None && !PyUnicode_FSConverter(given, &path))
		return NULL;
	if (ckpt_py_work_begin(&work, Py_None)) {
		options.error_len = options.error ? (size_t)error_len : 0;
		options.threads = threads;
		rc = ckpt_why(path ? PyBytes_AsString(path) : NULL, &options, add_cause, &work,
			      &report, &err);
		ckpt_py_work_end(&work);
		if (rc < 0 || PyErr_Occurred())
			ckpt_py_raise(PyModule_GetState(module), &err, rc);
		else
			result = Py_BuildValue("{s:O,s:I,s:I,s:N}", "causes", work.list, "count",
					       (unsigned)report.causes, "messages",
					       (unsigned)report.messages, "opened",
					       PyBool_FromLong(report.opened));
		Py_DECREF(work.list);
	}
	Py_XDECREF(path);
	return result;
}

/* ---- scan ---- */

enum { SCAN_VERSION = 1 }; /* that of the command's JSON */

static PyObject *versions_of(unsigned bits)
{
	const char *names[CKPT_SCAN_TORCH_COUNT];
	size_t count = 0;

	for (int v = 0; v < CKPT_SCAN_TORCH_COUNT; v++)
		if (bits & 1u << v)
			names[count++] = ckpt_scan_torch_name((enum ckpt_scan_torch)v);
	return strings(names, count);
}

static PyObject *global_of(const struct ckpt_scan_file *f, uint64_t i)
{
	const struct ckpt_scan_global *g = &f->globals[i];

	return Py_BuildValue("{s:N,s:s,s:N,s:N,s:K}", "name", ckpt_py_string(g->name), "kind",
			     ckpt_scan_kind_name(g->kind), "called", PyBool_FromLong(g->called),
			     "where", ckpt_py_string(g->where), "offset",
			     (unsigned long long)g->offset);
}

static PyObject *scan_finding_of(const struct ckpt_scan_file *f, uint64_t i)
{
	const struct ckpt_scan_finding *x = &f->findings[i];
	PyObject *dict = PyDict_New();

	ckpt_py_put(dict, "verdict", ckpt_py_string(ckpt_scan_verdict_name(x->verdict)));
	ckpt_py_put(dict, "kind", ckpt_py_string(x->kind));
	put_place(dict, x->record, x->offset);
	if (x->path)
		ckpt_py_put(dict, "path", ckpt_py_string(x->path));
	ckpt_py_put(dict, "text", ckpt_py_string(x->text));
	return ckpt_py_finished(dict);
}

static PyObject *refusal_of(const struct ckpt_scan_file *f, uint64_t i)
{
	const struct ckpt_scan_refusal *x = &f->refusals[i];
	PyObject *dict = PyDict_New();

	ckpt_py_put(dict, "versions", versions_of(x->versions));
	if (x->name)
		ckpt_py_put(dict, "name", ckpt_py_string(x->name));
	put_place(dict, x->record, x->offset);
	ckpt_py_put(dict, "text", ckpt_py_string(x->text));
	return ckpt_py_finished(dict);
}

static PyObject *list_of(const struct ckpt_scan_file *f, uint64_t count,
			 PyObject *(*make)(const struct ckpt_scan_file *f, uint64_t i))
{
	PyObject *list = PyList_New(0);

	for (uint64_t i = 0; list && i < count; i++)
		ckpt_py_append(&list, make(f, i));
	return list;
}

static PyObject *file_of(const struct ckpt_scan_file *f)
{
	PyObject *dict = PyDict_New(), *weights_only = PyDict_New();

	for (int v = 0; v < CKPT_SCAN_TORCH_COUNT; v++)
		ckpt_py_put(weights_only, ckpt_scan_torch_name((enum ckpt_scan_torch)v),
			    f->is_torch && !(f->weights_only_unknown >> v & 1)
				    ? PyBool_FromLong(f->weights_only[v])
				    : Py_NewRef(Py_None));
	ckpt_py_put(dict, "path", PyUnicode_DecodeFSDefault(f->path));
	ckpt_py_put(dict, "verdict", ckpt_py_string(ckpt_scan_verdict_name(f->verdict)));
	ckpt_py_put(dict, "format", ckpt_py_string(f->format));
	ckpt_py_put(dict, "nbytes", PyLong_FromUnsignedLongLong(f->bytes));
	ckpt_py_put(dict, "weights_only", weights_only);
	ckpt_py_put(dict, "globals", list_of(f, f->global_count, global_of));
	ckpt_py_put(dict, "findings", list_of(f, f->finding_count, scan_finding_of));
	if (f->is_torch)
		ckpt_py_put(dict, "refusals", list_of(f, f->refusal_count, refusal_of));
	if (f->left_out)
		ckpt_py_put(dict, "left_out", PyLong_FromUnsignedLongLong(f->left_out));
	return ckpt_py_finished(dict);
}

/* By any thread of the library, one at a time. What it raises is lost but for memory. */
static int add_file(void *ctx, const struct ckpt_scan_file *file)
{
	PyGILState_STATE gil = PyGILState_Ensure();
	PyObject *made = file_of(file);
	int rc = made && PyList_Append(((struct work *)ctx)->list, made) == 0 ? 0 : CKPT_E_NOMEM;

	Py_XDECREF(made);
	if (rc < 0)
		PyErr_Clear();
	PyGILState_Release(gil);
	return rc;
}

static PyObject *counts_of(const struct ckpt_scan_report *r)
{
	PyObject *counts = PyDict_New();

	for (int v = 0; v <= CKPT_SCAN_DANGEROUS; v++)
		ckpt_py_put(counts, ckpt_scan_verdict_name((enum ckpt_scan_verdict)v),
			    PyLong_FromUnsignedLongLong(r->verdicts[v]));
	ckpt_py_put(counts, "passed_over", PyLong_FromUnsignedLongLong(r->passed_over));
	return ckpt_py_finished(counts);
}

static PyObject *loaders(void)
{
	PyObject *list = PyList_New(0);

	for (unsigned i = 0; list && ckpt_scan_loader(i); i++)
		ckpt_py_append(&list, ckpt_py_string(ckpt_scan_loader(i)));
	return list;
}

PyObject *ckpt_py_scan_report(PyObject *module, PyObject *args)
{
	struct ckpt_scan_options options = CKPT_SCAN_OPTIONS_INIT;
	struct ckpt_scan_report report = { .size = sizeof(report) };
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *path = NULL, *progress, *result = NULL;
	unsigned threads;
	struct work work;
	int rc;

	if (!PyArg_ParseTuple(args, "O&O&O", PyUnicode_FSConverter, &path, ckpt_py_take_unsigned, &threads, &progress))
		return NULL;
	if (ckpt_py_work_begin(&work, progress)) {
		options.threads = threads;
		options.progress = ckpt_py_work_progress;
		options.progress_ctx = &work;
		options.cancel = &work.cancel;
		rc = ckpt_scan(PyBytes_AsString(path), &options, add_file, &work, &report, &err);
		ckpt_py_work_end(&work);
		if (rc < 0 || PyErr_Occurred())
			ckpt_py_raise(PyModule_GetState(module), &err, rc);
		else
			result = Py_BuildValue("{s:i,s:N,s:O,s:N}", "version", SCAN_VERSION, "loaders",
					       loaders(), "files", work.list, "counts", counts_of(&report));
		Py_DECREF(work.list);
	}
	Py_DECREF(path);
	return result;
}
