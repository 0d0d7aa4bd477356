/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt convert': another format, another torch, one state dict, with the edits of 'ckpt edit' on
 * the way. convert_save.c saves, convert_report.c prints.
 *
 * What must stay true: the order in prepare(). A module becomes its state dict first. Edits up to
 * the last --extract, --keep or --drop use the names of the whole checkpoint, so they come before
 * the one dict of a safetensors file is taken out; the others come after it, and are done to that
 * dict alone. And the name of OUT promises no format that is not written.
 */
#include "convert.h"
#include "json.h"
#include "out_kind.h"
#include "plain_model.h"
#include "with_config.h"

#include <stdlib.h>
#include <string.h>

static bool no_sync, dry_run, force, state_dict, drop_others;
static const char *profile, *alignment, *crc, *to, *at, *byteorder, *from_byteorder, *shared,
	*shard_size;
static struct edit_settings edits; /* of these only if_present is an option here */
static struct step_list chain;

static const struct opt opts[] = {
	OPT_STR("to", 0, &to, "FORMAT",
		"write torch, torch-legacy, safetensors, npz or npy; default: by name"),
	OPT_FLAG("state-dict", 0, &state_dict,
		 "write what state_dict() of a model that was saved whole holds"),
	OPT_STR("at", 0, &at, "NAME", "take the module or state dict NAME, if there are several"),
	OPT_FLAG("drop-others", 0, &drop_others,
		 "leave out what OUT cannot hold, instead of failing"),
	OPT_STR("shared", 0, &shared, "HOW",
		"safetensors: on shared bytes, fail (error, the default), clone, alias"),
	OPT_STR("shard-size", 0, &shard_size, "SIZE",
		"write a Hugging Face shard set, files with tensors of up to SIZE (5GB)"),
	OPT_STR("profile", 0, &profile, "VERSION",
		"write as this torch does: 1.6 to 2.14, or later; default: same, as IN"),
	OPT_STR("alignment", 0, &alignment, "N",
		"start the data of every record on a multiple of N bytes"),
	OPT_STR("crc", 0, &crc, "on|off",
		"turn checksums on or off; default: on, as torch.save has it"),
	OPT_STR("byteorder", 0, &byteorder, "ORDER",
		"write numbers in this byte order, little or big; default: little"),
	OPT_STR("from-byteorder", 0, &from_byteorder, "ORDER",
		"read IN as little or big, whatever it says; torch 1.6 to 2.0 says none"),
	EDIT_STEP_OPTS(chain),
	CHECK_OVERFLOW_OPT,
	OPT_FLAG("if-present", 0, &edits.if_present,
		 "go on after an edit that finds nothing to do"),
	OPT_FLAG("force", 'f', &force, "replace OUT if it exists"),
	IGNORE_DAMAGE_OPT,
	OPT_FLAG("no-sync", 0, &no_sync, "do not wait for the disk, like cp"),
	OPT_FLAG("dry-run", 'n', &dry_run, "say what would be done, write nothing; OUT may be left out"),
	OPT_FLAG("quiet", 'q', &quiet, "print errors only"),
	SPOOL_OPT,
	OPT_END
};

static int run_convert(int argc, char **argv);

const struct command cmd_convert = {
	.name = "convert",
	.operands = "IN OUT",
	.summary = "rewrite a checkpoint: in another format, or as another torch saves it",
	.details =
		"convert mends files that other tools repacked, writes files for older\n"
		"versions of torch, and makes one file of a sharded checkpoint, as 'ckpt merge'\n"
		"does. OUT has pickle protocol 2, stored and aligned records, and the layout of\n"
		"--profile.\n"
		"With --state-dict, the parameters and buffers of a whole model\n"
		"(torch.save(model)) become a plain state dict, which loads without the model's\n"
		"classes. TorchScript archives and torch.export programs (.pt2) always become\n"
		"one, without that option.\n"
		"Edits are those of 'ckpt edit'. convert does them in the order given, before it\n"
		"writes OUT.\n"
		"A safetensors file holds one dict of tensors: the one that --at names, or the\n"
		"only or largest state dict, never an optimizer's. convert takes it after the\n"
		"last --extract, --keep and --drop, which use the names that 'ckpt ls IN' lists.\n"
		"It does the other edits to that dict. If tensors share bytes, convert fails.\n"
		"With --shared clone it writes each of them. With --shared alias it writes the\n"
		"bytes once, and the other names into the file's metadata; ckpt reads them back\n"
		"from there.\n"
		"The SIZE of --shard-size counts the bytes of the tensors, as max_shard_size of\n"
		"Hugging Face does. Each file is larger than that by its header, some hundred bytes\n"
		"for a tensor: where files have a limit, leave room. A tensor that is larger than\n"
		"SIZE gets a file of its own.\n"
		"If OUT ends in .npz, or with --to npz, OUT is what numpy.savez() writes of all\n"
		"tensors and arrays, under the names that 'ckpt ls' prints. --to npy makes a\n"
		"folder of files NAME.npy. In their names, %XX stands for a byte that they cannot\n"
		"have ('/' is %2F). convert lists what numpy cannot hold, and fails unless\n"
		"--drop-others leaves it out.\n"
		"IN and OUT may be pipes, or '-' for standard input and output. All of IN is kept\n"
		"in an unnamed file in TMPDIR first (--spool-limit), and OUT too, until it is\n"
		"complete: then it is sent, and if convert fails before that, nothing is.\n",
	.examples = "  ckpt convert repacked.pt sound.pt\n"
		    "  ckpt convert --state-dict whole-model.pt weights.pt\n"
		    "  ckpt convert trainer.ckpt model.safetensors --strip-module --cast bf16\n"
		    "  ckpt convert model.safetensors model.pt\n"
		    "  ckpt convert trainer.ckpt model/ --shard-size 5GB --cast bf16\n"
		    "  ckpt convert --profile 1.13 new.pt for-old-torch.pt\n"
		    "  ckpt convert --from-byteorder big from-s390x.pt sound.pt\n"
		    "  ckpt convert --drop-others trainer.ckpt arrays.npz\n"
		    "  ckpt convert a.pt - --cast bf16 | ssh host 'cat >a.pt'\n",
	.opts = opts,
	.least = 2,
	.most = 2,
	.dry_without_out = true,
	.run = run_convert,
};

/* A program can be read, but not written. */
static bool is_program(const struct ckpt_model *model)
{
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;

	return ckpt_file_get(model, &info) == 0 && info.is_program;
}

/* *MODEL becomes what its module's state_dict() holds. Returns the exit code. */
static int take_state_dict(struct ckpt_model **model, struct ckpt_edit_report *did)
{
	struct ckpt_take_options options = CKPT_TAKE_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *taken;
	int code;

	options.at = at;
	if (ckpt_state_dict(*model, &options, &taken, did, &err) < 0) {
		code = fail(&err);
		if (err.status == CKPT_E_ARG && !at)
			hint("--at NAME says which one");
		else if (err.status == CKPT_E_NOTFOUND && !at)
			hint("'ckpt extract' takes a dict out of it");
		return code;
	}
	ckpt_close(*model); /* what was taken keeps it alive */
	*model = taken;
	return EXIT_FINE;
}

/* How many steps use names of the whole checkpoint, and so come before a part of it is taken. */
static size_t steps_before(const struct convert_summary *s)
{
	size_t count = s->step_count;

	while (count && s->steps[count - 1].kind != &kind_extract &&
	       s->steps[count - 1].kind != &kind_keep && s->steps[count - 1].kind != &kind_drop)
		count--;
	return count;
}

static bool is_numpy(void)
{
	return !strcmp(to, "npz") || !strcmp(to, "npy");
}

static bool is_weights(const struct ckpt_save_options *options)
{
	return !strcmp(options->format, "safetensors") || options->shard_size;
}

/* Make the model to write: the whole checkpoint, edited, or one state dict of it. */
static int prepare(const struct ckpt_save_options *options, const char *in,
		   struct ckpt_model **model, struct convert_summary *s)
{
	bool weights = is_weights(options);
	bool module_first = state_dict || is_program(*model) || (at && !weights);
	size_t before = weights ? steps_before(s) : s->step_count;
	int code = EXIT_FINE;

	if (module_first)
		code = take_state_dict(model, &s->taken);
	if (code == EXIT_FINE)
		code = apply_steps(&edits, s->steps, before, in, model, s->reports);
	if (code == EXIT_FINE && weights)
		code = convert_take_weights(model, module_first ? NULL : at, &s->weights);
	if (code == EXIT_FINE)
		code = apply_steps(&edits, s->steps + before, s->step_count - before, in, model,
				   s->reports + before);
	return code;
}

static int save_and_report(struct ckpt_save_options *options, const struct ckpt_model *model,
			   const char *in, const char *out, const struct convert_summary *s,
			   double start)
{
	struct ckpt_save_report report = CKPT_SAVE_REPORT_INIT;
	const char *left = wrappers_left(model, s->steps, s->step_count);
	bool is_plain = false; /* what was quantized is not any more */
	int code;

	plain_look(model, left);
	code = convert_save(options, model, in, out, &report);
	if (code == EXIT_FINE && !quiet) {
		convert_print_summary(s, &report, dry_run, start);
		plain_note(left);
		note_quantized(s->reports, s->step_count);
		for (size_t i = 0; i < s->step_count; i++)
			is_plain |= s->reports[i].tensors_dequantized;
		if (is_plain && !dry_run)
			note_config(out);
		if (!report.shards && !dry_run && !is_plain)
			note_classes(model, out);
		note_losses(model);
		if (report.shards)
			convert_note_left_files(in);
		else if (!is_plain && !dry_run)
			note_config_left(in, out);
	}
	if (code == EXIT_FINE && report.turned_alone && !quiet)
		fprintf(stderr,
			"ckpt: note: %u storage%s turned around that torch would have left alone, as it does "
			"with uint16 and others\n",
			report.turned_alone, report.turned_alone == 1 ? " was" : "s were");
	return code;
}

/* NO_OUT: it is a dry run, and OUT a name that was made for it. */
static int convert(struct ckpt_save_options *options, const char *in, const char *out, bool no_out)
{
	struct convert_summary s = { .taken = CKPT_EDIT_REPORT_INIT,
				     .weights = CKPT_EDIT_REPORT_INIT };
	struct ckpt_model *model;
	struct plain_job plain;
	double start = seconds();
	int code = EXIT_FINE;
	bool copies = !chain.count && !state_dict && !at && !options->shard_size &&
		      !strcmp(options->format, "torch");

	if (!open_model_with(in, copies ? CKPT_OPEN_BRIEF : 0, &model, &code))
		return code;
	s.steps = make_steps(&chain, &s.step_count);
	s.reports = calloc(s.step_count + 1, sizeof(*s.reports));
	if (!s.steps || !s.reports)
		no_memory();
	plain = (struct plain_job){ .in = in,
				    .out = no_out ? NULL : out,
				    .force = force,
				    .dry_run = dry_run,
				    .steps = s.steps,
				    .count = s.step_count,
				    .converts = true,
				    .takes_weights = is_weights(options) };
	if (!is_numpy())
		plain_begin(&plain, model);
	code = prepare(options, in, &model, &s);
	if (code == EXIT_FINE)
		code = save_and_report(options, model, in, out, &s, start);
	free_steps(s.steps);
	free(s.reports);
	ckpt_close(model);
	if (code != EXIT_FINE)
		end_by_signal();
	return finish_output(code);
}

static bool is_order(const char *text)
{
	return !text || !strcmp(text, "little") || !strcmp(text, "big");
}

/* "folder/" */
static void trim_slashes(char *path)
{
	for (size_t len = strlen(path); len > 1 && path[len - 1] == '/'; len--)
		path[len - 1] = '\0';
}

/* Return the option that asks for something that FORMAT lacks, or NULL. */
static const char *unfit_option(const char *format)
{
	if (shared && strcmp(format, "safetensors") != 0)
		return "--shared";
	if (is_numpy() && byteorder)
		return "--byteorder";
	if (strcmp(format, "safetensors") != 0 && !is_numpy())
		return drop_others && !shard_size ? "--drop-others" : NULL;
	for (size_t i = 0; i < chain.count; i++)
		if (!strncmp(chain.items[i].name, "remap", 5))
			return "--remap";
	return alignment	? "--alignment"
	       : crc		? "--crc"
	       : profile	? "--profile"
	       : from_byteorder ? "--from-byteorder"
				: NULL;
}

static int check_words(void)
{
	if (strcmp(to, "torch") && strcmp(to, "torch-legacy") && strcmp(to, "safetensors") &&
	    !is_numpy())
		return wrong_usage(&cmd_convert,
				   "convert: format '%.40s' cannot be written, wanted 'torch', "
				   "'torch-legacy', 'safetensors', 'npz' or 'npy'",
				   to);
	if (!strcmp(to, "torch-legacy") && (alignment || crc))
		return wrong_usage(&cmd_convert,
				   "convert: a legacy stream has no alignment and no checksums");
	if (unfit_option(to))
		return wrong_usage(&cmd_convert, "convert: %s means nothing in the format '%s'",
				   unfit_option(to), to);
	if (crc && strcmp(crc, "on") && strcmp(crc, "off"))
		return wrong_usage(&cmd_convert, "convert: --crc %.40s: wanted 'on' or 'off'", crc);
	if (!is_order(byteorder) || !is_order(from_byteorder))
		return wrong_usage(&cmd_convert,
				   "convert: byte order '%.40s': wanted 'little' or 'big'",
				   is_order(byteorder) ? from_byteorder : byteorder);
	if (strcmp(to, "torch") && byteorder && !strcmp(byteorder, "big"))
		return wrong_usage(&cmd_convert, "convert: the format '%s' is little-endian always",
				   to);
	if (shard_size && (byteorder || !strcmp(to, "torch-legacy") || is_numpy()))
		return wrong_usage(
			&cmd_convert,
			"convert: a set of shards is little-endian, and of 'safetensors' "
			"or 'torch'");
	if (shared && convert_shared_of(shared) < 0)
		return wrong_usage(&cmd_convert,
				   "convert: --shared %.40s: wanted 'error', 'clone' or 'alias'",
				   shared);
	return EXIT_FINE;
}

static int parse_shard_size(struct ckpt_save_options *options)
{
	if (shard_size && !parse_decimal_size(shard_size, &options->shard_size))
		return wrong_usage(&cmd_convert, "convert: --shard-size %.40s: wanted a size such as 5GB%s", shard_size,
				   strchr(shard_size, ' ') ? ", without a space" : "");
	return EXIT_FINE;
}

static int parse_alignment(struct ckpt_save_options *options)
{
	unsigned long n;
	char *end;

	if (!alignment)
		return EXIT_FINE;
	n = strtoul(alignment, &end, 10);
	if (*end || !n || n > 32768)
		return wrong_usage(&cmd_convert, "convert: --alignment %.40s: wanted 1 to 32768",
				   alignment);
	options->alignment = (uint32_t)n;
	return EXIT_FINE;
}

/* Set TO to the format of OUT. Returns the exit code. */
static int choose_format(const char *in, const char *out)
{
	bool folder = shard_size || (to && !strcmp(to, "npy"));
	struct out_wish wish = { .rule = folder ? OUT_IS_FOLDER : OUT_OF_CONVERT,
				 .command = "convert",
				 .in = in,
				 .out = out,
				 .to = to };
	char size[64];
	struct edit_step *steps = make_steps(&chain, &wish.step_count);
	int code;

	wish.steps = steps;
	snprintf(size, sizeof(size), "%s %.40s", shard_size ? "--shard-size" : "--to",
		 shard_size ? shard_size : "npy");
	wish.options = size;
	code = choose_out(&wish, &to);
	free_steps(steps);
	if (!to)
		to = "safetensors"; /* of shards */
	return code;
}

/* The rest, with OUT; NO_OUT: see convert(). */
static int run_with_out(struct ckpt_save_options *options, int argc, char **argv, int first, char *out,
			bool no_out)
{
	int code = refuse_names(argv[first], "OUT");

	if (code == EXIT_FINE)
		code = choose_format(argv[first], out);
	if (code != EXIT_FINE)
		return code;
	if (!strcmp(to, "npy"))
		trim_slashes(out);
	code = check_words();
	if (code == EXIT_FINE)
		code = check_chain(&cmd_convert, &chain);
	if (code == EXIT_FINE)
		code = parse_alignment(options);
	if (code == EXIT_FINE)
		code = parse_shard_size(options);
	if (code != EXIT_FINE)
		return code;
	if (crc)
		options->crc = !strcmp(crc, "on");
	if (shared)
		options->shared = (enum ckpt_shared)convert_shared_of(shared);
	options->format = to;
	options->profile = profile;
	options->byteorder = byteorder;
	options->from_byteorder = from_byteorder;
	options->flags = CKPT_SAVE_CANONICAL | (force ? CKPT_SAVE_REPLACE : 0u) |
			(no_sync ? CKPT_SAVE_NO_SYNC : 0u) | (dry_run ? CKPT_SAVE_DRY_RUN : 0u) |
			(drop_others ? CKPT_SAVE_DROP_OTHERS : 0u) |
			(check_overflow ? CKPT_SAVE_CHECK_CASTS : 0u);
	options->progress = show_progress;
	options->cancel = catch_signals();
	plain_set_typed(argc, argv);
	return convert(options, argv[first], out, no_out);
}

static int run_convert(int argc, char **argv)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	int first = parse_options(&cmd_convert, argc, argv), code;
	char *no_output = NULL, *out;

	if (first < 0)
		return -1 - first;
	if (lacks_out(&cmd_convert, argc - first, argv + first))
		no_output = name_of_no_output(argv[first]);
	out = no_output ? no_output : argv[first + 1];
	code = run_with_out(&options, argc, argv, first, out, no_output != NULL);
	free(no_output);
	return code;
}
