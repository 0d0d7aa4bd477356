/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_REPAIR_ORDER_H
#define CKPT_REPAIR_ORDER_H

#include "format/torch_remains.h"

/*
 * Find records in front of a gap. Where bytes are missing, the header of one record may stand in
 * front of the bytes and the checksum of a later one, and only the order of the records shows it.
 * OUT, for each record: some records are missing, and the next one is not the one that follows in
 * an archive of torch.
 */
int ckpt_order_find_gaps(const struct ckpt_remains *remains, bool *out, struct ckpt_error *err);

#endif
