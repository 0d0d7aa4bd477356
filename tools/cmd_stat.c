/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt stat': statistics of values. ckpt_stat_new() reads everything; stat_table.c and
 * stat_json.c print.
 *
 * What must stay true: --check-finite says yes only for what was read. A tensor that cannot be
 * read makes the exit code EXIT_ERROR, unless NaN or infinity elsewhere makes it EXIT_NO already.
 */
#include "command.h"
#include "edit.h"
#include "json.h"
#include "many_files.h"
#include "parameters.h"
#include "stat.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool check_finite, of_parameters;
static const char *sort_by, *bins, *json, *at, *depth, *quantile_list;
static struct str_list patterns;

enum { MOST_QUANTILES = 32 };

static double quantiles[MOST_QUANTILES];

static const struct opt opts[] = {
	OPT_LIST("match", 'm', &patterns, "PATTERN",
		 "take only what matches; all operands are then files; may be repeated"),
	OPT_OPTIONAL("hist", &bins, "BINS",
		     "draw histograms, reading all twice; default: as many bins as fit"),
	OPT_FLAG("parameters", 0, &of_parameters,
		 "describe only parameters, as 'ckpt info' counts them"),
	OPT_STR("sort", 0, &sort_by, "KEY",
		"order by KEY, such as name or max (see above); default: as in the file"),
	OPT_STR("at", 0, &at, "NAME", "describe only what stands under NAME, by the names in it"),
	OPT_STR("depth", 0, &depth, "N",
		"describe tensors together by N first parts of names, or by 'module'"),
	OPT_STR("quantiles", 0, &quantile_list, "LIST",
		"print quantiles, such as 0.01,0.5,0.99; reads all about six times more"),
	OPT_FLAG("check-finite", 0, &check_finite, "exit with 1 if any value is NaN or infinite"),
	OPT_OPTIONAL("json", &json, "FILE", "print one JSON document, not a table"),
	OPT_FLAG("quiet", 'q', &quiet,
		 "print only what is not finite or cannot be read, and no totals"),
	OPT_STR("jobs", 'j', &many_jobs, "N",
		"with --check-finite, take N files at once, each by a process"),
	DEQUANTIZE_OPT("float32"),
	NAME_SKIPPED_OPT,
	SPOOL_OPT,
	OPT_END
};

static int run_stat(int argc, char **argv);

const struct command cmd_stat = {
	.name = "stat",
	.operands = "IN [IN...] [PATTERN...]",
	.summary = "print statistics of values: min, max, mean, std, norm, zeros, NaN, infinities",
	.details =
		"stat describes every tensor, each dtype and the whole file, and takes values as\n"
		"torch.load shows them. Counts are exact. min, max, mean, std (of the population,\n"
		"ddof=0), norm (L2) and absmax leave out NaN and infinity. They use the\n"
		"magnitudes of complex numbers, and the stored values of sparse tensors. The\n"
		"totals count bytes that several tensors show (tied weights) once. stat includes\n"
		"numpy arrays in the file.\n"
		"PATTERN works as in 'ckpt ls'. KEY is name, size, min, max, mean, std, norm,\n"
		"absmax, zeros, nan or inf. The largest comes first; for 'min', the smallest.\n"
		"With --depth 2, 'layers.0' describes all that begins with it: 'layers.0.weight',\n"
		"'layers.0.bias', but counters (integers without a dimension). With --depth module, a\n"
		"group is a layer, however deep: all that has the same name but for the last part.\n"
		"What several tensors of a group show is in it once. Quantiles are exact: those of\n"
		"numpy.quantile(), of finite values as float64. With --parameters, buffers (such as\n"
		"num_batches_tracked), optimizers and arrays are left out.\n"
		"With --check-finite, stat takes several IN and prints one line each, with what is\n"
		"not finite above it; operands are IN or PATTERN as in 'ckpt ls'.\n" MANY_FILES "\n"
		"Exit status: 0 fine; 1 if nothing matches, or with --check-finite if any value\n"
		"is not finite; 2 if IN, or with --check-finite a tensor in it, cannot be read.\n",
	.examples = "  ckpt stat model.pt\n"
		    "  ckpt stat --parameters --depth module --sort norm trainer.pt\n"
		    "  ckpt stat --hist model.pt 'model.layers.0.*'\n"
		    "  ckpt stat --quantiles 0.01,0.5,0.99 model.pt\n"
		    "  ckpt stat -q --check-finite step900.pt && ./train --resume step900.pt\n"
		    "  ckpt stat --check-finite runs/ --jobs 4\n"
		    "  ckpt stat --json model.pt | jq '.tensors[] | select(.max > 100) | .name'\n",
	.opts = opts,
	.least = 1,
	.most = -1,
	.run = run_stat,
};

/* ---- order ---- */

enum {
	KEY_NAME,
	KEY_SIZE,
	KEY_MIN,
	KEY_MAX,
	KEY_MEAN,
	KEY_STD,
	KEY_NORM,
	KEY_ABSMAX,
	KEY_ZEROS,
	KEY_NAN,
	KEY_INF
};

static const char *const keys[] = { "name", "size",   "min",   "max", "mean", "std",
				    "norm", "absmax", "zeros", "nan", "inf",  NULL };
static int sort_key;

/* The number to sort by, largest first; NaN comes last. */
static double key_of(const struct stat_row *row)
{
	const struct ckpt_stat_values *v = &row->values;

	switch (sort_key) {
	case KEY_MIN: return -v->min;
	case KEY_MAX: return v->max;
	case KEY_MEAN: return v->mean;
	case KEY_STD: return v->std;
	case KEY_NORM: return v->norm;
	case KEY_ABSMAX: return v->absmax;
	case KEY_ZEROS: return (double)v->zeros;
	case KEY_NAN: return (double)v->nans;
	case KEY_INF: return (double)v->infinities;
	default: return (double)row->item.nbytes;
	}
}

static int by_key(const void *a, const void *b)
{
	const struct stat_row *x = a, *y = b;
	double left, right;
	int order = 0;

	if (sort_key == KEY_NAME)
		return strcmp(x->item.name, y->item.name);
	left = key_of(x);
	right = key_of(y);
	if (isnan(left) || isnan(right))
		order = (isnan(left) != 0) - (isnan(right) != 0);
	else
		order = (left < right) - (left > right);
	return order ? order : (x->number > y->number) - (x->number < y->number);
}

static bool parse_key(void)
{
	sort_key = 0;
	while (keys[sort_key] && strcmp(keys[sort_key], sort_by) != 0)
		sort_key++;
	return keys[sort_key];
}

/* ---- the page ---- */

static bool collect_groups(struct stat_page *page)
{
	page->group_count = ckpt_stat_group_count(page->stat);
	if (!page->group_count)
		return true;
	page->groups = calloc(page->group_count, sizeof(*page->groups));
	if (!page->groups)
		return false;
	for (uint64_t i = 0; i < page->group_count; i++) {
		struct ckpt_stat_group group = CKPT_STAT_GROUP_INIT;
		struct stat_row *row = &page->groups[i];

		row->number = i;
		row->values.size = sizeof(row->values);
		ckpt_stat_group_get(page->stat, i, &group, &row->values);
		row->item.name = group.name;
		row->item.dtype = group.dtype;
		row->item.nbytes = group.nbytes;
		row->tensors = group.items;
		row->unreadable = group.unreadable;
	}
	if (sort_by)
		qsort(page->groups, page->group_count, sizeof(*page->groups), by_key);
	return true;
}

static bool collect_rows(struct stat_page *page)
{
	page->count = ckpt_stat_count(page->stat);
	page->rows = calloc(page->count + 1, sizeof(*page->rows));
	if (!page->rows)
		return false;
	for (uint64_t i = 0; i < page->count; i++) {
		struct stat_row *row = &page->rows[i];

		row->number = i;
		row->item.size = sizeof(row->item);
		row->values.size = sizeof(row->values);
		ckpt_stat_get(page->stat, i, &row->item, &row->values);
		page->not_finite += row->values.nans || row->values.infinities;
		page->unreadable += row->item.unreadable;
	}
	if (sort_by)
		qsort(page->rows, page->count, sizeof(*page->rows), by_key);
	return collect_groups(page);
}

static const char FINITE[] = "finite", NOT_FINITE[] = "not finite", CANNOT_TELL[] = "cannot tell",
		  NO_MATCH[] = "without a match";

static int exit_code_of(const struct stat_page *page)
{
	if (one_of_many)
		one_of_many->word = page->not_finite   ? NOT_FINITE
				    : page->unreadable ? CANNOT_TELL
						       : FINITE;
	if (!check_finite)
		return EXIT_FINE;
	if (page->not_finite)
		return EXIT_NO;
	return page->unreadable ? EXIT_ERROR : EXIT_FINE;
}

/* ": 'head.bias' at [3]", of the first in the file, whatever the order of the table. */
static void print_first_not_finite(const struct stat_page *page)
{
	const struct stat_row *first = NULL;
	char name[200], place[1024];

	for (uint64_t i = 0; i < page->count; i++) {
		const struct stat_row *row = &page->rows[i];

		if ((row->values.nans || row->values.infinities) && (!first || row->number < first->number))
			first = row;
	}
	if (!first)
		return;
	printf("%s '%s' at %s", page->not_finite > 1 ? ", the first is" : ":",
	       ckpt_escape(name, sizeof(name), first->item.name, strlen(first->item.name)),
	       stat_index_text(first->item.first_not_finite, first->item.looked_ndim, first->item.looked_shape,
			       place, sizeof(place)));
}

static void print_verdict(const struct stat_page *page)
{
	char count[32];

	if (!check_finite || quiet)
		return;
	if (page->not_finite) {
		printf("NOT FINITE: %s tensor%s", grouped(page->not_finite, count),
		       plural(page->not_finite));
		print_first_not_finite(page);
		putchar('\n');
	} else if (page->unreadable)
		printf("cannot tell: %s tensor%s cannot be read\n",
		       grouped(page->unreadable, count), plural(page->unreadable));
	else
		printf("all values are finite\n");
}

static int print_page(const struct ckpt_stat *stat, const struct ckpt_stat_options *options,
		      FILE *out)
{
	struct stat_page page = { .stat = stat,
				  .quantiles = options->quantiles,
				  .quantile_count = options->quantile_count };
	int code;

	if (!collect_rows(&page)) {
		complain("out of memory");
		code = EXIT_ERROR;
	} else if (code = exit_code_of(&page), out) {
		stat_print_json(&page, out);
	} else {
		bool was_quiet = quiet;

		quiet = quiet || one_of_many; /* rows of what is not finite */
		stat_print_table(&page);
		quiet = was_quiet;
		print_verdict(&page);
	}
	free(page.rows);
	free(page.groups);
	return code;
}

/* ---- the command ---- */

/* Make *MODEL what --at names. False: a message was printed, and *MODEL is closed. */
static bool take_part(struct ckpt_model **model, const char *path, int *code)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *part;
	int rc = *at ? ckpt_extract(*model, at, &part, NULL, &err) : 1;

	if (rc > 0)
		return true;
	if (rc == 0) {
		ckpt_close(*model);
		*model = part;
		return true;
	}
	if (!err.path[0])
		snprintf(err.path, sizeof(err.path), "%s", path);
	*code = fail(&err);
	if (rc == CKPT_E_NOTFOUND)
		hint_mapping_name(*model, at);
	ckpt_close(*model);
	return false;
}

static int take_parameters(const struct ckpt_model *model, struct ckpt_stat_options *options,
			   struct parameter_names *names, struct ckpt_error *err)
{
	options->takes = takes_parameter;
	options->takes_ctx = names;
	return parameter_names_add(names, model, err);
}

static int print_statistics(const char *path, struct ckpt_stat_options *options, FILE *out)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	struct ckpt_stat *stat = NULL;
	struct parameter_names parameters = { 0 };
	int code = EXIT_FINE, rc;

	if (!open_model(path, &model, &code)) {
		hint_json(json, path);
		return code;
	}
	code = show_dequantized(path, "float32", &model);
	if (code != EXIT_FINE) {
		ckpt_close(model);
		return code;
	}
	if (at && !take_part(&model, path, &code))
		return code;
	rc = of_parameters ? take_parameters(model, options, &parameters, &err) : 0;
	if (rc == 0)
		rc = ckpt_stat_new(model, options, &stat, &err);
	end_progress();
	if (rc < 0) {
		code = fail(&err);
	} else if (of_parameters && !parameters.count) {
		complain("%s: " NO_PARAMETER, path);
		if (one_of_many)
			one_of_many->word = NO_MATCH;
		code = EXIT_NO;
	} else if (!ckpt_stat_count(stat) && options->pattern_count) {
		complain("%s: no %s matches", path, of_parameters ? "parameter" : "tensor");
		for (size_t i = 0; i < options->pattern_count; i++) {
			hint_json(json, options->patterns[i]);
			hint_no_file(options->patterns[i]);
		}
		if (one_of_many)
			one_of_many->word = NO_MATCH;
		code = EXIT_NO;
	} else {
		code = print_page(stat, options, out);
	}
	ckpt_stat_free(stat);
	parameter_names_clear(&parameters);
	ckpt_close(model);
	return code;
}

static bool parse_bins(struct ckpt_stat_options *options)
{
	uint64_t n;

	if (!bins)
		return true;
	options->bins = stat_bar_width();
	if (!*bins)
		return true;
	if (!parse_size(bins, &n) || !n || n > 4096)
		return false;
	options->bins = (uint32_t)n;
	return true;
}

static int stat_file(const char *path, void *ctx)
{
	struct ckpt_stat_options *options = ctx;
	FILE *out = NULL;
	int code;

	options->cancel = catch_signals();
	if (json && !(out = json_open(json)))
		return EXIT_ERROR;
	code = print_statistics(path, options, out);
	if (out && json_close(out, code == EXIT_FINE || code == EXIT_NO) != EXIT_FINE)
		code = code ? code : EXIT_ERROR;
	end_by_signal();
	return finish_output(code);
}

static bool parse_quantiles(struct ckpt_stat_options *options)
{
	const char *text = quantile_list;

	if (!text)
		return true;
	options->quantiles = quantiles;
	for (;;) {
		double *q = &quantiles[options->quantile_count++];
		char *end;

		*q = number_of(text, &end);
		if (end == text || !(*q >= 0 && *q <= 1))
			return false;
		if (!*end)
			return true;
		if (*end != ',' || options->quantile_count == MOST_QUANTILES)
			return false;
		text = end + 1;
	}
}

static int run_stat(int argc, char **argv)
{
	struct ckpt_stat_options options = CKPT_STAT_OPTIONS_INIT;
	const struct many_files many = {
		.cmd = &cmd_stat,
		.one = stat_file,
		.ctx = &options,
		.words = { FINITE, NOT_FINITE, CANNOT_TELL, NO_MATCH },
		.json = &json,
	};
	int first = parse_options(&cmd_stat, argc, argv);
	bool by_option;
	size_t count;

	if (first < 0)
		return -1 - first;
	by_option = patterns.count > 0;
	if (sort_by && !parse_key())
		return wrong_usage(
			&cmd_stat,
			"stat: --sort %.40s: wanted 'name', 'size', 'min', 'max', 'mean', 'std', 'norm', 'absmax', 'zeros', 'nan' or 'inf'",
			sort_by);
	if (!parse_bins(&options))
		return wrong_usage(&cmd_stat, "stat: --hist=%.40s: wanted a number from 1 to 4096",
				   bins);
	if (!parse_depth(depth, &options.depth))
		return wrong_usage(&cmd_stat, "stat: --depth %.40s: wanted a number from 1 on, or 'module'",
				   depth);
	if (!parse_quantiles(&options))
		return wrong_usage(
			&cmd_stat,
			"stat: --quantiles %.200s: wanted up to %d numbers from 0 to 1, such as 0.01,0.5,0.99",
			quantile_list, MOST_QUANTILES);
	options.progress = show_progress;
	count = (size_t)(argc - first);
	if (check_finite)
		count = separate_patterns(argv + first, count, &patterns);
	else if (by_option && count > 1)
		return wrong_usage(&cmd_stat, "stat: several files need --check-finite");
	else if (!by_option)
		patterns = (struct str_list){ (const char **)argv + first + 1, count - 1 };
	options.patterns = patterns.items;
	options.pattern_count = patterns.count;
	return check_finite ? run_many(&many, argv + first, count)
			    : stat_file(argv[first], &options);
}
