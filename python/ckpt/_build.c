/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of <ckpt/node.h> become objects of Python. What is plain is made here; everything else is
 * made by the methods of an object HOOKS, so that one walker serves all who load:
 *
 *	in_order		whether nodes are met as the pickle has them: else a call that needs itself is an error, as
 *				what it is given may lack what comes into it behind its first place
 *	calls			whether tensors and arrays of numpy are calls, too, and texts have to be UTF-8
 *	tensor(index)		a tensor of the table
 *	array(array, kind)	a tensor that is not in the table; an array or scalar of numpy
 *	storage(index, dtype, device, numel, is_cut)	IS_CUT: its record is longer
 *	rebuilt(storage, offset, shape, stride, requires_grad, hooks)	a tensor as nearly all are, whose storage was
 *				made; None: all tensors are calls
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
#include "_build.h"

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

int ckpt_py_build_fail(struct build *b, int status, const char *text)
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

PyObject *ckpt_py_build_made(const struct build *b, const struct ckpt_node *node)
{
	return node && b->room ? b->entries[slot_of(b, node)].object : NULL;
}

int ckpt_py_build_remember(struct build *b, const struct ckpt_node *node, PyObject *object)
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

/* ---- how a node is made ---- */

/*
 * Has NODE a state that is no dict of attributes? Then those who make what torch makes call what it calls, and let that refuse
 * the state. Literals have no state.
 */
static bool has_odd_state(const struct build *b, const struct ckpt_node *node, enum ckpt_node_kind kind)
{
	const struct ckpt_node *state = b->calls ? ckpt_node_part(b->model, node, CKPT_PART_STATE) : NULL;
	struct ckpt_node_info info = CKPT_NODE_INFO_INIT;

	if (!state || !ckpt_node_part(b->model, node, CKPT_PART_CALLABLE))
		return false;
	return kind != CKPT_NODE_DICT || ckpt_node_get(b->model, state, &info, NULL) < 0 || info.kind != CKPT_NODE_DICT;
}

static enum how how_of(const struct build *b, const struct ckpt_node *node,
		       const struct ckpt_node_info *info)
{
	if (has_odd_state(b, node, info->kind))
		return CALL;
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
	return ckpt_py_build_made(b, ckpt_node_part(b->model, f->node, part));
}

/* Borrowed: item I, which is made. */
static PyObject *item_of(const struct build *b, const struct frame *f, uint64_t i)
{
	PyObject *item = ckpt_py_build_made(b, ckpt_node_item(b->model, f->node, i));

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
	ckpt_py_build_fail(b, CKPT_E_LIMIT, "keys are tuples of too many items");
	return false;
}

/* What a set or dict does not take is the file's mistake. */
static int refuse_key(struct build *b)
{
	if (PyErr_ExceptionMatches(PyExc_TypeError))
		return ckpt_py_build_fail(b, CKPT_E_FORMAT, "a key, or an item of a set, is unhashable");
	if (PyErr_ExceptionMatches(PyExc_RecursionError))
		return ckpt_py_build_fail(b, CKPT_E_LIMIT, "keys are nested too deep to be compared");
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
		const struct ckpt_node *key_node = ckpt_node_key(b->model, f->node, i);
		PyObject *key = ckpt_py_build_made(b, key_node);
		PyObject *value = ckpt_py_build_made(b, ckpt_node_value(b->model, f->node, i));

		if (!key || !value) {
			PyErr_NoMemory();
			return -1;
		}
		if (!may_hash(b, key_node))
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
		PyObject *key = ckpt_py_build_made(b, ckpt_node_key(b->model, f->node, i));
		PyObject *value = ckpt_py_build_made(b, ckpt_node_value(b->model, f->node, i));

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
		return ckpt_py_build_fail(b, CKPT_E_FORMAT,
			    "a tuple, or arguments of a call, contain themselves");
	if (entry->mark != UINT64_MAX && how == CALL && !b->in_order)
		return ckpt_py_build_fail(b, CKPT_E_UNSUPPORTED, "objects contain each other, and an edit left the first of them away: save it, and load that");
	if (entry->mark != UINT64_MAX && ++b->restarts > MOST_RESTARTS)
		return ckpt_py_build_fail(b, CKPT_E_LIMIT, "too many tuples contain themselves");
	entry->mark = b->made;
	if (b->depth >= MOST_FRAMES)
		return ckpt_py_build_fail(b, CKPT_E_LIMIT, "objects are nested deeper than 10000 levels");
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
	bool is_call = false, is_other = true;
	int rc = ckpt_node_get(b->model, node, &info, &err);

	if (rc < 0) {
		ckpt_py_raise_for(b->self, &err, rc);
		return -1;
	}
	how = how_of(b, node, &info);
	if (how == CALL && info.kind == CKPT_NODE_TENSOR && b->rebuilt != Py_None) {
		object = ckpt_py_build_rebuilt(b, node, &is_other);
		if (!is_other)
			return ckpt_py_build_remember(b, node, object);
	}
	if (how != ATOM)
		return push(b, node, &info, how);
	if (info.kind == CKPT_NODE_TENSOR || info.kind == CKPT_NODE_NDARRAY ||
	    info.kind == CKPT_NODE_SCALAR)
		object = ckpt_py_build_values(b, node, info.kind, &is_call);
	else
		object = ckpt_py_build_atom(b, node, &info);
	if (is_call)
		return push(b, node, &info, CALL);
	if (ckpt_py_build_remember(b, node, object) < 0)
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
	if (!object || ckpt_py_build_remember(b, f->node, object) < 0)
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

	if (f->stage == CREATE && ckpt_py_build_made(b, f->node)) { /* by another frame, which began later */
		b->depth--;
		return 0;
	}
	do
		node = child(b, f, f->next++, &end);
	while (!end && (!node || ckpt_py_build_made(b, node)));
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
		{ "rebuilt", &b->rebuilt },
	};
	PyObject *calls = PyObject_GetAttrString(b->hooks, "calls"), *in_order = calls ? PyObject_GetAttrString(b->hooks, "in_order") : NULL;
	PyObject *collections = in_order ? PyImport_ImportModule("collections") : NULL;
	bool ok = collections != NULL;

	for (size_t i = 0; ok && i < sizeof(names) / sizeof(names[0]); i++) {
		*names[i].to = PyObject_GetAttrString(b->hooks, names[i].name);
		ok = *names[i].to != NULL;
	}
	if (ok) {
		b->calls = PyObject_IsTrue(calls) > 0;
		b->in_order = PyObject_IsTrue(in_order) > 0;
		b->ordered_dict = PyObject_GetAttrString(collections, "OrderedDict");
		b->default_dict = PyObject_GetAttrString(collections, "defaultdict");
		b->counter = PyObject_GetAttrString(collections, "Counter");
		ok = b->ordered_dict && b->default_dict && b->counter;
	}
	Py_XDECREF(calls);
	Py_XDECREF(in_order);
	Py_XDECREF(collections);
	return ok;
}

static void clear(struct build *b)
{
	PyObject *const objects[] = { b->tensor, b->array,	  b->storage,	   b->global,
				      b->call,	 b->fill,	  b->factory,	   b->size,
				      b->other,	 b->ordered_dict, b->default_dict, b->counter,	b->rebuilt,
				      b->dtype.object, b->device.object };

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
	return rc == 0 ? Py_XNewRef(ckpt_py_build_made(b, root)) : NULL;
}

PyObject *ckpt_py_build(PyObject *object, PyObject *args)
{
	struct model *self = (struct model *)object;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct build b = { .self = self, .how = CKPT_NODE_REBUILD_INIT };
	const struct ckpt_node *root;
	PyObject *name, *bytes, *result = NULL;
	int rc, pauses = 0;

	if (!PyArg_ParseTuple(args, "OO|p", &name, &b.hooks, &pauses))
		return NULL;
	bytes = ckpt_py_name(name);
	b.model = bytes ? ckpt_py_model_use(self) : NULL;
	if (b.model) {
		const char *path = PyBytes_AsString(bytes);

		Py_BEGIN_ALLOW_THREADS rc = ckpt_node_find(b.model, path, &root, &err);
		Py_END_ALLOW_THREADS if (rc < 0) ckpt_py_raise_for(self, &err, rc);
		else if (get_hooks(&b) && (!pauses || ckpt_py_pause_collector(STATE(self))))
		{
			result = build(&b, root);
			if (pauses)
				ckpt_py_resume_collector(STATE(self));
		}
		clear(&b);
		ckpt_py_model_drop(self);
	}
	Py_XDECREF(bytes);
	return result;
}
