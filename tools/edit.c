/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all commands that edit share: open IN, apply the steps, write once, print one summary. The
 * steps themselves are in the cmd_*.c that have a struct edit_kind.
 *
 * Relies on edits being lazy (include/ckpt/edit.h): a step makes a new model and reads no tensor
 * bytes, so every failure before the save leaves the disk as it was.
 *
 * What must stay true: where a step changes nothing, nothing is written and the exit code is
 * EXIT_NO, unless --if-present allows it. OUT is what its name says (out_kind.h). After
 * --ignore-damage a success is EXIT_NO if anything was damaged (answer_is_no()).
 */
#include "edit.h"
#include "json.h"
#include "out_kind.h"
#include "pipes.h"
#include "plain_model.h"
#include "shell_line.h"
#include "with_config.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char EDITED[] = "edited", WOULD_BE_EDITED[] = "would be edited",
		  UNCHANGED[] = "unchanged";

/* What ckpt_save() is to write, from check_output() for save(). */
static const char *out_format;
static bool out_is_folder; /* around one file */

int refuse_names(const char *in, const char *out)
{
	if (!strcmp(in, "-") || !strcmp(out, "-")) {
		complain("%s",
			 !strcmp(in, "-")
				 ? "this command does not read from standard input"
				 : "this command does not write to standard output");
		return EXIT_USAGE;
	}
	if (*in && *out)
		return EXIT_FINE;
	complain("'' is no name of a file");
	return EXIT_ERROR;
}

int refuse_folder_name(const char *out)
{
	struct stat st;

	if (!ends_with(out, "/") || stat(out, &st) == 0)
		return EXIT_FINE;
	complain("%s: the output is named like a folder, wanted a file name", out);
	return EXIT_ERROR;
}

int refuse_other_name(const char *out)
{
	if (!ends_with(out, ".safetensors"))
		return EXIT_FINE;
	complain("%s: this writes a torch.save file, and that is the name of another format", out);
	hint("'ckpt convert' writes safetensors, of all that can be read");
	return EXIT_ERROR;
}

void hint_repair(const char *in, const struct ckpt_error *err)
{
	struct shell_line name = { .len = 0 };
	struct stat st;

	if (err->status != CKPT_E_FORMAT || (err->reason != CKPT_REASON_STORAGES_MISSING &&
					     err->reason != CKPT_REASON_ZIP_DIRECTORY))
		return;
	/* of a directory, the file in it that is damaged; repair takes no pipe */
	if (!strcmp(in, "/dev/stdin"))
		in = "FILE";
	shell_add_path(&name, *err->path && stat(in, &st) == 0 && S_ISDIR(st.st_mode) ? err->path : in);
	hint("to save what is whole: ckpt repair%s OUT", name.text);
}

bool ignore_damage, check_overflow;
const char *edit_input;

static int print_damage(void *ctx, const struct ckpt_finding *f)
{
	const char *in = ctx;

	if (f->kind == CKPT_FINDING_DAMAGE)
		complain("%s%s%s: %s%s%s; taken as it is", in, f->file ? "/" : "",
			 f->file ? f->file : "", f->record ? f->record : "", f->record ? ": " : "",
			 f->text);
	return 0;
}

/* Print the damage that --ignore-damage lets through, and make a success EXIT_NO. */
static bool report_damage(const char *in, int *code)
{
	struct ckpt_verify_report report = CKPT_VERIFY_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;

	if (ckpt_verify(in, NULL, print_damage, (void *)in, &report, &err) < 0) {
		*code = fail(&err);
		return false;
	}
	if (report.verdict == CKPT_VERDICT_DAMAGED)
		answer_is_no();
	return true;
}

bool open_model(const char *in, struct ckpt_model **out, int *code)
{
	return open_model_with(in, 0, out, code);
}

bool open_model_with(const char *in, unsigned flags, struct ckpt_model **out, int *code)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	*code = refuse_names(in, "OUT");
	if (*code != EXIT_FINE)
		return false;
	if (ckpt_open_with(in, flags, out, &err) == 0) {
		if (!ignore_damage)
			return true;
		ckpt_ignore_checksums(*out);
		if (report_damage(in, code))
			return true;
		ckpt_close(*out);
		return false;
	}
	*code = fail(&err);
	hint_repair(in, &err);
	return false;
}

/* The answer to --check-overflow. */
static int refuse_losses(void)
{
	hint("nothing was written; without --check-overflow it is");
	return EXIT_NO;
}

bool is_like_input(const struct ckpt_model *model, const char *out)
{
	struct ckpt_model *there;
	uint64_t count = ckpt_tensor_count(model);
	bool alike;

	if (is_stream(out) || access(out, R_OK) < 0 || ckpt_open(out, &there, NULL) < 0)
		return false;
	alike = count && ckpt_tensor_count(there) == count;
	for (uint64_t i = 0; alike && i < count; i++) {
		struct ckpt_tensor_info a = CKPT_TENSOR_INFO_INIT, b = CKPT_TENSOR_INFO_INIT;

		alike = ckpt_tensor_get(model, i, &a) == 0 && ckpt_tensor_get(there, i, &b) == 0 &&
			!strcmp(a.name, b.name);
	}
	ckpt_close(there);
	return alike;
}

static bool are_alike(const char *in, const char *out)
{
	struct ckpt_model *model;
	bool alike;

	if (is_stream(in) || ckpt_open(in, &model, NULL) < 0)
		return false;
	alike = is_like_input(model, out);
	ckpt_close(model);
	return alike;
}

int save_failed(const struct ckpt_error *err, bool force)
{
	int code = fail(err);

	if (err->reason == CKPT_REASON_CAST_LOSES)
		code = refuse_losses();
	if (err->status == CKPT_E_EXISTS && !force)
		hint("-f replaces it");
	if (err->status == CKPT_E_DAMAGED)
		hint("'ckpt verify' says what is damaged; --ignore-damage writes it all the same");
	return code;
}

/* -1: no such word */
static int reflink_of(const struct edit_settings *s)
{
	static const char *const words[] = { "never", "auto", "always" };

	for (int i = 0; s->reflink && i < 3; i++)
		if (!strcmp(s->reflink, words[i]))
			return i;
	return s->reflink ? -1 : CKPT_REFLINK_NEVER;
}

static int save(const struct edit_settings *s, const struct ckpt_model *model, const char *out,
		struct ckpt_save_report *report, struct ckpt_error *err)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	int rc;

	options.flags = (s->force ? CKPT_SAVE_REPLACE : 0u) |
			(s->no_sync ? CKPT_SAVE_NO_SYNC : 0u) |
			(s->dry_run ? CKPT_SAVE_DRY_RUN : 0u) |
			(s->hard_link && out ? CKPT_SAVE_HARD_LINK : 0u) | (s->free ? CKPT_SAVE_FREE : 0u) |
			(check_overflow ? CKPT_SAVE_CHECK_CASTS : 0u);
	options.reflink = (enum ckpt_reflink)reflink_of(s);
	options.profile = s->profile;
	options.format = out ? out_format : NULL;
	options.flags |= out && out_is_folder ? CKPT_SAVE_IN_FOLDER : 0u;
	options.files = s->files;
	options.file_count = s->file_count;
	options.progress = show_progress;
	options.cancel = catch_signals();
	out = save_to_stream(&options, out);
	rc = out ? ckpt_save(model, out, &options, report, err)
		 : ckpt_save_in_place(model, &options, report, err);
	end_progress();
	return rc;
}

static int report_in_place_failure(const struct edit_settings *s, const struct ckpt_error *err)
{
	int code = fail(err);

	if (err->reason == CKPT_REASON_CAST_LOSES)
		code = refuse_losses();
	if (err->status == CKPT_E_OUTPUT)
		hint("%s", s->force ? "OUT in place of -i writes another file" : "-f edits it all the same");
	return code;
}

/* Then nobody needs to hear that their records are left out. */
static bool took_entries_out(const struct ckpt_edit_report *reports, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (reports[i].entries_dropped || reports[i].extracted)
			return true;
	return false;
}

static bool any_changed(const struct ckpt_edit_report *reports, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (edit_changed(&reports[i]))
			return true;
	return false;
}

/* Of MODEL's file; IN_PLACE: those that --free could give back. */
static uint64_t dead_nbytes(const struct ckpt_model *model, bool in_place)
{
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;

	if (ckpt_file_get(model, &info) < 0)
		return 0;
	return !in_place ? info.dead_nbytes : info.dead_on_disk >= WORTH_SAYING ? info.dead_on_disk : 0;
}

/* What an edit in place leaves in the file. */
static void print_dead_bytes(const struct edit_settings *s, const struct ckpt_save_report *saved)
{
	char size[16];

	if (s->free && saved->freed)
		printf(", %s given back to the disk%s", size_phrase(saved->freed, size), saved->rewritten ? "" : " (du shows that, ls does not)");
	else if (s->free && !s->dry_run && !saved->rewritten)
		printf(", no whole block was dead");
	else if (s->free && saved->dead >= WORTH_SAYING) /* what would be dead then, without it */
		printf(", %s would be given back to the disk", size_phrase(saved->dead, size));
	else if (saved->dead >= WORTH_SAYING)
		printf(", %s %s dead bytes %s", size_phrase(saved->dead, size), s->dry_run ? "would be" : "are", s->dry_run ? "then" : "now (--free gives them back)");
}

int save_edited(const struct edit_settings *s, const struct ckpt_model *model,
		const struct edit_step *steps, const struct ckpt_edit_report *reports, size_t count,
		const char *out, double start)
{
	struct ckpt_save_report saved = CKPT_SAVE_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t dead = dead_nbytes(model, !out);
	const char *left = wrappers_left(model, steps, count);
	char size[16], time[32];

	plain_look(model, left);
	if (!out && !any_changed(reports, count) && !(s->free && dead)) {
		if (one_of_many)
			one_of_many->word = UNCHANGED;
		if (!quiet)
			printf("nothing to change, nothing was written\n");
		plain_note(left);
		return EXIT_FINE;
	}
	if (save(s, model, out, &saved, &err) < 0 && out) {
		int code = save_failed(&err, s->force);

		if (err.status == CKPT_E_EXISTS && !s->force && !out_format && edit_input && steps->kind->apply && are_alike(edit_input, out))
			hint("%s is a checkpoint, too: to edit several files, -i takes them all, and no OUT", out);
		return code;
	}
	if (err.status < 0)
		return report_in_place_failure(s, &err);
	if (one_of_many) {
		one_of_many->word = s->dry_run ? WOULD_BE_EDITED : EDITED;
		one_of_many->nbytes = saved.written;
		one_of_many->dead = s->free && !s->dry_run ? 0 : saved.dead; /* less than a block is left */
		one_of_many->freed = saved.freed;
	}
	if (quiet)
		return EXIT_FINE;
	for (size_t i = 0; i < count; i++)
		list_replacements(&reports[i]);
	print_all_changes(reports, count, !dead);
	if (saved.dropped && !took_entries_out(reports, count))
		printf("%u unused record%s left out, ", saved.dropped, plural(saved.dropped));
	if (out && count == 1 && steps->kind->takes_dead_bytes && dead)
		printf("%s of dead bytes left out, ", size_phrase(dead, size));
	if (saved.reflinked)
		printf("blocks shared, ");
	if (saved.rewritten)
		printf("written anew as %s, ", saved.rewritten);
	if (s->dry_run)
		printf("%s would be written (dry run)", size_phrase(saved.written, size));
	else
		printf("%s written in %s", size_phrase(saved.written, size),
		       seconds_phrase(seconds() - start, time));
	print_dead_bytes(s, &saved);
	printf("\n");
	for (size_t i = 0; i < count; i++)
		if (edit_changed(&reports[i]))
			note_unused(&reports[i]);
	plain_note(left);
	note_quantized(reports, count);
	note_losses(model);
	return EXIT_FINE;
}

/* Print "IN: --drop: WHY"; the step is named if there are several. */
static int report_nothing_done(const struct edit_step *step, size_t count, const char *in,
			       const char *why, const char *instead)
{
	if (count > 1)
		complain("%s: --%s: %s, nothing was written", in, step->kind->name, why);
	else
		complain("%s: %s, nothing was written", in, why);
	hint("%s", instead);
	return EXIT_NO;
}

static int report_nothing_to_do(const struct edit_settings *s, const struct ckpt_model *model,
				const struct edit_step *step, size_t count, const char *in)
{
	char why[MOST_REASON] = "";
	const char *instead = step->kind->why_nothing(model, step, why), *line;

	if (count > 1)
		instead = "--if-present goes on without this step";
	else if (s->in_place && !strcmp(instead, HINT_IF_PRESENT))
		instead = "--if-present makes the exit code 0";
	report_nothing_done(step, count, in, why, instead);
	line = plain_line_instead(step);
	if (line)
		hint("for a plain model: %s", line);
	return EXIT_NO;
}

static int report_unmatched(const char *pattern, const struct edit_step *step, size_t count,
			    const char *in)
{
	char why[MOST_REASON], shown[160];

	snprintf(why, sizeof(why), "nothing is named like '%s'%s",
		 ckpt_escape(shown, sizeof(shown), pattern, strlen(pattern)),
		 count > 1 ? " after the steps before it" : "");
	return report_nothing_done(step, count, in, why,
				   "'ckpt ls' lists the names; --if-present goes on without");
}

static int report_step_failure(const struct ckpt_model *model, const struct edit_step *step,
			       const char *in, struct ckpt_error *err)
{
	int code;

	if (err->status != CKPT_E_ARG && !err->path[0])
		ckpt_escape(err->path, sizeof(err->path), in, strlen(in));
	code = fail(err);
	if (err->status == CKPT_E_NOTFOUND && step->kind->nothing_found_is_no)
		code = EXIT_NO;
	if (step->kind->hint_failed)
		step->kind->hint_failed(model, step, err);
	return code;
}

/* A format that has no place for devices, in words and with what loads it; or NULL. */
static const char *without_devices(const struct ckpt_file_info *info, const char **load)
{
	*load = "safetensors.torch.load_file(FILE, device=...) says where it goes";
	if (info->format_code == CKPT_FORMAT_SAFETENSORS)
		return "a safetensors file says";
	if (info->format_code == CKPT_FORMAT_DCP_SAFETENSORS ||
	    (info->format_code == CKPT_FORMAT_HUGGING_FACE && !*info->profile))
		return "safetensors files say";
	return NULL; /* in a DCP directory, objects may name devices, though tensors have none */
}

/* Devices cannot be written where there is no place for them. */
static int check_steps(const struct ckpt_model *model, const char *in,
		       const struct edit_step *steps, size_t count)
{
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;
	const char *who, *load;

	ckpt_file_get(model, &info);
	who = out_format && !strcmp(out_format, "torch") ? NULL : without_devices(&info, &load);
	for (size_t i = 0; i < count && who; i++)
		if (steps[i].kind == &kind_remap || steps[i].kind == &kind_remap_all) {
			complain("%s: %s nothing of devices", in, who);
			hint("%s", load);
			return EXIT_ERROR;
		}
	return EXIT_FINE;
}

/* Is it worth a save that the file's dead bytes go? */
static bool takes_dead_bytes(const struct edit_settings *s, const struct edit_step *step, const struct ckpt_model *model)
{
	return step->kind->takes_dead_bytes && (s->free || !s->in_place) && dead_nbytes(model, s->in_place);
}

/* Apply one step, and replace *MODEL by its result. */
static int apply_step(const struct edit_settings *s, const struct edit_step *step, size_t count,
		      const char *in, struct ckpt_model **model, struct ckpt_edit_report *report)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *edited;
	int code = check_at(*model, in, step->keys);

	if (code != EXIT_FINE)
		return code;
	if (step->kind->apply(*model, step, &edited, report, &err) < 0)
		return report_step_failure(*model, step, in, &err);
	if (report->unmatched && !s->if_present)
		code = report_unmatched(report->unmatched, step, count, in);
	else if (!edit_changed(report) && !s->if_present && !takes_dead_bytes(s, step, *model))
		code = report_nothing_to_do(s, *model, step, count, in);
	ckpt_close(*model);
	*model = edited;
	return code;
}

int apply_steps(const struct edit_settings *s, const struct edit_step *steps, size_t count,
		const char *in, struct ckpt_model **model, struct ckpt_edit_report *reports)
{
	int code = EXIT_FINE;

	for (size_t i = 0; code == EXIT_FINE && i < count; i++) {
		reports[i] = (struct ckpt_edit_report)CKPT_EDIT_REPORT_INIT;
		code = apply_step(s, &steps[i], count, in, model, &reports[i]);
	}
	return code;
}

static bool check_combinations(const struct edit_settings *s)
{
	const struct {
		bool both;
		const char *names, *why;
	} pairs[] = {
		{ s->in_place && s->reflink, "--in-place and --reflink", "there is no OUT" },
		{ s->in_place && s->hard_link, "--in-place and --hard-link", "there is no OUT" },
		{ s->in_place && s->no_sync, "--in-place and --no-sync",
		  "it could not be undone" },
		{ s->in_place && s->profile, "--in-place and --profile", "IN keeps its layout" },
		{ s->reflink && s->profile, "--reflink and --profile",
		  "blocks are shared in IN's layout" },
	};

	if (s->free && !s->in_place) {
		complain("--free is for --in-place: an OUT has no dead bytes");
		return false;
	}
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (pairs[i].both) {
			complain("%s exclude each other: %s", pairs[i].names, pairs[i].why);
			return false;
		}
	return true;
}

/* Only torch.save differs between versions of torch. */
static int check_profile(const struct edit_settings *s, const struct ckpt_model *model,
			 const char *in)
{
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;

	ckpt_file_get(model, &info);
	if (!s->profile || (out_format ? !strcmp(out_format, "torch") : *info.profile != '\0'))
		return EXIT_FINE;
	complain("%s: --profile is of files that torch.save writes, and this is a %s", in,
		 info.format);
	return EXIT_ERROR;
}

int check_output(const struct edit_settings *s, const struct ckpt_model *model, const char *in,
		 const char *out, const struct edit_step *steps, size_t count)
{
	const struct out_wish wish = { .rule = OUT_OF_EDIT,
				       .in = in,
				       .out = out,
				       .model = model,
				       .keeps_folder = s->keeps_folder,
				       .steps = steps,
				       .step_count = count };
	int code = EXIT_FINE;

	out_format = NULL;
	out_is_folder = out && out_becomes_folder(&wish);
	if (out)
		code = choose_out(&wish, &out_format);
	if (code == EXIT_FINE && out_format && (s->hard_link || reflink_of(s) == CKPT_REFLINK_ALWAYS)) {
		complain("%s: this makes one file of a directory, and %s shares nothing there", out,
			 s->hard_link ? "--hard-link" : "--reflink");
		code = EXIT_ERROR;
	}
	return code == EXIT_FINE ? check_profile(s, model, in) : code;
}

struct edit_job {
	const struct command *cmd;
	const struct edit_settings *s;
	const struct edit_step *steps;
	size_t count;
};

char *name_of_no_output(const char *in)
{
	const char *folder = getenv("TMPDIR"), *name = strrchr(in, '/'), *dot;
	char *path;

	name = name ? name + 1 : in;
	dot = strrchr(name, '.');
	if (asprintf(&path, "%s/%.*s.%ld", folder && *folder ? folder : "/tmp",
		     dot && dot > name ? (int)(dot - name) : (int)strlen(name), name, (long)getpid()) < 0)
		no_memory();
	return path;
}

/* OUT NULL: there is none, and with -i none is needed. */
static bool dequantized(const struct ckpt_edit_report *reports, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (reports[i].tensors_dequantized)
			return true;
	return false;
}

static int edit_file(const struct edit_job *job, const char *in, const char *out)
{
	const struct edit_settings *s = job->s;
	struct ckpt_edit_report *reports;
	struct ckpt_model *model;
	struct plain_job plain;
	char *no_output = NULL;
	double start = seconds();
	int code = refuse_names(in, "OUT");

	edit_input = job->count == 1 ? in : NULL;
	if (code == EXIT_FINE && !check_combinations(s))
		code = EXIT_USAGE;
	if (reflink_of(s) < 0) {
		complain("--reflink %.40s: wanted 'never', 'auto' or 'always'", s->reflink);
		hint_value(job->cmd);
		return EXIT_USAGE;
	}
	if (code != EXIT_FINE || !open_model(in, &model, &code))
		return code;
	reports = calloc(job->count, sizeof(*reports));
	if (!reports)
		no_memory();
	code = check_output(s, model, in, out, job->steps, job->count);
	plain = (struct plain_job){ .in = in,
				    .out = out,
				    .in_place = s->in_place,
				    .force = s->force,
				    .dry_run = s->dry_run,
				    .one_file = out_format != NULL,
				    .profile = s->profile,
				    .steps = job->steps,
				    .count = job->count };
	plain_begin(&plain, model);
	if (code == EXIT_FINE)
		code = check_steps(model, in, job->steps, job->count);
	if (code == EXIT_FINE)
		code = apply_steps(s, job->steps, job->count, in, &model, reports);
	if (!out && !s->in_place)
		out = no_output = name_of_no_output(in);
	if (code == EXIT_FINE)
		code = save_edited(s, model, job->steps, reports, job->count, out, start);
	if (code == EXIT_FINE && !quiet && !s->dry_run && !s->in_place && !dequantized(reports, job->count))
		note_config_left(in, out);
	free(no_output);
	free(reports);
	ckpt_close(model);
	if (code != EXIT_FINE) /* a signal that came too late to stop anything is not a failure */
		end_by_signal();
	return finish_output(code);
}

static int edit_in_place(const char *in, void *ctx)
{
	return edit_file(ctx, in, NULL);
}

int run_edit(const struct command *cmd, const struct edit_settings *s,
	     const struct edit_step *steps, size_t count, char **paths, int path_count)
{
	struct edit_job job = { cmd, s, steps, count };
	struct ckpt_error err = CKPT_ERROR_INIT;
	const struct many_files many = {
		.cmd = cmd,
		.one = edit_in_place,
		.ctx = &job,
		.edits = true,
		.words = { s->dry_run ? WOULD_BE_EDITED : EDITED, UNCHANGED },
		.written = s->dry_run ? "would be written (dry run)" : "written",
		.dead = s->dry_run && s->free ? "would be given back to the disk"
			: s->dry_run	     ? "would be dead bytes then"
					     : "are dead bytes now (--free gives them back)",
	};

	for (size_t i = 0; i < count && s->in_place; i++)
		if (steps[i].kind->prepare && steps[i].kind->prepare(&steps[i], &err) < 0)
			return fail(&err);
	if (s->in_place)
		return run_many(&many, paths, (size_t)path_count);
	if (many_jobs)
		return wrong_usage(cmd, "%s: --jobs is for --in-place, which takes many files",
				   cmd->name);
	return edit_file(&job, paths[0], path_count > 1 ? paths[1] : NULL);
}
