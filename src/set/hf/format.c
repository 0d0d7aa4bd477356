/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shard set as a format: what 'info' says of it, what its files say in their metadata, and that it cannot be
 * edited in place.
 */
#include "set/hf/hf.h"

#include "base/text.h"
#include "format/safetensors.h"
#include "set/hf/out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 120, NOTE = 700 };

static void describe(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	const struct ckpt_hf *hf = ckpt_hf_of(model);
	struct ckpt_file_info first = CKPT_FILE_INFO_INIT;

	hf->shards[0]->doc->format->describe(hf->shards[0], &first);
	if (hf->is_sharded)
		out->format_code = CKPT_FORMAT_DCP_SAFETENSORS;
	out->format = hf->is_sharded ? "DCP safetensors shards" : "Hugging Face shard set";
	out->writer = hf->is_sharded ? "torch 2.8 or later" : first.writer;
	out->profile = first.profile;
	out->archive_name = "";
	out->byteorder = first.byteorder;
	out->alignment = first.alignment;
	out->has_crc = first.has_crc;
	ckpt_model_disk_bytes(model, &out->file_nbytes);
	out->record_count = model->doc->storage_count;
	out->pickle_nbytes = hf->index_name ? ckpt_source_size(model->doc->source) : 0;
	out->file_count = hf->index.file_count;
}

/* ---- notes ---- */

static void note_unnamed(const struct ckpt_hf *hf, void (*note)(void *ctx, const char *text),
			 void *ctx)
{
	char text[NOTE];

	if (!hf->unnamed)
		return;
	snprintf(text, sizeof(text),
		 "%" PRIu64 " tensor%s in the files, which the index does not name: '%s'%s",
		 hf->unnamed, hf->unnamed == 1 ? " is" : "s are", hf->first_unnamed,
		 hf->unnamed == 1 ? "" : " ...");
	note(ctx, text);
}

/* Writers count storages, or tensors; both are right where none is shared. */
static void note_total(const struct ckpt_hf *hf, void (*note)(void *ctx, const char *text),
		       void *ctx)
{
	char text[NOTE];

	if (!hf->index.has_total || hf->index.total_size == (double)hf->storage_nbytes ||
	    hf->index.total_size == (double)hf->tensor_nbytes)
		return;
	snprintf(text, sizeof(text),
		 "the index has total_size %.0f, and the files have %" PRIu64 " bytes of tensors",
		 hf->index.total_size, hf->tensor_nbytes);
	note(ctx, text);
}

/* Other indexes and whole models: of several, one is taken. */
static int note_others(const struct ckpt_hf *hf, void (*note)(void *ctx, const char *text),
		       void *ctx, struct ckpt_error *err)
{
	struct ckpt_listing l;
	char text[NOTE], shown[SHOWN];
	int rc = ckpt_listing_read(hf->path, &l, err);

	for (size_t i = 0; rc == 0 && i < l.count; i++) {
		const char *name = l.items[i].name;

		if (l.items[i].is_folder || !ckpt_hf_is_model_name(name) ||
		    (hf->index_name && !strcmp(name, hf->index_name)))
			continue;
		snprintf(text, sizeof(text), "beside it is '%s', which was not read",
			 ckpt_escape(shown, sizeof(shown), name, strlen(name)));
		note(ctx, text);
	}
	if (rc == 0)
		ckpt_listing_clear(&l);
	return rc;
}

int ckpt_hf_check_directory(const struct ckpt_model *model,
			    void (*note)(void *ctx, const char *text), void *ctx,
			    struct ckpt_error *err)
{
	const struct ckpt_hf *hf = ckpt_hf_of(model);

	if (hf->is_sharded)
		note(ctx, "no file says how large a tensor is: it is taken to end where the last "
			  "part ends, and a last one that is missing does not show");
	else if (!hf->index_name)
		note(ctx, "has no index, which transformers needs; which tensor is where the files "
			  "say themselves");
	note_unnamed(hf, note, ctx);
	note_total(hf, note, ctx);
	return note_others(hf, note, ctx, err);
}

/* ---- writing ---- */

static int save_in_place(const struct ckpt_model *model, const struct ckpt_save_options *options,
			 struct ckpt_save_report *report, struct ckpt_error *err)
{
	(void)options;
	(void)report;
	return ckpt_error_at(err,
			     ckpt_fail(err, CKPT_E_UNSUPPORTED,
				       "is made of several files, none of which could take its "
				       "place: name an output"),
			     ckpt_hf_of(model)->path, NULL, CKPT_NO_OFFSET);
}

static int parts_metadata(const struct ckpt_model *model,
			  int (*visit)(void *ctx, const char *key, size_t key_len, const char *value,
				       size_t value_len),
			  void *ctx)
{
	const struct ckpt_hf *hf = ckpt_hf_of(model);
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < hf->index.file_count; i++) {
		const struct ckpt_format *format = hf->shards[i] ? hf->shards[i]->doc->format : NULL;

		rc = format && format->metadata ? format->metadata(hf->shards[i], visit, ctx) : 0;
	}
	return rc;
}

/* Pairs of the first file, by key, and in how many files each was found. */
struct common_pairs {
	const struct ckpt_safetensors_pair *pairs;
	uint32_t *found;
	struct ckpt_strmap by_key;
	uint32_t files;
};

static void find_common(struct common_pairs *c, const struct ckpt_safetensors_header *h)
{
	for (uint32_t i = 0; i < h->metadata_count; i++) {
		const struct ckpt_safetensors_pair *p = &h->metadata[i];
		const uint64_t *slot = ckpt_strmap_find(&c->by_key, p->key, p->key_len);

		if (slot && c->found[*slot] == c->files && c->pairs[*slot].value_len == p->value_len &&
		    !memcmp(c->pairs[*slot].value, p->value, p->value_len))
			c->found[*slot]++;
	}
	c->files++;
}

/* One that names a tensor may say that it has another name, which is told anew (safetensors_save.c). */
static int common_metadata(const struct ckpt_model *model,
			   int (*visit)(void *ctx, const char *key, size_t key_len, const char *value,
					size_t value_len),
			   void *ctx)
{
	const struct ckpt_hf *hf = ckpt_hf_of(model);
	const struct ckpt_safetensors *first = hf->index.file_count && hf->shards[0] ? ckpt_safetensors_of(hf->shards[0]) : NULL;
	struct common_pairs c = { .pairs = first ? first->header.metadata : NULL };
	int rc = 0;
	bool there;

	if (!first || !first->header.metadata_count || hf->is_sharded)
		return 0;
	c.found = calloc(first->header.metadata_count, sizeof(*c.found));
	if (!c.found)
		rc = CKPT_E_NOMEM;
	for (uint32_t i = 0; rc == 0 && i < first->header.metadata_count; i++)
		if (!ckpt_strmap_insert(&c.by_key, c.pairs[i].key, c.pairs[i].key_len, i, &there))
			rc = CKPT_E_NOMEM;
	for (uint32_t i = 0; rc == 0 && i < hf->index.file_count; i++) {
		const struct ckpt_safetensors *st = hf->shards[i] ? ckpt_safetensors_of(hf->shards[i]) : NULL;

		if (st)
			find_common(&c, &st->header);
	}
	for (uint32_t i = 0; rc == 0 && i < first->header.metadata_count; i++) {
		const struct ckpt_safetensors_pair *p = &c.pairs[i];

		if (c.found[i] == c.files && !ckpt_hf_index_find(&hf->index, p->value, p->value_len))
			rc = visit(ctx, p->key, p->key_len, p->value, p->value_len);
	}
	ckpt_strmap_clear(&c.by_key);
	free(c.found);
	return rc;
}

const struct ckpt_format ckpt_format_hf = {
	.parts_metadata = parts_metadata,
	.common_metadata = common_metadata,
	.name = "Hugging Face shard set",
	.code = CKPT_FORMAT_HUGGING_FACE,
	.notes = ckpt_hf_check_directory,
	.save = ckpt_hf_save,
	.save_in_place = save_in_place,
	.describe = describe,
};
