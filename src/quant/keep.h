/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_QUANT_KEEP_H
#define CKPT_QUANT_KEEP_H

#include "model/kept.h"

/*
 * The tensors of MODEL, as ckpt_model_whole() gives it, that are parts of quantized weights, and so no numbers by themselves;
 * none where nothing says that weights are quantized. AS: a format, whatever a configuration says; "plain": nothing is
 * quantized; NULL: as a configuration, metadata and names say. KEPT is to be cleared in any case.
 *
 * CKPT_E_FORMAT, CKPT_E_UNSUPPORTED, with CKPT_REASON_QUANTIZED: something says that weights are quantized, and they are not as
 * that has it.
 */
int ckpt_quant_keep_parts(const struct ckpt_model *model, const char *as, struct ckpt_kept *kept,
			  struct ckpt_error *err);

#endif
