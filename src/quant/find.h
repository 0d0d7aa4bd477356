/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_QUANT_FIND_H
#define CKPT_QUANT_FIND_H

#include "base/buf.h"
#include "quant/group.h"

/* The steps of ckpt_quant_find(), for what asks for the parts of weights alone (keep.h). */

/* Nothing of MODEL is read yet. To be closed with ckpt_quant_close(). */
int ckpt_quant_new(const struct ckpt_model *model, enum ckpt_dtype to, struct ckpt_quant **out,
		   struct ckpt_error *err);

/*
 * The configuration beside MODEL. Where AS, not NULL, says the format, none is needed, and one that cannot be read is as
 * none.
 */
int ckpt_quant_find_config(const struct ckpt_model *model, const char *as,
			   struct ckpt_quant_config *out, struct ckpt_error *err);

/*
 * The entries of Q: all tensors under a text key. Unless ALWAYS, none of a model without a tensor that could be the items of a
 * quantized weight; ALWAYS: something says that weights are quantized, and scales alone have to be seen, too.
 */
int ckpt_quant_collect(struct ckpt_quant *q, bool always, struct ckpt_error *err);

/* Could numbers of DTYPE be codes? */
bool ckpt_quant_is_code(enum ckpt_dtype dtype);

/* Does the key of E end with SUFFIX, whose dot is missing where nothing is in front of it? "*x": see struct ckpt_quant_suffix. */
bool ckpt_quant_ends_as(const struct ckpt_quant_entry *e, const char *suffix, uint32_t *front);

/* The key that FRONT makes with SUFFIX, appended to OUT. False: there is none, FRONT is of another kind. */
bool ckpt_quant_add_key(const char *front, uint32_t len, const char *suffix, struct ckpt_buf *out);

/* The groups of Q by the names of FORMAT; _try(): and are they what FORMAT says? CKPT_E_FORMAT, CKPT_E_UNSUPPORTED. */
int ckpt_quant_group_all(struct ckpt_quant *q, const struct ckpt_quant_format *format,
			 struct ckpt_error *err);
int ckpt_quant_try(struct ckpt_quant *q, const struct ckpt_quant_format *format,
		   struct ckpt_error *err);

/* Is there an entry in no group that only quantized weights have: one with a name of codes, or of a dtype below 16 bits? */
int ckpt_quant_check_called_codes(const struct ckpt_quant *q, struct ckpt_error *err);
int ckpt_quant_check_left_over(const struct ckpt_quant *q, struct ckpt_error *err);

/* All of it: the format by AS, the configuration or what fits. CKPT_E_NOTFOUND: nothing is quantized. */
int ckpt_quant_choose(struct ckpt_quant *q, const char *as, struct ckpt_error *err);

#endif
