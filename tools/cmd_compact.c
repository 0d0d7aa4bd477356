/* SPDX-License-Identifier: Apache-2.0 */
#include "edit.h"

static struct edit_settings s;

static const struct opt opts[] = {
	OPT_FLAG("if-present", 0, &s.if_present,
		 "succeed if there is nothing to drop: write OUT unchanged"),
	EDIT_OPTS(s), OPT_END
};

static int run_compact(int argc, char **argv);

const struct command cmd_compact = {
	.name = "compact",
	.operands = "IN OUT",
	.summary = "drop the bytes of storages that no tensor shows",
	.details =
		"torch.save writes the whole storage of a view: big[:2] takes as much as big.\n"
		"compact keeps only what the tensors show. What expand() repeats, it writes once.\n"
		"Tensors that have bytes in common keep them in common, and tied weights stay\n"
		"tied. Every edit that writes OUT leaves out the dead bytes that edits in place left\n"
		"behind; with --in-place, --free gives their blocks back to the disk.\n",
	.examples = "  ckpt compact in.pt out.pt\n"
		    "  ckpt compact --in-place --free in.pt\n",
	.opts = opts,
	.least = 2,
	.most = 2,
	.one_less = &s.in_place,
	.takes_many = true,
	.run = run_compact,
};

static int compact(const struct ckpt_model *in, const struct edit_step *step,
		   struct ckpt_model **out, struct ckpt_edit_report *report, struct ckpt_error *err)
{
	(void)step;
	return ckpt_compact(in, out, report, err);
}

static const char *nothing_to_save(const struct ckpt_model *in, const struct edit_step *step,
				   char why[MOST_REASON])
{
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;
	char size[16];

	(void)step;
	snprintf(why, MOST_REASON, "no tensor shows less than its storage, or it is compressed");
	if (ckpt_file_get(in, &info) < 0 || !info.dead_nbytes)
		return HINT_IF_PRESENT;
	/* then it is in place, or they would be left out */
	if (!info.dead_on_disk) {
		snprintf(why, MOST_REASON, "no tensor shows less than its storage, or it is compressed, and the file's %s of dead bytes take no block of the disk (holes, or less than one)",
			 size_phrase(info.dead_nbytes, size));
		return "'ckpt compact IN OUT' writes a file without them; --if-present makes the exit code 0";
	}
	if (info.dead_on_disk >= WORTH_SAYING)
		return "--free gives the dead bytes of earlier edits back";
	return HINT_IF_PRESENT;
}

const struct edit_kind kind_compact = {
	.name = "compact",
	.takes_dead_bytes = true,
	.apply = compact,
	.why_nothing = nothing_to_save,
};

static int run_compact(int argc, char **argv)
{
	int first = parse_options(&cmd_compact, argc, argv);
	struct edit_step step = { .kind = &kind_compact };

	if (first < 0)
		return -1 - first;
	return run_edit(&cmd_compact, &s, &step, 1, &argv[first], argc - first);
}
