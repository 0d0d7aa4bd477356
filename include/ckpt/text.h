/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TEXT_H
#define CKPT_TEXT_H

#include <ckpt/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Write LEN bytes that came from a file to BUF, in a form that is safe on a terminal and fits one
 * line: control characters, backslashes, broken UTF-8, and characters that hide text or change its
 * direction become escapes; text that does not fit is cut and ends in "...". Returns BUF.
 */
CKPT_API char *ckpt_escape(char *buf, size_t size, const char *text, size_t len);

/*
 * How many bytes of NAME are its first PARTS parts, which dots separate, without the dot behind
 * them; all, if it has no more. Names are grouped by these. CKPT_DEPTH_MODULE: all parts but the last,
 * which is the module that "layers.0.weight" and "layers.0.bias" are of.
 */
#define CKPT_DEPTH_MODULE UINT64_MAX
CKPT_API size_t ckpt_name_front(const char *name, uint64_t parts);

/*
 * A pattern over names: a glob over the whole name ('*' crosses dots), which also matches the
 * subtree below the name; or, after "re:", a Perl-compatible expression that matches anywhere in
 * the name.
 */
struct ckpt_pattern;

/* CKPT_E_ARG if the expression is wrong. The caller owns *OUT. */
CKPT_API int ckpt_pattern_new(const char *text, struct ckpt_pattern **out, struct ckpt_error *err);
CKPT_API void ckpt_pattern_free(struct ckpt_pattern *pattern);

/*
 * 1: NAME matches; 0: it does not; CKPT_E_LIMIT: the expression takes too much work to decide. Only
 * one thread at a time may use a pattern.
 */
CKPT_API int ckpt_pattern_matches(struct ckpt_pattern *pattern, const char *name,
				  struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
