/* SPDX-License-Identifier: Apache-2.0 */
/* Model: an open checkpoint. Opening and closing, and facts about the file. */
#include "_ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ckpt_model *ckpt_py_model_use(struct model *self)
{
	if (self->closed || !self->model) {
		PyErr_SetString(PyExc_ValueError, "the checkpoint is closed");
		return NULL;
	}
	if (!ckpt_py_model_may_read(self))
		return NULL;
	self->users++;
	return self->model;
}

static void close_now(struct model *self)
{
	struct ckpt_model *model = self->model;

	self->model = NULL;
	if (model) {
		/* functions of Python's that read it are released by threads that take the GIL */
		Py_BEGIN_ALLOW_THREADS ckpt_close(model);
		Py_END_ALLOW_THREADS
	}
	if (self->has_buffer) {
		self->has_buffer = false;
		PyBuffer_Release(&self->buffer);
	}
	if (self->base) {
		struct model *base = (struct model *)self->base;

		self->base = NULL;
		ckpt_py_model_drop(base);
		Py_DECREF(base);
	}
	Py_CLEAR(self->keep);
}

void ckpt_py_model_drop(struct model *self)
{
	if (--self->users == 0 && self->closed)
		close_now(self);
}

struct model *ckpt_py_model_new(struct state *state, struct model *base)
{
	struct model *self = PyObject_New(struct model, state->model);

	if (!self)
		return NULL;
	self->model = NULL;
	self->users = 0;
	self->closed = self->has_buffer = false;
	self->source = self->base = self->keep = self->failures = NULL;
	self->file = NULL;
	if (base) {
		self->source = Py_XNewRef(base->source);
		base->users++;
		self->base = Py_NewRef((PyObject *)base);
		self->failures = Py_XNewRef(base->failures);
		self->file = base->file;
	}
	return self;
}

static void dealloc(PyObject *object)
{
	struct model *self = (struct model *)object;
	PyTypeObject *type = Py_TYPE(object);

	close_now(self);
	Py_XDECREF(self->source);
	Py_XDECREF(self->failures);
	PyObject_Free(self);
	Py_DECREF(type);
}

PyObject *ckpt_py_raise_for_one_of(struct model *self, const struct ckpt_error *err, int rc)
{
	PyObject *error = NULL;

	if (rc == CKPT_E_IO && self->failures && !PyErr_Occurred()) {
		if (PyList_Size(self->failures) > 0)
			error = Py_XNewRef(PyList_GetItem(self->failures, 0));
		if (error) {
			PyList_SetSlice(self->failures, 0, PY_SSIZE_T_MAX, NULL);
			PyErr_SetObject((PyObject *)Py_TYPE(error), error);
			Py_DECREF(error);
			return NULL;
		}
	}
	return ckpt_py_raise(STATE(self), err, rc);
}

/* Whether a failure with status RC is about the file that is read. */
static bool is_about_the_file(int rc)
{
	switch (rc) {
	case CKPT_E_FORMAT:
	case CKPT_E_LIMIT:
	case CKPT_E_UNSUPPORTED:
	case CKPT_E_NOTFOUND:
	case CKPT_E_CLASH:
	case CKPT_E_CHANGED:
	case CKPT_E_DAMAGED: return true;
	default: return false;
	}
}

PyObject *ckpt_py_raise_for(struct model *self, const struct ckpt_error *err, int rc)
{
	PyObject *type, *value, *traceback, *same = NULL;

	ckpt_py_raise_for_one_of(self, err, rc);
	if (self->source && !err->path[0] && is_about_the_file(rc)) {
		PyErr_Fetch(&type, &value, &traceback);
		PyErr_NormalizeException(&type, &value, &traceback);
		if (value && PyObject_HasAttrString(value, "record")) /* one of ours */
			same = PyObject_CallFunctionObjArgs(STATE(self)->at_path, value, self->source, NULL);
		Py_XDECREF(same);
		PyErr_Restore(type, value, traceback);
	}
	return NULL;
}

/* ---- opening ---- */

/* SELF, whose model was opened with RC, or the exception. */
static PyObject *opened(struct model *self, const struct ckpt_error *err, int rc)
{
	if (rc == 0)
		return (PyObject *)self;
	ckpt_py_raise_for(self, err, rc);
	Py_DECREF(self);
	return NULL;
}

/* A path is opened by a thread of its own, as a disk that is slow may hold it. */
struct opening {
	struct task task;
	PyObject *path;
	int brief, rc;
	struct ckpt_model *model; /* until somebody takes it */
	struct ckpt_error err;
};

static void call_open(struct task *task)
{
	struct opening *o = (struct opening *)task;

	o->rc = ckpt_open_with(PyBytes_AsString(o->path), o->brief ? CKPT_OPEN_BRIEF : 0, &o->model, &o->err);
}

static void free_opening(struct task *task)
{
	struct opening *o = (struct opening *)task;

	if (o->model) {
		Py_BEGIN_ALLOW_THREADS ckpt_close(o->model);
		Py_END_ALLOW_THREADS
	}
	Py_XDECREF(o->path);
	free(o);
}

PyObject *ckpt_py_open(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "path", "brief", NULL };
	struct opening *o = calloc(1, sizeof(*o));
	struct model *self;

	if (!o)
		return PyErr_NoMemory();
	o->err = (struct ckpt_error)CKPT_ERROR_INIT;
	o->task.call = call_open;
	o->task.free = free_opening;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|p", names, PyUnicode_FSConverter, &o->path, &o->brief) ||
	    !ckpt_py_task_init(&o->task, Py_None)) {
		free_opening(&o->task);
		return NULL;
	}
	if (!ckpt_py_task_run(&o->task))
		return NULL;
	self = PyErr_Occurred() ? NULL : ckpt_py_model_new(PyModule_GetState(module), NULL);
	if (self)
		self->source = ckpt_py_path(o->path);
	if (self && o->rc == 0) {
		self->model = o->model;
		o->model = NULL;
	}
	if (self)
		self = (struct model *)opened(self, &o->err, o->rc);
	ckpt_py_task_free(&o->task);
	return (PyObject *)self;
}

PyObject *ckpt_py_open_memory(PyObject *module, PyObject *args)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *object;
	struct model *self;
	int rc;

	if (!PyArg_ParseTuple(args, "O", &object))
		return NULL;
	self = ckpt_py_model_new(PyModule_GetState(module), NULL);
	if (!self)
		return NULL;
	if (PyObject_GetBuffer(object, &self->buffer, PyBUF_SIMPLE) < 0) {
		Py_DECREF(self);
		return NULL;
	}
	self->has_buffer = true;
	Py_BEGIN_ALLOW_THREADS rc =
		ckpt_open_memory(self->buffer.buf, (size_t)self->buffer.len, &self->model, &err);
	Py_END_ALLOW_THREADS return opened(self, &err, rc);
}

/* What the library reads with: a function of Python's, or a file. */
struct reader {
	PyObject *pread, *close; /* each NULL if there is none */
	int fd;			 /* owned; -1: none */
	PyObject *file;		 /* what others may read, too: its address counts; NULL with FD */
	PyObject *failures;
	PyObject *make_error;
};

/* Keep the exception that is set for whoever has to raise it. Returns an errno number. */
static int keep_failure(struct reader *r)
{
	PyObject *type, *value, *traceback;
	PyObject *number;
	long code = EIO;

	PyErr_Fetch(&type, &value, &traceback);
	PyErr_NormalizeException(&type, &value, &traceback);
	if (traceback)
		PyException_SetTraceback(value, traceback);
	if (PyErr_GivenExceptionMatches(value, PyExc_OSError)) {
		number = PyObject_GetAttrString(value, "errno");
		if (number && PyLong_Check(number))
			code = PyLong_AsLong(number);
		Py_XDECREF(number);
	}
	if (value) {
		PyList_SetSlice(r->failures, 0, PY_SSIZE_T_MAX, NULL);
		PyList_Append(r->failures, value);
	}
	PyErr_Clear();
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(traceback);
	return code > 0 && code < 4096 ? (int)code : EIO;
}

/* As keep_failure(): it was to give LEN bytes at OFFSET, and gave GOT. */
static int keep_short_read(struct reader *r, uint64_t offset, size_t len, size_t got)
{
	char text[200];
	PyObject *error;

	snprintf(text, sizeof(text), "the open file gave %zu bytes at offset %" PRIu64 ", wanted %zu", got, offset, len);
	error = PyObject_CallFunction(r->make_error, "iissOis", CKPT_E_IO, EIO, "", "", Py_None, 0, text);
	if (error)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(error);
	return keep_failure(r);
}

/*
 * The readers whose functions this thread is in. A signal's handler runs in them, too, while locks of the library and of
 * the open file are held: it must not wait for who reads the same file.
 */
struct reading {
	const PyObject *file;
	const struct reading *outer;
};
static _Thread_local const struct reading *reading_now;

bool ckpt_py_model_may_read(const struct model *self)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	for (const struct reading *r = reading_now; r; r = r->outer)
		if (r->file == self->file || self->keep) { /* what was built is read from any files */
			err.status = CKPT_E_UNSUPPORTED;
			snprintf(err.text, sizeof(err.text),
				 "the open file is being read by this thread already, which a signal interrupted");
			ckpt_py_raise(STATE(self), &err, err.status);
			return false;
		}
	return true;
}

static int read_python(void *ctx, uint64_t offset, void *buf, size_t len)
{
	struct reader *r = ctx;
	PyGILState_STATE gil = PyGILState_Ensure();
	const struct reading here = { r->file, reading_now };
	PyObject *bytes;
	Py_buffer view;
	int rc = 0;

	reading_now = &here;
	bytes = PyObject_CallFunction(r->pread, "KK", (unsigned long long)offset, (unsigned long long)len);
	if (!bytes || PyObject_GetBuffer(bytes, &view, PyBUF_SIMPLE) < 0) {
		rc = keep_failure(r);
	} else {
		if ((size_t)view.len == len)
			memcpy(buf, view.buf, len);
		else
			rc = keep_short_read(r, offset, len, (size_t)view.len);
		PyBuffer_Release(&view);
	}
	Py_XDECREF(bytes);
	reading_now = here.outer;
	PyGILState_Release(gil);
	return rc;
}

/* Without the GIL, and without the position of the file, which other processes may have, too. */
static int read_descriptor(void *ctx, uint64_t offset, void *buf, size_t len)
{
	struct reader *r = ctx;
	size_t done = 0;
	ssize_t got = 1;

	while (done < len && got > 0) {
		do
			got = pread(r->fd, (char *)buf + done, len - done, (off_t)(offset + done));
		while (got < 0 && errno == EINTR);
		done += got > 0 ? (size_t)got : 0;
	}
	if (got < 0)
		return errno;
	if (done < len) {
		PyGILState_STATE gil = PyGILState_Ensure();
		int rc = keep_short_read(r, offset, len, done);

		PyGILState_Release(gil);
		return rc;
	}
	return 0;
}

static void close_reader(void *ctx)
{
	struct reader *r = ctx;
	PyGILState_STATE gil = PyGILState_Ensure();
	PyObject *type, *value, *traceback, *result;

	PyErr_Fetch(&type, &value, &traceback);
	if (r->close) {
		result = PyObject_CallNoArgs(r->close);
		if (!result)
			PyErr_WriteUnraisable(r->close);
		Py_XDECREF(result);
	}
	PyErr_Restore(type, value, traceback);
	if (r->fd >= 0)
		close(r->fd);
	Py_XDECREF(r->pread);
	Py_XDECREF(r->close);
	Py_XDECREF(r->file);
	Py_DECREF(r->failures);
	Py_DECREF(r->make_error);
	free(r);
	PyGILState_Release(gil);
}

/* A model that R reads, which it takes, also on failure. R has neither of its last two yet. */
static PyObject *open_reader(struct state *state, struct reader *r, uint64_t nbytes)
{
	struct ckpt_reader_options options = CKPT_READER_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct model *self = ckpt_py_model_new(state, NULL);
	int rc;

	r->make_error = Py_NewRef(state->make_error);
	r->failures = PyList_New(0);
	if (self) {
		self->failures = Py_XNewRef(r->failures);
		self->file = r->file;
	}
	if (!self || !r->failures) {
		Py_XDECREF((PyObject *)self);
		r->failures = r->failures ? r->failures : Py_NewRef(Py_None);
		close_reader(r);
		return PyErr_Occurred() ? NULL : PyErr_NoMemory();
	}
	options.read = r->pread ? read_python : read_descriptor;
	options.close = close_reader;
	options.ctx = r;
	options.nbytes = nbytes;
	Py_BEGIN_ALLOW_THREADS rc = ckpt_open_reader(&options, &self->model, &err);
	Py_END_ALLOW_THREADS if (rc == CKPT_E_ARG) /* the one failure without a call of close */
		close_reader(r);
	return opened(self, &err, rc);
}

PyObject *ckpt_py_open_reader(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "pread", "nbytes", "close", "file", NULL };
	PyObject *pread, *close = Py_None, *file = NULL;
	uint64_t nbytes;
	struct reader *r;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO&|OO", names, &pread, ckpt_py_take_uint64, &nbytes, &close, &file))
		return NULL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return PyErr_NoMemory();
	r->fd = -1;
	r->pread = Py_NewRef(pread);
	r->close = close == Py_None ? NULL : Py_NewRef(close);
	r->file = Py_NewRef(file ? file : pread);
	return open_reader(PyModule_GetState(module), r, nbytes);
}

PyObject *ckpt_py_open_descriptor(PyObject *module, PyObject *args)
{
	uint64_t nbytes;
	struct reader *r;
	int fd;

	if (!PyArg_ParseTuple(args, "iO&", &fd, ckpt_py_take_uint64, &nbytes))
		return NULL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return PyErr_NoMemory();
	r->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (r->fd < 0) {
		free(r);
		return PyErr_SetFromErrno(PyExc_OSError);
	}
	return open_reader(PyModule_GetState(module), r, nbytes);
}

static PyObject *close_model(PyObject *object, PyObject *none)
{
	struct model *self = (struct model *)object;

	(void)none;
	self->closed = true;
	if (self->users == 0)
		close_now(self);
	return Py_NewRef(Py_None);
}

/* ---- facts about the file ---- */

bool ckpt_py_list_tensors(struct model *self, const struct ckpt_model *model)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	Py_BEGIN_ALLOW_THREADS rc = ckpt_list_tensors(model, &err);
	Py_END_ALLOW_THREADS if (rc < 0) ckpt_py_raise_for(self, &err, rc);
	return rc == 0;
}

static PyObject *file_info(PyObject *object, PyObject *none)
{
	struct model *self = (struct model *)object;
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;
	struct ckpt_model *model = ckpt_py_model_use(self);
	PyObject *dict = NULL;

	(void)none;
	if (!model)
		return NULL;
	if (ckpt_py_list_tensors(self, model) && ckpt_file_get(model, &info) == 0)
		dict = Py_BuildValue(
			"{s:i,s:N,s:N,s:N,s:N,s:N,s:K,s:K,s:K,s:I,s:I,s:N,s:I,s:I,s:I,s:I,s:I,s:N,s:K,"
			"s:K,s:K,s:K,s:K}",
			"format_code", (int)info.format_code,
			"format", ckpt_py_string(info.format), "writer", ckpt_py_string(info.writer), "profile",
			ckpt_py_string(info.profile), "archive_name", ckpt_py_string(info.archive_name), "byteorder",
			ckpt_py_string(info.byteorder),
			"file_nbytes", (unsigned long long)info.file_nbytes, "pickle_nbytes",
			(unsigned long long)info.pickle_nbytes, "record_count",
			(unsigned long long)info.record_count, "pickle_protocol",
			(unsigned)info.pickle_protocol, "alignment", (unsigned)info.alignment,
			"has_crc", PyBool_FromLong(info.has_crc), "compressed",
			(unsigned)info.compressed, "unreferenced", (unsigned)info.unreferenced,
			"foreign", (unsigned)info.foreign, "file_count", (unsigned)info.file_count,
			"version", (unsigned)info.version, "is_program",
			PyBool_FromLong(info.is_program), "dead_nbytes",
			(unsigned long long)info.dead_nbytes, "dead_on_disk",
			(unsigned long long)info.dead_on_disk, "tensor_count",
			(unsigned long long)ckpt_tensor_count(model), "storage_count",
			(unsigned long long)ckpt_storage_count(model), "storage_nbytes",
			(unsigned long long)ckpt_storage_bytes(model));
	ckpt_py_model_drop(self);
	return dict;
}

static int add_metadata(void *ctx, const char *key, size_t key_len, const char *value,
			size_t value_len)
{
	PyObject *k = ckpt_py_text(key, key_len), *v = k ? ckpt_py_text(value, value_len) : NULL;
	int rc = v && PyDict_SetItem(ctx, k, v) == 0 ? 0 : CKPT_E_NOMEM;

	Py_XDECREF(k);
	Py_XDECREF(v);
	return rc;
}

static PyObject *metadata(PyObject *object, PyObject *none)
{
	struct model *self = (struct model *)object;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model = ckpt_py_model_use(self);
	PyObject *dict;
	int rc;

	(void)none;
	if (!model)
		return NULL;
	dict = PyDict_New();
	if (dict) {
		rc = ckpt_each_metadata(model, add_metadata, dict, &err);
		if (rc < 0) {
			Py_CLEAR(dict);
			ckpt_py_raise_for(self, &err, rc);
		}
	}
	ckpt_py_model_drop(self);
	return dict;
}

static PyMethodDef methods[] = {
	{ "close", close_model, METH_NOARGS, "close()\n\nArrays and maps of it stay as they are." },
	{ "file_info", file_info, METH_NOARGS, "file_info() -> dict" },
	{ "metadata", metadata, METH_NOARGS, "metadata() -> dict of str\n\nOf safetensors." },
	{ "table", ckpt_py_table, METH_NOARGS,
	  "table() -> dict of columns\n\nOne entry for each tensor, in the order of the file." },
	{ "walk", ckpt_py_walk, METH_VARARGS,
	  "walk(depth=-1) -> list\n\n(name, depth, kind, type, text, count, mapping, seen, module) of "
	  "every value." },
	{ "refusals", ckpt_py_refusals, METH_NOARGS,
	  "refusals() -> [(name, versions, can_be_allowed, record, offset, text)]\n\nOf "
	  "torch.load(weights_only=True), of what was read." },
	{ "show", ckpt_py_show, METH_VARARGS, "show(name, json=False) -> str" },
	{ "build", ckpt_py_build, METH_VARARGS,
	  "build(name, hooks, pauses=False) -> object\n\nThe value called NAME, made with the methods of HOOKS. PAUSES: the "
	  "collector of garbage, meanwhile." },
	{ "edit", ckpt_py_edit, METH_VARARGS,
	  "edit(kind, texts, others, flags) -> (Model, report)\n\nSee _edit.c and _edits.py." },
	{ "cast_losses", ckpt_py_cast_losses, METH_NOARGS, "cast_losses() -> dict\n\nOf the numbers that were read." },
	{ "quantized", ckpt_py_quantized, METH_VARARGS,
	  "quantized(as or None, config or None) -> dict or None\n\nNone: no weight is quantized." },
	{ "add_file", ckpt_py_add_file, METH_O, "add_file(path) -> Model\n\nWith what is in another file." },
	{ "diff", ckpt_py_diff, METH_VARARGS, "diff(other, flags, keep, drop, rtol, atol, order, threads, progress) -> dict" },
	{ "stat", ckpt_py_stat, METH_VARARGS, "stat(patterns, bins, quantiles, depth, threads, progress) -> dict" },
	{ "save", (PyCFunction)(void (*)(void))ckpt_py_save, METH_VARARGS | METH_KEYWORDS,
	  "save(path, **options) -> dict\n\nOPTIONS: those of struct ckpt_save_options." },
	{ "save_in_place", (PyCFunction)(void (*)(void))ckpt_py_save_in_place,
	  METH_VARARGS | METH_KEYWORDS, "save_in_place(**options) -> dict" },
	{ "open_array", ckpt_py_open_array, METH_VARARGS,
	  "open_array(name or index, for_numpy=False) -> Array" },
	{ "storage_info", ckpt_py_storage_info, METH_O, "storage_info(index) -> dict" },
	{ "storage_map", ckpt_py_storage_map, METH_O, "storage_map(index) -> memoryview" },
	{ "read_storages", (PyCFunction)(void (*)(void))ckpt_py_read_storages,
	  METH_VARARGS | METH_KEYWORDS,
	  "read_storages([(index, offset, nbytes, buffer)], threads=0, check=False, "
	  "progress=None, cancel=None)\n\nCANCEL: a buffer of one int; not 0 ends the reading." },
	{ NULL, NULL, 0, NULL },
};

static PyObject *is_closed(PyObject *object, void *none)
{
	(void)none;
	return PyBool_FromLong(((struct model *)object)->closed);
}

static PyGetSetDef members[] = {
	{ "closed", is_closed, NULL, "whether close() was called", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_dealloc, (void *)dealloc },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, members },
	{ Py_tp_doc, "An open checkpoint." },
	{ 0, NULL },
};

PyType_Spec ckpt_py_model_spec = {
	.name = "ckpt._ckpt.Model",
	.basicsize = sizeof(struct model),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
