/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a load would import and call. ckpt_scan_rule() says what is known of a name; here its
 * arguments are held against that, and calls that are made by calls (copyreg, partial, getattr,
 * _rebuild_from_type_v2) are followed a few levels down.
 *
 * What must stay true: everything is asked before the opcode is carried out, with the values as
 * they are then; what was checked must not change later, so the arguments of torch's calls are
 * marked as used (mark_used()). A call that no row allows is never plain: every way through
 * check_call() either finds something or records the global as called. What a package's class or
 * function may be given is judged in packages.c.
 */
#include "base/ascii.h"
#include "scan/walk.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_CALLS_IN_CALLS = 8, SHOWN_NAME = 700, SHOWN_ARGS = 160, FEW_ARGS = 16, MOST_ATTRIBUTE = 256, OS_ERROR_NUMBER = 2 /* the third argument: characters_written of a BlockingIOError */ };

static void check_call(struct ckpt_scan_checked_call *c, const struct ckpt_value *func);

/* ---- names ---- */

/* Names that nothing has, but that come close to what runs code. */
static bool is_disguised(const struct ckpt_global *g)
{
	char module[128], name[128];
	size_t m = 0, n = 0;

	for (uint32_t i = 0; i < g->module_len && m + 1 < sizeof(module); i++)
		if ((unsigned char)g->module[i] > ' ')
			module[m++] = g->module[i];
	for (uint32_t i = 0; i < g->name_len && n + 1 < sizeof(name); i++)
		if ((unsigned char)g->name[i] > ' ')
			name[n++] = g->name[i];
	module[m] = name[n] = '\0';
	return ckpt_scan_rule(module, name)->kind == CKPT_SCAN_CODE;
}

void ckpt_scan_named(struct ckpt_scan_walk *w, const struct ckpt_global *g)
{
	enum ckpt_scan_kind kind = ckpt_scan_rule(g->module, g->name)->kind;
	char shown[SHOWN_NAME];
	const char *why;

	if (strlen(g->module) != g->module_len || strlen(g->name) != g->name_len)
		why = "it has a zero byte in it";
	else
		ckpt_scan_is_name(g->module, g->name, &why);
	if (why) {
		kind = is_disguised(g) ? CKPT_SCAN_CODE : CKPT_SCAN_OBJECT;
		if (kind == CKPT_SCAN_CODE)
			ckpt_scan_find(w->s, CKPT_SCAN_DANGEROUS, "name", ckpt_scan_at(w),
				       "imports %s, in a disguise",
				       ckpt_scan_show_global(g, shown, sizeof(shown)));
		ckpt_scan_find(w->s, CKPT_SCAN_INCONSISTENT, "name", ckpt_scan_at(w),
			       "imports '%s': %s", ckpt_scan_show_global(g, shown, sizeof(shown)),
			       why);
	}
	if (!ckpt_scan_add_global(w->s, g, ckpt_scan_at(w), kind) && kind == CKPT_SCAN_CODE)
		ckpt_scan_find(w->s, CKPT_SCAN_DANGEROUS, "name", ckpt_scan_at(w), "imports %s",
			       ckpt_scan_show_global(g, shown, sizeof(shown)));
}

bool ckpt_scan_is_getattr(const struct ckpt_value *v)
{
	return v->kind == CKPT_CALL && v->u.call->func->kind == CKPT_GLOBAL &&
	       ckpt_scan_rule(v->u.call->func->u.global->module, v->u.call->func->u.global->name)
			       ->call == CKPT_CALL_GETATTR;
}

/* What getattr(OF, NAME) gives, by its name; NULL: there is no memory. */
static const struct ckpt_global *attribute_of(struct ckpt_scan_walk *w, const struct ckpt_global *of, const struct ckpt_value *name)
{
	size_t size = of->name_len + name->u.bytes.len + 2;
	char *path = ckpt_arena_alloc(w->m.arena, size);
	struct ckpt_global *g = ckpt_arena_alloc(w->m.arena, sizeof(*g));

	if (!path || !g)
		return NULL;
	memcpy(path, of->name, of->name_len);
	path[of->name_len] = '.';
	memcpy(path + of->name_len + 1, name->u.bytes.ptr, name->u.bytes.len);
	path[size - 1] = '\0';
	*g = (struct ckpt_global){ of->module, path, of->module_len, (uint32_t)size - 1 };
	return g;
}

const struct ckpt_global *ckpt_scan_callee(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	const struct ckpt_value *of, *name;

	if (v->kind == CKPT_GLOBAL)
		return v->u.global;
	if (!ckpt_scan_is_getattr(v))
		return NULL;
	of = ckpt_scan_arg(v->u.call->args, 0);
	name = ckpt_scan_arg(v->u.call->args, 1);
	if (!of || of->kind != CKPT_GLOBAL || !ckpt_scan_is_text(name) || name->u.bytes.len > MOST_ATTRIBUTE)
		return NULL;
	return attribute_of(w, of->u.global, name);
}

/* The entry of a global that is called now. */
static void mark_called(struct ckpt_scan_checked_call *c, enum ckpt_scan_kind kind)
{
	struct ckpt_scan_global *entry =
		ckpt_scan_add_global(c->w->s, c->func, ckpt_scan_at(c->w), kind);

	if (!entry)
		return;
	entry->called = true;
	if (c->rule && (c->rule->call == CKPT_CALL_GETATTR || c->rule->call == CKPT_CALL_GETITEM))
		entry->kind = kind; /* as it is called here, it does no harm */
}

/* ---- findings ---- */

static void say_dangerous(struct ckpt_scan_checked_call *c, const char *why)
{
	char name[SHOWN_NAME], args[SHOWN_ARGS];

	mark_called(c, CKPT_SCAN_CODE);
	ckpt_scan_find(c->w->s, CKPT_SCAN_DANGEROUS, "call", ckpt_scan_at(c->w), "%s %s%s%s",
		       c->kind == CKPT_CALL_REDUCE ? "calls" : "makes an instance of",
		       ckpt_scan_show_global(c->func, name, sizeof(name)),
		       ckpt_scan_show_args(c->args, args, sizeof(args)), why);
}

/* It makes data, but nobody calls it so: what comes of it cannot be told. */
static void say_not_understood(struct ckpt_scan_checked_call *c, const char *why)
{
	char name[SHOWN_NAME], args[SHOWN_ARGS];

	ckpt_scan_find(c->w->s, CKPT_SCAN_UNREADABLE, "arguments", ckpt_scan_at(c->w), "calls %s%s, %s", ckpt_scan_show_global(c->func, name, sizeof(name)),
		       ckpt_scan_show_args(c->args, args, sizeof(args)), why);
}

/* ---- functions of which the arguments count ---- */

/*
 * "NAME" of an enumeration, "Inner" of a class, a method: nothing of Python's own, no module that
 * can be reached through another.
 */
static bool is_harmless_attribute(const struct ckpt_value *name)
{
	char text[128];

	if (!ckpt_scan_is_text(name) || !name->u.bytes.len || name->u.bytes.len >= sizeof(text))
		return false;
	memcpy(text, name->u.bytes.ptr, name->u.bytes.len);
	text[name->u.bytes.len] = '\0';
	return strncmp(text, "__", 2) != 0 && !strchr(text, '.') && !ckpt_scan_runs_code("", text);
}

/* getattr() imports nothing, but what it takes of G is a class or function that the file names. */
static void list_attribute(struct ckpt_scan_checked_call *c, const struct ckpt_global *g, const struct ckpt_value *name)
{
	const struct ckpt_global *attribute = attribute_of(c->w, g, name);

	mark_called(c, CKPT_SCAN_OBJECT);
	if (attribute)
		ckpt_scan_add_global(c->w->s, attribute, ckpt_scan_at(c->w), CKPT_SCAN_OBJECT);
}

/*
 * getattr(torch._utils.torch, 'channels_last') of torch, getattr(Outer, 'Inner') of CPython at
 * protocol 2
 */
static void check_getattr(struct ckpt_scan_checked_call *c)
{
	const struct ckpt_value *of = ckpt_scan_arg(c->args, 0), *name = ckpt_scan_arg(c->args, 1);
	const struct ckpt_value *made =
		of->kind == CKPT_CALL && !ckpt_scan_is_getattr(of) ? of->u.call->func : of;
	const struct ckpt_global *g = ckpt_scan_callee(c->w, made);
	const struct ckpt_scan_rule *rule = NULL;

	if (g && made != of && ckpt_scan_rule(g->module, g->name)->call == CKPT_CALL_NEW &&
	    ckpt_scan_arg(of->u.call->args, 0)) /* protocols 0 and 1: the class is the first argument */
		g = ckpt_scan_callee(c->w, ckpt_scan_arg(of->u.call->args, 0));
	if (g) /* a class, or an instance of one */
		rule = ckpt_scan_rule(g->module, g->name);
	if (rule && rule->call != CKPT_CALL_PLAIN && of->kind == CKPT_CALL)
		rule = NULL;
	if (rule && ckpt_value_is_global(of, "torch._utils", "torch") &&
	    (ckpt_value_is_str(name, "channels_last") ||
	     ckpt_value_is_str(name, "channels_last_3d") ||
	     ckpt_value_is_str(name, "contiguous_format") ||
	     ckpt_value_is_str(name, "preserve_format")))
		mark_called(c, CKPT_SCAN_DATA);
	else if (ckpt_value_is_global(of, "zoneinfo", "ZoneInfo") && ckpt_value_is_str(name, "_unpickle"))
		list_attribute(c, g, name);
	else if (((rule && rule->kind == CKPT_SCAN_OBJECT && !rule->call_runs_code) ||
		  /* torch.relu, as a value */
		  ckpt_value_is_global(of, "torch._C", "_VariableFunctionsClass")) &&
		 is_harmless_attribute(name))
		list_attribute(c, g, name);
	else
		say_dangerous(c, "");
}

/* typing.Optional[int] */
static void check_getitem(struct ckpt_scan_checked_call *c)
{
	const struct ckpt_value *of = ckpt_scan_arg(c->args, 0);

	if (of->kind == CKPT_GLOBAL && !strcmp(of->u.global->module, "typing"))
		mark_called(c, CKPT_SCAN_OBJECT);
	else
		say_dangerous(c, "");
}

/* What is called later, with arguments that are kept here: a class, but no function. */
static bool may_be_called_later(struct ckpt_scan_walk *w, const struct ckpt_value *func)
{
	const struct ckpt_global *g = ckpt_scan_callee(w, func);
	const struct ckpt_scan_rule *rule = g ? ckpt_scan_rule(g->module, g->name) : NULL;

	return rule && func->kind == CKPT_GLOBAL && rule->kind != CKPT_SCAN_CODE &&
	       !rule->call_runs_code && rule->call == CKPT_CALL_PLAIN;
}

void ckpt_scan_partial_state(struct ckpt_scan_walk *w, const struct ckpt_value *state)
{
	const struct ckpt_value *func = ckpt_scan_arg(state, 0);
	char args[SHOWN_ARGS];

	if (!func || !may_be_called_later(w, func))
		ckpt_scan_find(w->s, CKPT_SCAN_DANGEROUS, "state", ckpt_scan_at(w),
			       "keeps a function to be called, and what to call it with: %s",
			       ckpt_scan_show_args(state, args, sizeof(args)));
}

static void check_partial(struct ckpt_scan_checked_call *c)
{
	if (!may_be_called_later(c->w, ckpt_scan_arg(c->args, 0)))
		say_dangerous(c, ": a function that would be called with arguments of the file");
}

static const struct ckpt_value *rest_of(struct ckpt_scan_checked_call *c, uint32_t first)
{
	struct ckpt_value *v = ckpt_machine_new(&c->w->m, CKPT_TUPLE);

	if (!v || !ckpt_seq_add_many(c->w->m.arena, &v->u.seq, c->args->u.seq.items + first,
				     c->args->u.seq.count - first))
		return &ckpt_value_empty_tuple;
	return v;
}

/* numpy's generators are made of each other, by functions that call what they are given. */
static bool is_of_numpy_random(struct ckpt_scan_walk *w, uint32_t i, const struct ckpt_value *v)
{
	static const char *const classes[] = { "MT19937",   "PCG64",	    "PCG64DXSM", "Philox",    "SFC64",	    "RandomState",
					       "Generator", "SeedSequence", "__bit_generator_ctor",
					       NULL };
	const struct ckpt_global *g =
		ckpt_scan_callee(w, v->kind == CKPT_CALL ? v->u.call->func : v);

	if (v->kind < CKPT_GLOBAL) /* the state of a SeedSequence, else a name */
		return v->kind < CKPT_TUPLE || i == 2;
	if (!g || strncmp(g->module, "numpy.random", 12) != 0 || !ckpt_is_one_of(g->name, classes))
		return false;
	return i != 1 || !strcmp(g->name, "__bit_generator_ctor");
}

static bool may_be(struct ckpt_scan_checked_call *c, uint32_t i, const struct ckpt_value *v)
{
	uint64_t wanted = ckpt_scan_wanted(c->rule, i);

	if (!strncmp(c->rule->module, "numpy.random", 12))
		return is_of_numpy_random(c->w, i, v);
	return ckpt_scan_fits(c->w, v, wanted ? wanted : CKPT_TYPE_DATA | CKPT_TYPE_CLASS);
}

static bool are_fitting(struct ckpt_scan_checked_call *c)
{
	const struct ckpt_seq *args = &c->args->u.seq;

	for (uint32_t i = 0; i < args->count; i++)
		if (!may_be(c, i, args->items[i]))
			return false;
	return true;
}

/* A function where the row says that a class is: what is done with a class is to look something up on it, and to call that. */
static bool has_function_for_class(struct ckpt_scan_checked_call *c)
{
	const uint64_t classes = CKPT_TYPE_STRANGER | CKPT_TYPE_ATTRIBUTE | CKPT_TYPE_TENSOR_CLASS;

	if (c->rule->call != CKPT_CALL_PLAIN && c->rule->call != CKPT_CALL_TENSOR_WHOLE)
		return false; /* these look at it themselves */
	for (uint32_t i = 0; i < c->args->u.seq.count && c->rule->args[0]; i++)
		if (ckpt_scan_wanted(c->rule, i) & classes && !(ckpt_scan_wanted(c->rule, i) & CKPT_TYPE_OBJECT) && ckpt_scan_is_no_class(c->w, c->args->u.seq.items[i]))
			return true;
	return false;
}

static bool are_scalars(const struct ckpt_value *args)
{
	for (uint32_t i = 0; args->kind == CKPT_TUPLE && i < args->u.seq.count; i++)
		if (args->u.seq.items[i]->kind > CKPT_PY2_STR)
			return false;
	return args->kind == CKPT_TUPLE;
}

/* A call that makes a call. */
static void check_inner(struct ckpt_scan_checked_call *c, uint8_t kind, const struct ckpt_value *func,
			const struct ckpt_value *args)
{
	struct ckpt_scan_checked_call inner = { .w = c->w, .kind = kind, .args = args, .nesting = c->nesting + 1 };

	if (inner.nesting > MOST_CALLS_IN_CALLS)
		say_not_understood(c, "which is nested too deep to be looked at");
	else
		check_call(&inner, func);
}

/* ---- calls ---- */

/* Is CLS in no row of the tables, so that nobody knows what its methods do? */
static bool is_unknown_class(struct ckpt_scan_walk *w, const struct ckpt_value *cls)
{
	const struct ckpt_global *g = ckpt_scan_callee(w, cls);

	return !g || ckpt_scan_rule(g->module, g->name)->kind != CKPT_SCAN_DATA;
}

/* A class may take any keywords, and write them into the text of a program, as networkx' Config does by dataclass(). */
static void check_keywords(struct ckpt_scan_checked_call *c, const struct ckpt_value *kwargs)
{
	bool are = !kwargs || kwargs->kind == CKPT_DICT;

	for (uint32_t i = 0; kwargs && are && i < kwargs->u.seq.count; i += 2)
		are = ckpt_scan_may_look(c->w, 1) && ckpt_scan_is_keyword(kwargs->u.seq.items[i]);
	if (!are)
		say_dangerous(c, ": with keywords that are no names of arguments");
}

/*
 * copyreg._reconstructor(class, base, state) also calls base.__init__(object, state), but of object
 * itself.
 */
static void check_new(struct ckpt_scan_checked_call *c, const struct ckpt_value *cls)
{
	const struct ckpt_value *base = ckpt_scan_arg(c->args, 1);

	if (!strcmp(c->rule->name, "__newobj_ex__")) {
		struct ckpt_scan_checked_call spread = *c;

		spread.args = ckpt_scan_arg(c->args, 1);
		spread.kwargs = ckpt_scan_arg(c->args, 2);
		check_keywords(c, spread.kwargs);
		if (ckpt_scan_makes_class(&spread))
			say_not_understood(c, "with a name and a dict of more than data, of which it may make a class");
	}
	if (strcmp(c->rule->name, "_reconstructor") != 0) {
		check_inner(c, CKPT_CALL_NEWOBJ, cls, rest_of(c, 1));
		return;
	}
	if (ckpt_value_is_global(base, "__builtin__", "object") ||
	    ckpt_value_is_global(base, "builtins", "object")) {
		check_inner(c, CKPT_CALL_NEWOBJ, cls, &ckpt_value_empty_tuple);
		return;
	}
	/* NEWOBJ of a function ends the load, but __new__() of another class is only handed it */
	if (ckpt_scan_may_be_function(c->w, cls) && is_unknown_class(c->w, base))
		say_not_understood(c, "with what may be a function in the place of a class");
	check_inner(c, CKPT_CALL_NEWOBJ, cls, rest_of(c, 2));
	check_inner(c, CKPT_CALL_REDUCE, base, rest_of(c, 2));
}

static void check_attributes(struct ckpt_scan_checked_call *c, const struct ckpt_value *state)
{
	if (!ckpt_scan_are_attributes(c->w, state))
		say_not_understood(c, "wanted a dict of attributes, or a pair of them, of which torch prints anything else");
	ckpt_scan_tensor_attributes(c->w, state);
	ckpt_scan_called_attributes(c->w, state);
}

/*
 * The function that makes a tensor, and what is then set on it. torch calls methods of what comes out of
 * FUNC, and sets attributes of it, so that is a new tensor: of anything else, also of one that is there
 * already, as getattr() gives it, a method may be a function that the file has put there.
 */
static bool is_wrapper(const struct ckpt_scan_rule *rule)
{
	return rule && !strcmp(rule->name, "_rebuild_wrapper_subclass");
}

static bool is_dtensor(const struct ckpt_value *v)
{
	return v->kind == CKPT_GLOBAL && !strcmp(v->u.global->name, "DTensor");
}

/* A DTensor says in `_spec`, an object, how it is spread. One without is none that torch writes: on a device that is not there a copy of it ends the process. */
static bool is_spread(const struct ckpt_value *state)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(state);

	if (state->kind == CKPT_TUPLE && state->u.seq.count == 2) /* (None, slots) */
		return is_spread(state->u.seq.items[1]);
	for (uint32_t i = 0; pairs && i + 1 < pairs->count; i += 2)
		if (ckpt_value_is_str(pairs->items[i], "_spec"))
			return pairs->items[i + 1]->kind == CKPT_CALL;
	return false;
}

static void check_from_type(struct ckpt_scan_checked_call *c)
{
	const struct ckpt_value *func = ckpt_scan_arg(c->args, 0);
	const struct ckpt_global *g = func->kind == CKPT_GLOBAL ? func->u.global : NULL;
	const struct ckpt_scan_rule *rule = g ? ckpt_scan_rule(g->module, g->name) : NULL;

	check_inner(c, CKPT_CALL_REDUCE, func, ckpt_scan_arg(c->args, 2));
	if (ckpt_value_is_global(func, "torch.nested._internal.nested_tensor", "_rebuild_njt"))
		; /* makes a NestedTensor: in no row, since it calls what it is given */
	else if (!rule || rule->kind != CKPT_SCAN_DATA)
		say_dangerous(c, ": a function that is none of torch's which make tensors");
	else if (!(rule->result & (CKPT_TYPE_TENSOR | CKPT_TYPE_DRESSED)))
		say_not_understood(c, "wanted a function that makes a tensor");
	if (rule && rule->call == CKPT_CALL_OF_TENSORS && rule->args[0] == CKPT_TYPE_TENSOR)
		say_not_understood(c, "of a tensor that may be given back as it is, which would get these attributes");
	if (ckpt_scan_may_be_function(c->w, ckpt_scan_arg(c->args, 1)))
		say_not_understood(c, "with what may be a function in the place of a class");
	if ((is_wrapper(rule) || is_dtensor(ckpt_scan_arg(c->args, 1))) && ckpt_scan_type(c->w, ckpt_scan_arg(c->args, 1)) == CKPT_TYPE_CLASS && !is_spread(ckpt_scan_arg(c->args, 3)))
		say_not_understood(c, "a wrapper of tensors without what it wraps");
	if (ckpt_scan_type(c->w, ckpt_scan_arg(c->args, 1)) == CKPT_TYPE_CLASS)
		check_attributes(c, ckpt_scan_arg(c->args, 3));
	else /* which may take what it likes as a state */
		ckpt_scan_tensor_attributes(c->w, ckpt_scan_arg(c->args, 3));
	/* torch keeps a sparse tensor in its list, and this is that tensor where the class is torch.Tensor by another name */
	if (rule && (rule->call == CKPT_CALL_OF_PLACES || rule->call == CKPT_CALL_FROM_TYPE))
		ckpt_scan_called_attributes(c->w, ckpt_scan_arg(c->args, 3));
	if (!strcmp(c->rule->name, "_rebuild_from_type"))
		ckpt_scan_keep_attributes(c->w, ckpt_scan_arg(c->args, 3));
}

/*
 * A class whose arguments are for __init__(), which NEWOBJ does not call: what it makes is empty, or
 * not whole. Picklers of these do not write so.
 */
static bool is_made_by_init(const struct ckpt_scan_rule *rule)
{
	static const char *const builtins[] = { "list", "dict", "set", "bytearray", "UnicodeDecodeError", "UnicodeEncodeError", "UnicodeTranslateError", "SyntaxError", "IndentationError", "TabError", "", NULL };

	return !strcmp(rule->module, "collections") || !strcmp(rule->module, "pathlib") || (!strcmp(rule->module, "builtins") && ckpt_is_one_of(rule->name, builtins));
}

/* What was looked into, and is copied, stays as it is. */
static void freeze_arguments(struct ckpt_scan_checked_call *c)
{
	for (uint32_t i = 0; i < c->args->u.seq.count; i++) {
		uint64_t wanted = ckpt_scan_wanted(c->rule, i);

		if ((wanted & CKPT_TYPE_DATA) != CKPT_TYPE_DATA)
			ckpt_scan_freeze(ckpt_scan_arg(c->args, i), wanted & (CKPT_TYPE_PAIRS | CKPT_TYPE_SPARSE | CKPT_TYPE_QUANTIZER));
	}
}

static void say_misfit(struct ckpt_scan_checked_call *c)
{
	if (c->rule->call == CKPT_CALL_NEVER || !strncmp(c->rule->module, "numpy.random", 12))
		say_dangerous(c, ": it calls what it is given");
	else
		say_not_understood(
			c, "with an object where it takes data, whose methods it may call");
}

/* re.DEBUG prints the expression */
static bool is_debugged(const struct ckpt_value *flags)
{
	enum { DEBUG_FLAG = 128 };

	return !flags || flags->kind != CKPT_INT || flags->u.integer & DEBUG_FLAG;
}

static bool are_of_one_encoding(const struct ckpt_value *args)
{
	for (uint32_t i = 0; args->kind == CKPT_TUPLE && i < args->u.seq.count; i++)
		if (!ckpt_scan_is_of_one_encoding(args->u.seq.items[i]))
			return false;
	return true;
}

static void check_data(struct ckpt_scan_checked_call *c)
{
	const struct ckpt_scan_rule *rule = c->rule;
	const struct ckpt_value *first = ckpt_scan_arg(c->args, 0);
	int64_t count = c->args->kind == CKPT_TUPLE ? (int64_t)c->args->u.seq.count : -1;
	const char *why;

	if (rule->call == CKPT_CALL_OF_PACKAGE) {
		if (count < rule->least || count > rule->most || !are_fitting(c) || !ckpt_scan_is_as_package_writes(c))
			say_dangerous(c, ": a function of a package, with other arguments than the package writes");
		return;
	}
	if (rule->call == CKPT_CALL_NEVER || count < rule->least ||
	    (rule->most >= 0 && count > rule->most) ||
	    (c->kwargs && (c->kwargs->kind != CKPT_DICT || c->kwargs->u.seq.count))) {
		if (rule->result == CKPT_TYPE_CLASS && rule->is_function && count > 1)
			say_dangerous(c, ": makes a class");
		else
			say_not_understood(c, "which nobody writes");
		return;
	}
	if (rule->call != CKPT_CALL_NEW && rule->call != CKPT_CALL_PARTIAL &&
	    rule->call != CKPT_CALL_GETATTR && rule->call != CKPT_CALL_GETITEM && !are_fitting(c)) {
		say_misfit(c);
		return;
	}
	if (has_function_for_class(c)) {
		say_dangerous(c, ": with a function in the place of a class");
		return;
	}
	if (rule->kind == CKPT_SCAN_OBJECT)
		ckpt_scan_is_given(c);
	if (rule->call != CKPT_CALL_NEW && rule->call != CKPT_CALL_PARTIAL && rule->call != CKPT_CALL_GETATTR && rule->call != CKPT_CALL_GETITEM)
		freeze_arguments(c);
	if (!strcmp(rule->name, "or_") && (!ckpt_scan_is_flag(c->w, first) || !ckpt_scan_is_flag(c->w, ckpt_scan_arg(c->args, 1)))) {
		say_not_understood(c, "with what is no member of an enumeration, whose method it calls");
		return;
	}
	if (c->kind != CKPT_CALL_REDUCE && is_made_by_init(rule) && (count || !strcmp(rule->module, "pathlib"))) {
		say_not_understood(c, "as an instance of it that __init__() has not seen: it is empty, or not whole");
		return;
	}
	if (!strcmp(rule->module, "re") && !strcmp(rule->name, "_compile") && is_debugged(ckpt_scan_arg(c->args, 1))) {
		say_not_understood(c, "with flags that print while it is made, or with none");
		return;
	}
	if (!strcmp(rule->name, "deque") && !ckpt_scan_has_room(c->args, 0)) {
		say_not_understood(c, "a deque with more items than it keeps");
		return;
	}
	if (ckpt_scan_is_exception(rule) && count > OS_ERROR_NUMBER && ckpt_scan_type(c->w, ckpt_scan_arg(c->args, OS_ERROR_NUMBER)) & (CKPT_TYPE_TENSOR | CKPT_TYPE_DRESSED)) {
		say_not_understood(c, "with a tensor where Python takes a number of bytes: it asks the tensor");
		return;
	}
	if ((!strcmp(rule->name, "encode") || !strncmp(rule->module, "torch", 5)) && !are_of_one_encoding(c->args)) {
		say_not_understood(c, "with bytes of Python 2, which are another text by the encoding that a loader is told");
		return;
	}
	why = ckpt_scan_misread(c->w, rule, c->args);
	if (!why && is_wrapper(rule) && !c->nesting && ckpt_scan_type(c->w, first) == CKPT_TYPE_CLASS)
		why = "a wrapper of tensors without what it wraps";
	if (why) {
		say_not_understood(c, why);
		return;
	}
	if (ckpt_scan_is_exception(rule))
		ckpt_scan_will_be_shown(c->w, rule->call == CKPT_CALL_GROUP ? first : c->args);
	switch ((enum ckpt_scan_call)rule->call) {
	case CKPT_CALL_GROUP:
		if (!ckpt_scan_are_in_one_group(c->w, ckpt_scan_arg(c->args, 1)))
			say_not_understood(c, "with what is no exception, or one that is in a group already: Python shows it each time");
		return;
	case CKPT_CALL_NEVER:
	case CKPT_CALL_OF_PACKAGE:
	case CKPT_CALL_PLAIN: return;
	case CKPT_CALL_GETATTR: check_getattr(c); return;
	case CKPT_CALL_GETITEM: check_getitem(c); return;
	case CKPT_CALL_PARTIAL: check_partial(c); return;
	case CKPT_CALL_NEW: check_new(c, first); return;
	case CKPT_CALL_FROM_TYPE: check_from_type(c); return;
	case CKPT_CALL_WITH_STATE: check_attributes(c, ckpt_scan_arg(c->args, 3)); return;
	case CKPT_CALL_FROM_BYTES: ckpt_scan_nested_bytes(c->w, first); return;
	case CKPT_CALL_OF_PLACES: ckpt_scan_has_places(c->w); /* fall through */
	case CKPT_CALL_OF_TENSORS:
		ckpt_scan_made(c->w, rule->call, c->args);
		return;
	case CKPT_CALL_TENSOR:
	case CKPT_CALL_TENSOR_OF_DTYPE:
	case CKPT_CALL_TENSOR_WHOLE:
		if (rule->call == CKPT_CALL_TENSOR_WHOLE)
			ckpt_scan_made(c->w, rule->call, c->args);
		if (rule->call == CKPT_CALL_TENSOR_WHOLE && !ckpt_scan_is_quantized_so(c->w, c->args))
			say_not_understood(c, "which torch has no numbers of this dtype with");
		if (!ckpt_scan_is_in_storage(c->w, &c->args->u.seq, rule->call))
			say_not_understood(c, "which reaches out of its storage: torch would make that as large");
		if (rule->call != CKPT_CALL_TENSOR_WHOLE && ckpt_scan_may_be_quantized(c->w, first))
			say_not_understood(c, "a quantized tensor without the numbers that it is quantized by");
		return;
	case CKPT_CALL_NUMPY_SCALAR:
	case CKPT_CALL_NUMPY_BUFFER:
		first = ckpt_scan_arg(c->args, rule->call == CKPT_CALL_NUMPY_BUFFER);
		if (!ckpt_scan_is_item_dtype(first))
			say_not_understood(c, "wanted a dtype of numbers");
		else if (rule->call == CKPT_CALL_NUMPY_SCALAR && ckpt_scan_arg(c->args, 1) && !ckpt_scan_is_raw_item(first, ckpt_scan_arg(c->args, 1)))
			say_not_understood(c, "with more or fewer bytes than its dtype has");
		else if (rule->call == CKPT_CALL_NUMPY_BUFFER && !ckpt_scan_is_short_shape(ckpt_scan_arg(c->args, 2)))
			say_not_understood(c, "wanted up to 32 dimensions");
		else if (!ckpt_scan_are_texts(c->w, first, ckpt_scan_arg(c->args, rule->call == CKPT_CALL_NUMPY_SCALAR)))
			say_not_understood(c, "a text with what is no character");
		ckpt_scan_mark(first, CKPT_SCAN_USED);
		return;
	case CKPT_CALL_FACTORY:
		if (first && first->kind != CKPT_NONE)
			check_inner(c, CKPT_CALL_REDUCE, first, &ckpt_value_empty_tuple);
		return;
	case CKPT_CALL_RANGE:
		if (!ckpt_scan_is_range(c->args))
			say_not_understood(c, "wanted a range that lies in the text");
		return;
	case CKPT_CALL_DATE:
	case CKPT_CALL_TIME:
	case CKPT_CALL_DATETIME:
		if (!ckpt_scan_is_date(c->w, rule->call, first))
			say_not_understood(c, "wanted a date or time that there is");
		ckpt_scan_has_zone(c);
		return;
	case CKPT_CALL_NUMPY_DTYPE:
		if (!ckpt_scan_is_dtype_text(first))
			say_not_understood(c, "wanted the text of a dtype");
		return;
	}
}

bool ckpt_scan_is_user_container(const struct ckpt_global *g)
{
	if (!strcmp(g->name, "IterableUserDict")) /* as protocols 0 to 2 have it */
		return !strcmp(g->module, "UserDict");
	return !strncmp(g->name, "User", 4) && (!strcmp(g->module, "collections") || !strcmp(g->module, g->name));
}

/*
 * A time zone of dateutil, which pandas looks up: it opens the file that the rest of the text names. Too many
 * arguments to be looked at are taken for one.
 */
static bool names_zone_file(struct ckpt_scan_walk *w, const struct ckpt_value *v, unsigned depth)
{
	enum { MOST_DEPTH = 64 };
	static const char narrow[] = { 'd', 'a', 't', 'e', 'u', 't', 'i', 'l' };
	static const char wide[] = { 'd', 0, 0, 0, 'a', 0, 0, 0, 't', 0, 0, 0, 'e', 0, 0, 0, 'u', 0, 0, 0, 't' }; /* as numpy has texts */
	const struct ckpt_seq *seqs[3] = { 0 };
	bool found = false;

	if (!v)
		return false;
	if (ckpt_value_is_text(v) || v->kind == CKPT_BYTES)
		return memmem(v->u.bytes.ptr, v->u.bytes.len, narrow, sizeof(narrow)) || memmem(v->u.bytes.ptr, v->u.bytes.len, wide, sizeof(wide));
	if (v->kind >= CKPT_TUPLE && v->kind <= CKPT_DICT) {
		seqs[0] = &v->u.seq;
	} else if (v->kind == CKPT_CALL) {
		seqs[0] = &v->u.call->items;
		seqs[1] = &v->u.call->pairs;
	}
	if (v->kind == CKPT_CALL && depth < MOST_DEPTH)
		found = names_zone_file(w, v->u.call->args, depth + 1);
	for (int k = 0; k < 3 && seqs[k] && !found; k++) {
		if (seqs[k]->count && (depth == MOST_DEPTH || !ckpt_scan_may_look(w, seqs[k]->count)))
			return true;
		for (uint32_t i = 0; i < seqs[k]->count && !found; i++)
			found = names_zone_file(w, seqs[k]->items[i], depth + 1);
	}
	return found;
}

/*
 * Tensors, and the dicts of hooks and metadata, that a call of torch is given: they stay as they
 * are, or what was checked would not hold.
 */
static void mark_used(const struct ckpt_value *args, unsigned depth, bool has_state)
{
	const struct ckpt_scan_rule *rule;

	for (uint32_t i = 0; args->kind == CKPT_TUPLE && i < args->u.seq.count && i < FEW_ARGS; i++) {
		const struct ckpt_value *v = args->u.seq.items[i];

		if (has_state && i == 3)
			/*
			 * attributes were set as they were: a tensor that is its own attribute gets
			 * the others behind the call
			 */
			continue;
		if (v->kind == CKPT_TUPLE && depth < 2)
			mark_used(v, depth + 1, false);
		if (v->kind == CKPT_DICT && v->id && !depth)
			ckpt_scan_mark(v, CKPT_SCAN_USED);
		if (v->kind != CKPT_CALL || v->u.call->func->kind != CKPT_GLOBAL)
			continue;
		rule = ckpt_scan_rule(v->u.call->func->u.global->module, v->u.call->func->u.global->name);
		if (rule->then == CKPT_THEN_TENSOR || (!depth && ckpt_value_is_call_of(v, "collections", "OrderedDict")))
			ckpt_scan_mark(v, CKPT_SCAN_USED);
	}
}

static void check_call(struct ckpt_scan_checked_call *c, const struct ckpt_value *func)
{
	/* functions, which such modules import */
	static const char *const of_typing[] = { "NamedTuple", "TypedDict", "NewType", "TypeVar", "ParamSpec", "TypeVarTuple", NULL };
	struct ckpt_scan_global *entry;
	char args[SHOWN_ARGS];

	ckpt_scan_copied(c->w, c->args);
	c->func = ckpt_scan_callee(c->w, func);
	if (!c->func) {
		ckpt_scan_find(c->w->s,
			       c->w->in->flags & CKPT_SCAN_PROBED ? CKPT_SCAN_INCONSISTENT
								  : CKPT_SCAN_DANGEROUS,
			       "call", ckpt_scan_at(c->w),
			       "calls %s that only running the file would show%s",
			       func->kind == CKPT_EXT ? "an extension"
						      : "what a call gives, or something",
			       ckpt_scan_show_args(c->args, args, sizeof(args)));
		return;
	}
	c->rule = ckpt_scan_rule(c->func->module, c->func->name);
	check_keywords(c, c->kwargs);
	if (!strncmp(c->func->module, "pandas", 6) && (names_zone_file(c->w, c->args, 0) || names_zone_file(c->w, c->kwargs, 0))) {
		say_dangerous(c, ": a time zone that is the file of a name in it");
		return;
	}
	if (func->kind != CKPT_GLOBAL && c->rule->kind == CKPT_SCAN_DATA)
		c->rule = ckpt_scan_rule("", "f"); /* a method of it is none of it */
	if (c->rule->kind == CKPT_SCAN_CODE && c->rule->call == CKPT_CALL_PLAIN) {
		say_dangerous(c, "");
		return;
	}
	if (c->rule->call_runs_code && c->rule->kind == CKPT_SCAN_OBJECT &&
	    c->kind == CKPT_CALL_REDUCE) {
		say_dangerous(c, ": a function that makes no data");
		return;
	}
	if (!strncmp(c->func->module, "torch.", 6) && c->rule->kind == CKPT_SCAN_OBJECT &&
	    !*c->rule->name && c->kind == CKPT_CALL_REDUCE &&
	    (c->args->kind != CKPT_TUPLE || c->args->u.seq.count) &&
	    !(ckpt_scan_has_enumerations(c->func->module) && are_scalars(c->args) && !ckpt_is_one_of(c->func->name, of_typing))) {
		say_dangerous(c, ": torch writes such objects without calling their class");
		return;
	}
	if (c->rule->call_runs_code && c->rule->kind == CKPT_SCAN_OBJECT && (c->kwargs || c->args->kind != CKPT_TUPLE || c->args->u.seq.count) &&
	    !ckpt_scan_is_user_container(c->func)) {
		say_dangerous(c, ": a class that makes no data, with arguments of the file");
		return;
	}
	if (c->rule->call_runs_code && c->rule->kind == CKPT_SCAN_OBJECT && !strncmp(c->func->module, "torch.", 6)) {
		say_dangerous(c, ": a class of torch that is not written so");
		return;
	}
	if (c->rule->kind == CKPT_SCAN_OBJECT && !*c->rule->name && c->kind != CKPT_CALL_REDUCE && ckpt_scan_makes_class(c))
		say_not_understood(c, "with a name and a dict of more than data, of which it may make a class");
	if (c->rule->kind == CKPT_SCAN_OBJECT && !*c->rule->name && c->kind != CKPT_CALL_REDUCE && !strncmp(c->func->module, "torch.", 6) && ckpt_scan_may_be_sizes(c))
		say_not_understood(c, "which may be a class of tensors, and make one of memory that nobody has set");
	if (c->rule->kind == CKPT_SCAN_OBJECT && !*c->rule->name && ckpt_scan_is_named_as_array(c->func, c->args) && (c->kwargs || c->args->kind != CKPT_TUPLE || c->args->u.seq.count))
		say_not_understood(c, "which may be the class of torch or numpy by another name, whose memory nobody has set");
	if (c->rule->kind == CKPT_SCAN_OBJECT && !*c->rule->name && ckpt_scan_is_package_function(c)) {
		say_dangerous(c, ": a function of a package, with arguments of the file");
		return;
	}
	if (c->rule->kind == CKPT_SCAN_OBJECT)
		mark_called(c, CKPT_SCAN_OBJECT);
	else if ((entry = ckpt_scan_add_global(c->w->s, c->func, ckpt_scan_at(c->w),
					       c->rule->kind)))
		entry->called = true;
	if (*c->rule->name || c->rule->kind != CKPT_SCAN_OBJECT)
		check_data(c);
	if (c->rule->kind == CKPT_SCAN_DATA)
		ckpt_scan_weighed(c->w, c->rule, c->args);
	if (c->rule->kind == CKPT_SCAN_DATA && !strncmp(c->func->module, "torch", 5))
		mark_used(c->args, 0, c->rule->call == CKPT_CALL_WITH_STATE || c->rule->call == CKPT_CALL_FROM_TYPE);
}

void ckpt_scan_called(struct ckpt_scan_walk *w, uint8_t kind, const struct ckpt_value *func,
		      const struct ckpt_value *args, const struct ckpt_value *kwargs)
{
	struct ckpt_scan_checked_call c = { .w = w, .kind = kind, .args = args, .kwargs = kwargs };

	if (kind != CKPT_CALL_REDUCE || !ckpt_scan_takes_function(func))
		ckpt_scan_kept(w, &args, 1);
	if (args->kind == CKPT_TUPLE && args->u.seq.count > FEW_ARGS &&
	    !ckpt_scan_may_look(w, args->u.seq.count))
		c.args = &ckpt_value_none; /* nobody calls anything so */
	check_call(&c, func);
	ckpt_scan_made_of(w, c.args);
}
