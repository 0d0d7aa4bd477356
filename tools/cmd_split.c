/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt split' and 'ckpt reshard': directories of shards for a number of ranks. ckpt_save() cuts;
 * this parses the options, of which each format has some that mean nothing in the other.
 */
#include "convert.h"
#include "edit.h"
#include "out_kind.h"
#include "with_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool force, no_sync, dry_run, drop_others;
static const char *to, *ranks, *dim, *least, *alignment, *at, *shared;

#define SHARD_OPTS \
	OPT_STR("ranks", 'r', &ranks, "N", "write shards for N ranks; required"), \
		OPT_STR("to", 0, &to, "FORMAT", "write dcp or safetensors; default: dcp"), \
		OPT_STR("dim", 0, &dim, "D", \
			"cut dimension D: 0, 1 ..., or best: one that N divides; default: 0"), \
		OPT_STR("keep-whole", 0, &least, "SIZE", \
			"do not cut tensors below SIZE, such as 64K; default: cut all"), \
		OPT_STR("alignment", 0, &alignment, "N", \
			"dcp: start every item on a multiple of N bytes; default: 64"), \
		OPT_STR("at", 0, &at, "NAME", \
			"safetensors: take the state dict NAME; default: the largest"), \
		OPT_FLAG("drop-others", 0, &drop_others, \
			 "safetensors: leave out what is not a tensor, instead of failing"), \
		OPT_STR("shared", 0, &shared, "HOW", \
			"safetensors: on shared bytes, fail (error, the default) or clone"), \
		OPT_FLAG("force", 'f', &force, \
			 "replace OUT if it holds only files of such a checkpoint"), \
		IGNORE_DAMAGE_OPT, \
		OPT_FLAG("no-sync", 0, &no_sync, "do not wait for the disk, like cp"), \
		OPT_FLAG("dry-run", 'n', &dry_run, "say what would be done, write nothing; OUT may be left out"), \
		OPT_FLAG("quiet", 'q', &quiet, "print errors only"), SPOOL_OPT, OPT_END

static const struct opt split_opts[] = { SHARD_OPTS };

#define WHAT_IT_WRITES \
	"The command cuts every tensor along dimension 0, as torch.chunk and FSDP2 do.\n" \
	"The parts of rank r are in __r_0.distcp. When N ranks load OUT, each opens its\n" \
	"own file. It opens others only for scalars, which are spread over all files, and\n" \
	"for values that are not tensors, which are in the first file.\n" \
	"torch.distributed.checkpoint loads OUT in every torch from 2.0 on, with any\n" \
	"number of ranks. OUT appears when it is complete.\n" \
	"With --to safetensors, OUT holds one state dict, tensors only, in files as\n" \
	"torch's HuggingFaceStorageWriter leaves them:\n" \
	"shard-00001-model-00001-of-00001.safetensors for rank 0.\n" \
	"HuggingFaceStorageReader loads them with any number of ranks.\n"

static int run_split(int argc, char **argv);
static int run_reshard(int argc, char **argv);

const struct command cmd_split = {
	.name = "split",
	.operands = "IN OUT",
	.summary = "split a torch.save file into a sharded checkpoint (DCP) for N ranks",
	.details = WHAT_IT_WRITES
	"Nested dicts become keys with dots, as in torch. Tied weights share their bytes.\n",
	.examples = "  ckpt split model.pt shards/ --ranks 8\n"
		    "  ckpt split trainer.ckpt shards/ --ranks 8 --to safetensors\n",
	.opts = split_opts,
	.least = 2,
	.most = 2,
	.dry_without_out = true,
	.run = run_split,
};

const struct command cmd_reshard = {
	.name = "reshard",
	.operands = "DIR OUT",
	.summary = "rewrite a sharded checkpoint (DCP) for another number of ranks",
	.details = WHAT_IT_WRITES,
	.examples = "  ckpt reshard step-500/ step-500-for-16/ --ranks 16\n",
	.opts = split_opts,
	.least = 2,
	.most = 2,
	.dry_without_out = true,
	.run = run_reshard,
};

static void print_summary(const struct ckpt_save_options *options,
			  const struct ckpt_edit_report *did, uint64_t tensors,
			  const struct ckpt_save_report *report, double start)
{
	char size[16], time[32], number[32];

	convert_print_weights(did);
	printf("%s tensor%s for %u rank%s, ", grouped(tensors, number), plural(tensors),
	       options->ranks, plural(options->ranks));
	if (report->others)
		printf("%s other entr%s left out, ", grouped(report->others, number),
		       report->others == 1 ? "y" : "ies");
	if (dry_run)
		printf("%s would be written (dry run)\n", size_phrase(report->nbytes, size));
	else
		printf("%s written in %s\n", size_phrase(report->nbytes, size),
		       seconds_phrase(seconds() - start, time));
}

static int write_shards(struct ckpt_save_options *options, const char *in, const char *out)
{
	struct ckpt_save_report report = CKPT_SAVE_REPORT_INIT;
	struct ckpt_edit_report did = CKPT_EDIT_REPORT_INIT;
	struct ckpt_model *model;
	double start = seconds();
	int code;

	if (!open_model(in, &model, &code))
		return code;
	if (!strcmp(options->format, "safetensors"))
		code = convert_take_weights(&model, at, &did);
	if (code == EXIT_FINE)
		code = convert_save(options, model, in, out, &report);
	if (code == EXIT_FINE && !quiet)
		print_summary(options, &did, ckpt_tensor_count(model), &report, start);
	if (code == EXIT_FINE && !quiet && !dry_run) {
		note_classes(model, out);
		note_config_left(in, out);
	}
	ckpt_close(model);
	if (code != EXIT_FINE)
		end_by_signal();
	return finish_output(code);
}

/* Options that only one of the formats has. */
static int parse_format(const struct command *cmd, struct ckpt_save_options *options)
{
	bool is_dcp = !to || !strcmp(to, "dcp");
	const char *unfit = alignment ? "--alignment" : NULL;

	if (!is_dcp && strcmp(to, "safetensors") != 0)
		return wrong_usage(cmd, "%s: --to %.40s: wanted 'dcp' or 'safetensors'", cmd->name,
				   to);
	options->format = is_dcp ? "dcp" : "safetensors";
	if (is_dcp)
		unfit = at ? "--at" : drop_others ? "--drop-others" : shared ? "--shared" : NULL;
	if (unfit)
		return wrong_usage(cmd, "%s: %s means nothing in the format '%s'", cmd->name, unfit,
				   options->format);
	if (shared && strcmp(shared, "error") && strcmp(shared, "clone"))
		return wrong_usage(cmd, "%s: --shared %.40s: wanted 'error' or 'clone'", cmd->name,
				   shared);
	if (shared)
		options->shared = (enum ckpt_shared)convert_shared_of(shared);
	return EXIT_FINE;
}

static int parse_sizes(const struct command *cmd, struct ckpt_save_options *options)
{
	unsigned long n;
	char *end;

	if (!ranks)
		return wrong_usage(cmd, "%s: wanted --ranks N", cmd->name);
	n = strtoul(ranks, &end, 10);
	if (*end || !n || n > 1 << 20 || *ranks == '-')
		return wrong_usage(cmd, "%s: --ranks %.40s: wanted a number from 1 on", cmd->name,
				   ranks);
	options->ranks = (unsigned)n;
	if (dim && !strcmp(dim, "best")) {
		options->shard_dim = -1;
	} else if (dim) {
		n = strtoul(dim, &end, 10);
		if (*end || end == dim || n > 63 || *dim == '-')
			return wrong_usage(cmd, "%s: --dim %.40s: wanted 0 to 63, or 'best'",
					   cmd->name, dim);
		options->shard_dim = (int)n;
	}
	if (least && !parse_size(least, &options->least_shard))
		return wrong_usage(cmd, "%s: --keep-whole %.40s: wanted a size such as 64K",
				   cmd->name, least);
	if (alignment) {
		n = strtoul(alignment, &end, 10);
		if (*end || !n || n > 4096 || *alignment == '-')
			return wrong_usage(cmd, "%s: --alignment %.40s: wanted 1 to 4096",
					   cmd->name, alignment);
		options->alignment = (uint32_t)n;
	}
	return EXIT_FINE;
}

static int run_shards(const struct command *cmd, int argc, char **argv)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	int first = parse_options(cmd, argc, argv), code;
	char shown[64], *no_output = NULL, *out;

	if (first < 0)
		return -1 - first;
	if (lacks_out(cmd, argc - first, argv + first))
		no_output = name_of_no_output(argv[first]);
	out = no_output ? no_output : argv[first + 1];
	code = parse_sizes(cmd, &options);
	if (code == EXIT_FINE)
		code = parse_format(cmd, &options);
	snprintf(shown, sizeof(shown), "--ranks %u%s", options.ranks,
		 to && !strcmp(to, "safetensors") ? " --to safetensors" : "");
	if (code == EXIT_FINE)
		code = choose_out(&(struct out_wish){ .rule = OUT_IS_FOLDER,
						      .command = cmd->name,
						      .options = shown,
						      .in = argv[first],
						      .out = out,
						      .to = options.format },
				  &options.format);
	options.flags = (force ? CKPT_SAVE_REPLACE : 0u) | (no_sync ? CKPT_SAVE_NO_SYNC : 0u) |
			(dry_run ? CKPT_SAVE_DRY_RUN : 0u) |
			(drop_others ? CKPT_SAVE_DROP_OTHERS : 0u);
	options.progress = show_progress;
	options.cancel = catch_signals();
	if (code == EXIT_FINE)
		code = write_shards(&options, argv[first], out);
	free(no_output);
	return code;
}

static int run_split(int argc, char **argv)
{
	return run_shards(&cmd_split, argc, argv);
}

static int run_reshard(int argc, char **argv)
{
	return run_shards(&cmd_reshard, argc, argv);
}
