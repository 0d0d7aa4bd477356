/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt repair': opens with ckpt_repair_open(), saves, and prints what is lost or unproven.
 *
 * What must stay true: that OUT exists is noticed before the input is read, which may take an
 * hour. Of a damaged file, whatever is lost or unproven makes the exit code EXIT_NO, though OUT
 * is written.
 */
#include "command.h"
#include "edit.h"
#include "json.h"
#include "shell_line.h"
#include "whole.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINES = 20 };

static bool proven_only, force, no_sync, dry_run, if_present;
static const char *fill, *json;

static const struct opt opts[] = {
	OPT_STR("fill", 0, &fill, "WHAT",
		"keep lost tensors, filled with zeros or nan (integers: always zeros)"),
	OPT_FLAG("proven-only", 0, &proven_only, "count what no checksum proves as lost"),
	OPT_FLAG("if-present", 0, &if_present,
		 "write a file with nothing to repair as it is, and exit with 0"),
	OPT_OPTIONAL("json", &json, "FILE", "print one JSON document, not text"),
	OPT_FLAG("force", 'f', &force, "replace OUT if it exists"),
	OPT_FLAG("no-sync", 0, &no_sync, "do not wait for the disk, like cp"),
	OPT_FLAG("dry-run", 'n', &dry_run,
		 "say what would be saved, write nothing; without OUT, too"),
	OPT_FLAG("quiet", 'q', &quiet, "print errors only"),
	OPT_FLAG("verbose", 'v', &verbose,
		 "name all that is lost or unproven, not only 20 and one of them"),
	SPOOL_OPT,
	OPT_END
};

static int run_repair(int argc, char **argv);

const struct command cmd_repair = {
	.name = "repair",
	.operands = "IN OUT",
	.summary = "save what a truncated or damaged file still holds as a file that loads",
	.details =
		"IN is a torch.save file that broke off, was overwritten in parts, has lost its\n"
		"directory or has junk in front. repair finds its records by what is around each\n"
		"of them and by the list of tensors. Then it reads every byte and compares it\n"
		"with the checksums that torch wrote. OUT has each tensor that is complete.\n"
		"IN may also be a safetensors file that broke off: OUT is one, too.\n"
		"repair claims nothing that no checksum proves. If the checksum of a tensor was\n"
		"cut off or never recorded (a legacy stream has none), repair calls the tensor\n"
		"unproven, and so does 'ckpt verify OUT'.\n\n"
		"repair leaves lost tensors out of the dicts that they are in. It cannot leave\n"
		"out one that is part of a list or of an object: --fill gives it values. Without\n"
		"the list of tensors (data.pkl, which torch writes first) nothing has a name, and\n"
		"repair cannot save anything.\n\n"
		"Exit status: 0 all tensors are there, and proven; 1 OUT is written, and\n"
		"something is lost or unproven, or there was nothing to repair; 2 nothing could\n"
		"be saved.\n",
	.examples = "  ckpt repair broken.pt saved.pt\n"
		    "  ckpt repair --fill zeros broken.ckpt resume.ckpt\n",
	.opts = opts,
	.least = 1,
	.most = 2,
	.run = run_repair,
};

struct repair_output {
	const char *in;
	FILE *json; /* NULL: text */
	bool any;
	uint64_t seen[4]; /* by kind */
	char *unproven; /* lines that come after those of what is lost; without -v that of the first */
	size_t unproven_size;
	FILE *unproven_out; /* of open_memstream(); NULL: there is none yet */
	struct lost_tensors lost;
	char optimizer
		[256]; /* what holds the first "state" that lost something: "optimizer"; empty: unknown */
	struct shell_line
		drop; /* what leaves the optimizer out of OUT; empty: there is no such line */
};

/* ---- what was found ---- */

static void print_place(const struct ckpt_repair_finding *f, FILE *out)
{
	if (f->record)
		fprintf(out, "%s: ", f->record);
	if (f->offset != CKPT_NO_OFFSET)
		fprintf(out, "+0x%" PRIx64 ": ", f->offset);
}

static void print_finding(const struct repair_output *t, const struct ckpt_repair_finding *f,
			  FILE *out)
{
	static const char *const kinds[] = { "lost", "unproven", "damage", "note" };
	char name[240], size[16];

	fprintf(out, "%s: %s: ", t->in, kinds[f->kind]);
	if (f->name)
		fprintf(out,
			"'%s', %s: ", ckpt_escape(name, sizeof(name), f->name, strlen(f->name)),
			size_phrase(f->nbytes, size));
	print_place(f, out);
	fprintf(out, "%s%s\n", f->text, f->zeros ? "; its dtype has no NaN, it gets zeros" : "");
}

/* What is lost comes first, and of a file without checksums all else is unproven: that is kept for later. */
static void keep_unproven(struct repair_output *t, const struct ckpt_repair_finding *f)
{
	if (t->seen[f->kind]++ && !verbose)
		return;
	if (!t->unproven_out)
		t->unproven_out = open_memstream(&t->unproven, &t->unproven_size);
	if (!t->unproven_out)
		no_memory();
	print_finding(t, f, t->unproven_out);
}

static void note_optimizer(struct repair_output *t, const struct ckpt_repair_finding *f)
{
	const char *end = f->of_optimizer && f->name ? strstr(f->name, ".state.") : NULL;

	if (end && !*t->optimizer && (size_t)(end - f->name) < sizeof(t->optimizer))
		memcpy(t->optimizer, f->name, (size_t)(end - f->name));
}

static int list_finding(void *ctx, const struct ckpt_repair_finding *f)
{
	struct repair_output *t = ctx;

	lost_tensors_add(&t->lost, f);
	note_optimizer(t, f);
	if (f->kind == CKPT_REPAIR_UNPROVEN && !quiet) {
		keep_unproven(t, f);
		return 0;
	}
	if (quiet || (t->seen[f->kind]++ >= MOST_LINES && !verbose))
		return 0;
	print_finding(t, f, stdout);
	return ferror(stdout) ? CKPT_E_IO : 0;
}

static void print_unlisted(struct repair_output *t)
{
	static const char *const kinds[] = { "lost", "unproven", "damaged", "to note" };
	char count[32];

	for (int i = 0; i < 4 && !quiet && !verbose; i++)
		if (i != CKPT_REPAIR_UNPROVEN && t->seen[i] > MOST_LINES)
			printf("%s: and %s more %s (-v)\n", t->in,
			       grouped(t->seen[i] - MOST_LINES, count), kinds[i]);
	if (!t->unproven_out)
		return;
	if (fclose(t->unproven_out) != 0 ||
	    !t->unproven) /* glibc closes without an error and without a text, too */
		no_memory();
	fputs(t->unproven, stdout);
	if (t->seen[CKPT_REPAIR_UNPROVEN] > 1 && !verbose)
		printf("%s: and %s more unproven (-v)\n", t->in,
		       grouped(t->seen[CKPT_REPAIR_UNPROVEN] - 1, count));
	free(t->unproven);
}

static int finding_json(void *ctx, const struct ckpt_repair_finding *f)
{
	static const char *const kinds[] = { "lost", "unproven", "damage", "note" };
	struct repair_output *t = ctx;
	json_t *o = json_object();

	json_object_set_new(o, "kind", json_string(kinds[f->kind]));
	if (f->name) {
		json_set_name(o, "name", f->name);
		json_object_set_new(o, "nbytes", json_u64(f->nbytes));
	}
	if (f->record)
		json_set_name(o, "record", f->record);
	if (f->offset != CKPT_NO_OFFSET)
		json_object_set_new(o, "offset", json_u64(f->offset));
	if (f->filled)
		json_object_set_new(o, "filled", json_string(f->zeros ? "zeros" : fill));
	if (f->of_optimizer)
		json_object_set_new(o, "of_optimizer", json_true());
	json_set_name(o, "text", f->text);
	fputs(t->any ? ",\n" : "\n", t->json);
	json_put(t->json, o);
	t->any = true;
	return ferror(t->json) ? CKPT_E_IO : 0;
}

static bool begin_json(struct repair_output *t, const char *out)
{
	json_t *o = json_object();

	t->json = json_open(json);
	if (!t->json) {
		json_decref(o);
		return false;
	}
	fprintf(t->json, "{\"ckpt_json\":%d,\"command\":\"repair\",\"input\":", JSON_VERSION);
	json_set_name(o, "path", t->in);
	json_put(t->json, o);
	o = json_object();
	if (out)
		json_set_name(o, "path", out);
	fputs(",\"output\":", t->json);
	json_put(t->json, o);
	fputs(",\"findings\":[", t->json);
	return true;
}

static const char *verdict_of(const struct ckpt_repair_report *r)
{
	if (!r->damaged)
		return "sound";
	return r->lost || r->unproven ? "partial" : "repaired";
}

static void end_json(FILE *out, const struct ckpt_repair_report *r,
		     const struct ckpt_save_report *saved, const struct ckpt_error *err)
{
	char text[1200];

	fprintf(out, "],\"verdict\":\"%s\"", err->status ? "error" : verdict_of(r));
	if (err->status) {
		fputs(",\"error\":", out);
		json_put(out, json_string(ckpt_error_format(err, text, sizeof(text))));
	}
	fprintf(out,
		",\"tensors\":%" PRIu64 ",\"proven\":%" PRIu64 ",\"unproven\":%" PRIu64
		",\"lost\":%" PRIu64 ",\"filled\":%" PRIu64 ",\"optimizer_lost\":%" PRIu64
		",\"storages\":%" PRIu64 ",\"proven_nbytes\":%" PRIu64
		",\"unproven_nbytes\":%" PRIu64 ",\"lost_nbytes\":%" PRIu64 ",\"written\":%" PRIu64
		",\"dry_run\":%s}\n",
		r->tensors, r->proven, r->unproven, r->lost, r->filled, r->optimizer_lost,
		r->storages, r->proven_nbytes, r->unproven_nbytes, r->lost_nbytes, saved->written,
		dry_run ? "true" : "false");
}

/* ---- the whole ---- */

static void print_summary(const struct ckpt_repair_report *r, const struct ckpt_save_report *saved,
			  double start)
{
	char one[32], all[32], size[16], time[32];

	printf("%s of %s tensor%s recovered", grouped(r->proven + r->unproven, one),
	       grouped(r->tensors, all), plural(r->tensors));
	if (!r->unproven)
		printf(", all of them proven by their checksums");
	else
		printf(", %s of them unproven", grouped(r->unproven, one));
	printf(" (%s)", size_phrase(sum(r->proven_nbytes, r->unproven_nbytes), size));
	if (r->lost)
		printf(", %s lost (%s)", grouped(r->lost, one), size_phrase(r->lost_nbytes, size));
	if (r->filled)
		printf(", %sfilled with %s", r->filled < r->lost ? "of these some " : "",
		       !strcmp(fill, "zeros") ? "zeros" : "NaN");
	if (r->filled < r->lost)
		printf(", %sleft out", r->filled ? "others " : "");
	if (dry_run)
		printf(", %s would be written (dry run)\n", size_phrase(saved->written, size));
	else
		printf(", %s written in %s\n", size_phrase(saved->written, size),
		       seconds_phrase(seconds() - start, time));
}

/* "ckpt repair -f --fill zeros IN OUT". WRITTEN: this command wrote OUT. */
static void hint_to_fill(const char *before, const char *in, const char *out, bool written)
{
	struct shell_line line = { .len = 0 };

	shell_add(&line,
		  force || written ? "ckpt repair -f --fill zeros" : "ckpt repair --fill zeros");
	if (proven_only)
		shell_add(&line, " --proven-only");
	shell_add_path(&line, in);
	shell_add_path(&line, out ? out : "OUT");
	hint("%s: %s", before, line.text);
}

static int is_there(void *ctx, const struct ckpt_item *item)
{
	(void)item;
	*(bool *)ctx = true;
	return 0;
}

/* OUT has an optimizer that lost some of its state: keep the line that drops it, while the model is open. */
static void make_drop_line(struct repair_output *t, const struct ckpt_model *model, const char *out)
{
	struct ckpt_parts *parts;
	bool any = false;

	if (!out || dry_run || ckpt_parts_new(model, &parts, NULL) < 0)
		return;
	shell_add(&t->drop, "ckpt select -i");
	for (uint64_t i = 0; i < ckpt_part_place_count(parts); i++) {
		struct ckpt_part_place place = CKPT_PART_PLACE_INIT;

		if (ckpt_part_place_get(parts, i, &place) < 0 ||
		    place.part != CKPT_PART_OPTIMIZER || !*place.name)
			continue;
		shell_add(&t->drop, " --drop");
		shell_add_word(&t->drop, place.name);
		any = true;
	}
	ckpt_parts_free(parts);
	if (!any && *t->optimizer && ckpt_find(model, t->optimizer, is_there, &any, NULL) == 0 &&
	    any) {
		shell_add(&t->drop, " --drop"); /* all of its tensors are gone */
		shell_add_word(&t->drop, t->optimizer);
	}
	shell_add_path(&t->drop, out);
	if (!any || t->drop.len >= sizeof(t->drop.text) - 1)
		t->drop.len = 0;
}

static void hint_optimizer(const struct repair_output *t, const char *out)
{
	hint_to_fill("the state of the optimizer is no longer whole; with zeros it keeps its shape",
		     t->in, out, out && !dry_run);
	if (t->drop.len)
		hint("without the optimizer: %s", t->drop.text);
}

static void hint_failed(const struct ckpt_error *err, const struct ckpt_repair_report *r,
			const char *in, const char *out)
{
	struct stat st;

	if (err->status != CKPT_E_UNSUPPORTED)
		return;
	if (stat(in, &st) == 0 && S_ISDIR(st.st_mode))
		hint("'ckpt verify' says which of its files are damaged, 'ckpt reindex' makes the index "
		     "of a DCP directory anew");
	else if (r->lost && !fill)
		hint_to_fill("to give it values", in, out, false);
}

static int save(const struct ckpt_model *model, const char *out, struct ckpt_save_report *saved,
		struct ckpt_error *err)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	int rc;

	if (!out) { /* with --dry-run: nothing is written, and no name looked at */
		options.out_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
		options.flags = CKPT_SAVE_TO_FD;
	}
	options.flags |= (force ? CKPT_SAVE_REPLACE : 0u) | (no_sync ? CKPT_SAVE_NO_SYNC : 0u) |
			 (dry_run ? CKPT_SAVE_DRY_RUN : 0u);
	options.progress = show_progress;
	options.cancel = catch_signals();
	rc = ckpt_save(model, out ? out : "repaired.pt", &options, saved, err);
	end_progress();
	if (!out)
		close(options.out_fd);
	return rc;
}

/* OUT is written as IN is: its name must not say otherwise. */
static int refuse_other_kind(const struct ckpt_model *model, const char *out)
{
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;

	if (!out)
		return EXIT_FINE;
	ckpt_file_get(model, &info);
	if (info.format_code != CKPT_FORMAT_SAFETENSORS)
		return refuse_other_name(out);
	if (ends_with(out, ".safetensors"))
		return EXIT_FINE;
	complain("%s: this writes a safetensors file, and that is the name of another format", out);
	hint("end it in '.safetensors'; 'ckpt convert' makes a torch.save file of that");
	return EXIT_ERROR;
}

static int nothing_to_repair(const char *in)
{
	complain("%s: nothing to repair, nothing was written", in);
	hint(HINT_IF_PRESENT);
	return EXIT_NO;
}

static int open_and_save(struct repair_output *t, const char *out,
			 const struct ckpt_repair_options *options,
			 struct ckpt_repair_report *report, struct ckpt_save_report *saved,
			 struct ckpt_error *err)
{
	double start = seconds();
	char text[700];
	struct ckpt_model *model;
	int rc = ckpt_repair_open(t->in, options, t->json ? finding_json : list_finding, t, &model,
				  report, err);

	end_progress();
	if (!t->json)
		print_unlisted(t);
	if (rc < 0) {
		rc = fail(err);
		hint_failed(err, report, t->in, out);
		return rc;
	}
	if (!report->damaged && !if_present) {
		ckpt_close(model);
		return nothing_to_repair(t->in);
	}
	rc = refuse_other_kind(model, out);
	if (rc != EXIT_FINE) {
		ckpt_close(model);
		return rc;
	}
	rc = save(model, out, saved, err);
	if (rc == 0 && report->optimizer_lost && !quiet)
		make_drop_line(t, model, out);
	ckpt_close(model);
	if (rc < 0)
		return save_failed(err, force);
	if (!quiet && !t->json) {
		print_summary(report, saved, start);
		t->lost.named = 0; /* they are listed above */
		if (report->lost)
			printf("%s: %s\n", t->in, whole_text(report, &t->lost, text, sizeof(text)));
	}
	fflush(stdout); /* before what follows on the other stream */
	if (report->optimizer_lost && !quiet)
		hint_optimizer(t, out);
	return report->damaged && (report->lost || report->unproven) ? EXIT_NO : EXIT_FINE;
}

static int repair(const char *in, const char *out, const struct ckpt_repair_options *options)
{
	struct ckpt_repair_report report = CKPT_REPAIR_REPORT_INIT;
	struct ckpt_save_report saved = CKPT_SAVE_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct repair_output t = { .in = in };
	int code;

	if (json && !begin_json(&t, out))
		return EXIT_ERROR;
	code = open_and_save(&t, out, options, &report, &saved, &err);
	if (t.json) {
		end_json(t.json, &report, &saved, &err);
		if (json_close(t.json, err.status != CKPT_E_CANCELLED) != EXIT_FINE)
			code = EXIT_ERROR;
	}
	if (err.status)
		end_by_signal();
	return finish_output(code);
}

/* Check this before everything is read. */
static int refuse_existing(const char *out)
{
	struct stat st;

	if (force || lstat(out, &st) < 0)
		return EXIT_FINE;
	complain("%s: the output exists already", out);
	hint("-f replaces it");
	return EXIT_ERROR;
}

static int run_repair(int argc, char **argv)
{
	struct ckpt_repair_options options = CKPT_REPAIR_OPTIONS_INIT;
	int first = parse_options(&cmd_repair, argc, argv), code;
	const char *out;

	if (first < 0)
		return -1 - first;
	if (fill && strcmp(fill, "zeros") != 0 && strcmp(fill, "nan") != 0)
		return wrong_usage(&cmd_repair, "repair: --fill %.40s: wanted 'zeros' or 'nan'",
				   fill);
	out = first + 1 < argc ? argv[first + 1] : NULL;
	if (!out && !dry_run)
		return wrong_usage(&cmd_repair, "repair: too few operands, wanted IN OUT");
	code = refuse_names(argv[first], out ? out : "OUT");
	if (code == EXIT_FINE && out)
		code = refuse_folder_name(out);
	if (code == EXIT_FINE && out)
		code = refuse_existing(out);
	if (code != EXIT_FINE)
		return code;
	options.fill = !fill			? CKPT_FILL_NOTHING
		       : !strcmp(fill, "zeros") ? CKPT_FILL_ZEROS
						: CKPT_FILL_NAN;
	options.flags = proven_only ? CKPT_REPAIR_PROVEN_ONLY : 0u;
	options.progress = show_progress;
	options.cancel = catch_signals();
	return repair(argv[first], out, &options);
}
