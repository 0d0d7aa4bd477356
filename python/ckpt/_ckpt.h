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

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

/* What the module keeps: one per interpreter, nothing is global. */
struct state {
	PyTypeObject *model, *array, *map, *builder;
	PyObject *make_error; /* ckpt._errors.make() */
	PyObject *at_path;    /* ckpt._errors.at_path() */
	/* of _collector.c: those of gc, what there was before, and how many wait for it now */
	PyObject *get_threshold, *set_threshold, *thresholds;
	size_t paused;
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
	PyObject *source; /* the path that it was opened by, a str; or NULL */
	PyObject *base;	  /* of an edited one: the Model whose memory and functions it needs */
	PyObject *keep;	  /* of one that was built: what its storages need; or NULL */
	/* of one that a Python function reads: a list with what it raised last; or NULL */
	PyObject *failures;
	const PyObject *file; /* ... and which file that is: an address, which is not used; or NULL */
};

/*
 * Whether this thread may read SELF. False, and an exception: it is in a function of Python's that reads it, as the
 * handler of a signal may be.
 */
bool ckpt_py_model_may_read(const struct model *self);

/* NULL, and ValueError, if it is closed, or what ckpt_py_model_may_read() says. Otherwise it stays open until ckpt_py_model_drop(). */
struct ckpt_model *ckpt_py_model_use(struct model *self);
void ckpt_py_model_drop(struct model *self);

/* Of MODEL, which is in use. The first to ask may have to wait. False: raised. */
bool ckpt_py_list_tensors(struct model *self, const struct ckpt_model *model);

/* A Model without a model; BASE: what it was made of, or NULL. */
struct model *ckpt_py_model_new(struct state *state, struct model *base);

/* Raise what ERR says; RC is its status, or that of a failure without a text. Returns NULL. */
PyObject *ckpt_py_raise(struct state *state, const struct ckpt_error *err, int rc);

/*
 * ckpt_py_raise(), unless a function of Python's, which SELF is read with, raised something. An error that names no path
 * gets that of SELF if it is about what is in the file.
 */
PyObject *ckpt_py_raise_for(struct model *self, const struct ckpt_error *err, int rc);

/* The same where SELF is one of several, and the error may be about another. */
PyObject *ckpt_py_raise_for_one_of(struct model *self, const struct ckpt_error *err, int rc);

/* Text as a pickle may have it: half of a pair of surrogates, or broken bytes, are kept. */
PyObject *ckpt_py_text(const char *bytes, size_t len);

/* A str of the path whose bytes PATH has. */
PyObject *ckpt_py_path(PyObject *path);

/* The bytes of NAME, a str or bytes, with a NUL at their end, as an object. */
PyObject *ckpt_py_name(PyObject *name);

/* A bytearray of LEN bytes that are not set. */
PyObject *ckpt_py_bytearray(size_t len);

/* Wrap ARRAY, which it takes, also on failure. */
PyObject *ckpt_py_array_new(struct model *owner, struct ckpt_array *array);

/* Texts of a list, until ckpt_py_words_clear(), also after a failure. Begins as zeros. */
struct words {
	const char **items; /* malloc; NULL stands for None */
	size_t count;
	PyObject *bytes; /* a list that owns them */
};

/* Take the texts of LIST, a sequence; of the first NONE of them, each may be None. */
bool ckpt_py_words_take(PyObject *list, size_t none, struct words *words);
void ckpt_py_words_clear(struct words *words);

/* Of the first two of WORDS, which borrow: `as`, and the text of config.json; each may be NULL. */
struct ckpt_quant_options ckpt_py_quant_options(const struct words *words);

/*
 * A call of the library that tells how far it is and what it finds, in the caller's thread, which
 * does not hold the GIL meanwhile: ckpt_py_work_begin(), the call, ckpt_py_work_end(). It stops if a
 * signal, or FUNCTION, raised something, which is to be raised instead of CKPT_E_CANCELLED then.
 */
struct work {
	PyThreadState *thread;
	PyObject *function; /* called with bytes (done, total); NULL: only signals are looked at */
	pid_t pid;	    /* which process has the threads */
	int cancel;	    /* for `cancel` of the options */
	PyObject *list;	    /* of what is found; owned; NULL: nothing is kept */
};

/* Raise that this process was forked while a call ran, whose threads it does not have, unless there is an exception. */
void ckpt_py_raise_forked(void);

/* FUNCTION may be None. False, and an exception, if there is no memory. */
bool ckpt_py_work_begin(struct work *work, PyObject *function);
void ckpt_py_work_end(struct work *work);

/* For `progress`, with a struct work as its `ctx`. */
void ckpt_py_work_progress(void *work, uint64_t done, uint64_t total);

/* The same for those that return a status. */
int ckpt_py_work_tell(void *work, uint64_t done, uint64_t total);

/* Put what MAKE makes of WHAT into the list. Returns 0, or a status that ends the call. */
int ckpt_py_work_add(struct work *work, PyObject *(*make)(const void *what), const void *what);

/* What a task asks its caller: to put what MAKE makes of WHAT into the list, or to tell the progress. */
struct task_question {
	PyObject *(*make)(const void *what); /* NULL: progress */
	const void *what;
	uint64_t done, total;
};

/*
 * A call of the library that writes, made by a thread of its own, which Ctrl-C need not wait for. It
 * is the first member of a struct from malloc() with all that the call needs; FREE gives that back,
 * with the GIL, in whichever thread is the last to need it.
 */
struct task {
	void (*call)(struct task *task); /* in the thread, without the GIL */
	void (*free)(struct task *task); /* also the struct itself */
	bool stays; /* it is waited for: it changes what has a name already, or no signal ends it */
	PyObject *function, *list; /* as of struct work; owned */
	int cancel;		   /* for `cancel` of the options */

	pthread_mutex_t lock; /* for the rest */
	pthread_cond_t changed;
	struct task_question *question; /* NULL: none */
	bool is_naming; /* the output gets its name */
	bool ended, left; /* LEFT: the caller waits no more */
	pid_t pid;	  /* which process has the thread */
};

/*
 * Begin TASK, which has its functions and is zero otherwise. FUNCTION may be None. False, and an
 * exception, if there is no memory: then the caller frees it.
 */
bool ckpt_py_task_init(struct task *task, PyObject *function);

/*
 * Make the call. True: it is done; if an exception is set, that is to be raised and not its error.
 * ckpt_py_task_free() follows. False: an exception is set, and the task is not the caller's any more.
 */
bool ckpt_py_task_run(struct task *task);
void ckpt_py_task_free(struct task *task);

/* For `progress` and `naming` of the options, with the task as their `ctx`. */
void ckpt_py_task_progress(void *task, uint64_t done, uint64_t total);
int ckpt_py_task_naming(void *task, enum ckpt_naming what);

/* As ckpt_py_work_add(), from the call. */
int ckpt_py_task_add(struct task *task, PyObject *(*make)(const void *what), const void *what);

/* Until the threads are done that Ctrl-C did not wait for. */
PyObject *ckpt_py_wait_for_tasks(PyObject *module, PyObject *none);

/* dict[KEY] = VALUE, which it takes. NULL, or no DICT: nothing, an exception is set already. */
void ckpt_py_put(PyObject *dict, const char *key, PyObject *value);

/* Append ITEM, which it takes, to *LIST. On failure, or without an ITEM, *LIST is NULL then. */
void ckpt_py_append(PyObject **list, PyObject *item);

/* A str of what is not NULL. */
PyObject *ckpt_py_string(const char *text);

/* For O& of PyArg_ParseTuple(): an unsigned int. ValueError: it is negative, or too large. */
int ckpt_py_take_unsigned(PyObject *number, void *to);
int ckpt_py_take_uint64(PyObject *number, void *to); /* ... a uint64_t */

/* A list of COUNT numbers. */
PyObject *ckpt_py_numbers(const uint64_t *numbers, uint64_t count);

/* DICT, unless an exception is set: then NULL, and it is released. */
PyObject *ckpt_py_finished(PyObject *dict);

/* What an edit did, as a dict. */
PyObject *ckpt_py_edit_report(const struct ckpt_edit_report *report);

/* Methods of Model in other files than _model.c. */
PyObject *ckpt_py_build(PyObject *self, PyObject *args);
PyObject *ckpt_py_table(PyObject *self, PyObject *none);
PyObject *ckpt_py_walk(PyObject *self, PyObject *args);
PyObject *ckpt_py_show(PyObject *self, PyObject *args);
PyObject *ckpt_py_storage_info(PyObject *self, PyObject *index);
PyObject *ckpt_py_storage_map(PyObject *self, PyObject *index);
PyObject *ckpt_py_read_storages(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *ckpt_py_open_array(PyObject *self, PyObject *args);

PyObject *ckpt_py_edit(PyObject *self, PyObject *args);
PyObject *ckpt_py_cast_losses(PyObject *self, PyObject *none);
PyObject *ckpt_py_quantized(PyObject *self, PyObject *args);
PyObject *ckpt_py_diff(PyObject *self, PyObject *args);
PyObject *ckpt_py_stat(PyObject *self, PyObject *args);
PyObject *ckpt_py_add_file(PyObject *self, PyObject *path);
PyObject *ckpt_py_save(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *ckpt_py_save_in_place(PyObject *self, PyObject *args, PyObject *kwargs);

extern PyType_Spec ckpt_py_model_spec, ckpt_py_array_spec, ckpt_py_map_spec, ckpt_py_builder_spec;

/* Functions of the module that make models. */
PyObject *ckpt_py_open(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *ckpt_py_open_memory(PyObject *module, PyObject *args);
PyObject *ckpt_py_open_reader(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *ckpt_py_open_descriptor(PyObject *module, PyObject *args);
PyObject *ckpt_py_builder(PyObject *module, PyObject *none);
PyObject *ckpt_py_repair_open(PyObject *module, PyObject *args);
PyObject *ckpt_py_average(PyObject *module, PyObject *args);

PyObject *ckpt_py_reindex(PyObject *module, PyObject *args);

/* Functions of the module that say something of a path. */
PyObject *ckpt_py_verify(PyObject *module, PyObject *args);
PyObject *ckpt_py_why(PyObject *module, PyObject *args);
PyObject *ckpt_py_scan_report(PyObject *module, PyObject *args);
PyObject *ckpt_py_scan(PyObject *module, PyObject *args);
/* The collector of garbage leaves alone what is made from here on, to ckpt_py_resume_collector(). False: raised. */
bool ckpt_py_pause_collector(struct state *state);
void ckpt_py_resume_collector(struct state *state);
PyObject *ckpt_py_collector_after_fork(PyObject *module, PyObject *none);
PyObject *ckpt_py_refusals(PyObject *object, PyObject *none);

#endif
