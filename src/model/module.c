/* SPDX-License-Identifier: Apache-2.0 */
#include "model/module.h"

#include "model/state_dict.h"

#include <string.h>

/*
 * A module that torch.fx made is rebuilt by a function out of its attributes and the source of its
 * forward(). Source: torch/fx/graph_module.py, GraphModule.__reduce__().
 */
static const struct ckpt_value *body_of_graph_module(const struct ckpt_model *model,
						     const struct ckpt_value *v)
{
	const struct ckpt_value *args = ckpt_model_now(model, v->u.call->args), *body;

	if (!ckpt_value_is_call_of(v, "torch.fx.graph_module", "reduce_graph_module") ||
	    args->kind != CKPT_TUPLE || !args->u.seq.count)
		return NULL;
	body = ckpt_model_now(model, args->u.seq.items[0]);
	return body->kind == CKPT_DICT ? body : NULL;
}

/*
 * The state of an object that keeps its attributes in a dict, with or without slots beside; NULL:
 * it does not.
 */
const struct ckpt_value *ckpt_module_attributes(const struct ckpt_model *model,
						const struct ckpt_value *v)
{
	const struct ckpt_value *state;

	if (v->kind != CKPT_CALL)
		return NULL;
	if (!v->u.call->state)
		return body_of_graph_module(model, v);
	state = ckpt_model_now(model, v->u.call->state);
	if (state->kind == CKPT_TUPLE && state->u.seq.count == 2)
		state = ckpt_model_now(model, state->u.seq.items[0]);
	return state->kind == CKPT_DICT ? state : NULL;
}

static const struct ckpt_value *find_mapping(const struct ckpt_model *model,
					     const struct ckpt_value *dict, const char *name)
{
	const struct ckpt_value *found = ckpt_attribute_find(model, dict, name);

	return found && ckpt_value_pairs(found) ? found : NULL;
}

static bool is_pickled_module(const struct ckpt_model *model, const struct ckpt_value *v)
{
	const struct ckpt_value *dict = ckpt_module_attributes(model, v);

	return dict && find_mapping(model, dict, "_parameters") &&
	       find_mapping(model, dict, "_modules") && find_mapping(model, dict, "_buffers");
}

const struct ckpt_value *ckpt_module_mapping(const struct ckpt_model *model,
					     const struct ckpt_value *v, const char *name)
{
	return is_pickled_module(model, v)
		       ? find_mapping(model, ckpt_module_attributes(model, v), name)
		       : NULL;
}

bool ckpt_is_script_object(const struct ckpt_model *model, const struct ckpt_value *v)
{
	const struct ckpt_value *cls;

	if (!model->doc->class_of || v->kind != CKPT_CALL)
		return false;
	cls = ckpt_model_now(model, v->u.call->func);
	return cls->kind == CKPT_GLOBAL && !strncmp(cls->u.global->module, "__torch__", 9);
}

static bool is_script_module(const struct ckpt_model *model, const struct ckpt_value *v)
{
	const struct ckpt_class *cls;

	if (!ckpt_is_script_object(model, v) || !ckpt_module_attributes(model, v))
		return false;
	cls = model->doc->class_of(model->doc, ckpt_model_now(model, v->u.call->func)->u.global);
	return !cls || !cls->known || cls->is_module;
}

bool ckpt_is_module(const struct ckpt_model *model, const struct ckpt_value *v)
{
	return v->kind == CKPT_CALL && (is_pickled_module(model, v) || is_script_module(model, v));
}
