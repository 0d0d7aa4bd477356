/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storages: where their bytes are, maps of them, and reading many at once.
 *
 * What must stay true: whoever has a memoryview of a map keeps the model open, and a buffer that is
 * read into is held until the library has returned.
 */
#include "_ckpt.h"

#include <stdlib.h>

/* The exporter of a map: it only keeps the model open. */
struct map {
	PyObject_HEAD struct model *owner;
	const void *bytes;
	uint64_t nbytes;
};

static int get_buffer(PyObject *object, Py_buffer *view, int flags)
{
	struct map *map = (struct map *)object;

	/* not written to: it is read-only */
	return PyBuffer_FillInfo(view, object, (void *)(uintptr_t)map->bytes,
				 (Py_ssize_t)map->nbytes, 1, flags);
}

static void dealloc_map(PyObject *object)
{
	struct map *map = (struct map *)object;
	PyTypeObject *type = Py_TYPE(object);

	ckpt_py_model_drop(map->owner);
	Py_DECREF(map->owner);
	PyObject_Free(map);
	Py_DECREF(type);
}

static PyType_Slot map_slots[] = {
	{ Py_tp_dealloc, (void *)dealloc_map },
	{ Py_bf_getbuffer, (void *)get_buffer },
	{ Py_tp_doc, "Bytes of a file in memory." },
	{ 0, NULL },
};

PyType_Spec ckpt_py_map_spec = {
	.name = "ckpt._ckpt.Map",
	.basicsize = sizeof(struct map),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = map_slots,
};

/* Describe storage INDEX. Returns whether it could. */
static bool get_info(struct model *self, struct ckpt_model *model, PyObject *index, uint64_t *i,
		     struct ckpt_storage_info *info)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	*i = PyLong_AsUnsignedLongLong(index);
	if (PyErr_Occurred())
		return false;
	Py_BEGIN_ALLOW_THREADS rc = ckpt_storage_get(model, *i, info, &err);
	Py_END_ALLOW_THREADS if (rc < 0) ckpt_py_raise_for(self, &err, rc);
	return rc == 0;
}

PyObject *ckpt_py_storage_info(PyObject *object, PyObject *index)
{
	struct model *self = (struct model *)object;
	struct ckpt_storage_info info = CKPT_STORAGE_INFO_INIT;
	struct ckpt_model *model = ckpt_py_model_use(self);
	PyObject *dict = NULL;
	uint64_t i;

	if (!model)
		return NULL;
	if (get_info(self, model, index, &i, &info))
		dict = Py_BuildValue(
			"{s:N,s:N,s:N,s:K,s:K,s:N,s:N,s:N,s:i,s:N}", "key", ckpt_py_string(info.key), "dtype", ckpt_py_string(info.dtype),
			"device", ckpt_py_string(info.device), "numel", (unsigned long long)info.numel, "nbytes",
			(unsigned long long)info.nbytes, "path",
			info.path ? PyUnicode_DecodeFSDefault(info.path) : Py_NewRef(Py_None),
			"offset",
			info.path ? PyLong_FromUnsignedLongLong(info.offset) : Py_NewRef(Py_None),
			"crc32",
			info.has_crc ? PyLong_FromUnsignedLong(info.crc32) : Py_NewRef(Py_None), "descriptor",
			(int)info.descriptor, "one_way", PyBool_FromLong(info.is_one_way));
	ckpt_py_model_drop(self);
	return dict;
}

PyObject *ckpt_py_storage_map(PyObject *object, PyObject *index)
{
	struct model *self = (struct model *)object;
	struct ckpt_storage_info info = CKPT_STORAGE_INFO_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model = ckpt_py_model_use(self);
	PyObject *view = NULL;
	struct map *map;
	const void *bytes;
	uint64_t i;
	int rc;

	if (!model)
		return NULL;
	if (!get_info(self, model, index, &i, &info)) {
		ckpt_py_model_drop(self);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS rc = ckpt_storage_map(model, i, &bytes, &err);
	Py_END_ALLOW_THREADS map = rc == 0 ? PyObject_New(struct map, STATE(self)->map) : NULL;
	if (!map) {
		if (rc < 0)
			ckpt_py_raise_for(self, &err, rc);
		ckpt_py_model_drop(self);
		return NULL;
	}
	map->owner = (struct model *)Py_NewRef(object); /* and it stays one of its users */
	map->bytes = bytes;
	map->nbytes = info.nbytes;
	view = PyMemoryView_FromObject((PyObject *)map);
	Py_DECREF(map);
	return view;
}

/* ---- reading many ---- */

/* Parse item I of LIST: (storage, offset, nbytes, buffer). *VIEW is to be released if it worked. */
static bool parse_range(PyObject *list, Py_ssize_t i, struct ckpt_storage_range *range,
			Py_buffer *view)
{
	PyObject *item = PySequence_GetItem(list, i);
	uint64_t storage, offset, nbytes;
	bool ok = item && PyTuple_Check(item) &&
		  PyArg_ParseTuple(item, "O&O&O&w*", ckpt_py_take_uint64, &storage, ckpt_py_take_uint64, &offset,
				   ckpt_py_take_uint64, &nbytes, view);

	if (!ok && !PyErr_Occurred())
		PyErr_SetString(PyExc_TypeError, "a range is (storage, offset, nbytes, buffer)");
	if (ok && (uint64_t)view->len < nbytes) {
		PyErr_Format(PyExc_ValueError, "the buffer has %zd bytes, wanted %llu", view->len,
			     (unsigned long long)nbytes);
		PyBuffer_Release(view);
		ok = false;
	}
	Py_XDECREF(item); /* the view keeps its buffer */
	if (ok)
		*range = (struct ckpt_storage_range){ storage, offset, nbytes, view->buf };
	return ok;
}

/* The int in FLAG, which other threads set to end the reading. */
static bool get_flag(PyObject *flag, Py_buffer *view)
{
	if (PyObject_GetBuffer(flag, view, PyBUF_SIMPLE) < 0)
		return false;
	if (view->len == sizeof(int) && (uintptr_t)view->buf % _Alignof(int) == 0)
		return true;
	PyErr_SetString(PyExc_ValueError, "cancel is a buffer of one int");
	PyBuffer_Release(view);
	return false;
}

PyObject *ckpt_py_read_storages(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "ranges", "threads", "check", "progress", "cancel", NULL };
	struct model *self = (struct model *)object;
	struct ckpt_storage_read_options options = CKPT_STORAGE_READ_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct work read = { .pid = getpid() };
	struct ckpt_storage_range *ranges;
	struct ckpt_model *model;
	PyObject *list, *flag = Py_None;
	Py_buffer *views, cancel = { .buf = NULL };
	Py_ssize_t i = 0, count;
	unsigned threads = 0;
	int check = 0, rc = -1;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O&pOO", names, &list, ckpt_py_take_unsigned, &threads, &check,
					 &read.function, &flag))
		return NULL;
	if (read.function == Py_None)
		read.function = NULL;
	count = PySequence_Size(list);
	if (count < 0)
		return NULL;
	if (flag != Py_None && !get_flag(flag, &cancel))
		return NULL;
	model = ckpt_py_model_use(self);
	if (!model) {
		PyBuffer_Release(&cancel);
		return NULL;
	}
	ranges = calloc((size_t)count + 1, sizeof(*ranges));
	views = calloc((size_t)count + 1, sizeof(*views));
	if (!ranges || !views)
		PyErr_NoMemory();
	for (i = 0; ranges && views && i < count; i++)
		if (!parse_range(list, i, &ranges[i], &views[i]))
			break;
	if (ranges && views && i == count) {
		options.threads = threads;
		options.check = (uint32_t)check;
		options.cancel = cancel.buf;
		/* with a flag there is nothing to ask Python for at every block */
		options.progress = cancel.buf && !read.function ? NULL : ckpt_py_work_tell;
		options.progress_ctx = &read;
		read.thread = PyEval_SaveThread();
		rc = ckpt_storages_read(model, ranges, (uint64_t)count, &options, &err);
		PyEval_RestoreThread(read.thread);
		if (rc < 0)
			ckpt_py_raise_for(self, &err, rc);
	}
	while (views && i-- > 0)
		PyBuffer_Release(&views[i]);
	free(views);
	free(ranges);
	PyBuffer_Release(&cancel);
	ckpt_py_model_drop(self);
	return rc == 0 ? Py_NewRef(Py_None) : NULL;
}
