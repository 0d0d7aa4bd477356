/* SPDX-License-Identifier: Apache-2.0 */
#include "why/why.h"

#include "base/error.h"
#include "base/flags.h"
#include "base/sized.h"
#include "why/match.h"

#include <stddef.h>

static const uint64_t BUDGET_BASE = 128 << 20;

/* Without a message: first what makes every load fail, then what some loads fail with. */
static ckpt_why_check *const checks[] = {
	ckpt_why_check_danger,	  ckpt_why_check_repacked, ckpt_why_check_file,
	ckpt_why_check_directory, ckpt_why_check_zero_part, ckpt_why_check_quantized_parts,
	ckpt_why_check_program,	  ckpt_why_check_objects,
	ckpt_why_check_devices,	  ckpt_why_check_adapter,  ckpt_why_check_wrapped,  ckpt_why_check_nested,
	ckpt_why_check_module,	  ckpt_why_check_meta,	   ckpt_why_check_versions,
	ckpt_why_check_bytes,	  ckpt_why_check_quantized, ckpt_why_check_size,
};

static int check_request(const char *path, const struct ckpt_why_options *o, struct ckpt_error *err)
{
	if (!path && !o->error)
		return ckpt_fail(err, CKPT_E_ARG, "wanted a file, an error, or both");
	if (o->error && o->error_len > CKPT_WHY_MOST_ERROR)
		return ckpt_fail(err, CKPT_E_ARG, "an error of %zu bytes, wanted up to %d",
				 o->error_len, (int)CKPT_WHY_MOST_ERROR);
	return 0;
}

/* A file that cannot be read is an error, unless a cause explains it. */
static int check_readable(const struct ckpt_why *w, struct ckpt_error *err)
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

static void report_causes(struct ckpt_why *w)
{
	const struct ckpt_match any = { .all = "" };
	uint32_t before = 0;

	if (w->error && w->facts.model && ckpt_why_adapter_given(w)) { /* whatever the message says */
		ckpt_why_check_adapter(w, &any);
		before = w->report.causes;
	}
	if (w->error && w->facts.model && ckpt_why_check_zero_part(w, &any))
		before = w->report.causes;
	if (w->error)
		ckpt_why_read_error(w);
	if (w->error && (w->report.causes > before || (before && w->report.messages)))
		return;
	/* no message, or none that is known: report what the file shows */
	for (size_t i = 0; w->facts.path && i < sizeof(checks) / sizeof(checks[0]); i++)
		checks[i](w, NULL);
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
		rc = check_request(path, &w.options, err);
	if (rc < 0)
		return rc;
	w.arena = ckpt_arena_new(BUDGET_BASE + 16 * (uint64_t)w.options.error_len);
	if (!w.arena)
		return ckpt_fail_nomem(err);
	if (w.options.error)
		w.error = ckpt_why_clean(&w, w.options.error, w.options.error_len, &w.error_len);
	if (path)
		rc = ckpt_facts_read(&w, path, err);
	if (rc == 0)
		report_causes(&w);
	if (rc == 0 && w.failed < 0)
		rc = w.failed == CKPT_E_NOMEM ? ckpt_fail_nomem(err) : w.failed;
	if (rc == 0)
		rc = check_readable(&w, err);
	if (rc == 0)
		ckpt_sized_give(report, &w.report, sizeof(w.report));
	ckpt_facts_clear(&w.facts);
	ckpt_arena_free(w.arena);
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

int ckpt_why_plain(const struct ckpt_model *model,
		   int (*found)(void *ctx, const struct ckpt_plain_model *plain), void *ctx,
		   struct ckpt_error *err)
{
	struct ckpt_plain_model plain = { .size = sizeof(plain) };
	struct ckpt_why w = { .report = CKPT_WHY_REPORT_INIT };
	uint64_t of_adapter, keys;
	int rc;

	w.arena = ckpt_arena_new(BUDGET_BASE);
	if (!w.arena)
		return ckpt_fail_nomem(err);
	w.facts.model = (struct ckpt_model *)model; /* nothing changes or closes it */
	w.facts.root_type = "";
	rc = ckpt_facts_list_dicts(&w, err);
	if (rc == 0 && ckpt_why_find_plain(&w, &plain)) {
		plain.is_zero_part = ckpt_why_is_zero_part(&w);
		plain.is_adapter = ckpt_why_is_adapter(&w, &of_adapter, &keys);
		rc = found(ctx, &plain);
	}
	if (rc == 0 && w.failed < 0)
		rc = w.failed == CKPT_E_NOMEM ? ckpt_fail_nomem(err) : w.failed;
	ckpt_arena_free(w.arena);
	return rc;
}
