/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_REPAIR_REMAINS_H
#define CKPT_REPAIR_REMAINS_H

#include "format/torch_remains.h"

/*
 * Find what there is in SOURCE, which may be nothing: by ckpt_remains_walk(), then by what is left
 * of the directory. CANCEL, errors and OUT are as there.
 */
int ckpt_remains_read(struct ckpt_source *source, const volatile int *cancel,
		      struct ckpt_remains *out, struct ckpt_error *err);

#endif
