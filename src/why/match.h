/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_WHY_MATCH_H
#define CKPT_WHY_MATCH_H

#include "why/why.h"

/*
 * Search the error for PATTERN, a Perl-compatible expression of ours, from FROM on. A search that
 * takes too much work counts as not found. OUT's texts live in the arena.
 */
bool ckpt_why_match(struct ckpt_why *w, const char *pattern, size_t from, struct ckpt_match *out);

/*
 * A copy of an error, in the arena, without what is no message: colors, zeros, "[rank0]:" in front
 * of lines, and the lines of source code that a traceback shows, which may hold the words of any
 * message. *LEN is its length.
 */
const char *ckpt_why_clean(struct ckpt_why *w, const char *error, size_t error_len, size_t *len);

#endif
