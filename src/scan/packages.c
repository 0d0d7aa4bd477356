/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of classes and functions of packages, of which the tables know nothing but the name: what
 * they may be given.
 *
 * A name may stand for a class or a function, and of neither it is known what it does with a text: it
 * may open, import or run what that names. So a call is given numbers and what is made of them; one
 * word, as enumerations write it; or, where the class is known, and where it is an exception, any
 * data. NEWOBJ is more than a call of the same name: what is no class ends the load, and only
 * __new__() sees the arguments. No call is given a function.
 *
 * What must stay true: what a call is given counts as it is behind the last opcode, when nothing is
 * put into it any more, and with all that is in it, however deep and by whatever opcode it got there.
 * Each value is looked at once for all calls together, so that the time is that of the pickle.
 */
#include "base/ascii.h"
#include "base/grow.h"
#include "base/text.h"
#include "scan/walk.h"

#include <stdlib.h>
#include <string.h>

#define CYTHON "__pyx_unpickle_" /* and the name of the class */

enum { SHOWN_NAME = 700, SHOWN_ARGS = 160, MOST_IN_STATE = 4 /* containers inside of each other */, MOST_WORD = 64 };

/* What a call may be given. */
enum given {
	GIVEN_AS_WRITTEN, /* no function: what is known otherwise */
	GIVEN_TO_NEW,	  /* nor what a metaclass could make a class of: __new__() of any class */
	GIVEN_DATA,	  /* no function, nor class: a class that is known, which may call that */
	GIVEN_NUMBERS,	  /* nothing that names something: any class */
	GIVEN_TO_FUNCTION, /* the same */
	GIVEN_INSIDE,	  /* neither function nor class: what append(), __setitem__() and __setstate__() of the object may be, or call */
	GIVEN_TO_MEMBER,  /* no function: what the object holds, which another call gives, too */
	GIVEN_AS_STATE,	  /* no function: an object, which an unpickler asks for its items() */
	GIVEN_AS_METHOD,  /* no function: an object that stands where a load may call a method of another */
	GIVEN_TO_LIBRARY  /* data, and other objects of Python's library and numpy: the state of one of these */
};

/* A call that is looked at again behind the last opcode; of its keywords there is another one. */
struct ckpt_scan_package_call {
	const struct ckpt_global *func;
	const struct ckpt_value *args; /* GIVEN_INSIDE, GIVEN_TO_MEMBER: the object */
	uint32_t pos; /* of its opcode */
	uint8_t kind; /* enum ckpt_call_kind */
	uint8_t given;
};

/* ---- names ---- */

static size_t package_len(const struct ckpt_global *g)
{
	return strcspn(g->module, ".");
}

static const char *last_name(const struct ckpt_global *g)
{
	const char *dot = strrchr(g->name, '.');

	return dot ? dot + 1 : g->name;
}

/* "Class", "_Class": classes have names that begin with a capital, as Python's guide wants it. */
static bool is_named_as_class(const char *name)
{
	name += strspn(name, "_");
	return ckpt_is_upper((unsigned char)*name);
}

bool ckpt_scan_is_named_as_array(const struct ckpt_global *g, const struct ckpt_value *args)
{
	static const char *const tensors[] = { "Tensor", "Parameter", NULL }, *const names[] = { "ndarray", "dtype", "memmap", "recarray", "chararray", "matrix", "Fraction", NULL };
	const struct ckpt_value *first = ckpt_scan_arg(args, 0);

	/* of ('name', 1), as records have it, torch makes no tensor */
	return ckpt_is_one_of(last_name(g), names) || (ckpt_is_one_of(last_name(g), tensors) && !(first && ckpt_value_is_text(first)));
}

bool ckpt_scan_is_number_class(const struct ckpt_global *g)
{
	static const char *const names[] = { "bool_", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "longdouble", "complex64", "complex128", "datetime64", "timedelta64", "str_", "bytes_", NULL };

	return !strcmp(g->module, "numpy") && ckpt_is_one_of(g->name, names);
}

bool ckpt_scan_may_be_function(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	const struct ckpt_global *g;
	const struct ckpt_scan_rule *rule;

	if (v->kind == CKPT_CALL && !ckpt_scan_is_getattr(v))
		return ckpt_value_is_call_of(v, "functools", "partial");
	g = v->kind >= CKPT_GLOBAL ? ckpt_scan_callee(w, v) : NULL;
	if (!g)
		return v->kind == CKPT_CALL;
	rule = ckpt_scan_rule(g->module, g->name);
	if (rule->kind == CKPT_SCAN_DATA || ckpt_scan_is_number_class(g))
		return false;
	return rule->call_runs_code || rule->kind == CKPT_SCAN_CODE || !is_named_as_class(last_name(g));
}

bool ckpt_scan_is_no_class(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	/* subclasses of ndarray, of which numpy makes arrays without calling them */
	static const char *const arrays[] = { "matrix", "memmap", "recarray", "chararray", "record", NULL };
	const struct ckpt_global *g = v->kind >= CKPT_GLOBAL ? ckpt_scan_callee(w, v) : NULL;

	if (!g)
		return true;
	if (ckpt_scan_rule(g->module, g->name)->kind == CKPT_SCAN_DATA || ckpt_scan_is_number_class(g))
		return false;
	return !is_named_as_class(last_name(g)) && !(!strncmp(g->module, "numpy", 5) && ckpt_is_one_of(g->name, arrays));
}

/* Is V a class, or function, of the package that G is in? */
static bool is_of_package(struct ckpt_scan_walk *w, const struct ckpt_value *v, const struct ckpt_global *g)
{
	const struct ckpt_global *of = v && (v->kind == CKPT_GLOBAL || ckpt_scan_is_getattr(v)) ? ckpt_scan_callee(w, v) : NULL;

	return of && package_len(of) == package_len(g) && !strncmp(of->module, g->module, package_len(g));
}

/*
 * "_unpickle_vector", "_rebuild_mesh": for objects that are made again. Others do as well begin with a
 * dash: _open, _eval, _import_module.
 */
static bool is_named_for_objects(const char *name)
{
	static const char *const words[] = { "unpickle", "reconstruct", "rebuild", "restore", "new", "recreate", "unreduce", "deserialize" };

	if (*name != '_')
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (ckpt_has_word(name, words[i]))
			return true;
	return false;
}

/* Exceptions are written as calls with what they say. */
static bool is_named_as_exception(const char *name)
{
	return ckpt_ends_with(name, "Error") || ckpt_ends_with(name, "Exception") || ckpt_ends_with(name, "Warning");
}

/*
 * Classes that are written as calls with texts, or with objects, and only keep what they are given. Of
 * those that sort, the argument KEY, which they would call, is None.
 */
static bool is_known(const struct ckpt_global *g, const struct ckpt_value *args)
{
	static const struct {
		const char *module, *name;
		int8_t key;
	} classes[] = {
		{ "pandas._libs.interval", "Interval", -1 },
		{ "pandas._libs.tslibs.period", "Period", -1 },
		{ "pandas._libs.tslibs.offsets", "CustomBusinessDay", -1 },
		{ "pandas._libs.tslibs.offsets", "CustomBusinessHour", -1 },
		{ "pandas._libs.tslibs.offsets", "CustomBusinessMonthBegin", -1 },
		{ "pandas._libs.tslibs.offsets", "CustomBusinessMonthEnd", -1 },
		{ "pandas._libs.tslibs.offsets", "FY5253", -1 },
		{ "pandas._libs.tslibs.offsets", "FY5253Quarter", -1 },
		{ "pandas.core.dtypes.dtypes", "IntervalDtype", -1 },
		{ "pandas.core.dtypes.dtypes", "PeriodDtype", -1 },
		{ "pandas.core.arrays.string_", "StringDtype", -1 },
		{ "pandas", "Interval", -1 },
		{ "pandas", "Period", -1 },
		{ "pandas", "IntervalDtype", -1 },
		{ "pandas", "PeriodDtype", -1 },
		{ "pandas", "StringDtype", -1 },
		{ "pandas.core.internals.managers", "BlockManager", -1 },
		{ "flax.core.frozen_dict", "FrozenDict", -1 },
		{ "ordered_set", "OrderedSet", -1 },
		{ "sortedcontainers.sorteddict", "SortedDict", 0 },
		{ "sortedcontainers.sortedlist", "SortedList", 1 },
		{ "sortedcontainers.sortedset", "SortedSet", 1 },
	};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		const struct ckpt_value *key = classes[i].key >= 0 ? ckpt_scan_arg(args, (uint32_t)classes[i].key) : NULL;

		if (!strcmp(g->name, classes[i].name) && !strcmp(g->module, classes[i].module))
			return !key || key->kind == CKPT_NONE;
	}
	return false;
}

/* ---- one call, when it is made ---- */

/* "steps", "bf16-mixed": nothing that a path, an address, a program with arguments or a formula could be. */
static bool is_word(const struct ckpt_value *v)
{
	if (!ckpt_scan_is_text(v) || v->u.bytes.len > MOST_WORD)
		return false;
	for (uint64_t i = 0; i < v->u.bytes.len; i++)
		if (!ckpt_is_alnum((unsigned char)v->u.bytes.ptr[i]) && v->u.bytes.ptr[i] != '_' && v->u.bytes.ptr[i] != '-')
			return false;
	return true;
}

/* Color('red'), what Python's enumerations write. Of private names it may be a function: _LoadLibrary('name'). */
static bool is_member(const struct ckpt_global *g, const struct ckpt_value *args)
{
	return args->kind == CKPT_TUPLE && args->u.seq.count == 1 && is_word(args->u.seq.items[0]) && ckpt_is_upper((unsigned char)*last_name(g));
}

bool ckpt_scan_is_flag(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	const struct ckpt_call *call = v->kind == CKPT_CALL ? v->u.call : NULL;
	const struct ckpt_value *first;

	if (!call || ckpt_scan_is_getattr(v))
		return call || v->kind == CKPT_INT;
	first = ckpt_scan_arg(call->args, 0);
	if (call->kwargs || call->state || call->items.count || call->pairs.count || !first)
		return false;
	if (ckpt_value_is_call_of(v, "_operator", "or_") || ckpt_value_is_call_of(v, "operator", "or_"))
		return true; /* which was asked the same */
	return call->args->u.seq.count == 1 && ckpt_scan_type(w, v) == CKPT_TYPE_OBJECT && (first->kind == CKPT_INT || is_word(first));
}

/* __pyx_unpickle_Enum(class, checksum, state or None): what Cython writes for each class of its own. */
static bool is_of_cython(struct ckpt_scan_checked_call *c, const char *name)
{
	const struct ckpt_value *cls = ckpt_scan_arg(c->args, 0), *sum = ckpt_scan_arg(c->args, 1), *state = ckpt_scan_arg(c->args, 2);

	return !strncmp(name, CYTHON, sizeof(CYTHON) - 1) && !c->kwargs && state && c->args->u.seq.count == 3 && is_of_package(c->w, cls, c->func) && !ckpt_scan_may_be_function(c->w, cls) &&
	       sum->kind == CKPT_INT && (state->kind == CKPT_NONE || state->kind == CKPT_TUPLE);
}

/* Those of the library that are made to be derived from, and what torch calls: these are judged where they are called. */
static bool is_judged_elsewhere(const struct ckpt_global *g)
{
	return ckpt_scan_is_stdlib(g->module) || !strncmp(g->module, "torch.", 6);
}

static void note_call(struct ckpt_scan_walk *w, const struct ckpt_scan_package_call *call)
{
	struct ckpt_scan_package_call *grown = ckpt_grow(w->package_calls, w->package_call_count, &w->package_call_cap, sizeof(*grown));

	w->s->no_memory |= !grown;
	if (!grown)
		return;
	w->package_calls = grown;
	grown[w->package_call_count++] = *call;
}

static void look_again(struct ckpt_scan_checked_call *c, enum given given)
{
	for (unsigned i = 0; i < 2; i++) {
		const struct ckpt_value *args = i ? c->kwargs : c->args;

		if (args && (args->kind != CKPT_TUPLE || args->u.seq.count))
			note_call(c->w, &(struct ckpt_scan_package_call){ c->func, args, (uint32_t)c->w->m.op.pos, c->kind, (uint8_t)given });
	}
}

void ckpt_scan_is_given(struct ckpt_scan_checked_call *c)
{
	const struct ckpt_value *state = ckpt_scan_arg(c->args, 2);

	if (c->rule->call != CKPT_CALL_PLAIN || !strcmp(c->rule->name, "or_")) /* followed by calls.c */
		return;
	if (strncmp(c->rule->module, "numpy.", 6) != 0)
		look_again(c, GIVEN_AS_WRITTEN);
	else if (state && !strncmp(c->rule->name, CYTHON, sizeof(CYTHON) - 1)) /* of numpy's, which are given functions of numpy */
		note_call(c->w, &(struct ckpt_scan_package_call){ c->func, state, (uint32_t)c->w->m.op.pos, c->kind, GIVEN_AS_WRITTEN });
}

static bool is_of_torch(const struct ckpt_global *g)
{
	return !strncmp(g->module, "torch.", 6);
}

void ckpt_scan_has_state(struct ckpt_scan_walk *w, const struct ckpt_value *object, const struct ckpt_value *state)
{
	const struct ckpt_global *g = object->kind == CKPT_CALL ? ckpt_scan_callee(w, object->u.call->func) : NULL;

	if (state->kind == CKPT_TUPLE && state->u.seq.count == 2) { /* of __dict__, and of slots */
		for (uint32_t i = 0; i < 2; i++)
			if (state->u.seq.items[i]->kind >= CKPT_GLOBAL)
				ckpt_scan_has_state(w, object, state->u.seq.items[i]);
		return;
	}
	if (state->kind < CKPT_GLOBAL || state == object)
		return;
	if (g && (is_of_torch(g) || ckpt_scan_is_stdlib(g->module)) && ckpt_scan_rule(g->module, g->name)->kind != CKPT_SCAN_DATA && ckpt_scan_type(w, state) == CKPT_TYPE_OBJECT)
		ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "state", ckpt_scan_at(w), "sets the state of an object to another object, which torch and Python do not write so");
	else if (ckpt_scan_may_be_function(w, state) || ckpt_scan_is_getattr(state))
		ckpt_scan_find(w->s, CKPT_SCAN_DANGEROUS, "state", ckpt_scan_at(w), "sets the state of an object to what only running the file would show");
	else if (g && ckpt_scan_type(w, state) == CKPT_TYPE_OBJECT)
		note_call(w, &(struct ckpt_scan_package_call){ g, state, (uint32_t)w->m.op.pos, object->u.call->kind, GIVEN_AS_STATE });
}

/* What CALL makes an object of, by itself or through copyreg. */
static const struct ckpt_global *class_made(struct ckpt_scan_walk *w, const struct ckpt_call *call)
{
	const struct ckpt_global *g = ckpt_scan_callee(w, call->func);
	const struct ckpt_value *first = ckpt_scan_arg(call->args, 0);

	return g && first && ckpt_scan_rule(g->module, g->name)->call == CKPT_CALL_NEW ? ckpt_scan_callee(w, first) : g;
}

void ckpt_scan_library_gets(struct ckpt_scan_walk *w, const struct ckpt_value *object, const struct ckpt_value *state)
{
	const struct ckpt_global *g = object->kind == CKPT_CALL ? class_made(w, object->u.call) : NULL;
	const struct ckpt_scan_rule *rule = g ? ckpt_scan_rule(g->module, g->name) : NULL;

	if (!rule || rule->kind != CKPT_SCAN_OBJECT || *rule->name || !ckpt_scan_is_of_library(g->module) || ckpt_scan_is_user_container(g))
		return;
	if (state)
		note_call(w, &(struct ckpt_scan_package_call){ g, state, (uint32_t)w->m.op.pos, object->u.call->kind, GIVEN_TO_LIBRARY });
	else
		ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "state", ckpt_scan_at(w), "puts an item into an object of Python's library, or numpy, that is in no row");
}

void ckpt_scan_is_method(struct ckpt_scan_walk *w, const struct ckpt_value *object)
{
	const struct ckpt_global *g = object->kind == CKPT_CALL ? ckpt_scan_callee(w, object->u.call->func) : NULL;

	if (g && ckpt_scan_type(w, object) == CKPT_TYPE_OBJECT)
		note_call(w, &(struct ckpt_scan_package_call){ g, object, (uint32_t)w->m.op.pos, object->u.call->kind, GIVEN_AS_METHOD });
}

/*
 * Color('red'), HTTPStatus(200), or of several or_(): a member of an enumeration is the same object each
 * time, so that what is put into it is there behind every other call that gives it.
 */
static bool may_be_member(struct ckpt_scan_walk *w, const struct ckpt_value *object)
{
	const struct ckpt_call *call = object->u.call;
	const struct ckpt_value *first = ckpt_scan_arg(call->args, 0);

	if (ckpt_value_is_call_of(object, "_operator", "or_") || ckpt_value_is_call_of(object, "operator", "or_"))
		return true;
	return call->kind == CKPT_CALL_REDUCE && first && call->args->u.seq.count == 1 && (first->kind == CKPT_INT || is_word(first)) && ckpt_scan_type(w, object) == CKPT_TYPE_OBJECT;
}

/* By the call before: to be noted once is enough. */
static bool was_noted(const struct ckpt_scan_walk *w, const struct ckpt_value *object, enum given given)
{
	const struct ckpt_scan_package_call *last = w->package_call_count ? &w->package_calls[w->package_call_count - 1] : NULL;

	return last && last->args == object && last->given == given;
}

void ckpt_scan_fills_object(struct ckpt_scan_walk *w, const struct ckpt_value *object)
{
	const struct ckpt_call *call = object->kind == CKPT_CALL ? object->u.call : NULL;
	const struct ckpt_global *g = call ? class_made(w, call) : NULL;
	const struct ckpt_scan_rule *rule = g ? ckpt_scan_rule(g->module, g->name) : NULL;
	bool has_any = call && (call->pairs.count || call->kwargs || call->args->kind != CKPT_TUPLE || call->args->u.seq.count);

	if (object->kind == CKPT_CALL && ckpt_scan_is_getattr(object))
		ckpt_scan_find(w->s, CKPT_SCAN_DANGEROUS, "state", ckpt_scan_at(w), "changes what a class has as an attribute");
	else if (g && !strcmp(g->module, "logging") && !strcmp(g->name, "getLogger"))
		ckpt_scan_find(w->s, CKPT_SCAN_DANGEROUS, "state", ckpt_scan_at(w), "changes a logger, which is that of the whole process");
	else if (g && may_be_member(w, object) && (rule->kind != CKPT_SCAN_OBJECT || is_judged_elsewhere(g)))
		ckpt_scan_find(w->s, CKPT_SCAN_DANGEROUS, "state", ckpt_scan_at(w), "changes a member of an enumeration, which is that of the whole process");
	else if (has_any && rule && rule->kind == CKPT_SCAN_OBJECT && !*rule->name && /* of the others is known what they do */
		 !was_noted(w, object, GIVEN_INSIDE)) {
		if (may_be_member(w, object))
			note_call(w, &(struct ckpt_scan_package_call){ g, object, (uint32_t)w->m.op.pos, call->kind, GIVEN_TO_MEMBER });
		note_call(w, &(struct ckpt_scan_package_call){ g, object, (uint32_t)w->m.op.pos, call->kind, GIVEN_INSIDE });
	}
}

void ckpt_scan_sets_keys(struct ckpt_scan_walk *w, const struct ckpt_value *object, size_t keys)
{
	const struct ckpt_call *call = object->u.call;
	const struct ckpt_global *g = class_made(w, call);
	const struct ckpt_scan_rule *rule = g ? ckpt_scan_rule(g->module, g->name) : NULL;

	/* of several keys the later ones may reach what the first ones have, however deep it is */
	if (keys > 1 && rule && rule->kind == CKPT_SCAN_OBJECT && !*rule->name && !was_noted(w, object, GIVEN_INSIDE))
		note_call(w, &(struct ckpt_scan_package_call){ g, object, (uint32_t)w->m.op.pos, call->kind, GIVEN_INSIDE });
	else
		ckpt_scan_fills_object(w, object);
}

/* pandas makes an index of one of its own classes so; others of its classes open files. */
static bool is_index_of_pandas(const struct ckpt_value *cls)
{
	static const char *const names[] = { "Index", "RangeIndex", "MultiIndex", "CategoricalIndex", "IntervalIndex", "DatetimeIndex", "TimedeltaIndex", "PeriodIndex", "NumericIndex", "Int64Index", "UInt64Index", "Float64Index", NULL };

	return cls->kind == CKPT_GLOBAL && ckpt_is_one_of(cls->u.global->name, names);
}

/*
 * Whoever looks at a date, as a dict does that has it for a key, has Python ask its time zone by the names
 * of methods (utcoffset, dst): these may be what the object of a package keeps under them.
 */
void ckpt_scan_has_zone(struct ckpt_scan_checked_call *c)
{
	const struct ckpt_seq *args = &c->args->u.seq;
	const struct ckpt_value *last = args->count ? args->items[args->count - 1] : NULL;

	if (last && last->kind >= CKPT_GLOBAL && ckpt_scan_type(c->w, last) & (CKPT_TYPE_OBJECT | CKPT_TYPE_ATTRIBUTE | CKPT_TYPE_STRANGER | CKPT_TYPE_UNKNOWN))
		look_again(c, GIVEN_DATA);
}

bool ckpt_scan_is_as_package_writes(struct ckpt_scan_checked_call *c)
{
	const struct ckpt_value *first = ckpt_scan_arg(c->args, 0);

	if (c->kwargs)
		return false;
	if (ckpt_scan_wanted(c->rule, 0) & CKPT_TYPE_ANY_CLASS && (!is_of_package(c->w, first, c->func) || ckpt_scan_may_be_function(c->w, first) || (!strncmp(c->func->module, "pandas", 6) && !is_index_of_pandas(first))))
		return false;
	look_again(c, GIVEN_AS_WRITTEN);
	return true;
}

/*
 * What a package writes to have its objects made again is a class, or a function. Of a function that
 * is not in the table nobody knows what it looks up by the texts, or calls of the classes, that it is
 * given: celery's _unpickle_appattr(text, arguments) calls anything. So it is given none, and has a
 * name that says what it is for (_unpickle): any other could be one that is called for what it does.
 */
bool ckpt_scan_is_package_function(struct ckpt_scan_checked_call *c)
{
	const char *name = last_name(c->func);

	if (c->kind != CKPT_CALL_REDUCE) {
		look_again(c, GIVEN_TO_NEW);
		return false;
	}
	if (is_judged_elsewhere(c->func) || is_of_cython(c, name)) {
		look_again(c, GIVEN_AS_WRITTEN);
		return false;
	}
	if (is_named_as_class(name)) {
		if (is_known(c->func, c->args) || is_named_as_exception(name))
			look_again(c, GIVEN_DATA);
		else if (!is_member(c->func, c->args) || c->kwargs)
			look_again(c, GIVEN_NUMBERS);
		return false;
	}
	if (c->kwargs || c->args->kind != CKPT_TUPLE || !is_named_for_objects(name))
		return true;
	look_again(c, GIVEN_TO_FUNCTION);
	return false;
}

/* ---- all calls, behind the last opcode ---- */

enum looked_for { A_FUNCTION = 1 << 0, A_NAME = 1 << 1, A_CLASS = 1 << 2, A_BASE = 1 << 3, A_STRANGER = 1 << 6 };

/* SEEN: what an object was made with, 1 << INSIDE for A_FUNCTION and 2 for A_CLASS */
enum { INSIDE = 4 };

/* What is on the way to be looked at. */
struct search {
	struct ckpt_scan_walk *w;
	uint8_t *seen; /* owned, by ids: enum looked_for */
	const struct ckpt_value **stack; /* owned */
	uint32_t depth, cap;
	enum looked_for wanted;
	enum given given;
};

static void push(struct search *f, const struct ckpt_value *v)
{
	const struct ckpt_value **grown;

	if (!v || (v->id && f->seen[v->id] & f->wanted))
		return;
	f->seen[v->id] |= (uint8_t)f->wanted;
	grown = ckpt_grow(f->stack, f->depth, &f->cap, sizeof(*grown));
	f->w->s->no_memory |= !grown;
	if (!grown)
		return;
	f->stack = grown;
	f->stack[f->depth++] = v;
}

/*
 * Is V what is looked for? A_CLASS is one of a package, which a known class may call. A_BASE is any: a
 * metaclass makes another of it, and may evaluate the texts that it has as annotations, as pydantic's
 * does; they are in a tuple, or in what one is made of.
 */
static bool is_wanted(struct search *f, const struct ckpt_value *v)
{
	uint64_t classes = CKPT_TYPE_STRANGER | CKPT_TYPE_ATTRIBUTE;

	if (v->kind == CKPT_GLOBAL && !strcmp(v->u.global->name, "NA") && (!strcmp(v->u.global->module, "pandas") || !strcmp(v->u.global->module, "pandas._libs.missing")))
		return false; /* the value that is missing, no class */
	if (f->wanted == A_FUNCTION)
		return ckpt_scan_may_be_function(f->w, v);
	if (f->wanted == A_STRANGER && v->kind == CKPT_CALL && !ckpt_scan_is_getattr(v)) {
		const struct ckpt_global *g = class_made(f->w, v->u.call);

		return !g || (ckpt_scan_rule(g->module, g->name)->kind != CKPT_SCAN_DATA && !ckpt_scan_is_of_library(g->module));
	}
	return f->wanted != A_NAME && ckpt_scan_type(f->w, v) & (f->wanted == A_BASE ? classes | CKPT_TYPE_CLASS : classes);
}

static void push_all(struct search *f, const struct ckpt_seq *seq)
{
	for (uint32_t i = 0; i < seq->count; i++)
		push(f, seq->items[i]);
}

/* The values of a dict are no bases. */
static void push_pairs(struct search *f, const struct ckpt_seq *pairs)
{
	for (uint32_t i = 0; i < pairs->count; i++)
		if (!(i & 1) || f->wanted != A_BASE || !is_wanted(f, pairs->items[i]))
			push(f, pairs->items[i]);
}

/*
 * What a call was made of, but for the class or function that it makes or calls something of, the
 * bytes of a date, and what numpy makes an empty array of.
 */
static void push_arguments(struct search *f, const struct ckpt_call *call, const struct ckpt_global *g)
{
	const struct ckpt_scan_rule *rule = g ? ckpt_scan_rule(g->module, g->name) : NULL;
	uint32_t from = rule && (rule->call == CKPT_CALL_NEW || rule->call == CKPT_CALL_FROM_TYPE || rule->call == CKPT_CALL_DATE || rule->call == CKPT_CALL_TIME || rule->call == CKPT_CALL_DATETIME);
	/* none of these makes a tuple of its own arguments: defaultdict(list) */
	bool has_no_bases = f->wanted == A_BASE && rule && rule->kind == CKPT_SCAN_DATA;

	if (rule && !strcmp(rule->name, "_reconstructor")) /* class, base, state */
		from = 2;
	else if (g && !strncmp(last_name(g), CYTHON, sizeof(CYTHON) - 1)) /* class, checksum, state; others are found where they are called */
		from = 1;
	else if (rule && *rule->name && rule->call == CKPT_CALL_OF_PACKAGE && ckpt_scan_wanted(rule, 0) & CKPT_TYPE_ANY_CLASS)
		from = 1; /* a class that was looked at where it is called: pandas._new_Index(Index, ...) */
	if (call->args->kind != CKPT_TUPLE)
		push(f, call->args);
	else if (!rule || rule->then != CKPT_THEN_NUMPY_ARRAY)
		for (uint32_t i = from; i < call->args->u.seq.count; i++)
			if (!has_no_bases || !is_wanted(f, call->args->u.seq.items[i]))
				push(f, call->args->u.seq.items[i]);
	push(f, call->kwargs);
}

/* Behind the call. */
static void push_put_into(struct search *f, const struct ckpt_call *call)
{
	push_all(f, &call->items);
	push_pairs(f, &call->pairs);
	push(f, call->state);
	push(f, call->setter);
}

static void push_inside(struct search *f, const struct ckpt_value *v)
{
	const struct ckpt_global *g;

	if (v->kind == CKPT_DICT)
		push_pairs(f, &v->u.seq);
	else if (v->kind >= CKPT_TUPLE && v->kind < CKPT_DICT)
		push_all(f, &v->u.seq);
	if (v->kind == CKPT_PERSID && v->u.persid.pid->kind == CKPT_TUPLE && ckpt_value_is_str(ckpt_scan_arg(v->u.persid.pid, 0), "reduce_package"))
		push(f, v->u.persid.pid->u.seq.items[v->u.persid.pid->u.seq.count - 1]);
	if (v->kind != CKPT_CALL)
		return;
	g = ckpt_scan_callee(f->w, v->u.call->func);
	push_arguments(f, v->u.call, g);
	push_put_into(f, v->u.call);
}

/* A call of the table whose texts are numbers, and nothing else. */
static bool makes_number(const struct ckpt_scan_rule *rule)
{
	static const char *const names[] = { "int", "long", "float", "complex", "bool", "Decimal", "Fraction", NULL };

	return rule->kind == CKPT_SCAN_DATA && ckpt_is_one_of(rule->name, names);
}

/* Calls whose results are texts or bytes, whatever they are made of: bytes([105, 100]). */
static bool makes_name(const struct ckpt_scan_rule *rule)
{
	static const char *const names[] = { "bytes", "bytearray", "str", "unicode", "array", "_array_reconstructor", "BytesIO", "encode", "TorchVersion", NULL };

	return rule->kind == CKPT_SCAN_DATA && (!strcmp(rule->module, "pathlib") || ckpt_is_one_of(rule->name, names));
}

enum named { NAMES_NOTHING, NAMES_SOMETHING, NAMES_INSIDE };

/*
 * Is V, by itself, what a function could look up, open or call: a text, bytes, a class? Of tensors,
 * and arrays of numbers, the texts are torch's and numpy's.
 */
static enum named names(struct search *f, const struct ckpt_value *v)
{
	const uint64_t nothing = CKPT_TYPE_TENSOR | CKPT_TYPE_STORAGE | CKPT_TYPE_DTYPE | CKPT_TYPE_LAYOUT | CKPT_TYPE_QSCHEME | CKPT_TYPE_CONSTANT | CKPT_TYPE_DEVICE | CKPT_TYPE_NUMPY_DTYPE;
	const struct ckpt_global *g;
	const struct ckpt_scan_rule *rule;
	uint64_t type = ckpt_scan_type(f->w, v);

	if (v->kind < CKPT_GLOBAL) {
		if (v->kind >= CKPT_TUPLE)
			return NAMES_INSIDE;
		return v->kind == CKPT_STR || v->kind == CKPT_PY2_STR || v->kind == CKPT_BYTES || v->kind == CKPT_BYTEARRAY ? NAMES_SOMETHING : NAMES_NOTHING;
	}
	if (type & nothing || ckpt_scan_holds_numbers(v) || (type == CKPT_TYPE_CLASS && f->given != GIVEN_TO_FUNCTION))
		return NAMES_NOTHING;
	if (v->kind != CKPT_CALL || ckpt_scan_is_getattr(v) || v->u.call->setter)
		return NAMES_SOMETHING;
	g = ckpt_scan_callee(f->w, v->u.call->func);
	rule = g ? ckpt_scan_rule(g->module, g->name) : NULL;
	if (!rule || rule->call == CKPT_CALL_PARTIAL || makes_name(rule))
		return NAMES_SOMETHING;
	if (makes_number(rule))
		return NAMES_NOTHING;
	if (f->given != GIVEN_TO_FUNCTION && !v->u.call->state && !v->u.call->items.count && !v->u.call->pairs.count && !v->u.call->kwargs && is_member(g, v->u.call->args))
		return NAMES_NOTHING;
	return NAMES_INSIDE;
}

/*
 * What OBJECT was made with, and has by its keys: some classes make attributes of these, even of
 * "append" and "__setstate__". Once, however much is put into it.
 */
static void push_made_with(struct search *f, const struct ckpt_value *object)
{
	uint8_t bit = (uint8_t)(f->wanted == A_FUNCTION ? 1 << INSIDE : 2 << INSIDE);

	const struct ckpt_global *g = ckpt_scan_callee(f->w, object->u.call->func);

	if (f->seen[object->id] & bit)
		return;
	f->seen[object->id] |= bit;
	if (!g || strncmp(last_name(g), CYTHON, sizeof(CYTHON) - 1) != 0) /* (class, checksum, state): it is what is made */
		push_arguments(f, object->u.call, g);
	push_all(f, &object->u.call->pairs);
}

/* The first of what is looked for in what CALL was given; NULL: there is none. */
static const struct ckpt_value *find_given(struct search *f, const struct ckpt_scan_package_call *call)
{
	/* a class that is an argument itself is no base: these are in a tuple */
	bool but_classes = f->wanted == A_BASE && call->args->kind == CKPT_TUPLE;

	f->depth = 0;
	if (call->given == GIVEN_INSIDE)
		push_made_with(f, call->args);
	else if (call->given == GIVEN_TO_MEMBER)
		push_put_into(f, call->args->u.call);
	else if (!but_classes)
		push(f, call->args);
	for (uint32_t i = 0; but_classes && i < call->args->u.seq.count; i++)
		if (!is_wanted(f, call->args->u.seq.items[i]))
			push(f, call->args->u.seq.items[i]);
	while (f->depth && !f->w->s->no_memory) {
		const struct ckpt_value *v = f->stack[--f->depth];
		enum named is = f->wanted == A_NAME ? names(f, v) : NAMES_INSIDE;

		if (is == NAMES_SOMETHING || is_wanted(f, v))
			return v;
		if (is == NAMES_INSIDE)
			push_inside(f, v);
	}
	return NULL;
}

static void say(struct search *f, const struct ckpt_scan_package_call *call, const struct ckpt_value *v)
{
	const struct ckpt_global *function = f->wanted == A_FUNCTION ? ckpt_scan_callee(f->w, v->kind == CKPT_CALL && !ckpt_scan_is_getattr(v) ? v->u.call->func : v) : NULL;
	char name[SHOWN_NAME], args[SHOWN_ARGS], given[SHOWN_NAME];
	uint64_t at = f->w->in->base + call->pos;
	const char *does = call->kind == CKPT_CALL_REDUCE ? "calls" : "makes an instance of";
	bool is_member = call->given == GIVEN_TO_MEMBER, is_state = call->given == GIVEN_AS_STATE || call->given == GIVEN_AS_METHOD, is_filled = is_member || call->given == GIVEN_INSIDE;

	ckpt_scan_show_global(call->func, name, sizeof(name));
	if (f->wanted == A_STRANGER) {
		ckpt_scan_find(f->w->s, CKPT_SCAN_UNREADABLE, "state", at, "the state of an object of %s, of Python's library or numpy, holds a class or an object that is none of these", name);
		return;
	}
	ckpt_scan_show_args(is_filled || is_state ? call->args->u.call->args : call->args, args, sizeof(args));
	if (is_state && f->wanted == A_CLASS)
		ckpt_scan_find(f->w->s, CKPT_SCAN_UNREADABLE, "state", at, "an object of %s, which a load asks for its items or calls, has a class, which may be called with what else it has", name);
	else if (call->given == GIVEN_AS_METHOD)
		ckpt_scan_find(f->w->s, CKPT_SCAN_DANGEROUS, "state", at, "sets an attribute, under a name which a load would look up and call, to an object of %s that has the function %s", name,
			       function ? ckpt_scan_show_global(function, given, sizeof(given)) : "of a call");
	else if (is_state)
		ckpt_scan_find(f->w->s, CKPT_SCAN_DANGEROUS, "state", at, "sets the state of an object of %s to an object that has the function %s, which the load may call", name,
			       function ? ckpt_scan_show_global(function, given, sizeof(given)) : "of a call");
	else if (is_member)
		ckpt_scan_find(f->w->s, CKPT_SCAN_DANGEROUS, "state", at, "puts the function %s into %s%s, which may be a member of an enumeration: every call that gives it has the function, too",
			       function ? ckpt_scan_show_global(function, given, sizeof(given)) : "of a call", name, args);
	else if (f->wanted == A_FUNCTION && is_filled)
		ckpt_scan_find(f->w->s, CKPT_SCAN_DANGEROUS, "state", at, "puts something into an object of %s%s, which may call the function %s that it has", name, args,
			       function ? ckpt_scan_show_global(function, given, sizeof(given)) : "of a call");
	else if (f->wanted == A_FUNCTION)
		ckpt_scan_find(f->w->s, CKPT_SCAN_DANGEROUS, "call", at, "%s %s%s: it may call the function %s that it is given", does, name, args,
			       function ? ckpt_scan_show_global(function, given, sizeof(given)) : "of a call");
	else if (call->given == GIVEN_TO_FUNCTION)
		ckpt_scan_find(f->w->s, CKPT_SCAN_DANGEROUS, "call", at, "%s %s%s: a function of a package, with arguments of the file", does, name, args);
	else if (is_filled)
		ckpt_scan_find(f->w->s, CKPT_SCAN_UNREADABLE, "state", at, "puts something into an object of %s%s, which may call the class that it has", name, args);
	else if (f->wanted == A_CLASS)
		ckpt_scan_find(f->w->s, CKPT_SCAN_UNREADABLE, "call", at, "%s %s%s: it may call the class that it is given, with the rest of that", does, name, args);
	else if (f->wanted == A_BASE)
		ckpt_scan_find(f->w->s, CKPT_SCAN_UNREADABLE, "call", at, "%s %s%s: with a class inside of an argument, it may make a class, and run the texts that this has", does, name, args);
	else
		ckpt_scan_find(f->w->s, CKPT_SCAN_UNREADABLE, "call", at, "%s %s%s: a class that is not known, which may open, import or run what a text, bytes or a class among its arguments names", does, name,
			       args);
}

static void search(struct search *f, enum looked_for wanted, enum given given)
{
	f->wanted = wanted;
	f->given = given;
	for (uint32_t i = 0; i < f->w->package_call_count; i++) {
		const struct ckpt_scan_package_call *call = &f->w->package_calls[i];
		const struct ckpt_value *v = wanted == A_FUNCTION || call->given == given ? find_given(f, call) : NULL;

		if (v)
			say(f, call, v);
	}
}

void ckpt_scan_check_packages(struct ckpt_scan_walk *w)
{
	struct search f = { .w = w };

	if (!w->package_call_count)
		return;
	f.seen = calloc(w->doc.next_id + (size_t)1, 1);
	w->s->no_memory |= !f.seen;
	if (f.seen) {
		search(&f, A_FUNCTION, GIVEN_AS_WRITTEN); /* of all */
		search(&f, A_CLASS, GIVEN_DATA);
		search(&f, A_CLASS, GIVEN_INSIDE);
		search(&f, A_CLASS, GIVEN_AS_STATE);
		search(&f, A_CLASS, GIVEN_AS_METHOD);
		search(&f, A_BASE, GIVEN_TO_NEW);
		search(&f, A_STRANGER, GIVEN_TO_LIBRARY);
		/* what these had in common with a class was said to be worse */
		search(&f, A_NAME, GIVEN_TO_FUNCTION);
		search(&f, A_NAME, GIVEN_NUMBERS);
	}
	free(f.seen);
	free(f.stack);
}

/* ---- what objects keep ---- */

/* The first function in V, a few containers down; NULL: there is none. */
static const struct ckpt_value *find_function(struct ckpt_scan_walk *w, const struct ckpt_value *v, unsigned depth)
{
	const struct ckpt_value *found = NULL;

	if (ckpt_scan_may_be_function(w, v))
		return v;
	if (v->kind < CKPT_TUPLE || v->kind > CKPT_DICT || depth == MOST_IN_STATE || !ckpt_scan_may_look(w, v->u.seq.count))
		return NULL;
	for (uint32_t i = 0; i < v->u.seq.count && !found; i++)
		found = find_function(w, v->u.seq.items[i], depth + 1);
	return found;
}

void ckpt_scan_keeps_functions(struct ckpt_scan_walk *w, const struct ckpt_value *object, const struct ckpt_value *const *values, size_t count)
{
	const struct ckpt_global *g = object->kind == CKPT_CALL ? ckpt_scan_callee(w, object->u.call->func) : NULL, *function;
	char name[SHOWN_NAME], of[SHOWN_NAME];

	if (!g || ckpt_scan_rule(g->module, g->name)->kind != CKPT_SCAN_OBJECT)
		return;
	for (size_t i = 0; i < count; i++) {
		const struct ckpt_value *v = find_function(w, values[i], 0);

		if (!v)
			continue;
		function = ckpt_scan_callee(w, v->kind == CKPT_CALL && !ckpt_scan_is_getattr(v) ? v->u.call->func : v);
		ckpt_scan_find(w->s, CKPT_SCAN_NEEDS_OBJECTS, "state", ckpt_scan_at(w), "an object of %s keeps the function %s, which its class may call",
			       ckpt_scan_show_global(g, of, sizeof(of)), function ? ckpt_scan_show_global(function, name, sizeof(name)) : "of a call");
		return;
	}
}
