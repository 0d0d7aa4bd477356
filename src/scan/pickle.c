/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pickle on its way through the decoder, with every import and call looked at before it would
 * happen. Where the decoder gives up, CPython may go on, and what an unpickler did before it failed
 * it has done: so the walk goes on, too, with values that are not known, as far as there are
 * opcodes.
 */
#include "base/ascii.h"
#include "scan/walk.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Memory of a pickle: 64 MiB and 32 bytes for each of its own are promised for all that a scan
 * takes.
 */
/* of the arena: stack, memo and what goes through nested calls afterwards have to fit into the bound of docs/scan.md, too */
static const uint64_t BUDGET_BASE = 22 << 20, BUDGET_NESTED = 2 << 20;
enum { BUDGET_OF_BYTE = 27, MOST_SPARSE_MEMO = 1 << 16 };
static const struct ckpt_value unknown_id = { .kind = CKPT_STR, .u.bytes = { "?", 1 } };

const struct ckpt_value *ckpt_scan_unknown(struct ckpt_scan_walk *w)
{
	struct ckpt_value *v = ckpt_machine_new(&w->m, CKPT_PERSID);

	if (!v)
		return &ckpt_value_none;
	v->flags = CKPT_VALUE_MISSING;
	v->u.persid.pid = &unknown_id;
	return v;
}

bool ckpt_scan_is_unknown(const struct ckpt_value *v)
{
	return v->kind == CKPT_PERSID && v->flags & CKPT_VALUE_MISSING;
}

/* ---- operands, before an opcode takes them ---- */

static size_t available(const struct ckpt_scan_walk *w)
{
	return w->m.depth - ckpt_machine_floor(&w->m);
}

/* Value I from the top; NULL: there is none. */
static const struct ckpt_value *top(const struct ckpt_scan_walk *w, size_t i)
{
	return available(w) > i ? w->m.stack[w->m.depth - 1 - i] : NULL;
}

/* What lies below the last mark, which the plural opcodes add to. */
static const struct ckpt_value *below_mark(const struct ckpt_scan_walk *w)
{
	size_t floor = ckpt_machine_floor(&w->m),
	       under = w->m.mark_count > 1 ? w->m.marks[w->m.mark_count - 2] : 0;

	return w->m.mark_count && floor > under ? w->m.stack[floor - 1] : NULL;
}

static const struct ckpt_value *make_tuple(struct ckpt_scan_walk *w,
					   const struct ckpt_value *const *items, size_t count)
{
	struct ckpt_value *v = ckpt_machine_new(&w->m, CKPT_TUPLE);

	if (!v || count > UINT32_MAX ||
	    !ckpt_seq_add_many(w->m.arena, &v->u.seq, items, (uint32_t)count))
		return &ckpt_value_empty_tuple;
	return v;
}

/* Without arguments CPython makes an instance of a class by __new__() alone (_instantiate() of pickle.py); what is no class it calls. */
static bool is_class_of_table(const struct ckpt_value *func)
{
	const struct ckpt_scan_rule *rule = ckpt_scan_rule_of(func);

	return rule && rule->kind == CKPT_SCAN_DATA && !rule->is_function;
}

/* INST and OBJ: everything above the mark. */
static void call_marked(struct ckpt_scan_walk *w, const struct ckpt_value *func)
{
	size_t floor = ckpt_machine_floor(&w->m), count = w->m.depth - floor;
	const struct ckpt_value *const *items = w->m.stack ? w->m.stack + floor : NULL;

	if (!w->m.mark_count)
		return;
	if (!func) {
		if (!count)
			return;
		func = *items++;
		count--;
	}
	if (count > CKPT_SCAN_FEW_ARGS) /* of fewer ckpt_scan_called() looks for functions */
		ckpt_scan_kept(w, items, count);
	ckpt_scan_called(w, !count && is_class_of_table(func) ? CKPT_CALL_NEWOBJ : CKPT_CALL_REDUCE, func, make_tuple(w, items, count), NULL);
}

/* ---- names ---- */

/* A global by its two texts, whatever is in them. */
static const struct ckpt_value *make_global(struct ckpt_scan_walk *w, const char *module,
					    uint64_t module_len, const char *name,
					    uint64_t name_len)
{
	struct ckpt_value *v = ckpt_machine_new(&w->m, CKPT_GLOBAL);
	struct ckpt_global *g = ckpt_arena_alloc(w->m.arena, sizeof(*g));

	if (!v || !g || module_len > UINT32_MAX || name_len > UINT32_MAX)
		return NULL;
	*g = (struct ckpt_global){ ckpt_arena_copy(w->m.arena, module, module_len),
				   ckpt_arena_copy(w->m.arena, name, name_len),
				   (uint32_t)module_len, (uint32_t)name_len };
	v->u.global = g;
	return g->module && g->name ? v : NULL;
}

/* What the opcode names; NULL: it names nothing, or what cannot be known. */
static const struct ckpt_value *read_named_global(struct ckpt_scan_walk *w)
{
	const struct ckpt_op *op = &w->m.op;
	const struct ckpt_value *module = top(w, 1), *name = top(w, 0);

	if (op->code == CKPT_OP_GLOBAL || op->code == CKPT_OP_INST)
		return make_global(w, op->bytes, op->len, op->second, op->second_len);
	if (op->code != CKPT_OP_STACK_GLOBAL || !module || !name)
		return NULL;
	if (ckpt_scan_is_text(module) && ckpt_scan_is_text(name))
		return make_global(w, module->u.bytes.ptr, module->u.bytes.len, name->u.bytes.ptr,
				   name->u.bytes.len);
	ckpt_scan_find(w->s, CKPT_SCAN_DANGEROUS, "name", ckpt_scan_at(w),
		       "imports something whose name is not in the file but comes out of %s and %s",
		       ckpt_value_kind_name(module), ckpt_value_kind_name(name));
	return NULL;
}

static void find_extension(struct ckpt_scan_walk *w)
{
	ckpt_scan_find(
		w->s, CKPT_SCAN_INCONSISTENT, "name", ckpt_scan_at(w),
		"number %d of the registry of extensions, which every program may fill as it likes",
		(int)w->m.op.number);
}

/* ---- before each opcode ---- */

/*
 * Of the COUNT items of a tuple that may be the arguments of a call which takes a function (_rebuild_from_type_v2, torch.package,
 * getattr): which of them may be one, or such arguments themselves, a bit for each. What is done with the tuple then,
 * ckpt_scan_kept() and ckpt_scan_called() look at.
 */
static unsigned functions_for_call(uint8_t code, const struct ckpt_value *const *items, size_t count)
{
	if (code != CKPT_OP_TUPLE && code != CKPT_OP_TUPLE2 && code != CKPT_OP_TUPLE3)
		return 0;
	if (count == 4 && items[1]->kind == CKPT_GLOBAL && items[2]->kind == CKPT_TUPLE)
		return 1u | (ckpt_scan_is_from_type(items[0]) ? 1u << 2 : 0u);
	if ((count == 3 || count == 4) && ckpt_value_is_str(items[0], "reduce_package"))
		return 3u << (count - 2);
	return count == 2 && ckpt_value_is_global(items[0], "torch._utils", "torch") && items[1]->kind == CKPT_STR;
}

/* What the opcode puts into a container, or ends with. */
static void check_kept(struct ckpt_scan_walk *w)
{
	size_t floor = ckpt_machine_floor(&w->m), count = 0;
	const struct ckpt_value *const *items;
	unsigned apart;

	switch ((enum ckpt_opcode)w->m.op.code) {
	case CKPT_OP_STOP:
	case CKPT_OP_APPEND:
	case CKPT_OP_BUILD:
	case CKPT_OP_BINPERSID:
	case CKPT_OP_TUPLE1: count = 1; break;
	case CKPT_OP_SETITEM:
	case CKPT_OP_TUPLE2: count = 2; break;
	case CKPT_OP_TUPLE3: count = 3; break;
	case CKPT_OP_APPENDS:
	case CKPT_OP_SETITEMS:
	case CKPT_OP_ADDITEMS:
	case CKPT_OP_TUPLE:
	case CKPT_OP_LIST:
	case CKPT_OP_DICT:
	case CKPT_OP_FROZENSET: count = w->m.depth - floor; break;
	default: return;
	}
	if (!count || w->m.depth < floor + count)
		return;
	items = (const struct ckpt_value *const *)w->m.stack + w->m.depth - count;
	apart = functions_for_call(w->m.op.code, items, count);
	if (w->m.op.code == CKPT_OP_BINPERSID && items[0]->kind == CKPT_TUPLE && ckpt_value_is_str(ckpt_scan_arg(items[0], 0), "reduce_package"))
		apart = 1;
	if (!apart)
		ckpt_scan_kept(w, items, count);
	for (size_t i = 0; apart && i < count; i++)
		if (!(apart >> i & 1))
			ckpt_scan_kept(w, items + i, 1);
}

/* What the opcode puts into a dict or a set. */
static void check_keys(struct ckpt_scan_walk *w)
{
	size_t floor = ckpt_machine_floor(&w->m);
	const struct ckpt_value *container = NULL;
	const struct ckpt_seq *old = NULL;
	struct ckpt_scan_added_keys a = { .form = CKPT_KEYS_OF_PAIRS, .items = w->m.depth ? w->m.stack + floor : NULL, .count = w->m.depth - floor };

	switch ((enum ckpt_opcode)w->m.op.code) {
	case CKPT_OP_DICT: a.count /= 2; break;
	case CKPT_OP_SETITEM:
		if (!(container = top(w, 2)))
			return;
		a.items = w->m.stack + w->m.depth - 2;
		a.count = 1;
		break;
	case CKPT_OP_SETITEMS:
		container = below_mark(w);
		a.count /= 2;
		break;
	case CKPT_OP_ADDITEMS:
		container = below_mark(w);
		a.form = CKPT_KEYS_ALL;
		break;
	case CKPT_OP_FROZENSET: a.form = CKPT_KEYS_ALL; break;
	default: return;
	}
	if (container && (container->kind == CKPT_DICT || container->kind == CKPT_SET))
		old = &container->u.seq;
	else if (container && container->kind == CKPT_CALL)
		old = a.form == CKPT_KEYS_ALL ? &container->u.call->items : &container->u.call->pairs;
	if (old) {
		a.old = old->items;
		a.old_count = a.form == CKPT_KEYS_ALL ? old->count : old->count / 2;
	}
	a.container = container;
	ckpt_scan_keys_added(w, &a);
}

/* ChainMap(d)["a"] = 1 puts it into d, whatever the class is called: what had been looked at is another one then. */
static bool was_given_container(struct ckpt_scan_walk *w, const struct ckpt_value *object)
{
	const struct ckpt_value *args = object && object->kind == CKPT_CALL && ckpt_scan_type(w, object) == CKPT_TYPE_OBJECT ? object->u.call->args : NULL;

	for (uint32_t i = 0; args && args->kind == CKPT_TUPLE && i < args->u.seq.count; i++) {
		const struct ckpt_value *v = args->u.seq.items[i];

		if (v->kind == CKPT_LIST || v->kind == CKPT_DICT || v->kind == CKPT_SET || (v->kind == CKPT_CALL && v->u.call->func->kind == CKPT_GLOBAL && !strcmp(v->u.call->func->u.global->module, "collections")))
			return true;
	}
	return false;
}

static void put_into_object(struct ckpt_scan_walk *w, const struct ckpt_value *object, const struct ckpt_value *const *items, size_t count)
{
	ckpt_scan_put_into(w, items, count);
	ckpt_scan_keeps_functions(w, object, items, count);
	if (count && was_given_container(w, object))
		ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "state", ckpt_scan_at(w), "puts items into an object that was given a container: they may go into that");
}

/* Values that nobody has in the end, unless the memo has them: where these have numbers that are places in memory, only torch looks at them. */
static void note_dropped(struct ckpt_scan_walk *w, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		const struct ckpt_value *v = w->m.stack[i];

		w->s->drops_objects |= w->s->weights && (v->kind == CKPT_CALL || (v->kind >= CKPT_TUPLE && v->kind <= CKPT_DICT && v->u.seq.count));
	}
}

static void check_dropped(struct ckpt_scan_walk *w)
{
	size_t floor = ckpt_machine_floor(&w->m);

	switch ((enum ckpt_opcode)w->m.op.code) {
	case CKPT_OP_POP: note_dropped(w, w->m.depth > floor ? w->m.depth - 1 : w->m.depth, w->m.depth); break;
	case CKPT_OP_POP_MARK: note_dropped(w, floor, w->m.depth); break;
	case CKPT_OP_STOP: note_dropped(w, 0, w->m.depth ? w->m.depth - 1 : 0); break;
	default: break;
	}
}

static void check_opcode(struct ckpt_scan_walk *w, const struct ckpt_value *global)
{
	const struct ckpt_value *a = top(w, 0), *b = top(w, 1), *c = top(w, 2);

	check_kept(w);
	check_keys(w);
	check_dropped(w);
	switch ((enum ckpt_opcode)w->m.op.code) {
	case CKPT_OP_REDUCE:
		if (b)
			ckpt_scan_called(w, CKPT_CALL_REDUCE, b, a, NULL);
		break;
	case CKPT_OP_NEWOBJ:
		if (b)
			ckpt_scan_called(w, CKPT_CALL_NEWOBJ, b, a, NULL);
		break;
	case CKPT_OP_NEWOBJ_EX:
		if (c)
			ckpt_scan_called(w, CKPT_CALL_NEWOBJ_EX, c, b, a);
		break;
	case CKPT_OP_INST:
		if (global)
			call_marked(w, global);
		break;
	case CKPT_OP_OBJ: call_marked(w, NULL); break;
	case CKPT_OP_BUILD:
		if (b)
			ckpt_scan_built(w, b, a);
		break;
	case CKPT_OP_APPEND:
		if (b)
			ckpt_scan_added(w, b, false, 1);
		if (b && b->kind == CKPT_CALL)
			ckpt_scan_fills_object(w, b);
		if (b && b->kind == CKPT_CALL)
			put_into_object(w, b, &a, 1);
		break;
	case CKPT_OP_SETITEM:
		if (c)
			ckpt_scan_added(w, c, true, 1);
		if (c && c->kind == CKPT_CALL)
			ckpt_scan_sets_keys(w, c, 1);
		if (c && c->kind == CKPT_CALL)
			put_into_object(w, c, w->m.stack + w->m.depth - 2, 2);
		break;
	case CKPT_OP_APPENDS:
	case CKPT_OP_ADDITEMS:
	case CKPT_OP_SETITEMS:
		if (!below_mark(w))
			break;
		ckpt_scan_added(w, below_mark(w), w->m.op.code == CKPT_OP_SETITEMS, available(w));
		if (below_mark(w)->kind == CKPT_CALL && w->m.op.code == CKPT_OP_SETITEMS)
			ckpt_scan_sets_keys(w, below_mark(w), available(w) / 2);
		else if (below_mark(w)->kind == CKPT_CALL)
			ckpt_scan_fills_object(w, below_mark(w));
		if (below_mark(w)->kind == CKPT_CALL)
			put_into_object(w, below_mark(w), w->m.stack + ckpt_machine_floor(&w->m), available(w));
		break;
	case CKPT_OP_BINPERSID:
		if (a)
			ckpt_scan_persistent(w, a);
		break;
	case CKPT_OP_PERSID: ckpt_scan_persistent(w, NULL); break;
	case CKPT_OP_EXT1:
	case CKPT_OP_EXT2:
	case CKPT_OP_EXT4: find_extension(w); break;
	default: break;
	}
}

/* ---- behind a failure ---- */

/* As int() of Python reads it, which takes blanks, signs and underscores. */
static bool loose_index(const char *text, uint64_t len, uint64_t *out)
{
	bool any = false;

	*out = 0;
	for (uint64_t i = 0; i < len; i++) {
		if (ckpt_is_digit((unsigned char)text[i]) && *out < UINT32_MAX) {
			*out = *out * 10 + (uint64_t)(text[i] - '0');
			any = true;
		} else if (!strchr("_+ \t\r\f\v", text[i])) {
			return false;
		}
	}
	return any;
}

static void drop(struct ckpt_scan_walk *w, size_t count)
{
	size_t there = available(w);

	w->m.depth -= count < there ? count : there;
}

static void drop_to_mark(struct ckpt_scan_walk *w)
{
	if (w->m.mark_count)
		w->m.depth = w->m.marks[--w->m.mark_count];
}

/* Values that an opcode takes, when it takes a fixed number. */
static size_t operands(uint8_t code)
{
	switch (code) {
	case CKPT_OP_NEWOBJ_EX:
	case CKPT_OP_TUPLE3: return 3;
	case CKPT_OP_REDUCE:
	case CKPT_OP_NEWOBJ:
	case CKPT_OP_STACK_GLOBAL:
	case CKPT_OP_SETITEM:
	case CKPT_OP_TUPLE2: return 2;
	case CKPT_OP_BUILD:
	case CKPT_OP_APPEND:
	case CKPT_OP_BINPERSID:
	case CKPT_OP_TUPLE1:
	case CKPT_OP_POP: return 1;
	default: return 0;
	}
}

static bool takes_mark(uint8_t code)
{
	return code == CKPT_OP_TUPLE || code == CKPT_OP_LIST || code == CKPT_OP_DICT ||
	       code == CKPT_OP_FROZENSET || code == CKPT_OP_APPENDS || code == CKPT_OP_SETITEMS ||
	       code == CKPT_OP_ADDITEMS || code == CKPT_OP_POP_MARK || code == CKPT_OP_INST ||
	       code == CKPT_OP_OBJ;
}

bool ckpt_scan_takes_values(uint8_t code)
{
	return operands(code) || takes_mark(code);
}

static bool leaves_nothing(uint8_t code)
{
	return code == CKPT_OP_BUILD || code == CKPT_OP_APPEND || code == CKPT_OP_SETITEM ||
	       code == CKPT_OP_APPENDS || code == CKPT_OP_SETITEMS || code == CKPT_OP_ADDITEMS ||
	       code == CKPT_OP_POP || code == CKPT_OP_POP_MARK || code == CKPT_OP_PUT ||
	       code == CKPT_OP_BINPUT || code == CKPT_OP_LONG_BINPUT || code == CKPT_OP_MEMOIZE ||
	       code == CKPT_OP_PROTO || code == CKPT_OP_READONLY_BUFFER || code == CKPT_OP_STOP;
}

/* The stack as it would be had the opcode gone well; GLOBAL is what it names. */
static int step_past_failure(struct ckpt_scan_walk *w, const struct ckpt_value *global)
{
	uint8_t code = w->m.op.code;
	uint64_t index;

	w->m.depth = w->depth;
	w->m.mark_count = w->marks;
	if (code == CKPT_OP_PUT && loose_index(w->m.op.bytes, w->m.op.len, &index) && available(w))
		return ckpt_machine_memo_put(&w->m, index);
	if (code == CKPT_OP_GET && loose_index(w->m.op.bytes, w->m.op.len, &index) &&
	    ckpt_machine_memo_get(&w->m, index) == 0)
		return 0;
	if (takes_mark(code))
		drop_to_mark(w);
	else
		drop(w, operands(code));
	if (leaves_nothing(code))
		return 0;
	return ckpt_machine_push(&w->m,
				 global && code != CKPT_OP_INST ? global : ckpt_scan_unknown(w));
}

/* Said once for each pickle: what follows may come of it. */
static void find_broken(struct ckpt_scan_walk *w, const struct ckpt_error *err)
{
	char text[sizeof(err->text)];

	if (!w->broke && !(w->in->flags & CKPT_SCAN_PROBED))
		ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "pickle", ckpt_scan_at(w), "%s", ckpt_error_text(err, text, sizeof(text)));
	w->broke = true;
}

/*
 * Of "this.x\r" Python imports "this" first. A module is found by the last part of its name, so ".this" is, too. Names with
 * spaces begin many texts, and those of members of a tar have zero bytes behind them: of these no module is believed that does not
 * come with Python. "a/b" is the module a.b of a zip in sys.path, and a broken pip leaves folders called "~a": IN_TEXT, paths are.
 */
static bool may_be_module(const char *name, size_t len, bool in_text)
{
	char first[64];
	size_t at = 0, begin;

	if (!ckpt_utf8_ok(name, len))
		return false;
	while (at < len && name[at] == '.')
		at++;
	begin = at;
	while (at < len && (name[at] == '_' || name[at] == '-' || ckpt_is_alnum((unsigned char)name[at]) || (unsigned char)name[at] & 0x80 ||
			    (!in_text && (name[at] == '/' || name[at] == '~'))))
		at++;
	if (at == begin || (at < len && name[at] != '.'))
		return false;
	if (!memchr(name, '\0', len))
		return true;
	snprintf(first, sizeof(first), "%.*s", (int)(at - begin < sizeof(first) ? at - begin : sizeof(first) - 1), name + begin);
	return ckpt_scan_is_stdlib(first);
}

/* readline()[:-1] of what begins AT. */
static size_t line_len(const char *at, const char *end, const char **next)
{
	const char *feed = memchr(at, '\n', (size_t)(end - at));

	*next = feed ? feed + 1 : end;
	return feed ? (size_t)(feed - at) : at < end ? (size_t)(end - at) - 1 : 0;
}

/*
 * The unpickler in Python takes what there is for a line, less its last character, and imports before it asks for the mark of
 * INST.
 */
static void check_line(struct ckpt_scan_walk *w)
{
	const char *at = (const char *)w->in->bytes + w->m.op.pos, *module = at + 1, *end = (const char *)w->in->bytes + w->in->len;
	size_t module_len, name_len;

	if (module >= end || (*at != CKPT_OP_GLOBAL && *at != CKPT_OP_INST))
		return;
	module_len = line_len(module, end, &at);
	name_len = line_len(at, end, &end);
	w->imports |= ckpt_utf8_ok(at, name_len) && may_be_module(module, module_len, w->in->flags & CKPT_SCAN_PROSE);
}

static int step_opcode(struct ckpt_scan_walk *w, struct ckpt_error *err)
{
	uint32_t before = w->s->finding_count;
	const struct ckpt_value *global = read_named_global(w);
	int rc;

	w->depth = w->m.depth;
	w->marks = w->m.mark_count;
	if (global && w->doc.protocol >= 3 && ckpt_scan_is_of_python2(global->u.global->module))
		ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "name", ckpt_scan_at(w), "imports the module '%s' of Python 2, which protocol 3 and later have no other name for",
			       global->u.global->module);
	if (global && ckpt_utf8_ok(global->u.global->name, global->u.global->name_len))
		w->imports |= may_be_module(global->u.global->module, global->u.global->module_len, w->in->flags & CKPT_SCAN_PROSE);
	if (global)
		ckpt_scan_named(w, global->u.global);
	check_opcode(w, global);
	if (w->s->weights)
		ckpt_scan_weights(w);
	rc = ckpt_machine_step(&w->m);
	if (rc == 0)
		ckpt_scan_note_subjects(w, before);
	if (rc != CKPT_E_FORMAT)
		return rc;
	find_broken(w, err);
	return step_past_failure(w, global);
}

/* ---- frames ---- */

/*
 * CPython's unpickler in C takes a frame for no more than a hint of what to read at once, the one
 * in Python ends with it, and who reads the next pickle from the same file finds it behind the
 * frame, or behind STOP: that depends on buffers. They all agree where frames end between opcodes,
 * and the last one behind STOP.
 */
static void check_frames(struct ckpt_scan_walk *w)
{
	const char *why = NULL;
	size_t start = w->m.op.pos, end = w->m.r.pos;

	if (w->m.op.code == CKPT_OP_FRAME) {
		if (start < w->frame_end)
			why = "a frame begins in a frame";
		w->frame_end = w->m.op.number > UINT32_MAX ? SIZE_MAX : end + (size_t)w->m.op.number;
	} else if (start < w->frame_end && end > w->frame_end) {
		why = "a frame ends inside of an opcode";
		w->frame_end = 0;
	} else if (w->m.op.code == CKPT_OP_STOP && end < w->frame_end) {
		why = "the pickle ends inside of a frame: what is read behind it depends on the reader";
	}
	if (why)
		ckpt_scan_find(w->s, CKPT_SCAN_INCONSISTENT, "frame", ckpt_scan_at(w), "%s", why);
}

/*
 * CPython's memo is an array: it gets room for twice the highest number. Whoever writes pickles
 * counts from 0.
 */
static void check_memo(struct ckpt_scan_walk *w)
{
	uint64_t index = w->m.op.number;

	if (w->m.op.code == CKPT_OP_PUT ? !loose_index(w->m.op.bytes, w->m.op.len, &index)
					: w->m.op.code != CKPT_OP_LONG_BINPUT)
		return;
	if (w->m.op.code == CKPT_OP_LONG_BINPUT && w->in->flags & CKPT_SCAN_PROSE)
		return;
	if (index > w->in->len + MOST_SPARSE_MEMO)
		ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "amount", ckpt_scan_at(w),
			       "remembers a value as number %" PRIu64
			       ", for which Python makes room in memory",
			       index);
}

/* "-12", as every pickler writes it; of INT also "00" and "01", which are False and True. */
static bool is_usual_number(const struct ckpt_op *op)
{
	uint64_t len = op->len, i = 0;

	if (op->code == CKPT_OP_LONG && len && op->bytes[len - 1] == 'L')
		len--;
	if (op->code == CKPT_OP_INT && len == 2 && op->bytes[0] == '0' && (op->bytes[1] == '0' || op->bytes[1] == '1'))
		return true;
	if (len && op->bytes[0] == '-')
		i++;
	if (i == len || (op->bytes[i] == '0' && (len > 1)))
		return false;
	while (i < len && ckpt_is_digit((unsigned char)op->bytes[i]))
		i++;
	return i == len;
}

/*
 * "+1" is True for CPython's unpickler in C and 1 for that in Python, "010" was 8 until 3.13 and is
 * 10.
 */
static void check_number(struct ckpt_scan_walk *w)
{
	if ((w->m.op.code == CKPT_OP_INT || w->m.op.code == CKPT_OP_LONG) && !is_usual_number(&w->m.op) && !(w->in->flags & CKPT_SCAN_PROBED))
		ckpt_scan_find(w->s, CKPT_SCAN_INCONSISTENT, "pickle", ckpt_scan_at(w), "a number in text that unpicklers read in different ways");
}

/* ---- the whole ---- */

/* What the decoder keeps beside its arena counts as well. */
static bool is_too_much(const struct ckpt_scan_walk *w)
{
	return ckpt_arena_used(w->m.arena) +
		       (w->m.stack_cap + w->m.mark_cap + w->m.memo_cap + w->grown_cap + w->given_back_cap + w->kept_attributes_cap + 3 * (size_t)w->package_call_cap) * sizeof(void *) >
	       w->budget;
}

/* Is there what the opcode takes? Without it each unpickler ends. */
static bool has_operands(const struct ckpt_scan_walk *w)
{
	uint8_t code = w->m.op.code;

	if (code == CKPT_OP_POP)
		return w->m.depth || w->m.mark_count;
	if (code == CKPT_OP_PUT || code == CKPT_OP_BINPUT || code == CKPT_OP_LONG_BINPUT || code == CKPT_OP_MEMOIZE || code == CKPT_OP_DUP)
		return available(w) > 0;
	return takes_mark(code) ? w->m.mark_count > 0 : operands(code) <= available(w);
}

/* One that is longer than the file: the unpickler in Python runs what there is of it. */
static bool skip_frame(struct ckpt_scan_walk *w)
{
	enum { FRAME_BYTES = 9 };
	size_t at = w->m.op.pos;

	if (w->in->len - at < FRAME_BYTES || w->in->bytes[at] != CKPT_OP_FRAME)
		return false;
	find_broken(w, w->m.err);
	w->m.r.pos = at + FRAME_BYTES;
	w->m.r.bad = false;
	return true;
}

static int run_opcodes(struct ckpt_scan_walk *w, struct ckpt_error *err)
{
	char text[sizeof(err->text)];
	uint32_t count = 0;

	while (!w->m.done && w->m.op.code != CKPT_OP_STOP && w->s->rc == 0) {
		int rc;

		if (!(++count & 0xFFFF) && ckpt_scan_is_cancelled(w->s))
			return CKPT_E_CANCELLED;
		if (!(count & 0x3FF) && is_too_much(w))
			return ckpt_fail(err, CKPT_E_LIMIT,
					 "unfolds to more than a pickle of its size may");
		w->m.op.pos = w->m.r.pos;
		rc = ckpt_op_read(&w->m.r, &w->m.op, err);
		check_line(w);
		ckpt_scan_check_cost(w);
		if (rc < 0 && skip_frame(w))
			continue;
		if (rc < 0) {
			find_broken(w, err);
			if (w->s->weights)
				ckpt_scan_weights_broken(w, ckpt_error_text(err, text, sizeof(text)));
			return 0;
		}
		if (w->in->flags & CKPT_SCAN_PROBED && !has_operands(w))
			return 0;
		check_frames(w);
		check_memo(w);
		check_number(w);
		if (ckpt_scan_takes_too_much(w))
			return ckpt_fail(err, CKPT_E_LIMIT, "the same names, texts and objects are used again and again: more than are looked at");
		rc = step_opcode(w, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void ckpt_scan_one_pickle(struct ckpt_scanner *s, struct ckpt_scan_pickle *pickle)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_scan_walk w = { .s = s, .in = pickle };
	const struct ckpt_persistent_load persistent = { ckpt_scan_load_persistent, &w };
	bool cut = s->weights_cut;
	int rc = 0;

	pickle->stopped = pickle->imports = pickle->gave_up = false;
	pickle->end = 0;
	s->weights_cut |= s->weights; /* until it is gone through */
	if (pickle->len > s->pickle_budget) {
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "pickle", pickle->base,
			       "more pickles than are looked into: they overlap, or unfold");
		return;
	}
	if (pickle->len > UINT32_MAX - 16) {
		ckpt_scan_find(s, CKPT_SCAN_UNREADABLE, "pickle", pickle->base,
			       "has %zu bytes, the limit is 4 GiB", pickle->len);
		return;
	}
	w.m = (struct ckpt_machine){ .r = { pickle->bytes, pickle->len, 0, false },
				     .doc = &w.doc,
				     .persistent = &persistent,
				     .err = &err };
	w.doc.next_id = 1;
	/* a packed pickle may have more bytes than the file; it gets no more for that */
	w.budget = (s->depth ? BUDGET_NESTED : BUDGET_BASE) +
		   BUDGET_OF_BYTE * (pickle->len < s->file.bytes ? pickle->len : s->file.bytes);
	w.doc.arena = w.m.arena = ckpt_arena_new(w.budget);
	rc = w.m.arena ? run_opcodes(&w, &err) : CKPT_E_NOMEM;
	pickle->end = w.m.r.pos;
	/* what it went through: bytes that are no pickle break off at once */
	s->pickle_budget -= pickle->end < s->pickle_budget ? pickle->end : s->pickle_budget;
	pickle->result = w.m.done ? ckpt_scan_type(&w, w.doc.root) : 0;
	if (pickle->result == CKPT_TYPE_STORAGE &&
	    (w.has_two_classes || !ckpt_scan_read_storage(w.doc.root, &pickle->result_storage)))
		pickle->result = 0;
	pickle->imports = w.imports;
	pickle->gave_up = rc < 0;
	pickle->stopped = w.m.op.code == CKPT_OP_STOP && !w.m.r.bad;
	if (s->weights && rc == 0 && !w.broke) {
		s->weights_cut = cut;
		s->weights_seen = true;
	}
	ckpt_scan_name_subjects(&w);
	ckpt_scan_check_depth(&w);
	ckpt_scan_check_shown(&w);
	ckpt_scan_check_keys(&w);
	ckpt_scan_check_given_back(&w);
	ckpt_scan_check_packages(&w);
	ckpt_scan_check_kept_attributes(&w);
	free(w.package_calls);
	free(w.kept_attributes);
	free(w.inner);
	free(w.texts);
	free(w.grown);
	free(w.given_back);
	ckpt_machine_clear(&w.m);
	ckpt_strmap_clear(&w.sizes);
	ckpt_strmap_clear(&w.said);
	ckpt_pickle_clear(&w.doc);
	if (rc < 0 && rc != CKPT_E_NOMEM)
		rc = ckpt_error_at(&err, rc, NULL, NULL, pickle->base + w.m.op.pos);
	ckpt_scan_failed(s, rc, &err);
}

/* What follows STOP: another pickle, or bytes. */
void ckpt_scan_pickles(struct ckpt_scanner *s, const struct ckpt_scan_pickle *first, unsigned most)
{
	struct ckpt_scan_pickle p = *first;
	bool weights = s->weights;
	size_t done = 0;

	if (!first->len && weights)
		ckpt_scan_refuse(s, (1u << CKPT_SCAN_TORCH_COUNT) - 1, NULL, first->base,
				 "a pickle without a byte");
	for (unsigned n = 0; done < first->len && s->rc == 0; n++) {
		p = *first;
		p.bytes += done;
		p.len -= done;
		p.base += done;
		if (n == most)
			ckpt_scan_find(s, CKPT_SCAN_INCONSISTENT, "trailer", p.base,
				       "%zu bytes follow the end of the pickle", p.len);
		if (n >= most) {
			if (!ckpt_scan_looks_like_pickle(p.bytes, p.len))
				return;
			p.flags |= CKPT_SCAN_PROBED;
			s->weights = false; /* nor does torch look there */
		}
		ckpt_scan_one_pickle(s, &p);
		s->weights = weights;
		if (!p.stopped || !p.end)
			return;
		done += p.end;
	}
}
