/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt remap', and the steps --remap and --remap-all of 'ckpt edit'.
 *
 * What must stay true: all maps of one step apply at once, so that two devices can be swapped.
 * The arguments of neighboring --remap are therefore joined and parsed as one list.
 */
#include "edit.h"
#include "json.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct edit_settings s;
static const char *all;
static bool device_objects, any_device;

static const struct opt opts[] = {
	OPT_STR("all", 0, &all, "DEVICE", "move everything to DEVICE, whatever its tag"),
	OPT_FLAG("device-objects", 0, &device_objects,
		 "also change torch.device values, which torch.load leaves alone"),
	OPT_FLAG("any-device", 0, &any_device,
		 "accept device types that torch itself does not know"),
	OPT_FLAG("if-present", 0, &s.if_present,
		 "succeed if there is nothing to move: write OUT unchanged"),
	EDIT_OPTS(s),
	OPT_END
};

static int run_remap(int argc, char **argv);

const struct command cmd_remap = {
	.name = "remap",
	.operands = "OLD=NEW... IN OUT",
	.summary = "change the devices that tensors are loaded to, as map_location does",
	.details = "OLD is the exact text of a tag, as in a map_location dict, or a glob:\n"
		   "'cuda:*=cpu'. All maps apply at once: 'cuda:0=cuda:1 cuda:1=cuda:0' swaps two\n"
		   "devices. Tags that no OLD names stay. OUT is, byte for byte, what\n"
		   "torch.load(map_location=...) and torch.save write on a machine that has these\n"
		   "devices. 'cuda' becomes 'cuda:0'. Meta tensors stay meta.\n",
	.examples = "  ckpt remap cuda:0=cuda:3 in.pt out.pt\n"
		    "  ckpt remap 'cuda:*=cpu' in.pt out.pt\n"
		    "  ckpt remap --all cpu in.pt out.pt\n",
	.opts = opts,
	.least = 2,
	.most = -1,
	.one_less = &s.in_place,
	.takes_many = true,
	.run = run_remap,
};

/* Parse "OLD=NEW,OLD=NEW" into MAPS, which point into TEXT. */
static int parse_maps(char *text, struct ckpt_device_map *maps, size_t most, struct ckpt_error *err)
{
	size_t count = 0;
	char *rest = text;

	for (char *one = strsep(&rest, ","); one; one = strsep(&rest, ",")) {
		char *equals = strchr(one, '=');

		if (!equals || equals == one || !equals[1] || count == most) {
			set_error(err, CKPT_E_ARG, "'%.60s': wanted OLD=NEW", one);
			return -1;
		}
		*equals = '\0';
		maps[count++] = (struct ckpt_device_map){ one, equals + 1 };
	}
	return (int)count;
}

static char *join(const struct str_list *list)
{
	size_t len = 1;
	char *text;

	for (size_t i = 0; i < list->count; i++)
		len += strlen(list->items[i]) + 1;
	text = calloc(1, len);
	for (size_t i = 0; text && i < list->count; i++) {
		strcat(text, i ? "," : "");
		strcat(text, list->items[i]);
	}
	return text;
}

static int remap(const struct ckpt_model *in, const struct edit_step *step, struct ckpt_model **out,
		 struct ckpt_edit_report *report, struct ckpt_error *err)
{
	char *text = join(&step->args);
	size_t most = text ? strlen(text) / 2 + 1 : 0;
	struct ckpt_device_map *maps = calloc(most, sizeof(*maps));
	int rc = CKPT_E_NOMEM, count;

	if (text && maps) {
		count = parse_maps(text, maps, most, err);
		rc = count < 0 ? CKPT_E_ARG
			       : ckpt_remap(in, maps, (size_t)count, step->remap, out, report, err);
	}
	free(maps);
	free(text);
	return rc;
}

static int remap_all(const struct ckpt_model *in, const struct edit_step *step,
		     struct ckpt_model **out, struct ckpt_edit_report *report,
		     struct ckpt_error *err)
{
	struct ckpt_device_map map = { NULL, step->args.items[0] };

	return ckpt_remap(in, &map, 1, step->remap, out, report, err);
}

enum { MOST_DEVICES = 4 };

/* "cpu, cuda:0 and cuda:1": the devices of a checkpoint, the first few */
static void list_devices(const struct ckpt_model *in, char *text, size_t size)
{
	const char *seen[MOST_DEVICES];
	size_t count = 0, len = 0;
	struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;
	char shown[40];

	text[0] = '\0';
	for (uint64_t i = 0; i < ckpt_tensor_count(in) && len < size; i++) {
		bool known = ckpt_tensor_get(in, i, &t) < 0 || !strcmp(t.layout, "meta") ||
			     !strcmp(t.layout, "uninitialized");

		for (size_t k = 0; !known && k < count; k++)
			known = !strcmp(seen[k], t.device);
		if (known)
			continue;
		if (count == MOST_DEVICES) {
			snprintf(text + len, size - len, " ...");
			return;
		}
		ckpt_escape(shown, sizeof(shown), t.device, strlen(t.device));
		len += (size_t)snprintf(text + len, size - len, "%s%s", count ? ", " : "", shown);
		seen[count++] = t.device;
	}
}

static const char *nothing_there(const struct ckpt_model *in, const struct edit_step *step,
				 char why[MOST_REASON])
{
	char devices[120];

	(void)step;
	list_devices(in, devices, sizeof(devices));
	if (devices[0])
		snprintf(why, MOST_REASON, "there is nothing to move: its tensors are on %s",
			 devices);
	else
		snprintf(why, MOST_REASON, "there is nothing to move: it has no tensors with data");
	return "tags are compared as text, 'cuda:*=cpu' takes all of them; " HINT_IF_PRESENT;
}

static void hint_all(const struct ckpt_model *in, const struct edit_step *step, const struct ckpt_error *err)
{
	(void)in;
	for (size_t i = 0; i < step->args.count && err->status == CKPT_E_ARG; i++)
		if (!strchr(step->args.items[i], '='))
			hint("'--remap-all DEVICE' moves everything");
}

const struct edit_kind kind_remap = {
	.name = "remap",
	.merges = true,
	.apply = remap,
	.why_nothing = nothing_there,
	.hint_failed = hint_all,
};
const struct edit_kind kind_remap_all = {
	.name = "remap-all",
	.apply = remap_all,
	.why_nothing = nothing_there,
};

/*
 * How many operands stood before '--'? BEFORE is argv as it was, ARGV as getopt_long() left it, with
 * the operands from FIRST on. 0: there was no '--'.
 */
static int count_before_dashes(char *const *before, char *const *argv, int argc, int first)
{
	int count = 0, at = 0;

	if (strcmp(argv[first - 1], "--") != 0)
		return 0;
	for (int i = first; i < argc; i++, count++) {
		while (before[at] != argv[i] && before[at] != argv[first - 1])
			at++;
		if (before[at] == argv[first - 1])
			break;
	}
	return count;
}

/* With -i, what is a map and what a file? Returns how many are maps, or -1 - exit code. */
static int count_maps(char **operands, int count, int before_dashes)
{
	int maps = 0;

	if (before_dashes)
		return before_dashes < count
			       ? before_dashes
			       : -1 - wrong_usage(&cmd_remap, "remap: no file behind '--'");
	if (all)
		return count > 1 && strchr(operands[0], '=') && access(operands[0], F_OK) < 0
			       ? count - 1
			       : 0;
	if (count < 3)
		return count - 1;
	while (maps < count - 1 && strchr(operands[maps], '='))
		maps++;
	for (int i = 1; i < count - 1; i++)
		if (i >= maps ? strchr(operands[i], '=') && access(operands[i], F_OK) < 0
			      : access(operands[i], F_OK) == 0)
			return -1 -
			       wrong_usage(&cmd_remap,
					   "remap: '%.60s': a map or a file? '--' ends the maps",
					   operands[i]);
	return maps;
}

static int run_remap(int argc, char **argv)
{
	struct ckpt_remap_options options = CKPT_REMAP_OPTIONS_INIT;
	struct edit_step step = { .kind = &kind_remap, .remap = &options };
	char **before = malloc(((size_t)argc + 1) * sizeof(*before));
	int first, maps;

	if (!before)
		no_memory();
	memcpy(before, argv, ((size_t)argc + 1) * sizeof(*before));
	first = parse_options(&cmd_remap, argc, argv);
	if (first < 0) {
		free(before);
		return -1 - first;
	}
	maps = s.in_place ? count_maps(&argv[first], argc - first,
				       count_before_dashes(before, argv, argc, first))
			  : argc - first - 2 + lacks_out(&cmd_remap, argc - first, &argv[first]);
	free(before);
	if (maps < 0)
		return -1 - maps;
	for (int i = first; i < first + maps; i++)
		if (!strchr(argv[i], '=') && refuse_no_map(&cmd_remap, argc, argv, first, i) != EXIT_FINE)
			return EXIT_USAGE;
		else if (!strchr(argv[i], '='))
			return wrong_usage(&cmd_remap, "remap: '%.60s': wanted OLD=NEW", argv[i]);
	if (!all && !maps && strchr(argv[first], '=') && access(argv[first], F_OK) < 0)
		return wrong_usage(&cmd_remap, "remap: too few operands, wanted OLD=NEW... IN OUT");
	if (all && maps)
		return wrong_usage(&cmd_remap, "remap: --all and OLD=NEW exclude each other");
	if (!all && !maps)
		return wrong_usage(&cmd_remap, "remap: no map, wanted OLD=NEW or --all DEVICE");
	step.args = (struct str_list){ (const char **)&argv[first], (size_t)maps };
	if (all) {
		step.kind = &kind_remap_all;
		step.args = (struct str_list){ &all, 1 };
	}
	options.flags = (device_objects ? CKPT_REMAP_DEVICE_OBJECTS : 0) |
			(any_device ? CKPT_REMAP_ANY_DEVICE : 0);
	return run_edit(&cmd_remap, &s, &step, 1, &argv[first + maps], argc - first - maps);
}
