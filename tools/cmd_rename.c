/* SPDX-License-Identifier: Apache-2.0 */
#include "edit.h"

#include <stdio.h>

static struct edit_settings s;
static struct str_list expressions, at;

static const struct opt opts[] = {
	OPT_LIST("expression", 'e', &expressions, "s/A/B/",
		 "replace the first match of A in every key by B; s/A/B/g: every match"),
	AT_OPT(at),
	OPT_FLAG("if-present", 0, &s.if_present,
		 "succeed if there is nothing to rename: write OUT unchanged"),
	EDIT_OPTS(s), OPT_END
};

static int rename_keys(const struct ckpt_model *in, const struct edit_step *step,
		       struct ckpt_model **out, struct ckpt_edit_report *report,
		       struct ckpt_error *err)
{
	return ckpt_rename(in, step->args.items, step->args.count, step->keys, out, report,
			   err);
}

static const char *nothing_matches(const struct ckpt_model *in, const struct edit_step *step,
				   char why[MOST_REASON])
{
	(void)in;
	(void)step;
	snprintf(why, MOST_REASON, "no key matches");
	return HINT_IF_PRESENT;
}

const struct edit_kind kind_rename = {
	.name = "rename",
	.apply = rename_keys,
	.why_nothing = nothing_matches,
};

static int run_rename(int argc, char **argv);

const struct command cmd_rename = {
	.name = "rename",
	.operands = "IN OUT",
	.summary = "rename keys by regular expressions",
	.details =
		"Every -e applies, in order, to every key of the dicts that hold tensors. rename\n"
		"leaves alone a trainer's own entries (model, epoch) and an optimizer's; --at\n"
		"names others. Expressions are Perl-compatible; \\1 and \\g<name> in the\n"
		"replacement mean what they mean in Python. If two entries would get the same\n"
		"name, rename fails and writes nothing.\n",
	.examples = "  ckpt rename -e 's/^backbone\\.(.*)/encoder.\\1/' in.pt out.pt\n"
		    "  ckpt rename -e 's/gamma$/weight/' -e 's/beta$/bias/' in.pt out.pt\n",
	.opts = opts,
	.least = 2,
	.most = 2,
	.one_less = &s.in_place,
	.takes_many = true,
	.run = run_rename,
};

static int run_rename(int argc, char **argv)
{
	int first = parse_options(&cmd_rename, argc, argv);
	struct ckpt_key_options options = CKPT_KEY_OPTIONS_INIT;
	struct edit_step step = { .kind = &kind_rename, .keys = &options };

	if (first < 0)
		return -1 - first;
	if (!expressions.count)
		return wrong_usage(&cmd_rename, "rename: no expression, wanted -e 's/A/B/'");
	step.args = expressions;
	options.at = at.items;
	options.at_count = at.count;
	return run_edit(&cmd_rename, &s, &step, 1, &argv[first], argc - first);
}
