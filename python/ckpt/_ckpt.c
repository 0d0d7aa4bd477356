/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module `ckpt._ckpt`: types and functions over <ckpt/ckpt.h>, and what all of its files use.
 * It is low-level and small; what people call is Python on top of it.
 *
 * What must stay true: only the limited API (one binary for all Pythons from 3.11 on), nothing
 * global, and the GIL is released wherever the library reads.
 */
#include "_ckpt.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

PyObject *ckpt_py_raise(struct state *state, const struct ckpt_error *err, int rc)
{
	PyObject *offset, *error;

	if (PyErr_Occurred()) /* a callback raised it, and the library passed its status on */
		return NULL;
	offset = err->offset == CKPT_NO_OFFSET ? Py_NewRef(Py_None)
					       : PyLong_FromUnsignedLongLong(err->offset);
	if (!offset)
		return NULL;
	error = PyObject_CallFunction(state->make_error, "iiNNNiN", rc, (int)err->sys_errno,
				      ckpt_py_text(err->path, strlen(err->path)),
				      ckpt_py_text(err->record, strlen(err->record)), offset,
				      (int)err->reason, ckpt_py_text(err->text, strlen(err->text)));
	if (!error)
		return NULL;
	PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_DECREF(error);
	return NULL;
}

PyObject *ckpt_py_text(const char *bytes, size_t len)
{
	PyObject *text = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)len, "surrogatepass");

	if (text || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
		return text;
	PyErr_Clear();
	return PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)len, "surrogateescape");
}

PyObject *ckpt_py_path(PyObject *path)
{
	return PyUnicode_DecodeFSDefaultAndSize(PyBytes_AsString(path), PyBytes_Size(path));
}

PyObject *ckpt_py_name(PyObject *name)
{
	PyObject *bytes;

	if (PyBytes_Check(name)) {
		bytes = Py_NewRef(name);
	} else if (PyUnicode_Check(name)) {
		bytes = PyUnicode_AsEncodedString(name, "utf-8", "surrogatepass");
	} else {
		PyErr_SetString(PyExc_TypeError, "a name is a str");
		return NULL;
	}
	if (bytes && strlen(PyBytes_AsString(bytes)) != (size_t)PyBytes_Size(bytes)) {
		PyErr_SetString(PyExc_ValueError, "a name has no zero bytes");
		Py_CLEAR(bytes);
	}
	return bytes;
}

PyObject *ckpt_py_bytearray(size_t len)
{
	/* in two steps: Python 3.11 releases one that it had no memory for before it is initialized */
	PyObject *array = PyByteArray_FromStringAndSize(NULL, 0);

	if (array && (len > PY_SSIZE_T_MAX || PyByteArray_Resize(array, (Py_ssize_t)len) < 0)) {
		Py_DECREF(array);
		return PyErr_NoMemory();
	}
	return array;
}

static PyObject *version(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	return PyUnicode_FromString(ckpt_version());
}

/*
 * A new file in memory that can be sealed, as an io.FileIO. No signal is handled before that owns
 * the descriptor, so that none is lost to an exception.
 */
static PyObject *memory_file(PyObject *module, PyObject *none)
{
	PyObject *io = PyImport_ImportModule("io"), *file = NULL;
	int fd;

	(void)module;
	(void)none;
	if (!io)
		return NULL;
	fd = memfd_create("ckpt", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0) {
		PyErr_SetFromErrno(PyExc_OSError);
	} else {
		file = PyObject_CallMethod(io, "FileIO", "is", fd, "r+");
		if (!file)
			close(fd);
	}
	Py_DECREF(io);
	return file;
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS

static PyMethodDef functions[] = {
	{ "wait_for_tasks", ckpt_py_wait_for_tasks, METH_NOARGS,
	  "wait_for_tasks()\n\nUntil what Ctrl-C did not wait for is done." },
	{ "open", KEYWORDS(ckpt_py_open), "open(path, brief=False) -> Model" },
	{ "open_memory", ckpt_py_open_memory, METH_VARARGS, "open_memory(buffer) -> Model" },
	{ "open_reader", KEYWORDS(ckpt_py_open_reader),
	  "open_reader(pread, nbytes, close=None, file=pread) -> Model\n\npread(offset, nbytes) returns bytes, "
	  "in several threads. Models of one FILE are not read by handlers of signals while one is read." },
	{ "open_descriptor", ckpt_py_open_descriptor, METH_VARARGS,
	  "open_descriptor(fd, nbytes) -> Model\n\nOf a file that it reads by offset, with a descriptor of its own." },
	{ "builder", ckpt_py_builder, METH_NOARGS, "builder() -> Builder" },
	{ "repair_open", ckpt_py_repair_open, METH_VARARGS,
	  "repair_open(path, flags, fill, threads, progress) -> (Model, report, findings)" },
	{ "average", ckpt_py_average, METH_VARARGS,
	  "average([Model], flags, only, [weight] or None, decay, as or None) -> (Model, report)" },
	{ "reindex", ckpt_py_reindex, METH_VARARGS,
	  "reindex(path, target or None, flags, for_torch, from_ranks, progress) -> dict" },
	{ "verify", ckpt_py_verify, METH_VARARGS,
	  "verify(path, flags, sha256, sha256sums, threads, progress) -> dict" },
	{ "why", ckpt_py_why, METH_VARARGS, "why(path, error, threads) -> dict" },
	{ "scan_report", ckpt_py_scan_report, METH_VARARGS, "scan_report(path, threads, progress) -> dict" },
	{ "scan", ckpt_py_scan, METH_VARARGS,
	  "scan(path) -> [(path, verdict, format, findings, globals)]\n\nFindings: [(verdict, kind, "
	  "record, offset, text)]. Globals: [(name, kind, called, record, offset)]." },
	{ "resume_collector", ckpt_py_collector_after_fork, METH_NOARGS,
	  "resume_collector()\n\nIn a forked process, whose other threads are gone." },
	{ "memory_file", memory_file, METH_NOARGS,
	  "memory_file() -> io.FileIO\n\nEmpty, and can be sealed." },
	{ "version", version, METH_NOARGS, "version() -> str\n\nOf the library." },
	{ NULL, NULL, 0, NULL },
};

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
	PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);

	if (type && PyModule_AddType(module, (PyTypeObject *)type) < 0)
		Py_CLEAR(type);
	return (PyTypeObject *)type;
}

/* The threads that are left need the interpreter, which must not end before them. */
static bool wait_at_exit(PyObject *module)
{
	PyObject *atexit = PyImport_ImportModule("atexit"),
		 *wait = PyObject_GetAttrString(module, "wait_for_tasks"),
		 *result = atexit && wait ? PyObject_CallMethod(atexit, "register", "O", wait) : NULL;
	bool fine = result != NULL;

	Py_XDECREF(result);
	Py_XDECREF(wait);
	Py_XDECREF(atexit);
	return fine;
}

static bool get_collector(struct state *state)
{
	PyObject *gc = PyImport_ImportModule("gc");

	if (gc) {
		state->get_threshold = PyObject_GetAttrString(gc, "get_threshold");
		state->set_threshold = PyObject_GetAttrString(gc, "set_threshold");
		Py_DECREF(gc);
	}
	return state->get_threshold && state->set_threshold;
}

static int exec(PyObject *module)
{
	struct state *state = PyModule_GetState(module);
	PyObject *errors = PyImport_ImportModule("ckpt._errors");

	if (!errors)
		return -1;
	state->make_error = PyObject_GetAttrString(errors, "make");
	state->at_path = state->make_error ? PyObject_GetAttrString(errors, "at_path") : NULL;
	Py_DECREF(errors);
	if (!state->at_path)
		return -1;
	state->model = add_type(module, &ckpt_py_model_spec);
	state->array = state->model ? add_type(module, &ckpt_py_array_spec) : NULL;
	state->map = state->array ? add_type(module, &ckpt_py_map_spec) : NULL;
	state->builder = state->map ? add_type(module, &ckpt_py_builder_spec) : NULL;
	if (state->builder && !get_collector(state))
		return -1;
	return state->builder && wait_at_exit(module) ? 0 : -1;
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
	struct state *state = PyModule_GetState(module);

	Py_VISIT(state->model);
	Py_VISIT(state->array);
	Py_VISIT(state->map);
	Py_VISIT(state->builder);
	Py_VISIT(state->make_error);
	Py_VISIT(state->at_path);
	Py_VISIT(state->get_threshold);
	Py_VISIT(state->set_threshold);
	Py_VISIT(state->thresholds);
	return 0;
}

static int clear(PyObject *module)
{
	struct state *state = PyModule_GetState(module);

	Py_CLEAR(state->model);
	Py_CLEAR(state->array);
	Py_CLEAR(state->map);
	Py_CLEAR(state->builder);
	Py_CLEAR(state->make_error);
	Py_CLEAR(state->at_path);
	Py_CLEAR(state->get_threshold);
	Py_CLEAR(state->set_threshold);
	Py_CLEAR(state->thresholds);
	return 0;
}

static PyModuleDef_Slot slots[] = {
	{ Py_mod_exec, (void *)exec },
	{ 0, NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "ckpt._ckpt",
	.m_doc = "The library libckpt, for the modules of the package.",
	.m_size = sizeof(struct state),
	.m_methods = functions,
	.m_slots = slots,
	.m_traverse = traverse,
	.m_clear = clear,
};

PyMODINIT_FUNC PyInit__ckpt(void);
PyMODINIT_FUNC PyInit__ckpt(void)
{
	return PyModuleDef_Init(&definition);
}
