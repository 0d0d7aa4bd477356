/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt merge': a checkpoint of many files as one file. ckpt_open() reads every kind
 * of directory; this adds what lies beside the shards, and the edits that undo what DCP does to
 * keys.
 *
 * What must stay true: --only comes after the files beside the shards are added, so that it can
 * leave them out, and before --int-keys.
 */
#include "convert.h"
#include "json.h"
#include "out_kind.h"
#include "shell_line.h"
#include "with_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool force, no_sync, dry_run, int_keys, shards_only;
static const char *profile;
static struct str_list only;

static const struct opt opts[] = {
	OPT_LIST("only", 0, &only, "PATTERN",
		 "take only entries that match, such as model; may be repeated"),
	OPT_FLAG("int-keys", 0, &int_keys,
		 "turn the keys '0', '1' ... of an optimizer's state back into numbers"),
	OPT_FLAG("shards-only", 0, &shards_only,
		 "leave out Lightning's meta.pt and Megatron's common.pt"),
	OPT_STR("profile", 0, &profile, "VERSION",
		"write as this torch does: 1.6 to 2.14, or later; default: the newest"),
	OPT_FLAG("force", 'f', &force, "replace OUT if it exists"),
	IGNORE_DAMAGE_OPT,
	OPT_FLAG("no-sync", 0, &no_sync, "do not wait for the disk, like cp"),
	OPT_FLAG("dry-run", 'n', &dry_run, "say what would be done, write nothing; OUT may be left out"),
	OPT_FLAG("quiet", 'q', &quiet, "print errors only"),
	SPOOL_OPT,
	OPT_END
};

static int run_merge(int argc, char **argv);

const struct command cmd_merge = {
	.name = "merge",
	.operands = "DIR OUT",
	.summary =
		"merge a sharded checkpoint (DCP, DeepSpeed) into one file, without torch",
	.details =
		"DIR is a directory that torch.distributed.checkpoint (DCP) wrote: FSDP, DTensor,\n"
		"torchtitan, Lightning, Megatron torch_dist. OUT holds what torch's own\n"
		"dcp_to_torch_save makes of it: the nested state, with all tensors whole,\n"
		"contiguous and on the CPU. Tensors that share their bytes in DIR share them in\n"
		"OUT. The chunks must cover every tensor exactly once; otherwise merge writes\n"
		"nothing.\n\n"
		"DCP turns the keys of all dicts into text, and torch's own converter leaves them\n"
		"so. --int-keys turns them back for the state of optimizers, which torch looks up\n"
		"by number.\n\n"
		"merge also takes files that each rank saved for itself\n"
		"(model_world_size_8_rank_0.pt). It joins their DTensors and ShardedTensors, and\n"
		"takes everything else from rank 0. For a directory of torch_checkpointing\n"
		"(metadata.pkl), OUT holds {item: value}: merge joins what the ranks have of a\n"
		"tensor, adds what only some ranks have, and takes other values from the lowest\n"
		"rank.\n\n"
		"A Hugging Face shard set (a directory, or its index.json) becomes one file. So\n"
		"do the safetensors of single ranks that DCP's HuggingFaceStorageWriter leaves\n"
		"(shard-00001-model-00001-of-00001.safetensors).\n\n"
		"For DeepSpeed with ZeRO 1, 2 or 3, DIR is the directory with 'latest' in it, or\n"
		"the folder that 'latest' names. OUT holds the weights in full precision, as\n"
		"zero_to_fp32.py makes them. 'ckpt cast bf16 DIR OUT' writes them in 16 bits.\n"
		"'ckpt extract module DIR/global_stepN/mp_rank_00_model_states.pt OUT' writes the\n"
		"weights of the training, which stages 1 and 2 keep whole. Without ZeRO, OUT\n"
		"holds that 'module'.\n\n"
		"If OUT ends in .safetensors, it is a safetensors file with the only or largest\n"
		"state dict, as 'ckpt convert' writes it; --only chooses before that.\n\n"
		"merge adds no LoRA adapter to its base. In Python, PEFT does:\n"
		"PeftModel.from_pretrained(base, 'DIR').merge_and_unload().\n",
	.examples = "  ckpt merge checkpoint-1000/ model.pt --only model\n"
		    "  ckpt merge step-500/ all.pt --int-keys\n"
		    "  ckpt merge checkpoint-500/ pytorch_model.bin\n",
	.opts = opts,
	.least = 2,
	.most = -1, /* for what is said of several models */
	.dry_without_out = true,
	.run = run_merge,
};

/* Replace *MODEL by the result of an edit. */
static int replace_model(struct ckpt_model **model, struct ckpt_model *edited)
{
	ckpt_close(*model);
	*model = edited;
	return 0;
}

/* Add the files that trainers keep beside the shards, as entries of the whole. */
static int add_side_files(const char *in, struct ckpt_model **model, struct ckpt_error *err)
{
	static const char *const names[] = { "meta.pt", "common.pt" };
	struct ckpt_model *edited;
	char path[4096];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", in, names[i]);
		if (access(path, F_OK) < 0)
			continue;
		rc = ckpt_add_file(*model, path, &edited, err);
		if (rc == 0)
			rc = replace_model(model, edited);
		if (rc == 0 && !quiet)
			printf("with %s, ", names[i]);
	}
	return rc;
}

static int edit_model(const char *in, bool is_weights, struct ckpt_model **model,
		      struct ckpt_edit_report *numbers, struct ckpt_error *err)
{
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_model *edited;
	int rc;

	/* the files beside the shards have no weights */
	rc = shards_only || is_weights ? 0 : add_side_files(in, model, err);
	if (rc == 0 && only.count) { /* now that side files are in: it may leave them out */
		rc = ckpt_select(*model, only.items, only.count, NULL, 0, &edited, &report, err);
		if (rc == 0)
			rc = replace_model(model, edited);
	}
	if (rc == 0 && int_keys) {
		rc = ckpt_number_keys(*model, &edited, numbers, err);
		if (rc == 0)
			rc = replace_model(model, edited);
	}
	return rc;
}

/* Returns the exit code. */
static int save(const struct ckpt_model *model, const char *in, const char *out, const char *format,
		struct ckpt_save_report *report)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	int code;

	options.format = format;
	options.profile = profile;
	options.flags = (force ? CKPT_SAVE_REPLACE : 0u) | (no_sync ? CKPT_SAVE_NO_SYNC : 0u) |
			(dry_run ? CKPT_SAVE_DRY_RUN : 0u);
	options.progress = show_progress;
	options.cancel = catch_signals();
	code = convert_save(&options, model, in, out, report);
	if (code != EXIT_FINE && convert_option_helps) {
		char *from = shell_word(in), *to = shell_word(out);

		hint("ckpt convert %s %s has these options", from, to);
		free(from);
		free(to);
	}
	return code;
}

static void print_summary(const struct ckpt_model *model, const struct ckpt_edit_report *numbers,
			  uint64_t nbytes, double start, bool one_file)
{
	char size[16], time[32], number[32];
	uint64_t count = ckpt_tensor_count(model);

	printf("%s tensor%s %s, ", grouped(count, number), plural(count), one_file ? "copied" : "merged");
	if (int_keys)
		printf("%s keys made numbers, ", grouped(numbers->renamed, number));
	if (dry_run)
		printf("%s would be written (dry run)\n", size_phrase(nbytes, size));
	else
		printf("%s written in %s\n", size_phrase(nbytes, size), seconds_phrase(seconds() - start, time));
}

/* A folder of the files that each rank has saved is a model of the first one's format. */
static bool is_one_file(const struct ckpt_model *model, const char *in)
{
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;
	struct stat st;

	if (stat(in, &st) == 0 && S_ISDIR(st.st_mode))
		return false;
	return ckpt_file_get(model, &info) == 0 && info.format_code < CKPT_FORMAT_NPZ && !info.file_count;
}

/* A file that is whole is a common mistake for two models, or a base and an adapter. */
static void note_one_file(bool one_file, const char *in)
{
	char shown[320];

	if (one_file)
		complain("note: %s is one file, and there was nothing to merge", ckpt_escape(shown, sizeof(shown), in, strlen(in)));
}

static int copy_plain(void *ctx, const struct ckpt_plain_model *plain)
{
	struct ckpt_plain_model *p = ctx;

	p->is_adapter = plain->is_adapter;
	p->is_zero_part = plain->is_zero_part;
	return 0;
}

/* What the one file IN lacks is in the other files of its directory. */
static int refuse_zero_part(const char *in)
{
	const char *slash = strrchr(in, '/');
	struct shell_line l = { .len = 0 };
	char shown[320], *folder = strdup(slash ? in : ".");

	if (!folder)
		no_memory();
	if (slash)
		folder[slash == in ? 1 : slash - in] = '\0';
	complain("%s: this is the file of one rank of a DeepSpeed ZeRO-3 directory: the weights in it are empty",
		 ckpt_escape(shown, sizeof(shown), in, strlen(in)));
	shell_add(&l, "ckpt merge");
	shell_add_path(&l, folder);
	shell_add(&l, " OUT");
	hint("%s", l.text);
	free(folder);
	return EXIT_ERROR;
}

static int refuse_adapter(const char *path);
static int refuse_models(const char *path);
static bool is_file(const char *path);

static int merge(const char *in, const char *out, const char *format)
{
	bool is_weights = strcmp(format, "torch") != 0;
	struct ckpt_edit_report taken = CKPT_EDIT_REPORT_INIT;
	struct ckpt_save_report report = CKPT_SAVE_REPORT_INIT;
	struct ckpt_edit_report numbers = CKPT_EDIT_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	double start = seconds();
	struct ckpt_plain_model plain = { .size = sizeof(plain) };
	bool one_file;
	int code;

	if (!open_model(in, &model, &code))
		return code;
	one_file = is_one_file(model, in);
	if (one_file && ckpt_why_plain(model, copy_plain, &plain, NULL) == 0 &&
	    (plain.is_adapter || plain.is_zero_part)) {
		ckpt_close(model);
		return plain.is_adapter ? refuse_adapter(in) : refuse_zero_part(in);
	}
	if (one_file && !force && is_file(out) && is_like_input(model, out)) {
		ckpt_close(model);
		return refuse_models(in);
	}
	if (edit_model(in, is_weights, &model, &numbers, &err) < 0)
		code = fail(&err);
	if (code == EXIT_FINE && is_weights)
		code = convert_take_weights(&model, NULL, &taken);
	if (code == EXIT_FINE)
		code = save(model, in, out, format, &report);
	if (code == EXIT_FINE && !quiet) {
		convert_print_weights(&taken);
		note_one_file(one_file, in);
		print_summary(model, &numbers, report.nbytes, start, one_file);
		if (!dry_run)
			note_config_left(in, out);
	}
	ckpt_close(model);
	if (code != EXIT_FINE)
		end_by_signal();
	return finish_output(code);
}

/* Is PATH what PEFT saves of an adapter: a folder with adapter_config.json, or the weights in it? */
static bool is_adapter(const char *path)
{
	static const char *const shards[] = { ".metadata", "adapter_model.safetensors.index.json",
					      "adapter_model.bin.index.json",
					      "model.safetensors.index.json" };
	const char *name = strrchr(path, '/');
	char text[4096];
	int len = (int)strlen(path);
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	name = name ? name + 1 : path;
	if (!S_ISDIR(st.st_mode)) {
		if (strncmp(name, "adapter_model.", 14) != 0)
			return false;
		len = (int)(name - path);
	}
	for (size_t i = 0; i < sizeof(shards) / sizeof(shards[0]); i++)
		if (snprintf(text, sizeof(text), "%.*s%s%s", len, path, len ? "/" : "", shards[i]) >=
			    (int)sizeof(text) ||
		    access(text, F_OK) == 0)
			return false;
	snprintf(text, sizeof(text), "%.*s%sadapter_config.json", len, path, len ? "/" : "");
	return access(text, F_OK) == 0;
}

static int refuse_adapter(const char *path)
{
	char shown[320];

	complain("%s: this is an adapter (LoRA), which merge does not add to its base",
		 ckpt_escape(shown, sizeof(shown), path, strlen(path)));
	hint("in Python, PEFT does: PeftModel.from_pretrained(base, 'DIR').merge_and_unload()");
	return EXIT_ERROR;
}

static bool is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int refuse_models(const char *path)
{
	char shown[320];

	complain("merge: %s: merge puts the shards of one checkpoint together, not several models",
		 ckpt_escape(shown, sizeof(shown), path, strlen(path)));
	hint("'ckpt average A B OUT' takes the mean of models; an adapter (LoRA) is added to its base in Python, "
	     "by PEFT: PeftModel.from_pretrained(base, 'DIR').merge_and_unload()");
	return EXIT_ERROR;
}

static int run_merge(int argc, char **argv)
{
	char *no_output = NULL, *out;
	int first, code;
	const char *format;

	for (int i = 1; i < argc; i++) /* with its base, there are more operands than merge takes */
		if (is_adapter(argv[i]))
			return refuse_adapter(argv[i]);
	first = parse_options(&cmd_merge, argc, argv);
	if (first < 0)
		return -1 - first;
	if (argc - first > 2 && is_file(argv[first]) && is_file(argv[first + 1]))
		return refuse_models(argv[first]);
	if (argc - first > 2)
		return wrong_usage(&cmd_merge, "merge: too many operands, wanted DIR OUT");
	if (lacks_out(&cmd_merge, argc - first, argv + first))
		no_output = name_of_no_output(argv[first]);
	out = no_output ? no_output : argv[first + 1];
	code = refuse_names(argv[first], "OUT");
	if (code == EXIT_FINE)
		code = choose_out(&(struct out_wish){ .rule = OUT_OF_MERGE, .in = argv[first], .out = out },
				  &format);
	if (code == EXIT_FINE && profile && strcmp(format, "torch") != 0)
		code = wrong_usage(&cmd_merge, "merge: --profile means nothing in the format '%s'",
				   format);
	if (code == EXIT_FINE)
		code = merge(argv[first], out, format);
	free(no_output);
	return code;
}
