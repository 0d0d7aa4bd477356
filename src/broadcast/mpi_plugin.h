/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_MPI_PLUGIN_H
#define CKPT_BROADCAST_MPI_PLUGIN_H

#include "broadcast/transport.h"

#include <stdbool.h>

/*
 * MPI has no common binary interface, so a separate library calls it: ckpt-mpi.so, built with the
 * site's mpicc and loaded only when it is needed. This is its interface.
 */
enum { CKPT_MPI_PLUGIN_VERSION = 5 };

/* Joins MPI_COMM_WORLD. VERSION: the caller's CKPT_MPI_PLUGIN_VERSION. */
typedef int ckpt_mpi_open(int version, struct ckpt_transport **out, struct ckpt_error *err);
#define CKPT_MPI_OPEN_NAME "ckpt_mpi_open"

/*
 * Load it (base/plugin.h says from where; $CKPT_MPI_PLUGIN wins) and open it. CKPT_E_UNSUPPORTED if
 * it is not there or cannot be loaded.
 */
int ckpt_transport_open_mpi(struct ckpt_transport **out, struct ckpt_error *err);

/* Is there a plug-in to load? */
bool ckpt_mpi_is_there(void);

/* Where it is, or how to get it. */
void ckpt_mpi_describe(char *out, size_t size);

#endif
