/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_MODULE_H
#define CKPT_MODEL_MODULE_H

#include "model/model.h"

/*
 * A module is an object that has parameters, buffers and modules under names. There are two kinds:
 *
 * - a torch.nn.Module that was pickled as a whole: its attributes `_parameters`, `_buffers` and
 *   `_modules` are mappings, whatever its class is (torch/nn/modules/module.py);
 * - an object of a TorchScript archive, whose attributes stand side by side, and whose class says
 *   in its source what each of them is (torch/csrc/jit/serialization/python_print.cpp).
 */
enum ckpt_member {
	CKPT_MEMBER_NONE,
	CKPT_MEMBER_PARAMETER,
	CKPT_MEMBER_BUFFER,
};

/* What the source of a TorchScript class says. */
struct ckpt_class {
	bool known;		    /* there is a source with it */
	bool is_module;		    /* not a class of another kind */
	struct ckpt_strmap members; /* names to enum ckpt_member */
};

/* Is V one? A TorchScript object whose class has no source counts. */
bool ckpt_is_module(const struct ckpt_model *model, const struct ckpt_value *v);

/*
 * The mapping NAME ("_parameters", "_buffers", "_modules") of a pickled module, or NULL: also if it
 * is none.
 */
const struct ckpt_value *ckpt_module_mapping(const struct ckpt_model *model,
					     const struct ckpt_value *v, const char *name);

/* Is V an object of a TorchScript archive, of any class? */
bool ckpt_is_script_object(const struct ckpt_model *model, const struct ckpt_value *v);

/* The dict of the attributes of an object; NULL: it has none, or keeps them in another way. */
const struct ckpt_value *ckpt_module_attributes(const struct ckpt_model *model,
						const struct ckpt_value *v);

struct ckpt_module_report {
	uint64_t entries, modules;
	/* modules of TorchScript whose class has no source: all tensors were taken */
	uint64_t guessed;
};

/*
 * What MODULE.state_dict() would hold, in the arena of TO: parameters, buffers that are saved, then
 * the same of the modules below, as an OrderedDict without `_metadata`. NULL: ERR says why.
 */
const struct ckpt_value *ckpt_module_state_dict(struct ckpt_model *to,
						const struct ckpt_value *module,
						struct ckpt_module_report *report,
						struct ckpt_error *err);

/*
 * The tensor that detach() of a parameter or buffer gives: a new one over the same storage. NULL:
 * no memory.
 */
const struct ckpt_value *ckpt_tensor_detached(struct ckpt_model *to, const struct ckpt_value *v);

#endif
