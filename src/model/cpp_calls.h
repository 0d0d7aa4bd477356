/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_CPP_CALLS_H
#define CKPT_MODEL_CPP_CALLS_H

#include "model/model.h"

/*
 * Does a pickle have what only torch's C++ pickler writes: calls of its functions, Python 3's name
 * of complex numbers at protocol 2? A look at the bytes; that it is so by chance does no harm.
 */
bool ckpt_pickle_is_of_cpp(const void *bytes, size_t len);

/* Let what these calls give stand for them. Only while a model is being made. */
int ckpt_model_resolve_cpp_calls(struct ckpt_model *model, struct ckpt_error *err);

#endif
