/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_OPTIMIZERS_H
#define CKPT_MODEL_OPTIMIZERS_H

#include "model/walk.h"

/*
 * Which values belong to an optimizer, told during a walk by the keys that stand beside each
 * other, since nothing in a file says so:
 *
 *  - `state` and what is below it, and `param_groups`, where a mapping has `param_groups`: what
 *    torch.optim.Optimizer.state_dict(), FSDP.optim_state_dict() and
 *    get_optimizer_state_dict() give, and the attributes of an optimizer that was saved whole.
 *  - The same with a key in front, P.state and P.param_groups, where one mapping holds flat keys:
 *    a DCP directory, or flatten_optimizer_state_dict.
 *  - All of a mapping that has a key as optimizers call what they keep for a parameter: exp_avg,
 *    momentum_buffer ...; or, of flat keys, all that begin as that one, wherever in it the word is. So the state of an
 *    optimizer is found without its param_groups, which safetensors cannot hold.
 *  - All of a mapping of a `step` and what Adagrad, Rprop, ASGD or Adafactor keep beside it, and of
 *    nothing else.
 *  - All of a mapping that has a key as DeepSpeed, Megatron and Apex call what they keep: the
 *    weights in full precision and the optimizer inside (base_optimizer_state,
 *    fp32_flat_groups ...).
 */
struct ckpt_optimizers {
	struct ckpt_optimizers_level *levels; /* malloc: mappings around the current value */
	uint32_t count, cap;
};

void ckpt_optimizers_clear(struct ckpt_optimizers *optimizers);

/*
 * To be called with every step of a walk, in order. 1: the value belongs to an optimizer, 0: it
 * does not, <0: CKPT_E_NOMEM.
 */
int ckpt_optimizers_visit(struct ckpt_optimizers *optimizers, const struct ckpt_walk_step *step,
			  struct ckpt_error *err);

#endif
