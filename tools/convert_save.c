/* SPDX-License-Identifier: Apache-2.0 */
#include "convert.h"
#include "pipes.h"

#include <string.h>

int convert_take_weights(struct ckpt_model **model, const char *name, struct ckpt_edit_report *did)
{
	struct ckpt_take_options options = CKPT_TAKE_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *taken;
	int code;

	options.at = name;
	if (ckpt_take_weights(*model, &options, &taken, did, &err) < 0) {
		code = fail(&err);
		if (err.status == CKPT_E_NOTFOUND && name)
			hint_mapping_name(*model, name);
		return code;
	}
	ckpt_close(*model); /* what was taken keeps it alive */
	*model = taken;
	return EXIT_FINE;
}

int convert_shared_of(const char *word)
{
	static const char *const words[] = { "error", "clone", "alias" };

	for (int i = 0; i < 3; i++)
		if (!strcmp(word, words[i]))
			return CKPT_SHARED_ERROR + i;
	return -1;
}

bool convert_option_helps;

static int report_failure(const struct ckpt_save_options *options,
			  const struct convert_unfit *unfit, const char *in,
			  const struct ckpt_error *err)
{
	bool dropping = options->flags & CKPT_SAVE_DROP_OTHERS;
	bool is_unfit = unfit->count && !dropping && err->status == CKPT_E_UNSUPPORTED;
	int code;

	convert_option_helps = is_unfit || err->reason == CKPT_REASON_COMMON_BYTES ||
			       err->reason == CKPT_REASON_SAME_BYTES;
	if (is_unfit)
		code = convert_print_unfit(unfit, in, options->format);
	else
		code = save_failed(err, options->flags & CKPT_SAVE_REPLACE);
	if (err->reason == CKPT_REASON_SAME_BYTES && !options->ranks)
		hint("--shared clone writes each of them; --shared alias writes one, and the "
		     "others' names");
	else if (err->reason == CKPT_REASON_COMMON_BYTES || err->reason == CKPT_REASON_SAME_BYTES)
		hint("--shared clone writes each of them");
	return code;
}

int convert_save(struct ckpt_save_options *options, const struct ckpt_model *model, const char *in,
		 const char *out, struct ckpt_save_report *report)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct convert_unfit unfit = { .count = 0 };
	int code = EXIT_FINE, rc;

	out = save_to_stream(options, out);
	options->unfit = convert_note_unfit;
	options->unfit_ctx = &unfit;
	rc = ckpt_save(model, out, options, report, &err);
	end_progress();
	if (rc < 0)
		code = report_failure(options, &unfit, in, &err);
	convert_clear_unfit(&unfit);
	return code;
}
