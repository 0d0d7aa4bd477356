/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of Python's core that a protocol or a Python version writes otherwise than the file has
 * them: bytes, bytearray, methods, nested classes, iterators, keyword arguments, text of Python
 * 2. Source: CPython 3.9 to 3.14, Lib/pickle.py, Lib/copyreg.py, Objects/bytearrayobject.c,
 * Objects/methodobject.c, Objects/classobject.c.
 *
 * A text that Python makes for each save is DISTINCT (written out at every place), one that the
 * interpreter interns is INTERNED (one object wherever it stands): this flag decides whether the
 * encoder writes the text or a memo reference.
 */
#include "resave/resaver.h"

#include "base/text.h"
#include "pickle/names.h"

#include <string.h>

/* _codecs.encode(text, 'latin1') is how protocol 2 writes bytes. */
const struct ckpt_value *ckpt_resave_latin1_bytes(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *text = ckpt_resave_arg(s, v, 0), *codec = ckpt_resave_arg(s, v, 1);
	struct ckpt_value *bytes;
	uint64_t used = 0;
	uint8_t *out;

	if (!text || !codec || text->kind != CKPT_STR || !ckpt_value_is_str(codec, "latin1"))
		return v;
	out = ckpt_arena_alloc(s->scratch, text->u.bytes.len);
	bytes = ckpt_resave_make(s, CKPT_BYTES);
	if (!out || !bytes)
		return NULL;
	if (!ckpt_latin1_narrow(text->u.bytes.ptr, text->u.bytes.len, out, &used))
		return v; /* such a call would fail */
	bytes->id = v->id;
	bytes->u.bytes.ptr = (const char *)out;
	bytes->u.bytes.len = used;
	return bytes;
}

const struct ckpt_value *ckpt_resave_empty_bytes(struct ckpt_saver *s, const struct ckpt_value *v)
{
	struct ckpt_value *bytes;

	if (v->u.call->args->kind != CKPT_TUPLE || v->u.call->args->u.seq.count)
		return v;
	bytes = ckpt_resave_make(s, CKPT_BYTES);
	if (bytes) {
		bytes->id = v->id;
		bytes->u.bytes.ptr = "";
	}
	return bytes;
}

/* bytearray(bytes), as protocols up to 4 have it: the bytes are made for it. */
const struct ckpt_value *ckpt_resave_bytearray(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *bytes = ckpt_resave_arg(s, v, 0), *items[1];
	struct ckpt_value *copy;

	if (bytes->kind == CKPT_CALL)
		bytes = ckpt_resave_resolve_call(s, bytes);
	if (!bytes || bytes->kind != CKPT_BYTES)
		return bytes ? v : NULL;
	copy = ckpt_resave_make(s, CKPT_BYTES);
	if (!copy)
		return NULL;
	copy->flags |= CKPT_VALUE_DISTINCT;
	copy->u.bytes = bytes->u.bytes;
	items[0] = copy;
	return ckpt_resave_call(s, v, v->u.call->func, ckpt_resave_seq(s, CKPT_TUPLE, items, 1));
}

/* What no part of a class's name has. */
static bool has_odd_byte(const char *text, uint64_t len)
{
	return !len || memchr(text, '\0', len) || memchr(text, '\n', len) || memchr(text, '.', len);
}

/*
 * In modules written in C there are no classes inside of others, but methods that a class is asked
 * for.
 */
static bool has_methods_of_c(const char *module)
{
	static const char *const modules[] = { "__builtin__", "builtins", "datetime", "zoneinfo",
					       "torch._C" };

	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		if (!strcmp(module, modules[i]))
			return true;
	return false;
}

/*
 * getattr(OBJECT, 'b') is a method, or the member of an enumeration: a method of C makes its name
 * for every save, others have it interned.
 */
static const struct ckpt_value *make_getattr(struct ckpt_saver *s, const struct ckpt_value *v,
					     bool is_of_c)
{
	const struct ckpt_value *items[2] = { ckpt_resave_now(s, v->u.call->args)->u.seq.items[0],
					      NULL };
	struct ckpt_value *name = ckpt_resave_make(s, CKPT_STR);

	if (!name)
		return NULL;
	name->flags |= is_of_c ? CKPT_VALUE_DISTINCT : CKPT_VALUE_INTERNED;
	name->u.bytes = ckpt_resave_arg(s, v, 1)->u.bytes;
	items[1] = name;
	return ckpt_resave_call(s, v, v->u.call->func, ckpt_resave_seq(s, CKPT_TUPLE, items, 2));
}

/* An object whose methods are Python's own functions, as far as its class tells. */
static bool has_python_methods(const struct ckpt_value *v)
{
	const struct ckpt_value *cls = v->kind == CKPT_CALL ? v->u.call->func : NULL;

	return cls && (cls->kind != CKPT_GLOBAL || !has_methods_of_c(cls->u.global->module));
}

/* getattr(module.A, 'B') is how protocol 2 names the nested class module.A.B. */
const struct ckpt_value *ckpt_resave_nested_global(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *parent = ckpt_resave_arg(s, v, 0),
				*name = ckpt_resave_arg(s, v, 1);
	struct ckpt_value *made;
	const char *tail;

	if (parent && parent->kind == CKPT_CALL &&
	    ckpt_value_is_global(parent->u.call->func, v->u.call->func->u.global->module,
				 "getattr"))
		parent = ckpt_resave_resolve_call(s, parent);
	if (parent && parent->kind != CKPT_GLOBAL && name && name->kind == CKPT_STR)
		return make_getattr(s, v, !has_python_methods(parent));
	if (!parent || !name || parent->kind != CKPT_GLOBAL || name->kind != CKPT_STR ||
	    has_odd_byte(name->u.bytes.ptr, name->u.bytes.len) || name->u.bytes.len > 1000)
		return v;
	if (has_methods_of_c(parent->u.global->module))
		return make_getattr(s, v, true);
	/* which has names with dots: it is really a call */
	if (s->model->doc->pickle.protocol >= 4)
		return make_getattr(s, v, false);
	tail = ckpt_arena_copy(s->scratch, name->u.bytes.ptr, name->u.bytes.len);
	made = tail ? ckpt_resave_global(s, parent->u.global->module, parent->u.global->name, tail)
		    : NULL;
	if (made)
		made->id = v->id;
	return made;
}

/* iter([...]): an iterator of a list, whatever it was of before, which says how far it is. */
const struct ckpt_value *ckpt_resave_iterator(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *of = ckpt_resave_arg(s, v, 0);
	struct ckpt_value *copy, *start;

	if (v->u.call->state || !of || (of->kind != CKPT_LIST && of->kind != CKPT_TUPLE))
		return v;
	copy = (struct ckpt_value *)ckpt_resave_call(s, v, v->u.call->func, v->u.call->args);
	start = ckpt_resave_make(s, CKPT_INT);
	if (!copy || !start)
		return NULL;
	copy->u.call->state = start;
	return copy;
}

/* An object that makes the text which it is made of for every save. */
const struct ckpt_value *ckpt_resave_of_text(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *text = ckpt_resave_arg(s, v, 0), *items[1];
	struct ckpt_value *own;

	if (!text || (text->kind != CKPT_STR && text->kind != CKPT_BYTES))
		return ckpt_resave_with_attributes(s, v);
	own = ckpt_resave_make(s, text->kind);
	if (!own)
		return NULL;
	own->flags |= CKPT_VALUE_DISTINCT;
	own->u.bytes = text->u.bytes;
	items[0] = own;
	v = ckpt_resave_call(s, v, v->u.call->func, ckpt_resave_seq(s, CKPT_TUPLE, items, 1));
	return v ? ckpt_resave_with_attributes(s, v) : NULL;
}

/* A functools.partial that is called at once: how protocol 2 passes keyword arguments. */
const struct ckpt_value *ckpt_resave_called_partial(struct ckpt_saver *s,
						    const struct ckpt_value *v)
{
	const struct ckpt_value *partial = ckpt_resave_now(s, v->u.call->func), *items[4], *copy,
				*state;

	state = partial->u.call->state ? ckpt_resave_now(s, partial->u.call->state) : NULL;
	if (!state || state->kind != CKPT_TUPLE || state->u.seq.count != 4)
		return v;
	memcpy(items, state->u.seq.items, sizeof(items));
	if (ckpt_resave_now(s, items[2])->kind != CKPT_DICT)
		return v;
	items[2] = ckpt_resave_attribute_dict(s, ckpt_resave_now(s, items[2]));
	copy = ckpt_resave_call(s, partial, partial->u.call->func, partial->u.call->args);
	if (!copy)
		return NULL;
	copy->u.call->state = ckpt_resave_seq(s, CKPT_TUPLE, items, 4);
	return copy->u.call->state ? ckpt_resave_call(s, v, copy, v->u.call->args) : NULL;
}

/* Protocol 4's call with keyword arguments, for older protocols. */
const struct ckpt_value *ckpt_resave_new_with_keywords(struct ckpt_saver *s,
						       const struct ckpt_value *v)
{
	const struct ckpt_value *cls = ckpt_resave_now(s, v->u.call->func),
				*args = ckpt_resave_now(s, v->u.call->args);
	const struct ckpt_value *func, *partial, *state[4], *items[64];
	struct ckpt_value *made;

	if (cls->kind != CKPT_GLOBAL || args->kind != CKPT_TUPLE || args->u.seq.count >= 63)
		return v;
	func = ckpt_resave_global(s, cls->u.global->module, cls->u.global->name, "__new__");
	items[0] = cls;
	for (uint32_t i = 0; i < args->u.seq.count; i++)
		items[1 + i] = args->u.seq.items[i];
	state[0] = func;
	state[1] = ckpt_resave_seq(s, CKPT_TUPLE, items, args->u.seq.count + 1);
	state[2] = ckpt_resave_now(s, v->u.call->kwargs);
	if (state[2]->kind == CKPT_DICT)
		state[2] = ckpt_resave_attribute_dict(s, state[2]);
	state[3] = &ckpt_value_none;
	partial = ckpt_resave_call(s, NULL, ckpt_resave_global(s, "functools", "partial", ""),
				   ckpt_resave_seq(s, CKPT_TUPLE, &func, 1));
	if (!partial)
		return NULL;
	partial->u.call->state = ckpt_resave_seq(s, CKPT_TUPLE, state, 4);
	made = (struct ckpt_value *)ckpt_resave_call(s, v, partial, &ckpt_value_empty_tuple);
	if (!made || !partial->u.call->state)
		return NULL;
	made->u.call->kind = CKPT_CALL_REDUCE;
	made->u.call->kwargs = NULL;
	return made;
}

/* An object names its keyword arguments anew for every save: words of its program. */
const struct ckpt_value *ckpt_resave_keyword_names(struct ckpt_saver *s, const struct ckpt_value *v)
{
	const struct ckpt_value *kwargs = ckpt_resave_now(s, v->u.call->kwargs);
	struct ckpt_value *copy;

	if (kwargs->kind != CKPT_DICT)
		return v;
	copy = (struct ckpt_value *)ckpt_resave_call(s, v, v->u.call->func, v->u.call->args);
	if (copy)
		copy->u.call->kwargs = ckpt_resave_attribute_dict(s, kwargs);
	return copy && copy->u.call->kwargs ? copy : NULL;
}

/* torch.load takes them for UTF-8, and fails with others: these stay what they are. */
const struct ckpt_value *ckpt_resave_python2_str(struct ckpt_saver *s, const struct ckpt_value *v)
{
	struct ckpt_value *text;

	if (!ckpt_utf8_ok(v->u.bytes.ptr, v->u.bytes.len))
		return v;
	text = ckpt_resave_make(s, CKPT_STR);
	if (text) {
		text->id = v->id;
		text->u.bytes = v->u.bytes;
	}
	return text;
}

const struct ckpt_value *ckpt_resave_python2_global(struct ckpt_saver *s,
						    const struct ckpt_value *v)
{
	const char *module, *name;
	struct ckpt_value *made;

	if (!s->o->python2_names ||
	    !ckpt_python2_name(v->u.global->module, v->u.global->name, &module, &name))
		return v;
	made = ckpt_resave_global(s, module, name, "");
	if (made)
		made->id = v->id;
	return made;
}
