/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt rename': keys by expressions, or by a map in a file, which --invert prints the other way round.
 *
 * What must stay true: a map is applied as a whole or not at all; what matched nothing is told.
 */
#include "edit.h"
#include "name_map.h"

#include <stdio.h>

static struct edit_settings s;
static struct str_list expressions, at;
static const char *map_file;
static bool invert;

static const struct opt opts[] = {
	OPT_LIST("expression", 'e', &expressions, "s/A/B/",
		 "replace the first match of A in every key by B; s/A/B/g: every match"),
	OPT_STR("map", 'm', &map_file, "FILE",
		"rename the keys that FILE lists: columns old and new, or JSON"),
	OPT_FLAG("invert", 0, &invert,
		 "print the map that undoes --map; takes no IN and no OUT"),
	AT_OPT(at),
	OPT_FLAG("if-present", 0, &s.if_present,
		 "succeed if keys are absent: rename the others, if any, and write OUT"),
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

static int prepare_map(const struct edit_step *step, struct ckpt_error *err)
{
	return name_map_get(step->args.items[0], err) ? 0 : (int)err->status;
}

static int rename_by_map(const struct ckpt_model *in, const struct edit_step *step,
			 struct ckpt_model **out, struct ckpt_edit_report *report,
			 struct ckpt_error *err)
{
	const struct name_map *map = name_map_get(step->args.items[0], err);

	return map ? ckpt_rename_map(in, map->pairs, map->count, step->keys, out, report, err)
		   : (int)err->status;
}

static const char *all_named_so(const struct ckpt_model *in, const struct edit_step *step,
				char why[MOST_REASON])
{
	(void)in;
	(void)step;
	snprintf(why, MOST_REASON, "every key of the map has its new name already");
	return HINT_IF_PRESENT;
}

static void hint_absent(const struct ckpt_model *in, const struct edit_step *step,
			const struct ckpt_error *err)
{
	struct ckpt_error other = CKPT_ERROR_INIT;

	if (err->status == CKPT_E_NOTFOUND)
		name_map_hint_absent(name_map_get(step->args.items[0], &other), in);
}

const struct edit_kind kind_rename_map = {
	.name = "rename-map",
	.prepare = prepare_map,
	.apply = rename_by_map,
	.why_nothing = all_named_so,
	.hint_failed = hint_absent,
};

static int run_rename(int argc, char **argv);

const struct command cmd_rename = {
	.name = "rename",
	.operands = "IN OUT",
	.summary = "rename keys by regular expressions or a map",
	.details =
		"Every -e applies, in order, to every key of the dicts that hold tensors. rename\n"
		"leaves alone a trainer's own entries (model, epoch) and an optimizer's; --at\n"
		"names others. Expressions are Perl-compatible; \\1 and \\g<name> in the\n"
		"replacement mean what they mean in Python. If two entries would get the same\n"
		"name, rename fails and writes nothing. A note names each -e that matched no key.\n"
		"\n"
		"--map FILE ('-': standard input) names whole keys, as they are in their dict: two\n"
		"columns with a tab or spaces between them, where a line that begins with '#' is a\n"
		"comment, or a JSON object {\"old\": \"new\"}, for any name. It is all or nothing: a\n"
		"name that no key has and a name that is there twice are errors. All are renamed at\n"
		"once, so a map may swap names. --invert prints the map that leads back.\n",
	.examples = "  ckpt rename -e 's/^backbone\\.(.*)/encoder.\\1/' in.pt out.pt\n"
		    "  ckpt rename -e 's/gamma$/weight/' -e 's/beta$/bias/' in.pt out.pt\n"
		    "  ckpt rename --map names.txt in.pt out.pt\n"
		    "  ckpt rename --map names.txt --invert > back.txt\n",
	.opts = opts,
	.least = 0, /* with --invert */
	.most = 2,
	.one_less = &s.in_place,
	.takes_many = true,
	.run = run_rename,
};

static int print_inverse(void)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	const struct name_map *map = name_map_get(map_file, &err);

	if (!map || name_map_print_inverse(map_file, map, &err) < 0)
		return fail(&err);
	return finish_output(EXIT_FINE);
}

static int run_rename(int argc, char **argv)
{
	int first = parse_options(&cmd_rename, argc, argv);
	struct ckpt_key_options options = CKPT_KEY_OPTIONS_INIT;
	struct edit_step step = { .kind = &kind_rename, .keys = &options };

	if (first < 0)
		return -1 - first;
	if (expressions.count && map_file)
		return wrong_usage(&cmd_rename, "rename: -e and --map exclude each other");
	if (invert && !map_file)
		return wrong_usage(&cmd_rename, "rename: --invert is of a map, wanted --map FILE");
	if (invert && first < argc)
		return wrong_usage(&cmd_rename, "rename: with --invert there is no IN and no OUT");
	if (invert)
		return print_inverse();
	if (argc - first < (s.in_place || s.dry_run ? 1 : 2))
		return wrong_usage(&cmd_rename, "rename: too few operands, wanted IN OUT");
	if (!expressions.count && !map_file)
		return wrong_usage(&cmd_rename,
				   "rename: no expression, wanted -e 's/A/B/' or --map FILE");
	if (map_file)
		step.kind = &kind_rename_map;
	step.args = map_file ? (struct str_list){ &map_file, 1 } : expressions;
	options.at = at.items;
	options.at_count = at.count;
	options.flags = map_file && s.if_present ? CKPT_KEY_SKIP_ABSENT : 0;
	return run_edit(&cmd_rename, &s, &step, 1, &argv[first], argc - first);
}
