/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"
#include "json.h"

#include <inttypes.h>
#include <string.h>

static bool strict;
static const char *json;

static const struct opt opts[] = {
	OPT_FLAG("strict", 0, &strict,
		 "what needs classes of its own (needs-objects) counts as bad, too"),
	OPT_OPTIONAL("json", &json, "FILE", "print one JSON document, not text"),
	OPT_FLAG("quiet", 'q', &quiet, "print nothing about files that are fine"),
	OPT_FLAG("verbose", 'v', &verbose,
		 "print every class and function that a load would import"),
	OPT_END
};

static int run(int argc, char **argv);

const struct command cmd_scan = {
	.name = "scan",
	.operands = "IN [IN...]",
	.summary = "what a load would import and run, without loading it",
	.details =
		"Each file, and each file in a folder, is decoded by what executes nothing. The verdict:\n\n"
		"  plain          only tensors, containers, numbers and texts: proven, nothing can run\n"
		"  needs-objects  a load imports classes or functions; they are listed\n"
		"  unreadable     not decided: damaged, cut off, or nothing that is looked into\n"
		"  inconsistent   two readers would see different files in it\n"
		"  dangerous      a load runs code that the file chose\n\n"
		"Exit status: 0 each file is plain or needs-objects; 1 one is dangerous or inconsistent;\n"
		"2 none is, but one is unreadable.\n",
	.examples = "  ckpt scan downloads/\n"
		    "  ckpt scan --strict model.pt && ./train --resume model.pt\n",
	.opts = opts,
	.least = 1,
	.most = -1,
	.run = run,
};

struct printing {
	FILE *json;
	bool any;
	uint64_t verdicts[5], passed_over;
};

/* ---- text ---- */

static void print_place(const char *record, uint64_t offset)
{
	if (*record)
		printf("%s", record);
	if (offset != CKPT_NO_OFFSET)
		printf("+0x%" PRIx64, offset);
	if (*record || offset != CKPT_NO_OFFSET)
		printf(": ");
}

static int print_file(const struct ckpt_scan_file *f)
{
	char path[4096];

	ckpt_escape(path, sizeof(path), f->path, strlen(f->path));
	if (!quiet || f->verdict > CKPT_SCAN_NEEDS_OBJECTS)
		printf("%s: %s (%s)\n", path, ckpt_scan_verdict_name(f->verdict), f->format);
	else
		return 0;
	for (uint64_t i = 0; i < f->finding_count; i++) {
		const struct ckpt_scan_finding *x = &f->findings[i];

		if (x->verdict == CKPT_SCAN_PLAIN && !verbose)
			continue;
		printf("  %s: ", ckpt_scan_verdict_name(x->verdict));
		print_place(x->record, x->offset);
		printf("%s\n", x->text);
	}
	for (uint64_t i = 0; i < f->global_count; i++) {
		const struct ckpt_scan_global *g = &f->globals[i];

		if (g->kind == CKPT_SCAN_DATA && !verbose)
			continue;
		printf("  imports ");
		print_place(g->where, g->offset);
		printf("%s%s\n", g->name, g->called ? " and calls it" : "");
	}
	return 0;
}

/* ---- JSON ---- */

static void put_globals(FILE *out, const struct ckpt_scan_file *f)
{
	fputs(",\"globals\":[", out);
	for (uint64_t i = 0; i < f->global_count; i++) {
		const struct ckpt_scan_global *g = &f->globals[i];
		json_t *o = json_object();

		json_set_name(o, "name", g->name);
		json_object_set_new(o, "called", json_boolean(g->called));
		json_set_name(o, "where", g->where);
		json_object_set_new(o, "offset", json_u64(g->offset));
		json_object_set_new(o, "kind", json_string(ckpt_scan_kind_name(g->kind)));
		fputs(i ? ",\n" : "\n", out);
		json_put(out, o);
	}
	fputs("]", out);
}

static void put_findings(FILE *out, const struct ckpt_scan_file *f)
{
	fputs(",\"findings\":[", out);
	for (uint64_t i = 0; i < f->finding_count; i++) {
		const struct ckpt_scan_finding *x = &f->findings[i];
		json_t *o = json_object();

		json_object_set_new(o, "verdict", json_string(ckpt_scan_verdict_name(x->verdict)));
		json_object_set_new(o, "kind", json_string(x->kind));
		json_set_name(o, "record", x->record);
		if (x->offset != CKPT_NO_OFFSET)
			json_object_set_new(o, "offset", json_u64(x->offset));
		if (x->path)
			json_set_name(o, "path", x->path);
		json_set_name(o, "text", x->text);
		fputs(i ? ",\n" : "\n", out);
		json_put(out, o);
	}
	fputs("]", out);
}

static int put_file(struct printing *p, const struct ckpt_scan_file *f)
{
	json_t *o = json_object();

	fputs(p->any ? ",\n{\"input\":" : "\n{\"input\":", p->json);
	p->any = true;
	json_set_name(o, "path", f->path);
	json_put(p->json, o);
	fputs(",\"path\":", p->json);
	json_put(p->json, json_string(f->path) ?: json_string("?"));
	fprintf(p->json, ",\"verdict\":\"%s\",\"format\":\"%s\",\"weights_only\":",
		ckpt_scan_verdict_name(f->verdict), f->format);
	o = json_object();
	for (int i = 0; i < CKPT_SCAN_TORCH_COUNT; i++)
		json_object_set_new(o, ckpt_scan_torch_name(i),
				    f->is_torch ? json_boolean(f->weights_only[i]) : json_null());
	json_put(p->json, o);
	put_globals(p->json, f);
	put_findings(p->json, f);
	fputs("}", p->json);
	return 0;
}

static int take_file(void *ctx, const struct ckpt_scan_file *f)
{
	struct printing *p = ctx;

	return p->json ? put_file(p, f) : print_file(f);
}

/* ---- all of them ---- */

static int scan(struct printing *p, const char *path, const struct ckpt_scan_options *options)
{
	struct ckpt_scan_report report = CKPT_SCAN_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc = ckpt_scan(path, options, take_file, p, &report, &err);

	end_progress();
	for (int i = 0; i < 5; i++)
		p->verdicts[i] += report.verdicts[i];
	p->passed_over += report.passed_over;
	if (rc < 0) {
		p->verdicts[CKPT_SCAN_UNREADABLE]++;
		fail(&err);
	}
	return rc;
}

static int code_of(const struct printing *p)
{
	if (p->verdicts[CKPT_SCAN_DANGEROUS] || p->verdicts[CKPT_SCAN_INCONSISTENT] ||
	    (strict && p->verdicts[CKPT_SCAN_NEEDS_OBJECTS]))
		return EXIT_NO;
	return p->verdicts[CKPT_SCAN_UNREADABLE] ? EXIT_ERROR : EXIT_FINE;
}

static void put_counts(const struct printing *p)
{
	fputs("\n],\"counts\":{", p->json);
	for (int i = 0; i < 5; i++)
		fprintf(p->json, "%s\"%s\":%" PRIu64, i ? "," : "", ckpt_scan_verdict_name(i),
			p->verdicts[i]);
	fprintf(p->json, ",\"passed_over\":%" PRIu64 "}}\n", p->passed_over);
}

static int run(int argc, char **argv)
{
	struct ckpt_scan_options options = CKPT_SCAN_OPTIONS_INIT;
	struct printing p = { 0 };
	int first = parse_options(&cmd_scan, argc, argv), code;
	bool cancelled = false;

	if (first < 0)
		return -1 - first;
	options.progress = show_progress;
	options.cancel = catch_signals();
	if (json) {
		p.json = json_open(json);
		if (!p.json)
			return EXIT_ERROR;
		fprintf(p.json, "{\"ckpt_json\":%d,\"command\":\"scan\",\"version\":1,\"files\":[",
			JSON_VERSION);
	}
	for (int i = first; i < argc && !cancelled; i++)
		cancelled = scan(&p, argv[i], &options) == CKPT_E_CANCELLED;
	code = code_of(&p);
	if (p.json) {
		put_counts(&p);
		if (json_close(p.json, !cancelled) != EXIT_FINE)
			code = EXIT_ERROR;
	}
	end_by_signal();
	return finish_output(code);
}
