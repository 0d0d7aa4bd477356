/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the extension share. Functions that return PyObject * follow Python's rules:
 * a new reference, or NULL with an exception set.
 */
#ifndef CKPT_PYTHON_CKPT_H
#define CKPT_PYTHON_CKPT_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>

#include <ckpt/ckpt.h>

/* What the module keeps: one per interpreter, nothing is global. */
struct state {
	PyTypeObject *model, *array, *map, *builder;
	PyObject *make_error; /* ckpt._errors.make() */
};

/* Of the type of SELF; none of the types can be subclassed. */
#define STATE(self) ((struct state *)PyType_GetModuleState(Py_TYPE((PyObject *)(self))))

/*
 * A model with those who use it: threads in the library that do not hold the GIL, arrays, maps.
 * close() leaves closing to the last of them. COUNT and CLOSED are only touched with the GIL.
 */
struct model {
	PyObject_HEAD struct ckpt_model *model; /* NULL: closed */
	size_t users;
	bool closed;
	bool has_buffer;
	Py_buffer buffer; /* of a model in memory */
	PyObject *base;	  /* of an edited one: the Model whose memory and functions it needs */
	PyObject *keep;	  /* of one that was built: what its storages need; or NULL */
	/* of one that a Python function reads: a list with what it raised last; or NULL */
	PyObject *failures;
};

/* NULL, and ValueError, if it is closed. Otherwise it stays open until ckpt_py_model_drop(). */
struct ckpt_model *ckpt_py_model_use(struct model *self);
void ckpt_py_model_drop(struct model *self);

/* A Model without a model; BASE: what it was made of, or NULL. */
struct model *ckpt_py_model_new(struct state *state, struct model *base);

/* Raise what ERR says; RC is its status, or that of a failure without a text. Returns NULL. */
PyObject *ckpt_py_raise(struct state *state, const struct ckpt_error *err, int rc);

/* ckpt_py_raise(), unless a function of Python's, which MODEL is read with, raised something. */
PyObject *ckpt_py_raise_for(struct model *self, const struct ckpt_error *err, int rc);

/* Text as a pickle may have it: half of a pair of surrogates, or broken bytes, are kept. */
PyObject *ckpt_py_text(const char *bytes, size_t len);

/* The bytes of NAME, a str or bytes, with a NUL at their end, as an object. */
PyObject *ckpt_py_name(PyObject *name);

/* A bytearray of LEN bytes that are not set. */
PyObject *ckpt_py_bytearray(size_t len);

/* Wrap ARRAY, which it takes, also on failure. */
PyObject *ckpt_py_array_new(struct model *owner, struct ckpt_array *array);

/*
 * What the library tells while it works without the GIL, and the thread that called it. It stops if
 * a signal, or FUNCTION, raised something.
 */
struct progress {
	PyThreadState *thread; /* of the caller: PyEval_SaveThread() */
	PyObject *function;    /* or NULL: only signals are looked at */
};
int ckpt_py_progress(struct progress *progress, uint64_t done, uint64_t total);

/* Methods of Model in other files than _model.c. */
PyObject *ckpt_py_build(PyObject *self, PyObject *args);
PyObject *ckpt_py_table(PyObject *self, PyObject *none);
PyObject *ckpt_py_storage_info(PyObject *self, PyObject *index);
PyObject *ckpt_py_storage_map(PyObject *self, PyObject *index);
PyObject *ckpt_py_read_storages(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *ckpt_py_open_array(PyObject *self, PyObject *args);

PyObject *ckpt_py_edit(PyObject *self, PyObject *args);
PyObject *ckpt_py_cast_losses(PyObject *self, PyObject *none);
PyObject *ckpt_py_save(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *ckpt_py_save_in_place(PyObject *self, PyObject *args, PyObject *kwargs);

extern PyType_Spec ckpt_py_model_spec, ckpt_py_array_spec, ckpt_py_map_spec, ckpt_py_builder_spec;

/* Functions of the module that make models. */
PyObject *ckpt_py_open(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *ckpt_py_open_memory(PyObject *module, PyObject *args);
PyObject *ckpt_py_open_reader(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *ckpt_py_builder(PyObject *module, PyObject *none);

/* Functions of the module that scan. */
PyObject *ckpt_py_scan(PyObject *module, PyObject *args);
PyObject *ckpt_py_scan_refusals(PyObject *module, PyObject *args);

#endif
