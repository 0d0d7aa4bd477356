/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of classes and functions of packages, of which the tables know nothing but the name: what
 * they may be given.
 */
#include "base/ascii.h"
#include "base/text.h"
#include "scan/walk.h"

#include <string.h>

enum { SHOWN_NAME = 700 };

static size_t package_len(const struct ckpt_global *g)
{
	return strcspn(g->module, ".");
}

enum { MOST_IN_ARGUMENTS = 4 /* containers inside of each other */ };

/* A function that nobody knows, or what keeps one to be called: a class has a name as classes have. */
static bool may_be_function(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	const struct ckpt_global *g;
	const struct ckpt_scan_rule *rule;
	const char *dot, *last;

	if (v->kind == CKPT_CALL && !ckpt_scan_is_getattr(v))
		return ckpt_value_is_call_of(v, "functools", "partial");
	g = v->kind == CKPT_GLOBAL || v->kind == CKPT_CALL ? ckpt_scan_callee(w, v) : NULL;
	if (!g)
		return false;
	rule = ckpt_scan_rule(g->module, g->name);
	if (rule->kind == CKPT_SCAN_DATA)
		return false;
	dot = strrchr(g->name, '.');
	last = dot ? dot + 1 : g->name;
	last += strspn(last, "_");
	return rule->call_runs_code || rule->kind == CKPT_SCAN_CODE || !ckpt_is_upper((unsigned char)*last);
}

/*
 * Is a function among what is given to a class of a package, which may call it with the rest:
 * SortedKeyList(['text'], exec_)?
 */
static bool hands_over_function(struct ckpt_scan_walk *w, const struct ckpt_value *v, unsigned depth)
{
	if (may_be_function(w, v))
		return true;
	if (v->kind < CKPT_TUPLE || v->kind > CKPT_DICT)
		return false;
	if (depth == MOST_IN_ARGUMENTS || !ckpt_scan_may_look(w, v->u.seq.count))
		return v->u.seq.count > 0;
	for (uint32_t i = 0; i < v->u.seq.count; i++)
		if (hands_over_function(w, v->u.seq.items[i], depth + 1))
			return true;
	return false;
}

/* Is V a class, or function, of the package that G is in? */
static bool is_of_package(struct ckpt_scan_walk *w, const struct ckpt_value *v, const struct ckpt_global *g)
{
	const struct ckpt_global *of = v && (v->kind == CKPT_GLOBAL || ckpt_scan_is_getattr(v)) ? ckpt_scan_callee(w, v) : NULL;

	return of && package_len(of) == package_len(g) && !strncmp(of->module, g->module, package_len(g));
}

bool ckpt_scan_is_as_package_writes(struct ckpt_scan_checked_call *c)
{
	const struct ckpt_value *first = ckpt_scan_arg(c->args, 0);

	if (c->kwargs || (ckpt_scan_wanted(c->rule, 0) & CKPT_TYPE_ANY_CLASS && (!is_of_package(c->w, first, c->func) || may_be_function(c->w, first))))
		return false;
	for (uint32_t i = 0; i < c->args->u.seq.count; i++)
		if (hands_over_function(c->w, c->args->u.seq.items[i], 0))
			return false;
	return true;
}

/*
 * Is the first argument a bare object of a class of the package that G is in, in which nothing is of
 * the file's choice?
 */
static bool is_for_its_own(struct ckpt_scan_checked_call *c, const struct ckpt_global *g)
{
	const struct ckpt_value *first = ckpt_scan_arg(c->args, 0);
	const struct ckpt_call *made = first && first->kind == CKPT_CALL ? first->u.call : NULL;

	return made && !made->kwargs && !made->state && made->args->kind == CKPT_TUPLE && !made->args->u.seq.count && !made->items.count && !made->pairs.count &&
	       is_of_package(c->w, made->func, g);
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

/* __pyx_unpickle_Enum(class, checksum, state or None): what Cython writes for each class of its own. */
static bool is_of_cython(struct ckpt_scan_checked_call *c, const char *name)
{
	const struct ckpt_value *sum = ckpt_scan_arg(c->args, 1), *state = ckpt_scan_arg(c->args, 2);

	return !strncmp(name, "__pyx_unpickle_", 15) && !c->kwargs && state && c->args->u.seq.count == 3 && is_of_package(c->w, ckpt_scan_arg(c->args, 0), c->func) &&
	       sum->kind == CKPT_INT && (state->kind == CKPT_NONE || state->kind == CKPT_TUPLE);
}

static bool holds_name(struct ckpt_scan_walk *w, const struct ckpt_value *v, unsigned depth);

static bool hold_name(struct ckpt_scan_walk *w, const struct ckpt_seq *seq, unsigned depth)
{
	if (seq->count && (depth == MOST_IN_ARGUMENTS || !ckpt_scan_may_look(w, seq->count)))
		return true;
	for (uint32_t i = 0; i < seq->count; i++)
		if (holds_name(w, seq->items[i], depth + 1))
			return true;
	return false;
}

/*
 * Is there anything in V that a function could look up, or call: a text, bytes, a class, a function,
 * also inside of an object? Of tensors, and arrays of numbers, the texts are torch's and numpy's.
 */
static bool holds_name(struct ckpt_scan_walk *w, const struct ckpt_value *v, unsigned depth)
{
	const struct ckpt_call *call;
	uint64_t type = ckpt_scan_type(w, v);

	if (v->kind == CKPT_STR || v->kind == CKPT_PY2_STR || v->kind == CKPT_BYTES || v->kind == CKPT_BYTEARRAY)
		return true;
	if (v->kind < CKPT_GLOBAL)
		return v->kind >= CKPT_TUPLE && v->kind <= CKPT_DICT && hold_name(w, &v->u.seq, depth);
	if (type & (CKPT_TYPE_TENSOR | CKPT_TYPE_STORAGE | CKPT_TYPE_DTYPE | CKPT_TYPE_LAYOUT | CKPT_TYPE_QSCHEME | CKPT_TYPE_CONSTANT | CKPT_TYPE_DEVICE | CKPT_TYPE_NUMPY_DTYPE) ||
	    ckpt_scan_is_numbers_array(v))
		return false;
	if (v->kind != CKPT_CALL || ckpt_scan_is_getattr(v) || type == CKPT_TYPE_UNKNOWN || ckpt_value_is_call_of(v, "functools", "partial"))
		return true;
	call = v->u.call;
	if (depth == MOST_IN_ARGUMENTS)
		return true;
	return call->args->kind != CKPT_TUPLE || hold_name(w, &call->args->u.seq, depth) || hold_name(w, &call->items, depth) || hold_name(w, &call->pairs, depth) ||
	       (call->state && holds_name(w, call->state, depth + 1)) || (call->kwargs && holds_name(w, call->kwargs, depth + 1)) || call->setter;
}

/*
 * What a package writes to have its objects made again is a class, or a function. Of a function that
 * is not in the table nobody knows what it looks up by the texts, or calls of the classes, that it is
 * given: celery's _unpickle_appattr(text, arguments) calls anything. So it is given none, and has a
 * name of its own that says what it is for (_unpickle), or works on an object of the package. Classes have names
 * that begin with a capital, as Python's guide wants it.
 */
bool ckpt_scan_is_called_for_what_it_does(struct ckpt_scan_checked_call *c)
{
	const char *dot = strrchr(c->func->name, '.'), *last = dot ? dot + 1 : c->func->name;

	while (*last == '_' && last[1] >= 'A' && last[1] <= 'Z')
		last++; /* a class of the package's own */
	if ((*last >= 'A' && *last <= 'Z') || is_of_cython(c, last))
		return false;
	return c->kwargs || c->args->kind != CKPT_TUPLE || holds_name(c->w, c->args, 0) || (!is_named_for_objects(last) && !(is_for_its_own(c, c->func) && c->args->u.seq.count == 1));
}

/* The first function in V, a few containers down; NULL: there is none. */
static const struct ckpt_value *find_function(struct ckpt_scan_walk *w, const struct ckpt_value *v, unsigned depth)
{
	const struct ckpt_value *found = NULL;

	if (may_be_function(w, v))
		return v;
	if (v->kind < CKPT_TUPLE || v->kind > CKPT_DICT || depth == MOST_IN_ARGUMENTS || !ckpt_scan_may_look(w, v->u.seq.count))
		return NULL;
	for (uint32_t i = 0; i < v->u.seq.count && !found; i++)
		found = find_function(w, v->u.seq.items[i], depth + 1);
	return found;
}

bool ckpt_scan_hands_over_function(struct ckpt_scan_checked_call *c)
{
	return hands_over_function(c->w, c->args, 0) || (c->kwargs && hands_over_function(c->w, c->kwargs, 0));
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

