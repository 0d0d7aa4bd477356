/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_MEANING_H
#define CKPT_MODEL_MEANING_H

#include "model/model.h"

#include <ckpt/node.h>

/*
 * What a value is in Python once it is loaded, however its pickle spells it. Protocol 2 writes
 * bytes, bytearrays, sets, and complex numbers as calls; objects of collections are calls in every
 * protocol. A call with more than Python writes for such an object is an OBJECT.
 */
struct ckpt_meaning {
	enum ckpt_node_kind kind;
	const struct ckpt_seq *items, *pairs; /* NULL: it has none; items and keys may be edited */
	const struct ckpt_global *global;     /* what was called, or the value itself; or NULL */
	double real, imag;		      /* COMPLEX */
	/* of BYTES and BYTEARRAY: as they are, or, if LATIN1, in UTF-8 with one character a byte */
	const char *bytes;
	uint64_t len;
	bool latin1;
};

/* V as edited: see ckpt_model_now(). The model must be whole. */
void ckpt_value_meaning(const struct ckpt_model *model, const struct ckpt_value *v,
			struct ckpt_meaning *out);

#endif
