/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_EDIT_PLAIN_H
#define CKPT_EDIT_PLAIN_H

#include "model/model.h"

/*
 * Inside of sanitize: the plain value that an object, a CALL, stands for. NULL: it is none of the
 * kind, or its meaning cannot be told without calling something, or there is no memory. New values
 * are in the arena of TO.
 */

/* Namespaces, dataclasses, slots: a dict of attributes. */
const struct ckpt_value *ckpt_plain_from_object(struct ckpt_model *to, const struct ckpt_value *v);

/* defaultdict, deque, frozenset: dict, list, set. */
const struct ckpt_value *ckpt_plain_from_filled(struct ckpt_model *to, const struct ckpt_value *v);

/* What an omegaconf container holds. */
const struct ckpt_value *ckpt_plain_from_omegaconf(struct ckpt_model *to,
						   const struct ckpt_value *v);

/* numpy's scalars and arrays: numbers and tensors. */
const struct ckpt_value *ckpt_plain_from_numpy(struct ckpt_model *to, const struct ckpt_value *v,
					       struct ckpt_error *err);

/* Paths, dates, decimals, versions, numpy's dtypes: strings. G is the class of V. */
const struct ckpt_value *ckpt_plain_from_library(struct ckpt_model *to, const struct ckpt_value *v,
						 const struct ckpt_global *g);

#endif
