/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <stdlib.h>
#include <string.h>

static bool force, no_sync, dry_run, state_dict;
static const char *profile, *alignment, *crc, *to, *at, *byteorder, *from_byteorder;

static const struct opt opts[] = {
	OPT_STR("to", 0, &to, "FORMAT",
		"format of OUT: torch (the default), or torch-legacy: as torch up to 1.5"),
	OPT_FLAG("state-dict", 0, &state_dict,
		 "of a model that was saved whole, write what its state_dict() holds"),
	OPT_STR("at", 0, &at, "NAME", "the name of the module, if there are several"),
	OPT_STR("profile", 0, &profile, "VERSION",
		"as this torch writes: 1.6 to 2.14, or later; default: same, the input's"),
	OPT_STR("alignment", 0, &alignment, "N",
		"start the data of every record on a multiple of N bytes"),
	OPT_STR("crc", 0, &crc, "on|off",
		"record checksums or not; default: on, as torch.save does"),
	OPT_STR("byteorder", 0, &byteorder, "ORDER",
		"byte order of OUT, little or big; default: little"),
	OPT_STR("from-byteorder", 0, &from_byteorder, "ORDER",
		"that of IN, whatever it says; torch 1.6 to 2.0 did not say it"),
	OPT_FLAG("force", 'f', &force, "replace OUT if it exists"),
	OPT_FLAG("no-sync", 0, &no_sync, "do not wait for the disk, like cp"),
	OPT_FLAG("dry-run", 'n', &dry_run, "say what would be done, write nothing"),
	OPT_FLAG("quiet", 'q', &quiet, "print errors only"),
	OPT_END
};

static int run(int argc, char **argv);

const struct command cmd_convert = {
	.name = "convert",
	.operands = "IN OUT",
	.summary = "write a checkpoint anew, as torch.load and torch.save of a given torch would",
	.details =
		"Mends files that other tools packed anew, makes files for older torch versions, and one file of\n"
		"a sharded checkpoint, as 'ckpt merge' does:\n"
		"OUT has pickle protocol 2, stored and aligned records, and the layout of --profile.\n"
		"With --state-dict the parameters and buffers of a whole model (torch.save(model)) become a plain\n"
		"state dict, which loads without the model's classes. Of a TorchScript archive or a torch.export\n"
		"program (.pt2) nothing else can be written, so these need no option.\n",
	.examples = "  ckpt convert repacked.pt sound.pt\n"
		    "  ckpt convert --state-dict whole-model.pt weights.pt\n"
		    "  ckpt convert --profile 1.13 new.pt for-old-torch.pt\n"
		    "  ckpt convert --from-byteorder big from-s390x.pt sound.pt\n",
	.opts = opts,
	.least = 2,
	.most = 2,
	.run = run,
};

/* A file under the name of another format would deceive whoever reads it. */
static int refuse_format(const char *out)
{
	if (ends_with(out, ".safetensors"))
		complain("%s: safetensors cannot be written yet", out);
	else if (ends_with(out, ".index.json"))
		complain("%s: the index of a sharded set cannot be written yet", out);
	else
		return EXIT_FINE;
	hint("--to torch writes torch's format under that name");
	return EXIT_ERROR;
}

/* A program can be read, but not written. */
static bool is_program(const struct ckpt_model *model)
{
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;

	return ckpt_file_get(model, &info) == 0 && info.is_program;
}

static void tell_taken(const struct ckpt_edit_report *did)
{
	char count[32];

	printf("%s tensor%s of the state dict, ", grouped(did->tensors_taken, count),
	       did->tensors_taken == 1 ? "" : "s");
	if (did->modules_guessed)
		printf("of %s module%s without source all tensors were taken, ",
		       grouped(did->modules_guessed, count), did->modules_guessed == 1 ? "" : "s");
}

/* *MODEL becomes what its module's state_dict() holds. Returns the exit code. */
static int take_state_dict(struct ckpt_model **model, struct ckpt_edit_report *did)
{
	struct ckpt_edit_options options = CKPT_EDIT_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *taken;
	int code;

	options.at = at ? &at : NULL;
	options.at_count = at != NULL;
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

static int convert(const struct ckpt_save_options *options, const char *in, const char *out)
{
	struct ckpt_edit_report did = CKPT_EDIT_REPORT_INIT;
	struct ckpt_save_report report = CKPT_SAVE_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	char size[16];
	double start = seconds();
	int code = EXIT_FINE;

	if (!open_model(in, &model, &code))
		return code;
	if (state_dict || at || is_program(model))
		code = take_state_dict(&model, &did);
	if (code != EXIT_FINE) {
		ckpt_close(model);
		return code;
	}
	if (ckpt_save(model, out, options, &report, &err) < 0) {
		end_progress();
		code = save_failed(&err, force);
	} else if (!quiet) {
		end_progress();
		if (did.extracted)
			tell_taken(&did);
		if (report.dropped)
			printf("%u unused record%s left out, ", report.dropped,
			       report.dropped == 1 ? "" : "s");
		if (dry_run)
			printf("%s would be written (dry run)\n", size_phrase(report.nbytes, size));
		else
			printf("%s written in %.2f s\n", size_phrase(report.nbytes, size),
			       seconds() - start);
	}
	if (code == EXIT_FINE && report.turned_alone && !quiet)
		fprintf(stderr,
			"ckpt: note: %u storage%s turned around that torch would have left alone, as it does "
			"with uint16 and others\n",
			report.turned_alone, report.turned_alone == 1 ? " was" : "s were");
	ckpt_close(model);
	if (code != EXIT_FINE)
		end_by_signal();
	return finish_output(code);
}

static bool is_order(const char *text)
{
	return !text || !strcmp(text, "little") || !strcmp(text, "big");
}

static int run(int argc, char **argv)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	int first = parse_options(&cmd_convert, argc, argv), code;
	char *end;

	if (first < 0)
		return -1 - first;
	if (to && strcmp(to, "torch") && strcmp(to, "torch-legacy"))
		return wrong_usage(
			&cmd_convert,
			"convert: format '%.40s' cannot be written, wanted 'torch' or 'torch-legacy'",
			to);
	if (to && !strcmp(to, "torch-legacy") && (alignment || crc))
		return wrong_usage(&cmd_convert,
				   "convert: a legacy stream has no alignment and no checksums");
	if (crc && strcmp(crc, "on") && strcmp(crc, "off"))
		return wrong_usage(&cmd_convert, "convert: --crc %.40s: wanted 'on' or 'off'", crc);
	if (!is_order(byteorder) || !is_order(from_byteorder))
		return wrong_usage(&cmd_convert,
				   "convert: byte order '%.40s': wanted 'little' or 'big'",
				   is_order(byteorder) ? from_byteorder : byteorder);
	if (to && !strcmp(to, "torch-legacy") && byteorder && !strcmp(byteorder, "big"))
		return wrong_usage(&cmd_convert,
				   "convert: a legacy stream is little-endian always");
	if (alignment) {
		unsigned long n = strtoul(alignment, &end, 10);

		if (*end || !n || n > 32768)
			return wrong_usage(&cmd_convert,
					   "convert: --alignment %.40s: wanted 1 to 32768",
					   alignment);
		options.alignment = (uint32_t)n;
	}
	if (crc)
		options.crc = !strcmp(crc, "on");
	code = refuse_names(argv[first], argv[first + 1]);
	if (code == EXIT_FINE && !to)
		code = refuse_format(argv[first + 1]);
	if (code != EXIT_FINE)
		return code;
	options.format = to ? to : "torch";
	options.profile = profile;
	options.byteorder = byteorder;
	options.from_byteorder = from_byteorder;
	options.flags = CKPT_SAVE_CANONICAL | (force ? CKPT_SAVE_REPLACE : 0u) |
			(no_sync ? CKPT_SAVE_NO_SYNC : 0u) | (dry_run ? CKPT_SAVE_DRY_RUN : 0u);
	options.progress = show_progress;
	options.cancel = catch_signals();
	return convert(&options, argv[first], argv[first + 1]);
}
