/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_UNZSTD_H
#define CKPT_IO_UNZSTD_H

#include "io/source.h"

/*
 * A source of what the zstd frames of BASE hold. Opening unpacks all of it once, to know its
 * size, and keeps the first and the last EDGE bytes. More than MOST bytes are CKPT_E_LIMIT.
 * Reading front to back unpacks once more; going back begins anew.
 */
int ckpt_source_unzstd(struct ckpt_source *base, uint64_t most, size_t edge,
		       struct ckpt_source **out, struct ckpt_error *err);

#endif
