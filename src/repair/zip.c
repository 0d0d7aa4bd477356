/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rescues a damaged archive: finds out which of its records are sound, puts the archive together
 * that torch would have written of them, and opens it.
 *
 * What must stay true:
 *  - A record is proven only if its bytes have a checksum that is recorded for it, and nothing says
 *    that its name is another's (is_of_another_record(), check_order()). In doubt it is unproven.
 *  - The pickle names all tensors, so without a proof for it no tensor is proven. Compressed
 *    records are checked after stored ones, as their unpacked sizes come from the pickle.
 *  - Whatever makes less of a record than torch would see sets report.damaged: a file without
 *    damage is opened as it is.
 */
#include "repair/rescue.h"

#include "base/text.h"
#include "format/torch_zip.h"
#include "repair/order.h"
#include "repair/rebuild.h"
#include "repair/remains.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 200 };

/* ---- the bytes of each record ---- */

static const char *shown_name(const struct ckpt_remnant *record, char buf[SHOWN])
{
	return ckpt_escape(buf, SHOWN, record->name, record->name_len);
}

static bool matches_crc(const struct ckpt_remnant *record, uint32_t crc32)
{
	for (uint32_t i = 0; i < record->crc_count; i++)
		if (record->crcs[i] == crc32)
			return true;
	return record->has_doubtful && record->doubtful_crc == crc32;
}

/* Can the record be used if its bytes are right? False: *WHY says why not. */
static bool is_usable(struct ckpt_rescue *r, const struct ckpt_remains *remains,
		      const struct ckpt_remnant *record, const char **why)
{
	uint64_t size = ckpt_source_size(remains->source);

	*why = NULL;
	if (record->misnamed)
		*why = "its name is damaged";
	else if (!record->sized)
		*why = "where it ends cannot be told";
	else if (record->cut && record->data_off >= size)
		*why = "the file ends before it";
	else if (record->cut)
		*why = ckpt_rescue_text(r, "the file ends %" PRIu64 " bytes into it, of %" PRIu64,
					size - record->data_off, record->csize);
	else if (record->method != CKPT_ZIP_STORED && record->method != CKPT_ZIP_DEFLATED)
		*why = ckpt_rescue_text(r,
					"it is compressed with method %u, which torch cannot read",
					record->method);
	else if (record->method == CKPT_ZIP_DEFLATED &&
		 (record->csize >= UINT32_MAX || record->usize >= UINT32_MAX))
		*why = "it is compressed, and larger than 4 GiB";
	else
		return true;
	return false;
}

static const char *why_unproven(const struct ckpt_remnant *record)
{
	if (record->torn)
		return "the file ends before its checksum";
	if (record->overwritten)
		return "its checksum is overwritten";
	return "no checksum was recorded";
}

/*
 * Where bytes are missing, the name in front of a record may be that of another one, with its
 * checksum. The directory, which does not fit the file anymore, shows that.
 */
static bool is_of_another_record(const struct ckpt_remains *remains,
				 const struct ckpt_remnant *record, uint32_t crc32)
{
	if (remains->zip)
		return false;
	return record->crc_count > 1 || (record->has_elsewhere && record->elsewhere_crc != crc32);
}

/* Sets the mark of a record: its bytes are all there, and their checksum is CRC32. */
static void set_mark(struct ckpt_rescue *r, const struct ckpt_remains *remains,
		     const struct ckpt_remnant *record, uint32_t crc32,
		     struct ckpt_piece_fate *fate)
{
	fate->mark = CKPT_FATE_UNPROVEN;
	if (!record->csize || matches_crc(record, crc32)) {
		r->report.damaged |= record->crc_count > 1; /* they differ */
		if (is_of_another_record(remains, record, crc32)) {
			fate->why = "the directory has another checksum for it";
			return;
		}
		fate->mark = CKPT_FATE_PROVEN;
		fate->crc32 = record->csize ? crc32 : 0;
	} else if (record->crc_count && record->says_none) {
		r->report.damaged = true;
		fate->why = "of its checksums one is damaged, and the other was not recorded";
	} else if (record->crc_count) {
		fate->mark = CKPT_FATE_LOST;
		fate->why = ckpt_rescue_text(r,
					     "its bytes have the checksum %08" PRIx32
					     ", recorded is %08" PRIx32,
					     crc32, record->crcs[0]);
	} else if (record->blank) {
		fate->mark = CKPT_FATE_LOST;
		fate->why = "zeros are where its checksum should be: it was never written whole";
	} else {
		fate->why = why_unproven(record);
	}
}

static struct ckpt_recipe extent(const struct ckpt_remains *remains,
				 const struct ckpt_remnant *record)
{
	return (struct ckpt_recipe){ .kind = CKPT_RECIPE_EXTENT,
				     .src = remains->source,
				     .off = record->data_off,
				     .len = record->csize };
}

/* Compressed records are checked later: checksums are those of the unpacked bytes. */
static int check_stored(struct ckpt_rescue *r, const struct ckpt_remains *remains,
			struct ckpt_piece_fate *fates, struct ckpt_error *err)
{
	size_t room = remains->count + (size_t)1;
	struct ckpt_recipe *recipes = malloc(room * sizeof(*recipes));
	uint32_t *crcs = calloc(room, sizeof(*crcs));
	bool *readable = malloc(room * sizeof(*readable));
	int rc = recipes && crcs && readable ? 0 : ckpt_fail_nomem(err);

	for (uint32_t i = 0; rc == 0 && i < remains->count; i++) {
		const struct ckpt_remnant *record = &remains->records[i];
		bool usable = is_usable(r, remains, record, &fates[i].why);

		fates[i].mark = usable ? CKPT_FATE_UNPROVEN : CKPT_FATE_LOST;
		recipes[i] = extent(remains, record);
		if (!usable || record->method != CKPT_ZIP_STORED)
			recipes[i].len = recipes[i].off = 0;
	}
	if (rc == 0)
		rc = ckpt_rescue_check_texts(r, err);
	if (rc == 0)
		rc = ckpt_rescue_checksum(r, recipes, remains->count, crcs, readable, err);
	for (uint32_t i = 0; rc == 0 && i < remains->count; i++) {
		const struct ckpt_remnant *record = &remains->records[i];

		if (fates[i].why || record->method != CKPT_ZIP_STORED)
			continue;
		if (readable[i]) {
			set_mark(r, remains, record, crcs[i], &fates[i]);
			continue;
		}
		fates[i].mark = CKPT_FATE_LOST;
		fates[i].why = "it cannot be read";
	}
	free(recipes);
	free(crcs);
	free(readable);
	return rc;
}

/* In front of a gap a checksum proves the bytes of a record, but not its name. */
static int check_order(struct ckpt_rescue *r, const struct ckpt_remains *remains,
		       struct ckpt_piece_fate *fates, struct ckpt_error *err)
{
	bool *gap = malloc(remains->count + (size_t)1);
	int rc = gap ? ckpt_order_find_gaps(remains, gap, err) : ckpt_fail_nomem(err);

	for (uint32_t i = 0; rc == 0 && i < remains->count; i++) {
		if (!gap[i] || fates[i].mark != CKPT_FATE_PROVEN)
			continue;
		r->report.damaged = true;
		fates[i].mark = CKPT_FATE_UNPROVEN;
		fates[i].why = "records are missing behind it: the bytes may be those of another";
	}
	free(gap);
	return rc;
}

/* Compressed records are unpacked by way of an archive of all records that can be read. */
static int check_deflated(struct ckpt_rescue *r, struct ckpt_rebuild *b, struct ckpt_error *err)
{
	const struct ckpt_remains *remains = b->remains;
	struct ckpt_source *source = NULL;
	struct ckpt_zip *zip = NULL;
	int rc;

	b->as_it_is = true;
	rc = ckpt_rebuild_archive(b, &source, err);
	b->as_it_is = false;
	if (rc == 0)
		rc = ckpt_zip_open(source, &zip, err);
	for (uint32_t i = 0; rc == 0 && i < remains->count; i++) {
		const struct ckpt_remnant *record = &remains->records[i];
		struct ckpt_error locating = CKPT_ERROR_INIT;
		struct ckpt_zip_entry *entry;
		struct ckpt_recipe recipe;
		uint32_t crc32;
		bool readable;

		if (record->method != CKPT_ZIP_DEFLATED || b->fates[i].why)
			continue;
		entry = ckpt_zip_find(zip, record->name, record->name_len);
		if (!entry)
			continue;
		rc = ckpt_zip_locate(zip, entry, &locating);
		if (rc == CKPT_E_NOMEM) {
			rc = ckpt_fail_nomem(err);
			break;
		}
		if (rc < 0) {
			rc = 0;
			continue;
		}
		recipe = ckpt_zip_recipe(zip, entry);
		rc = ckpt_rescue_checksum(r, &recipe, 1, &crc32, &readable, err);
		if (rc == 0 && readable)
			set_mark(r, remains, record, crc32, &b->fates[i]);
		else
			b->fates[i] = (struct ckpt_piece_fate){
				.mark = CKPT_FATE_LOST, .why = "what it is compressed to is damaged"
			};
	}
	ckpt_zip_close(zip);
	ckpt_source_unref(source);
	return rc;
}

/* Unpacked sizes of storages come from the pickle: header and directory may be damaged. */
static bool set_deflated_sizes(struct ckpt_remains *remains)
{
	bool any = false;

	for (uint32_t i = 0; i < remains->count; i++) {
		struct ckpt_remnant *record = &remains->records[i];
		const char *key = ckpt_remains_key(remains, record);
		const uint64_t *size =
			key ? ckpt_strmap_find(&remains->sizes, key, strlen(key)) : NULL;

		if (record->method != CKPT_ZIP_DEFLATED)
			continue;
		any = true; /* only unpacking shows whether their sizes are right */
		if (size)
			record->usize = *size;
	}
	return any;
}

/* ---- without a pickle nothing can be saved ---- */

static int report_nameless(struct ckpt_rescue *r, const struct ckpt_rebuild *b, uint64_t *sound,
			   uint64_t *nbytes)
{
	char shown[SHOWN];
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < b->remains->count; i++) {
		const struct ckpt_remnant *record = &b->remains->records[i];

		if (b->fates[i].mark != CKPT_FATE_PROVEN || !ckpt_remains_key(b->remains, record))
			continue;
		++*sound;
		*nbytes += record->usize;
		rc = ckpt_rescue_report(r, CKPT_REPAIR_NOTE, shown_name(record, shown),
					b->remains->start + record->data_off,
					"is sound, %" PRIu64 " bytes: whose they are is not known",
					record->usize);
	}
	return rc;
}

static int fail_no_pickle(struct ckpt_rescue *r, const struct ckpt_rebuild *b, const char *what,
			  struct ckpt_error *err)
{
	uint64_t sound = 0, nbytes = 0;
	int rc = report_nameless(r, b, &sound, &nbytes);

	if (rc < 0)
		return rc;
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "nothing can be saved: %s, which alone tells the names, shapes and types "
			 "of the tensors; %" PRIu64 " of %" PRIu32
			 " records that were found are sound records of tensors, with %" PRIu64
			 " bytes",
			 what, sound, b->remains->count, nbytes);
}

static int fail_script(struct ckpt_error *err)
{
	return ckpt_fail(err, CKPT_E_UNSUPPORTED,
			 "is a TorchScript archive (torch.jit.save); what is repaired here is a "
			 "torch.save file");
}

/* A TorchScript archive that was cut off lacks the records that it is usually known by. */
static bool is_script(const struct ckpt_model *model)
{
	const struct ckpt_value *root = ckpt_model_now(model, model->root), *cls;

	if (root->kind != CKPT_CALL)
		return false;
	cls = ckpt_model_now(model, root->u.call->func);
	return cls->kind == CKPT_GLOBAL && !strncmp(cls->u.global->module, "__torch__", 9);
}

static int check_pickle(struct ckpt_rescue *r, const struct ckpt_rebuild *b, struct ckpt_error *err)
{
	const struct ckpt_remains *remains = b->remains;
	const struct ckpt_remnant *record = ckpt_remains_find(remains, "data.pkl");
	const struct ckpt_piece_fate *fate;

	if (!remains->count)
		return ckpt_fail(
			err, CKPT_E_FORMAT,
			"nothing can be saved: no record of a torch.save archive is found");
	if (ckpt_remains_find(remains, "constants.pkl"))
		return fail_script(err);
	if (!record)
		return fail_no_pickle(r, b, "the list of tensors (data.pkl) is missing", err);
	fate = &b->fates[record - remains->records];
	if (!record->sized || record->cut)
		return fail_no_pickle(r, b, "the list of tensors (data.pkl) is cut off", err);
	if (fate->mark == CKPT_FATE_LOST || remains->pickle_at < 0)
		return fail_no_pickle(r, b, "the list of tensors (data.pkl) is damaged", err);
	r->pickle = fate->mark;
	r->pickle_why =
		fate->mark == CKPT_FATE_UNPROVEN ? "no checksum proves the list of tensors" : NULL;
	return 0;
}

/* ---- storages, and what else is wrong ---- */

static int set_fate(struct ckpt_rescue *r, const struct ckpt_rebuild *b, const char *key,
		    size_t len, uint64_t nbytes, struct ckpt_error *err)
{
	struct ckpt_fate fate = { CKPT_FATE_LOST, CKPT_NO_OFFSET, NULL,
				  "its record is not in the file" };
	const struct ckpt_remnant *record = ckpt_rebuild_storage(b, key, len);
	char shown[SHOWN];

	if (record) {
		const struct ckpt_piece_fate *piece = &b->fates[record - b->remains->records];

		fate.mark = piece->mark;
		fate.why = piece->why;
		fate.offset = b->remains->start + record->data_off;
		fate.record = ckpt_rescue_text(r, "%s", shown_name(record, shown));
	}
	if (record && fate.mark != CKPT_FATE_LOST && ckpt_rebuild_nbytes(record) < nbytes) {
		fate.mark = CKPT_FATE_LOST;
		fate.why =
			ckpt_rescue_text(r, "it has %" PRIu64 " bytes, the pickle wants %" PRIu64,
					 ckpt_rebuild_nbytes(record), nbytes);
	}
	if (!nbytes) /* nothing of it can be lost */
		fate.mark = CKPT_FATE_PROVEN;
	if (fate.mark == CKPT_FATE_LOST)
		r->report.damaged = true;
	return ckpt_rescue_set_fate(r, key, len, &fate, err);
}

static int set_fates(struct ckpt_rescue *r, const struct ckpt_rebuild *b, struct ckpt_error *err)
{
	const struct ckpt_seq *persids = &b->remains->pickle.persids;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < persids->count; i++) {
		const struct ckpt_value *key = ckpt_storage_key(persids->items[i]);
		const char *text = key ? key->u.bytes.ptr : NULL;
		size_t len = key ? (size_t)key->u.bytes.len : 0;
		const uint64_t *size = key ? ckpt_strmap_find(&b->remains->sizes, text, len) : NULL;

		if (size && !ckpt_strmap_find(&r->by_key, text, len))
			rc = set_fate(r, b, text, len, *size, err);
	}
	return rc;
}

/* Other records: those whose texts are known are made anew, the rest is left out. */
static int report_other_records(struct ckpt_rescue *r, const struct ckpt_rebuild *b)
{
	char shown[SHOWN];
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < b->remains->count; i++) {
		const struct ckpt_remnant *record = &b->remains->records[i];
		const char *key = ckpt_remains_key(b->remains, record);

		if (b->fates[i].mark != CKPT_FATE_LOST || record->misnamed ||
		    (key && ckpt_strmap_find(&r->by_key, key, strlen(key))))
			continue;
		rc = ckpt_rescue_report(r, CKPT_REPAIR_DAMAGE, shown_name(record, shown),
					b->remains->start + record->data_off, "%s; %s",
					b->fates[i].why,
					ckpt_rebuild_is_fixed(b, record) ? "it is made anew"
									 : "it is left out");
	}
	if (rc == 0 && b->remains->start)
		rc = ckpt_rescue_report(r, CKPT_REPAIR_DAMAGE, NULL, 0,
					"%" PRIu64 " bytes stand in front of the archive",
					b->remains->start);
	if (rc == 0 && b->remains->another)
		rc = ckpt_rescue_report(r, CKPT_REPAIR_NOTE, NULL,
					b->remains->start + ckpt_source_size(b->remains->source) -
						b->remains->follows,
					"another archive follows, of %" PRIu64
					" bytes: it is not looked at",
					b->remains->follows);
	return rc;
}

/* ---- the whole ---- */

static int open_rebuilt(struct ckpt_rebuild *b, struct ckpt_model **out, struct ckpt_error *err)
{
	struct ckpt_source *source;
	int rc = ckpt_rebuild_archive(b, &source, err);

	if (rc == 0)
		rc = ckpt_torch_zip_read(source, out, err);
	ckpt_source_unref(source);
	if (rc == 0 && is_script(*out)) {
		ckpt_close(*out);
		*out = NULL;
		rc = fail_script(err);
	}
	return rc;
}

int ckpt_rescue_zip(struct ckpt_rescue *r, struct ckpt_model **out, struct ckpt_error *err)
{
	struct ckpt_remains remains;
	struct ckpt_rebuild b = { .remains = &remains };
	int rc = ckpt_remains_read(r->file, r->o.cancel, &remains, err);

	if (rc == 0) {
		b.fates = calloc(remains.count + (size_t)1, sizeof(*b.fates));
		rc = b.fates ? check_stored(r, &remains, b.fates, err) : ckpt_fail_nomem(err);
	}
	r->compressed = rc == 0 && set_deflated_sizes(&remains);
	if (rc == 0 && r->compressed)
		rc = check_deflated(r, &b, err);
	if (rc == 0)
		rc = check_order(r, &remains, b.fates, err);
	if (rc == 0)
		rc = ckpt_rescue_check_texts(r, err);
	if (rc == 0)
		rc = check_pickle(r, &b, err);
	if (rc == 0)
		ckpt_rebuild_find_byteorder(r, &b);
	if (rc == 0)
		rc = set_fates(r, &b, err);
	if (rc == 0)
		rc = ckpt_rescue_check_texts(r, err);
	if (rc == 0)
		rc = report_other_records(r, &b);
	if (rc == 0)
		rc = open_rebuilt(&b, out, err);
	free(b.fates);
	ckpt_remains_clear(&remains);
	return rc;
}
