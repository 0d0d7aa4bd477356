/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PICKLE_DIS_H
#define CKPT_PICKLE_DIS_H

#include "base/error.h"

#include <stddef.h>

/* See ckpt_disassemble() in <ckpt/dis.h>. */
int ckpt_pickle_disassemble(const void *bytes, size_t len, int (*emit)(void *ctx, const char *line),
			    void *ctx, struct ckpt_error *err);

#endif
