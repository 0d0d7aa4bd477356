/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLACES = 8 };

static void print_summary(const struct edit_settings *s, const struct ckpt_edit_report *r,
			  const struct ckpt_save_report *saved, double took)
{
	char size[16], name[160];

	if (quiet)
		return;
	for (size_t i = 0; i < r->place_count && i < MOST_PLACES; i++) {
		const char *place = r->places[i].name;

		printf("%" PRIu64 "%s in %s%s%s, ", r->places[i].renamed,
		       i			   ? ""
		       : r->places[i].renamed == 1 ? " key renamed"
						   : " keys renamed",
		       place[0] ? "'" : "the state dict",
		       ckpt_escape(name, sizeof(name), place, strlen(place)), place[0] ? "'" : "");
	}
	if (r->place_count > MOST_PLACES)
		printf("and in %zu more state dicts, ", r->place_count - MOST_PLACES);
	if (!r->place_count)
		printf("no keys renamed, ");
	if (r->names_renamed)
		printf("%" PRIu64 " parameter name%s in param_groups, ", r->names_renamed,
		       r->names_renamed == 1 ? "" : "s");
	if (saved->dropped)
		printf("%" PRIu32 " unused record%s left out, ", saved->dropped,
		       saved->dropped == 1 ? "" : "s");
	if (s->dry_run)
		printf("%s would be written (dry run)\n", human_size(saved->nbytes, size));
	else
		printf("%s written in %.2f s\n", human_size(saved->nbytes, size), took);
}

static int save(const struct edit_settings *s, const struct ckpt_model *model, const char *out,
		struct ckpt_save_report *report, struct ckpt_error *err)
{
	struct ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
	int rc;

	options.flags = (s->force ? CKPT_SAVE_REPLACE : 0u) |
			(s->no_sync ? CKPT_SAVE_NO_SYNC : 0u) |
			(s->dry_run ? CKPT_SAVE_DRY_RUN : 0u);
	options.progress = show_progress;
	options.cancel = catch_signals();
	rc = ckpt_save(model, out, &options, report, err);
	end_progress();
	return rc;
}

enum { MOST_NAMES = 64 };

struct names {
	const char *text[MOST_NAMES + 1];
	size_t count;
};

static int collect_name(void *ctx, const struct ckpt_item *item)
{
	struct names *n = ctx;

	if (item->kind != CKPT_ITEM_CONTAINER)
		return 0;
	if (item->depth > 0 && n->count < MOST_NAMES)
		n->text[n->count++] = strdup(item->name);
	return item->depth < 2;
}

/* --at NAME was not found: what was probably meant. */
static void hint_at(const struct ckpt_model *model, const struct edit_settings *s)
{
	struct names n = { .count = 0 };
	const char *near;

	ckpt_walk(model, collect_name, &n, NULL);
	for (size_t i = 0; i < n.count && !n.text[i]; i++)
		n.count = 0; /* no memory for a hint */
	n.text[n.count] = NULL;
	near = suggest(s->at.items[0], n.text);
	if (near)
		hint("did you mean '%s'?", near);
	else if (n.count)
		hint("there is '%s'; 'ckpt info' lists the rest", n.text[0]);
	for (size_t i = 0; i < n.count; i++)
		free((char *)n.text[i]);
}

static int edit_and_save(const struct edit_settings *s, const struct ckpt_model *model,
			 const char *out, edit_fn *edit, const char *nothing)
{
	struct ckpt_edit_options options = CKPT_EDIT_OPTIONS_INIT;
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_save_report saved = CKPT_SAVE_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *edited;
	double start = seconds();
	int code = EXIT_FINE;

	options.at = s->at.items;
	options.at_count = s->at.count;
	options.anywhere = s->anywhere;
	if (edit(model, &options, &edited, &report, &err) < 0) {
		code = fail(&err);
		if (err.status == CKPT_E_NOTFOUND && s->at.count)
			hint_at(model, s);
		return code;
	}
	if (!report.renamed && !report.names_renamed && !s->if_present) {
		complain("%s", nothing);
		hint("--if-present writes OUT unchanged instead, with exit code 0");
		code = EXIT_NO;
	} else if (save(s, edited, out, &saved, &err) < 0) {
		code = fail(&err);
		if (err.status == CKPT_E_EXISTS && !s->force && strstr(err.text, "exists already"))
			hint("-f replaces it");
	} else {
		print_summary(s, &report, &saved, seconds() - start);
	}
	ckpt_close(edited);
	return code;
}

bool refuse_streams(const char *in, const char *out)
{
	if (!strcmp(in, "-"))
		complain(
			"reading from standard input is not possible: a checkpoint is read at many places");
	else if (!strcmp(out, "-"))
		complain(
			"writing to standard output is not possible: the output gets its name when it is "
			"complete");
	else
		return false;
	return true;
}

int run_edit(const struct edit_settings *s, const char *in, const char *out, edit_fn *edit,
	     const char *nothing)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	int code;

	if (refuse_streams(in, out))
		return EXIT_USAGE;
	if (ckpt_open(in, &model, &err) < 0)
		return fail(&err);
	code = edit_and_save(s, model, out, edit, nothing);
	ckpt_close(model);
	if (code != EXIT_FINE) /* a signal that came too late to stop anything is no failure */
		end_by_signal();
	return finish_output(code);
}
