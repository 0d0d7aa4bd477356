/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_TOKEN_H
#define CKPT_JOB_TOKEN_H

#include "job/tcp_wire.h"
#include "job/world.h"

/*
 * The secret that the ranks of a job have in common, by which they know each other where anybody
 * could come: the first line of FILE, or else the variable CKPT_TOKEN. It has 16 to 1024 bytes: who
 * answers in the place of rank 0 could try all short ones.
 *
 * FILE is refused unless only its owner may read it. CKPT_E_ARG: there is no token, or it is too
 * short or long, or others may read the file. Nothing of the token is kept but SECRET.
 */
int ckpt_token_read(const char *file, ckpt_lookup *lookup, void *ctx,
		    uint8_t secret[CKPT_WIRE_KEY], struct ckpt_error *err);

#endif
