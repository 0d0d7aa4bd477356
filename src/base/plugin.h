/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_PLUGIN_H
#define CKPT_BASE_PLUGIN_H

#include "base/error.h"

#include <stdbool.h>

/*
 * Libraries of our own that are loaded only when they are wanted, since what they talk to is not on every
 * machine. Looked for in this order: where VARIABLE says; beside the library or program that this is part of; where
 * it was installed.
 */
struct ckpt_plugin {
	const char *file;     /* "ckpt-mpi.so" */
	const char *variable; /* of the environment: "CKPT_MPI_PLUGIN" */
	const char *entry;    /* the one function in it */
	const char *talks_to; /* for messages: "MPI" */
	const char *needs;    /* to be built: "mpicc" */
};

/* Is there one to be loaded? */
bool ckpt_plugin_is_there(const struct ckpt_plugin *plugin);

/* *OUT becomes the function. CKPT_E_UNSUPPORTED if there is none, or it cannot be loaded. It is never unloaded. */
int ckpt_plugin_load(const struct ckpt_plugin *plugin, void **out, struct ckpt_error *err);

#endif
