/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a DCP directory as a model: reads the index, looks which data files are there, makes a
 * tensor for each entry that is one, and decodes the items of all others.
 *
 * The model's pickle is made here and was never in a file: a tensor's storage has the key "e" and
 * the number of its entry, a storage inside of an item "i", the item's number and its own key;
 * place_storages() reads them back. Entries whose chunks are the same bytes are one tensor under
 * two names. Opening reads no tensor: missing or torn data files are only counted, and an
 * unreadable value becomes a placeholder that can be shown and not written.
 */
#include "set/dcp/dcp.h"

#include "base/paths.h"
#include "base/text.h"
#include "model/maker.h"
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct dcp_opener {
	struct ckpt_dcp *dcp;
	struct ckpt_document *doc;
	struct ckpt_strmap ties; /* where the chunks of a tensor are, to the first entry there */
	struct ckpt_maker maker;
	/* malloc: by entry, the persistent id of its storage */
	const struct ckpt_value **storage_ids;
	struct ckpt_buf key;
	struct ckpt_error *err;
};

/* ---- tensors ---- */

static const struct ckpt_value *make_storage_id(struct dcp_opener *o, uint32_t entry)
{
	const struct ckpt_dcp_entry *e = &o->dcp->index.entries[entry];
	char key[16];

	snprintf(key, sizeof(key), "e%" PRIu32, entry);
	return ckpt_maker_storage(&o->maker, e->dtype, key, NULL,
				  ckpt_shape_count(e->shape, e->ndim));
}

/* As torch.empty() makes it. */
static const struct ckpt_value *make_plain_tensor(struct dcp_opener *o, uint32_t entry)
{
	const struct ckpt_dcp_entry *e = &o->dcp->index.entries[entry];
	struct ckpt_maker_view view = { .dtype = e->dtype, .ndim = e->ndim, .shape = e->shape };

	return ckpt_maker_tensor(&o->maker, o->storage_ids[entry], &view);
}

/* Two entries of one shape whose chunks are the same bytes are one tensor under two names. */
static int find_tie(struct dcp_opener *o, uint32_t entry, uint32_t *first)
{
	const struct ckpt_dcp_index *x = &o->dcp->index;
	const struct ckpt_dcp_entry *e = &x->entries[entry];
	char *copy;
	uint64_t *slot;
	bool there;

	*first = entry;
	o->key.len = 0;
	ckpt_buf_add_u32(&o->key, e->dtype);
	for (uint32_t i = 0; i < e->ndim; i++)
		ckpt_buf_add_u64(&o->key, e->shape[i]);
	for (uint64_t i = e->first_chunk; i < e->first_chunk + e->chunk_count; i++) {
		const struct ckpt_dcp_chunk *c = &x->chunks[i];

		ckpt_buf_add(&o->key, c->offset, e->ndim * sizeof(*c->offset));
		ckpt_buf_add_u32(&o->key, c->file);
		ckpt_buf_add_u64(&o->key, c->off);
		ckpt_buf_add_u64(&o->key, c->len);
		if (c->file == CKPT_DCP_NO_FILE)
			return 0;
	}
	if (!e->chunk_count)
		return 0;
	slot = ckpt_strmap_find(&o->ties, (char *)o->key.data, o->key.len);
	if (slot) {
		*first = (uint32_t)*slot;
		return 0;
	}
	copy = o->key.bad ? NULL : ckpt_arena_copy(o->dcp->arena, o->key.data, o->key.len);
	if (!copy || !ckpt_strmap_insert(&o->ties, copy, o->key.len, entry, &there))
		return ckpt_fail_nomem(o->err);
	return 0;
}

static int make_tensor(struct dcp_opener *o, uint32_t entry)
{
	uint32_t first;
	int rc = find_tie(o, entry, &first);

	if (rc < 0)
		return rc;
	o->storage_ids[entry] = first == entry ? make_storage_id(o, entry) : o->storage_ids[first];
	if (o->storage_ids[entry])
		o->dcp->values[entry] = make_plain_tensor(o, entry);
	return o->dcp->values[entry] ? 0 : ckpt_fail_nomem(o->err);
}

/* ---- other values ---- */

/* Stands for a value that could not be read; the text of ERR says why. */
static int make_missing(struct dcp_opener *o, uint32_t entry, const struct ckpt_error *why)
{
	if (!o->dcp->unreadable_items++)
		snprintf(o->dcp->first_unreadable, sizeof(o->dcp->first_unreadable), "%s",
			 why->text);
	o->dcp->values[entry] = ckpt_maker_missing(&o->maker, why->text);
	return o->dcp->values[entry] ? 0 : ckpt_fail_nomem(o->err);
}

/* None, True and so on have no identity: that of their entry lets an edit know it again. */
static const struct ckpt_value *with_identity(struct dcp_opener *o, const struct ckpt_value *v)
{
	struct ckpt_value *own;
	uint32_t id;

	if (v->id)
		return v;
	own = ckpt_maker_node(&o->maker, v->kind);
	if (!own)
		return NULL;
	id = own->id;
	*own = *v;
	own->id = id;
	return own;
}

static int make_item(struct dcp_opener *o, uint32_t entry)
{
	struct ckpt_dcp_item *item = &o->dcp->items[o->dcp->item_count];
	struct ckpt_error why = CKPT_ERROR_INIT;
	char prefix[16];
	int rc;

	item->entry = entry;
	rc = ckpt_dcp_read_item(o->dcp, item, &o->doc->pickle.next_id, &why);
	o->dcp->item_count++;
	if (rc == CKPT_E_NOMEM)
		return ckpt_fail_nomem(o->err);
	if (rc < 0) {
		ckpt_dcp_item_forget_file(item);
		return make_missing(o, entry, &why);
	}
	o->doc->pickle_len += item->pickle.nbytes;
	o->dcp->values[entry] = with_identity(o, item->root);
	if (!o->dcp->values[entry])
		return ckpt_fail_nomem(o->err);
	/* storages of different items may have the same key */
	snprintf(prefix, sizeof(prefix), "i%" PRIu32 "/", o->dcp->item_count - 1);
	return ckpt_maker_adopt(&o->maker, &item->pickle, prefix, o->err);
}

/* ---- files ---- */

static int stat_file(struct ckpt_dcp *dcp, struct ckpt_dcp_file *file, struct ckpt_error *err)
{
	struct stat st;
	char *path;

	if (ckpt_path_join(dcp->path, file->name, &path, err) < 0)
		return CKPT_E_NOMEM;
	file->path = ckpt_arena_copy(dcp->arena, path, strlen(path));
	free(path);
	if (!file->path)
		return ckpt_arena_fail(dcp->arena, err);
	file->missing = stat(file->path, &st) < 0;
	if (file->missing) {
		dcp->missing_files++;
		return 0;
	}
	file->size = (uint64_t)st.st_size;
	file->disk_bytes = (uint64_t)st.st_blocks * 512;
	file->mtime = st.st_mtim;
	file->mode = ckpt_mode_for_new(&st);
	file->dev = st.st_dev;
	file->ino = st.st_ino;
	return 0;
}

static int stat_files(struct ckpt_dcp *dcp, struct ckpt_error *err)
{
	uint32_t count = dcp->index.file_count;
	int rc = 0;

	dcp->files = calloc(count + (size_t)1, sizeof(*dcp->files));
	if (!dcp->files)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		char *name = ckpt_arena_copy(dcp->arena, dcp->index.files[i], strlen(dcp->index.files[i]));

		if (!name)
			return ckpt_arena_fail(dcp->arena, err);
		ckpt_text_to_file_name(name);
		dcp->files[i].name = name;
		rc = stat_file(dcp, &dcp->files[i], err);
	}
	return rc;
}

static int read_index(struct ckpt_document *doc, struct ckpt_error *err)
{
	struct ckpt_dcp *dcp = doc->container;

	doc->pickle_len = (size_t)ckpt_source_size(doc->source);
	return ckpt_dcp_index_load(doc->source, &doc->pickle_bytes, &doc->pickle, &dcp->index, err);
}

/* ---- the document ---- */

static int storage_bytes(struct ckpt_document *doc, const struct ckpt_storage *s,
			 struct ckpt_recipe *out, struct ckpt_error *err)
{
	static const uint64_t zeros[CKPT_MOST_DIMS];
	struct ckpt_dcp *dcp = doc->container;
	const struct ckpt_dcp_place *place = s->record;
	const struct ckpt_dcp_entry *e;
	struct ckpt_dcp_item *item;

	if (place->record) {
		item = &dcp->items[place->item];
		return ckpt_torch_zip_entry_bytes(item->tz, place->record, s->nbytes, out, err);
	}
	e = &dcp->index.entries[place->entry];
	return ckpt_dcp_box_bytes(dcp, place->entry, zeros, e->shape, out, err);
}

static int each_file(const struct ckpt_document *doc, ckpt_model_visit_file *visit, void *ctx)
{
	const struct ckpt_dcp *dcp = doc->container;
	int rc = ckpt_model_visit_source(doc->source, NULL, visit, ctx);

	for (uint32_t i = 0; rc == 0 && i < dcp->index.file_count; i++) {
		const struct ckpt_dcp_file *f = &dcp->files[i];
		struct ckpt_model_file file = { .path = f->path,
						.source = f->source,
						.size = f->size,
						.mode = f->missing ? 0777 : f->mode,
						.disk_bytes = f->disk_bytes,
						.has_identity = !f->missing,
						.dev = f->dev,
						.ino = f->ino };

		rc = visit(ctx, &file);
	}
	return rc;
}

/* What was opened already keeps its own: nothing was, but to be listed. */
static void forget_checksums(struct ckpt_document *doc)
{
	struct ckpt_dcp *dcp = doc->container;

	pthread_mutex_lock(&dcp->lock);
	dcp->ignores_checksums = true;
	for (uint32_t i = 0; i < dcp->index.entry_count; i++)
		for (uint64_t k = 0; dcp->blocks[i] && k < dcp->index.entries[i].chunk_count; k++)
			ckpt_recipe_forget_crc((struct ckpt_recipe *)&dcp->blocks[i][k].bytes);
	pthread_mutex_unlock(&dcp->lock);
}

static void free_dcp(void *container)
{
	struct ckpt_dcp *dcp = container;

	if (!dcp)
		return;
	for (uint32_t i = 0; i < dcp->item_count; i++) {
		ckpt_dcp_item_forget_file(&dcp->items[i]);
		ckpt_pickle_clear(&dcp->items[i].pickle);
		free(dcp->items[i].pickle_bytes);
	}
	for (uint32_t i = 0; dcp->files && i < dcp->index.file_count; i++) {
		ckpt_source_unref(dcp->files[i].source);
		ckpt_safetensors_header_clear(&dcp->files[i].header);
		ckpt_strmap_clear(&dcp->files[i].names);
	}
	for (uint32_t i = 0; i < dcp->unpacked_count; i++)
		ckpt_source_unref(dcp->unpacked[i]);
	free(dcp->unpacked);
	free(dcp->items);
	free(dcp->files);
	free(dcp->values);
	free(dcp->blocks);
	free(dcp->finish);
	free(dcp->places);
	ckpt_dcp_index_clear(&dcp->index);
	ckpt_arena_free(dcp->arena);
	pthread_mutex_destroy(&dcp->lock);
	free(dcp->path);
	free(dcp);
}

static int make_values(struct dcp_opener *o)
{
	const struct ckpt_dcp_index *x = &o->dcp->index;
	size_t room = x->entry_count + (size_t)1;
	int rc = 0;

	o->dcp->values = calloc(room, sizeof(struct ckpt_value *));
	o->dcp->blocks = calloc(room, sizeof(struct ckpt_tensor_block *));
	o->dcp->items = calloc(room, sizeof(*o->dcp->items));
	o->dcp->finish = calloc(room, sizeof(*o->dcp->finish));
	o->storage_ids = calloc(room, sizeof(struct ckpt_value *));
	if (!o->dcp->values || !o->dcp->blocks || !o->dcp->items || !o->dcp->finish ||
	    !o->storage_ids)
		return ckpt_fail_nomem(o->err);
	for (uint32_t i = 0; rc == 0 && i < x->entry_count; i++)
		rc = x->entries[i].is_tensor ? make_tensor(o, i) : make_item(o, i);
	if (rc == 0)
		rc = ckpt_dcp_nest(o->dcp, &o->doc->pickle.next_id, &o->doc->pickle.root, o->err);
	return rc;
}

/* The record of a storage inside of an item, whose key has the item's number in front: "i3/0". */
static int place_in_item(struct ckpt_dcp *dcp, struct ckpt_storage *s, struct ckpt_dcp_place *place,
			 struct ckpt_error *err)
{
	char *key;
	unsigned long number = strtoul(s->key + 1, &key, 10);
	struct ckpt_dcp_item *item;
	int rc;

	if (*s->key != 'i' || *key != '/' || number >= dcp->item_count)
		return ckpt_fail(err, CKPT_E_FORMAT, "a storage of no item: '%.60s'", s->key);
	item = &dcp->items[number];
	place->entry = UINT32_MAX;
	place->item = (uint32_t)number;
	rc = ckpt_torch_zip_attach(item->tz, s, key + 1, err);
	place->record = s->record;
	return ckpt_error_at(err, rc, ckpt_source_path(item->source), NULL, CKPT_NO_OFFSET);
}

static int place_storages(struct dcp_opener *o, struct ckpt_model *model)
{
	struct ckpt_document *doc = model->doc;
	struct ckpt_dcp *dcp = o->dcp;
	int rc = 0;

	dcp->places = calloc(doc->storage_count + (size_t)1, sizeof(*dcp->places));
	if (!dcp->places)
		return ckpt_fail_nomem(o->err);
	for (uint32_t i = 0; rc == 0 && i < doc->storage_count; i++) {
		struct ckpt_storage *s = &doc->storages[i];

		if (*s->key == 'e')
			dcp->places[i].entry = (uint32_t)strtoul(s->key + 1, NULL, 10);
		else
			rc = place_in_item(dcp, s, &dcp->places[i], o->err);
		s->record = &dcp->places[i];
	}
	return rc;
}

static int read_directory(struct dcp_opener *o, struct ckpt_model **out)
{
	int rc = read_index(o->doc, o->err);

	if (rc == 0)
		rc = stat_files(o->dcp, o->err);
	if (rc == 0)
		rc = make_values(o);
	if (rc < 0) {
		ckpt_document_unref(o->doc);
		return rc;
	}
	rc = ckpt_model_new(o->doc, out, o->err);
	if (rc == 0)
		rc = place_storages(o, *out);
	if (rc < 0) {
		ckpt_close(*out);
		*out = NULL;
	}
	return rc;
}

static struct ckpt_document *new_document(const char *path, struct ckpt_source *index)
{
	struct ckpt_document *doc =
		ckpt_document_new(index, &ckpt_format_dcp, sizeof(struct ckpt_dcp), free_dcp);
	struct ckpt_dcp *dcp;

	if (!doc)
		return NULL;
	dcp = doc->container;
	pthread_mutex_init(&dcp->lock, NULL);
	dcp->path = strdup(path);
	dcp->arena =
		ckpt_arena_new(UINT64_MAX >> 1); /* in proportion to the index, which is limited */
	doc->storage_bytes = storage_bytes;
	doc->each_file = each_file;
	doc->forget_checksums = forget_checksums;
	doc->path = dcp->path;
	if (!dcp->path || !dcp->arena) {
		ckpt_document_unref(doc);
		return NULL;
	}
	return doc;
}

int ckpt_dcp_open_index(const char *path, struct ckpt_source *index, struct ckpt_model **out,
			struct ckpt_error *err)
{
	struct dcp_opener o = { .doc = new_document(path, index), .err = err };
	int rc;

	*out = NULL;
	if (!o.doc)
		return ckpt_fail_nomem(err);
	o.dcp = o.doc->container;
	o.maker = (struct ckpt_maker){ .arena = o.dcp->arena, .pickle = &o.doc->pickle };
	rc = read_directory(&o, out);
	ckpt_strmap_clear(&o.ties);
	ckpt_maker_clear(&o.maker);
	ckpt_buf_clear(&o.key);
	free(o.storage_ids);
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}
