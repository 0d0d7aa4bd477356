/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cast leaves the parts of quantized weights: codes and scales that are rounded each for itself are no numbers together.
 * Which tensors these are is decided once, before the cast (src/edit/cast.c), by the same finder that `--dequantize` asks.
 */
#include "edit/cast.h"
#include "quant/keep.h"

#include "base/sized.h"

int ckpt_cast(const struct ckpt_model *model, const char *dtype,
	      const struct ckpt_cast_options *options, struct ckpt_model **out,
	      struct ckpt_edit_report *report, struct ckpt_error *err)
{
	struct ckpt_cast_options o = CKPT_CAST_OPTIONS_INIT;
	struct ckpt_kept kept = { 0 };
	int rc = ckpt_model_whole(&model, err);

	*out = NULL;
	if (rc == 0)
		rc = ckpt_sized_take(&o, sizeof(o), options, err);
	if (rc == 0)
		rc = ckpt_quant_keep_parts(model, o.as, &kept, err);
	if (rc == 0)
		rc = ckpt_cast_others(model, dtype, &o, &kept, out, report, err);
	ckpt_kept_clear(&kept);
	return rc;
}
