/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builder: objects of Python become nodes of <ckpt/build.h>, and these a Model, for _save.py, which
 * knows what becomes what. A node is a number here.
 *
 * What must stay true: no number makes the library see a pointer that it did not make; memory that
 * storages borrow is held by the Model until it is closed; and after the first mistake, which is
 * raised at once, a builder takes nothing any more.
 */
#include "_builder.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

PyObject *ckpt_py_builder(PyObject *module, PyObject *none)
{
	struct state *state = PyModule_GetState(module);
	struct builder *self = PyObject_New(struct builder, state->builder);
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	(void)none;
	if (!self)
		return NULL;
	self->b = NULL;
	self->nodes = NULL;
	self->changes = NULL;
	self->count = self->room = 0;
	self->keep = PyList_New(0);
	self->failures = PyList_New(0);
	rc = ckpt_builder_new(&self->b, &err);
	if (rc < 0)
		ckpt_py_raise(state, &err, rc);
	if (rc == 0 && self->keep && self->failures)
		return (PyObject *)self;
	Py_DECREF(self);
	return NULL;
}

static void give_up(struct builder *self)
{
	struct ckpt_builder *b = self->b;

	self->b = NULL;
	Py_BEGIN_ALLOW_THREADS ckpt_builder_free(b);
	Py_END_ALLOW_THREADS
}

static void dealloc(PyObject *object)
{
	struct builder *self = (struct builder *)object;
	PyTypeObject *type = Py_TYPE(object);

	give_up(self);
	free(self->nodes);
	free(self->changes);
	Py_XDECREF(self->keep);
	Py_XDECREF(self->failures);
	PyObject_Free(self);
	Py_DECREF(type);
}

struct ckpt_builder *ckpt_py_builder_use(struct builder *self)
{
	if (!self->b)
		PyErr_SetString(PyExc_ValueError, "the builder is finished");
	return self->b;
}

/* Raise what was wrong first. */
static PyObject *refuse(struct builder *self)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_builder *b = self->b;
	struct ckpt_model *model = NULL;
	int rc;

	self->b = NULL;
	rc = ckpt_builder_finish(b, NULL, &model, &err);
	return ckpt_py_raise(STATE(self), &err, rc);
}

/* The number of NODE, which may be changed later if CHANGES; NULL: the library refused it. */
PyObject *ckpt_py_builder_add(struct builder *self, const struct ckpt_node *node, bool changes)
{
	if (!node)
		return refuse(self);
	if (self->count == self->room) {
		uint32_t room = self->room ? 2 * self->room : 256;
		struct ckpt_node **nodes =
			room > self->room ? realloc(self->nodes, room * sizeof(*nodes)) : NULL;
		char *grown = nodes ? realloc(self->changes, room) : NULL;

		if (nodes)
			self->nodes = nodes;
		if (!grown)
			return PyErr_NoMemory();
		self->changes = grown;
		self->room = room;
	}
	self->nodes[self->count] = (struct ckpt_node *)(uintptr_t)node;
	self->changes[self->count] = changes;
	return PyLong_FromUnsignedLong(self->count++);
}

/* Borrowed; NULL, and an exception, if NUMBER is none of a node. */
const struct ckpt_node *ckpt_py_builder_node(struct builder *self, PyObject *number)
{
	unsigned long i = PyLong_Check(number) ? PyLong_AsUnsignedLong(number) : ULONG_MAX;

	if (i < self->count && !PyErr_Occurred())
		return self->nodes[i];
	PyErr_SetString(PyExc_ValueError, "there is no such node");
	return NULL;
}

static struct ckpt_node *node_to_change(struct builder *self, PyObject *number)
{
	if (!ckpt_py_builder_node(self, number))
		return NULL;
	if (self->changes[PyLong_AsUnsignedLong(number)])
		return self->nodes[PyLong_AsUnsignedLong(number)];
	PyErr_SetString(PyExc_ValueError, "the node cannot be changed");
	return NULL;
}

/* ---- atoms ---- */

static PyObject *add_long(struct builder *self, PyObject *number)
{
	PyObject *bits = PyObject_CallMethod(number, "bit_length", NULL), *bytes = NULL, *method,
		 *args, *kwargs;
	Py_ssize_t len = bits ? PyLong_AsSsize_t(bits) / 8 + 1 : 0;
	PyObject *result = NULL;

	Py_XDECREF(bits);
	if (PyErr_Occurred())
		return NULL;
	method = PyObject_GetAttrString(number, "to_bytes");
	args = Py_BuildValue("(ns)", len, "little");
	kwargs = Py_BuildValue("{s:O}", "signed", Py_True);
	if (method && args && kwargs)
		bytes = PyObject_Call(method, args, kwargs);
	if (bytes)
		result = ckpt_py_builder_add(self,
					     ckpt_build_long(self->b, PyBytes_AsString(bytes),
							     (size_t)PyBytes_Size(bytes)),
					     false);
	Py_XDECREF(method);
	Py_XDECREF(args);
	Py_XDECREF(kwargs);
	Py_XDECREF(bytes);
	return result;
}

static PyObject *add_int(struct builder *self, PyObject *number)
{
	int overflow;
	long long value = PyLong_AsLongLongAndOverflow(number, &overflow);

	if (value == -1 && PyErr_Occurred())
		return NULL;
	return overflow ? add_long(self, number)
			: ckpt_py_builder_add(self, ckpt_build_int(self->b, value), false);
}

/* Python has one object for all equal bytes of up to one byte, but (5).to_bytes(1, "big") makes another one. */
static PyObject *add_bytes(struct builder *self, PyObject *value)
{
	const char *bytes = PyBytes_AsString(value);
	Py_ssize_t len = PyBytes_Size(value);
	PyObject *common = len > 1 ? NULL : PyBytes_FromStringAndSize(bytes, len);
	bool is_common = common == value;

	if (len <= 1 && !common)
		return NULL;
	Py_XDECREF(common);
	return ckpt_py_builder_add(self,
				   len > 1 || is_common ? ckpt_build_bytes(self->b, bytes, (size_t)len)
							: ckpt_build_distinct_bytes(self->b, bytes, (size_t)len),
				   false);
}

static PyObject *add_text(struct builder *self, PyObject *text, bool interned)
{
	PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass"), *result;
	const char *at;
	size_t len;

	if (!bytes)
		return NULL;
	at = PyBytes_AsString(bytes);
	len = (size_t)PyBytes_Size(bytes);
	result = ckpt_py_builder_add(self,
				     interned ? ckpt_build_interned(self->b, at, len)
					      : ckpt_build_str(self->b, at, len),
				     false);
	Py_DECREF(bytes);
	return result;
}

static PyObject *atom(PyObject *object, PyObject *value)
{
	struct builder *self = (struct builder *)object;
	struct ckpt_builder *b = ckpt_py_builder_use(self);

	if (!b)
		return NULL;
	if (value == Py_None)
		return ckpt_py_builder_add(self, ckpt_build_none(b), false);
	if (PyBool_Check(value))
		return ckpt_py_builder_add(self, ckpt_build_bool(b, value == Py_True), false);
	if (PyLong_Check(value))
		return add_int(self, value);
	if (PyFloat_Check(value))
		return ckpt_py_builder_add(self, ckpt_build_float(b, PyFloat_AsDouble(value)),
					   false);
	if (PyComplex_Check(value))
		return ckpt_py_builder_add(self,
					   ckpt_build_complex(b, PyComplex_RealAsDouble(value),
							      PyComplex_ImagAsDouble(value)),
					   false);
	if (PyUnicode_Check(value))
		return add_text(self, value, false);
	if (PyBytes_Check(value))
		return add_bytes(self, value);
	if (PyByteArray_Check(value))
		return ckpt_py_builder_add(self,
					   ckpt_build_bytearray(b, PyByteArray_AsString(value),
								(size_t)PyByteArray_Size(value)),
					   false);
	PyErr_SetString(PyExc_TypeError, "an atom is None, a number, a text or bytes");
	return NULL;
}

static PyObject *interned(PyObject *object, PyObject *text)
{
	struct builder *self = (struct builder *)object;

	if (!ckpt_py_builder_use(self))
		return NULL;
	if (!PyUnicode_Check(text)) {
		PyErr_SetString(PyExc_TypeError, "what is interned is a str");
		return NULL;
	}
	return add_text(self, text, true);
}

/* ---- containers and calls ---- */

/* What begins empty. */
static PyObject *container(PyObject *object, PyObject *args)
{
	struct builder *self = (struct builder *)object;
	struct ckpt_builder *b = ckpt_py_builder_use(self);
	const char *kind;

	if (!b || !PyArg_ParseTuple(args, "s", &kind))
		return NULL;
	if (!strcmp(kind, "list"))
		return ckpt_py_builder_add(self, ckpt_build_list(b), true);
	if (!strcmp(kind, "set"))
		return ckpt_py_builder_add(self, ckpt_build_set(b), true);
	if (!strcmp(kind, "dict"))
		return ckpt_py_builder_add(self, ckpt_build_dict(b), true);
	if (!strcmp(kind, "OrderedDict"))
		return ckpt_py_builder_add(self, ckpt_build_ordered_dict(b), true);
	PyErr_SetString(PyExc_ValueError, "wanted 'list', 'set', 'dict' or 'OrderedDict'");
	return NULL;
}

/* A tuple or frozenset of the nodes in the list NUMBERS. */
static PyObject *add_row(struct builder *self, PyObject *numbers, bool frozenset)
{
	Py_ssize_t count = PyList_Check(numbers) ? PyList_Size(numbers) : -1, i;
	const struct ckpt_node **items;
	PyObject *result = NULL;

	if (!ckpt_py_builder_use(self))
		return NULL;
	if (count < 0 || count > INT32_MAX) {
		PyErr_SetString(PyExc_TypeError, "items are a list of nodes");
		return NULL;
	}
	items = calloc((size_t)count + 1, sizeof(*items));
	if (!items)
		return PyErr_NoMemory();
	for (i = 0; i < count; i++) {
		items[i] = ckpt_py_builder_node(self, PyList_GetItem(numbers, i));
		if (!items[i])
			break;
	}
	if (i == count)
		result = ckpt_py_builder_add(self,
					     frozenset ? ckpt_build_frozenset(self->b, items,
									      (uint32_t)count)
						       : ckpt_build_tuple(self->b, items,
									  (uint32_t)count),
					     false);
	free(items);
	return result;
}

static PyObject *new_tuple(PyObject *object, PyObject *numbers)
{
	return add_row((struct builder *)object, numbers, false);
}

static PyObject *new_frozenset(PyObject *object, PyObject *numbers)
{
	return add_row((struct builder *)object, numbers, true);
}

/* The two nodes of ARGS: the first is changed, and gets the second. False, and an exception: not so. */
static bool take_pair(struct builder *self, PyObject *args, struct ckpt_node **changed,
		      const struct ckpt_node **given)
{
	PyObject *where, *what;

	if (!ckpt_py_builder_use(self) || !PyArg_ParseTuple(args, "OO", &where, &what))
		return false;
	*changed = node_to_change(self, where);
	*given = *changed ? ckpt_py_builder_node(self, what) : NULL;
	return *given != NULL;
}

static PyObject *append(PyObject *object, PyObject *args)
{
	struct builder *self = (struct builder *)object;
	struct ckpt_node *container;
	const struct ckpt_node *item;

	if (!take_pair(self, args, &container, &item))
		return NULL;
	return ckpt_build_append(self->b, container, item) ? Py_NewRef(Py_None) : refuse(self);
}

static PyObject *put(PyObject *object, PyObject *args)
{
	struct builder *self = (struct builder *)object;
	PyObject *where, *what, *which;
	struct ckpt_node *mapping;
	const struct ckpt_node *key, *value;

	if (!ckpt_py_builder_use(self) || !PyArg_ParseTuple(args, "OOO", &where, &which, &what))
		return NULL;
	mapping = node_to_change(self, where);
	key = mapping ? ckpt_py_builder_node(self, which) : NULL;
	value = key ? ckpt_py_builder_node(self, what) : NULL;
	if (!value)
		return NULL;
	return ckpt_build_put(self->b, mapping, key, value) ? Py_NewRef(Py_None) : refuse(self);
}

static PyObject *new_global(PyObject *object, PyObject *args)
{
	struct builder *self = (struct builder *)object;
	PyObject *module, *name, *module_bytes, *name_bytes, *node = NULL;

	if (!ckpt_py_builder_use(self) || !PyArg_ParseTuple(args, "OO", &module, &name))
		return NULL;
	module_bytes = ckpt_py_name(module);
	name_bytes = module_bytes ? ckpt_py_name(name) : NULL;
	if (name_bytes)
		node = ckpt_py_builder_add(self,
					   ckpt_build_global(self->b, PyBytes_AsString(module_bytes),
							     PyBytes_AsString(name_bytes)),
					   false);
	Py_XDECREF(module_bytes);
	Py_XDECREF(name_bytes);
	return node;
}

static PyObject *new_call(PyObject *object, PyObject *args)
{
	struct builder *self = (struct builder *)object;
	PyObject *function, *arguments;
	const struct ckpt_node *callable, *tuple;
	int is_new = 0;

	if (!ckpt_py_builder_use(self) ||
	    !PyArg_ParseTuple(args, "OO|p", &function, &arguments, &is_new))
		return NULL;
	callable = ckpt_py_builder_node(self, function);
	tuple = callable ? ckpt_py_builder_node(self, arguments) : NULL;
	if (!tuple)
		return NULL;
	return ckpt_py_builder_add(self,
				   is_new ? ckpt_build_new(self->b, callable, tuple)
					  : ckpt_build_call(self->b, callable, tuple),
				   true);
}

static PyObject *set_state(PyObject *object, PyObject *args)
{
	struct builder *self = (struct builder *)object;
	struct ckpt_node *call;
	const struct ckpt_node *value;

	if (!take_pair(self, args, &call, &value))
		return NULL;
	return ckpt_build_set_state(self->b, call, value) ? Py_NewRef(Py_None) : refuse(self);
}

static PyObject *finish(PyObject *object, PyObject *root)
{
	struct builder *self = (struct builder *)object;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_builder *b = ckpt_py_builder_use(self);
	const struct ckpt_node *node = b ? ckpt_py_builder_node(self, root) : NULL;
	struct model *out;
	int rc;

	if (!node)
		return NULL;
	out = ckpt_py_model_new(STATE(self), NULL);
	if (!out)
		return NULL;
	out->keep = Py_NewRef(self->keep);
	out->failures = Py_NewRef(self->failures);
	self->b = NULL;
	Py_BEGIN_ALLOW_THREADS rc = ckpt_builder_finish(b, node, &out->model, &err);
	Py_END_ALLOW_THREADS if (rc == 0) return (PyObject *)out;
	Py_DECREF(out);
	return ckpt_py_raise(STATE(self), &err, rc);
}

static PyMethodDef methods[] = {
	{ "atom", atom, METH_O, "atom(None, number, str, bytes or bytearray) -> node" },
	{ "interned", interned, METH_O,
	  "interned(str) -> node\n\nAlso the one that torch writes, if it is equal." },
	{ "container", container, METH_VARARGS,
	  "container('list', 'set', 'dict' or 'OrderedDict') -> node" },
	{ "tuple", new_tuple, METH_O, "tuple([node]) -> node" },
	{ "frozenset", new_frozenset, METH_O, "frozenset([node]) -> node" },
	{ "append", append, METH_VARARGS, "append(list, set or call, item)" },
	{ "put", put, METH_VARARGS, "put(dict or call, key, value)" },
	{ "global_", new_global, METH_VARARGS, "global_(module, name) -> node" },
	{ "call", new_call, METH_VARARGS, "call(callable, tuple, is_new=False) -> node\n\nIS_NEW: by class.__new__()." },
	{ "set_state", set_state, METH_VARARGS, "set_state(call, state)" },
	{ "storage", ckpt_py_builder_storage, METH_VARARGS,
	  "storage(dtype, device, buffer) -> node\n\nThe buffer is held." },
	{ "storage_from", ckpt_py_builder_storage_from, METH_VARARGS,
	  "storage_from(model, index) -> node\n\nRead when it is written." },
	{ "tensor", ckpt_py_builder_tensor, METH_VARARGS,
	  "tensor(storage, dtype or None, shape, strides or None, offset, requires_grad) -> node" },
	{ "parameter", ckpt_py_builder_parameter, METH_VARARGS,
	  "parameter(tensor, requires_grad) -> node" },
	{ "finish", finish, METH_O, "finish(root) -> Model" },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_dealloc, (void *)dealloc },
	{ Py_tp_methods, methods },
	{ Py_tp_doc, "A checkpoint that is being made." },
	{ 0, NULL },
};

PyType_Spec ckpt_py_builder_spec = {
	.name = "ckpt._ckpt.Builder",
	.basicsize = sizeof(struct builder),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
