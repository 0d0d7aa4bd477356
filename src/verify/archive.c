/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifies one archive: local headers against the directory, every byte that is no data against
 * what torch writes there, and the data against their checksums.
 *
 * A byte that differs is damage only in an archive that torch packed; one of another program, or of
 * an older torch, differs nearly everywhere, and is odd at most. Which it is, the majority of
 * headers and entries decides (report_differences()). A record whose place is not known has
 * data_off 0, and its data are not read.
 */
#include "verify/verifier.h"

#include "base/text.h"
#include "zipfmt/exact.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEPT = 200, SHOWN = 200, DEFAULT_ALIGNMENT = 64, MOST_ALIGNMENT = 1 << 20 };

struct archive {
	struct ckpt_verifier *v;
	struct ckpt_zip *zip;
	const char *place;
	struct ckpt_zip_difference kept[MOST_KEPT]; /* the first of them */
	uint64_t headers, entries,
		others; /* differences in headers, directory entries, elsewhere */
	uint32_t kept_count, located;
};

static const char *shown_name(const struct ckpt_zip_entry *entry, char buf[SHOWN])
{
	return entry ? ckpt_escape(buf, SHOWN, entry->name, entry->name_len) : NULL;
}

static int report(struct archive *a, enum ckpt_finding_kind kind,
		  const struct ckpt_zip_entry *entry, uint64_t off, const char *text)
{
	char shown[SHOWN];

	return ckpt_verifier_report(a->v, kind, shown_name(entry, shown), off, "%s%s%s",
				    a->place ? a->place : "", a->place ? ": " : "", text);
}

/* ---- the records against the directory ---- */

static int locate_each(struct archive *a, struct ckpt_error *err)
{
	char what[sizeof(err->text)];
	uint32_t failed = 0;

	for (uint32_t i = 0; i < a->zip->count; i++) {
		struct ckpt_zip_entry *e = &a->zip->entries[i];
		struct ckpt_error one = CKPT_ERROR_INIT;
		char text[sizeof(one.text)];
		int rc = ckpt_zip_locate(a->zip, e, &one);

		if (rc == CKPT_E_NOMEM || rc == CKPT_E_IO) {
			*err = one;
			return rc;
		}
		if (rc == 0)
			continue;
		failed++;
		e->data_off = 0;
		rc = report(a, CKPT_FINDING_DAMAGE, e, e->header_off,
			    ckpt_error_text(&one, text, sizeof(text)));
		if (rc < 0)
			return rc;
	}
	/* else what is wrong shows only between records: they overlap */
	return failed ? 0
		      : report(a, CKPT_FINDING_DAMAGE, NULL, err->offset,
			       ckpt_error_text(err, what, sizeof(what)));
}

static int locate_records(struct archive *a, struct ckpt_error *err)
{
	struct ckpt_error all = CKPT_ERROR_INIT;
	int rc = ckpt_zip_locate_all(a->zip, &all);

	if (rc < 0 && rc != CKPT_E_NOMEM && rc != CKPT_E_IO)
		rc = locate_each(a, &all);
	if (rc < 0 && err)
		*err = all;
	for (uint32_t i = 0; i < a->zip->count; i++)
		a->located += a->zip->entries[i].data_off > 0;
	return rc;
}

/* ---- all bytes that are no data ---- */

static uint32_t alignment_of(struct ckpt_zip *zip)
{
	static const char record[] = "/.storage_alignment";
	const char *slash = zip->count ? strchr(zip->entries[0].name, '/') : NULL;
	struct ckpt_zip_entry *entry;
	uint8_t *bytes;
	char name[600];
	unsigned long v = 0;

	if (!slash || slash - zip->entries[0].name > 500)
		return DEFAULT_ALIGNMENT;
	snprintf(name, sizeof(name), "%.*s%s", (int)(slash - zip->entries[0].name),
		 zip->entries[0].name, record);
	entry = ckpt_zip_find(zip, name, strlen(name));
	if (entry && ckpt_zip_read(zip, entry, 15, &bytes, NULL) == 0) {
		snprintf(name, sizeof(name), "%.*s", (int)entry->usize, (const char *)bytes);
		v = strtoul(name, NULL, 10);
		free(bytes);
	}
	return v >= 1 && v <= MOST_ALIGNMENT ? (uint32_t)v : DEFAULT_ALIGNMENT;
}

static int keep_difference(void *ctx, const struct ckpt_zip_difference *d)
{
	struct archive *a = ctx;

	if (d->part == CKPT_ZIP_HEADER)
		a->headers++;
	else if (d->part == CKPT_ZIP_DIRECTORY)
		a->entries++;
	else
		a->others++;
	if (a->kept_count < MOST_KEPT)
		a->kept[a->kept_count++] = *d;
	return 0;
}

static int report_difference(struct archive *a, const struct ckpt_zip_difference *d)
{
	static const char *const parts[] = { "its header", "the descriptor behind its data",
					     "its entry in the directory",
					     "the end of the archive" };
	char text[200];

	if (d->found < 0 || d->wanted < 0)
		snprintf(text, sizeof(text), "%s is %s than torch writes it", parts[d->part],
			 d->found < 0 ? "shorter" : "longer");
	else
		snprintf(text, sizeof(text), "%s has the byte 0x%02x where torch writes 0x%02x",
			 parts[d->part], (unsigned)d->found, (unsigned)d->wanted);
	return report(a, CKPT_FINDING_DAMAGE, d->entry, d->off, text);
}

/*
 * No reader looks at these bytes. But the index knows how long an item is, so there it is damage.
 */
static int report_unused_bytes(struct archive *a, const struct ckpt_zip_difference *d)
{
	bool is_wrong = a->place && d->part == CKPT_ZIP_TRAILER;
	char text[200];

	if (d->part == CKPT_ZIP_TRAILER)
		snprintf(text, sizeof(text), "%" PRIu64 " bytes follow the end of the archive",
			 d->len);
	else
		snprintf(text, sizeof(text),
			 "%" PRIu64 " bytes belong to no record, as edits in place leave them",
			 d->len);
	return report(a, is_wrong ? CKPT_FINDING_DAMAGE : CKPT_FINDING_ODD, NULL, d->off, text);
}

static int report_differences(struct archive *a, const struct ckpt_zip_comparison *c)
{
	/* together, as there may be two records only, and one of them with damage in its header */
	uint64_t same = (uint64_t)c->same_headers + c->same_entries,
		 all = (uint64_t)a->located + a->zip->count;
	bool by_torch = 2 * same > all || a->headers + a->entries + a->others <= 1;
	int rc = 0;

	if (!by_torch && (a->headers || a->entries))
		rc = report(a, CKPT_FINDING_ODD, NULL, CKPT_NO_OFFSET,
			    "is not packed as torch packs: by another program, or an older torch");
	for (uint32_t i = 0; rc == 0 && i < a->kept_count; i++) {
		if (a->kept[i].part >= CKPT_ZIP_GAP)
			rc = report_unused_bytes(a, &a->kept[i]);
		else if (by_torch)
			rc = report_difference(a, &a->kept[i]);
	}
	return rc;
}

static int compare_layout(struct archive *a, struct ckpt_error *err)
{
	struct ckpt_zip_comparison c = { .differs = keep_difference, .ctx = a };
	int rc = ckpt_zip_compare(a->zip, alignment_of(a->zip), &c, err);

	return rc == 0 ? report_differences(a, &c) : rc;
}

/* ---- the data ---- */

static int add_record(struct archive *a, uint32_t i, const struct ckpt_contents *contents,
		      struct ckpt_error *err)
{
	const struct ckpt_zip_entry *e = &a->zip->entries[i];
	struct ckpt_recipe recipe = ckpt_zip_recipe(a->zip, e);
	struct ckpt_subject subject = { .place = a->place,
					.has_crc = e->crc32 || !e->usize,
					.crc32 = e->crc32,
					.dtype = CKPT_DTYPE_UNKNOWN };
	char shown[SHOWN];

	if (contents) {
		ckpt_shown_copy(&contents->shown[i], &subject);
		subject.swapped = contents->swapped;
	}
	shown_name(e, shown);
	subject.record = ckpt_batch_text(a->v, shown, strlen(shown));
	return subject.record ? ckpt_batch_add(a->v, &recipe, &subject, err) : ckpt_fail_nomem(err);
}

static int add_records(struct archive *a, const struct ckpt_contents *contents,
		       struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < a->zip->count; i++)
		if (a->zip->entries[i].data_off)
			rc = add_record(a, i, contents, err);
	return rc;
}

int ckpt_verify_archive(struct ckpt_verifier *v, struct ckpt_zip *zip, const char *place,
			const struct ckpt_contents *contents, struct ckpt_error *err)
{
	struct archive *a = calloc(1, sizeof(*a));
	int rc = ckpt_batch_add_zip(v, zip, err);

	if (rc == 0 && !a)
		rc = ckpt_fail_nomem(err);
	if (rc < 0) {
		free(a);
		return rc;
	}
	a->v = v;
	a->zip = zip;
	if (place)
		a->place = ckpt_batch_text(v, place, strlen(place));
	v->report.records += zip->count;
	rc = locate_records(a, err);
	if (rc == 0)
		rc = compare_layout(a, err);
	if (rc == 0 && ckpt_verifier_wants_bytes(v))
		rc = add_records(a, contents, err);
	free(a);
	return rc;
}
