/* SPDX-License-Identifier: Apache-2.0 */
/* Array: the values of one tensor, or of an array or scalar of numpy, or of a part of one. */
#include "_ckpt.h"

#include <string.h>

struct array {
	PyObject_HEAD struct model *owner; /* which stays open */
	struct ckpt_array *array;
	unsigned readers; /* threads that read without the GIL */
};

PyObject *ckpt_py_array_new(struct model *owner, struct ckpt_array *array)
{
	struct array *self = PyObject_New(struct array, STATE(owner)->array);

	if (!self) {
		ckpt_array_close(array);
		return NULL;
	}
	owner->users++;
	self->owner = (struct model *)Py_NewRef((PyObject *)owner);
	self->array = array;
	self->readers = 0;
	return (PyObject *)self;
}

static void dealloc(PyObject *object)
{
	struct array *self = (struct array *)object;
	PyTypeObject *type = Py_TYPE(object);

	Py_BEGIN_ALLOW_THREADS ckpt_array_close(self->array);
	Py_END_ALLOW_THREADS ckpt_py_model_drop(self->owner);
	Py_DECREF(self->owner);
	PyObject_Free(self);
	Py_DECREF(type);
}

PyObject *ckpt_py_open_array(PyObject *object, PyObject *args)
{
	struct model *self = (struct model *)object;
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *name, *bytes = NULL, *result = NULL;
	struct ckpt_array *array = NULL;
	struct ckpt_model *model;
	unsigned long long i = 0;
	int for_numpy = 0, rc;

	if (!PyArg_ParseTuple(args, "O|p", &name, &for_numpy))
		return NULL;
	if (PyLong_Check(name))
		i = PyLong_AsUnsignedLongLong(name);
	else
		bytes = ckpt_py_name(name);
	if (PyErr_Occurred())
		return NULL;
	model = ckpt_py_model_use(self);
	if (model) {
		const char *text = bytes ? PyBytes_AsString(bytes) : NULL;
		unsigned flags = for_numpy ? CKPT_ARRAY_FOR_NUMPY : 0;

		Py_BEGIN_ALLOW_THREADS rc = text ? ckpt_array_find(model, text, flags, &array, &err)
						 : ckpt_array_open(model, i, flags, &array, &err);
		Py_END_ALLOW_THREADS result =
			rc < 0 ? ckpt_py_raise_for(self, &err, rc) : ckpt_py_array_new(self, array);
		ckpt_py_model_drop(self);
	}
	Py_XDECREF(bytes);
	return result;
}

static PyObject *optional_text(const char *text)
{
	return text ? ckpt_py_text(text, strlen(text)) : Py_NewRef(Py_None);
}

static PyObject *shape_tuple(const struct ckpt_array_info *info)
{
	PyObject *shape = PyTuple_New(info->shape ? info->ndim : 0);

	for (uint32_t k = 0; shape && info->shape && k < info->ndim; k++) {
		PyObject *number = PyLong_FromUnsignedLongLong(info->shape[k]);

		if (!number || PyTuple_SetItem(shape, k, number) < 0)
			Py_CLEAR(shape);
	}
	return shape;
}

static PyObject *part_names(const struct ckpt_array_info *info)
{
	PyObject *parts = PyList_New(0);

	for (int k = 0; parts && info->parts[k]; k++)
		ckpt_py_append(&parts, ckpt_py_string(info->parts[k]));
	return parts;
}

static PyObject *array_info(PyObject *object, PyObject *none)
{
	struct array *self = (struct array *)object;
	struct ckpt_array_info info = CKPT_ARRAY_INFO_INIT;
	int rc = ckpt_array_get(self->array, &info);

	(void)none;
	if (rc < 0) {
		struct ckpt_error err = CKPT_ERROR_INIT;

		return ckpt_py_raise(PyType_GetModuleState(Py_TYPE(object)), &err, rc);
	}
	return Py_BuildValue(
		"{s:s,s:N,s:N,s:N,s:N,s:N,s:N,s:I,s:N,s:K,s:K,s:N,s:N,s:N,s:d,s:L,s:I}", "kind",
		info.kind, "dtype", ckpt_py_string(info.dtype), "reads", ckpt_py_string(info.reads), "layout",
		ckpt_py_string(info.layout), "device", ckpt_py_string(info.device), "class_name", optional_text(info.class_name), "wrapped",
		optional_text(info.wrapped), "itemsize", (unsigned)info.itemsize, "shape",
		shape_tuple(&info), "numel", (unsigned long long)info.numel, "nbytes",
		(unsigned long long)info.nbytes, "readable", PyBool_FromLong(info.readable),
		"parts", part_names(&info), "qscheme", optional_text(info.qscheme), "scale",
		info.scale, "zero_point", (long long)info.zero_point, "axis", (unsigned)info.axis);
}

static PyObject *open_part(PyObject *object, PyObject *name)
{
	struct array *self = (struct array *)object;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_array *part = NULL;
	PyObject *bytes = ckpt_py_name(name), *result;
	const char *text;
	int rc;

	if (!bytes)
		return NULL;
	if (!ckpt_py_model_may_read(self->owner)) {
		Py_DECREF(bytes);
		return NULL;
	}
	text = PyBytes_AsString(bytes);
	self->readers++;
	Py_BEGIN_ALLOW_THREADS rc = ckpt_array_part(self->array, text, &part, &err);
	Py_END_ALLOW_THREADS self->readers--;
	result = rc < 0 ? ckpt_py_raise_for(self->owner, &err, rc)
			: ckpt_py_array_new(self->owner, part);
	Py_DECREF(bytes);
	return result;
}

static PyObject *slice(PyObject *object, PyObject *text)
{
	struct array *self = (struct array *)object;
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *bytes = ckpt_py_name(text);
	int rc;

	if (!bytes)
		return NULL;
	if (self->readers) {
		Py_DECREF(bytes);
		PyErr_SetString(PyExc_RuntimeError, "another thread reads this array");
		return NULL;
	}
	/* with the GIL: no other thread may use the array meanwhile, and no values are read */
	rc = ckpt_array_slice(self->array, PyBytes_AsString(bytes), &err);
	Py_DECREF(bytes);
	if (rc < 0)
		return ckpt_py_raise_for(self->owner, &err, rc);
	return Py_NewRef(Py_None);
}

/* Read COUNT items from FIRST on, STEP at a time, so that Ctrl-C is seen in between. */
static int read_items(struct array *self, uint64_t first, uint64_t count, uint64_t step,
		      uint32_t itemsize, char *buf)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc = 0;

	do {
		uint64_t n = step && step < count ? step : count;

		if (!ckpt_py_model_may_read(self->owner))
			return -1;
		self->readers++;
		Py_BEGIN_ALLOW_THREADS rc = ckpt_array_read(self->array, first, n, buf, &err);
		Py_END_ALLOW_THREADS self->readers--;
		if (rc < 0) {
			ckpt_py_raise_for(self->owner, &err, rc);
			return -1;
		}
		if (PyErr_CheckSignals() < 0)
			return -1;
		first += n;
		count -= n;
		buf += n * itemsize;
	} while (count > 0);
	return 0;
}

static PyObject *read_array(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "buffer", "first", "count", "step", NULL };
	struct array *self = (struct array *)object;
	struct ckpt_array_info info = CKPT_ARRAY_INFO_INIT;
	uint64_t first = 0, count = UINT64_MAX, step = 0;
	PyObject *buffer = Py_None;
	Py_buffer view;
	uint64_t nbytes;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO&O&O&", names, &buffer, ckpt_py_take_uint64, &first,
					 ckpt_py_take_uint64, &count, ckpt_py_take_uint64, &step))
		return NULL;
	ckpt_array_get(self->array, &info);
	if (count == UINT64_MAX)
		count = info.numel > first ? info.numel - first : 0;
	if (__builtin_mul_overflow(count, info.itemsize, &nbytes) || nbytes > PY_SSIZE_T_MAX)
		return PyErr_NoMemory();
	if (buffer == Py_None)
		buffer = ckpt_py_bytearray(nbytes);
	else
		Py_INCREF(buffer);
	if (!buffer || PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE) < 0) {
		Py_XDECREF(buffer);
		return NULL;
	}
	rc = -1;
	if ((uint64_t)view.len < nbytes)
		PyErr_Format(PyExc_ValueError, "the buffer has %zd bytes, wanted %llu", view.len,
			     (unsigned long long)nbytes);
	else
		rc = read_items(self, first, count, step, info.itemsize, view.buf);
	PyBuffer_Release(&view);
	if (rc < 0)
		Py_CLEAR(buffer);
	return buffer;
}

static PyMethodDef methods[] = {
	{ "info", array_info, METH_NOARGS, "info() -> dict" },
	{ "part", open_part, METH_O, "part(name) -> Array" },
	{ "slice", slice, METH_O, "slice(text)\n\nIt becomes that part of itself: '0:2, ::4'." },
	{ "read", (PyCFunction)(void (*)(void))read_array, METH_VARARGS | METH_KEYWORDS,
	  "read(buffer=None, first=0, count=all, step=0) -> buffer or bytearray\n\nSTEP: items that "
	  "are read between two looks for signals." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_dealloc, (void *)dealloc },
	{ Py_tp_methods, methods },
	{ Py_tp_doc, "Values of a tensor or of an array of numpy." },
	{ 0, NULL },
};

PyType_Spec ckpt_py_array_spec = {
	.name = "ckpt._ckpt.Array",
	.basicsize = sizeof(struct array),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
