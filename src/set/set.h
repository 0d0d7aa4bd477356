/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_SET_H
#define CKPT_SET_SET_H

#include "model/model.h"

/*
 * A checkpoint of many files: open the directory PATH, whatever kind it is. What it is that cannot be
 * opened, and what state it is in, goes to ERR: CKPT_E_UNSUPPORTED, or CKPT_E_FORMAT for an incomplete one.
 */
int ckpt_set_open(const char *path, struct ckpt_model **out, struct ckpt_error *err);

#endif
