/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives of several things (torch.package, torch.export) as one document: values of all
 * pickles get ids of one sequence, and storages keys of one name space. The format reads record
 * by record; ckpt_bundle_finish() then finds the record of each storage.
 *
 * What must stay true: members never move to another document and live as long as this one, as
 * their values point into their bytes; the key of a storage of member 3 is "#3/" and its key
 * there, which a pickle may also spell itself, so place_in_member() checks it like any input;
 * such an archive is never written.
 */
#include "format/bundle.h"

#include "base/grow.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MEMBER = '#', MOST_RECORD = 512, MOST_TEXT = 4096, SHOWN = 160 };

/* ---- records ---- */

static struct ckpt_zip_entry *find_record(const struct ckpt_zip *zip, const char *folder,
					  size_t folder_len, const char *record)
{
	char name[MOST_RECORD];
	int len = snprintf(name, sizeof(name), "%.*s%s%s", (int)folder_len, folder,
			   folder_len ? "/" : "", record);

	return len < 0 || (size_t)len >= sizeof(name) ? NULL
						      : ckpt_zip_find(zip, name, (size_t)len);
}

bool ckpt_bundle_has(const struct ckpt_zip *zip, const char *record)
{
	const struct ckpt_zip_entry *first = zip->entries;
	const char *slash;

	if (!zip->count)
		return false;
	slash = memchr(first->name, '/', first->name_len);
	return find_record(zip, first->name, slash ? (size_t)(slash - first->name) : 0, record);
}

struct ckpt_zip_entry *ckpt_bundle_record(const struct ckpt_bundle *bundle, const char *record)
{
	const char *folder = bundle->tz->archive_name;

	return find_record(bundle->tz->zip, folder, strlen(folder), record);
}

const char *ckpt_bundle_name(const struct ckpt_bundle *bundle, const struct ckpt_zip_entry *entry)
{
	size_t skip = strlen(bundle->tz->archive_name);

	return entry->name + skip + (skip > 0);
}

int ckpt_bundle_text(const struct ckpt_bundle *bundle, const char *record, char *out, size_t size,
		     struct ckpt_error *err)
{
	struct ckpt_zip_entry *entry = ckpt_bundle_record(bundle, record);
	uint8_t *bytes;
	int rc;

	out[0] = '\0';
	if (!entry)
		return 0;
	rc = ckpt_zip_read(bundle->tz->zip, entry, MOST_TEXT, &bytes, err);
	if (rc < 0)
		return rc;
	snprintf(out, size, "%.*s", (int)entry->usize, (const char *)bytes);
	out[strcspn(out, "\r\n")] = '\0';
	free(bytes);
	return 0;
}

static int check_folder(const struct ckpt_bundle *bundle, struct ckpt_error *err)
{
	const struct ckpt_zip *zip = bundle->tz->zip;
	const char *folder = bundle->tz->archive_name;
	size_t len = strlen(folder);
	char shown[SHOWN];

	for (uint32_t i = 0; len && i < zip->count; i++) {
		const struct ckpt_zip_entry *e = &zip->entries[i];

		if (e->name_len <= len || memcmp(e->name, folder, len) || e->name[len] != '/')
			return ckpt_error_because(
				err, ckpt_fail(err, CKPT_E_FORMAT,
					       "'%s' is outside of the folder '%.80s/': the archive was "
					       "repacked by another tool, and torch will not load it",
					       ckpt_escape(shown, sizeof(shown), e->name, e->name_len), folder),
				CKPT_REASON_REPACKED);
	}
	return 0;
}

/* ---- the document ---- */

static void free_bundle(void *container)
{
	struct ckpt_bundle *b = container;

	if (!b)
		return;
	for (uint32_t i = 0; i < b->member_count; i++)
		ckpt_member_clear(&b->members[i]);
	free(b->members);
	free(b->places);
	ckpt_maker_clear(&b->maker);
	ckpt_torch_zip_free(b->tz);
	free(b);
}

static int storage_bytes(struct ckpt_document *doc, const struct ckpt_storage *s,
			 struct ckpt_recipe *out, struct ckpt_error *err)
{
	const struct ckpt_bundle_place *place = s->record;

	(void)doc;
	return ckpt_torch_zip_entry_bytes(place->tz, place->entry, s->nbytes, out, err);
}

static struct ckpt_document *new_document(const struct ckpt_bundle_format *format,
					  struct ckpt_source *source)
{
	struct ckpt_document *doc =
		ckpt_document_new(source, format->format, sizeof(struct ckpt_bundle), free_bundle);
	struct ckpt_bundle *b = doc ? doc->container : NULL;

	if (!doc)
		return NULL;
	doc->storage_bytes = storage_bytes;
	/* no limit of its own: it grows with the pickles and texts that are read, which have one */
	doc->pickle.arena = ckpt_arena_new(UINT64_MAX >> 1);
	doc->pickle.next_id = 1;
	b->format = format;
	b->maker = (struct ckpt_maker){ .arena = doc->pickle.arena, .pickle = &doc->pickle };
	if (doc->pickle.arena)
		return doc;
	ckpt_document_unref(doc);
	return NULL;
}

int ckpt_bundle_open(const struct ckpt_bundle_format *format, struct ckpt_opening *opening,
		     struct ckpt_document **out, struct ckpt_error *err)
{
	struct ckpt_document *doc = new_document(format, opening->source);
	struct ckpt_bundle *b;
	int rc;

	*out = NULL;
	if (!doc)
		return ckpt_fail_nomem(err);
	b = doc->container;
	rc = ckpt_torch_zip_open_any(opening->source, opening->zip, &b->tz, err);
	opening->zip = NULL;
	if (rc == 0)
		rc = check_folder(b, err);
	if (rc == 0 && *b->tz->archive_name)
		rc = ckpt_torch_zip_read_marks(b->tz, err);
	if (rc == 0 && !strcmp(b->tz->byteorder, "big"))
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED, "is a big-endian %s, which is not read",
			       format->what);
	if (rc < 0)
		ckpt_document_unref(doc);
	else
		*out = doc;
	return rc;
}

/* ---- pickles and archives in it ---- */

static struct ckpt_member *add_member(struct ckpt_bundle *b)
{
	void *grown = ckpt_grow(b->members, b->member_count, &b->member_cap, sizeof(*b->members));

	if (!grown)
		return NULL;
	b->members = grown;
	b->members[b->member_count] = (struct ckpt_member){ 0 };
	return &b->members[b->member_count++];
}

/* Add the values of M, which was just read, to the document. */
static int adopt_values(struct ckpt_document *doc, struct ckpt_member *m, const char *prefix,
			const struct ckpt_value **root, struct ckpt_error *err)
{
	struct ckpt_bundle *b = doc->container;

	doc->pickle.next_id = m->pickle.next_id;
	doc->pickle_len += m->pickle.nbytes;
	if (doc->pickle.protocol < m->pickle.protocol)
		doc->pickle.protocol = m->pickle.protocol;
	*root = m->pickle.root;
	return ckpt_maker_adopt(&b->maker, &m->pickle, prefix, err);
}

int ckpt_bundle_pickle(struct ckpt_document *doc, struct ckpt_zip_entry *entry,
		       const struct ckpt_value **root, struct ckpt_error *err)
{
	struct ckpt_bundle *b = doc->container;
	struct ckpt_member *m = add_member(b);
	size_t len;
	int rc;

	if (!m)
		return ckpt_fail_nomem(err);
	rc = ckpt_torch_zip_read_pickle_of(b->tz, entry, doc->pickle.next_id, &m->bytes, &len,
					   &m->pickle, err);
	entry->used = true;
	return rc < 0 ? rc : adopt_values(doc, m, "", root, err);
}

static int open_slice(struct ckpt_bundle *b, struct ckpt_zip_entry *entry, struct ckpt_source **out,
		      struct ckpt_error *err)
{
	struct ckpt_recipe recipe;
	int rc = ckpt_zip_locate(b->tz->zip, entry, err);

	if (rc < 0)
		return rc;
	recipe = ckpt_zip_recipe(b->tz->zip, entry);
	if (recipe.kind != CKPT_RECIPE_EXTENT)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "is compressed, an archive inside of an archive; unpack it first");
	return ckpt_source_slice(b->tz->zip->source, recipe.off, recipe.len, out, err);
}

/* Put the record of the outer archive in front of the place inside the inner one. */
static int at_record(struct ckpt_error *err, int rc, const struct ckpt_zip_entry *entry)
{
	char shown[SHOWN], both[2 * SHOWN + 8];

	if (rc == 0 || !err)
		return rc;
	ckpt_escape(shown, sizeof(shown), entry->name, entry->name_len);
	snprintf(both, sizeof(both), "%s%s%s", shown, err->record[0] ? ": " : "", err->record);
	snprintf(err->record, sizeof(err->record), "%.*s", (int)sizeof(err->record) - 1, both);
	return rc;
}

int ckpt_bundle_archive(struct ckpt_document *doc, struct ckpt_zip_entry *entry,
			const struct ckpt_value **root, struct ckpt_error *err)
{
	struct ckpt_bundle *b = doc->container;
	struct ckpt_member *m = add_member(b);
	struct ckpt_source *slice = NULL;
	char prefix[16];
	int rc;

	if (!m)
		return ckpt_fail_nomem(err);
	snprintf(prefix, sizeof(prefix), "%c%" PRIu32 "/", KEY_MEMBER, b->member_count - 1);
	rc = open_slice(b, entry, &slice, err);
	if (rc == 0)
		rc = ckpt_member_read(m, slice, doc->pickle.next_id, err);
	ckpt_source_unref(slice);
	entry->used = true;
	return rc < 0 ? at_record(err, rc, entry) : adopt_values(doc, m, prefix, root, err);
}

/* ---- storages ---- */

static int place_in_member(struct ckpt_bundle *b, struct ckpt_storage *s,
			   struct ckpt_torch_zip **tz, struct ckpt_error *err)
{
	char *key;
	unsigned long number = strtoul(s->key + 1, &key, 10);

	/* made by ckpt_bundle_archive(), or by a pickle that has any key it likes */
	if (*key != '/' || number >= b->member_count || !b->members[number].tz)
		return ckpt_fail(err, CKPT_E_FORMAT, "a storage of no archive: '%.60s'", s->key);
	*tz = b->members[number].tz;
	return ckpt_torch_zip_attach(*tz, s, key + 1, err);
}

static int place_in_archive(struct ckpt_bundle *b, struct ckpt_storage *s, struct ckpt_error *err)
{
	const char *path = b->format->storage_path, *mark = strstr(path, "%s");
	char record[MOST_RECORD], shown[SHOWN];
	struct ckpt_zip_entry *entry;

	snprintf(record, sizeof(record), "%.*s%s%s", (int)(mark - path), path, s->key, mark + 2);
	entry = ckpt_bundle_record(b, record);
	if (entry)
		return ckpt_torch_zip_attach_entry(b->tz, s, entry, err);
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "the record '%s' is missing, which holds %" PRIu64 " bytes of tensors",
			 ckpt_escape(shown, sizeof(shown), record, strlen(record)), s->nbytes);
}

static int place_storages(struct ckpt_document *doc, struct ckpt_error *err)
{
	struct ckpt_bundle *b = doc->container;
	int rc = 0;

	b->places = calloc(doc->storage_count + (size_t)1, sizeof(*b->places));
	if (!b->places)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; rc == 0 && i < doc->storage_count; i++) {
		struct ckpt_storage *s = &doc->storages[i];
		struct ckpt_torch_zip *tz = b->tz;

		if (*s->key == KEY_MEMBER)
			rc = place_in_member(b, s, &tz, err);
		else
			rc = place_in_archive(b, s, err);
		b->places[i] = (struct ckpt_bundle_place){ tz, s->record };
		s->record = &b->places[i];
	}
	return rc;
}

int ckpt_bundle_finish(struct ckpt_document *doc, const struct ckpt_value *root,
		       struct ckpt_model **out, struct ckpt_error *err)
{
	int rc;

	doc->pickle.root = root;
	rc = ckpt_model_new(doc, out, err);
	if (rc == 0)
		rc = place_storages((*out)->doc, err);
	if (rc < 0) {
		ckpt_close(*out);
		*out = NULL;
	}
	return rc;
}

/* ---- for struct ckpt_format ---- */

void ckpt_bundle_describe(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	const struct ckpt_bundle *b = model->doc->container;

	out->archive_name = b->tz->archive_name;
	out->byteorder = b->tz->byteorder;
	out->record_count = b->tz->zip->count;
	out->compressed = b->tz->compressed;
	out->alignment = b->tz->alignment;
	out->has_crc = true;
	for (uint32_t i = 0; i < model->doc->storage_count; i++) {
		struct ckpt_bundle_place *place = model->doc->storages[i].record;

		out->has_crc &= model->doc->storages[i].has_crc;
		if (ckpt_zip_locate(place->tz->zip, place->entry, NULL) < 0 || !out->alignment ||
		    place->entry->data_off % out->alignment)
			out->alignment = 0;
	}
}

static bool is_of_kind(const char *name, const struct ckpt_bundle_kind *kind)
{
	size_t len = strlen(name), suffix = kind->suffix ? strlen(kind->suffix) : 0;

	if (kind->prefix && strncmp(name, kind->prefix, strlen(kind->prefix)))
		return false;
	return len >= suffix && (!suffix || !strcmp(name + len - suffix, kind->suffix));
}

int ckpt_bundle_records(const struct ckpt_model *model,
			int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx,
			struct ckpt_error *err)
{
	const struct ckpt_bundle *b = model->doc->container;
	int rc = 0;

	(void)err;
	for (uint32_t i = 0; rc >= 0 && i < b->tz->zip->count; i++) {
		const struct ckpt_zip_entry *e = &b->tz->zip->entries[i];
		struct ckpt_record record =
			ckpt_zip_describe(e, (size_t)(ckpt_bundle_name(b, e) - e->name));
		size_t row = 0;

		while (row < b->format->kind_count &&
		       !is_of_kind(record.name, &b->format->kinds[row]))
			row++;
		record.kind = CKPT_RECORD_OTHER;
		if (row < b->format->kind_count)
			record.kind = b->format->kinds[row].kind;
		if (record.kind == CKPT_RECORD_EXTRA && e->used)
			record.kind = CKPT_RECORD_PICKLE;
		rc = visit(ctx, &record);
	}
	return rc < 0 ? rc : 0;
}

static int refuse(const struct ckpt_model *model, struct ckpt_error *err)
{
	const struct ckpt_bundle *b = model->doc->container;

	return ckpt_fail(
		err, CKPT_E_UNSUPPORTED,
		"a %s is not written, only read: what is in it besides tensors would no longer fit; "
		"'ckpt convert' makes a torch.save file of its tensors, which can be edited",
		b->format->what);
}

int ckpt_bundle_save(const struct ckpt_model *model, const char *path,
		     const struct ckpt_save_options *options, struct ckpt_save_report *report,
		     struct ckpt_error *err)
{
	/* a part of it that an edit took out can be saved as a torch.save file */
	if (path && model->root != model->doc->pickle.root)
		return ckpt_torch_zip_save(model, path, options, report, err);
	return ckpt_error_at(err, refuse(model, err), ckpt_document_path(model->doc), NULL,
			     CKPT_NO_OFFSET);
}

int ckpt_bundle_save_in_place(const struct ckpt_model *model,
			      const struct ckpt_save_options *options,
			      struct ckpt_save_report *report, struct ckpt_error *err)
{
	return ckpt_bundle_save(model, NULL, options, report, err);
}
