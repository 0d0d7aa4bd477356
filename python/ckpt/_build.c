/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of <ckpt/node.h> become objects of Python. What is plain is made here; everything else is
 * made by the methods of an object HOOKS, so that one walker serves all who load:
 *
 *	calls			whether tensors and arrays of numpy are calls, too, and texts have to be UTF-8
 *	tensor(index)		a tensor of the table
 *	array(array, kind)	a tensor that is not in the table; an array or scalar of numpy
 *	storage(index, dtype, key, device, numel)
 *	global_(module, name)	a class, function or constant
 *	call(callable, args, kwargs or None, is_new)
 *	fill(object, items, pairs, state, setter)   what was made by a call; STATE is () or (state,)
 *	factory(global or None)	of a defaultdict
 *	size			what makes a torch.Size of a tuple; None: it stays a tuple
 *	other(kind, value)	"extension" and its code, "missing" and why, "persistent" and the id
 *
 * What must stay true: one node becomes one object. Nothing recurses, so that no file decides how
 * deep the stack of C gets; and depth has a limit, as hash() of a tuple in a tuple does recurse.
 *
 * Containers that can change exist before what is in them, so that cycles through them close.
 * Tuples, frozensets and calls need their parts first. If such a part needs the tuple itself, in a
 * list say, the tuple is begun once more, now that there is the list, as pickle does it.
 */
#include "_ckpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FRAMES = 10000, MOST_RESTARTS = 10000, SIGNALS_EVERY = 4096 };

/* Steps of hash() for keys and items of sets, all together, beyond one for each. */
enum { MOST_HASHED = 1 << 26 };

enum stage { CREATE, FILL };

/* How an object is made. */
enum how {
	ATOM, /* at once, of the node alone */
	LIST,
	TUPLE,
	SET,
	FROZENSET,
	DICT,
	CALL,
	OTHER, /* of a persistent id */
};

struct frame {
	const struct ckpt_node *node;
	PyObject *object; /* from FILL on; borrowed from the memo */
	uint64_t next;	  /* child */
	uint64_t item_count, pair_count;
	const char *class_name;
	enum how how;
	enum stage stage;
	bool is_new;
};

struct entry {
	const struct ckpt_node *node; /* NULL: free */
	PyObject *object;	      /* owned; NULL: it is being made ... */
	/* steps of its hash(), which tuples do not keep: ((((), ()), ...), ...) doubles them each time */
	uint64_t hash_steps;
	uint64_t mark; /* ... and so many were made when that was begun last */
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
	bool calls;
	PyObject *hooks;
	PyObject *ordered_dict, *default_dict, *counter;
	PyObject *tensor, *array, *storage, *global, *call, *fill, *factory, *size, *other;
};

static int fail(struct build *b, int status, const char *text)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	PyErr_Clear();
	err.status = status;
	snprintf(err.text, sizeof(err.text), "%s", text);
	ckpt_py_raise(STATE(b->self), &err, status);
	return -1;
}

/* ---- the memo ---- */

static uint64_t slot_of(const struct build *b, const struct ckpt_node *node)
{
	uint64_t at = ((uint64_t)(uintptr_t)node >> 3) * 0x9e3779b97f4a7c15u;

	for (at = (at >> 20) & (b->room - 1);; at = (at + 1) & (b->room - 1))
		if (!b->entries[at].node || b->entries[at].node == node)
			return at;
}

/* The entry of NODE, made if there is none; NULL: no memory. It moves with the next one. */
static struct entry *entry_of(struct build *b, const struct ckpt_node *node)
{
	struct entry *entry, *old = b->entries;
	uint64_t old_room = b->room;

	if (2 * (b->used + 1) > b->room) {
		uint64_t room = b->room ? 2 * b->room : 256;
		struct entry *entries = calloc(room, sizeof(*entries));

		if (!entries) {
			PyErr_NoMemory();
			return NULL;
		}
		b->entries = entries;
		b->room = room;
		for (uint64_t i = 0; i < old_room; i++)
			if (old[i].node)
				entries[slot_of(b, old[i].node)] = old[i];
		free(old);
	}
	entry = &b->entries[slot_of(b, node)];
	if (!entry->node) {
		*entry = (struct entry){ .node = node, .mark = UINT64_MAX };
		b->used++;
	}
	return entry;
}

/* Borrowed; NULL: it is not made yet. */
static PyObject *made(const struct build *b, const struct ckpt_node *node)
{
	return node && b->room ? b->entries[slot_of(b, node)].object : NULL;
}

/* Takes OBJECT. */
static int remember(struct build *b, const struct ckpt_node *node, PyObject *object)
{
	struct entry *entry = object ? entry_of(b, node) : NULL;

	if (!entry) {
		Py_XDECREF(object);
		return -1;
	}
	entry->object = object;
	entry->hash_steps = 1;
	b->made++;
	return 0;
}

/* ---- what is made of a node alone ---- */

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
	return object;
}

static PyObject *storage_of(struct build *b, const struct ckpt_node_info *info)
{
	struct ckpt_storage_info storage = CKPT_STORAGE_INFO_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	Py_BEGIN_ALLOW_THREADS rc =
		ckpt_storage_get(b->model, (uint64_t)info->integer, &storage, &err);
	Py_END_ALLOW_THREADS if (rc < 0) return ckpt_py_raise_for(b->self, &err, rc);
	return PyObject_CallFunction(b->storage, "LNNNK", (long long)info->integer,
				     ckpt_py_string(info->bytes ? info->bytes : ""), ckpt_py_string(storage.key),
				     ckpt_py_string(storage.device),
				     (unsigned long long)storage.numel);
}

/* A tensor or an array of numpy as one value. *IS_CALL: it can only be made by its call. */
static PyObject *values_of(struct build *b, const struct ckpt_node *node, enum ckpt_node_kind kind,
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
		fail(b, CKPT_E_FORMAT, "a text is not UTF-8");
	return text;
}

static PyObject *atom_of(struct build *b, const struct ckpt_node *node,
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
		fail(b, CKPT_E_UNSUPPORTED, "an object of a kind that this module does not know");
		return NULL;
	}
}

static enum how how_of(const struct build *b, const struct ckpt_node *node,
		       const struct ckpt_node_info *info)
{
	switch (info->kind) {
	case CKPT_NODE_LIST: return LIST;
	case CKPT_NODE_TUPLE: return TUPLE;
	case CKPT_NODE_SET: return SET;
	case CKPT_NODE_FROZENSET: return FROZENSET;
	case CKPT_NODE_DICT: return DICT;
	case CKPT_NODE_OBJECT: return CALL;
	case CKPT_NODE_OTHER: return OTHER;
	case CKPT_NODE_TENSOR:
	case CKPT_NODE_NDARRAY:
	case CKPT_NODE_SCALAR:
		/* tensors of formats without pickles are made by no call */
		return b->calls && ckpt_node_part(b->model, node, CKPT_PART_CALLABLE) ? CALL : ATOM;
	default: return ATOM;
	}
}

/* ---- what has parts ---- */

/* Part I of what FRAME is at; NULL with *END false: there is no such part. */
static const struct ckpt_node *child(const struct build *b, const struct frame *f, uint64_t i,
				     bool *end)
{
	static const enum ckpt_node_part parts[] = { CKPT_PART_CALLABLE, CKPT_PART_ARGS,
						     CKPT_PART_KWARGS };
	bool tuple = f->how == TUPLE || f->how == FROZENSET;

	*end = false;
	if (f->stage == CREATE) {
		if (tuple && i < f->item_count)
			return ckpt_node_item(b->model, f->node, i);
		if (f->how == CALL && i < 3)
			return ckpt_node_part(b->model, f->node, parts[i]);
		if ((f->how == DICT || f->how == OTHER) && i == 0)
			return ckpt_node_part(b->model, f->node, CKPT_PART_ARGS);
	} else if (!tuple && f->how != OTHER) {
		if (i < f->item_count)
			return ckpt_node_item(b->model, f->node, i);
		i -= f->item_count;
		if (i < 2 * f->pair_count)
			return i % 2 ? ckpt_node_value(b->model, f->node, i / 2)
				     : ckpt_node_key(b->model, f->node, i / 2);
		i -= 2 * f->pair_count;
		if (i == 0)
			return ckpt_node_part(b->model, f->node, CKPT_PART_STATE);
		if (i == 1)
			return ckpt_node_part(b->model, f->node, CKPT_PART_SETTER);
	}
	*end = true;
	return NULL;
}

static PyObject *made_part(const struct build *b, const struct frame *f, enum ckpt_node_part part)
{
	return made(b, ckpt_node_part(b->model, f->node, part));
}

/* Borrowed: item I, which is made. */
static PyObject *item_of(const struct build *b, const struct frame *f, uint64_t i)
{
	PyObject *item = made(b, ckpt_node_item(b->model, f->node, i));

	return item ? item : PyErr_NoMemory();
}

static PyObject *tuple_of(struct build *b, const struct frame *f)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)f->item_count), *item, *size;

	for (uint64_t i = 0; tuple && i < f->item_count; i++) {
		item = item_of(b, f, i);
		if (!item || PyTuple_SetItem(tuple, (Py_ssize_t)i, Py_NewRef(item)) < 0)
			Py_CLEAR(tuple);
	}
	if (tuple && b->size != Py_None && f->class_name && !strcmp(f->class_name, "Size")) {
		size = PyObject_CallFunctionObjArgs(b->size, tuple, NULL);
		Py_DECREF(tuple);
		tuple = size;
	}
	return tuple;
}

static uint64_t hash_steps_of(const struct build *b, const struct ckpt_node *node)
{
	return node ? b->entries[slot_of(b, node)].hash_steps : 1;
}

/* The tuple of FRAME was made: what its hash() costs. */
static void count_hash_steps(struct build *b, const struct frame *f)
{
	uint64_t steps = 1;

	for (uint64_t i = 0; i < f->item_count && steps <= MOST_HASHED; i++)
		steps += hash_steps_of(b, ckpt_node_item(b->model, f->node, i));
	b->entries[slot_of(b, f->node)].hash_steps = steps;
}

/* NODE becomes a key or is put into a set: is that little enough work? */
static bool may_hash(struct build *b, const struct ckpt_node *node)
{
	b->hashed += hash_steps_of(b, node) - 1;
	if (b->hashed <= MOST_HASHED)
		return true;
	fail(b, CKPT_E_LIMIT, "keys are tuples of too many items");
	return false;
}

/* What a set or dict does not take is the file's mistake. */
static int refuse_key(struct build *b)
{
	if (PyErr_ExceptionMatches(PyExc_TypeError))
		return fail(b, CKPT_E_FORMAT, "a key, or an item of a set, is unhashable");
	if (PyErr_ExceptionMatches(PyExc_RecursionError))
		return fail(b, CKPT_E_LIMIT, "keys are nested too deep to be compared");
	return -1;
}

static int fill_set(struct build *b, const struct frame *f, PyObject *set)
{
	for (uint64_t i = 0; i < f->item_count; i++) {
		PyObject *item = item_of(b, f, i);

		if (!item || !may_hash(b, ckpt_node_item(b->model, f->node, i)))
			return -1;
		if (PySet_Add(set, item) < 0)
			return refuse_key(b);
	}
	return 0;
}

static PyObject *dict_of(struct build *b, const struct frame *f)
{
	PyObject *args, *factory, *dict;

	if (!f->class_name || !strcmp(f->class_name, "dict"))
		return PyDict_New();
	if (!strcmp(f->class_name, "OrderedDict"))
		return PyObject_CallNoArgs(b->ordered_dict);
	if (!strcmp(f->class_name, "Counter"))
		return PyObject_CallNoArgs(b->counter);
	if (strcmp(f->class_name, "defaultdict") != 0)
		return PyDict_New();
	args = made_part(b, f, CKPT_PART_ARGS);
	factory = args && PyTuple_Check(args) && PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0)
									: Py_None;
	factory = PyObject_CallFunctionObjArgs(b->factory, factory, NULL);
	if (!factory)
		return NULL;
	dict = PyObject_CallFunctionObjArgs(b->default_dict, factory, NULL);
	Py_DECREF(factory);
	return dict;
}

static PyObject *call_of(struct build *b, const struct frame *f)
{
	PyObject *callable = made_part(b, f, CKPT_PART_CALLABLE);
	PyObject *args = made_part(b, f, CKPT_PART_ARGS),
		 *kwargs = made_part(b, f, CKPT_PART_KWARGS);

	return PyObject_CallFunction(b->call, "OOOO", callable ? callable : Py_None,
				     args ? args : Py_None, kwargs ? kwargs : Py_None,
				     f->is_new ? Py_True : Py_False);
}

/* All that FRAME needs first is made: a new reference to the object. */
static PyObject *create(struct build *b, const struct frame *f)
{
	PyObject *object, *args;

	switch (f->how) {
	case LIST: return PyList_New(0);
	case TUPLE: return tuple_of(b, f);
	case SET: return PySet_New(NULL);
	case FROZENSET:
		object = PyFrozenSet_New(NULL); /* it may grow while nobody else has it */
		if (object && fill_set(b, f, object) < 0)
			Py_CLEAR(object);
		return object;
	case DICT: return dict_of(b, f);
	case CALL: return call_of(b, f);
	default:
		args = made_part(b, f, CKPT_PART_ARGS);
		return PyObject_CallFunction(b->other, "sO", "persistent", args ? args : Py_None);
	}
}

static int fill_dict(struct build *b, const struct frame *f)
{
	PyObject *state, *attributes;
	bool plain = !f->class_name || !strcmp(f->class_name, "dict");

	for (uint64_t i = 0; i < f->pair_count; i++) {
		PyObject *key = made(b, ckpt_node_key(b->model, f->node, i));
		PyObject *value = made(b, ckpt_node_value(b->model, f->node, i));

		if (!key || !value) {
			PyErr_NoMemory();
			return -1;
		}
		if (!may_hash(b, ckpt_node_key(b->model, f->node, i)))
			return -1;
		if ((plain ? PyDict_SetItem(f->object, key, value)
			   : PyObject_SetItem(f->object, key, value)) < 0)
			return refuse_key(b);
	}
	state = made_part(b, f, CKPT_PART_STATE);
	if (!state || !PyDict_Check(state) || plain)
		return 0;
	attributes = PyObject_GetAttrString(f->object, "__dict__"); /* as that of an OrderedDict */
	if (!attributes || PyDict_Update(attributes, state) < 0)
		PyErr_Clear();
	Py_XDECREF(attributes);
	return 0;
}

static int fill_call(struct build *b, const struct frame *f)
{
	PyObject *items, *pairs, *state, *setter, *result = NULL;
	uint64_t i;

	state = made_part(b, f, CKPT_PART_STATE);
	setter = made_part(b, f, CKPT_PART_SETTER);
	if (!f->item_count && !f->pair_count && !state)
		return 0;
	items = PyList_New(0);
	pairs = PyList_New(0);
	for (i = 0; items && i < f->item_count; i++) {
		PyObject *item = item_of(b, f, i);

		if (!item || PyList_Append(items, item) < 0)
			Py_CLEAR(items);
	}
	for (i = 0; pairs && i < f->pair_count; i++) {
		PyObject *key = made(b, ckpt_node_key(b->model, f->node, i));
		PyObject *value = made(b, ckpt_node_value(b->model, f->node, i));

		ckpt_py_append(&pairs,
			       key && value ? PyTuple_Pack(2, key, value) : PyErr_NoMemory());
	}
	if (items && pairs) {
		PyObject *tuple = state ? PyTuple_Pack(1, state) : PyTuple_New(0);

		result = tuple ? PyObject_CallFunction(b->fill, "OOOOO", f->object, items, pairs,
						       tuple, setter ? setter : Py_None)
			       : NULL;
		Py_XDECREF(tuple);
	}
	Py_XDECREF(items);
	Py_XDECREF(pairs);
	Py_XDECREF(result);
	return result ? 0 : -1;
}

static int fill(struct build *b, const struct frame *f)
{
	switch (f->how) {
	case LIST:
		for (uint64_t i = 0; i < f->item_count; i++) {
			PyObject *item = item_of(b, f, i);

			if (!item || PyList_Append(f->object, item) < 0)
				return -1;
		}
		return 0;
	case SET: return fill_set(b, f, f->object);
	case DICT: return fill_dict(b, f);
	case CALL: return fill_call(b, f);
	default: return 0;
	}
}

/* ---- the walk ---- */

/* Begin NODE, which is made of parts. */
static int push(struct build *b, const struct ckpt_node *node, const struct ckpt_node_info *info,
		enum how how)
{
	struct entry *entry = entry_of(b, node);

	if (!entry)
		return -1;
	/* begun before: then something must have been made since, or it never ends */
	if (entry->mark == b->made)
		return fail(b, CKPT_E_FORMAT,
			    "a tuple, or arguments of a call, contain themselves");
	if (entry->mark != UINT64_MAX && ++b->restarts > MOST_RESTARTS)
		return fail(b, CKPT_E_LIMIT, "too many tuples contain themselves");
	entry->mark = b->made;
	if (b->depth >= MOST_FRAMES)
		return fail(b, CKPT_E_LIMIT, "objects are nested deeper than 10000 levels");
	if (b->depth == b->frame_room) {
		size_t room = b->frame_room ? 2 * b->frame_room : 64;
		struct frame *frames = realloc(b->frames, room * sizeof(*frames));

		if (!frames) {
			PyErr_NoMemory();
			return -1;
		}
		b->frames = frames;
		b->frame_room = room;
	}
	b->frames[b->depth++] = (struct frame){
		.node = node,
		.item_count = info->item_count,
		.pair_count = info->pair_count,
		.class_name = info->class_name,
		.how = how,
		.is_new = info->is_new,
	};
	return 0;
}

/* NODE is needed: make it, or begin it. */
static int visit(struct build *b, const struct ckpt_node *node)
{
	struct ckpt_node_info info = CKPT_NODE_INFO_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	PyObject *object;
	enum how how;
	bool is_call = false;
	int rc = ckpt_node_get(b->model, node, &info, &err);

	if (rc < 0) {
		ckpt_py_raise_for(b->self, &err, rc);
		return -1;
	}
	how = how_of(b, node, &info);
	if (how != ATOM)
		return push(b, node, &info, how);
	if (info.kind == CKPT_NODE_TENSOR || info.kind == CKPT_NODE_NDARRAY ||
	    info.kind == CKPT_NODE_SCALAR)
		object = values_of(b, node, info.kind, &is_call);
	else
		object = atom_of(b, node, &info);
	if (is_call)
		return push(b, node, &info, CALL);
	if (remember(b, node, object) < 0)
		return -1;
	if (info.kind == CKPT_NODE_LONG) /* nor do integers keep theirs */
		b->entries[slot_of(b, node)].hash_steps += info.nbytes / 8;
	return 0;
}

/* All children of the frame on top are there. */
static int finish_stage(struct build *b)
{
	struct frame *f = &b->frames[b->depth - 1];
	PyObject *object;

	if (f->stage == FILL) {
		b->depth--;
		return fill(b, f);
	}
	object = create(b, f);
	if (!object || remember(b, f->node, object) < 0)
		return -1;
	if (f->how == TUPLE)
		count_hash_steps(b, f);
	f->object = object;
	f->stage = FILL;
	f->next = 0;
	return 0;
}

static int step(struct build *b)
{
	struct frame *f = &b->frames[b->depth - 1];
	const struct ckpt_node *node;
	bool end;

	if (f->stage == CREATE && made(b, f->node)) { /* by another frame, which began later */
		b->depth--;
		return 0;
	}
	do
		node = child(b, f, f->next++, &end);
	while (!end && (!node || made(b, node)));
	return end ? finish_stage(b) : visit(b, node);
}

static bool get_hooks(struct build *b)
{
	const struct {
		const char *name;
		PyObject **to;
	} names[] = {
		{ "tensor", &b->tensor },   { "array", &b->array }, { "storage", &b->storage },
		{ "global_", &b->global },  { "call", &b->call },   { "fill", &b->fill },
		{ "factory", &b->factory }, { "size", &b->size },   { "other", &b->other },
	};
	PyObject *calls = PyObject_GetAttrString(b->hooks, "calls");
	PyObject *collections = calls ? PyImport_ImportModule("collections") : NULL;
	bool ok = collections != NULL;

	for (size_t i = 0; ok && i < sizeof(names) / sizeof(names[0]); i++) {
		*names[i].to = PyObject_GetAttrString(b->hooks, names[i].name);
		ok = *names[i].to != NULL;
	}
	if (ok) {
		b->calls = PyObject_IsTrue(calls) > 0;
		b->ordered_dict = PyObject_GetAttrString(collections, "OrderedDict");
		b->default_dict = PyObject_GetAttrString(collections, "defaultdict");
		b->counter = PyObject_GetAttrString(collections, "Counter");
		ok = b->ordered_dict && b->default_dict && b->counter;
	}
	Py_XDECREF(calls);
	Py_XDECREF(collections);
	return ok;
}

static void clear(struct build *b)
{
	PyObject *const objects[] = { b->tensor, b->array,	  b->storage,	   b->global,
				      b->call,	 b->fill,	  b->factory,	   b->size,
				      b->other,	 b->ordered_dict, b->default_dict, b->counter };

	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
		Py_XDECREF(objects[i]);
	for (uint64_t i = 0; i < b->room; i++)
		Py_XDECREF(b->entries[i].object);
	free(b->entries);
	free(b->frames);
}

static PyObject *build(struct build *b, const struct ckpt_node *root)
{
	int rc = visit(b, root);

	while (rc == 0 && b->depth > 0) {
		rc = step(b);
		if (rc == 0 && ++b->steps % SIGNALS_EVERY == 0)
			rc = PyErr_CheckSignals();
	}
	return rc == 0 ? Py_XNewRef(made(b, root)) : NULL;
}

PyObject *ckpt_py_build(PyObject *object, PyObject *args)
{
	struct model *self = (struct model *)object;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct build b = { .self = self };
	const struct ckpt_node *root;
	PyObject *name, *bytes, *result = NULL;
	int rc;

	if (!PyArg_ParseTuple(args, "OO", &name, &b.hooks))
		return NULL;
	bytes = ckpt_py_name(name);
	b.model = bytes ? ckpt_py_model_use(self) : NULL;
	if (b.model) {
		const char *path = PyBytes_AsString(bytes);

		Py_BEGIN_ALLOW_THREADS rc = ckpt_node_find(b.model, path, &root, &err);
		Py_END_ALLOW_THREADS if (rc < 0) ckpt_py_raise_for(self, &err, rc);
		else if (get_hooks(&b)) result = build(&b, root);
		clear(&b);
		ckpt_py_model_drop(self);
	}
	Py_XDECREF(bytes);
	return result;
}
