/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done to objects after they were made: BUILD, APPEND, SETITEM.
 *
 * What must stay true: a second state, and items that are added after the state or after the
 * object was used, are findings, since they could change what a later opcode calls. Values that
 * many calls share are looked at within one budget (ckpt_scan_may_look()), or a small file could
 * keep the scan busy for ever.
 */
#include "scan/walk.h"

#include "base/grow.h"
#include "base/text.h"

#include <string.h>

static const struct ckpt_scan_rule *rule_of(struct ckpt_scan_walk *w,
					    const struct ckpt_value *object)
{
	const struct ckpt_value *func = object->kind == CKPT_CALL ? object->u.call->func : NULL;
	const struct ckpt_global *g = func ? ckpt_scan_callee(w, func) : NULL;

	return g ? ckpt_scan_rule(g->module, g->name) : NULL;
}

bool ckpt_scan_may_look(struct ckpt_scan_walk *w, uint64_t count)
{
	if (count > w->s->nested_budget) {
		if (!w->tired)
			ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "state", ckpt_scan_at(w),
				       "the same values again and again, more than are looked at");
		w->tired = true;
		return false;
	}
	w->s->nested_budget -= count;
	return true;
}

static bool is_called_as(const struct ckpt_value *object, const char *module, const char *name)
{
	return object->kind == CKPT_CALL && object->u.call->func->kind == CKPT_GLOBAL &&
	       !strcmp(object->u.call->func->u.global->module, module) &&
	       !strcmp(object->u.call->func->u.global->name, name);
}

/* ---- attributes ---- */

static bool is_one_of(const struct ckpt_value *name, const char *const *names)
{
	for (; *names; names++)
		if (ckpt_value_is_str(name, *names))
			return true;
	return false;
}

/* Could somebody call V, and would that be more than making data? */
static bool is_callable(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	const struct ckpt_scan_rule *rule;

	if (v->kind == CKPT_CALL) {
		rule = rule_of(w, v);
		return !rule || rule->call == CKPT_CALL_PARTIAL || rule->call == CKPT_CALL_GETATTR;
	}
	if (v->kind != CKPT_GLOBAL)
		return v->kind == CKPT_EXT || ckpt_scan_is_unknown(v);
	rule = ckpt_scan_rule(v->u.global->module, v->u.global->name);
	return rule->kind != CKPT_SCAN_DATA ||
	       (rule->call != CKPT_CALL_PLAIN && rule->call != CKPT_CALL_NEVER);
}

/* numpy.float64 as the dtype that a transformer of scikit-learn makes: called, it makes a number. */
static bool is_dtype(const struct ckpt_value *key, const struct ckpt_value *v)
{
	return ckpt_value_is_str(key, "dtype") && v->kind == CKPT_GLOBAL && ckpt_scan_is_number_class(v->u.global);
}

static void not_understood(struct ckpt_scan_walk *w, const char *text)
{
	ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "state", ckpt_scan_at(w), "%s", text);
}

/* "__setstate__": Python's own. */
static bool is_special(const struct ckpt_value *name)
{
	return (name->kind == CKPT_STR || name->kind == CKPT_PY2_STR) && name->u.bytes.len > 4 &&
	       !memcmp(name->u.bytes.ptr, "__", 2) &&
	       !memcmp(name->u.bytes.ptr + name->u.bytes.len - 2, "__", 2);
}

/*
 * Unpicklers, and what rebuilds objects for them, look these up on an object, where a value that
 * was set would be found and called.
 */
static void check_attributes(struct ckpt_scan_walk *w, const struct ckpt_value *dict)
{
	static const char *const by_unpickler[] = { "__setstate__",
						    "append",
						    "extend",
						    "add",
						    "__reduce__",
						    "__reduce_ex__",
						    "__setitem__",
						    "__class__",
						    "__getattr__",
						    "__call__",
						    "find_class",
						    "persistent_load",
						    NULL },
				 *const by_others[] = { "keys",
							"items",
							"values",
							"get",
							"set",
							"set_",
							"update",
							"setdefault",
							"copy",
							"clone",
							"to",
							"cpu",
							"cuda",
							"detach",
							"as_subclass",
							"numpy",
							"tolist",
							"view",
							"__deepcopy__",
							"__copy__",
							"as_integer_ratio",
							"index",
							"read",
							"readline",
							"readinto",
							"seek",
							"tell",
							"write",
							"close",
							"flush",
							"fileno",
							"decode",
							"encode",
							"dtype",
							"forward",
							"load_state_dict",
							"state_dict",
							"__torch_function__",
							"__array__",
							"__len__",
							"__iter__",
							"requires_grad_",
							"_set",
							"pop",
							"popitem",
							"move_to_end",
							NULL };
	const struct ckpt_seq *pairs = ckpt_value_pairs(dict);
	char shown[80];

	if (!pairs || !ckpt_scan_may_look(w, pairs->count))
		return;
	for (uint32_t i = 0; i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *key = pairs->items[i], *v = pairs->items[i + 1];

		if (key->kind >= CKPT_GLOBAL)
			not_understood(w, "sets an attribute whose name is made by a call");
		if (!ckpt_scan_is_of_one_encoding(key))
			not_understood(w, "sets an attribute whose name is another one by the encoding that a loader is told");
		if (ckpt_value_is_str(key, "__dict__"))
			ckpt_scan_find(w->s, CKPT_SCAN_DANGEROUS, "state", ckpt_scan_at(w), "sets the attribute '__dict__', which puts other attributes in the place of all that an object has");
		if ((v->kind >= CKPT_GLOBAL && (is_one_of(key, by_unpickler) || is_special(key))) ||
		    (v->kind >= CKPT_GLOBAL && is_one_of(key, by_others) && is_callable(w, v) && !is_dtype(key, v)))
			ckpt_scan_find(
				w->s, CKPT_SCAN_DANGEROUS, "state", ckpt_scan_at(w),
				"sets the attribute '%s', which a load would look up and call",
				ckpt_escape(shown, sizeof(shown), key->u.bytes.ptr,
					    key->u.bytes.len));
		else if (v->kind == CKPT_GLOBAL && is_one_of(key, by_others) && ckpt_scan_type(w, v) == CKPT_TYPE_CLASS && !is_dtype(key, v))
			not_understood(w, "sets an attribute to a class, under a name which a load would look up and call");
		else if (v->kind == CKPT_CALL && is_one_of(key, by_others))
			ckpt_scan_is_method(w, v);
	}
}

/*
 * Names under which a tensor has parts of its own, in torch 1.7 to 2.14: setattr() with one of them
 * writes into the tensor, or replaces what it is. Source: what has __set__ in the classes that
 * torch.Tensor, Parameter and Buffer are made of (tests/scan/tensor_attributes.py finds them anew).
 */
static const char *const parts_of_tensors[] = {
	"H", "T", "_backward_hooks", "_base", "_cdata", "_grad", "_grad_fn", "_has_symbolic_sizes_strides", "_post_accumulate_grad_hooks", "_python_dispatch",
	"_version", "data", "device", "dtype", "grad", "grad_dtype", "grad_fn", "imag", "is_cpu", "is_cuda", "is_ipu", "is_leaf", "is_maia", "is_meta", "is_mkldnn",
	"is_mps", "is_mtia", "is_nested", "is_ort", "is_quantized", "is_sparse", "is_sparse_csr", "is_vulkan", "is_xla", "is_xpu", "itemsize", "layout", "mH", "mT",
	"name", "names", "nbytes", "ndim", "output_nr", "real", "requires_grad", "retains_grad", "shape", "volatile", NULL
};

/*
 * torch.load() calls these of each sparse tensor when all is read: torch/_utils.py, _validate_loaded_sparse_tensors(). Of one that
 * becomes of a package's class, another object is in its list.
 */
static const char *const called_of_tensors[] = { "_indices", "_values", "ccol_indices", "col_indices", "crow_indices", "indices", "is_coalesced", "row_indices", "size", "sparse_dim", "dense_dim", "values", "layout", NULL };

static void check_called_attributes(struct ckpt_scan_walk *w, const struct ckpt_value *dict)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(dict);
	char shown[80];

	for (uint32_t i = 0; pairs && i + 1 < pairs->count && ckpt_scan_may_look(w, 1); i += 2)
		if (is_one_of(pairs->items[i], called_of_tensors))
			ckpt_scan_find(w->s, CKPT_SCAN_DANGEROUS, "state", ckpt_scan_at(w), "sets the attribute '%s' of a tensor, which a load calls",
				       ckpt_escape(shown, sizeof(shown), pairs->items[i]->u.bytes.ptr, pairs->items[i]->u.bytes.len));
}

void ckpt_scan_called_attributes(struct ckpt_scan_walk *w, const struct ckpt_value *state)
{
	if (state->kind != CKPT_TUPLE)
		check_called_attributes(w, state);
	for (uint32_t i = 0; state->kind == CKPT_TUPLE && i < state->u.seq.count && i < 4; i++)
		check_called_attributes(w, state->u.seq.items[i]);
}

static void check_tensor_attributes(struct ckpt_scan_walk *w, const struct ckpt_value *dict)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(dict);
	char shown[80];

	if (!pairs || !ckpt_scan_may_look(w, pairs->count))
		return;
	for (uint32_t i = 0; i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *key = pairs->items[i];

		if (is_one_of(key, parts_of_tensors) || is_special(key))
			ckpt_scan_find(w->s, CKPT_SCAN_DANGEROUS, "state", ckpt_scan_at(w),
				       "sets the attribute '%s' of a tensor, which is a part of it: that writes where it points, or makes another of it",
				       ckpt_escape(shown, sizeof(shown), key->u.bytes.ptr, key->u.bytes.len));
		else if (ckpt_value_is_str(key, "as_subclass")) /* by _rebuild_from_type_v2(), whatever it is */
			ckpt_scan_find(w->s, CKPT_SCAN_DANGEROUS, "state", ckpt_scan_at(w), "sets the attribute 'as_subclass' of a tensor, which a load calls");
		else if (pairs->items[i + 1]->kind == CKPT_GLOBAL && ckpt_scan_type(w, pairs->items[i + 1]) == CKPT_TYPE_CLASS)
			not_understood(w, "sets an attribute of a tensor to a class: who uses the tensor may call that in place of a method");
	}
}

/* Is all that V holds in sight: a literal, or an OrderedDict that opcodes have filled? torch takes whatever has items(). */
static bool is_in_sight(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	return v->kind < CKPT_GLOBAL || ckpt_scan_type(w, v) == CKPT_TYPE_FILLED;
}

/* None, or what has items(): anything else is an error, whose text torch makes of all that it is. */
static bool is_of_attributes(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	return v->kind == CKPT_NONE || v->kind == CKPT_DICT || ckpt_scan_type(w, v) == CKPT_TYPE_FILLED;
}

bool ckpt_scan_are_attributes(struct ckpt_scan_walk *w, const struct ckpt_value *state)
{
	if (state->kind != CKPT_TUPLE)
		return is_of_attributes(w, state);
	return state->u.seq.count == 2 && is_of_attributes(w, state->u.seq.items[0]) && is_of_attributes(w, state->u.seq.items[1]);
}

void ckpt_scan_tensor_attributes(struct ckpt_scan_walk *w, const struct ckpt_value *state)
{
	bool in_sight = is_in_sight(w, state);

	for (uint32_t i = 0; state->kind == CKPT_TUPLE && i < state->u.seq.count && i < 4; i++)
		in_sight &= is_in_sight(w, state->u.seq.items[i]);
	if (!in_sight)
		not_understood(w, "sets the attributes of a tensor out of what a call gives, which is not looked into");
	ckpt_scan_attributes(w, state);
	if (state->kind != CKPT_TUPLE)
		check_tensor_attributes(w, state);
	for (uint32_t i = 0; state->kind == CKPT_TUPLE && i < state->u.seq.count && i < 4; i++)
		check_tensor_attributes(w, state->u.seq.items[i]);
}

void ckpt_scan_keep_attributes(struct ckpt_scan_walk *w, const struct ckpt_value *state)
{
	const struct ckpt_value **grown;

	if (state->kind != CKPT_DICT && state->kind != CKPT_CALL)
		return;
	grown = ckpt_grow(w->kept_attributes, w->kept_attributes_count, &w->kept_attributes_cap, sizeof(*grown));
	w->s->no_memory |= !grown;
	if (!grown)
		return;
	w->kept_attributes = grown;
	grown[w->kept_attributes_count++] = state;
}

void ckpt_scan_check_kept_attributes(struct ckpt_scan_walk *w)
{
	for (uint32_t i = 0; i < w->kept_attributes_count && w->s->rc == 0 && !w->s->no_memory; i++) {
		ckpt_scan_tensor_attributes(w, w->kept_attributes[i]);
		ckpt_scan_called_attributes(w, w->kept_attributes[i]);
	}
}

/* Is not all that V holds in sight, because a call made it? */
static bool is_hidden(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	return ckpt_scan_type(w, v) & (CKPT_TYPE_HIDDEN | CKPT_TYPE_UNKNOWN);
}

/* Has the dict V an attribute "items" or "keys"? The unpickler in Python, and that of weights_only, go by it, that in C does not. */
static bool has_items(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	const struct ckpt_value *state = v->kind == CKPT_CALL ? v->u.call->state : NULL;
	const struct ckpt_seq *pairs;

	for (uint32_t part = 0; state && part < (state->kind == CKPT_TUPLE ? state->u.seq.count : 1); part++) {
		pairs = ckpt_value_pairs(state->kind == CKPT_TUPLE ? state->u.seq.items[part] : state);
		if (pairs && !ckpt_scan_may_look(w, pairs->count))
			return true;
		for (uint32_t i = 0; pairs && i + 1 < pairs->count; i += 2)
			if (ckpt_value_is_str(pairs->items[i], "items") || ckpt_value_is_str(pairs->items[i], "keys"))
				return true;
	}
	return false;
}

/* A dict, or a pair (dict or None, dict of slots). */
void ckpt_scan_attributes(struct ckpt_scan_walk *w, const struct ckpt_value *state)
{
	bool hidden = is_hidden(w, state), other = has_items(w, state);

	if (state->kind == CKPT_TUPLE) {
		for (uint32_t i = 0; i < state->u.seq.count && i < 4; i++) {
			hidden |= state->u.seq.count == 2 && is_hidden(w, state->u.seq.items[i]);
			other |= state->u.seq.count == 2 && has_items(w, state->u.seq.items[i]);
			check_attributes(w, state->u.seq.items[i]);
		}
	} else {
		check_attributes(w, state);
	}
	if (state->kind == CKPT_CALL && ckpt_scan_type(w, state) == CKPT_TYPE_OBJECT) /* of a class that may be a tuple */
		for (uint32_t i = 0; i < 4 && ckpt_scan_arg(state->u.call->args, i); i++)
			check_attributes(w, ckpt_scan_arg(state->u.call->args, i));
	if (hidden)
		not_understood(w, "sets the state of an object out of what a call gives, which is not looked into");
	if (other)
		not_understood(w, "sets the state of an object out of a dict that has an attribute 'items' or 'keys', by which some unpicklers go");
}

static bool is_dict(const struct ckpt_value *v)
{
	return v->kind == CKPT_DICT || ckpt_value_is_call_of(v, "collections", "OrderedDict") ||
	       ckpt_value_is_call_of(v, "collections", "defaultdict");
}

static bool is_list_of_dicts(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	if (v->kind != CKPT_LIST || !ckpt_scan_may_look(w, v->u.seq.count))
		return false;
	for (uint32_t i = 0; i < v->u.seq.count; i++)
		if (!is_dict(v->u.seq.items[i]))
			return false;
	return true;
}

/* The state of an optimizer, whose methods it calls when it is set. */
static void check_optimizer(struct ckpt_scan_walk *w, const struct ckpt_value *object,
			    const struct ckpt_value *state)
{
	const struct ckpt_global *g =
		object->kind == CKPT_CALL ? ckpt_scan_callee(w, object->u.call->func) : NULL;
	const struct ckpt_seq *pairs = ckpt_value_pairs(state);

	if (!g || strncmp(g->module, "torch.optim", 11) != 0 || !pairs ||
	    !ckpt_scan_may_look(w, pairs->count))
		return;
	for (uint32_t i = 0; i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *key = pairs->items[i], *v = pairs->items[i + 1];

		if (((ckpt_value_is_str(key, "state") || ckpt_value_is_str(key, "defaults")) &&
		     !is_dict(v)) ||
		    (ckpt_value_is_str(key, "param_groups") && !is_list_of_dicts(w, v)))
			not_understood(
				w, "the state of an optimizer, with an object where it has dicts");
	}
}

/* ---- states of what the table knows ---- */

static bool fits(struct ckpt_scan_walk *w, const struct ckpt_value *tuple, uint32_t i, uint64_t wanted)
{
	return i < tuple->u.seq.count && ckpt_scan_fits(w, tuple->u.seq.items[i], wanted);
}

/*
 * (storage, offset, size, stride) of a tensor; (data, ..., hooks, requires gradient, ...) of what
 * was a Variable
 */
static bool is_tensor_state(struct ckpt_scan_walk *w, const struct ckpt_value *state)
{
	const uint64_t none = CKPT_TYPE_LITERAL(CKPT_NONE), number = CKPT_TYPE_LITERAL(CKPT_INT),
		       truth = CKPT_TYPE_LITERAL(CKPT_BOOL);

	if (state->kind != CKPT_TUPLE)
		return false;
	if (state->u.seq.count == 4)
		return fits(w, state, 0, CKPT_TYPE_STORAGE) && fits(w, state, 1, number) &&
		       fits(w, state, 2, CKPT_TYPE_SHAPE) && fits(w, state, 3, CKPT_TYPE_SHAPE) &&
		       ckpt_scan_is_in_storage(w, &state->u.seq, CKPT_CALL_TENSOR) && !ckpt_scan_may_be_quantized(w, state->u.seq.items[0]);
	if (state->u.seq.count == 5)
		return fits(w, state, 0, CKPT_TYPE_TENSOR) && fits(w, state, 1, none | truth | number) &&
		       fits(w, state, 2, CKPT_TYPE_HOOKS) && fits(w, state, 3, truth | number) &&
		       fits(w, state, 4, none | truth | number);
	return state->u.seq.count == 3 && fits(w, state, 0, truth) && fits(w, state, 1, none | truth | number) &&
	       fits(w, state, 2, CKPT_TYPE_HOOKS);
}

/* (seed, offset or None, tensor) */
static bool is_generator_state(struct ckpt_scan_walk *w, const struct ckpt_value *state)
{
	const uint64_t number = CKPT_TYPE_LITERAL(CKPT_INT) | CKPT_TYPE_SMALL_BIGINT;

	return state->kind == CKPT_TUPLE && state->u.seq.count == 3 && fits(w, state, 0, number) &&
	       fits(w, state, 1, number | CKPT_TYPE_LITERAL(CKPT_NONE)) &&
	       fits(w, state, 2, CKPT_TYPE_TENSOR) && ckpt_scan_begins_storage(state->u.seq.items[2]);
}

/* Of iter([...]): the number of the next item. */
static bool is_index(const struct ckpt_value *object, const struct ckpt_value *state)
{
	const struct ckpt_value *args = object->u.call->args, *items = args->kind == CKPT_TUPLE && args->u.seq.count ? args->u.seq.items[0] : &ckpt_value_none;

	return state->kind == CKPT_INT && (items->kind == CKPT_LIST || items->kind == CKPT_TUPLE) && state->u.integer >= 0 && state->u.integer <= items->u.seq.count;
}

/* (bytes, position, attributes), of which there are none */
static bool is_bytes_state(struct ckpt_scan_walk *w, const struct ckpt_value *state)
{
	return state->kind == CKPT_TUPLE && state->u.seq.count == 3 && fits(w, state, 0, CKPT_TYPE_LITERAL(CKPT_BYTES) | CKPT_TYPE_CODED) &&
	       ckpt_scan_is_position(state->u.seq.items[0], state->u.seq.items[1]) && state->u.seq.items[2]->kind == CKPT_NONE;
}

/* Of 128 bits, in two's complement. */
static bool is_uuid_number(const struct ckpt_value *v)
{
	enum { BYTES = 16 };
	uint64_t len = v->kind == CKPT_BIGINT ? v->u.bytes.len : 0;

	if (v->kind == CKPT_INT)
		return v->u.integer >= 0;
	return len && (len <= BYTES || (len == BYTES + 1 && !v->u.bytes.ptr[BYTES])) && !((uint8_t)v->u.bytes.ptr[len - 1] & 0x80);
}

/* {'int': 128 bits[, 'is_safe': one of SafeUUID, 0 or -1]} */
static bool is_uuid_state(const struct ckpt_value *state)
{
	bool has_number = false;

	if (state->kind != CKPT_DICT || state->u.seq.count > 4)
		return false;
	for (uint32_t i = 0; i + 1 < state->u.seq.count; i += 2) {
		const struct ckpt_value *key = state->u.seq.items[i], *v = state->u.seq.items[i + 1];

		if (ckpt_value_is_str(key, "int") && is_uuid_number(v))
			has_number = true;
		else if (!ckpt_value_is_str(key, "is_safe") || v->kind != CKPT_INT || v->u.integer < -1 || v->u.integer > 0)
			return false;
	}
	return has_number;
}

/* What add_note() of an exception has made: a list of texts. Nothing is put into it later. */
static bool are_notes(struct ckpt_scan_walk *w, const struct ckpt_value *key, const struct ckpt_value *v)
{
	if (!ckpt_value_is_str(key, "__notes__") || v->kind != CKPT_LIST || !ckpt_scan_may_look(w, v->u.seq.count))
		return false;
	for (uint32_t i = 0; i < v->u.seq.count; i++)
		if (v->u.seq.items[i]->kind != CKPT_STR)
			return false;
	ckpt_scan_freeze(v, false);
	return true;
}

/* What a dict of Python, or a Counter, has: who is handed one calls that, as torch's optimizers do. */
static bool is_method_of_dicts(const struct ckpt_value *name)
{
	static const char *const methods[] = { "clear", "copy", "elements", "fromkeys", "get", "items", "keys", "most_common", "move_to_end", "pop", "popitem", "setdefault", "subtract", "total", "update", "values", NULL };

	return is_one_of(name, methods);
}

/* Attributes of what the table knows have plain names, and no classes or functions for values. */
static bool is_data_state(struct ckpt_scan_walk *w, const struct ckpt_scan_rule *rule, const struct ckpt_value *state)
{
	const struct ckpt_seq *pairs;

	if (state->kind == CKPT_NONE)
		return true;
	pairs = state->kind == CKPT_DICT || ckpt_scan_type(w, state) == CKPT_TYPE_FILLED
			? ckpt_value_pairs(state)
			: NULL;
	if (!pairs || !ckpt_scan_may_look(w, pairs->count))
		return false;
	for (uint32_t i = 0; i + 1 < pairs->count; i += 2) {
		if (!strcmp(rule->module, "builtins") && are_notes(w, pairs->items[i], pairs->items[i + 1]))
			continue;
		if ((pairs->items[i]->kind != CKPT_STR && pairs->items[i]->kind != CKPT_PY2_STR) ||
		    is_special(pairs->items[i]) || (rule->then == CKPT_THEN_PAIRS && pairs->items[i + 1]->kind >= CKPT_GLOBAL && is_method_of_dicts(pairs->items[i])) ||
		    !ckpt_scan_fits(w, pairs->items[i + 1], CKPT_TYPE_DATA | CKPT_TYPE_OBJECT | CKPT_TYPE_STRANGER |
					    CKPT_TYPE_ATTRIBUTE))
			return false;
	}
	return true;
}

/*
 * Objects of these have no __dict__: an empty state is an error for CPython's unpickler in C, and
 * nothing for the one in Python.
 */
static bool has_no_dict(const struct ckpt_scan_rule *rule)
{
	static const char *const names[] = { "list",  "dict",	     "set",   "bytearray",
					     "deque", "defaultdict", "array", "TorchVersion", NULL };

	return ckpt_is_one_of(rule->name, names);
}

/* Is the attribute NAME set to what is of another KIND? Also true if there are more than are looked at. */
static bool has_other_kind(struct ckpt_scan_walk *w, const struct ckpt_value *state, const char *name, enum ckpt_value_kind kind)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(state);

	if (pairs && !ckpt_scan_may_look(w, pairs->count))
		return true;
	for (uint32_t i = 0; pairs && i + 1 < pairs->count; i += 2)
		if (ckpt_value_is_str(pairs->items[i], name) && pairs->items[i + 1]->kind != kind)
			return true;
	return false;
}

/*
 * Where an exception is shown, Python 3.12 and later import the module that NAME_FROM is to be of, and
 * 3.14 compiles the lines of the file that _METADATA is about.
 */
static bool is_looked_up(struct ckpt_scan_walk *w, const struct ckpt_value *state)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(state);

	if (pairs && !ckpt_scan_may_look(w, pairs->count))
		return true;
	for (uint32_t i = 0; pairs && i + 1 < pairs->count; i += 2)
		if ((ckpt_value_is_str(pairs->items[i], "name_from") || ckpt_value_is_str(pairs->items[i], "_metadata")) && pairs->items[i + 1]->kind != CKPT_NONE)
			return true;
	return false;
}

/* Is STATE what the table says may be set behind a call of RULE? */
static const char *misfit(struct ckpt_scan_walk *w, const struct ckpt_scan_rule *rule,
			  const struct ckpt_value *object, const struct ckpt_value *state)
{
	switch ((enum ckpt_scan_then)rule->then) {
	case CKPT_THEN_NOTHING: return "sets the state of a value that has none";
	case CKPT_THEN_ATTRIBUTES:
	case CKPT_THEN_ITEMS:
	case CKPT_THEN_PAIRS:
		if (state->kind != CKPT_NONE && has_no_dict(rule))
			return "sets the state of a value that has none";
		/* Python makes a tuple of what is set, however many items that has; its pickler does not write them so */
		if (!strcmp(rule->module, "builtins") && has_other_kind(w, state, "args", CKPT_TUPLE))
			return "sets the arguments of an exception to what is no tuple";
		if (ckpt_scan_is_exception(rule))
			ckpt_scan_will_be_shown(w, state);
		/* BlockingIOError asks it for a number: a tensor in a stream before that is read */
		if (!strcmp(rule->module, "builtins") && has_other_kind(w, state, "characters_written", CKPT_INT))
			return "sets how much was written to what is no number";
		if (!strcmp(rule->module, "builtins") && is_looked_up(w, state))
			return "sets what Python imports, or opens, to show an exception";
		return is_data_state(w, rule, state) ? NULL
					       : "the state of a value is no dict of plain attributes";
	case CKPT_THEN_TENSOR:
		return is_tensor_state(w, state) ? NULL
						 : "the state of a tensor is none that torch writes";
	case CKPT_THEN_NUMPY_DTYPE:
		return ckpt_scan_check_dtype_state(object, state)
			       ? NULL
			       : "the state of a dtype is none that numpy writes for numbers or objects";
	case CKPT_THEN_NUMPY_ARRAY:
		if (!ckpt_scan_check_array_state(state))
			return "the state of an array is none that numpy writes for numbers or objects";
		return ckpt_scan_are_texts(w, state->u.seq.items[2], state->u.seq.items[4])
			       ? NULL
			       : "an array of texts with what is no character";
	case CKPT_THEN_GENERATOR:
		if (w->in->flags & CKPT_SCAN_NUMBERS_LATER)
			return "the state of a generator: torch copies it out of a tensor before it reads the bytes of the stream's storages";
		ckpt_scan_has_places(w);
		return is_generator_state(w, state) ? NULL
						    : "the state of a generator is none that torch writes";
	case CKPT_THEN_INDEX: return is_index(object, state) ? NULL : "the state of an iterator is no number of an item";
	case CKPT_THEN_BYTES: return is_bytes_state(w, state) ? NULL : "the state of a BytesIO is none of bytes and a position in them";
	case CKPT_THEN_UUID:
		return is_uuid_state(state) ? NULL : "the state of a UUID is none that Python writes";
	}
	return NULL;
}

/* Of what cannot have one, or of what is not known. */
static void say_no_object(struct ckpt_scan_walk *w, const struct ckpt_value *object)
{
	if (object->kind != CKPT_CALL && object->kind != CKPT_PERSID && object->kind != CKPT_GLOBAL)
		return; /* the decoder refuses it */
	ckpt_scan_find(w->s,
		       object->kind == CKPT_PERSID ? CKPT_SCAN_UNREADABLE : CKPT_SCAN_DANGEROUS,
		       "state", ckpt_scan_at(w), "sets the state of %s",
		       object->kind == CKPT_GLOBAL ? "a class or function itself"
						   : "what cannot be known");
}

/* Is there a storage or tensor in V, in its containers, or in what calls in it are given? True also where it is not looked at to its end. */
static bool holds_tensor(struct ckpt_scan_walk *w, const struct ckpt_value *v, unsigned depth)
{
	enum { MOST_DEPTH = 8 };
	const struct ckpt_call *call = v->kind == CKPT_CALL ? v->u.call : NULL;
	const struct ckpt_seq *seqs[] = { v->kind >= CKPT_TUPLE && v->kind <= CKPT_DICT ? &v->u.seq : NULL, call ? &call->items : NULL, call ? &call->pairs : NULL };
	bool holds = depth == MOST_DEPTH || ckpt_scan_type(w, v) & (CKPT_TYPE_STORAGE | CKPT_TYPE_TENSOR | CKPT_TYPE_DRESSED);

	for (size_t k = 0; k < sizeof(seqs) / sizeof(seqs[0]) && !holds; k++) {
		holds = seqs[k] && !ckpt_scan_may_look(w, seqs[k]->count);
		for (uint32_t i = 0; seqs[k] && i < seqs[k]->count && !holds; i++)
			holds = holds_tensor(w, seqs[k]->items[i], depth + 1);
	}
	if (call && !holds)
		holds = holds_tensor(w, call->args, depth + 1) || (call->kwargs && holds_tensor(w, call->kwargs, depth + 1)) || (call->state && holds_tensor(w, call->state, depth + 1));
	return holds;
}

/* A tuple or list, or a call that gives one, but no tensor: packers of xnnpack have two tensors and two limits. */
static bool could_be_sizes(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	return v->kind == CKPT_TUPLE || v->kind == CKPT_LIST || (v->kind > CKPT_GLOBAL && !(ckpt_scan_type(w, v) & (CKPT_TYPE_TENSOR | CKPT_TYPE_DRESSED)));
}

/*
 * (storage or tensor, offset, size, stride): if the class is one of tensors, torch makes the storage as large as that is, and nobody
 * sets what is new. Source: torch/_tensor.py, Tensor.__setstate__().
 */
static bool is_old_tensor_state(struct ckpt_scan_walk *w, const struct ckpt_value *state)
{
	const uint64_t tensors = CKPT_TYPE_STORAGE | CKPT_TYPE_TENSOR | CKPT_TYPE_DRESSED;
	const struct ckpt_value *const *at = state->u.seq.items;

	if (state->kind == CKPT_CALL || state->kind == CKPT_SET || state->kind == CKPT_FROZENSET) /* a deque of four, an object that has as many items */
		return ckpt_scan_type(w, state) != CKPT_TYPE_FILLED && holds_tensor(w, state, 0);
	if ((state->kind != CKPT_TUPLE && state->kind != CKPT_LIST) || state->u.seq.count != 4)
		return false;
	return ckpt_scan_type(w, at[0]) & tensors && (at[1]->kind == CKPT_INT || at[1]->kind == CKPT_BOOL || at[1]->kind >= CKPT_GLOBAL) && could_be_sizes(w, at[2]) && could_be_sizes(w, at[3]);
}

void ckpt_scan_built(struct ckpt_scan_walk *w, const struct ckpt_value *object,
		     const struct ckpt_value *state)
{
	const struct ckpt_scan_rule *rule = rule_of(w, object);
	const char *why = NULL;

	if (!rule) {
		say_no_object(w, object);
		return;
	}
	ckpt_scan_fills_object(w, object);
	ckpt_scan_copied(w, state);
	ckpt_scan_attributes(w, state);
	ckpt_scan_has_state(w, object, state);
	ckpt_scan_library_gets(w, object, state);
	/* self.__dict__ = self, as many configurations have it, is no state of a tensor */
	if (rule->kind != CKPT_SCAN_DATA && state != object && is_old_tensor_state(w, state))
		not_understood(w, "sets the state of an object as that of a tensor, which reaches as far as it says");
	ckpt_scan_keeps_functions(w, object, &state, 1);
	if (rule->then == CKPT_THEN_NUMPY_ARRAY) /* of objects: see depth.c */
		ckpt_scan_put_into(w, &object, 1);
	check_optimizer(w, object, state);
	if (object->flags & CKPT_SCAN_USED && rule->then == CKPT_THEN_TENSOR)
		not_understood(w, "sets the state of a tensor that something was made with");
	if (rule->then == CKPT_THEN_TENSOR)
		/* hooks stay empty */
		for (uint32_t i = 0; state->kind == CKPT_TUPLE && i < state->u.seq.count; i++)
			if (is_dict(state->u.seq.items[i]))
				ckpt_scan_mark(state->u.seq.items[i], CKPT_SCAN_USED);
	if (rule->kind == CKPT_SCAN_DATA) {
		ckpt_scan_freeze(state, true);
		ckpt_scan_state_weighed(w, rule, state);
	}
	/* which could have changed what is called now */
	if (object->u.call->state || object->u.call->setter)
		not_understood(w, "sets the state of an object a second time");
	if (rule->call == CKPT_CALL_PARTIAL)
		ckpt_scan_partial_state(w, state);
	else if (rule->kind == CKPT_SCAN_DATA && object->u.call->func->kind == CKPT_GLOBAL)
		why = misfit(w, rule, object, state);
	if (why)
		not_understood(w, why);
}

/* ---- items ---- */

static bool is_container(const struct ckpt_value *v)
{
	return (v->kind == CKPT_LIST || v->kind == CKPT_SET || v->kind == CKPT_DICT) && v->id;
}

void ckpt_scan_freeze(const struct ckpt_value *v, bool inside)
{
	if (is_container(v))
		ckpt_scan_mark(v, CKPT_SCAN_USED);
	if (inside && (v->kind == CKPT_TUPLE || v->kind == CKPT_LIST))
		for (uint32_t i = 0; i < v->u.seq.count; i++)
			if (is_container(v->u.seq.items[i]))
				ckpt_scan_mark(v->u.seq.items[i], CKPT_SCAN_USED);
}

bool ckpt_scan_has_room(const struct ckpt_value *args, uint64_t count)
{
	const struct ckpt_value *most = args->kind == CKPT_TUPLE && args->u.seq.count > 1 ? args->u.seq.items[1] : &ckpt_value_none;

	if (most->kind != CKPT_INT)
		return true;
	if (args->u.seq.items[0]->kind == CKPT_LIST || args->u.seq.items[0]->kind == CKPT_TUPLE)
		count += args->u.seq.items[0]->u.seq.count;
	return most->u.integer >= 0 && count <= (uint64_t)most->u.integer;
}

void ckpt_scan_added(struct ckpt_scan_walk *w, const struct ckpt_value *object, bool pairs, size_t count)
{
	const struct ckpt_scan_rule *rule = rule_of(w, object);

	if ((is_container(object) || object->kind == CKPT_CALL) && object->flags & CKPT_SCAN_USED)
		not_understood(w, "adds to what something was made with");
	if (object->kind == CKPT_GLOBAL || (object->kind == CKPT_CALL && !rule)) {
		ckpt_scan_find(w->s,
			       w->in->flags & CKPT_SCAN_PROBED ? CKPT_SCAN_INCONSISTENT
							       : CKPT_SCAN_DANGEROUS,
			       "call", ckpt_scan_at(w),
			       "calls a method of what only running the file would show");
		return;
	}
	if (!rule)
		return;
	ckpt_scan_library_gets(w, object, NULL);
	if (object->u.call->state || object->u.call->setter)
		not_understood(w, "adds to an object whose state was set, which could have changed how");
	if (is_called_as(object, "collections", "deque") && !ckpt_scan_has_room(object->u.call->args, object->u.call->items.count + (uint64_t)count))
		not_understood(w, "appends to a deque that is full: it drops what it had");
	if (rule->kind == CKPT_SCAN_DATA &&
	    rule->then != (pairs ? CKPT_THEN_PAIRS : CKPT_THEN_ITEMS))
		not_understood(w, pairs ? "sets items of what is no dict"
					: "appends to what is no list");
}

static bool is_function(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	return v->kind == CKPT_GLOBAL && ckpt_scan_type(w, v) & (CKPT_TYPE_FUNCTION | CKPT_TYPE_MODULE);
}

const struct ckpt_value *ckpt_scan_function_of(struct ckpt_scan_walk *w, const struct ckpt_value *v)
{
	if (is_function(w, v))
		return v;
	for (uint32_t i = 0; v->kind == CKPT_TUPLE && v->u.seq.count <= CKPT_SCAN_FEW_ARGS && i < v->u.seq.count; i++)
		if (is_function(w, v->u.seq.items[i]))
			return v->u.seq.items[i];
	return NULL;
}

static enum ckpt_scan_call call_of(const struct ckpt_value *func)
{
	return func->kind == CKPT_GLOBAL ? ckpt_scan_rule(func->u.global->module, func->u.global->name)->call : CKPT_CALL_NEVER;
}

bool ckpt_scan_is_from_type(const struct ckpt_value *func)
{
	return call_of(func) == CKPT_CALL_FROM_TYPE;
}

bool ckpt_scan_takes_function(const struct ckpt_value *func)
{
	return call_of(func) == CKPT_CALL_FROM_TYPE || call_of(func) == CKPT_CALL_GETATTR;
}

void ckpt_scan_kept(struct ckpt_scan_walk *w, const struct ckpt_value *const *items, size_t count)
{
	char shown[256];

	for (size_t i = 0; i < count; i++) {
		const struct ckpt_value *function = ckpt_scan_function_of(w, items[i]);

		if (function)
			ckpt_scan_find(w->s, CKPT_SCAN_UNREADABLE, "name", ckpt_scan_at(w),
				       "keeps %s as a value, which is only ever called",
				       ckpt_scan_show_global(function->u.global, shown, sizeof(shown)));
	}
}
