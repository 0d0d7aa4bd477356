/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt average`: reads the options, opens all inputs, and hands them to ckpt_average().
 *
 * What must stay true: OUT is none of the inputs, and nothing is written before all of them fit each
 * other. Nobody is told to replace an OUT that may be the last input.
 */
#include "edit.h"
#include "json.h"
#include "shell_line.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct edit_settings s;
static struct str_list only;
static const char *weights_text, *ema_text, *others;

static const struct opt opts[] = {
	OPT_STR("weights", 0, &weights_text, "W[,W...]",
		"one number for each input, divided by their sum; default: all the same"),
	OPT_STR("ema", 0, &ema_text, "D", "average as a training does: e = D*e + (1-D)*x"),
	OPT_LIST("only", 0, &only, "PATTERN",
		 "average only tensors whose name matches; may be repeated"),
	OPT_STR("others", 0, &others, "WHICH",
		"last: take all else from the last input, equal or not"),
	OPT_STR("as", 0, &quant_as, "FORMAT",
		"how weights are quantized: fp8, gptq ...; plain: not at all"),
	OPT_STR("profile", 0, &s.profile, "VERSION",
		"write as this torch does; default: as A (legacy streams: the newest)"),
	OPT_FLAG("force", 'f', &s.force, "replace OUT if it exists"),
	IGNORE_DAMAGE_OPT,
	OPT_FLAG("no-sync", 0, &s.no_sync, "do not wait for the disk, like cp"),
	OPT_FLAG("dry-run", 'n', &s.dry_run, "say what would be done, write nothing; OUT may be left out"),
	SPOOL_OPT,
	OPT_FLAG("quiet", 'q', &quiet, "print errors only"),
	OPT_END
};

static int run_average(int argc, char **argv);

const struct command cmd_average = {
	.name = "average",
	.operands = "A B... OUT",
	.summary = "write the mean of several checkpoints: a model soup, an average of steps",
	.details =
		"average makes the mean of each floating and complex tensor, number by number, of\n"
		"files, shard sets and DCP directories of any dtype. It sums in float64, in the\n"
		"order of the inputs, and rounds once to the tensor's dtype:\n\n"
		"  (w1*x1 + w2*x2 + ... + wN*xN) / (w1 + w2 + ... + wN)\n\n"
		"where every w is 1 unless --weights says otherwise. --ema D begins with e = x1,\n"
		"the first input, and then takes e = D*e + (1-D)*x for each of the others in turn,\n"
		"so the oldest comes first. NaN stays NaN.\n\n"
		"The inputs need the same names, shapes and dtypes. Everything else (integers,\n"
		"quantized and sparse tensors, numbers and texts, what --only leaves out) must be\n"
		"equal in all of them, but for devices, or average writes nothing and names the\n"
		"first difference. --others last takes it from the last input instead: the step,\n"
		"the epoch, num_batches_tracked. An optimizer's floating tensors are averaged\n"
		"too, unless --only chooses (PATTERN works as in 'ckpt select'). Parts of\n"
		"quantized weights (FP8, GPTQ ...) have no mean and are an error, as config.json,\n"
		"metadata and names tell: 'ckpt cast --dequantize' makes numbers of them first.\n\n"
		"OUT is written as A is, or as the last input with --others last. Tied tensors and\n"
		"views are averaged once and stay tied. If tensors share bytes in A, they must\n"
		"share them in the other inputs.\n",
	.examples =
		"  ckpt average --others last step-100.pt step-200.pt step-300.pt mean.pt\n"
		"  ckpt average --weights 1,2 a.safetensors b.safetensors soup.safetensors\n"
		"  ckpt average --ema 0.9 --only 'model.*' --others last 1.pt 2.pt 3.pt ema.pt\n",
	.opts = opts,
	.least = 3,
	.most = -1,
	.dry_without_out = true,
	.run = run_average,
};

/* COUNT numbers between commas. */
static int read_weights(double *weights, size_t count)
{
	const char *p = weights_text;
	size_t found = 0;

	for (;; found++, p++) {
		char *end;
		double w = number_of(p, &end);

		if (end == p || (*end && *end != ','))
			return wrong_usage(
				&cmd_average,
				"average: --weights %.60s: wanted numbers between commas",
				weights_text);
		if (found < count)
			weights[found] = w;
		p = end;
		if (!*p)
			break;
	}
	if (found + 1 == count)
		return EXIT_FINE;
	return wrong_usage(&cmd_average,
			   "average: --weights has %zu number%s, and there are %zu inputs",
			   found + 1, plural(found + 1), count);
}

static int read_options(struct ckpt_average_options *o, double *weights, size_t count)
{
	char *end;
	int code = EXIT_FINE;

	o->only = only.items;
	o->only_count = only.count;
	o->as = quant_as;
	o->cancel = catch_signals();
	if (others && strcmp(others, "last") != 0)
		return wrong_usage(&cmd_average, "average: --others %.60s: wanted 'last'", others);
	o->flags = (others ? CKPT_AVERAGE_OTHERS_LAST : 0u) | (ema_text ? CKPT_AVERAGE_EMA : 0u);
	if (weights_text && ema_text)
		return wrong_usage(&cmd_average, "average: --weights and --ema exclude each other");
	if (weights_text) {
		code = read_weights(weights, count);
		o->weights = weights;
	}
	if (ema_text) {
		o->decay = number_of(ema_text, &end);
		if (end == ema_text || *end)
			return wrong_usage(&cmd_average, "average: --ema %.60s: wanted a number",
					   ema_text);
	}
	return code;
}

static int report_failure(const struct ckpt_error *err)
{
	int code = fail(err);

	if (err->status == CKPT_E_NOTFOUND) {
		hint("'ckpt ls' lists the names and dtypes");
		return EXIT_NO;
	}
	switch (err->reason) {
	case CKPT_REASON_NOT_ALIKE: hint("'ckpt diff --quick A B' lists all differences"); break;
	case CKPT_REASON_NOT_EQUAL:
		hint("--others last takes it from the last input; 'ckpt diff' lists all differences");
		break;
	case CKPT_REASON_OTHER_LAYOUT:
		hint("'ckpt compact' drops gaps; or name that input first whose tensors share nothing");
		break;
	case CKPT_REASON_QUANTIZED:
		hint("'ckpt cast --dequantize' makes plain weights first; " HINT_AS_PLAIN);
		break;
	default: break;
	}
	return code;
}

/* By another name, or by the same. */
static bool is_input(const char *out, char **paths, size_t count)
{
	struct stat a, b;

	for (size_t i = 0; i < count && stat(out, &a) == 0; i++)
		if (stat(paths[i], &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
			return true;
	return false;
}

/* "averaged.pt", or with a number, what is not there yet, and ends as IN does. To be freed. */
static char *name_for_mean(const char *in)
{
	const char *slash = strrchr(in, '/'), *dot = strrchr(slash ? slash : in, '.');
	struct stat st;
	char *name;

	for (int n = 1;; n++) {
		char number[16] = "";

		if (n > 1)
			snprintf(number, sizeof(number), "-%d", n);
		if (asprintf(&name, "averaged%s%s", number, dot && dot[1] ? dot : ".pt") < 0)
			no_memory();
		if (lstat(name, &st) < 0)
			return name;
		free(name);
	}
}

/*
 * OUT, the last of the COUNT + 1 PATHS, is a checkpoint like the others: who forgot OUT must not be told
 * that -f goes on, which would destroy the last input.
 */
static int refuse_last_input(char **argv, int first, char **paths, size_t count)
{
	struct shell_line l = { .len = 0 };
	char *name = name_for_mean(paths[count]);

	complain("%s: it is there, and a checkpoint like the inputs: the last operand is OUT, which seems "
		 "to be missing",
		 paths[count]);
	shell_add(&l, "ckpt average");
	for (int i = 1; i < first; i++)
		if (strcmp(argv[i], "--") != 0)
			shell_add_word(&l, argv[i]);
	for (size_t i = 0; i <= count; i++)
		shell_add_path(&l, paths[i]);
	shell_add_path(&l, name);
	hint("%s", l.text);
	free(name);
	return EXIT_ERROR;
}

static const struct edit_kind kind_average = { .name = "average" };

static int copy_name(void *ctx, const struct ckpt_plain_model *plain)
{
	snprintf(ctx, 300, "%s", plain->nested ? plain->name : "");
	return 0;
}

/* Moments of an optimizer have no meaning as a mean, but --only may leave them as they are. */
static void hint_only(const struct ckpt_model *mean)
{
	struct shell_line l = { .len = 0 };
	char name[300] = "", pattern[304];

	if (ckpt_why_plain(mean, copy_name, name, NULL) < 0 || !*name)
		return;
	snprintf(pattern, sizeof(pattern), "%s.*", name);
	shell_add(&l, "--only");
	shell_add_word(&l, pattern);
	hint("%s --others last averages the model alone, and takes the optimizer from the last input", l.text);
}

static int average(const struct ckpt_model *const *models, size_t count,
		   const struct ckpt_average_options *o, char **paths, const char *out)
{
	const struct edit_step step = { .kind = &kind_average };
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *mean;
	const char *base = others ? paths[count - 1] : paths[0];
	double start = seconds();
	char shown[160];
	int code;

	code = check_output(&s, models[others ? count - 1 : 0], base, out, NULL, 0);
	if (code != EXIT_FINE)
		return code;
	if (ckpt_average(models, count, o, &mean, &report, &err) < 0)
		return report_failure(&err);
	if (report.unmatched) {
		complain("no floating tensor is named like '%s', nothing was written",
			 ckpt_escape(shown, sizeof(shown), report.unmatched,
				     strlen(report.unmatched)));
		hint("'ckpt ls' lists the names");
		code = EXIT_NO;
	} else {
		code = save_edited(&s, mean, &step, &report, 1, out, start);
		if (code == EXIT_FINE && report.optimizer_averaged && !only.count && !quiet)
			hint_only(mean);
	}
	ckpt_close(mean);
	return code;
}

static int run_average(int argc, char **argv)
{
	int first = parse_options(&cmd_average, argc, argv), code = EXIT_FINE;
	struct ckpt_average_options o = CKPT_AVERAGE_OPTIONS_INIT;
	size_t count = first < 0 ? 0 : (size_t)(argc - first - 1), opened = 0;
	char **paths = argv + first, *no_output = NULL;
	bool no_out, last_is_alike;
	struct ckpt_model **models;
	double *weights;
	char shown[160];

	if (first < 0)
		return -1 - first;
	no_out = lacks_out(&cmd_average, argc - first, paths);
	count += no_out;
	models = calloc(count + 1, sizeof(*models));
	weights = calloc(count + 1, sizeof(*weights));
	if (!models || !weights)
		no_memory();
	code = refuse_names(argv[first], "OUT");
	while (code == EXIT_FINE && opened < count && open_model(paths[opened], &models[opened], &code))
		opened++;
	last_is_alike = code == EXIT_FINE && !no_out && !s.force && !is_input(paths[count], paths, count) &&
			is_like_input(models[0], paths[count]);
	if (last_is_alike && s.dry_run) { /* which needs no OUT */
		no_out = true;
		open_model(paths[count], &models[opened], &code);
		opened += code == EXIT_FINE;
		if (code == EXIT_FINE && !quiet)
			complain("note: %s exists, so it is taken for an input; a run that is not dry wants OUT behind it",
				 ckpt_escape(shown, sizeof(shown), paths[count], strlen(paths[count])));
		count++;
	} else if (last_is_alike) {
		code = refuse_last_input(argv, first, paths, count);
	}
	if (code == EXIT_FINE)
		code = read_options(&o, weights, count);
	if (no_out)
		no_output = name_of_no_output(others ? paths[count - 1] : paths[0]);
	if (code == EXIT_FINE)
		code = average((const struct ckpt_model *const *)models, count, &o, paths,
			       no_out ? no_output : paths[count]);
	while (opened)
		ckpt_close(models[--opened]);
	free(no_output);
	free(models);
	free(weights);
	if (code != EXIT_FINE)
		end_by_signal();
	return finish_output(code);
}
