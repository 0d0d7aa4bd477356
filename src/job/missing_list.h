/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_MISSING_LIST_H
#define CKPT_JOB_MISSING_LIST_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* TEXT becomes "ranks 5, 9 and 3 more of 64": those that are not THERE. Returns how many they are. */
uint32_t ckpt_missing_list(const bool *there, uint32_t size, char *text, size_t room);

/* CKPT_E_PEER: of SIZE ranks COUNT have not taken rank 0's answer; the FIRST of them is a process of HOST. */
int ckpt_missing_fail_answer(uint32_t size, uint32_t count, uint32_t first, const char *host,
			     uint32_t pid, struct ckpt_error *err);

#endif
