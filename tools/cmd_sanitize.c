/* SPDX-License-Identifier: Apache-2.0 */
#include "edit.h"

#include <ckpt/scan.h>

#include <string.h>

enum { MOST_PRINTED = 8 };

static struct edit_settings s;

static const struct opt opts[] = {
	OPT_FLAG("if-present", 0, &s.if_present,
		 "succeed if there is nothing to change: write OUT unchanged"),
	EDIT_OPTS(s), OPT_END
};

static int run_sanitize(int argc, char **argv);

const struct command cmd_sanitize = {
	.name = "sanitize",
	.operands = "IN OUT",
	.summary = "make a file load with weights_only=True: turn objects into plain data",
	.details =
		"Namespaces, dataclasses and omegaconf containers become dicts; numpy arrays\n"
		"become tensors, and numpy numbers become numbers; defaultdicts become dicts,\n"
		"paths and dates become strings, and modules become their state dicts. sanitize\n"
		"lists every replacement. It calls nothing: if only a call could tell what a\n"
		"value is, sanitize fails and names the place. OUT loads with weights_only=True\n"
		"in torch 2.6 and later.\n",
	.examples = "  ckpt sanitize trainer.ckpt safe.ckpt\n",
	.opts = opts,
	.least = 2,
	.most = 2,
	.one_less = &s.in_place,
	.takes_many = true,
	.run = run_sanitize,
};

/* Print a call that a load would make, and whose result is no part of the checkpoint. */
static int print_refusal(void *ctx, const struct ckpt_scan_refusal *r)
{
	unsigned promised = 1u << CKPT_SCAN_TORCH_2_6 | 1u << CKPT_SCAN_TORCH_2_14; /* OUT is for these */
	char name[400];

	if (r->versions & promised && r->name && (*(unsigned *)ctx)++ < MOST_PRINTED)
		complain("note: a load would also take %s, whose result is no part of the checkpoint: "
			 "OUT is without it",
			 ckpt_escape(name, sizeof(name), r->name, strlen(r->name)));
	return 0;
}

static unsigned unheld_calls; /* of the last file */

static int sanitize(const struct ckpt_model *in, const struct edit_step *step,
		    struct ckpt_model **out, struct ckpt_edit_report *report,
		    struct ckpt_error *err)
{
	bool accepts[CKPT_SCAN_TORCH_COUNT];
	int rc = ckpt_sanitize(in, out, report, err);

	(void)step;
	unheld_calls = 0;
	if (rc == 0 && !edit_changed(report) && edit_input)
		ckpt_scan_weights_only(edit_input, accepts, print_refusal, &unheld_calls, NULL);
	return rc;
}

static const char *nothing_refused(const struct ckpt_model *in, const struct edit_step *step,
				   char why[MOST_REASON])
{
	(void)in;
	(void)step;
	if (unheld_calls)
		snprintf(why, MOST_REASON,
			 "its values are plain data, but a load would also take what stands above");
	else
		snprintf(why, MOST_REASON, "it has plain data only");
	return unheld_calls ? "--if-present writes OUT without that, with exit code 0"
			    : HINT_IF_PRESENT;
}

static void hint_drop(const struct ckpt_model *in, const struct edit_step *step,
		      const struct ckpt_error *err)
{
	(void)in;
	(void)step;
	if (err->status == CKPT_E_UNSUPPORTED)
		hint("'ckpt edit IN OUT --drop NAME --sanitize' leaves it out");
}

const struct edit_kind kind_sanitize = {
	.name = "sanitize",
	.apply = sanitize,
	.why_nothing = nothing_refused,
	.hint_failed = hint_drop,
};

static int run_sanitize(int argc, char **argv)
{
	int first = parse_options(&cmd_sanitize, argc, argv);
	struct edit_step step = { .kind = &kind_sanitize };

	if (first < 0)
		return -1 - first;
	return run_edit(&cmd_sanitize, &s, &step, 1, &argv[first], argc - first);
}
