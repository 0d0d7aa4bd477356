/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causes of a file that is a checkpoint, or was one, and is cut off or damaged, and how much of it
 * can be saved.
 *
 * A checkpoint that opens is verified without its bytes (CKPT_VERIFY_QUICK); of one that does not,
 * the reason in the error decides, never its text. `ckpt repair` is advised only after it was tried
 * here. The trial reads the file, so one of more than MOST_READ bytes gets the advice without the
 * trial.
 */
#include "why/why.h"

#include <ckpt/repair.h>
#include <ckpt/verify.h>

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

const char ckpt_why_copy_again[] = "download or copy it again, and compare sizes and checksums";

/* ---- what can be saved ---- */

static const uint64_t MOST_READ = 1 << 30; /* bytes: about a second */

bool ckpt_why_is_small(const struct ckpt_why *w)
{
	struct stat st;

	/* what is inside of an archive is no larger than what fits into memory */
	return stat(w->facts.path, &st) != 0 || (uint64_t)st.st_size <= MOST_READ;
}

/* Ways to get the weights back, the best first. */
static void advise_rescue(struct ckpt_why *w)
{
	struct ckpt_repair_report r = CKPT_REPAIR_REPORT_INIT;
	struct ckpt_model *rest = NULL;
	bool small = ckpt_why_is_small(w);

	ckpt_why_words(w, "%s", ckpt_why_copy_again);
	if (small && ckpt_repair_open(w->facts.path, NULL, NULL, NULL, &rest, &r, NULL) == 0) {
		ckpt_why_fact(w,
			      "%" PRIu64 " of %" PRIu64 " tensors are whole, %" PRIu64
			      " of them proven by checksums",
			      r.proven + r.unproven, r.tensors, r.proven);
		ckpt_why_command(w, "ckpt repair %s %s", ckpt_why_in(w), ckpt_why_out(w));
	} else if (!small) {
		ckpt_why_words(w, "'ckpt repair %s %s' saves what is whole of it", ckpt_why_in(w),
			       ckpt_why_out(w));
	}
	ckpt_close(rest);
	ckpt_why_words(w, "or take an earlier one: 'ckpt latest DIR' finds the newest sound one");
}

/* ---- damage ---- */

struct damage {
	struct ckpt_why *w;
	const char *first;
	uint64_t count;
	/* records are not where .format_version says: matters only to mmap and the device 'meta' */
	const char *layout;
};

static int note_damage(void *ctx, const struct ckpt_finding *f)
{
	struct damage *d = ctx;

	if (f->kind == CKPT_FINDING_DAMAGE && f->record && !strcmp(f->record, ".format_version")) {
		d->layout = ckpt_why_print(d->w, "%s", f->text);
		return 0;
	}
	if (f->kind != CKPT_FINDING_DAMAGE || d->count++)
		return 0;
	d->first = ckpt_why_print(d->w, "%s%s%s%s%s", f->file ? f->file : "", f->file ? ": " : "",
				  f->record ? f->record : "", f->record ? ": " : "", f->text);
	return 0;
}

static bool report_truncated(struct ckpt_why *w)
{
	if (ckpt_why_begin(
		    w, "truncated", CKPT_CAUSE_CERTAIN,
		    "the file ends too early: a download, a copy or a save broke off, or the disk was "
		    "full")) {
		ckpt_why_fact_opening(w);
		advise_rescue(w);
		ckpt_why_end(w);
	}
	return true;
}

static bool report_damage(struct ckpt_why *w, const char *what)
{
	if (ckpt_why_begin(
		    w, "damaged", CKPT_CAUSE_CERTAIN,
		    "the file is not as it was written: something in it is broken or missing")) {
		ckpt_why_fact(w, "%s", what);
		advise_rescue(w);
		ckpt_why_end(w);
	}
	return true;
}

/* A legacy stream has no end record that could be missing. */
static bool is_cut_stream(const struct ckpt_facts *f)
{
	return f->first == 0x80 && (f->opening.reason == CKPT_REASON_TRUNCATED ||
				    f->opening.reason == CKPT_REASON_STORAGES_MISSING);
}

static void report_layout(struct ckpt_why *w, const char *what)
{
	if (!ckpt_why_begin(
		    w, "layout", CKPT_CAUSE_POSSIBLE,
		    "another tool packed the archive anew, and its records are not where they promise "
		    "to be: with mmap=True torch 2.7 and later load wrong numbers, without a word"))
		return;
	ckpt_why_fact(w, "it %s", what);
	ckpt_why_command(w, "ckpt convert %s %s", ckpt_why_in(w), ckpt_why_out(w));
	ckpt_why_end(w);
}

/* Reports the first damage of a checkpoint that opens; ALONE: no message was given. */
static bool report_first_damage(struct ckpt_why *w, bool alone)
{
	struct ckpt_verify_options options = CKPT_VERIFY_OPTIONS_INIT;
	struct damage d = { .w = w };

	options.flags = CKPT_VERIFY_QUICK;
	options.threads = w->options.threads;
	if (ckpt_verify(w->facts.path, &options, note_damage, &d, NULL, NULL) < 0)
		return false;
	if (!d.count && d.layout && alone)
		report_layout(w, d.layout);
	return d.count && report_damage(w, d.first);
}

bool ckpt_why_check_repacked(struct ckpt_why *w, const struct ckpt_match *match)
{
	(void)match;
	if (w->facts.opening.reason != CKPT_REASON_REPACKED)
		return false;
	if (ckpt_why_begin(
		    w, "repacked", CKPT_CAUSE_CERTAIN,
		    "the archive was unpacked and zipped again: torch wants all records in one folder, "
		    "and nothing beside it")) {
		ckpt_why_fact_opening(w);
		ckpt_why_words(
			w,
			"take the file as it was downloaded: a .pt or .bin is not to be unpacked");
		advise_rescue(w);
		ckpt_why_end(w);
	}
	return true;
}

static bool report_unopened(struct ckpt_why *w)
{
	struct ckpt_error *err = &w->facts.opening;
	char text[1100];

	if (w->facts.is_cut_zip || (is_cut_stream(&w->facts) && !err->record[0]) ||
	    (w->facts.identity.nature == CKPT_NATURE_SAFETENSORS &&
	     (err->reason == CKPT_REASON_TRUNCATED || err->reason == CKPT_REASON_STORAGES_MISSING)))
		return report_truncated(w);
	ckpt_error_format(err, text, sizeof(text));
	if (err->reason == CKPT_REASON_REPACKED)
		return ckpt_why_check_repacked(w, NULL);
	return report_damage(w, text);
}

bool ckpt_why_check_damage(struct ckpt_why *w, const struct ckpt_match *match)
{
	if (w->facts.model)
		return report_first_damage(w, !match);
	return (w->facts.opening.status == CKPT_E_FORMAT || w->facts.is_cut_zip) &&
	       report_unopened(w);
}
