/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifies one file: an archive record by record, other formats as far as they can be checked, and
 * what is odd about the tensors.
 *
 * An archive that does not open as a checkpoint is verified all the same, as its records may show
 * what is damaged; the error of opening is reported only if they do not. With CKPT_VERIFY_FINITE
 * only bytes that tensors show are searched for numbers that are not finite (struct ckpt_shown).
 */
#include "verify/verifier.h"

#include "format/torch_zip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SCRATCH_BUDGET = 1 << 24 };

/* ---- which bytes of records tensors show ---- */

static struct ckpt_shown *new_shown(uint64_t count)
{
	struct ckpt_shown *shown = malloc((count + 1) * sizeof(*shown));

	for (uint64_t i = 0; shown && i < count; i++)
		shown[i].dtype = CKPT_DTYPE_UNKNOWN;
	return shown;
}

/* Calls USE with the stored form of each tensor. */
static int each_stored_tensor(const struct ckpt_model *model,
			      void (*use)(void *ctx, const struct ckpt_tensor *t), void *ctx,
			      struct ckpt_error *err)
{
	struct ckpt_arena *scratch = ckpt_arena_new(SCRATCH_BUDGET);

	if (!scratch)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		struct ckpt_arena_mark mark = ckpt_arena_mark(scratch);
		struct ckpt_tensor t;

		if (ckpt_tensor_stored(model, &model->tensors[i], scratch, &t))
			use(ctx, &t);
		ckpt_arena_release(scratch, mark);
	}
	ckpt_arena_free(scratch);
	return 0;
}

struct record_search {
	const struct ckpt_model *model;
	const struct ckpt_torch_zip *tz;
	struct ckpt_shown *shown;
};

static void add_to_record(void *ctx, const struct ckpt_tensor *t)
{
	struct record_search *in = ctx;
	const struct ckpt_zip_entry *e =
		ckpt_torch_zip_data(in->tz, &in->model->storages[t->storage]);

	if (e)
		ckpt_shown_add(&in->shown[e - in->tz->zip->entries], t);
}

static void add_to_storage(void *ctx, const struct ckpt_tensor *t)
{
	struct ckpt_shown *shown = ctx;

	ckpt_shown_add(&shown[t->storage], t);
}

static int make_contents(const struct ckpt_model *model, struct ckpt_contents *c,
			 struct ckpt_error *err)
{
	const struct ckpt_torch_zip *tz = ckpt_torch_zip_of(model);
	struct record_search in = { .model = model, .tz = tz };

	c->swapped = !strcmp(tz->byteorder, "big");
	c->shown = in.shown = new_shown(tz->zip->count);
	if (!c->shown)
		return ckpt_fail_nomem(err);
	return each_stored_tensor(model, add_to_record, &in, err);
}

/* ---- the archive ---- */

/* MODEL is NULL if the file does not open as a checkpoint. */
static int verify_archive(struct ckpt_verifier *v, struct ckpt_source *source,
			  const struct ckpt_model *model, struct ckpt_error *err)
{
	struct ckpt_contents contents = { 0 };
	bool wants_numbers = model && model->doc->format == &ckpt_format_torch_zip &&
			     v->options.flags & CKPT_VERIFY_FINITE;
	struct ckpt_zip *zip;
	struct ckpt_error local = CKPT_ERROR_INIT;
	int rc = ckpt_zip_open(source, &zip, &local);

	if ((rc == CKPT_E_NOMEM || rc == CKPT_E_IO) && err)
		*err = local;
	if (rc < 0) /* else the error of opening the model says why */
		return rc == CKPT_E_NOMEM || rc == CKPT_E_IO ? rc : 0;
	if (wants_numbers)
		rc = make_contents(model, &contents, err);
	if (rc == 0)
		rc = ckpt_verify_archive(v, zip, NULL, wants_numbers ? &contents : NULL, err);
	else
		ckpt_zip_close(zip);
	if (rc == 0)
		rc = ckpt_batch_flush(v, err);
	free(contents.shown);
	return rc;
}

/* ---- the checkpoint ---- */

/* Records that no tensor needs; torch ignores them. */
static int report_unneeded(struct ckpt_verifier *v, const struct ckpt_model *model)
{
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;
	int rc = 0;

	model->doc->format->describe(model, &info);
	if (info.unreferenced)
		rc = ckpt_verifier_report(v, CKPT_FINDING_ODD, NULL, CKPT_NO_OFFSET,
					  "%" PRIu32
					  " records of storages are mentioned by no tensor",
					  info.unreferenced);
	if (rc == 0 && info.foreign && model->doc->format == &ckpt_format_torch_zip)
		rc = ckpt_verifier_report(v, CKPT_FINDING_ODD, NULL, CKPT_NO_OFFSET,
					  "%" PRIu32 " records are none that torch.save writes",
					  info.foreign);
	if (rc == 0 && info.compressed)
		rc = ckpt_verifier_report(
			v, CKPT_FINDING_ODD, NULL, CKPT_NO_OFFSET,
			"%" PRIu32
			" records of storages are compressed: torch loads them, but not with mmap",
			info.compressed);
	return rc;
}

static int add_storages(struct ckpt_verifier *v, struct ckpt_model *model,
			const struct ckpt_shown *shown, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < model->storage_count; i++) {
		const struct ckpt_storage *s = &model->storages[i];
		struct ckpt_subject subject = { 0 };
		struct ckpt_recipe recipe;

		if (shown[i].dtype == CKPT_DTYPE_UNKNOWN)
			continue;
		ckpt_shown_copy(&shown[i], &subject);
		rc = ckpt_model_storage_bytes(model, s, &recipe, err);
		if (rc == 0)
			rc = ckpt_batch_add(v, &recipe, &subject, err);
	}
	return rc;
}

int ckpt_verify_numbers(struct ckpt_verifier *v, struct ckpt_model *model, struct ckpt_error *err)
{
	struct ckpt_shown *shown = new_shown(model->storage_count);
	uint64_t without_crc = v->without_crc, bytes = v->without_crc_bytes;
	int rc = shown ? 0 : ckpt_fail_nomem(err);

	if (rc == 0)
		rc = each_stored_tensor(model, add_to_storage, shown, err);
	if (rc == 0)
		rc = add_storages(v, model, shown, err);
	if (rc == 0)
		rc = ckpt_batch_flush(v, err);
	v->without_crc = without_crc; /* checksums are not what this is about */
	v->without_crc_bytes = bytes;
	free(shown);
	return rc;
}

/* A format without checksums: that it opened means that everything is where it has to be. */
static int verify_plain(struct ckpt_verifier *v, struct ckpt_model *model, struct ckpt_error *err)
{
	bool safetensors = model->doc->format == &ckpt_format_safetensors;
	uint64_t bytes = 0;
	int rc = 0;

	for (uint32_t i = 0; i < model->storage_count; i++)
		if (!model->storages[i].view)
			bytes += model->storages[i].nbytes;
	if (v->options.flags & CKPT_VERIFY_FINITE && ckpt_verifier_wants_bytes(v))
		rc = ckpt_verify_numbers(v, model, err);
	if (rc == 0 && !v->is_summed && !(safetensors && ckpt_verifier_note_filled(v)))
		rc = ckpt_verifier_report(
			v, CKPT_FINDING_UNPROVEN, NULL, CKPT_NO_OFFSET,
			"a %s has no checksums: nothing tells if its %s and its %" PRIu64
			" bytes of tensors are as they were written",
			safetensors ? "safetensors file" : model->doc->format->name,
			safetensors ? "header" : "pickle", bytes);
	return rc;
}

static int verify_model(struct ckpt_verifier *v, struct ckpt_model *model, bool is_archive,
			struct ckpt_error *err)
{
	int rc = is_archive ? 0 : verify_plain(v, model, err);

	v->report.tensors += model->tensor_count;
	if (rc == 0)
		rc = report_unneeded(v, model);
	if (rc == 0)
		rc = ckpt_verifier_report_notes(v, model, err);
	if (rc == 0 && model->doc->format == &ckpt_format_torch_zip)
		rc = ckpt_verify_storage_layout(v, model, err);
	return rc;
}

static bool starts_like_archive(const struct ckpt_source *source)
{
	uint8_t head[4];

	return ckpt_source_size(source) >= sizeof(head) &&
	       ckpt_source_read(source, 0, head, sizeof(head), NULL) == 0 &&
	       !memcmp(head, "PK\x03\x04", sizeof(head));
}

int ckpt_verify_file(struct ckpt_verifier *v, struct ckpt_source *source, struct ckpt_error *err)
{
	struct ckpt_error opening = CKPT_ERROR_INIT;
	struct ckpt_model *model;
	uint64_t before = v->report.findings[CKPT_FINDING_DAMAGE];
	bool is_archive = starts_like_archive(source);
	int opened = ckpt_format_open(source, &model, &opening), rc = 0;

	if (opened == 0) {
		opened = ckpt_format_refuse_data_file(ckpt_source_path(source), &opening);
		if (opened < 0) {
			if (err)
				*err = opening;
			ckpt_close(model);
			return opened;
		}
	}

	v->report.files++;
	ckpt_verifier_begin_file(v);
	if (is_archive || !model) /* the first bytes may be the damage */
		rc = verify_archive(v, source, model, err);
	if (rc == 0 && model)
		rc = verify_model(v, model, is_archive, err);
	ckpt_close(model);
	if (rc < 0 || opened == 0)
		return rc;
	if (opened == CKPT_E_UNSUPPORTED && v->report.findings[CKPT_FINDING_DAMAGE] > before)
		return 0; /* it is damaged, and what it was cannot be known */
	rc = ckpt_verifier_report_error(v, opened, &opening);
	if (rc < 0 && err)
		*err = opening;
	return rc;
}
