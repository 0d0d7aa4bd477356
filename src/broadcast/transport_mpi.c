/* SPDX-License-Identifier: Apache-2.0 */
#include "base/plugin.h"
#include "broadcast/mpi_plugin.h"

static const struct ckpt_plugin plugin = { "ckpt-mpi.so", "CKPT_MPI_PLUGIN", CKPT_MPI_OPEN_NAME,
					   "MPI", "mpicc" };

bool ckpt_mpi_is_there(void)
{
	return ckpt_plugin_is_there(&plugin);
}

int ckpt_transport_open_mpi(struct ckpt_transport **out, struct ckpt_error *err)
{
	ckpt_mpi_open *open;
	int rc = ckpt_plugin_load(&plugin, (void **)&open, err);

	*out = NULL;
	return rc < 0 ? rc : open(CKPT_MPI_PLUGIN_VERSION, out, err);
}
