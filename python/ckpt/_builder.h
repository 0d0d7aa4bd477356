/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of the Builder share; nodes are numbers in Python. */
#ifndef CKPT_PYTHON_BUILDER_H
#define CKPT_PYTHON_BUILDER_H

#include "_ckpt.h"

struct builder {
	PyObject_HEAD struct ckpt_builder *b; /* NULL: it is finished, or something was wrong */
	struct ckpt_node **nodes;
	char *changes; /* which of them may be changed */
	uint32_t count, room;
	PyObject *keep;	    /* a list of what the storages need */
	PyObject *failures; /* of reading them: as in struct model */
};

/* NULL, and ValueError, if it is finished. */
struct ckpt_builder *ckpt_py_builder_use(struct builder *self);

/* The number of NODE, which may be changed later if CHANGES. NODE NULL: raise what was wrong. */
PyObject *ckpt_py_builder_add(struct builder *self, const struct ckpt_node *node, bool changes);

/* Borrowed; NULL, and an exception, if NUMBER is none of a node. */
const struct ckpt_node *ckpt_py_builder_node(struct builder *self, PyObject *number);

/* Methods of Builder that make tensors. */
PyObject *ckpt_py_builder_storage(PyObject *self, PyObject *args);
PyObject *ckpt_py_builder_storage_from(PyObject *self, PyObject *args);
PyObject *ckpt_py_builder_tensor(PyObject *self, PyObject *args);
PyObject *ckpt_py_builder_parameter(PyObject *self, PyObject *args);

#endif
