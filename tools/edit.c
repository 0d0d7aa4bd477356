/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
		printf("%s would be written (dry run)\n", size_phrase(saved->nbytes, size));
	else
		printf("%s written in %.2f s\n", size_phrase(saved->nbytes, size), took);
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
	const char *wanted;
	char is[80]; /* what is wanted is a "tensor", a "list"; "" if there is no such name */
	const char *text[MOST_NAMES + 1];
	size_t count;
};

static bool is_sequence(const struct ckpt_item *item)
{
	static const char *const types[] = { "list", "tuple", "set", "frozenset" };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(item->type, types[i]))
			return true;
	return false;
}

/* An attribute, not an entry: edits follow it, --at cannot name it. */
static bool is_metadata(const char *name)
{
	return !strcmp(name, "_metadata") || ends_with(name, "._metadata");
}

static int collect_name(void *ctx, const struct ckpt_item *item)
{
	struct names *n = ctx;
	bool mapping = item->kind == CKPT_ITEM_CONTAINER && !is_sequence(item);

	if (item->depth > 0 && !strcmp(item->name, n->wanted))
		snprintf(n->is, sizeof(n->is), "%s",
			 item->kind == CKPT_ITEM_TENSOR ? "tensor" : item->type);
	if (mapping && item->depth > 0 && item->depth <= 2 && n->count < MOST_NAMES &&
	    !is_metadata(item->name)) {
		n->text[n->count] = strdup(item->name);
		n->count += n->text[n->count] != NULL;
	}
	return item->kind == CKPT_ITEM_CONTAINER && !is_metadata(item->name);
}

/* --at NAME was not found: what it is, or what was probably meant. */
static void explain_at(const struct ckpt_model *model, struct ckpt_error *err, const char *at)
{
	struct names n = { .wanted = at };
	const char *near;
	char shown[160];

	ckpt_walk(model, collect_name, &n, NULL);
	n.text[n.count] = NULL;
	near = suggest(at, n.text);
	if (n.is[0])
		snprintf(err->text, sizeof(err->text), "'%s' is a%s %s, not a mapping",
			 ckpt_escape(shown, sizeof(shown), at, strlen(at)),
			 strchr("aeiouAEIOU", n.is[0]) ? "n" : "", n.is);
	fail(err);
	if (n.is[0])
		hint("--at wants a mapping: a dict, a state dict");
	else if (near)
		hint("did you mean '%s'?", ckpt_escape(shown, sizeof(shown), near, strlen(near)));
	else if (n.count)
		hint("there is '%s'; 'ckpt info' lists the rest",
		     ckpt_escape(shown, sizeof(shown), n.text[0], strlen(n.text[0])));
	else
		hint("the root is the only mapping; leave out --at");
	for (size_t i = 0; i < n.count; i++)
		free((char *)n.text[i]);
}

static bool is_unknown_at(const struct ckpt_error *err)
{
	return err->status == CKPT_E_NOTFOUND && strstr(err->text, "no mapping is named");
}

/* The library stops at the first NAME that is not there; here each is asked for on its own. */
static int edit_failed(const struct ckpt_model *model, const char *in,
		       const struct ckpt_edit_options *options, edit_fn *edit,
		       struct ckpt_error *err)
{
	struct ckpt_edit_options one = *options;
	struct ckpt_model *edited;

	if (!is_unknown_at(err)) {
		if (err->status == CKPT_E_NOTFOUND && !err->path[0])
			ckpt_escape(err->path, sizeof(err->path), in, strlen(in));
		return fail(err);
	}
	one.at_count = 1;
	for (size_t i = 0; i < options->at_count; i++) {
		struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
		struct ckpt_error each = CKPT_ERROR_INIT;

		one.at = &options->at[i];
		if (edit(model, &one, &edited, &report, &each) == 0)
			ckpt_close(edited);
		else if (is_unknown_at(&each))
			explain_at(model, &each, options->at[i]);
	}
	return EXIT_ERROR;
}

static int edit_and_save(const struct edit_settings *s, const struct ckpt_model *model,
			 const char *in, const char *out, edit_fn *edit)
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
	if (edit(model, &options, &edited, &report, &err) < 0)
		return edit_failed(model, in, &options, edit, &err);
	if (!report.renamed && !report.names_renamed && !s->if_present) {
		complain("%s: %s, nothing was written", in, s->nothing);
		hint("%s", s->nothing_hint);
		code = EXIT_NO;
	} else if (save(s, edited, out, &saved, &err) < 0) {
		code = save_failed(&err, out, s->force);
	} else {
		print_summary(s, &report, &saved, seconds() - start);
	}
	ckpt_close(edited);
	return code;
}

int refuse_names(const char *in, const char *out)
{
	size_t len = strlen(out);
	struct stat st;

	if (!strcmp(in, "-") || !strcmp(out, "-")) {
		complain("%s",
			 !strcmp(in, "-")
				 ? "reading from standard input is not possible: a checkpoint "
				   "is read at many places"
				 : "writing to standard output is not possible: the output "
				   "gets its name when it is complete");
		return EXIT_USAGE;
	}
	if (!*in || !*out)
		complain("'' is no name of a file");
	else if (out[len - 1] == '/' && stat(out, &st) < 0)
		complain("%s: the output is named like a folder, wanted a file name", out);
	else
		return EXIT_FINE;
	return EXIT_ERROR;
}

bool open_model(const char *in, struct ckpt_model **out, int *code)
{
	struct ckpt_error err = CKPT_ERROR_INIT;

	*code = refuse_names(in, "OUT");
	if (*code != EXIT_FINE)
		return false;
	*code = ckpt_open(in, out, &err) < 0 ? fail(&err) : EXIT_FINE;
	return *code == EXIT_FINE;
}

int save_failed(struct ckpt_error *err, const char *out, bool force)
{
	int code;

	/* OUT is as wrong as one that exists: the command itself was used rightly */
	if (err->status == CKPT_E_ARG && strstr(err->text, "leaves no name")) {
		ckpt_escape(err->path, sizeof(err->path), out, strlen(out));
		err->status = CKPT_E_IO;
	}
	code = fail(err);
	if (err->status == CKPT_E_EXISTS && !force && strstr(err->text, "exists already"))
		hint("-f replaces it");
	return code;
}

int run_edit(const struct edit_settings *s, const char *in, const char *out, edit_fn *edit)
{
	struct ckpt_model *model;
	int code = refuse_names(in, out);

	if (code != EXIT_FINE)
		return code;
	if (!open_model(in, &model, &code))
		return code;
	code = edit_and_save(s, model, in, out, edit);
	ckpt_close(model);
	if (code != EXIT_FINE) /* a signal that came too late to stop anything is no failure */
		end_by_signal();
	return finish_output(code);
}
