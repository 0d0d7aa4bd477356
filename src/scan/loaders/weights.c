/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unpickler of torch.load(weights_only=True), by rules and without it. Source:
 * torch/_weights_only_unpickler.py of 1.13, 2.6 and 2.14; held against the running programs by
 * tests/interop/scan.py.
 */
#include "base/text.h"
#include "model/safe_globals.h"
#include "scan/walk.h"

#include <string.h>

enum {
	IN_1_13 = 1 << CKPT_SCAN_TORCH_1_13,
	IN_2_6 = 1 << CKPT_SCAN_TORCH_2_6,
	IN_2_14 = 1 << CKPT_SCAN_TORCH_2_14,
	ALL = IN_1_13 | IN_2_6 | IN_2_14,
	SHOWN = 300,
};
_Static_assert((int)IN_1_13 == (int)CKPT_SAFE_IN_1_13 && (int)IN_2_6 == (int)CKPT_SAFE_IN_2_6 &&
		       (int)IN_2_14 == (int)CKPT_SAFE_IN_2_14,
	       "the versions have one numbering");

/* The versions that know the opcode. */
static unsigned opcode_in(uint8_t code)
{
	switch ((enum ckpt_opcode)code) {
	case CKPT_OP_PROTO:
	case CKPT_OP_STOP:
	case CKPT_OP_MARK:
	case CKPT_OP_NONE:
	case CKPT_OP_NEWTRUE:
	case CKPT_OP_NEWFALSE:
	case CKPT_OP_BININT:
	case CKPT_OP_BININT1:
	case CKPT_OP_BININT2:
	case CKPT_OP_LONG1:
	case CKPT_OP_SHORT_BINSTRING:
	case CKPT_OP_BINUNICODE:
	case CKPT_OP_EMPTY_LIST:
	case CKPT_OP_APPEND:
	case CKPT_OP_APPENDS:
	case CKPT_OP_EMPTY_TUPLE:
	case CKPT_OP_TUPLE:
	case CKPT_OP_TUPLE1:
	case CKPT_OP_TUPLE2:
	case CKPT_OP_TUPLE3:
	case CKPT_OP_EMPTY_DICT:
	case CKPT_OP_SETITEM:
	case CKPT_OP_SETITEMS:
	case CKPT_OP_EMPTY_SET:
	case CKPT_OP_GLOBAL:
	case CKPT_OP_REDUCE:
	case CKPT_OP_NEWOBJ:
	case CKPT_OP_BUILD:
	case CKPT_OP_BINPERSID:
	case CKPT_OP_BINPUT:
	case CKPT_OP_LONG_BINPUT:
	case CKPT_OP_BINGET:
	case CKPT_OP_LONG_BINGET: return ALL;
	case CKPT_OP_BINFLOAT: return IN_2_6 | IN_2_14;
	default: return 0;
	}
}

static const struct ckpt_value *top(const struct ckpt_scan_walk *w, size_t i)
{
	return w->m.depth - ckpt_machine_floor(&w->m) > i ? w->m.stack[w->m.depth - 1 - i] : NULL;
}

static unsigned safe_in(const struct ckpt_value *v)
{
	return v->kind == CKPT_GLOBAL ? ckpt_safe_global_in(v->u.global->module, v->u.global->name)
				      : 0;
}

static void check_global(struct ckpt_scan_walk *w)
{
	const struct ckpt_op *op = &w->m.op;
	char module[SHOWN], name[SHOWN], shown[2 * SHOWN + 8];
	struct ckpt_global g = { module, name, 0, 0 };
	unsigned in = 0;

	g.module_len = (uint32_t)(op->len < SHOWN ? op->len : SHOWN - 1);
	g.name_len = (uint32_t)(op->second_len < SHOWN ? op->second_len : SHOWN - 1);
	memcpy(module, op->bytes, g.module_len);
	memcpy(name, op->second, g.name_len);
	module[g.module_len] = name[g.name_len] = '\0';
	if (op->len < SHOWN && op->second_len < SHOWN && strlen(module) == op->len &&
	    strlen(name) == op->second_len)
		in = ckpt_safe_global_in(module, name);
	if (in != ALL)
		ckpt_scan_refuse(w->s, ALL & ~in, &g, ckpt_scan_at(w), "%s is not on its list",
				 ckpt_scan_show_global(&g, shown, sizeof(shown)));
}

static void refuse(struct ckpt_scan_walk *w, unsigned versions, const char *text)
{
	if (versions)
		ckpt_scan_refuse(w->s, versions, NULL, ckpt_scan_at(w), "%s", text);
}

/* What was refused by its name is not said a second time. */
static bool is_global(const struct ckpt_value *v)
{
	return v && v->kind == CKPT_GLOBAL;
}

static bool is_parameter(const struct ckpt_value *v)
{
	return ckpt_value_is_global(v, "torch.nn.parameter", "Parameter");
}

/* 1.13 makes no others than COO by this function. */
static bool is_new_sparse(const struct ckpt_value *func, const struct ckpt_value *args)
{
	const struct ckpt_value *layout = args && args->kind == CKPT_TUPLE && args->u.seq.count ? args->u.seq.items[0] : NULL;

	if (layout && layout->kind == CKPT_CALL && layout->u.call->args->kind == CKPT_TUPLE && layout->u.call->args->u.seq.count)
		layout = layout->u.call->args->u.seq.items[0];
	return ckpt_value_is_global(func, "torch._utils", "_rebuild_sparse_tensor") && layout && !ckpt_value_is_str(layout, "torch.sparse_coo") &&
	       !ckpt_value_is_global(layout, "torch", "sparse_coo");
}

/*
 * Arguments that torch has since 2.0: metadata (conj, neg) of a tensor, is_coalesced among the
 * parts of a sparse one.
 */
static bool has_new_arguments(const struct ckpt_value *func, const struct ckpt_value *args)
{
	const struct ckpt_value *parts;

	if (args->kind != CKPT_TUPLE)
		return false;
	if (ckpt_value_is_global(func, "torch._utils", "_rebuild_tensor_v2"))
		return args->u.seq.count > 6;
	parts = args->u.seq.count == 2 ? args->u.seq.items[1] : NULL;
	return ckpt_value_is_global(func, "torch._utils", "_rebuild_sparse_tensor") && parts && parts->kind == CKPT_TUPLE && parts->u.seq.count > 3;
}

/* "_rebuild_tensor", "scalar": of those that are allowed, and have no __new__(). */
static bool is_function(const struct ckpt_global *g)
{
	return (g->name[0] == '_' && g->name[1] >= 'a' && g->name[1] <= 'z') || !strcmp(g->name, "encode") || !strcmp(g->name, "scalar");
}

static void check_new(struct ckpt_scan_walk *w, const struct ckpt_value *cls)
{
	if (!is_global(cls) || is_function(cls->u.global))
		refuse(w, ALL, "NEWOBJ of what is no class that it allows");
	else if (!is_parameter(cls) && safe_in(cls) & IN_1_13)
		refuse(w, IN_1_13, "NEWOBJ of another class than Parameter");
}

/* torch.Tensor, torch.FloatTensor ...: what they make is a torch.Tensor. */
static bool is_tensor_class(const struct ckpt_value *func)
{
	size_t len = strlen(func->u.global->name);

	return !strcmp(func->u.global->module, "torch") && len >= 6 && !strcmp(func->u.global->name + len - 6, "Tensor");
}

/* Does FUNC make a torch.Tensor, not another class, whose state is what set_() is given? */
static bool makes_tensor(const struct ckpt_value *func)
{
	static const char *const others[] = { "_rebuild_parameter", "_rebuild_from_type", "_rebuild_wrapper_subclass" };
	const char *name = func->u.global->name;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!strncmp(name, others[i], strlen(others[i])))
			return false;
	return is_tensor_class(func) || !strncmp(name, "_rebuild_", 9);
}

/* 2.6 and later take the state of any class that is allowed; before, only of three. */
static void check_build(struct ckpt_scan_walk *w, const struct ckpt_value *v, const struct ckpt_value *state)
{
	const struct ckpt_value *func = v->kind == CKPT_CALL ? v->u.call->func : NULL;
	const char *name;

	if (!is_global(func)) {
		refuse(w, ALL, "BUILD of what it has no rule for");
		return;
	}
	name = func->u.global->name;
	if (makes_tensor(func) && (state->kind == CKPT_NONE || (state->kind == CKPT_TUPLE && (state->u.seq.count == 3 || state->u.seq.count == 5))))
		refuse(w, ALL, "BUILD of a tensor with what set_() does not take");
	if (ckpt_value_is_global(func, "_codecs", "encode") || ckpt_value_is_global(func, "torch.serialization", "_get_layout"))
		refuse(w, ALL, "BUILD of what it has no rule for");
	if (state->kind == CKPT_NONE && ckpt_value_is_global(func, "collections", "OrderedDict"))
		refuse(w, ALL, "BUILD of an OrderedDict with None");
	if (safe_in(func) & IN_1_13 && !is_tensor_class(func) && strncmp(name, "_rebuild_", 9) != 0 && !is_parameter(func) &&
	    !ckpt_value_is_global(func, "collections", "OrderedDict"))
		refuse(w, IN_1_13,
		       "BUILD of an object that is no tensor, Parameter or OrderedDict");
}

static void check_items(struct ckpt_scan_walk *w, const struct ckpt_value *v, bool pairs)
{
	if (!pairs && v->kind != CKPT_LIST)
		refuse(w, ALL, "appends to what is no list");
	else if (pairs && v->kind != CKPT_DICT &&
		 !ckpt_value_is_call_of(v, "collections", "OrderedDict") &&
		 !ckpt_value_is_call_of(v, "collections", "Counter"))
		refuse(w, IN_2_14, "sets items of what is no dict, OrderedDict or Counter");
}

static const struct ckpt_value *below_mark(const struct ckpt_scan_walk *w)
{
	size_t floor = ckpt_machine_floor(&w->m);

	return w->m.mark_count && floor ? w->m.stack[floor - 1] : NULL;
}

/* Storages of bytes: torch asks them for a dtype, but for the first where an archive has it. */
static bool has_no_dtype(const struct ckpt_scan_walk *w, const struct ckpt_value *cls)
{
	bool is_stream = w->in->flags & CKPT_SCAN_NUMBERS_LATER;

	return (is_stream && ckpt_value_is_global(cls, "torch.storage", "UntypedStorage")) || ckpt_value_is_global(cls, "torch.storage", "TypedStorage");
}

static void check_persistent(struct ckpt_scan_walk *w, const struct ckpt_value *pid)
{
	if (w->in->flags & CKPT_SCAN_TAR_IDS && ckpt_scan_is_text(pid))
		return; /* the number of a tensor */
	if (pid->kind != CKPT_TUPLE || !pid->u.seq.count ||
	    !ckpt_value_is_str(pid->u.seq.items[0], "storage"))
		refuse(w, ALL, "a persistent id that is no storage");
	else if (w->in->flags & CKPT_SCAN_NUMBERS_LATER && pid->u.seq.count != 6)
		refuse(w, ALL, "a storage of a stream without all that torch takes out of it");
	else if (!(w->in->flags & (CKPT_SCAN_NUMBERS_LATER | CKPT_SCAN_TAR_IDS)) && pid->u.seq.count != 5)
		refuse(w, ALL, "a storage of an archive with another number of parts than torch takes out of it");
	else if (pid->u.seq.count > 1 && has_no_dtype(w, pid->u.seq.items[1]))
		refuse(w, ALL, "a storage of a class that has no dtype");
}

void ckpt_scan_weights(struct ckpt_scan_walk *w)
{
	const struct ckpt_op *op = &w->m.op;
	const struct ckpt_value *a = top(w, 0), *b = top(w, 1), *c = top(w, 2);
	unsigned in = opcode_in(op->code);

	if (in != ALL &&
	    !(w->s->refused_opcodes[op->code / 8] & 1 << op->code % 8)) { /* said once */
		w->s->refused_opcodes[op->code / 8] |= (uint8_t)(1 << op->code % 8);
		ckpt_scan_refuse(w->s, ALL & ~in, NULL, ckpt_scan_at(w),
				 "the opcode %s is none that it knows",
				 ckpt_machine_op_name(&w->m));
	}
	switch ((enum ckpt_opcode)op->code) {
	case CKPT_OP_SHORT_BINSTRING:
		if (!ckpt_utf8_ok(op->bytes, op->len))
			refuse(w, ALL, "a text that is not UTF-8");
		break;
	case CKPT_OP_BINUNICODE:
		if (!ckpt_utf8_or_surrogates_ok(op->bytes, op->len))
			refuse(w, ALL, "a text that is not UTF-8");
		break;
	case CKPT_OP_GLOBAL: check_global(w); break;
	case CKPT_OP_REDUCE:
		if (b && !is_global(b))
			refuse(w, ALL, "calls what is no function that it allows");
		else if (b && is_new_sparse(b, a))
			refuse(w, IN_1_13, "a sparse tensor of a layout that it does not make");
		else if (b && a && has_new_arguments(b, a))
			refuse(w, IN_1_13, "a tensor with an argument that it does not know");
		break;
	case CKPT_OP_NEWOBJ:
		if (b)
			check_new(w, b);
		break;
	case CKPT_OP_BUILD:
		if (b)
			check_build(w, b, a);
		break;
	case CKPT_OP_APPEND:
		if (b)
			check_items(w, b, false);
		break;
	case CKPT_OP_SETITEM:
		if (c)
			check_items(w, c, true);
		break;
	case CKPT_OP_APPENDS:
	case CKPT_OP_SETITEMS:
		if (below_mark(w))
			check_items(w, below_mark(w), op->code == CKPT_OP_SETITEMS);
		break;
	case CKPT_OP_BINPERSID:
		if (a)
			check_persistent(w, a);
		break;
	default: break;
	}
}

void ckpt_scan_weights_broken(struct ckpt_scan_walk *w, const char *why)
{
	if (w->in->flags & CKPT_SCAN_CUT)
		w->s->weights_cut = true;
	else if (!(w->in->flags & CKPT_SCAN_PROBED))
		refuse(w, ALL, why);
}
