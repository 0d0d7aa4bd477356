/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt why': causes of a failed load, from the file, from the message, or from both
 * (ckpt_why()).
 *
 * What must stay true: of the message on standard input no more is kept than the library takes
 * (CKPT_WHY_MOST_ERROR); it may be a log without end.
 */
#include "command.h"
#include "json.h"
#include "many_files.h"
#include "pipes.h"
#include "terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *json, *error_text;

static const struct opt opts[] = {
	OPT_STR("error", 'e', &error_text, "TEXT",
		"explain the printed error: TEXT, '-' for standard input, or '@FILE'"),
	OPT_OPTIONAL("json", &json, "FILE", "print one JSON document, not text"),
	JOBS_OPT,
	COLOR_OPT,
	OPT_FLAG("quiet", 'q', &quiet, "print only the causes"),
	OPT_FLAG("verbose", 'v', &verbose,
		 "print all about each of several IN, and what is no checkpoint"),
	SPOOL_OPT,
	OPT_END
};

static int run_why(int argc, char **argv);

const struct command cmd_why = {
	.name = "why",
	.operands = "[IN...]",
	.summary = "explain why a file does not load, and print the command that fixes it",
	.details =
		"IN is a file, or a directory of shards. Alone, why looks in it for whatever\n"
		"makes a load fail, the most likely first: cut off, a web page, another format,\n"
		"prefixes of wrappers, devices, objects that weights_only refuses, and so on.\n"
		"With --error, why recognizes the message (or the whole traceback) that torch,\n"
		"transformers, Lightning or DCP printed, and compares it with the names, shapes\n"
		"and devices in IN. Without IN it explains the message in general.\n\n"
		"'cause' is what the file itself shows. 'likely' is what the message says.\n"
		"'possible' is what goes wrong if the machine, the torch or the model is not the\n"
		"one that saved it. 'large' is no cause: it is what makes the file much larger\n"
		"than the model in it. Paste a line after 'mend:' into a shell: it writes a new file\n"
		"beside IN. Above 1 GiB, why reads only metadata; 'ckpt verify' reads the bytes.\n\n"
		"Of several IN, why prints one line each, with the first cause; with -v all.\n" MANY_FILES
		"\n"
		"Exit status: 0 it found a cause; 1 it found none; 2 IN cannot be read. Of\n"
		"several IN: 1 if it found none for one, else 2 if one cannot be read.\n",
	.examples =
		"  ckpt why model.pt\n"
		"  ckpt why model.pt --error 'Missing key(s) in state_dict: \"conv.weight\" ...'\n"
		"  ./train.py 2>&1 | ckpt why run/last.ckpt --error -\n",
	.opts = opts,
	.least = 0,
	.most = -1,
	.run = run_why,
};

/* ---- the error ---- */

struct text {
	char *bytes; /* malloc */
	size_t len;
};

/* Read the whole stream, but no more than the library takes. */
static bool read_stream(FILE *in, struct text *out)
{
	size_t cap = 1 << 16;

	*out = (struct text){ malloc(cap), 0 };
	while (out->bytes) {
		char *grown;

		out->len += fread(out->bytes + out->len, 1, cap - out->len, in);
		if (out->len < cap)
			return !ferror(in);
		if (out->len > CKPT_WHY_MOST_ERROR)
			return true;
		cap *= 2;
		grown = realloc(out->bytes, cap);
		if (!grown)
			free(out->bytes);
		out->bytes = grown;
	}
	errno = ENOMEM;
	return false;
}

static int read_error(struct text *out)
{
	bool named = error_text[0] == '@' && error_text[1];
	const char *what = named ? error_text + 1 : "standard input";
	FILE *in = stdin;
	bool ok;

	if (strcmp(error_text, "-") != 0 && !named) {
		*out = (struct text){ strdup(error_text), strlen(error_text) };
		return out->bytes ? EXIT_FINE : EXIT_ERROR;
	}
	if (named)
		in = fopen(what, "rb");
	ok = in && read_stream(in, out);
	if (!ok)
		complain("%s: cannot read the error: %s", what, errno_text(errno));
	if (in && named)
		fclose(in);
	return ok ? EXIT_FINE : EXIT_ERROR;
}

/* ---- text ---- */

struct why_output {
	FILE *json;
	json_t *large; /* what makes a file large comes after the causes */
	bool any;
	unsigned count;
};

static const char *const certainties[] = { "cause", "likely", "possible", "large" };

static const char *color_of(const struct ckpt_cause *c)
{
	return c->certainty == CKPT_CAUSE_CERTAIN ? red() : yellow();
}

static int print_cause(void *ctx, const struct ckpt_cause *c)
{
	static const char *const labels[] = { "mend:", "in Python:", "advice:" };
	struct why_output *p = ctx;

	if (one_of_many && !verbose && c->certainty == CKPT_CAUSE_LARGE)
		return 0;
	p->count++;
	if (one_of_many && !verbose) {
		if (p->count == 1)
			printf("%s%s:%s %s", color_of(c), certainties[c->certainty], plain(), c->text);
		return 0;
	}
	printf("%s%s%s:%s %s\n", p->any && !one_of_many ? "\n" : "", color_of(c), certainties[c->certainty],
	       plain(), c->text);
	for (size_t i = 0; i < c->fact_count; i++)
		printf("  found:     %s\n", c->facts[i]);
	for (size_t i = 0; i < c->mend_count; i++)
		printf("  %s%-10s%s %s\n", green(), labels[c->mends[i].kind], plain(), c->mends[i].text);
	p->any = true;
	return ferror(stdout) ? CKPT_E_IO : 0;
}

/* ---- JSON ---- */

static json_t *facts_json(const struct ckpt_cause *c)
{
	json_t *list = json_array();

	for (size_t i = 0; i < c->fact_count; i++)
		json_array_append_new(list, json_string(c->facts[i]));
	return list;
}

static json_t *mends_json(const struct ckpt_cause *c)
{
	static const char *const kinds[] = { "command", "python", "advice" };
	json_t *list = json_array();

	for (size_t i = 0; i < c->mend_count; i++) {
		json_t *mend = json_object();

		json_object_set_new(mend, "kind", json_string(kinds[c->mends[i].kind]));
		json_set_name(mend, "text", c->mends[i].text);
		json_array_append_new(list, mend);
	}
	return list;
}

static int cause_json(void *ctx, const struct ckpt_cause *c)
{
	static const char *const names[] = { "certain", "likely", "possible", "large" };
	struct why_output *p = ctx;
	json_t *o = json_object();

	json_object_set_new(o, "id", json_string(c->id));
	json_object_set_new(o, "certainty", json_string(names[c->certainty]));
	json_set_name(o, "text", c->text);
	json_object_set_new(o, "found", facts_json(c));
	json_object_set_new(o, "mends", mends_json(c));
	if (c->certainty == CKPT_CAUSE_LARGE) {
		json_array_append_new(p->large, o);
		return 0;
	}
	fputs(p->any ? ",\n" : "\n", p->json);
	json_put(p->json, o);
	p->any = true;
	return 0;
}

static void begin_json(FILE *out, const char *path)
{
	fprintf(out, "{\"ckpt_json\":%d,\"command\":\"why\",", JSON_VERSION);
	if (path) {
		json_t *name = json_object();

		json_set_name(name, "path", path);
		fputs("\"input\":", out);
		json_put(out, name);
		fputc(',', out);
	}
	fputs("\"causes\":[", out);
}

static void end_json(struct why_output *p, const struct ckpt_why_report *r)
{
	fprintf(p->json, "\n],\"count\":%u,\"messages\":%u,\"opened\":%s,\"large\":[", r->causes, r->messages,
		r->opened ? "true" : "false");
	for (size_t i = 0; i < json_array_size(p->large); i++) {
		fputs(i ? ",\n" : "\n", p->json);
		json_put(p->json, json_incref(json_array_get(p->large, i)));
	}
	fputs(json_array_size(p->large) ? "\n]}\n" : "]}\n", p->json);
	json_decref(p->large);
}

/* ---- all of it ---- */

/* Nothing was found: print what was examined. */
static void print_nothing_found(const char *path, const struct ckpt_why_report *r)
{
	if (quiet)
		return;
	if (one_of_many && !verbose) {
		printf("nothing keeps it from loading\n");
		return;
	}
	if (error_text && !r->messages)
		printf("the message is none that is known%s", path ? ", and " : "\n");
	else if (error_text)
		printf("what the message says is not to be seen in the file, and ");
	if (!path)
		return;
	printf("nothing in %s keeps it from loading: its form, its end, records and references, devices, what "
	       "weights_only allows, names and versions were looked at, and not whether the bytes have their checksums\n",
	       path);
	hint("'ckpt verify %s' reads the bytes, too%s", path,
	     error_text ? "" : "; --error TEXT explains what was printed");
}

static void print_unknown_message(const struct ckpt_why_report *r)
{
	if (error_text && !r->messages && r->causes && !quiet)
		complain("the message is none that is known; this is what the file shows:");
}

static int why_file(const char *path, void *ctx)
{
	struct ckpt_why_options *options = ctx;
	struct ckpt_why_report report = CKPT_WHY_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct why_output p = { 0 };
	int code, rc;

	if (json) {
		p.json = json_open(json);
		if (!p.json)
			return EXIT_ERROR;
		p.large = json_array();
		begin_json(p.json, path);
	}
	rc = ckpt_why(path, options, p.json ? cause_json : print_cause, &p, &report, &err);
	if (!p.json && p.count && one_of_many && !verbose)
		printf(p.count > 1 ? "; and %u more (-v)\n" : "\n", p.count - 1);
	if (rc < 0)
		code = fail(&err);
	else
		code = report.causes ? EXIT_FINE : EXIT_NO;
	if (p.json) {
		end_json(&p, &report);
		rc = json_close(p.json, rc == 0);
		code = rc == EXIT_FINE ? code : rc;
		return code;
	}
	if (rc == 0 && p.any && !report.causes && !one_of_many && !quiet)
		putchar('\n');
	if (rc == 0 && !report.causes)
		print_nothing_found(one_of_many ? one_of_many->shown : path, &report);
	else if (rc == 0)
		print_unknown_message(&report);
	return finish_output(code);
}

static int run_why(int argc, char **argv)
{
	struct ckpt_why_options options = CKPT_WHY_OPTIONS_INIT;
	const struct many_files many = {
		.cmd = &cmd_why,
		.one = why_file,
		.ctx = &options,
		.words = { "explained", "without a cause" },
		.json = &json,
	};
	struct text error = { 0 };
	int first = parse_options(&cmd_why, argc, argv), code = EXIT_FINE;

	if (first < 0)
		return -1 - first;
	if (first == argc && !error_text)
		return wrong_usage(&cmd_why, "why: wanted IN, --error TEXT, or both");
	if (error_text && !strcmp(error_text, "-") && is_standard_input_taken())
		return wrong_usage(&cmd_why, "why: IN and --error are both standard input");
	if (error_text)
		code = read_error(&error);
	options.error = error.bytes;
	options.error_len = error.len;
	if (code == EXIT_FINE)
		code = first < argc ? run_many(&many, argv + first, (size_t)(argc - first))
				    : why_file(NULL, &options);
	free(error.bytes);
	return code;
}
