/* SPDX-License-Identifier: Apache-2.0 */
#include "why/why.h"

#include <string.h>

const struct ckpt_why_wrapper ckpt_why_wrappers[CKPT_WHY_WRAPPERS] = {
	{ "module.", "DistributedDataParallel or DataParallel" },
	{ "_orig_mod.", "torch.compile" },
	{ "_forward_module.", "Lightning's Fabric or its strategies" },
	{ "_fsdp_wrapped_module.", "FSDP" },
	{ "_checkpoint_wrapped_module.", "activation checkpointing" },
};

const char *ckpt_why_wrapper(const char *prefix)
{
	for (int i = 0; i < CKPT_WHY_WRAPPERS; i++)
		if (!strcmp(ckpt_why_wrappers[i].prefix, prefix))
			return ckpt_why_wrappers[i].who;
	return NULL;
}

const char *ckpt_why_prefix(struct ckpt_why *w, const char *prefix, bool saved)
{
	const char *who = ckpt_why_wrapper(prefix);

	if (who)
		return ckpt_why_print(w, "%sinside of %s", saved ? "from " : "", who);
	return ckpt_why_print(w, "%sa part of another module%s", saved ? "as " : "",
			      strcmp(prefix, "model.")
				      ? ""
				      : ", as LightningModules have it in 'model'");
}
