/* SPDX-License-Identifier: Apache-2.0 */
#include "edit.h"
#include "words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void hint_failed(const struct ckpt_model *in, const struct edit_step *step,
			const struct ckpt_error *err)
{
	(void)in;
	(void)step;
	if ((err->status == CKPT_E_UNSUPPORTED && !quant_as) || (err->status == CKPT_E_ARG && quant_as))
		hint("'--as FORMAT' says how they are quantized: " QUANT_FORMATS);
}

/* `ckpt cast --dequantize`, and `--dequantize` of `ckpt edit` and `ckpt convert`. */

const char *quant_as, *dequantize_to;

int show_dequantized(const char *path, const char *usual, struct ckpt_model **model)
{
	struct ckpt_quant_options options = CKPT_QUANT_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_model *made;
	int rc;

	if (!dequantize_to)
		return EXIT_FINE;
	options.as = quant_as;
	rc = ckpt_dequantize(*model, *dequantize_to ? dequantize_to : usual, &options, &made,
			     &report, &err);
	if (rc == 0) {
		ckpt_close(*model);
		*model = made;
		if (!report.tensors_dequantized && !quiet)
			complain("note: %s has no quantized weights", path);
		return EXIT_FINE;
	}
	if (!err.path[0])
		snprintf(err.path, sizeof(err.path), "%s", path);
	rc = fail(&err);
	hint_failed(NULL, NULL, &err);
	return rc;
}

static int dequantize(const struct ckpt_model *in, const struct edit_step *step,
		      struct ckpt_model **out, struct ckpt_edit_report *report,
		      struct ckpt_error *err)
{
	struct ckpt_quant_options options = CKPT_QUANT_OPTIONS_INIT;

	options.as = quant_as;
	return ckpt_dequantize(in, step->args.items[0], &options, out, report, err);
}

static const char *nothing_quantized(const struct ckpt_model *in, const struct edit_step *step,
				     char why[MOST_REASON])
{
	(void)in;
	(void)step;
	snprintf(why, MOST_REASON,
		 "no weight is quantized, as far as config.json, names and dtypes tell");
	return HINT_IF_PRESENT;
}

const struct edit_kind kind_dequantize = {
	.name = "dequantize",
	.apply = dequantize,
	.why_nothing = nothing_quantized,
	.hint_failed = hint_failed,
};
