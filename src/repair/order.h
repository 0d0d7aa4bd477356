/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_REPAIR_ORDER_H
#define CKPT_REPAIR_ORDER_H

#include "format/torch_remains.h"

/*
 * Where bytes are missing, the header of one record may stand in front of the bytes and the checksum of a later one, and nothing
 * but the order of the records tells. OUT, one for each record: what follows it is not the one that follows it in an archive of
 * torch, and some records are missing. Not of those that the directory tells of.
 */
int ckpt_order_find_gaps(const struct ckpt_remains *remains, bool *out, struct ckpt_error *err);

#endif
