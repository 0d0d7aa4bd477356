/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ZIPFMT_INFLATE_H
#define CKPT_ZIPFMT_INFLATE_H

#include "zipfmt/index.h"

/*
 * The bytes of a compressed record as a stream, through libzip. torch.save() writes no such
 * records, but torch.load() reads them; zip tools make them.
 */
struct ckpt_recipe ckpt_zip_inflate_recipe(struct ckpt_zip *zip,
					   const struct ckpt_zip_entry *entry);

/* The archive as libzip has it open, from the first compressed record on. NULL is allowed. */
void ckpt_zip_inflater_free(struct ckpt_inflater *inflater);

#endif
