/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A safetensors file as a checkpoint: an OrderedDict of tensors in the order of the header, each
 * with a storage of its own, whose key is the number of its tensor. Tensors that shared their
 * memory when they were saved, as the metadata tell, share a storage again.
 */
#include "format/safetensors.h"
#include "format/safetensors_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct ckpt_safetensors *ckpt_safetensors_of(const struct ckpt_model *model)
{
	return model->doc->format == &ckpt_format_safetensors ? model->doc->container : NULL;
}

static bool probe(const struct ckpt_opening *opening)
{
	return ckpt_safetensors_probe(opening->head, opening->len, opening->size);
}

/* ---- the document ---- */

static int storage_bytes(struct ckpt_document *doc, const struct ckpt_storage *s,
			 struct ckpt_recipe *out, struct ckpt_error *err)
{
	const struct ckpt_safetensors *st = doc->container;
	const struct ckpt_safetensors_tensor *t = s->record;

	(void)err;
	*out = (struct ckpt_recipe){ .kind = CKPT_RECIPE_EXTENT,
				     .src = doc->source,
				     .off = st->header.data_off + t->begin,
				     .len = t->end - t->begin };
	return 0;
}

static void free_safetensors(void *container)
{
	struct ckpt_safetensors *st = container;

	if (!st)
		return;
	ckpt_safetensors_header_clear(&st->header);
	free(st);
}

/* JSON_LEN: what the file says, not checked yet. */
static struct ckpt_document *new_document(struct ckpt_source *source, uint64_t json_len)
{
	struct ckpt_document *doc =
		ckpt_document_new(source, &ckpt_format_safetensors, sizeof(struct ckpt_safetensors),
				  free_safetensors);

	if (!doc)
		return NULL;
	if (json_len > CKPT_SAFETENSORS_MOST_JSON)
		json_len = 0;
	doc->storage_bytes = storage_bytes;
	doc->pickle_len = json_len; /* limits of memory are in proportion to it */
	doc->pickle.arena = ckpt_arena_new(ckpt_safetensors_budget(json_len));
	doc->pickle.next_id = 1;
	if (doc->pickle.arena)
		return doc;
	ckpt_document_unref(doc);
	return NULL;
}

/* ---- values ---- */

struct values {
	struct ckpt_maker maker;
	struct ckpt_safetensors *st;
	struct ckpt_value *root;
	const struct ckpt_value **storages; /* by tensor */
};

static bool add_tensors(struct values *v)
{
	char key[16];

	for (uint32_t i = 0; i < v->st->header.count; i++) {
		const struct ckpt_safetensors_tensor *t = &v->st->header.tensors[i];

		snprintf(key, sizeof(key), "%" PRIu32, i);
		if (!ckpt_maker_put(&v->maker, v->root,
				    ckpt_maker_text(&v->maker, t->name, t->name_len),
				    ckpt_safetensors_value(&v->maker, t, key, &v->storages[i])))
			return false;
	}
	return true;
}

static bool add_aliases(struct values *v)
{
	const struct ckpt_safetensors_header *h = &v->st->header;
	struct ckpt_strmap names = { 0 };
	bool fine = ckpt_strmap_reserve(&names, h->count), there;

	for (uint32_t i = 0; fine && i < h->count; i++)
		fine = ckpt_strmap_insert(&names, h->tensors[i].name, h->tensors[i].name_len, i,
					  &there);
	for (uint32_t i = 0; fine && i < h->metadata_count; i++) {
		const struct ckpt_safetensors_pair *p = &h->metadata[i];
		int64_t of = ckpt_safetensors_alias(p, &names);

		if (of < 0 || !v->storages[of])
			continue;
		v->st->alias_count++;
		fine = ckpt_maker_put(&v->maker, v->root,
				      ckpt_maker_text(&v->maker, p->key, p->key_len),
				      ckpt_safetensors_view(&v->maker, &h->tensors[of],
							    v->storages[of]));
	}
	ckpt_strmap_clear(&names);
	return fine;
}

static int make_values(struct ckpt_document *doc, struct ckpt_error *err)
{
	struct values v = { .maker = { .arena = doc->pickle.arena, .pickle = &doc->pickle },
			    .st = doc->container };
	bool fine;

	v.storages = calloc(v.st->header.count + (size_t)1, sizeof(*v.storages));
	v.root = ckpt_maker_ordered_dict(&v.maker);
	fine = v.storages && v.root && add_tensors(&v) &&
	       (!v.st->header.metadata_count || add_aliases(&v));
	doc->pickle.root = v.root;
	ckpt_maker_clear(&v.maker);
	free(v.storages);
	return fine ? 0 : ckpt_arena_fail(doc->pickle.arena, err);
}

static void place_storages(struct ckpt_document *doc)
{
	struct ckpt_safetensors *st = doc->container;

	for (uint32_t i = 0; i < doc->storage_count; i++) /* keys are the numbers of the tensors */
		doc->storages[i].record =
			&st->header.tensors[strtoul(doc->storages[i].key, NULL, 10)];
}

static int read_safetensors(struct ckpt_opening *opening, struct ckpt_model **out,
			    struct ckpt_error *err)
{
	uint64_t json_len = 0;
	struct ckpt_document *doc;
	int rc;

	*out = NULL;
	for (unsigned i = 0; i < CKPT_SAFETENSORS_BEFORE_JSON && i < opening->len; i++)
		json_len |= (uint64_t)opening->head[i] << 8 * i;
	doc = new_document(opening->source, json_len);
	if (!doc)
		return ckpt_fail_nomem(err);
	rc = ckpt_safetensors_header_read(opening->source, CKPT_SAFETENSORS_AS_IS, doc->pickle.arena,
					  &((struct ckpt_safetensors *)doc->container)->header,
					  err);
	if (rc == 0)
		rc = make_values(doc, err);
	if (rc < 0) {
		ckpt_document_unref(doc);
		return rc;
	}
	rc = ckpt_model_new(doc, out, err);
	if (rc == 0)
		place_storages((*out)->doc);
	return rc;
}

/* ---- for struct ckpt_format ---- */

static bool is_aligned(const struct ckpt_safetensors_header *h)
{
	for (uint32_t i = 0; i < h->count; i++) {
		uint32_t bits = ckpt_safetensors_dtype_bits(h->tensors[i].dtype);

		if (bits > 8 && (h->data_off + h->tensors[i].begin) % (bits / 8))
			return false;
	}
	return true;
}

static void describe_safetensors(const struct ckpt_model *model, struct ckpt_file_info *out)
{
	const struct ckpt_safetensors *st = ckpt_safetensors_of(model);

	out->format = "safetensors";
	out->writer = "safetensors";
	out->profile = "";
	out->archive_name = "";
	out->byteorder = "little";
	out->pickle_nbytes = 0;
	out->alignment = is_aligned(&st->header) ? 8 : 0;
}

static int metadata(const struct ckpt_model *model,
		    int (*visit)(void *ctx, const char *key, size_t key_len, const char *value,
				 size_t value_len),
		    void *ctx)
{
	const struct ckpt_safetensors_header *h = &ckpt_safetensors_of(model)->header;
	int rc = 0;

	for (uint32_t i = 0; rc >= 0 && i < h->metadata_count; i++)
		rc = visit(ctx, h->metadata[i].key, h->metadata[i].key_len, h->metadata[i].value,
			   h->metadata[i].value_len);
	return rc < 0 ? rc : 0;
}

static int note_oddities(const struct ckpt_model *model, void (*note)(void *ctx, const char *text),
			 void *ctx, struct ckpt_error *err)
{
	const struct ckpt_safetensors_header *h = &ckpt_safetensors_of(model)->header;
	uint32_t foreign = 0;
	char text[160];

	(void)err;
	for (uint32_t i = 0; i < h->count; i++)
		foreign += ckpt_safetensors_dtype_torch(h->tensors[i].dtype) == CKPT_DTYPE_UNKNOWN;
	if (!foreign)
		return 0;
	snprintf(text, sizeof(text),
		 "%" PRIu32 " tensor%s of dtypes that torch does not have, shown as missing",
		 foreign, foreign == 1 ? "" : "s");
	note(ctx, text);
	return 0;
}

const struct ckpt_format ckpt_format_safetensors = {
	.name = "safetensors",
	.code = CKPT_FORMAT_SAFETENSORS,
	.probe = probe,
	.read = read_safetensors,
	.save = ckpt_safetensors_save,
	.save_in_place = ckpt_safetensors_save_in_place,
	.describe = describe_safetensors,
	.metadata = metadata,
	.notes = note_oddities,
};
