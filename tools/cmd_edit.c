/* SPDX-License-Identifier: Apache-2.0 */
#include "edit.h"

#include <stdlib.h>
#include <string.h>

/* Several edits, one write. */

static struct edit_settings s;
static struct step_list chain;

static const struct edit_kind *const kinds[] = {
	&kind_strip_module, &kind_add_module, &kind_strip_prefix, &kind_add_prefix, &kind_rename,
	&kind_remap,	    &kind_remap_all,  &kind_extract,	  &kind_keep,	    &kind_drop,
	&kind_cast,	    &kind_compact,    &kind_sanitize,
};

static const struct opt opts[] = {
	OPT_STEP("strip-module", &chain, NULL, "take 'module.' off the keys"),
	OPT_STEP("add-module", &chain, NULL, "put 'module.' before the keys of modules"),
	OPT_STEP("strip-prefix", &chain, "PREFIX", "take PREFIX off the keys"),
	OPT_STEP("add-prefix", &chain, "PREFIX", "put PREFIX before the keys of modules"),
	OPT_STEP("rename", &chain, "s/A/B/", "rename keys, as 'ckpt rename -e' does"),
	OPT_STEP("remap", &chain, "OLD=NEW[,...]",
		 "move from device OLD to NEW, as 'ckpt remap' does"),
	OPT_STEP("remap-all", &chain, "DEVICE", "move everything to DEVICE"),
	OPT_STEP("extract", &chain, "NAME", "the value called NAME becomes the whole"),
	OPT_STEP("keep", &chain, "PATTERN", "keep only what matches"),
	OPT_STEP("drop", &chain, "PATTERN", "leave out what matches"),
	OPT_STEP("cast", &chain, "DTYPE", "floating tensors to another dtype"),
	OPT_STEP("sanitize", &chain, NULL, "make it load with weights_only=True"),
	OPT_STEP("compact", &chain, NULL, "views stop dragging their whole storage along"),
	OPT_FLAG("if-present", 0, &s.if_present, "a step that finds nothing to do is no error"),
	EDIT_OPTS(s),
	OPT_END
};

static int run(int argc, char **argv);

const struct command cmd_edit = {
	.name = "edit",
	.operands = "IN OUT",
	.summary = "several edits in one pass, in the order given",
	.details =
		"Every step sees what the one before it made; bytes are moved once, at the end. Several\n"
		"--keep, --drop or --remap in a row are one step.\n",
	.examples =
		"  ckpt edit in.pt out.pt --strip-module --drop 'optimizer*' --cast bf16 --remap cuda:0=cpu\n"
		"  ckpt edit trainer.ckpt out.pt --extract state_dict --strip-prefix model.\n",
	.opts = opts,
	.least = 2,
	.most = 2,
	.one_less = &s.in_place,
	.run = run,
};

static const struct edit_kind *find_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i]->name, name))
			return kinds[i];
	return NULL;
}

/* Options in the order given -> steps. VALUES has room for all of their arguments. */
static size_t make_steps(struct edit_step *steps, const char **values)
{
	size_t count = 0;

	for (size_t i = 0; i < chain.count; i++) {
		const struct edit_kind *kind = find_kind(chain.items[i].name);
		struct edit_step *last = count ? &steps[count - 1] : NULL;

		if (!last || last->kind != kind || !kind->merges) {
			last = &steps[count++];
			*last = (struct edit_step){ kind, { values, 0 }, CKPT_EDIT_OPTIONS_INIT };
		}
		if (chain.items[i].value)
			last->args.items[last->args.count++] = *values++ = chain.items[i].value;
	}
	return count;
}

static int run(int argc, char **argv)
{
	int first = parse_options(&cmd_edit, argc, argv), code = EXIT_ERROR;
	struct edit_step *steps;
	const char **values;

	if (first < 0)
		return -1 - first;
	if (!chain.count)
		return wrong_usage(&cmd_edit, "edit: no edit, wanted --strip-module, --drop ...");
	steps = calloc(chain.count, sizeof(*steps));
	values = calloc(chain.count, sizeof(*values));
	if (steps && values)
		code = run_edit(&s, steps, make_steps(steps, values), &argv[first]);
	free(values);
	free(steps);
	return code;
}
