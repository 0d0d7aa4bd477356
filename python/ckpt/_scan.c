/* SPDX-License-Identifier: Apache-2.0 */
/* What loading a file would import and run, over <ckpt/scan.h>. Nothing is loaded. */
#include "_ckpt.h"

#include <string.h>

/* (name or None, bits of enum ckpt_scan_torch, can be allowed, record, offset or None, text) */
static PyObject *refusal_of(const struct ckpt_scan_refusal *refusal)
{
	return Py_BuildValue(
		"(NINNNN)",
		refusal->name ? ckpt_py_text(refusal->name, strlen(refusal->name))
			      : Py_NewRef(Py_None),
		refusal->versions, PyBool_FromLong(refusal->can_be_allowed),
		ckpt_py_text(refusal->record, strlen(refusal->record)),
		refusal->offset == CKPT_NO_OFFSET ? Py_NewRef(Py_None)
						  : PyLong_FromUnsignedLongLong(refusal->offset),
		ckpt_py_text(refusal->text, strlen(refusal->text)));
}

/* (verdict, kind, record, offset or None, text) */
static PyObject *finding_of(const struct ckpt_scan_finding *finding)
{
	return Py_BuildValue(
		"(ssNNN)", ckpt_scan_verdict_name(finding->verdict), finding->kind,
		ckpt_py_text(finding->record, strlen(finding->record)),
		finding->offset == CKPT_NO_OFFSET ? Py_NewRef(Py_None)
						  : PyLong_FromUnsignedLongLong(finding->offset),
		ckpt_py_text(finding->text, strlen(finding->text)));
}

/* (name, kind, called, record, offset) */
static PyObject *global_of(const struct ckpt_scan_global *global)
{
	return Py_BuildValue("(NsNNK)", ckpt_py_text(global->name, strlen(global->name)),
			     ckpt_scan_kind_name(global->kind), PyBool_FromLong(global->called),
			     ckpt_py_text(global->where, strlen(global->where)),
			     (unsigned long long)global->offset);
}

/* Take OBJECT into LIST. Nothing but memory can be missing. */
static int keep(PyObject *list, PyObject *object)
{
	int rc = object && PyList_Append(list, object) == 0 ? 0 : CKPT_E_NOMEM;

	Py_XDECREF(object);
	if (rc < 0)
		PyErr_Clear();
	return rc;
}

static PyObject *findings_of(const struct ckpt_scan_file *file)
{
	PyObject *list = PyList_New(0);

	for (uint64_t i = 0; list && i < file->finding_count; i++)
		if (keep(list, finding_of(&file->findings[i])) < 0)
			Py_CLEAR(list);
	return list;
}

static PyObject *globals_of(const struct ckpt_scan_file *file)
{
	PyObject *list = PyList_New(0);

	for (uint64_t i = 0; list && i < file->global_count; i++)
		if (keep(list, global_of(&file->globals[i])) < 0)
			Py_CLEAR(list);
	return list;
}

/* Both are called by any thread of the library, one at a time. */

static int add_file(void *ctx, const struct ckpt_scan_file *file)
{
	PyGILState_STATE gil = PyGILState_Ensure();
	int rc = keep(ctx, Py_BuildValue("(NssNN)", PyUnicode_DecodeFSDefault(file->path),
					 ckpt_scan_verdict_name(file->verdict), file->format,
					 findings_of(file), globals_of(file)));

	PyGILState_Release(gil);
	return rc;
}

static int add_refusal(void *ctx, const struct ckpt_scan_refusal *refusal)
{
	PyGILState_STATE gil = PyGILState_Ensure();
	int rc = keep(ctx, refusal_of(refusal));

	PyGILState_Release(gil);
	return rc;
}

static int scan_file(const char *path, PyObject *list, struct ckpt_error *err)
{
	return ckpt_scan(path, NULL, add_file, list, NULL, err);
}

PyObject *ckpt_py_scan(PyObject *module, PyObject *args)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *path = NULL, *list;
	int rc;

	if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
		return NULL;
	list = PyList_New(0);
	if (list) {
		const char *text = PyBytes_AsString(path);

		Py_BEGIN_ALLOW_THREADS rc = scan_file(text, list, &err);
		Py_END_ALLOW_THREADS if (rc < 0)
		{
			Py_CLEAR(list);
			ckpt_py_raise(PyModule_GetState(module), &err, rc);
		}
	}
	Py_DECREF(path);
	return list;
}

PyObject *ckpt_py_refusals(PyObject *object, PyObject *none)
{
	struct model *self = (struct model *)object;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model = ckpt_py_model_use(self);
	bool accepts[CKPT_SCAN_TORCH_COUNT];
	PyObject *list = model ? PyList_New(0) : NULL;
	int rc;

	(void)none;
	if (list) {
		Py_BEGIN_ALLOW_THREADS rc = ckpt_scan_model_weights_only(model, accepts, add_refusal, list, &err);
		Py_END_ALLOW_THREADS if (rc < 0 && rc != CKPT_E_UNSUPPORTED)
		{
			Py_CLEAR(list);
			ckpt_py_raise_for(self, &err, rc);
		}
	}
	if (model)
		ckpt_py_model_drop(self);
	return list;
}
