/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <stdio.h>

static struct edit_settings s;
static struct str_list expressions;

static const struct opt opts[] = {
	OPT_LIST("expression", 'e', &expressions, "s/A/B/",
		 "replace the first match of A by B in every key; with a 'g' behind, every match"),
	OPT_LIST("at", 0, &s.at, "NAME",
		 "edit only the mapping NAME, and what is below it; may be repeated"),
	OPT_FLAG("if-present", 0, &s.if_present,
		 "nothing to rename is no error: write OUT all the same"),
	EDIT_OPTS(s), OPT_END
};

static int rename_keys(const struct ckpt_model *in, const struct ckpt_edit_options *options,
		       struct ckpt_model **out, struct ckpt_edit_report *report,
		       struct ckpt_error *err)
{
	return ckpt_rename(in, expressions.items, expressions.count, options, out, report, err);
}

static int run(int argc, char **argv);

const struct command cmd_rename = {
	.name = "rename",
	.operands = "IN OUT",
	.summary = "rename keys by regular expressions",
	.details =
		"Every -e is applied in order to every key of the dicts in which tensors stand. A trainer's\n"
		"own entries (model, epoch) and an optimizer's are left alone; --at names others.\n"
		"Expressions are Perl-compatible; \\1 and \\g<name> in the replacement mean what they mean in Python.\n"
		"Two entries that would get one name are an error, and nothing is written.\n",
	.examples = "  ckpt rename -e 's/^backbone\\.(.*)/encoder.\\1/' in.pt out.pt\n"
		    "  ckpt rename -e 's/gamma$/weight/' -e 's/beta$/bias/' in.pt out.pt\n",
	.opts = opts,
	.least = 2,
	.most = 2,
	.run = run,
};

static int run(int argc, char **argv)
{
	int first = parse_options(&cmd_rename, argc, argv);

	if (first < 0)
		return -1 - first;
	if (!expressions.count)
		return wrong_usage(&cmd_rename, "rename: no expression, wanted -e 's/A/B/'");
	s.nothing = "no key matches";
	s.nothing_hint = HINT_IF_PRESENT;
	return run_edit(&s, argv[first], argv[first + 1], rename_keys);
}
