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
 *  - All of a mapping or list whose key says optimizer (`optimizer`, `optim`, `optimizer_states` ...),
 *    if there is one of the above in it and nothing that may be the weights of a model: no module, no
 *    entry called as models are, and no tensor called weight or bias, but for moments by the names of
 *    weights. So what stands beside an optimizer is found. The same of flat keys with such a part.
 */
struct ckpt_optimizers {
	struct ckpt_optimizers_level *levels; /* malloc: mappings around the current value */
	uint32_t count, cap;
	uint32_t peeked; /* entries that were looked at ahead of the walk */
	/*
	 * Of the value that was visited last, if it belongs to an optimizer: how much of its name is the
	 * name of the outermost one that its key calls an optimizer, SIZE_MAX: there is none; and whether
	 * nothing but that says so.
	 */
	size_t named_len;
	bool only_named;
	bool is_named; /* whether the value that was visited last is such one itself */
};

void ckpt_optimizers_clear(struct ckpt_optimizers *optimizers);

/*
 * To be called with every step of a walk, in order. 1: the value belongs to an optimizer, 0: it
 * does not, <0: CKPT_E_NOMEM.
 */
int ckpt_optimizers_visit(struct ckpt_optimizers *optimizers, const struct ckpt_walk_step *step,
			  struct ckpt_error *err);

#endif
