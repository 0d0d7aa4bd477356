/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_EDIT_CAST_H
#define CKPT_EDIT_CAST_H

#include "model/kept.h"

#include <ckpt/edit.h>

/* ckpt_cast() of all but the tensors in KEPT, which MODEL has, as ckpt_model_whole() gives it. Counts them as QUANTIZED_LEFT. */
int ckpt_cast_others(const struct ckpt_model *model, const char *dtype,
		     const struct ckpt_cast_options *options, const struct ckpt_kept *kept,
		     struct ckpt_model **out, struct ckpt_edit_report *report,
		     struct ckpt_error *err);

#endif
