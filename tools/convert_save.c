/* SPDX-License-Identifier: Apache-2.0 */
#include "convert.h"
#include "pipes.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_LEFT = 8 };

/* What stands beside the state dict, at the root. */
static struct {
	char place[160]; /* of the state dict */
	char names[700];
	uint64_t count;
	bool has_place; /* it was found below the root: else the names tell nothing */
} left_behind;

static int note_left(void *ctx, const struct ckpt_item *item)
{
	size_t len = strlen(item->name), used = strlen(left_behind.names);
	char shown[64];

	(void)ctx;
	if (item->depth == 0)
		return 1;
	if (!strncmp(left_behind.place, item->name, len) && (left_behind.place[len] == '.' || !left_behind.place[len]))
		left_behind.has_place = true;
	else if (left_behind.count++ < MOST_LEFT)
		snprintf(left_behind.names + used, sizeof(left_behind.names) - used, "%s'%s'", used ? ", " : "",
			 ckpt_escape(shown, sizeof(shown), item->name, len));
	return 0;
}

static void look_for_left(const struct ckpt_model *model, const struct ckpt_edit_report *did)
{
	size_t used;

	memset(&left_behind, 0, sizeof(left_behind));
	if (!did->place_count || !*did->places[0].name)
		return;
	snprintf(left_behind.place, sizeof(left_behind.place), "%s", did->places[0].name);
	if (ckpt_walk(model, note_left, NULL, NULL) < 0 || !left_behind.has_place)
		left_behind.names[0] = '\0';
	used = strlen(left_behind.names);
	if (used && left_behind.count > MOST_LEFT)
		snprintf(left_behind.names + used, sizeof(left_behind.names) - used, " and %" PRIu64 " more",
			 left_behind.count - MOST_LEFT);
}

const char *convert_left_behind(void)
{
	return left_behind.names;
}

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
	look_for_left(*model, did);
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
