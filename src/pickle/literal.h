/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PICKLE_LITERAL_H
#define CKPT_PICKLE_LITERAL_H

#include "pickle/value.h"

/* The text forms of protocols 0 and 1, and integers of any size. All fail with CKPT_E_FORMAT. */

/* Two's complement, little-endian, LEN bytes -> INT or BIGINT. LEN 0 is 0. */
int ckpt_literal_long(struct ckpt_arena *arena, const uint8_t *bytes, uint64_t len,
		      struct ckpt_value *v, struct ckpt_error *err);

/* "123", "-5", "00" and "01" (booleans) or, with LONG_FORM, "123L". */
int ckpt_literal_int(struct ckpt_arena *arena, const char *text, uint64_t len, bool long_form,
		     struct ckpt_value *v, struct ckpt_error *err);

int ckpt_literal_float(const char *text, uint64_t len, struct ckpt_value *v,
		       struct ckpt_error *err);

/* A quoted Python 2 str with backslash escapes -> PY2_STR. */
int ckpt_literal_py2_str(struct ckpt_arena *arena, const char *text, uint64_t len,
			 struct ckpt_value *v, struct ckpt_error *err);

/* raw-unicode-escape -> STR. */
int ckpt_literal_unicode(struct ckpt_arena *arena, const char *text, uint64_t len,
			 struct ckpt_value *v, struct ckpt_error *err);

#endif
