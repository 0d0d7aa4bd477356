/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"
#include "many_files.h"
#include "out_kind.h"

#include <inttypes.h>
#include <stdio.h>

static bool in_place, force, hard_link, no_sync, dry_run, from_ranks;
static const char *for_torch;

static const struct opt opts[] = {
	OPT_FLAG("in-place", 'i', &in_place, "replace the index in DIR itself, and write no OUT"),
	OPT_STR("for-torch", 0, &for_torch, "VERSION",
		"name the oldest torch to load it: 1.13, or 2.0 and later; default: 2.0"),
	OPT_FLAG("from-ranks", 0, &from_ranks,
		 "join the indexes of single ranks, even if there is a .metadata"),
	OPT_FLAG("force", 'f', &force, "replace OUT if it holds only files of such a checkpoint"),
	OPT_FLAG("hard-link", 0, &hard_link,
		 "hard-link the data files; a later save to DIR or OUT ruins both"),
	OPT_FLAG("no-sync", 0, &no_sync, "do not wait for the disk, like cp"),
	OPT_FLAG("dry-run", 'n', &dry_run, "say what would be done, write nothing"),
	OPT_STR("jobs", 'j', &many_jobs, "N",
		"with -i, rebuild N indexes at once, each by a process; default: 1"),
	OPT_FLAG("quiet", 'q', &quiet, "print errors only"),
	NAME_SKIPPED_OPT,
	OPT_END
};

static int run_reindex(int argc, char **argv);

const struct command cmd_reindex = {
	.name = "reindex",
	.operands = "DIR OUT",
	.summary =
		"rebuild the index of a sharded checkpoint: for other versions, or after a crash",
	.details =
		"The new index loads in every torch from 2.0 on and every Python from 3.8 on,\n"
		"whatever wrote the old one. If a save was interrupted just before it named its\n"
		"index, reindex uses .metadata.tmp. If every rank wrote an index of its own\n"
		"(use_collectives=False), reindex joins them. It does not touch data files. It\n"
		"leaves out what other tools added to the index, such as Megatron-Core's\n"
		"attributes.\n",
	.examples = "  ckpt reindex -i checkpoint-1000/\n"
		    "  ckpt reindex --for-torch 2.2 checkpoint-1000/ for-older-torch/\n",
	.opts = opts,
	.least = 2,
	.most = 2,
	.one_less = &in_place,
	.takes_many = true,
	.run = run_reindex,
};

static void print_summary(const struct ckpt_reindex_report *r)
{
	char number[32], chunks[32], size[16];

	if (quiet)
		return;
	printf("%s keys and %s items from %s", grouped(r->entries, number),
	       grouped(r->chunks, chunks), r->source);
	if (r->indexes > 1)
		printf(" (%u)", r->indexes);
	if (r->uncovered)
		printf(", %s tensors not covered by their chunks", grouped(r->uncovered, number));
	printf(dry_run ? ", an index of %s would be written (dry run)\n"
		       : ", an index of %s written\n",
	       size_phrase(r->nbytes, size));
}

static int reindex(const char *in, const char *out)
{
	struct ckpt_reindex_options options = CKPT_REINDEX_OPTIONS_INIT;
	struct ckpt_reindex_report report = CKPT_REINDEX_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	const char *format;
	int code = refuse_names(in, out ? out : "OUT");

	if (code == EXIT_FINE && out)
		code = choose_out(&(struct out_wish){ .rule = OUT_IS_FOLDER,
						      .command = "reindex",
						      .in = in,
						      .out = out },
				  &format);
	if (code != EXIT_FINE)
		return code;
	options.for_torch = for_torch;
	options.from_ranks = from_ranks;
	options.flags = (force ? CKPT_SAVE_REPLACE : 0u) | (no_sync ? CKPT_SAVE_NO_SYNC : 0u) |
			(dry_run ? CKPT_SAVE_DRY_RUN : 0u) | (hard_link ? CKPT_SAVE_HARD_LINK : 0u);
	catch_signals();
	if (ckpt_reindex(in, out, &options, &report, &err) < 0)
		code = save_failed(&err, force);
	else
		print_summary(&report);
	if (code != EXIT_FINE)
		end_by_signal();
	return finish_output(code);
}

static int reindex_in_place(const char *in, void *ctx)
{
	(void)ctx;
	return reindex(in, NULL);
}

static int run_reindex(int argc, char **argv)
{
	const struct many_files many = {
		.cmd = &cmd_reindex,
		.one = reindex_in_place,
		.edits = true,
		.directories = true,
		.words = { "done" },
	};
	int first = parse_options(&cmd_reindex, argc, argv);

	if (first < 0)
		return -1 - first;
	if (in_place)
		return run_many(&many, argv + first, (size_t)(argc - first));
	if (many_jobs)
		return wrong_usage(
			&cmd_reindex,
			"reindex: --jobs is for --in-place, which takes many directories");
	return reindex(argv[first], argv[first + 1]);
}
