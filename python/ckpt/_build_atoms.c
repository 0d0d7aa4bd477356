/* SPDX-License-Identifier: Apache-2.0 */
/* What is made of a node alone: numbers, texts, bytes, storages, names, and tensors that need no calls of the file's. */
#include "_build.h"

#include <string.h>

static PyObject *long_of(const struct ckpt_node_info *info)
{
	PyObject *result = NULL;
	PyObject *method = PyObject_GetAttrString((PyObject *)&PyLong_Type, "from_bytes");
	PyObject *args = Py_BuildValue("(y#s)", info->bytes ? info->bytes : "",
				       (Py_ssize_t)info->nbytes, "little");
	PyObject *kwargs = Py_BuildValue("{s:O}", "signed", Py_True);

	if (method && args && kwargs)
		result = PyObject_Call(method, args, kwargs);
	Py_XDECREF(method);
	Py_XDECREF(args);
	Py_XDECREF(kwargs);
	return result;
}

static PyObject *bytes_of(struct build *b, const struct ckpt_node *node,
			  const struct ckpt_node_info *info)
{
	bool constant = info->kind == CKPT_NODE_BYTES;
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *object;
	char *buf;
	int rc;

	if (info->nbytes > PY_SSIZE_T_MAX)
		return PyErr_NoMemory();
	object = constant ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)info->nbytes)
			  : ckpt_py_bytearray(info->nbytes);
	if (!object)
		return NULL;
	buf = constant ? PyBytes_AsString(object) : PyByteArray_AsString(object);
	rc = ckpt_node_bytes(b->model, node, buf, &err);
	if (rc < 0) {
		Py_DECREF(object);
		return ckpt_py_raise_for(b->self, &err, rc);
	}
	if (constant && info->nbytes == 1) { /* as encode(text, 'latin1') gives it: the one that Python has */
		PyObject *common = PyBytes_FromStringAndSize(buf, 1);

		Py_DECREF(object);
		return common;
	}
	return object;
}

/* Borrowed: TEXT as an object, that of last time if it is the same. NULL with an error set: no memory. */
static PyObject *again(struct text *last, const char *text)
{
	if (!last->object || strcmp(last->bytes, text) != 0) {
		Py_XDECREF(last->object);
		last->bytes = text;
		last->object = ckpt_py_string(text);
	}
	return last->object;
}

static PyObject *storage_of(struct build *b, const struct ckpt_node_info *info)
{
	struct ckpt_storage_info storage = CKPT_STORAGE_INFO_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	Py_BEGIN_ALLOW_THREADS rc =
		ckpt_storage_get(b->model, (uint64_t)info->integer, &storage, &err);
	Py_END_ALLOW_THREADS if (rc < 0) return ckpt_py_raise_for(b->self, &err, rc);
	return PyObject_CallFunction(b->storage, "LOOKO", (long long)info->integer,
				     again(&b->dtype, info->bytes ? info->bytes : ""), again(&b->device, storage.device),
				     (unsigned long long)storage.numel, storage.is_cut ? Py_True : Py_False);
}

/* Borrowed: the object of a STORAGE, which is made if it is not yet. */
static PyObject *storage_at(struct build *b, const struct ckpt_node *node)
{
	struct ckpt_node_info info = CKPT_NODE_INFO_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *object = ckpt_py_build_made(b, node);
	int rc;

	if (object)
		return object;
	rc = ckpt_node_get(b->model, node, &info, &err);
	if (rc < 0)
		return ckpt_py_raise_for(b->self, &err, rc);
	object = storage_of(b, &info);
	return object && ckpt_py_build_remember(b, node, object) == 0 ? object : NULL;
}

static PyObject *axes_of(const int64_t *axes, uint32_t ndim)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)ndim);

	for (uint32_t i = 0; tuple && i < ndim; i++) {
		PyObject *number = PyLong_FromLongLong(axes[i]);

		if (!number || PyTuple_SetItem(tuple, (Py_ssize_t)i, number) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

/* The tensor NODE at once, without the nodes that it is made of. *IS_OTHER: it is made in another way. */
PyObject *ckpt_py_build_rebuilt(struct build *b, const struct ckpt_node *node, bool *is_other)
{
	struct ckpt_node_rebuild *how = &b->how;
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *storage, *offset = NULL, *shape = NULL, *stride = NULL, *hooks = NULL, *tensor = NULL;
	int rc = ckpt_node_rebuild(b->model, node, how, &err);

	*is_other = rc == CKPT_E_NOTFOUND;
	if (rc < 0)
		return *is_other ? NULL : ckpt_py_raise_for(b->self, &err, rc);
	storage = storage_at(b, how->storage);
	if (storage) {
		offset = PyLong_FromLongLong(how->offset);
		shape = axes_of(how->shape, how->ndim);
		stride = axes_of(how->stride, how->ndim);
		hooks = PyObject_CallNoArgs(b->ordered_dict);
	}
	if (offset && shape && stride && hooks)
		tensor = PyObject_CallFunctionObjArgs(b->rebuilt, storage, offset, shape, stride, how->requires_grad ? Py_True : Py_False, hooks, NULL);
	Py_XDECREF(offset);
	Py_XDECREF(shape);
	Py_XDECREF(stride);
	Py_XDECREF(hooks);
	return tensor;
}

/* A tensor or an array of numpy as one value. *IS_CALL: it can only be made by its call. */
PyObject *ckpt_py_build_values(struct build *b, const struct ckpt_node *node, enum ckpt_node_kind kind,
			   bool *is_call)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_array *array;
	PyObject *object, *result;
	uint64_t index;
	int rc;

	*is_call = false;
	if (kind == CKPT_NODE_TENSOR) {
		rc = ckpt_node_tensor(b->model, node, &index, &err);
		if (rc == 0)
			return PyObject_CallFunction(b->tensor, "K", (unsigned long long)index);
		if (rc != CKPT_E_NOTFOUND)
			return ckpt_py_raise_for(b->self, &err, rc);
		err = (struct ckpt_error)CKPT_ERROR_INIT;
	}
	Py_BEGIN_ALLOW_THREADS rc = ckpt_node_array(b->model, node, "value", 0, &array, &err);
	Py_END_ALLOW_THREADS if (rc < 0)
	{
		*is_call = rc == CKPT_E_UNSUPPORTED &&
			   ckpt_node_part(b->model, node, CKPT_PART_CALLABLE);
		return *is_call ? NULL : ckpt_py_raise_for(b->self, &err, rc);
	}
	object = ckpt_py_array_new(b->self, array);
	if (!object)
		return NULL;
	result = PyObject_CallFunction(b->array, "Os", object,
				       kind == CKPT_NODE_TENSOR	   ? "tensor"
				       : kind == CKPT_NODE_NDARRAY ? "ndarray"
								   : "scalar");
	Py_DECREF(object);
	return result;
}

/* What torch.load() does not decode fails for those who make what it makes. */
static PyObject *text_of(struct build *b, const struct ckpt_node_info *info)
{
	const char *bytes = info->bytes ? info->bytes : "";
	PyObject *text;

	if (!b->calls)
		return ckpt_py_text(bytes, info->nbytes);
	text = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)info->nbytes, info->kind == CKPT_NODE_STR ? "surrogatepass" : NULL);
	if (!text && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
		ckpt_py_build_fail(b, CKPT_E_FORMAT, "a text is not UTF-8");
	return text;
}

PyObject *ckpt_py_build_atom(struct build *b, const struct ckpt_node *node,
			 const struct ckpt_node_info *info)
{
	switch (info->kind) {
	case CKPT_NODE_NONE: return Py_NewRef(Py_None);
	case CKPT_NODE_BOOL: return PyBool_FromLong(info->integer != 0);
	case CKPT_NODE_INT: return PyLong_FromLongLong(info->integer);
	case CKPT_NODE_LONG: return long_of(info);
	case CKPT_NODE_FLOAT: return PyFloat_FromDouble(info->real);
	case CKPT_NODE_COMPLEX: return PyComplex_FromDoubles(info->real, info->imag);
	case CKPT_NODE_STR:
	case CKPT_NODE_PY2_STR: return text_of(b, info);
	case CKPT_NODE_BYTES:
	case CKPT_NODE_BYTEARRAY: return bytes_of(b, node, info);
	case CKPT_NODE_STORAGE: return storage_of(b, info);
	case CKPT_NODE_GLOBAL:
		return PyObject_CallFunction(b->global, "NN",
					     ckpt_py_text(info->module, strlen(info->module)),
					     ckpt_py_text(info->class_name,
							  strlen(info->class_name)));
	case CKPT_NODE_EXTENSION:
		return PyObject_CallFunction(b->other, "sL", "extension", (long long)info->integer);
	case CKPT_NODE_MISSING:
		return PyObject_CallFunction(b->other, "sN", "missing",
					     ckpt_py_text(info->bytes ? info->bytes : "",
							  info->nbytes));
	default:
		ckpt_py_build_fail(b, CKPT_E_UNSUPPORTED, "an object of a kind that this module does not know");
		return NULL;
	}
}
