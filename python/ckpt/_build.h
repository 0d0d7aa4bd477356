/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files that make objects of nodes share. */
#ifndef CKPT_PYTHON_BUILD_H
#define CKPT_PYTHON_BUILD_H

#include "_ckpt.h"

struct entry {
	const struct ckpt_node *node; /* NULL: free */
	PyObject *object;	      /* owned; NULL: it is being made ... */
	/* steps of its hash(), which tuples do not keep: ((((), ()), ...), ...) doubles them each time */
	uint64_t hash_steps;
	uint64_t mark; /* ... and so many were made when that was begun last */
};

/* What most storages have in common. */
struct text {
	const char *bytes; /* borrowed from the model */
	PyObject *object;
};

struct build {
	struct model *self;
	struct ckpt_model *model;
	struct entry *entries; /* a power of 2 of them, at most half of them in use */
	uint64_t room, used;
	uint64_t made; /* entries with an object */
	struct frame *frames;
	size_t depth, frame_room;
	unsigned restarts;
	uint64_t hashed; /* see MOST_HASHED */
	uint64_t steps;
	bool calls, in_order;
	struct ckpt_node_rebuild how; /* of rebuilt_of() */
	struct text dtype, device;    /* of the last storage */
	PyObject *hooks;
	PyObject *ordered_dict, *default_dict, *counter;
	PyObject *tensor, *array, *storage, *rebuilt, *global, *call, *fill, *factory, *size, *other;
};

/* Raise TEXT. Returns -1. */
int ckpt_py_build_fail(struct build *b, int status, const char *text);

/* Borrowed: the object of NODE; NULL: it is not made yet. */
PyObject *ckpt_py_build_made(const struct build *b, const struct ckpt_node *node);

/* OBJECT, which it takes, is that of NODE. -1: raised, also if it is NULL. */
int ckpt_py_build_remember(struct build *b, const struct ckpt_node *node, PyObject *object);

/* The tensor NODE at once, without the nodes that it is made of. *IS_OTHER: it is made in another way. */
PyObject *ckpt_py_build_rebuilt(struct build *b, const struct ckpt_node *node, bool *is_other);

/* A tensor or an array of numpy as one value. *IS_CALL: it can only be made by its call. */
PyObject *ckpt_py_build_values(struct build *b, const struct ckpt_node *node, enum ckpt_node_kind kind, bool *is_call);

/* What has no parts. */
PyObject *ckpt_py_build_atom(struct build *b, const struct ckpt_node *node, const struct ckpt_node_info *info);

#endif
