/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt diff': opens the files, prepares them (--at, --strip-module, --rename), compares B after
 * B with A, and hints at prefixes. diff_text.c and diff_json.c print.
 *
 * While A is opened, a thread opens the first B: that takes most of the time where files have
 * very many tensors.
 *
 * What must stay true: the thread opens regular files only, for it could wait in a pipe forever;
 * it is joined before the model is used; and it prints nothing (ckpt_open_with() never does).
 * EXIT_ERROR is worse than EXIT_NO: worse_code() compares their numbers.
 */
#include "diff.h"
#include "edit.h"
#include "json.h"
#include "parameters.h"
#include "terminal.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool quick, metadata_only, read_all, trust, strict, ignore_device, ignore_dtype,
	strip_module, of_parameters;
static const char *json, *at, *at_a, *at_b, *tolerance, *atol_text, *rtol_text, *limit_text,
	*top_text, *depth_text, *sort_by;
static struct str_list renames, keep, drop;

enum { SHOWN_ROWS = 25, OPENING_STACK = 8 << 20 };

static const struct opt opts[] = {
	OPT_STR("at", 0, &at, "NAME", "compare only what stands under NAME, in all files"),
	OPT_STR("at-a", 0, &at_a, "NAME", "compare NAME of A, instead of what --at says"),
	OPT_STR("at-b", 0, &at_b, "NAME", "compare NAME of each B, instead of what --at says"),
	OPT_LIST("rename", 0, &renames, "s/X/Y/",
		 "rename the keys of A first, as 'ckpt rename -e' does"),
	OPT_FLAG("strip-module", 0, &strip_module,
		 "take 'module.' off the keys of all files first"),
	OPT_LIST("keep", 0, &keep, "PATTERN", "compare only entries that match; may be repeated"),
	OPT_LIST("drop", 0, &drop, "PATTERN", "leave out entries that match; may be repeated"),
	OPT_FLAG("parameters", 0, &of_parameters,
		 "compare only parameters, as 'ckpt info' counts them"),
	OPT_STR("tolerance", 0, &tolerance, "ABS[,REL]",
		"count |a - b| <= ABS + REL * |b| as equal; default: 0,0"),
	OPT_STR("atol", 0, &atol_text, "ABS", "set ABS alone, as in torch.allclose()"),
	OPT_STR("rtol", 0, &rtol_text, "REL", "set REL alone, as in torch.allclose()"),
	OPT_FLAG("quick", 0, &quick,
		 "compare names, shapes, dtypes, devices, other values; read no tensors"),
	OPT_FLAG("metadata-only", 0, &metadata_only, "do the same as --quick"),
	OPT_FLAG("trust-checksums", 0, &trust,
		 "skip tensors with equal recorded checksums; misses later damage"),
	OPT_FLAG("read", 0, &read_all, "read all tensors (the default)"),
	OPT_FLAG("strict", 0, &strict,
		 "count bits of equal numbers, strides, classes, containers, order, too"),
	OPT_FLAG("ignore-device", 0, &ignore_device, "do not compare devices: cpu equals cuda:0"),
	OPT_FLAG("ignore-dtype", 0, &ignore_dtype, "do not compare dtypes: only the values count"),
	OPT_STR("sort", 0, &sort_by, "KEY",
		"order changed tensors by change, rms or name; default: change"),
	OPT_STR("depth", 0, &depth_text, "N",
		"sum up changed tensors by N first parts of names, or by 'module'"),
	OPT_STR("top", 0, &top_text, "N", "print N rows of changed tensors, 0 for all"),
	OPT_STR("limit", 0, &limit_text, "N",
		"print at most N rows of each table, 0 for all; default: 25"),
	OPT_OPTIONAL("json", &json, "FILE", "print one JSON document, not tables"),
	COLOR_OPT,
	OPT_FLAG("quiet", 'q', &quiet, "print nothing: the exit status tells"),
	OPT_FLAG("verbose", 'v', &verbose,
		 "also list what is in an optimizer, and in what only one file has"),
	DEQUANTIZE_OPT("bfloat16"),
	SPOOL_OPT,
	OPT_END
};

static int run_diff(int argc, char **argv);

const struct command cmd_diff = {
	.name = "diff",
	.operands = "A B [B...]",
	.summary = "compare checkpoints: names, shapes, dtypes, values",
	.details =
		"A and each B may have any two formats, and be files or directories. diff\n"
		"compares what tensors show. Strides, views, shared storages and the order of\n"
		"keys make no difference; what a program set on a tensor (t.note = 1) does. The\n"
		"keys 0 and '0' have the same name: diff says so, and with --strict counts it as\n"
		"a difference; if a dict has both, diff compares each with its own kind. Nesting\n"
		"shows only in names: 'a.b' is b in a. '_metadata', the versions of layers,\n"
		"counts with --strict. diff reads all tensors. With --trust-checksums it skips\n"
		"those for which torch recorded the same checksum. That compares copies of many\n"
		"gigabytes in an instant, but as they were when torch wrote them.\n\n"
		"change: norm(a - b) / max(norm(a), norm(b)), largest first; max rel:\n"
		"|a - b| / max(|a|, |b|) of one pair; ulp: steps from one number of the dtype to\n"
		"the next. NaN equals NaN, and 0 equals -0. A tensor that has the same values\n"
		"under another name is renamed. What changed in an optimizer is one row behind\n"
		"the weights (-v lists it); counters, tensors of one integer, come last. Rows of\n"
		"several tensors, as with --depth, have the figures of all that changed in them.\n"
		"With --depth module they are layers: names without their last part. With\n"
		"--parameters, buffers, optimizers and all other values are not compared; what is a\n"
		"parameter in one of the files is one in the other.\n\n"
		"Exit status: 0 all are the same as A; 1 one is not; 2 diff could not compare\n"
		"them all.\n",
	.examples = "  ckpt diff step-1000.pt step-2000.pt\n"
		    "  ckpt diff --parameters --depth module --sort rms --top 10 step-1000.pt step-2000.pt\n"
		    "  ckpt diff rank*.pt\n"
		    "  ckpt diff --strip-module --at model ddp.pt single.pt\n"
		    "  ckpt diff --tolerance 1e-6,1e-3 --ignore-dtype model.pt model-bf16.pt\n",
	.opts = opts,
	.least = 2,
	.most = -1,
	.run = run_diff,
};

/* ---- the files, as they are compared ---- */

/* Replace *MODEL by the result of an edit. */
static void replace_model(struct ckpt_model **model, struct ckpt_model *with)
{
	ckpt_close(*model);
	*model = with;
}

static int extract_part(struct ckpt_model **model, const char *name, struct ckpt_error *err)
{
	struct ckpt_model *part;
	int rc = name && *name ? ckpt_extract(*model, name, &part, NULL, err) : 1;

	if (rc == 0)
		replace_model(model, part);
	return rc < 0 ? rc : 0;
}

static int strip_names(struct ckpt_model **model, struct ckpt_error *err)
{
	struct ckpt_model *made;
	int rc = strip_module ? ckpt_strip_prefix(*model, "module.", NULL, &made, NULL, err) : 1;

	if (rc == 0)
		replace_model(model, made);
	return rc < 0 ? rc : 0;
}

static int rename_keys(struct ckpt_model **model, const char *path, struct ckpt_error *err)
{
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_model *made;
	int rc;

	if (!renames.count)
		return 0;
	rc = ckpt_rename(*model, renames.items, renames.count, NULL, &made, &report, err);
	if (rc < 0)
		return rc;
	if (!report.renamed && !quiet)
		complain("note: --rename matches no key of %s", path);
	replace_model(model, made);
	return 0;
}

/*
 * A file to open, perhaps in a thread of its own: with very many tensors, opening takes most of
 * the time.
 */
struct opening {
	const char *path;
	struct ckpt_model *model;
	int rc;
	struct ckpt_error err;
	pthread_t thread;
	bool has_thread;
};

static void *open_file(void *arg)
{
	struct opening *o = arg;

	o->err = (struct ckpt_error)CKPT_ERROR_INIT;
	o->rc = ckpt_open_with(o->path, CKPT_OPEN_BRIEF, &o->model, &o->err);
	return NULL;
}

static bool is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/*
 * Begin to open a file in a thread. Anything but a regular file could keep the thread waiting:
 * open_side() opens that when its turn comes.
 */
static void begin_opening(struct opening *o)
{
	pthread_attr_t attr;

	if (!is_file(o->path) || pthread_attr_init(&attr) != 0)
		return;
	pthread_attr_setstacksize(&attr, OPENING_STACK);
	o->has_thread = pthread_create(&o->thread, &attr, open_file, o) == 0;
	pthread_attr_destroy(&attr);
}

static void end_opening(struct opening *o)
{
	if (o->has_thread)
		pthread_join(o->thread, NULL);
	o->has_thread = false;
}

/* Make *OUT the model to compare. Returns the exit code, after a message if it is not EXIT_FINE. */
static int open_side(struct opening *o, bool is_first, struct ckpt_model **out,
		     struct ckpt_error *err)
{
	const char *own = is_first ? at_a : at_b, *name = own ? own : at, *path = o->path;
	int rc, code;

	if (o->has_thread)
		end_opening(o);
	else
		open_file(o);
	rc = o->rc;
	*out = o->model;
	o->model = NULL;
	*err = o->err;
	if (rc < 0)
		return fail(err);
	code = show_dequantized(path, "bfloat16", out);
	if (code != EXIT_FINE) {
		ckpt_close(*out);
		*out = NULL;
		return code;
	}
	rc = extract_part(out, name, err);
	if (rc == 0)
		rc = strip_names(out, err);
	if (rc == 0 && is_first)
		rc = rename_keys(out, path, err);
	if (rc == 0)
		return EXIT_FINE;
	if (!err->path[0])
		snprintf(err->path, sizeof(err->path), "%s", path);
	code = fail(err);
	if (rc == CKPT_E_NOTFOUND)
		hint_mapping_name(*out, name);
	ckpt_close(*out);
	*out = NULL;
	return code;
}

/* ---- what could be done ---- */

static bool is_simple(const char *text)
{
	return !text[strspn(text,
			    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")];
}

static int note_mapping(void *ctx, const struct ckpt_item *item)
{
	*(bool *)ctx = item->mapping;
	return 0;
}

/* Is the prefix, which ends with a dot, the name of a mapping? */
static bool names_mapping(const struct ckpt_model *model, const char *prefix)
{
	bool mapping = false;
	char name[256];

	snprintf(name, sizeof(name), "%.*s", (int)strlen(prefix) - 1, prefix);
	return ckpt_find(model, name, note_mapping, &mapping, NULL) == 0 && mapping;
}

static void hint_prefix(const struct ckpt_model *a, const struct ckpt_model *b,
			const struct diff_names *names, const struct ckpt_diff_report *r)
{
	bool of_a = r->prefixed == 'a';
	const char *path = of_a ? names->a : names->b;
	char shown[400], count[32], dots[400];
	size_t used = 0;

	if (!r->prefixed || quiet)
		return;
	fflush(stdout);
	ckpt_escape(shown, sizeof(shown), r->prefix, strlen(r->prefix));
	grouped(r->prefix_count, count);
	for (const char *p = r->prefix; *p; p++) {
		if (*p == '.' && of_a)
			dots[used++] = '\\';
		dots[used++] = *p;
	}
	dots[used] = '\0';
	if (!is_simple(r->prefix))
		hint("names of %s tensors match without the '%s' that %s has in them", count, shown,
		     path);
	else if (names_mapping(of_a ? a : b, r->prefix))
		hint("names of %s tensors match with --at-%c %.*s", count, r->prefixed,
		     (int)strlen(shown) - 1, shown);
	else if (!strcmp(r->prefix, "module."))
		hint("names of %s tensors match with --strip-module", count);
	else if (of_a)
		hint("names of %s tensors match with --rename 's/^%s//'", count, dots);
	else
		hint("names of %s tensors match with --rename 's/^/%s/'", count, dots);
}

/* ---- comparing ---- */

static int exit_code_of(const struct ckpt_diff_report *r)
{
	if (r->tensors.unreadable || r->values.unreadable)
		return EXIT_ERROR;
	return r->same ? EXIT_FINE : EXIT_NO;
}

static int worse_code(int a, int b)
{
	return a > b ? a : b;
}

/* Those of both together, so that a tensor is compared even where only one of the files tells that it is one. */
static int take_parameters(const struct ckpt_model *a, const struct ckpt_model *b, const struct diff_names *paths,
			   struct ckpt_diff_options *options, struct parameter_names *names,
			   struct ckpt_error *err)
{
	int rc = parameter_names_add(names, a, err);

	if (rc == 0)
		rc = parameter_names_add(names, b, err);
	options->takes = takes_parameter;
	options->takes_ctx = names;
	if (rc == 0 && !names->count) {
		rc = set_error(err, CKPT_E_NOTFOUND, "%s", NO_PARAMETER);
		snprintf(err->path, sizeof(err->path), "%s", paths->a);
	}
	return rc;
}

static int compare(const struct ckpt_model *a, const struct ckpt_model *b,
		   const struct diff_names *names, const struct ckpt_diff_options *options,
		   struct diff_json *document, const struct diff_view *view, bool *stop)
{
	struct parameter_names parameters = { 0 };
	struct ckpt_diff_options own = *options;
	struct ckpt_diff_report report = CKPT_DIFF_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct diff_text *text = document->out || quiet ? NULL : diff_text_new(names, view);
	int rc;

	*stop = !text && !document->out && !quiet;
	if (*stop) {
		complain("out of memory");
		return EXIT_ERROR;
	}
	rc = of_parameters ? take_parameters(a, b, names, &own, &parameters, &err) : 0;
	if (rc == 0)
		rc = ckpt_diff(a, b, &own,
		       document->out ? diff_json_add
		       : text	     ? diff_text_add
				     : NULL,
		       document->out ? (void *)document : text, &report, &err);
	end_progress();
	*stop = rc == CKPT_E_CANCELLED;
	if (document->out)
		diff_json_end(document, &report, &err);
	else if (rc == 0 && text &&
		 !diff_text_print(text, &report, options->flags & CKPT_DIFF_QUICK))
		rc = CKPT_E_NOMEM;
	diff_text_free(text);
	parameter_names_clear(&parameters);
	if (rc == CKPT_E_NOMEM && !err.status) /* for the rows */
		complain("out of memory");
	if (rc < 0)
		return err.status ? fail(&err) : EXIT_ERROR;
	if (report.unmatched && !quiet)
		complain("note: nothing matches '%s'", report.unmatched);
	hint_prefix(a, b, names, &report);
	return exit_code_of(&report);
}

static int compare_with(const struct ckpt_model *a, struct opening *opening,
			const struct diff_names *names, const struct ckpt_diff_options *options,
			struct diff_json *document, const struct diff_view *view, bool *stop)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *b;
	int code = open_side(opening, false, &b, &err);

	if (code == EXIT_FINE) {
		code = compare(a, b, names, options, document, view, stop);
		ckpt_close(b);
	} else if (document->out) {
		diff_json_end(document, NULL, &err);
	}
	*stop |= code == EXIT_USAGE;
	return code;
}

/* ---- options ---- */

static bool parse_number(const char *text, double *out, const char **end)
{
	char *stop;

	*out = number_of(text, &stop);
	*end = stop;
	return stop != text && isfinite(*out) && *out >= 0;
}

static int parse_tolerance(struct ckpt_diff_options *o)
{
	const char *end = "";

	if (tolerance && (!parse_number(tolerance, &o->atol, &end) ||
			  (*end == ',' && !parse_number(end + 1, &o->rtol, &end)) || *end))
		return wrong_usage(&cmd_diff, "diff: --tolerance %s: wanted ABS or ABS,REL",
				   tolerance);
	if (atol_text && (!parse_number(atol_text, &o->atol, &end) || *end))
		return wrong_usage(&cmd_diff, "diff: --atol %s: wanted a number from 0 on",
				   atol_text);
	if (rtol_text && (!parse_number(rtol_text, &o->rtol, &end) || *end))
		return wrong_usage(&cmd_diff, "diff: --rtol %s: wanted a number from 0 on",
				   rtol_text);
	return EXIT_FINE;
}

static int parse_count(const char *option, const char *text, uint64_t *out)
{
	char *end = NULL;

	if (!text)
		return EXIT_FINE;
	*out = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end)
		return wrong_usage(&cmd_diff, "diff: --%s %s: wanted a number", option, text);
	return EXIT_FINE;
}

static int parse_order(enum ckpt_diff_order *out)
{
	/* by enum ckpt_diff_order */
	static const char *const keys[] = { "change", "rms", "name" };

	for (int i = 0; sort_by && i < 3; i++)
		if (!strcmp(sort_by, keys[i])) {
			*out = (enum ckpt_diff_order)i;
			return EXIT_FINE;
		}
	return !sort_by ? EXIT_FINE
			: wrong_usage(&cmd_diff,
				      "diff: --sort %.40s: wanted 'change', 'rms' or 'name'",
				      sort_by);
}

static int parse_view(struct diff_view *view)
{
	int code;

	view->limit = SHOWN_ROWS;
	code = parse_count("limit", limit_text, &view->limit);
	view->top = view->limit;
	view->top_option = top_text ? "--top" : "--limit";
	if (code == EXIT_FINE)
		code = parse_count("top", top_text, &view->top);
	if (code == EXIT_FINE && !parse_depth(depth_text, &view->depth))
		code = wrong_usage(&cmd_diff, "diff: --depth %.40s: wanted a number from 1 on, or 'module'", depth_text);
	return code == EXIT_FINE ? parse_order(&view->order) : code;
}

static int make_options(struct ckpt_diff_options *o, struct diff_view *view)
{
	int code = parse_view(view);

	if (code == EXIT_FINE)
		code = parse_tolerance(o);
	quick |= metadata_only;
	if (code == EXIT_FINE && quick && read_all)
		code = wrong_usage(&cmd_diff, "diff: --read reads what --quick leaves out");
	if (code == EXIT_FINE && trust && (quick || read_all))
		code = wrong_usage(&cmd_diff, "diff: --trust-checksums and %s exclude each other",
				   quick ? "--quick" : "--read");
	o->flags = (quick ? CKPT_DIFF_QUICK : 0u) | (read_all ? CKPT_DIFF_READ : 0u) |
		   (trust ? CKPT_DIFF_TRUST_CHECKSUMS : 0u) |
		   (strict ? CKPT_DIFF_STRICT : 0u) |
		   (ignore_device ? CKPT_DIFF_IGNORE_DEVICE : 0u) |
		   (ignore_dtype ? CKPT_DIFF_IGNORE_DTYPE : 0u);
	o->keep = keep.items;
	o->keep_count = keep.count;
	o->drop = drop.items;
	o->drop_count = drop.count;
	o->order = view->order;
	o->progress = show_progress;
	o->cancel = catch_signals();
	return code;
}

static int compare_all(char **paths, int count, const struct ckpt_diff_options *options,
		       struct diff_json *document, const struct diff_view *view)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct opening first = { .path = paths[0] }, other = { .path = paths[1] };
	struct ckpt_model *a = NULL;
	bool stop = false;
	int code;

	begin_opening(&other);
	code = open_side(&first, true, &a, &err);
	for (int i = 1; a && i < count && !stop; i++) {
		struct diff_names names = { paths[0], paths[i] };

		if (i > 1)
			other.path = paths[i];
		if (document->out)
			diff_json_begin(document, paths[i], i == 1);
		code = worse_code(code,
				  compare_with(a, &other, &names, options, document, view, &stop));
	}
	end_opening(&other);
	ckpt_close(other.model);
	ckpt_close(a);
	return code;
}

static void begin_document(FILE *out, const char *path)
{
	json_t *name = json_object();

	json_set_name(name, "path", path);
	fprintf(out, "{\"ckpt_json\":%d,\"command\":\"diff\",\"reference\":", JSON_VERSION);
	json_put(out, name);
	fputs(",\"inputs\":[", out);
}

static int run_diff(int argc, char **argv)
{
	struct ckpt_diff_options options = CKPT_DIFF_OPTIONS_INIT;
	int first = parse_options(&cmd_diff, argc, argv), code;
	struct diff_json document = { 0 };
	struct diff_view view = { 0 };

	if (first < 0)
		return -1 - first;
	code = make_options(&options, &view);
	for (int i = first; code == EXIT_FINE && i < argc; i++)
		code = refuse_names(argv[i], "OUT");
	if (code != EXIT_FINE)
		return code;
	document.quick = quick;
	document.view = view;
	if (json) {
		document.out = json_open(json);
		if (!document.out)
			return EXIT_ERROR;
		begin_document(document.out, argv[first]);
	}
	code = compare_all(argv + first, argc - first, &options, &document, &view);
	if (document.out) {
		fputs("\n]}\n", document.out);
		if (json_close(document.out, true) != EXIT_FINE)
			code = EXIT_ERROR;
	}
	end_by_signal();
	return finish_output(code);
}
