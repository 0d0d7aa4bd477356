/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of Model that show what is in it besides tensors: ckpt_walk() and ckpt_show(). */
#include "_ckpt.h"

#include <stdlib.h>
#include <string.h>

struct walk {
	PyThreadState *thread; /* of the caller, while the library works without the GIL */
	PyObject *list;
	long depth; /* containers above it are entered */
};

static int add_item(void *ctx, const struct ckpt_item *item)
{
	struct walk *walk = ctx;
	PyObject *row;
	int rc = CKPT_E_NOMEM;

	PyEval_RestoreThread(walk->thread);
	row = Py_BuildValue("NIiNNKNNN", ckpt_py_text(item->name, strlen(item->name)),
			    (unsigned)item->depth, (int)item->kind,
			    ckpt_py_text(item->type, strlen(item->type)),
			    ckpt_py_text(item->text, strlen(item->text)),
			    (unsigned long long)item->count, PyBool_FromLong(item->mapping),
			    PyBool_FromLong(item->seen), PyBool_FromLong(item->module));
	if (row && PyList_Append(walk->list, row) == 0 && PyErr_CheckSignals() == 0)
		rc = item->kind == CKPT_ITEM_CONTAINER && !item->seen &&
		     (walk->depth < 0 || item->depth < (unsigned long)walk->depth);
	Py_XDECREF(row);
	walk->thread = PyEval_SaveThread();
	return rc;
}

PyObject *ckpt_py_walk(PyObject *object, PyObject *args)
{
	struct model *self = (struct model *)object;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct walk walk = { .depth = -1 };
	struct ckpt_model *model;
	int rc;

	if (!PyArg_ParseTuple(args, "|l", &walk.depth))
		return NULL;
	model = ckpt_py_model_use(self);
	if (!model)
		return NULL;
	walk.list = PyList_New(0);
	if (walk.list) {
		walk.thread = PyEval_SaveThread();
		rc = ckpt_walk(model, add_item, &walk, &err);
		PyEval_RestoreThread(walk.thread);
		if (rc < 0) {
			Py_CLEAR(walk.list);
			ckpt_py_raise_for(self, &err, rc);
		}
	}
	ckpt_py_model_drop(self);
	return walk.list;
}

struct text {
	char *bytes;
	size_t len, room;
};

static int add_text(void *ctx, const char *piece)
{
	struct text *text = ctx;
	size_t len = strlen(piece);

	if (len > text->room - text->len) {
		size_t room = 2 * text->room + len + 256;
		char *bytes = realloc(text->bytes, room);

		if (!bytes)
			return CKPT_E_NOMEM;
		text->bytes = bytes;
		text->room = room;
	}
	memcpy(text->bytes + text->len, piece, len);
	text->len += len;
	return 0;
}

PyObject *ckpt_py_show(PyObject *object, PyObject *args)
{
	struct model *self = (struct model *)object;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct text text = { NULL, 0, 0 };
	PyObject *name, *bytes, *result = NULL;
	struct ckpt_model *model;
	int json = 0, rc;

	if (!PyArg_ParseTuple(args, "O|p", &name, &json))
		return NULL;
	bytes = ckpt_py_name(name);
	model = bytes ? ckpt_py_model_use(self) : NULL;
	if (model) {
		const char *path = PyBytes_AsString(bytes);

		Py_BEGIN_ALLOW_THREADS rc =
			json ? ckpt_show_json(model, path, add_text, &text, &err)
			     : ckpt_show(model, path, add_text, &text, &err);
		Py_END_ALLOW_THREADS result =
			rc < 0 ? ckpt_py_raise_for(self, &err, rc)
			       : ckpt_py_text(text.bytes ? text.bytes : "", text.len);
		ckpt_py_model_drop(self);
	}
	free(text.bytes);
	Py_XDECREF(bytes);
	return result;
}
