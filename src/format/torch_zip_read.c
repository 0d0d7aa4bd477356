/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the pickle of a torch.save file and finds the records of its storages; torch_zip_open.c
 * has the archive around them.
 *
 * What must stay true: each storage has one record, long enough, which no other storage has; a
 * checksum counts only if the record is as long as the storage; memory is in proportion to the
 * bytes of the pickle in the file, compressed or not; in a brief model (ckpt_opening.brief)
 * tensors are folded, and names of records are forgotten once all storages have theirs.
 */
#include "format/torch_zip.h"

#include "base/text.h"
#include "model/cpp_calls.h"
#include "tensor/byteswap.h"
#include "zipfmt/dead.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MOST_PICKLE = (uint64_t)2 << 30;
static const uint64_t BUDGET_BASE = 64 << 20, PICKLE_BASE = 64 << 20;
enum { MOST_RATIO = 128 };

const struct ckpt_torch_zip *ckpt_torch_zip_of(const struct ckpt_model *model)
{
	static const struct ckpt_torch_zip new_one = {
		.archive_name = "archive",
		.version = "3\n",
		.byteorder = "little",
		.alignment = 64,
		.has_crc = true,
		.profile = &ckpt_profiles[CKPT_PROFILE_NEWEST],
	};

	if (model->doc->format == &ckpt_format_torch_zip)
		return model->doc->container;
	return &new_one;
}

/* ---- storages ---- */

struct ckpt_zip_entry *ckpt_torch_zip_data(const struct ckpt_torch_zip *tz,
					   const struct ckpt_storage *storage)
{
	return storage->record ? storage->record : ckpt_torch_zip_find(tz, "/data/", storage->key);
}

/* Is E the record of storage S? NAME_LEN: the length of the archive name. */
static bool is_record_of(const struct ckpt_torch_zip *tz, const struct ckpt_zip_entry *e,
			 size_t name_len, const struct ckpt_storage *s)
{
	static const char folder[] = "/data/";
	size_t skip = name_len + sizeof(folder) - 1, len = strlen(s->key);

	return e->name_len == skip + len && !memcmp(e->name + skip, s->key, len) &&
	       !memcmp(e->name, tz->archive_name, name_len) &&
	       !memcmp(e->name + name_len, folder, sizeof(folder) - 1);
}

/* Records mostly come in the order of the storages, so it tries *NEXT, the one after the last. */
static int attach(struct ckpt_torch_zip *tz, size_t name_len, struct ckpt_storage *s,
		  uint32_t *next, struct ckpt_error *err)
{
	struct ckpt_zip_entry *e = *next < tz->zip->count ? &tz->zip->entries[*next] : NULL;
	int rc = e && is_record_of(tz, e, name_len, s) ? ckpt_torch_zip_attach_entry(tz, s, e, err)
						       : ckpt_torch_zip_attach(tz, s, s->key, err);

	if (rc == 0)
		*next = (uint32_t)((struct ckpt_zip_entry *)s->record - tz->zip->entries) + 1;
	return rc;
}

int ckpt_torch_zip_attach(struct ckpt_torch_zip *tz, struct ckpt_storage *s, const char *key,
			  struct ckpt_error *err)
{
	struct ckpt_zip_entry *entry = ckpt_torch_zip_find(tz, "/data/", key);

	if (!entry)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "the record 'data/%.200s' is missing, which holds %" PRIu64
				 " bytes of tensors",
				 key, s->nbytes);
	return ckpt_torch_zip_attach_entry(tz, s, entry, err);
}

int ckpt_torch_zip_attach_entry(struct ckpt_torch_zip *tz, struct ckpt_storage *s,
				struct ckpt_zip_entry *entry, struct ckpt_error *err)
{
	if (entry->usize < s->nbytes)
		return ckpt_error_at(err,
				     ckpt_fail(err, CKPT_E_FORMAT,
					       "has %" PRIu64 " bytes, the pickle wants %" PRIu64
					       " (%" PRIu64 " of %s)",
					       entry->usize, s->nbytes, s->numel,
					       ckpt_dtype_name(s->dtype)),
				     NULL, entry->name, CKPT_NO_OFFSET);
	if (entry->used)
		return ckpt_fail(
			err, CKPT_E_FORMAT,
			"two storages have keys that differ in case only; torch reads both from '%s'",
			entry->name);
	s->record = entry;
	entry->used = true;
	tz->compressed += entry->method != CKPT_ZIP_STORED;
	s->is_cut = entry->usize > s->nbytes;
	/* of a record that is too long only a part is used: its checksum is that of all */
	s->has_crc = entry->usize == s->nbytes && (entry->crc32 || !s->nbytes);
	s->crc32 = entry->crc32;
	return 0;
}

static void count_unused(struct ckpt_torch_zip *tz)
{
	for (uint32_t i = 0; i < tz->zip->count; i++) {
		const char *key;

		if (tz->zip->entries[i].used)
			continue;
		if (!ckpt_torch_zip_knows(tz, &tz->zip->entries[i], &key))
			tz->foreign++;
		else if (key)
			tz->unreferenced++;
	}
}

static int attach_storages(struct ckpt_model *model, struct ckpt_error *err)
{
	struct ckpt_document *doc = model->doc;
	struct ckpt_torch_zip *tz = doc->container;
	const struct ckpt_zip_entry *pickle =
		ckpt_torch_zip_record(tz, "data.pkl"); /* never NULL */
	size_t name_len = strlen(tz->archive_name);
	uint32_t next = 0;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < doc->storage_count; i++)
		rc = attach(tz, name_len, &doc->storages[i], &next, err);
	if (rc < 0)
		return rc;
	count_unused(tz);
	if (doc->pickle.has_folded)
		ckpt_zip_forget_names(tz->zip);
	tz->has_crc = pickle->crc32 != 0;
	tz->profile = ckpt_profile_detect(tz->has_format_version, tz->has_serialization_id,
					  tz->byteorder[0], !strcmp(tz->archive_name, "archive"),
					  doc->keys_are_numbers);
	return 0;
}

/* ---- the whole ---- */

uint64_t ckpt_torch_zip_most_pickle(const struct ckpt_zip_entry *entry)
{
	uint64_t most;

	if (__builtin_mul_overflow(entry->csize, (uint64_t)MOST_RATIO, &most) ||
	    __builtin_add_overflow(most, PICKLE_BASE, &most) || most > MOST_PICKLE)
		return MOST_PICKLE;
	return most;
}

int ckpt_torch_zip_read_pickle(struct ckpt_torch_zip *tz, uint32_t first_id, uint8_t **bytes,
			       size_t *len, struct ckpt_pickle *out, struct ckpt_error *err)
{
	return ckpt_torch_zip_read_pickle_of(tz, ckpt_torch_zip_record(tz, "data.pkl"), first_id,
					     bytes, len, out, err);
}

typedef int decode_pickle(uint32_t first_id, const void *bytes, size_t len, uint64_t budget,
			  struct ckpt_pickle *out, struct ckpt_error *err);

static int read_pickle(struct ckpt_torch_zip *tz, struct ckpt_zip_entry *entry,
		       decode_pickle *decode, uint32_t first_id, uint8_t **bytes, size_t *len,
		       struct ckpt_pickle *out, struct ckpt_error *err)
{
	char shown[160];
	uint64_t budget;
	int rc = ckpt_zip_read(tz->zip, entry, ckpt_torch_zip_most_pickle(entry), bytes, err);

	if (rc < 0)
		return rc;
	budget = *len = entry->usize;
	if (budget / 16 > entry->csize)
		budget = 16 * entry->csize;
	rc = decode(first_id, *bytes, *len, BUDGET_BASE + 80 * budget, out, err);
	return ckpt_error_at(err, rc, NULL,
			     rc < 0 ? ckpt_escape(shown, sizeof(shown), entry->name,
						  entry->name_len)
				    : NULL,
			     CKPT_NO_OFFSET);
}

int ckpt_torch_zip_read_pickle_of(struct ckpt_torch_zip *tz, struct ckpt_zip_entry *entry,
				  uint32_t first_id, uint8_t **bytes, size_t *len,
				  struct ckpt_pickle *out, struct ckpt_error *err)
{
	return read_pickle(tz, entry, ckpt_pickle_decode_from, first_id, bytes, len, out, err);
}

int ckpt_torch_zip_entry_bytes(struct ckpt_torch_zip *tz, struct ckpt_zip_entry *entry,
			       uint64_t nbytes, struct ckpt_recipe *out, struct ckpt_error *err)
{
	int rc = ckpt_zip_locate(tz->zip, entry, err);

	if (rc < 0)
		return rc;
	*out = ckpt_zip_recipe(tz->zip, entry);
	if (out->len < nbytes)
		return ckpt_fail(err, CKPT_E_FORMAT, "the record '%.200s' is too short",
				 entry->name);
	if (out->kind == CKPT_RECIPE_EXTENT)
		out->len = nbytes; /* what follows belongs to no tensor */
	else if (out->len != nbytes)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "the compressed record '%.200s' is longer than its storage",
				 entry->name);
	return 0;
}

static int storage_bytes(struct ckpt_document *doc, const struct ckpt_storage *s,
			 struct ckpt_recipe *out, struct ckpt_error *err)
{
	struct ckpt_torch_zip *tz = doc->container;
	struct ckpt_zip_entry *entry = ckpt_torch_zip_data(tz, s);

	if (!entry)
		return ckpt_fail(err, CKPT_E_FORMAT, "the record 'data/%.200s' is missing", s->key);
	return ckpt_torch_zip_entry_bytes(tz, entry, s->nbytes, out, err);
}

static int read_metadata(struct ckpt_document *doc, struct ckpt_zip *zip, bool brief,
			 struct ckpt_error *err)
{
	struct ckpt_torch_zip *tz;
	int rc = ckpt_torch_zip_open(doc->source, zip, &tz, err);

	doc->container = tz;
	doc->free_container = ckpt_torch_zip_free;
	doc->storage_bytes = storage_bytes;
	doc->big_endian = tz && !strcmp(tz->byteorder, "big");
	if (rc == 0)
		rc = read_pickle(tz, ckpt_torch_zip_record(tz, "data.pkl"),
				 brief ? ckpt_pickle_decode_folded : ckpt_pickle_decode_from, 1,
				 &doc->pickle_bytes, &doc->pickle_len, &doc->pickle, err);
	if (rc == 0)
		doc->of_cpp = ckpt_pickle_is_of_cpp(doc->pickle_bytes, doc->pickle_len);
	return rc;
}

static int read_torch_zip(struct ckpt_opening *opening, struct ckpt_model **out,
			  struct ckpt_error *err)
{
	struct ckpt_document *doc = calloc(1, sizeof(*doc));
	struct ckpt_model *model = NULL;
	char record[160];
	int rc;

	*out = NULL;
	if (!doc)
		return ckpt_fail_nomem(err);
	doc->refs = 1;
	doc->source = ckpt_source_ref(opening->source);
	doc->format = &ckpt_format_torch_zip;
	doc->read_whole = ckpt_torch_zip_read;
	rc = read_metadata(doc, opening->zip, opening->brief, err);
	opening->zip = NULL;
	if (rc < 0) {
		ckpt_document_unref(doc);
		return rc;
	}
	snprintf(record, sizeof(record), "%.140s/data.pkl",
		 ((struct ckpt_torch_zip *)doc->container)->archive_name);
	rc = ckpt_model_new(doc, &model, err);
	if (rc < 0)
		return ckpt_error_at(err, rc, NULL, record, CKPT_NO_OFFSET);
	rc = attach_storages(model, err);
	if (rc < 0)
		ckpt_close(model);
	else
		*out = model;
	return rc;
}

int ckpt_torch_zip_read(struct ckpt_source *source, struct ckpt_model **out, struct ckpt_error *err)
{
	struct ckpt_opening opening = { .source = source };

	return read_torch_zip(&opening, out, err);
}

static bool probe(const struct ckpt_opening *opening)
{
	return opening->len >= 4 && !memcmp(opening->head, "PK\x03\x04", 4);
}

static void describe_zip(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	const struct ckpt_torch_zip *tz = ckpt_torch_zip_of(model);
	const struct ckpt_zip_entry *pickle = ckpt_torch_zip_record(tz, "data.pkl");

	out->format = "torch zip";
	out->writer = tz->profile->writers;
	out->profile = tz->profile->since;
	out->archive_name = tz->archive_name;
	out->byteorder = tz->byteorder;
	out->record_count = tz->zip->count;
	out->alignment = pickle->data_off % tz->alignment ? 0 : tz->alignment;
	out->has_crc = tz->has_crc;
	out->compressed = tz->compressed;
	out->unreferenced = tz->unreferenced;
	out->foreign = tz->foreign;
	ckpt_zip_dead_nbytes(tz->zip, &out->dead_nbytes, &out->dead_on_disk, NULL); /* 0 if it cannot be read */
}

/* Tensors of dtypes that have no storage class, and numbers of more than a byte. */
static uint64_t count_not_swapped(const struct ckpt_model *model)
{
	uint64_t count = 0;

	for (uint32_t i = 0; ckpt_model_has_tensors(model) && i < model->tensor_count; i++) {
		const struct ckpt_tensor *t = &model->tensors[i];

		count += t->kind == CKPT_KIND_STRIDED && ckpt_byteswap_width(t->dtype) > 1 &&
			 !*ckpt_dtype_storage_class(t->dtype);
	}
	return count;
}

static int note_oddities(const struct ckpt_model *model, void (*note)(void *ctx, const char *text),
			 void *ctx, struct ckpt_error *err)
{
	uint64_t count =
		strcmp(ckpt_torch_zip_of(model)->byteorder, "big") ? 0 : count_not_swapped(model);
	char text[200];

	(void)err;
	if (!count)
		return 0;
	snprintf(text, sizeof(text),
		 "%" PRIu64
		 " big-endian tensor%s of dtypes that torch does not turn around: a little-endian "
		 "machine loads wrong numbers; 'ckpt convert' turns them",
		 count, count == 1 ? "" : "s");
	note(ctx, text);
	return 0;
}

const struct ckpt_format ckpt_format_torch_zip = {
	.name = "torch zip",
	.code = CKPT_FORMAT_TORCH_ZIP,
	.probe = probe,
	.read = read_torch_zip,
	.save = ckpt_torch_zip_save,
	.save_in_place = ckpt_torch_zip_save_in_place,
	.describe = describe_zip,
	.records = ckpt_torch_zip_records,
	.notes = note_oddities,
};
