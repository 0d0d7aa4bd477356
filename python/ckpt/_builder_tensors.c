/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of a Builder. Their bytes are in memory that the Builder holds, and later its Model, or in
 * a storage of another Model, which stays open and is read when the new one is saved.
 */
#include "_builder.h"

#include <errno.h>
#include <stdlib.h>

PyObject *ckpt_py_builder_storage(PyObject *object, PyObject *args)
{
	struct builder *self = (struct builder *)object;
	PyObject *buffer, *view, *result = NULL;
	const char *dtype, *device;
	Py_buffer bytes;

	if (!ckpt_py_builder_use(self) || !PyArg_ParseTuple(args, "ssO", &dtype, &device, &buffer))
		return NULL;
	view = PyMemoryView_FromObject(buffer); /* keeps the memory where it is */
	if (!view)
		return NULL;
	if (PyObject_GetBuffer(view, &bytes, PyBUF_SIMPLE) == 0) {
		if (PyList_Append(self->keep, view) == 0)
			result = ckpt_py_builder_add(self,
						     ckpt_build_storage(self->b, dtype, device,
									bytes.buf,
									(uint64_t)bytes.len),
						     false);
		PyBuffer_Release(&bytes);
	}
	Py_DECREF(view);
	return result;
}

/* A storage of another model, which is read when it is written. */
struct foreign {
	struct model *from; /* stays open */
	struct ckpt_model *model;
	PyObject *failures;
	uint64_t index;
};

static int read_foreign(void *ctx, uint64_t offset, void *buf, size_t len)
{
	const struct foreign *f = ctx;
	const struct ckpt_storage_range range = { f->index, offset, len, buf };
	struct ckpt_storage_read_options options = CKPT_STORAGE_READ_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyGILState_STATE gil;
	PyObject *type, *value, *traceback;
	int rc;

	options.threads = 1;
	rc = ckpt_storages_read(f->model, &range, 1, &options, &err);
	if (rc == 0)
		return 0;
	gil = PyGILState_Ensure();
	ckpt_py_raise_for(f->from, &err, rc);
	PyErr_Fetch(&type, &value, &traceback);
	PyErr_NormalizeException(&type, &value, &traceback);
	if (value && PyList_Size(f->failures) == 0)
		PyList_Append(f->failures, value);
	PyErr_Clear();
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(traceback);
	PyGILState_Release(gil);
	return err.sys_errno > 0 ? (int)err.sys_errno : EIO;
}

static void close_foreign(void *ctx)
{
	struct foreign *f = ctx;
	PyGILState_STATE gil = PyGILState_Ensure();

	ckpt_py_model_drop(f->from);
	Py_DECREF(f->from);
	Py_DECREF(f->failures);
	free(f);
	PyGILState_Release(gil);
}

PyObject *ckpt_py_builder_storage_from(PyObject *object, PyObject *args)
{
	struct builder *self = (struct builder *)object;
	struct ckpt_reader_options reader = CKPT_READER_OPTIONS_INIT;
	struct ckpt_storage_info info = CKPT_STORAGE_INFO_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	const struct ckpt_node *node;
	struct ckpt_model *model;
	uint64_t index;
	struct foreign *f;
	struct model *from;
	PyObject *given;
	int rc;

	if (!ckpt_py_builder_use(self) || !PyArg_ParseTuple(args, "OO&", &given, ckpt_py_take_uint64, &index))
		return NULL;
	if (Py_TYPE(given) != STATE(self)->model) {
		PyErr_SetString(PyExc_TypeError, "a storage is of a Model");
		return NULL;
	}
	from = (struct model *)given;
	model = ckpt_py_model_use(from);
	if (!model)
		return NULL;
	Py_BEGIN_ALLOW_THREADS rc = ckpt_storage_get(model, index, &info, &err);
	Py_END_ALLOW_THREADS f = rc == 0 ? calloc(1, sizeof(*f)) : NULL;
	if (!f) {
		if (rc < 0)
			ckpt_py_raise_for(from, &err, rc);
		ckpt_py_model_drop(from);
		return PyErr_Occurred() ? NULL : PyErr_NoMemory();
	}
	*f = (struct foreign){ (struct model *)Py_NewRef(given), model, Py_NewRef(self->failures),
			       index };
	reader.read = read_foreign;
	reader.close = close_foreign;
	reader.ctx = f;
	reader.nbytes = info.nbytes;
	ckpt_build_has_bytes_of(self->b, model);
	node = ckpt_build_storage_from(self->b, info.dtype, info.device, &reader);
	return ckpt_py_builder_add(self, node, false);
}

/* Copy the numbers of the tuple FROM to *OUT, to be freed. Returns how many they are, or -1. */
static Py_ssize_t numbers_of(PyObject *from, uint64_t **out)
{
	Py_ssize_t count = PyTuple_Check(from) ? PyTuple_Size(from) : -1;

	*out = NULL;
	if (count < 0) {
		PyErr_SetString(PyExc_TypeError, "a shape is a tuple");
		return -1;
	}
	*out = calloc((size_t)count + 1, sizeof(**out));
	if (!*out) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < count; i++)
		(*out)[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(from, i));
	return PyErr_Occurred() ? -1 : count;
}

PyObject *ckpt_py_builder_tensor(PyObject *object, PyObject *args)
{
	struct builder *self = (struct builder *)object;
	struct ckpt_tensor_view view = CKPT_TENSOR_VIEW_INIT;
	PyObject *number, *shape, *strides, *result = NULL;
	unsigned long long offset;
	uint64_t *lengths = NULL, *steps = NULL;
	const struct ckpt_node *storage;
	const char *dtype;
	Py_ssize_t ndim;
	int requires_grad;

	if (!ckpt_py_builder_use(self) || !PyArg_ParseTuple(args, "OzOOKp", &number, &dtype, &shape,
							    &strides, &offset, &requires_grad))
		return NULL;
	storage = ckpt_py_builder_node(self, number);
	ndim = storage ? numbers_of(shape, &lengths) : -1;
	if (ndim >= 0 && (strides == Py_None || numbers_of(strides, &steps) == ndim)) {
		view.shape = lengths;
		view.stride = steps;
		view.offset = offset;
		view.ndim = (uint32_t)(ndim < UINT32_MAX ? ndim : UINT32_MAX);
		view.requires_grad = requires_grad != 0;
		view.dtype = dtype;
		result = ckpt_py_builder_add(self, ckpt_build_tensor(self->b, storage, &view),
					     false);
	} else if (!PyErr_Occurred()) {
		PyErr_SetString(PyExc_ValueError, "a tensor has a stride for each dimension");
	}
	free(lengths);
	free(steps);
	return result;
}

PyObject *ckpt_py_builder_parameter(PyObject *object, PyObject *args)
{
	struct builder *self = (struct builder *)object;
	const struct ckpt_node *tensor;
	PyObject *number;
	int requires_grad;

	if (!ckpt_py_builder_use(self) || !PyArg_ParseTuple(args, "Op", &number, &requires_grad))
		return NULL;
	tensor = ckpt_py_builder_node(self, number);
	return tensor ? ckpt_py_builder_add(self,
					    ckpt_build_parameter(self->b, tensor,
								 requires_grad != 0),
					    false)
		      : NULL;
}
