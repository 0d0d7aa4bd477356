/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <stdio.h>
#include <string.h>

/* strip-module, add-module, strip-prefix, add-prefix: one edit in four spellings. */

static struct edit_settings s;
static const char *prefix = "module.";

#define AT_OPT \
	OPT_LIST("at", 0, &s.at, "NAME", \
		 "edit only the mapping NAME, and what is below it; may be repeated")
#define STRIP_OPTS \
	AT_OPT, OPT_FLAG("anywhere", 0, &s.anywhere, "also inside of names, after a dot"), \
		OPT_FLAG("if-present", 0, &s.if_present, \
			 "nothing to strip is no error: write OUT all the same")

static const struct opt strip_opts[] = { STRIP_OPTS, EDIT_OPTS(s), OPT_END };
static const struct opt add_opts[] = { AT_OPT, EDIT_OPTS(s), OPT_END };

static int strip(const struct ckpt_model *in, const struct ckpt_edit_options *options,
		 struct ckpt_model **out, struct ckpt_edit_report *report, struct ckpt_error *err)
{
	return ckpt_strip_prefix(in, prefix, options, out, report, err);
}

static int add(const struct ckpt_model *in, const struct ckpt_edit_options *options,
	       struct ckpt_model **out, struct ckpt_edit_report *report, struct ckpt_error *err)
{
	return ckpt_add_prefix(in, prefix, options, out, report, err);
}

enum { MOST_DEPTH = 64 };

/* On the way through the input: where the walk is, seen from the state dicts that were edited. */
struct had {
	const struct ckpt_edit_report *added;
	size_t next;		   /* place that the walk comes to next */
	bool edited[MOST_DEPTH];   /* by depth: the container that was entered is one of them */
	size_t key_at[MOST_DEPTH]; /* where the keys of that container begin in names */
	uint64_t count;
};

static int count_had(void *ctx, const struct ckpt_item *item)
{
	struct had *h = ctx;
	uint32_t d = item->depth;

	if (d >= MOST_DEPTH)
		return 0;
	if (d && h->edited[d - 1])
		h->count += !strncmp(item->name + h->key_at[d - 1], prefix, strlen(prefix));
	if (item->kind != CKPT_ITEM_CONTAINER || item->seen)
		return 0;
	h->edited[d] = h->next < h->added->place_count &&
		       !strcmp(item->name, h->added->places[h->next].name);
	h->next += h->edited[d];
	h->key_at[d] = item->name[0] ? strlen(item->name) + 1 : 0;
	return 1;
}

/* Does every key that was renamed have the prefix already? */
static bool had_it(const struct ckpt_model *in, const struct ckpt_edit_report *added)
{
	struct had h = { .added = added };

	return ckpt_walk(in, count_had, &h, NULL) == 0 && h.count == added->renamed;
}

/* Nobody wants "module.module." by accident. */
static int add_once(const struct ckpt_model *in, const struct ckpt_edit_options *options,
		    struct ckpt_model **out, struct ckpt_edit_report *report,
		    struct ckpt_error *err)
{
	int rc = add(in, options, out, report, err);

	if (rc == 0 && had_it(in, report))
		report->renamed = report->names_renamed = 0;
	return rc;
}

static int run(const struct command *cmd, int argc, char **argv, bool takes_prefix, edit_fn *edit)
{
	int first = parse_options(cmd, argc, argv);
	char nothing[160], shown[100];

	if (first < 0)
		return -1 - first;
	if (takes_prefix)
		prefix = argv[first++];
	ckpt_escape(shown, sizeof(shown), prefix, strlen(prefix));
	snprintf(nothing, sizeof(nothing), "no key begins with '%s%s'", shown,
		 ends_with(prefix, ".") ? "" : ".");
	s.nothing = edit == strip ? nothing : "all keys begin with 'module.' already";
	s.nothing_hint = edit == strip ? HINT_IF_PRESENT : "'ckpt add-prefix module.' adds another";
	return run_edit(&s, argv[first], argv[first + 1], edit);
}

static int run_strip_module(int argc, char **argv);
static int run_add_module(int argc, char **argv);
static int run_strip_prefix(int argc, char **argv);
static int run_add_prefix(int argc, char **argv);

#define STATE_DICTS \
	"A state dict is a mapping in which a tensor, or a dict of tensors, stands under a string\n" \
	"key, wherever it is in the file. All of them are edited, or with --at those that are in the\n" \
	"mapping of that name. Entries keep their place, _metadata and lists of parameter names\n" \
	"follow. OUT is, byte for byte, what torch.load, the same change, and torch.save write.\n"

const struct command cmd_strip_module = {
	.name = "strip-module",
	.operands = "IN OUT",
	.summary = "take off the 'module.' that DistributedDataParallel put before every key",
	.details = STATE_DICTS,
	.examples = "  ckpt strip-module ddp.pt plain.pt\n"
		    "  ckpt strip-module --at model trainer.pt plain.pt\n",
	.opts = strip_opts,
	.least = 2,
	.most = 2,
	.run = run_strip_module,
};

const struct command cmd_add_module = {
	.name = "add-module",
	.operands = "IN OUT",
	.summary = "put 'module.' before every key, as DistributedDataParallel wants them",
	.details =
		"Edits the state dicts of modules: those with _metadata, and those that hold nothing but\n"
		"tensors; an optimizer's are left alone. --at names others. OUT has the entries that\n"
		"DistributedDataParallel(model).state_dict() has, _metadata included.\n",
	.examples = "  ckpt add-module plain.pt ddp.pt\n",
	.opts = add_opts,
	.least = 2,
	.most = 2,
	.run = run_add_module,
};

const struct command cmd_strip_prefix = {
	.name = "strip-prefix",
	.operands = "PREFIX IN OUT",
	.summary = "take any prefix off the keys: _orig_mod., model., _forward_module.",
	.details =
		"Only whole components match; a missing dot at the end of PREFIX is added.\n" STATE_DICTS,
	.examples = "  ckpt strip-prefix _orig_mod. compiled.pt plain.pt\n"
		    "  ckpt strip-prefix --anywhere _orig_mod. compiled.pt plain.pt\n",
	.opts = strip_opts,
	.least = 3,
	.most = 3,
	.run = run_strip_prefix,
};

const struct command cmd_add_prefix = {
	.name = "add-prefix",
	.operands = "PREFIX IN OUT",
	.summary = "put any prefix before the keys",
	.details =
		"Edits the state dicts of modules: those with _metadata, and those that hold nothing but\n"
		"tensors; an optimizer's are left alone. --at names others.\n",
	.examples = "  ckpt add-prefix backbone. resnet.pt detector.pt\n",
	.opts = add_opts,
	.least = 3,
	.most = 3,
	.run = run_add_prefix,
};

static int run_strip_module(int argc, char **argv)
{
	return run(&cmd_strip_module, argc, argv, false, strip);
}

static int run_add_module(int argc, char **argv)
{
	return run(&cmd_add_module, argc, argv, false, add_once);
}

static int run_strip_prefix(int argc, char **argv)
{
	return run(&cmd_strip_prefix, argc, argv, true, strip);
}

static int run_add_prefix(int argc, char **argv)
{
	return run(&cmd_add_prefix, argc, argv, true, add);
}
