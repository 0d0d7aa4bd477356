/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which string objects the attributes of a module are named by after torch.load, since Python 3.14.
 *
 * Module.__setstate__() updates the instance's __dict__ with the state. Instances of one class
 * share the table of their keys, which has room for 30: a name that is in the table already keeps
 * the table's object, another one is added to it with the object of the state. Python 3.14
 * prepares the table with the names that the class's own methods assign to `self`; these are
 * interned. Each new instance takes one place that is still free. The first name that finds no
 * room ends the sharing for this instance, and it and all names behind it are those of the state;
 * a state of more than 42 names is not shared at all. Source: CPython 3.14, Objects/dictobject.c
 * (_PyDict_NewKeysForClass, _PyObject_InitInlineValues, insert_split_dict, dict_dict_merge).
 *
 * So what is loaded depends on the order in which the file makes its modules and sets their
 * states: this is the order of the pickle, before any edit, which the walk follows. Of torch's
 * classes the names are known (module_names.c). Of others they are taken to be those that a class
 * usually assigns itself: its parameters, its children, and all that nn.Module does not have.
 */
#include "resave/module_keys.h"

#include "base/grow.h"
#include "model/state_dict.h"
#include "resave/module_names.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SHARED = 30, MOST_MERGED = 42 };

/*
 * A hostile file can share one mapping among very many modules: of each, so many names are looked
 * at, in so many modules of a class, and a state with a longer name keeps its own.
 */
enum { MOST_NAMES = 128, MOST_EXAMPLES = 64, MOST_NAME = 255 };

/* A class of modules and its table. */
struct shared_keys {
	const struct ckpt_value *keys[MOST_SHARED];
	uint32_t count, usable;
	uint32_t examples;	     /* modules that were looked at for what the class assigns */
	const struct instance *last; /* of which the state was set; NULL: none */
};

/* A module: its keys in the order of its state. Many have the same, and then one array. */
struct instance {
	struct shared_keys *of;
	const struct ckpt_value **keys;
	uint32_t count;
};

/* A value whose parts are being walked: I is the number of the next one. */
struct level {
	const struct ckpt_value *v;
	uint64_t i;
};

struct ckpt_module_keys {
	const struct ckpt_model *model;
	struct ckpt_arena *arena;
	struct ckpt_strmap classes;   /* by the address of the class, to a struct shared_keys */
	struct ckpt_strmap instances; /* by the id of the module, to a struct instance */
	/* malloc: every module twice: when it is made, and when its state is set */
	const struct ckpt_value **events;
	uint32_t event_count, event_cap;
	struct level *levels; /* malloc */
	uint32_t depth, cap;
	uint8_t *entered; /* malloc: a bitmap by id */
};

/* As in the file, without edits. */
static const struct ckpt_value *find_attribute(const struct ckpt_value *state, const char *name)
{
	const struct ckpt_seq *pairs = &state->u.seq;

	for (uint32_t i = 0; i + 1 < pairs->count && i / 2 < CKPT_MOST_ATTRIBUTES; i += 2)
		if (ckpt_value_is_str(pairs->items[i], name))
			return pairs->items[i + 1];
	return NULL;
}

/* The class of V, a module that is made without arguments of its own; NULL: V is none. */
static const struct ckpt_value *class_of_module(const struct ckpt_value *v)
{
	const struct ckpt_call *call = v->u.call;
	const struct ckpt_value *class = call->func, *pid;

	if (call->kind != CKPT_CALL_NEWOBJ || !call->state || call->state->kind != CKPT_DICT ||
	    !v->id || !find_attribute(call->state, "_parameters") ||
	    !find_attribute(call->state, "_modules"))
		return NULL;
	/* a legacy stream has the source beside it, once: ('module', class, file, source) */
	pid = class->kind == CKPT_PERSID ? class->u.persid.pid : NULL;
	if (pid && pid->kind == CKPT_TUPLE && pid->u.seq.count > 1)
		class = pid->u.seq.items[1];
	return class->kind == CKPT_GLOBAL ? class : NULL;
}

/* ---- the walk, in the order of the pickle ---- */

static bool push_level(struct ckpt_module_keys *m, const struct ckpt_value *v)
{
	bool has_parts = v->kind == CKPT_TUPLE || v->kind == CKPT_LIST || v->kind == CKPT_SET ||
			 v->kind == CKPT_FROZENSET || v->kind == CKPT_DICT || v->kind == CKPT_CALL;
	struct level *levels;

	if (!has_parts ||
	    (v->id && v->id < m->model->next_id && m->entered[v->id / 8] & 1 << v->id % 8))
		return true;
	if (v->id && v->id < m->model->next_id)
		m->entered[v->id / 8] |= (uint8_t)(1 << v->id % 8);
	levels = ckpt_grow(m->levels, m->depth, &m->cap, sizeof(*levels));
	if (!levels)
		return false;
	m->levels = levels;
	m->levels[m->depth++] = (struct level){ v, 0 };
	return true;
}

static bool add_event(struct ckpt_module_keys *m, const struct ckpt_value *v)
{
	const struct ckpt_value **events;

	if (!class_of_module(v))
		return true;
	events = ckpt_grow(m->events, m->event_count, &m->event_cap, sizeof(*events));
	if (!events)
		return false;
	m->events = events;
	m->events[m->event_count++] = v;
	return true;
}

/* The next part of the object V into *PART, NULL: nothing to walk. Returns 1, 0: none left, -1. */
static int next_part_of_object(struct ckpt_module_keys *m, const struct ckpt_value *v, uint64_t i,
			       const struct ckpt_value **part)
{
	const struct ckpt_call *call = v->u.call;
	const struct ckpt_value *first[] = { call->func, call->args, call->kwargs };

	if (i < 3) {
		*part = first[i];
		return 1;
	}
	i -= 3;
	if (i == 0)
		return add_event(m, v) ? 1 : -1;
	i -= 1;
	if (i < call->items.count) {
		*part = call->items.items[i];
		return 1;
	}
	i -= call->items.count;
	if (i < call->pairs.count) {
		*part = call->pairs.items[i];
		return 1;
	}
	i -= call->pairs.count;
	if (i == 0) {
		*part = call->state;
		return 1;
	}
	return i == 1 ? (add_event(m, v) ? 1 : -1) : 0;
}

static bool find_modules(struct ckpt_module_keys *m)
{
	bool fine = push_level(m, m->model->doc->pickle.root);

	while (fine && m->depth) {
		struct level *l = &m->levels[m->depth - 1];
		const struct ckpt_value *part = NULL;
		int more;

		if (l->v->kind == CKPT_CALL) {
			more = next_part_of_object(m, l->v, l->i, &part);
		} else {
			more = l->i < l->v->u.seq.count;
			part = more ? l->v->u.seq.items[l->i] : NULL;
		}
		l->i++;
		if (!more)
			m->depth--;
		fine = more >= 0 && (!part || push_level(m, part));
	}
	return fine;
}

/* ---- the tables of the classes ---- */

static bool is_same_text(const struct ckpt_value *a, const struct ckpt_value *b)
{
	return a->u.bytes.len == b->u.bytes.len &&
	       !memcmp(a->u.bytes.ptr, b->u.bytes.ptr, a->u.bytes.len);
}

static const struct ckpt_value *make_interned(struct ckpt_module_keys *m, const char *text,
					      uint64_t len)
{
	struct ckpt_value *v = ckpt_arena_calloc(m->arena, 1, sizeof(*v));

	if (v) {
		v->kind = CKPT_STR;
		v->flags = CKPT_VALUE_FINAL | CKPT_VALUE_INTERNED;
		v->u.bytes.ptr = text;
		v->u.bytes.len = len;
	}
	return v;
}

/* What can stand behind `self.` in a program. */
static bool is_identifier(const char *text, uint64_t len)
{
	if (!len || len > MOST_NAME)
		return false;
	for (uint64_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		bool is_letter =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;

		if (!is_letter && (!i || c < '0' || c > '9'))
			return false;
	}
	return true;
}

/* As Python orders texts: by code points, which is by the bytes of UTF-8. */
static int compare_texts(const struct ckpt_value *a, const struct ckpt_value *b)
{
	bool is_shorter = a->u.bytes.len < b->u.bytes.len;
	int order = memcmp(a->u.bytes.ptr, b->u.bytes.ptr,
			   is_shorter ? a->u.bytes.len : b->u.bytes.len);

	return order ? order : is_shorter ? -1 : a->u.bytes.len > b->u.bytes.len;
}

/* Put NAME where it belongs in the sorted table; of too many, the first stay. */
static bool insert_name(struct ckpt_module_keys *m, struct shared_keys *of,
			const struct ckpt_value *name)
{
	uint32_t at = 0, end = of->count;

	while (at < end) {
		uint32_t middle = (at + end) / 2;
		int order = compare_texts(of->keys[middle], name);

		if (!order)
			return true;
		if (order < 0)
			at = middle + 1;
		else
			end = middle;
	}
	if (at == MOST_SHARED)
		return true;
	if (of->count < MOST_SHARED)
		of->count++;
	memmove(of->keys + at + 1, of->keys + at, (of->count - 1 - at) * sizeof(*of->keys));
	of->keys[at] = make_interned(m, name->u.bytes.ptr, name->u.bytes.len);
	return of->keys[at];
}

static bool insert_names_of(struct ckpt_module_keys *m, struct shared_keys *of,
			    const struct ckpt_value *mapping, bool all)
{
	const struct ckpt_seq *pairs = mapping ? ckpt_value_pairs(mapping) : NULL;
	bool fine = true;

	for (uint32_t i = 0; fine && pairs && i + 1 < pairs->count && i / 2 < MOST_NAMES; i += 2) {
		const struct ckpt_value *key = pairs->items[i];

		if (key->kind == CKPT_STR && is_identifier(key->u.bytes.ptr, key->u.bytes.len) &&
		    (all || !ckpt_is_module_attribute(key->u.bytes.ptr, key->u.bytes.len)))
			fine = insert_name(m, of, key);
	}
	return fine;
}

static bool insert_known_names(struct ckpt_module_keys *m, struct shared_keys *of,
			       const char *names)
{
	bool fine = true;

	/* of too many, Python takes the first */
	while (fine && *names && of->count < MOST_SHARED) {
		size_t len = strcspn(names, " ");

		of->keys[of->count] = make_interned(m, names, len);
		fine = of->keys[of->count++];
		names += len + (names[len] == ' ');
	}
	return fine;
}

/* The table of CLASS, made at its first mention; NULL: no memory. */
static struct shared_keys *find_shared_keys(struct ckpt_module_keys *m,
					    const struct ckpt_value *class)
{
	const char *key = (const char *)&class->u.global; /* the address of the one name */
	uint64_t *found = ckpt_strmap_find(&m->classes, key, sizeof(class->u.global));
	struct shared_keys *of;
	bool was_there;

	if (found)
		return (struct shared_keys *)(uintptr_t)*found;
	of = ckpt_arena_calloc(m->arena, 1, sizeof(*of));
	return of && ckpt_strmap_insert(&m->classes, key, sizeof(class->u.global), (uintptr_t)of,
					&was_there)
		       ? of
		       : NULL;
}

/* Put into the table what the class of V assigns: if it is not one of torch, as V shows it. */
static bool prepare_keys(struct ckpt_module_keys *m, struct shared_keys *of,
			 const struct ckpt_value *v)
{
	const struct ckpt_value *class = class_of_module(v), *state = v->u.call->state;
	const char *known = ckpt_module_class_names(class->u.global->module, class->u.global->name);

	if (of->examples == (known ? 1 : MOST_EXAMPLES))
		return true;
	of->examples++;
	if (known)
		return insert_known_names(m, of, known);
	return insert_names_of(m, of, state, false) &&
	       insert_names_of(m, of, find_attribute(state, "_parameters"), true) &&
	       insert_names_of(m, of, find_attribute(state, "_modules"), true);
}

/* ---- what loading does ---- */

static const struct ckpt_value *find_key(const struct shared_keys *of,
					 const struct ckpt_value *name)
{
	for (uint32_t i = 0; i < of->count; i++)
		if (is_same_text(of->keys[i], name))
			return of->keys[i];
	return NULL;
}

/* self.__dict__.update(state). False: no memory. */
static bool update(struct ckpt_module_keys *m, struct instance *instance,
		   const struct ckpt_seq *state)
{
	struct shared_keys *of = instance->of;
	const struct ckpt_value *keys[MOST_MERGED];
	uint32_t count = state->count / 2;
	bool shares = true;

	if (count > MOST_MERGED)
		return true;
	for (uint32_t i = 0; i < count; i++)
		if (state->items[2 * i]->kind != CKPT_STR ||
		    state->items[2 * i]->u.bytes.len > MOST_NAME)
			return true;
	for (uint32_t i = 0; i < count; i++) {
		const struct ckpt_value *name = state->items[2 * i],
					*key = shares ? find_key(of, name) : NULL;

		if (!key && shares && of->usable) {
			of->keys[of->count++] = name;
			of->usable--;
		} else if (!key) {
			shares = false;
		}
		keys[i] = key ? key : name;
	}
	instance->count = count;
	if (of->last && of->last->count == count &&
	    !memcmp(of->last->keys, keys, count * sizeof(*keys))) {
		instance->keys = of->last->keys;
	} else {
		instance->keys = ckpt_arena_alloc(m->arena, count * sizeof(*keys));
		if (!instance->keys)
			return false;
		memcpy(instance->keys, keys, count * sizeof(*keys));
	}
	of->last = instance;
	return true;
}

static bool add_instance(struct ckpt_module_keys *m, const struct ckpt_value *v)
{
	struct instance *instance = ckpt_arena_calloc(m->arena, 1, sizeof(*instance));
	bool was_there;

	if (!instance || !(instance->of = find_shared_keys(m, class_of_module(v))) ||
	    !prepare_keys(m, instance->of, v))
		return false;
	return ckpt_strmap_insert(&m->instances, (const char *)&v->id, sizeof(v->id),
				  (uintptr_t)instance, &was_there);
}

static struct instance *find_instance(const struct ckpt_module_keys *m, const struct ckpt_value *v)
{
	const uint64_t *found =
		ckpt_strmap_find(&m->instances, (const char *)&v->id, sizeof(v->id));

	return found ? (struct instance *)(uintptr_t)*found : NULL;
}

static bool load_modules(struct ckpt_module_keys *m)
{
	for (uint32_t i = 0; i < m->event_count; i++)
		if (!find_instance(m, m->events[i]) && !add_instance(m, m->events[i]))
			return false;
	for (size_t i = 0; i < m->classes.count; i++) {
		struct shared_keys *of =
			(struct shared_keys *)(uintptr_t)m->classes.entries[i].value;

		of->usable = MOST_SHARED - of->count;
	}
	memset(m->entered, 0, m->model->next_id / 8 + (size_t)1);
	for (uint32_t i = 0; i < m->event_count; i++) {
		const struct ckpt_value *v = m->events[i];
		struct instance *instance = find_instance(m, v);
		bool is_made = m->entered[v->id / 8] & 1 << v->id % 8;

		m->entered[v->id / 8] |= (uint8_t)(1 << v->id % 8);
		if (is_made && !update(m, instance, &v->u.call->state->u.seq))
			return false;
		if (!is_made && instance->of->usable > 1)
			instance->of->usable--;
	}
	return true;
}

struct ckpt_module_keys *ckpt_module_keys_new(const struct ckpt_model *model,
					      struct ckpt_arena *arena)
{
	struct ckpt_module_keys *m = calloc(1, sizeof(*m));
	bool fine;

	if (!m)
		return NULL;
	m->model = model;
	m->arena = arena;
	m->entered = calloc(model->next_id / 8 + (size_t)1, 1);
	fine = m->entered && find_modules(m) && load_modules(m);
	if (fine)
		return m;
	ckpt_module_keys_free(m);
	return NULL;
}

const struct ckpt_value *ckpt_module_key(const struct ckpt_module_keys *m,
					 const struct ckpt_value *module, uint32_t place,
					 const struct ckpt_value *key)
{
	const struct instance *instance = find_instance(m, module);
	uint32_t count = instance && key->kind == CKPT_STR ? instance->count : 0;

	/* mostly at the same place: an edit may have taken others away */
	if (place < count && is_same_text(instance->keys[place], key))
		return instance->keys[place];
	for (uint32_t i = 0; i < count; i++)
		if (is_same_text(instance->keys[i], key))
			return instance->keys[i];
	return key;
}

void ckpt_module_keys_free(struct ckpt_module_keys *m)
{
	if (!m)
		return;
	ckpt_strmap_clear(&m->classes);
	ckpt_strmap_clear(&m->instances);
	free(m->events);
	free(m->levels);
	free(m->entered);
	free(m);
}
