/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_REPAIR_REMAINS_H
#define CKPT_REPAIR_REMAINS_H

#include "format/torch_remains.h"

/*
 * Finds what there is in SOURCE, which may be nothing: ckpt_remains_walk(), and then what the
 * directory tells, of which a part may be damaged. CANCEL, errors and OUT are as there.
 */
int ckpt_remains_read(struct ckpt_source *source, const volatile int *cancel, struct ckpt_remains *out,
		      struct ckpt_error *err);

#endif
