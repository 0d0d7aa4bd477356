/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_PLUGIN_H
#define CKPT_BASE_PLUGIN_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Shared libraries of this project that are loaded only when they are needed, as what they use
 * is not on every machine. Searched in this order: the path in VARIABLE, the folder of the
 * library or program that has this code, the folder of the installation.
 */
struct ckpt_plugin {
	const char *file;     /* "ckpt-mpi.so" */
	const char *variable; /* environment variable: "CKPT_MPI_PLUGIN" */
	const char *entry;    /* its one function */
	const char *talks_to; /* for messages: "MPI" */
	const char *needs;    /* what building it takes: "mpicc" */
};

/* Is the file found? In PATH then, which may be NULL. */
bool ckpt_plugin_find(const struct ckpt_plugin *plugin, char *path, size_t size);

/*
 * Load it, and set *OUT to the function. CKPT_E_UNSUPPORTED if it is not found or cannot be
 * loaded. It is never unloaded.
 */
int ckpt_plugin_load(const struct ckpt_plugin *plugin, void **out, struct ckpt_error *err);

#endif
