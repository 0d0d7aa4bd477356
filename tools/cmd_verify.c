/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt verify': findings and a verdict for each input, as text or as one document.
 *
 * What must stay true: a file that records no checksums is never "sound", but by a SHA-256 that is
 * given here. That nobody can tell is EXIT_ERROR; but a safetensors file, which never has any, is
 * EXIT_FINE where its tensors fill it, and says what that does not tell.
 */
#include "command.h"
#include "json.h"
#include "many_files.h"
#include "shell_line.h"
#include "whole.h"
#include "terminal.h"

#include <inttypes.h>
#include <string.h>

static bool quick, check_finite, require_checksums;
static const char *json, *sha256, *sha256sums;

static const struct opt opts[] = {
	OPT_FLAG("quick", 0, &quick, "check only the metadata; do not read the bytes of tensors"),
	OPT_FLAG("check-finite", 0, &check_finite, "count NaN and infinity in tensors as wrong"),
	OPT_FLAG("require-checksums", 0, &require_checksums, "do not take safetensors as complete: exit with 2"),
	OPT_STR("sha256", 0, &sha256, "HEX", "compare the SHA-256 of the file, too"),
	OPT_STR("sha256sums", 0, &sha256sums, "FILE", "compare all files with what sha256sum wrote to FILE"),
	OPT_OPTIONAL("json", &json, "FILE", "print one JSON document, not text"),
	JOBS_OPT,
	COLOR_OPT,
	OPT_FLAG("quiet", 'q', &quiet, "print nothing about what is sound"),
	OPT_FLAG("verbose", 'v', &verbose,
		 "also print what is unusual but harmless, and what is no checkpoint"),
	SPOOL_OPT,
	OPT_END
};

static int run_verify(int argc, char **argv);

const struct command cmd_verify = {
	.name = "verify",
	.operands = "IN [IN...]",
	.summary = "check that a file is as it was written: every checksum, size and reference",
	.details =
		"torch records a checksum for every tensor and never looks at it. verify does, as\n"
		"fast as it can read the file. It also checks whatever else can be checked: the\n"
		"directory against the records, each byte between them, sizes against the pickle,\n"
		"and references both ways; in a DCP directory, every item, and the index against\n"
		"the items.\n\n"
		"A safetensors file has no checksums. If its tensors fill it to the last byte,\n"
		"it is complete; whether its bytes are as they were written, nothing tells.\n"
		"A SHA-256 that you have from elsewhere tells it, for every format: --sha256 for\n"
		"one file, --sha256sums for a directory, each file of which has to be in FILE.\n"
		"Names in FILE begin in the folder that FILE is in.\n" MANY_FILES "\n"
		"Exit status: 0 sound, or complete; 1 damaged (or not finite); 2 cannot tell: IN\n"
		"has no checksums (a legacy stream, a file saved without them), or cannot be\n"
		"read. Of several IN: 1 if one is damaged, else 2 if of one it cannot tell.\n",
	.examples = "  ckpt verify model.pt && ./train --resume model.pt\n"
		    "  ckpt verify --sha256sums hub/SHA256SUMS hub\n"
		    "  ckpt verify --jobs 4 runs/\n"
		    "  ckpt verify --quick run/step-*\n",
	.opts = opts,
	.least = 1,
	.most = -1,
	.run = run_verify,
};

enum { MOST_NAMED = 16 }; /* each opens the file again */

struct verify_output {
	const char *path; /* as it is printed */
	FILE *json;
	bool any;
	bool in_part; /* what is whole of it can be saved */
	bool listed;  /* ... for the list of tensors is whole */
	unsigned named; /* findings of which the tensors were named */
};

static const char SOUND[] = "sound", DAMAGED[] = "damaged", NOT_FINITE[] = "not finite",
		  CANNOT_TELL[] = "cannot tell", COMPLETE[] = "complete";

/* ---- text ---- */

/* Print " (in 'a.weight')": the tensors in RECORD, ".../data/KEY" of the file PATH, if they can be listed. */
static void print_tensors_in(const char *path, const char *record)
{
	enum { MOST_SHOWN = 3 };
	const char *key = strrchr(record, '/');
	struct ckpt_model *model;
	uint64_t count, found = 0;

	if (!key || key - record < 5 || strncmp(key - 5, "/data", 5) != 0 || ckpt_open(path, &model, NULL) < 0)
		return;
	count = ckpt_tensor_count(model);
	for (uint64_t i = 0; i < count; i++) {
		struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;
		struct ckpt_storage_info s = CKPT_STORAGE_INFO_INIT;
		char shown[160];

		if (ckpt_tensor_get(model, i, &t) < 0 || t.storage < 0 ||
		    ckpt_storage_get(model, (uint64_t)t.storage, &s, NULL) < 0 || !s.key || strcmp(s.key, key + 1) != 0)
			continue;
		if (found++ < MOST_SHOWN)
			printf("%s'%s'", found > 1 ? ", " : " (in ", ckpt_escape(shown, sizeof(shown), t.name, strlen(t.name)));
	}
	if (found > MOST_SHOWN)
		printf(" and %" PRIu64 " more", found - MOST_SHOWN);
	if (found)
		printf(")");
	ckpt_close(model);
}

static int print_finding(void *ctx, const struct ckpt_finding *f)
{
	struct verify_output *p = ctx;

	p->in_part |= !f->file && (f->reason == CKPT_REASON_TRUNCATED || f->reason == CKPT_REASON_STORAGES_MISSING ||
				   f->reason == CKPT_REASON_ZIP_DIRECTORY);
	p->listed |= !f->file && f->reason == CKPT_REASON_STORAGES_MISSING;
	if (f->kind == CKPT_FINDING_ODD && !verbose)
		return 0;
	printf("%s", p->path);
	if (f->file)
		printf("/%s", f->file);
	if (f->record)
		printf(": %s", f->record);
	if (f->offset != CKPT_NO_OFFSET)
		printf(": +0x%" PRIx64, f->offset);
	printf(": %s", f->text);
	if (f->kind == CKPT_FINDING_DAMAGE && f->record && !f->file && p->named++ < MOST_NAMED)
		print_tensors_in(p->path, f->record);
	return printf("\n") < 0 ? CKPT_E_IO : 0;
}

static int add_lost(void *ctx, const struct ckpt_repair_finding *f)
{
	lost_tensors_add(ctx, f);
	return 0;
}

/* Of a file that broke off: what 'ckpt repair' would save of the model. False: that cannot be told. */
static bool print_what_is_whole(const char *path, const volatile int *cancel)
{
	struct ckpt_repair_options options = CKPT_REPAIR_OPTIONS_INIT;
	struct ckpt_repair_report report = CKPT_REPAIR_REPORT_INIT;
	struct lost_tensors lost = { .count = 0 };
	struct ckpt_model *model = NULL;
	char text[700];
	int rc;

	options.progress = show_progress;
	options.cancel = cancel;
	rc = ckpt_repair_open(path, &options, add_lost, &lost, &model, &report, NULL);
	end_progress();
	ckpt_close(model);
	/* what is part of a list cannot be left out, but is counted */
	if (rc < 0 && !(rc == CKPT_E_UNSUPPORTED && report.tensors))
		return false;
	printf("%s\n", whole_text(&report, &lost, text, sizeof(text)));
	return true;
}

static void print_counts(const struct verify_output *p, const char *path, const volatile int *cancel,
			 const struct ckpt_verify_report *r)
{
	char size[16], count[32];

	if (p->in_part && !quick && !r->tensors && print_what_is_whole(path, cancel))
		return;
	if (!r->tensors && p->listed)
		printf("'ckpt repair -n' tells which tensors are whole");
	else if (!r->tensors && r->findings[CKPT_FINDING_DAMAGE])
		printf("no tensors can be listed");
	else
		printf("%s tensor%s", grouped(r->tensors, count), plural(r->tensors));
	if (r->verdict == CKPT_VERDICT_COMPLETE && r->files > 1)
		printf(" fill %s files to their last byte; no checksums", grouped(r->files, count));
	else if (r->verdict == CKPT_VERDICT_COMPLETE)
		printf(" fill%s the file to its last byte; no checksums", r->tensors == 1 ? "s" : "");
	else if (quick)
		printf(", only metadata were looked at");
	else if (r->checked)
		printf(", the checksums of %s record%s with %s are right",
		       grouped(r->checked, count), plural(r->checked), size_phrase(r->bytes, size));
	if (r->sha256 && r->verdict == CKPT_VERDICT_SOUND)
		printf(", the SHA-256 of %s file%s %s right", grouped(r->sha256, count), plural(r->sha256), r->sha256 == 1 ? "is" : "are");
	if (r->findings[CKPT_FINDING_ODD] && !verbose)
		printf("; %s thing%s unusual but harmless (-v)", grouped(r->findings[CKPT_FINDING_ODD], count),
		       r->findings[CKPT_FINDING_ODD] == 1 ? " is" : "s are");
	printf("\n");
}

static void print_verdict(const struct verify_output *p, const char *path, const volatile int *cancel,
			  const struct ckpt_verify_report *r)
{
	static const char *const verdicts[] = { "sound", "DAMAGED", "cannot tell", "complete" };
	uint64_t wrong = r->findings[CKPT_FINDING_DAMAGE];
	char count[32];

	if (quiet && (r->verdict == CKPT_VERDICT_SOUND || r->verdict == CKPT_VERDICT_COMPLETE))
		return;
	printf("%s: ", p->path);
	if (wrong)
		printf("%s%s%s, %s finding%s; ", red(), verdicts[r->verdict], plain(), grouped(wrong, count),
		       plural(wrong));
	else if (r->findings[CKPT_FINDING_NOT_FINITE])
		printf("%sNOT FINITE%s: ", red(), plain());
	else
		printf("%s%s%s%s%s: ", r->verdict == CKPT_VERDICT_DAMAGED ? red() : r->verdict == CKPT_VERDICT_UNPROVEN ? yellow() : green(),
		       verdicts[r->verdict], plain(),
		       r->verdict == CKPT_VERDICT_SOUND && r->indexes
			       ? " but for its index, which has no checksum"
			       : "",
		       r->verdict == CKPT_VERDICT_SOUND && quick ? ", as far as --quick looks"
								 : "");
	print_counts(p, path, cancel, r);
}

/* ---- JSON ---- */

static int finding_json(void *ctx, const struct ckpt_finding *f)
{
	static const char *const kinds[] = { "damage", "not_finite", "unproven", "odd" };
	struct verify_output *p = ctx;
	json_t *o = json_object();

	json_object_set_new(o, "kind", json_string(kinds[f->kind]));
	if (f->file)
		json_set_name(o, "file", f->file);
	if (f->record)
		json_set_name(o, "record", f->record);
	if (f->offset != CKPT_NO_OFFSET)
		json_object_set_new(o, "offset", json_u64(f->offset));
	json_set_name(o, "text", f->text);
	fputs(p->any ? ",\n" : "\n", p->json);
	json_put(p->json, o);
	p->any = true;
	return 0;
}

static void begin_json(FILE *out, const char *path)
{
	json_t *name = json_object();

	json_set_name(name, "path", path);
	fputs("{\"input\":", out);
	json_put(out, name);
	fputs(",\"findings\":[", out);
}

static void end_json(FILE *out, int rc, const struct ckpt_verify_report *r,
		     const struct ckpt_error *err)
{
	static const char *const verdicts[] = { "sound", "damaged", "unproven", "complete" };
	char text[1200];

	fputs("]", out);
	if (rc < 0) {
		fputs(",\"verdict\":\"error\",\"error\":", out);
		json_put(out, json_string(ckpt_error_format(err, text, sizeof(text))));
	} else {
		fprintf(out,
			",\"verdict\":\"%s\",\"tensors\":%" PRIu64 ",\"files\":%" PRIu64
			",\"records\":%" PRIu64 ",\"checked\":%" PRIu64
			",\"checked_nbytes\":%" PRIu64 ",\"indexes\":%" PRIu64 ",\"quick\":%s,\"sha256\":%" PRIu64,
			verdicts[r->verdict], r->tensors, r->files, r->records, r->checked,
			r->bytes, r->indexes, quick ? "true" : "false", r->sha256);
	}
	fputs("}", out);
}

/* ---- one of them, or all ---- */

static const char *word_of(const struct ckpt_verify_report *r)
{
	if (r->findings[CKPT_FINDING_DAMAGE])
		return DAMAGED;
	if (r->findings[CKPT_FINDING_NOT_FINITE])
		return NOT_FINITE;
	if (r->verdict == CKPT_VERDICT_COMPLETE)
		return COMPLETE;
	return r->verdict == CKPT_VERDICT_SOUND ? SOUND : CANNOT_TELL;
}

static void hint_to_save(const char *path)
{
	struct shell_line name = { .len = 0 };

	fflush(stdout); /* what was found comes first */
	shell_add_path(&name, path);
	hint("to save what is whole: ckpt repair%s OUT", name.text);
}

static int verify(struct verify_output *p, const char *path,
		  const struct ckpt_verify_options *options)
{
	static const int codes[] = { EXIT_FINE, EXIT_NO, EXIT_ERROR, EXIT_FINE }; /* by verdict */
	struct ckpt_verify_report report = CKPT_VERIFY_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	if (p->json)
		begin_json(p->json, path);
	rc = ckpt_verify(path, options, p->json ? finding_json : print_finding, p, &report, &err);
	end_progress();
	if (p->json)
		end_json(p->json, rc, &report, &err);
	else if (rc == 0)
		print_verdict(p, path, options->cancel, &report);
	if (rc == 0 && one_of_many)
		one_of_many->word = word_of(&report);
	if (rc < 0)
		return fail(&err);
	if (p->in_part && !one_of_many && !quiet)
		hint_to_save(path);
	return codes[report.verdict];
}

/* Of many the documents are put together by run_many(). */
static int verify_file(const char *path, void *ctx)
{
	struct ckpt_verify_options *options = ctx;
	struct verify_output p = { .path = one_of_many ? one_of_many->shown : path };
	int code;

	options->cancel = catch_signals();
	if (json) {
		p.json = json_open(json);
		if (!p.json)
			return EXIT_ERROR;
		if (!one_of_many)
			fprintf(p.json, "{\"ckpt_json\":%d,\"command\":\"verify\",\"inputs\":[\n",
				JSON_VERSION);
	}
	code = verify(&p, path, options);
	if (p.json) {
		if (!one_of_many)
			fputs("\n]}\n", p.json);
		if (json_close(p.json, !*options->cancel) != EXIT_FINE)
			code = EXIT_ERROR;
	}
	end_by_signal();
	return finish_output(code);
}

static int run_verify(int argc, char **argv)
{
	int first = parse_options(&cmd_verify, argc, argv);
	struct ckpt_verify_options options = CKPT_VERIFY_OPTIONS_INIT;
	const struct many_files many = {
		.cmd = &cmd_verify,
		.one = verify_file,
		.ctx = &options,
		.words = { SOUND, DAMAGED, NOT_FINITE, CANNOT_TELL, COMPLETE },
		.json = &json,
		.bare_entries = true,
		.one_alone = sha256 ? "one SHA-256 is that of one file: --sha256sums takes those "
				      "of several"
				    : NULL,
	};

	if (first < 0)
		return -1 - first;
	options.flags = (quick ? CKPT_VERIFY_QUICK : 0u) | (check_finite ? CKPT_VERIFY_FINITE : 0u) | (require_checksums ? CKPT_VERIFY_REQUIRE_CHECKSUMS : 0u);
	options.sha256 = sha256;
	options.sha256sums = sha256sums;
	if (quick && check_finite)
		return wrong_usage(&cmd_verify,
				   "verify: --check-finite reads what --quick leaves out");
	if (quick && (sha256 || sha256sums))
		return wrong_usage(&cmd_verify, "verify: --sha256 reads what --quick leaves out");
	options.progress = show_progress;
	return run_many(&many, argv + first, (size_t)(argc - first));
}
