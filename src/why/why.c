/* SPDX-License-Identifier: Apache-2.0 */
#include "why/why.h"

#include "base/error.h"
#include "base/flags.h"
#include "base/sized.h"
#include "why/match.h"

#include <stddef.h>

static const uint64_t BUDGET_BASE = 128 << 20;

/* Without a message: what keeps every load from working, then what some do. */
static ckpt_why_look *const looks[] = {
	ckpt_look_danger,  ckpt_look_repacked, ckpt_look_file,	  ckpt_look_directory,
	ckpt_look_program, ckpt_look_objects,  ckpt_look_devices, ckpt_look_wrapped,
	ckpt_look_nested,  ckpt_look_module,   ckpt_look_meta,	  ckpt_look_versions,
	ckpt_look_bytes,
};

static int check(const char *path, const struct ckpt_why_options *o, struct ckpt_error *err)
{
	if (!path && !o->error)
		return ckpt_fail(err, CKPT_E_ARG, "wanted a file, an error, or both");
	if (o->error && o->error_len > CKPT_WHY_MOST_ERROR)
		return ckpt_fail(err, CKPT_E_ARG, "an error of %zu bytes, wanted up to %d",
				 o->error_len, (int)CKPT_WHY_MOST_ERROR);
	return 0;
}

/* What cannot be read is a cause only if the message says so; what the system refuses, too. */
static int check_there(const struct ckpt_why *w, struct ckpt_error *err)
{
	const struct ckpt_error *opening = &w->facts.opening;

	if (!w->facts.path || w->facts.model || w->report.causes)
		return 0;
	if (opening->status != CKPT_E_IO && opening->status != CKPT_E_NOTFOUND)
		return 0;
	if (err)
		*err = *opening;
	return opening->status;
}

static void tell(struct ckpt_why *w)
{
	if (w->error)
		ckpt_why_read_error(w);
	if (w->error && w->report.causes)
		return;
	/* nothing that is known, or no message: what the file shows */
	for (size_t i = 0; w->facts.path && i < sizeof(looks) / sizeof(looks[0]); i++)
		looks[i](w, NULL);
}

int ckpt_why(const char *path, const struct ckpt_why_options *options,
	     int (*found)(void *ctx, const struct ckpt_cause *cause), void *ctx,
	     struct ckpt_why_report *report, struct ckpt_error *err)
{
	struct ckpt_why w = { .options = CKPT_WHY_OPTIONS_INIT,
			      .report = CKPT_WHY_REPORT_INIT,
			      .found = found,
			      .ctx = ctx };
	int rc = ckpt_sized_take(&w.options, sizeof(w.options), options, err);

	if (rc == 0)
		rc = ckpt_flags_check(w.options.flags, 0, err);
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(w.report), err);
	if (rc == 0)
		rc = check(path, &w.options, err);
	if (rc < 0)
		return rc;
	w.arena = ckpt_arena_new(BUDGET_BASE + 16 * (uint64_t)w.options.error_len);
	if (!w.arena)
		return ckpt_fail_nomem(err);
	if (w.options.error)
		w.error = ckpt_why_clean(&w, w.options.error, w.options.error_len, &w.error_len);
	if (path)
		rc = ckpt_facts_look(&w, path, err);
	if (rc == 0)
		tell(&w);
	if (rc == 0 && w.failed < 0)
		rc = w.failed == CKPT_E_NOMEM ? ckpt_fail_nomem(err) : w.failed;
	if (rc == 0)
		rc = check_there(&w, err);
	if (rc == 0)
		ckpt_sized_give(report, &w.report, sizeof(w.report));
	ckpt_facts_clear(&w.facts);
	ckpt_arena_free(w.arena);
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}
