/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a shard set as one model: finds the files, opens each as a checkpoint of its own, and has
 * their tensors put into one state dict (values.c), or their parts joined (sharded.c).
 *
 * The shards stay open as models of their own: bytes come from them, and so do their checksums. A
 * storage of the document has a place (`places`), by the same number, that says which storage of
 * which shard it is; ckpt_model_new() registers storages in the order in which the places were
 * made.
 */
#include "set/hf/hf.h"

#include "base/c_locale.h"
#include "base/paths.h"
#include "base/text.h"
#include "set/hf/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_hf(void *container)
{
	struct ckpt_hf *hf = container;

	for (uint32_t i = 0; hf && hf->shards && i < hf->index.file_count; i++)
		ckpt_close(hf->shards[i]);
	if (hf) {
		free(hf->shards);
		free(hf->places);
		free(hf->index_name);
		free(hf->path);
		ckpt_hf_index_clear(&hf->index);
	}
	free(hf);
}

/* ---- the document ---- */

static int storage_bytes(struct ckpt_document *doc, const struct ckpt_storage *s,
			 struct ckpt_recipe *out, struct ckpt_error *err)
{
	const struct ckpt_hf *hf = doc->container;
	const struct ckpt_hf_place *place = s->record;
	const struct ckpt_model *shard = hf->shards[place->shard];

	if (place->made) {
		*out = *place->made;
		return 0;
	}
	return ckpt_model_storage_bytes(shard, &shard->storages[place->storage], out, err);
}

static int each_file(const struct ckpt_document *doc, ckpt_model_visit_file *visit, void *ctx)
{
	const struct ckpt_hf *hf = doc->container;
	/* without an index the source is one of the shards */
	int rc = hf->index_name ? ckpt_model_visit_source(doc->source, NULL, visit, ctx) : 0;

	for (uint32_t i = 0; rc == 0 && i < hf->index.file_count; i++)
		rc = ckpt_model_each_file(hf->shards[i], visit, ctx);
	return rc;
}

static int fill_document(struct ckpt_document *doc, const char *path, const char *index_name,
			 struct ckpt_error *err)
{
	struct ckpt_hf *hf = doc->container;

	doc->storage_bytes = storage_bytes;
	doc->each_file = each_file;
	doc->path = hf->path = strdup(path);
	if (index_name)
		hf->index_name = strdup(index_name);
	/* in proportion to what the files hold, which are limited */
	doc->pickle.arena = ckpt_arena_new(UINT64_MAX >> 1);
	doc->pickle.next_id = 1;
	if (!hf->path || (index_name && !hf->index_name) || !doc->pickle.arena)
		return ckpt_fail_nomem(err);
	return 0;
}

/* ---- which files ---- */

static int read_index(struct ckpt_document *doc, struct ckpt_error *err)
{
	struct ckpt_hf *hf = doc->container;

	return ckpt_error_at(err, ckpt_hf_index_read(doc->source, &hf->index, err),
			     ckpt_source_path(doc->source), NULL, CKPT_NO_OFFSET);
}

/* Those that have names like the one that was found. */
static int list_numbered(struct ckpt_hf *hf, const struct ckpt_listing *l, const char *numbered,
			 struct ckpt_error *err)
{
	struct ckpt_hf_name like, name;
	int rc = 0;

	ckpt_hf_name_parse(numbered, &like);
	for (size_t i = 0; rc == 0 && i < l->count; i++)
		if (ckpt_hf_name_parse(l->items[i].name, &name) &&
		    ckpt_hf_name_is_like(numbered, &like, l->items[i].name, &name))
			rc = ckpt_hf_index_add_file(&hf->index, l->items[i].name, err);
	return rc;
}

/* All of them: which rank and which file of it is in their names, and says nothing. */
static int list_sharded(struct ckpt_hf *hf, const struct ckpt_listing *l, struct ckpt_error *err)
{
	int rc = 0;

	hf->is_sharded = true;
	for (size_t i = 0; rc == 0 && i < l->count; i++)
		if (!l->items[i].is_folder &&
		    ckpt_glob_matches("*.safetensors", l->items[i].name, 0))
			rc = ckpt_hf_index_add_file(&hf->index, l->items[i].name, err);
	return rc;
}

static int list_files(struct ckpt_document *doc, const struct ckpt_listing *l,
		      const struct ckpt_hf_found *found, struct ckpt_error *err)
{
	struct ckpt_hf *hf = doc->container;
	int rc;

	if (found->sharded)
		return list_sharded(hf, l, err);
	rc = found->index ? read_index(doc, err) : list_numbered(hf, l, found->numbered, err);
	if (rc == 0)
		rc = ckpt_hf_check_files(hf, err);
	return rc == 0 ? ckpt_hf_check_numbers(&hf->index, err) : rc;
}

/* ---- the files ---- */

static int open_file(const char *folder, const char *name, struct ckpt_model **out,
		     struct ckpt_error *err)
{
	struct ckpt_source *source;
	char *path;
	int rc;

	if (ckpt_path_join(folder, name, &path, err) < 0)
		return CKPT_E_NOMEM;
	rc = ckpt_source_open(path, &source, err);
	if (rc == 0) {
		rc = ckpt_format_open(source, out, err);
		ckpt_source_unref(source);
	}
	rc = ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
	free(path);
	return rc;
}

static int open_shards(struct ckpt_document *doc, struct ckpt_error *err)
{
	struct ckpt_hf *hf = doc->container;
	int rc = 0;

	hf->shards = calloc(hf->index.file_count + (size_t)1, sizeof(*hf->shards));
	if (!hf->shards)
		return ckpt_fail_nomem(err);
	for (uint32_t i = 0; rc == 0 && i < hf->index.file_count; i++) {
		rc = open_file(hf->path, hf->index.files[i].name, &hf->shards[i], err);
		if (rc == 0)
			doc->pickle_len += hf->shards[i]->doc->pickle_len;
	}
	return rc;
}

/* Storages are in the order in which they were made. */
static void place_storages(struct ckpt_document *doc)
{
	struct ckpt_hf *hf = doc->container;

	for (uint32_t i = 0; i < doc->storage_count; i++) {
		struct ckpt_hf_place *place = &hf->places[i];
		const struct ckpt_storage *s;

		doc->storages[i].record = place;
		if (place->made)
			continue;
		s = &hf->shards[place->shard]->storages[place->storage];
		doc->storages[i].has_crc = s->has_crc;
		doc->storages[i].crc32 = s->crc32;
	}
}

/* Takes DOC, also on failure. */
static int read_set(struct ckpt_document *doc, const struct ckpt_listing *l,
		    const struct ckpt_hf_found *found, struct ckpt_model **out,
		    struct ckpt_error *err)
{
	struct ckpt_hf *hf = doc->container;
	int rc = list_files(doc, l, found, err);

	if (rc == 0)
		rc = open_shards(doc, err);
	if (rc == 0)
		rc = hf->is_sharded ? ckpt_hf_join_values(doc, err) : ckpt_hf_make_values(doc, err);
	if (rc < 0) {
		ckpt_document_unref(doc);
		return rc;
	}
	doc->pickle_len += (size_t)ckpt_source_size(doc->source);
	rc = ckpt_model_new(doc, out, err);
	if (rc == 0)
		place_storages((*out)->doc);
	return rc;
}

static int open_set(const char *path, const struct ckpt_listing *l,
		    const struct ckpt_hf_found *found, struct ckpt_model **out,
		    struct ckpt_error *err)
{
	const char *name = found->index	    ? found->index
			   : found->sharded ? found->sharded
					    : found->numbered;
	struct ckpt_source *source;
	struct ckpt_document *doc;
	char *file;
	int rc;

	if (ckpt_path_join(path, name, &file, err) < 0)
		return CKPT_E_NOMEM;
	rc = ckpt_source_open(file, &source, err);
	free(file);
	if (rc < 0)
		return rc;
	doc = ckpt_document_new(source, &ckpt_format_hf, sizeof(struct ckpt_hf), free_hf);
	ckpt_source_unref(source);
	rc = doc ? fill_document(doc, path, found->index, err) : ckpt_fail_nomem(err);
	if (rc == 0)
		return read_set(doc, l, found, out, err);
	ckpt_document_unref(doc);
	return rc;
}

int ckpt_hf_open(const char *path, const struct ckpt_listing *l, const struct ckpt_hf_found *found,
		 struct ckpt_model **out, struct ckpt_error *err)
{
	*out = NULL;
	if (found->single) /* a directory around one file */
		return open_file(path, found->single, out, err);
	return open_set(path, l, found, out, err);
}
