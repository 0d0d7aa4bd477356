/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_DEVICE_H
#define CKPT_TENSOR_DEVICE_H

#include "base/error.h"

#include <stdbool.h>

enum { CKPT_MOST_DEVICE_TAG = 64 };

/*
 * The tag that torch.save writes for a tensor that torch.load has put on device TEXT: "cpu", "mps",
 * "meta", or a type with an index ("cuda:3"; a type alone means the current device, which is 0 in a
 * fresh process). OUT has CKPT_MOST_DEVICE_TAG bytes.
 *
 * CKPT_E_ARG with the right spelling in the text for what no torch accepts ("cpu:0", "gpu:1"). With
 * ANY_TYPE, types that only a backend outside of torch knows are taken as they are.
 *
 * Source: torch/serialization.py, the location_tag functions and _deserialize functions of 1.7 to
 * 2.14.
 */
int ckpt_device_tag(const char *text, bool any_type, char out[CKPT_MOST_DEVICE_TAG],
		    struct ckpt_error *err);

#endif
