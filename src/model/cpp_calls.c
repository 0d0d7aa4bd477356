/* SPDX-License-Identifier: Apache-2.0 */
#include "model/cpp_calls.h"

#include "model/walk.h"

#include <string.h>

/*
 * torch's C++ pickler writes a list of numbers as a call that gives back its argument, and a
 * container with the type it has in TorchScript as a call that gives back the first of two. For all
 * that reads, the value is what the call gives. Source: torch/jit/_pickle.py.
 */
static const char jit_pickle[] = "torch.jit._pickle", complex_number[] = "cbuiltins\ncomplex\n";

static const struct {
	const char *name;
	uint32_t args;
} functions[] = {
	{ "build_intlist", 1 },	   { "build_doublelist", 1 }, { "build_boollist", 1 },
	{ "build_tensorlist", 1 }, { "restore_type_tag", 2 },
};

bool ckpt_pickle_is_of_cpp(const void *bytes, size_t len)
{
	return memmem(bytes, len, jit_pickle, sizeof(jit_pickle) - 1) ||
	       memmem(bytes, len, complex_number, sizeof(complex_number) - 1);
}

/* What V gives; NULL: it is no such call. */
static const struct ckpt_value *returned_by(const struct ckpt_value *v)
{
	const struct ckpt_call *call = v->kind == CKPT_CALL ? v->u.call : NULL;

	if (!call || call->kind != CKPT_CALL_REDUCE || call->state || call->items.count ||
	    call->pairs.count || call->args->kind != CKPT_TUPLE)
		return NULL;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (ckpt_value_is_global(call->func, jit_pickle, functions[i].name) &&
		    call->args->u.seq.count == functions[i].args)
			return call->args->u.seq.items[0];
	return NULL;
}

static int replace_cpp_call(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	const struct ckpt_value *given = returned_by(step->value), *inner;
	int rc;

	if (step->value->kind == CKPT_CALL && returned_by(step->value->u.call->func))
		return ckpt_fail(err, CKPT_E_FORMAT, "calls what %s gives, which is not a function",
				 step->value->u.call->func->u.call->func->u.global->name);
	if (!given)
		return CKPT_WALK_ENTER;
	/* arguments are older than the call, which has the larger id: this ends */
	while ((inner = returned_by(given)))
		given = inner;
	rc = ckpt_model_replace_id(ctx, step->value->id, given, err);
	return rc < 0 ? rc : CKPT_WALK_ENTER;
}

int ckpt_model_resolve_cpp_calls(struct ckpt_model *model, struct ckpt_error *err)
{
	return ckpt_model_walk(model, replace_cpp_call, model, err);
}
