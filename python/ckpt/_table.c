/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of all tensors in one call: 100,000 tensors as columns, not as 100,000 objects. Numbers
 * are in memoryviews, and strings and shapes that are the same are one object.
 */
#include "_ckpt.h"

#include <string.h>

enum { TEXTS = 4, NUMBERS = 6, STORAGES = 1, RECENT = 16 };

static const char *const text_names[TEXTS] = { "dtypes", "devices", "layouts", "class_names" };
static const char *const number_names[NUMBERS] = { "offsets",	     "storages", "nbytes",
						   "storage_nbytes", "numels",	 "flags" };

struct table {
	uint64_t count;
	PyObject *names, *shapes, *strides;
	PyObject *texts[TEXTS];
	PyObject *numbers[NUMBERS]; /* bytes */
	uint64_t *columns[NUMBERS]; /* what is in them */
	PyObject *interned;	    /* a dict: what is equal becomes one object */
	/* a few that were met last, by their address, as most tensors have the same few strings */
	const char *recent[RECENT];
	PyObject *recent_text[RECENT]; /* borrowed from INTERNED */
	unsigned next;
};

/* OBJECT, which it takes, or the one equal to it that was there before. */
static PyObject *intern(struct table *t, PyObject *object)
{
	PyObject *known;

	if (!object)
		return NULL;
	known = PyDict_GetItemWithError(t->interned, object);
	if (known) {
		Py_INCREF(known);
		Py_DECREF(object);
		return known;
	}
	if (PyErr_Occurred() || PyDict_SetItem(t->interned, object, object) < 0) {
		Py_DECREF(object);
		return NULL;
	}
	return object;
}

static PyObject *shared_text(struct table *t, const char *text)
{
	PyObject *object;

	if (!text)
		return Py_NewRef(Py_None);
	for (unsigned i = 0; i < RECENT; i++)
		if (t->recent[i] == text)
			return Py_NewRef(t->recent_text[i]);
	object = intern(t, ckpt_py_text(text, strlen(text)));
	if (object) {
		t->recent[t->next % RECENT] = text;
		t->recent_text[t->next++ % RECENT] = object;
	}
	return object;
}

/* None for no NUMBERS, as the strides of a sparse tensor. */
static PyObject *numbers_tuple(struct table *t, const uint64_t *numbers, uint32_t count)
{
	PyObject *tuple;

	if (!numbers && count)
		return Py_NewRef(Py_None);
	tuple = PyTuple_New(count);
	for (uint32_t i = 0; tuple && i < count; i++) {
		PyObject *number = PyLong_FromUnsignedLongLong(numbers[i]);

		if (!number || PyTuple_SetItem(tuple, i, number) < 0)
			Py_CLEAR(tuple);
	}
	return intern(t, tuple);
}

static bool add(struct table *t, uint64_t i, const struct ckpt_tensor_info *info)
{
	const char *const texts[TEXTS] = { info->dtype, info->device, info->layout,
					   info->class_name };
	const uint64_t numbers[NUMBERS] = { info->offset, (uint64_t)info->storage,
					    info->nbytes, info->storage_nbytes,
					    info->numel,  info->flags };
	Py_ssize_t at = (Py_ssize_t)i;
	PyObject *object = ckpt_py_text(info->name, strlen(info->name));

	/* PyList_SetItem() takes the object */
	if (!object || PyList_SetItem(t->names, at, object) < 0)
		return false;
	object = numbers_tuple(t, info->shape, info->ndim);
	if (!object || PyList_SetItem(t->shapes, at, object) < 0)
		return false;
	object = numbers_tuple(t, info->stride, info->ndim);
	if (!object || PyList_SetItem(t->strides, at, object) < 0)
		return false;
	for (int k = 0; k < TEXTS; k++) {
		object = shared_text(t, texts[k]);
		if (!object || PyList_SetItem(t->texts[k], at, object) < 0)
			return false;
	}
	for (int k = 0; k < NUMBERS; k++)
		t->columns[k][i] = numbers[k];
	return true;
}

static bool allocate(struct table *t)
{
	Py_ssize_t count = (Py_ssize_t)t->count;

	t->names = PyList_New(count);
	t->shapes = PyList_New(count);
	t->strides = PyList_New(count);
	t->interned = PyDict_New();
	if (!t->names || !t->shapes || !t->strides || !t->interned)
		return false;
	for (int k = 0; k < TEXTS; k++)
		if (!(t->texts[k] = PyList_New(count)))
			return false;
	for (int k = 0; k < NUMBERS; k++) {
		t->numbers[k] = PyBytes_FromStringAndSize(NULL, count * 8);
		if (!t->numbers[k])
			return false;
		t->columns[k] = (uint64_t *)(void *)PyBytes_AsString(t->numbers[k]);
	}
	return true;
}

static bool put(PyObject *dict, const char *name, PyObject *value)
{
	return value && PyDict_SetItemString(dict, name, value) == 0;
}

static PyObject *finish(struct table *t)
{
	PyObject *dict = PyDict_New();
	bool ok = dict && put(dict, "names", t->names) && put(dict, "shapes", t->shapes) &&
		  put(dict, "strides", t->strides);

	for (int k = 0; ok && k < TEXTS; k++)
		ok = put(dict, text_names[k], t->texts[k]);
	for (int k = 0; ok && k < NUMBERS; k++) {
		PyObject *bytes = PyMemoryView_FromObject(t->numbers[k]);
		/* the number of a storage is -1 if there is none */
		PyObject *view =
			bytes ? PyObject_CallMethod(bytes, "cast", "s", k == STORAGES ? "q" : "Q")
			      : NULL;

		ok = put(dict, number_names[k], view);
		Py_XDECREF(bytes);
		Py_XDECREF(view);
	}
	if (!ok)
		Py_CLEAR(dict);
	return dict;
}

PyObject *ckpt_py_table(PyObject *object, PyObject *none)
{
	struct model *self = (struct model *)object;
	struct ckpt_model *model = ckpt_py_model_use(self);
	struct table t = { 0 };
	PyObject *result = NULL;
	bool ok;

	(void)none;
	if (!model)
		return NULL;
	ok = ckpt_py_list_tensors(self, model);
	t.count = ok ? ckpt_tensor_count(model) : 0;
	ok = ok && allocate(&t);
	for (uint64_t i = 0; ok && i < t.count; i++) {
		struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;
		struct ckpt_error err = CKPT_ERROR_INIT;
		int rc = ckpt_tensor_get(model, i, &info);

		if (rc < 0)
			ckpt_py_raise_for(self, &err, rc);
		ok = rc == 0 && add(&t, i, &info);
	}
	if (ok)
		result = finish(&t);
	Py_XDECREF(t.names);
	Py_XDECREF(t.shapes);
	Py_XDECREF(t.strides);
	Py_XDECREF(t.interned);
	for (int k = 0; k < TEXTS; k++)
		Py_XDECREF(t.texts[k]);
	for (int k = 0; k < NUMBERS; k++)
		Py_XDECREF(t.numbers[k]);
	ckpt_py_model_drop(self);
	return result;
}
