/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PICKLE_OLDER_H
#define CKPT_PICKLE_OLDER_H

#include "pickle/value.h"

/*
 * What a protocol writes for a value that has no opcode in it yet: sets, bytes, bytearrays and
 * nested classes become calls. V itself where there is an opcode. The answer lives in SCRATCH;
 * NULL: no memory.
 */
const struct ckpt_value *ckpt_value_for_protocol(const struct ckpt_value *v, uint8_t protocol,
						 bool python313_nested, struct ckpt_arena *scratch);

/* set, frozenset, bytes, bytearray, getattr or encode, under the module name of the protocol. */
const struct ckpt_value *ckpt_value_builtin(const char *name, uint8_t protocol,
					    struct ckpt_arena *scratch);

#endif
