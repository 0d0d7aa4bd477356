/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saving a Model: the options of <ckpt/save.h> by their names, and its report as a dict.
 *
 * What must stay true: Ctrl-C, and what `progress` raises, end a save, which then leaves nothing
 * behind, while the disk holds it, too (_task.c); so whatever a save needs is kept by struct save, and
 * not by the caller. The library works without the GIL.
 */
#include "_ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

	ckpt_py_task_add(ctx, unfit_pair, &unfit);
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
	if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError)) /* negative, or too large */
		PyErr_Clear();
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

struct save {
	struct task task;
	struct model *owner;
	struct ckpt_model *model; /* of OWNER, in use; NULL: not yet */
	PyObject *path, *kwargs;  /* PATH NULL: in place. KWARGS has the texts of OPTIONS */
	int out_fd; /* our own, as the caller may close its one; -1: none */
	struct ckpt_save_options options;
	struct ckpt_save_report report;
	struct ckpt_error err;
	int rc;
};

static void call_save(struct task *task)
{
	struct save *s = (struct save *)task;

	s->rc = s->path ? ckpt_save(s->model, PyBytes_AsString(s->path), &s->options, &s->report, &s->err)
			: ckpt_save_in_place(s->model, &s->options, &s->report, &s->err);
	if (s->out_fd >= 0)
		close(s->out_fd);
	s->out_fd = -1;
}

static void free_save(struct task *task)
{
	struct save *s = (struct save *)task;

	if (s->out_fd >= 0) /* it was not used */
		close(s->out_fd);
	if (s->model)
		ckpt_py_model_drop(s->owner);
	Py_XDECREF((PyObject *)s->owner);
	Py_XDECREF(s->path);
	Py_XDECREF(s->kwargs);
	free(s);
}

/* Everything but the task itself. False, and an exception: it cannot be. */
static bool prepare(struct save *s, struct model *owner, PyObject *path, PyObject *kwargs, PyObject **progress)
{
	s->options = (struct ckpt_save_options)CKPT_SAVE_OPTIONS_INIT;
	s->report = (struct ckpt_save_report)CKPT_SAVE_REPORT_INIT;
	s->err = (struct ckpt_error)CKPT_ERROR_INIT;
	s->out_fd = -1;
	s->owner = (struct model *)Py_NewRef((PyObject *)owner);
	s->path = Py_XNewRef(path);
	s->kwargs = Py_XNewRef(kwargs);
	s->task.call = call_save;
	s->task.free = free_save;
	s->task.stays = !path;
	if (!take_options(kwargs, &s->options, progress))
		return false;
	if (s->options.flags & CKPT_SAVE_TO_FD)
		s->out_fd = fcntl(s->options.out_fd, F_DUPFD_CLOEXEC, 0);
	if (s->out_fd >= 0) /* what is none is the library's to say */
		s->options.out_fd = s->out_fd;
	s->options.progress = ckpt_py_task_progress;
	s->options.naming = ckpt_py_task_naming;
	s->options.unfit = note_unfit;
	s->options.progress_ctx = s->options.naming_ctx = s->options.unfit_ctx = s;
	s->options.cancel = &s->task.cancel;
	s->model = ckpt_py_model_use(owner);
	return s->model != NULL;
}

/* PATH NULL: in place. */
static PyObject *save_model(struct model *self, PyObject *path, PyObject *kwargs)
{
	struct save *s = calloc(1, sizeof(*s));
	PyObject *result = NULL, *progress = Py_None;

	if (!s)
		return PyErr_NoMemory();
	if (!prepare(s, self, path, kwargs, &progress) || !ckpt_py_task_init(&s->task, progress)) {
		free_save(&s->task);
		return NULL;
	}
	if (!ckpt_py_task_run(&s->task))
		return NULL;
	if (s->rc < 0)
		raise_unfit(self, &s->err, s->rc, s->task.list);
	else if (!PyErr_Occurred()) /* it was cancelled too late, and is saved */
		result = report_dict(&s->report, s->task.list);
	ckpt_py_task_free(&s->task);
	return result;
}

PyObject *ckpt_py_save(PyObject *object, PyObject *args, PyObject *kwargs)
{
	PyObject *path = NULL, *result;

	if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
		return NULL;
	result = save_model((struct model *)object, path, kwargs);
	Py_DECREF(path);
	return result;
}

PyObject *ckpt_py_save_in_place(PyObject *object, PyObject *args, PyObject *kwargs)
{
	if (!PyArg_ParseTuple(args, ""))
		return NULL;
	return save_model((struct model *)object, NULL, kwargs);
}
