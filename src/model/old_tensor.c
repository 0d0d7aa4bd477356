/* SPDX-License-Identifier: Apache-2.0 */
#include "model/old_tensor.h"

#include <string.h>

/* The class of V and what it is called with; protocols 0 and 1 spell __new__ out. */
static const struct ckpt_value *class_of(const struct ckpt_model *model, const struct ckpt_value *v,
					 const struct ckpt_value *const **args, uint32_t *count)
{
	const struct ckpt_value *cls = ckpt_model_now(model, v->u.call->func),
				*tuple = ckpt_model_now(model, v->u.call->args);

	*args = tuple->kind == CKPT_TUPLE ? tuple->u.seq.items : NULL;
	*count = tuple->kind == CKPT_TUPLE ? tuple->u.seq.count : 0;
	if (*count && (ckpt_value_is_global(cls, "copy_reg", "__newobj__") ||
		       ckpt_value_is_global(cls, "copyreg", "__newobj__"))) {
		cls = ckpt_model_now(model, **args);
		++*args;
		--*count;
	}
	return cls;
}

static bool is_tensor(const struct ckpt_model *model, const struct ckpt_value *cls,
		      const struct ckpt_value *state)
{
	size_t len = cls->u.global->name_len;

	return state->u.seq.count == 4 && len > 6 &&
	       !strcmp(cls->u.global->name + len - 6, "Tensor") &&
	       (!strcmp(cls->u.global->module, "torch") ||
		!strcmp(cls->u.global->module, "torch.cuda")) &&
	       ckpt_model_now(model, state->u.seq.items[0])->kind == CKPT_PERSID;
}

bool ckpt_old_tensor_is(const struct ckpt_model *model, const struct ckpt_value *v,
			struct ckpt_old_tensor *out)
{
	const struct ckpt_value *const *args, *cls, *state;
	uint32_t count;

	*out = (struct ckpt_old_tensor){ .kind = CKPT_OLD_NONE };
	if (!v->u.call->state)
		return false;
	cls = class_of(model, v, &args, &count);
	state = ckpt_model_now(model, v->u.call->state);
	if (cls->kind != CKPT_GLOBAL || state->kind != CKPT_TUPLE)
		return false;
	if (is_tensor(model, cls, state)) {
		*out = (struct ckpt_old_tensor){ CKPT_OLD_TENSOR, state, NULL };
		return true;
	}
	if (ckpt_value_is_global(cls, "torch.nn.parameter", "Parameter"))
		out->kind = CKPT_OLD_PARAMETER;
	else if (ckpt_value_is_global(cls, "torch.autograd.variable", "Variable"))
		out->kind = CKPT_OLD_VARIABLE;
	else
		return false;
	if (state->u.seq.count == 5) { /* (data, _, hooks, requires_grad, volatile) */
		out->data = ckpt_model_now(model, state->u.seq.items[0]);
		out->requires_grad = ckpt_model_now(model, state->u.seq.items[3]);
	} else if (state->u.seq.count == 3 && count) { /* (requires_grad, volatile, hooks) */
		out->data = ckpt_model_now(model, args[0]);
		out->requires_grad = ckpt_model_now(model, state->u.seq.items[0]);
	}
	if (!out->data)
		out->kind = CKPT_OLD_NONE;
	return out->data;
}
