/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_INNER_H
#define CKPT_TOOLS_INNER_H

#include <ckpt/ckpt.h>

#include <stdbool.h>

/*
 * Like open_model_with(), for commands that also list an archive of checkpoints: for one,
 * *IS_ARCHIVE is set and *CODE is EXIT_FINE.
 */
bool open_model_or_archive(const char *in, unsigned flags, struct ckpt_model **out,
			   bool *is_archive, int *code);

/* List the files in the archive at PATH. Returns the exit code. */
int list_inner(const char *path, const char *command, bool exact_bytes, const char *json);

#endif
