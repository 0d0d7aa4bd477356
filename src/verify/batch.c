/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the bytes of many records together, and compares their checksums and looks for numbers that
 * are not finite.
 *
 * Small items are collected until there is enough to read (ckpt_batch_flush_if_large()). Archives
 * and texts that records refer to belong to the batch and are freed with it, so nothing of them may
 * be used after ckpt_batch_flush(). Findings are reported after reading, in the order of the
 * records.
 */
#include "base/cancel.h"
#include "verify/verifier.h"

#include "base/grow.h"
#include "base/text.h"
#include "plan/read_blocks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MUCH_BYTES = 256 << 20;
enum { MANY_ZIPS = 256, TEXT_BUDGET = 1 << 30 };

bool ckpt_verifier_wants_bytes(const struct ckpt_verifier *v)
{
	return !(v->options.flags & CKPT_VERIFY_QUICK);
}

/* ---- collecting ---- */

int ckpt_batch_add(struct ckpt_verifier *v, const struct ckpt_recipe *recipe,
		   const struct ckpt_subject *subject, struct ckpt_error *err)
{
	struct ckpt_batch *b = &v->batch;
	void *grown = ckpt_grow(b->recipes, b->count, &b->recipe_cap, sizeof(*b->recipes));

	if (!grown)
		return ckpt_fail_nomem(err);
	b->recipes = grown;
	grown = ckpt_grow(b->subjects, b->count, &b->subject_cap, sizeof(*b->subjects));
	if (!grown)
		return ckpt_fail_nomem(err);
	b->subjects = grown;
	b->recipes[b->count] = *recipe;
	b->subjects[b->count++] = *subject;
	b->bytes += recipe->len;
	return 0;
}

int ckpt_batch_add_zip(struct ckpt_verifier *v, struct ckpt_zip *zip, struct ckpt_error *err)
{
	struct ckpt_batch *b = &v->batch;
	struct ckpt_zip **grown =
		ckpt_grow(b->zips, b->zip_count, &b->zip_cap, sizeof(struct ckpt_zip *));

	if (!grown) {
		ckpt_zip_close(zip);
		return ckpt_fail_nomem(err);
	}
	b->zips = grown;
	b->zips[b->zip_count++] = zip;
	return 0;
}

const char *ckpt_batch_text(struct ckpt_verifier *v, const char *text, size_t len)
{
	if (!v->batch.arena)
		v->batch.arena = ckpt_arena_new(TEXT_BUDGET);
	return v->batch.arena ? ckpt_arena_copy(v->batch.arena, text, len) : NULL;
}

void ckpt_batch_clear(struct ckpt_batch *b)
{
	for (uint32_t i = 0; i < b->zip_count; i++)
		ckpt_zip_close(b->zips[i]);
	free(b->zips);
	free(b->recipes);
	free(b->subjects);
	ckpt_arena_free(b->arena);
	*b = (struct ckpt_batch){ 0 };
}

/* ---- reading ---- */

static int count_not_finite(void *ctx, const struct ckpt_block *block, struct ckpt_error *err)
{
	struct ckpt_verifier *v = ctx;
	struct ckpt_subject *s = &v->batch.subjects[block->i];
	uint64_t nans = 0, infinities = 0, end = block->pos + block->len;
	uint64_t from = s->shown_from > block->pos ? s->shown_from : block->pos;

	(void)err;
	if (end > s->shown_to)
		end = s->shown_to;
	if (s->dtype == CKPT_DTYPE_UNKNOWN || from >= end)
		return 0;
	ckpt_count_not_finite(s->dtype, s->swapped, block->bytes + (from - block->pos),
			      (size_t)(end - from), &nans, &infinities);
	if (nans)
		s->nans += nans;
	if (infinities)
		s->infinities += infinities;
	return 0;
}

static int tick(void *ctx, uint64_t done, struct ckpt_error *err)
{
	struct ckpt_verifier *v = ctx;

	if (ckpt_cancelled(v->options.cancel))
		return ckpt_fail(err, CKPT_E_CANCELLED, "interrupted");
	if (v->options.progress)
		v->options.progress(v->options.progress_ctx, v->done + done, v->total);
	return 0;
}

static int report_subject(struct ckpt_verifier *v, const struct ckpt_subject *s,
			  enum ckpt_finding_kind kind, const char *text)
{
	return ckpt_verifier_report(v, kind, s->record, CKPT_NO_OFFSET, "%s%s%s",
				    s->place ? s->place : "", s->place ? ": " : "", text);
}

/* Damage in one record is a finding; an error of the disk ends the call. */
static int note_unreadable(void *ctx, uint64_t i, int rc, const struct ckpt_error *err)
{
	struct ckpt_verifier *v = ctx;
	struct ckpt_subject *s = &v->batch.subjects[i];
	char text[sizeof(err->text)];

	if (rc != CKPT_E_FORMAT && rc != CKPT_E_LIMIT && rc != CKPT_E_UNSUPPORTED)
		return rc;
	s->unreadable = true;
	return report_subject(v, s, CKPT_FINDING_DAMAGE, ckpt_error_text(err, text, sizeof(text)));
}

/* ---- findings ---- */

static int report_checksum(struct ckpt_verifier *v, const struct ckpt_subject *s, uint64_t len,
			   uint32_t found)
{
	char text[160];

	if (!s->has_crc) {
		v->without_crc += len > 0;
		v->without_crc_bytes += len;
		return 0;
	}
	if (s->crc32 == found) {
		v->report.checked++;
		v->report.bytes += len;
		return 0;
	}
	snprintf(text, sizeof(text),
		 "its %" PRIu64 " bytes have the checksum %08" PRIx32 ", recorded is %08" PRIx32,
		 len, found, s->crc32);
	return report_subject(v, s, CKPT_FINDING_DAMAGE, text);
}

static int report_not_finite(struct ckpt_verifier *v, struct ckpt_subject *s)
{
	uint64_t nans = s->nans, infinities = s->infinities;
	char text[400], shown[240];

	if (!nans && !infinities)
		return 0;
	snprintf(text, sizeof(text), "'%s' has %" PRIu64 " NaN and %" PRIu64 " infinite values",
		 ckpt_escape(shown, sizeof(shown), s->tensor, strlen(s->tensor)), nans, infinities);
	return report_subject(v, s, CKPT_FINDING_NOT_FINITE, text);
}

static int report_results(struct ckpt_verifier *v, const uint32_t *crcs)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < v->batch.count; i++) {
		struct ckpt_subject *s = &v->batch.subjects[i];

		if (s->unreadable)
			continue;
		rc = report_checksum(v, s, v->batch.recipes[i].len, crcs[i]);
		if (rc == 0)
			rc = report_not_finite(v, s);
	}
	return rc;
}

int ckpt_batch_flush(struct ckpt_verifier *v, struct ckpt_error *err)
{
	struct ckpt_batch *b = &v->batch;
	struct ckpt_block_reading reading = { .recipes = b->recipes,
					      .count = b->count,
					      .use = v->options.flags & CKPT_VERIFY_FINITE
							     ? count_not_finite
							     : NULL,
					      .failed = note_unreadable,
					      .tick = tick,
					      .ctx = v };
	uint32_t *crcs = malloc((b->count + (size_t)1) * sizeof(*crcs));
	int rc = crcs ? 0 : ckpt_fail_nomem(err);

	reading.crc32 = crcs;
	if (rc == 0 && !v->workers)
		rc = ckpt_workers_new(ckpt_block_buffer_size(0, 0), v->options.threads, &v->workers,
				      err);
	if (rc == 0 && b->count)
		rc = ckpt_read_blocks(v->workers, &reading, err);
	if (rc == 0)
		rc = report_results(v, crcs);
	v->done += b->bytes;
	free(crcs);
	ckpt_batch_clear(b);
	return rc;
}

int ckpt_batch_flush_if_large(struct ckpt_verifier *v, struct ckpt_error *err)
{
	if (v->batch.bytes < MUCH_BYTES && v->batch.zip_count < MANY_ZIPS)
		return 0;
	return ckpt_batch_flush(v, err);
}
