/* SPDX-License-Identifier: Apache-2.0 */
#include "edit.h"
#include "plain_model.h"
#include "with_config.h"

#include <string.h>

/* Several edits, one write. */

static struct edit_settings s;
static struct step_list chain;

static const struct opt opts[] = { EDIT_STEP_OPTS(chain),
	CHECK_OVERFLOW_OPT,
				   OPT_FLAG("if-present", 0, &s.if_present,
					    "go on after a step that finds nothing to do"),
				   EDIT_OPTS(s), OPT_END };

static int run_edits(int argc, char **argv);

const struct command cmd_edit = {
	.name = "edit",
	.operands = "IN OUT",
	.summary = "run several edits in one pass, in the order given",
	.details =
		"Every step sees the result of the step before it. Bytes move once, at the end.\n"
		"Several --keep, --drop or --remap in a row are one step. The NAME of --set is as\n"
		"'ckpt info' prints it, or the exact form: [\"a\"][\"b.c\"]=0.\n"
		"As in all edits, IN and OUT may be pipes, or '-' for standard input and output;\n"
		"'ckpt help convert' says what is kept where.\n",
	.examples =
		"  ckpt edit in.pt out.pt --strip-module --drop 'optimizer*' --cast bf16 --remap cuda:0=cpu\n"
		"  ckpt edit -i trainer.ckpt --set epoch=0 --set-json best_loss=null\n"
		"  ckpt edit trainer.ckpt out.pt --extract state_dict --strip-prefix model.\n",
	.opts = opts,
	.least = 2,
	.most = 2,
	.one_less = &s.in_place,
	.takes_many = true,
	.run = run_edits,
};

static bool dequantizes(void)
{
	for (size_t i = 0; i < chain.count; i++)
		if (!strcmp(chain.items[i].name, "dequantize"))
			return true;
	return false;
}

static int run_edits(int argc, char **argv)
{
	int first = parse_options(&cmd_edit, argc, argv), code = EXIT_ERROR;
	struct edit_step *steps;
	size_t count;

	if (first < 0)
		return -1 - first;
	if (!chain.count)
		return wrong_usage(&cmd_edit, "edit: no edit, wanted --strip-module, --drop ...");
	if (check_chain(&cmd_edit, &chain) != EXIT_FINE)
		return EXIT_USAGE;
	plain_set_typed(argc, argv);
	steps = make_steps(&chain, &count);
	if (steps)
		code = run_edit(&cmd_edit, &s, steps, count, &argv[first], argc - first);
	for (int i = first + !s.in_place; dequantizes() && code == EXIT_FINE && !quiet && !s.dry_run && i < argc; i++)
		note_config(argv[i]);
	free_steps(steps);
	return code;
}
