/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt scan': verdicts on files, as text, JSON (scan_json.c) or SARIF (scan_sarif.c).
 *
 * What must stay true: the exit code errs on the safe side. What cannot be scanned, or a folder
 * without any file to scan, counts as unreadable, never as plain; and a document that is not
 * whole is removed.
 */
#include "command.h"
#include "json.h"
#include "many_files.h"
#include "scan_out.h"
#include "terminal.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_SHOWN = 20, VERDICTS = CKPT_SCAN_DANGEROUS + 1 };

static bool strict;
static const char *json, *sarif;

static const struct opt opts[] = {
	OPT_FLAG("strict", 0, &strict,
		 "accept only plain files: exit with 1 for needs-objects, too"),
	OPT_OPTIONAL("json", &json, "FILE", "print one JSON document, not text"),
	OPT_OPTIONAL("sarif", &sarif, "FILE", "print SARIF 2.1.0, for code hosts and editors"),
	OPT_STR("jobs", 'j', &many_jobs, "N",
		"scan N files of a folder at once; default: processors, at most 4"),
	COLOR_OPT,
	OPT_FLAG("quiet", 'q', &quiet, "print nothing about files that are fine"),
	OPT_FLAG("verbose", 'v', &verbose,
		 "print every name, all findings, and what weights_only refuses"),
	SPOOL_OPT,
	OPT_END
};

static int run_scan(int argc, char **argv);

const struct command cmd_scan = {
	.name = "scan",
	.operands = "IN [IN...]",
	.summary = "report what a load would import and run, without loading",
	.details =
		"IN is a file, or a folder with files in it. The decoder that reads them executes\n"
		"nothing. scan calls a file plain only if it understands it to the last opcode;\n"
		"it does not go by a list of bad names. It looks into archives and what hides in\n"
		"them: zip, tar, pickles in pickles, numpy's arrays.\n\n"
		"  plain          tensors, containers, numbers and texts: proven, nothing else can happen\n"
		"  needs-objects  a load also imports the classes and functions that scan lists, to make objects, and\n"
		"                 runs their code with data of the file: as safe as that code is with hostile data\n"
		"  unreadable     not decided: damaged, cut off, or of a kind that scan does not look into\n"
		"  inconsistent   two readers would see two different files\n"
		"  dangerous      a load runs code that the file chose\n\n"
		"For files of strangers use --strict, which takes plain files only.\n\n"
		"weights_only says whether torch.load(weights_only=True) of torch 1.13, 2.6 and\n"
		"2.14 takes the file.\n\n"
		"Exit status: 0 all are plain or needs-objects; 1 one is dangerous or\n"
		"inconsistent; 2 none is, but one is unreadable, or there is no file. In folders,\n"
		"scan follows links to files; it skips and counts files that are not checkpoints.\n",
	.examples = "  ckpt scan downloads/\n"
		    "  ckpt scan --strict model.pt && ./train --resume model.pt\n"
		    "  ckpt scan --sarif=scan.sarif models/\n"
		    "  curl -L https://host/model.pt | ckpt scan -\n",
	.opts = opts,
	.least = 1,
	.most = -1,
	.run = run_scan,
};

struct scan_output {
	FILE *json, *sarif;
	bool first; /* nothing was put into a document yet */
	bool cannot_write; /* the text: nobody reads it any more, or the disk is full */
	uint64_t verdicts[VERDICTS], files, bytes, passed_over;
};

/* ---- text ---- */

static void print_place(const char *record, uint64_t offset)
{
	printf("%s", record);
	if (offset != CKPT_NO_OFFSET)
		printf("+0x%" PRIx64, offset);
	if (*record || offset != CKPT_NO_OFFSET)
		printf(": ");
}

/* What lies deep inside of other things has a name of many parts: both ends of it. */
static void print_object_name(const char *name)
{
	enum { MOST_NAME = 200, END_OF_NAME = 98 };
	size_t len = strlen(name), head = END_OF_NAME, tail = len - END_OF_NAME;

	if (len <= MOST_NAME) {
		printf("%s: ", name);
		return;
	}
	while (head && (name[head] & 0xC0) == 0x80) /* inside of a character */
		head--;
	while ((name[tail] & 0xC0) == 0x80)
		tail++;
	printf("%.*s...%s: ", (int)head, name, name + tail);
}

static void print_more(uint64_t left)
{
	char count[32];

	if (left)
		printf("  ... and %s more (-v)\n", grouped(left, count));
}

static const char *color_of(enum ckpt_scan_verdict verdict)
{
	return verdict == CKPT_SCAN_PLAIN				     ? green()
	       : verdict == CKPT_SCAN_NEEDS_OBJECTS || verdict == CKPT_SCAN_UNREADABLE ? yellow()
										     : red();
}

static void print_findings(const struct ckpt_scan_file *f)
{
	uint64_t shown = 0, left = 0;

	for (uint64_t i = 0; i < f->finding_count; i++) {
		const struct ckpt_scan_finding *x = &f->findings[i];

		if (x->verdict == CKPT_SCAN_PLAIN && !verbose)
			continue;
		if (shown >= MOST_SHOWN && !verbose) {
			left++;
			continue;
		}
		shown++;
		if (x->verdict == CKPT_SCAN_PLAIN)
			printf("  note: ");
		else
			printf("  %s%s%s: ", color_of(x->verdict), ckpt_scan_verdict_name(x->verdict), plain());
		print_place(x->record, x->offset);
		if (x->path)
			print_object_name(x->path);
		printf("%s\n", x->text);
	}
	print_more(left);
}

static void print_globals(const struct ckpt_scan_file *f)
{
	uint64_t shown = 0, left = 0;
	char count[32];

	for (uint64_t i = 0; i < f->global_count; i++) {
		const struct ckpt_scan_global *g = &f->globals[i];

		if (!verbose && g->kind != CKPT_SCAN_OBJECT)
			continue;
		if (shown >= MOST_SHOWN && !verbose) {
			left++;
			continue;
		}
		shown++;
		printf("  imports: ");
		print_place(g->where, g->offset);
		printf("%s%s\n", g->name, g->called ? ", which is called" : "");
	}
	print_more(left);
	if (verbose && f->left_out)
		printf("  ... and %s more that are not listed\n", grouped(f->left_out, count));
}

static void print_refusals(const struct ckpt_scan_file *f)
{
	for (uint64_t i = 0; verbose && i < f->refusal_count; i++) {
		const struct ckpt_scan_refusal *x = &f->refusals[i];

		printf("  weights_only of");
		for (int v = 0; v < CKPT_SCAN_TORCH_COUNT; v++)
			if (x->versions & 1u << v)
				printf(" %s", ckpt_scan_torch_name(v));
		printf(" refuses: ");
		print_place(x->record, x->offset);
		printf("%s\n", x->text);
	}
}

/* "; weights_only: 2.6, 2.14" */
static void print_weights_only(const struct ckpt_scan_file *f)
{
	bool any = false;

	if (!f->is_torch)
		return;
	for (int i = 0; i < CKPT_SCAN_TORCH_COUNT; i++)
		if (f->weights_only[i]) {
			printf("%s%s", any ? ", " : "; weights_only of torch ",
			       ckpt_scan_torch_name(i));
			any = true;
		}
	printf("%s", any		       ? " takes it"
		     : f->weights_only_unknown ? "; what weights_only says is not known"
					       : "; weights_only refuses it");
}

static bool is_fine(enum ckpt_scan_verdict verdict)
{
	return verdict == CKPT_SCAN_PLAIN || (verdict == CKPT_SCAN_NEEDS_OBJECTS && !strict);
}

static int print_file(const struct ckpt_scan_file *f)
{
	char path[4096];

	if (quiet && is_fine(f->verdict))
		return 0;
	printf("%s: %s%s%s: %s", ckpt_escape(path, sizeof(path), f->path, strlen(f->path)),
	       color_of(f->verdict), ckpt_scan_verdict_name(f->verdict), plain(), f->format);
	print_weights_only(f);
	printf("\n");
	print_findings(f);
	print_globals(f);
	print_refusals(f);
	return ferror(stdout) ? CKPT_E_IO : 0;
}

static void print_totals(const struct scan_output *p)
{
	char count[32], size[16];
	bool any = false;

	if (quiet || p->files + p->passed_over < 2)
		return;
	printf("%s files, %s:", grouped(p->files, count), size_phrase(p->bytes, size));
	for (int i = VERDICTS; i-- > 0;)
		if (p->verdicts[i]) {
			printf("%s %s %s", any ? "," : "", grouped(p->verdicts[i], count),
			       ckpt_scan_verdict_name(i));
			any = true;
		}
	printf("%s", any ? "" : " nothing to scan");
	if (p->passed_over)
		printf("; %s that %s no checkpoint%s passed over", grouped(p->passed_over, count),
		       p->passed_over == 1 ? "is" : "are", plural(p->passed_over));
	printf("\n");
}

/* On stderr: the lines on stdout are what scripts read. */
static void note_exit_code(const struct scan_output *p, int code)
{
	if (code == EXIT_FINE && p->verdicts[CKPT_SCAN_NEEDS_OBJECTS] && !quiet)
		complain("note: needs-objects: exit code 0 does not mean safe, as a load runs code that the file names; "
			 "--strict exits with 1");
}

/* ---- all of them ---- */

static int print_or_write_file(void *ctx, const struct ckpt_scan_file *f)
{
	struct scan_output *p = ctx;

	end_progress();
	if (p->sarif) {
		scan_sarif_file(p->sarif, f, &p->first);
		return 0;
	}
	if (!p->json) {
		p->cannot_write |= print_file(f) < 0;
		return p->cannot_write ? CKPT_E_IO : 0;
	}
	scan_json_file(p->json, f, p->first);
	p->first = false;
	return 0;
}

static int scan(struct scan_output *p, const char *path, const struct ckpt_scan_options *options)
{
	struct ckpt_scan_report report = CKPT_SCAN_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	char text[1200], shown[400];
	int rc = ckpt_scan(path, options, print_or_write_file, p, &report, &err);

	end_progress();
	for (int i = 0; i < VERDICTS; i++)
		p->verdicts[i] += report.verdicts[i];
	p->files += report.files;
	p->bytes += report.bytes;
	p->passed_over += report.passed_over;
	if (rc == CKPT_E_CANCELLED || p->cannot_write) /* of which finish_output() speaks */
		return rc;
	if (rc == 0 && report.files)
		return rc;
	if (rc == 0) { /* a folder without files is not a folder of plain files */
		ckpt_escape(shown, sizeof(shown), path, strlen(path));
		if (report.passed_over)
			snprintf(text, sizeof(text),
				 "%s: holds no checkpoints, only %" PRIu64 " other file%s", shown,
				 report.passed_over, plural(report.passed_over));
		else
			snprintf(text, sizeof(text), "%s: holds no files", shown);
	} else {
		ckpt_error_format(&err, text, sizeof(text));
	}
	p->verdicts[CKPT_SCAN_UNREADABLE]++;
	p->files++;
	if (p->json) {
		scan_json_failed(p->json, path, text, p->first);
		p->first = false;
	}
	complain("%s", text);
	return rc;
}

static int exit_code_of(const struct scan_output *p)
{
	if (p->verdicts[CKPT_SCAN_DANGEROUS] || p->verdicts[CKPT_SCAN_INCONSISTENT] ||
	    (strict && p->verdicts[CKPT_SCAN_NEEDS_OBJECTS]))
		return EXIT_NO;
	return p->verdicts[CKPT_SCAN_UNREADABLE] ? EXIT_ERROR : EXIT_FINE;
}

/* Returns 0, or the exit code if the document cannot begin. */
static int begin_document(struct scan_output *p)
{
	if (json && sarif)
		return wrong_usage(&cmd_scan,
				   "scan: --json and --sarif are two documents, wanted one");
	if (json) {
		p->json = json_open(json);
		if (!p->json)
			return EXIT_ERROR;
		scan_json_begin(p->json);
	}
	if (sarif) {
		p->sarif = json_open(sarif);
		if (!p->sarif)
			return EXIT_ERROR;
		scan_sarif_begin(p->sarif);
	}
	return 0;
}

static int end_document(struct scan_output *p, int code, bool whole)
{
	FILE *out = p->json ? p->json : p->sarif;

	if (p->json) {
		scan_json_end(p->json, p->verdicts, p->passed_over, whole);
	} else if (p->sarif) {
		scan_sarif_end(p->sarif, whole);
	} else if (whole) {
		print_totals(p);
		note_exit_code(p, code);
	}
	return out && json_close(out, whole) != EXIT_FINE ? EXIT_ERROR : code;
}

static int run_scan(int argc, char **argv)
{
	struct ckpt_scan_options options = CKPT_SCAN_OPTIONS_INIT;
	struct scan_output p = { .first = true };
	int first = parse_options(&cmd_scan, argc, argv), code;
	bool cancelled = false;

	if (first < 0)
		return -1 - first;
	if (!parse_jobs(&cmd_scan, &options.threads))
		return EXIT_USAGE;
	code = begin_document(&p);
	if (code)
		return code;
	options.progress = show_progress;
	options.cancel = catch_signals();
	for (int i = first; i < argc && !cancelled && !p.cannot_write; i++)
		cancelled = scan(&p, argv[i], &options) == CKPT_E_CANCELLED;
	code = end_document(&p, exit_code_of(&p), !cancelled);
	end_by_signal();
	return finish_output(code);
}
