/* SPDX-License-Identifier: Apache-2.0 */
#include "why/why.h"

#include <ckpt/edit.h>
#include <ckpt/scan.h>

#include <string.h>

/* What is in it beside tensors and plain data. */

enum { MOST_TOLD = 4 };

/* ---- code ---- */

struct danger {
	struct ckpt_why *w;
	uint32_t count;
	const char *what[MOST_TOLD];
};

static int note_danger(void *ctx, const struct ckpt_scan_file *file)
{
	struct danger *d = ctx;

	for (uint64_t i = 0; i < file->finding_count && d->count < MOST_TOLD; i++)
		if (file->findings[i].verdict == CKPT_SCAN_DANGEROUS)
			d->what[d->count++] = ckpt_why_print(d->w, "it %s", file->findings[i].text);
	return 0;
}

bool ckpt_why_check_danger(struct ckpt_why *w, const struct ckpt_match *match)
{
	struct ckpt_scan_options options = CKPT_SCAN_OPTIONS_INIT;
	struct danger d = { .w = w };

	(void)match;
	options.threads = w->options.threads;
	if (!w->facts.path || w->facts.folder || !ckpt_why_is_small(w) ||
	    ckpt_scan(w->facts.path, &options, note_danger, &d, NULL, NULL) < 0 || !d.count)
		return false;
	w->dangerous = true;
	if (ckpt_why_begin(
		    w, "dangerous", CKPT_CAUSE_CERTAIN,
		    "whoever loads it runs what it says, and it says more than weights do: do not load "
		    "it with weights_only=False, nor with pickle.load")) {
		for (uint32_t i = 0; i < d.count; i++)
			ckpt_why_fact(w, "%s", d.what[i]);
		ckpt_why_words(w,
			       "take the weights from somebody you trust; 'ckpt scan %s' tells all",
			       ckpt_why_in(w));
		ckpt_why_end(w);
	}
	return true;
}

/* ---- weights_only ---- */

static int note_refusal(void *ctx, const struct ckpt_scan_refusal *refusal)
{
	struct danger *d = ctx;

	if (d->count < MOST_TOLD && (refusal->versions & (1u << CKPT_SCAN_TORCH_2_14)))
		d->what[d->count++] = ckpt_why_print(d->w, "%s", refusal->text);
	return 0;
}

/* Does torch 2.14 refuse it with weights_only=True? */
static bool is_refused(struct ckpt_why *w, struct danger *refusals)
{
	bool accepts[CKPT_SCAN_TORCH_COUNT] = { false };

	*refusals = (struct danger){ .w = w };
	return ckpt_scan_weights_only(w->facts.path, accepts, note_refusal, refusals, NULL) == 0 &&
	       !accepts[CKPT_SCAN_TORCH_2_14];
}

static void report_changes(struct ckpt_why *w, const struct ckpt_edit_report *report)
{
	for (size_t i = 0; i < report->change_count && i < MOST_TOLD; i++)
		if (*report->changes[i].name)
			ckpt_why_fact(w, "'%s' is a %s", ckpt_why_show(w, report->changes[i].name),
				      report->changes[i].was);
		else
			ckpt_why_fact(w, "the root is a %s", report->changes[i].was);
	if (report->change_count > MOST_TOLD)
		ckpt_why_fact(w, "and %zu more", report->change_count - MOST_TOLD);
	if (report->protocol_changed)
		ckpt_why_fact(w, "pickle protocol %u, of which weights_only reads 2 alone",
			      w->facts.file.pickle_protocol);
}

static void report_refused(struct ckpt_why *w, const struct danger *refusals)
{
	struct ckpt_edit_report report = CKPT_EDIT_REPORT_INIT;
	struct ckpt_model *plain = NULL;

	if (ckpt_sanitize(w->facts.model, &plain, &report, NULL) == 0) {
		report_changes(w, &report);
		ckpt_why_command(w, "ckpt sanitize %s %s", ckpt_why_in(w), ckpt_why_out(w));
	} else {
		for (uint32_t i = 0; i < refusals->count; i++)
			ckpt_why_fact(w, "%s", refusals->what[i]);
	}
	ckpt_close(plain);
	ckpt_why_python_load(w, "%s", ckpt_why_load(w, ", weights_only=False"));
	ckpt_why_words(
		w, "weights_only=False runs what the file says: only if you trust where it comes "
		   "from");
}

bool ckpt_why_check_objects(struct ckpt_why *w, const struct ckpt_match *match)
{
	struct danger refusals;

	if (!w->facts.model || w->facts.file.is_program || w->facts.file.file_count)
		return false;
	if (!is_refused(w, &refusals))
		return false;
	if (ckpt_why_check_danger(w, match))
		return true;
	if (ckpt_why_begin(
		    w, "weights_only", match ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_POSSIBLE,
		    "there is more in it than tensors and plain data, and torch.load refuses that since 2.6 "
		    "(weights_only=True is the default)")) {
		report_refused(w, &refusals);
		ckpt_why_end(w);
	}
	return true;
}
