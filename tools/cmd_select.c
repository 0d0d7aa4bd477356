/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt extract' and 'ckpt select': parts of a checkpoint, as a whole of its own or in their places.
 */
#include "edit.h"
#include "plain_model.h"

#include <stdio.h>
#include <string.h>

static struct edit_settings s;
static struct str_list keep, drop;

static const struct opt extract_opts[] = { EDIT_OPTS(s), OPT_END };
static const struct opt select_opts[] = {
	OPT_LIST("keep", 0, &keep, "PATTERN", "keep only entries that match; may be repeated"),
	OPT_LIST("drop", 0, &drop, "PATTERN", "leave out entries that match; may be repeated"),
	OPT_FLAG("if-present", 0, &s.if_present,
		 "accept a pattern that matches nothing, if others match"),
	EDIT_OPTS(s), OPT_END
};

static int run_extract(int argc, char **argv);
static int run_select(int argc, char **argv);

const struct command cmd_extract = {
	.name = "extract",
	.operands = "NAME IN OUT",
	.summary = "make a part the whole: take the state dict out of a trainer's file",
	.details =
		"NAME is a path as 'ckpt ls' and 'ckpt info' print it: model, optimizer.state.0.\n"
		"For keys with dots, write the exact form: [\"state_dict\"][\"net.0.weight\"]. OUT\n"
		"is, byte for byte, what torch.save(torch.load(IN)[NAME], OUT) writes.\n",
	.examples = "  ckpt extract state_dict trainer.ckpt model.pt\n",
	.opts = extract_opts,
	.least = 3,
	.most = 3,
	.one_less = &s.in_place,
	.takes_many = true,
	.run = run_extract,
};

const struct command cmd_select = {
	.name = "select",
	.operands = "IN OUT",
	.summary = "keep or drop entries: optimizer state, EMA copies, buffers",
	.details =
		"A PATTERN is a glob over the whole name ('*' crosses dots), and also matches\n"
		"everything below that name. 're:' starts a Perl-compatible expression. select\n"
		"leaves entries out of dicts and lists, and their tensors with them. Tuples and\n"
		"objects stay whole. --drop applies after --keep.\n",
	.examples = "  ckpt select --drop optimizer --drop 'ema*' trainer.pt small.pt\n"
		    "  ckpt select --keep 'model.backbone.*' trainer.pt backbone.pt\n",
	.opts = select_opts,
	.least = 2,
	.most = 2,
	.one_less = &s.in_place,
	.takes_many = true,
	.run = run_select,
};

static int extract(const struct ckpt_model *in, const struct edit_step *step,
		   struct ckpt_model **out, struct ckpt_edit_report *report, struct ckpt_error *err)
{
	return ckpt_extract(in, step->args.items[0], out, report, err);
}

static void hint_extract(const struct ckpt_model *in, const struct edit_step *step,
			 const struct ckpt_error *err)
{
	const char *line;

	if (err->status != CKPT_E_NOTFOUND)
		return;
	line = plain_line_instead(step);
	if (line)
		hint("for a plain model: %s", line);
	else
		hint_mapping_name(in, step->args.items[0]);
}

static int keep_and_drop(const struct ckpt_model *in, const struct edit_step *step,
			 struct ckpt_model **out, struct ckpt_edit_report *report,
			 struct ckpt_error *err)
{
	(void)step;
	return ckpt_select(in, keep.items, keep.count, drop.items, drop.count, out, report, err);
}

static int keep_only(const struct ckpt_model *in, const struct edit_step *step,
		     struct ckpt_model **out, struct ckpt_edit_report *report,
		     struct ckpt_error *err)
{
	return ckpt_select(in, step->args.items, step->args.count, NULL, 0, out, report, err);
}

static int leave_out(const struct ckpt_model *in, const struct edit_step *step,
		     struct ckpt_model **out, struct ckpt_edit_report *report,
		     struct ckpt_error *err)
{
	return ckpt_select(in, NULL, 0, step->args.items, step->args.count, out, report, err);
}

static const char *nothing_left_out(const struct ckpt_model *in, const struct edit_step *step,
				    char why[MOST_REASON])
{
	(void)in;
	(void)step;
	snprintf(why, MOST_REASON, "every entry is to be kept");
	return HINT_IF_PRESENT;
}

const struct edit_kind kind_extract = {
	.name = "extract",
	.apply = extract,
	.hint_failed = hint_extract,
};
static const struct edit_kind kind_select = {
	.name = "select",
	.nothing_found_is_no = true,
	.apply = keep_and_drop,
	.why_nothing = nothing_left_out,
};
const struct edit_kind kind_keep = {
	.name = "keep",
	.nothing_found_is_no = true,
	.merges = true,
	.apply = keep_only,
	.why_nothing = nothing_left_out,
};
const struct edit_kind kind_drop = {
	.name = "drop",
	.merges = true,
	.apply = leave_out,
	.why_nothing = nothing_left_out,
};

static int run_extract(int argc, char **argv)
{
	int first = parse_options(&cmd_extract, argc, argv);
	struct edit_step step = { .kind = &kind_extract };

	if (first < 0)
		return -1 - first;
	step.args = (struct str_list){ (const char **)&argv[first], 1 };
	return run_edit(&cmd_extract, &s, &step, 1, &argv[first + 1], argc - first - 1);
}

static int run_select(int argc, char **argv)
{
	int first = parse_options(&cmd_select, argc, argv);
	struct edit_step step = { .kind = &kind_select };

	if (first < 0)
		return -1 - first;
	if (!keep.count != !drop.count) {
		step.args = keep.count ? keep : drop;
		step.same_as = keep.count ? &kind_keep : &kind_drop;
	}
	if (!keep.count && !drop.count)
		return wrong_usage(&cmd_select, "select: wanted --keep or --drop");
	return run_edit(&cmd_select, &s, &step, 1, &argv[first], argc - first);
}
