/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_SPOOL_H
#define CKPT_IO_SPOOL_H

#include "base/error.h"

#include <stdint.h>

/*
 * Files without a name in a folder for temporary files, for pipes: what comes out of one, to be
 * read at any place, and what goes into one, until it is complete. Nothing remains of them, however
 * the process ends. ckpt_spool() (<ckpt/model.h>) is the other half.
 */

/* Returns a file in FOLDER, to be closed, or a negative status. */
int ckpt_spool_create(const char *folder, struct ckpt_error *err);

/*
 * Write the SIZE bytes of FROM, a file, to TO, in order: a pipe, a socket, a file at its offset.
 * CANCEL, which may be NULL, ends it even where the reader of the pipe has stopped: CKPT_E_CANCELLED.
 */
int ckpt_spool_send(int from, uint64_t size, int to, const volatile int *cancel,
		    struct ckpt_error *err);

#endif
