/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saving a Model: the options of <ckpt/save.h> by their names, and its report as a dict.
 *
 * What must stay true: Ctrl-C, and what `progress` raises, end a save, which then leaves nothing
 * behind; the library works without the GIL.
 */
#include "_ckpt.h"

#include <stdlib.h>
#include <string.h>

struct unfit {
	const char *name, *why;
};

static PyObject *unfit_pair(const void *what)
{
	const struct unfit *unfit = what;

	return Py_BuildValue("(NN)", ckpt_py_string(unfit->name), ckpt_py_string(unfit->why));
}

static void note_unfit(void *ctx, const char *name, const char *why)
{
	const struct unfit unfit = { name, why };
	struct work *work = ctx;

	if (ckpt_py_work_add(work, unfit_pair, &unfit) < 0)
		__atomic_store_n(&work->cancel, 1, __ATOMIC_RELAXED);
}

/* Flags of enum ckpt_save_flags that are options of their own. */
static const struct {
	const char *name;
	unsigned flag;
} flags[] = {
	{ "overwrite", CKPT_SAVE_REPLACE },   { "no_sync", CKPT_SAVE_NO_SYNC },
	{ "canonical", CKPT_SAVE_CANONICAL }, { "dry_run", CKPT_SAVE_DRY_RUN },
	{ "hard_link", CKPT_SAVE_HARD_LINK }, { "drop_others", CKPT_SAVE_DROP_OTHERS },
	{ "free", CKPT_SAVE_FREE },	      { "check_casts", CKPT_SAVE_CHECK_CASTS },
};

/* What a word means: its place among WORDS, which end with NULL. -1 and an exception: nothing. */
static int place_of(PyObject *value, const char *const *words)
{
	const char *word = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;

	for (int i = 0; word && words[i]; i++)
		if (!strcmp(word, words[i]))
			return i;
	if (!PyErr_Occurred())
		PyErr_Format(PyExc_ValueError, "wanted '%s', '%s' ..., not %R", words[0], words[1],
			     value);
	return -1;
}

/* A number from 0 to MOST. */
static bool take_number(PyObject *value, uint64_t most, uint64_t *out)
{
	*out = PyLong_Check(value) ? PyLong_AsUnsignedLongLong(value) : UINT64_MAX;
	if (!PyErr_Occurred() && *out <= most)
		return true;
	if (!PyErr_Occurred())
		PyErr_Format(PyExc_ValueError, "wanted a number, not %R", value);
	return false;
}

static bool take_text(PyObject *value, const char **out)
{
	*out = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
	if (!*out && !PyErr_Occurred())
		PyErr_SetString(PyExc_TypeError, "wanted a str");
	return *out != NULL;
}

/* Put the option NAME with VALUE, which is not None, into O. */
static bool take_option(struct ckpt_save_options *o, PyObject **progress, const char *name,
			PyObject *value)
{
	static const char *const reflinks[] = { "never", "auto", "always", NULL };
	static const char *const shared[] = { "default", "error", "clone", "alias", NULL };
	uint64_t number = 0;
	bool fine = true;
	int truth;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (!strcmp(name, flags[i].name)) {
			truth = PyObject_IsTrue(value);
			o->flags |= truth > 0 ? flags[i].flag : 0;
			return truth >= 0;
		}
	if (!strcmp(name, "progress")) {
		*progress = value;
	} else if (!strcmp(name, "profile")) {
		fine = take_text(value, &o->profile);
	} else if (!strcmp(name, "format")) {
		fine = take_text(value, &o->format);
	} else if (!strcmp(name, "byteorder")) {
		fine = take_text(value, &o->byteorder);
	} else if (!strcmp(name, "from_byteorder")) {
		fine = take_text(value, &o->from_byteorder);
	} else if (!strcmp(name, "spool_folder")) {
		fine = take_text(value, &o->spool_folder);
	} else if (!strcmp(name, "alignment")) {
		fine = take_number(value, UINT32_MAX, &number);
		o->alignment = (uint32_t)number;
	} else if (!strcmp(name, "threads")) {
		fine = take_number(value, UINT32_MAX, &number);
		o->threads = (uint32_t)number;
	} else if (!strcmp(name, "ranks")) {
		fine = take_number(value, UINT32_MAX, &number);
		o->ranks = (uint32_t)number;
	} else if (!strcmp(name, "least_shard")) {
		fine = take_number(value, UINT64_MAX, &o->least_shard);
	} else if (!strcmp(name, "shard_size")) {
		fine = take_number(value, UINT64_MAX, &o->shard_size);
	} else if (!strcmp(name, "shard_dim")) {
		o->shard_dim = (int)PyLong_AsLong(value);
		fine = !PyErr_Occurred();
	} else if (!strcmp(name, "out_fd")) {
		fine = take_number(value, INT32_MAX, &number);
		o->out_fd = (int)number;
		o->flags |= CKPT_SAVE_TO_FD;
	} else if (!strcmp(name, "crc")) {
		truth = PyObject_IsTrue(value);
		o->crc = truth;
		fine = truth >= 0;
	} else if (!strcmp(name, "reflink")) {
		truth = place_of(value, reflinks);
		o->reflink = truth < 0 ? CKPT_REFLINK_NEVER : (enum ckpt_reflink)truth;
		fine = truth >= 0;
	} else if (!strcmp(name, "shared")) {
		truth = place_of(value, shared);
		o->shared = truth < 0 ? CKPT_SHARED_DEFAULT : (enum ckpt_shared)truth;
		fine = truth >= 0;
	} else {
		PyErr_Format(PyExc_TypeError, "save() has no option '%s'", name);
		fine = false;
	}
	return fine;
}

/* The texts of O are those of KWARGS, which the caller has until the save ends. */
static bool take_options(PyObject *kwargs, struct ckpt_save_options *o, PyObject **progress)
{
	PyObject *key, *value;
	Py_ssize_t at = 0;
	const char *name;

	while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
		name = PyUnicode_AsUTF8AndSize(key, NULL);
		if (!name || (value != Py_None && !take_option(o, progress, name, value)))
			return false;
	}
	return true;
}

static PyObject *report_dict(const struct ckpt_save_report *r, PyObject *unfit)
{
	return Py_BuildValue("{s:K,s:I,s:K,s:N,s:z,s:I,s:K,s:K,s:K,s:I,s:K,s:K,s:K,s:O}", "nbytes",
			     (unsigned long long)r->nbytes, "dropped", (unsigned)r->dropped,
			     "written", (unsigned long long)r->written, "reflinked",
			     PyBool_FromLong(r->reflinked), "rewritten", r->rewritten,
			     "turned_alone", (unsigned)r->turned_alone, "others",
			     (unsigned long long)r->others, "cloned", (unsigned long long)r->cloned,
			     "aliased", (unsigned long long)r->aliased, "shards",
			     (unsigned)r->shards, "arrays", (unsigned long long)r->arrays, "dead",
			     (unsigned long long)r->dead, "freed", (unsigned long long)r->freed,
			     "unfit", unfit);
}

/* Raise what ERR says, with a list `unfit` if there is something in it. */
static void raise_unfit(struct model *self, const struct ckpt_error *err, int rc, PyObject *unfit)
{
	PyObject *type, *value, *traceback;

	ckpt_py_raise_for(self, err, rc);
	if (PyList_Size(unfit) == 0 || rc != CKPT_E_UNSUPPORTED)
		return;
	PyErr_Fetch(&type, &value, &traceback);
	PyErr_NormalizeException(&type, &value, &traceback);
	if (value && PyObject_SetAttrString(value, "unfit", unfit) < 0)
		PyErr_Clear();
	PyErr_Restore(type, value, traceback);
}

/* PATH NULL: in place. */
static PyObject *save_model(struct model *self, const char *path, PyObject *kwargs)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_save_report report = CKPT_SAVE_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *result = NULL, *progress = Py_None;
	struct ckpt_model *model;
	struct work work;
	int rc;

	if (!take_options(kwargs, &options, &progress))
		return NULL;
	model = ckpt_py_model_use(self);
	if (!model)
		return NULL;
	if (ckpt_py_work_begin(&work, progress)) {
		options.progress = ckpt_py_work_progress;
		options.progress_ctx = options.unfit_ctx = &work;
		options.cancel = &work.cancel;
		options.unfit = note_unfit;
		rc = path ? ckpt_save(model, path, &options, &report, &err)
			  : ckpt_save_in_place(model, &options, &report, &err);
		ckpt_py_work_end(&work);
		if (rc < 0)
			raise_unfit(self, &err, rc, work.list);
		else if (!PyErr_Occurred()) /* it was cancelled too late, and is saved */
			result = report_dict(&report, work.list);
		Py_DECREF(work.list);
	}
	ckpt_py_model_drop(self);
	return result;
}

PyObject *ckpt_py_save(PyObject *object, PyObject *args, PyObject *kwargs)
{
	PyObject *path = NULL, *result;

	if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
		return NULL;
	result = save_model((struct model *)object, PyBytes_AsString(path), kwargs);
	Py_DECREF(path);
	return result;
}

PyObject *ckpt_py_save_in_place(PyObject *object, PyObject *args, PyObject *kwargs)
{
	if (!PyArg_ParseTuple(args, ""))
		return NULL;
	return save_model((struct model *)object, NULL, kwargs);
}
