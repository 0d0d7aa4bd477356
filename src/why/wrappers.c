/* SPDX-License-Identifier: Apache-2.0 */
#include "why/why.h"

#include "model/module_wrappers.h"

#include <string.h>

const char *ckpt_why_wrapper(const char *prefix)
{
	for (int i = 0; i < CKPT_MODULE_WRAPPERS; i++)
		if (!strcmp(ckpt_module_wrappers[i].prefix, prefix))
			return ckpt_module_wrappers[i].who;
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
