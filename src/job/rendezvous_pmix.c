/* SPDX-License-Identifier: Apache-2.0 */
#include "job/pmix_plugin.h"

#include "base/plugin.h"

#include <stdlib.h>

static const struct ckpt_plugin plugin = { "ckpt-pmix.so", "CKPT_PMIX_PLUGIN", CKPT_PMIX_OPEN_NAME,
					   "PMIx", "libpmix" };

bool ckpt_rendezvous_has_pmix(void)
{
	return ckpt_plugin_find(&plugin, NULL, 0);
}

int ckpt_rendezvous_open_pmix(const struct ckpt_world *world, struct ckpt_rendezvous **out,
			      struct ckpt_error *err)
{
	ckpt_pmix_open *open;
	int rc;

	*out = NULL;
	if (!getenv("PMIX_NAMESPACE"))
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"there is no PMIx server, PMIX_NAMESPACE is not set: start the ranks "
			"with srun --mpi=pmix or Open MPI's mpirun, or use --rdzv file:DIR");
	rc = ckpt_plugin_load(&plugin, (void **)&open, err);
	return rc < 0 ? rc : open(CKPT_PMIX_PLUGIN_VERSION, world, out, err);
}
