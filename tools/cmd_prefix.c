/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strip-module, add-module, strip-prefix and add-prefix: one edit in four spellings; and
 * strip-prefix --strip-wrappers.
 *
 * What must stay true: add-module adds no second 'module.' where all keys that it would change
 * have one. had_prefix() counts them in a walk over the input, which has to meet the mappings in
 * the order of the report's places; in another order the count would be wrong, without an error.
 */
#include "edit.h"

#include <stdio.h>
#include <string.h>

static struct edit_settings s;
static struct str_list at;
static bool anywhere, wrappers;

#define STRIP_OPTS \
	AT_OPT(at), \
		OPT_FLAG("anywhere", 0, &anywhere, \
			 "also strip the prefix inside a name, after a dot"), \
		OPT_FLAG("if-present", 0, &s.if_present, \
			 "succeed if there is nothing to strip: write OUT unchanged")

static const struct opt strip_opts[] = { STRIP_OPTS, EDIT_OPTS(s), OPT_END };
static const struct opt strip_prefix_opts[] = {
	STRIP_OPTS,
	OPT_FLAG("strip-wrappers", 0, &wrappers,
		 "instead of PREFIX, strip what wrappers put into keys, anywhere"),
	EDIT_OPTS(s), OPT_END
};
static const struct opt add_opts[] = { AT_OPT(at), EDIT_OPTS(s), OPT_END };

static const char *prefix_of(const struct edit_step *step)
{
	return step->args.count ? step->args.items[0] : "module.";
}

static int strip_prefix(const struct ckpt_model *in, const struct edit_step *step,
			struct ckpt_model **out, struct ckpt_edit_report *report,
			struct ckpt_error *err)
{
	return ckpt_strip_prefix(in, prefix_of(step), step->keys, out, report, err);
}

static int strip_wrappers(const struct ckpt_model *in, const struct edit_step *step,
			  struct ckpt_model **out, struct ckpt_edit_report *report,
			  struct ckpt_error *err)
{
	return ckpt_strip_wrappers(in, step->keys, out, report, err);
}

static int add_prefix(const struct ckpt_model *in, const struct edit_step *step,
		      struct ckpt_model **out, struct ckpt_edit_report *report,
		      struct ckpt_error *err)
{
	return ckpt_add_prefix(in, prefix_of(step), step->keys, out, report, err);
}

enum { MOST_DEPTH = 64 };

/* A walk over the input that counts keys with the prefix in the state dicts that were edited. */
struct prefix_walk {
	const struct ckpt_edit_report *added;
	size_t next;		   /* the next place that the walk meets */
	bool edited[MOST_DEPTH];   /* by depth: is that container an edited state dict? */
	size_t key_at[MOST_DEPTH]; /* where the keys of that container begin in names */
	uint64_t count;
};

static int count_prefixed_key(void *ctx, const struct ckpt_item *item)
{
	struct prefix_walk *h = ctx;
	uint32_t d = item->depth;

	if (d >= MOST_DEPTH)
		return 0;
	if (d && h->edited[d - 1])
		h->count += !strncmp(item->name + h->key_at[d - 1], "module.", 7);
	if (item->kind != CKPT_ITEM_CONTAINER || item->seen)
		return 0;
	h->edited[d] = h->next < h->added->place_count &&
		       !strcmp(item->name, h->added->places[h->next].name);
	h->next += h->edited[d];
	h->key_at[d] = item->name[0] ? strlen(item->name) + 1 : 0;
	return 1;
}

/* Did every renamed key have the prefix already? Returns 1, 0 or an error. */
static int had_prefix(const struct ckpt_model *in, const struct ckpt_edit_report *added,
		      struct ckpt_error *err)
{
	struct prefix_walk h = { .added = added };
	int rc = ckpt_walk(in, count_prefixed_key, &h, err);

	return rc < 0 ? rc : h.count == added->renamed;
}

/* Nobody wants "module.module." by accident. */
static int add_module(const struct ckpt_model *in, const struct edit_step *step,
		      struct ckpt_model **out, struct ckpt_edit_report *report,
		      struct ckpt_error *err)
{
	int rc = add_prefix(in, step, out, report, err), had;

	if (rc < 0)
		return rc;
	had = had_prefix(in, report, err);
	if (had == 0)
		return 0;
	ckpt_close(*out);
	*out = NULL;
	if (had < 0)
		return had;
	*report = (struct ckpt_edit_report)CKPT_EDIT_REPORT_INIT;
	return ckpt_select(in, NULL, 0, NULL, 0, out, report, err); /* all of it, as it is */
}

static const char *nothing_begins(const struct ckpt_model *in, const struct edit_step *step,
				  char why[MOST_REASON])
{
	const char *prefix = prefix_of(step);
	/* wrappers have names like '_orig_mod.': was this to take one off? */
	bool wrapper = prefix[0] == '_' || !strncmp(prefix, "module", 6);
	const char *others = wrapper ? wrappers_in(in, step->keys) : NULL;
	static char instead[500];
	char shown[100];

	snprintf(why, MOST_REASON, "no key begins with '%s%s'",
		 ckpt_escape(shown, sizeof(shown), prefix, strlen(prefix)),
		 ends_with(prefix, ".") ? "" : ".");
	if (!others)
		return HINT_IF_PRESENT;
	snprintf(instead, sizeof(instead),
		 "%s: 'ckpt strip-prefix " STRIP_WRAPPERS "' takes that off", others);
	return instead;
}

static const char *no_wrapper(const struct ckpt_model *in, const struct edit_step *step,
			      char why[MOST_REASON])
{
	(void)in;
	(void)step;
	snprintf(
		why, MOST_REASON,
		"no key has 'module.', '_orig_mod.', '_forward_module.', '_fsdp_wrapped_module.' or "
		"'_checkpoint_wrapped_module.'");
	return HINT_IF_PRESENT;
}

static void hint_clash(const struct ckpt_model *in, const struct edit_step *step,
		       const struct ckpt_error *err)
{
	(void)in;
	(void)step;
	if (err->status == CKPT_E_CLASH)
		hint("'ckpt edit IN OUT --drop NAME " STRIP_WRAPPERS
		     "' leaves one of them out first");
}

static const char *all_begin(const struct ckpt_model *in, const struct edit_step *step,
			     char why[MOST_REASON])
{
	(void)in;
	(void)step;
	snprintf(why, MOST_REASON, "all keys begin with 'module.' already");
	return "'ckpt add-prefix module.' adds another";
}

const struct edit_kind kind_strip_module = {
	.name = "strip-module",
	.apply = strip_prefix,
	.why_nothing = nothing_begins,
};
const struct edit_kind kind_add_module = {
	.name = "add-module",
	.apply = add_module,
	.why_nothing = all_begin,
};
const struct edit_kind kind_strip_prefix = {
	.name = "strip-prefix",
	.apply = strip_prefix,
	.why_nothing = nothing_begins,
};
const struct edit_kind kind_strip_wrappers = {
	.name = "strip-wrappers",
	.apply = strip_wrappers,
	.why_nothing = no_wrapper,
	.hint_failed = hint_clash,
};
const struct edit_kind kind_add_prefix = {
	.name = "add-prefix",
	.apply = add_prefix,
	.why_nothing = all_begin,
};

static int run_prefix_edit(const struct command *cmd, const struct edit_kind *kind, int argc,
			   char **argv)
{
	int first = parse_options(cmd, argc, argv);
	struct ckpt_key_options options = CKPT_KEY_OPTIONS_INIT;
	struct edit_step step = { .kind = kind, .keys = &options };
	const char *prefix;

	if (first < 0)
		return -1 - first;
	if (wrappers) {
		step.kind = &kind_strip_wrappers;
	} else if (cmd->least == 3) {
		prefix = argv[first++];
		step.args = (struct str_list){ &prefix, 1 };
	}
	options.at = at.items;
	options.at_count = at.count;
	options.flags = anywhere ? CKPT_KEY_ANYWHERE : 0;
	return run_edit(cmd, &s, &step, 1, &argv[first], argc - first);
}

static int run_strip_module(int argc, char **argv);
static int run_add_module(int argc, char **argv);
static int run_strip_prefix(int argc, char **argv);
static int run_add_prefix(int argc, char **argv);

#define STATE_DICTS \
	"A state dict is a mapping that holds a tensor, or a dict with a tensor in it,\n" \
	"under a string key. It may be anywhere in the file. The command edits all of\n" \
	"them; with --at, only those in the mapping of that name. Entries keep their\n" \
	"place, and _metadata and names in param_groups follow. OUT is, byte for byte,\n" \
	"what torch.load, the same change and torch.save write.\n"

const struct command cmd_strip_module = {
	.name = "strip-module",
	.operands = "IN OUT",
	.summary = "remove the 'module.' that DistributedDataParallel puts before every key",
	.details = STATE_DICTS,
	.examples = "  ckpt strip-module ddp.pt plain.pt\n"
		    "  ckpt edit trainer.pt plain.pt --extract model --strip-module\n"
		    "  ckpt strip-module --at model trainer.pt plain-trainer.pt\n",
	.opts = strip_opts,
	.least = 2,
	.most = 2,
	.one_less = &s.in_place,
	.takes_many = true,
	.run = run_strip_module,
};

const struct command cmd_add_module = {
	.name = "add-module",
	.operands = "IN OUT",
	.summary = "put 'module.' before every key, as DistributedDataParallel expects",
	.details =
		"This edits the state dicts of modules: those with _metadata, and those that hold\n"
		"only tensors. It leaves an optimizer's alone. --at names others. OUT has the\n"
		"entries that DistributedDataParallel(model).state_dict() has, _metadata\n"
		"included.\n",
	.examples = "  ckpt add-module plain.pt ddp.pt\n",
	.opts = add_opts,
	.least = 2,
	.most = 2,
	.one_less = &s.in_place,
	.takes_many = true,
	.run = run_add_module,
};

const struct command cmd_strip_prefix = {
	.name = "strip-prefix",
	.operands = "PREFIX IN OUT",
	.summary = "remove any prefix from keys: _orig_mod., model., _forward_module.",
	.details =
		"PREFIX matches whole components only; a missing dot at its end is added.\n" STATE_DICTS
		"\n--strip-wrappers takes the place of PREFIX. It strips module., _orig_mod.,\n"
		"_forward_module., _fsdp_wrapped_module. and _checkpoint_wrapped_module., in any\n"
		"order, at the start of a key and inside. An attribute of the model that is\n"
		"called 'module' goes, too. If two keys would get one name, nothing is written.\n",
	.examples = "  ckpt strip-prefix _orig_mod. compiled.pt plain.pt\n"
		    "  ckpt strip-prefix --anywhere _orig_mod. compiled.pt plain.pt\n"
		    "  ckpt strip-prefix --strip-wrappers ddp-of-compiled.pt plain.pt\n",
	.opts = strip_prefix_opts,
	.least = 3,
	.most = 3,
	.one_less = &s.in_place,
	.takes_many = true,
	.no_first = &wrappers,
	.run = run_strip_prefix,
};

const struct command cmd_add_prefix = {
	.name = "add-prefix",
	.operands = "PREFIX IN OUT",
	.summary = "put any prefix before keys",
	.details =
		"This edits the state dicts of modules: those with _metadata, and those that hold\n"
		"only tensors. It leaves an optimizer's alone. --at names others.\n",
	.examples = "  ckpt add-prefix backbone. resnet.pt detector.pt\n",
	.opts = add_opts,
	.least = 3,
	.most = 3,
	.one_less = &s.in_place,
	.takes_many = true,
	.run = run_add_prefix,
};

static int run_strip_module(int argc, char **argv)
{
	return run_prefix_edit(&cmd_strip_module, &kind_strip_module, argc, argv);
}

static int run_add_module(int argc, char **argv)
{
	return run_prefix_edit(&cmd_add_module, &kind_add_module, argc, argv);
}

static int run_strip_prefix(int argc, char **argv)
{
	return run_prefix_edit(&cmd_strip_prefix, &kind_strip_prefix, argc, argv);
}

static int run_add_prefix(int argc, char **argv)
{
	return run_prefix_edit(&cmd_add_prefix, &kind_add_prefix, argc, argv);
}
