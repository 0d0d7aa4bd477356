/* SPDX-License-Identifier: Apache-2.0 */
#include "model/module.h"
#include "model/old_tensor.h"
#include "model/plain_values.h"

#include <string.h>

/*
 * A state dict holds what detach() gives: a new tensor over the same storage, without the Parameter
 * around it, without attributes, and without a gradient.
 */
enum { MOST_WRAPPERS = 16 };

/* Which argument is requires_grad. */
static const struct {
	const char *name;
	uint32_t index;
} flags[] = {
	{ "_rebuild_tensor_v2", 4 },
	{ "_rebuild_tensor_v3", 4 },
	{ "_rebuild_qtensor", 5 },
	{ "_rebuild_meta_tensor_no_storage", 3 },
	{ "_rebuild_device_tensor_from_numpy", 3 },
	{ "_rebuild_device_tensor_from_cpu_tensor", 3 },
	{ "_rebuild_xla_tensor", 3 },
	{ "_rebuild_mlc_tensor", 3 },
	{ "_rebuild_wrapper_subclass", 7 },
};

static const struct ckpt_value *without_gradient(struct ckpt_model *to,
						 const struct ckpt_value *func,
						 const struct ckpt_value *args)
{
	struct ckpt_value *copy;
	uint32_t index = UINT32_MAX;

	for (size_t i = 0; func->kind == CKPT_GLOBAL && i < sizeof(flags) / sizeof(flags[0]); i++)
		if (!strcmp(func->u.global->name, flags[i].name))
			index = flags[i].index;
	if (args->kind != CKPT_TUPLE || index >= args->u.seq.count)
		return args;
	copy = ckpt_plain_seq(to, CKPT_TUPLE, args->u.seq.items, args->u.seq.count);
	if (copy)
		copy->u.seq.items[index] = &ckpt_value_false;
	return copy;
}

/* FUNC(*ARGS), with the state that V has. */
static const struct ckpt_value *new_call(struct ckpt_model *to, const struct ckpt_value *v,
					 const struct ckpt_value *func,
					 const struct ckpt_value *args)
{
	struct ckpt_value *made = ckpt_model_new_value(to, CKPT_CALL);
	struct ckpt_call *call = ckpt_arena_alloc(to->arena, sizeof(*call));

	if (!made || !call || !args)
		return NULL;
	*call = *v->u.call;
	call->func = func;
	call->args = args;
	made->u.call = call;
	return made;
}

/* The tensor inside of a Parameter of any age; NULL: it is none. */
static const struct ckpt_value *inner_tensor(const struct ckpt_model *model,
					     const struct ckpt_value *v)
{
	const struct ckpt_value *inner = NULL;
	struct ckpt_old_tensor old;

	if (ckpt_value_is_call_of(v, "torch._utils", "_rebuild_parameter") ||
	    ckpt_value_is_call_of(v, "torch._utils", "_rebuild_parameter_with_state"))
		inner = ckpt_plain_arg(model, v, 0);
	else if (ckpt_old_tensor_is(model, v, &old) && old.kind != CKPT_OLD_TENSOR)
		inner = old.data;
	return inner && ckpt_value_is_tensor(model, inner) ? inner : NULL;
}

/* _rebuild_from_type_v2(func, class, args, state): of a plain tensor only its attributes' sake. */
static const struct ckpt_value *detached_of_type(struct ckpt_model *to, const struct ckpt_value *v)
{
	const struct ckpt_value *func = ckpt_plain_arg(to, v, 0), *cls = ckpt_plain_arg(to, v, 1),
				*args = ckpt_plain_arg(to, v, 2), *fresh;
	struct ckpt_value *outer;

	if (!func || !cls || !args || ckpt_plain_arg_count(to, v) < 4)
		return new_call(to, v, v->u.call->func, v->u.call->args);
	fresh = without_gradient(to, func, args);
	if (!fresh)
		return NULL;
	if (ckpt_value_is_global(cls, "torch", "Tensor"))
		return new_call(to, v, func, fresh);
	outer = ckpt_plain_seq(to, CKPT_TUPLE, ckpt_model_now(to, v->u.call->args)->u.seq.items, 4);
	if (!outer)
		return NULL;
	outer->u.seq.items[2] = fresh;
	return new_call(to, v, v->u.call->func, outer);
}

const struct ckpt_value *ckpt_tensor_detached(struct ckpt_model *to, const struct ckpt_value *v)
{
	const struct ckpt_value *func, *inner;

	for (int i = 0; i < MOST_WRAPPERS && (inner = inner_tensor(to, v)); i++)
		v = inner;
	func = ckpt_model_now(to, v->u.call->func);
	if (func->kind == CKPT_GLOBAL && !strncmp(func->u.global->name, "_rebuild_from_type", 18))
		return detached_of_type(to, v);
	return new_call(to, v, func,
			without_gradient(to, func, ckpt_model_now(to, v->u.call->args)));
}
