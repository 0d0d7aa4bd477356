/* SPDX-License-Identifier: Apache-2.0 */
#include "base/plugin.h"
#include "broadcast/mpi_plugin.h"

#include <stdio.h>

static const struct ckpt_plugin plugin = { "ckpt-mpi.so", "CKPT_MPI_PLUGIN", CKPT_MPI_OPEN_NAME,
					   "MPI", "mpicc" };

bool ckpt_mpi_is_there(void)
{
	return ckpt_plugin_find(&plugin, NULL, 0);
}

void ckpt_mpi_describe(char *out, size_t size)
{
	if (!ckpt_plugin_find(&plugin, out, size))
		snprintf(out, size, "no %s, with which 'ckpt broadcast' works under mpirun and srun: build ckpt where %s is", plugin.file, plugin.needs);
}

int ckpt_transport_open_mpi(struct ckpt_transport **out, struct ckpt_error *err)
{
	ckpt_mpi_open *open;
	int rc = ckpt_plugin_load(&plugin, (void **)&open, err);

	*out = NULL;
	return rc < 0 ? rc : open(CKPT_MPI_PLUGIN_VERSION, out, err);
}
