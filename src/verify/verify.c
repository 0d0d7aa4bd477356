/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt verify`: the entry point, and how findings are reported and counted.
 *
 * Several checks may find the same damage. Records with a finding are remembered for the file
 * (`damaged`), and an error about one of them is not reported again. Only the first MOST_OF_A_KIND
 * findings of a kind go to the caller; all are counted.
 */
#include "base/flags.h"
#include "verify/verifier.h"

#include "base/sized.h"
#include "base/text.h"
#include "format/container.h"
#include "format/format.h"
#include "set/listing.h"
#include "set/set.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_OF_A_KIND = 1000, NAMES_BUDGET = 1 << 20 };

void ckpt_verifier_begin_file(struct ckpt_verifier *v)
{
	ckpt_strmap_clear(&v->damaged);
	ckpt_arena_free(v->names);
	v->names = NULL;
	v->damaged = (struct ckpt_strmap){ 0 };
}

/* Without memory, damage may be reported twice. */
static void remember_record(struct ckpt_verifier *v, const char *record)
{
	size_t len = strlen(record);
	const char *name;
	bool there;

	if (!v->names)
		v->names = ckpt_arena_new(NAMES_BUDGET);
	name = v->names ? ckpt_arena_copy(v->names, record, len) : NULL;
	if (name)
		ckpt_strmap_insert(&v->damaged, name, len, 0, &there);
}

int ckpt_verifier_report(struct ckpt_verifier *v, enum ckpt_finding_kind kind, const char *record,
			 uint64_t offset, const char *fmt, ...)
{
	struct ckpt_finding finding = { .size = sizeof(finding),
					.kind = kind,
					.file = v->file,
					.record = record,
					.offset = offset,
					.reason = v->reason };
	char text[700];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	finding.text = text;
	if (record && kind == CKPT_FINDING_DAMAGE)
		remember_record(v, record);
	if (v->report.findings[kind]++ >= MOST_OF_A_KIND || !v->found)
		return 0;
	return v->found(v->ctx, &finding);
}

int ckpt_verifier_report_error(struct ckpt_verifier *v, int rc, const struct ckpt_error *err)
{
	char text[sizeof(err->text)];

	if (rc != CKPT_E_FORMAT && rc != CKPT_E_LIMIT && rc != CKPT_E_NOTFOUND)
		return rc;
	if (ckpt_strmap_find(&v->damaged, err->record, strlen(err->record)))
		return 0; /* that record has a finding already */
	v->reason = err->reason;
	rc = ckpt_verifier_report(v, CKPT_FINDING_DAMAGE, err->record[0] ? err->record : NULL,
				  err->offset, "%s", ckpt_error_text(err, text, sizeof(text)));
	v->reason = CKPT_REASON_NONE;
	return rc;
}

struct notes_report {
	struct ckpt_verifier *v;
	int rc;
};

static void report_note(void *ctx, const char *text)
{
	struct notes_report *n = ctx;

	if (n->rc == 0)
		n->rc = ckpt_verifier_report(n->v, CKPT_FINDING_ODD, NULL, CKPT_NO_OFFSET, "%s",
					     text);
}

int ckpt_verifier_report_notes(struct ckpt_verifier *v, const struct ckpt_model *model,
			       struct ckpt_error *err)
{
	struct notes_report notes_report = { v, 0 };
	int rc = model->doc->format->notes
			 ? model->doc->format->notes(model, report_note, &notes_report, err)
			 : 0;

	return rc < 0 ? rc : notes_report.rc;
}

/* One finding for all records. */
static int report_unproven(struct ckpt_verifier *v)
{
	if (!v->without_crc || v->is_summed)
		return 0;
	v->file = NULL;
	return ckpt_verifier_report(v, CKPT_FINDING_UNPROVEN, NULL, CKPT_NO_OFFSET,
				    "%" PRIu64
				    " records have no checksum: nothing tells if their %" PRIu64
				    " bytes are as they were written",
				    v->without_crc, v->without_crc_bytes);
}

static int verify_one_file(struct ckpt_verifier *v, const char *path, struct ckpt_error *err)
{
	struct ckpt_source *source;
	bool inside;
	int rc = ckpt_container_open(path, &source, &inside, err);

	if (rc < 0)
		return rc;
	v->total += ckpt_source_size(source);
	rc = ckpt_verify_file(v, source, err);
	if (rc == 0)
		rc = ckpt_source_check_unchanged(source, err);
	ckpt_source_unref(source);
	return rc;
}

bool ckpt_verifier_note_filled(struct ckpt_verifier *v)
{
	if (v->options.flags & CKPT_VERIFY_REQUIRE_CHECKSUMS && !v->is_summed)
		return false;
	v->has_filled = true;
	return true;
}

static enum ckpt_verdict verdict_of(const struct ckpt_verifier *v)
{
	const struct ckpt_verify_report *r = &v->report;

	if (r->findings[CKPT_FINDING_DAMAGE] || r->findings[CKPT_FINDING_NOT_FINITE])
		return CKPT_VERDICT_DAMAGED;
	if (r->findings[CKPT_FINDING_UNPROVEN])
		return CKPT_VERDICT_UNPROVEN;
	return v->has_filled && !v->is_summed ? CKPT_VERDICT_COMPLETE : CKPT_VERDICT_SOUND;
}

int ckpt_verify(const char *path, const struct ckpt_verify_options *options,
		int (*found)(void *ctx, const struct ckpt_finding *finding), void *ctx,
		struct ckpt_verify_report *report, struct ckpt_error *err)
{
	struct ckpt_verifier v = { .options = CKPT_VERIFY_OPTIONS_INIT,
				   .report = CKPT_VERIFY_REPORT_INIT,
				   .found = found,
				   .ctx = ctx };
	int rc = ckpt_sized_take(&v.options, sizeof(v.options), options, err);

	if (rc == 0)
		rc = ckpt_flags_check(v.options.flags, CKPT_VERIFY_QUICK | CKPT_VERIFY_FINITE | CKPT_VERIFY_REQUIRE_CHECKSUMS, err);
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(v.report), err);
	if (rc == 0)
		rc = ckpt_verify_sums(&v, path, err);
	if (rc == 0 && (ckpt_set_is_folder(path) || ckpt_set_is_index(path)))
		rc = ckpt_verify_directory(&v, path, err);
	else if (rc == 0)
		rc = verify_one_file(&v, path, err);
	if (rc == 0)
		rc = report_unproven(&v);
	if (v.is_summed)
		v.report.indexes = 0;
	if (rc == 0) {
		v.report.verdict = verdict_of(&v);
		ckpt_sized_give(report, &v.report, sizeof(v.report));
	}
	ckpt_batch_clear(&v.batch);
	ckpt_workers_free(v.workers);
	ckpt_verifier_begin_file(&v);
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}
