/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is OUT what a plain model loads? See plain_model.h.
 *
 * A line repeats what was typed, and adds the edits that the result still needs. Where IN needs just what
 * the one step began, the line has the edits for IN instead, which is shorter.
 *
 * What must stay true: a line that is printed works if it is pasted. It replaces OUT (-f) only if this
 * command wrote it. Where edits have options that 'ckpt edit' lacks, there is no line.
 */
#include "plain_model.h"

#include "json.h"
#include "pipes.h"
#include "shell_line.h"

#include <string.h>

/* A copy of a struct ckpt_plain_model. */
struct plan {
	bool found, nested, wrapped, all_wrappers;
	char name[160], attribute[160], options[1000];
};

static const struct plain_job *job; /* NULL: nobody wants to hear anything */
static struct plan source;
static struct shell_line line;
static char note[600];
static int typed_count;
static char **typed;

void plain_set_typed(int argc, char **argv)
{
	typed_count = argc;
	typed = argv;
}

static int copy_plan(void *ctx, const struct ckpt_plain_model *plain)
{
	struct plan *plan = ctx;

	if (snprintf(plan->name, sizeof(plan->name), "%s", plain->name) >= (int)sizeof(plan->name) ||
	    snprintf(plan->attribute, sizeof(plan->attribute), "%s",
		     plain->attribute ? plain->attribute : "") >= (int)sizeof(plan->attribute) ||
	    snprintf(plan->options, sizeof(plan->options), "%s", plain->options) >=
		    (int)sizeof(plan->options))
		return 0;
	plan->found = true;
	plan->nested = plain->nested;
	plan->wrapped = plain->wrapped;
	plan->all_wrappers = plain->all_wrappers;
	return 0;
}

static void make_plan(const struct ckpt_model *model, struct plan *plan)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	*plan = (struct plan){ .found = false };
	if (ckpt_why_plain(model, copy_plan, plan, &err) == CKPT_E_NOMEM)
		no_memory(); /* else a note that is missing would say that all is well */
}

/* ---- what was asked for ---- */

static bool is_strip(const struct edit_kind *kind)
{
	return kind == &kind_strip_module || kind == &kind_strip_prefix ||
	       kind == &kind_strip_wrappers;
}

static enum ckpt_format_code format_of(const struct ckpt_model *model)
{
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;

	return ckpt_file_get(model, &info) < 0 ? 0 : info.format_code;
}

static bool is_directory(const struct ckpt_model *model)
{
	switch (format_of(model)) {
	case CKPT_FORMAT_DCP:
	case CKPT_FORMAT_HUGGING_FACE:
	case CKPT_FORMAT_DCP_SAFETENSORS:
	case CKPT_FORMAT_DEEPSPEED:
	case CKPT_FORMAT_TORCH_CHECKPOINTING: return true;
	default: return false;
	}
}

/* Did --at take a part that --extract would not find in itself? */
static bool has_typed_at(void)
{
	for (int i = 1; typed && i < typed_count; i++)
		if (!strcmp(typed[i], "--at") || !strncmp(typed[i], "--at=", 5))
			return true;
	return false;
}

/*
 * Does 'ckpt convert' without an edit leave what a plain model does not load? Not where another format or
 * another torch may be all that is wanted, and safetensors hold what somebody gave away already.
 */
static bool is_bare(const struct ckpt_model *model)
{
	enum ckpt_format_code format = format_of(model);

	if (!job->converts || job->count)
		return false;
	if (job->takes_weights)
		return format != CKPT_FORMAT_SAFETENSORS && format != CKPT_FORMAT_HUGGING_FACE;
	if (format != CKPT_FORMAT_TORCH_ZIP)
		return false;
	for (int i = 1; typed && i < typed_count; i++)
		if (typed[i][0] == '-' && typed[i][1] && strcmp(typed[i], "-f") != 0 &&
		    strcmp(typed[i], "-n") != 0 && strcmp(typed[i], "--force") != 0 &&
		    strcmp(typed[i], "--dry-run") != 0)
			return false;
	return true;
}

/* Was the last thing of that kind to make names or the whole smaller, and not to put a prefix on? */
static bool wants_plain(void)
{
	bool wants = false;

	for (size_t i = 0; i < job->count; i++)
		if (is_strip(job->steps[i].kind) || job->steps[i].kind == &kind_extract)
			wants = true;
		else if (job->steps[i].kind == &kind_add_module ||
			 job->steps[i].kind == &kind_add_prefix)
			wants = false;
	return wants;
}

static bool is_wrapper(const char *prefix)
{
	static const char *const wrappers[] = { "module", "_orig_mod", "_forward_module",
						"_fsdp_wrapped_module",
						"_checkpoint_wrapped_module" };
	size_t len = strlen(prefix);

	len -= len && prefix[len - 1] == '.';
	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++)
		if (strlen(wrappers[i]) == len && !strncmp(wrappers[i], prefix, len))
			return true;
	return false;
}

/* --at: whoever names a part knows that there is more. */
static bool names_part(void)
{
	return job->count == 1 && job->steps[0].keys && job->steps[0].keys->at_count;
}

/* Do the edits for IN do what the one step did, and more? */
static bool covers_step(const struct edit_step *step)
{
	const char *argument = step->args.count ? step->args.items[0] : "";

	if (!source.found)
		return false;
	if (step->kind == &kind_extract)
		return source.nested && !strcmp(argument, source.name);
	if (step->kind == &kind_strip_module || step->kind == &kind_strip_wrappers)
		return true;
	return step->kind == &kind_strip_prefix &&
	       (is_wrapper(argument) || !strcmp(argument, source.attribute));
}

/* ---- the line ---- */

/* Does typed[I] strip or extract, as "--strip-prefix" or "--strip-prefix=x"? *SKIP: its words. */
static bool is_typed_step(int i, int *skip)
{
	const char *word = typed[i];

	for (size_t k = 0; k < job->count && !strncmp(word, "--", 2); k++) {
		const struct edit_kind *kind = job->steps[k].kind;
		size_t len = strlen(kind->name);

		if ((!is_strip(kind) && kind != &kind_extract) || strncmp(word + 2, kind->name, len) != 0)
			continue;
		*skip = 1 + (!word[len + 2] && job->steps[k].args.count);
		if (!word[len + 2] || word[len + 2] == '=')
			return true;
	}
	return false;
}

/* What was typed, without what strips and extracts if WITHOUT. False: that is not possible. */
static bool add_typed(bool without)
{
	bool found = !without;
	int skip;

	shell_add(&line, "ckpt");
	for (int i = 0; i < typed_count; i++) {
		if (!strcmp(typed[i], "--"))
			return false;
		if (job->dry_run && (!strcmp(typed[i], "-n") || !strcmp(typed[i], "--dry-run")))
			continue;
		if (without && i && is_typed_step(i, &skip)) {
			found = true;
			i += skip - 1;
		} else if (!strcmp(typed[i], "/dev/stdin")) {
			shell_add_path(&line, typed[i]);
		} else {
			shell_add_word(&line, typed[i]);
		}
	}
	if (!job->out) /* a dry run */
		shell_add(&line, " OUT");
	return found;
}

/* "ckpt edit IN OUT" */
static void add_edit(void)
{
	shell_add(&line, job->in_place ? "ckpt edit -i" : "ckpt edit");
	shell_add_path(&line, job->in);
	if (!job->in_place)
		shell_add_path(&line, job->out ? job->out : "OUT");
	if (job->profile) {
		shell_add(&line, " --profile");
		shell_add_word(&line, job->profile);
	}
}

/* ALL: the OPTIONS do all; else they come after the steps. WRITTEN: OUT was. False: there is no such line. */
static bool make_line(const char *options, bool all, bool written)
{
	bool repeat = typed && (job->converts || job->count > 1) && !job->in_place;
	bool edited = job->in_place && written; /* then the steps are done */

	line = (struct shell_line){ .len = 0 };
	if (repeat && !add_typed(all && job->count))
		return false;
	if (!repeat) {
		add_edit();
		if (!all && !edited && !shell_add_steps(&line, job->steps, job->count, true))
			return false;
	}
	if (job->out && !is_stream(job->out) && (repeat ? written && !job->force : written || job->force))
		shell_add(&line, " -f");
	if (*options)
		shell_add(&line, " ");
	shell_add(&line, options);
	return line.len < sizeof(line.text) - 1;
}

/* ---- what the commands call ---- */

void plain_begin(const struct plain_job *of, const struct ckpt_model *model)
{
	job = quiet || one_of_many ? NULL : of;
	*note = '\0';
	line = (struct shell_line){ .len = 0 };
	source = (struct plan){ .found = false };
	if (job && (job->converts || wants_plain()))
		make_plan(model, &source);
}

/* Is NAME what people guess that a trainer calls the model, or a module? */
static bool is_guess(const char *name)
{
	static const char *const guesses[] = { "model",	  "state_dict", "model_state_dict", "module",
					       "net",	  "network",	"weights",	    "params" };
	size_t len = strcspn(name, ".");

	for (size_t i = 0; i < sizeof(guesses) / sizeof(guesses[0]); i++)
		if (strlen(guesses[i]) == len && !strncmp(guesses[i], name, len))
			return true;
	return is_wrapper(name);
}

/* Edits that mean the same wherever they stand among those that strip and extract. */
static bool is_movable(const struct edit_kind *kind)
{
	return kind == &kind_cast || kind == &kind_cast_all || kind == &kind_compact ||
	       kind == &kind_remap || kind == &kind_remap_all || kind == &kind_sanitize;
}

const char *plain_line_instead(const struct edit_step *step)
{
	if (!job || !source.found || !*source.options || (job->in_place && job->count > 1))
		return NULL;
	if (!is_strip(step->kind) && step->kind != &kind_extract)
		return NULL;
	for (size_t i = 0; i < job->count; i++)
		if (!is_strip(job->steps[i].kind) && job->steps[i].kind != &kind_extract &&
		    !is_movable(job->steps[i].kind))
			return NULL;
	if (step->args.count && !is_guess(step->args.items[0]))
		return NULL;
	return make_line(source.options, true, false) ? line.text : NULL;
}

static void add_note(const char *fmt, const char *name)
{
	size_t len = strlen(note);

	if (len)
		len += (size_t)snprintf(note + len, sizeof(note) - len, "; ");
	if (len < sizeof(note))
		snprintf(note + len, sizeof(note) - len, fmt, name);
}

/* The edits for IN, if they are what is missing; NULL: they are not. */
static const struct plan *plan_of_source(bool takes_part, bool left)
{
	bool more = source.wrapped || *source.attribute;

	if (!source.found || !*source.options)
		return NULL;
	if (!job->count || takes_part)
		return more ? &source : NULL;
	return (source.nested && !names_part()) || left ? &source : NULL;
}

void plain_look(const struct ckpt_model *model, const char *left)
{
	bool bare, covered, stays, takes_part;
	struct plan result = { .found = false };
	const struct plan *plan = NULL;
	const char *wrappers;

	if (!job)
		return;
	if (left)
		add_note("%s", left);
	stays = is_directory(model) && !job->converts && !(job->out && job->one_file);
	bare = is_bare(model);
	if (stays || (!bare && !wants_plain() && (!job->takes_weights || !job->count)))
		return;
	covered = bare || (job->count == 1 && !job->converts && covers_step(&job->steps[0]));
	takes_part = job->takes_weights || (covered && !bare && job->steps[0].kind == &kind_extract);
	if (bare && job->takes_weights && (has_typed_at() || !*source.attribute))
		covered = false; /* the part that is left has all that is to be known */
	if (covered && !(job->in_place && !job->dry_run)) {
		plan = plan_of_source(takes_part, left != NULL);
	} else {
		make_plan(model, &result);
		plan = result.found && *result.options ? &result : NULL;
	}
	if (!plan)
		return;
	wrappers = left ? NULL : wrappers_in(model, NULL);
	if (wrappers)
		add_note("%s", wrappers);
	if (takes_part && *plan->attribute)
		add_note("keys begin with '%s'", plan->attribute);
	if (!takes_part && plan->nested && !names_part())
		add_note("the model is still under '%s', beside other things", plan->name);
	if (!make_line(plan->options, plan == &source, !job->dry_run))
		line = (struct shell_line){ .len = 0 };
}

void plain_note(const char *left)
{
	if (!job || !line.len || !*note) {
		note_wrappers(left);
		return;
	}
	fflush(stdout);
	fprintf(stderr, "ckpt: note: %s\n", note);
	hint("for a plain model: %s", line.text);
}
