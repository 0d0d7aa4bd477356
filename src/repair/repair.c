/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ckpt repair`: the entry point, and what the rescue of archives and of legacy streams have in
 * common: reporting, fates of storages, checksums.
 *
 * A file is damaged if `ckpt verify` finds damage, or the rescue does (report.damaged). A file
 * without damage is opened as it is, not rebuilt, so that repairing it changes nothing.
 */
#include "base/cancel.h"
#include "base/flags.h"
#include "repair/rescue.h"

#include "base/grow.h"
#include "base/sized.h"
#include "base/text.h"
#include "format/container.h"
#include "format/format.h"
#include "set/listing.h"

#include <ckpt/verify.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t TEXT_BUDGET = 1 << 30;

/* ---- reporting ---- */

int ckpt_rescue_report(struct ckpt_rescue *r, enum ckpt_repair_kind kind, const char *record,
		       uint64_t offset, const char *fmt, ...)
{
	struct ckpt_repair_finding finding = {
		.size = sizeof(finding), .kind = kind, .record = record, .offset = offset
	};
	char text[700];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	finding.text = text;
	if (kind == CKPT_REPAIR_DAMAGE)
		r->report.damaged = true;
	return r->found ? r->found(r->ctx, &finding) : 0;
}

const char *ckpt_rescue_text(struct ckpt_rescue *r, const char *fmt, ...)
{
	const char *copy;
	char text[400];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	copy = ckpt_arena_copy(r->arena, text, strlen(text));
	r->no_memory |= !copy;
	return copy;
}

int ckpt_rescue_check_texts(const struct ckpt_rescue *r, struct ckpt_error *err)
{
	return r->no_memory ? ckpt_fail_nomem(err) : 0;
}

int ckpt_rescue_set_fate(struct ckpt_rescue *r, const char *key, size_t len,
			 const struct ckpt_fate *fate, struct ckpt_error *err)
{
	void *grown = ckpt_grow(r->fates, r->fate_count, &r->fate_cap, sizeof(*r->fates));
	const char *copy = ckpt_arena_copy(r->arena, key, len);
	bool there;

	if (grown)
		r->fates = grown;
	if (!grown || !copy || !ckpt_strmap_insert(&r->by_key, copy, len, r->fate_count, &there))
		return ckpt_fail_nomem(err);
	if (!there)
		r->fates[r->fate_count++] = *fate;
	return 0;
}

/* ---- bytes ---- */

struct checksumming {
	struct ckpt_rescue *r;
	bool *readable;
};

static int tick(void *ctx, uint64_t done, struct ckpt_error *err)
{
	const struct ckpt_rescue *r = ((struct checksumming *)ctx)->r;

	if (ckpt_cancelled(r->o.cancel))
		return ckpt_fail(err, CKPT_E_CANCELLED, "interrupted");
	if (r->o.progress)
		r->o.progress(r->o.progress_ctx, done, r->total);
	return 0;
}

/* A sector that cannot be read is damage like any other: what is around it may be saved. */
static int note_unreadable(void *ctx, uint64_t i, int rc, const struct ckpt_error *err)
{
	(void)rc;
	(void)err;
	((struct checksumming *)ctx)->readable[i] = false;
	return 0;
}

int ckpt_rescue_checksum(struct ckpt_rescue *r, const struct ckpt_recipe *recipes, uint64_t count,
			 uint32_t *crc32, bool *readable, struct ckpt_error *err)
{
	struct checksumming l = { r, readable };
	struct ckpt_block_reading reading = { .recipes = recipes,
					      .count = count,
					      .crc32 = crc32,
					      .failed = note_unreadable,
					      .tick = tick,
					      .ctx = &l };
	int rc = 0;

	r->total = 0;
	for (uint64_t i = 0; i < count; i++) {
		readable[i] = true;
		r->total += recipes[i].len;
	}
	if (!r->workers)
		rc = ckpt_workers_new(ckpt_block_buffer_size(0, 0), r->o.threads, &r->workers, err);
	return rc == 0 ? ckpt_read_blocks(r->workers, &reading, err) : rc;
}

/* ---- damage that verify finds ---- */

static int report_finding(void *ctx, const struct ckpt_finding *f)
{
	struct ckpt_rescue *r = ctx;

	if (f->kind != CKPT_FINDING_DAMAGE)
		return 0;
	return ckpt_rescue_report(r, CKPT_REPAIR_DAMAGE, f->record, f->offset, "%s", f->text);
}

/* FLAGS: of ckpt_verify(). A file of no known format is damaged, too. */
static int verify_file(struct ckpt_rescue *r, const char *path, unsigned flags,
		       struct ckpt_error *err)
{
	struct ckpt_verify_options options = CKPT_VERIFY_OPTIONS_INIT;
	struct ckpt_error opening = CKPT_ERROR_INIT;
	char text[sizeof(opening.text)];
	int rc;

	options.flags = flags;
	options.cancel = r->o.cancel;
	options.threads = r->o.threads;
	rc = ckpt_verify(path, &options, report_finding, r, NULL, &opening);
	if (rc == CKPT_E_UNSUPPORTED || rc == CKPT_E_FORMAT || rc == CKPT_E_IO)
		return ckpt_rescue_report(r, CKPT_REPAIR_DAMAGE, NULL, CKPT_NO_OFFSET, "%s",
					  ckpt_error_text(&opening, text, sizeof(text)));
	if (rc < 0 && err)
		*err = opening;
	return rc;
}

/* ---- the whole ---- */

typedef int rescue_fn(struct ckpt_rescue *r, struct ckpt_model **out, struct ckpt_error *err);

/* By its first bytes; what begins as none of the others may be an archive that lost its beginning. */
static rescue_fn *choose_rescue(const struct ckpt_source *file)
{
	uint8_t head[CKPT_PROBE_BYTES];
	struct ckpt_opening opening = { .head = head, .size = ckpt_source_size(file) };

	opening.len = opening.size < sizeof(head) ? (size_t)opening.size : sizeof(head);
	if (ckpt_source_read(file, 0, head, opening.len, NULL) < 0)
		return ckpt_rescue_zip;
	if (ckpt_format_torch_legacy.probe(&opening))
		return ckpt_rescue_legacy;
	return ckpt_format_safetensors.probe(&opening) ? ckpt_rescue_safetensors : ckpt_rescue_zip;
}

static int run_rescue(struct ckpt_rescue *r, const char *path, struct ckpt_model **out,
		      struct ckpt_error *err)
{
	struct ckpt_model *all = NULL;
	int rc = choose_rescue(r->file)(r, &all, err);

	if (rc == 0)
		rc = ckpt_rescue_tensors(r, all, out, err);
	ckpt_close(all);
	if (rc == 0 && !r->report.damaged && r->compressed)
		rc = verify_file(r, path, 0, err);
	if (rc == 0 && r->report.damaged && r->pickle != CKPT_FATE_PROVEN && !r->report.tensors)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "nothing can be saved: the list of tensors (data.pkl) is damaged, "
				 "or it names none");
	if (rc < 0 || r->report.damaged)
		return rc;
	ckpt_close(*out); /* the file is sound */
	return ckpt_format_open(r->file, out, err);
}

static int refuse_folder(const char *path, struct ckpt_error *err)
{
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_UNSUPPORTED,
				       "is a directory; what is repaired here is one file"),
			     path, NULL, CKPT_NO_OFFSET);
}

static void clear_rescue(struct ckpt_rescue *r)
{
	ckpt_workers_free(r->workers);
	ckpt_strmap_clear(&r->by_key);
	ckpt_arena_free(r->arena);
	free(r->fates);
	ckpt_source_unref(r->file);
}

int ckpt_repair_open(const char *path, const struct ckpt_repair_options *options,
		     int (*found)(void *ctx, const struct ckpt_repair_finding *finding), void *ctx,
		     struct ckpt_model **out, struct ckpt_repair_report *report,
		     struct ckpt_error *err)
{
	struct ckpt_rescue r = { .o = CKPT_REPAIR_OPTIONS_INIT,
				 .report = CKPT_REPAIR_REPORT_INIT,
				 .found = found,
				 .ctx = ctx };
	bool inside;
	int rc = ckpt_sized_take(&r.o, sizeof(r.o), options, err);

	*out = NULL;
	if (rc == 0)
		rc = ckpt_flags_check(r.o.flags, CKPT_REPAIR_PROVEN_ONLY, err);
	if (rc == 0)
		rc = ckpt_unused_check(&r.o.reserved, sizeof(r.o.reserved), err);
	if (rc == 0)
		rc = ckpt_sized_check(report, sizeof(r.report), err);
	if (rc == 0 && ckpt_set_is_folder(path))
		rc = refuse_folder(path, err);
	if (rc == 0)
		rc = ckpt_container_open(path, &r.file, &inside, err);
	if (rc < 0)
		return rc;
	r.arena = ckpt_arena_new(TEXT_BUDGET);
	rc = r.arena ? verify_file(&r, path, CKPT_VERIFY_QUICK, err) : ckpt_fail_nomem(err);
	if (rc == 0)
		rc = run_rescue(&r, path, out, err);
	if (rc < 0) {
		ckpt_close(*out);
		*out = NULL;
	}
	ckpt_sized_give(report, &r.report, sizeof(r.report));
	clear_rescue(&r);
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}
